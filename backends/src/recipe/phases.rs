//! Phases as a manifest lists them: reconstructs the run of a manifest without a plan, and computes what a paper
//! estimates for a run.

use crate::checkpoint::manifest::Phase;
use crate::error::{Error, Result};
use reticent_accounting::confidentiality::{LightNoise, RedactedAlike};
use reticent_accounting::training::{
    FirstPhase, NoisySteps, Recipe, Run, SelectiveSteps, Stated, StepDecay, TrainingPlan,
    WeightedSteps,
};
use reticent_accounting::{Mechanism, NoiseMultiplier, Sampling, SamplingRate, Steps};

/// The stated origin of values that were read from phases.
const PHASES: &str = "phases";

fn noisy(
    (steps, rate): (u64, f64),
    (sigma, noise_decay): (f64, Option<StepDecay>),
    sampling: Sampling,
) -> Result<NoisySteps> {
    let sampling_rate = SamplingRate::new(rate)?;
    Ok(NoisySteps {
        noise_multiplier: Stated::given(NoiseMultiplier::new(sigma)?, PHASES),
        sampling: Stated::given(sampling, PHASES),
        sampling_rate: Stated::given(sampling_rate, PHASES),
        steps_per_epoch: Steps::per_epoch(sampling_rate).get(),
        steps: Stated::given(Steps::new(steps), PHASES),
        noise_decay,
    })
}

/// Returns the noisy steps of the first phase of this kind.
fn private(phases: &[Phase]) -> Result<Option<NoisySteps>> {
    let found = phases.iter().find_map(|phase| match phase {
        Phase::Private {
            steps,
            noise_multiplier,
            sampling_rate,
            sampling,
            noise_decay,
            ..
        } => Some(noisy(
            (*steps, *sampling_rate),
            (*noise_multiplier, *noise_decay),
            *sampling,
        )),
        _ => None,
    });
    found.transpose()
}

fn first_phase(phases: &[Phase]) -> Result<Option<FirstPhase>> {
    let found = phases.iter().find_map(|phase| match phase {
        Phase::Redacted {
            screened, alike, ..
        } => Some(Ok(FirstPhase::Ordinary {
            epochs: Stated::given(1, PHASES),
            screened: *screened,
            alike: Stated::given(*alike, PHASES),
        })),
        Phase::LightNoise {
            steps,
            noise_multiplier,
            sampling_rate,
            sampling,
            miss,
            ..
        } => Some(
            noisy(
                (*steps, *sampling_rate),
                (*noise_multiplier, None),
                *sampling,
            )
            .map(|steps| FirstPhase::LightNoise {
                steps,
                token_miss: *miss,
            }),
        ),
        _ => None,
    });
    found.transpose()
}

fn selective(phases: &[Phase]) -> Result<Option<SelectiveSteps>> {
    let found = phases.iter().find_map(|phase| match phase {
        Phase::Selective {
            steps,
            passes,
            batch_size,
            noise_multiplier,
            state_noise_multiplier,
            states,
            alike:
                RedactedAlike {
                    every_content_caught,
                    ..
                },
            ..
        } => Some((|| {
            Ok(SelectiveSteps {
                noise_multiplier: Stated::given(NoiseMultiplier::new(*noise_multiplier)?, PHASES),
                state_noise_multiplier: Stated::given(
                    NoiseMultiplier::new(*state_noise_multiplier)?,
                    PHASES,
                ),
                batch_size: Stated::given(*batch_size, PHASES),
                // The steps per pass that are needed for the counted steps to fit into the passes.
                steps_per_epoch: steps.div_ceil((*passes).max(1)),
                steps: Stated::given(Steps::new(*steps), PHASES),
                states: Stated::given(*states, PHASES),
                every_content_caught: Stated::given(*every_content_caught, PHASES),
            })
        })()),
        _ => None,
    });
    found.transpose()
}

fn weighted(phases: &[Phase]) -> Result<Option<WeightedSteps>> {
    let found = phases.iter().find_map(|phase| match phase {
        Phase::Weighted {
            steps,
            noise_multiplier,
            secret_rates,
            expected_batch,
            ..
        } => Some((|| {
            Ok(WeightedSteps {
                noise_multiplier: Stated::given(NoiseMultiplier::new(*noise_multiplier)?, PHASES),
                batch: Stated::given(*expected_batch, PHASES),
                steps_per_epoch: *steps,
                steps: Stated::given(Steps::new(*steps), PHASES),
                secret_rates: Stated::given(secret_rates.clone(), PHASES),
                secrets: None,
            })
        })()),
        _ => None,
    });
    found.transpose()
}

/// Reconstructs the run of a manifest without a plan from its phases.
///
/// # Errors
/// Returns an error if the phases are not those of the recipe.
pub(crate) fn run_of(recipe: Recipe, phases: &[Phase]) -> Result<Run> {
    let lacks = || Error::Unsuitable(format!("phases: they are not those of recipe {recipe}"));
    let one = Stated::given(1, PHASES);
    let unprotected = phases
        .iter()
        .any(|phase| matches!(phase, Phase::Unprotected { .. }));
    if unprotected != (recipe == Recipe::Sgd) {
        return Err(lacks());
    }
    let is_own = |phase: &Phase| match phase {
        Phase::Unprotected { .. } | Phase::Stopped { .. } => true,
        Phase::Public { .. } => recipe == Recipe::Crt,
        Phase::Private { .. } => {
            matches!(recipe, Recipe::Dpsgd | Recipe::Crt | Recipe::Jft)
        }
        Phase::Redacted { .. } | Phase::LightNoise { .. } => recipe == Recipe::Jft,
        Phase::Selective { .. } => recipe == Recipe::Sdp,
        Phase::Weighted { .. } => recipe == Recipe::Protect,
    };
    let is_first =
        |phase: &&Phase| matches!(phase, Phase::Redacted { .. } | Phase::LightNoise { .. });
    let kinds: Vec<_> = phases.iter().map(std::mem::discriminant).collect();
    let mut each = kinds.iter().enumerate();
    if !phases.iter().all(is_own)
        || each.any(|(i, kind)| kinds[..i].contains(kind))
        || phases.iter().filter(is_first).count() > 1
    {
        return Err(lacks());
    }
    Ok(match recipe {
        Recipe::Sgd => Run::Sgd {
            epochs: one,
            steps: None,
        },
        Recipe::Dpsgd => Run::Dpsgd {
            private: private(phases)?.ok_or_else(lacks)?,
        },
        Recipe::Crt => Run::Crt {
            private: private(phases)?,
            public_passes: one,
            epochs: 1,
        },
        Recipe::Sdp => Run::Sdp {
            selective: selective(phases)?.ok_or_else(lacks)?,
        },
        Recipe::Jft => Run::Jft {
            first: first_phase(phases)?.ok_or_else(lacks)?,
            second: private(phases)?.ok_or_else(lacks)?,
        },
        Recipe::Protect => Run::Protect {
            weighted: weighted(phases)?.ok_or_else(lacks)?,
        },
    })
}

/// Returns what a paper estimates where it has no bound: JFT's light noise, at both ends of the given interval of the
/// miss rate, followed by the rest of the run.
///
/// # Errors
/// Returns an error if a constant is out of range.
pub(crate) fn estimates(plan: &TrainingPlan, phases: &[Phase]) -> Result<Vec<Mechanism>> {
    let Run::Jft { second, .. } = &plan.run else {
        return Ok(Vec::new());
    };
    let light = phases.iter().find_map(|phase| match phase {
        Phase::LightNoise {
            steps,
            noise_multiplier,
            sampling_rate,
            sampling: Sampling::Poisson,
            miss: Some(miss),
            ..
        } => Some((*steps, *noise_multiplier, *sampling_rate, *miss)),
        _ => None,
    });
    let Some((steps, sigma, rate, miss)) = light else {
        return Ok(Vec::new());
    };
    let light = LightNoise {
        noise_multiplier: NoiseMultiplier::new(sigma)?,
        sampling_rate: SamplingRate::new(rate)?,
        steps: Steps::new(steps),
        miss,
        second: second.mechanism(),
    };
    let ends = light.mechanism()?.into_iter().map(|mechanism| {
        let end = TrainingPlan {
            run: Run::Mechanism { mechanism },
            ..plan.clone()
        };
        end.mechanism()
    });
    Ok(ends.collect())
}
