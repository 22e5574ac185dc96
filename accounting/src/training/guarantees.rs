//! What a plan promises: to one record, to the records of a secret, to the copies of a canary.

use super::TrainingPlan;
use super::completed::{narrower, notion, within_a_class};
use super::recipe::{Recipe, Run, open};
use crate::engine::Engine;
use crate::guarantee::confidentiality::{Knowledge, Reach, Standing};
use crate::guarantee::{Convention, Guarantee, Method, Notion, Plan, Subject};
use crate::mechanism::Mechanism;
use crate::quantity::bound::Bounds;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Epsilon, GroupSize, Tolerance, UnitName};

impl TrainingPlan {
    /// The guarantees of the plan at its δ: of one record, of the records of a secret (where their
    /// number is known), of the copies of a canary (where some were planted).
    ///
    /// Bound: both ends where the run is accounted for as it is; infinite where something is
    /// trained on without noise.
    ///
    /// # Errors
    /// A mechanism that can't be accounted for.
    pub fn guarantees(&self, tolerance: Tolerance) -> Result<Vec<Guarantee>> {
        let subjects = [Subject::Record, Subject::Secret, Subject::Canary];
        let each = subjects.map(|subject| self.guarantees_about(subject, tolerance));
        let rows: Vec<Vec<Guarantee>> = each.into_iter().collect::<Result<_>>()?;
        Ok(rows.concat())
    }

    /// Those about one subject; none where it is not known or there is none.
    ///
    /// # Errors
    /// As [`TrainingPlan::guarantees`].
    pub fn guarantees_about(
        &self,
        subject: Subject,
        tolerance: Tolerance,
    ) -> Result<Vec<Guarantee>> {
        Ok(match subject {
            Subject::Record => self.of_a_record(tolerance)?,
            Subject::Secret => self.of_a_secret(tolerance)?.into_iter().collect(),
            Subject::Canary => self.of_a_canary(tolerance)?.into_iter().collect(),
        })
    }

    /// ε of `mechanism` when `group` records change together.
    fn row(
        &self,
        mechanism: Mechanism,
        (notion, neighbours, group): (Notion, Neighbours, GroupSize),
        tolerance: Tolerance,
    ) -> Result<Guarantee> {
        // Where all copies of a secret are one entry of the mechanism, the entry is the unit.
        let unit = match self.run {
            Run::Protect { .. } => UnitName::new("secret")?,
            _ => self.unit.value.clone(),
        };
        let plan = Plan {
            neighbours,
            group,
            tolerance,
            ..Plan::new(mechanism, unit, *self.delta)
        };
        let row = plan.exactly()?;
        Ok(Guarantee { notion, ..row })
    }

    /// One record, by the notion's own neighbours and by the other ones.
    fn of_a_record(&self, tolerance: Tolerance) -> Result<Vec<Guarantee>> {
        let both = match narrower(self.run.recipe(), self.secrets.everything_private) {
            None => [Neighbours::AddRemove, Neighbours::Replace],
            Some(_) => [Neighbours::Replace, Neighbours::AddRemove],
        };
        let each = both.map(|neighbours| self.guarantee_of_a_record(neighbours, tolerance));
        let rows: Vec<Option<Guarantee>> = each.into_iter().collect::<Result<_>>()?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// The row about one record for these neighbours; none where the sampler has no answer for its
    /// presence.
    ///
    /// # Errors
    /// As [`TrainingPlan::guarantees`].
    pub fn guarantee_of_a_record(
        &self,
        neighbours: Neighbours,
        tolerance: Tolerance,
    ) -> Result<Option<Guarantee>> {
        let narrower = narrower(self.run.recipe(), self.secrets.everything_private);
        let notion = notion(narrower, GroupSize::ONE);
        // Differential privacy is defined for both; what redaction changes is content.
        let convention = match neighbours {
            Neighbours::AddRemove if narrower.is_some() => Convention::Paper,
            _ => Convention::Definition,
        };
        let question = (notion, neighbours, GroupSize::ONE);
        match self.row(self.mechanism(), question, tolerance) {
            Ok(row) => Ok(Some(Guarantee {
                convention,
                about: Some(Subject::Record),
                same_class: self.within_a_class(),
                ..row
            })),
            // A sampler without an answer for these neighbours.
            Err(Error::Unsupported { .. }) if neighbours == Neighbours::AddRemove => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether what is promised is promised between records of one class: they have classes, which no policy redacts, and
    /// redacted text is trained on without noise beside them.
    ///
    /// ```
    /// use reticent_accounting::UnitName;
    /// use reticent_accounting::training::{NoisySteps, Run, TrainingPlan};
    /// let private = NoisySteps::poisson(1.0, 0.1, 10)?;
    /// let plan = TrainingPlan::new(Run::Dpsgd { private }, UnitName::new("document")?);
    /// assert!(!TrainingPlan { labelled: true, ..plan }.within_a_class()); // the class is part of the record
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn within_a_class(&self) -> bool {
        let narrower = narrower(self.run.recipe(), self.secrets.everything_private);
        within_a_class(narrower, self.has_classes())
    }

    /// The most records that one secret is trained on in, in this run or in the one that it goes on
    /// from; nothing where that is neither counted nor given. A count is of this run's text alone: of one record it says nothing
    /// for both, of several that both must be asked about as many.
    #[must_use]
    pub fn secret_records(&self) -> Option<GroupSize> {
        let here = self.secrets.records.as_ref();
        match &self.continues {
            None => here.map(|here| here.value),
            Some(earlier) => match (here, earlier.secret_records) {
                (Some(here), Some(before)) => Some(here.value.max(before)),
                (Some(here), None) if !here.is_measured() || here.value > GroupSize::ONE => {
                    Some(here.value)
                }
                _ => None,
            },
        }
    }

    /// The records of a secret in the question: one where nobody knows.
    #[must_use]
    pub fn group(&self) -> GroupSize {
        self.secret_records().unwrap_or(GroupSize::ONE)
    }

    /// What became of the worst secret that the plan speaks of; nothing where the records of a
    /// secret are neither counted nor given.
    #[must_use]
    pub fn worst_secret(&self) -> Option<Standing> {
        let secrets = &self.secrets;
        let counted = secrets
            .facts
            .filter(|facts| facts.knowledge() == Knowledge::Counted);
        let spreads = counted.is_some_and(|facts| facts.missed_reach() == Reach::Open);
        let standing = match (self.run.recipe(), counted) {
            // One record of the input may change any number of records of the training set.
            _ if spreads => Standing::Exposed,
            (Some(Recipe::Crt), Some(facts))
                if self.continues.is_none() || facts.worst() == Standing::Exposed =>
            {
                facts.worst()
            }
            (Some(Recipe::Crt), None) if !secrets.everything_private => Standing::Exposed,
            // Every secret of the records that noise covers. One that the policy catches here may
            // have been in the records of the earlier run.
            _ => Standing::Missed {
                records: u64::from(self.group().get()),
            },
        };
        let known = self.secret_records().is_some();
        (known || standing == Standing::Exposed || standing == Standing::Caught).then_some(standing)
    }

    /// All records of a secret: content against content.
    fn of_a_secret(&self, tolerance: Tolerance) -> Result<Option<Guarantee>> {
        if matches!(self.run, Run::Protect { .. } | Run::Mechanism { .. }) {
            return Ok(None);
        }
        let Some(standing) = self.worst_secret() else {
            return Ok(None);
        };
        let group = self.group();
        let notion = match (&self.run, group) {
            (Run::Sdp { .. } | Run::Jft { .. }, _) => Notion::SelectiveDp,
            (_, GroupSize::ONE) => Notion::Confidentiality,
            _ => Notion::GroupConfidentiality,
        };
        let row = match standing {
            Standing::Caught if self.unprotected().is_none() => {
                let zero = Epsilon::new(0.0)?;
                self.closed_form(notion, group, Bounds::between(zero, zero))?
            }
            Standing::Exposed => {
                let infinite = Bounds::at_most(Epsilon::new(f64::INFINITY)?);
                self.closed_form(notion, group, infinite)?
            }
            Standing::Caught | Standing::Missed { .. } => {
                let question = (notion, Neighbours::Replace, group);
                self.row(self.mechanism(), question, tolerance)?
            }
        };
        Ok(Some(Guarantee {
            about: Some(Subject::Secret),
            same_class: self.within_a_class(),
            ..row
        }))
    }

    /// A row whose ε follows from what became of the secret alone.
    fn closed_form(
        &self,
        notion: Notion,
        group: GroupSize,
        epsilon: Bounds<Epsilon>,
    ) -> Result<Guarantee> {
        Ok(Guarantee {
            epsilon: Some(epsilon),
            engine: Some(Engine::Closed),
            delta: Some(*self.delta),
            group: (group > GroupSize::ONE).then_some(group),
            ..Guarantee::new(
                notion,
                Neighbours::Replace,
                self.unit.value.clone(),
                Method::ClosedForm,
            )
        })
    }

    /// What is released of the records of a canary: where a copy is on a side without noise,
    /// nothing protects it.
    #[must_use]
    pub fn mechanism_of_canaries(&self) -> Mechanism {
        let mechanism = self.mechanism();
        let copies = match (&self.run, &self.secrets.canaries) {
            (Run::Crt { .. }, Some(canaries)) => canaries.on_public_side,
            _ => 0,
        };
        if copies == 0 {
            return mechanism;
        }
        let why =
            format!("{copies} canary copies were on the public side: both policies missed them");
        Mechanism::Sequence {
            parts: vec![mechanism, open(&why)],
        }
    }

    /// The records that differ when one canary's secret does; nothing where no canary was planted,
    /// or where nobody knows in how many records of an earlier run it was.
    #[must_use]
    pub fn canary_reach(&self) -> Option<Reach> {
        let canaries = self.secrets.canaries.as_ref()?;
        let before = match &self.continues {
            Some(earlier) => earlier.canary_records?,
            None => 0,
        };
        let records = canaries.records.max(before);
        Some(self.secrets.reach(records))
    }

    /// All copies of a canary: content against content.
    fn of_a_canary(&self, tolerance: Tolerance) -> Result<Option<Guarantee>> {
        // Rates are those of the secrets of an incidence, and canaries are none of them.
        if matches!(self.run, Run::Protect { .. }) {
            return Ok(None);
        }
        let Some(reach) = self.canary_reach() else {
            return Ok(None);
        };
        let row = match reach {
            // Every copy was masked or left out.
            Reach::Nothing => return Ok(None),
            Reach::Open => {
                let infinite = Bounds::at_most(Epsilon::new(f64::INFINITY)?);
                self.closed_form(Notion::GroupDp, GroupSize::ONE, infinite)?
            }
            Reach::Records(group) => {
                let notion = match group {
                    GroupSize::ONE => Notion::Dp,
                    _ => Notion::GroupDp,
                };
                let question = (notion, Neighbours::Replace, group);
                self.row(self.mechanism_of_canaries(), question, tolerance)?
            }
        };
        Ok(Some(Guarantee {
            about: Some(Subject::Canary),
            ..row
        }))
    }
}
