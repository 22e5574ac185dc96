//! One composed, tilted measure: its masses on a window of lines, or the lowest frequencies of their transform.

use super::band::{Band, Gains};
use super::cells::Lattice;
use super::layout::Layout;
use super::spectrum::{Spectrum, Tilted};
use crate::numeric::special::{ROUND, ln_add_exp};
use crate::quantity::error::Result;

/// Powers of e^{−z} are recomputed after this many grid lines.
const RENEWAL: usize = 64;
/// The number of lines that are processed at once.
const LANES: usize = 8;

/// Relative room for the rounding errors of gains and of sums of them.
const GAIN_ERROR: f64 = 1e-8;

/// A bound on gains that underflow, for measures whose masses add up to about one: far above ε, their front is as large
/// as they are small.
const UNDERFLOW: f64 = 4.0 * f64::MIN_POSITIVE;

/// The number of orders that are tried for each end of the window.
const MOST_ORDERS: u32 = 10;

/// One composed measure on a window of losses.
#[derive(Debug)]
pub(super) struct Side {
    composed: Composed,
    /// The index of the window's first line.
    start: i64,
    length: i64,
    origin: f64,
    spacing: f64,
    front: f64,
    front_error: f64,
    /// The tilted mass beyond the window, to the left and to the right.
    outside: [f64; 2],
    /// The largest distance of losses from their lines.
    nudge: f64,
    /// The same per line from the origin, relatively.
    stretch: f64,
    /// The P-mass of infinite loss.
    pub(super) infinite: f64,
    /// The work of its transforms, in quarters of a second of processor time.
    pub(super) work: f64,
}

/// The measure in either of two forms.
#[derive(Debug)]
enum Composed {
    /// Masses by line, with bounds on the error of each mass, and of all of them in the 2-norm.
    Masses {
        masses: Vec<f64>,
        entry_error: f64,
        norm_error: f64,
    },
    Frequencies(Band),
}

/// A side's sum with the bounds on its errors, in units of e^`ln_front`; the error of the front is that of its
/// logarithm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces {
    pub(super) ln_front: f64,
    pub(super) front: f64,
    pub(super) sum: f64,
    pub(super) transform: f64,
    pub(super) rounding: f64,
    pub(super) outside: f64,
}

/// The location of the composed, tilted law.
pub(super) struct Window {
    pub(super) centre: f64,
    /// Orders whose Chernoff bounds limit what lies beyond the window.
    pub(super) orders: [f64; 2],
    /// ln of the relative accuracy of transforms.
    pub(super) ln_goal: f64,
    /// The largest allowed contribution of omitted frequencies to the sum.
    pub(super) goal: f64,
}

impl Side {
    /// Composes a side with every line of the window.
    pub(super) fn new(
        parts: &[(&Lattice, u64)],
        theta: f64,
        layout: &Layout,
        window: &Window,
    ) -> Result<Self> {
        let mut spectrum = Spectrum::new(layout.length as usize);
        for (lattice, times) in parts {
            let tilted = Tilted::new(lattice, theta);
            spectrum.multiply(lattice, tilted, *times, window.ln_goal)?;
        }
        let empty = Composed::Masses {
            masses: Vec::new(),
            entry_error: 0.0,
            norm_error: 0.0,
        };
        let side = Self::around(empty, (parts, theta), &spectrum, layout, window);
        let first = (side.start - spectrum.shift).rem_euclid(layout.length) as usize;
        let (mut masses, entry_error, norm_error) = spectrum.invert();
        masses.rotate_left(first);
        Ok(Self {
            composed: Composed::Masses {
                masses,
                entry_error,
                norm_error,
            },
            ..side
        })
    }

    /// Composes a side with the lowest frequencies; `None` if too many matter.
    pub(super) fn in_a_band(
        parts: &[(&Lattice, u64)],
        theta: f64,
        layout: &Layout,
        window: &Window,
    ) -> Result<Option<Self>> {
        let tilted: Vec<(Tilted, u64)> = (parts.iter())
            .map(|(lattice, times)| (Tilted::new(lattice, theta), *times))
            .collect();
        let laws: Vec<(&Tilted, f64)> = (tilted.iter())
            .map(|(law, times)| (law, *times as f64))
            .collect();
        let fine = (theta, layout.spacing);
        let Some((count, beyond)) = Band::reach(&laws, layout.length, fine, window.goal) else {
            return Ok(None);
        };
        let mut spectrum = Spectrum::lowest(layout.length, count);
        for ((lattice, _), (law, times)) in parts.iter().zip(tilted) {
            spectrum.multiply(lattice, law, times, window.ln_goal)?;
        }
        let band = |start| Composed::Frequencies(Band::new(&spectrum, start, beyond));
        let mut side = Self::around(band(0), (parts, theta), &spectrum, layout, window);
        side.composed = band(side.start);
        Ok(Some(side))
    }

    fn around(
        composed: Composed,
        (parts, theta): (&[(&Lattice, u64)], f64),
        spectrum: &Spectrum,
        layout: &Layout,
        window: &Window,
    ) -> Self {
        let (origin, length) = (spectrum.origin, layout.length);
        let start = ((window.centre - origin) / layout.spacing).round() as i64 - length / 2;
        let ends = [
            origin + start as f64 * layout.spacing,
            origin + (start + length) as f64 * layout.spacing,
        ];
        let (lowest, highest) = extent(parts);
        let within = [
            lowest >= i128::from(start),
            highest < i128::from(start) + i128::from(length),
        ];
        let outside = [0, 1].map(|side| {
            if within[side] {
                return 0.0;
            }
            // Start from the best order for the law itself and move towards θ: a bounded loss has orders so far out
            // that lines on the other side of its bound weigh too much.
            let mut least = 1.0f64;
            let mut distance = window.orders[side] - theta;
            for _ in 0..MOST_ORDERS {
                least = least.min(chernoff(parts, theta, (theta + distance, ends[side])));
                if least.ln() <= window.ln_goal - 5.0 {
                    break;
                }
                distance *= 0.25;
            }
            least * 1.01
        });
        let whole: f64 = parts
            .iter()
            .map(|(lattice, times)| *times as f64 * (-lattice.infinite).ln_1p())
            .sum();
        Self {
            composed,
            start,
            length,
            origin,
            spacing: layout.spacing,
            front: spectrum.front,
            front_error: spectrum.front_error,
            outside,
            nudge: spectrum.nudge,
            stretch: spectrum.stretch,
            infinite: -whole.exp_m1(),
            work: spectrum.work,
        }
    }

    /// Returns ln of Σ_{v > ε} F(v) e^{−θz}(e^z − 1), z = v − ε, with every error on the side of `sign`.
    pub(super) fn ln_delta(&self, epsilon: f64, theta: f64, sign: f64) -> f64 {
        let pieces = self.pieces(epsilon, theta, sign);
        let errors = pieces.transform + pieces.rounding + pieces.outside + UNDERFLOW;
        let size = pieces.sum + sign * errors;
        let finite = pieces.ln_front + sign * pieces.front + size.max(0.0).ln();
        let total = ln_add_exp(finite, self.infinite.ln()) + sign * 4.0 * ROUND;
        match (size.is_nan() || total.is_nan(), sign > 0.0) {
            (false, _) => total.min(0.0),
            // NaN bounds nothing.
            (true, true) => 0.0,
            (true, false) => f64::NEG_INFINITY,
        }
    }

    /// Returns the sum at `epsilon` and the bounds on its errors.
    pub(super) fn pieces(&self, epsilon: f64, theta: f64, sign: f64) -> Pieces {
        let last = self.start + self.length;
        let reach = (self.start.abs().max(last.abs())) as f64 * self.spacing;
        let rounding = 8.0 * ROUND * (self.origin.abs() + reach + epsilon.abs());
        let nudge = self.nudge + self.stretch * reach;
        let shift = sign * (nudge + rounding);
        // Σ Q(v) (e^{v+N} − e^ε)₊ = e^N δ(ε − N), whose front is e^{θN} times the one at ε; gains at z ± r are
        // e^{−θ(z∓r)}(e^{z±r} − 1) at most and at least.
        let moved = theta * (nudge + 2.0 * rounding);
        let first = self.origin + self.start as f64 * self.spacing - epsilon + shift;
        let skip = (-first / self.spacing).ceil().max(0.0);
        let gains = Gains {
            theta,
            spacing: self.spacing,
            first,
            skip: if skip.is_finite() { skip as i64 } else { 0 },
        };
        let (sum, transform, rounding) = self.composed.sum(&gains);
        // The gain rises to z = ln(θ/(θ−1)) and falls from there.
        let peak = -(-1.0 / theta).ln_1p();
        let most = |z: f64| gain(z.max(0.0), theta).0 * (1.0 + GAIN_ERROR);
        let end = first + self.length as f64 * self.spacing;
        let outside = if sign > 0.0 {
            // Mass that wraps around counts where it lands, and may weigh more at its true place: beyond the window,
            // and before it if the window begins above ε.
            self.outside[1] * most(end.max(peak)) + self.outside[0] * most(first.min(peak))
        } else {
            (self.outside[0] + self.outside[1]) * most(peak)
        };
        let ln_front = self.front - (theta - 1.0) * epsilon;
        Pieces {
            ln_front,
            front: self.front_error
                + moved
                + 4.0
                    * ROUND
                    * (ln_front.abs() + self.front.abs() + ((theta - 1.0) * epsilon).abs()),
            sum,
            transform,
            rounding,
            outside,
        }
    }

    #[cfg(test)]
    pub(super) fn begins_above(&self, epsilon: f64) -> bool {
        self.origin + self.start as f64 * self.spacing > epsilon
    }

    /// Returns the number of values that represent the measure.
    pub(super) fn cells(&self) -> usize {
        match &self.composed {
            Composed::Masses { masses, .. } => masses.len(),
            Composed::Frequencies(band) => band.count(),
        }
    }
}

impl Composed {
    /// Returns the sum of masses times gains, with bounds on the errors of transforms and of the summation.
    fn sum(&self, gains: &Gains) -> (f64, f64, f64) {
        match self {
            Self::Masses {
                masses,
                entry_error,
                norm_error,
            } => {
                let added = add_up(masses, gains);
                let transform = entry_error * added.gains + norm_error * added.squares.sqrt();
                (added.sum, transform * (1.0 + GAIN_ERROR), added.rounding)
            }
            Self::Frequencies(band) => {
                let found = band.sum(gains);
                (found.sum, found.transform, found.rounding)
            }
        }
    }
}

/// Returns the first and the last line that composed losses can lie on.
fn extent(parts: &[(&Lattice, u64)]) -> (i128, i128) {
    let mut extent = (0, 0);
    for (lattice, times) in parts {
        let index = |weight: Option<&(i64, f64)>| weight.map_or(0, |weight| i128::from(weight.0));
        let times = i128::from(*times);
        extent.0 += times * index(lattice.weights.first());
        extent.1 += times * index(lattice.weights.last());
    }
    extent
}

/// Returns a bound on the tilted mass beyond `end`, on the side to which the order moves the law.
fn chernoff(parts: &[(&Lattice, u64)], theta: f64, (order, end): (f64, f64)) -> f64 {
    let each = parts.iter().map(|(lattice, times)| {
        let (there, here) = (lattice.moment(order).0, lattice.moment(theta).0);
        let sums = 2.0 * lattice.weights.len() as f64;
        let rounding = ROUND * (sums + 8.0 * (there.abs() + here.abs()));
        *times as f64 * (there - here + rounding)
    });
    let ln = each.sum::<f64>() - (order - theta) * end;
    if ln.is_nan() { 1.0 } else { ln.exp() }
}

/// Returns a line's gain e^{−θz}(e^z − 1) and e^{−θz}, to a few roundings of both factors in addition to those of θz:
/// for tiny losses, the difference of two exponentials would leave no digits.
fn gain(z: f64, theta: f64) -> (f64, f64) {
    let fade = (-theta * z).exp();
    let gain = if z < 1.0 {
        fade * z.exp_m1()
    } else {
        ((1.0 - theta) * z).exp() - fade
    };
    (gain, fade)
}

/// Sums over lines: masses times gains with a bound on the error, gains, and their squares.
#[derive(Default)]
struct Added {
    sum: f64,
    rounding: f64,
    gains: f64,
    squares: f64,
}

fn add_up(masses: &[f64], gains: &Gains) -> Added {
    let Gains { theta, spacing, .. } = *gains;
    let skip = usize::try_from(gains.skip).unwrap_or(usize::MAX);
    // From one line to the next: e^{−θ(z+h)}(e^{z+h} − 1) = e^{(1−θ)h} e^{−θz}(e^z − 1) + e^{−θz} e^{−θh}(e^h − 1), in
    // which nothing cancels.
    let step = |lines: usize| {
        let reach = lines as f64 * spacing;
        let (rise, fade) = gain(reach, theta);
        (((1.0 - theta) * reach).exp(), rise, fade)
    };
    let (one, all) = (step(1), step(LANES));
    // The rounding errors of the exponents are proportional to these.
    let turn = theta * spacing * RENEWAL as f64;
    let mut added = Added::default();
    let mut plain = 0.0;
    for (block, masses) in masses
        .get(skip..)
        .unwrap_or_default()
        .chunks(RENEWAL)
        .enumerate()
    {
        let z = (gains.first + (skip + block * RENEWAL) as f64 * spacing).max(0.0);
        // Neighbouring lines are processed in parallel lanes, each advancing by the number of lanes: far fewer turns
        // than `RENEWAL`, for which there is room.
        let (mut own, mut fade) = ([0.0; LANES], [0.0; LANES]);
        (own[0], fade[0]) = gain(z, theta);
        for lane in 1..LANES {
            own[lane] = one.0 * own[lane - 1] + one.1 * fade[lane - 1];
            fade[lane] = one.2 * fade[lane - 1];
        }
        let (mut sum, mut size) = ([0.0; LANES], [0.0; LANES]);
        let (mut all_gains, mut squares) = ([0.0; LANES], [0.0; LANES]);
        let mut add = |masses: &[f64; LANES], own: &[f64; LANES]| {
            for lane in 0..LANES {
                let weighed = masses[lane] * own[lane];
                sum[lane] += weighed;
                size[lane] += weighed.abs();
                all_gains[lane] += own[lane];
                squares[lane] += own[lane] * own[lane];
            }
        };
        let (rows, rest) = masses.as_chunks::<LANES>();
        for row in rows {
            add(row, &own);
            for lane in 0..LANES {
                own[lane] = all.0 * own[lane] + all.1 * fade[lane];
                fade[lane] *= all.2;
            }
        }
        if !rest.is_empty() {
            let mut last = [0.0; LANES];
            last[..rest.len()].copy_from_slice(rest);
            own[rest.len()..].fill(0.0);
            add(&last, &own);
        }
        let size: f64 = size.iter().sum();
        added.sum += sum.iter().sum::<f64>();
        added.gains += all_gains.iter().sum::<f64>();
        added.squares += squares.iter().sum::<f64>();
        plain += size;
        added.rounding += (4.0 * RENEWAL as f64 + 4.0 * (theta * z + turn)) * size;
    }
    let rounding = added.rounding + masses.len() as f64 * plain;
    added.rounding = ROUND * rounding * (1.0 + GAIN_ERROR);
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines side by side add up to what each of them does alone, whatever is left of a row.
    #[test]
    fn every_line_is_added_once() {
        for (length, skip) in [
            (0, 0),
            (3, 0),
            (64, 0),
            (200, 5),
            (131, 130),
            (131, 131),
            (9, 40),
        ] {
            let masses: Vec<f64> = (0..length).map(|i| 1.0 + f64::from(i % 7)).collect();
            let (theta, spacing) = (3.5, 1e-3);
            let first = -f64::from(skip) * spacing + 0.25 * spacing;
            let gains = Gains {
                theta,
                spacing,
                first,
                skip: i64::from(skip),
            };
            let found = add_up(&masses, &gains);
            let each = |i: usize| gain(first + i as f64 * spacing, theta).0;
            let lines = skip as usize..masses.len();
            let sum: f64 = lines.clone().map(|i| masses[i] * each(i)).sum();
            let (plain, squares) = lines.fold((0.0, 0.0), |(plain, squares), i| {
                (plain + each(i), squares + each(i).powi(2))
            });
            assert!(
                (found.sum - sum).abs() <= found.rounding + 1e-15 * sum,
                "{length}"
            );
            // Of the spacing's multiples a few digits are lost just above zero.
            assert!((found.gains - plain).abs() <= 1e-9 * plain);
            assert!((found.squares - squares).abs() <= 1e-9 * squares);
            assert!(found.rounding <= 1e-11 * sum);
        }
    }
}
