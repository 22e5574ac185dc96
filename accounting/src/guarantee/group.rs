//! Several records at once, from guarantees about single ones.
//!
//! The exact way is a [`Query`](crate::Query) with a group size: the mixture of all k records.
//! The lemma here needs only (ε_i, δ_i) and is looser.

use crate::compose::solver::Solver;
use crate::loss::PrivacyLoss;
use crate::numeric::search::between;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Delta, Epsilon, GroupSize, Tolerance};

/// How exactly a single record is known in the search for a group's ε.
const ROUGH: f64 = 1e-3;
/// Where that search begins at least, and from one place to the next until the lemma holds.
const LEAST: f64 = 1e-12;
const STRIDE: f64 = 1.5;

/// The group lemma: (Σ ε_i, Σ_i δ_i e^{ε_1 + … + ε_{i−1}}), in the order that makes δ least.
///
/// Bound: upper. The best order is ascending in (e^{ε_i} − 1)/δ_i (for equal δ: ascending ε).
/// Source: CRT Prop. 5, whose k e^{kε} δ is looser.
///
/// ```
/// use reticent_accounting::{Delta, Epsilon, group::group_lemma};
/// let each = vec![(Epsilon::new(0.5)?, Delta::new(1e-6)?); 5];
/// let (epsilon, delta) = group_lemma(&each);
/// assert!((epsilon.get().get() - 2.5).abs() < 1e-12);
/// // (e^{5/2} − 1)/(e^{1/2} − 1) · 1e-6 = 1.72e-5, where the paper's bound says 6.09e-5.
/// assert!((delta.get().get() - 1.7238e-5).abs() < 1e-9);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[must_use]
pub fn group_lemma(each: &[(Epsilon, Delta)]) -> (Upper<Epsilon>, Upper<Delta>) {
    let mut sorted = each.to_vec();
    let key = |each: &(Epsilon, Delta)| {
        // A record without any loss goes anywhere; one without δ goes last.
        if each.0.get() <= 0.0 {
            0.0
        } else {
            each.0.get().exp_m1() / each.1.get()
        }
    };
    sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let (mut epsilon, mut delta) = (0.0f64, 0.0f64);
    for (each_epsilon, each_delta) in sorted {
        if each_delta.get() > 0.0 {
            delta += (epsilon + each_delta.get().ln()).exp();
        }
        epsilon += each_epsilon.get();
    }
    let slack = 1.0 + 4.0 * f64::EPSILON * (each.len() as f64 + 4.0 + epsilon.min(1e3));
    (
        Upper::new(Epsilon::nonnegative(epsilon * slack)),
        Upper::new(Delta::clamped(delta * slack)),
    )
}

/// (kε, k e^{kε} δ) of k alike records: what CRT's Proposition 5 prints.
///
/// Bound: upper, looser than [`group_lemma`]; kept to reproduce the paper's numbers.
///
/// ```
/// use reticent_accounting::{Delta, Epsilon, GroupSize, group::paper_group_bound};
/// let (epsilon, delta) = paper_group_bound(GroupSize::new(5)?, Epsilon::new(0.5)?, Delta::new(1e-6)?);
/// assert!((epsilon.get().get() - 2.5).abs() < 1e-12);
/// assert!((delta.get().get() / 6.091246980351737e-05 - 1.0).abs() < 1e-13);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[must_use]
pub fn paper_group_bound(
    group: GroupSize,
    epsilon: Epsilon,
    delta: Delta,
) -> (Upper<Epsilon>, Upper<Delta>) {
    let k = f64::from(group.get());
    let total = k * epsilon.get();
    let slack = 1.0 + f64::EPSILON * (4.0 + total.min(1e3));
    let share = if delta.get() > 0.0 {
        k * (total + delta.get().ln()).exp() * slack
    } else {
        0.0
    };
    (
        Upper::new(Epsilon::nonnegative(total * (1.0 + f64::EPSILON))),
        Upper::new(Delta::clamped(share)),
    )
}

impl PrivacyLoss {
    /// ε of `group` records at `delta` by the lemma, from this loss of a single record.
    ///
    /// With δ_1 = δ (e^ε − 1)/(e^{kε} − 1), the group is (kε(δ_1), δ). Bound: upper.
    ///
    /// # Errors
    /// [`Error::NotCertified`] when the single record's ε can't be certified.
    pub fn epsilon_by_group_lemma(
        &self,
        group: GroupSize,
        delta: Delta,
        tolerance: Tolerance,
    ) -> Result<Upper<Epsilon>> {
        let k = f64::from(group.get());
        if group == GroupSize::ONE || delta.get() >= 1.0 || self.is_empty() || self.unbounded {
            let single = self.epsilon(delta, tolerance)?.bounds.upper;
            return single.ok_or(Error::NotCertified {
                what: "epsilon",
                why: "no upper end".into(),
            });
        }
        let mut solver = Solver::new(self);
        // The sum is k at ε = 0 and no less elsewhere: where ε(δ/k) is zero so is the answer, and elsewhere the lemma
        // holds nowhere below it.
        let share = (delta.get() / k * (1.0 - f64::EPSILON)).max(f64::MIN_POSITIVE);
        let single = solver.epsilon(share, ROUGH)?.upper;
        if single <= 0.0 && k * share <= delta.get() {
            return Ok(Upper::new(Epsilon::new(0.0)?));
        }
        // The lemma holds at any ε where δ(ε)·sum is at most δ. It may fail again farther out: from below.
        let ln_delta = delta.get().ln();
        let mut missing = |epsilon: f64| -> Result<f64> {
            let (ends, _) = solver.ln_delta(epsilon, ROUGH)?;
            let most = ends.upper + ln_geometric_sum(k, epsilon);
            // The sign is decided by the numbers themselves, and what is no number is not certified.
            Ok(match most <= ln_delta {
                true => (most - ln_delta).min(0.0),
                false => (most - ln_delta).max(f64::MIN_POSITIVE),
            })
        };
        let (mut low, mut at_low) = (0.0, k.ln() - ln_delta);
        let mut high = single.max(LEAST);
        let mut at_high = missing(high)?;
        while at_high > 0.0 {
            (low, at_low) = (high, at_high);
            high *= STRIDE;
            if high > 1e6 {
                return Ok(Upper::new(Epsilon::nonnegative(f64::INFINITY)));
            }
            at_high = missing(high)?;
        }
        let tolerance = tolerance.get().max(1e-9);
        (low, high) = between(&mut missing, (low, at_low), (high, at_high), tolerance)?;
        while high - low > tolerance * high {
            let middle = 0.5 * (low + high);
            if missing(middle)? <= 0.0 {
                high = middle
            } else {
                low = middle
            }
        }
        Ok(Upper::new(Epsilon::nonnegative(k * high)))
    }

    /// δ of `group` records at `epsilon` by the lemma: δ_k(ε) ≤ δ(ε/k) (e^ε − 1)/(e^{ε/k} − 1).
    ///
    /// Bound: upper.
    ///
    /// # Errors
    /// [`Error::NotCertified`] when the single record's δ can't be certified.
    pub fn delta_by_group_lemma(
        &self,
        group: GroupSize,
        epsilon: Epsilon,
        tolerance: Tolerance,
    ) -> Result<Upper<Delta>> {
        let k = f64::from(group.get());
        // Rounded down: a smaller ε has a larger δ.
        let each = Epsilon::new(epsilon.get() / k * (1.0 - 1e-15))?;
        let single = self.delta(each, tolerance)?.bounds;
        let single = single.upper.map_or(1.0, |end| end.get().get());
        if single <= 0.0 || epsilon.get().is_infinite() {
            return Ok(Upper::new(Delta::clamped(single.signum().max(0.0))));
        }
        let ln_most = single.ln() + ln_geometric_sum(k, each.get());
        Ok(Upper::new(Delta::clamped(
            ln_most.min(0.0).exp() * (1.0 + 1e-13),
        )))
    }
}

/// δ of `group` records at `epsilon` by the lemma, the worst over the directions of a single record.
pub(crate) fn delta_by_lemma<'a>(
    directions: impl IntoIterator<Item = &'a PrivacyLoss>,
    group: GroupSize,
    epsilon: Epsilon,
    tolerance: Tolerance,
) -> Result<Upper<Delta>> {
    let mut most = Upper::new(Delta::clamped(0.0));
    for loss in directions {
        let each = loss.delta_by_group_lemma(group, epsilon, tolerance)?;
        most = if each > most { each } else { most };
    }
    Ok(most)
}

/// Whether the lemma stands in where the law of a group is not known. Each step from one input to the next has to
/// be one that the single record's guarantee covers: records that come or go change the size of the input, on
/// which some samplers depend.
pub(crate) fn lemma_stands_in(neighbours: Neighbours) -> bool {
    neighbours != Neighbours::AddRemove
}

/// ln Σ_{i<k} e^{iε}, rounded up.
fn ln_geometric_sum(k: f64, epsilon: f64) -> f64 {
    let sum = match epsilon > 0.0 {
        true => ln_expm1(k * epsilon) - ln_expm1(epsilon),
        false => k.ln(),
    };
    sum + 1e-12 + 4.0 * f64::EPSILON * k * epsilon
}

/// ln(e^x − 1) for x > 0.
fn ln_expm1(x: f64) -> f64 {
    if x > 30.0 {
        x + (-(-x).exp()).ln_1p()
    } else {
        x.exp_m1().ln()
    }
}
