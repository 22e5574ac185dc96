//! Arithmetic for the conversions, rounded towards less privacy.

/// Returns 1/x, rounded down.
pub(in super::super) fn reciprocal_below(x: f64) -> f64 {
    let found = 1.0 / x;
    if found.mul_add(x, -1.0) > 0.0 {
        found.next_down()
    } else {
        found
    }
}

/// Returns 1/x, rounded up.
pub(super) fn reciprocal_above(x: f64) -> f64 {
    let found = reciprocal_below(x);
    if found.mul_add(x, -1.0) >= 0.0 {
        found
    } else {
        found.next_up()
    }
}

/// Returns 1 − p + p/k, the probability of the true category if a uniform category replaces it with
/// probability p. Rounded up unless exact, because more truth is less privacy.
pub(in super::super) fn truth_above(lie: f64, categories: f64) -> f64 {
    let product = lie * (categories - 1.0);
    let quotient = product / categories;
    let truth = 1.0 - quotient;
    let errors = [
        lie.mul_add(categories - 1.0, -product),
        (-quotient).mul_add(categories, product),
        (1.0 - truth) - quotient,
    ];
    let exact = errors.iter().all(|error| error.abs() <= 0.0);
    if exact {
        truth
    } else {
        truth.next_up().next_up().min(1.0)
    }
}

/// Returns the probability p of a uniform answer whose [`truth_above`] is no less than `truth`.
pub(super) fn lie_below(truth: f64, categories: f64) -> f64 {
    let mut lie = (1.0 - truth) * categories / (categories - 1.0);
    // Lower p by one or two roundings of the truth until it reads back as no less.
    for _ in 0..4 {
        if truth_above(lie, categories) < truth {
            lie = (lie - f64::EPSILON).max(0.0);
        }
    }
    lie
}
