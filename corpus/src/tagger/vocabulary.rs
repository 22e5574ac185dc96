//! Words that were met before, with what the chain of names adds up of each by itself: most words of a text are few.

use super::chain::{Chain, MOST_LABELS, Passing, Sums};
use super::features::{Form, Forms, OUTSIDE, REACH};
use super::{Model, NAME_LABELS};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Labels of names, rounded up.
const LANES: usize = 16;
/// Places around a word that a word is looked at from.
const PLACES: usize = 2 * REACH.unsigned_abs() + 1;
/// Words kept at most, and the longest of them in bytes.
const MOST_WORDS: usize = 1 << 14;
const LONGEST_WORD: usize = 32;
/// Words of all sentences kept, at most: those of about a megabyte of text.
const MOST_IN_SENTENCES: usize = 1 << 18;

const _: () = assert!(NAME_LABELS.len() <= LANES && LANES <= MOST_LABELS);

/// Short keys from the text at hand, which forgets them once there are many.
#[derive(Debug, Default, Clone, Copy)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        let mut mix = |part: u64| {
            self.0 = (self.0.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        };
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            mix(u64::from_le_bytes(*eight));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(last));
        self.0 ^= self.0 >> 32;
    }
}

/// One word, and what it says of the words around it.
#[derive(Debug, Clone)]
struct Word {
    form: Form,
    alone: [[i16; LANES]; PLACES],
}

/// A pair of words, by their numbers, and what it says of each.
#[derive(Debug, Clone)]
struct Pair {
    key: u64,
    of_first: [i16; LANES],
    of_second: [i16; LANES],
}

/// Pairs that are kept: each in the one place that its numbers give.
const PAIRS: usize = 1 << 14;
const NO_PAIR: Pair = Pair {
    key: u64::MAX,
    of_first: [0; LANES],
    of_second: [0; LANES],
};

/// What was said of sentences, by the numbers of their words: a text is looked at again with one secret masked, for each
/// of its secrets.
#[derive(Debug, Default)]
struct Sentences {
    said: HashMap<Box<[u32]>, Box<[f32]>, BuildHasherDefault<Quick>>,
    words: usize,
}

impl Sentences {
    fn enter(&mut self, sentence: &[u32], said: &[f32]) {
        self.words += sentence.len();
        if self.words > MOST_IN_SENTENCES {
            self.said.clear();
            self.words = sentence.len();
        }
        self.said.insert(sentence.into(), said.into());
    }
}

/// The words of the texts that one thread looks at.
#[derive(Debug)]
pub(super) struct Vocabulary {
    numbers: HashMap<Box<str>, u32, BuildHasherDefault<Quick>>,
    words: Vec<Word>,
    pairs: Vec<Pair>,
    sentences: Sentences,
    sentence: Vec<u32>,
    forms: Forms,
    emissions: Vec<f32>,
    passing: Passing,
}

impl Word {
    fn of(form: Form, chain: &Chain) -> Self {
        let mut alone = [[0; LANES]; PLACES];
        for (of, offset) in alone.iter_mut().zip(-REACH..) {
            let mut sums: Sums = [0; MOST_LABELS];
            form.alone(offset, |feature| chain.add(feature, &mut sums));
            of.copy_from_slice(&sums[..LANES]);
        }
        Self { form, alone }
    }
}

impl Vocabulary {
    /// Number 0 is what stands outside of a sentence.
    pub(super) fn new(chain: &Chain) -> Self {
        Self {
            numbers: HashMap::default(),
            words: vec![Word::of(OUTSIDE, chain)],
            pairs: vec![NO_PAIR; PAIRS],
            sentences: Sentences::default(),
            sentence: Vec::new(),
            forms: Forms::default(),
            emissions: Vec::new(),
            passing: Passing::default(),
        }
    }

    fn number(&mut self, word: &str, model: &Model) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = self.words.len() as u32;
        let form = Form::of(word, &model.lists, &model.lexicon);
        self.words.push(Word::of(form, &model.chains[1]));
        if word.len() <= LONGEST_WORD {
            self.numbers.insert(word.into(), number);
        }
        number
    }

    /// The probabilities of [`NAME_LABELS`] for each word of a sentence, put behind `out`.
    pub(super) fn names<'a>(
        &mut self,
        words: impl Iterator<Item = &'a str>,
        model: &Model,
        out: &mut Vec<f32>,
    ) {
        if self.words.len() > MOST_WORDS {
            self.numbers.clear();
            self.words.truncate(1);
            self.pairs.fill(NO_PAIR);
            self.sentences = Sentences::default();
        }
        let chain = &model.chains[1];
        self.sentence.clear();
        for word in words {
            let number = self.number(word, model);
            self.sentence.push(number);
        }
        if let Some(said) = self.sentences.said.get(&*self.sentence) {
            out.extend_from_slice(said);
            return;
        }
        let all = &self.words;
        self.forms.refill(
            self.sentence
                .iter()
                .map(|number| all[*number as usize].form),
        );
        self.emissions.clear();
        let number = |at: Option<usize>| {
            at.and_then(|at| self.sentence.get(at))
                .copied()
                .unwrap_or(0)
        };
        let mut place = paired(&mut self.pairs, all, chain, 0, number(Some(0)));
        for at in 0..self.sentence.len() {
            let mut sums: Sums = [0; MOST_LABELS];
            let mut add = |of: &[i16; LANES]| {
                for (sum, of) in sums.iter_mut().zip(of) {
                    *sum += of;
                }
            };
            for (from, offset) in (-REACH..=REACH).enumerate() {
                add(&all[number(at.checked_add_signed(offset)) as usize].alone[from]);
            }
            add(&self.pairs[place].of_second);
            let [own, next] = [at, at + 1].map(|at| number(Some(at)));
            place = paired(&mut self.pairs, all, chain, own, next);
            add(&self.pairs[place].of_first);
            self.forms
                .together(at, |feature| chain.add(feature, &mut sums));
            chain.emission(&sums, &mut self.emissions);
        }
        let before = out.len();
        chain.between(&self.emissions, &mut self.passing, out);
        self.sentences.enter(&self.sentence, &out[before..]);
    }
}

/// Where a pair of words is kept.
fn paired(pairs: &mut [Pair], all: &[Word], chain: &Chain, first: u32, second: u32) -> usize {
    let key = u64::from(first) << 32 | u64::from(second);
    let place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % pairs.len();
    if pairs[place].key != key {
        let (mut of_first, mut of_second): (Sums, Sums) = ([0; MOST_LABELS], [0; MOST_LABELS]);
        all[first as usize].form.followed_by(
            &all[second as usize].form,
            |feature| chain.add(feature, &mut of_first),
            |feature| chain.add(feature, &mut of_second),
        );
        let pair = &mut pairs[place];
        pair.key = key;
        pair.of_first.copy_from_slice(&of_first[..LANES]);
        pair.of_second.copy_from_slice(&of_second[..LANES]);
    }
    place
}
