//! Plans: all guarantees that follow from one mechanism.

use crate::compose::Answer;
use crate::compose::solver::Solver;
use crate::engine::Engine;
use crate::guarantee::group::lemma_stands_in;
use crate::guarantee::redaction::Redaction;
use crate::guarantee::{Base, ByDirection, Convention, Guarantee, Method, Notion};
use crate::loss::{Direction, PrivacyLoss, Query, losses};
use crate::mechanism::Mechanism;
use crate::quantity::bound::{Bounds, Lower, Upper};
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{
    Confidence, Delta, Epsilon, GroupSize, MissRate, Order, Probability, Tolerance, UnitName,
};

mod at_epsilon;
mod other_notions;

/// A mechanism to run, together with the questions about it.
///
/// ```
/// use reticent_accounting::{Delta, Mechanism, NoiseMultiplier, Notion, Plan, SamplingRate, Steps, UnitName};
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(1000));
/// let plan = Plan::new(run, UnitName::new("sentence")?, Delta::new(1e-5)?);
/// let guarantees = plan.guarantees()?;
/// assert_eq!(guarantees[0].notion, Notion::Dp);
/// assert!(guarantees[0].epsilon.unwrap().upper.unwrap().get().get() < 2.0);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What runs.
    pub mechanism: Mechanism,
    /// What one record is.
    pub unit: UnitName,
    /// The δ of all (ε, δ) rows.
    pub delta: Delta,
    /// The neighbours of the `dp` rows.
    pub neighbours: Neighbours,
    /// The number of records that one secret or person accounts for.
    pub group: GroupSize,
    /// The redaction policy, if there is one.
    pub redaction: Option<Redaction>,
    /// The confidence with which the redaction's rates bound the true ones, if they were measured.
    pub confidence: Option<Confidence>,
    /// The adversary's probability of guessing the secret beforehand.
    pub prior: Option<Probability>,
    /// Requests μ-GDP too, with this δ allowed on top of the Gaussian's own.
    pub gaussian_slack: Option<Delta>,
    /// The relative width of every answer.
    pub tolerance: Tolerance,
    /// Whether to spend less on grids: see [`PrivacyLoss::modestly`].
    pub modest: bool,
}

impl Plan {
    /// Creates a plan with the usual questions: add-remove, single records, no redaction, no prior, and a relative
    /// tolerance of 1e-6.
    #[must_use]
    pub fn new(mechanism: Mechanism, unit: UnitName, delta: Delta) -> Self {
        Self {
            mechanism,
            unit,
            delta,
            neighbours: Neighbours::AddRemove,
            group: GroupSize::ONE,
            redaction: None,
            confidence: None,
            prior: None,
            gaussian_slack: None,
            tolerance: Tolerance::DEFAULT,
            modest: false,
        }
    }

    /// Returns every guarantee of the plan: `dp` by the loss law and by Rényi; with a group, `group-dp` by the
    /// mixture and by the lemma; with redaction, the Bayesian rows in both conventions and the row for an adversary
    /// who may know the secret, by the lemma if it alone covers the group, unless nothing covers changed contents; with
    /// a prior, the posterior by blow-up, by Fano's inequality for the
    /// Kullback–Leibler, Rényi and χ² divergences, and by total variation, unless only the lemma covers the group;
    /// with a Gaussian slack, μ-GDP.
    ///
    /// # Errors
    /// Returns [`crate::Error::Unsupported`] for an estimated mechanism, and [`crate::Error::NotCertified`] if a row
    /// can't be certified at all.
    pub fn guarantees(&self) -> Result<Vec<Guarantee>> {
        self.rows(
            self.single_record()?,
            || self.tighter(self.group_by_law(), || self.group_by_lemma()),
            |redaction, convention| self.redacted(redaction, convention),
            |redaction, query| self.redacted_by_lemma(redaction, query),
        )
    }

    /// Returns the rows of a single record with those of every other question: of the group, of redaction by the law
    /// and by the lemma, and of the notions without a δ or an ε of the plan.
    fn rows(
        &self,
        mut rows: Vec<Guarantee>,
        group: impl FnOnce() -> Result<(Guarantee, Option<Guarantee>)>,
        by_law: impl Fn(Redaction, Convention) -> Result<Vec<Guarantee>>,
        by_lemma: impl Fn(Redaction, Query) -> Result<Vec<Guarantee>>,
    ) -> Result<Vec<Guarantee>> {
        if self.group > GroupSize::ONE {
            let (first, second) = group()?;
            rows.extend([first].into_iter().chain(second));
        }
        if let Some(redaction) = self.redaction {
            for convention in [Convention::Definition, Convention::Paper] {
                let query = self.redaction_query(convention);
                let law = by_law(redaction, convention);
                rows.extend(covered(query, law, || by_lemma(redaction, query))?);
            }
        }
        if let Some(prior) = self.prior {
            rows.extend(self.reconstruction(prior)?);
        }
        rows.extend(self.gaussian()?);
        Ok(self.by_what_is_known(rows))
    }

    /// Relabels the rows of a run in which some part has no law but only stated Rényi divergences: rows by the law
    /// follow from these divergences too, so they are marked accordingly and duplicates are dropped.
    fn by_what_is_known(&self, rows: Vec<Guarantee>) -> Vec<Guarantee> {
        if !self.mechanism.is_stated() {
            return rows;
        }
        let mut kept: Vec<Guarantee> = Vec::new();
        for row in rows {
            let (method, base) = match (row.method, row.base) {
                (Method::Pld, base) => (Method::Rdp, base),
                (Method::Proposition6, Some(Base::Pld)) => (row.method, Some(Base::Rdp)),
                (Method::BlowUp, base) => (Method::RenyiFano, base),
                other => other,
            };
            let row = Guarantee {
                method,
                base,
                engine: None,
                ..row
            };
            let same = |other: &&mut Guarantee| {
                let of = |row: &Guarantee| (row.notion, row.method, row.base, row.convention);
                of(other) == of(&row)
            };
            let tighter = |other: &Guarantee| {
                let ends = row.posterior.zip(other.posterior);
                ends.is_some_and(|(own, other)| own.upper < other.upper)
            };
            match kept.iter_mut().find(same) {
                Some(other) if tighter(other) => *other = row,
                // Only the row that was meant to be by divergences knows the order.
                Some(other) => other.order = other.order.or(row.order),
                None => kept.push(row),
            }
        }
        kept
    }

    /// Returns both ends of ε of [`Plan::exactly`].
    ///
    /// # Errors
    /// As [`Plan::guarantees`].
    pub fn epsilon(&self) -> Result<Bounds<Epsilon>> {
        let infinite = Bounds::at_most(Epsilon::nonnegative(f64::INFINITY));
        Ok(self.exactly()?.epsilon.unwrap_or(infinite))
    }

    /// Returns ε' against an adversary without prior knowledge of the secret, for the notion's own neighbours, by the
    /// lemma if it alone covers the group; `None` without redaction.
    ///
    /// # Errors
    /// As [`Plan::guarantees`].
    pub fn bayesian_epsilon(&self) -> Result<Option<Bounds<Epsilon>>> {
        let Some(redaction) = self.redaction else {
            return Ok(None);
        };
        let query = self.redaction_query(Convention::Definition);
        match PrivacyLoss::of(&self.mechanism, query, Direction::Remove) {
            Ok(loss) => {
                let answer = redaction.exact_epsilon(&loss, &loss, self.delta, self.tolerance)?;
                let mut bounds = answer.bounds;
                if covered_by_lemma(query) && loss.bounds_only() {
                    let base = self.base_by_lemma(redaction, query);
                    let lemma = base.map(|base| amplified(redaction, base));
                    if let Ok(lemma) = lemma
                        && lemma.upper < bounds.upper
                    {
                        bounds.upper = lemma.upper;
                    }
                }
                Ok(Some(bounds))
            }
            Err(error @ Error::Unsupported { .. }) if covered_by_lemma(query) => {
                let base = self.base_by_lemma(redaction, query).map_err(|_| error)?;
                Ok(Some(amplified(redaction, base)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the first row of [`Plan::guarantees`], or the first row of the group if there is one: the tighter of two
    /// bounds.
    ///
    /// # Errors
    /// As [`Plan::guarantees`].
    pub fn exactly(&self) -> Result<Guarantee> {
        let row = if self.group == GroupSize::ONE {
            let mut solvers = self.solvers(Query::single(self.neighbours))?;
            match self.by_law(Notion::Dp, &mut solvers)? {
                law if is_close(law.epsilon.as_ref(), self.tolerance) => law,
                law => {
                    self.tighter(Ok(law), || self.by_divergences(&mut solvers))?
                        .0
                }
            }
        } else {
            match self.group_by_law() {
                Ok(law) if is_close(law.epsilon.as_ref(), self.tolerance) => law,
                law => self.tighter(law, || self.group_by_lemma())?.0,
            }
        };
        Ok(self.row_by_what_is_known(row))
    }

    /// Applies [`Plan::by_what_is_known`] to a single row.
    fn row_by_what_is_known(&self, row: Guarantee) -> Guarantee {
        let known = self.by_what_is_known(vec![row.clone()]);
        known.into_iter().next().unwrap_or(row)
    }

    /// Returns the row of the group by the joint law of its records.
    fn group_by_law(&self) -> Result<Guarantee> {
        let query = Query::new(self.neighbours, self.group);
        let row = self.by_law(Notion::GroupDp, &mut self.solvers(query)?)?;
        let group = Some(self.group);
        Ok(Guarantee { group, ..row })
    }

    /// Returns the rows of a group by its law and by the lemma, the tighter one first. The lemma stands in if the
    /// law isn't known; if the lemma certifies nothing, the law's row stands.
    fn tighter(
        &self,
        law: Result<Guarantee>,
        lemma: impl FnOnce() -> Result<Guarantee>,
    ) -> Result<(Guarantee, Option<Guarantee>)> {
        match law {
            Ok(law) => match lemma() {
                Ok(lemma) => {
                    let (first, second) = tighter_first(law, lemma)?;
                    Ok((first, Some(second)))
                }
                Err(_) => Ok((law, None)),
            },
            Err(error @ Error::Unsupported { .. }) if lemma_stands_in(self.neighbours) => {
                Ok((lemma().map_err(|_| error)?, None))
            }
            Err(error) => Err(error),
        }
    }

    fn solvers(&self, query: Query) -> Result<Vec<Solver>> {
        let losses = self.losses(query)?;
        Ok(losses.iter().map(Solver::new).collect())
    }

    fn losses(&self, query: Query) -> Result<Vec<PrivacyLoss>> {
        let mut losses = losses(&self.mechanism, query)?;
        if self.modest {
            losses = losses.into_iter().map(PrivacyLoss::modestly).collect();
        }
        Ok(losses)
    }

    fn answers(&self, solvers: &mut [Solver], delta: Delta) -> Result<Vec<Answer<Epsilon>>> {
        solvers
            .iter_mut()
            .map(|solver| solver.answer(delta, self.tolerance))
            .collect()
    }

    fn row(&self, notion: Notion, neighbours: Neighbours, method: Method) -> Guarantee {
        Guarantee {
            delta: Some(self.delta),
            ..Guarantee::new(notion, neighbours, self.unit.clone(), method)
        }
    }

    fn single_record(&self) -> Result<Vec<Guarantee>> {
        let mut solvers = self.solvers(Query::single(self.neighbours))?;
        let law = self.by_law(Notion::Dp, &mut solvers)?;
        let by_divergences = self.by_divergences(&mut solvers)?;
        let (first, second) = match is_close(law.epsilon.as_ref(), self.tolerance) {
            true => (law, by_divergences),
            false => tighter_first(law, by_divergences)?,
        };
        Ok(vec![first, second])
    }

    fn by_divergences(&self, solvers: &mut [Solver]) -> Result<Guarantee> {
        let (epsilon, order) = by_renyi(solvers, self.delta)?;
        Ok(Guarantee {
            epsilon: Some(Bounds::below(epsilon)),
            order,
            ..self.row(Notion::Dp, self.neighbours, Method::Rdp)
        })
    }

    /// Returns ε from the loss law, with both directions if they differ.
    fn by_law(&self, notion: Notion, solvers: &mut [Solver]) -> Result<Guarantee> {
        let answers = self.answers(solvers, self.delta)?;
        let by_direction = match answers.as_slice() {
            [remove, add] => Some(ByDirection {
                remove: remove.bounds,
                add: add.bounds,
            }),
            _ => None,
        };
        let worst = larger_epsilon(&answers)?;
        Ok(Guarantee {
            engine: Some(worst.engine),
            looseness: worst.looseness,
            epsilon: Some(worst.bounds),
            by_direction,
            ..self.row(notion, self.neighbours, Method::Pld)
        })
    }

    /// Returns the row of the group by the lemma, from its single records.
    fn group_by_lemma(&self) -> Result<Guarantee> {
        Ok(Guarantee {
            epsilon: Some(self.epsilon_by_lemma(self.neighbours, self.delta)?),
            group: Some(self.group),
            ..self.row(Notion::GroupDp, self.neighbours, Method::GroupLemma)
        })
    }

    fn epsilon_by_lemma(&self, neighbours: Neighbours, delta: Delta) -> Result<Bounds<Epsilon>> {
        let mut most = Upper::new(Epsilon::new(0.0)?);
        for loss in self.losses(Query::single(neighbours))? {
            let each = loss.epsilon_by_group_lemma(self.group, delta, self.tolerance)?;
            most = if each > most { each } else { most };
        }
        Ok(Bounds::below(most))
    }

    /// Returns the neighbours of a redaction row: the definition compares contents (replace), the papers computed
    /// add-remove.
    const fn redaction_query(&self, convention: Convention) -> Query {
        let neighbours = match convention {
            Convention::Definition => Neighbours::Replace,
            Convention::Paper => Neighbours::AddRemove,
        };
        Query::new(neighbours, self.group)
    }

    fn redaction_row(
        &self,
        redaction: Redaction,
        notion: Notion,
        query: Query,
        method: Method,
    ) -> Guarantee {
        Guarantee {
            gamma: Some(redaction.miss()),
            missed_by_both: (redaction.missed_by_both() > MissRate::ZERO)
                .then_some(redaction.missed_by_both()),
            confidence: self.confidence,
            group: (self.group > GroupSize::ONE).then_some(self.group),
            ..self.row(notion, query.neighbours, method)
        }
    }

    /// Returns the rows for redaction in one convention: for an adversary without prior knowledge of the secret,
    /// exactly and by Proposition 6 on two bases; by definition also for an adversary who may know the secret.
    fn redacted(&self, redaction: Redaction, convention: Convention) -> Result<Vec<Guarantee>> {
        let query = self.redaction_query(convention);
        let mut solvers = self.solvers(query)?;
        let base_delta = redaction.base_delta(self.delta);
        let base = match base_delta {
            Some(delta) => self.answers(&mut solvers, delta)?,
            None => Vec::new(),
        };
        let row = |method| Guarantee {
            convention,
            ..self.redaction_row(redaction, Notion::BayesianConfidentiality, query, method)
        };
        let Some(without) = solvers.last_mut() else {
            return Ok(Vec::new());
        };
        let exact =
            redaction.exact_from(base.first().copied(), without, self.delta, self.tolerance)?;
        let mut rows = vec![Guarantee {
            epsilon: Some(exact.bounds),
            engine: Some(exact.engine),
            looseness: exact.looseness,
            ..row(Method::Pld)
        }];
        if let Some(delta) = base_delta {
            let by_law = larger_epsilon(&base)?;
            rows.push(Guarantee {
                base: Some(Base::Pld),
                engine: Some(by_law.engine),
                looseness: by_law.looseness,
                epsilon: Some(amplified(redaction, by_law.bounds)),
                ..row(Method::Proposition6)
            });
            let (by_renyi, order) = by_renyi(&mut solvers, delta)?;
            let by_renyi = Bounds::below(by_renyi);
            rows.push(Guarantee {
                base: Some(Base::Rdp),
                epsilon: Some(amplified(redaction, by_renyi)),
                order,
                ..row(Method::Proposition6)
            });
        }
        if convention == Convention::Definition {
            rows.push(self.informed(redaction, query, base.first())?);
        }
        Ok(rows)
    }

    /// Returns the rows for redaction where the group's law isn't known: Proposition 6 on the lemma, and the lemma for an
    /// adversary who may know the secret.
    ///
    /// Proposition 6 and Theorem 8.3 need (ε, δ) of the records of the secret in both directions. The lemma has it
    /// wherever the contents of single records may be exchanged.
    fn redacted_by_lemma(&self, redaction: Redaction, query: Query) -> Result<Vec<Guarantee>> {
        let base = self.base_by_lemma(redaction, query)?;
        let (notion, method) = (Notion::BayesianConfidentiality, Method::Proposition6);
        Ok(vec![
            Guarantee {
                base: Some(Base::GroupLemma),
                epsilon: Some(amplified(redaction, base)),
                ..self.redaction_row(redaction, notion, query, method)
            },
            Guarantee {
                epsilon: Some(base),
                ..self.informed_row(redaction, query, Method::GroupLemma)
            },
        ])
    }

    /// Returns ε by the lemma at the δ at which a redaction evaluates its base; infinite if there is none.
    fn base_by_lemma(&self, redaction: Redaction, query: Query) -> Result<Bounds<Epsilon>> {
        match redaction.base_delta(self.delta) {
            Some(delta) => self.epsilon_by_lemma(query.neighbours, delta),
            None => Ok(Bounds::at_most(Epsilon::new(f64::INFINITY)?)),
        }
    }

    /// Returns the row for an adversary who may know the secret: (ε, (γ − η)δ + η).
    fn informed(
        &self,
        redaction: Redaction,
        query: Query,
        base: Option<&Answer<Epsilon>>,
    ) -> Result<Guarantee> {
        let row = self.informed_row(redaction, query, Method::Pld);
        let Some(base) = base else {
            let none = Bounds::at_most(Epsilon::new(f64::INFINITY)?);
            return Ok(Guarantee {
                epsilon: Some(none),
                engine: Some(Engine::Closed),
                ..row
            });
        };
        // It is unknown whether a miss depends on the secret, so there is no lower end.
        Ok(Guarantee {
            epsilon: Some(base.bounds.without_lower()),
            engine: Some(base.engine),
            ..row
        })
    }

    fn informed_row(&self, redaction: Redaction, query: Query, method: Method) -> Guarantee {
        let notion = if self.group > GroupSize::ONE {
            Notion::GroupConfidentiality
        } else {
            Notion::Confidentiality
        };
        self.redaction_row(redaction, notion, query, method)
    }
}

/// Returns the rows of a redacted secret by the law of its records, or by the lemma if the law isn't known or is only a
/// looser bound; none if neither covers the question, as for a mechanism without the add-remove neighbours that the papers
/// computed.
fn covered(
    query: Query,
    law: Result<Vec<Guarantee>>,
    lemma: impl FnOnce() -> Result<Vec<Guarantee>>,
) -> Result<Vec<Guarantee>> {
    let rows = match law {
        Ok(law) if covered_by_lemma(query) && law.first().is_some_and(|row| ends(row).0 <= 0.0) => {
            // If the lemma certifies nothing, the law's rows stand.
            Ok(match lemma() {
                Ok(lemma) => tighter_rows(law, lemma),
                Err(_) => law,
            })
        }
        Err(Error::Unsupported { .. }) if covered_by_lemma(query) => lemma(),
        law => law,
    };
    match rows {
        Err(Error::Unsupported { .. }) => Ok(Vec::new()),
        rows => rows,
    }
}

/// Returns the rows of a redacted secret for each adversary by the tighter of two bounds. The last row of both is for an
/// adversary who may know the secret, the first for one who doesn't.
fn tighter_rows(mut law: Vec<Guarantee>, mut lemma: Vec<Guarantee>) -> Vec<Guarantee> {
    let Some(by_lemma) = lemma.pop() else {
        return law;
    };
    let Some(informed) = law.pop() else {
        return law;
    };
    let is_tighter = |lemma: &Guarantee, law: &Guarantee| ends(lemma).1 < ends(law).1;
    let mut rows = match (lemma.first(), law.first()) {
        (Some(unknown), Some(exact)) if is_tighter(unknown, exact) => lemma,
        _ => law,
    };
    rows.push(match is_tighter(&by_lemma, &informed) {
        true => by_lemma,
        false => informed,
    });
    rows
}

/// Returns both ends of what a row bounds, δ or ε; 0 and infinity where they aren't known.
fn ends(row: &Guarantee) -> (f64, f64) {
    let (lower, upper) = match (row.delta_bounds, row.epsilon) {
        (Some(delta), _) => (delta.low(), delta.high()),
        (None, Some(epsilon)) => (epsilon.low(), epsilon.high()),
        (None, None) => (None, None),
    };
    (lower.unwrap_or(0.0), upper.unwrap_or(f64::INFINITY))
}

/// Returns whether the lemma may answer for the records of a redacted secret if their law isn't known.
fn covered_by_lemma(query: Query) -> bool {
    query.group > GroupSize::ONE && lemma_stands_in(query.neighbours)
}

/// Orders two rows about one question, by the law and by another bound, by their upper ends, the tighter first; that row
/// gets the larger of the lower ends.
fn tighter_first(law: Guarantee, bound: Guarantee) -> Result<(Guarantee, Guarantee)> {
    let ((least, most), (_, other)) = (ends(&law), ends(&bound));
    if other >= most {
        return Ok((law, bound));
    }
    if least > other {
        return Err(Error::NotCertified {
            what: "epsilon",
            why: "two bounds contradict each other".into(),
        });
    }
    let mut first = bound;
    if let (Some(own), Some(known)) = (&mut first.epsilon, law.epsilon)
        && law.delta_bounds.is_none()
    {
        own.lower = known.lower;
    }
    if let (Some(own), Some(known)) = (&mut first.delta_bounds, law.delta_bounds) {
        own.lower = known.lower;
    }
    Ok((first, law))
}

/// Returns whether both ends are known and so close that no other bound can be tighter by more than the tolerance.
fn is_close(bounds: Option<&Bounds<Epsilon>>, tolerance: Tolerance) -> bool {
    let ends = bounds.and_then(|bounds| Some((bounds.low()?, bounds.high()?)));
    ends.is_some_and(|(lower, upper)| upper <= (1.0 + tolerance.get()) * lower)
}

/// Returns the larger of the directions, end by end. The upper end is known if it is known in every direction, the
/// lower end if it is known in any.
fn larger<T: Copy + Into<f64>>(
    answers: &[Answer<T>],
    (least, most): (Option<f64>, f64),
    make: impl Fn(f64) -> Result<T>,
) -> Result<Answer<T>> {
    let mut engine = Engine::Closed;
    let (mut lower, mut upper) = (least, 0.0);
    let mut looseness = None;
    for answer in answers {
        engine = engine.coarser(answer.engine);
        lower = match (lower, answer.bounds.low()) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        let high = answer.bounds.high().unwrap_or(most);
        if high >= upper {
            (upper, looseness) = (high, answer.looseness);
        }
    }
    let bounds = Bounds {
        lower: lower.map(&make).transpose()?.map(Lower::new),
        upper: Some(Upper::new(make(upper)?)),
    };
    Ok(Answer {
        bounds,
        engine,
        looseness,
    })
}

/// As [`larger`], of ε, of which nothing may be known.
fn larger_epsilon(answers: &[Answer<Epsilon>]) -> Result<Answer<Epsilon>> {
    larger(answers, (None, f64::INFINITY), Epsilon::new)
}

fn by_renyi(solvers: &mut [Solver], delta: Delta) -> Result<(Upper<Epsilon>, Option<Order>)> {
    let mut worst = (Upper::new(Epsilon::new(0.0)?), None);
    for solver in solvers {
        let each = solver.answer_by_rdp(delta)?;
        if each.0 >= worst.0 {
            worst = each;
        }
    }
    Ok(worst)
}

fn amplified(redaction: Redaction, base: Bounds<Epsilon>) -> Bounds<Epsilon> {
    Bounds {
        lower: base.lower.map(|end| {
            // The map rounds up, so a lower end is moved down by more than that.
            Lower::new(Epsilon::nonnegative(
                redaction.amplified(*end.get()).get() * (1.0 - 4e-15),
            ))
        }),
        upper: base
            .upper
            .map(|end| Upper::new(redaction.amplified(*end.get()))),
    }
}
