//! Trains the three chains: conditional likelihood with AdaGrad, fully determined by a seed.
//!
//! With the feature `tagger-training` and in tests, this file is a module of the crate, which needs the parts of a model.

use super::chain::{Chain, Lattice, Rows};
use super::features::Forms;
use super::lexicon::{Lexicon, hash};
use super::lists::Lists;
use super::{NAME_LABELS, TASKS, TaggerModel, WordTags, kinds, tags};
use crate::error::{Result, range};
use crate::random::{Choices, Purpose};
use std::collections::{BTreeMap, HashMap};

/// Lists and clusters of words that a model includes as evidence for the chain of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaggerLexicon {
    /// For words in lower case, the lists that contain them, one bit each.
    pub lists: BTreeMap<String, u8>,
    /// For words as written, their cluster among few and among many clusters; 0 means none.
    pub clusters: BTreeMap<String, [u8; 2]>,
}

/// A sentence for training, with a set of labels as bits for each word: one bit if the label is known, several if it is
/// not, as in text in which annotators marked only some kinds of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedSentence {
    /// The words.
    pub words: Vec<String>,
    /// The labels that each word may have.
    pub labels: Vec<u32>,
}

/// Training material for the chains. Labels are indices of `PARTS_OF_SPEECH`, `NAME_LABELS` and `ROLE_LABELS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaggerMaterial {
    /// Parts of speech.
    pub speech: Vec<TaggedSentence>,
    /// Names.
    pub names: Vec<TaggedSentence>,
    /// Subjects and objects.
    pub roles: Vec<TaggedSentence>,
    /// The words that the model includes as its lexicon.
    pub lexicon: TaggerLexicon,
}

/// The training parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct TaggerTraining {
    /// Determines the order of the sentences, and which features are omitted from a step.
    pub seed: u64,
    /// The number of passes over the material.
    pub rounds: usize,
    /// AdaGrad's learning rate.
    pub rate: f32,
    /// The weight of the L2 penalty.
    pub decay: f32,
    /// The share of features omitted from each step, so that the model does not rely on any single feature.
    pub dropout: f32,
    /// Features that occur less often are not learnt.
    pub least_count: u32,
    /// The number of steps of a weight on each side of 0, for each chain, at most 127. More steps make a model larger
    /// but hardly better.
    pub steps: [u8; 3],
    /// The number of features kept for each chain: those with the largest weights.
    pub most_features: [usize; 3],
    /// When names are trained further, the share of the previous weights in the new ones: 0.5 is the mean of both. The
    /// previous weight of a feature that the model did not have is 0.
    pub kept: f32,
}

impl Default for TaggerTraining {
    fn default() -> Self {
        Self {
            seed: 0,
            rounds: 4,
            rate: 0.1,
            decay: 1e-5,
            dropout: 0.1,
            least_count: 2,
            steps: [31, 15, 31],
            most_features: [30_000, 80_000, 40_000],
            kept: 0.0,
        }
    }
}

/// A sentence as feature and label numbers.
struct Prepared {
    features: Vec<Vec<u32>>,
    labels: Vec<u32>,
}

impl TaggerModel {
    /// Trains a model. Equal material and options give equal bytes on the same platform.
    ///
    /// # Errors
    /// Returns an error if the labels of a sentence do not fit its words.
    pub fn train(material: &TaggerMaterial, how: &TaggerTraining) -> Result<Self> {
        let all = [&material.speech, &material.names, &material.roles];
        for ((name, labels), sentences) in TASKS.iter().zip(all) {
            check(name, *labels, sentences)?;
        }
        // The chain of roles is trained on tags from a tagger that has not seen the sentence, as when the model is
        // used.
        let half = |odd: usize| -> Vec<&TaggedSentence> {
            material
                .speech
                .iter()
                .enumerate()
                .filter(|(i, _)| i % 2 == odd)
                .map(|(_, s)| s)
                .collect()
        };
        let lexicon = Lexicon::of(&material.lexicon);
        let of_speech = |sentences: Vec<&TaggedSentence>| {
            let of = |f: &Forms, _: &[u8], i: usize, out: &mut Vec<u32>| f.speech(i, out);
            learn(0, &prepare(sentences, &lexicon, |_| Vec::new(), of), how)
        };
        let speech = of_speech(material.speech.iter().collect())?;
        let halves = [of_speech(half(1))?, of_speech(half(0))?];
        let seen: HashMap<&[String], usize> = material
            .speech
            .iter()
            .enumerate()
            .map(|(i, s)| (&s.words[..], i % 2))
            .collect();
        let lists = Lists::new();
        let tagged = |words: &[String]| {
            let unseen = seen.get(words).map_or(&speech, |odd| &halves[*odd]);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let forms = Forms::of(&words, &lists, &lexicon);
            tags(&unseen.marginals(forms.len(), |i, out| forms.speech(i, out)))
        };
        let names = learn(NAMES, &prepare_names(&material.names, &lexicon), how)?;
        let roles = prepare(&material.roles, &lexicon, tagged, Forms::roles);
        let roles = learn(2, &roles, how)?;
        let [of_speech, of_names, of_roles] = how.steps;
        let chains = [
            speech.in_steps(of_speech),
            names.in_steps(of_names),
            roles.in_steps(of_roles),
        ];
        Ok(Self::of(chains, lexicon))
    }

    /// Returns this model with its chain of names trained further on more sentences; its parts of speech, roles and
    /// lexicon are unchanged.
    ///
    /// # Errors
    /// Returns an error if the labels of a sentence do not fit its words.
    pub fn further(&self, names: &[TaggedSentence], how: &TaggerTraining) -> Result<Self> {
        let (name, n) = TASKS[NAMES];
        check(name, n, names)?;
        let sentences = prepare_names(names, &self.lexicon);
        let counts = counts(&sentences);
        let chain = &self.chains[NAMES];
        let mut hashes: Vec<u32> = counts
            .iter()
            .filter(|(_, count)| **count >= how.least_count)
            .map(|(hash, _)| *hash)
            .chain(chain.hashes.iter().copied())
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        let most = how.most_features[NAMES];
        if hashes.len() > most {
            let learner = fit(n, &sentences, &hashes, how, Some(chain));
            hashes = telling(&learner, &hashes, &counts, most);
        }
        let mut learner = fit(n, &sentences, &hashes, how, Some(chain));
        learner.draw_back(chain, &hashes);
        let chain = learner.finish(&hashes, most).in_steps(how.steps[NAMES]);
        let [speech, _, roles] = &self.chains;
        Ok(Self::of(
            [speech.clone(), chain, roles.clone()],
            self.lexicon.clone(),
        ))
    }
}

fn counts(sentences: &[Prepared]) -> Rows {
    let mut counts = Rows::default();
    for feature in sentences.iter().flat_map(|s| s.features.iter().flatten()) {
        *counts.entry(*feature).or_default() += 1;
    }
    counts
}

fn check(name: &'static str, labels: usize, sentences: &[TaggedSentence]) -> Result<()> {
    for (number, sentence) in sentences.iter().enumerate() {
        let fits = |set: &u32| *set != 0 && u64::from(*set) < 1 << labels;
        if sentence.words.len() != sentence.labels.len() || !sentence.labels.iter().all(fits) {
            return Err(range(
                "the labels of a sentence",
                format!("those of sentence {number} for {name}"),
                format!("one set of the {labels} labels for each word, none of them empty"),
            ));
        }
    }
    Ok(())
}

fn prepare_names(sentences: &[TaggedSentence], lexicon: &Lexicon) -> Vec<Prepared> {
    let of = |forms: &Forms, _: &[u8], i: usize, out: &mut Vec<u32>| {
        forms.names(i, |feature| out.push(feature));
    };
    prepare(sentences, lexicon, |_| Vec::new(), of)
}

fn prepare<'s>(
    sentences: impl IntoIterator<Item = &'s TaggedSentence>,
    lexicon: &Lexicon,
    speech: impl Fn(&[String]) -> Vec<u8>,
    of: impl Fn(&Forms, &[u8], usize, &mut Vec<u32>),
) -> Vec<Prepared> {
    let lists = Lists::new();
    sentences
        .into_iter()
        .filter(|s| !s.words.is_empty())
        .map(|sentence| {
            let words: Vec<&str> = sentence.words.iter().map(String::as_str).collect();
            let forms = Forms::of(&words, &lists, lexicon);
            let tags = speech(&sentence.words);
            let features = (0..words.len())
                .map(|i| {
                    let mut out = Vec::new();
                    of(&forms, &tags, i, &mut out);
                    out
                })
                .collect();
            Prepared {
                features,
                labels: sentence.labels.clone(),
            }
        })
        .collect()
}

/// Weights during training.
struct Learner<'a> {
    n: usize,
    how: &'a TaggerTraining,
    weights: Vec<f32>,
    squares: Vec<f32>,
    transitions: Vec<f32>,
    transition_squares: Vec<f32>,
}

fn learn(task: usize, sentences: &[Prepared], how: &TaggerTraining) -> Result<Chain> {
    let n = TASKS[task].1;
    let counts = counts(sentences);
    let mut hashes: Vec<u32> = counts
        .iter()
        .filter(|(_, c)| **c >= how.least_count)
        .map(|(h, _)| *h)
        .collect();
    hashes.sort_unstable();
    let most = how.most_features[task];
    let learner = fit(n, sentences, &hashes, how, None);
    if task != NAMES || hashes.len() <= most {
        return Ok(learner.finish(&hashes, most));
    }
    let hashes = telling(&learner, &hashes, &counts, most);
    Ok(fit(n, sentences, &hashes, how, None).finish(&hashes, most))
}

/// Selects, of the many features for names, those with the largest and most frequent effect. They are trained again, to
/// compensate for the others.
fn telling(learner: &Learner<'_>, hashes: &[u32], counts: &Rows, most: usize) -> Vec<u32> {
    let mut order: Vec<(f32, u32)> = hashes
        .iter()
        .enumerate()
        .map(|(row, hash)| {
            let count = counts.get(hash).copied().unwrap_or(1);
            (learner.size(row).sqrt() * (count as f32).sqrt(), *hash)
        })
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut hashes: Vec<u32> = order.into_iter().take(most).map(|(_, hash)| hash).collect();
    hashes.sort_unstable();
    hashes
}

/// The index of the chain of names.
const NAMES: usize = 1;

/// Trains the weights of these features.
fn fit<'a>(
    n: usize,
    sentences: &[Prepared],
    hashes: &[u32],
    how: &'a TaggerTraining,
    from: Option<&Chain>,
) -> Learner<'a> {
    let rows: Rows = (0u32..)
        .zip(hashes)
        .map(|(row, hash)| (*hash, row))
        .collect();
    // From here on, a feature is the number of its row.
    let numbered: Vec<Vec<Vec<u32>>> = sentences
        .iter()
        .map(|s| {
            s.features
                .iter()
                .map(|word| word.iter().filter_map(|h| rows.get(h).copied()).collect())
                .collect()
        })
        .collect();
    let mut learner = Learner {
        n,
        how,
        weights: vec![0.0; hashes.len() * n],
        squares: vec![0.0; hashes.len() * n],
        transitions: vec![0.0; (n + 1) * n],
        transition_squares: vec![0.0; (n + 1) * n],
    };
    if let Some(chain) = from {
        learner.go_on_from(chain, &rows);
    }
    let mut choices = Choices::new(how.seed, Purpose::Tagger);
    for _ in 0..how.rounds {
        for at in choices.distinct(sentences.len(), sentences.len()) {
            learner.step(&numbered[at], &sentences[at].labels, &mut choices);
        }
    }
    learner
}

/// The sum of squared gradients that a previously trained weight starts with.
const SEEN: f32 = 1.0;

impl Learner<'_> {
    /// Starts from the weights of a previously trained chain.
    fn go_on_from(&mut self, chain: &Chain, rows: &Rows) {
        let weights: Vec<i8> = chain.weights().collect();
        for (hash, of) in chain.hashes.iter().zip(weights.chunks(self.n)) {
            let Some(row) = rows.get(hash) else {
                continue;
            };
            let from = *row as usize * self.n;
            for (at, weight) in of.iter().enumerate() {
                self.weights[from + at] = f32::from(*weight) * chain.scale;
                self.squares[from + at] = SEEN;
            }
        }
        self.transitions.clone_from(&chain.transitions);
        self.transition_squares.fill(SEEN);
    }

    /// Interpolates the weights with those of the chain that they started from, by the share of those that is kept. The
    /// features must be in order.
    fn draw_back(&mut self, chain: &Chain, hashes: &[u32]) {
        let kept = self.how.kept.clamp(0.0, 1.0);
        for weight in self.weights.iter_mut().chain(&mut self.transitions) {
            *weight *= 1.0 - kept;
        }
        let before: Vec<i8> = chain.weights().collect();
        for (hash, of) in chain.hashes.iter().zip(before.chunks(self.n)) {
            if let Ok(row) = hashes.binary_search(hash) {
                let weights = &mut self.weights[row * self.n..][..self.n];
                for (weight, before) in weights.iter_mut().zip(of) {
                    *weight += kept * f32::from(*before) * chain.scale;
                }
            }
        }
        for (weight, before) in self.transitions.iter_mut().zip(&chain.transitions) {
            *weight += kept * before;
        }
    }

    /// Makes a step on one sentence: towards what the labels allow, and away from what is expected.
    fn step(&mut self, features: &[Vec<u32>], labels: &[u32], choices: &mut Choices) {
        let n = self.n;
        let drop = (self.how.dropout.clamp(0.0, 0.9) * 1024.0) as u64;
        let kept: Vec<Vec<u32>> = features
            .iter()
            .map(|word| {
                word.iter()
                    .copied()
                    .filter(|_| !choices.chance(drop, 1024))
                    .collect()
            })
            .collect();
        let mut emissions = vec![0f32; features.len() * n];
        for (word, out) in kept.iter().zip(emissions.chunks_mut(n)) {
            for row in word {
                let weights = &self.weights[*row as usize * n..][..n];
                for (sum, weight) in out.iter_mut().zip(weights) {
                    *sum += weight;
                }
            }
        }
        let lattice = Lattice::new(n, &self.transitions);
        let free = lattice.run(&emissions, None);
        let bound = lattice.run(&emissions, Some(labels));
        for (at, word) in kept.iter().enumerate() {
            let gradient: Vec<f32> = (0..n)
                .map(|l| bound.marginals[at * n + l] - free.marginals[at * n + l])
                .collect();
            if gradient.iter().all(|g| g.abs() < 1e-4) {
                continue;
            }
            for row in word {
                let from = *row as usize * n;
                for (l, g) in gradient.iter().enumerate() {
                    update(
                        &mut self.weights[from + l],
                        &mut self.squares[from + l],
                        *g,
                        self.how,
                    );
                }
            }
        }
        for (pair, (b, f)) in bound.pairs.iter().zip(&free.pairs).enumerate() {
            update(
                &mut self.transitions[pair],
                &mut self.transition_squares[pair],
                b - f,
                self.how,
            );
        }
    }

    /// Returns the sum of the squares of a feature's weights.
    fn size(&self, row: usize) -> f32 {
        self.weights[row * self.n..][..self.n]
            .iter()
            .map(|w| w * w)
            .sum()
    }

    /// Returns a chain with the largest weights, in eight bits.
    fn finish(&self, hashes: &[u32], most: usize) -> Chain {
        let n = self.n;
        let mut order: Vec<usize> = (0..hashes.len()).collect();
        order.sort_by(|a, b| self.size(*b).total_cmp(&self.size(*a)).then(a.cmp(b)));
        order.truncate(most);
        order.sort_unstable();
        let largest = self.weights.iter().fold(0f32, |m, w| m.max(w.abs()));
        let scale = (largest / 127.0).clamp(1e-6, 1.0);
        let weights: Vec<i8> = order
            .iter()
            .flat_map(|row| &self.weights[row * n..][..n])
            .map(|w| (w / scale).round().clamp(-127.0, 127.0) as i8)
            .collect();
        let hashes = order.iter().map(|row| hashes[*row]).collect();
        let transitions = self
            .transitions
            .iter()
            .map(|t| t.clamp(-30.0, 30.0))
            .collect();
        Chain::new(n, scale, transitions, hashes, &weights)
    }
}

fn update(weight: &mut f32, square: &mut f32, gradient: f32, how: &TaggerTraining) {
    let g = gradient - how.decay * *weight;
    *square += g * g;
    *weight += how.rate * g / (square.sqrt() + 1e-3);
}

impl Chain {
    /// Reduces the weights to this many steps on each side of 0, instead of the 127 of eight bits.
    fn in_steps(mut self, steps: u8) -> Self {
        let width = 127.0 / f64::from(steps.clamp(1, 127));
        for weight in &mut self.weights {
            *weight = (f64::from(*weight) / width).round() as i8;
        }
        self.scale = (f64::from(self.scale) * width) as f32;
        self
    }
}

/// The results of the forward-backward algorithm.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// The probability of each label for each word.
    pub(super) marginals: Vec<f32>,
    /// The expected count of each pair of labels; the last row is the beginning.
    pairs: Vec<f32>,
}

impl Lattice {
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

impl Lexicon {
    /// Creates a lexicon. Lists of words with the same hash are merged; the cluster is that of the first word.
    fn of(words: &TaggerLexicon) -> Self {
        let mut lists: BTreeMap<u32, u8> = BTreeMap::new();
        for (word, bits) in &words.lists {
            *lists.entry(hash(word)).or_default() |= bits;
        }
        let mut clusters: BTreeMap<u32, [u8; 2]> = BTreeMap::new();
        for (word, of) in &words.clusters {
            clusters.entry(hash(word)).or_insert(*of);
        }
        Self::new(
            lists.keys().copied().collect(),
            lists.into_values().collect(),
            clusters.keys().copied().collect(),
            clusters.into_values().collect(),
        )
    }
}

/// Returns the labels of names for the words of a sentence: of words that are more likely than not part of a name. The
/// words of one name have the same kind.
#[must_use]
pub fn name_labels(tags: &[WordTags]) -> Vec<&'static str> {
    let names: Vec<[f32; 9]> = tags.iter().map(|tags| tags.name).collect();
    let mut out = vec![NAME_LABELS[0]; names.len()];
    let mut before = false;
    kinds(&names, |word, kind, begins| {
        let inside = names[word][0] < 0.5;
        if inside {
            let goes_on = usize::from(before && !begins);
            out[word] = NAME_LABELS[2 * kind + 1 + goes_on];
        }
        before = inside;
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A toy language where one word decides: learnt from labels, and from sets of labels whose
    /// other sentences decide them.
    #[test]
    fn training_learns_what_the_labels_and_sets_of_labels_say() {
        let sentence = |words: &[&str], labels: &[u32]| TaggedSentence {
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            labels: labels.to_vec(),
        };
        let mut material = TaggerMaterial::default();
        for _ in 0..20 {
            material
                .names
                .push(sentence(&["ask", "Zorba", "now"], &[1, 2, 1]));
            // Zorba is a name of some kind here, and which is known from above.
            material
                .names
                .push(sentence(&["Zorba", "left"], &[0b1_1111_1110, 1]));
            material
                .speech
                .push(sentence(&["ask", "Zorba"], &[1 << 15, 1 << 11]));
            material.roles.push(sentence(&["ask", "Zorba"], &[1, 4]));
        }
        let how = TaggerTraining {
            rounds: 5,
            ..TaggerTraining::default()
        };
        let model = TaggerModel::train(&material, &how).unwrap();
        let tags = model.tag_words(&["Zorba", "left"]);
        assert_eq!((tags[0].name_label(), tags[1].name_label()), ("B-PER", "O"));
        assert_eq!(model.tag_words(&["ask", "Zorba"])[1].role_label(), "OBJECT");
        // Equal material, equal bytes; through the bytes, equal tags.
        let again = TaggerModel::train(&material, &how).unwrap();
        assert_eq!(model.to_bytes(), again.to_bytes());
        let read = TaggerModel::from_bytes(&model.to_bytes()).unwrap();
        assert_eq!(read.tag_words(&["Zorba", "left"]), tags);
        material.names.push(sentence(&["one", "two"], &[1]));
        assert!(TaggerModel::train(&material, &how).is_err());
        // Learnt further from sentences that say otherwise: what is kept of the weights before holds against it.
        let otherwise = vec![sentence(&["ask", "Zorba", "now"], &[1, 1 << 5, 1]); 200];
        let organisation = |kept| {
            let how = TaggerTraining {
                kept,
                ..how.clone()
            };
            let further = model.further(&otherwise, &how).unwrap();
            further.tag_words(&["ask", "Zorba", "now"])[1].name[5]
        };
        let before = model.tag_words(&["ask", "Zorba", "now"])[1].name[5];
        let [forgotten, mean, all] = [0.0, 0.5, 1.0].map(organisation);
        assert!((all - before).abs() < 1e-3, "{all} for {before}");
        assert!(before < 0.1 && before < mean && mean < forgotten && forgotten > 0.9);
    }
}
