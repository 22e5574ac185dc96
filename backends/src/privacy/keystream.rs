//! ChaCha20's key stream, computed for sixteen blocks at once in the machine's vector lanes.
//!
//! The words of a group are interleaved: word k of all its blocks, then word k + 1. The order is the same on every
//! machine, however wide its vectors are. The cipher is that of `rand_chacha` (64-bit counter, 64-bit stream); a test
//! compares the two.

#[cfg(feature = "cpu")]
use pulp::{Simd, WithSimd};

/// Blocks per group.
const BLOCKS: usize = 16;
/// Words per group.
pub(crate) const WORDS: usize = 16 * BLOCKS;

/// Returns a key as little-endian words, as the cipher reads it.
#[cfg(feature = "cpu")]
pub(crate) fn words_of(key: &[u8; 32]) -> [u32; 8] {
    let (words, _) = key.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

/// The key stream of a key and a stream number.
pub(crate) struct KeyStream {
    key: [u8; 32],
    stream: u64,
    /// Blocks drawn so far.
    block: u64,
}

impl KeyStream {
    pub(crate) const fn new(key: [u8; 32], stream: u64) -> Self {
        Self {
            key,
            stream,
            block: 0,
        }
    }

    /// Writes the next group of words.
    pub(crate) fn fill(&mut self, words: &mut [u32; WORDS]) {
        #[cfg(feature = "cpu")]
        pulp::Arch::new().dispatch(Group {
            state: self.state(),
            words,
        });
        #[cfg(not(feature = "cpu"))]
        self.fill_by_blocks(words);
        self.block += BLOCKS as u64;
    }

    /// The same from the library, block by block.
    #[cfg(any(test, not(feature = "cpu")))]
    fn fill_by_blocks(&self, words: &mut [u32; WORDS]) {
        use rand_chacha::rand_core::{Rng, SeedableRng};
        let mut rng = rand_chacha::ChaCha20Rng::from_seed(self.key);
        rng.set_stream(self.stream);
        rng.set_word_pos(u128::from(self.block) * 16);
        for block in 0..BLOCKS {
            for word in 0..16 {
                words[word * BLOCKS + block] = rng.next_u32();
            }
        }
    }

    /// Returns the cipher's matrix before the first round: constants, key, counter, stream.
    #[cfg(feature = "cpu")]
    fn state(&self) -> [u32; 16] {
        let mut state = [0; 16];
        state[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        state[4..12].copy_from_slice(&words_of(&self.key));
        let halves = |x: u64| [x as u32, (x >> 32) as u32];
        state[12..14].copy_from_slice(&halves(self.block));
        state[14..].copy_from_slice(&halves(self.stream));
        state
    }
}

#[cfg(feature = "cpu")]
struct Group<'a> {
    state: [u32; 16],
    words: &'a mut [u32; WORDS],
}

#[cfg(feature = "cpu")]
impl WithSimd for Group<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        const { assert!(BLOCKS.is_multiple_of(S::U32_LANES)) };
        let first = u64::from(self.state[13]) << 32 | u64::from(self.state[12]);
        let counters: [u64; BLOCKS] = std::array::from_fn(|i| first.wrapping_add(i as u64));
        let low = counters.map(|c| c as u32);
        let high = counters.map(|c| (c >> 32) as u32);
        for lane in (0..BLOCKS).step_by(S::U32_LANES) {
            let mut start: [S::u32s; 16] = std::array::from_fn(|i| simd.splat_u32s(self.state[i]));
            start[12] = S::as_simd_u32s(&low[lane..]).0[0];
            start[13] = S::as_simd_u32s(&high[lane..]).0[0];
            let mut s = start;
            for _ in 0..10 {
                quarter(simd, &mut s, [0, 4, 8, 12]);
                quarter(simd, &mut s, [1, 5, 9, 13]);
                quarter(simd, &mut s, [2, 6, 10, 14]);
                quarter(simd, &mut s, [3, 7, 11, 15]);
                quarter(simd, &mut s, [0, 5, 10, 15]);
                quarter(simd, &mut s, [1, 6, 11, 12]);
                quarter(simd, &mut s, [2, 7, 8, 13]);
                quarter(simd, &mut s, [3, 4, 9, 14]);
            }
            for ((s, start), words) in s.iter().zip(&start).zip(self.words.chunks_mut(BLOCKS)) {
                let (words, _) = S::as_mut_simd_u32s(&mut words[lane..lane + S::U32_LANES]);
                words[0] = simd.add_u32s(*s, *start);
            }
        }
    }
}

/// A quarter round of the cipher.
#[cfg(feature = "cpu")]
#[inline(always)]
fn quarter<S: Simd>(simd: S, s: &mut [S::u32s; 16], [a, b, c, d]: [usize; 4]) {
    s[a] = simd.add_u32s(s[a], s[b]);
    s[d] = turned(simd, simd.xor_u32s(s[d], s[a]), 16);
    s[c] = simd.add_u32s(s[c], s[d]);
    s[b] = turned(simd, simd.xor_u32s(s[b], s[c]), 12);
    s[a] = simd.add_u32s(s[a], s[b]);
    s[d] = turned(simd, simd.xor_u32s(s[d], s[a]), 8);
    s[c] = simd.add_u32s(s[c], s[d]);
    s[b] = turned(simd, simd.xor_u32s(s[b], s[c]), 7);
}

/// Rotates every word to the left.
#[cfg(feature = "cpu")]
#[inline(always)]
fn turned<S: Simd>(simd: S, x: S::u32s, by: u32) -> S::u32s {
    let up = simd.wrapping_dyn_shl_u32s(x, simd.splat_u32s(by));
    let down = simd.wrapping_dyn_shr_u32s(x, simd.splat_u32s(32 - by));
    simd.or_u32s(up, down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_cipher() {
        let key =
            |seed: u8| std::array::from_fn(|i| seed.wrapping_mul(37) ^ (i as u8).wrapping_mul(11));
        for (seed, stream) in [(0, 0), (1, 1), (2, 1 << 40), (255, u64::MAX)] {
            // from the beginning, and where the counter's lower word overflows within a group
            for block in [0, u64::from(u32::MAX) - 5, (1 << 40) - 16] {
                let from = |block| KeyStream {
                    block,
                    ..KeyStream::new(key(seed), stream)
                };
                let mut ours = from(block);
                for group in 0..3 {
                    let (mut want, mut have) = ([0; WORDS], [0; WORDS]);
                    from(block + group * BLOCKS as u64).fill_by_blocks(&mut want);
                    ours.fill(&mut have);
                    assert_eq!(have, want, "seed {seed}, stream {stream}, block {block}");
                }
            }
        }
    }

    /// RFC 8439, appendix A.1, test vectors 1 and 2: key, counter and nonce of zeros, then counter 1.
    #[test]
    fn known_answers() {
        let mut words = [0; WORDS];
        KeyStream::new([0; 32], 0).fill(&mut words);
        assert_eq!(words[0], 0xade0_b876);
        assert_eq!(words[BLOCKS], 0x903d_f1a0);
        assert_eq!(words[15 * BLOCKS], 0x8665_eeb2);
        assert_eq!(words[1], 0xbee7_079f);
    }
}
