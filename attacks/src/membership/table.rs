//! The table that all membership scores of a model come from: one pass, kept per token.

use super::scored::Scored;
use crate::error::{Error, Result};
use crate::perplexity::check_speaks;
use crate::scoring::{each_row, nll, windows};
use reticent_backends::{Scorer, TokenScore};
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

/// How records are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scoring {
    /// Most tokens the model reads at once; longer records are scored in windows that overlap by
    /// one token, so that every token but a record's first is predicted once.
    pub context: Option<usize>,
    /// Most padded tokens of a batch (one record at least).
    pub batch_tokens: usize,
}

/// What one model says of every token of every record.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreTable {
    pub(super) tokens: Vec<Vec<TokenId>>,
    pub(super) scores: Vec<Vec<TokenScore>>,
}

impl ScoreTable {
    /// Scores the records once. `progress` is called with pieces done and may stop the run.
    ///
    /// # Errors
    /// No record, a record without a second token, a model that answers with NaN, a positive
    /// log-probability or another number of rows, one that gives most records no finite perplexity, a failing
    /// engine, [`Error::Interrupted`].
    pub fn of<S: Scorer + ?Sized>(
        scorer: &mut S,
        records: Vec<Vec<TokenId>>,
        scoring: Scoring,
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self> {
        if records.is_empty() {
            return Err(Error::Empty("no record was given"));
        }
        if records.iter().any(|r| r.len() < 2) {
            return Err(Error::Empty("a record without a second token"));
        }
        let mut owner = Vec::new();
        let mut pieces = Vec::new();
        let mut scores: Vec<Vec<TokenScore>> = Vec::with_capacity(records.len());
        for (index, record) in records.iter().enumerate() {
            for window in windows(record.len(), scoring.context) {
                owner.push((index, window.start));
                pieces.push(record[window].to_vec());
            }
            scores.push(vec![UNSCORED; record.len() - 1]);
        }
        each_row(
            scorer,
            &pieces,
            scoring.batch_tokens,
            progress,
            |piece, row| {
                let (record, start) = owner[piece];
                scores[record][start..start + row.len()].copy_from_slice(&row);
                Ok(())
            },
        )?;
        let losses = scores.iter().map(|row| (nll(row), row.len()));
        check_speaks("record", losses)?;
        Ok(Self {
            tokens: records,
            scores,
        })
    }

    /// Number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is none; never true of a table that was made.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Tokens scored.
    #[must_use]
    pub fn scored_tokens(&self) -> u64 {
        self.scores.iter().map(|row| row.len() as u64).sum()
    }

    /// The records' tokens.
    #[must_use]
    pub fn tokens(&self) -> &[Vec<TokenId>] {
        &self.tokens
    }

    /// −mean NLL of every record, nats per token: the score of the attack by loss.
    ///
    /// # Errors
    /// None for a table that was made.
    pub fn losses(&self) -> Result<Vec<f64>> {
        (0..self.len())
            .map(|i| Ok(self.record(i)?.loss()))
            .collect()
    }

    /// One record: its tokens but the first, and what the model says of each.
    ///
    /// # Errors
    /// A number that is no record's.
    pub fn record(&self, index: usize) -> Result<Scored<'_>> {
        match (self.tokens.get(index), self.scores.get(index)) {
            (Some(tokens), Some(scores)) => Scored::new(&tokens[1..], scores),
            _ => Err(Error::OutOfRange {
                what: "record",
                range: "[0, number of records)",
                value: format!("{index} of {}", self.len()),
            }),
        }
    }
}

/// What stands in a table before its model has spoken; every entry is overwritten.
const UNSCORED: TokenScore = TokenScore {
    log_probability: f64::NAN,
    mean: f64::NAN,
    variance: f64::NAN,
    top_token: 0,
    top_log_probability: f64::NAN,
};
