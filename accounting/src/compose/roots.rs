//! Finds where a decreasing function passes a level: roots and certified ends.

use crate::numeric::interval::LnBounds;
use crate::numeric::search::bisect;

/// Relative room in δ with which both ends of ε are certified, so that a few rounding errors of δ
/// before or after the search are harmless.
pub(crate) const ROOM: f64 = 1e-12;
/// A change of ln δ that is larger than rounding errors.
const STEEP: f64 = 1e-9;
/// Ends this close to their middle, relatively, are as good as equal.
const CLOSE: f64 = 1e-9;

/// Returns the approximate point where a function that decreases on [0, ∞) crosses zero, to a relative
/// `tolerance`. Uses secants between the ends of a bracket, halving the value at the end that stays
/// each time.
fn crossing(f: impl Fn(f64) -> f64, tolerance: f64) -> f64 {
    let (mut low, mut high) = (0.25, 1.0);
    let (mut at_low, mut at_high) = (f(low), f(high));
    while at_high > 0.0 && high < 1e300 {
        (low, at_low) = (high, at_high);
        high *= 4.0;
        at_high = f(high);
    }
    while at_low <= 0.0 && low > 1e-12 {
        (high, at_high) = (low, at_low);
        low *= 0.25;
        at_low = f(low);
    }
    for _ in 0..60 {
        if high - low <= tolerance * high {
            break;
        }
        let secant = high - at_high * (high - low) / (at_high - at_low);
        let middle = if secant > low && secant < high {
            secant
        } else {
            0.5 * (low + high)
        };
        let value = f(middle);
        if value > 0.0 {
            (low, at_low) = (middle, value);
            at_high *= 0.5;
        } else {
            (high, at_high) = (middle, value);
            at_low *= 0.5;
        }
    }
    0.5 * (low + high)
}

/// Returns both ends of the ε ≥ 0 at which ln δ of a single step passes `ln_delta`, about a relative
/// `tolerance` apart: δ is certified to be at most the given one at the upper end, and at least that
/// at the lower end.
pub(crate) fn ends_of_step(
    at: impl Fn(f64) -> LnBounds,
    ln_delta: f64,
    tolerance: f64,
) -> (f64, f64) {
    let above = |epsilon: f64| at(epsilon).upper <= ln_delta - ROOM;
    let below = |epsilon: f64| at(epsilon).lower >= ln_delta + ROOM;
    if above(0.0) {
        return (0.0, 0.0);
    }
    let centre = crossing(|epsilon| at(epsilon).middle - ln_delta, 0.02 * tolerance);
    let step = 0.05 * tolerance * centre;
    if step > 0.0 && below(centre - step) && above(centre + step) {
        return (centre - step, centre + step);
    }
    let upper = bisect(above, 0.125 * tolerance);
    let lower = bisect(|epsilon| !below(epsilon), 0.125 * tolerance);
    (lower.0, upper.1)
}

/// Returns both ends of the ε ≥ 0 at which a decreasing ln δ passes `ln_delta`, searching from `start`
/// with a first guess of the slope's size: δ is certified to be at most the given one at the upper
/// end, which is infinite if none was found, and at least that at the lower end.
pub(crate) fn both_ends(
    at: &dyn Fn(f64) -> LnBounds,
    ln_delta: f64,
    start: f64,
    slope: f64,
) -> (f64, f64) {
    let (root, slope) = root(|epsilon| at(epsilon).middle - ln_delta, start, slope);
    let ends = at(root);
    let outwards = |distance: f64, missing: &dyn Fn(f64) -> f64| {
        reach(distance.max(0.0) / slope, root, &|step| {
            missing(step) / slope
        })
    };
    let level = ln_delta - ROOM;
    let upper = outwards(ends.upper - ends.middle, &|step| {
        at(root + step).upper - level
    });
    let level = ln_delta + ROOM;
    let lower = outwards(ends.middle - ends.lower, &|step| {
        if root - step <= 0.0 {
            0.0
        } else {
            level - at(root - step).lower
        }
    });
    (
        lower.map_or(0.0, |step| (root - step).max(0.0)),
        upper.map_or(f64::INFINITY, |step| (root + step).max(0.0)),
    )
}

/// Returns a distance from the root, `first` or slightly more, at which nothing is missing any more;
/// `missing` returns what is missing, as a distance. `None` if there is no such place within reach.
fn reach(first: f64, root: f64, missing: &dyn Fn(f64) -> f64) -> Option<f64> {
    let least = (1e-15 * root.abs()).max(1e-300);
    // If the ends are as good as equal, a little more avoids a second evaluation.
    let more = if first < CLOSE * root.abs() { 1.1 } else { 1.0 };
    let mut step = (more * first).max(least);
    for attempt in 0..62 {
        let left = missing(step);
        if left <= 0.0 {
            return Some(step);
        }
        // Ends that are far apart don't fall as their middle does: use what is left, twice.
        step += if attempt < 2 && left < step {
            (1.1 * left).max(least)
        } else {
            0.5 * step
        };
    }
    None
}

/// Returns a root of a decreasing function on [0, ∞), and |slope| there, starting from `start` and
/// about `slope`. Uses secant steps, kept inside a shrinking bracket; −∞ counts as below the root.
fn root(f: impl Fn(f64) -> f64, start: f64, mut slope: f64) -> (f64, f64) {
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut x = start;
    let mut y = f(x);
    for _ in 0..80 {
        if y > 0.0 {
            low = x
        } else {
            high = x
        }
        let mut next = if y.is_finite() {
            x + y / slope
        } else {
            0.5 * (low + x)
        };
        if next <= low || next >= high {
            next = if high.is_finite() {
                0.5 * (low + high)
            } else {
                2.0 * x + 1e-9
            };
        }
        let value = f(next);
        let moved = next - x;
        if moved.abs() > 1e-14 * x.abs() && value.is_finite() && y.is_finite() {
            let local = (y - value) / moved;
            if local > 0.2 * slope && local < 5.0 * slope {
                slope = local;
            } else if local > 0.0 && (y - value).abs() > STEEP {
                // Changed gradually: one place may differ from the others.
                slope = local.clamp(0.2 * slope, 5.0 * slope);
            }
        }
        (x, y) = (next, value);
        if moved.abs() <= 2e-15 * x.abs() || y.abs() < 1e-15 {
            break;
        }
    }
    (x, slope)
}
