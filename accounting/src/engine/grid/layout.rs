//! Layout of the grid: the distance of lines, their number around the circle, and their position.

use super::convolution::Wanted;
use super::moments::Moments;
use crate::loss::loss_grid::Lines;
use crate::loss::{Comb, LossDistribution};
use crate::quantity::error::{Error, Result};

/// The longest grid that is laid out: three arrays of it fit in 25 MB.
const LONGEST: i64 = 1 << 20;
/// The longest grid for several distinct steps, whose transforms coexist.
const LONGEST_OF_SEVERAL: i64 = 1 << 19;
/// The shortest grid that is worth a transform.
const SHORTEST: i64 = 1 << 8;
/// Up to this length, a grid is laid out without further consideration.
pub(super) const MODEST: i64 = 1 << 13;
/// Lines in addition to the span: each step's cells reach slightly farther than its losses.
const MARGIN: u64 = 128;
/// Indices beyond this aren't trusted.
const FARTHEST: f64 = (1u64 << 48) as f64;

/// The spacing and the number of lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) spacing: f64,
    /// The number of lines around the circle, a power of two.
    pub(super) length: i64,
    /// The span that the circle must cover.
    span: f64,
    /// Whether a finer grid is possible.
    pub(super) refinable: bool,
    /// Whether the lines are the atoms' own.
    pub(super) exact: bool,
}

impl Layout {
    /// Returns lines as close as `wanted`, however many; `None` if a modest number suffices, or if no number does.
    pub(super) fn fine(moments: &Moments, wanted: Wanted, span: f64) -> Option<Self> {
        let steps = moments.steps.as_slice();
        let (spacing, exact) = match common(steps) {
            Some(spacing) => (spacing, true),
            None => {
                let wish = wish(steps, wanted);
                let gaps = gaps(moments, wanted.theta, wish);
                (fit((wish, 0.5 * wish), &gaps), false)
            }
        };
        let lines = span / spacing;
        // Losses aren't known accurately enough for lines closer than this.
        let largest = (steps.iter())
            .map(|(law, _)| law.loss_range(-30.0))
            .fold(0.0f64, |most, (low, high)| {
                most.max(low.abs()).max(high.abs())
            });
        let known = exact || spacing > 1e3 * f64::EPSILON * largest;
        (known && lines > MODEST as f64 && lines < FARTHEST).then(|| Self {
            spacing,
            length: circle(lines),
            span,
            refinable: !exact,
            exact,
        })
    }

    /// Returns lines as close as `wanted`, but no more than can be laid out.
    pub(super) fn laid_out(moments: &Moments, wanted: Wanted, span: f64) -> Result<Self> {
        let steps = moments.steps.as_slice();
        let longest = if steps.len() > 1 {
            LONGEST_OF_SEVERAL
        } else {
            LONGEST
        };
        let least = span / (longest - 2 * MARGIN as i64) as f64;
        let (spacing, refinable, exact) = match common(steps) {
            Some(spacing) if spacing >= least => (spacing, false, true),
            _ => {
                let wish = wish(steps, wanted);
                let gaps = gaps(moments, wanted.theta, wish.max(least));
                let fitted = fit((wish.max(least), least), &gaps);
                (fitted, wish > least, false)
            }
        };
        if !(spacing.is_finite() && spacing > 0.0) {
            return Err(Error::NotCertified {
                what: "the grid",
                why: "no spacing fits the loss".into(),
            });
        }
        Ok(Self {
            spacing,
            length: circle(span / spacing).min(longest),
            span,
            refinable,
            exact,
        })
    }

    /// Returns lines farther apart by about `factor`; the grid then counts as not refinable.
    pub(super) fn coarser(&self, moments: &Moments, theta: f64, factor: f64) -> Self {
        let wish = factor * self.spacing;
        let spacing = fit((wish, 0.8 * wish), &gaps(moments, theta, wish));
        Self {
            spacing,
            length: circle(self.span / spacing),
            refinable: false,
            ..*self
        }
    }

    /// Returns lines through the law's heaviest atom or, for a law with densities, through the middle of one of its
    /// crowds.
    pub(super) fn lines(
        &self,
        law: &LossDistribution,
        moments: &Moments,
        (part, theta): (usize, f64),
    ) -> Lines {
        let origin = if law.pieces.is_empty() {
            law.atom_origin(theta, self.spacing)
        } else {
            let crowds = moments.crowds(part, theta, self.spacing);
            crowds.first().copied().unwrap_or(0.0)
        };
        Lines {
            origin,
            spacing: self.spacing,
        }
    }
}

/// Returns the next power of two, with room at the ends.
fn circle(lines: f64) -> i64 {
    let least = (lines.ceil() as u64)
        .saturating_add(MARGIN)
        .next_power_of_two();
    i64::try_from(least).unwrap_or(i64::MAX).max(SHORTEST)
}

/// Returns the spacing of all laws, if they consist only of atoms of one comb.
fn common(steps: &[(LossDistribution, u64)]) -> Option<f64> {
    let combs: Option<Vec<Comb>> = steps.iter().map(|(law, _)| law.comb).collect();
    let combs = combs?;
    let first = *combs.first()?;
    let same = |comb: &Comb| (comb.spacing / first.spacing - 1.0).abs() < 1e-13;
    combs.iter().all(same).then_some(first.spacing)
}

/// Spreading within cells of width h raises K(θ) by at most θ(θ−1)h²/8 per step.
fn wish(steps: &[(LossDistribution, u64)], wanted: Wanted) -> f64 {
    let rough: f64 = steps
        .iter()
        .filter(|(law, _)| common(steps).is_none() || law.comb.is_none())
        .map(|(_, times)| *times as f64)
        .sum();
    let theta = wanted.theta;
    (3.0 * wanted.relative / (theta * (theta - 1.0).max(1e-3) * rough.max(1.0))).sqrt()
        * wanted.finer
}

/// Returns distances that lines should divide, each with how often it occurs in all steps: between atoms, and between the
/// crowds of laws that have densities. For a group that is hardly ever drawn, nearly all outcomes gather at two losses, just below an atom;
/// off the lines, they would fall by a whole spacing.
fn gaps(moments: &Moments, theta: f64, spacing: f64) -> Vec<(f64, f64)> {
    let each = |(part, (law, n)): (usize, &(LossDistribution, u64))| {
        let times = *n as f64;
        let gaps = if law.pieces.is_empty() {
            law.atom_gaps()
        } else {
            let crowds = moments.crowds(part, theta, spacing);
            let first = crowds.first().copied().unwrap_or(0.0);
            crowds
                .iter()
                .map(|crowd| ((crowd - first).abs(), 1.0))
                .filter(|(gap, _)| *gap > 0.0)
                .collect()
        };
        gaps.into_iter().map(move |(gap, each)| (gap, each * times))
    };
    moments.steps.iter().enumerate().flat_map(each).collect()
}

/// Returns the spacing near `wish`, but not below `least`, that comes closest to dividing every gap between atoms,
/// (gap, times): an integer fraction of the most frequent gap, chosen among as many as needed to suit the others.
fn fit((wish, least): (f64, f64), gaps: &[(f64, f64)]) -> f64 {
    let most = gaps.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((main, _)) = most.filter(|(gap, _)| *gap > wish) else {
        return wish;
    };
    let (fewest, most) = ((main / wish).ceil(), (main / least).floor());
    let fewest = fewest.min(most).max(1.0);
    let tries = if gaps.len() > 1 {
        (0.5 * fewest).min(4096.0).min(most - fewest).max(0.0)
    } else {
        0.0
    };
    let misfit = |parts: f64| {
        let of = |(gap, times): &(f64, f64)| {
            let lines = gap * parts / main;
            times * (lines - lines.round()).abs()
        };
        gaps.iter().map(of).sum::<f64>()
    };
    let best = (0..=tries as u32)
        .map(|more| fewest + f64::from(more))
        .min_by(|a, b| misfit(*a).total_cmp(&misfit(*b)))
        .unwrap_or(fewest);
    main / best
}
