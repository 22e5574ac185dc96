//! The coarse path: certified at any number of steps, for use when the contour can't be certified.
//!
//! The upper end is Chernoff's bound at the best order (this is the Rényi bound with the conversion
//! of Canonne, Kamath and Steinke). For the lower end, most of the tilted law lies in a window in
//! which the averaged function is at least its value at one of the window's ends.

use super::cumulants::CumulantFunction;
use super::kernel::Kernel;
use crate::numeric::special::ln_one_minus_exp;

impl CumulantFunction {
    /// Returns ln of an upper bound on δ(ε), and the order that gives it.
    pub(crate) fn chernoff(&self, epsilon: f64) -> (f64, f64) {
        let bound = |c: f64| {
            let (total, _) = self.certified(c);
            let constant = Kernel::Excess.ln_chernoff(c);
            (total.ln + total.error + constant - epsilon * (c - 1.0), c)
        };
        let order = self.saddle(Kernel::Excess, epsilon).unwrap_or(self.highest);
        let best = bound(order);
        // At order one the bound is 1.
        if best.0 < 0.0 { best } else { (0.0, 1.0) }
    }

    /// Returns ln of a lower bound on δ(ε), or −∞.
    ///
    /// With P_c the law tilted to order c and a window [l, u], l > ε: δ = e^{K(c)} E_c[e^{−cL}(e^L
    /// − e^ε)₊] ≥ e^{K(c)} P_c(l ≤ L ≤ u) · min over the ends, and P_c misses the window by at most
    /// e^{K(c±θ) − K(c) ∓ θ·end} on either side.
    pub(crate) fn window(&self, epsilon: f64) -> f64 {
        let near = self.lean(Kernel::Excess, epsilon, None);
        let spread = self.moment(near).second.max(f64::MIN_POSITIVE).sqrt();
        let mut best: Option<(f64, Window)> = None;
        for lift in [1.2, 1.8, 2.6] {
            let order = self.lean(Kernel::Excess, epsilon + lift * spread, None);
            let tilted = self.moment(order);
            let deviation = tilted.second.max(f64::MIN_POSITIVE).sqrt();
            for half in [1.3, 1.6, 2.0, 2.5] {
                let window = Window {
                    order,
                    step: half / deviation,
                    low: (tilted.first - half * deviation).max(epsilon + 0.05 * deviation),
                    high: tilted.first + half * deviation,
                };
                if order + window.step > self.highest || order < window.step {
                    continue;
                }
                let value = window.value(epsilon, |c| (self.moment(c).ln, 0.0));
                if best.as_ref().is_none_or(|(most, _)| value > *most) {
                    best = Some((value, window));
                }
            }
        }
        // The window is chosen roughly and certified once.
        best.map_or(f64::NEG_INFINITY, |(_, window)| {
            window.value(epsilon, |c| {
                let (total, _) = self.certified(c);
                (total.ln, total.error)
            })
        })
    }
}

/// A window of losses [low, high] under the law tilted to `order`, with the step θ of its Chernoff
/// bounds.
struct Window {
    order: f64,
    step: f64,
    low: f64,
    high: f64,
}

impl Window {
    /// Returns ln of the lower bound on δ(ε), from K and a bound on its error.
    fn value(&self, epsilon: f64, moment: impl Fn(f64) -> (f64, f64)) -> f64 {
        let front = moment(self.order);
        let front = front.0 - front.1;
        let missed = |step: f64, end: f64| {
            let moved = moment(self.order + step);
            (moved.0 + moved.1 - front - step * end).exp()
        };
        let caught = 1.0 - missed(self.step, self.high) - missed(-self.step, self.low);
        let payoff = |loss: f64| (1.0 - self.order) * loss + ln_one_minus_exp(epsilon - loss);
        let value = front + caught.max(0.0).ln() + payoff(self.low).min(payoff(self.high));
        if value.is_nan() {
            f64::NEG_INFINITY
        } else {
            value
        }
    }
}
