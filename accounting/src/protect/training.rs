//! The pipeline of Hush!: from promises to capacities, weights, rates and noise.

use super::noise::{Noise, Protection};
use super::program::{Packing, Solution};
use super::rates::sampling_rates;
use super::secret::{Proof, Secret};
use super::{Incidence, joint};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Steps, Tolerance};

/// A corpus to train on, with the promises to keep.
///
/// ```
/// use reticent_accounting::protect::{Incidence, Proof, Secret, Training};
/// use reticent_accounting::{Probability, Steps, Tolerance};
/// // Two secrets, in three and in nine of twenty examples.
/// let pairs = (0..3).map(|e| (e, 0)).chain((3..12).map(|e| (e, 1))).collect();
/// let incidence = Incidence::new(20, 2, pairs)?;
/// let promise = Secret::new(Probability::new(1e-6)?, Probability::new(1e-3)?)?;
/// let promises = [promise; 2];
/// let training = Training::new(&incidence, &promises, 2.0, Steps::new(100))?;
/// let tolerance = Tolerance::new(1e-4)?;
/// let weighed = training.weigh(training.full_capacity() / 4.0, tolerance, None)?;
/// assert!((weighed.solution.mass - 12.5).abs() < 0.01); // 9/4 of each secret's examples, 8 free
/// let noise = training.noise(&weighed, Proof::BlowUp, tolerance)?;
/// assert!(noise.sigma.get() < 3.0);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Training<'a> {
    pub(crate) incidence: &'a Incidence,
    pub(crate) secrets: &'a [Secret],
    pub(crate) batch: f64,
    pub(crate) steps: Steps,
}

/// Weights with the sampling rates that follow from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighed {
    /// The constant c of the capacities c μ_j; absent for weights chosen in another way.
    pub c: Option<f64>,
    /// Weights and prices with their certificate.
    pub solution: Solution,
    /// ρ_i = B w_i / Σ w.
    pub rates: Vec<f64>,
}

impl Weighed {
    /// Returns the number of examples with a weight of at least `least`.
    #[must_use]
    pub fn kept(&self, least: f64) -> usize {
        let weights = self.solution.weights.iter();
        weights.filter(|w| **w >= least).count()
    }
}

impl<'a> Training<'a> {
    /// Creates a training after checking that there is one promise per secret and that the batch
    /// size is positive.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] otherwise.
    pub fn new(
        incidence: &'a Incidence,
        secrets: &'a [Secret],
        batch: f64,
        steps: Steps,
    ) -> Result<Self> {
        if secrets.len() != incidence.secret_count() {
            return Err(Error::out_of_range(
                "number of promises",
                "[number of secrets, number of secrets]",
                secrets.len() as f64,
            ));
        }
        if !(batch > 0.0 && batch.is_finite()) {
            return Err(Error::out_of_range("batch size", "(0, inf)", batch));
        }
        Ok(Self {
            incidence,
            secrets,
            batch,
            steps,
        })
    }

    /// Returns the least c whose capacities c μ_j bind nothing: max_j k_j / μ_j, with k_j examples
    /// of secret j. From this c on every weight is 1, which amounts to no preprocessing.
    #[must_use]
    pub fn full_capacity(&self) -> f64 {
        let shares =
            self.secrets.iter().enumerate().map(|(j, secret)| {
                self.incidence.examples_of(j).len() as f64 / secret.divergence()
            });
        // Rounded up by more than the rounding error of the product that undoes the division.
        shares.fold(0.0, f64::max) * (1.0 + 4.0 * f64::EPSILON)
    }

    /// Returns the weights at c: capacities c μ_j with μ_j = KL(Bern(r_j) ‖ Bern(p_j)).
    ///
    /// Source: Hush! Algorithm 2, lines 1 to 3.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if c isn't positive or if the sum of the weights isn't above
    /// the batch size, and [`Error::NotCertified`] if the gap doesn't close.
    pub fn weigh(&self, c: f64, gap: Tolerance, start: Option<&Solution>) -> Result<Weighed> {
        if !(c > 0.0 && c.is_finite()) {
            return Err(Error::out_of_range("c", "(0, inf)", c));
        }
        let capacities = self.secrets.iter().map(|s| c * s.divergence()).collect();
        let solution = Packing::new(self.incidence, capacities)?.solve(gap, start)?;
        self.weighed(Some(c), solution)
    }

    pub(crate) fn weighed(&self, c: Option<f64>, solution: Solution) -> Result<Weighed> {
        let rates = sampling_rates(&solution.weights, self.batch)?;
        Ok(Weighed { c, solution, rates })
    }

    /// Returns the plan with these rates.
    #[must_use]
    pub fn protection<'b>(&'b self, rates: &'b [f64]) -> Protection<'b> {
        Protection {
            incidence: self.incidence,
            secrets: self.secrets,
            rates,
            steps: self.steps,
        }
    }

    /// Returns the least noise that keeps every promise with these weights.
    ///
    /// # Errors
    /// As [`Protection::least_noise`].
    pub fn noise(&self, weighed: &Weighed, proof: Proof, tolerance: Tolerance) -> Result<Noise> {
        self.protection(&weighed.rates)
            .least_noise(proof, tolerance)
    }

    /// Returns weights of the same mass chosen for the least noise by the blow-up, starting from
    /// weights whose noise is known.
    ///
    /// This isn't in the paper, whose capacities are proportional to μ_j. Here, a secret's capacity
    /// is how often it may be drawn before its own tight bound reaches its promise, at the least σ
    /// for which the program still keeps the mass. The capacities are only a guide; the noise of
    /// the resulting weights is certified like any other. Returns its input if nothing better is
    /// found.
    ///
    /// # Errors
    /// As [`Training::weigh`] and [`Training::noise`].
    pub fn jointly(
        &self,
        start: &Weighed,
        noise: &Noise,
        gap: Tolerance,
        tolerance: Tolerance,
    ) -> Result<(Weighed, Noise)> {
        joint::improve(self, start, noise, gap, tolerance)
    }
}
