//! The skew-normal extrapolation of an exposure, for spaces that cannot be enumerated.

use crate::error::{Result, positive, ranged};
use crate::exposure::null::integral;
use crate::normal::{ln_normal_cdf, ln_normal_density};
use argmin::core::{CostFunction, Executor};
use argmin::solver::brent::BrentOpt;
use reticent_accounting::Estimate;
use std::f64::consts::{LN_2, PI};

/// A skew-normal distribution of log-perplexities: density 2/ω φ(z) Φ(αz), z = (x − ξ)/ω.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkewNormal {
    /// α.
    pub shape: f64,
    /// ξ.
    pub location: f64,
    /// ω > 0.
    pub scale: f64,
}

/// The smallest number of costs to which a distribution is fitted.
const FEWEST: usize = 1000;

/// Largest share of costs that repeat another one.
const MOST_TIED: f64 = 0.01;

/// Kolmogorov's 1 % point: a fit whose distance from the sample exceeds this over √n is refused.
/// The parameters come from the sample, so a correct fit is refused less often than in 1 % of
/// cases.
const KOLMOGOROV: f64 = 1.628;

/// The negative log-likelihood of standardised costs as a function of α/√(1 + α²), with location
/// and scale chosen to match the sample's mean and variance.
struct Shape<'s>(&'s [f64]);

impl CostFunction for Shape<'_> {
    type Param = f64;
    type Output = f64;
    fn cost(&self, delta: &f64) -> std::result::Result<f64, argmin::core::Error> {
        let law = SkewNormal::standardised(*delta);
        Ok(-self.0.iter().map(|x| law.ln_density(*x)).sum::<f64>())
    }
}

impl SkewNormal {
    /// Returns the distribution with this δ = α/√(1 + α²), mean 0 and variance 1.
    fn standardised(delta: f64) -> Self {
        let mean = delta * (2.0 / PI).sqrt();
        let scale = (1.0 - mean * mean).sqrt().recip();
        Self {
            shape: delta / (1.0 - delta * delta).sqrt(),
            location: -scale * mean,
            scale,
        }
    }

    fn ln_density(&self, x: f64) -> f64 {
        let z = (x - self.location) / self.scale;
        LN_2 + ln_normal_density(z) + ln_normal_cdf(self.shape * z) - self.scale.ln()
    }

    /// Fits a sample of costs: the shape by maximum likelihood (Brent's method), location
    /// and scale by the sample's mean and variance.
    ///
    /// # Errors
    /// Returns the reason, in words, if there is no fit: fewer than 1000 costs, a cost that is not
    /// finite, costs without (finite) spread, more than 1 % that repeat another one (a discrete
    /// sample), a search that finds no shape, or a Kolmogorov distance above 1.628/√n (several peaks,
    /// another shape).
    pub fn fit(costs: &[f64]) -> std::result::Result<Self, String> {
        let n = costs.len() as f64;
        if costs.len() < FEWEST {
            return Err(format!(
                "{} costs are too few; {FEWEST} are needed",
                costs.len()
            ));
        }
        let mean = costs.iter().sum::<f64>() / n;
        let spread = (costs.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n).sqrt();
        if !(mean.is_finite() && spread.is_finite() && spread > 0.0) {
            return Err("the costs have no finite spread".to_owned());
        }
        let mut sorted: Vec<f64> = costs.iter().map(|c| (c - mean) / spread).collect();
        sorted.sort_by(f64::total_cmp);
        let tied = sorted.windows(2).filter(|w| w[1] <= w[0]).count() as f64 / n;
        if tied > MOST_TIED {
            return Err(format!(
                "the sample is discrete: {:.1} % of the costs occur more than once",
                100.0 * tied
            ));
        }
        let solver = BrentOpt::new(-0.9999, 0.9999);
        let found = Executor::new(Shape(&sorted), solver)
            .configure(|state| state.max_iters(100))
            .timer(false)
            .ctrlc(false)
            .run()
            .map_err(|error| format!("no shape was found: {error}"))?;
        let delta = found
            .state
            .best_param
            .ok_or("no shape was found".to_owned())?;
        let law = Self::standardised(delta);
        let distance = law.distance(&sorted);
        let most = KOLMOGOROV / n.sqrt();
        if distance > most {
            return Err(format!(
                "a skew-normal law does not fit: distance {distance:.4} where {most:.4} is allowed"
            ));
        }
        Ok(Self {
            shape: law.shape,
            location: mean + spread * law.location,
            scale: spread * law.scale,
        })
    }

    /// Returns the Kolmogorov distance between this distribution and a sorted sample.
    fn distance(&self, sorted: &[f64]) -> f64 {
        let n = sorted.len() as f64;
        // Accumulate the distribution function from one sample point to the next by Simpson's rule.
        let density = |x: f64| self.ln_density(x).exp();
        let mut below = self.ln_cdf((sorted[0] - self.location) / self.scale).exp();
        let mut largest = below.max((1.0 / n - below).abs());
        for (index, pair) in sorted.windows(2).enumerate() {
            let (a, b) = (pair[0], pair[1]);
            let middle = f64::midpoint(a, b);
            below += (b - a) / 6.0 * (density(a) + 4.0 * density(middle) + density(b));
            let (before, after) = ((index + 1) as f64 / n, (index + 2) as f64 / n);
            largest = largest
                .max((below - before).abs())
                .max((after - below).abs());
        }
        largest
    }

    /// Returns −log2 P(a candidate's log-perplexity is at most `x`), in bits: Carlini et al.'s
    /// exposure by a fitted distribution. It is an estimate: beyond the sample it relies on the fit
    /// alone, and discrete or multimodal scores do not follow the fit.
    ///
    /// The lower tail keeps its precision (Φ(z) − 2T(z, α) would cancel).
    ///
    /// ```
    /// let law = reticent_attacks::exposure::SkewNormal { shape: 4.0, location: 0.0, scale: 1.0 };
    /// assert!((law.exposure(-2.0)?.into_inner() - 58.852_446_58).abs() < 1e-6);
    /// # Ok::<(), reticent_attacks::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the scale is outside (0, ∞), or if another parameter is not finite.
    pub fn exposure(&self, x: f64) -> Result<Estimate<f64>> {
        positive("scale", self.scale)?;
        for value in [self.shape, self.location, x] {
            ranged("shape, location and x", "finite", value, value.is_finite())?;
        }
        let z = (x - self.location) / self.scale;
        Ok(Estimate::new(-self.ln_cdf(z) / LN_2))
    }

    /// Returns ln of the distribution function at a standardised point.
    fn ln_cdf(&self, z: f64) -> f64 {
        let ln_density = |t: f64| LN_2 + ln_normal_density(t) + ln_normal_cdf(self.shape * t);
        if z > 0.0 {
            // The part below 0 is known in closed form.
            let below = 0.5 - self.shape.atan() / PI;
            let rest = integral(0.0, z.min(40.0), |t| ln_density(t).exp());
            return (below + rest).min(1.0).ln();
        }
        // Relative to the largest value on the way down, in steps of the tail's own decay.
        let decay = 1.0 + z.abs() * (1.0 + self.shape * self.shape);
        let reach = 60.0 + 12.0 * decay;
        let top = (0..400)
            .map(|i| ln_density(z - f64::from(i) / 400.0 * reach / decay))
            .fold(f64::NEG_INFINITY, f64::max);
        let sum = integral(0.0, reach, |v| (ln_density(z - v / decay) - top).exp());
        top + (sum / decay).ln()
    }
}
