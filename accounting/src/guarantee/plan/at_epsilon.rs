//! Evaluates a plan the other way round: δ at a given ε.

use super::{Plan, larger, tighter_first};
use crate::compose::Answer;
use crate::compose::solver::Solver;
use crate::engine::Engine;
use crate::guarantee::group::delta_by_lemma;
use crate::guarantee::redaction::Redaction;
use crate::guarantee::{Base, ByDirection, Convention, Guarantee, Method, Notion};
use crate::loss::{PrivacyLoss, Query, losses};
use crate::numeric::interval::LnBounds;
use crate::quantity::bound::{Bounds, Upper};
use crate::quantity::error::Result;
use crate::quantity::{Delta, Epsilon, GroupSize, Tolerance};

impl Plan {
    /// Returns the rows of [`Plan::guarantees`] for a given ε instead of the plan's δ: in each row, `epsilon` is at
    /// most the given one, `delta` is the certified upper end of δ there, and `delta_bounds` has both ends.
    ///
    /// ```
    /// use reticent_accounting::{Delta, Epsilon, Mechanism, NoiseMultiplier, Plan, SamplingRate, Steps, UnitName};
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(10_000));
    /// let plan = Plan::new(run, UnitName::new("record")?, Delta::new(1e-5)?);
    /// let rows = plan.guarantees_at(Epsilon::new(5.192583445883)?)?;
    /// assert!((rows[0].delta.unwrap().get() / 1e-5 - 1.0).abs() < 1e-6);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Plan::guarantees`].
    pub fn guarantees_at(&self, epsilon: Epsilon) -> Result<Vec<Guarantee>> {
        let mut solvers = self.solvers(Query::single(self.neighbours))?;
        let (first, second) = tighter_first(
            self.delta_by_law(Notion::Dp, &mut solvers, epsilon)?,
            self.delta_by_renyi(&mut solvers, epsilon)?,
        )?;
        self.rows(
            vec![first, second],
            || self.group_at(&solvers, epsilon),
            |redaction, convention| self.redacted_at(redaction, convention, epsilon),
            |redaction, query| self.redacted_by_lemma_at(redaction, query, epsilon),
        )
    }

    /// Returns [`Plan::exactly`] for a given ε instead of the plan's δ.
    ///
    /// # Errors
    /// As [`Plan::guarantees`].
    pub fn exactly_at(&self, epsilon: Epsilon) -> Result<Guarantee> {
        let mut solvers = self.solvers(Query::single(self.neighbours))?;
        let row = if self.group == GroupSize::ONE {
            let law = self.delta_by_law(Notion::Dp, &mut solvers, epsilon)?;
            self.tighter(Ok(law), || self.delta_by_renyi(&mut solvers, epsilon))?
                .0
        } else {
            self.group_at(&solvers, epsilon)?.0
        };
        Ok(self.row_by_what_is_known(row))
    }

    /// Returns the rows of the group by its law and by the lemma from `single` records, the tighter one first.
    fn group_at(
        &self,
        single: &[Solver],
        epsilon: Epsilon,
    ) -> Result<(Guarantee, Option<Guarantee>)> {
        let query = Query::new(self.neighbours, self.group);
        let of_group = |row: Result<Guarantee>| {
            row.map(|row| Guarantee {
                group: Some(self.group),
                ..row
            })
        };
        let law = self
            .solvers(query)
            .and_then(|mut solvers| self.delta_by_law(Notion::GroupDp, &mut solvers, epsilon));
        self.tighter(of_group(law), || {
            of_group(self.delta_by_lemma(single, epsilon))
        })
    }

    /// Returns a row with its δ filled in.
    fn with_delta(row: Guarantee, epsilon: Epsilon, delta: Bounds<Delta>) -> Guarantee {
        Guarantee {
            epsilon: Some(Bounds::at_most(epsilon)),
            delta: delta.upper.map(Upper::into_inner),
            delta_bounds: Some(delta),
            ..row
        }
    }

    fn delta_by_law(
        &self,
        notion: Notion,
        solvers: &mut [Solver],
        epsilon: Epsilon,
    ) -> Result<Guarantee> {
        let answers = self.deltas(solvers, epsilon)?;
        let delta_by_direction = match answers.as_slice() {
            [remove, add] => Some(ByDirection {
                remove: remove.bounds,
                add: add.bounds,
            }),
            _ => None,
        };
        let worst = larger_delta(&answers)?;
        let row = self.row(notion, self.neighbours, Method::Pld);
        Ok(Guarantee {
            engine: Some(worst.engine),
            looseness: worst.looseness,
            delta_by_direction,
            ..Self::with_delta(row, epsilon, worst.bounds)
        })
    }

    fn deltas(&self, solvers: &[Solver], epsilon: Epsilon) -> Result<Vec<Answer<Delta>>> {
        solvers
            .iter()
            .map(|solver| solver.loss.delta(epsilon, self.tolerance))
            .collect()
    }

    fn delta_by_renyi(&self, solvers: &mut [Solver], epsilon: Epsilon) -> Result<Guarantee> {
        let mut worst = (0.0, None);
        for solver in solvers {
            let (delta, order) = solver.delta_by_renyi(epsilon.get())?;
            if delta >= worst.0 {
                worst = (delta, order);
            }
        }
        let row = self.row(Notion::Dp, self.neighbours, Method::Rdp);
        let delta = Bounds::at_most(Delta::clamped(worst.0));
        Ok(Guarantee {
            order: worst.1,
            ..Self::with_delta(row, epsilon, delta)
        })
    }

    /// Returns the row of the group by the lemma, from its single records.
    fn delta_by_lemma(&self, solvers: &[Solver], epsilon: Epsilon) -> Result<Guarantee> {
        let directions = solvers.iter().map(|solver| &solver.loss);
        let most = delta_by_lemma(directions, self.group, epsilon, self.tolerance)?;
        let row = self.row(Notion::GroupDp, self.neighbours, Method::GroupLemma);
        Ok(Self::with_delta(row, epsilon, Bounds::below(most)))
    }

    /// Returns the redaction rows of one convention at ε'.
    fn redacted_at(
        &self,
        redaction: Redaction,
        convention: Convention,
        epsilon: Epsilon,
    ) -> Result<Vec<Guarantee>> {
        let query = self.redaction_query(convention);
        let mut solvers = self.solvers(query)?;
        let row = |method| Guarantee {
            convention,
            ..self.redaction_row(redaction, Notion::BayesianConfidentiality, query, method)
        };
        let mut rows = Vec::new();
        if let (Some(with), Some(without)) = (solvers.first(), solvers.last()) {
            let exact =
                redaction.exact_delta(&with.loss, &without.loss, epsilon, self.tolerance)?;
            rows.push(Guarantee {
                engine: Some(exact.engine),
                looseness: exact.looseness,
                ..Self::with_delta(row(Method::Pld), epsilon, exact.bounds)
            });
        }
        let base = redaction.base_epsilon_within(epsilon)?;
        let by_law = larger_delta(&self.deltas(&solvers, base)?)?;
        rows.push(Guarantee {
            base: Some(Base::Pld),
            engine: Some(by_law.engine),
            looseness: by_law.looseness,
            ..Self::with_delta(
                row(Method::Proposition6),
                epsilon,
                upper_shrunk(redaction, by_law.bounds),
            )
        });
        let by_renyi = self.delta_by_renyi(&mut solvers, base)?;
        let renyi = by_renyi.delta_bounds.unwrap_or(Bounds::UNKNOWN);
        rows.push(Guarantee {
            base: Some(Base::Rdp),
            order: by_renyi.order,
            ..Self::with_delta(
                row(Method::Proposition6),
                epsilon,
                upper_shrunk(redaction, renyi),
            )
        });
        if convention == Convention::Definition {
            let plain = larger_delta(&self.deltas(&solvers, epsilon)?)?;
            rows.push(Guarantee {
                engine: Some(plain.engine),
                ..Self::with_delta(
                    self.informed_row(redaction, query, Method::Pld),
                    epsilon,
                    upper_shrunk(redaction, plain.bounds),
                )
            });
        }
        Ok(rows)
    }

    /// Returns [`Plan::redacted_by_lemma`] at ε'.
    fn redacted_by_lemma_at(
        &self,
        redaction: Redaction,
        query: Query,
        epsilon: Epsilon,
    ) -> Result<Vec<Guarantee>> {
        let directions = losses(&self.mechanism, Query::single(query.neighbours))?;
        let at = |base: Epsilon| -> Result<Bounds<Delta>> {
            let most = delta_by_lemma(&directions, self.group, base, self.tolerance)?;
            let most = Bounds::below(most);
            Ok(upper_shrunk(redaction, most))
        };
        let (notion, method) = (Notion::BayesianConfidentiality, Method::Proposition6);
        let unknown = Guarantee {
            base: Some(Base::GroupLemma),
            ..self.redaction_row(redaction, notion, query, method)
        };
        let informed = self.informed_row(redaction, query, Method::GroupLemma);
        let base = redaction.base_epsilon_within(epsilon)?;
        Ok(vec![
            Self::with_delta(unknown, epsilon, at(base)?),
            Self::with_delta(informed, epsilon, at(epsilon)?),
        ])
    }
}

/// Returns (γ − η)δ + η at the upper end. It is unknown whether a miss depends on the secret, so there is no lower end.
fn upper_shrunk(redaction: Redaction, delta: Bounds<Delta>) -> Bounds<Delta> {
    let shrunk = |end: Upper<Delta>| Bounds::at_most(redaction.shrunk(end.into_inner()));
    delta.upper.map_or(Bounds::UNKNOWN, shrunk)
}

/// Returns the larger of the directions, end by end.
fn larger_delta(answers: &[Answer<Delta>]) -> Result<Answer<Delta>> {
    larger(answers, (Some(0.0), 1.0), |delta| Ok(Delta::clamped(delta)))
}

impl Redaction {
    /// Returns δ' at ε' for an uninformed adversary, exactly on the dominating pair: the larger of η + (γ−η) H_a(P‖Q),
    /// a = (e^{ε'} − 1 + γ)/(γ − η), and c·H_b(Q‖P), c = 1 − e^{ε'}(1 − γ), b = e^{ε'}(γ − η)/c.
    ///
    /// Bound: both ends. For the inverse see [`Redaction::exact_epsilon`].
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if the pair's own δ can't be certified.
    pub fn exact_delta(
        &self,
        with: &PrivacyLoss,
        without: &PrivacyLoss,
        epsilon: Epsilon,
        tolerance: Tolerance,
    ) -> Result<Answer<Delta>> {
        let (gamma, eta) = (self.miss().get(), self.missed_by_both().get());
        let e = epsilon.get();
        if e == f64::INFINITY || gamma <= eta {
            // Of what only one policy misses, only infinite losses are left; nothing is left if every miss is shared by
            // both policies.
            let mut rest = (0.0, 0.0);
            if gamma > eta {
                let infinite = with.delta(epsilon, tolerance)?.bounds;
                rest = infinite.low().zip(infinite.high()).unwrap_or((0.0, 1.0));
            }
            let part = |share: f64| Delta::clamped(eta + (gamma - eta) * share);
            let upper = Delta::clamped(part(rest.1).get() * (1.0 + 4.0 * f64::EPSILON));
            return Ok(Answer {
                bounds: Bounds::between(part(rest.0), upper),
                engine: Engine::Closed,
                looseness: None,
            });
        }
        let goal = 0.5 * tolerance.get();
        let ln_a = if e < 1.0 {
            (e.exp_m1() + gamma).ln()
        } else {
            e + (-(1.0 - gamma) * (-e).exp()).ln_1p()
        } - (gamma - eta).ln();
        let (forward, engine) = around(with, ln_a, goal)?;
        let mut lower = eta + (gamma - eta) * forward.lower.exp();
        let mut upper = eta + (gamma - eta) * forward.upper.exp();
        let c = -(e + (-gamma).ln_1p()).exp_m1();
        let mut used = engine;
        if c > 0.0 {
            let ln_b = e + (gamma - eta).ln() - c.ln();
            let (reverse, engine) = around(without, ln_b, goal)?;
            lower = lower.max(c * reverse.lower.exp());
            upper = upper.max(c * reverse.upper.exp());
            used = used.coarser(engine);
        }
        let room = 1.0 + 1e-13;
        let looseness = Solver::new(with).looseness((lower, upper), used, tolerance.get());
        Ok(Answer {
            bounds: Bounds::between(Delta::clamped(lower / room), Delta::clamped(upper * room)),
            engine: used,
            looseness,
        })
    }
}

/// Returns ln δ at an ε known up to a few rounding errors: since δ falls, the upper end is taken slightly before ε and
/// the lower end slightly after it.
fn around(loss: &PrivacyLoss, epsilon: f64, goal: f64) -> Result<(LnBounds, Engine)> {
    let mut solver = Solver::new(loss);
    let error = 16.0 * f64::EPSILON * (1.0 + epsilon.abs());
    let (before, engine) = solver.ln_delta(epsilon - error, goal)?;
    let (after, other) = solver.ln_delta(epsilon + error, goal)?;
    let ends = LnBounds {
        lower: after.lower,
        middle: before.middle,
        upper: before.upper.min(0.0),
    };
    Ok((ends, engine.coarser(other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Mechanism;
    use crate::quantity::neighbours::Neighbours;
    use crate::quantity::{MissRate, NoiseMultiplier, SamplingRate, Steps, Tolerance, UnitName};

    fn plan(sigma: f64, q: f64, steps: u64) -> Plan {
        let sigma = NoiseMultiplier::new(sigma).unwrap();
        let run = Mechanism::dp_sgd(sigma, SamplingRate::new(q).unwrap(), Steps::new(steps));
        let mut plan = Plan::new(
            run,
            UnitName::new("turn").unwrap(),
            Delta::new(1e-5).unwrap(),
        );
        plan.tolerance = Tolerance::new(1e-9).unwrap();
        plan
    }

    /// Where the loss of one record ends, the lemma has nothing left to multiply; what is lost without bound stays at ε = ∞.
    #[test]
    fn the_lemma_ends_where_the_loss_of_one_record_does() {
        let mut plan = plan(1.0, 0.01, 100);
        plan.group = GroupSize::new(3).unwrap();
        // Adding a record loses −100 ln 0.99 at most.
        for (epsilon, least, most) in [(3.0, 1e-7, 1e-4), (3.02, 1e-7, 1e-4), (9.0, 1e-12, 1e-9)] {
            let rows = plan.guarantees_at(Epsilon::new(epsilon).unwrap()).unwrap();
            let lemma = |row: &&Guarantee| row.method == Method::GroupLemma;
            let delta = rows.iter().find(lemma).unwrap().delta.unwrap().get();
            assert!((least..most).contains(&delta), "{epsilon}: {delta:e}");
        }
        plan.group = GroupSize::ONE;
        plan.neighbours = Neighbours::Replace;
        plan.mechanism = Mechanism::ApproxDp {
            epsilon: Epsilon::new(1.0).unwrap(),
            delta: Delta::new(0.01).unwrap(),
            neighbours: Neighbours::Replace,
        };
        plan.redaction = Some(Redaction::single_policy(MissRate::new(0.1).unwrap()));
        for mechanism in [
            plan.mechanism.clone(),
            Mechanism::NonPrivate {
                why: "plain".into(),
            },
        ] {
            plan.mechanism = mechanism;
            let at = |epsilon: f64| plan.guarantees_at(Epsilon::new(epsilon).unwrap()).unwrap();
            for (finite, infinite) in at(1e300).iter().zip(at(f64::INFINITY)) {
                let of = |row: &Guarantee| row.delta.unwrap().get();
                assert!(
                    of(&infinite) >= of(finite) * (1.0 - 1e-9),
                    "{infinite:?} {finite:?}"
                );
            }
        }
    }

    /// Rows with an ε at δ, asked again at that ε: δ must come back, up to the slope.
    #[test]
    fn every_row_answers_the_question_turned_round() {
        let mut plan = plan(1.1, 0.01, 1000);
        plan.group = GroupSize::new(3).unwrap();
        let (miss, joint) = (MissRate::new(0.1).unwrap(), MissRate::new(1e-6).unwrap());
        plan.redaction = Some(Redaction::new(miss, joint).unwrap());
        for row in plan.guarantees().unwrap() {
            let epsilon = *row.epsilon.unwrap().upper.unwrap().get();
            let back = plan.guarantees_at(epsilon).unwrap();
            let key = |g: &Guarantee| (g.notion, g.method, g.base, g.convention);
            let same = back.iter().find(|g| key(g) == key(&row)).unwrap();
            let delta = same.delta.unwrap().get();
            // The lemma at a given ε divides it evenly, which is also what the search does.
            assert!(delta <= 1e-5 * (1.0 + 1e-6), "{row:?} {same:?}");
            assert!(delta >= 1e-5 * (1.0 - 1e-4), "{row:?} {same:?}");
            if let Some(lower) = same.delta_bounds.unwrap().lower {
                assert!(lower.get().get() <= delta);
            }
        }
    }

    #[test]
    fn nothing_released_and_nothing_protected() {
        let mut plan = plan(1.0, 1.0, 1);
        plan.redaction = Some(Redaction::single_policy(MissRate::new(0.1).unwrap()));
        let at = |plan: &Plan, e: f64| plan.guarantees_at(Epsilon::new(e).unwrap()).unwrap();
        let infinite = at(&plan, f64::INFINITY);
        assert!(
            infinite
                .iter()
                .all(|row| row.delta.unwrap().get() <= 1e-300),
            "{infinite:?}"
        );
        plan.mechanism = Mechanism::Sequence { parts: Vec::new() };
        assert!(
            at(&plan, 0.0)
                .iter()
                .all(|row| row.delta.unwrap().get() <= 1e-9)
        );
        plan.mechanism = Mechanism::NonPrivate {
            why: "plain".into(),
        };
        let bare = at(&plan, 3.0);
        assert!((bare[0].delta.unwrap().get() - 1.0).abs() < 1e-12);
        assert!((bare[1].delta.unwrap().get() - 1.0).abs() < 1e-12);
    }
}
