//! Keys and the random streams derived from them: noise, Poisson batches, shuffles.
//!
//! A run has one 32-byte master key from the operating system. Every stream is ChaCha20 under a key that HMAC-SHA256
//! derives for its purpose. The stream is positioned by step, so that a replayed step repeats both its batch and its
//! noise.

use crate::error::{Error, Result};
use crate::privacy::keystream::KeyStream;
use hmac::{Hmac, KeyInit, Mac};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use reticent_accounting::{Sampling, SamplingRate};
use reticent_disk::hexadecimal;
use sha2::Sha256;

/// The secret that determines all randomness of a run.
#[derive(Clone, PartialEq, Eq)]
pub struct RunKey {
    bytes: [u8; 32],
}

impl std::fmt::Debug for RunKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunKey")
    }
}

/// Returns the HMAC-SHA256 of a message.
#[must_use]
pub fn keyed_digest(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// A writer that computes the HMAC-SHA256 of everything written to it.
pub(crate) struct KeyedWriter(Hmac<Sha256>);

/// Returns an authentication code under a separate key for each purpose.
pub(crate) fn keyed_writer(key: &[u8; 32], purpose: &str) -> KeyedWriter {
    let key = keyed_digest(key, purpose.as_bytes());
    KeyedWriter(Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length"))
}

impl KeyedWriter {
    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into_bytes().into()
    }
    /// Compares in constant time.
    pub(crate) fn verify(self, code: &[u8]) -> bool {
        self.0.verify_slice(code).is_ok()
    }
}

impl std::io::Write for KeyedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl RunKey {
    /// Draws a key from the operating system.
    ///
    /// # Errors
    /// Returns [`Error::Engine`] if the system provides no randomness.
    pub fn from_system() -> Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|e| Error::Engine(format!("no randomness from the system: {e}")))?;
        Ok(Self { bytes })
    }
    /// Derives a key that anyone can repeat, for tests and reproductions. The run is marked as not private.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            bytes: keyed_digest(&bytes, b"reticent seeded run"),
        }
    }
    /// Restores a stored key.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self { bytes }
    }
    /// Returns the bytes, for the state folder.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
    /// Returns a public name of the key that reveals nothing about it: the first 8 bytes of an HMAC.
    #[must_use]
    pub fn name(&self) -> String {
        hexadecimal(&keyed_digest(&self.bytes, b"name")[..8])
    }
    pub(crate) fn stream(&self, purpose: &str, position: u64) -> ChaCha20Rng {
        let mut rng = ChaCha20Rng::from_seed(keyed_digest(&self.bytes, purpose.as_bytes()));
        rng.set_stream(position);
        rng
    }
}

/// A source of Gaussian noise for the sum of clipped gradients.
pub trait Noise: Send {
    /// Adds N(0, std²) to every value. The same (step, tensor) gives the same noise.
    fn add(&mut self, step: u64, tensor: usize, std: f64, values: &mut [f32]);
    /// Returns whether it adds nothing.
    fn is_none(&self) -> bool {
        false
    }
    /// Returns this source as ChaCha20 noise, which a device can draw too, or `None` if it is another kind of noise.
    fn as_chacha(&self) -> Option<&ChaChaNoise> {
        None
    }
}

/// No noise, for plans that omit it and have no guarantee.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoNoise;

impl Noise for NoNoise {
    fn add(&mut self, _: u64, _: usize, _: f64, _: &mut [f32]) {}
    fn is_none(&self) -> bool {
        true
    }
}

/// ChaCha20 noise, drawn and added in f64, with one stream per block of values.
#[derive(Debug, Clone)]
pub struct ChaChaNoise {
    key: RunKey,
}

/// Values per noise stream.
pub(crate) const NOISE_BLOCK: usize = 1 << 14;

impl ChaChaNoise {
    /// Creates the noise of a run from its key.
    #[must_use]
    pub const fn new(key: RunKey) -> Self {
        Self { key }
    }
    /// Returns the key of a block. Tensor and block stand in the purpose, and the step selects the position of the
    /// stream, so that no two draws share words.
    fn key_of(&self, tensor: usize, block: usize) -> [u8; 32] {
        let purpose = format!("noise/{tensor}/{block}");
        keyed_digest(&self.key.bytes, purpose.as_bytes())
    }
    /// Returns the keys of all blocks of `values` values, eight words each.
    #[cfg(feature = "cuda")]
    pub(crate) fn keys(&self, tensor: usize, values: usize) -> Vec<u32> {
        let blocks = (0..values.div_ceil(NOISE_BLOCK)).into_par_iter();
        blocks
            .flat_map_iter(|block| crate::privacy::keystream::words_of(&self.key_of(tensor, block)))
            .collect()
    }
}

impl Noise for ChaChaNoise {
    fn add(&mut self, step: u64, tensor: usize, std: f64, values: &mut [f32]) {
        let block = |(block, values): (usize, &mut [f32])| {
            let key = self.key_of(tensor, block);
            crate::privacy::gaussian::add(&mut KeyStream::new(key, step), std, values);
        };
        if values.len() <= NOISE_BLOCK {
            // on this thread: a caller may hold a lock, and other work must not be stolen under it
            block((0, values));
        } else {
            values
                .par_chunks_mut(NOISE_BLOCK)
                .enumerate()
                .for_each(block);
        }
    }
    fn as_chacha(&self) -> Option<&ChaChaNoise> {
        Some(self)
    }
}

/// The parameters that turn a sum of clipped gradients into a noised mean: the noise of a step with its standard
/// deviation, and the divisor.
#[derive(Debug, Clone, Copy)]
pub struct MeanNoise<'a> {
    pub(crate) noise: &'a ChaChaNoise,
    pub(crate) step: u64,
    pub(crate) std: f64,
    pub(crate) divisor: f64,
}

impl MeanNoise<'_> {
    /// Adds the noise and divides, on the host.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines use it"))]
    pub(crate) fn add_to(&self, tensor: usize, sum: &mut [f32]) {
        self.noise.clone().add(self.step, tensor, self.std, sum);
        crate::privacy::step::divide(sum, self.divisor);
    }
}

/// The probability of each record to be in a batch: its sampling rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(RateTable);

#[derive(Debug, Clone, PartialEq)]
enum RateTable {
    Uniform { rate: SamplingRate, records: usize },
    Each(Vec<f64>),
}

impl Rates {
    /// The same rate for all of `records` records.
    #[must_use]
    pub const fn uniform(rate: SamplingRate, records: usize) -> Self {
        Self(RateTable::Uniform { rate, records })
    }
    /// A rate for every record; one of rate 0 is never drawn.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a rate outside [0, 1].
    pub fn each(rates: Vec<f64>) -> Result<Self> {
        match rates.iter().find(|r| !(0.0..=1.0).contains(*r)) {
            Some(&value) => Err(Error::OutOfRange {
                what: "rate of a record",
                range: "[0, 1]",
                value,
            }),
            None => Ok(Self(RateTable::Each(rates))),
        }
    }
    /// Returns the number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.0 {
            RateTable::Uniform { records, .. } => *records,
            RateTable::Each(rates) => rates.len(),
        }
    }
    /// Returns whether there are no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the rate of one record; 0 for one that does not exist.
    #[must_use]
    pub fn of(&self, record: usize) -> f64 {
        match &self.0 {
            RateTable::Uniform { rate, records } if record < *records => rate.get(),
            RateTable::Uniform { .. } => 0.0,
            RateTable::Each(rates) => rates.get(record).copied().unwrap_or(0.0),
        }
    }
    /// Returns the largest rate: what the accountant needs for any one record. `None` if the records have their own
    /// rates and no record is ever drawn; the common rate if there is one.
    #[must_use]
    pub fn largest(&self) -> Option<SamplingRate> {
        match &self.0 {
            RateTable::Uniform { rate, .. } => Some(*rate),
            RateTable::Each(rates) => {
                let most = rates.iter().copied().fold(0.0, f64::max);
                SamplingRate::new(most).ok().filter(|_| most > 0.0)
            }
        }
    }
    /// Returns the sum of the rates: the expected batch size.
    #[must_use]
    pub fn expected_batch(&self) -> f64 {
        match &self.0 {
            RateTable::Uniform { rate, records } => rate.get() * *records as f64,
            RateTable::Each(rates) => rates.iter().sum(),
        }
    }
}

/// Chooses the records of each step's batch.
pub trait Sampler: Send {
    /// Returns the probability with which each record is in a batch; the accountant uses these rates.
    fn rates(&self) -> &Rates;
    /// Returns the indices of the records in the batch of a step; may be empty.
    fn batch(&mut self, step: u64) -> Vec<u32>;
}

/// Poisson sampling: every record is drawn independently with its own rate, by a keyed function of (step, record).
#[derive(Debug, Clone)]
pub struct PoissonSampler {
    key: RunKey,
    rates: Rates,
}

impl PoissonSampler {
    /// Samples from `records` records, all with the same rate.
    #[must_use]
    pub const fn new(key: RunKey, rate: SamplingRate, records: usize) -> Self {
        Self::with(key, Rates::uniform(rate, records))
    }
    /// Samples records with the given rates.
    #[must_use]
    pub const fn with(key: RunKey, rates: Rates) -> Self {
        Self { key, rates }
    }
}

/// Returns ⌊rate · 2^64⌋, or `None` for a record that is in every batch. The product is exact and rounded down, so the
/// realised rate never exceeds the accounted one.
fn threshold(rate: f64) -> Option<u64> {
    (rate < 1.0).then(|| (rate * 2f64.powi(64)) as u64)
}

impl Sampler for PoissonSampler {
    fn rates(&self) -> &Rates {
        &self.rates
    }
    fn batch(&mut self, step: u64) -> Vec<u32> {
        // record i has the i-th draw of its step's stream, whatever the other records' rates
        let mut rng = self.key.stream("poisson", step);
        (0..self.rates.len())
            .filter(|record| {
                let draw = rng.next_u64();
                threshold(self.rates.of(*record)).is_none_or(|threshold| draw < threshold)
            })
            .map(|record| record as u32)
            .collect()
    }
}

/// Poisson sampling with a bound on the batch size: a larger batch is cut down to a uniform subset, drawn again each
/// time.
#[derive(Debug, Clone)]
pub struct TruncatedSampler {
    poisson: PoissonSampler,
    most: usize,
}

impl TruncatedSampler {
    /// Takes at most `most` records of a Poisson batch.
    #[must_use]
    pub const fn new(poisson: PoissonSampler, most: usize) -> Self {
        Self { poisson, most }
    }
}

impl Sampler for TruncatedSampler {
    fn rates(&self) -> &Rates {
        self.poisson.rates()
    }
    fn batch(&mut self, step: u64) -> Vec<u32> {
        use rand::seq::SliceRandom;
        let mut batch = self.poisson.batch(step);
        if batch.len() > self.most {
            batch.shuffle(&mut self.poisson.key.stream("truncated", step));
            batch.truncate(self.most);
            batch.sort_unstable();
        }
        batch
    }
}

/// Balls-in-bins sampling: every record once per epoch, in a step drawn independently for it.
#[derive(Debug, Clone)]
pub struct BinsSampler {
    key: RunKey,
    rates: Rates,
    /// The step at which the first epoch begins.
    first: u64,
    /// Steps of an epoch.
    steps: u64,
    /// The current epoch, and the step of each record within it.
    bins: Option<(u64, Vec<u64>)>,
}

impl BinsSampler {
    /// Samples epochs of `steps` steps each (at least one), starting at step `first`.
    #[must_use]
    pub const fn new(key: RunKey, rates: Rates, (first, steps): (u64, u64)) -> Self {
        Self {
            key,
            rates,
            first,
            steps: if steps == 0 { 1 } else { steps },
            bins: None,
        }
    }
}

impl Sampler for BinsSampler {
    fn rates(&self) -> &Rates {
        &self.rates
    }
    fn batch(&mut self, step: u64) -> Vec<u32> {
        use rand::RngExt;
        let step = step.saturating_sub(self.first);
        let (epoch, step) = (step / self.steps, step % self.steps);
        if self.bins.as_ref().is_none_or(|(at, _)| *at != epoch) {
            let mut rng = self.key.stream("bins", self.first + epoch * self.steps);
            let draws = (0..self.rates.len()).map(|_| rng.random_range(0..self.steps));
            self.bins = Some((epoch, draws.collect()));
        }
        let bins = self.bins.iter().flat_map(|(_, bins)| bins);
        (0..)
            .zip(bins)
            .filter_map(|(record, bin)| (*bin == step).then_some(record))
            .collect()
    }
}

/// Returns the sampler of a private stage. `epochs` holds the step at which its epochs begin, and the steps per epoch.
///
/// # Errors
/// Returns [`Error::Unsuitable`] for a sampler that the trainer does not implement.
pub(crate) fn sampler(
    key: &RunKey,
    rates: &Rates,
    sampling: Sampling,
    epochs: (u64, u64),
) -> Result<Box<dyn Sampler>> {
    let poisson = PoissonSampler::with(key.clone(), rates.clone());
    Ok(match sampling {
        Sampling::Poisson => Box::new(poisson),
        Sampling::TruncatedPoisson { max_batch, .. } => {
            let most = usize::try_from(max_batch).unwrap_or(usize::MAX);
            Box::new(TruncatedSampler::new(poisson, most))
        }
        Sampling::BallsInBins => Box::new(BinsSampler::new(key.clone(), rates.clone(), epochs)),
        other => {
            return Err(Error::Unsuitable(format!(
                "the trainer draws no batches by {other:?}"
            )));
        }
    })
}

/// Returns a permutation of 0..n for one public epoch.
#[must_use]
pub(crate) fn shuffled(key: &RunKey, epoch: u64, n: usize) -> Vec<u32> {
    use rand::seq::SliceRandom;
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.shuffle(&mut key.stream("shuffle", epoch));
    order
}
