//! The data that a recipe trains on: the training set, which of its tokens are sensitive, and how often each record may
//! be drawn.

use crate::error::{Error, Result};
use crate::trainer::masking::Masking;
use reticent_accounting::SamplingRate;
use reticent_accounting::confidentiality::RedactedAlike;
use reticent_accounting::protect::{RateProfile, Secret, SecretClasses};
use reticent_accounting::training::dominating_rates;
use reticent_corpus::{Record, TokenId, TrainingSet, misplaced};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;

/// A training set with what some recipes need to know about it.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Corpus<'a> {
    /// The records. For `sdp` and `jft` they are **not** redacted.
    pub set: &'a TrainingSet,
    /// Which tokens are sensitive: for `sdp` and `jft`.
    pub sensitive: Option<&'a Sensitive>,
    /// How often each record is drawn: for `protect`.
    pub rates: Option<&'a SecretRates>,
    /// Text that is not trained on, scored after every epoch of the last phase.
    pub held_out: Option<&'a [Vec<TokenId>]>,
    /// Which tokens of the held-out text carry no loss, text by text; all but the first of each do where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out_ignored: Option<&'a [Vec<Range<usize>>]>,
    /// The classes of the held-out text, where the model tells classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out_labels: Option<&'a [u32]>,
    /// How tokens are masked: for an encoder that tells masked tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masking: Option<&'a Masking>,
}

impl<'a> Corpus<'a> {
    /// Returns a corpus with nothing but a training set: enough for `sgd`, `dpsgd` and `crt`.
    #[must_use]
    pub const fn plain(set: &'a TrainingSet) -> Self {
        Self {
            set,
            sensitive: None,
            rates: None,
            held_out: None,
            held_out_ignored: None,
            held_out_labels: None,
            masking: None,
        }
    }
}

/// Which tokens of each record a policy calls sensitive, in a set that is not redacted.
///
/// Neighbours give spans another content, of any length, and leave their number and order as
/// they are: how many states `sdp` releases is then no secret. A content that the policy would
/// cut into other spans, or overlook, is one that it does not catch.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sensitive {
    spans: Vec<Vec<Range<usize>>>,
    mask: TokenId,
    alike: RedactedAlike,
}

impl Sensitive {
    /// Takes the spans of sensitive token positions, record by record, and the token that stands for a mask.
    ///
    /// `alike` says what is known of the policy. Unless all of it holds, training on the other tokens without noise has
    /// no guarantee.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] unless there is one list per record, each ascending, without touching spans, and
    /// inside its record without the beginning of text.
    pub fn new(
        set: &TrainingSet,
        spans: Vec<Vec<Range<usize>>>,
        mask: TokenId,
        alike: RedactedAlike,
    ) -> Result<Self> {
        if spans.len() != set.records.len() {
            return Err(Error::Unsuitable(format!(
                "sensitive spans must be given for each of the {} records, got {}",
                set.records.len(),
                spans.len()
            )));
        }
        for (number, (spans, record)) in spans.iter().zip(&set.records).enumerate() {
            if let Some(span) = misplaced(spans, record.tokens.len()) {
                return Err(Error::Unsuitable(format!(
                    "sensitive spans of record {number} must ascend inside [1, {}] without touching, got {}..{}",
                    record.tokens.len(),
                    span.start,
                    span.end
                )));
            }
        }
        Ok(Self { spans, mask, alike })
    }

    /// Takes the spans from the records themselves: in a set prepared without redaction they carry what the policy
    /// found.
    ///
    /// # Errors
    /// As [`Sensitive::new`].
    pub fn marked(set: &TrainingSet, mask: TokenId, alike: RedactedAlike) -> Result<Self> {
        let spans = set.records.iter().map(|r| r.sensitive.clone()).collect();
        Self::new(set, spans, mask, alike)
    }

    /// Returns the spans of a record.
    pub(crate) fn of(&self, record: usize) -> &[Range<usize>] {
        &self.spans[record]
    }

    /// Returns the token of a mask.
    #[must_use]
    pub const fn mask(&self) -> TokenId {
        self.mask
    }

    /// Returns what is known of the policy.
    #[must_use]
    pub const fn alike(&self) -> RedactedAlike {
        self.alike
    }

    /// Returns the tokens of a record with one mask in place of each span, and which of them carry no loss. A mask
    /// carries a loss if some token of its span did.
    pub(crate) fn redacted(
        &self,
        number: usize,
        record: &Record,
    ) -> (Vec<TokenId>, Vec<Range<usize>>) {
        let tokens = &record.tokens;
        let spans = self.of(number);
        let mut out = Vec::with_capacity(tokens.len());
        let mut from = 0;
        for span in spans {
            out.extend_from_slice(&tokens[from..span.start]);
            out.push(self.mask);
            from = span.end;
        }
        out.extend_from_slice(&tokens[from..]);
        (out, moved(&record.ignored, spans))
    }
}

/// Maps ranges of a record's tokens to their places after each span has become one token. That token belongs to a range
/// if the range held the whole span.
fn moved(ranges: &[Range<usize>], spans: &[Range<usize>]) -> Vec<Range<usize>> {
    // The number of tokens removed before a position, and the span that contains the position.
    let before = |at: usize| {
        let ended = spans.partition_point(|span| span.end <= at);
        let gone: usize = spans[..ended].iter().map(|span| span.len() - 1).sum();
        (gone, spans.get(ended).filter(|span| span.start < at))
    };
    let start = |at: usize| match before(at) {
        (gone, Some(cut)) => cut.start + 1 - gone,
        (gone, None) => at - gone,
    };
    let end = |at: usize| match before(at) {
        (gone, Some(cut)) => cut.start - gone,
        (gone, None) => at - gone,
    };
    let each = ranges
        .iter()
        .map(|range| start(range.start)..end(range.end));
    each.filter(|range| range.start < range.end).collect()
}

/// Sampling rates of secret protection: of each record, and which records hold which secret.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SecretRates {
    rates: Vec<f64>,
    secrets: Vec<Vec<u32>>,
    #[serde(skip)]
    dominating: Vec<SamplingRate>,
    #[serde(skip)]
    promises: Vec<Secret>,
}

impl SecretRates {
    /// Takes one rate per record of the training set, as `account protect` gives them, and the records that hold each
    /// secret.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for a rate outside [0, 1] or a record that does not exist.
    pub fn new(rates: Vec<f64>, secrets: Vec<Vec<u32>>) -> Result<Self> {
        crate::privacy::random::Rates::each(rates.clone())?;
        let missing = |record: &&u32| **record as usize >= rates.len();
        if let Some(record) = secrets.iter().flatten().find(missing) {
            return Err(Error::OutOfRange {
                what: "record of a secret",
                range: "[0, number of records)",
                value: f64::from(*record),
            });
        }
        let dominating = dominating_rates(&rates, &secrets)?;
        Ok(Self {
            rates,
            secrets,
            dominating,
            promises: Vec::new(),
        })
    }

    /// Adds what is promised for each secret.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if the numbers of promises and secrets differ.
    pub fn promising(self, promises: Vec<Secret>) -> Result<Self> {
        if promises.len() != self.secrets.len() {
            return Err(Error::OutOfRange {
                what: "number of promises",
                range: "[number of secrets, number of secrets]",
                value: promises.len() as f64,
            });
        }
        Ok(Self { promises, ..self })
    }

    /// Returns whether some class covers each secret: with the secret's promise, and rates that are at least the
    /// secret's.
    pub(crate) fn are_covered(&self, classes: &SecretClasses) -> Result<bool> {
        if self.promises.len() != self.secrets.len() {
            return Ok(false);
        }
        let profiles = self.secrets.iter().map(|records| {
            let mut records = records.clone();
            records.sort_unstable();
            records.dedup();
            RateProfile::new(records.iter().map(|record| self.rates[*record as usize]))
        });
        let secrets = self.promises.iter().copied().zip(profiles);
        Ok(classes.first_uncovered(secrets)?.is_none())
    }

    /// Returns the rate of each record.
    #[must_use]
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Returns rates that dominate those of every secret ([`reticent_accounting::training::dominating_rates`]).
    #[must_use]
    pub fn dominating(&self) -> &[SamplingRate] {
        &self.dominating
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reticent_corpus::{Side, Unit};

    fn set() -> TrainingSet {
        let record = |tokens: &[u32]| Record {
            side: Side::Private,
            tokens: tokens.to_vec(),
            sensitive: Vec::new(),
            label: None,
            ignored: Vec::new(),
        };
        TrainingSet {
            unit: Unit::Turn,
            records: vec![record(&[0, 5, 6, 7, 1]), record(&[0, 5, 1])],
            mask_only: 0,
        }
    }

    #[test]
    fn one_mask_stands_for_a_span_of_any_length() {
        let set = set();
        let spans = vec![Some(1..3).into_iter().collect(), vec![]];
        let sensitive = Sensitive::new(&set, spans, 9, RedactedAlike::YES).unwrap();
        assert_eq!(sensitive.redacted(0, &set.records[0]).0, [0, 9, 7, 1]);
        assert_eq!(sensitive.redacted(1, &set.records[1]).0, [0, 5, 1]);
        let mut marked = set;
        marked.records[0].sensitive.push(1..3);
        let read = Sensitive::marked(&marked, 9, RedactedAlike::YES).unwrap();
        assert_eq!(read, sensitive);
    }

    /// Against every token looked at by itself; ranges and spans begin and end inside each other.
    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a list of one range")]
    fn what_carries_no_loss_moves_with_the_masks() {
        for bits in 0..1u32 << 8 {
            for spans in [vec![], vec![2..5], vec![1..2, 4..7], vec![3..4, 6..9]] {
                let ignores = |at: usize| at > 0 && bits >> (at - 1) & 1 == 1;
                let mut ignored: Vec<Range<usize>> = Vec::new();
                for at in (1..9).filter(|at| ignores(*at)) {
                    match ignored.last_mut() {
                        Some(last) if last.end == at => last.end += 1,
                        _ => ignored.push(at..at + 1),
                    }
                }
                let (mut expected, mut at, mut place) = (Vec::new(), 0, 0);
                while at < 9 {
                    let span = spans.iter().find(|s: &&Range<usize>| s.start == at);
                    let next = span.map_or(at + 1, |s| s.end);
                    if (at..next).all(ignores) {
                        expected.push(place);
                    }
                    (at, place) = (next, place + 1);
                }
                let found = moved(&ignored, &spans).into_iter().flatten();
                assert_eq!(
                    found.collect::<Vec<usize>>(),
                    expected,
                    "{ignored:?} {spans:?}"
                );
            }
        }
    }

    #[test]
    fn spans_that_do_not_fit_are_refused() {
        let bad = |spans| Sensitive::new(&set(), spans, 9, RedactedAlike::YES).unwrap_err();
        for spans in [[0..1, 2..3], [1..2, 4..6], [1..2, 2..3], [2..3, 1..2]] {
            let error = bad(vec![spans.to_vec(), vec![]]).to_string();
            assert!(error.contains("record 0"), "{error}");
        }
        assert!(bad(vec![vec![]]).to_string().contains("2 records"));
    }

    #[test]
    fn dominating_rates_cover_every_secret() {
        let rates = vec![0.1, 0.5, 0.2, 0.0, 0.3];
        let of = |rates: &SecretRates| {
            let found = rates.dominating();
            found.iter().map(|r| r.get()).collect::<Vec<_>>()
        };
        let secrets = vec![vec![0, 2, 2, 3], vec![1], vec![4, 0]];
        assert_eq!(
            of(&SecretRates::new(rates.clone(), secrets).unwrap()),
            [0.5, 0.1]
        );
        assert_eq!(of(&SecretRates::new(rates.clone(), vec![]).unwrap()), [0.5]);
        assert!(SecretRates::new(rates, vec![vec![5]]).is_err());
        assert!(SecretRates::new(vec![1.5], vec![]).is_err());
    }
}
