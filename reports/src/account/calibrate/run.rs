//! Finds the last value of a parameter that keeps a promise, as a document.

use super::args::{Calibrate, Solve};
use super::target::{guarantees, promise, replaced, target};
use crate::account::plan::{Source, neighbours_of, speaks_of_records, unit};
use crate::contract::{Envelope, Inputs, Number};
use crate::plan::schedule::{Defaults, at_rate, noisy_steps};
use crate::plan::{UNIT, run_inputs};
use anyhow::{Context, Result, bail};
use reticent_accounting::calibrate::{
    Calibration, Target, calibrate_group, calibrate_noise, calibrate_rate, calibrate_steps,
};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::training::{self, NoisySteps, Run, Stated, TrainingPlan};
use reticent_accounting::{
    Bounds, GroupSize, Guarantee, Lower, Mechanism, NoiseMultiplier, Plan, SamplingRate, Steps,
    Tolerance, UnitName, Upper,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of a `calibration` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Calibrated {
    /// Which parameter was found.
    #[serde(default)]
    pub(crate) solved: Solve,
    /// The promise is certified at this value: the safe end of the bracket.
    pub(crate) answer: f64,
    /// It could not be certified at this one; absent when every value of the range keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fails: Option<f64>,
    /// What the same target costs when proved by Fano's inequality, if it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kl_fano: Option<f64>,
    /// The noise multiplier, found or given; absent for a mechanism from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sigma: Option<NoiseMultiplier>,
    /// `fails`, if noise was solved for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) too_small: Option<f64>,
    /// `kl_fano`, if noise was solved for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kl_fano_sigma: Option<f64>,
    /// The model of others that the run of the file began from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<training::Base>,
    /// The promise at the solution.
    pub(crate) promise: Promise,
    /// ε at the same δ of replacing the same records' content, as secrets and canaries are; absent if that is the promise
    /// itself or nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaced: Option<Bounds<Number>>,
    /// The guarantees at the solution.
    pub(crate) guarantees: Vec<Guarantee>,
}

/// A bounded quantity, and its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Promise {
    /// Which quantity, in words.
    pub(crate) quantity: String,
    /// The most that was allowed.
    pub(crate) allowed: Number,
    /// Both ends of its value.
    pub(crate) value: Bounds<Number>,
}

/// Everything that is fixed during the search for one parameter.
struct Search<'a> {
    wish: &'a Calibrate,
    file: Option<Mechanism>,
    base: Option<training::Base>,
    noisy: NoisySteps,
    tolerance: Tolerance,
}

/// Finds the parameter and the guarantees at it.
///
/// # Errors
/// Returns an error if values contradict each other or no value keeps the promise.
pub(crate) fn calibrate(wish: &Calibrate) -> Result<Envelope<Calibrated>> {
    consistent(wish)?;
    let (search, file, inputs) = prepare(wish)?;
    let file_unit = file.as_ref().and_then(|file| file.unit.as_ref());
    let (said, unit) = unit(wish.unit.as_ref(), file_unit, false)?;
    let (given, delta) = match &file {
        Some(file) => file.delta(wish.delta),
        None => {
            let default = || TrainingPlan::default_delta(wish.dataset_size);
            (wish.delta, wish.delta.unwrap_or_else(default))
        }
    };
    let inputs = inputs
        .or_assumed("unit", said, unit.clone())?
        .or_assumed("tolerance", wish.tolerance, search.tolerance)?
        .given("group", wish.group)?;
    let (target, flag, inputs) = target(wish, (given, delta), inputs)?;
    let found = search.run(target).context(flag)?;
    let kl_fano = match target {
        // What can't be proved by this bound costs more than any value of the range; posterior 1, and any of prior 0, it
        // proves at all of them.
        Target::Posterior {
            group,
            prior,
            posterior,
        } if prior.get() > 0.0 && posterior.get() < 1.0 => search
            .run(Target::PosteriorByKlFano {
                group,
                prior,
                posterior,
            })
            .ok()
            .map(|by_fano| by_fano.answer),
        _ => None,
    };
    let (mechanism, group) = search.at(found.answer)?;
    let plan = Plan {
        neighbours: neighbours_of(wish.neighbours, wish.schedule.sampler),
        group,
        redaction: wish.gamma.map(Redaction::single_policy),
        prior: wish.prior,
        tolerance: search.tolerance,
        ..Plan::new(mechanism, unit, delta)
    };
    let rows = guarantees(&plan, target).context(flag)?;
    let of_noise = |value: Option<f64>| value.filter(|_| wish.solve == Solve::Sigma);
    let body = Calibrated {
        solved: wish.solve,
        answer: found.answer,
        fails: found.fails,
        kl_fano,
        sigma: match (&search.file, wish.solve) {
            (Some(_), _) => None,
            (None, Solve::Sigma) => Some(NoiseMultiplier::new(found.answer)?),
            (None, _) => wish.sigma,
        },
        too_small: of_noise(found.fails),
        kl_fano_sigma: of_noise(kl_fano),
        base: search.base,
        promise: promise(&plan, target, &rows).context(flag)?,
        replaced: replaced(&plan, target),
        guarantees: rows,
    };
    Ok(Envelope::new("calibration", inputs, body))
}

/// Checks that the parameter to be found is left open and everything else is given.
fn consistent(wish: &Calibrate) -> Result<()> {
    let schedule = &wish.schedule;
    let open: &[(&str, bool)] = match wish.solve {
        Solve::Sigma => &[
            ("--sigma", wish.sigma.is_some()),
            ("--mechanism", wish.mechanism.is_some()),
        ],
        Solve::Rate => &[
            ("--sample-rate", schedule.sample_rate.is_some()),
            ("--batch-size", schedule.batch_size.is_some()),
            ("--epoch-steps", schedule.epoch_steps.is_some()),
            ("--epochs", schedule.epochs.is_some()),
            ("--mechanism", wish.mechanism.is_some()),
        ],
        Solve::Steps => &[
            ("--steps", schedule.steps.is_some()),
            ("--epochs", schedule.epochs.is_some()),
        ],
        Solve::Group => &[("--group", wish.group.is_some())],
    };
    let solved = name(wish.solve);
    if let Some((flag, _)) = open.iter().find(|(_, given)| *given) {
        bail!("{flag}: leaves nothing to find with --solve {solved}");
    }
    if wish.solve != Solve::Sigma && wish.sigma.is_none() && wish.mechanism.is_none() {
        bail!("--sigma: is needed with --solve {solved}");
    }
    Ok(())
}

/// Returns the parameter's name as in its flag.
pub(super) const fn name(solve: Solve) -> &'static str {
    match solve {
        Solve::Sigma => "sigma",
        Solve::Rate => "rate",
        Solve::Steps => "steps",
        Solve::Group => "group",
    }
}

/// Returns what is fixed during the search, what a file of a mechanism describes, and the inputs.
fn prepare(wish: &Calibrate) -> Result<(Search<'_>, Option<Source>, Inputs)> {
    let request = wish.request();
    let source = match &wish.mechanism {
        Some(path) => {
            let source = Source::of_mechanism(path, neighbours_of(wish.neighbours, None))?;
            speaks_of_records(source.run.narrower())?;
            Some(source)
        }
        None => None,
    };
    // The parameter that is solved for gets a placeholder, which is not recorded and never used.
    let sigma = wish.sigma.map_or_else(|| NoiseMultiplier::new(1.0), Ok)?;
    let noisy = noisy_steps(
        &request,
        Stated::given(sigma, "--sigma"),
        wish.dataset_size,
        Defaults::Question,
    )?;
    let run = Run::Dpsgd {
        private: noisy.clone(),
    };
    let plan = TrainingPlan::new(run, UnitName::new(UNIT)?);
    let full = run_inputs(&request, &plan)?.given("solve", wish.solve)?;
    let full = match wish.sigma {
        Some(_) => full,
        None => full.without("sigma"),
    };
    let inputs = match (&source, wish.solve) {
        (Some(source), _) => source.inputs.clone().given("solve", wish.solve)?,
        (None, Solve::Rate) => full.without("sample_rate"),
        (None, Solve::Steps) => full.without("steps"),
        (None, Solve::Sigma | Solve::Group) => full,
    };
    let base = source.as_ref().and_then(|source| source.run.base());
    let file = source.as_ref().map(|source| source.mechanism.clone());
    let tolerance = wish.tolerance.unwrap_or(Tolerance::DEFAULT);
    Ok((
        Search {
            wish,
            file,
            base,
            noisy,
            tolerance,
        },
        source,
        inputs,
    ))
}

impl Search<'_> {
    fn run(&self, target: Target) -> Result<Calibration<f64>> {
        let (noisy, tolerance) = (&self.noisy, self.tolerance);
        Ok(match self.wish.solve {
            Solve::Sigma => {
                let run = |sigma| noisy.with_noise(sigma).mechanism();
                numbers(
                    calibrate_noise(run, target, tolerance)?,
                    NoiseMultiplier::get,
                )
            }
            Solve::Rate => {
                // A sampler without a rate of its own is refused by name.
                self.at_rate(*noisy.sampling_rate)?;
                let run = |rate| {
                    self.at_rate(rate).map_or_else(
                        |error| Mechanism::NonPrivate {
                            why: error.to_string(),
                        },
                        |noisy| noisy.mechanism(),
                    )
                };
                numbers(calibrate_rate(run, target, tolerance)?, SamplingRate::get)
            }
            Solve::Steps => {
                let found = calibrate_steps(|steps| self.times(steps), target, tolerance)?;
                numbers(found, |steps: Steps| steps.get() as f64)
            }
            Solve::Group => {
                let found = calibrate_group(&self.times(*noisy.steps), target, tolerance)?;
                numbers(found, |group: GroupSize| group.get().into())
            }
        })
    }

    fn at_rate(&self, rate: SamplingRate) -> Result<NoisySteps> {
        let (request, records) = (self.wish.request(), self.wish.dataset_size);
        at_rate(&request, &self.noisy, rate, records, Defaults::Question)
    }

    /// Returns DP-SGD of so many steps. A mechanism from a file runs that many times, or once if
    /// the number of steps is not solved for.
    fn times(&self, steps: Steps) -> Mechanism {
        match (&self.file, self.wish.solve) {
            (Some(each), Solve::Steps) => each.clone().repeated(steps),
            (Some(each), _) => each.clone(),
            (None, _) => self.noisy.with_steps(steps).mechanism(),
        }
    }

    /// Returns what runs at the answer, and the group size of the question.
    fn at(&self, answer: f64) -> Result<(Mechanism, GroupSize)> {
        let group = self.wish.group.unwrap_or(GroupSize::ONE);
        Ok(match self.wish.solve {
            Solve::Sigma => {
                let noise = NoiseMultiplier::new(answer)?;
                (self.noisy.with_noise(noise).mechanism(), group)
            }
            Solve::Rate => {
                let rate = SamplingRate::new(answer)?;
                (self.at_rate(rate)?.mechanism(), group)
            }
            Solve::Steps => (self.times(Steps::new(answer as u64)), group),
            Solve::Group => (
                self.times(*self.noisy.steps),
                GroupSize::new(answer as u32)?,
            ),
        })
    }
}

fn numbers<T: Copy>(found: Calibration<T>, get: impl Fn(T) -> f64) -> Calibration<f64> {
    Calibration {
        answer: get(found.answer),
        fails: found.fails.map(get),
    }
}

pub(in crate::account) fn numbered<T: Copy + Into<f64>>(bounds: Bounds<T>) -> Bounds<Number> {
    Bounds {
        lower: bounds.low().map(|end| Lower::new(Number(end))),
        upper: bounds.high().map(|end| Upper::new(Number(end))),
    }
}
