//! The composed law around a tilt, from above and from below, and δ(ε) from it.

use super::cells::{Brackets, Lattice};
use super::moments::Moments;
use super::ruler::{Lines, Ruler};
use super::spectrum::Spectrum;
use crate::certificate::{ErrorEnds, ErrorSource, ErrorTerm};
use crate::error::{Error, Result};
use crate::interval::LnBounds;
use crate::law::{Comb, Law};
use crate::special::{ROUND, ln_add_exp};

/// The longest grid: three arrays of it fit in 25 MB.
const LONGEST: usize = 1 << 20;
/// The shortest worth a transform.
const SHORTEST: usize = 1 << 8;
/// Powers of e^{−z} are taken anew after so many grid lines.
const RENEWAL: usize = 64;

/// Both measures under the tilt θ, reusable for every ε near the one it was made for.
#[derive(Debug)]
pub(crate) struct Convolution {
    theta: f64,
    above: Side,
    below: Side,
    /// Whether a finer grid is to be had.
    pub(crate) refinable: bool,
    /// The grid's spacing and length.
    pub(crate) spacing: f64,
    pub(crate) length: usize,
}

/// One composed measure on a window of losses.
#[derive(Debug)]
struct Side {
    masses: Vec<f64>,
    /// Index of the first mass's line.
    start: i64,
    origin: f64,
    spacing: f64,
    front: f64,
    front_error: f64,
    /// Bounds on the error of each mass, and of all in the 2-norm.
    entry_error: f64,
    norm_error: f64,
    /// Tilted mass beyond the window to the left and to the right.
    outside: [f64; 2],
    /// How far losses may be from their lines.
    nudge: f64,
    /// P-mass of infinite loss.
    infinite: f64,
}

/// A side's sum with the bounds on its errors, in units of e^`ln_front`; the error of the front
/// is that of its logarithm.
#[derive(Debug, Clone, Copy)]
struct Pieces {
    ln_front: f64,
    front: f64,
    sum: f64,
    transform: f64,
    rounding: f64,
    outside: f64,
}

/// What is wanted of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The tilt.
    pub(crate) theta: f64,
    /// Relative accuracy of δ.
    pub(crate) relative: f64,
    /// About ln δ.
    pub(crate) ln_delta: f64,
    /// The spacing over the one that should do.
    pub(crate) finer: f64,
}

impl Convolution {
    /// Composes the steps of `moments` as `wanted`.
    ///
    /// # Errors
    /// [`Error::NotCertified`] when a step has too many cells.
    pub(crate) fn new(moments: &Moments, wanted: Wanted) -> Result<Self> {
        let steps = moments.steps.as_slice();
        let theta = wanted.theta;
        let ln_goal = wanted.relative.ln() - 10.0;
        let (right, right_order) = moments.reach(theta, ln_goal, 1.0);
        let (left, left_order) = moments.reach(theta, ln_goal, -1.0);
        let centre = moments.at(theta).first;
        let total: f64 = steps.iter().map(|(_, times)| *times as f64).sum();
        let ln_cut = wanted.ln_delta.min(0.0) + ln_goal - total.ln();
        // However steep the tilt, each law's losses must fit into a million cells.
        let widest = (steps.iter())
            .map(|(law, _)| law.loss_range(ln_cut))
            .fold(0.0f64, |widest, (low, high)| widest.max(high - low));
        let grid = Grid::choose(steps, wanted, (left + right).max(widest))?;
        let mut brackets = Vec::with_capacity(steps.len());
        for (part, (law, times)) in steps.iter().enumerate() {
            let (tilted, whole) = moments.tilted(part, theta);
            let ruler = Ruler::new(grid.lines(law), law.loss_range(ln_cut), (&tilted, whole))?;
            // Moving every loss by so little changes δ by a small share of what is allowed.
            let slack = 0.02 * wanted.relative / (theta * *times as f64);
            brackets.push((law.brackets(&ruler, ln_cut, slack)?, *times));
        }
        let side = |pick: fn(&Brackets) -> &Lattice| {
            let parts: Vec<(&Lattice, u64)> =
                brackets.iter().map(|(both, n)| (pick(both), *n)).collect();
            let window = Window {
                centre: centre + 0.5 * (right - left),
                orders: [left_order, right_order],
                ln_goal: (1e-2 * wanted.relative).ln(),
            };
            Side::new(&parts, theta, &grid, &window)
        };
        Ok(Self {
            theta,
            above: side(|both| &both.above)?,
            below: side(|both| &both.below)?,
            refinable: grid.refinable,
            spacing: grid.spacing,
            length: grid.length,
        })
    }

    /// ln δ(ε), near the ε it was made for.
    pub(crate) fn value(&self, epsilon: f64) -> LnBounds {
        let upper = self.above.ln_delta(epsilon, self.theta, 1.0);
        let lower = self.below.ln_delta(epsilon, self.theta, -1.0).min(upper);
        LnBounds {
            lower,
            middle: if lower.is_finite() {
                0.5 * (lower + upper)
            } else {
                upper
            },
            upper,
        }
    }

    /// Every error at `epsilon`, relative to δ: the larger of both sides.
    pub(crate) fn errors(&self, epsilon: f64) -> Vec<ErrorTerm> {
        let above = self.above.pieces(epsilon, self.theta, 1.0);
        let below = self.below.pieces(epsilon, self.theta, -1.0);
        let whole = |side: &Side, pieces: &Pieces| {
            pieces.sum.max(0.0) + (side.infinite.ln() - pieces.ln_front).exp()
        };
        let (high, low) = (whole(&self.above, &above), whole(&self.below, &below));
        let larger = |pick: fn(&Pieces) -> f64| (pick(&above) / high).max(pick(&below) / low);
        let moved = (above.ln_front - below.ln_front + (high / low).ln()).exp_m1();
        let both = |source, relative: f64| ErrorTerm {
            source,
            ends: ErrorEnds::Both,
            relative: if relative.is_nan() {
                f64::INFINITY
            } else {
                relative.max(0.0)
            },
        };
        vec![
            both(ErrorSource::Discretisation, moved),
            both(ErrorSource::Transform, larger(|pieces| pieces.transform)),
            both(ErrorSource::WrapAround, larger(|pieces| pieces.outside)),
            both(ErrorSource::Summation, larger(|pieces| pieces.rounding)),
            both(
                ErrorSource::Front,
                larger(|pieces| pieces.front * pieces.sum.max(0.0)),
            ),
        ]
    }

    /// The tilt.
    pub(crate) const fn order(&self) -> f64 {
        self.theta
    }
}

/// Spacing and length, and where each law's lines lie.
struct Grid {
    spacing: f64,
    length: usize,
    refinable: bool,
}

impl Grid {
    fn choose(steps: &[(Law, u64)], wanted: Wanted, window: f64) -> Result<Self> {
        let combs: Option<Vec<Comb>> = steps.iter().map(|(law, _)| law.comb).collect();
        let common = combs.and_then(|combs| {
            let first = *combs.first()?;
            let same = |comb: &Comb| (comb.spacing / first.spacing - 1.0).abs() < 1e-13;
            combs.iter().all(same).then_some(first.spacing)
        });
        // Spreading within cells of width h raises K(θ) by at most θ(θ−1)h²/8 a step.
        let rough: f64 = steps
            .iter()
            .filter(|(law, _)| common.is_none() || law.comb.is_none())
            .map(|(_, times)| *times as f64)
            .sum();
        let theta = wanted.theta;
        let wish = (3.0 * wanted.relative / (theta * (theta - 1.0).max(1e-3) * rough.max(1.0)))
            .sqrt()
            * wanted.finer;
        let least = window / (LONGEST - 8) as f64;
        let (spacing, refinable) = match common {
            Some(spacing) if spacing >= least => (spacing, false),
            _ => {
                let spacing = wish.max(least);
                let gaps: Vec<(f64, f64)> = (steps.iter())
                    .flat_map(|(law, n)| law.atom_gaps().into_iter().map(|gap| (gap, *n as f64)))
                    .collect();
                let fitted = fit((spacing, least), &gaps);
                (fitted, wish > least)
            }
        };
        let length = ((window / spacing).ceil() as usize + 8)
            .next_power_of_two()
            .clamp(SHORTEST, LONGEST);
        if !(spacing.is_finite() && spacing > 0.0) {
            return Err(Error::NotCertified {
                what: "the grid",
                why: "no spacing fits the loss".into(),
            });
        }
        Ok(Self {
            spacing,
            length,
            refinable,
        })
    }

    /// Lines through the law's heaviest atom.
    fn lines(&self, law: &Law) -> Lines {
        Lines {
            origin: law.atom_origin(),
            spacing: self.spacing,
        }
    }
}

/// The spacing near `wish`, but not below `least`, that comes closest to dividing every gap
/// between atoms, (gap, steps): a whole fraction of the gap that comes up most, among as many as
/// it takes to suit the others.
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

struct Window {
    centre: f64,
    orders: [f64; 2],
    ln_goal: f64,
}

impl Side {
    fn new(parts: &[(&Lattice, u64)], theta: f64, grid: &Grid, window: &Window) -> Result<Self> {
        let mut spectrum = Spectrum::new(grid.length);
        for (lattice, times) in parts {
            spectrum.multiply(lattice, theta, *times, window.ln_goal)?;
        }
        let (shift, origin, nudge) = (spectrum.shift, spectrum.origin, spectrum.nudge);
        let (front, front_error) = (spectrum.front, spectrum.front_error);
        let (law, entry_error, norm_error) = spectrum.invert();
        let length = grid.length as i64;
        let start = ((window.centre - origin) / grid.spacing).round() as i64 - length / 2;
        let first = (start - shift).rem_euclid(length) as usize;
        let mut masses = Vec::with_capacity(law.len());
        masses.extend_from_slice(&law[first..]);
        masses.extend_from_slice(&law[..first]);
        let ends = [
            origin + start as f64 * grid.spacing,
            origin + (start + length) as f64 * grid.spacing,
        ];
        let outside = [0, 1].map(|side| {
            let (order, end) = (window.orders[side], ends[side]);
            let chernoff: f64 = parts
                .iter()
                .map(|(lattice, times)| {
                    let (there, here) = (lattice.moment(order).0, lattice.moment(theta).0);
                    let sums = 2.0 * lattice.weights.len() as f64;
                    let rounding = ROUND * (sums + 8.0 * (there.abs() + here.abs()));
                    *times as f64 * (there - here + rounding)
                })
                .sum();
            (chernoff - (order - theta) * end).exp().min(1.0) * 1.01
        });
        let whole: f64 = parts
            .iter()
            .map(|(lattice, times)| *times as f64 * (-lattice.infinite).ln_1p())
            .sum();
        Ok(Self {
            masses,
            start,
            origin,
            spacing: grid.spacing,
            front,
            front_error,
            entry_error,
            norm_error,
            outside,
            nudge,
            infinite: -whole.exp_m1(),
        })
    }

    /// ln of Σ_{v > ε} F(v) e^{−θz}(e^z − 1), z = v − ε, every error on the side of `sign`.
    fn ln_delta(&self, epsilon: f64, theta: f64, sign: f64) -> f64 {
        let pieces = self.pieces(epsilon, theta, sign);
        let size = pieces.sum + sign * (pieces.transform + pieces.rounding + pieces.outside);
        let finite = pieces.ln_front + sign * pieces.front + size.max(0.0).ln();
        let total = ln_add_exp(finite, self.infinite.ln()) + sign * 4.0 * ROUND;
        match (size.is_nan() || total.is_nan(), sign > 0.0) {
            (false, _) => total.min(0.0),
            // Numbers that are none say nothing.
            (true, true) => 0.0,
            (true, false) => f64::NEG_INFINITY,
        }
    }

    /// The sum at `epsilon` and the bounds on its errors.
    fn pieces(&self, epsilon: f64, theta: f64, sign: f64) -> Pieces {
        let last = self.start + self.masses.len() as i64;
        let reach = (self.start.abs().max(last.abs())) as f64 * self.spacing;
        let rounding = 4.0 * ROUND * (self.origin.abs() + reach + epsilon.abs());
        let shift = sign * (self.nudge + rounding);
        let z_first = self.origin + self.start as f64 * self.spacing - epsilon + shift;
        let skip = (-z_first / self.spacing).ceil().max(0.0);
        let skip = if skip.is_finite() { skip as usize } else { 0 };
        let (mut sum, mut all, mut squares, mut plain) = (0.0, 0.0, 0.0, 0.0);
        let turns = ((1.0 - theta) * self.spacing, -theta * self.spacing);
        let (slow_turn, fast_turn) = (turns.0.exp(), turns.1.exp());
        let (mut slow, mut fast) = (0.0, 0.0);
        for (i, mass) in self.masses.iter().enumerate().skip(skip) {
            if (i - skip) % RENEWAL == 0 {
                let z = z_first + i as f64 * self.spacing;
                (slow, fast) = (((1.0 - theta) * z).exp(), (-theta * z).exp());
            }
            let gain = (slow - fast).max(0.0);
            sum += mass * gain;
            all += gain;
            squares += gain * gain;
            plain += mass.abs();
            slow *= slow_turn;
            fast *= fast_turn;
        }
        let most = |z: f64| {
            // e^{−θz}(e^z − 1) rises to z = ln(θ/(θ−1)) and falls from there.
            let peak = -(-1.0 / theta).ln_1p();
            let z = z.max(peak).max(0.0);
            ((1.0 - theta) * z).exp() - (-theta * z).exp()
        };
        let z_end = z_first + self.masses.len() as f64 * self.spacing;
        let outside = if sign > 0.0 {
            self.outside[1] * most(z_end)
        } else {
            (self.outside[0] + self.outside[1]) * most(f64::NEG_INFINITY)
        };
        let ln_front = self.front - (theta - 1.0) * epsilon;
        Pieces {
            ln_front,
            front: self.front_error
                + 4.0
                    * ROUND
                    * (ln_front.abs() + self.front.abs() + ((theta - 1.0) * epsilon).abs()),
            sum,
            transform: self.entry_error * all + self.norm_error * squares.sqrt(),
            rounding: ROUND * (4.0 * RENEWAL as f64 * plain + self.masses.len() as f64 * sum.abs()),
            outside,
        }
    }
}
