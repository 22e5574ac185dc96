//! Proves ε(δ) and δ(ε) from the moments alone, at the best order.

use super::roots::ROOM;
use super::solver::Solver;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::engine::contour::kernel::Kernel;
use crate::numeric::search::{minimiser, minimiser_to};
use crate::numeric::special::above_zero;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, Order};

/// If the mean loss exceeds ε by more than this, Chernoff's bound on δ is one.
const TRIVIAL: f64 = 50.0;

impl Solver {
    /// Returns the least Rényi bound on ε at δ over orders, with its order: ε ≤ (K(c) + ln C(c) − ln δ)/(c −
    /// 1), where C is the constant of Canonne, Kamath and Steinke.
    pub(crate) fn renyi_epsilon(&mut self, delta: f64) -> Result<(f64, f64)> {
        if let Some(informed) = &mut self.more_informed {
            return informed.renyi_epsilon(delta);
        }
        if self.loss.is_stated() {
            return self.epsilon_of_stated(delta);
        }
        let ln_delta = (delta - self.loss.missing()).max(0.0).ln() - ROOM;
        if self.needs_grid() {
            return self.grid_renyi_epsilon(ln_delta);
        }
        let order = match self.start(ln_delta) {
            Ok((_, order)) => order,
            Err(_) => self.cumulants(1.0)?.highest,
        };
        let roomy = 1.0 + 1.5 * (order - 1.0);
        let ready = self.cumulants(roomy).is_ok();
        let cumulants = self.cumulants(if ready { roomy } else { 1.0 })?;
        let at = |c: f64, ln: f64| {
            let bound = (ln + Kernel::Excess.ln_chernoff(c) - ln_delta) / (c - 1.0);
            above_zero(bound)
        };
        let highest = (cumulants.highest - 1.0).ln();
        let centre = (order - 1.0).ln().min(highest);
        let rough = |t: f64| at(1.0 + t.exp(), cumulants.moment(1.0 + t.exp()).ln);
        let c = 1.0 + minimiser_to(rough, centre - 3.0, (centre + 1.5).min(highest), 1e-4).exp();
        let (total, _) = cumulants.certified(c);
        Ok((at(c, total.ln + total.error), c))
    }

    /// Computes [`PrivacyLoss::epsilon_by_rdp`] from what has already been charted.
    pub(crate) fn answer_by_rdp(
        &mut self,
        delta: Delta,
    ) -> Result<(Upper<Epsilon>, Option<Order>)> {
        if delta.get() >= 1.0 || self.loss.is_empty() {
            return Ok((Upper::new(Epsilon::new(0.0)?), None));
        }
        if self.loss.unbounded || delta.get() <= 0.0 {
            return Ok((Upper::new(Epsilon::new(f64::INFINITY)?), None));
        }
        // If no order can be certified, the steps' own guarantees still add up.
        let (epsilon, order) = match self.renyi_epsilon(delta.get()) {
            Ok((epsilon, order)) if epsilon.is_finite() => (epsilon, Order::new(order).ok()),
            _ => (self.basic_composition(delta.get().ln()), None),
        };
        Ok((Upper::new(Epsilon::new(round_up(epsilon))?), order))
    }

    /// Returns δ(ε) by Chernoff's bound at the best order, which is the Rényi bound; one if no moment can be
    /// certified.
    pub(crate) fn delta_by_renyi(&mut self, epsilon: f64) -> Result<(f64, Option<Order>)> {
        match self.delta_of_moments(epsilon) {
            Err(Error::NotCertified { .. }) => Ok((1.0, None)),
            found => found,
        }
    }

    /// Returns ln of Chernoff's bound on δ(ε) for losses that only the grid can handle, with its order; the
    /// mass missing from their moments has to be added.
    pub(super) fn ln_delta_by_moments(&mut self, epsilon: f64) -> Result<(f64, f64)> {
        // K is convex and e^{K(1)} the mass of finite losses, so that with the rest no order gives less than one minus
        // about e^{ε − E L}.
        let mean = self.moments().map_or(0.0, |moments| moments.at(1.0).first);
        if mean - epsilon > TRIVIAL {
            return Err(CumulantFunction::out_of_reach());
        }
        let constant = ln_constant(epsilon);
        self.least_by_moments(|c, ln| ln + constant(c))
    }

    fn delta_of_moments(&mut self, epsilon: f64) -> Result<(f64, Option<Order>)> {
        if self.loss.is_empty() {
            return Ok((0.0, None));
        }
        if self.loss.unbounded {
            return Ok((1.0, None));
        }
        if self.loss.is_stated() {
            let (ln_delta, order) = self.ln_delta_of_stated(epsilon)?;
            let delta = (ln_delta.exp() * (1.0 + 1e-12)).clamp(f64::MIN_POSITIVE, 1.0);
            return Ok((delta, order.and_then(|order| Order::new(order).ok())));
        }
        let missing = self.loss.missing();
        if self.needs_grid() {
            let (ln_delta, order) = self.ln_delta_by_moments(epsilon)?;
            let delta = (ln_delta.exp() * (1.0 + 1e-12) + missing).min(1.0);
            let delta = if delta.is_nan() {
                1.0
            } else {
                delta.max(f64::MIN_POSITIVE)
            };
            return Ok((delta, Order::new(order).ok()));
        }
        let cumulants = match self.cumulants_for(epsilon) {
            Ok(cumulants) => cumulants,
            Err(_) => self.cumulants(1.0)?,
        };
        let constant = ln_constant(epsilon);
        // The best order lies near the saddle.
        let highest = (cumulants.highest - 1.0).ln();
        let near = (cumulants.chernoff(epsilon).1 - 1.0)
            .max(1e-9)
            .ln()
            .min(highest);
        let rough = |t: f64| cumulants.moment(1.0 + t.exp()).ln + constant(1.0 + t.exp());
        let order = 1.0 + minimiser(rough, near - 1.0, (near + 1.0).min(highest)).exp();
        let total = cumulants.certified(order).0;
        let ln_delta = total.ln + total.error + constant(order);
        if ln_delta.is_nan() || ln_delta >= 0.0 {
            return Ok((1.0, None));
        }
        let delta = ln_delta.exp() * (1.0 + 1e-12) + missing;
        Ok((delta.max(f64::MIN_POSITIVE), Order::new(order).ok()))
    }
}

/// Returns ln of the factor on e^{K(c)} in Chernoff's bound on δ(ε), as a function of the order.
fn ln_constant(epsilon: f64) -> impl Fn(f64) -> f64 {
    move |c| Kernel::Excess.ln_chernoff(c) - epsilon * (c - 1.0)
}

/// Clamps at zero and rounds up by more than the formula's rounding errors; NaN stays NaN.
pub(crate) fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        0.0
    } else {
        value * (1.0 + 1e-13)
    }
}
