//! The number of draws for a text.

use crate::error::{Result, ranged};
use crate::statistics::check_open_unit;

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

fn check_ln(ln_p: f64) -> Result<()> {
    ranged("ln p of a text", "[-inf, 0]", ln_p, ln_p <= 0.0)
}
