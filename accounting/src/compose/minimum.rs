//! The minimum of H_{e^t} + e^t x over t, from certified values at some t, with or without kinks.

use super::blow_up::at;
use crate::numeric::interval::LnBounds;

/// Relative room for the few rounding errors of a value and of a chord.
const ROOM: f64 = 16.0 * f64::EPSILON;
/// Steps outwards grow while they are no longer than this; the next step goes to the last possible place.
const FAR: f64 = 1.0;
/// The smallest distance of two places, in t.
const CLOSEST: f64 = 2e-15;

/// Bounds on the minimum of a convex function from its values at some places.
///
/// g(z) = H_z + zx is convex in z = e^t, so each chord, beyond its ends, lies below g: between two places g
/// is no less than the larger of the chords on both sides, and the least of those maxima over all intervals
/// is a lower end of the minimum. Before the first place g is no less than H there; beyond the last, no
/// less than zx there. Where g has a kink, as between atoms, the chords meet at it.
#[derive(Debug)]
pub(super) struct Minimum {
    ln_x: f64,
    /// The distance from the first place to the second, in t; later steps are increasingly longer.
    step: f64,
    /// The places, in ascending order of t.
    places: Vec<Evaluation>,
    /// The smallest upper end of ln g.
    unit: f64,
}

#[derive(Debug, Clone, Copy)]
struct Evaluation {
    t: f64,
    /// ln H and ln g.
    excess: LnBounds,
    sum: LnBounds,
}

/// The least value on an interval, and its position.
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

    /// Records what is known about H at t.
    pub(super) fn add(&mut self, t: f64, excess: LnBounds) {
        let place = Evaluation {
            t,
            excess,
            sum: at(excess, t, self.ln_x),
        };
        let after = self.places.partition_point(|other| other.t < t);
        self.places.insert(after, place);
        let best = self.places.iter().map(|place| place.sum.upper);
        self.unit = best.fold(f64::INFINITY, f64::min);
    }

    /// Returns both ends of the logarithm of the minimum.
    pub(super) fn ends(&self) -> LnBounds {
        let lower = self.stretches().map(|least| least.value);
        let lower = lower.fold(1.0, f64::min).max(0.0).ln() + self.unit;
        LnBounds {
            lower: lower.min(self.unit),
            middle: self.unit,
            upper: self.unit,
        }
    }

    /// Returns the place where a lower value may lie.
    pub(super) fn next(&self) -> Option<f64> {
        let (first, last) = (self.places.first()?, self.places.last()?);
        let step = self.step * f64::from(1u32 << (self.places.len() - 1).min(20));
        let least = self
            .stretches()
            .min_by(|a, b| a.value.total_cmp(&b.value))?;
        let close = |next: f64| {
            let near = |place: &Evaluation| (place.t - next).abs() <= CLOSEST * (1.0 + next.abs());
            self.places.iter().any(near)
        };
        let next = if least.t < first.t {
            first.t - step
        } else if least.t > last.t {
            // Where zx alone exceeds the known minimum, nothing beyond is of use.
            let end = self.unit - self.ln_x;
            if step < FAR {
                last.t + step
            } else {
                end.max(last.t + FAR)
            }
        } else if close(least.t) {
            let right = self.places.partition_point(|place| place.t <= least.t);
            let right = right.clamp(1, self.places.len() - 1);
            0.5 * (self.places[right - 1].t + self.places[right].t)
        } else {
            least.t
        };
        (next.is_finite() && !close(next)).then_some(next)
    }

    /// Returns the least values between the places, before the first and beyond the last.
    fn stretches(&self) -> impl Iterator<Item = Least> + '_ {
        let count = self.places.len();
        (0..=count).map(move |i| self.least_before(i))
    }

    /// Returns the least possible value of g between place i − 1 and place i.
    fn least_before(&self, i: usize) -> Least {
        let value = |ln: f64| (ln - self.unit).exp();
        let (Some(left), Some(right)) = (
            i.checked_sub(1).and_then(|i| self.places.get(i)),
            self.places.get(i),
        ) else {
            // H falls, and zx rises.
            return match (self.places.first(), self.places.last()) {
                (Some(first), _) if i == 0 => Least {
                    value: value(first.excess.lower) * (1.0 - 1e-12),
                    t: f64::NEG_INFINITY,
                },
                (_, Some(last)) => Least {
                    value: value(last.t + self.ln_x) * (1.0 - 1e-12),
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
        // Of a value, of whose logarithm there is a rounding, and of a few sums.
        let far = (left.sum.upper - self.unit).abs() + (right.sum.upper - self.unit).abs();
        let room = ROOM * (1.0 + far);
        let before = i.checked_sub(2).and_then(|i| self.places.get(i));
        let rise = before.map(|far| (value(far.sum.upper), -z(far.t)));
        let after = self.places.get(i + 1);
        let fall = after.map(|far| {
            let distance = (right.t - left.t).exp() * (far.t - right.t).exp_m1();
            (value(far.sum.upper), distance)
        });
        // The chord to a place that far off, extended by d, minus the rounding errors of its parts.
        let beyond = |near: f64, (far, distance): (f64, f64), d: f64| {
            let reach = d / distance;
            near + (near - far) * reach - room * (near.abs() + far.abs()) * (1.0 + reach)
        };
        // A place is off by one rounding of the width.
        let steepness = |near: f64, (far, distance): (f64, f64)| (near - far).abs() / distance;
        let slopes = rise.map_or(0.0, |far| steepness(low, far))
            + fall.map_or(0.0, |far| steepness(high, far));
        let line = value(left.t + self.ln_x) * (1.0 - room);
        let least = value(right.excess.lower) * (1.0 - room);
        let from_left = |d: f64| {
            let floor = line * (1.0 + d);
            rise.map_or(floor, |far| beyond(low, far, d).max(floor))
        };
        let from_right = |d: f64| {
            let floor = least + line * (1.0 + d);
            fall.map_or(floor, |far| beyond(high, far, width - d).max(floor))
        };
        let bound = |d: f64| from_left(d).max(from_right(d));
        // A maximum of lines is convex, so it is least at an end or where it turns.
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
        // The rounding errors of steep chords don't affect the lines that rest on none.
        let chords = bound(place) * (1.0 - room) - room * width * slopes;
        Least {
            value: chords.max(line).max(least),
            t: left.t + place.ln_1p(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::special::ln_one_minus_exp;

    /// Two atoms of loss ±a with Q(a) = q and P(a) = p: H_z = p − zq + (1 − p − z(1 − q))₊, and B(x) = px/q
    /// below q. The true values lie anywhere within the ends that are given.
    #[test]
    fn chords_meet_below_a_kink_whatever_the_roundings() {
        let (p, q): (f64, f64) = (0.8, 0.2);
        // Roundings of the differences, which cancel at the kink.
        let excess = |t: f64, wave: f64, width: f64| {
            let z = t.exp();
            let h = (p - z * q).max(0.0) + (1.0 - p - z * (1.0 - q)).max(0.0);
            let ln = |h: f64| h.max(0.0).ln() + 0.5 * wave * width;
            LnBounds {
                lower: ln(h - 8e-16) - 0.5 * width,
                middle: ln(h),
                upper: ln(h + 8e-16) + 0.5 * width,
            }
        };
        for x in [1e-9f64, 0.05, 0.15] {
            let truth = (p * x / q).ln();
            for width in [0.0, 1e-9, 1e-3, 0.3] {
                for side in [-1.0, 0.0, 1.0] {
                    let mut minimum = Minimum::new(x.ln(), 0.3);
                    let mut t = 0.0;
                    for round in 0..24 {
                        // Now at the one end, now at the other.
                        let wave = if round % 2 == 0 { side } else { -side };
                        minimum.add(t, excess(t, wave, width));
                        let found = minimum.ends();
                        assert!(
                            found.lower <= truth + 1e-12 && truth <= found.upper + 1e-12,
                            "{x} {width} {found:?} {truth}"
                        );
                        let Some(next) = minimum.next() else { break };
                        t = next;
                    }
                    if width <= 0.0 {
                        let found = minimum.ends();
                        // A place is known to its own last digit.
                        let least = 1e-13 / x;
                        assert!(found.width() < 1e-6 + least, "{x} {found:?}");
                    }
                }
            }
        }
    }

    /// A smooth profile, Laplace noise of scale one: H = 1 − e^{(t − 1)/2}, B(x) = ex below 1/2e.
    #[test]
    fn a_smooth_minimum_is_found_to_many_digits() {
        let excess = |t: f64| {
            let ln = if t <= -1.0 {
                ln_one_minus_exp(t)
            } else if t < 1.0 {
                ln_one_minus_exp(0.5 * (t - 1.0))
            } else {
                f64::NEG_INFINITY
            };
            LnBounds::exactly(ln).widened(1e-15)
        };
        // In between the half-line from t on is best: B(x) = 1 − 1/4ex.
        for (x, truth) in [
            (0.01f64, 0.01 * 1f64.exp()),
            (0.3, 1.0 - 0.25 / (1f64.exp() * 0.3)),
        ] {
            let mut minimum = Minimum::new(x.ln(), 0.3);
            let mut t = 0.0;
            for _ in 0..24 {
                minimum.add(t, excess(t));
                let Some(next) = minimum.next() else { break };
                t = next;
            }
            let found = minimum.ends();
            assert!(found.lower <= truth.ln() + 1e-12 && truth.ln() <= found.upper + 1e-12);
            assert!(found.width() < 1e-6, "{x} {found:?} {}", truth.ln());
        }
    }
}
