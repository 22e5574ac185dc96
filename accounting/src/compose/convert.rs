//! The questions δ(ε) and ε(δ), each answered with both ends.

use super::looseness::Looseness;
use super::solver::Solver;
use crate::engine::Engine;
use crate::loss::PrivacyLoss;
use crate::quantity::bound::Bounds;
use crate::quantity::error::Result;
use crate::quantity::{Delta, Epsilon, Tolerance};

/// An answer with the engine that computed it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer<T> {
    /// Both certified ends.
    pub bounds: Bounds<T>,
    /// The engine.
    pub engine: Engine,
    /// Why the ends are farther apart than requested, if they are.
    pub looseness: Option<Looseness>,
}

impl PrivacyLoss {
    /// Returns δ(ε) = H_{e^ε}(P‖Q) of the composed dominating pair in this direction.
    ///
    /// Bound: both ends; the upper end is a promise, the lower end says how tight it is. The ends are at most a
    /// relative `tolerance` apart if the contour certifies that; otherwise the coarse path answers and the
    /// [`Engine`] says so.
    ///
    /// ```
    /// use reticent_accounting::{Epsilon, Mechanism, Neighbours, NoiseMultiplier, Tolerance};
    /// use reticent_accounting::{Direction, PrivacyLoss, Query};
    /// let plain = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(1.0)? };
    /// let loss = PrivacyLoss::of(&plain, Query::single(Neighbours::AddRemove), Direction::Remove)?;
    /// let delta = loss.delta(Epsilon::new(1.0)?, Tolerance::new(1e-9)?)?;
    /// // Balle and Wang 2018: Φ(1/2 − ε) − e^ε Φ(−1/2 − ε).
    /// assert!((delta.bounds.upper.unwrap().get().get() - 0.12693673750664394).abs() < 1e-14);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if not even the coarse path can be certified.
    pub fn delta(&self, epsilon: Epsilon, tolerance: Tolerance) -> Result<Answer<Delta>> {
        let mut solver = Solver::new(self);
        let (ends, engine) = solver.ln_delta(epsilon.get(), 0.5 * tolerance.get())?;
        let lower = Delta::new(ends.lower.exp().clamp(0.0, 1.0))?;
        // Below the smallest number, the upper end stays above zero unless it is exactly zero.
        let floor = if ends.upper == f64::NEG_INFINITY {
            0.0
        } else {
            f64::MIN_POSITIVE
        };
        let upper = Delta::new((ends.upper.exp() * (1.0 + 4.0 * f64::EPSILON)).clamp(floor, 1.0))?;
        Ok(Answer {
            bounds: Bounds::between(lower, upper),
            engine,
            looseness: solver.looseness((lower.get(), upper.get()), engine, tolerance.get()),
        })
    }

    /// Returns the smallest ε ≥ 0 with δ(ε) ≤ `delta` in this direction.
    ///
    /// Bound: both ends, found by bisection that ends on the safe side: δ is certified to be at most `delta` at
    /// the upper end, and at least `delta` at the lower end.
    ///
    /// ```
    /// use reticent_accounting::{Delta, Mechanism, Neighbours, NoiseMultiplier, SamplingRate, Steps, Tolerance};
    /// use reticent_accounting::{Direction, PrivacyLoss, Query};
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(10_000));
    /// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), Direction::Remove)?;
    /// let epsilon = loss.epsilon(Delta::new(1e-5)?, Tolerance::new(1e-9)?)?.bounds;
    /// let (low, high) = (epsilon.lower.unwrap().get().get(), epsilon.upper.unwrap().get().get());
    /// assert!(low <= 5.192583445878 && 5.192583445878 <= high && high - low < 6e-9);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if not even the coarse path can be certified.
    pub fn epsilon(&self, delta: Delta, tolerance: Tolerance) -> Result<Answer<Epsilon>> {
        Solver::new(self).answer(delta, tolerance)
    }
}
