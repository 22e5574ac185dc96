//! The table that all membership scores of a model are computed from: the token scores of one pass.

use super::scored::Scored;
use crate::error::{Error, Result, given};
use crate::perplexity::check_speaks;
use crate::scoring::{each_row, nll, windows};
use reticent_backends::{Scorer, TokenScore};
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

/// The options for scoring records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scoring {
    /// The largest number of tokens the model reads at once; longer records are scored in windows that overlap by
    /// one token, so that every token but a record's first is predicted once.
    pub context: Option<usize>,
    /// The largest number of padded tokens in a batch (but at least one record).
    pub batch_tokens: usize,
}

/// One model's scores of every token of every record.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreTable {
    pub(super) tokens: Vec<Vec<TokenId>>,
    pub(super) scores: Vec<Vec<TokenScore>>,
}

impl ScoreTable {
    /// Scores the records once. `progress` is called with the number of pieces done and may stop the run.
    ///
    /// # Errors
    /// Returns an error if there is no record or a record without a second token, if the model returns NaN, a
    /// log-probability above 1e-4 or another number of rows, if it gives most records no finite perplexity, if the
    /// engine fails, or [`Error::Interrupted`] if `progress` stops the run.
    pub fn of<S: Scorer + ?Sized>(
        scorer: &mut S,
        records: Vec<Vec<TokenId>>,
        scoring: Scoring,
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self> {
        given(!records.is_empty(), "no record was given")?;
        given(
            records.iter().all(|r| r.len() >= 2),
            "a record without a second token",
        )?;
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

    /// Returns the number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns whether there is no record, which is never the case for a table returned by `of`.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the number of tokens scored.
    #[must_use]
    pub fn scored_tokens(&self) -> u64 {
        self.scores.iter().map(|row| row.len() as u64).sum()
    }

    /// Returns the records' tokens.
    #[must_use]
    pub fn tokens(&self) -> &[Vec<TokenId>] {
        &self.tokens
    }

    /// Returns −mean NLL of every record, in nats per token: the score of the attack by loss.
    ///
    /// # Errors
    /// None for a table returned by `of`.
    pub fn losses(&self) -> Result<Vec<f64>> {
        (0..self.len())
            .map(|i| Ok(self.record(i)?.loss()))
            .collect()
    }

    /// Returns one record: its tokens except the first, with the model's score of each.
    ///
    /// # Errors
    /// Returns an error if there is no record with this index.
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

/// The initial value of a table entry; every entry is overwritten.
const UNSCORED: TokenScore = TokenScore {
    log_probability: f64::NAN,
    mean: f64::NAN,
    variance: f64::NAN,
    top_token: 0,
    top_log_probability: f64::NAN,
};
