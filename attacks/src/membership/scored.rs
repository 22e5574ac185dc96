//! Membership scores of one record, all computed from one table of token scores per model.

use super::deflate::zlib_bytes;
use crate::error::{Error, Result, counted, given, numbers, ranged};
use crate::scoring::{ln_p, nll};
use crate::search::cost;
use reticent_backends::TokenScore;
use reticent_corpus::TokenId;

/// A record as scored by one model: its tokens except the first, with the model's score of each.
///
/// A token of which the model is certain costs 0 nats and counts like any other; so does one whose ln p is lifted above
/// 0 by rounding.
#[derive(Debug, Clone, Copy)]
pub struct Scored<'t> {
    tokens: &'t [TokenId],
    scores: &'t [TokenScore],
}

/// The evidence available for attacks on one record.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'t> {
    /// The record under the audited model.
    pub target: Scored<'t>,
    /// The record under a reference model with the same tokens, such as the base before
    /// fine-tuning.
    pub reference: Option<Scored<'t>>,
    /// The record's text in lower case, under the audited model.
    pub lower_case: Option<Scored<'t>>,
    /// The record's text.
    pub text: Option<&'t str>,
    /// The mean NLL per token of its neighbours, under the audited model.
    pub neighbours: Option<&'t [f64]>,
}

/// An attack: what it computes and what it needs. Every score increases with membership.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// What it needs.
    pub needs: Need,
    /// Whether it uses the distribution over the whole vocabulary at a position.
    pub reads_vocabulary: bool,
    score: fn(&Evidence<'_>) -> Result<Option<f64>>,
}

impl PartialEq for Attack {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// What an attack needs in addition to the record under the audited model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// A reference model.
    Reference,
    /// The lower-cased texts under the audited model: a second pass.
    LowerCase,
    /// Neighbours under the audited model: one pass each.
    Neighbours,
}

/// The share of tokens that Min-K% averages over.
const SHARE: f64 = 0.2;

impl Attack {
    const fn new(
        name: &'static str,
        needs: Need,
        reads_vocabulary: bool,
        score: fn(&Evidence<'_>) -> Result<Option<f64>>,
    ) -> Self {
        Self {
            name,
            needs,
            reads_vocabulary,
            score,
        }
    }

    /// The attacks, in the order of their papers.
    pub const ALL: [Self; 9] = [
        // −mean NLL.
        Self::new("loss", Need::Nothing, false, |e| Ok(Some(e.target.loss()))),
        // Mean NLL under the reference − mean NLL.
        Self::new("reference", Need::Reference, false, |e| {
            e.reference.map(|r| e.target.reference(r)).transpose()
        }),
        // Mean NLL of the lower-cased text / mean NLL.
        Self::new("lower-case", Need::LowerCase, false, |e| {
            Ok(e.lower_case.map(|lower| e.target.lower_case(lower)))
        }),
        // −total NLL / bytes of the compressed text.
        Self::new("zlib", Need::Nothing, false, |e| {
            Ok(e.text.map(|text| e.target.zlib(text)))
        }),
        // The mean over neighbours of mean NLL − mean NLL.
        Self::new("neighbourhood", Need::Neighbours, false, |e| {
            e.neighbours.map(|n| e.target.neighbourhood(n)).transpose()
        }),
        // The mean of the lowest share of ln p.
        Self::new("min-k", Need::Nothing, false, |e| {
            e.target.min_k(SHARE).map(Some)
        }),
        // The same of (ln p − μ)/σ over the vocabulary.
        Self::new("min-k++", Need::Nothing, true, |e| {
            e.target.min_k_plus_plus(SHARE).map(Some)
        }),
        // EZ-MIA (2026): gains over losses of ln p against the reference, where the model's first choice is wrong.
        Self::new("ez", Need::Reference, true, |e| {
            e.reference.map(|r| e.target.ez(r)).transpose()
        }),
        // The share of windows whose NLL is smaller than under the reference, over ten lengths.
        Self::new("wbc", Need::Reference, false, |e| {
            e.reference.map(|r| e.target.wbc(r)).transpose()
        }),
    ];

    /// Returns the attack of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|attack| attack.name == name)
    }

    /// Returns the score of a record; `None` if the evidence lacks what the attack needs.
    ///
    /// # Errors
    /// Returns an error if the reference has other tokens.
    pub fn score(self, evidence: &Evidence<'_>) -> Result<Option<f64>> {
        (self.score)(evidence)
    }
}

/// The lengths of the windows of [`Scored::wbc`], in tokens, from its authors' configuration.
const WINDOWS: [usize; 10] = [2, 3, 4, 6, 9, 13, 18, 25, 32, 40];

/// The smallest spread of ln p over the vocabulary that Min-K%++ divides by. Below it a model is
/// certain, and rounding errors would determine the quotient.
const LEAST_SPREAD: f64 = 1e-6;

impl<'t> Scored<'t> {
    /// Pairs tokens with their scores: `scores[i]` is the score of `tokens[i]`.
    ///
    /// # Errors
    /// Returns an error if there is no token, if the number of scores is not that of tokens, or if
    /// a ln p is NaN or above 1e-4, more than rounding.
    pub fn new(tokens: &'t [TokenId], scores: &'t [TokenScore]) -> Result<Self> {
        counted("token scores", scores.len(), tokens.len())?;
        given(!tokens.is_empty(), "a record without a second token")?;
        for (token, score) in tokens.iter().zip(scores) {
            cost(score.log_probability, *token)?;
        }
        Ok(Self { tokens, scores })
    }

    /// Returns each token with the model's score of it.
    pub fn each(self) -> impl Iterator<Item = (TokenId, &'t TokenScore)> + use<'t> {
        self.tokens.iter().copied().zip(self.scores)
    }

    /// Returns Σ NLL, in nats.
    #[must_use]
    pub fn nll(&self) -> f64 {
        nll(self.scores)
    }

    /// Returns the mean NLL per token, in nats.
    #[must_use]
    pub fn mean_nll(&self) -> f64 {
        self.nll() / self.scores.len() as f64
    }

    /// Returns the LOSS score: −mean NLL.
    #[must_use]
    pub fn loss(&self) -> f64 {
        -self.mean_nll()
    }

    /// Returns the mean NLL under the reference − mean NLL; 0 if both models rule the record out.
    ///
    /// # Errors
    /// Returns an error if the reference has other tokens.
    pub fn reference(&self, reference: Scored<'_>) -> Result<f64> {
        self.check_same_tokens(reference)?;
        Ok(difference(reference.mean_nll(), self.mean_nll()))
    }

    /// Returns the mean NLL of the lower-cased text / mean NLL; 1 for a text without capitals.
    #[must_use]
    pub fn lower_case(&self, lower: Scored<'_>) -> f64 {
        quotient(lower.mean_nll(), self.mean_nll())
    }

    /// Returns −total NLL / bytes of the text compressed with zlib, level 6 ([`zlib_bytes`]).
    #[must_use]
    pub fn zlib(&self, text: &str) -> f64 {
        -self.nll() / zlib_bytes(text) as f64
    }

    /// Returns the Min-K% score: [`min_k`] of ln p.
    ///
    /// # Errors
    /// Returns an error if the share is outside (0, 1].
    pub fn min_k(&self, share: f64) -> Result<f64> {
        min_k(self.scores.iter().map(ln_p), share)
    }

    /// Returns the Min-K%++ score: [`min_k`] of (ln p − μ)/σ, with μ and σ of ln p over the
    /// vocabulary at each position. A position at which the model is certain has σ = 0; the divisor
    /// is at least 1e-6.
    ///
    /// # Errors
    /// Returns an error if the share is outside (0, 1], or if a mean or variance is NaN.
    pub fn min_k_plus_plus(&self, share: f64) -> Result<f64> {
        let z = |s: &TokenScore| (ln_p(s) - s.mean) / s.variance.max(0.0).sqrt().max(LEAST_SPREAD);
        for score in self.scores {
            for moment in [score.mean, score.variance] {
                if moment.is_nan() {
                    let what = "mean or variance of ln p over the vocabulary";
                    return Err(Error::out_of_range(what, "a number", moment));
                }
            }
        }
        min_k(self.scores.iter().map(z), share)
    }

    /// Returns the mean over the neighbours of their mean NLL − mean NLL.
    ///
    /// # Errors
    /// Returns an error if there is no neighbour, or if one's mean NLL is NaN.
    pub fn neighbourhood(&self, neighbours: &[f64]) -> Result<f64> {
        numbers("mean NLL of a neighbour", "[0, inf]", neighbours)?;
        given(!neighbours.is_empty(), "a record without neighbours")?;
        let mean = neighbours.iter().sum::<f64>() / neighbours.len() as f64;
        Ok(difference(mean, self.mean_nll()))
    }

    /// Returns the EZ score: over the positions where the model's first choice is not the token, Σ
    /// of the gains of ln p against the reference over Σ of the losses.
    ///
    /// The published code gives 0, the lowest score, if nothing is lost or fewer than two tokens
    /// are mistaken, so that a perfectly memorised record counts as a non-member. These cases are
    /// +∞ here; gains and losses that are both 0 (the model is its reference) give 1.
    ///
    /// # Errors
    /// Returns an error if the reference has other tokens.
    pub fn ez(&self, reference: Scored<'_>) -> Result<f64> {
        self.check_same_tokens(reference)?;
        let (mut gains, mut losses, mut mistakes) = (0.0, 0.0, 0_usize);
        let pairs = self.scores.iter().zip(reference.scores);
        for ((target, reference), &token) in pairs.zip(self.tokens) {
            if target.top_token == token {
                continue;
            }
            mistakes += 1;
            let shift = difference(ln_p(target), ln_p(reference));
            if shift > 0.0 {
                gains += shift;
            } else {
                losses -= shift;
            }
        }
        Ok(if mistakes < 2 {
            f64::INFINITY
        } else {
            quotient(gains, losses)
        })
    }

    /// Returns the WBC score: for each window length w, the share of the n − w + 1 runs of w tokens
    /// whose NLL is smaller than under the reference; the mean over ten lengths (Chen et al. 2026,
    /// window-based comparison).
    ///
    /// A record shorter than a window is one window. Equal sums count for the reference.
    ///
    /// # Errors
    /// Returns an error if the reference has other tokens.
    pub fn wbc(&self, reference: Scored<'_>) -> Result<f64> {
        self.check_same_tokens(reference)?;
        // Each window is summed anew, because rounding in differences of running sums would break
        // ties.
        let share = |length: usize| {
            let length = length.min(self.scores.len());
            let pairs = self
                .scores
                .windows(length)
                .zip(reference.scores.windows(length));
            let won = pairs.filter(|(own, other)| nll(own) < nll(other)).count();
            won as f64 / (self.scores.len() + 1 - length) as f64
        };
        Ok(WINDOWS.map(share).iter().sum::<f64>() / WINDOWS.len() as f64)
    }

    fn check_same_tokens(&self, other: Scored<'_>) -> Result<()> {
        if self.tokens == other.tokens {
            return Ok(());
        }
        Err(Error::Unsuitable {
            what: "tokens of the reference",
            needed: "those of the target (the two models need one tokenizer)",
            got: format!(
                "{} against {} tokens",
                other.tokens.len(),
                self.tokens.len()
            ),
        })
    }
}

/// Returns the mean of the lowest max(1, ⌈share · n⌉) values: at least one counts, even for a short
/// text.
///
/// ```
/// use reticent_attacks::membership::min_k;
/// let ln_p = [-0.1, -2.0, -0.5, -3.0, -1.0, -0.2, -4.0, -0.3, -0.7, -1.5];
/// assert!((min_k(ln_p, 0.2)? + 3.5).abs() < 1e-12);
/// assert!((min_k([-1.0, -2.0, -3.0, -4.0], 0.2)? + 4.0).abs() < 1e-12); // not NaN
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// Returns an error if there is no value, if one is NaN, or if the share is outside (0, 1].
pub fn min_k(values: impl IntoIterator<Item = f64>, share: f64) -> Result<f64> {
    ranged(
        "share of tokens",
        "(0, 1]",
        share,
        share > 0.0 && share <= 1.0,
    )?;
    let mut values: Vec<f64> = values.into_iter().collect();
    given(!values.is_empty(), "a record without a second token")?;
    numbers("value of a token", "a number", &values)?;
    // Subtract a small amount: 0.1 · 30 is above 3 in double precision.
    let count = (share * values.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    values.sort_by(f64::total_cmp);
    Ok(values[..count].iter().sum::<f64>() / count as f64)
}

/// Returns a − b; 0 for equal infinities.
fn difference(a: f64, b: f64) -> f64 {
    let gap = a - b;
    if gap.is_nan() { 0.0 } else { gap }
}

/// Returns |a / b|; 1 for 0/0 and ∞/∞.
fn quotient(a: f64, b: f64) -> f64 {
    let ratio = a / b;
    if ratio.is_nan() { 1.0 } else { ratio.abs() }
}
