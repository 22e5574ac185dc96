//! Effect of redaction on a finished profile (CRT), applied once and last.
//!
//! A policy misses a secret with probability γ, given its carrier; a second, conservative policy, which
//! decides what counts as private, misses it too with probability η ≤ γ. Two questions follow, with one
//! type each:
//!
//! * [`BayesianUnknown`]: can an adversary without prior knowledge of the secret distinguish the run from
//!   one with `<MASK>` in its place? For planning. The answer bounds no posterior, no exposure and no audit
//!   that knows the secret, so nothing here turns it into a promise.
//! * [`BayesianKnown`]: the adversary may know the secret; only this type is compared with audits.
//!
//! Neither composes. Two phases amplified separately under-report (σ = 1 twice, γ = 0.1, ε = 2: true δ
//! 4.2e-4, nested 6.9e-6), so this does not compile:
//!
//! ```compile_fail,E0308
//! use reticent_accounting::pld::Profile;
//! use reticent_accounting::redaction::Redaction;
//! fn twice(redaction: Redaction, profile: &Profile) {
//!     let once = redaction.against_uninformed(profile);
//!     let again = redaction.against_uninformed(&once);
//! }
//! ```
//!
//! and neither does using a redacted profile among the losses that compose:
//!
//! ```compile_fail,E0308
//! use reticent_accounting::pld::Profile;
//! use reticent_accounting::{PrivacyLoss, Result};
//! use reticent_accounting::redaction::Redaction;
//! fn compose(redaction: Redaction, profile: &Profile, phase: &PrivacyLoss) -> Result<PrivacyLoss> {
//!     phase.then(&redaction.against_uninformed(profile))
//! }
//! ```

use crate::compose::solver::Solver;
use crate::compose::{Answer, Curve, Profile, ProfilePoint};
use crate::engine::Engine;
use crate::loss::{Overlap, PrivacyLoss};
use crate::numeric::special::{above_zero, ln_add_exp};
use crate::quantity::bound::{Bounds, Lower, Upper};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, MissRate, Tolerance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Steps of the search for ε' where nothing bounds it: the least one, per unit of tolerance, and the largest.
const NEAREST: f64 = 1e-3;
const FARTHEST: f64 = 1e3;

/// How often a redaction policy misses.
///
/// ```
/// use reticent_accounting::MissRate;
/// use reticent_accounting::redaction::Redaction;
/// let redaction = Redaction::new(MissRate::new(0.1)?, MissRate::new(0.001)?)?;
/// assert!(Redaction::new(MissRate::new(0.001)?, MissRate::new(0.1)?).is_err());
/// # let _ = redaction; Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Unchecked")]
pub struct Redaction {
    miss: MissRate,
    missed_by_both: MissRate,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    miss: MissRate,
    missed_by_both: MissRate,
}

impl TryFrom<Unchecked> for Redaction {
    type Error = Error;
    fn try_from(rates: Unchecked) -> Result<Self> {
        Self::new(rates.miss, rates.missed_by_both)
    }
}

impl Redaction {
    /// Creates a redaction from the miss rate γ of the policy and the share η of secrets that the
    /// conservative policy misses as well. Upper bounds on both are safe.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if η > γ.
    pub fn new(miss: MissRate, missed_by_both: MissRate) -> Result<Self> {
        if missed_by_both > miss {
            return Err(Error::out_of_range(
                "share missed by both policies",
                "[0, miss rate]",
                missed_by_both.get(),
            ));
        }
        Ok(Self {
            miss,
            missed_by_both,
        })
    }

    /// Creates a redaction with miss rate γ and everything private: no secret is missed by both policies.
    #[must_use]
    pub fn single_policy(miss: MissRate) -> Self {
        Self {
            miss,
            missed_by_both: MissRate::ZERO,
        }
    }

    /// Returns the miss rate γ.
    #[must_use]
    pub const fn miss(&self) -> MissRate {
        self.miss
    }

    /// Returns the share η missed by both policies.
    #[must_use]
    pub const fn missed_by_both(&self) -> MissRate {
        self.missed_by_both
    }

    /// Returns the δ at which to evaluate the base curve for a final `delta`: (δ − η)/(γ − η), at most 1;
    /// `None` if δ < η, where no finite ε holds.
    ///
    /// A common mistake is to use the final δ itself: at γ = 0.1 and ε = 1 that gives 0.1586 instead of
    /// 0.1124.
    #[must_use]
    pub fn base_delta(&self, delta: Delta) -> Option<Delta> {
        let (gamma, eta, delta) = (self.miss.get(), self.missed_by_both.get(), delta.get());
        if delta < eta {
            return None;
        }
        // Rounded down: a smaller base δ is safe.
        let share = (delta - eta) / (gamma - eta) * (1.0 - 4.0 * f64::EPSILON);
        Delta::new(if share < 1.0 { share } else { 1.0 }).ok()
    }

    /// Returns ε' = ln(1 + γ(e^ε − 1)), without overflow.
    ///
    /// ```
    /// use reticent_accounting::{Epsilon, MissRate};
    /// use reticent_accounting::redaction::Redaction;
    /// let redaction = Redaction::single_policy(MissRate::new(0.1)?);
    /// assert!((redaction.amplified(Epsilon::new(8.0)?).get() - 5.700429522135355).abs() < 1e-14);
    /// assert!((redaction.amplified(Epsilon::new(5000.0)?).get() - (5000.0 + 0.1f64.ln())).abs() < 1e-9);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn amplified(&self, epsilon: Epsilon) -> Epsilon {
        Epsilon::nonnegative(amplify(epsilon.get(), self.miss.get()))
    }

    /// Returns the base ε that is amplified to `target`: ln(1 + (e^{ε'} − 1)/γ), infinite for γ = 0.
    #[must_use]
    pub fn base_epsilon(&self, target: Epsilon) -> Epsilon {
        let (gamma, e) = (self.miss.get(), target.get());
        let value = if e < 1.0 {
            (e.exp_m1() / gamma).ln_1p()
        } else {
            // e^{ε'} − 1 + γ, divided by γ.
            e + (-(1.0 - gamma) * (-e).exp()).ln_1p() - gamma.ln()
        };
        Epsilon::nonnegative(value)
    }

    /// Returns [`Redaction::base_epsilon`] rounded down by more than its rounding errors, so that at most `target` results
    /// from it.
    pub(crate) fn base_epsilon_within(&self, target: Epsilon) -> Result<Epsilon> {
        Epsilon::new(self.base_epsilon(target).get() * (1.0 - 1e-14))
    }

    /// Returns δ' = (γ − η)δ + η, rounded up.
    #[must_use]
    pub fn shrunk(&self, delta: Delta) -> Delta {
        self.shrunk_by(delta, 1.0 + 2.0 * f64::EPSILON)
    }

    fn shrunk_by(&self, delta: Delta, rounding: f64) -> Delta {
        let (gamma, eta) = (self.miss.get(), self.missed_by_both.get());
        Delta::clamped(((gamma - eta) * delta.get() + eta) * rounding)
    }

    /// Applies Proposition 6 (Theorem 8.3 with η > 0) to a whole profile: (ε, δ) ↦ (ln(1 + γ(e^ε − 1)), (γ
    /// − η)δ + η).
    ///
    /// Bound: both ends of the base are transformed. Source: CRT Prop. 6; the reverse direction holds
    /// because the base holds in both.
    #[must_use]
    pub fn against_uninformed(&self, base: &Profile) -> BayesianUnknown {
        let points = self.shrink(base, |epsilon| self.amplified(epsilon));
        BayesianUnknown {
            redaction: *self,
            points,
        }
    }

    /// Applies redaction against an adversary who may know the secret: (ε, δ) ↦ (ε, (γ − η)δ + η), without
    /// amplification of ε.
    ///
    /// Bound: upper; the lower ends hold if a miss is independent of everything else.
    #[must_use]
    pub fn against_informed(&self, base: &Profile) -> BayesianKnown {
        let points = self.shrink(base, |epsilon| epsilon);
        BayesianKnown {
            redaction: *self,
            points,
        }
    }

    fn shrink(&self, base: &Profile, map: impl Fn(Epsilon) -> Epsilon) -> Vec<ProfilePoint> {
        let point = |p: &ProfilePoint| ProfilePoint {
            epsilon: map(p.epsilon),
            delta_lower: Lower::new(self.shrunk_by(*p.delta_lower.get(), 1.0 - 2.0 * f64::EPSILON)),
            delta_upper: Upper::new(self.shrunk(*p.delta_upper.get())),
        };
        base.points().iter().map(point).collect()
    }

    /// Returns ε' at `delta` for an uninformed adversary, exactly on the dominating pair and in both
    /// directions: forward δ = η + (γ−η) H_a(P‖Q) with a = (e^{ε'} − 1 + γ)/(γ − η), so that ε' = ln(1 −
    /// γ + (γ−η) e^{ε(δ_base)}); reverse δ = c·H_b(Q‖P) with c = 1 − e^{ε'}(1 − γ) and b = e^{ε'}(γ − η)/c,
    /// zero when c ≤ 0.
    ///
    /// `with` is the direction with the secret first, `without` the one with the mask first; the symmetric
    /// replace pair serves as both. Bound: both ends. Source: CRT Prop. 6 and Theorem 8.3, without the
    /// slack of their η.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if the pair's own δ can't be certified.
    pub fn exact_epsilon(
        &self,
        with: &PrivacyLoss,
        without: &PrivacyLoss,
        delta: Delta,
        tolerance: Tolerance,
    ) -> Result<Answer<Epsilon>> {
        let mut solver = Solver::new(with);
        let base = match self.base_delta(delta) {
            Some(base_delta) => Some(solver.answer(base_delta, tolerance)?),
            None => None,
        };
        // If one pair serves both directions, it is solved once.
        if !std::ptr::eq(with, without) {
            solver = Solver::new(without);
        }
        self.exact_from(base, &mut solver, delta, tolerance)
    }

    /// Computes [`Redaction::exact_epsilon`] from the forward direction's answer at the base δ.
    pub(crate) fn exact_from(
        &self,
        base: Option<Answer<Epsilon>>,
        without: &mut Solver,
        delta: Delta,
        tolerance: Tolerance,
    ) -> Result<Answer<Epsilon>> {
        let Some(base) = base else {
            let none = Bounds::at_most(Epsilon::new(f64::INFINITY)?);
            return Ok(Answer {
                bounds: none,
                engine: Engine::Closed,
                looseness: None,
            });
        };
        // Rounded outwards.
        let lower = |end: f64| self.forward(end).max(0.0) * (1.0 - 1e-15);
        let upper = |end: f64| above_zero(self.forward(end)) * (1.0 + 1e-15);
        let lower = base.bounds.low().map_or(0.0, lower);
        let upper = base.bounds.high().map_or(f64::INFINITY, upper);
        let answer = |high: f64| -> Result<Answer<Epsilon>> {
            let bounds = Bounds::between(Epsilon::new(lower)?, Epsilon::new(high)?);
            Ok(Answer {
                bounds,
                engine: base.engine,
                looseness: base.looseness,
            })
        };
        let goal = 0.5 * tolerance.get();
        let ln_delta = delta.get().ln();
        if upper == f64::INFINITY || self.reverse(without, upper, goal)? <= ln_delta {
            return answer(upper);
        }
        // The reverse direction determines the answer: it vanishes at −ln(1 − γ).
        let (mut low, mut high) = (upper, -(-self.miss.get()).ln_1p() * (1.0 + 1e-15));
        // If every secret is missed, it vanishes nowhere, but both directions have almost the same answer.
        let mut step = tolerance.get() * upper.max(NEAREST);
        while high == f64::INFINITY && step < FARTHEST {
            if self.reverse(without, low + step, goal)? <= ln_delta {
                high = low + step;
            } else {
                low += step;
                step *= 2.0;
            }
        }
        while high - low > 0.25 * tolerance.get() * high {
            let middle = 0.5 * (low + high);
            if self.reverse(without, middle, goal)? <= ln_delta {
                high = middle
            } else {
                low = middle
            }
        }
        answer(high)
    }

    /// Returns a bound on [`Redaction::exact_epsilon`] of a symmetric pair that holds for any noise.
    pub(crate) fn epsilon_by_overlap(&self, overlap: Overlap, delta: Delta) -> f64 {
        let Some(base) = self.base_delta(delta) else {
            return f64::INFINITY;
        };
        let epsilon = overlap.epsilon(base.get());
        let forward = above_zero(self.forward(epsilon)) * (1.0 + 1e-15);
        let reverse = self.reversed(forward, |ln_order| Ok(overlap.ln_excess(ln_order)));
        if reverse.is_ok_and(|ln| ln <= delta.get().ln()) {
            return forward;
        }
        // At the first ε' the reverse direction vanishes; the second is that of Proposition 6.
        let vanishes = -(-self.miss.get()).ln_1p() * (1.0 + 1e-15);
        vanishes.min(amplify(epsilon, self.miss.get()))
    }

    /// Returns ln(1 − γ + (γ − η) e^ε).
    fn forward(&self, epsilon: f64) -> f64 {
        let (gamma, eta) = (self.miss.get(), self.missed_by_both.get());
        if epsilon < 1.0 {
            ((gamma - eta) * epsilon.exp_m1() - eta).ln_1p()
        } else {
            ln_add_exp((-gamma).ln_1p(), (gamma - eta).ln() + epsilon)
        }
    }

    /// Returns ln of an upper bound on the reverse direction's δ at ε'.
    fn reverse(&self, without: &mut Solver, epsilon: f64, goal: f64) -> Result<f64> {
        self.reversed(epsilon, |ln_order| {
            Ok(without.ln_delta(ln_order, goal)?.0.upper)
        })
    }

    fn reversed(&self, epsilon: f64, ln_excess: impl FnOnce(f64) -> Result<f64>) -> Result<f64> {
        let (gamma, eta) = (self.miss.get(), self.missed_by_both.get());
        let c = -(epsilon + (-gamma).ln_1p()).exp_m1();
        if c <= 0.0 {
            return Ok(f64::NEG_INFINITY);
        }
        let ln_b = epsilon + (gamma - eta).ln() - c.ln();
        Ok(c.ln() + ln_excess(ln_b)?)
    }
}

/// Returns ln(1 + γ(e^ε − 1)), rounded up.
fn amplify(epsilon: f64, gamma: f64) -> f64 {
    let value = if epsilon < 1.0 {
        (gamma * epsilon.exp_m1()).ln_1p()
    } else {
        ln_add_exp((-gamma).ln_1p(), gamma.ln() + epsilon)
    };
    value * (1.0 + 4.0 * f64::EPSILON)
}

/// A Bayesian profile against an adversary without prior knowledge of the secret. For planning only.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BayesianUnknown {
    redaction: Redaction,
    points: Vec<ProfilePoint>,
}

impl BayesianUnknown {
    /// Returns both ends of ε' at the final `delta`; the upper end is absent if no point reaches it.
    ///
    /// # Errors
    /// None for a δ in range.
    pub fn epsilon(&self, delta: Delta) -> Result<Bounds<Epsilon>> {
        Curve::of(&self.points).epsilon(delta)
    }

    /// Returns the certified points (ε', δ').
    #[must_use]
    pub fn points(&self) -> &[ProfilePoint] {
        &self.points
    }

    /// Returns the redaction that was applied.
    #[must_use]
    pub const fn redaction(&self) -> Redaction {
        self.redaction
    }
}

/// A confidentiality profile against an adversary who may know the secret.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BayesianKnown {
    redaction: Redaction,
    points: Vec<ProfilePoint>,
}

impl BayesianKnown {
    /// Returns an upper bound on ε at the final `delta`; `None` if no point reaches it.
    ///
    /// # Errors
    /// None for a δ in range.
    pub fn epsilon(&self, delta: Delta) -> Result<Option<Upper<Epsilon>>> {
        Ok(Curve::of(&self.points).epsilon(delta)?.upper)
    }

    /// Returns the certified points (ε, δ').
    #[must_use]
    pub fn points(&self) -> &[ProfilePoint] {
        &self.points
    }

    /// Returns the redaction that was applied.
    #[must_use]
    pub const fn redaction(&self) -> Redaction {
        self.redaction
    }
}
