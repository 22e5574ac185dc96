//! A linear chain: scores of labels for each word, scores of neighbouring labels, and the marginals that both give for
//! each word.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::iter::zip;
use std::ops::Range;

/// The largest number of labels of a chain; each is one bit of a set.
pub(super) const MOST_LABELS: usize = 32;

/// A fast hasher for short keys: those of tables that are in the model, or are discarded when there are many.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Quick(u64);

impl Quick {
    #[inline]
    pub(super) fn mix(&mut self, part: u64) {
        self.0 = (self.0.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            self.mix(u64::from_le_bytes(*eight));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
        self.0 ^= self.0 >> 32;
    }
}

/// A table with such a hasher.
pub(super) type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// Maps the hash of a feature to its row.
pub(super) type Rows = QuickMap<u32, u32>;

/// Rows have a multiple of this many weights, so that they are added with vector instructions.
const LANES: usize = 16;
/// The sum of the features of a word for each label; labels beyond the chain's own stay 0.
pub(super) type Sums = [i16; MOST_LABELS];

/// A trained chain with 8-bit weights.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) labels: usize,
    /// The value of a weight of one.
    pub(super) scale: f32,
    /// From a label (or the beginning, the last row) to the next.
    pub(super) transitions: Vec<f32>,
    /// The hashes of features with weights, ascending.
    pub(super) hashes: Vec<u32>,
    /// A row of `stride` weights for each feature.
    pub(super) weights: Vec<i8>,
    stride: usize,
    index: Index,
    lattice: Lattice,
}

/// An index of features that are in ascending order.
#[derive(Debug, Clone)]
pub(super) struct Index {
    /// Where those with each prefix start.
    starts: Vec<u32>,
    /// One bit for each of them by its last bits, to skip the many others.
    filter: Vec<u64>,
}

const START_BITS: u32 = 16;
const FILTER_BITS: u32 = 20;

impl Index {
    pub(super) fn new(features: impl Iterator<Item = u32>) -> Self {
        let mut starts = vec![0u32; (1 << START_BITS) + 1];
        let mut filter = vec![0u64; 1 << (FILTER_BITS - 6)];
        for feature in features {
            starts[(feature >> (32 - START_BITS)) as usize + 1] += 1;
            let bit = feature & ((1 << FILTER_BITS) - 1);
            filter[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self { starts, filter }
    }

    /// Returns false if a feature is not among them; it may not be either if this is true.
    #[inline]
    pub(super) fn may_have(&self, feature: u32) -> bool {
        let bit = feature & ((1 << FILTER_BITS) - 1);
        self.filter[(bit >> 6) as usize] >> (bit & 63) & 1 == 1
    }

    /// Returns where the features with the prefix of this one start.
    #[inline]
    pub(super) fn start(&self, feature: u32) -> u32 {
        self.starts[(feature >> (32 - START_BITS)) as usize]
    }

    /// Returns where the features with the prefix of this one are.
    #[inline]
    fn range(&self, feature: u32) -> Range<usize> {
        let bucket = (feature >> (32 - START_BITS)) as usize;
        self.starts[bucket] as usize..self.starts[bucket + 1] as usize
    }
}

impl Chain {
    /// Creates a chain from `weights`, ordered by feature and then by label.
    pub(super) fn new(
        labels: usize,
        scale: f32,
        transitions: Vec<f32>,
        hashes: Vec<u32>,
        weights: &[i8],
    ) -> Self {
        let stride = labels.next_multiple_of(LANES);
        let mut padded = vec![0; hashes.len() * stride];
        for (row, of) in padded.chunks_mut(stride).zip(weights.chunks(labels)) {
            row[..of.len()].copy_from_slice(of);
        }
        Self {
            labels,
            scale,
            lattice: Lattice::new(labels, &transitions),
            transitions,
            index: Index::new(hashes.iter().copied()),
            hashes,
            weights: padded,
            stride,
        }
    }

    /// Iterates over the weights, by feature and then by label.
    pub(super) fn weights(&self) -> impl Iterator<Item = i8> {
        let rows = self.weights.chunks(self.stride);
        rows.flat_map(|row| row[..self.labels].iter().copied())
    }

    /// Adds the weights of a feature.
    #[inline]
    pub(super) fn add(&self, feature: u32, sums: &mut Sums) {
        if !self.index.may_have(feature) {
            return;
        }
        let range = self.index.range(feature);
        let Some(row) = self.hashes[range.clone()]
            .iter()
            .position(|h| *h == feature)
        else {
            return;
        };
        let from = (range.start + row) * self.stride;
        for (sums, weights) in zip(
            sums.as_chunks_mut::<LANES>().0,
            self.weights[from..from + self.stride]
                .as_chunks::<LANES>()
                .0,
        ) {
            // The sums stay far from the limits of an i16; without checks, the additions are vectorised.
            for (sum, weight) in zip(sums, weights) {
                *sum = sum.wrapping_add(i16::from(*weight));
            }
        }
    }

    /// Returns the probability of each label for each word, given the whole sentence.
    pub(super) fn marginals(
        &self,
        length: usize,
        mut features: impl FnMut(usize, &mut Vec<u32>),
    ) -> Vec<f32> {
        let mut emissions = Vec::with_capacity(length * self.labels);
        let mut of_word = Vec::new();
        for word in 0..length {
            of_word.clear();
            features(word, &mut of_word);
            let mut sums = [0; MOST_LABELS];
            for feature in &of_word {
                self.add(*feature, &mut sums);
            }
            let scores = sums[..self.labels].iter();
            emissions.extend(scores.map(|sum| f32::from(*sum) * self.scale));
        }
        match self.labels.div_ceil(4) {
            5 => self.lattice.marginals::<20>(&emissions),
            _ => self.lattice.marginals::<MOST_LABELS>(&emissions),
        }
    }
}

/// The forward-backward algorithm over the scores of one sentence.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    pub(super) labels: usize,
    /// The exponentials of the transitions.
    pub(super) steps: Vec<f32>,
}

impl Lattice {
    pub(super) fn new(labels: usize, transitions: &[f32]) -> Self {
        Self {
            labels,
            steps: transitions.iter().map(|t| t.exp()).collect(),
        }
    }

    /// Returns the probability of each label for each word, with W labels at a time; those from `labels` on are
    /// impossible.
    fn marginals<const W: usize>(&self, emissions: &[f32]) -> Vec<f32> {
        let n = self.labels;
        let mut steps = [[0f32; W]; W];
        let mut back = [[0f32; W]; W];
        for from in 0..n {
            for to in 0..n {
                steps[from][to] = self.steps[from * n + to];
                back[to][from] = steps[from][to];
            }
        }
        let mut start = [0f32; W];
        start[..n].copy_from_slice(&self.steps[n * n..]);
        let length = emissions.len() / n;
        let mut scores = vec![0f32; length * W];
        let mut forward = scores.clone();
        let mut norms = Vec::with_capacity(length);
        let mut before = [0f32; W];
        for (word, of) in emissions.chunks_exact(n).enumerate() {
            let most = of.iter().copied().fold(f32::MIN, f32::max);
            let mut score = [f32::MIN; W];
            for (score, of) in zip(&mut score, of) {
                *score = of - most;
            }
            let mut now = if word == 0 {
                start
            } else {
                times(&before, &steps)
            };
            for (now, score) in zip(&mut now, &mut score) {
                *score = exp(*score);
                *now *= *score;
            }
            scores[word * W..][..W].copy_from_slice(&score);
            let norm = now.iter().sum::<f32>().max(f32::MIN_POSITIVE);
            now = now.map(|value| value / norm);
            norms.push(norm);
            forward[word * W..][..W].copy_from_slice(&now);
            before = now;
        }
        let mut out = vec![0f32; length * n];
        let mut behind = [1f32; W];
        for word in (0..length).rev() {
            let mut now = [0f32; W];
            now.copy_from_slice(&forward[word * W..][..W]);
            let mut arriving = behind;
            for at in 0..W {
                now[at] *= behind[at];
                arriving[at] *= scores[word * W + at];
            }
            let sum = now.iter().sum::<f32>().max(f32::MIN_POSITIVE);
            let place = &mut out[word * n..][..n];
            for (place, value) in zip(place, now) {
                *place = value / sum;
            }
            arriving = arriving.map(|value| value / norms[word]);
            behind = times(&arriving, &back);
        }
        out
    }
}

/// Multiplies a row by a matrix.
#[inline]
fn times<const W: usize>(row: &[f32; W], matrix: &[[f32; W]; W]) -> [f32; W] {
    let mut out = [0f32; W];
    for (value, of) in zip(row, matrix) {
        for (sum, step) in zip(&mut out, of) {
            *sum += value * step;
        }
    }
    out
}

/// Returns the exponential of a number that is at most 0, accurate to the last bits of an f32; 0 below the smallest
/// normal number.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    let bounded = x.max(-86.0);
    let whole = (bounded * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let rest = bounded - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let mut sum = 1.987_569_1e-4f32;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        5e-1,
    ] {
        sum = sum * rest + coefficient;
    }
    let power = f32::from_bits((((whole as i32) + 127) as u32) << 23);
    let value = (sum * rest * rest + rest + 1.0) * power;
    if x < -86.0 { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::Lattice;

    /// The exponential that is computed here, and the marginals of both ways.
    #[test]
    fn both_ways_through_a_lattice_agree() {
        for step in 0..8600 {
            let x = -(step as f32) * 0.01;
            let (ours, theirs) = (f64::from(super::exp(x)), f64::from(x).exp());
            assert!((ours / theirs - 1.0).abs() < 3e-7, "{x}");
        }
        assert_eq!(
            (super::exp(0.0), super::exp(-100.0), super::exp(f32::MIN)),
            (1.0, 0.0, 0.0)
        );
        let (n, length) = (9, 50);
        let wild = |i: usize, scale: f32| ((i * 7919 % 1009) as f32 / 504.5 - 1.0) * scale;
        let transitions: Vec<f32> = (0..n * (n + 1)).map(|i| wild(i, 4.0)).collect();
        let emissions: Vec<f32> = (0..n * length).map(|i| wild(i + 7, 12.0)).collect();
        let lattice = Lattice::new(n, &transitions);
        let out = lattice.marginals::<12>(&emissions);
        let other = lattice.run(&emissions, None).marginals;
        assert_eq!(out.len(), other.len());
        for (one, two) in out.iter().zip(&other) {
            assert!((one - two).abs() < 1e-5);
        }
    }
}
