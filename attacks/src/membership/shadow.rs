//! LiRA and RMIA, computed from the scores of shadow models.

use super::set::{ScoreSet, falling};
use crate::error::{Error, Result, counted, given, numbers, positive, ranged};
use crate::normal::{ln_normal_density, normal_cdf};
use crate::statistics::{check_closed_unit, check_open_unit};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use reticent_accounting::Estimate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Scores of one record under models trained with it and without it, on one scale (such as
/// [`logit_of_confidence`]).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Shadows {
    /// Under models that saw the record.
    pub inside: Vec<f64>,
    /// Under models that did not.
    pub outside: Vec<f64>,
}

/// Which likelihoods are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lira {
    /// ln N(x; in) − ln N(x; out).
    Online,
    /// Φ((x − μ_out)/σ_out): models without the record only.
    Offline,
    /// ln N(x; in).
    InOnly,
}

/// Whose spread is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Each record's own, over its shadow models.
    PerRecord,
    /// One for all records, of the distances from each record's own median: for few shadow
    /// models. In and out have one each.
    Shared,
}

/// A normal distribution, given by its centre and spread.
#[derive(Debug, Clone, Copy)]
struct Normal {
    centre: f64,
    spread: f64,
}

/// The least spread; agreement of shadow models to the last digit does not predict the next model.
const LEAST_SPREAD: f64 = 1e-12;

/// Returns LiRA scores, one per record; each increases with membership (Carlini et al. 2022).
///
/// The centre is the median of the shadow scores; the spread divides by their number. A record
/// without shadow models of a kind gets the mean centre and the mean spread of the others.
///
/// # Errors
/// Returns an error if the number of shadows is not that of targets, if a score that the variant reads is not finite
/// (one infinite score would make a shared spread infinite, and all records alike), or if no record has the shadow
/// models that the variant needs.
pub fn lira(
    targets: &[f64],
    shadows: &[Shadows],
    variant: Lira,
    spread: Spread,
) -> Result<Vec<f64>> {
    counted("records with shadow scores", shadows.len(), targets.len())?;
    check_finite("target score", targets)?;
    let inside = match variant {
        Lira::Offline => Vec::new(),
        Lira::Online | Lira::InOnly => normals(shadows, |s| &s.inside, spread)?,
    };
    let outside = match variant {
        Lira::InOnly => Vec::new(),
        Lira::Online | Lira::Offline => normals(shadows, |s| &s.outside, spread)?,
    };
    Ok((0..targets.len())
        .map(|i| match variant {
            Lira::Online => inside[i].ln_density(targets[i]) - outside[i].ln_density(targets[i]),
            Lira::Offline => normal_cdf(outside[i].standardised(targets[i])),
            Lira::InOnly => inside[i].ln_density(targets[i]),
        })
        .collect())
}

impl Normal {
    fn standardised(self, x: f64) -> f64 {
        (x - self.centre) / self.spread
    }
    fn ln_density(self, x: f64) -> f64 {
        ln_normal_density(self.standardised(x)) - self.spread.ln()
    }
}

/// Returns the fit of one kind of shadow scores for every record.
fn normals(
    shadows: &[Shadows],
    of: fn(&Shadows) -> &Vec<f64>,
    spread: Spread,
) -> Result<Vec<Normal>> {
    let mut fits: Vec<Option<Normal>> = Vec::with_capacity(shadows.len());
    let (mut squares, mut count) = (0.0, 0_usize);
    for shadow in shadows {
        let scores = of(shadow);
        check_finite("shadow score", scores)?;
        if scores.is_empty() {
            fits.push(None);
            continue;
        }
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        let about = |c: f64| scores.iter().map(|x| (x - c) * (x - c)).sum::<f64>();
        let centre = median(scores);
        squares += about(centre);
        count += scores.len();
        let own = (about(mean) / scores.len() as f64).sqrt();
        fits.push(Some(Normal {
            centre,
            spread: own,
        }));
    }
    let known: Vec<Normal> = fits.iter().flatten().copied().collect();
    given(
        !known.is_empty(),
        "no record has the shadow models this attack needs",
    )?;
    let mean = |of: fn(&Normal) -> f64| known.iter().map(of).sum::<f64>() / known.len() as f64;
    let missing = Normal {
        centre: mean(|n| n.centre),
        spread: mean(|n| n.spread),
    };
    let shared = (squares / count as f64).sqrt();
    Ok(fits
        .into_iter()
        .map(|fit| {
            let fit = fit.unwrap_or(missing);
            let chosen = match spread {
                Spread::PerRecord => fit.spread,
                Spread::Shared => shared,
            };
            Normal {
                spread: chosen.max(LEAST_SPREAD),
                ..fit
            }
        })
        .collect())
}

/// How much an attack's figures depend on which shadow models were trained: its scores from two disjoint halves
/// of them, many times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instability {
    /// Shadow models in each half.
    pub models: u64,
    /// Pairs of halves, drawn at random.
    pub splits: u64,
    /// The smallest area under the ROC curve that a half gives.
    pub least_area: Estimate<f64>,
    /// The largest.
    pub largest_area: Estimate<f64>,
    /// The share of non-members that the members below are found at.
    pub fpr: f64,
    /// Of the members that either half finds, the share that the other half does not find, on average over the splits;
    /// 0 where no half finds any.
    pub flips: Estimate<f64>,
}

/// The number of splits that an instability averages over.
const SPLITS: u64 = 20;

/// Measures the variation of an attack over its shadow models, which come in pairs: `inside[p]` and `outside[p]` of
/// every record come from the two models of pair p. Each half is evaluated like an audit with half of the models.
///
/// A member is found if its score is above all but ⌊fpr · n⌋ of the scores of the n non-members, as for published
/// rates. The first `members` records are the members; `score` is the attack. Returns `None` if there are fewer than
/// two pairs.
///
/// # Errors
/// Returns an error if the number of members leaves no record of a kind, if records have different numbers of shadow
/// models, if the rate is outside (0, 1), or if the attack fails.
pub fn instability(
    shadows: &[Shadows],
    members: usize,
    fpr: f64,
    seed: u64,
    score: &dyn Fn(&[Shadows]) -> Result<Vec<f64>>,
) -> Result<Option<Instability>> {
    check_open_unit("false-positive rate", fpr)?;
    let pairs = shadows.first().map_or(0, |s| s.inside.len());
    if let Some(other) = shadows
        .iter()
        .find(|s| s.inside.len() != pairs || s.outside.len() != pairs)
    {
        return Err(Error::WrongCount {
            what: "shadow models of a record",
            got: other.inside.len().max(other.outside.len()),
            wanted: pairs,
        });
    }
    if pairs < 2 {
        return Ok(None);
    }
    let half = pairs / 2;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..pairs).collect();
    let (mut least, mut largest) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut flips = 0.0;
    for _ in 0..SPLITS {
        order.shuffle(&mut rng);
        let mut found = Vec::with_capacity(2);
        for chosen in [&order[..half], &order[half..2 * half]] {
            let of = |scores: &[f64]| chosen.iter().map(|&p| scores[p]).collect();
            let some: Vec<Shadows> = shadows
                .iter()
                .map(|s| Shadows {
                    inside: of(&s.inside),
                    outside: of(&s.outside),
                })
                .collect();
            let mut scores = score(&some)?;
            let others = scores.split_off(members.min(scores.len()));
            let falling = falling(&others);
            let set = ScoreSet::new(scores, others)?;
            let area = set.mann_whitney();
            (least, largest) = (least.min(area), largest.max(area));
            let allowed = (fpr * falling.len() as f64 + 1e-9).floor() as usize;
            let threshold = falling[allowed.min(falling.len() - 1)];
            let above = set.members().iter().map(|s| *s > threshold);
            found.push(above.collect::<Vec<bool>>());
        }
        let pairs = || found[0].iter().zip(&found[1]);
        let either = pairs().filter(|(a, b)| **a || **b).count();
        let one = pairs().filter(|(a, b)| a != b).count();
        flips += one as f64 / either.max(1) as f64;
    }
    Ok(Some(Instability {
        models: 2 * half as u64,
        splits: SPLITS,
        least_area: Estimate::new(least),
        largest_area: Estimate::new(largest),
        fpr,
        flips: Estimate::new(flips / SPLITS as f64),
    }))
}

/// Returns the RMIA score: the share of the population z with [p(x)/p̄(x)] / [p(z)/p̄(z)] > γ, where p̄ = ((1 + a)
/// p_out + (1 − a))/2 approximates the mean over worlds with and without the record from models without it (Zarifzadeh,
/// Liu and Shokri 2024, offline).
///
/// Probabilities of texts are exp(mean ln p): a convention, not a probability. `record` and
/// `population` hold (ln p under the audited model, ln of the mean p under models without it).
///
/// # Errors
/// Returns an error if there is no population, if a logarithm is positive or NaN, or if `a` is outside [0, 1] or γ
/// outside (0, ∞).
pub fn rmia(record: (f64, f64), population: &[(f64, f64)], a: f64, gamma: f64) -> Result<f64> {
    check_closed_unit("a", a)?;
    positive("gamma", gamma)?;
    given(!population.is_empty(), "a population without a record")?;
    let ln_ratio = |(target, without): (f64, f64)| -> Result<f64> {
        for value in [target, without] {
            ranged("ln p of a text", "[-inf, 0]", value, value <= 0.0)?;
        }
        Ok(target - f64::midpoint((1.0 + a) * without.exp(), 1.0 - a).ln())
    };
    let own = ln_ratio(record)?;
    let mut beaten = 0_usize;
    for &other in population {
        if own - ln_ratio(other)? > gamma.ln() {
            beaten += 1;
        }
    }
    Ok(beaten as f64 / population.len() as f64)
}

/// The largest ln p whose logit is computed: a confidence of 1 has none.
const MOST_LN_P: f64 = -1e-9;

/// Returns ln(p / (1 − p)) for a confidence given as ln p. A confidence above exp(−1e-9) counts as exp(−1e-9), so that
/// a certain model has a finite score.
///
/// ```
/// use reticent_attacks::membership::logit_of_confidence;
/// assert!((logit_of_confidence(0.9_f64.ln()) - 9.0_f64.ln()).abs() < 1e-12);
/// assert!((logit_of_confidence(0.0) - 1e9_f64.ln()).abs() < 1e-6);
/// ```
#[must_use]
pub fn logit_of_confidence(ln_p: f64) -> f64 {
    // Unlike f64::min, this leaves NaN as it is.
    let ln_p = if ln_p > MOST_LN_P { MOST_LN_P } else { ln_p };
    ln_p - (-ln_p.exp_m1()).ln()
}

/// Returns ln(p / (1 − p)) of the class `label` under a softmax of `logits`, without computing p.
///
/// # Errors
/// Returns an error if the label is not an index of `logits`, or if a logit is NaN.
pub fn logit_of_logits(logits: &[f64], label: usize) -> Result<f64> {
    numbers("logit", "[-inf, inf]", logits)?;
    let own = *logits.get(label).ok_or(Error::OutOfRange {
        what: "label",
        range: "[0, number of logits)",
        value: format!("{label} of {}", logits.len()),
    })?;
    let others = || {
        logits
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != label)
            .map(|(_, x)| *x)
    };
    let most = others().fold(f64::NEG_INFINITY, f64::max);
    if most.is_infinite() {
        return Ok(own - most);
    }
    Ok(own - most - others().map(|x| (x - most).exp()).sum::<f64>().ln())
}

fn check_finite(what: &'static str, values: &[f64]) -> Result<()> {
    let mut values = values.iter();
    values.try_for_each(|value| ranged(what, "(-inf, inf)", value, value.is_finite()))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}
