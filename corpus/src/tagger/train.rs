//! Trains the three chains: conditional likelihood with AdaGrad, fully determined by a seed.

use super::chain::{Chain, Lattice, Rows};
use super::features::Forms;
use super::lexicon::{Lexicon, TaggerLexicon};
use super::lists::Lists;
use super::{TASKS, TaggerModel, tags};
use crate::error::{Result, range};
use crate::random::{Choices, Purpose};

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
        let seen: std::collections::HashMap<&[String], usize> = material
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
