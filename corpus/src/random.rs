//! Seeded random choices whose values do not depend on the version of a random-number library:
//! ChaCha20's stream is fixed by its definition, and everything above it is implemented here.

use crate::error::{Error, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// Draws a seed from the operating system.
///
/// # Errors
/// Returns an error if the system provides no random numbers.
pub fn system_seed() -> Result<u64> {
    getrandom::u64()
        .map_err(|error| Error::Plan(format!("the operating system gives no seed: {error}")))
}

/// The purpose of a stream of choices. Each purpose has its own stream under the same seed, so that
/// asking for more canaries does not change which documents are held out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Simulate = 1,
    HoldOut = 2,
    CanarySecrets = 3,
    CanaryPlaces = 4,
    CanaryCarriers = 5,
    Verify = 6,
    #[cfg(any(test, feature = "tagger-training"))]
    Tagger = 7,
    Labels = 8,
    Neighbours = 9,
    CanaryContexts = 10,
    CanaryCoins = 11,
    CanaryCaught = 12,
    CanaryWords = 13,
}

/// A seeded stream of choices.
pub(crate) struct Choices(ChaCha20Rng);

impl Choices {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        // The key is the seed itself, not a library's expansion of the seed.
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self::under(&key, purpose)
    }

    pub(crate) fn under(key: &[u8; 32], purpose: Purpose) -> Self {
        let mut rng = ChaCha20Rng::from_seed(*key);
        rng.set_stream(purpose as u64);
        Self(rng)
    }

    /// Draws uniformly from 0..bound, without modulo bias. A `bound` of 0 is treated as 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound <= 1 {
            return 0;
        }
        // The largest multiple of `bound` that fits; draws at or above it are rejected.
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let draw = self.0.next_u64();
            if draw < limit {
                return draw % bound;
            }
        }
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.index(items.len())]
    }

    /// Returns true with probability `numerator / denominator`.
    pub(crate) fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Draws `count` distinct indices of 0..length in random order (all of them if `count` is
    /// larger).
    pub(crate) fn distinct(&mut self, length: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..length).collect();
        let count = count.min(length);
        for i in 0..count {
            let j = i + self.index(length - i);
            all.swap(i, j);
        }
        all.truncate(count);
        all
    }
}

/// Returns the SHA-1 of some bytes.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 20] {
    use sha1::{Digest, Sha1};
    Sha1::digest(bytes).into()
}

/// Returns the SHA-256 of some bytes.
pub(crate) fn sha256_bytes(bytes: &[u8]) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).into()
}

/// Returns the SHA-256 of some bytes in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    reticent_disk::hexadecimal(&sha256_bytes(bytes))
}

/// Returns a number in [0, 1) that depends only on the seed and the bytes, computed with SHA-1.
///
/// Used where a choice must depend on the content of one record and nothing else.
pub(crate) fn lottery(seed: u64, purpose: &str, parts: &[&[u8]]) -> f64 {
    use sha1::{Digest, Sha1};
    let mut hash = Sha1::new();
    hash.update(seed.to_le_bytes());
    hash.update((purpose.len() as u64).to_le_bytes());
    hash.update(purpose.as_bytes());
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut first = [0u8; 8];
    first.copy_from_slice(&digest[..8]);
    // 53 bits, so that the quotient is exact.
    (u64::from_le_bytes(first) >> 11) as f64 / (1u64 << 53) as f64
}
