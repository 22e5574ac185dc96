//! Performance of the best membership test: TPR at a given FPR, accuracy, advantage.

use crate::compose::Answer;
use crate::compose::solver::Solver;
use crate::loss::{Direction, PrivacyLoss, Query, losses};
use crate::mechanism::Mechanism;
use crate::quantity::bound::{Bounds, Lower, Upper};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Probability, Tolerance};

/// Rounding error of the few operations after the engine.
const SLACK: f64 = 8.0 * f64::EPSILON;

impl PrivacyLoss {
    /// Returns H_{e^t}(P‖Q) = max over tests E of P(E) − e^t Q(E), for any real t; δ(ε) is the part t ≥ 0.
    ///
    /// Bound: both ends.
    ///
    /// ```
    /// use reticent_accounting::{Direction, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Query, Tolerance};
    /// let plain = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(1.0)? };
    /// let loss = PrivacyLoss::of(&plain, Query::single(Neighbours::AddRemove), Direction::Remove)?;
    /// let excess = loss.hockey_stick(-1.0, Tolerance::new(1e-9)?)?.bounds;
    /// // A symmetric pair: 1 − e^t + e^t δ(−t), with δ(1) from Balle and Wang 2018.
    /// let truth = 1.0 - (-1.0f64).exp() * (1.0 - 0.12693673750664394);
    /// assert!((excess.upper.unwrap().get().get() / truth - 1.0).abs() < 1e-12);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if t is NaN, and [`Error::NotCertified`] if not even the coarse path can be
    /// certified.
    pub fn hockey_stick(&self, ln_order: f64, tolerance: Tolerance) -> Result<Answer<Delta>> {
        if ln_order.is_nan() {
            return Err(Error::out_of_range(
                "logarithm of the order",
                "[-inf, inf]",
                ln_order,
            ));
        }
        let mut solver = Solver::new(self);
        let (ends, engine) = solver.ln_delta(ln_order, 0.5 * tolerance.get())?;
        let lower = (ends.lower.exp() * (1.0 - SLACK)).clamp(0.0, 1.0);
        // Below the smallest number, the upper end stays above zero unless it is exactly zero.
        let floor = if ends.upper == f64::NEG_INFINITY {
            0.0
        } else {
            f64::MIN_POSITIVE
        };
        let upper = (ends.upper.exp() * (1.0 + SLACK)).clamp(floor, 1.0);
        Ok(Answer {
            bounds: Bounds::between(Delta::new(lower)?, Delta::new(upper)?),
            engine,
            looseness: solver.looseness((lower, upper), engine, tolerance.get()),
        })
    }

    /// Returns the largest TPR of a test whose FPR is at most `fpr`: 1 − f(α) = B(α).
    ///
    /// Bound: both ends; FPR under the second law, TPR under the first.
    ///
    /// # Errors
    /// As [`PrivacyLoss::blow_up`].
    pub fn true_positive_rate(
        &self,
        fpr: Probability,
        tolerance: Tolerance,
    ) -> Result<Answer<Probability>> {
        self.blow_up(fpr, tolerance)
    }

    /// Returns the largest accuracy of a guess of the law that the output comes from, if it is the first law with
    /// probability π: (1 − π) + π H_{(1−π)/π}(P‖Q).
    ///
    /// Bound: both ends. At π = ½ it is (1 + TV)/2.
    ///
    /// # Errors
    /// As [`PrivacyLoss::hockey_stick`].
    pub fn accuracy(
        &self,
        prior: Probability,
        tolerance: Tolerance,
    ) -> Result<Answer<Probability>> {
        let pi = prior.get();
        // Always guessing the likelier law is correct this often.
        let blind = pi.max(1.0 - pi);
        let excess = self.hockey_stick((-pi).ln_1p() - pi.ln(), tolerance)?;
        let at = |h: f64| (1.0 - pi) + pi * h;
        let lower = excess.bounds.lower.map_or(0.0, |end| at(end.get().get()));
        let upper = excess.bounds.upper.map_or(1.0, |end| at(end.get().get()));
        let lower = (lower * (1.0 - SLACK)).max(blind * (1.0 - SLACK));
        let upper = (upper * (1.0 + SLACK)).clamp(blind, 1.0);
        Ok(Answer {
            bounds: Bounds::between(Probability::new(lower)?, Probability::new(upper)?),
            engine: excess.engine,
            looseness: excess.looseness,
        })
    }

    /// Returns the largest TPR − FPR of any test: the total variation distance δ(0).
    ///
    /// Bound: both ends. Source: Yeom et al. 2018 introduce it; Kairouz, Oh and Viswanath 2015 bound it.
    ///
    /// # Errors
    /// As [`PrivacyLoss::hockey_stick`].
    pub fn advantage(&self, tolerance: Tolerance) -> Result<Answer<Probability>> {
        let excess = self.hockey_stick(0.0, tolerance)?;
        let probability = |delta: Delta| Probability::new(delta.get());
        let lower = excess.bounds.lower.map(|end| probability(*end.get()));
        let upper = excess.bounds.upper.map(|end| probability(*end.get()));
        Ok(Answer {
            bounds: Bounds {
                lower: lower.transpose()?.map(Lower::new),
                upper: upper.transpose()?.map(Upper::new),
            },
            engine: excess.engine,
            looseness: excess.looseness,
        })
    }
}

/// Returns the largest TPR at FPR `fpr` for a question, whichever of the two inputs the attack calls positive: the
/// larger of the directions.
///
/// Bound: both ends; the upper end is the promise.
///
/// ```
/// use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, Probability, Query, Tolerance};
/// use reticent_accounting::trade_off::true_positive_rate;
/// let plain = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(0.5)? };
/// let query = Query::single(Neighbours::AddRemove);
/// let tpr = true_positive_rate(&plain, query, Probability::new(1e-3)?, Tolerance::new(1e-9)?)?;
/// // Φ(Φ⁻¹(0.001) + 2).
/// assert!((tpr.bounds.upper.unwrap().get().get() - 0.13780541289830023).abs() < 1e-9);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// As [`PrivacyLoss::of`] and [`PrivacyLoss::blow_up`].
pub fn true_positive_rate(
    mechanism: &Mechanism,
    query: Query,
    fpr: Probability,
    tolerance: Tolerance,
) -> Result<Answer<Probability>> {
    larger(&losses(mechanism, query)?, |loss| {
        loss.true_positive_rate(fpr, tolerance)
    })
}

/// Returns the largest accuracy of a guess whether the record is present, if it is with probability `prior`. The
/// direction with the record first suffices.
///
/// Bound: both ends; the upper end is the promise.
///
/// ```
/// use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, Probability, Query, Tolerance};
/// use reticent_accounting::trade_off::membership_accuracy;
/// let plain = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(1.0)? };
/// let query = Query::single(Neighbours::AddRemove);
/// let even = membership_accuracy(&plain, query, Probability::new(0.5)?, Tolerance::new(1e-9)?)?;
/// // Φ(μ/2) at even odds.
/// assert!((even.bounds.upper.unwrap().get().get() - 0.6914624612740131).abs() < 1e-12);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// As [`PrivacyLoss::of`] and [`PrivacyLoss::hockey_stick`].
pub fn membership_accuracy(
    mechanism: &Mechanism,
    query: Query,
    prior: Probability,
    tolerance: Tolerance,
) -> Result<Answer<Probability>> {
    PrivacyLoss::of(mechanism, query, Direction::Remove)?.accuracy(prior, tolerance)
}

/// Returns the membership advantage max TPR − FPR for a question: δ(0), the total variation distance.
///
/// Bound: both ends; the upper end is the promise.
///
/// # Errors
/// As [`PrivacyLoss::of`] and [`PrivacyLoss::hockey_stick`].
pub fn advantage(
    mechanism: &Mechanism,
    query: Query,
    tolerance: Tolerance,
) -> Result<Answer<Probability>> {
    larger(&losses(mechanism, query)?, |loss| loss.advantage(tolerance))
}

/// Returns both ends of the larger of the directions.
pub(crate) fn larger(
    losses: &[PrivacyLoss],
    ask: impl Fn(&PrivacyLoss) -> Result<Answer<Probability>>,
) -> Result<Answer<Probability>> {
    let mut worst: Option<Answer<Probability>> = None;
    for loss in losses {
        let answer = ask(loss)?;
        worst = Some(match worst {
            None => answer,
            Some(before) => Answer {
                bounds: Bounds {
                    lower: more(before.bounds.lower, answer.bounds.lower),
                    // An unknown upper end stays unknown.
                    upper: before
                        .bounds
                        .upper
                        .zip(answer.bounds.upper)
                        .map(|(a, b)| if a > b { a } else { b }),
                },
                engine: before.engine.coarser(answer.engine),
                looseness: before.looseness.or(answer.looseness),
            },
        });
    }
    worst.ok_or_else(|| Error::Unsupported {
        what: "a question without a direction".into(),
        why: "there is nothing to compare".into(),
    })
}

fn more(
    a: Option<Lower<Probability>>,
    b: Option<Lower<Probability>>,
) -> Option<Lower<Probability>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a > b { a } else { b }),
        (a, b) => a.or(b),
    }
}
