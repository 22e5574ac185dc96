//! Calibration targets, and the margin by which a mechanism reaches or misses them.

use crate::compose::Answer;
use crate::compose::solver::Solver;
use crate::guarantee::group::{delta_by_lemma, lemma_stands_in};
use crate::guarantee::rdp::epsilon_by_renyi;
use crate::guarantee::reconstruction::fano::bernoulli_divergence;
use crate::guarantee::redaction::Redaction;
use crate::loss::{Direction, Overlap, PrivacyLoss, Query, losses};
use crate::mechanism::Mechanism;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, GroupSize, Probability, Tolerance};

/// A promise that the parameter has to achieve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// (ε, δ) for a question: ε(δ) ≤ ε and δ(ε) ≤ δ are the same promise. With ε = 0 it bounds the membership
    /// advantage.
    Epsilon {
        /// Who is compared with whom.
        query: Query,
        /// ε at most this,
        epsilon: Epsilon,
        /// at this δ.
        delta: Delta,
    },
    /// (ε', δ) against an adversary without prior knowledge of the secret, for the notion's own neighbours.
    Uninformed {
        /// The redaction policy.
        redaction: Redaction,
        /// Records of one secret.
        group: GroupSize,
        /// ε' at most this,
        epsilon: Epsilon,
        /// at this δ.
        delta: Delta,
    },
    /// (ε, δ) as the Rényi curve proves it, at the best order.
    EpsilonByRenyi {
        /// Who is compared with whom.
        query: Query,
        /// ε at most this,
        epsilon: Epsilon,
        /// at this δ.
        delta: Delta,
    },
    /// (ε', δ) against an adversary without prior knowledge of the secret, by Proposition 6 on the Rényi curve.
    UninformedByRenyi {
        /// The redaction policy.
        redaction: Redaction,
        /// Who is compared with whom: by definition a replacement; the papers computed add-remove.
        query: Query,
        /// ε' at most this,
        epsilon: Epsilon,
        /// at this δ.
        delta: Delta,
    },
    /// A secret guessed with probability `prior` beforehand is guessed with at most `posterior` afterwards.
    Posterior {
        /// Records of one secret.
        group: GroupSize,
        /// The probability beforehand.
        prior: Probability,
        /// The probability allowed after training.
        posterior: Probability,
    },
    /// As [`Target::Posterior`], proved by Fano's inequality for the divergence: the cost under the usual
    /// accounting.
    PosteriorByKlFano {
        /// Records of one secret.
        group: GroupSize,
        /// The probability beforehand.
        prior: Probability,
        /// The probability allowed after training.
        posterior: Probability,
    },
    /// No membership test with an FPR of at most `fpr` has a TPR above `tpr`, in either direction.
    TruePositiveRate {
        /// Who is compared with whom.
        query: Query,
        /// The allowed false-positive rate.
        fpr: Probability,
        /// The allowed true-positive rate.
        tpr: Probability,
    },
    /// The probability that a uniform secret's exposure reaches `bits` is at most `probability`: exposure ≥ e
    /// means a rank within a share 2^−e of the candidates, so B(2^−e) ≤ p.
    Exposure {
        /// Records that contain the secret.
        group: GroupSize,
        /// Exposure in bits.
        bits: f64,
        /// The allowed probability.
        probability: Probability,
    },
}

/// The precision of the first evaluations: enough to see on which side far values lie.
pub(super) const ROUGH: f64 = 1e-3;
/// A promise kept by this logarithmic margin needs no precise evaluation.
const FAR: f64 = 3.0;

/// The logarithmic distance of a certified quantity above what is allowed: the promise is certified if `upper`
/// ≤ 0, and certainly broken if `lower` > 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Margin {
    pub(super) lower: f64,
    pub(super) upper: f64,
    /// Whether the run is only bounded, so that its lower end isn't used.
    pub(super) only_above: bool,
}

impl Margin {
    const KEPT: Self = Self {
        lower: f64::NEG_INFINITY,
        upper: f64::NEG_INFINITY,
        only_above: false,
    };
    pub(super) const BROKEN: Self = Self {
        lower: f64::INFINITY,
        upper: f64::INFINITY,
        only_above: false,
    };

    fn of(lower: f64, upper: f64, allowed: f64) -> Self {
        // The comparison of the numbers decides the sign, because their logarithms may round to the same value.
        let above = |value: f64| {
            let ln = value.ln() - allowed.ln();
            match value <= allowed {
                true if ln.is_nan() => f64::NEG_INFINITY,
                true => ln.min(0.0),
                false if ln.is_nan() => f64::INFINITY,
                false => ln.max(f64::MIN_POSITIVE),
            }
        };
        Self {
            lower: above(lower),
            upper: above(upper),
            only_above: false,
        }
    }

    fn worse(self, other: Self) -> Self {
        Self {
            lower: self.lower.max(other.lower),
            upper: self.upper.max(other.upper),
            only_above: self.only_above || other.only_above,
        }
    }
}

impl Target {
    pub(super) fn check(&self) -> Result<()> {
        let above_prior = |what: &'static str, range: &'static str, prior: f64, value: f64| {
            if value > prior {
                Ok(())
            } else {
                Err(Error::out_of_range(what, range, value))
            }
        };
        match *self {
            Self::Epsilon { epsilon, delta, .. } | Self::EpsilonByRenyi { epsilon, delta, .. }
                if epsilon.get() <= 0.0 =>
            {
                above_prior("target delta at epsilon 0", "(0, 1]", 0.0, delta.get())
            }
            Self::Uninformed { epsilon, .. } | Self::UninformedByRenyi { epsilon, .. } => {
                above_prior("target epsilon", "(0, inf]", 0.0, epsilon.get())
            }
            Self::Posterior {
                prior, posterior, ..
            }
            | Self::PosteriorByKlFano {
                prior, posterior, ..
            } => above_prior("posterior", "(prior, 1]", prior.get(), posterior.get()),
            Self::TruePositiveRate { fpr, tpr, .. } => above_prior(
                "true-positive rate",
                "(false-positive rate, 1]",
                fpr.get(),
                tpr.get(),
            ),
            Self::Exposure {
                bits, probability, ..
            } => {
                above_prior("exposure", "(0, 1074]", 0.0, bits)?;
                let share = share(bits)?.get();
                above_prior("probability", "(2^-exposure, 1]", share, probability.get())
            }
            Self::Epsilon { .. } | Self::EpsilonByRenyi { .. } => Ok(()),
        }
    }

    /// Returns the same promise about `group` records.
    pub(super) const fn with_group(self, group: GroupSize) -> Self {
        let mut target = self;
        match &mut target {
            Self::Epsilon { query, .. }
            | Self::EpsilonByRenyi { query, .. }
            | Self::UninformedByRenyi { query, .. }
            | Self::TruePositiveRate { query, .. } => {
                query.group = group;
            }
            Self::Uninformed { group: old, .. }
            | Self::Posterior { group: old, .. }
            | Self::PosteriorByKlFano { group: old, .. }
            | Self::Exposure { group: old, .. } => *old = group,
        }
        target
    }

    /// Returns the margin by which the mechanism misses the promise, certified to a relative `goal`. If the
    /// promise is kept by far and the goal is rough, the margin states only by how much it is kept at least.
    pub(super) fn margin(&self, mechanism: &Mechanism, goal: Tolerance) -> Result<Margin> {
        let by_law = self.margin_by_law(mechanism, goal);
        // For a group of records, the lemma may certify more than the group's law, or be all that is known.
        let tightened = matches!(self, Self::Epsilon { .. } | Self::Uninformed { .. });
        match by_law {
            Ok(margin)
                if tightened
                    && margin.upper > 0.0
                    && (margin.lower <= 0.0 || margin.only_above) =>
            {
                // If the lemma certifies nothing, what the law certifies stands.
                let lemma = self.by_lemma(mechanism, goal).ok().flatten();
                let tighter = lemma.filter(|lemma| lemma.upper < margin.upper);
                Ok(tighter.unwrap_or(margin))
            }
            Err(Error::Unsupported { .. }) if self.lemma_stands_in() => {
                match self.by_lemma(mechanism, goal) {
                    Ok(Some(margin)) => Ok(margin),
                    _ => by_law,
                }
            }
            by_law => by_law,
        }
    }

    fn lemma_stands_in(&self) -> bool {
        match self {
            Self::Epsilon { query, .. } => lemma_stands_in(query.neighbours),
            Self::Uninformed { group, .. } => lemma_stands_in(Query::replace(*group).neighbours),
            _ => false,
        }
    }

    /// Returns what the group lemma certifies for a group of records, for redacted ones by Proposition 6; `None` for
    /// other questions.
    fn by_lemma(&self, mechanism: &Mechanism, goal: Tolerance) -> Result<Option<Margin>> {
        let (query, epsilon, delta) = match *self {
            Self::Epsilon {
                query,
                epsilon,
                delta,
            } => (query, epsilon, delta),
            Self::Uninformed {
                redaction,
                group,
                epsilon,
                delta,
            } => match redaction.base_delta(delta) {
                Some(base) => (
                    Query::replace(group),
                    redaction.base_epsilon_within(epsilon)?,
                    base,
                ),
                None => return Ok(Some(Margin::BROKEN)),
            },
            _ => return Ok(None),
        };
        if query.group == GroupSize::ONE || delta.get() <= 0.0 {
            return Ok(None);
        }
        let directions = losses(mechanism, Query::single(query.neighbours))?;
        let most = delta_by_lemma(&directions, query.group, epsilon, goal)?;
        let most = most.get().get();
        // No lower end is known: a failure by less than the goal may hold at a finer goal.
        Ok(Some(Margin {
            lower: f64::NEG_INFINITY,
            only_above: true,
            ..Margin::of(most, most, delta.get())
        }))
    }

    fn margin_by_law(&self, mechanism: &Mechanism, goal: Tolerance) -> Result<Margin> {
        if let Some(known) = self.by_overlap(mechanism)? {
            return Ok(known);
        }
        if goal.get() >= ROUGH
            && let Some(far) = self.far(mechanism)?
        {
            return Ok(Margin {
                lower: far,
                upper: far,
                only_above: false,
            });
        }
        match self.try_margin(mechanism, goal) {
            // A value at which nothing can be certified doesn't keep the promise.
            Err(Error::NotCertified { .. }) => Ok(Margin::BROKEN),
            other => other,
        }
    }

    /// Returns a margin that holds for any noise, if it keeps the promise.
    fn by_overlap(&self, mechanism: &Mechanism) -> Result<Option<Margin>> {
        let most = |query: Query, bound: &dyn Fn(&Overlap) -> f64| -> Result<f64> {
            let mut most = 0.0f64;
            for loss in losses(mechanism, query)? {
                most = most.max(loss.overlap.as_ref().map_or(f64::INFINITY, bound));
            }
            Ok(most)
        };
        let (value, allowed) = match *self {
            Self::Epsilon {
                query,
                epsilon,
                delta,
            } => {
                let kept = |overlap: &Overlap| overlap.epsilon(delta.get());
                if most(query, &kept)? > epsilon.get() {
                    return Ok(None);
                }
                let excess = |overlap: &Overlap| overlap.ln_excess(epsilon.get()).exp();
                (most(query, &excess)?.min(delta.get()), delta.get())
            }
            Self::TruePositiveRate { query, fpr, tpr } => (
                most(query, &|overlap| overlap.blow_up(fpr.get()))?,
                tpr.get(),
            ),
            Self::Posterior {
                group,
                prior,
                posterior,
            } => (guessed(mechanism, group, prior)?, posterior.get()),
            Self::Exposure {
                group,
                bits,
                probability,
            } => (guessed(mechanism, group, share(bits)?)?, probability.get()),
            Self::Uninformed {
                redaction,
                group,
                epsilon,
                delta,
            } => {
                let loss = PrivacyLoss::of(mechanism, Query::replace(group), Direction::Remove)?;
                let bound = |overlap: Overlap| redaction.epsilon_by_overlap(overlap, delta);
                let bound = loss.overlap.map_or(f64::INFINITY, bound);
                (bound, epsilon.get())
            }
            // These targets ask for the number of a specific proof.
            Self::PosteriorByKlFano { .. }
            | Self::EpsilonByRenyi { .. }
            | Self::UninformedByRenyi { .. } => return Ok(None),
        };
        let margin = Margin::of(value, value, allowed);
        Ok((margin.upper <= 0.0).then_some(margin))
    }

    /// Returns a margin that is cheap to compute and far too high, if it shows that the promise holds by far;
    /// `None` otherwise.
    fn far(&self, mechanism: &Mechanism) -> Result<Option<f64>> {
        let margin = match *self {
            Self::Epsilon {
                query,
                epsilon,
                delta,
            } if delta.get() > 0.0 => {
                let ln_delta = delta.get().ln();
                let mut upper = f64::NEG_INFINITY;
                for loss in losses(mechanism, query)? {
                    let mut solver = Solver::new(&loss.trimmed(1e-3 * delta.get()));
                    // The coarse path handles Gaussian mixtures only; closed forms are cheaper.
                    if loss.unbounded || solver.needs_grid() || solver.closed.is_some() {
                        return Ok(None);
                    }
                    upper = upper.max(solver.coarse(epsilon.get()).upper);
                }
                upper - ln_delta
            }
            _ => f64::INFINITY,
        };
        Ok((margin < -FAR).then_some(margin))
    }

    fn try_margin(&self, mechanism: &Mechanism, goal: Tolerance) -> Result<Margin> {
        match *self {
            Self::Epsilon {
                query,
                epsilon,
                delta,
            } => worst(mechanism, query, |loss| {
                if epsilon.get() == f64::INFINITY || delta.get() >= 1.0 {
                    return Ok(Margin::KEPT);
                }
                // δ = 0 asks for the largest loss, which the search for ε finds.
                if delta.get() <= 0.0 {
                    return within(&loss.epsilon(delta, goal)?, epsilon.get());
                }
                within(&loss.delta(epsilon, goal)?, delta.get())
            }),
            Self::Uninformed {
                redaction,
                group,
                epsilon,
                delta,
            } => {
                let loss = PrivacyLoss::of(mechanism, Query::replace(group), Direction::Remove)?;
                margin_from_above(loss, |loss| {
                    within(
                        &redaction.exact_epsilon(loss, loss, delta, goal)?,
                        epsilon.get(),
                    )
                })
            }
            Self::EpsilonByRenyi {
                query,
                epsilon,
                delta,
            } => {
                let found = epsilon_by_renyi(mechanism, query, delta, None)?.into_inner();
                Ok(Margin::of(found.get(), found.get(), epsilon.get()))
            }
            Self::UninformedByRenyi {
                redaction,
                query,
                epsilon,
                delta,
            } => {
                let found =
                    epsilon_by_renyi(mechanism, query, delta, Some(redaction))?.into_inner();
                Ok(Margin::of(found.get(), found.get(), epsilon.get()))
            }
            Self::Posterior {
                group,
                prior,
                posterior,
            } => blow_up(mechanism, group, prior, posterior, goal),
            Self::Exposure {
                group,
                bits,
                probability,
            } => blow_up(mechanism, group, share(bits)?, probability, goal),
            Self::PosteriorByKlFano {
                group,
                prior,
                posterior,
            } => {
                let loss = PrivacyLoss::of_guesses(mechanism, group)?.0;
                let divergence = loss.divergence()?;
                let allowed = bernoulli_divergence(posterior, prior);
                let margin = Margin::of(*divergence.get(), *divergence.get(), allowed);
                // The promise is the resulting posterior, including rounding.
                let kept = *loss.kl_fano(prior)?.get() <= posterior;
                Ok(match (kept, margin.upper <= 0.0) {
                    (true, false) => Margin::of(0.0, allowed, allowed),
                    (false, true) => Margin {
                        upper: f64::MIN_POSITIVE,
                        ..margin
                    },
                    _ => margin,
                })
            }
            Self::TruePositiveRate { query, fpr, tpr } => worst(mechanism, query, |loss| {
                within(&loss.true_positive_rate(fpr, goal)?, tpr.get())
            }),
        }
    }
}

/// Returns the worst margin over the directions.
fn worst(
    mechanism: &Mechanism,
    query: Query,
    ask: impl Fn(&PrivacyLoss) -> Result<Margin>,
) -> Result<Margin> {
    let mut margin = Margin::KEPT;
    for loss in losses(mechanism, query)? {
        margin = margin.worse(margin_from_above(loss, &ask)?);
    }
    Ok(margin)
}

/// Returns a margin from what is known from above.
fn margin_from_above(
    loss: PrivacyLoss,
    ask: impl Fn(&PrivacyLoss) -> Result<Margin>,
) -> Result<Margin> {
    let loss = loss.without_below();
    let margin = ask(&loss)?;
    Ok(Margin {
        only_above: loss.bounds_only(),
        ..margin
    })
}

/// Compares an answer with what is allowed; an unknown upper end keeps no promise.
fn within<T: Copy + Into<f64>>(answer: &Answer<T>, allowed: f64) -> Result<Margin> {
    let lower = answer.bounds.low().unwrap_or(0.0);
    let upper = answer.bounds.high().unwrap_or(f64::INFINITY);
    Ok(Margin::of(lower, upper, allowed))
}

fn blow_up(
    mechanism: &Mechanism,
    group: GroupSize,
    prior: Probability,
    posterior: Probability,
    goal: Tolerance,
) -> Result<Margin> {
    let loss = PrivacyLoss::of_guesses(mechanism, group)?.0;
    margin_from_above(loss, |loss| {
        let found = loss.blow_up_beside(prior, goal, Some(posterior))?;
        within(&found, posterior.get())
    })
}

/// Returns the bound on a guess that holds for any noise.
fn guessed(mechanism: &Mechanism, group: GroupSize, prior: Probability) -> Result<f64> {
    let loss = PrivacyLoss::of_guesses(mechanism, group)?.0;
    Ok(loss.blow_up_without_noise(prior).get().get())
}

/// Returns 2^−bits, rounded up.
fn share(bits: f64) -> Result<Probability> {
    if !(bits > 0.0 && bits <= 1074.0) {
        return Err(Error::out_of_range("exposure", "(0, 1074]", bits));
    }
    Probability::new(((-bits).exp2() * (1.0 + 2.0 * f64::EPSILON)).min(1.0))
}
