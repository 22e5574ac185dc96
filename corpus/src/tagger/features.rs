//! What a chain sees of a word: numbers that stand for its form, its neighbours and their
//! parts of speech.

use super::lists::{Lists, NONE};

/// What is known of one word before any chain has run.
#[derive(Debug, Clone, Copy)]
struct Form {
    lower: u64,
    exact: u64,
    shape: u64,
    class: Class,
    prefixes: [u64; 4],
    suffixes: [u64; 4],
    lists: u8,
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
const OUTSIDE: Form = Form {
    lower: 1,
    exact: 1,
    shape: 1,
    class: Class::Mark,
    prefixes: [1; 4],
    suffixes: [1; 4],
    lists: NONE,
};

/// The forms of a sentence's words.
#[derive(Debug)]
pub(super) struct Forms {
    forms: Vec<Form>,
    /// Hardly a small letter in it: capitals say nothing.
    shouted: bool,
}

const PRIME: u64 = 0x0000_0100_0000_01b3;

fn text_hash(bytes: impl Iterator<Item = u8>) -> u64 {
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
    fn of(word: &str, lists: &Lists) -> Self {
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
        }
    }
}

/// The features of one word: each a template and what fills it, mixed into a number.
struct Sink<'a> {
    out: &'a mut Vec<u32>,
    template: u64,
}

impl Sink<'_> {
    fn push<const N: usize>(&mut self, parts: [u64; N]) {
        self.template += 1;
        let mut hash = self.template.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for part in parts {
            hash = (hash ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
            hash ^= hash >> 29;
        }
        hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        self.out.push((hash >> 32) as u32);
    }

    /// A template that does not fit here keeps its number for the next one.
    fn skip(&mut self) {
        self.template += 1;
    }
}

impl Forms {
    pub(super) fn of(words: &[&str], lists: &Lists) -> Self {
        let forms: Vec<Form> = words.iter().map(|word| Form::of(word, lists)).collect();
        let count = |wanted: &[Class]| forms.iter().filter(|f| wanted.contains(&f.class)).count();
        let shouted =
            count(&[Class::Lower]) * 3 < count(&[Class::Upper, Class::Title]) && words.len() > 3;
        Self { forms, shouted }
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
        let mut sink = Sink {
            out,
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

    /// For names, after the parts of speech.
    pub(super) fn names(&self, speech: &[u8], i: usize, out: &mut Vec<u32>) {
        let mut sink = Sink {
            out,
            template: 2000,
        };
        let f = self.at(i, 0);
        let tag = |offset| tag_at(speech, i, offset);
        for offset in -2..=2 {
            sink.push([self.at(i, offset).lower]);
            sink.push([self.at(i, offset).shape]);
            sink.push([tag(offset)]);
        }
        sink.push([f.exact]);
        for n in 0..4 {
            sink.push([f.prefixes[n]]);
            sink.push([f.suffixes[n]]);
        }
        for offset in [-1, 1] {
            sink.push([self.at(i, offset).suffixes[2]]);
            sink.push([self.at(i, offset).prefixes[2]]);
        }
        sink.push([self.at(i, -1).lower, f.lower]);
        sink.push([f.lower, self.at(i, 1).lower]);
        sink.push([self.at(i, -1).shape, f.shape, self.at(i, 1).shape]);
        sink.push([tag(-1), tag(0)]);
        sink.push([tag(0), tag(1)]);
        sink.push([tag(-1), tag(0), tag(1)]);
        sink.push([f.class as u64, u64::from(i == 0), u64::from(self.shouted)]);
        sink.push([
            f.class as u64,
            tag(0),
            u64::from(i == 0),
            u64::from(self.shouted),
        ]);
        for offset in -1..=1 {
            sink.push([
                u64::from(self.at(i, offset).lists),
                self.at(i, offset).class as u64,
            ]);
        }
        sink.push([
            u64::from(f.lists),
            u64::from(self.at(i, 1).lists),
            self.at(i, 1).class as u64,
        ]);
        sink.push([
            u64::from(self.at(i, -1).lists),
            u64::from(f.lists),
            f.class as u64,
        ]);
        sink.push([self.at(i, -1).lower, f.class as u64]);
        sink.push([self.at(i, 1).lower, f.class as u64]);
        sink.push([self.at(i, -2).lower, self.at(i, -1).lower, f.class as u64]);
        sink.push([self.at(i, 1).lower, self.at(i, 2).lower, f.class as u64]);
        self.run(i, &mut sink);
    }

    /// The run of capitalised words around a word: how it begins and ends, and what stands
    /// beside it.
    fn run(&self, i: usize, sink: &mut Sink<'_>) {
        if !self.capital(i) || self.shouted {
            for _ in 0..7 {
                sink.skip();
            }
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
        sink.push([self.forms[start].lower, place]);
        sink.push([self.forms[end].lower, place]);
        sink.push([self.at(start, -1).lower, place]);
        sink.push([self.at(end, 1).lower, place]);
        sink.push([(end - start) as u64, place, u64::from(start == 0)]);
        sink.push([
            u64::from(self.forms[start].lists),
            u64::from(self.forms[end].lists),
            place,
        ]);
        sink.push([self.forms[end].suffixes[2], place]);
    }

    /// For subjects and objects, after the parts of speech.
    pub(super) fn roles(&self, speech: &[u8], i: usize, out: &mut Vec<u32>) {
        let mut sink = Sink {
            out,
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
