//! The skew-normal extrapolation of an exposure: for spaces that cannot be enumerated.

use crate::error::{Error, Result};
use crate::normal::{ln_normal_cdf, ln_normal_density};
use crate::null::integral;
use reticent_accounting::Estimate;
use std::f64::consts::{LN_2, PI};

/// A skew-normal law of log-perplexities: density 2/ω φ(z) Φ(αz), z = (x − ξ)/ω.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkewNormal {
    /// α.
    pub shape: f64,
    /// ξ.
    pub location: f64,
    /// ω > 0.
    pub scale: f64,
}

impl SkewNormal {
    /// −log2 P(a candidate's log-perplexity is at most `x`), bits: Carlini et al.'s exposure by
    /// a fitted law. An estimate: beyond the sample it rests on the law alone, and discrete or
    /// many-peaked scores do not follow it.
    ///
    /// The lower tail keeps its digits (Φ(z) − 2T(z, α) would cancel).
    ///
    /// ```
    /// let law = reticent_attacks::SkewNormal { shape: 4.0, location: 0.0, scale: 1.0 };
    /// assert!((law.exposure(-2.0)?.into_inner() - 58.852_446_58).abs() < 1e-6);
    /// # Ok::<(), reticent_attacks::Error>(())
    /// ```
    ///
    /// # Errors
    /// A scale outside (0, ∞), a parameter that is no finite number.
    pub fn exposure(&self, x: f64) -> Result<Estimate<f64>> {
        if !(self.scale > 0.0 && self.scale.is_finite()) {
            return Err(Error::out_of_range("scale", "(0, inf)", self.scale));
        }
        for value in [self.shape, self.location, x] {
            if !value.is_finite() {
                return Err(Error::out_of_range(
                    "shape, location and x",
                    "finite",
                    value,
                ));
            }
        }
        let z = (x - self.location) / self.scale;
        Ok(Estimate::new(-self.ln_cdf(z) / LN_2))
    }

    /// ln of the distribution function at a standardised place.
    fn ln_cdf(&self, z: f64) -> f64 {
        let ln_density = |t: f64| LN_2 + ln_normal_density(t) + ln_normal_cdf(self.shape * t);
        if z > 0.0 {
            // What lies below 0 is known in closed form.
            let below = 0.5 - self.shape.atan() / PI;
            let rest = integral(0.0, z.min(40.0), |t| ln_density(t).exp());
            return (below + rest).min(1.0).ln();
        }
        // Relative to the largest value on the way down; steps of the tail's own decay.
        let decay = 1.0 + z.abs() * (1.0 + self.shape * self.shape);
        let reach = 60.0 + 12.0 * decay;
        let top = (0..400)
            .map(|i| ln_density(z - f64::from(i) / 400.0 * reach / decay))
            .fold(f64::NEG_INFINITY, f64::max);
        let sum = integral(0.0, reach, |v| (ln_density(z - v / decay) - top).exp());
        top + (sum / decay).ln()
    }
}
