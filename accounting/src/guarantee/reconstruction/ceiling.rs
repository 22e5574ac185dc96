//! Ceilings on the ranks of canaries and other uniform secrets, from the blow-up.
//!
//! A secret that is uniform on N candidates is ranked t or better with probability at most B(t/N), if ties count at
//! their worst rank and B is that of the zero-out pair of all its copies.

use crate::loss::PrivacyLoss;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Probability, Tolerance};

/// Returns a bound on P(rank ≤ `rank`) for a secret drawn uniformly from `candidates`: B(t/N).
///
/// Bound: upper. A secret drawn without replacement from a space shared with other secrets has fewer candidates left:
/// pass `candidates` minus the number of others.
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
/// Returns [`Error::OutOfRange`] if the rank lies outside 1..=`candidates`.
pub fn rank_ceiling(
    loss: &PrivacyLoss,
    candidates: u64,
    rank: u64,
    tolerance: Tolerance,
) -> Result<Upper<Probability>> {
    if rank == 0 || rank > candidates {
        return Err(Error::out_of_range("rank", "[1, candidates]", rank as f64));
    }
    // Rounded up: the quotient may fall short by half a unit in the last place.
    let share = (rank as f64 / candidates as f64 * (1.0 + f64::EPSILON)).min(1.0);
    let answer = loss.blow_up(Probability::new(share)?, tolerance)?;
    Ok(answer
        .bounds
        .upper
        .unwrap_or(Upper::new(Probability::new(1.0)?)))
}

/// Returns a bound on P(at least `hits` of the secrets are ranked that well) from the ceiling of each: Σ_j B_j / hits
/// (Markov), which needs no independence between the secrets.
///
/// `hits` = 1 gives the ceiling for the best of all: Σ_j B_j, not 1 − Π(1 − B_j), because a mechanism that reveals one
/// random secret attains the sum.
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
/// Returns [`Error::OutOfRange`] for zero hits.
pub fn at_least_ceiling(each: &[Upper<Probability>], hits: usize) -> Result<Upper<Probability>> {
    if hits == 0 {
        return Err(Error::out_of_range("number of hits", "[1, inf)", 0.0));
    }
    let sum: f64 = each.iter().map(|bound| bound.get().get()).sum();
    let slack = 1.0 + f64::EPSILON * (each.len() as f64 + 2.0);
    Ok(Upper::new(Probability::new(
        (sum / hits as f64 * slack).min(1.0),
    )?))
}

/// Returns a bound on P(exposure ≥ `bits`): B(2^−bits), because a secret of that exposure is among the first N·2^−bits
/// of its N candidates.
///
/// Bound: upper. For the best of several secrets, pass each secret's ceiling to [`at_least_ceiling`] with one hit; for
/// a secret in several records, pass the `loss` of all of them (before or after deduplication, whichever is trained
/// on).
///
/// ```
/// use reticent_accounting::{Direction, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Query, SamplingRate, Steps, Tolerance};
/// use reticent_accounting::reconstruction::ceiling::exposure_ceiling;
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(2.0)?, SamplingRate::new(0.01)?, Steps::new(500));
/// let ceiling = |copies| {
///     let query = Query { neighbours: Neighbours::ZeroOut, group: GroupSize::new(copies)? };
///     let loss = PrivacyLoss::of(&run, query, Direction::Remove)?;
///     exposure_ceiling(&loss, 10.0, Tolerance::new(1e-6)?)
/// };
/// assert!(ceiling(20)?.get() > ceiling(1)?.get());
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a negative exposure.
pub fn exposure_ceiling(
    loss: &PrivacyLoss,
    bits: f64,
    tolerance: Tolerance,
) -> Result<Upper<Probability>> {
    if bits.is_nan() || bits < 0.0 {
        return Err(Error::out_of_range("exposure in bits", "[0, inf)", bits));
    }
    let share = ((-bits).exp2() * (1.0 + 2.0 * f64::EPSILON)).min(1.0);
    let answer = loss.blow_up(Probability::new(share)?, tolerance)?;
    Ok(answer.bounds.upper.unwrap_or(Upper::new(Probability::ONE)))
}

/// Returns an exposure that, with probability at least `level`, none of the secrets reaches: the bits at which Σ_j
/// B_j(2^−bits) falls to 1 − `level`.
///
/// Bound: upper, by bisection that ends on the safe side; infinite if the sum doesn't fall that far within 1000 bits.
/// The loss is that of one secret with all its copies, and `alike` secrets share it.
///
/// ```
/// use reticent_accounting::{Direction, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Probability, Query, SamplingRate, Steps, Tolerance};
/// use reticent_accounting::reconstruction::ceiling::best_exposure_ceiling;
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(2.0)?, SamplingRate::new(0.01)?, Steps::new(500));
/// let loss = PrivacyLoss::of(&run, Query::single(Neighbours::ZeroOut), Direction::Remove)?;
/// let bits = best_exposure_ceiling(&loss, 10, Probability::new(0.95)?, Tolerance::new(1e-6)?)?;
/// // Without any training: Σ 2^−bits = 0.05 at log2(200) = 7.64.
/// assert!(*bits.get() > 200f64.log2());
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for no secret or a level of one.
pub fn best_exposure_ceiling(
    loss: &PrivacyLoss,
    alike: u64,
    level: Probability,
    tolerance: Tolerance,
) -> Result<Upper<f64>> {
    if alike == 0 {
        return Err(Error::out_of_range("number of secrets", "[1, 2^64)", 0.0));
    }
    if level.get() >= 1.0 {
        return Err(Error::out_of_range("level", "[0, 1)", level.get()));
    }
    let holds = |bits: f64| -> Result<bool> {
        let each = exposure_ceiling(loss, bits, tolerance)?;
        Ok(each.get().get() * alike as f64 * (1.0 + 4.0 * f64::EPSILON) <= 1.0 - level.get())
    };
    let (mut low, mut high) = (0.0, 1.0);
    while !holds(high)? {
        low = high;
        high *= 2.0;
        if high > 1000.0 {
            return Ok(Upper::new(f64::INFINITY));
        }
    }
    while high - low > 1e-6 * high {
        let middle = 0.5 * (low + high);
        if holds(middle)? {
            high = middle
        } else {
            low = middle
        }
    }
    Ok(Upper::new(high))
}
