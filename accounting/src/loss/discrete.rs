//! Laws with finitely many outcomes, and two continuous ones with bounded loss.

use super::atoms::{Atoms, WholeNumbers};
use super::{Atom, Attained, Comb, Density, LossDistribution, Piece, Shape};
use crate::numeric::special::{ROUND, ln_one_minus_exp};
use crate::numeric::sum::Sum;
use crate::quantity::Probability;
use crate::quantity::decimal::shown;
use crate::quantity::error::{Error, Result};
use std::f64::consts::LN_2;

/// Discrete Gaussians wider than this have too many outcomes to list.
const WIDEST_DISCRETE: f64 = 1e4;
/// The reach in standard deviations; beyond it lies less than the smallest normal number.
const DISCRETE_REACH: f64 = 39.0;
/// Below this, rounding errors of ε/2 aren't normal numbers, and half of the least ε is zero.
const LEAST_RANGE: f64 = f64::MIN_POSITIVE / f64::EPSILON;
/// The largest sum of the probabilities of a law that is given by its outcomes.
const MOST_MASS: f64 = 1.0 + 1e-10;
/// The sum of probabilities may lack less than this because they were rounded: 2^-50.
const ROUNDED_AWAY: f64 = 4.0 * f64::EPSILON;

/// Returns ln(1 + e^x).
fn ln_one_plus_exp(x: f64) -> f64 {
    if x > 0.0 {
        x + (-x).exp().ln_1p()
    } else {
        x.exp().ln_1p()
    }
}

/// Returns the worst pair of an ε-DP mechanism: two outcomes of loss ±ε.
pub(super) fn pure(epsilon: f64) -> LossDistribution {
    // Q(loss ε) = 1/(1 + e^ε), Q(loss −ε) = 1/(1 + e^{−ε}).
    let atom = |loss: f64| Atom::new(loss, -ln_one_plus_exp(loss));
    let comb = Comb {
        origin: -epsilon,
        spacing: 2.0 * epsilon,
    };
    if epsilon > 0.0 {
        LossDistribution::of_atoms(vec![atom(-epsilon), atom(epsilon)], Some(comb))
    } else {
        identical()
    }
}

/// Returns the law of P = Q.
fn identical() -> LossDistribution {
    LossDistribution::of_atoms(vec![Atom::new(0.0, 0.0)], None)
}

/// Returns the worst pair of an (ε, δ)-DP mechanism (Kairouz, Oh and Viswanath 2015).
pub(super) fn approximate(epsilon: f64, delta: f64) -> LossDistribution {
    let comb = pure(epsilon).comb;
    let mut law = pure(epsilon).scaled((-delta).ln_1p());
    law.comb = comb;
    law.infinite = delta;
    law
}

/// Returns the law of the exponential mechanism at ε: utilities shift every log-odds within a range
/// of ε.
///
/// One instance has two outcomes, of loss t and t − ε for some t ∈ [0, ε]; the supremum over t,
/// H_α = (1 − √(α e^{−ε}))²/(1 − e^{−ε}), has Q-density ∝ e^{−l/2} on [−ε, ε]. Source: Dong, Durfee
/// and Rogers 2020 for the range, the supremum by calculus.
pub(super) fn exponential(epsilon: f64) -> LossDistribution {
    if epsilon <= 0.0 {
        return identical();
    }
    if epsilon < LEAST_RANGE {
        // Losses of at most ε, which the mechanism doesn't attain.
        return LossDistribution {
            attained: Attained::Never,
            ..pure(epsilon)
        };
    }
    let half = 0.5 * epsilon;
    let side = |position: f64| Density::complete(vec![(position, 0.0)]);
    LossDistribution {
        // e^{−|y ∓ ε/2|}/2 for |y| ≤ ε/2 has loss 2y and mass (1 − e^{−ε})/2.
        pieces: vec![Piece {
            shape: Shape::Laplace,
            from: Some(-half),
            to: Some(half),
            first: side(half),
            second: side(-half),
            ln_weight: LN_2 - ln_one_minus_exp(-epsilon),
        }],
        attained: Attained::OneStep,
        range: Some(epsilon),
        ..LossDistribution::of_atoms(Vec::new(), None)
    }
}

/// Returns the law of outcomes given by their probabilities under both laws, and whether the first law's add up to one.
/// What they lack is of infinite loss.
///
/// # Errors
/// Returns [`Error::OutOfRange`] if the probabilities of a law add up to more than one.
pub(super) fn of_outcomes(
    outcomes: &[(Probability, Probability)],
) -> Result<(LossDistribution, bool)> {
    let (mut first, mut second) = (Sum::default(), Sum::default());
    for (p, q) in outcomes {
        first.add(p.get());
        second.add(q.get());
    }
    for (what, sum) in [
        ("sum of the first law's probabilities", first.value()),
        ("sum of the second law's probabilities", second.value()),
    ] {
        if sum > MOST_MASS {
            return Err(Error::out_of_range(what, "[0, 1]", sum));
        }
    }
    let rest = 1.0 - first.value();
    let whole = rest < ROUNDED_AWAY;
    // An excess is taken from the second law: less of its mass means larger losses.
    let excess = second.value().max(1.0).ln();
    let (mut atoms, mut beyond) = (Vec::new(), Vec::new());
    if !whole {
        beyond.push(rest);
    }
    for (p, q) in outcomes.iter().map(|(p, q)| (p.get(), q.get())) {
        if p > 0.0 && q > 0.0 {
            let gap = (p - q) / q;
            // The distance of close masses from each other keeps its digits; others are far enough apart.
            let loss = match p / q {
                _ if gap.abs() < 0.5 => gap.ln_1p(),
                ratio if ratio.is_normal() => ratio.ln(),
                _ => p.ln() - q.ln(),
            };
            atoms.push(Atom::new(loss + excess, q.ln() - excess));
        } else if p > 0.0 {
            beyond.push(p);
        }
    }
    // A single mass is exact; sums are rounded up.
    let infinite = match beyond.as_slice() {
        [alone] if whole => *alone,
        several => several.iter().sum::<f64>() * (1.0 + ROUND * (several.len() as f64 + 4.0)),
    };
    Ok((
        LossDistribution {
            infinite,
            ..LossDistribution::of_atoms(atoms, None)
        },
        whole,
    ))
}

/// Returns the law of k-ary randomised response: the true category with probability `truth`,
/// otherwise another one.
pub(super) fn randomised_response(truth: f64, categories: u32) -> LossDistribution {
    let other = (1.0 - truth) / f64::from(categories - 1);
    // For a ratio near one, this keeps the digits of its distance from one.
    let gap = truth.mul_add(f64::from(categories), -1.0) / (f64::from(categories - 1) * other);
    let loss = if gap.abs() < 0.5 {
        gap.ln_1p()
    } else {
        truth.ln() - other.ln()
    };
    if loss.abs() <= 0.0 {
        return identical();
    }
    let mut atoms = vec![Atom::new(loss, other.ln()), Atom::new(-loss, truth.ln())];
    if categories > 2 {
        let rest = (f64::from(categories - 2) * other).ln();
        atoms.push(Atom::new(0.0, rest));
    }
    let size = loss.abs();
    let (origin, spacing) = if categories > 2 {
        (0.0, size)
    } else {
        (-size, 2.0 * size)
    };
    let comb = Comb { origin, spacing };
    LossDistribution::of_atoms(atoms, Some(comb))
}

/// Returns the law of two-sided geometric noise of scale b, shifted by s: losses (2x − s)/b for 0 ≤
/// x ≤ s.
pub(super) fn discrete_laplace(scale: f64, shift: u32) -> LossDistribution {
    let rate = 1.0 / scale;
    let comb = Comb {
        // Near zero, so that its rounding error is small: −s, 2 − s, … contains 0 or −1.
        origin: -f64::from(shift % 2) * rate,
        spacing: 2.0 * rate,
    };
    LossDistribution::of_atoms(Atoms::Whole(WholeNumbers::laplace(rate, shift)), Some(comb))
}

/// Returns the law of discrete Gaussian noise, shifted by s: losses (2xs − s²)/2σ².
///
/// # Errors
/// Returns [`Error::Unsupported`] if σ has too many outcomes to list.
pub(super) fn discrete_gaussian(sigma: f64, shift: u32) -> Result<LossDistribution> {
    if sigma > WIDEST_DISCRETE {
        return Err(Error::Unsupported {
            what: format!("a discrete Gaussian of sigma {}", shown(sigma)),
            why: format!("sigma must lie in (0, {WIDEST_DISCRETE}]: its outcomes are listed"),
        });
    }
    let (s, spread) = (f64::from(shift), 0.5 / (sigma * sigma));
    let reach = (DISCRETE_REACH * sigma).ceil() + 2.0;
    let comb = Comb {
        // Near zero: 2x − s is 0 or −1 for one x.
        origin: -f64::from(shift % 2) * s * spread,
        spacing: 2.0 * s * spread,
    };
    let atoms = Atoms::Whole(WholeNumbers::gaussian(s, spread, reach));
    Ok(LossDistribution {
        // The mass farther out is less than this.
        missing: f64::MIN_POSITIVE,
        // Σ_x e^{−(x−cs)²/2σ²} is largest at whole cs (Canonne, Kamath and Steinke 2020, Lemma 7).
        variance: Some(s * s / (sigma * sigma)),
        ..LossDistribution::of_atoms(atoms, Some(comb))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_that_is_not_listed_is_written_in_few_digits() {
        let refused = discrete_gaussian(1e308, 1).unwrap_err().to_string();
        assert!(refused.contains("sigma 1e308 is not covered"), "{refused}");
    }
}
