//! Computes the names of a sentence from the evidence of each of its words.

use super::NAME_LABELS;
use super::chain::{Chain, Sums, exp};
use std::array::from_fn;

/// The number of labels of names, without the label of words outside names.
pub(super) const INSIDE: usize = NAME_LABELS.len() - 1;
/// The evidence for each label of a name, relative to that for none.
pub(super) type Evidence = [i16; INSIDE];

pub(super) fn evidence(sums: &Sums) -> Evidence {
    from_fn(|at| sums[at + 1].wrapping_sub(sums[0]))
}

#[inline]
pub(super) fn add(sum: &mut Evidence, more: &Evidence) {
    for at in 0..INSIDE {
        sum[at] = sum[at].wrapping_add(more[at]);
    }
}

/// A value for words outside names, and one for each label of a name.
#[derive(Debug, Clone, Copy, Default)]
struct Both {
    outside: f32,
    inside: [f32; INSIDE],
}

/// Adds the values in an order that can be vectorised.
#[inline]
fn sum(of: &[f32; INSIDE]) -> f32 {
    let [a, b, c, d, e, f, g, h] = *of;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

impl Both {
    /// A word that is certainly outside names.
    const PLAIN: Self = Self {
        outside: 1.0,
        inside: [0.0; INSIDE],
    };
    const ANY: Self = Self {
        outside: 1.0,
        inside: [1.0; INSIDE],
    };

    #[inline]
    fn times(&self, other: &Self) -> Self {
        let mut out = *self;
        out.outside *= other.outside;
        for at in 0..INSIDE {
            out.inside[at] *= other.inside[at];
        }
        out
    }

    #[inline]
    fn total(&self) -> f32 {
        (self.outside + sum(&self.inside)).max(f32::MIN_POSITIVE)
    }

    #[inline]
    fn over(&self, total: f32) -> Self {
        let mut out = *self;
        out.outside /= total;
        for value in &mut out.inside {
            *value /= total;
        }
        out
    }
}

/// Transition factors, one row per label, either to the next label or from the previous one.
#[derive(Debug, Clone)]
struct Steps {
    outside: Both,
    inside: [[f32; INSIDE]; INSIDE],
    /// From the labels of names to words outside names.
    leaving: [f32; INSIDE],
}

impl Steps {
    #[inline]
    fn after(&self, before: &Both) -> Both {
        let mut out = self.outside.inside;
        for value in &mut out {
            *value *= before.outside;
        }
        for (value, row) in before.inside.iter().zip(&self.inside) {
            for (sum, step) in out.iter_mut().zip(row) {
                *sum += value * step;
            }
        }
        let mut leaving = before.inside;
        for (value, step) in leaving.iter_mut().zip(&self.leaving) {
            *value *= step;
        }
        Both {
            outside: before.outside * self.outside.outside + sum(&leaving),
            inside: out,
        }
    }
}

/// The transitions of the chain of names.
#[derive(Debug, Clone)]
pub(super) struct Between {
    scale: f32,
    start: Both,
    forward: Steps,
    back: Steps,
}

/// A word after the forward pass.
#[derive(Debug, Clone, Copy)]
struct Passed {
    score: Both,
    forward: Both,
    norm: f32,
}

/// A buffer for one sentence.
#[derive(Debug, Default)]
pub(super) struct Room(Vec<Passed>);

impl Between {
    pub(super) fn new(chain: &Chain) -> Self {
        let n = NAME_LABELS.len();
        let step = |from: usize, to: usize| chain.transitions[from * n + to].exp();
        let both = |of: &dyn Fn(usize) -> f32| Both {
            outside: of(0),
            inside: from_fn(|at| of(at + 1)),
        };
        let steps = |of: &dyn Fn(usize, usize) -> f32| Steps {
            outside: both(&|to| of(0, to)),
            inside: from_fn(|from| from_fn(|to| of(from + 1, to + 1))),
            leaving: from_fn(|from| of(from + 1, 0)),
        };
        Self {
            scale: chain.scale,
            start: both(&|to| step(n, to)),
            forward: steps(&step),
            back: steps(&|from, to| step(to, from)),
        }
    }

    /// Appends the probability of each of [`NAME_LABELS`] for each word to `out`. Words without evidence are plain,
    /// that is, in no name.
    pub(super) fn marginals(
        &self,
        words: &[Option<Evidence>],
        room: &mut Room,
        out: &mut Vec<f32>,
    ) {
        let passed = &mut room.0;
        passed.clear();
        let mut arrived = self.start;
        for word in words {
            let now = if let Some(evidence) = word {
                let most = evidence.iter().copied().fold(0, i16::max);
                let mut score = Both {
                    outside: exp(f32::from(most) * -self.scale),
                    inside: [0.0; INSIDE],
                };
                for (score, of) in score.inside.iter_mut().zip(evidence) {
                    *score = exp((f32::from(*of) - f32::from(most)) * self.scale);
                }
                let forward = arrived.times(&score);
                let norm = forward.total();
                Passed {
                    score,
                    forward: forward.over(norm),
                    norm,
                }
            } else {
                Passed {
                    score: Both::PLAIN,
                    forward: Both::PLAIN,
                    norm: 1.0,
                }
            };
            passed.push(now);
            arrived = if word.is_some() {
                self.forward.after(&now.forward)
            } else {
                self.forward.outside
            };
        }
        let from = out.len();
        out.resize(from + words.len() * NAME_LABELS.len(), 0.0);
        let (places, _) = out[from..].as_chunks_mut::<{ NAME_LABELS.len() }>();
        let mut behind = Both::ANY;
        for ((place, word), passed) in places.iter_mut().zip(words).zip(&*passed).rev() {
            if word.is_none() {
                place[0] = 1.0;
                behind = self.back.outside;
                continue;
            }
            let now = passed.forward.times(&behind);
            let now = now.over(now.total());
            place[0] = now.outside;
            place[1..].copy_from_slice(&now.inside);
            let arriving = passed.score.times(&behind).over(passed.norm);
            behind = self.back.after(&arriving);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tagger::chain::Lattice;

    /// Without plain words what [`Lattice`] says; with them, what it says where no other label is allowed.
    #[test]
    fn plain_words_are_in_no_name_and_the_others_as_in_the_lattice() {
        let (n, length) = (NAME_LABELS.len(), 60);
        let wild = |i: usize| (i * 7919 % 1009) as f32 / 504.5 - 1.0;
        let transitions: Vec<f32> = (0..n * (n + 1)).map(|i| wild(i) * 4.0).collect();
        let chain = Chain::new(n, 0.1, transitions.clone(), Vec::new(), &[]);
        let between = Between::new(&chain);
        let lattice = Lattice::new(n, &transitions);
        for some in [false, true] {
            let words: Vec<Option<Evidence>> = (0..length)
                .map(|w| {
                    let of = from_fn(|at| (wild(w * n + at) * 100.0) as i16);
                    (!some || w % 3 != 1).then_some(of)
                })
                .collect();
            let emissions: Vec<f32> = words
                .iter()
                .flat_map(|of| {
                    let of = of.unwrap_or_default();
                    [0.0].into_iter().chain(of.map(|e| f32::from(e) * 0.1))
                })
                .collect();
            let allowed: Vec<u32> = words
                .iter()
                .map(|of| if of.is_some() { (1 << n) - 1 } else { 1 })
                .collect();
            let other = lattice.run(&emissions, Some(&allowed)).marginals;
            let mut out = vec![7.0];
            between.marginals(&words, &mut Room::default(), &mut out);
            assert_eq!(out.len(), other.len() + 1);
            for (one, two) in out[1..].iter().zip(&other) {
                assert!((one - two).abs() < 1e-5, "{one} {two}");
            }
        }
    }
}
