//! The trade-off curve as a value: certified points, with concavity between them.

use crate::engine::Engine;
use crate::loss::{Direction, PrivacyLoss, Query, losses};
use crate::mechanism::Mechanism;
use crate::quantity::bound::{Bounds, Lower, Upper};
use crate::quantity::error::Result;
use crate::quantity::{Probability, Tolerance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Relative rounding error of a chord or tangent.
const SLACK: f64 = 8.0 * f64::EPSILON;

/// One certified point: the best TPR at an FPR lies between two ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TradeOffPoint {
    /// False-positive rate α.
    pub fpr: Probability,
    /// The best test's TPR is at least this.
    pub tpr_lower: Lower<Probability>,
    /// No test's TPR exceeds this.
    pub tpr_upper: Upper<Probability>,
}

/// B(α) = 1 − f(α) of one direction at ascending α.
///
/// B is increasing and concave with B(0) ≥ 0, B(1) = 1: chords between lower ends lie below it,
/// chords extended beyond two points lie above it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TradeOffCurve {
    /// Which law comes first.
    pub direction: Direction,
    points: Vec<TradeOffPoint>,
}

/// The trade-off curve of a run for one question: the directions side by side, since the
/// larger of two concave functions need not be concave.
///
/// ```
/// use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, Probability, Query, Tolerance};
/// use reticent_accounting::trade_off::TradeOff;
/// let plain = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(1.0)? };
/// let rates = [1e-3, 1e-2, 0.1, 0.5].map(|p| Probability::new(p).unwrap());
/// let curve = TradeOff::of(&plain, Query::single(Neighbours::AddRemove), &rates, Tolerance::DEFAULT)?;
/// let misses = curve.false_negative_rate(Probability::new(0.05)?)?;
/// // Φ(Φ⁻¹(0.95) − 1) = 0.7405 lies between.
/// assert!(misses.lower.unwrap().get().get() < 0.7405 && misses.upper.unwrap().get().get() > 0.7405);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TradeOff {
    /// What was asked.
    pub query: Query,
    /// The engine of the coarsest point.
    pub engine: Engine,
    curves: Vec<TradeOffCurve>,
}

impl TradeOff {
    /// Returns the curve of `mechanism` for `query`, certified at each of `rates`.
    ///
    /// # Errors
    /// As [`PrivacyLoss::of`] and [`PrivacyLoss::blow_up`].
    pub fn of(
        mechanism: &Mechanism,
        query: Query,
        rates: &[Probability],
        tolerance: Tolerance,
    ) -> Result<Self> {
        let mut engine = Engine::Closed;
        let mut curves = Vec::new();
        for (loss, direction) in losses(mechanism, query)?.iter().zip(Direction::BOTH) {
            let (curve, coarsest) = TradeOffCurve::of(loss, direction, rates, tolerance)?;
            engine = engine.coarser(coarsest);
            curves.push(curve);
        }
        Ok(Self {
            query,
            engine,
            curves,
        })
    }

    /// Returns one curve for each direction of the question.
    #[must_use]
    pub fn curves(&self) -> &[TradeOffCurve] {
        &self.curves
    }

    /// Returns both ends of the largest TPR at FPR at most `fpr`, over the directions.
    ///
    /// # Errors
    /// None for a rate in range; kept for symmetry with the engines.
    pub fn true_positive_rate(&self, fpr: Probability) -> Result<Bounds<Probability>> {
        let (mut lower, mut upper) = (fpr.get(), fpr.get());
        for curve in &self.curves {
            lower = lower.max(curve.lower(fpr.get()));
            upper = upper.max(curve.upper(fpr.get()));
        }
        Ok(Bounds::between(
            Probability::new(lower.min(upper))?,
            Probability::new(upper)?,
        ))
    }

    /// Returns both ends of f(α), the smallest false-negative rate at FPR at most `fpr`; the lower end
    /// is the promise.
    ///
    /// # Errors
    /// None for a rate in range; kept for symmetry with the engines.
    pub fn false_negative_rate(&self, fpr: Probability) -> Result<Bounds<Probability>> {
        let tpr = self.true_positive_rate(fpr)?;
        let of = |tpr: f64| Probability::new(1.0 - tpr);
        Ok(Bounds {
            lower: tpr.high().map(of).transpose()?.map(Lower::new),
            upper: tpr.low().map(of).transpose()?.map(Upper::new),
        })
    }
}

impl TradeOffCurve {
    /// Returns the curve of one direction, with the coarsest engine that was needed.
    ///
    /// # Errors
    /// As [`PrivacyLoss::blow_up`].
    pub fn of(
        loss: &PrivacyLoss,
        direction: Direction,
        rates: &[Probability],
        tolerance: Tolerance,
    ) -> Result<(Self, Engine)> {
        let mut engine = Engine::Closed;
        // No chord joins two points at one rate.
        let mut rates = rates.to_vec();
        rates.sort_by(|a, b| a.get().total_cmp(&b.get()));
        rates.dedup();
        let mut points = Vec::with_capacity(rates.len());
        for fpr in rates {
            let answer = loss.true_positive_rate(fpr, tolerance)?;
            engine = engine.coarser(answer.engine);
            points.push(TradeOffPoint {
                fpr,
                tpr_lower: answer.bounds.lower.unwrap_or(Lower::new(fpr)),
                tpr_upper: answer
                    .bounds
                    .upper
                    .unwrap_or(Upper::new(Probability::new(1.0)?)),
            });
        }
        Ok((Self { direction, points }, engine))
    }

    /// Returns the certified points, in ascending order of FPR.
    #[must_use]
    pub fn points(&self) -> &[TradeOffPoint] {
        &self.points
    }

    /// Returns point `number`, counted from 1, as (α, lower, upper); number 0 is (0, ≥ 0), the one
    /// after the last is (1, 1).
    fn point(&self, number: usize) -> (f64, f64, f64) {
        match number.checked_sub(1).map(|i| self.points.get(i)) {
            None => (0.0, 0.0, 1.0),
            Some(None) => (1.0, 1.0, 1.0),
            Some(Some(p)) => (
                p.fpr.get(),
                p.tpr_lower.get().get(),
                p.tpr_upper.get().get(),
            ),
        }
    }

    /// Returns the number of the first point at α or beyond.
    fn next(&self, fpr: f64) -> usize {
        1 + self.points.partition_point(|p| p.fpr.get() < fpr)
    }

    /// Returns a lower end, never below an earlier lower end, the chord of the neighbours, or α itself.
    fn lower(&self, fpr: f64) -> f64 {
        let right = self.next(fpr);
        let (a, low_a, _) = self.point(right - 1);
        let (b, low_b, _) = self.point(right);
        let chord = if b > a {
            low_a + (fpr - a) / (b - a) * (low_b - low_a)
        } else {
            low_b
        };
        let exact = if b <= fpr { low_b } else { 0.0 };
        (chord * (1.0 - SLACK))
            .max(exact)
            .max(low_a)
            .max(fpr)
            .min(1.0)
    }

    /// Returns an upper end, never above a later upper end or the extended chord of two neighbours on
    /// one side.
    fn upper(&self, fpr: f64) -> f64 {
        let right = self.next(fpr);
        let (near, _, up) = self.point(right);
        if near <= fpr {
            return up;
        }
        let beyond = |near: usize, far: usize| {
            let ((a, _, up), (c, low, _)) = (self.point(near), self.point(far));
            let share = (fpr - a) / (a - c);
            up + share * (up - low)
        };
        let mut best = up;
        if right >= 2 {
            best = best.min(beyond(right - 1, right - 2));
        }
        if right <= self.points.len() {
            best = best.min(beyond(right, right + 1));
        }
        (best * (1.0 + SLACK)).clamp(fpr, 1.0)
    }
}
