//! Compares the same canaries in two models by an e-value against "the second leaks no more than the first".
//!
//! # Statement
//! There are m canaries in an order that depends on no exposure. For a line of b bits, X_i = 1 if canary i may be at b
//! bits or more in the first model (ties counted for a leak), and Y_i = 1 if it certainly is in the second model (ties
//! counted against a leak). F_i: the exposures of the canaries 1 to i in both models. The hypothesis is, for every line
//! and every i,
//!
//! P(Y_i = 1 | F_{i−1}) ≤ P(X_i = 1 | F_{i−1}):
//!
//! given whatever the canaries before it have shown, each canary is above the line in the second model with no larger
//! probability than in the first. For stakes 0 ≤ λ ≤ 1,
//!
//! E = Π_i (1 + λ (Y_i − X_i))
//!
//! has E\[E\] ≤ 1, and so have averages of such products over stakes, lines and sets of canaries that are fixed in
//! advance; hence P(E ≥ 1/α) ≤ α.
//!
//! # Proof
//! A factor is not negative, and its mean given F_{i−1} is 1 + λ (P(Y_i = 1 | F_{i−1}) − P(X_i = 1 | F_{i−1})) ≤ 1. The
//! products are therefore supermartingales that start at 1, and the rest follows from averaging and Markov's
//! inequality. A canary that is left out of a set has the factor 1. ∎
//!
//! # When the hypothesis holds
//! - *Neither model saw the secrets*, each of which is uniform on the N candidates, independently of the others and of
//!   both models. With t = ⌊N 2^−b⌋ at most t candidates have a max-rank of t or less, and at least t have such a
//!   min-rank: given both models and the secrets before, P(Y_i = 1) ≤ t/N ≤ P(X_i = 1). The models' general
//!   preferences and their similarity do not matter. For secrets drawn distinct, α is multiplied by the probability
//!   that independent ones are distinct ([`Draw::uncollided`]).
//! - *Both leak, and the second leaks no more*: the pairs of exposures of different canaries are independent, and
//!   P(Y_i = 1) ≤ P(X_i = 1) for each, for example because the two models are exchangeable.
//!
//! The hypothesis does not hold for two runs of one recipe that differ as a whole: if one happens to learn all canaries
//! and the other none, a canary that crosses the line predicts the next one. "More" therefore refers to these two
//! models, not to the recipes that trained them.
//!
//! # Limits
//! No e-value against this hypothesis gains more than a factor of 2 from one canary, because the hypothesis includes
//! the distribution under which the canary is above the line in exactly one of the two models, each with probability
//! one half. Fewer than log2(1/α) canaries therefore show nothing.
//!
//! Source: Shafer 2021 and Waudby-Smith and Ramdas 2024 for products of bets against a mean; the pairing is our own.

use crate::draw::Draw;
use crate::error::{Error, Result, given, ranged};
use crate::exposure::Exposure;
use crate::statistics::ln_mean;
use std::collections::BTreeMap;

/// The exposures, in bits, at which canaries are counted.
const LINES: [f64; 4] = [2.0, 5.0, 10.0, 15.0];

/// The values of λ, with equal weights: the full stake for when no canary goes back, smaller ones for when many come
/// and go by chance.
const STAKES: [f64; 4] = [1.0, 0.9, 0.5, 0.2];

/// One canary in two models.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExposurePair {
    /// The number of records that hold the canary.
    pub copies: u64,
    /// The exposure in the model that is thought to leak no less.
    pub first: Exposure,
    /// The exposure in the model that may leak more.
    pub second: Exposure,
}

/// The numbers of canaries that rose above a line and that fell below it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossings {
    /// The line, bits.
    pub line: f64,
    /// Canaries below the line in the first model and above it in the second.
    pub came: u64,
    /// Canaries above the line in the first model and below it in the second.
    pub went: u64,
}

/// The evidence that the exposures of the same canaries give against "the second model leaks no more".
///
/// ```
/// use reticent_attacks::Draw;
/// use reticent_attacks::exposure::{Exposure, ExposurePair, PairedEValue};
/// let at = |bits: f64| Exposure { min: bits, mid: Some(bits), max: bits };
/// let pair = ExposurePair { copies: 20, first: at(1.0), second: at(16.0) };
/// let paired = PairedEValue::of(&[pair; 10], 1_000_000, Draw::Independent)?;
/// // Ten canaries that come above every line: the mean over the stakes of (1 + λ)^10.
/// assert!((paired.ln_evalue().exp() - 425.240_85).abs() < 1e-4);
/// assert!((paired.p_value() - 0.002_351_61).abs() < 1e-8);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PairedEValue {
    ln_evalue: f64,
    best: Crossings,
    uncollided: f64,
}

impl PairedEValue {
    /// Computes the e-value: half of its weight is on all canaries together, half is shared by the numbers of copies if
    /// there are several.
    ///
    /// # Errors
    /// Returns an error if there is no canary or no candidate, if an exposure's ends are NaN or in the wrong order, or if
    /// there are more distinct canaries than candidates.
    pub fn of(pairs: &[ExposurePair], candidates: u64, draw: Draw) -> Result<Self> {
        given(!pairs.is_empty(), "no canary was given")?;
        for exposure in pairs.iter().flat_map(|pair| [pair.first, pair.second]) {
            ranged(
                "exposure of a canary",
                "numbers from min to max, in bits",
                format_args!("{} to {}", exposure.min, exposure.max),
                exposure.min <= exposure.max,
            )?;
        }
        let uncollided = draw.uncollided(candidates, pairs.len() as u64)?;
        let lines = lines(candidates);
        let mut doses: BTreeMap<u64, Vec<ExposurePair>> = BTreeMap::new();
        for pair in pairs {
            doses.entry(pair.copies).or_default().push(*pair);
        }
        let whole = crossings(pairs, &lines);
        let ln_whole = ln_over_lines(&whole);
        let ln_evalue = if doses.len() > 1 {
            let each: Vec<f64> = doses
                .values()
                .map(|dose| ln_over_lines(&crossings(dose, &lines)))
                .collect();
            ln_mean(&[ln_whole, ln_mean(&each)])
        } else {
            ln_whole
        };
        let most = |a: &&Crossings, b: &&Crossings| ln_at(a).total_cmp(&ln_at(b));
        let best = whole.iter().max_by(most).copied();
        Ok(Self {
            ln_evalue,
            best: best.ok_or(Error::Empty("no line is below log2 of the candidates"))?,
            uncollided,
        })
    }

    /// Returns ln E.
    #[must_use]
    pub const fn ln_evalue(&self) -> f64 {
        self.ln_evalue
    }

    /// Returns min(1, 1/E), divided by the probability that independent secrets are as distinct as these. Direction:
    /// upper.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        ((-self.ln_evalue).exp() / self.uncollided * (1.0 + ROUNDING)).min(1.0)
    }

    /// Returns the crossings at the most informative line, over all canaries. They are descriptive only:
    /// [`Self::p_value`] refers to all lines together.
    #[must_use]
    pub const fn crossings(&self) -> Crossings {
        self.best
    }

    /// Returns the smallest p-value that these canaries can give if those rise above every line of which `comes` says so, given
    /// their numbers of copies in order, and no other crosses one. If it is above a level, the test cannot reject at that level.
    ///
    /// # Errors
    /// As for [`Self::of`].
    pub fn least_p_value(
        pairs: &[ExposurePair],
        candidates: u64,
        draw: Draw,
        mut comes: impl FnMut(u64) -> bool,
    ) -> Result<f64> {
        let at = |bits: f64| Exposure {
            min: bits,
            mid: None,
            max: bits,
        };
        // No exposure is below 0 bits, so no canary can rise above that line.
        let best = pairs.iter().map(|pair| ExposurePair {
            copies: pair.copies,
            first: at(0.0),
            second: at(if comes(pair.copies) {
                f64::INFINITY
            } else {
                0.0
            }),
        });
        Ok(Self::of(&best.collect::<Vec<_>>(), candidates, draw)?.p_value())
    }
}

/// The possible error of sums of logarithms.
const ROUNDING: f64 = 1e-9;

/// Returns the lines that some rank reaches. If there are too few candidates for any, returns 0 bits, which no canary
/// crosses.
fn lines(candidates: u64) -> Vec<f64> {
    let top = (candidates as f64).log2();
    let mut lines: Vec<f64> = LINES.into_iter().filter(|line| *line <= top).collect();
    if lines.is_empty() {
        lines.push(0.0);
    }
    lines
}

/// Counts crossings, with ties counted for the first model and against the second.
fn crossings(pairs: &[ExposurePair], lines: &[f64]) -> Vec<Crossings> {
    let at = |line: &f64| {
        let sides = || {
            pairs
                .iter()
                .map(|pair| (pair.first.max >= *line, pair.second.min >= *line))
        };
        Crossings {
            line: *line,
            came: sides().filter(|(first, second)| !first && *second).count() as u64,
            went: sides().filter(|(first, second)| *first && !second).count() as u64,
        }
    };
    lines.iter().map(at).collect()
}

fn ln_over_lines(all: &[Crossings]) -> f64 {
    ln_mean(&all.iter().map(ln_at).collect::<Vec<_>>())
}

/// Returns ln of the average over the stakes of (1 + λ)^came (1 − λ)^went.
fn ln_at(at: &Crossings) -> f64 {
    let (came, went) = (at.came as f64, at.went as f64);
    // 0 · ln 0 counts as 0 when no canary went.
    let lost = |stake: f64| {
        if at.went == 0 {
            0.0
        } else {
            went * (-stake).ln_1p()
        }
    };
    ln_mean(&STAKES.map(|stake| came * stake.ln_1p() + lost(stake)))
}
