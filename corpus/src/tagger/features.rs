//! What a chain sees of a word: numbers that stand for its form, its neighbours and their
//! parts of speech.

use super::lexicon::{Known, Lexicon};
use super::lists::{Lists, NONE};

/// What is known of one word before any chain has run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    lower: u64,
    exact: u64,
    shape: u64,
    class: Class,
    prefixes: [u64; 4],
    suffixes: [u64; 4],
    lists: u8,
    known: Known,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Title,
    Upper,
    Mixed,
    Digits,
    Mark,
}

impl Class {
    fn capital(self) -> bool {
        matches!(self, Self::Title | Self::Upper | Self::Mixed)
    }
}

/// Stands for what lies before the first and after the last word.
pub(super) const OUTSIDE: Form = Form {
    lower: 1,
    exact: 1,
    shape: 1,
    class: Class::Mark,
    prefixes: [1; 4],
    suffixes: [1; 4],
    lists: NONE,
    known: Known {
        lists: 0,
        clusters: [255; 2],
    },
};

/// The forms of a sentence's words.
#[derive(Debug, Default)]
pub(super) struct Forms {
    forms: Vec<Form>,
    /// Hardly a small letter in it: capitals say nothing.
    shouted: bool,
}

const PRIME: u64 = 0x0000_0100_0000_01b3;

pub(super) fn text_hash(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    }
    hash
}

fn class(word: &str) -> Class {
    let mut letters = word.chars().filter(|c| c.is_alphabetic());
    let Some(first) = letters.next() else {
        let digit = word.chars().any(char::is_numeric);
        return if digit { Class::Digits } else { Class::Mark };
    };
    let (mut upper, mut lower) = (0, 0);
    for c in letters {
        if c.is_uppercase() {
            upper += 1;
        } else {
            lower += 1;
        }
    }
    match (first.is_uppercase(), upper, lower) {
        (true, 0, _) => Class::Title,
        (true, _, 0) => Class::Upper,
        (false, 0, _) => Class::Lower,
        _ => Class::Mixed,
    }
}

/// Runs of letters and digits by their kind, three of a kind at most: `McCoy-12` is `XxXx-00`.
fn shape(word: &str) -> u64 {
    let mut out = [0u8; 12];
    let mut length = 0;
    let (mut last, mut run) = (0u8, 0);
    for c in word.chars() {
        let kind = if c.is_uppercase() {
            b'X'
        } else if c.is_alphabetic() {
            b'x'
        } else if c.is_numeric() {
            b'0'
        } else if c.is_ascii() {
            c as u8
        } else {
            b'~'
        };
        run = if kind == last { run + 1 } else { 1 };
        last = kind;
        if run <= 2 && length < out.len() {
            out[length] = kind;
            length += 1;
        }
    }
    text_hash(out[..length].iter().copied())
}

impl Form {
    pub(super) fn of(word: &str, lists: &Lists, lexicon: &Lexicon) -> Self {
        let plain = if word.starts_with('@') && word.len() > 1 {
            "<user>".to_owned()
        } else if word.contains("://") || word.starts_with("www.") {
            "<link>".to_owned()
        } else {
            word.chars()
                .map(|c| {
                    if c.is_numeric() {
                        '0'
                    } else if c == '’' {
                        '\''
                    } else {
                        c
                    }
                })
                .flat_map(char::to_lowercase)
                .collect()
        };
        let ends: Vec<usize> = plain
            .char_indices()
            .map(|(at, _)| at)
            .chain([plain.len()])
            .collect();
        let count = ends.len() - 1;
        let prefix = |n: usize| text_hash(plain[..ends[n.min(count)]].bytes());
        let suffix = |n: usize| text_hash(plain[ends[count.saturating_sub(n)]..].bytes());
        Self {
            lower: text_hash(plain.bytes()),
            exact: text_hash(word.bytes()),
            shape: shape(word),
            class: class(word),
            prefixes: [1, 2, 3, 4].map(prefix),
            suffixes: [1, 2, 3, 4].map(suffix),
            lists: lists.of(word.strip_prefix('#').unwrap_or(word)),
            known: lexicon.known(word, &plain),
        }
    }
}

/// How far the features for names look to each side.
pub(super) const REACH: isize = 2;

/// The features of one word: each a template and what fills it, mixed into a number.
struct Each<F> {
    out: F,
    template: u64,
}

impl<F: FnMut(u32)> Each<F> {
    #[inline]
    fn push<const N: usize>(&mut self, parts: [u64; N]) {
        self.template += 1;
        let mut hash = self.template.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for part in parts {
            hash = (hash ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
            hash ^= hash >> 29;
        }
        hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (self.out)((hash >> 32) as u32);
    }
}

impl Form {
    /// Of the features for names, those of this word alone, for the word that it stands `offset` words behind.
    pub(super) fn alone(&self, offset: isize, out: impl FnMut(u32)) {
        let mut sink = Each {
            out,
            template: 2100 + 50 * (offset + REACH).unsigned_abs() as u64,
        };
        sink.push([self.lower]);
        sink.push([self.shape]);
        sink.push([u64::from(self.known.clusters[0])]);
        sink.push([u64::from(self.known.clusters[1])]);
        if offset.abs() < REACH {
            sink.push([u64::from(self.lists), self.class as u64]);
            sink.push([u64::from(self.known.lists), self.class as u64]);
            sink.push([self.suffixes[2]]);
            sink.push([self.prefixes[2]]);
        }
        if offset == 0 {
            sink.push([self.exact]);
            for n in [0, 1, 3] {
                sink.push([self.prefixes[n]]);
                sink.push([self.suffixes[n]]);
            }
        }
    }

    /// Of the features for names, those of this word and the next: what they say of the first and of the second.
    pub(super) fn followed_by(
        &self,
        next: &Self,
        mut of_first: impl FnMut(u32),
        mut of_second: impl FnMut(u32),
    ) {
        let pair = |template, class, other: &Self, out: &mut dyn FnMut(u32)| {
            let mut sink = Each { out, template };
            sink.push([self.lower, next.lower]);
            sink.push([
                u64::from(self.lists),
                u64::from(next.lists),
                next.class as u64,
            ]);
            sink.push([other.lower, class]);
            sink.push([
                u64::from(self.known.lists),
                u64::from(next.known.lists),
                self.class as u64,
                next.class as u64,
            ]);
            for of in 0..2 {
                let [one, two] = [self, next].map(|form| u64::from(form.known.clusters[of]));
                sink.push([one, two]);
                sink.push([u64::from(other.known.clusters[of]), class]);
            }
        };
        pair(2400, self.class as u64, next, &mut of_first);
        pair(2450, next.class as u64, self, &mut of_second);
    }
}

impl Forms {
    pub(super) fn of(words: &[&str], lists: &Lists, lexicon: &Lexicon) -> Self {
        let mut out = Self::default();
        out.refill(words.iter().map(|word| Form::of(word, lists, lexicon)));
        out
    }

    /// Other words in the place of these.
    pub(super) fn refill(&mut self, forms: impl Iterator<Item = Form>) {
        self.forms.clear();
        self.forms.extend(forms);
        let count = |wanted: &[Class]| {
            let of = self.forms.iter().filter(|f| wanted.contains(&f.class));
            of.count()
        };
        self.shouted = count(&[Class::Lower]) * 3 < count(&[Class::Upper, Class::Title])
            && self.forms.len() > 3;
    }

    pub(super) fn len(&self) -> usize {
        self.forms.len()
    }

    fn at(&self, index: usize, offset: isize) -> &Form {
        let index = index.checked_add_signed(offset);
        index.and_then(|i| self.forms.get(i)).unwrap_or(&OUTSIDE)
    }

    fn capital(&self, index: usize) -> bool {
        self.forms[index].class.capital()
    }

    /// For parts of speech.
    pub(super) fn speech(&self, i: usize, out: &mut Vec<u32>) {
        let mut sink = Each {
            out: |feature| out.push(feature),
            template: 1000,
        };
        let f = self.at(i, 0);
        for offset in -2..=2 {
            sink.push([self.at(i, offset).lower]);
        }
        sink.push([f.exact]);
        for n in 0..4 {
            sink.push([f.prefixes[n]]);
            sink.push([f.suffixes[n]]);
        }
        for offset in [-2, -1, 1, 2] {
            sink.push([self.at(i, offset).suffixes[2]]);
            sink.push([self.at(i, offset).shape]);
        }
        sink.push([f.shape]);
        sink.push([f.class as u64, u64::from(i == 0), u64::from(self.shouted)]);
        sink.push([self.at(i, -1).lower, f.lower]);
        sink.push([f.lower, self.at(i, 1).lower]);
        sink.push([self.at(i, -1).lower, self.at(i, 1).lower]);
        sink.push([self.at(i, -1).lower, f.suffixes[2]]);
        sink.push([f.suffixes[2], self.at(i, 1).lower]);
        sink.push([self.at(i, -2).lower, self.at(i, -1).lower]);
        sink.push([
            self.at(i, -1).suffixes[2],
            f.suffixes[2],
            self.at(i, 1).suffixes[2],
        ]);
        sink.push([u64::from(f.lists), f.class as u64]);
    }

    /// For names.
    pub(super) fn names(&self, i: usize, out: &mut Vec<u32>) {
        let mut push = |feature| out.push(feature);
        for offset in -REACH..=REACH {
            self.at(i, offset).alone(offset, &mut push);
        }
        self.at(i, -1).followed_by(self.at(i, 0), |_| {}, &mut push);
        self.at(i, 0).followed_by(self.at(i, 1), &mut push, |_| {});
        self.together(i, push);
    }

    /// Of the features for names, those that no pair of words settles.
    pub(super) fn together(&self, i: usize, out: impl FnMut(u32)) {
        let mut sink = Each {
            out,
            template: 2500,
        };
        let [last, f, next] = [-1, 0, 1].map(|offset: isize| self.at(i, offset));
        let class = f.class as u64;
        sink.push([last.shape, f.shape, next.shape]);
        sink.push([class, u64::from(i == 0), u64::from(self.shouted)]);
        let [before, after] = [last, next].map(|form| u64::from(form.known.clusters[0]));
        sink.push([before, after, class]);
        let [before, own, after] = [last, f, next].map(|form| u64::from(form.known.lists));
        sink.push([before, own, after, class]);
        self.run(i, &mut sink);
    }

    /// The run of capitalised words around a word: how it begins and ends, and what stands
    /// beside it.
    fn run(&self, i: usize, sink: &mut Each<impl FnMut(u32)>) {
        if !self.capital(i) || self.shouted {
            return;
        }
        let mut start = i;
        while start > 0 && self.capital(start - 1) && i - start < 6 {
            start -= 1;
        }
        let mut end = i;
        while end + 1 < self.len() && self.capital(end + 1) && end - i < 6 {
            end += 1;
        }
        let place = u64::from(i == start) + 2 * u64::from(i == end);
        let [one, two] = [start, end].map(|at| &self.forms[at]);
        sink.push([one.lower, place]);
        sink.push([two.lower, place]);
        sink.push([self.at(start, -1).lower, place]);
        sink.push([self.at(end, 1).lower, place]);
        sink.push([(end - start) as u64, place, u64::from(start == 0)]);
        sink.push([u64::from(one.lists), u64::from(two.lists), place]);
        sink.push([
            u64::from(one.known.lists),
            u64::from(two.known.lists),
            place,
        ]);
        let after = self.at(end, 1).known.clusters[0];
        sink.push([u64::from(after), u64::from(two.known.clusters[0]), place]);
        sink.push([two.suffixes[2], place]);
    }

    /// For subjects and objects, after the parts of speech.
    pub(super) fn roles(&self, speech: &[u8], i: usize, out: &mut Vec<u32>) {
        let mut sink = Each {
            out: |feature| out.push(feature),
            template: 3000,
        };
        let f = self.at(i, 0);
        let tag = |offset| tag_at(speech, i, offset);
        for offset in -3..=3 {
            sink.push([tag(offset)]);
        }
        sink.push([f.lower]);
        sink.push([f.suffixes[1], tag(0)]);
        for offset in [-2, -1, 1, 2] {
            sink.push([self.at(i, offset).lower, tag(0)]);
        }
        sink.push([tag(-1), tag(0), tag(1)]);
        sink.push([tag(0), tag(1), tag(2)]);
        sink.push([tag(-2), tag(-1), tag(0)]);
        sink.push([tag(-1), tag(0), tag(1), tag(2)]);
        sink.push([tag(-2), tag(-1), tag(0), tag(1)]);
        sink.push([tag(0), tag(1), tag(2), tag(3)]);
        // What holds the noun group from both sides.
        let left = (0..i).rev().find(|j| !in_group(speech[*j]));
        let right = (i + 1..self.len()).find(|j| !in_group(speech[*j]));
        let side =
            |at: Option<usize>| at.map_or((99, 1), |j| (u64::from(speech[j]), self.forms[j].lower));
        let (l, r) = (side(left), side(right));
        sink.push([tag(0), l.0]);
        sink.push([tag(0), r.0]);
        sink.push([tag(0), l.0, r.0]);
        sink.push([tag(0), tag(1), l.0, r.0]);
        sink.push([tag(0), l.1]);
        sink.push([tag(0), r.1]);
        sink.push([tag(0), l.1, r.1]);
        sink.push([f.lower, l.0, r.0]);
        // Verbs of the clause on both sides.
        let stop = |j: &usize| !matches!(speech[*j], super::PUNCT | super::SCONJ);
        let before = (0..i).rev().take_while(stop).find(|j| verbal(speech[*j]));
        let after = (i + 1..self.len())
            .take_while(stop)
            .find(|j| verbal(speech[*j]));
        let (b, a) = (side(before), side(after));
        sink.push([tag(0), tag(1), b.0, a.0, l.0]);
        sink.push([tag(0), tag(1), b.0, a.0, u64::from(f.class.capital())]);
        sink.push([tag(0), b.1, l.0]);
        sink.push([tag(0), a.1, r.0]);
        sink.push([f.lower, b.0, a.0]);
    }
}

fn tag_at(speech: &[u8], i: usize, offset: isize) -> u64 {
    let index = i.checked_add_signed(offset);
    index
        .and_then(|j| speech.get(j))
        .map_or(99, |tag| u64::from(*tag))
}

fn in_group(tag: u8) -> bool {
    use super::{ADJ, ADV, DET, NOUN, NUM, PROPN};
    matches!(tag, ADJ | ADV | DET | NOUN | NUM | PROPN)
}

fn verbal(tag: u8) -> bool {
    matches!(tag, super::VERB | super::AUX)
}
