//! One-dimensional searches that say on which side they end.

/// A bracket (last false, first true) of relative width `tolerance` for a condition that is
/// false below some point of [0, ∞) and true above; the second end is infinite when no point
/// up to 1e300 satisfies it.
pub(crate) fn bisect(holds: impl Fn(f64) -> bool, tolerance: f64) -> (f64, f64) {
    if holds(0.0) {
        return (0.0, 0.0);
    }
    let (mut low, mut high) = (0.0, 1e-12);
    while !holds(high) {
        low = high;
        high *= 4.0;
        if high > 1e300 {
            return (low, f64::INFINITY);
        }
    }
    while high - low > tolerance * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) {
            high = middle
        } else {
            low = middle
        }
    }
    (low, high)
}

/// A minimiser of a unimodal function on [low, high], to a relative 1e-8 of the interval.
pub(crate) fn golden(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    golden_to(f, low, high, 1e-8)
}

/// As [`golden`], to the share `tolerance` of the interval.
pub(crate) fn golden_to(
    f: impl Fn(f64) -> f64,
    mut low: f64,
    mut high: f64,
    tolerance: f64,
) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut a, mut b) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut at_a, mut at_b) = (f(a), f(b));
    let rounds = (tolerance.ln() / RATIO.ln()).ceil().clamp(4.0, 40.0) as usize;
    for _ in 0..rounds {
        if at_a < at_b {
            high = b;
            (b, at_b) = (a, at_a);
            a = high - RATIO * (high - low);
            at_a = f(a);
        } else {
            low = a;
            (a, at_a) = (b, at_b);
            b = low + RATIO * (high - low);
            at_b = f(b);
        }
    }
    if at_a < at_b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisect_ends_on_both_sides() {
        let (low, high) = bisect(|x| x >= 7.25, 1e-12);
        assert!(low < 7.25 && high >= 7.25 && high - low < 1e-11);
        assert!(bisect(|_| true, 1e-6) == (0.0, 0.0));
        assert!(bisect(|_| false, 1e-6).1 == f64::INFINITY);
    }

    #[test]
    fn golden_finds_a_minimum() {
        assert!((golden(|x| (x - 0.3).powi(2), -1.0, 5.0) - 0.3).abs() < 1e-7);
    }
}
