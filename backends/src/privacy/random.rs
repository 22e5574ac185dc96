//! Keys and the streams drawn from them: noise, Poisson batches, shuffles.
//!
//! One 32-byte master key per run, from the operating system. Every stream is ChaCha20 under
//! a key derived by HMAC-SHA256 for its purpose, positioned by step, so that a replayed step
//! repeats its batch and its noise together.

use crate::error::{Error, Result};
use crate::privacy::keystream::KeyStream;
use hmac::{Hmac, KeyInit, Mac};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use reticent_accounting::{Sampling, SamplingRate};
use reticent_disk::hexadecimal;
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

/// HMAC-SHA256 of whatever is written to it.
pub(crate) struct KeyedWriter(Hmac<Sha256>);

/// A code under a key of its own for each purpose.
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
        hexadecimal(&keyed_digest(&self.bytes, b"name")[..8])
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
    /// The same noise as something that a device can draw, where it is that.
    fn as_chacha(&self) -> Option<&ChaChaNoise> {
        None
    }
}

/// No noise, for plans that leave it out and promise nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoNoise;

impl Noise for NoNoise {
    fn add(&mut self, _: u64, _: usize, _: f64, _: &mut [f32]) {}
    fn is_secret(&self) -> bool {
        false
    }
}

/// ChaCha20 noise, drawn and added in f64, one stream per block of values.
#[derive(Debug, Clone)]
pub struct ChaChaNoise {
    key: RunKey,
}

/// Values per noise stream.
pub(crate) const NOISE_BLOCK: usize = 1 << 14;

impl ChaChaNoise {
    /// Noise from a run's key.
    #[must_use]
    pub const fn new(key: RunKey) -> Self {
        Self { key }
    }
    /// The key of a block: tensor and block in the purpose, step in the position of the stream, so that no two draws
    /// ever share words.
    fn key_of(&self, tensor: usize, block: usize) -> [u8; 32] {
        let purpose = format!("noise/{tensor}/{block}");
        keyed_digest(&self.key.bytes, purpose.as_bytes())
    }
    /// The keys of all blocks of so many values, eight words each.
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
    fn is_secret(&self) -> bool {
        self.key.is_secret()
    }
    fn as_chacha(&self) -> Option<&ChaChaNoise> {
        Some(self)
    }
}

/// What turns a sum of clipped gradients into a noised mean: noise of this step and deviation, and the number that
/// all is divided by.
#[derive(Debug, Clone, Copy)]
pub struct MeanNoise<'a> {
    pub(crate) noise: &'a ChaChaNoise,
    pub(crate) step: u64,
    pub(crate) std: f64,
    pub(crate) divisor: f64,
}

impl MeanNoise<'_> {
    /// On the host.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines use it"))]
    pub(crate) fn add_to(&self, tensor: usize, sum: &mut [f32]) {
        self.noise.clone().add(self.step, tensor, self.std, sum);
        crate::privacy::step::divide(sum, self.divisor);
    }
}

/// The probability of each record to be in a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(RateTable);

#[derive(Debug, Clone, PartialEq)]
enum RateTable {
    Uniform { rate: SamplingRate, records: usize },
    Each(Vec<f64>),
}

impl Rates {
    /// The same rate for so many records.
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
    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.0 {
            RateTable::Uniform { records, .. } => *records,
            RateTable::Each(rates) => rates.len(),
        }
    }
    /// Whether there is no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The rate of one record; 0 for one that does not exist.
    #[must_use]
    pub fn of(&self, record: usize) -> f64 {
        match &self.0 {
            RateTable::Uniform { rate, records } if record < *records => rate.get(),
            RateTable::Uniform { .. } => 0.0,
            RateTable::Each(rates) => rates.get(record).copied().unwrap_or(0.0),
        }
    }
    /// The largest rate: what the accountant needs for any one record. Absent when no record
    /// is ever drawn and the rates are weights; the rate itself where it is common to all.
    #[must_use]
    pub fn largest(&self) -> Option<SamplingRate> {
        match &self.0 {
            RateTable::Uniform { rate, .. } => Some(*rate),
            RateTable::Each(rates) => {
                let most = rates.iter().copied().fold(0.0, f64::max);
                SamplingRate::new(most).ok()
            }
        }
    }
    /// Σ of the rates: how many records a batch has on average.
    #[must_use]
    pub fn expected_batch(&self) -> f64 {
        match &self.0 {
            RateTable::Uniform { rate, records } => rate.get() * *records as f64,
            RateTable::Each(rates) => rates.iter().sum(),
        }
    }
}

/// Which records form the batch of a step.
pub trait Sampler: Send {
    /// The probability with which each record is in a batch; what the accountant gets.
    fn rates(&self) -> &Rates;
    /// The indices of the batch; may be empty.
    fn batch(&mut self, step: u64) -> Vec<u32>;
}

/// Poisson sampling: every record independently with its own rate, by a keyed function of (step, record).
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
    /// Samples records with these rates.
    #[must_use]
    pub const fn with(key: RunKey, rates: Rates) -> Self {
        Self { key, rates }
    }
}

/// ⌊rate · 2^64⌋, or `None` for a record that is always in. Rounded down (the product is
/// exact): the realised rate never exceeds the accounted one.
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

/// Poisson sampling whose larger batches are cut down, each time to a uniform subset.
#[derive(Debug, Clone)]
pub struct TruncatedSampler {
    poisson: PoissonSampler,
    most: usize,
}

impl TruncatedSampler {
    /// At most so many records of a Poisson batch.
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

/// Balls in bins: every record once an epoch, in a step drawn for it alone.
#[derive(Debug, Clone)]
pub struct BinsSampler {
    key: RunKey,
    rates: Rates,
    /// The step with which the first epoch begins.
    first: u64,
    /// Steps of an epoch.
    steps: u64,
    /// The epoch at hand, and the step of each record within it.
    bins: Option<(u64, Vec<u64>)>,
}

impl BinsSampler {
    /// Epochs of so many steps, at least one, from this step on.
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

/// The sampler of a private stage whose epochs begin at a step and have so many.
///
/// # Errors
/// [`Error::Unsuitable`] for a sampler that the trainer has not.
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

/// A permutation of 0..n for one public epoch.
#[must_use]
pub(crate) fn shuffled(key: &RunKey, epoch: u64, n: usize) -> Vec<u32> {
    use rand::seq::SliceRandom;
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.shuffle(&mut key.stream("shuffle", epoch));
    order
}
