//! A cache of words and what they contribute to the chain of names: a text consists mostly of few different words.

use super::between::{Evidence, INSIDE, Room, add};
use super::chain::{Quick, QuickMap};
use super::features::{Form, Forms, Letters, NO_LETTERS, OUTSIDE, Part, Place, REACH};
use super::said::Said;
use super::{TaggerModel, plain};
use std::hash::Hasher;

/// The number of positions around a word, including its own.
const PLACES: usize = 2 * REACH.unsigned_abs() + 1;
/// The largest number of cached words, and the longest cached word in bytes.
const MOST_WORDS: usize = 1 << 15;
const LONGEST_WORD: usize = 32;
/// The largest number of words in all cached sentences: about a megabyte of text.
const MOST_IN_SENTENCES: usize = 1 << 18;

/// What a word contributes to itself and to the words around it.
type Around = [Evidence; PLACES];

/// A word, with what it contributes to the words around it.
#[derive(Debug, Clone)]
struct Word {
    form: Form,
    /// The number of the features it shares with other words.
    shared: u32,
    alone: Around,
}

/// Two consecutive words, by number, and what the pair contributes to each.
#[derive(Debug, Clone)]
struct Pair {
    key: u64,
    of_first: Evidence,
    of_second: Evidence,
}

/// A cache of pairs, each in the single place that its numbers determine.
#[derive(Debug)]
struct Pairs(Vec<Pair>);

const PAIRS: usize = 1 << 13;
const NO_PAIR: Pair = Pair {
    key: u64::MAX,
    of_first: [0; INSIDE],
    of_second: [0; INSIDE],
};

impl Pairs {
    fn new() -> Self {
        Self(vec![NO_PAIR; PAIRS])
    }

    /// Returns a pair from its place, which is filled if it contains another pair.
    #[inline]
    fn of(&mut self, first: u32, second: u32, said: impl FnOnce() -> [Evidence; 2]) -> &Pair {
        let key = u64::from(first) << 32 | u64::from(second);
        let place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % PAIRS;
        let pair = &mut self.0[place];
        if pair.key != key {
            let [of_first, of_second] = said();
            *pair = Pair {
                key,
                of_first,
                of_second,
            };
        }
        pair
    }
}

/// A cache of the results for sentences, by the numbers of their words. A text is processed again with one secret
/// masked for each of its secrets. A sentence is cached when it is seen a second time.
#[derive(Debug)]
struct Sentences {
    met: Vec<u64>,
    said: QuickMap<Box<[u32]>, Box<[f32]>>,
    words: usize,
}

/// The number of places that record recently seen sentences.
const MET: usize = 1 << 12;

impl Sentences {
    fn new() -> Self {
        Self {
            met: vec![0; MET],
            said: QuickMap::default(),
            words: 0,
        }
    }

    /// Returns whether the sentence was seen recently, and records it.
    fn meet(&mut self, sentence: &[u32]) -> bool {
        let mut quick = Quick::default();
        for pair in sentence.chunks(2) {
            quick.mix(u64::from(pair[0]) << 32 | u64::from(pair[pair.len() - 1]));
        }
        let hash = quick.finish();
        let place = &mut self.met[(hash >> 40) as usize % MET];
        std::mem::replace(place, hash) == hash
    }

    fn enter(&mut self, sentence: &[u32], said: &[f32]) {
        self.words += sentence.len();
        if self.words > MOST_IN_SENTENCES {
            self.said.clear();
            self.words = sentence.len();
        }
        self.said.insert(sentence.into(), said.into());
    }
}

/// The words of the texts that one thread processes.
#[derive(Debug)]
pub(super) struct Vocabulary {
    numbers: QuickMap<Box<str>, u32>,
    words: Vec<Word>,
    pairs: Pairs,
    /// The features that words share, and what those contribute.
    shared: QuickMap<u64, u32>,
    alone: Vec<Around>,
    shared_pairs: Pairs,
    places: [Evidence; Place::COUNT],
    sentences: Sentences,
    sentence: Vec<u32>,
    forms: Forms,
    said: Vec<Option<Evidence>>,
    room: Room,
}

/// Returns what one part of a form's features contributes to each position around it.
fn around(form: &Form, letters: &Letters, part: Part, said: &Said) -> Around {
    let mut offsets = -REACH..;
    std::array::from_fn(|_| {
        let offset = offsets.next().unwrap_or(REACH);
        said.of(|features| form.alone(letters, part, offset, |feature| features.push(feature)))
    })
}

/// Returns what one part of the features of two forms contributes to each.
fn together(first: &Form, second: &Form, part: Part, said: &Said) -> [Evidence; 2] {
    let (mut of_first, mut of_second) = (said.lookup(), said.lookup());
    first.followed_by(
        part,
        second,
        |feature| of_first.push(feature),
        |feature| of_second.push(feature),
    );
    [of_first.end(), of_second.end()]
}

impl Vocabulary {
    pub(super) fn new(said: &Said) -> Self {
        let mut places = [[0; INSIDE]; Place::COUNT];
        for place in Place::all() {
            places[place.number()] =
                said.of(|features| place.feature(|feature| features.push(feature)));
        }
        let mut vocabulary = Self {
            numbers: QuickMap::default(),
            words: Vec::new(),
            pairs: Pairs::new(),
            shared: QuickMap::default(),
            alone: Vec::new(),
            shared_pairs: Pairs::new(),
            places,
            sentences: Sentences::new(),
            sentence: Vec::new(),
            forms: Forms::default(),
            said: Vec::new(),
            room: Room::default(),
        };
        // Number 0 represents positions outside a sentence.
        vocabulary.enter(OUTSIDE, &NO_LETTERS, said);
        vocabulary
    }

    fn enter(&mut self, form: Form, letters: &Letters, said: &Said) {
        let alone = &mut self.alone;
        let shared = *self.shared.entry(form.shared()).or_insert_with(|| {
            alone.push(around(&form, letters, Part::Shared, said));
            alone.len() as u32 - 1
        });
        let mut alone = around(&form, letters, Part::Letters, said);
        for (sum, more) in alone.iter_mut().zip(&self.alone[shared as usize]) {
            add(sum, more);
        }
        self.words.push(Word {
            form,
            shared,
            alone,
        });
    }

    fn number(&mut self, word: &str, model: &TaggerModel) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = self.words.len() as u32;
        let (form, letters) = Form::of(word, &model.lists, &model.lexicon);
        self.enter(form, &letters, &model.said);
        if word.len() <= LONGEST_WORD {
            self.numbers.insert(word.into(), number);
        }
        number
    }

    /// Appends the probabilities of [`NAME_LABELS`](super::NAME_LABELS) for each word of a sentence to `out`.
    pub(super) fn names<'a>(
        &mut self,
        words: impl Iterator<Item = &'a str>,
        model: &TaggerModel,
        out: &mut Vec<f32>,
    ) {
        if self.words.len() > MOST_WORDS {
            self.numbers.clear();
            self.words.truncate(1);
            self.pairs = Pairs::new();
            self.sentences = Sentences::new();
        }
        self.sentence.clear();
        for word in words {
            let number = self.number(word, model);
            self.sentence.push(number);
        }
        let again = self.sentences.meet(&self.sentence);
        if again && let Some(said) = self.sentences.said.get(&*self.sentence) {
            out.extend_from_slice(said);
            return;
        }
        self.look(model);
        let before = out.len();
        model.between.marginals(&self.said, &mut self.room, out);
        if again {
            self.sentences.enter(&self.sentence, &out[before..]);
        }
    }

    /// Computes the evidence of each word of the current sentence.
    fn look(&mut self, model: &TaggerModel) {
        let table = &model.said;
        let all = &self.words;
        self.forms.refill(
            self.sentence
                .iter()
                .map(|number| all[*number as usize].form),
        );
        let word = |at: usize, offset: isize| {
            let at = at.checked_add_signed(offset);
            let number = at.and_then(|at| self.sentence.get(at)).copied();
            number.unwrap_or(0)
        };
        self.said.clear();
        for at in 0..self.sentence.len() {
            let mut said = self.places[self.forms.place(at).number()];
            for (from, offset) in (-REACH..=REACH).enumerate() {
                add(&mut said, &all[word(at, offset) as usize].alone[from]);
            }
            if plain(&self.forms, at, &said, &model.plain) {
                self.said.push(None);
                continue;
            }
            for offset in [-1, 0] {
                let [first, second] = [word(at, offset), word(at, offset + 1)];
                let pair = self.pairs.of(first, second, || {
                    let [one, two] = [first, second].map(|number| &all[number as usize]);
                    let shared = self.shared_pairs.of(one.shared, two.shared, || {
                        together(&one.form, &two.form, Part::Shared, table)
                    });
                    let mut both = together(&one.form, &two.form, Part::Letters, table);
                    add(&mut both[0], &shared.of_first);
                    add(&mut both[1], &shared.of_second);
                    both
                });
                let of = if offset < 0 {
                    &pair.of_second
                } else {
                    &pair.of_first
                };
                add(&mut said, of);
            }
            let rest = table.of(|features| {
                self.forms.together(at, |feature| features.push(feature));
            });
            add(&mut said, &rest);
            self.said.push(Some(said));
        }
    }
}
