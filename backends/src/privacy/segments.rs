//! Records for Selective DP-SGD, divided into segments of sensitive and of ordinary predictions.

use crate::material::Sensitive;
use reticent_accounting::training::released_states;
use reticent_corpus::{TokenId, TrainingSet};
use std::ops::Range;

/// Records with their sensitive tokens, which only selective steps can read.
#[derive(Debug, Clone)]
pub struct SelectiveRecords {
    records: Vec<(Vec<TokenId>, Vec<Segment>)>,
    most_states: u64,
}

/// A batch of records with their segments.
#[derive(Debug, Clone)]
pub struct SelectiveBatch<'a>(
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines read it"))]
    pub(crate)  Vec<(&'a [TokenId], &'a [Segment])>,
    /// The record numbers, by which dropout masks are keyed.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines read it"))]
    pub(crate) Vec<u32>,
);

/// Consecutive predictions of a record, all sensitive or all ordinary. Prediction t reads token t and predicts
/// token t + 1; it is sensitive if either token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The predictions.
    pub rows: Range<usize>,
    /// Whether they read or predict a sensitive token.
    pub sensitive: bool,
}

fn segments(tokens: usize, spans: &[Range<usize>]) -> Vec<Segment> {
    let inside = |token: usize| spans.iter().any(|s| s.contains(&token));
    let mut out: Vec<Segment> = Vec::new();
    for row in 0..tokens.saturating_sub(1) {
        let sensitive = inside(row) || inside(row + 1);
        match out.last_mut() {
            Some(last) if last.sensitive == sensitive => last.rows.end = row + 1,
            _ => out.push(Segment {
                rows: row..row + 1,
                sensitive,
            }),
        }
    }
    out
}

/// Divides the records of a set into segments.
pub(crate) fn selective(set: &TrainingSet, sensitive: &Sensitive) -> SelectiveRecords {
    let records = || set.records.iter().enumerate();
    let states = records().map(|(i, r)| released_states(r.tokens.len(), sensitive.of(i)));
    SelectiveRecords {
        most_states: states.max().unwrap_or(0),
        records: records()
            .map(|(i, r)| (r.tokens.clone(), segments(r.tokens.len(), sensitive.of(i))))
            .collect(),
    }
}

impl SelectiveRecords {
    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }
    /// Returns whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
    /// Returns the largest number of states that one record releases in one pass
    /// ([`reticent_accounting::training::released_states`]).
    #[must_use]
    pub const fn most_states(&self) -> u64 {
        self.most_states
    }
    /// Returns the batch of these indices; an index out of range is ignored.
    #[must_use]
    pub fn batch(&self, indices: &[u32]) -> SelectiveBatch<'_> {
        let there = indices
            .iter()
            .filter(|i| (**i as usize) < self.records.len());
        let one = |i: &u32| {
            let (tokens, segments) = &self.records[*i as usize];
            (tokens.as_slice(), segments.as_slice())
        };
        SelectiveBatch(there.clone().map(one).collect(), there.copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_that_read_or_ask_for_a_sensitive_token_are_sensitive() {
        let cut = |tokens, spans: &[Range<usize>]| {
            let found = segments(tokens, spans);
            found
                .into_iter()
                .map(|s| (s.rows, s.sensitive))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(6, &[]), [(0..5, false)]);
        // token 3 is asked for by prediction 2 and read by prediction 3
        let found = cut(8, &[3..4, 6..7]);
        let expected = [(0..2, false), (2..4, true), (4..5, false), (5..7, true)];
        assert_eq!(found, expected);
        // one ordinary token between two spans leaves no ordinary prediction
        let found = cut(9, &[2..3, 4..5]);
        assert_eq!(found, [(0..1, false), (1..5, true), (5..8, false)]);
        assert_eq!(cut(1, &[]), []);
    }
}
