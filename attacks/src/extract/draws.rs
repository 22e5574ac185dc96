//! Measures of extraction: the number of draws for a text, and the share recovered before a number
//! of errors.

use crate::error::{Result, given, ranged};
use crate::statistics::{check_closed_unit, check_open_unit};

/// Returns the number of draws after which a text of probability `once` has been drawn at least
/// once with probability `wanted`: ⌈ln(1 − wanted)/ln(1 − once)⌉, (n, p)-discoverable extraction
/// (Hayes et al. 2024). The text's probability is given as a logarithm, because products over fifty
/// tokens underflow. Infinite for a text that cannot be drawn.
///
/// ```
/// let draws = reticent_attacks::extract::draws_needed(0.01_f64.ln(), 0.5)?;
/// assert_eq!(draws, 69.0);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the logarithm is positive or NaN, or if `wanted` is outside (0, 1).
pub fn draws_needed(ln_once: f64, wanted: f64) -> Result<f64> {
    check_ln(ln_once)?;
    check_open_unit("wanted probability", wanted)?;
    // ln(1 − p) = −p for the smallest p.
    let ln_miss = if ln_once < -700.0 {
        -ln_once.exp()
    } else {
        (-ln_once.exp()).ln_1p()
    };
    Ok((((-wanted).ln_1p() / ln_miss) - 1e-12).ceil().max(1.0))
}

/// Returns P(a text of probability `once` is drawn in `draws` draws): 1 − (1 − once)^draws,
/// computed so that it stays accurate where the power would lose every digit.
///
/// ```
/// let p = reticent_attacks::extract::probability_of_extraction(1e-20_f64.ln(), 1e18)?;
/// assert!((p - 0.009_950_166_250_831_947).abs() < 1e-12); // 1 − (1 − p)^n is 0
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the logarithm is positive or NaN, or if the number of draws is negative or
/// NaN.
pub fn probability_of_extraction(ln_once: f64, draws: f64) -> Result<f64> {
    check_ln(ln_once)?;
    ranged("draws", "[0, inf]", draws, draws >= 0.0)?;
    if draws <= 0.0 || ln_once == f64::NEG_INFINITY {
        return Ok(0.0);
    }
    // Any text that can be drawn, however small its probability.
    if draws.is_infinite() {
        return Ok(1.0);
    }
    Ok(-(draws * (-ln_once.exp()).ln_1p()).exp_m1())
}

/// Returns the share of `examples` recovered before the `errors`-th wrong guess, for guesses in
/// order of decreasing confidence. A guess names its example and whether it is right; an example
/// counts once.
///
/// # Errors
/// Returns an error if there is no example, or if `errors` is 0.
pub fn recall_at_errors(guesses: &[(u64, bool)], examples: u64, errors: u64) -> Result<f64> {
    given(examples > 0, "no example was given")?;
    ranged("errors", "[1, inf)", errors, errors > 0)?;
    let mut solved = std::collections::BTreeSet::new();
    let mut wrong = 0;
    for &(example, right) in guesses {
        if right {
            solved.insert(example);
        } else {
            wrong += 1;
            if wrong >= errors {
                break;
            }
        }
    }
    let recall = solved.len() as f64 / examples as f64;
    check_closed_unit("recall (more examples solved than there are)", recall)?;
    Ok(recall)
}

fn check_ln(ln_p: f64) -> Result<()> {
    ranged("ln p of a text", "[-inf, 0]", ln_p, ln_p <= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zero times infinity was NaN, also for a probability that underflows.
    #[test]
    fn infinitely_many_draws_find_what_can_be_drawn() {
        let of = |ln_once, draws| probability_of_extraction(ln_once, draws).unwrap();
        let (never, forever) = (f64::NEG_INFINITY, f64::INFINITY);
        for (ln_once, draws, wanted) in [
            (never, forever, 0.0),
            (never, 5.0, 0.0),
            (-1.0, forever, 1.0),
            (-800.0, forever, 1.0),
            (0.0, 1.0, 1.0),
        ] {
            assert_eq!(of(ln_once, draws).to_bits(), f64::to_bits(wanted));
        }
    }
}
