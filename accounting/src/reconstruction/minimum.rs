//! The minimum of H_{e^t} + e^t x over t from certified values at some t, kinks or not.

use super::blow_up::at;
use crate::interval::LnBounds;

/// Relative room for the roundings of a chord.
const ROOM: f64 = 1e-12;
/// How close two places may be, in t.
const CLOSEST: f64 = 1e-11;

/// g(z) = H_z + zx is convex in z = e^t, so that each chord, beyond its ends, lies below g: between two
/// places g is no less than the larger of the chords on both sides, and the least of those maxima over
/// all stretches is a lower end of the minimum. Before the first place g is no less than H there, beyond
/// the last no less than zx there. Where g has a kink, as between atoms, the chords meet at it.
#[derive(Debug)]
pub(super) struct Minimum {
    ln_x: f64,
    /// How far from the first place the second one is, in t; the next ones ever farther.
    step: f64,
    /// By ascending t.
    places: Vec<Place>,
    /// The smallest upper end of ln g.
    unit: f64,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    t: f64,
    /// ln H and ln g.
    excess: LnBounds,
    sum: LnBounds,
}

/// The least value on a stretch, and where.
#[derive(Debug, Clone, Copy)]
struct Least {
    value: f64,
    t: f64,
}

impl Minimum {
    pub(super) const fn new(ln_x: f64, step: f64) -> Self {
        Self {
            ln_x,
            step,
            places: Vec::new(),
            unit: f64::NAN,
        }
    }

    /// What is known of H at t.
    pub(super) fn add(&mut self, t: f64, excess: LnBounds) {
        let place = Place {
            t,
            excess,
            sum: at(excess, t, self.ln_x),
        };
        let after = self.places.partition_point(|other| other.t < t);
        self.places.insert(after, place);
        let best = self.places.iter().map(|place| place.sum.upper);
        self.unit = best.fold(f64::INFINITY, f64::min);
    }

    /// Both ends of the logarithm of the minimum.
    pub(super) fn ends(&self) -> LnBounds {
        let lower = self.stretches().map(|least| least.value);
        let lower = lower.fold(1.0, f64::min).max(0.0).ln() + self.unit;
        LnBounds {
            lower: lower.min(self.unit),
            middle: self.unit,
            upper: self.unit,
        }
    }

    /// The place that a lower value may be at.
    pub(super) fn next(&self) -> Option<f64> {
        let (first, last) = (self.places.first()?, self.places.last()?);
        let step = self.step * f64::from(1u32 << (self.places.len() - 1).min(20));
        let least = self
            .stretches()
            .min_by(|a, b| a.value.total_cmp(&b.value))?;
        let next = if least.t < first.t {
            first.t - step
        } else if least.t > last.t {
            last.t + step
        } else {
            least.t
        };
        let close = |place: &Place| (place.t - next).abs() <= CLOSEST * (1.0 + next.abs());
        (next.is_finite() && !self.places.iter().any(close)).then_some(next)
    }

    /// What lies between the places, before the first and beyond the last.
    fn stretches(&self) -> impl Iterator<Item = Least> + '_ {
        let count = self.places.len();
        (0..=count).map(move |i| self.least_before(i))
    }

    /// The least that g may be between place i − 1 and place i.
    fn least_before(&self, i: usize) -> Least {
        let value = |ln: f64| (ln - self.unit).exp();
        let (Some(left), Some(right)) = (
            i.checked_sub(1).and_then(|i| self.places.get(i)),
            self.places.get(i),
        ) else {
            // H falls, and zx rises.
            return match (self.places.first(), self.places.last()) {
                (Some(first), _) if i == 0 => Least {
                    value: value(first.excess.lower) * (1.0 - ROOM),
                    t: f64::NEG_INFINITY,
                },
                (_, Some(last)) => Least {
                    value: value(last.t + self.ln_x) * (1.0 - ROOM),
                    t: f64::INFINITY,
                },
                _ => Least { value: 0.0, t: 0.0 },
            };
        };
        // In units of z at the left place.
        let z = |t: f64| (t - left.t).exp_m1();
        let width = z(right.t);
        let (low, high) = (value(left.sum.lower), value(right.sum.lower));
        // g is no less than these lines from either place; where there is no chord, than H at the right
        // place and zx at the left one.
        let rise = i
            .checked_sub(2)
            .and_then(|i| self.places.get(i))
            .map(|far| (low - value(far.sum.upper)) / -z(far.t));
        let fall = self
            .places
            .get(i + 1)
            .map(|far| (value(far.sum.upper) - high) / (z(far.t) - width));
        let from_left = |d: f64| {
            let floor = value(left.t + self.ln_x) * (1.0 + d);
            rise.map_or(floor, |rise| (low + rise * d).max(floor))
        };
        let from_right = |d: f64| {
            let floor = value(right.excess.lower) + value(left.t + self.ln_x) * (1.0 + d);
            fall.map_or(floor, |fall| (high - fall * (width - d)).max(floor))
        };
        let bound = |d: f64| from_left(d).max(from_right(d));
        // A maximum of lines is convex: least at an end or where it turns.
        let (mut a, mut b) = (0.0, width);
        for _ in 0..200 {
            let (c, d) = (a + (b - a) / 3.0, b - (b - a) / 3.0);
            if bound(c) <= bound(d) {
                b = d;
            } else {
                a = c;
            }
        }
        let place = 0.5 * (a + b);
        let size = low.abs() + high.abs() + 1.0;
        Least {
            value: bound(place) - ROOM * size,
            t: left.t + place.ln_1p(),
        }
    }
}
