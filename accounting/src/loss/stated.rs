//! Steps of which no law is known, only upper ends of their Rényi divergences: stated ones, and those of
//! the best of a random number of runs.
//!
//! With K(α) = (α − 1) D_α, everything follows from Σ T K(α): δ by Chernoff's bound, guesses by Hölder's.
//! Such a step gives no lower end, and its divergences hold in both directions.

use super::{Atoms, Attained, LossDistribution, PrivacyLoss};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Divergence, MeanRepetitions, Order, RepetitionShape};
use std::sync::OnceLock;

/// Rounding error of the few operations of each bound.
pub(crate) const SLACK: f64 = 16.0 * f64::EPSILON;
/// Rounding error of each link in a chain of neighbours.
const LINK: f64 = 8.0 * f64::EPSILON;

/// Upper ends of Rényi divergences of one step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stated {
    /// D_α ≤ ξ + ρα at every order.
    Line {
        /// ρ.
        rho: f64,
        /// ξ.
        xi: f64,
    },
    /// K at some orders, ascending and convex from (1, 0) on, for one of `links` links in a chain of
    /// neighbours. K is convex, so its chords lie above it.
    Chords {
        /// Pairs of an order and K.
        knots: Vec<(f64, f64)>,
        /// The number of links.
        links: u32,
    },
    /// The best of a random number of runs.
    Best(Box<Best>),
}

/// The best of a random number of equal runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Best {
    /// The loss of one run in each direction, or in the only one.
    pub(crate) runs: Vec<PrivacyLoss>,
    pub(crate) mean: f64,
    /// Infinite for a Poisson number of runs.
    pub(crate) shape: f64,
    /// What is added to the divergence of every order.
    pub(crate) added: Known,
    /// The largest loss.
    pub(crate) largest: Known,
}

/// A value, once it has been computed. It is a cache, so all values compare equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(pub(crate) OnceLock<f64>);

impl PartialEq for Known {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl LossDistribution {
    /// Creates a step of which only this is known.
    pub(crate) fn stated(stated: Stated) -> Self {
        Self {
            // The step has no law: for upper ends, every loss may be infinite.
            missing: 1.0,
            attained: Attained::Never,
            stated: Some(stated),
            ..Self::of_atoms(Atoms::default(), None)
        }
    }
}

impl Stated {
    /// Returns (ξ, ρ)-zCDP over a chain of `links` neighbours: (kξ Σ 1/i, k²ρ).
    ///
    /// Source: Bun and Steinke 2016, Proposition 27.
    pub(super) fn line(rho: Divergence, xi: Divergence, links: f64) -> Self {
        let harmonic: f64 = (1..=links as u32).map(|i| 1.0 / f64::from(i)).sum();
        let up = |value: f64| {
            let value = value * (1.0 + SLACK + links * f64::EPSILON);
            // Not a number becomes infinite, which is the safe side.
            if value.is_nan() { f64::INFINITY } else { value }
        };
        Self::Line {
            rho: up(rho.get() * links * links),
            xi: up(xi.get() * links * harmonic),
        }
    }

    /// Creates a step from divergences at some orders, in ascending order.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for lists of different lengths or without a finite divergence.
    pub(super) fn at_orders(
        orders: &[Order],
        divergences: &[Divergence],
        links: f64,
    ) -> Result<Self> {
        let mut knots: Vec<(f64, f64)> = vec![(1.0, 0.0)];
        let stated = orders.iter().zip(divergences);
        for (order, divergence) in stated.filter(|(_, divergence)| divergence.get().is_finite()) {
            let less = order.get() - 1.0;
            let next = (order.get(), less * divergence.get() * (1.0 + SLACK));
            // The lower hull: a point above a chord is weaker than the chord.
            while let [.., before, last] = knots.as_slice()
                && (last.1 - before.1) * (next.0 - before.0)
                    >= (next.1 - before.1) * (last.0 - before.0)
            {
                knots.pop();
            }
            knots.push(next);
        }
        if orders.len() != divergences.len() || knots.len() < 2 {
            return Err(Error::Unsupported {
                what: "Rényi divergences at some orders".into(),
                why: "each order needs its divergence, and one of them must be finite".into(),
            });
        }
        Ok(Self::Chords {
            knots,
            links: links as u32,
        })
    }

    /// Creates the best of a random number of runs with this loss, in each direction.
    ///
    /// Source: Papernot and Steinke 2022, Theorem 2 (truncated negative binomial of shape η and
    /// success γ): D'_λ = D_λ + (1 + η)(1 − 1/λ̂) D_λ̂ + (1 + η) ln(1/γ)/λ̂ + ln E[K]/(λ − 1) for any
    /// λ̂ ≥ 1; Theorem 6 (Poisson of mean μ): D'_λ = D_λ + μδ̂ + ln μ/(λ − 1), δ̂ the run's δ at
    /// ε̂ = ln(1 + 1/(λ − 1)). Both need the divergences in both directions.
    pub(super) fn best(
        runs: Vec<PrivacyLoss>,
        mean: MeanRepetitions,
        shape: RepetitionShape,
    ) -> Self {
        Self::Best(Box::new(Best {
            runs,
            mean: mean.get(),
            shape: shape.get(),
            added: Known::default(),
            largest: Known::default(),
        }))
    }

    /// Returns the highest order at which anything is known.
    pub(crate) fn highest(&self) -> f64 {
        match self {
            Self::Line { .. } => f64::INFINITY,
            Self::Best(best) => (best.runs.iter().flat_map(|run| &run.laws))
                .filter_map(|(law, _)| law.stated.as_ref())
                .map(Self::highest)
                .fold(f64::INFINITY, f64::min),
            // The first link is evaluated at k times the order.
            Self::Chords { knots, links } => {
                knots.last().map_or(1.0, |knot| knot.0) / f64::from(*links)
            }
        }
    }

    /// Returns whether the first law is known to have mass only where the second one does, as it has if a divergence is
    /// finite. The best of several runs has it where one of them does.
    pub(crate) fn is_continuous(&self) -> bool {
        match self {
            Self::Line { rho, xi } => (rho + xi).is_finite(),
            // One of them is finite.
            Self::Chords { .. } => true,
            Self::Best(best) => best.runs.iter().all(PrivacyLoss::is_continuous),
        }
    }

    /// Returns the orders at which a bound may have a corner.
    pub(crate) fn knots(&self) -> Vec<f64> {
        match self {
            Self::Chords { knots, links } => knots
                .iter()
                .skip(1)
                .map(|(order, _)| order / f64::from(*links))
                .filter(|order| *order > 1.0)
                .collect(),
            Self::Line { .. } | Self::Best(_) => Vec::new(),
        }
    }
}

/// Returns D_α over `links` links, by the triangle inequality D_α(P‖Q) ≤ kα/(kα − 1)
/// D_{(kα−1)/(k−1)}(P‖R) + D_{kα}(R‖Q), with k − 1 links before R and one after.
///
/// Source: Bun and Steinke 2016, Lemma 5.2 with its order chosen as there.
pub(crate) fn chained(knots: &[(f64, f64)], links: u32, order: f64) -> f64 {
    let (mut total, mut factor, mut order) = (0.0, 1.0, order);
    for k in (2..=links).rev() {
        let high = f64::from(k) * order;
        total += factor * divergence_at(knots, high);
        factor *= high / (high - 1.0) * (1.0 + LINK);
        // Rounded up, because divergences rise with the order.
        order = (high - 1.0) / f64::from(k - 1) * (1.0 + LINK);
    }
    total + factor * divergence_at(knots, order)
}

/// Returns D_α by the chord between the knots around it.
fn divergence_at(knots: &[(f64, f64)], order: f64) -> f64 {
    let after = knots.partition_point(|knot| knot.0 < order);
    match (after.checked_sub(1).map(|i| knots[i]), knots.get(after)) {
        (Some(left), Some(right)) => {
            let share = (order - left.0) / (right.0 - left.0);
            (left.1 + share * (right.1 - left.1)) / (order - 1.0) * (1.0 + SLACK)
        }
        // Beyond the last knot.
        _ => f64::INFINITY,
    }
}
