//! The coarse path: certified at any number of steps, for when the contour is not.
//!
//! Above: Chernoff's bound at the best order (this is the Rényi bound with the conversion of
//! Canonne, Kamath and Steinke). Below: most of the tilted law lies in a window, where the
//! averaged function is at least its value at one of the window's ends.

use super::kernel::Kernel;
use super::scout::Scout;
use crate::special::ln_one_minus_exp;

impl Scout {
    /// ln of an upper bound on δ(ε), and the order that gives it.
    pub(crate) fn chernoff(&self, epsilon: f64) -> (f64, f64) {
        let bound = |c: f64| {
            let total = self.certified(c);
            let constant = Kernel::Excess.ln_chernoff(c);
            (total.ln + total.error + constant - epsilon * (c - 1.0), c)
        };
        let order = self.saddle(Kernel::Excess, epsilon).unwrap_or(self.highest);
        let best = bound(order);
        // At order one the bound is 1.
        if best.0 < 0.0 { best } else { (0.0, 1.0) }
    }

    /// ln of a lower bound on δ(ε), or −∞.
    ///
    /// With P_c the law tilted to order c and a window [l, u], l > ε:
    /// δ = e^{K(c)} E_c[e^{−cL}(e^L − e^ε)₊] ≥ e^{K(c)} P_c(l ≤ L ≤ u) · min over the ends,
    /// and P_c misses the window by at most e^{K(c±θ) − K(c) ∓ θ·end} on either side.
    pub(crate) fn window(&self, epsilon: f64) -> f64 {
        let spread = self.moment(1.0).second.max(f64::MIN_POSITIVE).sqrt();
        let mut best = f64::NEG_INFINITY;
        for lift in [1.3, 1.8, 2.5, 3.5] {
            let order = self.lean(Kernel::Excess, epsilon + lift * spread);
            let tilted = self.moment(order);
            let deviation = tilted.second.max(f64::MIN_POSITIVE).sqrt();
            let front = self.certified(order);
            for half in [1.3, 1.6, 2.0, 2.5] {
                let low = (tilted.first - half * deviation).max(epsilon + 0.05 * deviation);
                let high = tilted.first + half * deviation;
                let mut missed = 0.0;
                for (side, end) in [(1.0, high), (-1.0, low)] {
                    let step = side * half / deviation;
                    if order + step > self.highest || order + step < 0.0 {
                        missed = 1.0;
                        break;
                    }
                    let moved = self.certified(order + step);
                    let exponent = moved.ln + moved.error - (front.ln - front.error) - step * end;
                    missed += exponent.exp();
                }
                let least = |l: f64| (1.0 - order) * l + ln_one_minus_exp(epsilon - l);
                let value = front.ln - front.error
                    + (1.0 - missed).max(0.0).ln()
                    + least(low).min(least(high));
                best = best.max(value);
            }
        }
        best
    }
}
