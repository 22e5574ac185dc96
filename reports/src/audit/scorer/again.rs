//! Repeats some questions at the end of an audit, drawn at random from all questions asked, and compares their answers
//! with those to other questions about the same tokens: answers that vary at random, that depend on later tokens, or that
//! belong to another prefix measure nothing.

use super::Known;
use super::pool::Pool;
use crate::audit::answers::{ADVICE, Next, NextSample, Sample, disagreement, refuse};
use anyhow::{Context, Result, bail, ensure};
use reticent_backends::TokenScore;
use reticent_corpus::TokenId;

/// A uniform sample of the answers.
pub(super) struct AnswerSample {
    scored: Sample<(Vec<TokenId>, Vec<TokenScore>)>,
    next: NextSample,
    /// What is repeated whether it was drawn or not.
    pub(super) known: Vec<Known>,
}

impl AnswerSample {
    /// Creates an empty sample.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            scored: Sample::new()?,
            next: NextSample::new()?,
            known: Vec::new(),
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
                refuse(
                    &begin(pool, IN_TWO_WAYS),
                    what,
                    &numbers(&first),
                    &numbers(&again),
                )?;
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
        let who = begin(pool, IN_TWO_WAYS);
        self.next
            .check(&who, |prefixes, wanted| pool.next(prefixes, wanted))?;
        self.check_forms(pool)?;
        self.check_known(pool)
    }

    /// Refuses a model whose ln p of known tokens are others than those that were measured.
    fn check_known(&self, pool: &mut Pool) -> Result<()> {
        let most = pool.hello().context.unwrap_or(usize::MAX);
        // As in `check_forms`.
        let known = self.known.iter().filter(|known| known.text.len() <= most);
        let (texts, first): (Vec<_>, Vec<f64>) = known
            .clone()
            .map(|known| (known.text.clone(), known.mean))
            .unzip();
        let again: Vec<f64> = pool
            .score(&texts)?
            .iter()
            .zip(known)
            .map(|(row, known)| {
                let own = row.iter().skip(known.before - 1);
                let sum: f64 = own.map(|s| s.log_probability).sum();
                sum / (known.text.len() - known.before) as f64
            })
            .collect();
        let who = begin(pool, IN_TWO_WAYS);
        refuse(&who, "the mean ln p of a canary's secret", &first, &again)
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
        } in self.next.kept()
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

const PRECISION: &str = "where only rounding differs, compute in single precision";

const IN_TWO_WAYS: &str = "answers the same question in two ways:";

fn begin(pool: &Pool, what: &str) -> String {
    let lines = pool.lines().join("`, `");
    format!("the scorer `{lines}` {what}")
}
