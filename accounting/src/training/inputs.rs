//! What the inputs of a document state, and the run that they describe, with which its mechanism is compared.

use super::{
    FirstPhase, NoisySteps, Recipe, Run, SelectiveSteps, Stated, StepDecay, Stopping, TrainingPlan,
    WeightedSteps, steps_of_epochs,
};
use crate::guarantee::confidentiality::RedactedAlike;
use crate::mechanism::json::{lenient, refused};
use crate::mechanism::{Mechanism, Sampling};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, GroupSize, NoiseMultiplier, SamplingRate, Steps, UnitName};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Deserialises a member that may be absent, but not null.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The inputs of a document about a run.
#[derive(Default, Deserialize)]
pub(super) struct Inputs {
    #[serde(default, deserialize_with = "present")]
    pub(super) unit: Option<UnitName>,
    #[serde(default, deserialize_with = "present")]
    pub(super) group: Option<GroupSize>,
    #[serde(default, deserialize_with = "present")]
    pub(super) seeded: Option<bool>,
    /// For a curve, what varies from point to point.
    #[serde(default, deserialize_with = "present")]
    pub(super) over: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(super) delta: Option<Delta>,
    #[serde(default, deserialize_with = "present")]
    pub(super) dataset_size: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    private_records: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    public_records: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    pub(super) held_out_public: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(super) canary_records: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    canary_records_unknown: Option<bool>,
    /// The model that training began from.
    #[serde(default)]
    model: Option<Value>,
    /// The files that say what ran.
    #[serde(default)]
    files: Option<Value>,
    #[serde(default)]
    pub(super) not_authenticated: Vec<String>,
    #[serde(default)]
    pub(super) assumed: Vec<String>,
    #[serde(default, deserialize_with = "present")]
    pub(super) recipe: Option<Recipe>,
    /// Zero where weights of protect are used without noise.
    #[serde(default, deserialize_with = "present")]
    sigma: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    noise_decay: Option<StepDecay>,
    /// The name of the sampler, without its parameters.
    #[serde(default, deserialize_with = "present")]
    sampler: Option<String>,
    #[serde(default, deserialize_with = "present")]
    sample_rate: Option<SamplingRate>,
    #[serde(default, deserialize_with = "present")]
    batch_size: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    max_batch: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    selected: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    epoch_steps: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    steps: Option<Steps>,
    #[serde(default, deserialize_with = "present")]
    epochs: Option<f64>,
    /// Of sdp, the passes in which a record can be used.
    #[serde(default, deserialize_with = "present")]
    passes: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    state_sigma: Option<NoiseMultiplier>,
    #[serde(default, deserialize_with = "present")]
    states: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    every_content_caught: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    first_sigma: Option<NoiseMultiplier>,
    #[serde(default, deserialize_with = "present")]
    first_sample_rate: Option<SamplingRate>,
    #[serde(default, deserialize_with = "present")]
    first_steps: Option<Steps>,
    #[serde(default, deserialize_with = "present")]
    redacted_alike: Option<RedactedAlike>,
    #[serde(default, deserialize_with = "present")]
    patience: Option<u64>,
    /// How learning rates fall.
    #[serde(default, deserialize_with = "present")]
    decay: Option<String>,
    /// Of a run that was trained, every setting, with its plan.
    #[serde(default)]
    options: Value,
}

/// Creates a value of a plan; where it comes from has no effect on what is released.
const fn stated<T>(value: T) -> Stated<T> {
    Stated::assumed(value)
}

/// Creates the refusal of the input `key`.
fn wrong(key: &str, why: &str) -> Error {
    refused(&format!("inputs.{key}"), why)
}

/// Returns an input that the run can't be described without.
fn needed<T>(key: &str, value: Option<T>) -> Result<T> {
    let missing = || wrong(key, "is missing beside inputs that describe a run");
    value.ok_or_else(missing)
}

/// Checks that an input is what others beside it amount to.
fn agree<T: PartialEq + std::fmt::Display>(key: &str, stated: T, own: T, why: &str) -> Result<()> {
    if stated == own {
        return Ok(());
    }
    Err(wrong(
        key,
        &format!("must be {own}, as {why} say, got {stated}"),
    ))
}

impl Inputs {
    /// Returns the number of records, or more: records on a public side may be among those that are trained on with noise.
    pub(super) fn records(&self) -> Option<u64> {
        let noised = self.noised_records()?;
        Some(noised.saturating_add(self.public_records.unwrap_or(0)))
    }

    /// Returns the number of records that noise covers.
    fn noised_records(&self) -> Option<u64> {
        self.dataset_size.or(self.private_records)
    }

    /// Whether they are of a run of crt in which every record is public: it adds no noise.
    fn has_no_private_side(&self) -> bool {
        let is_empty = self.private_records.unwrap_or(0) == 0;
        self.recipe == Some(Recipe::Crt) && self.sigma().is_none() && is_empty
    }

    /// Returns the noise multiplier. Earlier documents of training state it among the options alone.
    fn sigma(&self) -> Option<f64> {
        let of_options = || self.options.pointer("/private/noise_multiplier")?.as_f64();
        self.sigma.or_else(of_options)
    }

    /// Checks the numbers of records. Noise covers at least one, but in a run of crt without a private side; a public side
    /// may be empty only where there is another.
    pub(super) fn check_records(&self) -> Result<()> {
        let public_side =
            self.has_no_private_side() && self.public_records.is_some_and(|some| some > 0);
        let private_side = self.private_records.is_some_and(|some| some > 0);
        for (key, records, other_side) in [
            ("dataset_size", self.dataset_size, false),
            ("private_records", self.private_records, public_side),
            ("public_records", self.public_records, private_side),
        ] {
            if records == Some(0) && !other_side {
                return Err(wrong(key, "must lie in [1, inf), got 0"));
            }
        }
        match (self.dataset_size, self.private_records) {
            (Some(all), Some(noised)) => {
                agree("private_records", noised, all, "inputs.dataset_size")
            }
            _ => Ok(()),
        }
    }

    /// Whether the run may go on from others, of which the inputs state nothing.
    const fn may_go_on(&self) -> bool {
        self.model.is_some() || self.files.is_some()
    }

    /// Whether an earlier run may have had a canary in more records. A document about a model or files may be about a run
    /// that goes on from one; where it doesn't say, it is not known.
    pub(super) fn canary_records_unknown(&self) -> bool {
        self.canary_records_unknown.unwrap_or(self.may_go_on())
    }

    /// Checks that a mechanism is that of the run which the inputs describe. What protects nothing may stand beside it,
    /// since not every reason for that is an input; where the run may go on from others, so may other steps.
    pub(super) fn describe(&self, mechanism: &Mechanism) -> Result<()> {
        if let Some(plan) = self.options.get("plan") {
            let place = "inputs.options.plan";
            let plan = lenient::<TrainingPlan>(plan, place, &[])?;
            let unit = self.unit.as_ref().unwrap_or(&plan.unit);
            agree("unit", unit, &plan.unit, place)?;
            let delta = self.delta.map_or(plan.delta.get(), Delta::get);
            agree("delta", delta, plan.delta.get(), place)?;
            let planned = plan.mechanism();
            planned.validate().map_err(|error| error.within(place))?;
            if !mechanism.is_run_as_stated(&planned, false) {
                return Err(refused(
                    "mechanism",
                    "is not what inputs.options.plan releases",
                ));
            }
        }
        let describes = self.recipe.is_some()
            || self.sigma().is_some()
            || self.sample_rate.is_some()
            || self.batch_size.is_some()
            || self.steps.is_some()
            || self.epochs.is_some();
        if !describes {
            return Ok(());
        }
        let plan = self.plan(mechanism)?;
        if mechanism.is_run_as_stated(&plan.mechanism(), self.may_go_on()) {
            return Ok(());
        }
        let why = "is not what the inputs beside it state (recipe, sigma, sampler, sample_rate, steps and what these follow from)";
        Err(refused("mechanism", why))
    }

    /// Returns the plan that the inputs describe, as far as it decides what is released. A seed is none of that: a document
    /// may state it without its mechanism.
    fn plan(&self, mechanism: &Mechanism) -> Result<TrainingPlan> {
        let unit = match &self.unit {
            Some(unit) => unit.clone(),
            None => UnitName::new("record")?,
        };
        let public = || stated(self.held_out_public == Some(true));
        let stopping = self.patience.map(|patience| Stopping {
            patience: stated(patience),
            public: public(),
        });
        let by_text = self.decay.as_deref() == Some("plateau");
        let protects = self.recipe == Some(Recipe::Protect);
        Ok(TrainingPlan {
            stopping,
            rates_by_public_text: by_text.then(public),
            noiseless: protects && matches!(self.sigma, Some(0.0)),
            ..TrainingPlan::new(self.run(mechanism)?, unit)
        })
    }

    fn run(&self, mechanism: &Mechanism) -> Result<Run> {
        Ok(match self.recipe.unwrap_or(Recipe::Dpsgd) {
            Recipe::Sgd => Run::Sgd {
                epochs: stated(1),
                steps: None,
            },
            Recipe::Dpsgd => Run::Dpsgd {
                private: self.noisy()?,
            },
            Recipe::Crt => Run::Crt {
                private: match self.has_no_private_side() {
                    true => None,
                    false => Some(self.noisy()?),
                },
                public_passes: stated(1),
                epochs: 1,
            },
            Recipe::Sdp => Run::Sdp {
                selective: self.selective()?,
            },
            Recipe::Jft => {
                let second = self.noisy()?;
                Run::Jft {
                    first: self.first_phase(&second)?,
                    second,
                }
            }
            Recipe::Protect => Run::Protect {
                weighted: self.weighted(mechanism)?,
            },
        })
    }

    fn noise_multiplier(&self) -> Result<Stated<NoiseMultiplier>> {
        let sigma = NoiseMultiplier::new(needed("sigma", self.sigma())?);
        Ok(stated(sigma.map_err(|e| e.within("inputs.sigma"))?))
    }

    /// Returns the steps on sampled batches. What is stated twice must agree.
    fn noisy(&self) -> Result<NoisySteps> {
        let sampling = self.sampling()?;
        let rate = self.rate(sampling)?;
        let steps_per_epoch = self.epoch_steps.unwrap_or(match sampling {
            Sampling::RandomAllocation { steps, .. } => steps,
            each if each.steps_of_epoch(rate).is_some() => Steps::whole_per_epoch(rate).get(),
            _ => Steps::per_epoch(rate).get(),
        });
        let by_epochs = self.epochs.map(|epochs| {
            let steps = steps_of_epochs(epochs, steps_per_epoch);
            steps.map_err(|e| e.within("inputs.epochs"))
        });
        let steps = match (self.steps, by_epochs.transpose()?) {
            (Some(steps), Some(counted)) => {
                agree("steps", steps.get(), counted.get(), "inputs.epochs")?;
                steps
            }
            (steps, counted) => needed("steps", steps.or(counted))?,
        };
        Ok(NoisySteps {
            noise_multiplier: self.noise_multiplier()?,
            sampling: stated(sampling),
            sampling_rate: stated(rate),
            steps_per_epoch,
            steps: stated(steps),
            noise_decay: self.noise_decay,
        })
    }

    /// Returns the sampler with its parameters.
    fn sampling(&self) -> Result<Sampling> {
        let records = self.noised_records();
        Ok(match self.sampler.as_deref() {
            None => Sampling::Poisson,
            Some("truncated-poisson") => Sampling::TruncatedPoisson {
                max_batch: needed("max_batch", self.max_batch)?,
                records: needed("dataset_size", records)?,
            },
            Some("random-allocation") => Sampling::RandomAllocation {
                selected: needed("selected", self.selected)?,
                steps: needed("epoch_steps", self.epoch_steps)?,
            },
            Some(name) => Sampling::deserialize(Value::from(name))
                .map_err(|error| wrong("sampler", &error.to_string()))?,
        })
    }

    /// Returns the sampling rate, which is stated or follows from a batch or from the steps of an epoch.
    fn rate(&self, sampling: Sampling) -> Result<SamplingRate> {
        let counted = match (self.epoch_steps, self.batch_size, self.noised_records()) {
            (Some(steps), ..) => {
                let share = self.selected.unwrap_or(1) as f64 / steps as f64;
                let rate = SamplingRate::new(share);
                Some((
                    rate.map_err(|e| e.within("inputs.epoch_steps"))?,
                    "inputs.epoch_steps",
                ))
            }
            (None, Some(batch), Some(records)) => {
                let rate = SamplingRate::of_share(batch, records);
                let rate = rate.map_err(|e| e.within("inputs.batch_size"))?;
                Some((rate, "inputs.batch_size and the number of records"))
            }
            (None, ..) => None,
        };
        match (self.sample_rate, counted) {
            (Some(rate), Some((counted, why))) => {
                // The trainer draws each record into one of so many bins.
                let in_bins = SamplingRate::of_share(1, Steps::whole_per_epoch(counted).get());
                let drawn = match sampling {
                    Sampling::BallsInBins if in_bins.is_ok_and(|own| own == rate) => rate,
                    _ => counted,
                };
                agree("sample_rate", rate, drawn, why)?;
                Ok(rate)
            }
            (rate, counted) => needed("sample_rate", rate.or(counted.map(|(rate, _)| rate))),
        }
    }

    fn selective(&self) -> Result<SelectiveSteps> {
        let passes = needed("passes", self.passes)?;
        if let Some(epochs) = self.epochs {
            agree("passes", passes as f64, epochs.ceil(), "inputs.epochs")?;
        }
        if let (Some(steps), Some(batch), Some(records)) =
            (self.steps, self.batch_size, self.noised_records())
        {
            let own = steps.get().div_ceil(records.div_ceil(batch.max(1)).max(1));
            let why = "inputs.steps, inputs.batch_size and the number of records";
            agree("passes", passes, own, why)?;
        }
        Ok(SelectiveSteps {
            noise_multiplier: self.noise_multiplier()?,
            state_noise_multiplier: stated(needed("state_sigma", self.state_sigma)?),
            batch_size: stated(1),
            // What is released depends on the passes alone.
            steps_per_epoch: 1,
            steps: stated(Steps::new(passes)),
            states: stated(needed("states", self.states)?),
            every_content_caught: stated(needed(
                "every_content_caught",
                self.every_content_caught,
            )?),
        })
    }

    fn first_phase(&self, second: &NoisySteps) -> Result<FirstPhase> {
        let Some(sigma) = self.first_sigma else {
            return Ok(FirstPhase::Ordinary {
                epochs: stated(1),
                screened: false,
                alike: stated(needed("redacted_alike", self.redacted_alike)?),
            });
        };
        let steps = NoisySteps {
            noise_multiplier: stated(sigma),
            sampling_rate: stated(needed("first_sample_rate", self.first_sample_rate)?),
            steps: stated(needed("first_steps", self.first_steps)?),
            noise_decay: None,
            ..second.clone()
        };
        Ok(FirstPhase::LightNoise {
            steps,
            token_miss: None,
        })
    }

    /// Returns the steps of protect. No input states their rates, which are therefore those of the mechanism.
    fn weighted(&self, mechanism: &Mechanism) -> Result<WeightedSteps> {
        let rates = mechanism.runs().into_iter().find_map(|run| match run.step {
            Mechanism::PoissonBinomialGaussian { rates, .. } => Some(rates.clone()),
            _ => None,
        });
        let noise_multiplier = match self.sigma {
            // It is left out.
            Some(0.0) => stated(NoiseMultiplier::new(1.0)?),
            _ => self.noise_multiplier()?,
        };
        Ok(WeightedSteps {
            noise_multiplier,
            batch: stated(1.0),
            steps_per_epoch: 1,
            steps: stated(needed("steps", self.steps)?),
            secret_rates: stated(rates.unwrap_or_default()),
            secrets: None,
        })
    }
}
