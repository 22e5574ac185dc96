//! ε(δ): a search whose ends are both certified.

use super::solver::{Solver, TRIM};
use crate::contour::inversion::Contour;
use crate::contour::kernel::Kernel;
use crate::error::Result;
use crate::guarantee::Engine;

/// Both ends of ε; an unknown lower end is absent, an upper end may be infinite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) lower: Option<f64>,
    pub(crate) upper: f64,
    pub(crate) engine: Engine,
}

impl Found {
    const fn exactly(value: f64, engine: Engine) -> Self {
        Self {
            lower: Some(value),
            upper: value,
            engine,
        }
    }

    /// The tighter of two statements about the same ε.
    fn meet(self, other: Self) -> Self {
        let lower = match (self.lower, other.lower) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        Self {
            lower,
            upper: self.upper.min(other.upper),
            engine: other.engine,
        }
    }

    fn width(&self) -> f64 {
        self.upper - self.lower.unwrap_or(0.0)
    }
}

impl Solver {
    /// The smallest ε ≥ 0 with δ(ε) ≤ `delta`, both ends within a relative `tolerance` where
    /// the contour can certify that.
    pub(crate) fn epsilon(&mut self, delta: f64, tolerance: f64) -> Result<Found> {
        if delta >= 1.0 || self.loss.is_empty() {
            return Ok(Found::exactly(0.0, Engine::Closed));
        }
        if self.loss.unbounded {
            return Ok(Found {
                lower: None,
                upper: f64::INFINITY,
                engine: Engine::Closed,
            });
        }
        let most = self.largest_loss();
        if delta <= 0.0 {
            return Ok(Found::exactly(most, Engine::Closed));
        }
        let found = if self.closed.is_some() {
            self.epsilon_closed(delta.ln(), tolerance)
        } else {
            self.epsilon_open(delta, tolerance)?
        };
        // No loss exceeds its supremum, whatever the tail bounds say.
        Ok(Found {
            upper: found.upper.min(most),
            lower: found.lower.map(|low| low.min(most)),
            ..found
        })
    }

    /// The supremum of the composed loss, rounded up.
    fn largest_loss(&self) -> f64 {
        if self.loss.gaussian > 0.0 {
            return f64::INFINITY;
        }
        let parts = self.loss.parts.iter();
        parts
            .map(|(pair, times)| pair.loss_range().0 * *times as f64)
            .sum::<f64>()
            * (1.0 + 1e-13)
    }

    /// Bisection of a closed form: the upper end keeps δ ≤ `delta`, the lower end δ ≥ `delta`.
    fn epsilon_closed(&self, ln_delta: f64, tolerance: f64) -> Found {
        let Some(pair) = &self.closed else {
            return Found {
                lower: None,
                upper: f64::INFINITY,
                engine: Engine::Closed,
            };
        };
        let at = |epsilon: f64| pair.ln_delta_of_one_step(epsilon);
        let upper = bisect(|epsilon| at(epsilon).upper <= ln_delta, tolerance);
        let lower = bisect(|epsilon| at(epsilon).lower < ln_delta, tolerance);
        Found {
            lower: Some(lower.0),
            upper: upper.1,
            engine: Engine::Closed,
        }
    }

    fn epsilon_open(&mut self, delta: f64, tolerance: f64) -> Result<Found> {
        let mut trimmed = Self::new(&self.loss.trimmed(delta * tolerance * TRIM));
        let by_contour = trimmed.epsilon_by_contour(delta.ln(), tolerance);
        if let Ok(found) = by_contour
            && found.width() <= tolerance * found.upper
        {
            return Ok(found);
        }
        let coarse = trimmed.epsilon_coarse(delta)?;
        Ok(match by_contour {
            Ok(found) if found.width() < coarse.width() => coarse.meet(found),
            Ok(found) => found.meet(coarse),
            Err(_) => coarse,
        })
    }

    fn epsilon_by_contour(&mut self, ln_delta: f64, tolerance: f64) -> Result<Found> {
        let (guess, order) = self.start(ln_delta)?;
        if guess <= 0.0 || guess * (order - 1.0) < 1.0 {
            let (at_zero, engine) = self.ln_delta(0.0, tolerance)?;
            if at_zero.upper <= ln_delta {
                return Ok(Found::exactly(0.0, engine));
            }
        }
        let mut centre = guess.max(0.0);
        let mut best: Option<Found> = None;
        for attempt in 0..4 {
            let goal =
                tolerance * centre.max(1e-300) * (order - 1.0) / 8.0 / f64::powi(8.0, attempt);
            let contour = self.contour(centre, goal.clamp(1e-14, 1e-2))?;
            let found = self.certify(&contour, ln_delta, centre);
            let moved = found.lower.map_or(0.0, |low| 0.5 * (low + found.upper));
            let met = best.map_or(found, |before| before.meet(found));
            best = Some(met);
            if met.width() <= tolerance * met.upper {
                return Ok(met);
            }
            if moved.is_finite() {
                centre = moved;
            }
        }
        best.ok_or_else(crate::contour::scout::Scout::out_of_reach)
    }

    /// An ε near the answer with the order of its saddle, by the saddle-point approximation.
    ///
    /// ε and ln δ are both explicit in the order, and ln δ falls with it: bisect the order.
    fn start(&mut self, ln_delta: f64) -> Result<(f64, f64)> {
        let mut high = self.scout(1.0)?.highest;
        while self.approximate_at(high)?.1 > ln_delta {
            high = 1.0 + 3.0 * (high - 1.0);
            if high > super::solver::HIGHEST_ORDER {
                return Err(crate::contour::scout::Scout::out_of_reach());
            }
        }
        let (mut low, mut high) = ((1e-12f64).ln(), (high - 1.0).ln());
        while high - low > 1e-5 {
            let middle = 0.5 * (low + high);
            if self.approximate_at(1.0 + middle.exp())?.1 > ln_delta {
                low = middle
            } else {
                high = middle
            }
        }
        let order = 1.0 + high.exp();
        Ok((self.approximate_at(order)?.0, order))
    }

    /// Both ends of ε from one contour made near it.
    fn certify(&self, contour: &Contour, ln_delta: f64, start: f64) -> Found {
        let at = |epsilon: f64| self.read(contour, epsilon);
        let (root, slope) = secant(|epsilon| at(epsilon).middle - ln_delta, start, contour);
        let ends = at(root);
        let spread = |distance: f64| {
            (1.1 * distance.max(0.0) / slope)
                .max(1e-15 * root.abs())
                .max(1e-300)
        };
        let mut upper = f64::INFINITY;
        let mut step = spread(ends.upper - ends.middle);
        for _ in 0..60 {
            if at(root + step).upper <= ln_delta {
                upper = root + step;
                break;
            }
            step *= 1.5;
        }
        let mut lower = 0.0;
        let mut step = spread(ends.middle - ends.lower);
        for _ in 0..60 {
            if root - step <= 0.0 || at(root - step).lower >= ln_delta {
                lower = (root - step).max(0.0);
                break;
            }
            step *= 1.5;
        }
        Found {
            lower: Some(lower),
            upper: upper.max(0.0),
            engine: Engine::Contour,
        }
    }

    /// Both ends by the coarse path.
    fn epsilon_coarse(&mut self, delta: f64) -> Result<Found> {
        let upper = self.renyi_epsilon(delta)?.0;
        let ln_delta = delta.ln();
        // A thousandth of the answer is more than the coarse path can tell apart.
        let (mut low, mut high) = (0.0, upper);
        while high - low > 1e-3 * high {
            let middle = 0.5 * (low + high);
            let below = self
                .single_step(middle)
                .max(self.scout_for(middle)?.window(middle));
            if below >= ln_delta {
                low = middle
            } else {
                high = middle
            }
        }
        Ok(Found {
            lower: Some(low),
            upper,
            engine: Engine::Chernoff,
        })
    }

    /// The Rényi bound on ε at δ, least over orders, with the order:
    /// ε ≤ (K(c) + ln C(c) − ln δ)/(c − 1), C the constant of Canonne, Kamath and Steinke.
    pub(crate) fn renyi_epsilon(&mut self, delta: f64) -> Result<(f64, f64)> {
        let ln_delta = (delta - self.loss.missing()).max(0.0).ln();
        let order = match self.start(ln_delta) {
            Ok((_, order)) => order,
            Err(_) => self.scout(1.0)?.highest,
        };
        let scout = self
            .scout(1.0 + 1.5 * (order - 1.0))
            .or_else(|_| Err(crate::contour::scout::Scout::out_of_reach()));
        let scout = match scout {
            Ok(scout) => scout,
            Err(_) => self.scout(1.0)?,
        };
        let bound = |t: f64| {
            let c = 1.0 + t.exp();
            let total = scout.certified(c);
            let ln = total.ln + total.error + Kernel::Excess.ln_chernoff(c) - ln_delta;
            (ln / (c - 1.0)).max(0.0)
        };
        let highest = (scout.highest - 1.0).ln();
        let centre = (order - 1.0).ln().min(highest);
        let t = golden(bound, centre - 3.0, (centre + 1.5).min(highest));
        Ok((bound(t), 1.0 + t.exp()))
    }
}

/// The point between a false below and a true above, as both ends of a bracket of relative
/// width `tolerance`/8; doubling finds the first true.
fn bisect(holds: impl Fn(f64) -> bool, tolerance: f64) -> (f64, f64) {
    if holds(0.0) {
        return (0.0, 0.0);
    }
    let (mut low, mut high) = (0.0, 1e-12);
    while !holds(high) {
        low = high;
        high *= 4.0;
        if high > 1e300 {
            return (low, f64::INFINITY);
        }
    }
    while high - low > 0.125 * tolerance * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) {
            high = middle
        } else {
            low = middle
        }
    }
    (low, high)
}

/// A root of a decreasing function by the secant rule from `start`, with |slope| there.
fn secant(f: impl Fn(f64) -> f64, start: f64, contour: &Contour) -> (f64, f64) {
    let mut slope = (contour.order() - 1.0).abs().max(1e-3);
    let (mut x, mut y) = (start, f(start));
    for _ in 0..12 {
        let next = x + y / slope;
        let value = f(next);
        if !value.is_finite() {
            break;
        }
        let moved = next - x;
        if moved.abs() > 1e-14 * x.abs() {
            let local = (y - value) / moved;
            if local > 0.2 * slope && local < 5.0 * slope {
                slope = local;
            }
        }
        (x, y) = (next, value);
        if moved.abs() <= 2e-15 * x.abs() || y.abs() < 1e-15 {
            break;
        }
    }
    (x, slope)
}

/// A minimiser of a unimodal function on [low, high].
fn golden(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut a, mut b) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut fa, mut fb) = (f(a), f(b));
    for _ in 0..40 {
        if high - low < 1e-6 {
            break;
        }
        if fa < fb {
            high = b;
            (b, fb) = (a, fa);
            a = high - RATIO * (high - low);
            fa = f(a);
        } else {
            low = a;
            (a, fa) = (b, fb);
            b = low + RATIO * (high - low);
            fb = f(b);
        }
    }
    if fa < fb { a } else { b }
}
