//! Reconstruction of a redacted secret: what can still be guessed if most secrets are caught.
//!
//! A secret is uniform on N contents; the policy misses a share γ of them, and both policies miss a share η. A guess
//! counts if the secret is among the t guessed contents. B is the blow-up of the pair (secret, `<MASK>`): replace, all
//! records of the secret.

use super::several::least_sum;
use crate::guarantee::redaction::Redaction;
use crate::loss::PrivacyLoss;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Probability, Tolerance};

/// The cause of a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedBy {
    /// The content itself (a pattern that doesn't match some contents): the adversary knows which.
    Content,
    /// Chance, independent of the content.
    Chance,
}

/// Returns a bound on P(the secret is among `guesses` guessed contents of `candidates`).
///
/// * by content: η + max over 0 ≤ u ≤ t of (t−u)/N + (γ−η) B(u/((γ−η)N)), which is
///   η + t/N + (γ−η)·max over x ≤ min(1, t/((γ−η)N)) of (B(x) − x);
/// * by chance: η + (1−γ) t/N + (γ−η) B(t/N).
///
/// Bound: upper, increasing in γ and η. `loss` is the replace pair. Holds against adversaries who know everything
/// except the secret.
///
/// ```
/// use reticent_accounting::{Direction, Mechanism, MissRate, Neighbours, NoiseMultiplier, PrivacyLoss, Query, Tolerance};
/// use reticent_accounting::redaction::Redaction;
/// use reticent_accounting::reconstruction::redacted::{MissedBy, guess_ceiling};
/// let run = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new(4.0)? };
/// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::Replace), Direction::Remove)?;
/// let redaction = Redaction::single_policy(MissRate::new(0.1)?);
/// let ceiling = |by| guess_ceiling(&loss, redaction, 1_000_000, 1, by, Tolerance::new(1e-6)?);
/// let (content, chance) = (ceiling(MissedBy::Content)?, ceiling(MissedBy::Chance)?);
/// assert!(chance.get() < content.get());
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] if `guesses` lies outside 1..=`candidates`; otherwise as [`PrivacyLoss::blow_up`].
pub fn guess_ceiling(
    loss: &PrivacyLoss,
    redaction: Redaction,
    candidates: u64,
    guesses: u64,
    missed_by: MissedBy,
    tolerance: Tolerance,
) -> Result<Upper<Probability>> {
    if guesses == 0 || guesses > candidates {
        return Err(Error::out_of_range(
            "guesses",
            "[1, candidates]",
            guesses as f64,
        ));
    }
    let (gamma, eta) = (redaction.miss().get(), redaction.missed_by_both().get());
    // Rounded up, here and below.
    let share = (guesses as f64 / candidates as f64 * (1.0 + f64::EPSILON)).min(1.0);
    let private = gamma - eta;
    let bound = match missed_by {
        MissedBy::Chance => {
            let blown = loss.blow_up(Probability::new(share)?, tolerance)?.bounds;
            let blown = blown.upper.map_or(1.0, |end| end.get().get());
            eta + (1.0 - gamma) * share + private * blown
        }
        MissedBy::Content if private > 0.0 => {
            let most = (share / private * (1.0 + f64::EPSILON)).min(1.0);
            eta + share + private * largest_gain(loss, most, tolerance)?
        }
        MissedBy::Content => eta + share,
    };
    let bound = (bound * (1.0 + 8.0 * f64::EPSILON)).min(1.0);
    Ok(Upper::new(Probability::new(bound)?))
}

/// Returns an upper bound on the maximum of B(x) − x over x ≤ `most`.
///
/// For every s ≥ 0 and x ≤ `most`, B(x) − x ≤ H_{e^s} + (e^s − 1)·`most`; the least of these bounds is the maximum
/// itself, at s = 0 (the total variation) or where Q(L > s) = `most`. Any s is safe.
fn largest_gain(loss: &PrivacyLoss, most: f64, tolerance: Tolerance) -> Result<f64> {
    let line = |s: f64| s.exp_m1() * most;
    Ok(least_sum(std::slice::from_ref(loss), most, line, tolerance)?.min(1.0))
}
