//! What each recipe releases about the records it trains on.

use super::stated::Stated;
use crate::guarantee::confidentiality::{JustFineTuneTwice, PhaseOne, RedactedAlike};
use crate::mechanism::{MOST_NUMBERS, Mechanism, Sampling};
use crate::protect::{RateProfile, SecretClasses, rate_of};
use crate::quantity::error::{Error, Result};
use crate::quantity::{MissRate, NoiseMultiplier, SamplingRate, Steps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A training method, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Recipe {
    /// Ordinary optimisation of every record: no protection (ε infinite).
    Sgd,
    /// DP-SGD on every record.
    Dpsgd,
    /// Confidentially redacted training: by epochs, ordinary optimisation of the public side,
    /// then DP-SGD on the private side. Source: Zhao et al. 2022, Algorithm 1.
    Crt,
    /// Selective DP-SGD, for recurrent models: sensitive tokens by clipped and noised
    /// gradients and states, the others by ordinary ones. Source: Shi et al. 2021.
    Sdp,
    /// Just Fine-tune Twice: redacted text first, the original by DP-SGD second.
    /// Source: Shi et al. 2022.
    Jft,
    /// Secret protection: DP-SGD with a sampling rate for every record. Source: Ganesh et
    /// al. 2025 (Hush!), Algorithm 2.
    Protect,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Self; 6] = [
        Self::Sgd,
        Self::Dpsgd,
        Self::Crt,
        Self::Sdp,
        Self::Jft,
        Self::Protect,
    ];

    /// Returns the recipe's name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Dpsgd => "dpsgd",
            Self::Crt => "crt",
            Self::Sdp => "sdp",
            Self::Jft => "jft",
            Self::Protect => "protect",
        }
    }

    /// Returns whether any of the recipe's steps adds noise.
    #[must_use]
    pub const fn is_private(self) -> bool {
        !matches!(self, Self::Sgd)
    }
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Recipe {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|recipe| recipe.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("must be one of {names}, got {text:?}")
        })
    }
}

/// Noisy steps on sampled batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoisySteps {
    /// σ: noise standard deviation over clipping norm.
    pub noise_multiplier: Stated<NoiseMultiplier>,
    /// How batches are drawn.
    pub sampling: Stated<Sampling>,
    /// q: the probability, or the share, of each record in a batch.
    pub sampling_rate: Stated<SamplingRate>,
    /// Steps of one epoch.
    pub steps_per_epoch: u64,
    /// T: all of them.
    pub steps: Stated<Steps>,
    /// How σ falls; it stays where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_decay: Option<StepDecay>,
}

impl NoisySteps {
    /// Creates DP-SGD steps on Poisson batches with the given values, for tests and examples.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if a value lies outside its range.
    pub fn poisson(sigma: f64, rate: f64, epochs: u64) -> Result<Self> {
        let sampling_rate = SamplingRate::new(rate)?;
        let steps_per_epoch = Steps::per_epoch(sampling_rate).get();
        let steps = (epochs.checked_mul(steps_per_epoch).map(Steps::new))
            .filter(|steps| *steps <= Steps::MOST)
            .ok_or(Error::out_of_range(
                "epochs",
                "[0, inf), of at most 2^53 steps",
                epochs as f64,
            ))?;
        Ok(Self {
            noise_multiplier: Stated::given(NoiseMultiplier::new(sigma)?, "sigma"),
            sampling: Stated::assumed(Sampling::Poisson),
            sampling_rate: Stated::given(sampling_rate, "sample_rate"),
            steps_per_epoch,
            steps: Stated::given(steps, "epochs"),
            noise_decay: None,
        })
    }

    /// Returns the same steps with a different noise multiplier.
    #[must_use]
    pub fn with_noise(&self, noise_multiplier: NoiseMultiplier) -> Self {
        Self {
            noise_multiplier: self.noise_multiplier.with(noise_multiplier),
            ..self.clone()
        }
    }

    /// Returns the same with a different number of steps.
    #[must_use]
    pub fn with_steps(&self, steps: Steps) -> Self {
        Self {
            steps: self.steps.with(steps),
            ..self.clone()
        }
    }

    /// Returns the Gaussian mechanism on these batches, repeated for each step. If the noise multiplier falls, the
    /// mechanism is a sequence with one part for each value, for steps beyond the planned ones too.
    ///
    /// ```
    /// use reticent_accounting::Mechanism;
    /// use reticent_accounting::training::{NoisySteps, StepDecay};
    /// let noise_decay = Some(StepDecay::new(0.5, 10)?);
    /// let steps = NoisySteps { noise_decay, ..NoisySteps::poisson(2.0, 0.1, 2)? };
    /// let Mechanism::Sequence { parts } = steps.mechanism() else { panic!() };
    /// assert_eq!(parts[0], NoisySteps::poisson(2.0, 0.1, 1)?.mechanism());
    /// assert_eq!(parts[1], NoisySteps::poisson(1.0, 0.1, 1)?.mechanism());
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        let run = |times: u64, noise_multiplier| {
            let step = Mechanism::SubsampledGaussian {
                noise_multiplier,
                sampling_rate: *self.sampling_rate,
                sampling: *self.sampling,
            };
            step.times(Steps::new(times))
        };
        let (total, sigma) = (self.steps.value.get(), *self.noise_multiplier);
        let Some(decay) = self.noise_decay else {
            return run(total, sigma);
        };
        let levels = total.div_ceil(decay.every());
        if levels > StepDecay::MOST_LEVELS {
            return Mechanism::open("the noise falls more often than can be accounted for");
        }
        // Each part of a sequence begins with an epoch of its own. Epochs of a rate that is no reciprocal of a whole number
        // differ in length.
        if let Some((least, most)) = self.sampling.steps_of_epoch(*self.sampling_rate)
            && levels > 1
            && (least != most || !decay.every().is_multiple_of(least))
        {
            return Mechanism::open(
                "the noise falls within an epoch whose batches are drawn together",
            );
        }
        let mut parts = Vec::new();
        for level in 0..levels {
            let from = level * decay.every();
            match decay.of(sigma, from) {
                Ok(sigma) => parts.push(run(decay.every().min(total - from), sigma)),
                Err(_) => return Mechanism::open("the noise falls to nothing"),
            }
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => Mechanism::Sequence { parts },
        }
    }

    /// Returns the number of epochs, the last of which may end before all of its steps.
    #[must_use]
    pub const fn epochs(&self) -> u64 {
        epochs(self.steps.value.get(), self.steps_per_epoch)
    }
}

const fn epochs(steps: u64, each: u64) -> u64 {
    steps.div_ceil(if each == 0 { 1 } else { each })
}

/// A fall by one factor after every so many steps, fixed before the first: step t, from 0, has factor^⌊t/every⌋ of what
/// the first one has. Source: Opacus, `StepNoise` and `StepGradClip`, in steps.
///
/// ```
/// use reticent_accounting::training::StepDecay;
/// let decay = StepDecay::new(0.5, 100)?;
/// assert_eq!([0, 99, 100, 250].map(|step| decay.scale(step)), [1.0, 1.0, 0.5, 0.25]);
/// assert!(StepDecay::new(1.5, 100).is_err() && StepDecay::new(0.5, 0).is_err());
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Unchecked")]
pub struct StepDecay {
    /// In (0, 1).
    factor: f64,
    /// Steps, from 1 on.
    every: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    factor: f64,
    every: u64,
}

impl TryFrom<Unchecked> for StepDecay {
    type Error = Error;
    fn try_from(Unchecked { factor, every }: Unchecked) -> Result<Self> {
        Self::new(factor, every)
    }
}

impl StepDecay {
    /// The most noise multipliers that one run is accounted for with.
    pub const MOST_LEVELS: u64 = 1000;

    /// Creates a decay by `factor` after every `every` steps.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if the factor lies outside (0, 1) or `every` is zero.
    pub fn new(factor: f64, every: u64) -> Result<Self> {
        let out_of_range = |what, range, value| Err(Error::out_of_range(what, range, value));
        if !(factor > 0.0 && factor < 1.0) {
            return out_of_range("decay", "(0, 1)", factor);
        }
        if every == 0 {
            return out_of_range("steps between decays", "[1, inf)", 0.0);
        }
        Ok(Self { factor, every })
    }

    /// Returns the factor.
    #[must_use]
    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// Returns the number of steps between decays.
    #[must_use]
    pub const fn every(&self) -> u64 {
        self.every
    }

    /// Returns the share that is left at a step. Uses products alone, so that every machine computes the same number.
    #[must_use]
    pub fn scale(&self, step: u64) -> f64 {
        let (mut exponent, mut base, mut product) = (step / self.every, self.factor, 1.0);
        while exponent > 0 {
            if exponent & 1 == 1 {
                product *= base;
            }
            base *= base;
            exponent >>= 1;
        }
        product
    }

    /// Returns σ at a step.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if nothing is left of σ.
    pub fn of(&self, sigma: NoiseMultiplier, step: u64) -> Result<NoiseMultiplier> {
        NoiseMultiplier::new(sigma.get() * self.scale(step))
    }
}

/// Noisy steps in which each record has a rate of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedSteps {
    /// σ.
    pub noise_multiplier: Stated<NoiseMultiplier>,
    /// B: the expected records of a batch, by which the noised sum is divided.
    pub batch: Stated<f64>,
    /// Steps of one epoch.
    pub steps_per_epoch: u64,
    /// T.
    pub steps: Stated<Steps>,
    /// Rates that dominate those of the records of every secret, descending.
    pub secret_rates: Stated<Vec<SamplingRate>>,
    /// What is promised for each secret, and what certifies it; absent where rates alone are stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<SecretClasses>,
}

impl WeightedSteps {
    /// Returns whether the rates are those that dominate the secrets, as far as it is stated what certifies these. In a
    /// file that states both, one of them may have been edited.
    #[must_use]
    pub fn dominates_its_secrets(&self) -> bool {
        let rates = &self.secret_rates.value;
        let secrets = self.secrets.as_ref();
        secrets.is_none_or(|secrets| secrets.are_dominated_by(rates))
    }

    fn mechanism(&self) -> Mechanism {
        let step = Mechanism::PoissonBinomialGaussian {
            noise_multiplier: *self.noise_multiplier,
            rates: self.secret_rates.value.clone(),
        };
        step.times(*self.steps)
    }
}

/// The most records of one secret that a run of protect may draw.
pub const MOST_DRAWN: usize = MOST_NUMBERS;

/// Returns rates that dominate those of every secret: at each place the largest rate of any secret at that place, with
/// each secret's rates sorted in descending order. Their promise holds for each secret, because a pair of mixtures
/// grows with its rates. Without secrets, returns the largest rate of any record.
///
/// ```
/// use reticent_accounting::training::dominating_rates;
/// let found = dominating_rates(&[0.1, 0.5, 0.2, 0.0], &[vec![0, 2], vec![1]])?;
/// let found: Vec<f64> = found.iter().map(|rate| rate.get()).collect();
/// assert_eq!(found, [0.5, 0.1]);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a rate outside [0, 1], for a record without a rate, and for a secret in more than
/// [`MOST_DRAWN`] records that are drawn, which no reader of the mechanism takes.
pub fn dominating_rates(rates: &[f64], secrets: &[Vec<u32>]) -> Result<Vec<SamplingRate>> {
    let mut most: Vec<f64> = Vec::new();
    let alone: Vec<Vec<u32>> = if secrets.is_empty() {
        (0..rates.len() as u32).map(|record| vec![record]).collect()
    } else {
        Vec::new()
    };
    for secret in secrets.iter().chain(&alone) {
        let mut records = secret.clone();
        records.sort_unstable();
        records.dedup();
        let own = records.iter().map(|record| rate_of(rates, *record));
        // The positive rates, the largest first: a rate of zero stands for no record.
        let own = RateProfile::new(own.collect::<Result<Vec<_>>>()?)?;
        if own.count() > MOST_DRAWN {
            return Err(Error::out_of_range(
                "drawn records of a secret",
                "[0, 10000]",
                own.count() as f64,
            ));
        }
        most.resize(most.len().max(own.count()), 0.0);
        for (most, own) in most.iter_mut().zip(own.rates()) {
            *most = most.max(*own);
        }
    }
    most.into_iter().map(SamplingRate::new).collect()
}

/// Selective DP-SGD: every record once a pass, in parts of a fixed size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectiveSteps {
    /// σ of the gradient of the sensitive predictions.
    pub noise_multiplier: Stated<NoiseMultiplier>,
    /// Noise of a released state over its norm.
    pub state_noise_multiplier: Stated<NoiseMultiplier>,
    /// Records of a step.
    pub batch_size: Stated<u64>,
    /// Steps of one pass.
    pub steps_per_epoch: u64,
    /// Steps.
    pub steps: Stated<Steps>,
    /// The most states that one record releases in a pass ([`released_states`]).
    pub states: Stated<u64>,
    /// Whether the policy catches every content of every secret; one that it misses is trained on
    /// without noise.
    pub every_content_caught: Stated<bool>,
}

impl SelectiveSteps {
    /// Returns the number of passes in which a record can be used.
    #[must_use]
    pub const fn passes(&self) -> u64 {
        epochs(self.steps.value.get(), self.steps_per_epoch)
    }

    /// Returns the mechanisms of the run. Ordinary gradients show which batch a record is in, so nothing is amplified:
    /// each pass releases the record's sensitive gradient once, and each of its states.
    fn mechanisms(&self) -> Vec<Mechanism> {
        if !*self.every_content_caught {
            return vec![Mechanism::open(
                "selective steps train on a secret that the policy misses without clipping or noise",
            )];
        }
        let gaussian = |times: u64, noise_multiplier| {
            Mechanism::Gaussian { noise_multiplier }.times(Steps::new(times))
        };
        let passes = self.passes();
        let mut parts = vec![gaussian(passes, *self.noise_multiplier)];
        if *self.states > 0 {
            let states = passes.saturating_mul(*self.states);
            parts.push(gaussian(states, *self.state_noise_multiplier));
        }
        parts
    }
}

/// Returns the number of states that one record releases in a pass of selective DP-SGD: h and c of each run of
/// sensitive predictions that is followed by an ordinary one. Prediction t reads token t and predicts token t + 1; it
/// is sensitive if either token is.
///
/// ```
/// use reticent_accounting::training::released_states;
/// assert_eq!(released_states(6, &[]), 0);
/// assert_eq!(released_states(9, &[3..4, 6..7]), 4);
/// assert_eq!(released_states(9, &[3..4, 6..9]), 2);  // nothing ordinary follows the second
/// ```
#[must_use]
pub fn released_states(tokens: usize, sensitive: &[Range<usize>]) -> u64 {
    let inside = |token: usize| sensitive.iter().any(|span| span.contains(&token));
    let mut states = 0;
    let mut before = false;
    for row in 0..tokens.saturating_sub(1) {
        let now = inside(row) || inside(row + 1);
        states += u64::from(before && !now);
        before = now;
    }
    2 * states
}

/// The first fine-tuning of `jft`, on redacted text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FirstPhase {
    /// An ordinary optimiser. It costs nothing where both contents of a secret are redacted alike.
    Ordinary {
        /// Passes over the redacted text.
        epochs: Stated<u64>,
        /// Whether only records are used in which someone looked for misses and found none.
        screened: bool,
        /// What is known of the policy.
        alike: Stated<RedactedAlike>,
    },
    /// A private optimiser, accounted in full. The papers' figure by the miss rate is an estimate.
    LightNoise {
        /// What runs.
        steps: NoisySteps,
        /// Both ends of the share of tokens that the policy misses; absent where nothing is estimated by it.
        token_miss: Option<(MissRate, MissRate)>,
    },
}

impl FirstPhase {
    /// Returns the mechanism of this phase followed by `second`.
    fn then(&self, second: &NoisySteps) -> Mechanism {
        let first = match self {
            Self::Ordinary { alike, .. } => PhaseOne::Unnoised(**alike),
            Self::LightNoise { steps, .. } => PhaseOne::Noised(steps.mechanism()),
        };
        let second = second.mechanism();
        JustFineTuneTwice { first, second }.mechanism()
    }
}

/// A recipe with all that decides what it releases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "recipe", rename_all = "kebab-case", deny_unknown_fields)]
#[expect(
    clippy::large_enum_variant,
    reason = "a plan has one of them, and is no item of a list"
)]
pub enum Run {
    /// Ordinary steps on every record.
    Sgd {
        /// Passes.
        epochs: Stated<u64>,
        /// Ordinary steps, where they and not passes were given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steps: Option<Stated<u64>>,
    },
    /// Noisy steps on every record.
    Dpsgd {
        /// What runs.
        private: NoisySteps,
    },
    /// Ordinary steps on the public side, noisy ones on the private side.
    Crt {
        /// The private side; absent where it is empty.
        private: Option<NoisySteps>,
        /// Passes over the public side within an epoch; they cost no privacy.
        public_passes: Stated<u64>,
        /// Passes of the run where there is no private side.
        epochs: u64,
    },
    /// Noisy steps on sensitive tokens, ordinary ones on the others.
    Sdp {
        /// What runs.
        selective: SelectiveSteps,
    },
    /// Redacted text first, the original second.
    Jft {
        /// On redacted text.
        first: FirstPhase,
        /// On the original.
        second: NoisySteps,
    },
    /// Noisy steps with rates by record.
    Protect {
        /// What runs.
        weighted: WeightedSteps,
    },
    /// A run of which only its mechanism is known, from a file.
    Mechanism {
        /// What ran.
        mechanism: Mechanism,
    },
}

impl Run {
    /// Returns the recipe; `None` for a run of which only the mechanism is known.
    #[must_use]
    pub const fn recipe(&self) -> Option<Recipe> {
        Some(match self {
            Self::Sgd { .. } => Recipe::Sgd,
            Self::Dpsgd { .. } => Recipe::Dpsgd,
            Self::Crt { .. } => Recipe::Crt,
            Self::Sdp { .. } => Recipe::Sdp,
            Self::Jft { .. } => Recipe::Jft,
            Self::Protect { .. } => Recipe::Protect,
            Self::Mechanism { .. } => return None,
        })
    }

    /// Returns the noisy steps on sampled batches, of the last phase if there are two.
    #[must_use]
    pub const fn noisy(&self) -> Option<&NoisySteps> {
        match self {
            Self::Dpsgd { private } => Some(private),
            Self::Crt { private, .. } => private.as_ref(),
            Self::Jft { second, .. } => Some(second),
            Self::Sgd { .. } | Self::Sdp { .. } | Self::Protect { .. } | Self::Mechanism { .. } => {
                None
            }
        }
    }

    /// Returns the same steps mutably.
    pub const fn noisy_mut(&mut self) -> Option<&mut NoisySteps> {
        match self {
            Self::Dpsgd { private } => Some(private),
            Self::Crt { private, .. } => private.as_mut(),
            Self::Jft { second, .. } => Some(second),
            Self::Sgd { .. } | Self::Sdp { .. } | Self::Protect { .. } | Self::Mechanism { .. } => {
                None
            }
        }
    }

    /// Returns σ, if the recipe adds noise.
    #[must_use]
    pub fn noise_multiplier(&self) -> Option<NoiseMultiplier> {
        match self {
            Self::Sdp { selective } => Some(*selective.noise_multiplier),
            Self::Protect { weighted } => Some(*weighted.noise_multiplier),
            other => other.noisy().map(|steps| *steps.noise_multiplier),
        }
    }

    /// Returns the number of noisy steps in one epoch, of the last phase if there are two; `None` for a run without
    /// noise.
    #[must_use]
    pub fn steps_per_epoch(&self) -> Option<u64> {
        match self {
            Self::Sdp { selective } => Some(selective.steps_per_epoch),
            Self::Protect { weighted } => Some(weighted.steps_per_epoch),
            other => other.noisy().map(|steps| steps.steps_per_epoch),
        }
    }

    /// Returns what the run releases about the records it trains on, part by part.
    pub(super) fn mechanisms(&self) -> Vec<Mechanism> {
        match self {
            Self::Sgd { .. } => vec![Mechanism::open(
                "records were trained on without clipping or noise",
            )],
            Self::Dpsgd { private } => vec![private.mechanism()],
            // The public side holds no record that differs between neighbours as long as both policies together miss
            // nothing; what they miss is judged together with the secrets.
            Self::Crt { private, .. } => private.iter().map(NoisySteps::mechanism).collect(),
            Self::Sdp { selective } => selective.mechanisms(),
            Self::Jft { first, second } => match first.then(second) {
                Mechanism::Sequence { parts } => parts,
                one => vec![one],
            },
            Self::Protect { weighted } => vec![weighted.mechanism()],
            Self::Mechanism { mechanism } => vec![mechanism.clone()],
        }
    }

    /// Returns the noisy steps of the last phase, and how many of them are an epoch.
    fn steps_mut(&mut self) -> Option<(&mut Stated<Steps>, u64)> {
        match self {
            Self::Sdp { selective } => Some((&mut selective.steps, selective.steps_per_epoch)),
            Self::Protect { weighted } => Some((&mut weighted.steps, weighted.steps_per_epoch)),
            other => other
                .noisy_mut()
                .map(|noisy| (&mut noisy.steps, noisy.steps_per_epoch)),
        }
    }

    /// Counts noisy steps that were taken. More steps than planned add up; fewer don't, because the end of a run may
    /// depend on what it released. If `first`, the steps belong to the first of two phases.
    pub fn count(&mut self, first: bool, taken: Steps) {
        let steps = match self {
            Self::Jft {
                first: FirstPhase::LightNoise { steps, .. },
                ..
            } if first => &mut steps.steps,
            other => match other.steps_mut() {
                Some((steps, _)) => steps,
                None => return,
            },
        };
        steps.value = steps.value.max(taken);
    }

    /// Drops what comes after `epochs` epochs of the last phase. What remains is what a checkpoint releases that,
    /// according to the plan, was to be taken there.
    pub fn cut(&mut self, epochs: u64) {
        match self {
            Self::Sgd { epochs: all, steps } => {
                all.value = all.value.min(epochs);
                *steps = None;
            }
            Self::Crt { epochs: all, .. } => *all = (*all).min(epochs),
            _ => {}
        }
        if let Some((steps, each)) = self.steps_mut() {
            let taken = Steps::new(epochs.saturating_mul(each));
            steps.value = steps.value.min(taken);
        }
    }

    /// Checks that our trainer can run this.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for a sampler other than Poisson, truncated Poisson and balls-in-bins, and for a
    /// run of which only the mechanism is known.
    pub fn trainable(&self) -> Result<()> {
        let unsupported = |what: String, why: &str| {
            Err(Error::Unsupported {
                what,
                why: why.into(),
            })
        };
        let mut noisy: Vec<&NoisySteps> = self.noisy().into_iter().collect();
        match self {
            Self::Mechanism { .. } => {
                return unsupported(
                    "a run that is known by its mechanism alone".into(),
                    "a mechanism says what was released, not how to train; give a recipe",
                );
            }
            Self::Jft {
                first: FirstPhase::LightNoise { steps, .. },
                ..
            } => noisy.push(steps),
            _ => {}
        }
        if noisy.iter().all(|steps| steps.sampling.is_trained()) {
            return Ok(());
        }
        unsupported(
            "training on batches of this sampler".into(),
            "the trainer draws batches by poisson, truncated-poisson and balls-in-bins; account for the plan, or leave \
             the sampler out",
        )
    }
}

impl Sampling {
    /// Returns whether the trainer draws batches by it.
    #[must_use]
    pub const fn is_trained(self) -> bool {
        matches!(
            self,
            Self::Poisson | Self::TruncatedPoisson { .. } | Self::BallsInBins
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_epochs_than_are_counted_exactly_are_refused() {
        for epochs in [1 << 63, (1 << 52) + 1] {
            let refused = NoisySteps::poisson(1.0, 0.5, epochs).unwrap_err();
            assert!(
                refused.to_string().starts_with("epochs must lie"),
                "{refused}"
            );
        }
        let most = NoisySteps::poisson(1.0, 0.5, 1 << 52).unwrap();
        assert_eq!(*most.steps, Steps::MOST);
    }

    /// The parts of a sequence begin with epochs of their own, which steps with falling noise do only between epochs.
    #[test]
    fn noise_that_falls_within_an_epoch_promises_nothing() {
        let noisy = |sampling, every| NoisySteps {
            sampling: Stated::given(sampling, "sampler"),
            noise_decay: Some(StepDecay::new(0.5, every).unwrap()),
            ..NoisySteps::poisson(2.0, 0.25, 3).unwrap()
        };
        let parts = |sampling, every| match noisy(sampling, every).mechanism() {
            Mechanism::Sequence { parts } => parts.len(),
            _ => 0,
        };
        assert_eq!(parts(Sampling::Poisson, 2), 6);
        assert_eq!(parts(Sampling::BallsInBins, 4), 3);
        for every in [1, 2, 6] {
            let run = noisy(Sampling::BallsInBins, every).mechanism();
            assert!(matches!(run, Mechanism::NonPrivate { .. }), "{run:?}");
        }
        let one_level = noisy(Sampling::BallsInBins, 13).mechanism();
        assert!(matches!(one_level, Mechanism::Repeat { .. }));
    }

    #[test]
    fn rates_that_dominate_nothing_are_refused() {
        let bad = |rates: &[f64], secret: &[u32]| {
            let refused = dominating_rates(rates, &[secret.to_vec()]).unwrap_err();
            refused.to_string()
        };
        assert!(bad(&[0.1, 0.2], &[0, 2]).starts_with("index of an example must lie"));
        assert!(bad(&[0.1, 1.5], &[0, 1]).starts_with("sampling rate must lie"));
        assert!(bad(&[f64::NAN], &[0]).starts_with("sampling rate must lie"));
        let all: Vec<u32> = (0..=10_000).collect();
        let mut rates = vec![1e-5; 10_001];
        assert_eq!(
            bad(&rates, &all),
            "drawn records of a secret must lie in [0, 10000], got 10001"
        );
        // One that is never drawn does not count.
        rates[3] = 0.0;
        assert_eq!(dominating_rates(&rates, &[all]).unwrap().len(), 10_000);
    }
}
