//! Combines several attacks into one: a linear discriminant, fitted on half of the records and
//! evaluated on the other half.

use super::area::mid_rank;
use super::half::first_half;
use super::set::ScoreSet;
use crate::error::{Error, Result, counted, ranged};
use crate::normal::normal_quantile;
use nalgebra::{Cholesky, DMatrix, DVector};
use std::collections::BTreeSet;

/// With fewer groups of a kind than this, a fit and its evaluation are noise.
const FEWEST: usize = 20;
/// The least share by which the covariance is shrunk towards a multiple of the identity, because
/// two attacks may give the same scores.
const LEAST_SHRINKAGE: f64 = 1e-6;

/// One attack combined from several.
#[derive(Debug, Clone, PartialEq)]
pub struct Combined {
    /// The scores of the records that were not used for the fit.
    pub judged: ScoreSet,
    /// The weight of each attack's normal score.
    pub weights: Vec<f64>,
    /// The number of records that were used for the fit.
    pub fitted: usize,
}

/// Computes Fisher's discriminant of the attacks and evaluates it on records that it was not fitted
/// to.
///
/// Scores become normal scores z by their ranks among the fitted records, so that infinite scores
/// and heavy tails do no harm. The weights are w = Σ⁻¹(μ₁ − μ₀): the difference of the means of
/// members and non-members under the covariance within the two kinds, which is shrunk towards
/// (tr Σ / d)·I by the share that Ledoit and Wolf (2004) estimate to be best. The combined score is
/// w·z.
///
/// The evaluated half is independent of the weights, so its area or rate is valid as for any
/// other attack; with groups, all records of a group are in the same half. Attacks with a common
/// confounder (long records, hard words) gain most, because one is subtracted from the other.
///
/// Evaluating both halves in turn would not narrow the interval: if nothing leaks, either half's
/// area is shifted by d₁ᵀ Σ⁻¹ d₂ alone, where d is the difference of means in each half, so that
/// the two areas rise and fall together and their mean varies as much as each.
///
/// `attacks[i]` holds the same records in the same order for every i; `seed` draws the halves.
///
/// ```
/// use reticent_attacks::membership::{ScoreSet, combined};
/// // Two attacks that are hidden by the same difficulty h; their difference shows everything.
/// let h = |i: u32| f64::from(i * 37 % 101);
/// let side = |gain: f64| (0..100).map(|i| h(i) + gain).collect::<Vec<f64>>();
/// let calibrated = ScoreSet::new(side(1.5), side(0.0))?;
/// let difficulty = ScoreSet::new(side(0.0), side(0.0))?;
/// let both = combined(&[calibrated, difficulty], 0)?;
/// assert!(both.weights[0] > 0.0 && both.weights[1] < 0.0);
/// assert_eq!(both.judged.members().len(), 50);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// Returns an error if there are fewer than two attacks, if the attacks are on different records,
/// if there are fewer than twenty groups of a kind, or if the scores do not vary.
pub fn combined(attacks: &[ScoreSet], seed: u64) -> Result<Combined> {
    let first = check(attacks)?;
    let (inside, outside) = first.group_numbers();
    let names = |numbers: &[usize]| -> BTreeSet<usize> { numbers.iter().copied().collect() };
    let (inside_names, outside_names) = (names(&inside), names(&outside));
    let fewest = inside_names.len().min(outside_names.len());
    let what = "groups of records of a kind, to combine attacks";
    ranged(what, "[20, inf)", fewest, fewest >= FEWEST)?;
    let half = first_half(&inside_names, &outside_names, seed);
    let fitted = |numbers: &[usize]| numbers.iter().map(|n| half.contains(n)).collect();
    let fitted: [Vec<bool>; 2] = [fitted(&inside), fitted(&outside)];
    let features = attacks
        .iter()
        .map(|attack| NormalScores::of(attack, &fitted))
        .collect::<Vec<_>>();
    let rows = |side: usize, wanted: bool| -> Vec<DVector<f64>> {
        let scores = |row: usize| {
            let pairs = attacks.iter().zip(&features);
            DVector::from_iterator(
                attacks.len(),
                pairs.map(|(attack, normal)| normal.score(attack.sides()[side][row])),
            )
        };
        let chosen = fitted[side].iter().enumerate();
        chosen
            .filter(|(_, f)| **f == wanted)
            .map(|(row, _)| scores(row))
            .collect()
    };
    let weights = discriminant(&rows(0, true), &rows(1, true))?;
    let judged = |side| -> Vec<f64> { rows(side, false).iter().map(|z| weights.dot(z)).collect() };
    let mut set = ScoreSet::new(judged(0), judged(1))?;
    if first.groups().is_some() {
        let rest = |numbers: &[usize], fitted: &[bool]| -> Vec<usize> {
            let pairs = numbers.iter().zip(fitted);
            pairs.filter(|(_, f)| !**f).map(|(n, _)| *n).collect()
        };
        set = set.with_groups(&rest(&inside, &fitted[0]), &rest(&outside, &fitted[1]))?;
    }
    Ok(Combined {
        judged: set,
        weights: weights.iter().copied().collect(),
        fitted: fitted.iter().flatten().filter(|f| **f).count(),
    })
}

fn check(attacks: &[ScoreSet]) -> Result<&ScoreSet> {
    let [first, rest @ ..] = attacks else {
        return Err(Error::out_of_range("attacks to combine", "[2, inf)", 0));
    };
    ranged("attacks to combine", "[2, inf)", 1, !rest.is_empty())?;
    for attack in rest {
        for (got, wanted) in attack.sides().into_iter().zip(first.sides()) {
            counted("records of an attack to combine", got.len(), wanted.len())?;
        }
        let same = attack.group_numbers() == first.group_numbers();
        let range = "those of the first attack";
        ranged("groups of records", range, "others", same)?;
    }
    Ok(first)
}

/// An attack's scores of the fitted records, sorted: ranks among them become normal scores.
struct NormalScores(Vec<f64>);

impl NormalScores {
    fn of(attack: &ScoreSet, fitted: &[Vec<bool>; 2]) -> Self {
        let sides = attack.sides().into_iter().zip(fitted);
        let mut sorted: Vec<f64> = sides
            .flat_map(|(scores, fitted)| scores.iter().zip(fitted))
            .filter(|(_, f)| **f)
            .map(|(score, _)| *score)
            .collect();
        sorted.sort_by(f64::total_cmp);
        Self(sorted)
    }

    /// Φ⁻¹((below + ties/2 + 1/2) / (n + 1)).
    fn score(&self, value: f64) -> f64 {
        normal_quantile((mid_rank(&self.0, value) + 0.5) / (self.0.len() as f64 + 1.0))
    }
}

/// w = Σ⁻¹(μ₁ − μ₀).
fn discriminant(inside: &[DVector<f64>], outside: &[DVector<f64>]) -> Result<DVector<f64>> {
    let (high, low) = (mean(inside), mean(outside));
    let centred: Vec<DVector<f64>> = inside
        .iter()
        .map(|z| z - &high)
        .chain(outside.iter().map(|z| z - &low))
        .collect();
    Cholesky::new(shrunk_covariance(&centred))
        .map(|covariance| covariance.solve(&(high - low)))
        .filter(|weights| weights.iter().all(|w| w.is_finite()))
        .ok_or_else(|| Error::out_of_range("spread of the combined scores", "(0, inf)", 0))
}

fn mean(rows: &[DVector<f64>]) -> DVector<f64> {
    let mut sum = DVector::zeros(rows[0].len());
    for row in rows {
        sum += row;
    }
    sum / rows.len() as f64
}

/// Returns the covariance of centred rows, shrunk towards (tr S / d)·I by the share ρ = b²/d² that
/// Ledoit and Wolf estimate: b² is the distance of S from its expectation, d² that from the target.
fn shrunk_covariance(centred: &[DVector<f64>]) -> DMatrix<f64> {
    let (count, size) = (centred.len() as f64, centred[0].len());
    let mut covariance = DMatrix::zeros(size, size);
    for row in centred {
        covariance.ger(1.0 / count, row, row, 1.0);
    }
    let target = DMatrix::identity(size, size) * (covariance.trace() / size as f64);
    let distance = (&covariance - &target).norm_squared();
    // ‖zzᵀ − S‖² = ‖z‖⁴ − 2 zᵀSz + ‖S‖²
    let size_of_covariance = covariance.norm_squared();
    let noise: f64 = centred
        .iter()
        .map(|z| z.norm_squared().powi(2) - 2.0 * z.dot(&(&covariance * z)) + size_of_covariance)
        .sum::<f64>()
        / (count * count);
    let share = if distance > 0.0 {
        noise / distance
    } else {
        1.0
    };
    let share = share.clamp(LEAST_SHRINKAGE, 1.0);
    covariance * (1.0 - share) + target * share
}
