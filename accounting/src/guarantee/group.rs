//! Guarantees for several records at once, derived from guarantees for single records.
//!
//! The exact way is a [`Query`](crate::Query) with a group size, which uses the mixture of all k records. The lemma
//! here needs only (ε_i, δ_i) and is looser.

use crate::compose::solver::Solver;
use crate::guarantee::calibrate::search::{Trial, interpolate};
use crate::loss::PrivacyLoss;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Delta, Epsilon, GroupSize, Tolerance};
use std::cell::RefCell;

/// The initial precision of a single record's values in the search for a group's ε.
const ROUGH: f64 = 1e-3;
/// The least ε at which that search begins, and its stride until the lemma holds; logarithms from here on.
const LEAST: f64 = 1e-12;
const STRIDE: f64 = 0.4;
/// The search ends at this ε: ln 10^6.
const FARTHEST: f64 = 13.8;
/// The finest relative width of the result.
const FINEST: f64 = 1e-9;

/// Applies the group lemma: (Σ ε_i, Σ_i δ_i e^{ε_1 + … + ε_{i−1}}), in the order that minimises δ.
///
/// Bound: upper. The best order is ascending in (e^{ε_i} − 1)/δ_i (for equal δ: ascending ε). Source: CRT Prop. 5,
/// whose k e^{kε} δ is looser.
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
        // A record without loss may go anywhere; one without δ goes last.
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

/// Returns (kε, k e^{kε} δ) for k equal records, the bound printed in CRT's Proposition 5.
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
    /// Returns ε of `group` records at `delta` by the lemma, if this is the loss of a single record.
    ///
    /// With δ_1 = δ (e^ε − 1)/(e^{kε} − 1), the group has (kε(δ_1), δ). Bound: upper.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if the single record's ε can't be certified.
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
        let solver = RefCell::new(Solver::new(self));
        let least = |share: f64| Ok(solver.borrow_mut().epsilon(share, ROUGH)?.upper);
        let most =
            |epsilon: f64, goal: f64| Ok(solver.borrow_mut().ln_delta(epsilon, goal)?.0.upper);
        let each = each_by_lemma((k, delta.get()), tolerance.get(), least, most)?;
        Ok(Upper::new(Epsilon::nonnegative(k * each)))
    }

    /// Returns δ of `group` records at `epsilon` by the lemma: δ_k(ε) ≤ δ(ε/k) (e^ε − 1)/(e^{ε/k} − 1).
    ///
    /// Bound: upper.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if the single record's δ can't be certified.
    pub fn delta_by_group_lemma(
        &self,
        group: GroupSize,
        epsilon: Epsilon,
        tolerance: Tolerance,
    ) -> Result<Upper<Delta>> {
        let k = f64::from(group.get());
        // Rounded down: a smaller ε has a larger δ.
        let each = Epsilon::new(epsilon.get() / k * (1.0 - 1e-15))?;
        // Computed as a logarithm: the sum may bring a value below the smallest number back into range.
        let (single, _) = Solver::new(self).ln_delta(each.get(), 0.5 * tolerance.get())?;
        if single.upper == f64::NEG_INFINITY {
            return Ok(Upper::new(Delta::clamped(0.0)));
        }
        if epsilon.get().is_infinite() {
            return Ok(Upper::new(Delta::clamped(1.0)));
        }
        let ln_most = single.upper + ln_geometric_sum(k, each.get());
        let most = ln_most.min(0.0).exp() * (1.0 + 1e-13);
        Ok(Upper::new(Delta::clamped(most.max(f64::MIN_POSITIVE))))
    }
}

/// Returns the least ε found for a single record at which the lemma gives k records δ: δ(ε) Σ_{i<k} e^{iε} ≤ δ.
/// `epsilon` returns an upper end of ε(δ') of a single record, `ln_delta` an upper end of ln δ(ε) to a relative goal.
///
/// # Errors
/// Returns the errors of both functions.
fn each_by_lemma(
    (k, delta): (f64, f64),
    tolerance: f64,
    epsilon: impl Fn(f64) -> Result<f64>,
    ln_delta: impl Fn(f64, f64) -> Result<f64>,
) -> Result<f64> {
    // The sum is k at ε = 0 and no less elsewhere. If ε(δ/k) is zero, so is the answer; otherwise the lemma holds
    // nowhere below ε(δ/k).
    let share = (delta / k * (1.0 - f64::EPSILON)).max(f64::MIN_POSITIVE);
    let single = epsilon(share)?;
    if single <= 0.0 && k * share <= delta {
        return Ok(0.0);
    }
    let ln_allowed = delta.ln();
    let above = |epsilon: f64, goal: f64| -> Result<f64> {
        let most = ln_delta(epsilon, goal)? + ln_geometric_sum(k, epsilon);
        // The comparison of the numbers decides the sign; NaN isn't certified.
        Ok(match most <= ln_allowed {
            true => (most - ln_allowed).min(0.0),
            false => (most - ln_allowed).max(f64::MIN_POSITIVE),
        })
    };
    // The same precision as in `delta_by_group_lemma`, so that both agree on where the lemma holds.
    let fine = (0.5 * tolerance).min(ROUGH);
    let at = |x: f64, rough: f64| -> Result<Trial> {
        let mut goal = rough.clamp(fine, ROUGH);
        loop {
            let margin = above(x.exp(), goal)?;
            // A failure within the precision of the goal may turn out to hold.
            let open = margin > 0.0 && margin <= 2.0 * goal && goal > fine;
            if !open {
                return Ok(Trial { x, margin });
            }
            goal = (ROUGH * goal).max(fine);
        }
    };
    // The lemma may fail again farther out, so the search proceeds from below. It first moves upwards because the
    // single record's value is rough.
    let mut safe = at(single.max(LEAST).ln(), ROUGH)?;
    let mut fails = None;
    while safe.margin > 0.0 {
        let next = safe.x + STRIDE;
        if next > FARTHEST {
            return Ok(f64::INFINITY);
        }
        (fails, safe) = (Some(safe), at(next, ROUGH)?);
    }
    let mut stride = STRIDE;
    let fails = loop {
        if let Some(fails) = fails {
            break fails;
        }
        let before = at(safe.x - stride, ROUGH)?;
        if before.margin > 0.0 {
            break before;
        }
        safe = before;
        if safe.x < LEAST.ln() {
            return Ok(safe.x.exp());
        }
        stride *= 2.0;
    };
    let width = tolerance.max(FINEST) * (1.0 - 1e-3);
    let (_, safe) = interpolate(&at, fails, safe, width)?;
    Ok(safe.x.exp())
}

/// Returns δ of `group` records at `epsilon` by the lemma, the worst over the directions of a single record.
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

/// Returns whether the lemma may stand in if the law of a group isn't known. The single record's guarantee has to cover
/// each step from one input to the next; adding or removing records changes the size of the input, on which some
/// samplers depend.
pub(crate) fn lemma_stands_in(neighbours: Neighbours) -> bool {
    neighbours != Neighbours::AddRemove
}

/// Returns ln Σ_{i<k} e^{iε}, rounded up.
fn ln_geometric_sum(k: f64, epsilon: f64) -> f64 {
    let sum = match epsilon > 0.0 {
        true => ln_expm1(k * epsilon) - ln_expm1(epsilon),
        false => k.ln(),
    };
    sum + 1e-12 + 4.0 * f64::EPSILON * k * epsilon
}

/// Returns ln(e^x − 1) for x > 0.
fn ln_expm1(x: f64) -> f64 {
    if x > 30.0 {
        x + (-(-x).exp()).ln_1p()
    } else {
        x.exp_m1().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Zero at once where that is the answer, and few questions where it is not: halvings from 1e-12 down to the least
    /// numbers took an engine each.
    #[test]
    fn a_group_is_found_by_few_questions() {
        let (k, tolerance) = (7.0, 1e-6);
        // About a Gaussian's, for δ(0) = e^−3.
        let ln_delta = |epsilon: f64| -3.0 - 5.0 * epsilon - 40.0 * epsilon * epsilon;
        let single = |share: f64| {
            let gap = -3.0 - share.ln();
            if gap <= 0.0 {
                0.0
            } else {
                (-5.0 + (25.0 + 160.0 * gap).sqrt()) / 80.0
            }
        };
        for (delta, questions) in [
            (0.9, 0),
            (7.0 * (-3.0f64).exp() * 1.001, 0),
            (0.1, 14),
            (1e-3, 14),
            (1e-40, 14),
        ] {
            let calls = Cell::new(0);
            let count = |epsilon: f64, _: f64| {
                calls.set(calls.get() + 1);
                Ok(ln_delta(epsilon))
            };
            let single = |share: f64| Ok(single(share));
            let found = each_by_lemma((k, delta), tolerance, single, count).unwrap();
            assert!(
                calls.get() <= questions,
                "{delta}: {} questions",
                calls.get()
            );
            let holds =
                |epsilon: f64| ln_delta(epsilon) + ln_geometric_sum(k, epsilon) <= delta.ln();
            assert!(holds(found), "{delta} {found}");
            assert!(
                found <= 0.0 || !holds(found * (1.0 - tolerance)),
                "{delta} {found}"
            );
        }
        // An upper end that is as loose as its goal allows costs no more than the tolerance.
        let loose = |epsilon: f64, goal: f64| Ok(ln_delta(epsilon) + goal);
        let found = each_by_lemma((k, 1e-3), tolerance, |share| Ok(single(share)), loose).unwrap();
        let holds = |epsilon: f64| ln_delta(epsilon) + ln_geometric_sum(k, epsilon) <= 1e-3f64.ln();
        assert!(!holds(found * (1.0 - 3.0 * tolerance)), "{found}");
        // Nothing holds anywhere, and what is no number holds nothing.
        for never in [0.0, f64::NAN] {
            let found = each_by_lemma((k, 1e-5), tolerance, |_| Ok(1.0), |_, _| Ok(never)).unwrap();
            assert!(found == f64::INFINITY, "{found}");
        }
    }
}
