//! Just Fine-tune Twice.

use crate::compose::Answer;
use crate::loss::{Direction, PrivacyLoss, Query, losses};
use crate::mechanism::Mechanism;
use crate::quantity::bound::{Bounds, Estimate};
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{
    Delta, Epsilon, GroupSize, MissRate, NoiseMultiplier, SamplingRate, Steps, Tolerance,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

fn epsilon_of(
    mechanism: &Mechanism,
    group: GroupSize,
    delta: Delta,
    tolerance: Tolerance,
) -> Result<Answer<Epsilon>> {
    PrivacyLoss::of(mechanism, Query::replace(group), Direction::Remove)?.epsilon(delta, tolerance)
}

/// What has to hold for training on redacted text without noise to cost nothing: both contents
/// of the secret give the same redacted text, and the choice of what is used does not look at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactedAlike {
    /// Every secret, whatever its content, is redacted from end to end.
    pub every_content_caught: bool,
    /// The mask tells neither the length nor the kind of what it covers.
    pub length_and_kind_hidden: bool,
    /// What is used, screened or left out does not depend on secrets.
    pub screening_ignores_secrets: bool,
}

impl RedactedAlike {
    /// All three hold.
    pub const YES: Self = Self {
        every_content_caught: true,
        length_and_kind_hidden: true,
        screening_ignores_secrets: true,
    };

    /// Returns the first condition that doesn't hold.
    const fn broken(self) -> Option<&'static str> {
        if !self.every_content_caught {
            Some("a content that the detector misses stays in the redacted text")
        } else if !self.length_and_kind_hidden {
            Some("the mask tells the length or kind of what it covers")
        } else if !self.screening_ignores_secrets {
            Some("what was screened or left out depends on secrets")
        } else {
            None
        }
    }
}

/// The first fine-tuning of JFT, on redacted text.
#[derive(Debug, Clone, PartialEq)]
pub enum PhaseOne {
    /// An ordinary optimiser.
    Unnoised(RedactedAlike),
    /// A private optimiser on the redacted text, as it ran; its cost composes in full.
    Noised(Mechanism),
}

/// Just Fine-tune Twice: redacted text first, the original text by a private optimiser second.
///
/// ```
/// use reticent_accounting::confidentiality::{JustFineTuneTwice, PhaseOne, RedactedAlike};
/// use reticent_accounting::{Delta, GroupSize, Mechanism, NoiseMultiplier, SamplingRate, Steps, Tolerance};
/// let second = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(1000));
/// let alike = JustFineTuneTwice { first: PhaseOne::Unnoised(RedactedAlike::YES), second: second.clone() };
/// let leaky = RedactedAlike { length_and_kind_hidden: false, ..RedactedAlike::YES };
/// let leaky = JustFineTuneTwice { first: PhaseOne::Unnoised(leaky), second };
/// let at = |run: &JustFineTuneTwice| {
///     run.epsilon(GroupSize::ONE, Delta::new(1e-5)?, Tolerance::DEFAULT).map(|b| b.upper.unwrap().get().get())
/// };
/// assert!(at(&alike)? < 4.0 && at(&leaky)?.is_infinite());
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct JustFineTuneTwice {
    /// The phase on redacted text.
    pub first: PhaseOne,
    /// The phase on the original text.
    pub second: Mechanism,
}

impl JustFineTuneTwice {
    /// Returns everything that ran on secrets. The first phase is omitted only if it saw the same text for
    /// both contents. Source: JFT Theorem 1.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        let first = match &self.first {
            PhaseOne::Unnoised(conditions) => match conditions.broken() {
                None => return self.second.clone(),
                Some(why) => {
                    Mechanism::open(format!("the first phase trains without noise, and {why}"))
                }
            },
            PhaseOne::Noised(mechanism) => mechanism.clone(),
        };
        Mechanism::Sequence {
            parts: vec![first, self.second.clone()],
        }
    }

    /// Returns ε of selective differential privacy for a secret in `group` records, with one content
    /// replaced by another.
    ///
    /// Bound: both ends; infinite if the first phase leaks.
    ///
    /// # Errors
    /// As [`PrivacyLoss::epsilon`]; an estimated phase is refused.
    pub fn epsilon(
        &self,
        group: GroupSize,
        delta: Delta,
        tolerance: Tolerance,
    ) -> Result<Bounds<Epsilon>> {
        Ok(epsilon_of(&self.mechanism(), group, delta, tolerance)?.bounds)
    }
}

/// JFT's light noise: DP-SGD on redacted text whose sampling rate is multiplied by the share of tokens that
/// the detector misses, and what runs after it. The paper calls the result an empirical estimate, and its type says
/// the same: a given missed secret is sampled at the full rate.
///
/// ```
/// use reticent_accounting::confidentiality::LightNoise;
/// use reticent_accounting::{Delta, Mechanism, MissRate, NoiseMultiplier, SamplingRate, Steps, Tolerance};
/// let sigma = NoiseMultiplier::new(1.0)?;
/// let light = LightNoise {
///     noise_multiplier: NoiseMultiplier::new(0.6)?,
///     sampling_rate: SamplingRate::new(0.05)?,
///     steps: Steps::new(300),
///     miss: (MissRate::new(0.006)?, MissRate::new(0.02)?),
///     second: Mechanism::dp_sgd(sigma, SamplingRate::new(0.05)?, Steps::new(300)),
/// };
/// let (low, high) = light.epsilon(Delta::new(1e-5)?, Tolerance::DEFAULT)?;
/// assert!(low.get() <= high.get());
/// // No accountant takes it for a bound.
/// let estimated = |part: &Mechanism| matches!(part, Mechanism::Estimated { .. });
/// let first = |run: &Mechanism| matches!(run, Mechanism::Sequence { parts } if estimated(&parts[0]));
/// assert!(light.mechanism()?.iter().all(first));
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LightNoise {
    /// σ of the first phase.
    pub noise_multiplier: NoiseMultiplier,
    /// The optimiser's sampling rate p₀.
    pub sampling_rate: SamplingRate,
    /// Steps of the first phase.
    pub steps: Steps,
    /// Both ends of the interval of the miss rate m.
    pub miss: (MissRate, MissRate),
    /// The second phase.
    pub second: Mechanism,
}

impl LightNoise {
    /// Returns both phases at both ends of the interval, the first marked as an estimate.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if the ends of the interval are in the wrong order.
    pub fn mechanism(&self) -> Result<Vec<Mechanism>> {
        self.check()?;
        let end = |miss: MissRate| Mechanism::Estimated {
            inner: Box::new(self.at(miss)),
            why: "light noise multiplies the sampling rate by a miss rate per token".into(),
        };
        let run = |miss| self.followed(end(miss));
        Ok(vec![run(self.miss.0), run(self.miss.1)])
    }

    /// Returns ε of both phases at both ends of the interval of m, by the paper's rule p = p₀·m, for a secret in one
    /// record that is present or absent, as the paper computes.
    ///
    /// # Errors
    /// As [`LightNoise::mechanism`] and [`PrivacyLoss::epsilon`].
    pub fn epsilon(
        &self,
        delta: Delta,
        tolerance: Tolerance,
    ) -> Result<(Estimate<Epsilon>, Estimate<Epsilon>)> {
        self.check()?;
        let query = Query::single(Neighbours::AddRemove);
        let end = |miss| -> Result<Estimate<Epsilon>> {
            let run = self.followed(self.at(miss));
            let mut highest = 0.0_f64;
            for loss in losses(&run, query)? {
                let found = loss.epsilon(delta, tolerance)?;
                highest = highest.max(found.bounds.high().unwrap_or(f64::INFINITY));
            }
            Ok(Estimate::new(Epsilon::new(highest)?))
        };
        Ok((end(self.miss.0)?, end(self.miss.1)?))
    }

    fn followed(&self, first: Mechanism) -> Mechanism {
        Mechanism::Sequence {
            parts: vec![first, self.second.clone()],
        }
    }

    fn check(&self) -> Result<()> {
        if self.miss.0 <= self.miss.1 {
            return Ok(());
        }
        Err(Error::out_of_range(
            "lower end of the miss rate",
            "[0, upper end]",
            self.miss.0.get(),
        ))
    }

    fn at(&self, miss: MissRate) -> Mechanism {
        let rate = SamplingRate::new(self.sampling_rate.get() * miss.get());
        match rate {
            Ok(rate) if rate.get() > 0.0 => {
                Mechanism::dp_sgd(self.noise_multiplier, rate, self.steps)
            }
            // Nothing is missed.
            _ => Mechanism::Sequence { parts: Vec::new() },
        }
    }
}

/// The exact alternative to [`LightNoise`]: batches are drawn without looking at content, and the records
/// that hold the missed secret are counted in each batch. Given the batches, a step with n such records is
/// a plain Gaussian mechanism of sensitivity n (2n under replace), whatever the adversary knows about the
/// batches.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedBatches {
    noise_multiplier: NoiseMultiplier,
    /// (records of the secret in a batch, number of such batches), without zeros.
    counts: Vec<(u64, u64)>,
}

impl CountedBatches {
    /// Creates the batches from pairs (records of the secret in a batch, number of such batches).
    ///
    /// ```
    /// use reticent_accounting::confidentiality::CountedBatches;
    /// use reticent_accounting::{Delta, NoiseMultiplier, Tolerance};
    /// // Three of a hundred batches held the secret, one of them twice: Σ n² = 6.
    /// let batches = CountedBatches::new(NoiseMultiplier::new(4.0)?, vec![(0, 97), (1, 2), (2, 1)]);
    /// let epsilon = batches.epsilon(Delta::new(1e-5)?, Tolerance::DEFAULT)?.upper.unwrap();
    /// assert!(epsilon.get().get() > 0.0);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn new(noise_multiplier: NoiseMultiplier, counts: Vec<(u64, u64)>) -> Self {
        let counts = counts.into_iter().filter(|(n, times)| *n > 0 && *times > 0);
        Self {
            noise_multiplier,
            counts: counts.collect(),
        }
    }

    /// Returns what ran, given the batches.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if the noise multiplier is too small to divide.
    pub fn mechanism(&self) -> Result<Mechanism> {
        let step = |&(records, times): &(u64, u64)| -> Result<Mechanism> {
            let noise_multiplier =
                NoiseMultiplier::new(self.noise_multiplier.get() / records as f64)?;
            Ok(Mechanism::Gaussian { noise_multiplier }.times(Steps::new(times)))
        };
        Ok(Mechanism::Sequence {
            parts: self.counts.iter().map(step).collect::<Result<_>>()?,
        })
    }

    /// Returns ε for the secret whose records were counted, with one content replaced by another.
    ///
    /// Bound: both ends. It depends on the batches that were drawn, so it must be kept private unless the
    /// counts are public.
    ///
    /// # Errors
    /// As [`PrivacyLoss::epsilon`].
    pub fn epsilon(&self, delta: Delta, tolerance: Tolerance) -> Result<Bounds<Epsilon>> {
        Ok(epsilon_of(&self.mechanism()?, GroupSize::ONE, delta, tolerance)?.bounds)
    }
}
