//! The outcome of each secret: masked, missed, or missed by both policies.

use super::facts::{KindFacts, SecretFacts, SecretSource};
use super::record_work::Work;
use crate::document::joined;
use crate::error::Result;
use crate::policy::Policy;
use crate::record::{Side, TokenId};
use crate::redaction::{Found, elsewhere};
use crate::split::UnitText;
use serde::{Deserialize, Serialize, Serializer};
use sha1::{Digest, Sha1};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Counts the secrets in the kept records.
#[derive(Debug, Clone)]
pub(crate) struct SecretBook {
    /// The secrets that were [settled](Self::settle).
    settled: SecretFacts,
    /// One shared copy of each kind.
    kinds: HashSet<Arc<str>>,
    /// Keyed by the keyed digest of the secret's text.
    secrets: HashMap<[u8; 20], Entry>,
    /// Where the secrets begin that were entered of the current document and extend over several of its units.
    cut: HashSet<usize>,
}

#[derive(Debug, Clone, Default)]
struct Entry {
    kind: Arc<str>,
    by_both: bool,
    public: bool,
    occurrences: u64,
    missed_records: u64,
}

/// One secret, as a stopped preparation leaves it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SecretLine<'a> {
    pub(super) key: [u8; 20],
    kind: Cow<'a, str>,
    by_both: bool,
    public: bool,
    occurrences: u64,
    missed_records: u64,
}

/// One secret in a kept unit.
#[derive(Debug)]
pub(super) struct KnownSecret {
    /// The digest of the secret's text, keyed by the corpus. It may be stored in the state of a stopped preparation,
    /// where nobody without the corpus can test which text it belongs to.
    key: [u8; 20],
    /// The kind of its first occurrence.
    kind: Arc<str>,
    /// The number of its occurrences that are whole in the unit.
    occurrences: u64,
    /// Where in the document those begin of which the unit contains only part.
    cut: Vec<usize>,
    /// Whether masking all of its occurrences beforehand changes a record, or this was not checked.
    missed: bool,
    /// Whether it counts as missed only because it was not checked.
    pub(super) unchecked: bool,
}

/// The outcome for the record that contains a secret.
pub(super) struct Outcome<'a> {
    /// The unit after redaction.
    pub(super) after: &'a Work<'a>,
    /// Its tokens before truncation.
    pub(super) tokens: &'a [TokenId],
    pub(super) mask: TokenId,
    /// The key for the digests of secrets.
    pub(super) salt: &'a [u8],
    /// Whether no secret counts as caught: masking one can change records that do not contain it, or the policy could not examine
    /// the unit, and may do so on another machine.
    pub(super) none_caught: bool,
    /// Whether copies are dropped. Units that differ only in where an answer begins or ends inside a secret become copies when it is
    /// masked, so that it does not count as caught.
    pub(super) deduplicate: bool,
    /// The canaries that were planted in the unit, which are no secrets of the corpus.
    pub(super) planted: &'a [Range<usize>],
    /// The number of bytes of text that may be processed again for the secrets of one unit: [`CHECKED_TEXT`].
    pub(super) checked_text: u64,
}

/// The number of bytes of text that may be processed again for the secrets of one unit; secrets beyond this count as
/// missed. The limit is in bytes, not time, so that the result is the same on every machine.
pub(super) const CHECKED_TEXT: u64 = 256 << 20;

/// Returns the secrets of a kept unit: those in `found`, with where else their texts stand in the unit, or the marked ones if
/// it is `None`. `before` is the unit before redaction, and `policy` the policy that was applied (`None` if there was no
/// redaction).
pub(super) fn known_secrets(
    unit: &UnitText<'_>,
    before: &Work<'_>,
    found: Option<&Vec<Found>>,
    policy: Option<&dyn Policy>,
    outcome: &Outcome<'_>,
) -> Result<Vec<KnownSecret>> {
    // Each secret with the ranges of its occurrences, or parts of them, in the unit.
    let mut known: Vec<(KnownSecret, Vec<Range<usize>>)> = Vec::new();
    let mut places: BTreeMap<[u8; 20], usize> = BTreeMap::new();
    let mut enter =
        |range: &Range<usize>, (text, cut): (&str, Option<usize>), kind: &dyn Fn() -> Arc<str>| {
            let key = keyed(outcome.salt, text.as_bytes());
            let place = *places.entry(key).or_insert(known.len());
            if place == known.len() {
                let secret = KnownSecret {
                    key,
                    kind: kind(),
                    occurrences: 0,
                    cut: Vec::new(),
                    missed: outcome.none_caught,
                    unchecked: false,
                };
                known.push((secret, Vec::new()));
            }
            let (secret, ranges) = &mut known[place];
            secret.occurrences += u64::from(cut.is_none());
            secret.cut.extend(cut);
            ranges.push(range.clone());
        };
    let own = |range: &Range<usize>| {
        let around = |canary: &Range<usize>| canary.start <= range.start && range.end <= canary.end;
        !outcome.planted.iter().any(around)
    };
    // The texts behind so many of those that were found are not looked for elsewhere, and not checked.
    let mut most = usize::MAX;
    match found {
        None => {
            let marked = unit.secrets.iter().filter(|s| own(&s.range));
            for secret in marked.filter(|s| !before.hides_all(&s.range)) {
                let cut = secret.cut.map(|_| secret.at);
                enter(&secret.range, (secret.text, cut), &|| secret.kind.into());
            }
        }
        Some(found) => {
            let found: Vec<Found> = found
                .iter()
                .filter(|(range, _)| own(range))
                .cloned()
                .collect();
            let free = |place: &Range<usize>| {
                let meets =
                    |canary: &Range<usize>| canary.start < place.end && place.start < canary.end;
                !before.hides(place) && !outcome.planted.iter().any(meets)
            };
            let checked = outcome.checked_text / (unit.text.len() as u64).max(1) + 1;
            most = usize::try_from(checked).unwrap_or(usize::MAX);
            let elsewhere = elsewhere(&unit.text, &found, most, free)?;
            for (range, kind) in found.iter().chain(&elsewhere) {
                enter(range, (&unit.text[range.clone()], None), &|| kind.clone());
            }
        }
    }
    // In order, since answers are.
    let answers = unit.answers.iter().flatten();
    let ends: Vec<usize> = answers.flat_map(|a| [a.start, a.end]).collect();
    let holds_an_end = |range: &Range<usize>| {
        let behind = ends.partition_point(|end| *end <= range.start);
        ends.get(behind).is_some_and(|end| *end < range.end)
    };
    if outcome.deduplicate && !ends.is_empty() {
        for (secret, ranges) in &mut known {
            secret.missed |= joined(ranges.clone()).iter().any(holds_an_end);
        }
    }
    let mut looked_at = 0;
    for (number, (secret, ranges)) in known.iter_mut().enumerate() {
        if secret.missed {
            continue;
        }
        if number >= most || looked_at >= outcome.checked_text {
            (secret.missed, secret.unchecked) = (true, true);
            continue;
        }
        looked_at += unit.text.len() as u64;
        secret.missed = !caught(before, ranges, policy, outcome)?;
    }
    Ok(known.into_iter().map(|(secret, _)| secret).collect())
}

impl SecretBook {
    pub(super) fn new(source: SecretSource) -> Self {
        Self {
            settled: SecretFacts {
                source,
                all: KindFacts::default(),
                by_kind: BTreeMap::new(),
                most_records: 0,
            },
            kinds: HashSet::new(),
            secrets: HashMap::new(),
            cut: HashSet::new(),
        }
    }

    /// Begins the next document, whose secrets are no occurrences of earlier documents.
    pub(super) fn begin_document(&mut self) {
        self.cut.clear();
    }

    /// Enters a secret of a kept unit that ended up on `side`.
    pub(super) fn enter(&mut self, secret: &KnownSecret, side: Side, flagged: bool) {
        let cut = secret.cut.iter().filter(|at| self.cut.insert(**at));
        let cut = cut.count() as u64;
        let entry = self.entry(secret.key, || secret.kind.clone());
        entry.occurrences += secret.occurrences + cut;
        if secret.missed {
            entry.by_both |= !flagged;
            entry.public |= side == Side::Public;
            entry.missed_records += 1;
        }
    }

    /// Adds the lines of another book, whose records follow those of this one.
    pub(super) fn join(&mut self, lines: Vec<SecretLine<'_>>) {
        for line in lines {
            let entry = self.entry(line.key, || line.kind.into());
            entry.by_both |= line.by_both;
            entry.public |= line.public;
            entry.occurrences += line.occurrences;
            entry.missed_records += line.missed_records;
        }
    }

    fn entry(&mut self, key: [u8; 20], kind: impl FnOnce() -> Arc<str>) -> &mut Entry {
        let kinds = &mut self.kinds;
        self.secrets.entry(key).or_insert_with(|| Entry {
            kind: one(kinds, &kind()),
            ..Entry::default()
        })
    }

    /// Counts the secrets so far, none of which is entered again, and forgets them.
    pub(super) fn settle(&mut self) {
        self.settled = self.facts();
        self.secrets.clear();
    }

    pub(super) fn facts(&self) -> SecretFacts {
        let mut out = self.settled.clone();
        for entry in self.secrets.values() {
            entry.count(&mut out.all);
            entry.count(out.by_kind.entry(entry.kind.to_string()).or_default());
            out.most_records = out.most_records.max(entry.missed_records);
        }
        out
    }

    /// Returns the secrets for the state of a stopped preparation or a shard, in the order of their keys.
    pub(super) fn lines(&self) -> impl Iterator<Item = SecretLine<'_>> {
        let mut secrets: Vec<(&[u8; 20], &Entry)> = self.secrets.iter().collect();
        secrets.sort_unstable_by_key(|(key, _)| *key);
        secrets.into_iter().map(|(key, entry)| SecretLine {
            key: *key,
            kind: Cow::Borrowed(&entry.kind),
            by_both: entry.by_both,
            public: entry.public,
            occurrences: entry.occurrences,
            missed_records: entry.missed_records,
        })
    }
}

fn keyed(salt: &[u8], text: &[u8]) -> [u8; 20] {
    Sha1::new()
        .chain_update(salt)
        .chain_update(text)
        .finalize()
        .into()
}

/// Returns the shared copy of a kind.
fn one(kinds: &mut HashSet<Arc<str>>, kind: &Arc<str>) -> Arc<str> {
    if let Some(known) = kinds.get(kind) {
        return known.clone();
    }
    kinds.insert(kind.clone());
    kind.clone()
}

impl Serialize for SecretBook {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_seq(self.lines())
    }
}

impl Entry {
    fn count(&self, facts: &mut KindFacts) {
        let missed = self.missed_records > 0;
        facts.distinct += 1;
        facts.occurrences += self.occurrences;
        facts.masked += u64::from(!missed);
        facts.missed += u64::from(missed);
        facts.missed_by_both += u64::from(self.by_both);
        facts.public += u64::from(self.public);
    }
}

/// Returns whether masking a secret beforehand, in all the ranges that it has in the unit, gives the same record, byte for
/// byte. If so, the record contains a mask, and its side is therefore the same too.
///
/// The ranges are masked together: what a policy finds may depend on any one of several occurrences.
///
/// This runs the policy once more per secret. A policy may depend on the whole record, so nothing shorter gives the
/// same answer; [`CHECKED_TEXT`] bounds the cost of a unit with many secrets. If the same bytes are masked, the tokens
/// need not be compared.
fn caught(
    before: &Work<'_>,
    secret: &[Range<usize>],
    policy: Option<&dyn Policy>,
    outcome: &Outcome<'_>,
) -> Result<bool> {
    if before.comes_to(secret, policy, outcome.after) {
        return Ok(true);
    }
    let mut neighbour = before.clone();
    neighbour.mask(secret)?;
    if let Some(policy) = policy {
        neighbour.redact(policy)?;
    }
    Ok(neighbour.tokens(outcome.mask) == outcome.tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::policy::{PolicyChoice, resolved};
    use crate::split::units;
    use crate::tokenize::Tokenizer;
    use crate::unit::Unit;

    /// Beyond the text that is looked at again for a unit, secrets count as missed and are reported.
    #[test]
    fn secrets_beyond_the_limit_of_a_unit_are_missed_unchecked() {
        let policy = PolicyChoice::Detectors(crate::policy::DetectorOptions::default())
            .build()
            .unwrap();
        let tokenizer = Tokenizer::bytes();
        let text = "ada@x.org bob@x.org eve@x.org ada@x.org";
        let document = Document::new("d", text);
        let unit = &units(&document, 0, Unit::Document).unwrap()[0];
        let before = Work::new(unit, &tokenizer).unwrap();
        let mut after = before.clone();
        let found = before.placed(before.view(|view| resolved(policy.as_ref(), view)));
        after.redact(policy.as_ref()).unwrap();
        let tokens = after.tokens(tokenizer.mask());
        let known = |checked_text, none_caught| {
            let outcome = Outcome {
                after: &after,
                tokens: &tokens,
                mask: tokenizer.mask(),
                salt: &[],
                none_caught,
                deduplicate: true,
                planted: &[],
                checked_text,
            };
            let known = known_secrets(unit, &before, Some(&found), Some(policy.as_ref()), &outcome);
            let known = known.unwrap();
            let counts = known.iter().map(|s| (s.occurrences, s.missed, s.unchecked));
            counts.collect::<Vec<_>>()
        };
        let length = text.len() as u64;
        let caught = [(2, false, false), (1, false, false), (1, false, false)];
        // All occurrences of a secret are one look.
        assert_eq!(known(3 * length, false), caught);
        let [ada, bob, _] = caught;
        let none = (1, true, true);
        assert_eq!(known(2 * length, false), [ada, bob, none]);
        assert_eq!(known(length, false), [ada, none, none]);
        // Nothing is looked at where none counts as caught.
        assert!(known(length, true).iter().all(|s| s.1 && !s.2));
    }

    /// Nor where others took no time, since they hold an end of an answer and count as missed.
    #[test]
    fn secrets_that_are_not_looked_for_elsewhere_are_not_caught() {
        let policy = PolicyChoice::Patterns {
            rules: vec![crate::policy::PatternRule {
                kind: "name".to_owned(),
                pattern: "I (?<secret>[a-z]+)".to_owned(),
            }],
        };
        let policy = policy.build().unwrap();
        let tokenizer = Tokenizer::bytes();
        let mut document = Document::new("d", "I ada I bob I eve, eve");
        // From the second letter of the first name to that of the second one.
        document.answers = Some(crate::answers::Answers {
            spans: std::iter::once(3..9).collect(),
            end: false,
        });
        let unit = &units(&document, 0, Unit::Document).unwrap()[0];
        let before = Work::new(unit, &tokenizer).unwrap();
        let mut after = before.clone();
        let found = before.placed(before.view(|view| resolved(policy.as_ref(), view)));
        after.redact(policy.as_ref()).unwrap();
        let tokens = after.tokens(tokenizer.mask());
        let outcome = Outcome {
            after: &after,
            tokens: &tokens,
            mask: tokenizer.mask(),
            salt: &[],
            none_caught: false,
            deduplicate: true,
            planted: &[],
            checked_text: unit.text.len() as u64,
        };
        let known = known_secrets(unit, &before, Some(&found), Some(policy.as_ref()), &outcome);
        let known = known.unwrap();
        let counts = known.iter().map(|s| (s.occurrences, s.missed, s.unchecked));
        let counts: Vec<_> = counts.collect();
        assert_eq!(
            counts,
            [(1, true, false), (1, true, false), (1, true, true)]
        );
    }

    /// Comparing masked bytes says that a secret is caught only where comparing tokens does, and nearly always then.
    #[test]
    fn masked_bytes_say_what_tokens_say() {
        let policy = PolicyChoice::Detectors(crate::policy::DetectorOptions::default())
            .build()
            .unwrap();
        let pieces = [
            "ada@x.org",
            "4111 1111 1111 1111",
            "415-555-0123",
            "card",
            "é",
            "call ",
            " ",
            "12",
            "-",
            "may 5",
            ".",
        ];
        let mut draw = crate::draws(11);
        let (mut both, mut tokens_alone) = (0, 0);
        let words = pieces.iter().map(|piece| piece.repeat(2));
        let json = crate::tokenize::train_tokenizer(words, 300).unwrap();
        let pairs = Tokenizer::from_json(&json, crate::tokenize::Origin::DeclaredPublic).unwrap();
        for tokenizer in [Tokenizer::characters(), Tokenizer::bytes(), pairs] {
            let mask = tokenizer.mask();
            for _ in 0..400 {
                let text: String = (0..12).map(|_| pieces[draw(pieces.len())]).collect();
                let document = Document::new("d", text);
                for unit in units(&document, 0, Unit::Document).unwrap() {
                    let before = Work::new(&unit, &tokenizer).unwrap();
                    let mut after = before.clone();
                    after.redact(policy.as_ref()).unwrap();
                    let tokens = after.tokens(mask);
                    let found = before.view(|view| resolved(policy.as_ref(), view));
                    let found = before.placed(found);
                    let places: Vec<usize> = unit.text.char_indices().map(|(at, _)| at).collect();
                    let [one, two] = [draw(places.len()), draw(places.len())];
                    let secret = if found.is_empty() || draw(2) == 0 {
                        places[one.min(two)]..places[one.max(two)]
                    } else {
                        found[draw(found.len())].0.clone()
                    };
                    if secret.is_empty() {
                        continue;
                    }
                    let mut neighbour = before.clone();
                    let secret = std::slice::from_ref(&secret);
                    neighbour.mask(secret).unwrap();
                    neighbour.redact(policy.as_ref()).unwrap();
                    let same = neighbour.tokens(mask) == tokens;
                    let bytes = before.comes_to(secret, Some(policy.as_ref()), &after);
                    assert!(same || !bytes, "{:?} {secret:?}", unit.text);
                    both += u32::from(bytes);
                    tokens_alone += u32::from(same && !bytes);
                }
            }
        }
        assert!(
            both > 50 && tokens_alone < both / 10,
            "{both} {tokens_alone}"
        );
    }
}
