//! Detectors: patterns with validation for identifiers, numbers and times.

mod checks;
mod countries;
mod engine;
mod entropy;
mod grammar;
mod parted;
mod passwords;
pub(super) mod plain;
mod rules;
mod wrapped;

pub use countries::Country;

use self::parted::Parted;
use self::plain::Plain;
use self::wrapped::Wrapped;
use super::{Policy, Span, View};
use crate::error::{Error, Result, within};
use engine::{Rule, Scanner};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Kinds that identify a person or an account, or can be traced to one.
pub const IDENTIFYING: [&str; 13] = [
    "email",
    "phone",
    "url",
    "ip",
    "mac",
    "iban",
    "card",
    "ssn",
    "national-id",
    "bank-routing",
    "postcode",
    "reference",
    "api-key",
];
/// Kinds found by a grammar of numbers and times.
pub const NUMERIC: [&str; 7] = [
    "date", "time", "money", "percent", "quantity", "ordinal", "cardinal",
];

/// What detectors look for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DetectorOptions {
    /// Kinds: of [`IDENTIFYING`] and [`NUMERIC`]. Default: the identifying ones, dates, times
    /// and money.
    pub kinds: Vec<String>,
    /// Country packs. Default: every one.
    pub countries: Vec<Country>,
    /// Least score of a span, in [0, 1]. Default 0.5. Lower finds more: some kinds need a word
    /// beside them (`phone`, `order`) to score higher.
    pub least: f32,
}

impl Default for DetectorOptions {
    fn default() -> Self {
        let kinds = IDENTIFYING.iter().chain(&["date", "time", "money"]);
        Self {
            kinds: kinds.map(|k| (*k).to_owned()).collect(),
            countries: Country::ALL.to_vec(),
            least: 0.5,
        }
    }
}

/// Patterns with validation: checksums (card by Luhn, IBAN mod 97, national numbers), ranges (IP, dates), context
/// words, entropy (keys). All of them are found in one pass over the text.
///
/// A candidate that fails its check may still be found as another kind: sixteen digits that are not a card are a
/// reference number.
///
/// ```
/// use reticent_corpus::policy::{DetectorOptions, Detectors, View, resolved};
/// let text = "Card 4111 1111 1111 1111, mail ada@example.org";
/// let spans = resolved(&Detectors::new(&DetectorOptions::default())?, &View { text, secrets: &[] });
/// let kinds: Vec<&str> = spans.iter().map(|s| &*s.kind).collect();
/// assert_eq!(kinds, ["card", "email"]);
/// assert_eq!(&text[spans[0].start..spans[0].end], "4111 1111 1111 1111");
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Detectors {
    scanner: Scanner,
    kinds: Vec<Arc<str>>,
    /// The kind of keys that are found by their entropy, if they are looked for.
    keys: Option<Arc<str>>,
    least: f32,
    source: Arc<str>,
}

impl Detectors {
    /// Compiles the rules of the requested kinds.
    ///
    /// # Errors
    /// Returns an error if a kind does not exist, or the least score is outside [0, 1].
    pub fn new(options: &DetectorOptions) -> Result<Self> {
        let least = within("the least score", options.least, 0.0..=1.0)?;
        let known: BTreeSet<&str> = IDENTIFYING.into_iter().chain(NUMERIC).collect();
        if options.kinds.iter().any(|k| !known.contains(k.as_str())) {
            let names: Vec<&str> = known.into_iter().collect();
            return Err(Error::Range {
                name: "a kind of detector",
                value: "another name".into(),
                allowed: format!("one of {}", names.join(", ")),
            });
        }
        let wanted = |kind: &str| options.kinds.iter().any(|k| k == kind);
        let packs: BTreeSet<Country> = options.countries.iter().copied().collect();
        let rules = all_rules(packs).filter(|rule| wanted(rule.kind));
        let mut rules: Vec<Rule> = rules.collect();
        // Of several spans over the same text, the first gives the kind, and this rule is surer than telephone numbers.
        rules.sort_by_key(|rule| rule.pattern != countries::WRITTEN_SSN);
        Ok(Self {
            scanner: Scanner::new(rules)?,
            kinds: options.kinds.iter().map(|k| k.as_str().into()).collect(),
            keys: wanted("api-key").then(|| "api-key".into()),
            least,
            source: "detectors".into(),
        })
    }

    /// Returns the kinds that it looks for.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(AsRef::as_ref)
    }
}

/// Returns the general rules and those of the given countries.
fn all_rules(packs: BTreeSet<Country>) -> impl Iterator<Item = Rule> {
    let general = rules::rules().into_iter().chain(grammar::rules());
    general.chain(packs.into_iter().flat_map(Country::rules))
}

impl Detectors {
    /// Appends what is found in a reading of the text.
    fn find_in(&self, plain: &Plain<'_>, written: &str, spans: &mut Vec<Span>) {
        let mut push = |kind: &Arc<str>, range: Range<usize>, score: f32| {
            if score >= self.least && !range.is_empty() {
                spans.push(Span::new(range, kind.clone(), self.source.clone(), score));
            }
        };
        let mut hit = |rule: &Rule, start: usize, end: usize, score: f32| {
            let range = plain.place(start)..plain.place(end);
            if let Some(range) = rule.whole(written, range) {
                push(&rule.shared_kind, range, score);
            }
        };
        self.scanner
            .scan(&plain.text, |rule, c| hit(rule, c.start, c.end, c.score));
        if let Some(parted) = Parted::of(&plain.text) {
            self.scanner.scan(&parted.text, |rule, c| {
                if parted.touches(c.start, c.end) {
                    hit(rule, parted.place(c.start), parted.place(c.end), c.score);
                }
            });
        }
        // Only numbers with a checksum: other numbers in two lines are apart.
        if let Some(wrapped) = Wrapped::of(&plain.text) {
            let summed = |rule: &Rule| rule.summed;
            self.scanner.scan_with(&wrapped.text, summed, |rule, c| {
                if wrapped.breaks_once(c.start, c.end) {
                    hit(rule, wrapped.place(c.start), wrapped.place(c.end), c.score);
                }
            });
        }
        if let Some(kind) = &self.keys {
            entropy::keys(&plain.text, |range, score| {
                push(
                    kind,
                    plain.place(range.start)..plain.place(range.end),
                    score,
                )
            });
        }
    }
}

impl Policy for Detectors {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        let plain = Plain::of(view.text);
        self.find_in(&plain, view.text, spans);
        if let Some(apart) = plain.apart(view.text) {
            self.find_in(&apart, view.text, spans);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule of a kind that no list names would never run.
    #[test]
    fn the_lists_name_the_kinds_of_all_rules() {
        let listed: BTreeSet<&str> = IDENTIFYING.into_iter().chain(NUMERIC).collect();
        let rules = all_rules(Country::ALL.into_iter().collect());
        assert_eq!(rules.map(|rule| rule.kind).collect::<BTreeSet<_>>(), listed);
    }

    /// With one digit changed, rules with a checksum reject most numbers, and other rules do not.
    #[test]
    fn the_rules_with_a_checksum_are_those_that_have_one() {
        const NUMBERS: [&str; 14] = [
            "4111111111111111",
            "GB82 WEST 1234 5698 7654 32",
            "1Z5R89390357567127",
            "RR473124829GB",
            "86095742719",
            "86 095 742 719",
            "12345678Z",
            "X1234567L",
            "2 55 08 14 168 025 38",
            "943 476 5919",
            "RSSMRA85T10A562S",
            "111222333",
            "021000021",
            "219-09-9999",
        ];
        let mut summed = 0;
        for rule in all_rules(Country::ALL.into_iter().collect()) {
            let (is_summed, pattern) = (rule.summed, rule.pattern.clone());
            let scanner = Scanner::new(vec![rule]).unwrap();
            let finds = |number: &str| {
                let mut whole = false;
                scanner.scan(number, |_, c| {
                    whole |= (c.start, c.end) == (0, number.len());
                });
                whole
            };
            let (mut changed, mut found) = (0, 0);
            for number in NUMBERS.into_iter().filter(|number| finds(number)) {
                for (at, digit) in number.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
                    for other in ('0'..='9').filter(|other| *other != digit) {
                        let mut other_number = number.to_owned();
                        other_number.replace_range(at..=at, &other.to_string());
                        changed += 1;
                        found += usize::from(finds(&other_number));
                    }
                }
            }
            let rejects = changed > 0 && 5 * found < changed;
            assert_eq!(is_summed, rejects, "{pattern}: {found} of {changed}");
            summed += usize::from(is_summed);
        }
        assert_eq!(summed, 11);
    }
}
