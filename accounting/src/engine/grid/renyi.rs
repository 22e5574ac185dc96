//! Rényi and Kullback–Leibler divergences of any law: z ↦ z^c is convex, so the pair from above has the larger
//! moment and the pair from below the smaller.

use super::cells::Brackets;
use super::moments::Moments;
use crate::engine::contour::cumulants::CumulantFunction;
use crate::engine::contour::laws::LossPartition;
use crate::loss::loss_grid::{Lines, LossGrid};
use crate::loss::{Atoms, LossDistribution, WholeNumbers};
use crate::numeric::special::{ROUND, above_zero, ln_add_exp};
use crate::quantity::error::Result;

/// The relative accuracy of K: the conversions are far looser than this.
pub(crate) const ACCURACY: f64 = 1e-6;
/// ln of the relative error of the nodes for a moment.
const LN_ERROR: f64 = -40.0;
/// (Order − 1) at which a divergence is obtained from the moment.
const NEAR_ONE: f64 = 1e-7;
/// The largest (s/σ)² of a discrete Gaussian, and its largest 1/2σ², for which its moments are those of the Gaussian: σ
/// is at least 2.
const WIDE: f64 = 0.25;
const MOST_SPREAD: f64 = 0.125;
/// The number of cells for a moment that the nodes couldn't provide.
const MOST_CELLS: usize = 1 << 17;

impl LossDistribution {
    /// Returns the law in cells fine enough for its moment of order c, and ln of the P-mass cut off.
    fn fine_brackets(&self, order: f64) -> Result<(Brackets, f64)> {
        let ln_cut = self.cut_for(order);
        let moments = Moments::new(vec![(self.clone(), 1)], ln_cut)?;
        let size = moments.at(order).value.abs().max(1e-14);
        let wish = (8.0 * ACCURACY * size.min(1.0) / (order * (order - 1.0).max(1e-3))).sqrt();
        let spacing = match self.atom_gaps().first() {
            Some((gap, _)) if self.comb.is_some() => *gap,
            Some((gap, _)) if *gap > wish => gap / (gap / wish).ceil(),
            _ => wish,
        };
        let lines = Lines {
            origin: self.atom_origin(order, spacing),
            spacing,
        };
        let tilted = moments.tilted(0, order, |loss| lines.meets(loss, 0.0));
        let allowed = tilted.allowance(spacing);
        let masses = [(tilted, allowed)];
        let loss_grid = LossGrid::new(lines, self.loss_range(ln_cut), &masses, MOST_CELLS)?;
        Ok((self.brackets(&loss_grid, ln_cut, 0.0)?, ln_cut))
    }

    /// Returns both ends of K(c) by the nodes of the contour.
    fn charted_moment(&self, order: f64) -> Result<(f64, f64)> {
        let (partition, nodes) = LossPartition::new(self, order, 0.0, LN_ERROR)?;
        let moment = nodes.moment(order);
        let error = moment.rounding + partition.moment_error(order, moment.ln);
        if error.is_nan() || error > 1.0 {
            return Err(CumulantFunction::out_of_reach());
        }
        Ok((moment.ln - error, moment.ln + error))
    }

    /// Returns whether the law, of discrete Gaussian noise, has the moments of a Gaussian.
    fn is_wide(&self, variance: f64) -> bool {
        let spread = match &self.atoms {
            Atoms::Whole(WholeNumbers::Gaussian { spread, .. }) => Some(*spread),
            _ => None,
        };
        variance <= WIDE || spread.is_some_and(|spread| spread <= MOST_SPREAD)
    }

    /// Returns both ends of K(c) = ln E_Q e^{cL}, c > 1.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if the moment reaches too far.
    pub(crate) fn ln_moment(&self, order: f64) -> Result<(f64, f64)> {
        if self.infinite > 0.0 {
            return Ok((f64::INFINITY, f64::INFINITY));
        }
        if let Some(range) = self.range {
            return Ok(crate::loss::range_moment(range, order));
        }
        if self.missing > 0.0 && self.variance.is_none() {
            // What was left out may have any loss.
            return Ok((0.0, f64::INFINITY));
        }
        if let Some((ln, error)) = self.closed_moment(order) {
            return Ok(((ln - error).max(0.0), above_zero(ln + error)));
        }
        if let Some(variance) = self.variance.filter(|variance| self.is_wide(*variance)) {
            // For a Gaussian on integers, K(c) is the Gaussian's plus ln of the ratio of Σ e^{−(x − cs)²/2σ²}
            // to Σ e^{−x²/2σ²}, by Poisson's summation at least −2.1·2e^{−2π²σ²}: below 1e-33 for σ ≥ 2.
            let plain = 0.5 * variance * order * (order - 1.0);
            let lower = plain * (1.0 - 1e-14) - 1e-33;
            return Ok((lower.max(0.0), plain * (1.0 + 1e-14)));
        }
        if let Ok((lower, upper)) = self.charted_moment(order) {
            let upper = match self.variance {
                Some(v) => 0.5 * v * order * (order - 1.0) * (1.0 + 1e-14),
                None => upper,
            };
            return Ok((lower.max(0.0), above_zero(upper)));
        }
        let (brackets, ln_cut) = match self.fine_brackets(order) {
            Ok(found) => found,
            // No loss exceeds the largest one.
            Err(error) => {
                return self
                    .at_most()
                    .map(|most| (0.0, (order - 1.0) * most))
                    .ok_or(error);
            }
        };
        let (above, below) = (&brackets.above, &brackets.below);
        // Sums of this many terms, each an exponential, with losses moved to their lines.
        let slack = |side: &super::cells::Lattice| {
            order * side.off() + ROUND * (64.0 + 2.0 * side.weights.len() as f64)
        };
        let (upper, lower) = (
            above.moment(order).0 + slack(above),
            below.moment(order).0 - slack(below),
        );
        let upper = ln_add_exp(upper, self.ln_moment_beyond(order, ln_cut));
        let upper = self
            .variance
            .map_or(upper, |v| 0.5 * v * order * (order - 1.0) * (1.0 + 1e-14));
        Ok((lower.max(0.0), above_zero(upper)))
    }

    /// Returns the largest loss, rounded up, if there is one.
    fn at_most(&self) -> Option<f64> {
        let most = above_zero(self.largest_loss()) * (1.0 + 1e-12);
        (most.is_finite() && self.missing <= 0.0).then_some(most)
    }

    /// Returns an upper bound on E_P[L].
    ///
    /// # Errors
    /// As [`LossDistribution::ln_moment`].
    pub(crate) fn divergence(&self) -> Result<f64> {
        if self.infinite > 0.0 || self.missing > 0.0 && self.variance.is_none() {
            return Ok(f64::INFINITY);
        }
        if let Some(range) = self.range {
            return Ok(crate::loss::range_divergence(range));
        }
        if let Some(variance) = self.variance {
            return Ok(0.5 * variance * (1.0 + 1e-14));
        }
        if let Some(divergence) = self.closed_divergence() {
            return Ok(divergence);
        }
        // K is convex and K(1) = 0, so its slope there is at most K(1 + h)/h. Such a small moment is known
        // accurately only for whole laws.
        if self.is_whole()
            && let Ok((_, upper)) = self.charted_moment(1.0 + NEAR_ONE)
        {
            return Ok(above_zero(upper) / ((1.0 + NEAR_ONE) - 1.0) * (1.0 + 1e-9));
        }
        let (brackets, ln_cut) = match self.fine_brackets(2.0) {
            Ok(found) => found,
            Err(error) => return self.at_most().ok_or(error),
        };
        let above = &brackets.above;
        let (mut sum, mut size) = (0.0, 0.0);
        for (index, w) in &above.weights {
            let loss = above.lines.at(*index);
            let mass = (w + loss).exp();
            sum += mass * loss;
            size += mass * loss.abs();
        }
        // Beyond the ends, L ≤ e^L.
        let beyond = self.ln_moment_beyond(2.0, ln_cut).exp();
        let rounding = ROUND * size * (64.0 + 2.0 * above.weights.len() as f64);
        Ok(above_zero(sum + above.off() + beyond + rounding))
    }
}

#[cfg(test)]
mod tests {
    use crate::mechanism::Mechanism;
    use crate::{Direction, Neighbours, NoiseMultiplier, PrivacyLoss, Query};

    /// Too many outcomes for nodes: they were put into cells at every order, which knew the moment to a millionth.
    #[test]
    fn wide_noise_on_whole_numbers_has_the_moments_of_a_gaussian() {
        let (sigma, shift) = (600.0f64, 1000u32);
        let run = Mechanism::DiscreteGaussian {
            sigma: NoiseMultiplier::new(sigma).unwrap(),
            sensitivity: shift,
        };
        let query = Query::single(Neighbours::AddRemove);
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let s = f64::from(shift);
        let ln_sum = |centre: f64| {
            let term = |x: i32| {
                let x = f64::from(x) + centre.round() - centre;
                (-x * x / (2.0 * sigma * sigma)).exp()
            };
            (-30_000..=30_000).map(term).sum::<f64>().ln()
        };
        for order in [1.001, 1.5, 3.0, 40.3] {
            let (low, high) = loss.laws[0].0.ln_moment(order).unwrap();
            let plain = 0.5 * order * (order - 1.0) * (s / sigma).powi(2);
            let truth = plain + ln_sum(order * s) - ln_sum(0.0);
            assert!(
                low <= truth + 1e-12 && truth - 1e-12 <= high,
                "{order} {truth}"
            );
            assert!(high - low <= 1e-12 * high, "{order} {low} {high}");
        }
    }
}
