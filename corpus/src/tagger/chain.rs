//! A linear chain: scores of labels for each word, scores of neighbouring labels, and the marginals that both give for
//! each word.

use super::features::Forms;
use super::likeliest;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::iter::zip;

/// The largest number of labels of a chain; each is one bit of a set.
pub(super) const MOST_LABELS: usize = 32;

/// A hasher for keys that are already hashes.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
    fn write_u32(&mut self, key: u32) {
        self.0 = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Maps the hash of a feature to its row.
pub(super) type Rows = HashMap<u32, u32, BuildHasherDefault<Identity>>;

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
    weights: Vec<i8>,
    stride: usize,
    /// Where the hashes with each prefix start.
    starts: Vec<u32>,
    /// One bit for each hash by its last bits, to skip the many features without weights.
    filter: Vec<u64>,
    lattice: Lattice,
}

const START_BITS: u32 = 16;
const FILTER_BITS: u32 = 20;

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
        let mut starts = vec![0u32; (1 << START_BITS) + 1];
        let mut filter = vec![0u64; 1 << (FILTER_BITS - 6)];
        for hash in &hashes {
            starts[(hash >> (32 - START_BITS)) as usize + 1] += 1;
            let bit = hash & ((1 << FILTER_BITS) - 1);
            filter[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self {
            labels,
            scale,
            lattice: Lattice::new(labels, &transitions),
            transitions,
            hashes,
            weights: padded,
            stride,
            starts,
            filter,
        }
    }

    /// Reduces the weights to this many steps on each side of 0, instead of the 127 of eight bits.
    pub(super) fn in_steps(mut self, steps: u8) -> Self {
        let width = 127.0 / f64::from(steps.clamp(1, 127));
        for weight in &mut self.weights {
            *weight = (f64::from(*weight) / width).round() as i8;
        }
        self.scale = (f64::from(self.scale) * width) as f32;
        self
    }

    /// Iterates over the weights, by feature and then by label.
    pub(super) fn weights(&self) -> impl Iterator<Item = i8> {
        let rows = self.weights.chunks(self.stride);
        rows.flat_map(|row| row[..self.labels].iter().copied())
    }

    /// Adds the weights of a feature.
    #[inline]
    pub(super) fn add(&self, feature: u32, sums: &mut Sums) {
        let bit = feature & ((1 << FILTER_BITS) - 1);
        if self.filter[(bit >> 6) as usize] >> (bit & 63) & 1 == 0 {
            return;
        }
        let bucket = (feature >> (32 - START_BITS)) as usize;
        let range = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
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

    /// Converts the sums of one word to scores, one for each label.
    pub(super) fn emission(&self, sums: &Sums, out: &mut Vec<f32>) {
        out.extend(
            sums[..self.labels]
                .iter()
                .map(|sum| f32::from(*sum) * self.scale),
        );
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
            self.emission(&sums, &mut emissions);
        }
        let mut out = Vec::new();
        self.between(&emissions, &mut Passing::default(), &mut out);
        out
    }

    /// Computes the same from the scores of each word.
    pub(super) fn between(&self, emissions: &[f32], passing: &mut Passing, out: &mut Vec<f32>) {
        match self.labels.div_ceil(4) {
            5 => self.lattice.marginals::<20>(emissions, passing, out),
            _ => self
                .lattice
                .marginals::<MOST_LABELS>(emissions, passing, out),
        }
    }

    /// Returns the most likely label of each word; used for the chain of parts of speech.
    pub(super) fn speech(&self, forms: &Forms) -> Vec<u8> {
        let marginals = self.marginals(forms.len(), |i, out| forms.speech(i, out));
        marginals
            .chunks(self.labels)
            .map(|of| likeliest(of) as u8)
            .collect()
    }
}

/// The forward-backward algorithm over the scores of one sentence.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    labels: usize,
    /// The exponentials of the transitions.
    steps: Vec<f32>,
}

/// The results of the forward-backward algorithm.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// The probability of each label for each word.
    pub(super) marginals: Vec<f32>,
    /// The expected count of each pair of labels; the last row is the beginning.
    pub(super) pairs: Vec<f32>,
}

impl Lattice {
    pub(super) fn new(labels: usize, transitions: &[f32]) -> Self {
        Self {
            labels,
            steps: transitions.iter().map(|t| t.exp()).collect(),
        }
    }

    /// Runs over the labels that each word may have; without sets, over all labels.
    pub(super) fn run(&self, emissions: &[f32], allowed: Option<&[u32]>) -> Passed {
        let n = self.labels;
        let length = emissions.len() / n;
        let may = |word: usize, label: usize| allowed.is_none_or(|a| a[word] >> label & 1 == 1);
        // Scores relative to the best of each word: nothing overflows, and one score never vanishes.
        let mut scores = vec![0f32; emissions.len()];
        for word in 0..length {
            let of = &emissions[word * n..][..n];
            let most = (0..n)
                .filter(|l| may(word, *l))
                .map(|l| of[l])
                .fold(f32::MIN, f32::max);
            for label in (0..n).filter(|l| may(word, *l)) {
                scores[word * n + label] = (of[label] - most).exp();
            }
        }
        let start = &self.steps[n * n..];
        let mut forward = vec![0f32; emissions.len()];
        let mut norms = vec![0f32; length];
        for word in 0..length {
            for label in 0..n {
                let arrived = if word == 0 {
                    start[label]
                } else {
                    let before = &forward[(word - 1) * n..][..n];
                    (0..n)
                        .map(|from| before[from] * self.steps[from * n + label])
                        .sum()
                };
                forward[word * n + label] = arrived * scores[word * n + label];
            }
            let norm: f32 = forward[word * n..][..n].iter().sum();
            norms[word] = norm.max(f32::MIN_POSITIVE);
            for value in &mut forward[word * n..][..n] {
                *value /= norms[word];
            }
        }
        self.backward(&scores, &forward, &norms)
    }

    fn backward(&self, scores: &[f32], forward: &[f32], norms: &[f32]) -> Passed {
        let n = self.labels;
        let length = norms.len();
        let mut marginals = vec![0f32; scores.len()];
        let mut pairs = vec![0f32; (n + 1) * n];
        let mut behind = vec![1f32; n];
        for word in (0..length).rev() {
            for label in 0..n {
                marginals[word * n + label] = forward[word * n + label] * behind[label];
            }
            let sum: f32 = marginals[word * n..][..n].iter().sum();
            for value in &mut marginals[word * n..][..n] {
                *value /= sum.max(f32::MIN_POSITIVE);
            }
            let arriving: Vec<f32> = (0..n)
                .map(|l| scores[word * n + l] * behind[l] / norms[word])
                .collect();
            if word == 0 {
                for label in 0..n {
                    pairs[n * n + label] += marginals[label];
                }
                break;
            }
            let before = &forward[(word - 1) * n..][..n];
            for from in 0..n {
                let mut sum = 0.0;
                for to in 0..n {
                    let through = self.steps[from * n + to] * arriving[to];
                    pairs[from * n + to] += before[from] * through;
                    sum += through;
                }
                behind[from] = sum;
            }
        }
        Passed { marginals, pairs }
    }
}

/// Buffers for one sentence.
#[derive(Debug, Default)]
pub(super) struct Passing {
    scores: Vec<f32>,
    forward: Vec<f32>,
    norms: Vec<f32>,
}

impl Lattice {
    /// Computes the marginals of [`Self::run`] without sets, with W labels at a time; those from `labels` on are
    /// impossible.
    fn marginals<const W: usize>(
        &self,
        emissions: &[f32],
        passing: &mut Passing,
        out: &mut Vec<f32>,
    ) {
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
        let Passing {
            scores,
            forward,
            norms,
        } = passing;
        let length = emissions.len() / n;
        for room in [&mut *scores, forward] {
            room.clear();
            room.resize(length * W, 0.0);
        }
        norms.clear();
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
        let from = out.len();
        out.resize(from + length * n, 0.0);
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
            let place = &mut out[from + word * n..][..n];
            for (place, value) in zip(place, now) {
                *place = value / sum;
            }
            arriving = arriving.map(|value| value / norms[word]);
            behind = times(&arriving, &back);
        }
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
    use super::{Lattice, Passing};

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
        let mut out = Vec::new();
        lattice.marginals::<12>(&emissions, &mut Passing::default(), &mut out);
        let other = lattice.run(&emissions, None).marginals;
        assert_eq!(out.len(), other.len());
        for (one, two) in out.iter().zip(&other) {
            assert!((one - two).abs() < 1e-5);
        }
    }

    /// Against the sum over all 3^4 paths, with and without sets of allowed labels.
    #[test]
    fn forward_and_backward_sum_over_all_paths() {
        let (n, length) = (3, 4);
        let transitions: Vec<f32> = (0..12).map(|i| ((i * 7 % 5) as f32 - 2.0) * 0.4).collect();
        let emissions: Vec<f32> = (0..12).map(|i| ((i * 5 % 7) as f32 - 3.0) * 0.5).collect();
        for allowed in [None, Some([0b111u32, 0b101, 0b010, 0b110])] {
            let mut marginals = vec![0f64; n * length];
            let mut pairs = vec![0f64; (n + 1) * n];
            let mut total = 0f64;
            for path in 0..81usize {
                let labels: Vec<usize> = (0..4).map(|w| path / 3usize.pow(w) % 3).collect();
                if allowed.is_some_and(|a| (0..4).any(|w| a[w] >> labels[w] & 1 == 0)) {
                    continue;
                }
                let steps = (0..4).map(|w| {
                    if w == 0 {
                        n * n + labels[0]
                    } else {
                        labels[w - 1] * n + labels[w]
                    }
                });
                let steps: Vec<usize> = steps.collect();
                let score: f64 = (0..4)
                    .map(|w| f64::from(emissions[w * n + labels[w]]))
                    .sum::<f64>()
                    + steps
                        .iter()
                        .map(|s| f64::from(transitions[*s]))
                        .sum::<f64>();
                let weight = score.exp();
                total += weight;
                for w in 0..4 {
                    marginals[w * n + labels[w]] += weight;
                    pairs[steps[w]] += weight;
                }
            }
            let lattice = Lattice::new(n, &transitions);
            let passed = lattice.run(&emissions, allowed.as_ref().map(|a| &a[..]));
            for (got, sum) in passed.marginals.iter().zip(&marginals) {
                assert!((f64::from(*got) - sum / total).abs() < 1e-5);
            }
            for (got, sum) in passed.pairs.iter().zip(&pairs) {
                assert!((f64::from(*got) - sum / total).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn scores_far_apart_neither_overflow_nor_vanish() {
        let lattice = Lattice::new(2, &[0.0; 6]);
        let passed = lattice.run(&[1000.0, -1000.0, -300.0, 300.0], None);
        assert!(passed.marginals.iter().all(|m| m.is_finite()));
        assert!(
            (passed.marginals[0] - 1.0).abs() < 1e-6 && (passed.marginals[3] - 1.0).abs() < 1e-6
        );
    }
}
