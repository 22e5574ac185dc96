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

/// The words of the texts that one thread looks at.
#[derive(Debug)]
pub(super) struct Vocabulary {
    numbers: HashMap<Box<str>, u32, BuildHasherDefault<Quick>>,
    words: Vec<Word>,
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
        }
        let chain = &model.chains[1];
        self.sentence.clear();
        for word in words {
            let number = self.number(word, model);
            self.sentence.push(number);
        }
        let all = &self.words;
        self.forms.refill(self.sentence.iter().map(|number| all[*number as usize].form));
        self.emissions.clear();
        for at in 0..self.sentence.len() {
            let mut sums: Sums = [0; MOST_LABELS];
            for (place, offset) in (-REACH..=REACH).enumerate() {
                let number = at.checked_add_signed(offset).and_then(|i| self.sentence.get(i));
                let word = &all[number.copied().unwrap_or(0) as usize];
                for (sum, of) in sums.iter_mut().zip(&word.alone[place]) {
                    *sum += of;
                }
            }
            self.forms.together(at, |feature| chain.add(feature, &mut sums));
            chain.emission(&sums, &mut self.emissions);
        }
        chain.between(&self.emissions, &mut self.passing, out);
    }
}
