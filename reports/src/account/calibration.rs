//! The least noise that keeps a promise, as a document.

use super::cli::Calibrate;
use super::plan::{DELTA, UNIT, schedule};
use crate::contract::{Envelope, Inputs};
use anyhow::{Context, Result, anyhow};
use reticent_accounting::calibrate::{Target, calibrate_noise as search};
use reticent_accounting::{
    Delta, GroupSize, Guarantee, Mechanism, Neighbours, NoiseMultiplier, Plan, Query, Redaction,
    Tolerance, UnitName,
};
use serde::{Deserialize, Serialize};

/// The body of a `calibration` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The least noise multiplier found; the promise is certified at it.
    pub sigma: NoiseMultiplier,
    /// The promise could not be certified at this one; absent when the least noise tried suffices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_small: Option<NoiseMultiplier>,
    /// What the same posterior costs when it is proved by Fano's inequality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl_fano_sigma: Option<NoiseMultiplier>,
    /// The guarantees at `sigma`.
    pub guarantees: Vec<Guarantee>,
}

/// Finds the noise and the guarantees at it.
///
/// # Errors
/// Values that contradict each other, or a promise no noise keeps.
pub fn calibrate(wish: &Calibrate) -> Result<Envelope<Calibrated>> {
    let (rate, steps, inputs) = schedule(&wish.schedule, Inputs::new())?;
    let run = |sigma| Mechanism::dp_sgd(sigma, rate, steps);
    let unit = wish.unit.clone().map_or_else(|| UnitName::new(UNIT), Ok)?;
    let tolerance = wish.tolerance.unwrap_or(Tolerance::DEFAULT);
    let inputs = inputs
        .or_assumed("unit", wish.unit.clone(), unit.clone())?
        .or_assumed("tolerance", wish.tolerance, tolerance)?;
    let inputs = match wish.group {
        Some(group) => inputs.given("group", group)?,
        None => inputs,
    };
    let (target, inputs) = target(wish, inputs)?;
    let flag = if wish.posterior.is_some() {
        "--posterior"
    } else {
        "--epsilon"
    };
    let found = search(run, target, tolerance).context(flag)?;
    let kl_fano_sigma = match target {
        Target::Posterior {
            group,
            prior,
            posterior,
        } => {
            let by_fano = Target::PosteriorByKlFano {
                group,
                prior,
                posterior,
            };
            Some(search(run, by_fano, tolerance).context(flag)?.answer)
        }
        _ => None,
    };
    let plan = plan(wish, run(found.answer), unit, tolerance)?;
    let body = Calibrated {
        sigma: found.answer,
        too_small: found.fails,
        kl_fano_sigma,
        guarantees: plan.guarantees()?,
    };
    Ok(Envelope::new("calibration", inputs, body))
}

/// What the noise has to achieve, and the inputs that say so.
fn target(wish: &Calibrate, inputs: Inputs) -> Result<(Target, Inputs)> {
    let group = wish.group.unwrap_or(GroupSize::ONE);
    if let (Some(prior), Some(posterior)) = (wish.prior, wish.posterior) {
        let inputs = inputs
            .given("prior", prior)?
            .given("posterior", posterior)?;
        return Ok((
            Target::Posterior {
                group,
                prior,
                posterior,
            },
            inputs,
        ));
    }
    let epsilon = wish
        .epsilon
        .ok_or_else(|| anyhow!("--epsilon or --posterior is needed"))?;
    let delta = wish.delta.map_or_else(|| Delta::new(DELTA), Ok)?;
    let inputs = inputs
        .given("epsilon", epsilon)?
        .or_assumed("delta", wish.delta, delta)?;
    if let Some(gamma) = wish.gamma {
        let redaction = Redaction::single_policy(gamma);
        let inputs = inputs.given("gamma", gamma)?;
        return Ok((
            Target::Stranger {
                redaction,
                group,
                epsilon,
                delta,
            },
            inputs,
        ));
    }
    let neighbours = wish.neighbours.map_or(Neighbours::AddRemove, Into::into);
    let inputs = inputs.or_assumed(
        "neighbours",
        wish.neighbours.map(Neighbours::from),
        neighbours,
    )?;
    Ok((
        Target::Epsilon {
            query: Query { neighbours, group },
            epsilon,
            delta,
        },
        inputs,
    ))
}

fn plan(
    wish: &Calibrate,
    mechanism: Mechanism,
    unit: UnitName,
    tolerance: Tolerance,
) -> Result<Plan> {
    let delta = wish.delta.map_or_else(|| Delta::new(DELTA), Ok)?;
    let mut plan = Plan::new(mechanism, unit, delta);
    plan.neighbours = wish.neighbours.map_or(Neighbours::AddRemove, Into::into);
    plan.group = wish.group.unwrap_or(GroupSize::ONE);
    plan.redaction = wish.gamma.map(Redaction::single_policy);
    plan.prior = wish.prior;
    plan.tolerance = tolerance;
    Ok(plan)
}
