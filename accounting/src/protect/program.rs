//! The packing program for the weights, and the certificate of its solutions.

use super::{Incidence, exact, first_order};
use crate::numeric::special::ROUND;
use crate::quantity::Tolerance;
use crate::quantity::error::{Error, Result};

/// The first-order method gives up after this many iterations.
const MOST_ITERATIONS: usize = 200_000;

/// The program max Σ w_i subject to Σ_{i∋j} w_i ≤ b_j for every secret j and 0 ≤ w ≤ 1.
///
/// Source: Hush! program (1), with b_j = c μ_j.
#[derive(Debug, Clone)]
pub struct Packing<'a> {
    pub(crate) incidence: &'a Incidence,
    pub(crate) capacities: Vec<f64>,
}

/// Weights that satisfy every constraint, with a proof of their distance from the optimum.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// The weight w_i ∈ [0, 1] of each example.
    pub weights: Vec<f64>,
    /// Σ w_i of these weights, rounded down.
    pub mass: f64,
    /// An upper bound on the sum of all feasible weights: the dual value Σ b_j y_j + Σ (1 − Σ_{j∋i}
    /// y_j)₊ of prices y ≥ 0, rounded up.
    pub most: f64,
    /// The price y_j ≥ 0 of each secret.
    pub prices: Vec<f64>,
    /// The number of passes over the incidence.
    pub iterations: usize,
}

impl Solution {
    /// Returns an upper bound on the distance of `mass` from the optimum, relative to the optimum.
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.most > 0.0 {
            ((self.most - self.mass) / self.most).max(0.0)
        } else {
            0.0
        }
    }
}

impl<'a> Packing<'a> {
    /// Creates the program after checking that there is one capacity per secret, each at least 0.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] otherwise.
    pub fn new(incidence: &'a Incidence, capacities: Vec<f64>) -> Result<Self> {
        if capacities.len() != incidence.secret_count() {
            return Err(Error::out_of_range(
                "number of capacities",
                "[number of secrets, number of secrets]",
                capacities.len() as f64,
            ));
        }
        if let Some(bad) = capacities.iter().find(|b| b.is_nan() || **b < 0.0) {
            return Err(Error::out_of_range(
                "capacity of a secret",
                "[0, inf]",
                *bad,
            ));
        }
        // A secret in k examples never has a weight above k.
        let mut capacities = capacities;
        for (secret, capacity) in capacities.iter_mut().enumerate() {
            *capacity = capacity.min(incidence.examples_of(secret).len() as f64);
        }
        Ok(Self {
            incidence,
            capacities,
        })
    }

    /// Returns weights whose mass is certified to be within the relative `gap` of the optimum.
    ///
    /// Small programs are solved by the simplex method, others by a first-order method, from
    /// `start` if there is one. Both results are checked: the weights are made feasible, and the
    /// gap is measured to the dual value of the prices.
    ///
    /// ```
    /// use reticent_accounting::protect::{Incidence, Packing};
    /// use reticent_accounting::Tolerance;
    /// // A cycle of three examples and three secrets: half of each is best.
    /// let pairs = vec![(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)];
    /// let incidence = Incidence::new(3, 3, pairs)?;
    /// let solution = Packing::new(&incidence, vec![1.0; 3])?.solve(Tolerance::new(1e-9)?, None)?;
    /// assert!((solution.mass - 1.5).abs() < 1e-9 && solution.gap() <= 1e-9);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if the gap stays wider than requested; the message states
    /// the gap.
    pub fn solve(&self, gap: Tolerance, start: Option<&Solution>) -> Result<Solution> {
        if let Some(solution) = exact::solve(self)
            && solution.gap() <= gap.get()
        {
            return Ok(solution);
        }
        let stop = first_order::Stop {
            gap: gap.get(),
            iterations: MOST_ITERATIONS,
            enough: None,
        };
        let fits = |start: &&Solution| {
            start.weights.len() == self.incidence.example_count()
                && start.prices.len() == self.capacities.len()
        };
        let solution = first_order::solve(self, start.filter(fits), stop);
        if solution.gap() <= gap.get() {
            Ok(solution)
        } else {
            Err(Error::NotCertified {
                what: "the weights",
                why: format!(
                    "a relative gap of {:.1e} is left after {} iterations; a larger one may be asked for",
                    solution.gap(),
                    solution.iterations
                ),
            })
        }
    }

    /// Makes weights feasible and enlarges them where there is room.
    ///
    /// Every weight is scaled by the smallest share of its secrets, b_j / Σ_{i∋j} w_i; the
    /// remaining room is then distributed, examples with few secrets first. A margin for the
    /// rounding error of the sums is kept, so that the constraints hold for the numbers as stored.
    pub(crate) fn made_feasible(&self, weights: &mut [f64], order: &[u32]) {
        for weight in weights.iter_mut() {
            *weight = weight.clamp(0.0, 1.0);
        }
        let shares: Vec<f64> = (0..self.capacities.len())
            .map(|secret| {
                let used = self.used(weights, secret);
                let room = self.room(secret);
                if used > room { room / used } else { 1.0 }
            })
            .collect();
        for (example, weight) in weights.iter_mut().enumerate() {
            let secrets = self.incidence.secrets_of(example);
            let share = secrets
                .iter()
                .map(|s| shares[*s as usize])
                .fold(1.0, f64::min);
            *weight *= share;
        }
        let mut left: Vec<f64> = (0..self.capacities.len())
            .map(|secret| self.room(secret) - self.used(weights, secret))
            .collect();
        for &example in order {
            let secrets = self.incidence.secrets_of(example as usize);
            let weight = &mut weights[example as usize];
            let room = secrets
                .iter()
                .map(|s| left[*s as usize])
                .fold(1.0 - *weight, f64::min);
            if room > 0.0 {
                *weight = (*weight + room).min(1.0);
                for secret in secrets {
                    left[*secret as usize] -= room;
                }
            }
        }
    }

    /// Returns b_j minus the rounding error that sums of its weights can have.
    fn room(&self, secret: usize) -> f64 {
        let terms = self.incidence.examples_of(secret).len() as f64 + 8.0;
        let capacity = self.capacities[secret];
        if capacity >= self.incidence.examples_of(secret).len() as f64 {
            capacity
        } else {
            capacity * (1.0 - 4.0 * ROUND * terms)
        }
    }

    /// Returns Σ_{i∋j} w_i.
    pub(crate) fn used(&self, weights: &[f64], secret: usize) -> f64 {
        let examples = self.incidence.examples_of(secret);
        examples.iter().map(|e| weights[*e as usize]).sum()
    }

    /// Returns the examples, those with few secrets first.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.incidence.example_count() as u32).collect();
        order.sort_by_key(|e| self.incidence.secrets_of(*e as usize).len());
        order
    }

    /// Returns the dual value of prices y ≥ 0, rounded up: no feasible weights have a larger sum.
    ///
    /// ```
    /// use reticent_accounting::protect::{Incidence, Packing};
    /// let incidence = Incidence::new(3, 1, vec![(0, 0), (1, 0)])?;
    /// let packing = Packing::new(&incidence, vec![0.5])?;
    /// assert!((packing.dual_value(&[1.0]) - 1.5).abs() < 1e-12); // attained by (0.5, 0, 1)
    /// assert!(packing.dual_value(&[0.0]) >= 3.0);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn dual_value(&self, prices: &[f64]) -> f64 {
        let price = |secret: usize| prices[secret].max(0.0);
        let mut paid = Sum::default();
        for (secret, capacity) in self.capacities.iter().enumerate() {
            paid.add(capacity * price(secret));
        }
        let mut rounding = 0.0;
        for example in 0..self.incidence.example_count() {
            let secrets = self.incidence.secrets_of(example);
            let total: f64 = secrets.iter().map(|s| price(*s as usize)).sum();
            paid.add((1.0 - total).max(0.0));
            // An excess has the rounding error of its sum, unless the sum is clearly above 1.
            if !secrets.is_empty() && total < 1.0 + 1e-6 {
                rounding += ROUND * (secrets.len() as f64 + 3.0);
            }
        }
        (paid.value() + rounding) * (1.0 + 8.0 * ROUND)
    }

    /// Returns prices y ≥ 0 in their most useful form: a secret without capacity costs nothing, so
    /// its examples are priced out altogether.
    pub(crate) fn priced_out(&self, prices: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let prices = prices.into_iter().zip(&self.capacities);
        prices
            .map(|(y, capacity)| if *capacity > 0.0 { y.max(0.0) } else { 2.0 })
            .collect()
    }

    /// Returns Σ w_i, rounded down.
    pub(crate) fn mass(&self, weights: &[f64]) -> f64 {
        let mut sum = Sum::default();
        for weight in weights {
            sum.add(*weight);
        }
        sum.value() * (1.0 - 8.0 * ROUND)
    }

    /// Returns whether weights satisfy every constraint: exactly in [0, 1], and sums within their
    /// rounding error of the capacity.
    #[must_use]
    pub fn is_feasible(&self, weights: &[f64]) -> bool {
        weights.len() == self.incidence.example_count()
            && weights.iter().all(|w| (0.0..=1.0).contains(w))
            && (0..self.capacities.len()).all(|secret| {
                let terms = self.incidence.examples_of(secret).len() as f64;
                let slack = 1.0 + ROUND * terms;
                self.used(weights, secret) <= self.capacities[secret] * slack
            })
    }
}

/// A sum of terms of one sign with an error of about two roundings for any number of terms
/// (Neumaier).
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, term: f64) {
        let next = self.high + term;
        self.low += if self.high.abs() >= term.abs() {
            (self.high - next) + term
        } else {
            (term - next) + self.high
        };
        self.high = next;
    }

    pub(crate) fn value(&self) -> f64 {
        self.high + self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the weights were, negative or above one: afterwards none lies outside [0, 1]
        /// and no capacity is passed, in floating-point numbers as they are.
        #[test]
        fn any_weights_become_feasible(
            weights in proptest::collection::vec(-2.0f64..2.0, 12),
            capacities in proptest::collection::vec(0.05f64..4.0, 3),
        ) {
            let pairs = (0..12u32).map(|e| (e, e % 3)).chain((0..6).map(|e| (e, (e + 1) % 3)));
            let incidence = Incidence::new(12, 3, pairs.collect()).unwrap();
            let packing = Packing::new(&incidence, capacities.clone()).unwrap();
            let mut weights = weights;
            packing.made_feasible(&mut weights, &packing.order());
            prop_assert!(weights.iter().all(|w| (0.0..=1.0).contains(w)), "{weights:?}");
            for (secret, capacity) in capacities.iter().enumerate() {
                prop_assert!(packing.used(&weights, secret) <= *capacity);
            }
        }
    }
}
