//! The promises of a run of `protect` for each of its secrets.

use super::{Run, TrainingPlan, WeightedSteps};
use crate::protect::{SecretClass, SecretClasses};
use crate::quantity::bound::Upper;
use crate::quantity::error::Result;
use crate::quantity::{NoiseMultiplier, Probability, Steps};

impl TrainingPlan {
    /// Returns the secrets of a run of `protect` in classes of equal promise, each with an upper
    /// bound on the probability of guessing one of its secrets after training; empty for other
    /// runs.
    ///
    /// Bound: upper; 1 where nothing is promised. Source: Hush! Definition 3.1, by the blow-up.
    ///
    /// # Errors
    /// None for profiles that were certified.
    pub fn secret_posteriors(&self) -> Result<Vec<(SecretClass, Upper<Probability>)>> {
        self.by_class(SecretClasses::posteriors)
    }

    /// Returns the same bounds if each secret was guessed with probability at most `prior` before
    /// training.
    ///
    /// # Errors
    /// As [`TrainingPlan::secret_posteriors`].
    pub fn secret_posteriors_at(
        &self,
        prior: Probability,
    ) -> Result<Vec<(SecretClass, Upper<Probability>)>> {
        self.by_class(|classes, noise, steps| classes.posteriors_at(prior, Some(noise), steps))
    }

    fn by_class(
        &self,
        posteriors: impl Fn(&SecretClasses, NoiseMultiplier, Steps) -> Result<Vec<Upper<Probability>>>,
    ) -> Result<Vec<(SecretClass, Upper<Probability>)>> {
        let Some((classes, _)) = self.protected() else {
            return Ok(Vec::new());
        };
        let found = match self.noise_that_holds() {
            Some((noise, weighted)) => posteriors(classes, noise, *weighted.steps)?,
            None => vec![Upper::new(Probability::ONE); classes.classes().len()],
        };
        Ok(classes.classes().iter().copied().zip(found).collect())
    }

    fn protected(&self) -> Option<(&SecretClasses, &WeightedSteps)> {
        match &self.run {
            Run::Protect { weighted } => Some((weighted.secrets.as_ref()?, weighted)),
            _ => None,
        }
    }

    /// Returns σ, unless something else leaves no promise. The certificate doesn't include an
    /// earlier run on the same records.
    fn noise_that_holds(&self) -> Option<(NoiseMultiplier, &WeightedSteps)> {
        let (_, weighted) = self.protected()?;
        if self.unprotected().is_some() || self.continues.is_some() {
            return None;
        }
        Some((*weighted.noise_multiplier, weighted))
    }
}
