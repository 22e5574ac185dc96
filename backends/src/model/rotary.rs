//! Rotary positions (Su et al. 2021): pairs of a head's values are rotated by angles proportional to the position.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rotary positions. Value i of the first half of what is turned of a head and value i of its second
/// half form a pair, turned by position × frequency i.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotary {
    /// Base θ: frequency i is θ^(−2i / width) before scaling.
    pub theta: f64,
    /// How the frequencies are stretched for long contexts.
    pub scaling: Option<RotaryScaling>,
    /// How many of a head's first values are turned; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// The base of sliding layers, whose frequencies are not stretched; that of all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_theta: Option<f64>,
}

/// A stretching of rotary frequencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RotaryScaling {
    /// Every frequency divided by the factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3: low frequencies divided by the factor, high ones kept, those between mixed.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths above `original / low` are low frequencies.
        low: f64,
        /// Wavelengths below `original / high` are high frequencies.
        high: f64,
        /// The context before stretching.
        original: f64,
    },
}

impl Rotary {
    /// Rotary positions with this base, for whole heads and the same in all layers.
    #[must_use]
    pub const fn new(theta: f64) -> Self {
        Self {
            theta,
            scaling: None,
            width: None,
            local_theta: None,
        }
    }

    /// Those of a layer, sliding or not.
    pub(super) fn of(&self, sliding: bool) -> Self {
        let local = self.local_theta.filter(|_| sliding);
        Self {
            theta: local.unwrap_or(self.theta),
            scaling: self.scaling.clone().filter(|_| local.is_none()),
            width: self.width,
            local_theta: None,
        }
    }

    /// How many of a head's first values are turned.
    #[must_use]
    pub fn turned(&self, head_width: usize) -> usize {
        self.width.unwrap_or(head_width)
    }

    /// Frequencies in radians per position, one for each pair of turned values.
    #[must_use]
    pub fn frequencies(&self, head_width: usize) -> Vec<f64> {
        let width = self.turned(head_width);
        let plain = |i: usize| self.theta.powf(-((2 * i) as f64) / width as f64);
        (0..width / 2).map(|i| self.scaled(plain(i))).collect()
    }

    /// Returns cosine and sine of each pair's angle at a position.
    #[must_use]
    pub fn turns(&self, head_width: usize, position: usize) -> Vec<(f64, f64)> {
        self.frequencies(head_width)
            .into_iter()
            .map(|frequency| {
                let (sine, cosine) = (frequency * position as f64).sin_cos();
                (cosine, sine)
            })
            .collect()
    }

    fn scaled(&self, frequency: f64) -> f64 {
        match self.scaling {
            None => frequency,
            Some(RotaryScaling::Linear { factor }) => frequency / factor,
            Some(RotaryScaling::Llama3 {
                factor,
                low,
                high,
                original,
            }) => {
                let wavelength = 2.0 * std::f64::consts::PI / frequency;
                if wavelength < original / high {
                    frequency
                } else if wavelength > original / low {
                    frequency / factor
                } else {
                    let smooth = (original / wavelength - low) / (high - low);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_fall_from_one_to_almost_the_inverse_base() {
        let rotary = Rotary::new(10_000.0);
        let f = rotary.frequencies(4);
        assert!((f[0] - 1.0).abs() < 1e-15 && (f[1] - 0.01).abs() < 1e-15);
    }

    /// Llama 3.1's published numbers: factor 8, low 1, high 4, original 8192.
    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        let plain = Rotary::new(500_000.0);
        let scaled = Rotary {
            scaling: Some(RotaryScaling::Llama3 {
                factor: 8.0,
                low: 1.0,
                high: 4.0,
                original: 8192.0,
            }),
            ..plain.clone()
        };
        let (p, s) = (plain.frequencies(128), scaled.frequencies(128));
        assert!((p[0] - s[0]).abs() < 1e-15);
        assert!((p[63] / 8.0 - s[63]).abs() < 1e-15 * p[63]);
        assert!(s.windows(2).all(|w| w[0] > w[1]), "still falling");
        assert!(s.iter().zip(&p).all(|(s, p)| s <= p && *s >= p / 8.0));
        assert!(s.iter().zip(&p).any(|(s, p)| *s < p * 0.99 && *s > p / 7.9));
    }
}
