//! Finds which units contain which secrets.

use super::words::words;
use super::{Read, found, name, pass};
use crate::document::{Document, Offsets, Secret, joined};
use crate::error::Result;
use crate::policy::{
    Dictionary, DictionaryOptions, JoinedNumbers, Policy, View, is_unexamined, resolved,
};
use crate::prepare::shown;
use crate::read::Documents;
use crate::split::{UnitText, unit_ranges, units};
use crate::unit::Unit;
use reticent_disk::folded_word;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Brackets around the first or last digits of a number are one way to group them (`(415) 555-0123`).
const BRACKETS: [char; 6] = ['(', ')', '[', ']', '{', '}'];

/// Returns a secret without brackets at its ends, unless they tell it from any number (`[1]`).
fn without_brackets(secret: String) -> String {
    let bare = secret.trim_matches(BRACKETS);
    match bare.chars().filter(|c| c.is_alphanumeric()).count() {
        0..4 => secret,
        _ => bare.to_owned(),
    }
}

/// Builds the automaton of secrets in any case.
fn dictionary(words: Vec<String>) -> Result<Dictionary> {
    Dictionary::new(&DictionaryOptions {
        kind: "secret".to_owned(),
        words,
        case_sensitive: false,
        whole_words: true,
    })
}

/// A list of secrets, all of whose occurrences are found by one automaton, including overlapping ones.
#[derive(Debug, Clone)]
pub struct SecretList {
    secrets: Vec<String>,
    automaton: Dictionary,
    /// Those with digits, as [`JoinedNumbers`] leaves them, and which they are.
    numbers: Option<(Dictionary, Vec<usize>)>,
}

impl SecretList {
    /// Builds the automaton. Secrets are matched like the words of a [`Dictionary`], ignoring case.
    ///
    /// # Errors
    /// Returns an error if there is no secret or a blank one.
    pub fn new(secrets: Vec<String>) -> Result<Self> {
        let with_digits: Vec<usize> = (0..secrets.len())
            .filter(|at| secrets[*at].contains(char::is_numeric))
            .collect();
        let joined: Vec<String> = with_digits
            .iter()
            .map(|at| without_brackets(JoinedNumbers::of(&secrets[*at]).text))
            .collect();
        let numbers = match joined.is_empty() {
            true => None,
            false => Some((dictionary(joined)?, with_digits)),
        };
        Ok(Self {
            automaton: dictionary(secrets.clone())?,
            numbers,
            secrets,
        })
    }

    /// Returns where the secrets stand in a text, inside longer words too and with other separators between digits: the number
    /// of the secret, its first byte and its end, and whether it is part of a longer word there. What follows on a letter of Arabic or
    /// German may be a particle or an ending, and a place too many is on the safe side.
    fn anywhere(&self, text: &str) -> Vec<(usize, usize, usize, bool)> {
        let mut out = self.automaton.anywhere(text);
        if let Some((numbers, secrets)) = &self.numbers {
            let joined = JoinedNumbers::of(text);
            let found = numbers.anywhere(&joined.text).into_iter();
            out.extend(found.map(|(number, start, end, inside)| {
                let place = joined.place(start..end);
                (secrets[number], place.start, place.end, inside)
            }));
        }
        out
    }

    /// Returns the secrets that stand anywhere in a text, inside longer words too and with anything but letters between digits,
    /// and whether each of them stands inside longer words alone.
    #[must_use]
    pub fn occurring(&self, text: &str) -> BTreeMap<&str, bool> {
        let mut out = BTreeMap::new();
        for (secret, _, _, inside) in self.anywhere(text) {
            *out.entry(&*self.secrets[secret]).or_insert(true) &= inside;
        }
        out
    }

    /// Returns the secrets.
    #[must_use]
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Returns the SHA-256 of the list, one secret per line, in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        crate::random::sha256(format!("{}\n", self.secrets.join("\n")).as_bytes())
    }

    /// Returns the document with the listed secrets marked wherever they stand, as [`Self::occurring`] finds them, except
    /// where they overlap an existing mark or a masked span, and which of them stand there. Of overlapping occurrences, whole
    /// words are marked before parts of words, then the first before later ones, and the longer of two with the same beginning.
    #[must_use]
    pub fn mark(&self, document: &Document, kind: &str) -> (Document, BTreeSet<&str>) {
        let kind: Arc<str> = kind.into();
        let mut occurring = BTreeSet::new();
        let places = self.anywhere(&document.text).into_iter();
        let places = places.map(|(secret, start, end, inside)| {
            occurring.insert(&*self.secrets[secret]);
            (inside, start..end, kind.clone())
        });
        let places = places.collect();
        (marked(document, places), occurring)
    }
}

/// A range of bytes to mark with its kind, and whether others come before it.
type Place = (bool, Range<usize>, Arc<str>);

/// Returns the documents with what the policy finds in their units marked, and after that the same texts wherever else they stand
/// as whole words: they are as secret there, where the policy may not find them. Nothing is marked that overlaps an existing mark
/// or a masked span.
///
/// # Errors
/// Returns an error if the policy finds too many different texts.
pub fn mark_found(
    documents: &[Document],
    unit: Unit,
    policy: &dyn Policy,
) -> Result<Vec<Document>> {
    let mut kinds: BTreeMap<&str, Arc<str>> = BTreeMap::new();
    let mut places: Vec<Vec<Place>> = Vec::with_capacity(documents.len());
    for document in documents {
        let found = found_in_units(document, unit, policy);
        for (_, range, kind) in &found {
            let text = &document.text[range.clone()];
            kinds.entry(text).or_insert_with(|| kind.clone());
        }
        places.push(found);
    }
    if kinds.is_empty() {
        return Ok(documents.to_vec());
    }
    let words = dictionary(kinds.keys().map(|text| (*text).to_owned()).collect())?;
    let kinds: Vec<Arc<str>> = kinds.into_values().collect();
    let documents = documents.iter().zip(places).map(|(document, mut places)| {
        let elsewhere = words.occurrences(&document.text).into_iter();
        places.extend(elsewhere.map(|(word, start, end)| (true, start..end, kinds[word].clone())));
        marked(document, places)
    });
    Ok(documents.collect())
}

/// A span that a policy found, with its kind.
pub(crate) type Found = (Range<usize>, Arc<str>);

/// Returns where else in a text the first `most` different texts that were found in it stand as whole words: the places that are
/// `free`, and apart from those that were found and from each other.
///
/// # Errors
/// Returns an error if too many different texts were found.
pub(crate) fn elsewhere(
    text: &str,
    found: &[Found],
    most: usize,
    free: impl Fn(&Range<usize>) -> bool,
) -> Result<Vec<Found>> {
    /// Up to this many words are looked for in up to this many bytes one by one.
    const FEW: usize = 16;
    const SHORT: usize = 1 << 12;
    // Each with its folded form.
    let mut words: BTreeMap<&str, (String, &Arc<str>)> = BTreeMap::new();
    for (range, kind) in found {
        if words.len() >= most {
            break;
        }
        let word = &text[range.clone()];
        let folded = folded_word(word, true);
        if !folded.is_empty() {
            words.entry(word).or_insert((folded, kind));
        }
    }
    if words.is_empty() {
        return Ok(Vec::new());
    }
    // The automaton of long words is large, and there are few of them.
    let (long, others): (Vec<_>, Vec<_>) = words
        .into_iter()
        .partition(|(word, _)| word.len() > Dictionary::LONG);
    let mut places = Vec::new();
    for words in [long, others].into_iter().filter(|words| !words.is_empty()) {
        let few = words.len() <= FEW && text.len() <= SHORT;
        let found = match few || words[0].0.len() > Dictionary::LONG {
            true => {
                let folded: Vec<&str> = words.iter().map(|(_, (word, _))| word.as_str()).collect();
                Dictionary::few_occurrences(&folded, text)
            }
            false => {
                let words = words.iter().map(|(word, _)| (*word).to_owned());
                dictionary(words.collect())?.occurrences(text)
            }
        };
        let place = |(word, start, end): (usize, usize, usize)| {
            let (_, (_, kind)) = &words[word];
            (start..end, Arc::clone(kind))
        };
        places.extend(found.into_iter().map(place));
    }
    // Most of them are those that were found.
    let here = |at: usize| found.binary_search_by_key(&at, |(range, _)| range.start);
    places.retain(|(place, _)| here(place.start).is_err());
    if places.is_empty() {
        return Ok(Vec::new());
    }
    places.sort_by_key(|(place, _)| (place.start, Reverse(place.end)));
    let taken = joined(found.iter().map(|(range, _)| range.clone()).collect());
    let mut taken: BTreeMap<usize, usize> = taken.into_iter().map(|r| (r.start, r.end)).collect();
    let mut out = Vec::new();
    for (place, kind) in places {
        let before = taken.range(..place.end).next_back();
        let apart = before.is_none_or(|(_, end)| *end <= place.start);
        if !place.is_empty() && apart && free(&place) {
            taken.insert(place.start, place.end);
            out.push((place, kind));
        }
    }
    Ok(out)
}

/// Returns what the policy finds in each unit of a document.
fn found_in_units(document: &Document, unit: Unit, policy: &dyn Policy) -> Vec<Place> {
    let mut places = Vec::new();
    for Range { start, end } in unit_ranges(&document.text, unit) {
        let view = View {
            text: &document.text[start..end],
            secrets: &[],
        };
        for span in resolved(policy, &view) {
            if !folded_word(&view.text[span.start..span.end], true).is_empty() {
                places.push((false, start + span.start..start + span.end, span.kind));
            }
        }
    }
    places
}

/// Returns the document with those places marked that overlap neither an existing mark, nor a masked span, nor a place that comes
/// first: of those with the same flag the earlier ones, then the longer ones.
fn marked(document: &Document, mut places: Vec<Place>) -> Document {
    places.sort_by_key(|(later, range, _)| (*later, range.start, Reverse(range.end)));
    let offsets = Offsets::new(&document.text);
    let mut out = document.clone();
    let secrets = document.secrets.iter().map(|s| s.start..s.end);
    let masked = document.masked.iter().map(|m| m.start..m.end);
    let taken = joined(secrets.chain(masked).collect());
    // The end by the beginning, disjoint.
    let mut taken: BTreeMap<usize, usize> = taken.into_iter().map(|r| (r.start, r.end)).collect();
    for (_, range, kind) in places {
        let (start, end) = (offsets.character(range.start), offsets.character(range.end));
        let before = taken.range(..end).next_back();
        if start < end && before.is_none_or(|(_, end)| *end <= start) {
            taken.insert(start, end);
            out.secrets.push(Secret {
                start,
                end,
                kind: kind.to_string(),
            });
        }
    }
    out.secrets.sort_by_key(|secret| secret.start);
    out
}

/// What a policy finds in a corpus. A policy may find a secret in one record and, for lack of a word before it, not in another,
/// so each is also looked for wherever else it stands.
#[derive(Debug, Clone)]
pub struct FoundSecrets {
    policy: Arc<dyn Policy>,
    /// Their spellings; `None` if there are none.
    list: Option<SecretList>,
    /// The kind of each by its [`form`].
    kinds: HashMap<String, Arc<str>>,
}

impl FoundSecrets {
    /// Makes a pass over a corpus. `progress` is called with the number of bytes of the files that have been read; if it
    /// returns false, the pass ends. Memory grows with the number of distinct secrets.
    ///
    /// # Errors
    /// Returns the errors of [`Documents`], and an error if the number of threads is outside 1 to 1024.
    pub fn find(
        documents: &mut Documents,
        unit: Unit,
        policy: Arc<dyn Policy>,
        threads: usize,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<Self> {
        // Of the spellings that a list takes for one, the first.
        let mut spellings: BTreeMap<String, String> = BTreeMap::new();
        let mut kinds = HashMap::new();
        pass(
            documents,
            threads,
            |batch| {
                let mut here = Vec::new();
                for Read { document, .. } in batch {
                    for cut in units(document, 0, unit)? {
                        for span in found(&cut, policy.as_ref()) {
                            let secret = &cut.text[span.start..span.end];
                            let folded = folded_word(secret, true);
                            if !folded.is_empty() && !is_unexamined(&span, &cut.text) {
                                here.push((folded, secret.to_owned(), span.kind));
                            }
                        }
                    }
                }
                Ok(here)
            },
            |here, read| {
                for (folded, secret, kind) in here {
                    kinds.entry(form(&secret)).or_insert(kind);
                    spellings.entry(folded).or_insert(secret);
                }
                Ok(progress(read))
            },
        )?;
        let spellings: Vec<String> = spellings.into_values().collect();
        let list = (!spellings.is_empty()).then(|| SecretList::new(spellings));
        Ok(Self {
            policy,
            list: list.transpose()?,
            kinds,
        })
    }
}

/// How secrets are recognised.
#[derive(Debug, Clone)]
pub enum Sense {
    /// By a policy: the secret is the text of the span, wherever it stands. Texts that [`folded_word`] makes one are one secret,
    /// and so are those with digits that have the same letters and digits.
    Policy(FoundSecrets),
    /// A list of them, wherever they stand.
    List(SecretList),
    /// The values of the field that the documents are read with, in every unit of a document. Values that
    /// [`folded_word`] makes one are one secret.
    Field,
    /// By words; see [`crate::redaction::DocumentFrequencies`].
    Words(HashSet<String>),
}

/// A secret in a unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sensed {
    /// The secret.
    pub secret: String,
    /// Its kind: that of the policy, or `secret`, `field`, `word`.
    pub kind: Arc<str>,
    /// Whether it stands inside longer words or numbers alone, where no policy finds it.
    pub inside: bool,
    /// What all spellings of it have in common.
    pub form: String,
}

/// A unit and the distinct secrets in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incidence {
    /// The unit: the document's id, followed by `#` and the unit's number if units are parts of documents.
    pub example: String,
    /// In alphabetical order.
    pub secrets: Vec<Sensed>,
}

impl Incidence {
    /// Makes a pass over a corpus. `emit` receives the units in order, and the number of bytes of the files that have
    /// been read; if it returns false, the pass ends.
    ///
    /// # Errors
    /// Returns the errors of [`Documents`] and `emit`, and an error if the number of threads is outside 1 to 1024.
    pub fn each(
        documents: &mut Documents,
        unit: Unit,
        sense: &Sense,
        threads: usize,
        mut emit: impl FnMut(Self, u64) -> Result<bool>,
    ) -> Result<()> {
        pass(
            documents,
            threads,
            |batch| {
                let mut out = Vec::new();
                for Read {
                    document, values, ..
                } in batch
                {
                    for cut in units(document, 0, unit)? {
                        let secrets = sense.secrets(&cut, values);
                        out.push(Self {
                            example: name(document, unit, cut.index),
                            secrets,
                        });
                    }
                }
                Ok(out)
            },
            |found, read| {
                for one in found {
                    if !emit(one, read)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            },
        )
    }
}

impl Sense {
    /// Returns the distinct secrets of one unit.
    fn secrets(&self, unit: &UnitText<'_>, values: &[String]) -> Vec<Sensed> {
        let (text, seen) = (&*unit.text, shown(unit));
        let mut out: BTreeMap<String, Sensed> = BTreeMap::new();
        // Of several spellings in one record the first.
        let mut enter = |form: String, secret: &str, kind: Arc<str>, inside: bool| {
            out.entry(form).or_insert_with_key(|form| Sensed {
                secret: secret.to_owned(),
                kind,
                inside,
                form: form.clone(),
            });
        };
        match self {
            Self::Policy(known) => {
                for span in found(unit, known.policy.as_ref()) {
                    let secret = &text[span.start..span.end];
                    enter(form(secret), secret, span.kind, false);
                }
                let elsewhere = known.list.iter().flat_map(|list| list.occurring(&seen));
                // A whole word before parts of words: spellings of one secret have one form.
                let (inside, whole): (Vec<_>, Vec<_>) = elsewhere.partition(|(_, inside)| *inside);
                for (secret, inside) in whole.into_iter().chain(inside) {
                    let form = form(secret);
                    if let Some(kind) = known.kinds.get(&form) {
                        enter(form, secret, kind.clone(), inside);
                    }
                }
            }
            Self::List(list) => {
                for (secret, inside) in list.occurring(&seen) {
                    enter(secret.to_owned(), secret, "secret".into(), inside);
                }
            }
            Self::Field => {
                for value in values {
                    let folded = folded_word(value, true);
                    if !folded.is_empty() {
                        enter(folded, value, "field".into(), false);
                    }
                }
            }
            Self::Words(known) => {
                for word in words(&seen).filter(|word| known.contains(word)) {
                    enter(word.clone(), &word, "word".into(), false);
                }
            }
        }
        let mut secrets: Vec<Sensed> = out.into_values().collect();
        secrets.sort_unstable();
        secrets
    }
}

/// Returns what the spellings of a secret have in common: its folded form, of which only letters and digits count where it
/// has digits (`415-555-0123`, `(415) 555-0123`). Two secrets counted as one are on the safe side.
fn form(secret: &str) -> String {
    let folded = folded_word(secret, true);
    let form = match folded.contains(char::is_numeric) {
        true => folded.chars().filter(|c| c.is_alphanumeric()).collect(),
        false => folded,
    };
    match form.is_empty() {
        true => secret.to_owned(),
        false => form,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        /// What is elsewhere are all places of the words by the automaton that overlap neither what was found nor an earlier place.
        /// Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.
        #[test]
        fn elsewhere_is_every_other_place(
            text in "[- aAb1\u{df}\u{e9}e\u{301}\u{130}i\u{212a}k\u{661}\u{200b}\u{738b}]{1,60}",
            ends in prop::collection::vec(any::<prop::sample::Index>(), 2..8),
        ) {
            let bounds: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let ends: BTreeSet<usize> = ends.iter().map(|end| bounds[end.index(bounds.len())]).collect();
            let ends: Vec<usize> = ends.into_iter().collect();
            let kind: Arc<str> = "key".into();
            let found: Vec<Found> = ends.chunks_exact(2).map(|ends| (ends[0]..ends[1], kind.clone())).collect();
            let words: BTreeSet<&str> = found.iter().map(|(range, _)| &text[range.clone()]).collect();
            let words = words.into_iter().filter(|word| !folded_word(word, true).is_empty());
            let words: Vec<String> = words.map(str::to_owned).collect();
            let mut places = match words.is_empty() {
                true => Vec::new(),
                false => dictionary(words).unwrap().occurrences(&text),
            };
            places.sort_by_key(|(_, start, end)| (*start, Reverse(*end)));
            let mut taken: Vec<Range<usize>> = found.iter().map(|(range, _)| range.clone()).collect();
            let mut expected = Vec::new();
            for (_, start, end) in places {
                if start < end && taken.iter().all(|other| end <= other.start || other.end <= start) {
                    taken.push(start..end);
                    expected.push(start..end);
                }
            }
            let places = elsewhere(&text, &found, usize::MAX, |_| true).unwrap();
            let places: Vec<Range<usize>> = places.into_iter().map(|(place, _)| place).collect();
            prop_assert_eq!(places, expected);
        }
    }

    /// Short texts, in which a few words are looked for one by one, and long ones give the same places.
    #[test]
    fn few_words_are_found_as_by_the_automaton() {
        let words = ["ana", "a b a", "Zo\u{eb}", "12", "\u{738b}", "x"].map(str::to_owned);
        let text = "ANA banana a b a b a, Zoe\u{308}\\nzo\u{eb} 12 123 \u{ff11}2 \u{738b}\u{738b} x\u{0}x a\u{200b}na";
        let all = dictionary(words.to_vec()).unwrap();
        let folded = words.each_ref().map(|word| folded_word(word, true));
        let few =
            |text: &str| Dictionary::few_occurrences(&folded.each_ref().map(String::as_str), text);
        let long = text.repeat(Dictionary::LONG / text.len() + 1);
        assert_eq!(few(&long), all.occurrences(&long));
        let few = few(text);
        assert_eq!(few, all.occurrences(text));
        let of = |word: usize| few.iter().filter(|(found, ..)| *found == word).count();
        assert_eq!([0, 1, 2, 3, 4, 5].map(of), [2, 2, 2, 2, 2, 2]);
    }

    /// Whatever their length.
    #[test]
    fn long_texts_are_looked_for_elsewhere_too() {
        let word = "x".repeat(5000);
        let text = format!("key {word} and {word}, key y and y");
        let found = [4..5004, 10_015..10_016].map(|range| (range, Arc::<str>::from("key")));
        let places = elsewhere(&text, &found, 9, |_| true).unwrap();
        let places: Vec<Range<usize>> = places.into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, [5009..10_009, 10_021..10_022]);
    }

    #[test]
    fn spellings_of_a_secret_have_one_form() {
        for (one, other) in [
            ("Ada.Byron@x.org", "ada.byron@X.org"),
            ("415-555-0123", "(415) 555.0123"),
            ("Zoe\u{308}  Zork", "zo\u{eb} zork"),
        ] {
            assert_eq!(form(one), form(other));
        }
        for (one, other) in [("Ann-Marie", "Annmarie"), ("12", "21"), (" ", "  ")] {
            assert_ne!(form(one), form(other));
        }
    }
}
