//! A Bloom filter over units.

use sha2::{Digest, Sha256};

/// A Bloom filter with `hashes` bits per unit, at places derived with SHA-256 under a seed.
#[derive(Debug)]
pub(super) struct Filter {
    bits: Vec<u64>,
    size: u64,
    hashes: u32,
    seed: u64,
}

/// Returns the number of hashes per unit: bits/e minimises the bound of [`collision_bits`].
fn hashes(bits: u32) -> u32 {
    ((f64::from(bits) / std::f64::consts::E).round() as u32).max(1)
}

/// Returns a number such that, with probability at most 2^-(number) over the seed, any new unit of two neighbouring
/// corpora is taken for one that occurred before.
///
/// At most k·n of b·n bits are set, so a new unit, whose k places are independent of them, finds all of its bits set
/// with probability at most (k/b)^k. Over n units of two corpora, δ ≤ 2n (k/b)^k. SHA-256 is treated as a random
/// function.
pub(super) fn collision_bits(units: usize, bits: u32) -> u32 {
    let k = f64::from(hashes(bits));
    let exponent = k * (f64::from(bits) / k).log2() - (2.0 * units.max(1) as f64).log2();
    // One bit less, to account for rounding.
    (exponent - 1.0).floor().max(0.0) as u32
}

impl Filter {
    pub(super) fn new(units: usize, bits: u32, seed: u64) -> Self {
        let size = (units.max(1) as u64) * u64::from(bits);
        Self {
            bits: vec![0; size.div_ceil(64) as usize],
            size,
            hashes: hashes(bits),
            seed,
        }
    }

    /// Enters a unit by the digest that exact copies share. Returns true if some bit was not set, which proves that the
    /// unit is new.
    pub(super) fn insert(&mut self, unit: &[u8; 20]) -> bool {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(unit);
        let key = hash.finalize();
        let mut new = false;
        // Each digest gives four places of 64 bits.
        for block in 0..self.hashes.div_ceil(4) {
            let mut hash = Sha256::new();
            hash.update(key);
            hash.update(block.to_le_bytes());
            let digest = hash.finalize();
            let left = (self.hashes - 4 * block).min(4) as usize;
            for part in digest.chunks_exact(8).take(left) {
                let mut bytes = [0u8; 8];
                bytes.copy_from_slice(part);
                let place = u64::from_le_bytes(bytes) % self.size;
                let (word, bit) = ((place / 64) as usize, 1u64 << (place % 64));
                new |= self.bits[word] & bit == 0;
                self.bits[word] |= bit;
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 000 new units into small filters, seeds 0 to 19. The bound is on the chance that any
    /// is taken for an old one; the mean over units is compared with (k/b)^k, which it exceeds
    /// with probability below 1e-6 (its expectation is smaller by a factor above 3).
    #[test]
    fn collisions_stay_below_the_bound() {
        let unit = |number: usize| {
            let mut key = [0; 20];
            key[..8].copy_from_slice(&(number as u64).to_le_bytes());
            key
        };
        for bits in [4u32, 8, 16] {
            let n = 2000usize;
            let mut wrong = 0usize;
            for seed in 0..20 {
                let mut filter = Filter::new(n, bits, seed);
                wrong += (0..n).filter(|i| !filter.insert(&unit(*i))).count();
            }
            let k = f64::from(hashes(bits));
            let bound = (k / f64::from(bits)).powf(k);
            assert!((wrong as f64) < bound * (n * 20) as f64, "{bits}: {wrong}");
        }
        assert_eq!(collision_bits(1, 2), 0);
        let (few, many) = (collision_bits(1000, 64), collision_bits(1_000_000, 64));
        assert!(few > many && many > 10, "{few} {many}");
    }
}
