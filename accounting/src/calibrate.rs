//! The least noise that keeps a promise, found by bisection that ends on the safe side.

use crate::error::{Error, Result};
use crate::mechanism::Mechanism;
use crate::neighbours::Neighbours;
use crate::pld::solver::Solver;
use crate::pld::{Direction, PrivacyLoss, Query, losses};
use crate::quantity::{Delta, Epsilon, GroupSize, NoiseMultiplier, Probability, Tolerance};
use crate::redaction::Redaction;

/// What the noise has to achieve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// (ε, δ) for a question.
    Epsilon {
        /// Who is compared with whom.
        query: Query,
        /// ε at most this,
        epsilon: Epsilon,
        /// at this δ.
        delta: Delta,
    },
    /// (ε', δ) against an adversary who ignores the secret, in the notion's own neighbours.
    Stranger {
        /// The redaction policy.
        redaction: Redaction,
        /// Records of one secret.
        group: GroupSize,
        /// ε' at most this,
        epsilon: Epsilon,
        /// at this δ.
        delta: Delta,
    },
    /// A secret guessed with probability `prior` beforehand, with at most `posterior` after.
    Posterior {
        /// Records of one secret.
        group: GroupSize,
        /// The chance beforehand.
        prior: Probability,
        /// The chance allowed after training.
        posterior: Probability,
    },
    /// As [`Target::Posterior`], proved by Fano's inequality for the divergence: what the
    /// usual accounting would cost.
    PosteriorByKlFano {
        /// Records of one secret.
        group: GroupSize,
        /// The chance beforehand.
        prior: Probability,
        /// The chance allowed after training.
        posterior: Probability,
    },
}

/// Both ends of the bracket; [`Calibration::sigma`] is the answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// The promise is certified at this noise.
    pub sigma: NoiseMultiplier,
    /// It could not be certified at this one, a relative tolerance below.
    pub too_small: Option<NoiseMultiplier>,
}

const LEAST: f64 = 1e-3;
const MOST: f64 = 1e7;

/// The least σ at which `run` keeps the promise, to a relative `tolerance`.
///
/// Bound: the promise is certified at the answer. ε falls with σ for every mechanism here.
///
/// ```
/// use reticent_accounting::{Delta, Epsilon, Mechanism, Neighbours, Query, Tolerance};
/// use reticent_accounting::calibrate::{Target, calibrate};
/// let run = |noise_multiplier| Mechanism::Gaussian { noise_multiplier };
/// let target = Target::Epsilon {
///     query: Query::single(Neighbours::AddRemove),
///     epsilon: Epsilon::new(1.0)?,
///     delta: Delta::new(1e-5)?,
/// };
/// let found = calibrate(run, target, Tolerance::new(1e-9)?)?;
/// assert!((found.sigma.get() / 3.730631634815942 - 1.0).abs() < 2e-9);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// [`Error::OutOfRange`] for a posterior not above the prior or a target of ε = 0,
/// [`Error::Unsupported`] when no σ up to 1e7 suffices.
pub fn calibrate(
    run: impl Fn(NoiseMultiplier) -> Mechanism,
    target: Target,
    tolerance: Tolerance,
) -> Result<Calibration> {
    target.check()?;
    let holds = |sigma: f64| -> Result<bool> {
        let mechanism = run(NoiseMultiplier::new(sigma)?);
        match target.holds(&mechanism, tolerance) {
            // Too little noise to certify anything is too little noise.
            Err(Error::NotCertified { .. }) => Ok(false),
            other => other,
        }
    };
    let mut high = 1.0;
    while !holds(high)? {
        high *= 2.0;
        if high > MOST {
            return Err(Error::Unsupported {
                what: "this target".into(),
                why: format!("no noise multiplier up to {MOST:e} certifies it"),
            });
        }
    }
    let mut low = 0.5 * high;
    while low >= LEAST && holds(low)? {
        high = low;
        low *= 0.5;
    }
    if low < LEAST {
        return Ok(Calibration {
            sigma: NoiseMultiplier::new(high)?,
            too_small: None,
        });
    }
    while high - low > tolerance.get() * high {
        let middle = 0.5 * (low + high);
        if holds(middle)? {
            high = middle
        } else {
            low = middle
        }
    }
    Ok(Calibration {
        sigma: NoiseMultiplier::new(high)?,
        too_small: Some(NoiseMultiplier::new(low)?),
    })
}

impl Target {
    fn check(&self) -> Result<()> {
        match *self {
            Self::Epsilon { epsilon, .. } | Self::Stranger { epsilon, .. }
                if epsilon.get() <= 0.0 =>
            {
                Err(Error::OutOfRange {
                    what: "target epsilon",
                    range: "(0, inf]",
                    value: epsilon.get(),
                })
            }
            Self::Posterior {
                prior, posterior, ..
            }
            | Self::PosteriorByKlFano {
                prior, posterior, ..
            } if posterior <= prior => Err(Error::OutOfRange {
                what: "posterior",
                range: "(prior, 1]",
                value: posterior.get(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether the promise is certified for this mechanism.
    fn holds(&self, mechanism: &Mechanism, tolerance: Tolerance) -> Result<bool> {
        match *self {
            Self::Epsilon {
                query,
                epsilon,
                delta,
            } => {
                for loss in losses(mechanism, query)? {
                    if !delta_holds(&loss, epsilon.get(), delta, tolerance)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Stranger {
                redaction,
                group,
                epsilon,
                delta,
            } => {
                let query = Query {
                    neighbours: Neighbours::Replace,
                    group,
                };
                let loss = PrivacyLoss::of(mechanism, query, Direction::Remove)?;
                let answer = redaction.exact_epsilon(&loss, &loss, delta, tolerance)?;
                Ok(answer
                    .bounds
                    .upper
                    .is_some_and(|upper| *upper.get() <= epsilon))
            }
            Self::Posterior {
                group,
                prior,
                posterior,
            } => {
                let loss = PrivacyLoss::of(mechanism, zero_out(group), Direction::Remove)?;
                let answer = loss.blow_up(prior, tolerance)?;
                Ok(answer
                    .bounds
                    .upper
                    .is_some_and(|upper| *upper.get() <= posterior))
            }
            Self::PosteriorByKlFano {
                group,
                prior,
                posterior,
            } => {
                let loss = PrivacyLoss::of(mechanism, zero_out(group), Direction::Remove)?;
                Ok(*loss.kl_fano(prior)?.get() <= posterior)
            }
        }
    }
}

const fn zero_out(group: GroupSize) -> Query {
    Query {
        neighbours: Neighbours::ZeroOut,
        group,
    }
}

/// δ(ε) ≤ δ, certified at an accuracy that moves σ by less than the tolerance.
fn delta_holds(
    loss: &PrivacyLoss,
    epsilon: f64,
    delta: Delta,
    tolerance: Tolerance,
) -> Result<bool> {
    if epsilon == f64::INFINITY || delta.get() >= 1.0 {
        return Ok(true);
    }
    let (ends, _) = Solver::new(loss).ln_delta(epsilon, 0.1 * tolerance.get())?;
    Ok(ends.upper <= delta.get().ln())
}
