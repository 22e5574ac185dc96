//! Random allocation (balls in bins): each record is in exactly one of t steps, drawn for it alone.
//!
//! With X_i the likelihood ratio of step i, that of an epoch is M = (X_1 + … + X_t)/t with independent
//! X_i under Q: any step that is no better than a pair (A, B) is a randomisation of that pair, whichever
//! step the record is in, so the sum of the pairs' ratios dominates every adaptive run. H_α is the mean
//! of the convex function (M − α)₊. Spreading an X_i, or a sum of some, to two values around it with the
//! same mean raises it; pooling values lowers it. Both orders are preserved when independent sums are
//! taken. The law of M is therefore bounded from above and from below by doubling, on values
//! e^{h·index}.
//!
//! Source: after Chua et al. 2024 (balls-and-bins sampling) for the pair and Feldman and Shenfeld 2025
//! for the bounds; proved in PROPOSITIONS.md.

mod cells;

use super::mechanisms::between;
use super::{Atom, Attained, Comb, Density, LossDistribution, Shape};
use crate::loss::Direction;
use crate::loss::loss_grid::{Lines, LossGrid};
use crate::quantity::error::Result;
use cells::{Cells, pairs_above, pairs_below};
use std::sync::{Arc, Mutex, PoisonError};

/// ln of the mass below which the tails of a sum are left out, as if told to the adversary.
const LN_CUT: f64 = -90.0;
/// The fewest values of a sum; if there are fewer, the spacing is halved.
const FEWEST: usize = 1600;
/// The number of values of a single step's ratio.
const FIRST: f64 = 2600.0;
/// The smallest distance of values, in their logarithm.
const CLOSEST: f64 = 1e-9;
/// Ratios whose logarithms exceed this aren't summed, because their exponentials have to be finite.
const MOST_LOSS: f64 = 600.0;
/// Epochs of more steps than this aren't summed.
const MOST_BINS: u64 = 1 << 40;
/// The number of sums that are kept for later questions.
const KEPT: usize = 8;
/// A bound on the rounding errors of a hundred sums of a few thousand positive terms.
const ROUNDING: f64 = 2e-10;

/// The direction in which values are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// To the two values around, preserving the mean.
    Above,
    /// To the mean of all mass between two values.
    Below,
}

/// The law of a sum of m ratios under Q: cell i holds the mass with values in [e^{ih}, e^{(i+1)h}); for
/// the upper bound, all of it lies at e^{ih}.
#[derive(Debug, Clone)]
struct Sum {
    side: Side,
    first: i64,
    spacing: f64,
    mass: Vec<f64>,
    /// Σ mass·value of each cell, for the lower bound.
    moment: Vec<f64>,
    terms: f64,
    /// The mass that was left out, under Q and under P.
    lost: [f64; 2],
}

/// The parameters that determine a sum.
type Key = (Side, Shape, u64, u64);

/// The latest sums: both directions, and most questions about a run, use the same ones.
static LATEST: Mutex<Vec<(Key, Arc<Sum>)>> = Mutex::new(Vec::new());

/// Returns both laws of an epoch: one that dominates it, of `bins.0` steps, and one that it dominates,
/// of `bins.1` steps; `None` if values would be too large or too close.
///
/// # Errors
/// Returns [`crate::Error::NotCertified`] if the grid does.
pub(super) fn allocation(
    shape: Shape,
    noise: f64,
    bins: (u64, u64),
    direction: Direction,
) -> Result<Option<(LossDistribution, LossDistribution)>> {
    if bins.0.max(bins.1) > MOST_BINS {
        return Ok(None);
    }
    let of = |side: Side, bins: u64| -> Result<Option<LossDistribution>> {
        Ok(latest((side, shape, noise.to_bits(), bins))?.map(|sum| sum.law(direction)))
    };
    let (above, below) = (of(Side::Above, bins.0)?, of(Side::Below, bins.1)?);
    Ok(above.zip(below))
}

fn latest(key: Key) -> Result<Option<Arc<Sum>>> {
    let (side, shape, noise, bins) = key;
    let kept = || LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, sum)) = kept().iter().find(|(other, _)| *other == key) {
        return Ok(Some(Arc::clone(sum)));
    }
    let Some(one) = Sum::single(side, shape, f64::from_bits(noise))? else {
        return Ok(None);
    };
    let sum = Arc::new(one.times(bins));
    let mut kept = kept();
    if kept.len() >= KEPT {
        kept.remove(0);
    }
    kept.push((key, Arc::clone(&sum)));
    Ok(Some(sum))
}

impl Sum {
    /// Returns the law of a single step's ratio.
    fn single(side: Side, shape: Shape, noise: f64) -> Result<Option<Self>> {
        let shift = 1.0 / noise;
        let point = |position: f64| Density::complete(vec![(position, 0.0)]);
        let reach = shape.reach(LN_CUT);
        let ends = match shape {
            Shape::Gaussian => (Some(-reach), Some(shift + reach)),
            // The Laplace loss is bounded.
            Shape::Laplace => (None, None),
        };
        let law = between(shape, ends.0, ends.1, &point(shift), &point(0.0));
        let most = match shape {
            Shape::Gaussian => shift * (reach + 0.5 * shift),
            Shape::Laplace => shift,
        };
        let spacing = 2.0 * most / FIRST;
        if !(spacing > CLOSEST && most < MOST_LOSS) {
            return Ok(None);
        }
        let last = (most / spacing).ceil() as i64 + 2;
        let lines = Lines {
            origin: 0.0,
            spacing,
        };
        let loss_grid = LossGrid {
            lines,
            bounds: (-last..=last).collect(),
        };
        let count = 2 * last as usize + 2;
        let mut sum = Self {
            side,
            first: -last,
            spacing,
            mass: vec![0.0; count],
            moment: vec![0.0; count],
            terms: 1.0,
            lost: match shape {
                Shape::Gaussian => [2.0 * shape.ln_tail(reach).exp(); 2],
                Shape::Laplace => [0.0; 2],
            },
        };
        law.discretise(LN_CUT, Some(&loss_grid), &mut |node| {
            let cell = (node.loss / spacing)
                .floor()
                .clamp(-last as f64, last as f64);
            let (index, mass) = ((cell as i64 + last) as usize, node.ln_second.exp());
            match side {
                Side::Above => {
                    let share = (node.loss - cell * spacing).exp_m1() / spacing.exp_m1();
                    let share = share.clamp(0.0, 1.0);
                    sum.mass[index] += mass * (1.0 - share);
                    sum.mass[index + 1] += mass * share;
                }
                Side::Below => {
                    sum.mass[index] += mass;
                    sum.moment[index] += mass * node.loss.exp();
                }
            }
        })?;
        sum.cut();
        Ok(Some(sum))
    }

    /// Returns the sum of `count` independent copies, always adding two sums of about the same length.
    fn times(self, count: u64) -> Self {
        let zeros = count.max(1).trailing_zeros();
        let odd = count.max(1) >> zeros;
        // The sums of n and of n + 1 copies, for n the leading bits of the odd part.
        let mut sum = self.clone();
        let mut next = (odd > 1).then(|| self.plus(&self));
        let bits = u64::BITS - odd.leading_zeros();
        for bit in (0..bits - 1).rev() {
            let Some(longer) = next else { break };
            let between = sum.plus(&longer);
            let more = bit > 0;
            (sum, next) = if odd >> bit & 1 == 1 {
                (between, more.then(|| longer.plus(&longer)))
            } else {
                (sum.plus(&sum), more.then_some(between))
            };
        }
        for _ in 0..zeros {
            sum = sum.plus(&sum);
        }
        sum
    }

    /// Halves the spacing without moving any value.
    fn finer(&self) -> Self {
        let count = 2 * self.mass.len();
        let mut finer = Self {
            first: 2 * self.first,
            spacing: 0.5 * self.spacing,
            mass: vec![0.0; count],
            moment: vec![0.0; count],
            ..*self
        };
        let step = finer.spacing.exp();
        for (i, (mass, moment)) in self.mass.iter().zip(&self.moment).enumerate() {
            // For the lower bound, the mean may lie in the upper half.
            let value = ((self.first + i as i64) as f64 * self.spacing).exp();
            let upper = self.side == Side::Below && *moment >= mass * value * step;
            finer.mass[2 * i + usize::from(upper)] = *mass;
            finer.moment[2 * i + usize::from(upper)] = *moment;
        }
        finer
    }

    /// Returns the first line of a sum of two with equal spacing, the number of lines that follow, and
    /// the distance below the larger value from which on the smaller one no longer counts.
    fn room(&self, other: &Self) -> (i64, usize, i64) {
        let (a, b, h) = (self, other, self.spacing);
        // A sum is smallest if both values are smallest, and largest if both are largest.
        let sum = |i: i64, j: i64| {
            let more = (-(i.abs_diff(j) as f64) * h).exp().ln_1p() / h;
            i.max(j) + more.floor() as i64
        };
        let end = |of: &Self| of.first + of.mass.len() as i64;
        let first = sum(a.first, b.first) - 1;
        let count = sum(end(a), end(b)) + 3 - first;
        // The distance at which the smaller value no longer moves the sum from one line to the next, if
        // any value is that small.
        let far = ((2.0 / h).ln() / h).ceil() as i64 + 1;
        let farthest = end(a).max(end(b)) - a.first.min(b.first);
        (first, count as usize, far.min(farthest + 1))
    }

    /// Returns the law of the sum of two independent sums.
    fn plus(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.clone(), other.clone());
        while a.spacing > 1.5 * b.spacing {
            a = a.finer();
        }
        while b.spacing > 1.5 * a.spacing {
            b = b.finer();
        }
        // Spacings differ by powers of two.
        let h = a.spacing;
        let (first, count, far) = a.room(&b);
        let mut cells = Cells::new(first, count);
        match self.side {
            Side::Above => {
                pairs_above(&a, &b, (0, far), &mut cells);
                pairs_above(&b, &a, (1, far), &mut cells);
            }
            Side::Below => {
                pairs_below(&a, &b, (0, far), &mut cells);
                pairs_below(&b, &a, (1, far), &mut cells);
            }
        }
        let terms = a.terms + b.terms;
        let share = [a.terms / terms, b.terms / terms];
        let lost = [
            a.lost[0] + b.lost[0],
            // P draws the step first: the ratio of one of the two is weighted, the other one is that of
            // Q.
            share[0] * (a.lost[1] + b.lost[0]) + share[1] * (b.lost[1] + a.lost[0]),
        ];
        let mut sum = Self {
            side: self.side,
            first,
            spacing: h,
            mass: cells.mass(),
            moment: cells.moment(),
            terms,
            lost,
        };
        sum.cut();
        while sum.mass.len() < FEWEST && sum.spacing > 2.0 * CLOSEST {
            sum = sum.finer();
        }
        sum
    }

    /// Leaves out both ends.
    fn cut(&mut self) {
        let cut = LN_CUT.exp();
        let first_moment = |sum: &Self, i: usize| match sum.side {
            Side::Above => sum.mass[i] * ((sum.first + i as i64) as f64 * sum.spacing).exp(),
            Side::Below => sum.moment[i],
        };
        let (mut from, mut to) = (0, self.mass.len());
        let mut left = [0.0; 2];
        while from + 1 < to && left[0] + self.mass[from] <= cut {
            left[0] += self.mass[from];
            left[1] += first_moment(self, from) / self.terms;
            from += 1;
        }
        let mut right = [0.0; 2];
        while to > from + 1 && right[1] + first_moment(self, to - 1) / self.terms <= cut {
            to -= 1;
            right[0] += self.mass[to];
            right[1] += first_moment(self, to) / self.terms;
        }
        self.mass.truncate(to);
        self.mass.drain(..from);
        self.moment.truncate(to);
        self.moment.drain(..from);
        self.first += from as i64;
        for (lost, (left, right)) in self.lost.iter_mut().zip(left.into_iter().zip(right)) {
            *lost += left + right;
        }
    }

    /// Returns the law of the loss ln(sum/terms), or of its negative with the laws exchanged.
    fn law(&self, direction: Direction) -> LossDistribution {
        let shift = self.terms.ln();
        // Rounding may have moved values and masses: correct outwards for the upper bound, inwards for
        // the lower one.
        let out = match self.side {
            Side::Above => ROUNDING,
            Side::Below => -ROUNDING,
        };
        let mut atoms = Vec::new();
        for (i, mass) in self
            .mass
            .iter()
            .enumerate()
            .filter(|(_, mass)| **mass > 0.0)
        {
            let line = (self.first + i as i64) as f64 * self.spacing;
            let value = match self.side {
                Side::Above => line,
                Side::Below => (self.moment[i] / mass).ln(),
            };
            let loss = value - shift;
            atoms.push(match direction {
                Direction::Remove => Atom::new(loss + 2.0 * out, mass.ln() - out),
                Direction::Add => Atom::new(2.0 * out - loss, mass.ln() + loss - out),
            });
        }
        let spacing = self.spacing;
        let lines = |origin: f64| Comb { origin, spacing };
        atoms.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        let comb = atoms.first().map(|atom| lines(atom.loss));
        let above = self.side == Side::Above;
        let mut law = LossDistribution::of_atoms(atoms, comb.filter(|_| above));
        if above {
            law.attained = Attained::Never;
            let lost = match direction {
                Direction::Remove => self.lost[1],
                Direction::Add => self.lost[0],
            };
            law.missing = lost * (1.0 + ROUNDING);
        }
        law.short = !above;
        law
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Close values are far from their sum: what lies in between takes no room.
    #[test]
    fn sums_of_close_values_stay_short() {
        for side in [Side::Above, Side::Below] {
            let one = Sum::single(side, Shape::Gaussian, 3e3).unwrap().unwrap();
            let sum = one.times(1 << 20);
            let (_, count, _) = sum.room(&sum);
            assert!(count < 20_000, "{count}");
        }
    }

    /// Spreading and pooling keep the mass and the mean, whatever the number of steps.
    #[test]
    fn sums_keep_their_mass_and_mean() {
        for shape in [Shape::Gaussian, Shape::Laplace] {
            for noise in [0.3, 1.0, 4.0] {
                for bins in [1, 2, 3, 7, 64, 100, 1000] {
                    for side in [Side::Above, Side::Below] {
                        let sum = Sum::single(side, shape, noise)
                            .unwrap()
                            .unwrap()
                            .times(bins);
                        let value = |i: usize| ((sum.first + i as i64) as f64 * sum.spacing).exp();
                        let mass: f64 = sum.mass.iter().sum();
                        let mean: f64 = match side {
                            Side::Above => {
                                (0..sum.mass.len()).map(|i| sum.mass[i] * value(i)).sum()
                            }
                            Side::Below => sum.moment.iter().sum(),
                        };
                        let mean = mean / bins as f64;
                        assert!(
                            (mass - 1.0).abs() < 1e-10,
                            "{shape:?} {noise} {bins} {side:?} {mass}"
                        );
                        assert!(
                            (mean - 1.0).abs() < 1e-10,
                            "{shape:?} {noise} {bins} {side:?} {mean}"
                        );
                    }
                }
            }
        }
    }
}
