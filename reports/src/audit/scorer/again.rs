//! Repeats some questions at the end of an audit, drawn at random from all questions asked.

use super::pool::Pool;
use crate::audit::answers::{ADVICE, AskedNext, Sample, refuse};
use anyhow::{Result, ensure};
use reticent_backends::TokenScore;
use reticent_corpus::TokenId;

/// A uniform sample of the answers.
pub(super) struct Asked {
    scored: Sample<(Vec<TokenId>, Vec<TokenScore>)>,
    next: AskedNext,
}

impl Asked {
    /// Creates an empty sample.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            scored: Sample::new()?,
            next: AskedNext::new()?,
        })
    }

    pub(super) fn scored(&mut self, texts: &[Vec<TokenId>], rows: &[Vec<TokenScore>]) {
        for (text, row) in texts.iter().zip(rows).filter(|(_, row)| !row.is_empty()) {
            self.scored.pass(|| (text.clone(), row.clone()));
        }
    }

    pub(super) fn next(
        &mut self,
        prefixes: &[Vec<TokenId>],
        wanted: &[TokenId],
        rows: &[Vec<f64>],
    ) {
        self.next.note(prefixes, wanted, rows);
    }

    /// Asks all kept questions again.
    ///
    /// # Errors
    /// Returns an error if an answer differs from the first.
    pub(super) fn check(&self, pool: &mut Pool) -> Result<()> {
        let (texts, first): (Vec<_>, Vec<_>) = self.scored.kept.iter().cloned().unzip();
        if !texts.is_empty() {
            // One by one: what depends on the batch differs most in the smallest.
            let mut again = Vec::with_capacity(texts.len());
            for text in &texts {
                again.extend(pool.score(std::slice::from_ref(text))?);
            }
            for (what, statistic) in STATISTICS {
                let numbers = |rows: &[Vec<TokenScore>]| -> Vec<f64> {
                    rows.iter().flatten().map(statistic).collect()
                };
                refuse(&begin(pool), what, &numbers(&first), &numbers(&again))?;
            }
            let tops = |rows: &[Vec<TokenScore>]| -> Vec<TokenId> {
                rows.iter().flatten().map(|s| s.top_token).collect()
            };
            let (first, again) = (tops(&first), tops(&again));
            let other = first.iter().zip(&again).filter(|(a, b)| a != b).count();
            ensure!(
                other * TIES <= first.len(),
                "{} {other} of {} most probable tokens are others at the end of the audit; {ADVICE}",
                begin(pool),
                first.len()
            );
        }
        let who = begin(pool);
        self.next
            .check(&who, |prefixes, wanted| pool.next(prefixes, wanted))
    }
}

/// One in this many most probable tokens may differ: between two almost equal ones, rounding decides.
const TIES: usize = 10;

type Statistic = fn(&TokenScore) -> f64;

/// The numbers of an answer.
const STATISTICS: [(&str, Statistic); 4] = [
    ("ln p of a token", |s| s.log_probability),
    ("the mean of ln p", |s| s.mean),
    ("the root of the variance of ln p", |s| s.variance.sqrt()),
    ("ln p of the most probable token", |s| s.top_log_probability),
];

fn begin(pool: &Pool) -> String {
    let lines = pool.lines().join("`, `");
    format!("the scorer `{lines}` answers the same question in two ways:")
}
