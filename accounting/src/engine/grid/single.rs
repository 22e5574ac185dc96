//! A single step: δ(ε) = ∫ (p − e^ε q)₊ by quadrature from the crossing on, exact to rounding.

use crate::loss::loss_grid::LossGrid;
use crate::loss::{LossDistribution, Node};
use crate::numeric::interval::LnBounds;
use crate::numeric::special::{ln_add_exp, ln_one_minus_exp};
use crate::quantity::error::Result;

impl LossDistribution {
    /// Returns ln δ(ε) of a single step, for any real ε.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if the densities are too steep for the quadrature.
    pub(crate) fn ln_delta(&self, epsilon: f64, ln_cut: f64) -> Result<LnBounds> {
        let loss_grid = LossGrid::single(epsilon);
        let mut terms: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let dropped = self.discretise(ln_cut, Some(&loss_grid), &mut |node: Node| {
            for (terms, sign) in terms.iter_mut().zip([1.0, -1.0]) {
                let gap = node.loss + sign * (node.loss_error + 2.0 * f64::EPSILON * epsilon.abs())
                    - epsilon;
                if gap > 0.0 {
                    let ln_first = node.ln_second + sign * node.weight_error + epsilon + gap;
                    terms.push(ln_first + ln_one_minus_exp(-gap));
                }
            }
        })?;
        let [above, below] = terms.map(|terms| ln_sum(&terms));
        // Added in logarithms: dropped mass may underflow without being zero.
        let beyond = ln_add_exp((self.infinite + self.missing).ln(), dropped);
        let upper = ln_add_exp(above, beyond) + 1e-15;
        let lower = ln_add_exp(below, self.infinite_at_least().ln()) - 1e-15;
        Ok(LnBounds {
            lower,
            middle: if lower.is_finite() {
                0.5 * (lower + upper)
            } else {
                upper
            },
            upper,
        })
    }
}

/// Returns ln Σ e^t.
fn ln_sum(terms: &[f64]) -> f64 {
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    let mut sum = crate::numeric::sum::Sum::default();
    for term in terms {
        sum.add((term - top).exp());
    }
    top + sum.value().ln()
}

#[cfg(test)]
mod tests {
    use crate::loss::{Direction, PrivacyLoss, Query};
    use crate::mechanism::{Mechanism, Sampling};
    use crate::{Epsilon, Neighbours, NoiseMultiplier, SamplingRate, Steps, Tolerance};

    /// δ of one step of Laplace noise b at rate q: with x = (1 + b ln(1 + (e^ε − 1)/q))/2, where the loss is ε,
    /// q (1 − e^((x−1)/b)/2) − (q + e^ε − 1) e^(−x/b)/2.
    fn exact(b: f64, q: f64, epsilon: f64) -> f64 {
        let share = epsilon.exp_m1() / q;
        let x = 0.5 * (1.0 + b * share.ln_1p());
        q * (1.0 - 0.5 * ((x - 1.0) / b).exp() - 0.5 * (1.0 + share) * (-x / b).exp())
    }

    /// Gaussian noise never gives a δ of zero, below the smallest number either: a promise of zero would be one of pure
    /// differential privacy.
    #[test]
    fn no_delta_of_gaussian_noise_is_zero() {
        let without_replacement = |noise: f64| Mechanism::SubsampledGaussian {
            noise_multiplier: NoiseMultiplier::new(noise).unwrap(),
            sampling_rate: SamplingRate::new(0.1).unwrap(),
            sampling: Sampling::WithoutReplacement,
        };
        for (noise, times) in [(1.0, 1), (50.0, 1), (1.0, 2), (1.0, 30)] {
            let run = Mechanism::Repeat {
                times: Steps::new(times),
                each: Box::new(without_replacement(noise)),
            };
            let query = Query::single(Neighbours::Replace);
            let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let at = Epsilon::new(2000.0).unwrap();
            let found = loss.delta(at, Tolerance::DEFAULT).unwrap().bounds;
            let high = found.upper.unwrap().get().get();
            assert!(high > 0.0 && high < 1e-290, "{noise} {times}: {high}");
        }
    }

    /// However small the losses are, stretches end where the loss is ε.
    #[test]
    fn tiny_losses_of_one_step_are_cut_at_their_crossing() {
        for b in [0.3, 1.0, 10.0] {
            for q in [1e-3, 1e-6, 1e-8, 1e-9, 1e-11, 1e-13] {
                let most = q * f64::exp_m1(1.0 / b);
                for share in [0.0, 0.1, 0.5] {
                    let epsilon = (share * most).ln_1p();
                    let run = Mechanism::SubsampledLaplace {
                        scale: NoiseMultiplier::new(b).unwrap(),
                        sampling_rate: SamplingRate::new(q).unwrap(),
                        sampling: Sampling::Poisson,
                    };
                    let query = Query::single(Neighbours::AddRemove);
                    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
                    let at = Epsilon::new(epsilon).unwrap();
                    let found = loss.delta(at, Tolerance::new(1e-6).unwrap()).unwrap();
                    let low = found.bounds.lower.unwrap().get().get();
                    let high = found.bounds.upper.unwrap().get().get();
                    let truth = exact(b, q, epsilon);
                    // What is left of the formula's digits.
                    let room = 1e-13 * q / truth;
                    let case = format!("{b} {q} {share}: {low} {truth} {high}");
                    assert!(low <= truth * (1.0 + room), "{case}");
                    assert!(high >= truth * (1.0 - room), "{case}");
                    assert!(high <= low * (1.0 + 1e-6), "{case}");
                }
            }
        }
    }
}
