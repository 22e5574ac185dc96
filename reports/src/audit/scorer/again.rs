//! Repeats some questions at the end of an audit, drawn at random from all questions asked, and compares their answers
//! with those to other questions about the same tokens: answers that vary at random, that depend on later tokens, or that
//! belong to another prefix measure nothing.

use super::pool::{Pool, disagreement};
use anyhow::{Context, Result, bail, ensure};
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

    /// Asks all kept questions again, then about the first half of each text, and by `score` about the most probable
    /// wanted token after each prefix.
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
                begin(pool, IN_TWO_WAYS),
                first.len()
            );
        }
        self.check_halves(pool)?;
        for asked in &self.next.kept {
            let again = pool.next(std::slice::from_ref(&asked.prefix), &asked.wanted)?;
            refuse(pool, "ln p of a token", &asked.answer, &again.concat())?;
        }
        self.check_forms(pool)
    }

    /// Refuses a model whose answers about the first half of a text are others without the second half.
    fn check_halves(&self, pool: &mut Pool) -> Result<()> {
        for (text, row) in &self.scored.kept {
            let half = text.len().div_ceil(2);
            // The first token has no answer.
            if half < 2 {
                continue;
            }
            let alone = pool.score(&[text[..half].to_vec()])?.concat();
            for (what, statistic) in STATISTICS {
                let numbers =
                    |row: &[TokenScore]| -> Vec<f64> { row.iter().map(statistic).collect() };
                let (within, alone) = (numbers(&row[..half - 1]), numbers(&alone));
                if let Some((within, alone)) = disagreement(&within, &alone) {
                    bail!(
                        "{} {what} is {within} in a text and {alone} in its first half; it must depend on the tokens \
                         before it alone, as in no encoder, and not on the length of the text: {PRECISION}",
                        begin(pool, "contradicts itself:")
                    );
                }
            }
        }
        Ok(())
    }

    /// Refuses a model whose `next` is not its `score` of the same tokens.
    fn check_forms(&self, pool: &mut Pool) -> Result<()> {
        let most = pool.hello().context.unwrap_or(usize::MAX);
        for Next {
            prefix,
            wanted,
            answer,
        } in &self.next.kept
        {
            let each = wanted.iter().zip(answer);
            let Some((token, by_next)) = each.max_by(|a, b| a.1.total_cmp(b.1)) else {
                continue;
            };
            // A prefix of the whole context has no room for another token.
            if prefix.len() >= most {
                continue;
            }
            let text = [prefix.as_slice(), &[*token]].concat();
            let row = pool
                .score(&[text])
                .context("`score` of a prefix that `next` answered")?
                .concat();
            let last: Vec<f64> = row.last().map(|s| s.log_probability).into_iter().collect();
            if let Some((by_next, by_score)) = disagreement(&[*by_next], &last) {
                bail!(
                    "{} ln p of a token is {by_next} by `next` and {by_score} by `score` behind the same prefix; both \
                     must be given all tokens of the prefix and nothing else: {PRECISION}",
                    begin(pool, "contradicts itself:")
                );
            }
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
        begin(pool, IN_TWO_WAYS)
    )
}

const ADVICE: &str = "it must be one model that answers without chance and alike in any batch, so switch dropout and \
                      sampling off, or compute in single precision";

const PRECISION: &str = "where only rounding differs, compute in single precision";

const IN_TWO_WAYS: &str = "answers the same question in two ways:";

fn begin(pool: &Pool, what: &str) -> String {
    let lines = pool.lines().join("`, `");
    format!("the scorer `{lines}` {what}")
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
