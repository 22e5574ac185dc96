//! Random numbers and mechanisms from a seed, for the sweeps. Each sweep has its own ranges of noise and rates.

use reticent_accounting::{Mechanism, Probability, Result, Sampling};

/// Weyl's sequence, mixed: enough for a sweep.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform on [low, high).
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// 10 to a uniform power.
    pub(crate) fn decades(&mut self, low: f64, high: f64) -> f64 {
        10f64.powf(self.between(low, high))
    }

    pub(crate) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.word() % from.len() as u64) as usize]
    }

    pub(crate) fn sampled(&mut self, sampling: Sampling) -> Result<Mechanism> {
        Ok(Mechanism::SubsampledGaussian {
            noise_multiplier: self.noise()?,
            sampling_rate: self.rate()?,
            sampling,
        })
    }

    pub(crate) fn sampled_laplace(&mut self, sampling: Sampling) -> Result<Mechanism> {
        Ok(Mechanism::SubsampledLaplace {
            scale: self.noise()?,
            sampling_rate: self.rate()?,
            sampling,
        })
    }

    /// Up to `most` sensitivities that ascend by less than `stride`, of weights from 10^`rarest` on.
    pub(crate) fn mixture(&mut self, most: u64, rarest: f64, stride: f64) -> Result<Mechanism> {
        let count = 1 + (self.word() % most) as usize;
        let weights: Vec<f64> = (0..count).map(|_| self.decades(rarest, 0.0)).collect();
        let whole: f64 = weights.iter().sum();
        let probabilities = weights.iter().map(|w| Probability::new(w / whole));
        let mut sensitivity = 0.0;
        let sensitivities = (0..count).map(|_| {
            sensitivity += self.between(0.0, stride);
            sensitivity
        });
        Ok(Mechanism::MixtureOfGaussians {
            sensitivities: sensitivities.collect(),
            noise_multiplier: self.noise()?,
            probabilities: probabilities.collect::<Result<_>>()?,
        })
    }
}
