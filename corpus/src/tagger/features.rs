//! The features that a chain sees of a word: numbers for its form, its neighbours and their parts of speech.

use super::lexicon::{Known, Lexicon};
use super::lists::{Lists, NONE};

/// What is known of a word before any chain has run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    lower: u64,
    shape: u64,
    /// The last three letters.
    ending: u64,
    class: Class,
    lists: u8,
    known: Known,
}

/// Features that are only used of the word itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letters {
    exact: u64,
    prefixes: [u64; 4],
    suffixes: [u64; 4],
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

const CLASSES: [Class; 6] = [
    Class::Lower,
    Class::Title,
    Class::Upper,
    Class::Mixed,
    Class::Digits,
    Class::Mark,
];

impl Class {
    fn capital(self) -> bool {
        matches!(self, Self::Title | Self::Upper | Self::Mixed)
    }
}

/// Represents what is before the first and after the last word.
pub(super) const OUTSIDE: Form = Form {
    lower: 1,
    shape: 1,
    ending: 1,
    class: Class::Mark,
    lists: NONE,
    known: Known {
        lists: 0,
        clusters: [255; 2],
    },
};

/// The letters of [`OUTSIDE`].
pub(super) const NO_LETTERS: Letters = Letters {
    exact: 1,
    prefixes: [1; 4],
    suffixes: [1; 4],
};

/// The forms of a sentence's words.
#[derive(Debug, Default)]
pub(super) struct Forms {
    forms: Vec<Form>,
    /// Present only where needed.
    letters: Vec<Letters>,
    /// Whether the sentence has hardly any lower-case letters, so that capitals mean nothing.
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

/// Hashes the kinds of a word's characters, two of a kind in a row at most and 12 in all: `McCoy-12` is `XxXxx-00`.
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

/// Returns a word in lower case, with all digits replaced by 0; user names and links are unified.
fn plain(word: &str) -> String {
    if word.starts_with('@') && word.len() > 1 {
        return "<user>".to_owned();
    }
    if word.contains("://") || word.starts_with("www.") {
        return "<link>".to_owned();
    }
    if word.is_ascii() {
        let small = |b: u8| {
            if b.is_ascii_digit() {
                '0'
            } else {
                char::from(b.to_ascii_lowercase())
            }
        };
        return word.bytes().map(small).collect();
    }
    let small = word.chars().map(|c| match c {
        c if c.is_numeric() => '0',
        '’' => '\'',
        c => c,
    });
    small.flat_map(char::to_lowercase).collect()
}

impl Form {
    pub(super) fn of(word: &str, lists: &Lists, lexicon: &Lexicon) -> (Self, Letters) {
        let plain = plain(word);
        let prefix = |n: usize| {
            let end = plain
                .char_indices()
                .nth(n)
                .map_or(plain.len(), |(at, _)| at);
            text_hash(plain[..end].bytes())
        };
        let suffix = |n: usize| {
            let start = plain
                .char_indices()
                .rev()
                .nth(n - 1)
                .map_or(0, |(at, _)| at);
            text_hash(plain[start..].bytes())
        };
        let lower = text_hash(plain.bytes());
        let letters = Letters {
            exact: text_hash(word.bytes()),
            prefixes: [1, 2, 3, 4].map(prefix),
            suffixes: [1, 2, 3, 4].map(suffix),
        };
        let form = Self {
            lower,
            shape: shape(word),
            ending: letters.suffixes[2],
            class: class(word),
            lists: word.strip_prefix('#').map_or_else(
                || lists.of(lower),
                |tag| lists.of(text_hash(tag.to_lowercase().bytes())),
            ),
            known: lexicon.known(word, &plain),
        };
        (form, letters)
    }
}

/// The features of a word's place in a sentence, independent of the word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    class: Class,
    first: bool,
    shouted: bool,
}

impl Place {
    pub(super) const COUNT: usize = 4 * CLASSES.len();

    pub(super) fn all() -> impl Iterator<Item = Self> {
        CLASSES.into_iter().flat_map(|class| {
            (0..4).map(move |of| Self {
                class,
                first: of & 1 == 1,
                shouted: of & 2 == 2,
            })
        })
    }

    /// Returns its number among all places.
    pub(super) fn number(self) -> usize {
        4 * self.class as usize + usize::from(self.first) + 2 * usize::from(self.shouted)
    }

    pub(super) fn feature(self, out: impl FnMut(u32)) {
        let mut sink = Each {
            out,
            template: 2501,
        };
        sink.push([
            self.class as u64,
            u64::from(self.first),
            u64::from(self.shouted),
        ]);
    }
}

/// How far the features for names look to each side.
pub(super) const REACH: isize = 2;

/// A selection of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All features.
    Whole,
    /// The features of letters.
    Letters,
    /// The features of lists and clusters only, which many words share.
    Shared,
}

/// Emits the features of one word: each is a template with its values, hashed to a number.
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

    /// Emits the feature if `wanted`; otherwise only skips its template number.
    #[inline]
    fn push_if<const N: usize>(&mut self, wanted: bool, parts: [u64; N]) {
        if wanted {
            self.push(parts);
        } else {
            self.template += 1;
        }
    }
}

impl Form {
    /// Returns a value that is equal for words whose shared features are equal.
    pub(super) fn shared(&self) -> u64 {
        let [few, many] = self.known.clusters;
        u64::from_le_bytes([
            self.class as u8,
            self.lists,
            self.known.lists,
            few,
            many,
            0,
            0,
            0,
        ])
    }

    /// Emits the features for names of this word alone, for the word that is at distance `offset` from it.
    pub(super) fn alone(&self, own: &Letters, part: Part, offset: isize, out: impl FnMut(u32)) {
        let (letters, shared) = (part != Part::Shared, part != Part::Letters);
        let mut sink = Each {
            out,
            template: 2100 + 50 * (offset + REACH).unsigned_abs() as u64,
        };
        sink.push_if(letters, [self.lower]);
        sink.push_if(letters, [self.shape]);
        sink.push_if(shared, [u64::from(self.known.clusters[0])]);
        sink.push_if(shared, [u64::from(self.known.clusters[1])]);
        if offset.abs() < REACH {
            sink.push_if(shared, [u64::from(self.lists), self.class as u64]);
            sink.push_if(shared, [u64::from(self.known.lists), self.class as u64]);
            sink.push_if(letters, [self.ending]);
            sink.push_if(letters, [own.prefixes[2]]);
        }
        if offset == 0 && letters {
            sink.push([own.exact]);
            for n in [0, 1, 3] {
                sink.push([own.prefixes[n]]);
                sink.push([own.suffixes[n]]);
            }
        }
    }

    /// Emits the features for names of this word and the next: those for the first and those for the second.
    pub(super) fn followed_by(
        &self,
        part: Part,
        next: &Self,
        of_first: impl FnMut(u32),
        of_second: impl FnMut(u32),
    ) {
        self.pair(part, 2400, next, (self.class, next), of_first);
        self.pair(part, 2450, next, (next.class, self), of_second);
    }

    /// Emits the features for one of the two, from its class and the other's form.
    #[inline]
    fn pair(
        &self,
        part: Part,
        template: u64,
        next: &Self,
        (class, other): (Class, &Self),
        out: impl FnMut(u32),
    ) {
        let (letters, shared) = (part != Part::Shared, part != Part::Letters);
        let class = class as u64;
        let mut sink = Each { out, template };
        sink.push_if(letters, [self.lower, next.lower]);
        let lists = [self, next].map(|form| u64::from(form.lists));
        sink.push_if(shared, [lists[0], lists[1], next.class as u64]);
        sink.push_if(letters, [other.lower, class]);
        if shared {
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
        }
    }
}

impl Forms {
    pub(super) fn of(words: &[&str], lists: &Lists, lexicon: &Lexicon) -> Self {
        let mut out = Self::default();
        let (forms, letters): (Vec<_>, _) = words
            .iter()
            .map(|word| Form::of(word, lists, lexicon))
            .unzip();
        out.refill(forms.into_iter());
        out.letters = letters;
        out
    }

    /// Replaces the words by others, without their letters.
    pub(super) fn refill(&mut self, forms: impl Iterator<Item = Form>) {
        self.letters.clear();
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

    fn letters(&self, index: usize, offset: isize) -> &Letters {
        let index = index.checked_add_signed(offset);
        index
            .and_then(|i| self.letters.get(i))
            .unwrap_or(&NO_LETTERS)
    }

    pub(super) fn capital(&self, index: usize) -> bool {
        self.forms[index].class.capital()
    }

    /// Emits the features for parts of speech.
    pub(super) fn speech(&self, i: usize, out: &mut Vec<u32>) {
        let mut sink = Each {
            out: |feature| out.push(feature),
            template: 1000,
        };
        let f = self.at(i, 0);
        for offset in -2..=2 {
            sink.push([self.at(i, offset).lower]);
        }
        let own = self.letters(i, 0);
        sink.push([own.exact]);
        for n in 0..4 {
            sink.push([own.prefixes[n]]);
            sink.push([own.suffixes[n]]);
        }
        for offset in [-2, -1, 1, 2] {
            sink.push([self.at(i, offset).ending]);
            sink.push([self.at(i, offset).shape]);
        }
        sink.push([f.shape]);
        sink.push([f.class as u64, u64::from(i == 0), u64::from(self.shouted)]);
        sink.push([self.at(i, -1).lower, f.lower]);
        sink.push([f.lower, self.at(i, 1).lower]);
        sink.push([self.at(i, -1).lower, self.at(i, 1).lower]);
        sink.push([self.at(i, -1).lower, f.ending]);
        sink.push([f.ending, self.at(i, 1).lower]);
        sink.push([self.at(i, -2).lower, self.at(i, -1).lower]);
        sink.push([self.at(i, -1).ending, f.ending, self.at(i, 1).ending]);
        sink.push([u64::from(f.lists), f.class as u64]);
    }

    /// Emits the features for names.
    pub(super) fn names(&self, i: usize, mut push: impl FnMut(u32)) {
        self.alone(i, &mut push);
        self.at(i, -1)
            .followed_by(Part::Whole, self.at(i, 0), |_| {}, &mut push);
        self.at(i, 0)
            .followed_by(Part::Whole, self.at(i, 1), &mut push, |_| {});
        self.together(i, push);
    }

    /// Emits the features for names of each word around this one on its own, and of this word's place.
    pub(super) fn alone(&self, i: usize, mut out: impl FnMut(u32)) {
        for offset in -REACH..=REACH {
            let letters = self.letters(i, offset);
            self.at(i, offset)
                .alone(letters, Part::Whole, offset, &mut out);
        }
        self.place(i).feature(out);
    }

    /// Returns the place of a word: its class, whether it begins a sentence, and the kind of sentence.
    pub(super) fn place(&self, i: usize) -> Place {
        Place {
            class: self.forms[i].class,
            first: i == 0,
            shouted: self.shouted,
        }
    }

    /// Returns whether there is no capital near a word.
    pub(super) fn low(&self, i: usize) -> bool {
        let end = (i + 2).min(self.len());
        !self.forms[i.saturating_sub(1)..end]
            .iter()
            .any(|form| form.class.capital())
    }

    /// Emits the features for names that are not determined by pairs of words.
    pub(super) fn together(&self, i: usize, out: impl FnMut(u32)) {
        let mut sink = Each {
            out,
            template: 2500,
        };
        let [last, f, next] = [-1, 0, 1].map(|offset: isize| self.at(i, offset));
        let class = f.class as u64;
        sink.push([last.shape, f.shape, next.shape]);
        // The next number is that of the place.
        sink.template += 1;
        let [before, after] = [last, next].map(|form| u64::from(form.known.clusters[0]));
        sink.push([before, after, class]);
        let [before, own, after] = [last, f, next].map(|form| u64::from(form.known.lists));
        sink.push([before, own, after, class]);
        self.run(i, &mut sink);
    }

    /// Emits the features of the run of capitalised words around a word: how it begins and ends, and what is next to
    /// it.
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
        sink.push([two.ending, place]);
    }

    /// Emits the features for subjects and objects, which use the parts of speech.
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
        sink.push([self.letters(i, 0).suffixes[1], tag(0)]);
        for offset in [-2, -1, 1, 2] {
            sink.push([self.at(i, offset).lower, tag(0)]);
        }
        sink.push([tag(-1), tag(0), tag(1)]);
        sink.push([tag(0), tag(1), tag(2)]);
        sink.push([tag(-2), tag(-1), tag(0)]);
        sink.push([tag(-1), tag(0), tag(1), tag(2)]);
        sink.push([tag(-2), tag(-1), tag(0), tag(1)]);
        sink.push([tag(0), tag(1), tag(2), tag(3)]);
        // The words that enclose the noun group.
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
        // The verbs of the clause on both sides.
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
