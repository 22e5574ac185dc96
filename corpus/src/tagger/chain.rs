//! A linear chain: scores of labels for each word, scores of neighbouring labels, and what
//! both say together of each word.

use super::features::Forms;
use super::likeliest;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Labels of one chain, at most: one bit of a set each.
pub(super) const MOST_LABELS: usize = 32;

/// The keys are hashes already.
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
    fn write_u32(&mut self, key: u32) {
        self.0 = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// From the hash of a feature to its row.
pub(super) type Rows = HashMap<u32, u32, BuildHasherDefault<Identity>>;

/// A trained chain with weights of eight bits.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) labels: usize,
    /// What a weight of one is worth.
    pub(super) scale: f32,
    /// From a label (or the beginning, the last row) to the next.
    pub(super) transitions: Vec<f32>,
    pub(super) hashes: Vec<u32>,
    pub(super) weights: Vec<i8>,
    rows: Rows,
    lattice: Lattice,
}

impl Chain {
    pub(super) fn new(
        labels: usize,
        scale: f32,
        transitions: Vec<f32>,
        hashes: Vec<u32>,
        weights: Vec<i8>,
    ) -> Self {
        let rows = (0u32..)
            .zip(&hashes)
            .map(|(row, hash)| (*hash, row))
            .collect();
        Self {
            labels,
            scale,
            lattice: Lattice::new(labels, &transitions),
            transitions,
            hashes,
            weights,
            rows,
        }
    }

    /// Adds up what the features of one word say, a number for each label.
    fn emission(&self, features: &[u32], out: &mut Vec<f32>) {
        let mut sums = [0i32; MOST_LABELS];
        for feature in features {
            let Some(row) = self.rows.get(feature) else {
                continue;
            };
            let from = *row as usize * self.labels;
            for (sum, weight) in sums.iter_mut().zip(&self.weights[from..from + self.labels]) {
                *sum += i32::from(*weight);
            }
        }
        out.extend(
            sums[..self.labels]
                .iter()
                .map(|sum| *sum as f32 * self.scale),
        );
    }

    /// For each word the probability of each label, given the whole sentence.
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
            self.emission(&of_word, &mut emissions);
        }
        self.lattice.run(&emissions, None).marginals
    }

    /// Of the chain of parts of speech: the likeliest of each word.
    pub(super) fn speech(&self, forms: &Forms) -> Vec<u8> {
        let marginals = self.marginals(forms.len(), |i, out| forms.speech(i, out));
        marginals
            .chunks(self.labels)
            .map(|of| likeliest(of) as u8)
            .collect()
    }
}

/// Forward and backward over the scores of one sentence.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    labels: usize,
    /// exp of the transitions.
    steps: Vec<f32>,
}

/// What forward and backward give.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Of each word, each label.
    pub(super) marginals: Vec<f32>,
    /// Of each pair of labels, how often it is expected; the last row is the beginning.
    pub(super) pairs: Vec<f32>,
}

impl Lattice {
    pub(super) fn new(labels: usize, transitions: &[f32]) -> Self {
        Self {
            labels,
            steps: transitions.iter().map(|t| t.exp()).collect(),
        }
    }

    /// Over the labels that each word may have; all of them without sets.
    pub(super) fn run(&self, emissions: &[f32], allowed: Option<&[u32]>) -> Passed {
        let n = self.labels;
        let length = emissions.len() / n;
        let may = |word: usize, label: usize| allowed.is_none_or(|a| a[word] >> label & 1 == 1);
        // Scores relative to the best of each word: nothing overflows, one never vanishes.
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

#[cfg(test)]
mod tests {
    use super::Lattice;

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
