//! A small tagger of our own for English text: parts of speech, names, subjects and objects.
//!
//! It consists of three linear chains (conditional random fields) over hashed features of word forms, neighbours and,
//! for roles alone, parts of speech. Weights have eight bits and are included in the crate; `models/tagger.md`
//! describes the training data and the accuracy. Each tag has its probability given the sentence, so that two
//! thresholds turn one model into two policies.

mod between;
mod chain;
mod features;
mod file;
mod lexicon;
mod lists;
mod said;
#[cfg(any(test, feature = "tagger-training"))]
#[path = "../../examples/train_tagger/training.rs"]
mod training;
mod vocabulary;
mod words;

#[cfg(any(test, feature = "tagger-training"))]
pub use training::{TaggedSentence, TaggerLexicon, TaggerMaterial, TaggerTraining, name_labels};

use crate::error::{Error, Result};
use crate::policy::{EntityKind, LEAST_SCORE, Role, RoleTag, Tagger};
use between::{Between, Evidence, Room, evidence};
use chain::{Chain, MOST_LABELS, Sums};
use features::Forms;
use flate2::read::GzDecoder;
use lexicon::Lexicon;
use lists::Lists;
use said::Said;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use vocabulary::Vocabulary;

/// The universal parts of speech, in the order of their labels.
pub const PARTS_OF_SPEECH: [&str; 17] = [
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN",
    "PUNCT", "SCONJ", "SYM", "VERB", "X",
];
/// The labels of names, in order: outside, then beginning and inside of each kind.
pub const NAME_LABELS: [&str; 9] = [
    "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-MISC", "I-MISC",
];
/// The roles in a clause, in the order of their labels.
pub const ROLE_LABELS: [&str; 3] = ["O", "SUBJECT", "OBJECT"];

const ADJ: u8 = 0;
const ADV: u8 = 2;
const AUX: u8 = 3;
const DET: u8 = 5;
const NOUN: u8 = 7;
const NUM: u8 = 8;
const PRON: u8 = 10;
const PROPN: u8 = 11;
const PUNCT: u8 = 12;
const SCONJ: u8 = 13;
const VERB: u8 = 15;

/// The name and the number of labels of each chain.
const TASKS: [(&str, usize); 3] = [
    ("parts of speech", PARTS_OF_SPEECH.len()),
    ("names", NAME_LABELS.len()),
    ("roles", ROLE_LABELS.len()),
];

/// Compressed, which halves it.
static SHIPPED: &[u8] = include_bytes!("../../models/tagger.bin.gz");

/// The tagger's results for one word.
#[derive(Debug, Clone, PartialEq)]
pub struct WordTags {
    /// Probability of each of [`PARTS_OF_SPEECH`].
    pub speech: [f32; 17],
    /// Probability of each of [`NAME_LABELS`].
    pub name: [f32; 9],
    /// Probability of each of [`ROLE_LABELS`].
    pub role: [f32; 3],
}

impl WordTags {
    /// Returns the most likely part of speech.
    #[must_use]
    pub fn part_of_speech(&self) -> &'static str {
        PARTS_OF_SPEECH[likeliest(&self.speech)]
    }

    /// Returns the most likely label of a name.
    #[must_use]
    pub fn name_label(&self) -> &'static str {
        NAME_LABELS[likeliest(&self.name)]
    }

    /// Returns the most likely role.
    #[must_use]
    pub fn role_label(&self) -> &'static str {
        ROLE_LABELS[likeliest(&self.role)]
    }

    /// Returns the probability that the word is part of a name.
    #[must_use]
    pub fn in_name(&self) -> f32 {
        1.0 - self.name[0]
    }
}

/// The kinds of names, in the order of their labels.
const KINDS: [EntityKind; 4] = [
    EntityKind::Person,
    EntityKind::Loc,
    EntityKind::Org,
    EntityKind::Product,
];

/// Passes, for each word, the kind of name that it would be, as an index of [`KINDS`], and whether it begins one. The
/// words of a name have the same kind: a word that is more likely to continue a name than to begin one belongs to the
/// previous one.
fn kinds(names: &[[f32; 9]], mut each: impl FnMut(usize, usize, bool)) {
    let mut at = 0;
    while at < names.len() {
        let mut sums = [0f32; 4];
        let mut end = at;
        while end < names.len() {
            let name = &names[end];
            let begins = name[1] + name[3] + name[5] + name[7];
            if end > at && (begins >= 1.0 - name[0] - begins || name[0] > 1.0 - LEAST_SCORE) {
                break;
            }
            for (sum, kind) in sums.iter_mut().zip(0..) {
                *sum += name[2 * kind + 1] + name[2 * kind + 2];
            }
            end += 1;
        }
        let kind = likeliest(&sums);
        for word in at..end {
            each(word, kind, word == at);
        }
        at = end;
    }
}

fn likeliest(probabilities: &[f32]) -> usize {
    let mut best = 0;
    for (at, p) in probabilities.iter().enumerate() {
        if *p > probabilities[best] {
            best = at;
        }
    }
    best
}

/// The largest model file, in bytes: 256 MiB.
const LARGEST: u64 = 256 << 20;

/// A tagger of names (`PER`, `LOC`, `ORG`, `MISC`), parts of speech, subjects and objects for English text. It
/// processes one sentence at a time.
///
/// The tags of a word depend on the words around it. A policy built on the tagger may therefore redact a word or not
/// because of a secret next to it. That secret is then not caught in the sense of [`crate::prepare::neighbour_diff`],
/// which measures this.
///
/// ```
/// use reticent_corpus::tagger::TaggerModel;
/// let tagger = TaggerModel::shipped()?;
/// let tags = tagger.tag_words(&["She", "met", "Alice", "Johnson", "in", "London", "."]);
/// let names: Vec<&str> = tags.iter().map(|t| t.name_label()).collect();
/// assert_eq!(names, ["O", "O", "B-PER", "I-PER", "O", "B-LOC", "O"]);
/// assert_eq!(tags[0].role_label(), "SUBJECT");
/// assert_eq!(tags[1].part_of_speech(), "VERB");
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug)]
pub struct TaggerModel {
    chains: [Chain; 3],
    lists: Lists,
    lexicon: Lexicon,
    /// The transitions of the chain of names.
    between: Between,
    /// The evidence of its features.
    said: Said,
    /// [`PLAIN`] in units of its weights.
    plain: [i16; 2],
    /// Vocabularies of threads that are done, for reuse.
    idle: Mutex<Vec<Vocabulary>>,
}

impl TaggerModel {
    /// Returns the model included in the crate.
    ///
    /// # Errors
    /// Never fails for the included model; its digest is checked once.
    pub fn shipped() -> Result<Arc<Self>> {
        static MODEL: LazyLock<std::result::Result<Arc<TaggerModel>, String>> =
            LazyLock::new(|| {
                let mut bytes = Vec::new();
                GzDecoder::new(SHIPPED)
                    .read_to_end(&mut bytes)
                    .map_err(|e| e.to_string())?;
                TaggerModel::from_bytes(&bytes)
                    .map(Arc::new)
                    .map_err(|e| e.to_string())
            });
        MODEL.clone().map_err(Error::Tagger)
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read; otherwise as for [`Self::from_bytes`].
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = reticent_disk::read_regular(path, LARGEST).map_err(Error::reading(path))?;
        Self::from_bytes(&bytes)
    }

    /// Tags the words of one sentence.
    #[must_use]
    pub fn tag_words(&self, words: &[&str]) -> Vec<WordTags> {
        let forms = Forms::of(words, &self.lists, &self.lexicon);
        let length = forms.len();
        let speech = self.chains[0].marginals(length, |i, out| forms.speech(i, out));
        let tags = tags(&speech);
        let names = self.name_probabilities(&forms);
        let roles = self.chains[2].marginals(length, |i, out| forms.roles(&tags, i, out));
        let (speech, names, roles) = (
            speech.as_chunks().0,
            names.as_chunks().0,
            roles.as_chunks().0,
        );
        (0..length)
            .map(|i| WordTags {
                speech: speech[i],
                name: names[i],
                role: roles[i],
            })
            .collect()
    }

    fn of(chains: [Chain; 3], lexicon: Lexicon) -> Self {
        Self {
            between: Between::new(&chains[1]),
            said: Said::new(&chains[1]),
            plain: PLAIN.map(|most| (most / chains[1].scale) as i16),
            chains,
            lexicon,
            lists: Lists::new(),
            idle: Mutex::default(),
        }
    }

    /// Returns the probabilities of [`NAME_LABELS`] for each word.
    fn name_probabilities(&self, forms: &Forms) -> Vec<f32> {
        let mut features = Vec::new();
        let said = |features: &mut Vec<u32>| {
            let mut sums: Sums = [0; MOST_LABELS];
            for feature in features.drain(..) {
                self.chains[1].add(feature, &mut sums);
            }
            evidence(&sums)
        };
        let words: Vec<Option<Evidence>> = (0..forms.len())
            .map(|at| {
                forms.alone(at, |feature| features.push(feature));
                let first = said(&mut features);
                (!plain(forms, at, &first, &self.plain)).then(|| {
                    forms.names(at, |feature| features.push(feature));
                    said(&mut features)
                })
            })
            .collect();
        let mut out = Vec::new();
        self.between
            .marginals(&words, &mut Room::default(), &mut out);
        out
    }

    /// Calls `look` with a vocabulary that remembers words seen before.
    fn with_vocabulary(&self, look: impl FnOnce(&mut Vocabulary)) {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let mut vocabulary = kept.unwrap_or_else(|| Vocabulary::new(&self.said));
        look(&mut vocabulary);
        idle().push(vocabulary);
    }
}

/// For a word to be plain, the evidence for each label of a name must not exceed this, in log odds: if no capital is
/// near, and if one is next to it.
const PLAIN: [f32; 2] = [1.0, -3.0];

/// Returns whether a word without a capital is in no name, judging by its features before those of pairs with its
/// neighbours.
fn plain(forms: &Forms, at: usize, evidence: &Evidence, most: &[i16; 2]) -> bool {
    !forms.capital(at) && {
        let most = most[usize::from(!forms.low(at))];
        evidence.iter().all(|of| *of <= most)
    }
}

/// Returns the most likely part of speech of each word.
fn tags(speech: &[f32]) -> Vec<u8> {
    speech
        .chunks(PARTS_OF_SPEECH.len())
        .map(|of| likeliest(of) as u8)
        .collect()
}

fn is_word(text: &str) -> bool {
    text.contains(char::is_alphanumeric)
}

impl Tagger for TaggerModel {
    fn tag(&self, text: &str, found: &mut Vec<RoleTag>) {
        words::sentences(text, |sentence| {
            if crate::policy::is_spent() {
                return;
            }
            let words: Vec<&str> = sentence.iter().map(|w| &text[w.clone()]).collect();
            let all = self.tag_words(&words);
            let names: Vec<[f32; 9]> = all.iter().map(|tags| tags.name).collect();
            kinds(&names, |word, kind, _| {
                let (range, tags) = (&sentence[word], &all[word]);
                if !is_word(&text[range.clone()]) {
                    return;
                }
                let roles = [
                    (Role::Subject, tags.role[1]),
                    (Role::Object, tags.role[2]),
                    (Role::Verb, tags.speech[VERB as usize]),
                    (Role::ProperNoun, tags.speech[PROPN as usize]),
                    (Role::Pronoun, tags.speech[PRON as usize]),
                    (Role::Entity(KINDS[kind]), tags.in_name()),
                ];
                found.extend(roles.into_iter().filter(|(_, p)| *p >= LEAST_SCORE).map(
                    |(role, score)| RoleTag {
                        range: range.clone(),
                        role,
                        score,
                    },
                ));
            });
        });
    }

    fn names(&self, text: &str, found: &mut Vec<RoleTag>) {
        self.with_vocabulary(|vocabulary| {
            let mut probabilities = Vec::new();
            words::sentences(text, |sentence| {
                if crate::policy::is_spent() {
                    return;
                }
                probabilities.clear();
                let words = sentence.iter().map(|word| &text[word.clone()]);
                vocabulary.names(words, self, &mut probabilities);
                let names = probabilities.as_chunks().0;
                kinds(names, |word, kind, _| {
                    let (range, score) = (&sentence[word], 1.0 - names[word][0]);
                    if score >= LEAST_SCORE && is_word(&text[range.clone()]) {
                        found.push(RoleTag {
                            range: range.clone(),
                            role: Role::Entity(KINDS[kind]),
                            score,
                        });
                    }
                });
            });
        });
    }

    fn covers(&self, kind: EntityKind) -> bool {
        use EntityKind::{Event, Fac, Gpe, Loc, Org, Person, Product, WorkOfArt};
        matches!(
            kind,
            Person | Loc | Gpe | Fac | Org | Product | WorkOfArt | Event
        )
    }
}
