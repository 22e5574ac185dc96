//! Finds which units contain which secrets.

use super::words::words;
use super::{Read, found, name, pass};
use crate::document::{Document, Masked, Secret};
use crate::error::Result;
use crate::policy::{Dictionary, DictionaryOptions, Policy, joined_numbers};
use crate::read::Documents;
use crate::split::{UnitText, units};
use crate::unit::Unit;
use reticent_disk::folded_word;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Brackets around the first or last digits of a number are one way to group them (`(415) 555-0123`).
const BRACKETS: [char; 6] = ['(', ')', '[', ']', '{', '}'];

/// A list of secrets, all of whose occurrences are found by one automaton, including overlapping ones.
#[derive(Debug, Clone)]
pub struct SecretList {
    secrets: Vec<String>,
    automaton: Dictionary,
    /// Those with digits, as [`joined_numbers`] leaves them, and which they are.
    numbers: Option<(Dictionary, Vec<usize>)>,
}

impl SecretList {
    /// Builds the automaton. Secrets are matched like the words of a [`Dictionary`], ignoring case, and only where no
    /// letter or digit is adjacent.
    ///
    /// # Errors
    /// Returns an error if there is no secret or a blank one.
    pub fn new(secrets: Vec<String>) -> Result<Self> {
        let dictionary = |words: Vec<String>| {
            Dictionary::new(&DictionaryOptions {
                kind: "secret".to_owned(),
                words,
                case_sensitive: false,
                whole_words: true,
            })
        };
        let with_digits: Vec<usize> = (0..secrets.len())
            .filter(|at| secrets[*at].contains(char::is_numeric))
            .collect();
        let joined: Vec<String> = with_digits
            .iter()
            .map(|at| joined_numbers(&secrets[*at]))
            .map(|joined| joined.trim_matches(BRACKETS).to_owned())
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

    /// The secrets that stand anywhere in a text, inside longer words too and with other separators between digits, and
    /// whether each stands inside longer words alone: what follows on a letter of Arabic or German may be a particle or an ending, and a
    /// place too many is on the safe side.
    fn anywhere(&self, text: &str) -> BTreeMap<&str, bool> {
        let mut out = BTreeMap::new();
        let mut enter = |secret: usize, inside: bool| {
            let known = out.entry(&*self.secrets[secret]).or_insert(true);
            *known &= inside;
        };
        for (secret, inside) in self.automaton.anywhere(text) {
            enter(secret, inside);
        }
        if let Some((numbers, secrets)) = &self.numbers {
            for (number, inside) in numbers.anywhere(&joined_numbers(text)) {
                enter(secrets[number], inside);
            }
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

    /// Returns the document with all occurrences of listed secrets marked, except those that overlap an existing mark
    /// or a masked span. Of overlapping occurrences the first is marked, and of two with the same beginning the longer.
    #[must_use]
    pub fn mark(&self, document: &Document, kind: &str) -> Document {
        let offsets = crate::document::Offsets::new(&document.text);
        let mut places: Vec<(usize, usize)> = self
            .automaton
            .occurrences(&document.text)
            .into_iter()
            .map(|(_, start, end)| (offsets.character(start), offsets.character(end)))
            .collect();
        places.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
        let mut out = document.clone();
        let mut last = 0;
        for (start, end) in places {
            let apart = |from: usize, to: usize| end <= from || to <= start;
            let free = document.secrets.iter().all(|s| apart(s.start, s.end))
                && document
                    .masked
                    .iter()
                    .all(|Masked { start, end }| apart(*start, *end));
            if start >= last && free {
                last = end;
                out.secrets.push(Secret {
                    start,
                    end,
                    kind: kind.to_owned(),
                });
            }
        }
        out.secrets.sort_by_key(|secret| secret.start);
        out
    }
}

/// How secrets are recognised.
#[derive(Debug, Clone)]
pub enum Sense {
    /// By a policy: the secret is the text of the span. Texts that [`folded_word`] makes one are one secret, and so are those
    /// with digits that have the same letters and digits.
    Policy(Arc<dyn Policy>),
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
    /// Whether it is of a list and stands inside longer words or numbers alone.
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
        let text = &*unit.text;
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
            Self::Policy(policy) => {
                for span in found(unit, policy.as_ref()) {
                    let secret = &text[span.start..span.end];
                    enter(form(secret), secret, span.kind, false);
                }
            }
            Self::List(list) => {
                for (secret, inside) in list.anywhere(text) {
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
                for word in words(text).filter(|word| known.contains(word)) {
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
