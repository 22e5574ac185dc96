//! What the blow-up says about ranks: ceilings for canaries and other uniform secrets.
//!
//! A secret uniform on N candidates, ranked t or better with probability at most B(t/N), with
//! ties counted at their worst rank and B taken from the zero-out pair of all its copies.

use crate::bound::Upper;
use crate::error::{Error, Result};
use crate::pld::PrivacyLoss;
use crate::quantity::{Probability, Tolerance};

/// A bound on P(rank ≤ `rank`) for a secret drawn uniformly from `candidates`: B(t/N).
///
/// Bound: upper. A secret drawn without replacement from a space that others share has
/// fewer candidates left: pass `candidates` less the number of others.
///
/// ```
/// use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, SamplingRate, Steps, Tolerance, UnitName};
/// use reticent_accounting::{Direction, PrivacyLoss, Query, reconstruction::ceiling::rank_ceiling};
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(2.0)?, SamplingRate::new(0.01)?, Steps::new(500));
/// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::ZeroOut), Direction::Remove)?;
/// let top = rank_ceiling(&loss, 1_000_000, 1, Tolerance::new(1e-6)?)?;
/// assert!(top.get().get() > 1e-6 && top.get().get() < 1e-3);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// [`Error::OutOfRange`] for a rank outside 1..=`candidates`.
pub fn rank_ceiling(
    loss: &PrivacyLoss,
    candidates: u64,
    rank: u64,
    tolerance: Tolerance,
) -> Result<Upper<Probability>> {
    if rank == 0 || rank > candidates {
        return Err(Error::OutOfRange {
            what: "rank",
            range: "[1, candidates]",
            value: rank as f64,
        });
    }
    // Rounded up: the quotient may fall short by half a unit in the last place.
    let share = (rank as f64 / candidates as f64 * (1.0 + f64::EPSILON)).min(1.0);
    let answer = loss.blow_up(Probability::new(share)?, tolerance)?;
    Ok(answer
        .bounds
        .upper
        .unwrap_or(Upper::new(Probability::new(1.0)?)))
}

/// A bound on P(at least `hits` of the secrets are ranked that well) from the ceiling of each:
/// Σ_j B_j / hits (Markov), which needs no independence between the secrets.
///
/// `hits` = 1 is the ceiling for the best of all: Σ_j B_j, not 1 − Π(1 − B_j), since a
/// mechanism that reveals one random secret attains the sum.
///
/// ```
/// use reticent_accounting::{Probability, Upper, reconstruction::ceiling::at_least_ceiling};
/// let each = vec![Upper::new(Probability::new(0.01)?); 10];
/// assert!((at_least_ceiling(&each, 1)?.get().get() - 0.1).abs() < 1e-12);
/// assert!((at_least_ceiling(&each, 5)?.get().get() - 0.02).abs() < 1e-12);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// [`Error::OutOfRange`] for zero hits.
pub fn at_least_ceiling(each: &[Upper<Probability>], hits: usize) -> Result<Upper<Probability>> {
    if hits == 0 {
        return Err(Error::OutOfRange {
            what: "number of hits",
            range: "[1, inf)",
            value: 0.0,
        });
    }
    let sum: f64 = each.iter().map(|bound| bound.get().get()).sum();
    let slack = 1.0 + f64::EPSILON * (each.len() as f64 + 2.0);
    Ok(Upper::new(Probability::new(
        (sum / hits as f64 * slack).min(1.0),
    )?))
}
