//! The promises of a plan to one record, to the records of a secret, and to the copies of a canary.

use super::TrainingPlan;
use super::completed::{narrower, notion, within_a_class};
use super::recipe::{Recipe, Run};
use crate::engine::Engine;
use crate::guarantee::confidentiality::{Knowledge, Reach, Spread, Standing};
use crate::guarantee::{Convention, Guarantee, Method, Notion, Plan, Subject};
use crate::mechanism::Mechanism;
use crate::quantity::bound::Bounds;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Epsilon, GroupSize, Tolerance, UnitName};

impl TrainingPlan {
    /// Returns the guarantees of the plan at its δ: of one record, of the records of a secret (if their number is
    /// known), and of the copies of a canary (if any were planted).
    ///
    /// Bound: both ends if the run is accounted for as it is; infinite if something is trained on without noise.
    ///
    /// # Errors
    /// Returns an error if the mechanism can't be accounted for.
    pub fn guarantees(&self, tolerance: Tolerance) -> Result<Vec<Guarantee>> {
        let subjects = [Subject::Record, Subject::Secret, Subject::Canary];
        let each = subjects.map(|subject| self.guarantees_about(subject, tolerance));
        let rows: Vec<Vec<Guarantee>> = each.into_iter().collect::<Result<_>>()?;
        Ok(rows.concat())
    }

    /// Returns the guarantees about one subject; empty if the subject isn't known or doesn't exist.
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

    /// Returns ε of `mechanism` if `group` records change together.
    fn row(
        &self,
        mechanism: Mechanism,
        (notion, neighbours, group): (Notion, Neighbours, GroupSize),
        tolerance: Tolerance,
    ) -> Result<Guarantee> {
        // If all copies of a secret are one entry of the mechanism, that entry is the unit.
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

    /// Returns the rows about one record, first for the neighbours of the notion, then for the other ones.
    fn of_a_record(&self, tolerance: Tolerance) -> Result<Vec<Guarantee>> {
        let both = match narrower(self.run.recipe(), self.secrets.everything_private) {
            None => [Neighbours::AddRemove, Neighbours::Replace],
            Some(_) => [Neighbours::Replace, Neighbours::AddRemove],
        };
        let each = both.map(|neighbours| self.guarantee_of_a_record(neighbours, tolerance));
        let rows: Vec<Option<Guarantee>> = each.into_iter().collect::<Result<_>>()?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Returns the row about one record for these neighbours; `None` if the sampler has no answer for the presence of a
    /// record.
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
        // Differential privacy is defined for both relations; redaction changes content.
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

    /// Returns whether the promises hold only between records of one class. This is the case if records have classes,
    /// which no policy redacts, and redacted text is trained on without noise next to them.
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

    /// Returns the most records that one secret is trained on in, in this run or in the one that it continues; `None`
    /// if that number is neither counted nor given. A count covers this run's text alone: a count of one says nothing
    /// about the two runs together, and after a count of several both have to be accounted for with a group of that
    /// size.
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

    /// Returns the number of records of a secret to account for: one if it is unknown.
    #[must_use]
    pub fn group(&self) -> GroupSize {
        self.secret_records().unwrap_or(GroupSize::ONE)
    }

    /// Returns the standing of the worst secret that the plan knows of; `None` if the records of a secret are neither
    /// counted nor given.
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
            // Every secret in the records that noise covers. A secret that the policy catches here may have been in the
            // records of the earlier run.
            _ => Standing::Missed {
                records: u64::from(self.group().get()),
            },
        };
        let known = self.secret_records().is_some();
        (known || standing == Standing::Exposed || standing == Standing::Caught).then_some(standing)
    }

    /// Returns the row about all records of a secret: one content against another.
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

    /// Returns a row whose ε follows from the standing of the secret alone.
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

    /// Returns what is released about the records of a canary. A copy on a side without noise isn't protected.
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
        mechanism.unprotected(why)
    }

    /// Returns the records that differ if the secret of one canary differs; `None` if no canary was planted, or if it
    /// is unknown how many records of an earlier run differ.
    #[must_use]
    pub fn canary_reach(&self) -> Option<Reach> {
        let canaries = self.secrets.canaries.as_ref()?;
        let records = canaries.records.max(self.earlier_canary_records()?);
        // Both numbers say how far their own stages spread.
        let spread = match self.unbounded_stability {
            true => Spread::Unbounded,
            false => Spread::AtMost(1),
        };
        Some(Reach::of(Some(records), spread))
    }

    /// Returns the row about all copies of a canary: one content against another.
    fn of_a_canary(&self, tolerance: Tolerance) -> Result<Option<Guarantee>> {
        // Rates exist for the secrets of an incidence, which don't include canaries.
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
