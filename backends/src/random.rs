//! Keys and the streams drawn from them: noise, Poisson batches, shuffles.
//!
//! One 32-byte master key per run, from the operating system. Every stream is ChaCha20 under
//! a key derived by HMAC-SHA256 for its purpose, positioned by step, so that a replayed step
//! repeats its batch and its noise together.

use crate::error::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use reticent_accounting::SamplingRate;
use sha2::Sha256;

/// The secret from which a run's randomness follows.
#[derive(Clone, PartialEq, Eq)]
pub struct RunKey {
    bytes: [u8; 32],
    secret: bool,
}

impl std::fmt::Debug for RunKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunKey(secret: {})", self.secret)
    }
}

/// HMAC-SHA256 of a message.
#[must_use]
pub fn keyed_digest(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

impl RunKey {
    /// A key from the operating system.
    ///
    /// # Errors
    /// [`Error::Engine`] when the system has no randomness to give.
    pub fn from_system() -> Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|e| Error::Engine(format!("no randomness from the system: {e}")))?;
        Ok(Self {
            bytes,
            secret: true,
        })
    }
    /// A key that anyone can repeat: for tests and reproductions. The run is marked not private.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            bytes: keyed_digest(&bytes, b"reticent seeded run"),
            secret: false,
        }
    }
    /// Restores a stored key.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32], secret: bool) -> Self {
        Self { bytes, secret }
    }
    /// The bytes, for the state folder.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
    /// Whether an adversary can't know it.
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        self.secret
    }
    /// A public name of the key that reveals nothing of it: the first 8 bytes of an HMAC.
    #[must_use]
    pub fn name(&self) -> String {
        keyed_digest(&self.bytes, b"name")[..8]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }
    pub(crate) fn stream(&self, purpose: &str, position: u64) -> ChaCha20Rng {
        let mut rng = ChaCha20Rng::from_seed(keyed_digest(&self.bytes, purpose.as_bytes()));
        rng.set_stream(position);
        rng
    }
}

/// Gaussian noise for the sum of clipped gradients.
pub trait Noise: Send {
    /// Adds N(0, std²) to every value. The same (step, tensor) gives the same noise.
    fn add(&mut self, step: u64, tensor: usize, std: f64, values: &mut [f32]);
    /// Whether an adversary can't predict it.
    fn is_secret(&self) -> bool;
}

/// ChaCha20 noise, drawn and added in f64, one stream per block of values.
#[derive(Debug, Clone)]
pub struct ChaChaNoise {
    key: RunKey,
}

/// Values per noise stream.
const NOISE_BLOCK: usize = 1 << 14;

impl ChaChaNoise {
    /// Noise from a run's key.
    #[must_use]
    pub const fn new(key: RunKey) -> Self {
        Self { key }
    }
}

impl Noise for ChaChaNoise {
    fn add(&mut self, step: u64, tensor: usize, std: f64, values: &mut [f32]) {
        values
            .par_chunks_mut(NOISE_BLOCK)
            .enumerate()
            .for_each(|(block, values)| {
                // tensor and block in the purpose, step in the position: no two ever share a stream
                let mut rng = self.key.stream(&format!("noise/{tensor}/{block}"), step);
                for v in values {
                    let normal: f64 = StandardNormal.sample(&mut rng);
                    *v = (f64::from(*v) + std * normal) as f32;
                }
            });
    }
    fn is_secret(&self) -> bool {
        self.key.is_secret()
    }
}

/// Which records form the batch of a step.
pub trait Sampler: Send {
    /// The probability with which each record is in a batch; what the accountant gets.
    fn rate(&self) -> SamplingRate;
    /// The indices of the batch; may be empty.
    fn batch(&mut self, step: u64) -> Vec<u32>;
}

/// Poisson sampling: every record independently with the same rate, by a keyed function of (step, record).
#[derive(Debug, Clone)]
pub struct PoissonSampler {
    key: RunKey,
    rate: SamplingRate,
    records: usize,
}

impl PoissonSampler {
    /// Samples from `records` records.
    #[must_use]
    pub const fn new(key: RunKey, rate: SamplingRate, records: usize) -> Self {
        Self { key, rate, records }
    }
}

impl Sampler for PoissonSampler {
    fn rate(&self) -> SamplingRate {
        self.rate
    }
    fn batch(&mut self, step: u64) -> Vec<u32> {
        let mut rng = self.key.stream("poisson", step);
        // rounded down: the realised rate never exceeds the accounted one
        let threshold = self.rate.get() * (u64::MAX as f64);
        let threshold = if self.rate.get() >= 1.0 {
            u64::MAX
        } else {
            threshold as u64
        };
        (0..self.records as u32)
            .filter(|_| {
                let draw = rng.next_u64();
                draw < threshold || threshold == u64::MAX
            })
            .collect()
    }
}

/// A permutation of 0..n for one public epoch.
#[must_use]
pub fn shuffled(key: &RunKey, epoch: u64, n: usize) -> Vec<u32> {
    use rand::seq::SliceRandom;
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.shuffle(&mut key.stream("shuffle", epoch));
    order
}
