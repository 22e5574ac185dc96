//! Repeats some questions at the end of an audit, drawn at random from all questions asked: answers that vary at random
//! measure nothing.

use super::pool::{Pool, disagreement};
use anyhow::{Result, bail, ensure};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_backends::TokenScore;
use reticent_corpus::{TokenId, system_seed};

/// The number of texts that are scored again, and of prefixes whose next token is asked for again.
const KEPT: usize = 16;

/// A uniform sample of the answers.
pub(super) struct Asked {
    scored: Sample<(Vec<TokenId>, Vec<TokenScore>)>,
    next: Sample<Next>,
    rng: ChaCha20Rng,
}

/// A prefix, the tokens that may come next, and ln p of each.
struct Next {
    prefix: Vec<TokenId>,
    wanted: Vec<TokenId>,
    answer: Vec<f64>,
}

/// At most [`KEPT`] of all items seen, each with the same probability.
struct Sample<T> {
    kept: Vec<T>,
    passed: usize,
}

impl<T> Sample<T> {
    const fn new() -> Self {
        Self {
            kept: Vec::new(),
            passed: 0,
        }
    }

    fn pass(&mut self, rng: &mut ChaCha20Rng, make: impl FnOnce() -> T) {
        self.passed += 1;
        if self.kept.len() < KEPT {
            self.kept.push(make());
            return;
        }
        let place = rng.random_range(0..self.passed);
        if place < KEPT {
            self.kept[place] = make();
        }
    }
}

impl Asked {
    /// Creates an empty sample. The operating system seeds the choice, so that no scorer can know it.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            scored: Sample::new(),
            next: Sample::new(),
            rng: ChaCha20Rng::seed_from_u64(system_seed()?),
        })
    }

    pub(super) fn scored(&mut self, texts: &[Vec<TokenId>], rows: &[Vec<TokenScore>]) {
        for (text, row) in texts.iter().zip(rows).filter(|(_, row)| !row.is_empty()) {
            self.scored
                .pass(&mut self.rng, || (text.clone(), row.clone()));
        }
    }

    pub(super) fn next(
        &mut self,
        prefixes: &[Vec<TokenId>],
        wanted: &[TokenId],
        rows: &[Vec<f64>],
    ) {
        for (prefix, row) in prefixes.iter().zip(rows) {
            self.next.pass(&mut self.rng, || Next {
                prefix: prefix.clone(),
                wanted: wanted.to_vec(),
                answer: row.clone(),
            });
        }
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
                refuse(pool, what, &numbers(&first), &numbers(&again))?;
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
        for asked in &self.next.kept {
            let again = pool.next(std::slice::from_ref(&asked.prefix), &asked.wanted)?;
            refuse(pool, "ln p of a token", &asked.answer, &again.concat())?;
        }
        Ok(())
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

fn refuse(pool: &Pool, what: &str, first: &[f64], again: &[f64]) -> Result<()> {
    let Some((first, again)) = disagreement(first, again) else {
        return Ok(());
    };
    bail!(
        "{} {what} is {first} at first and {again} at the end of the audit; {ADVICE}",
        begin(pool)
    )
}

const ADVICE: &str = "it must be one model that answers without chance and alike in any batch, so switch dropout and \
                      sampling off, or compute in single precision";

fn begin(pool: &Pool) -> String {
    let lines = pool.lines().join("`, `");
    format!("the scorer `{lines}` answers the same question in two ways:")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 000 samples of 16 out of 64 with fixed seeds: each is kept 1 000 ± 137 times (5 σ; 64 counts, false alarms below
    /// 4e-5).
    #[test]
    fn each_question_is_kept_as_often_as_any_other() {
        let mut counts = [0; 64];
        for seed in 0..4000 {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let mut sample = Sample::new();
            (0..64).for_each(|i| sample.pass(&mut rng, || i));
            assert_eq!(sample.kept.len(), KEPT);
            sample.kept.iter().for_each(|i: &usize| counts[*i] += 1);
        }
        for (i, count) in counts.into_iter().enumerate() {
            assert!(i32::abs(1000 - count) <= 137, "question {i}: {count}");
        }
    }
}
