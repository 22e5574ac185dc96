//! What has to be kept, and whether it is.

use super::{Promise, numbered};
use crate::account::cli::Calibrate;
use crate::account::plan::neighbours_of;
use crate::contract::{Inputs, Number};
use anyhow::{Result, anyhow};
use reticent_accounting::calibrate::Target;
use reticent_accounting::trade_off::true_positive_rate;
use reticent_accounting::{
    Bounds, Direction, GroupSize, Neighbours, Plan, PrivacyLoss, Probability, Query, Redaction,
    Tolerance, Upper,
};

/// What has to be kept, the flag that says so, and the inputs.
pub(super) fn target(wish: &Calibrate, inputs: Inputs) -> Result<(Target, &'static str, Inputs)> {
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
            "--posterior",
            inputs,
        ));
    }
    if let (Some(bits), Some(probability)) = (wish.max_exposure, wish.chance) {
        let inputs = inputs
            .given("max_exposure", bits)?
            .given("chance", probability)?;
        return Ok((
            Target::Exposure {
                group,
                bits,
                probability,
            },
            "--max-exposure",
            inputs,
        ));
    }
    let asked = neighbours_of(wish.neighbours, wish.schedule.sampler);
    let query = Query {
        neighbours: asked,
        group,
    };
    let with_neighbours = |inputs: Inputs| {
        inputs.or_assumed("neighbours", wish.neighbours.map(Neighbours::from), asked)
    };
    if let (Some(tpr), Some(fpr)) = (wish.tpr, wish.fpr) {
        let inputs = with_neighbours(inputs.given("tpr", tpr)?.given("fpr", fpr)?)?;
        return Ok((
            Target::TruePositiveRate { query, fpr, tpr },
            "--tpr",
            inputs,
        ));
    }
    let epsilon = wish
        .epsilon
        .ok_or_else(|| anyhow!("--epsilon, --posterior, --tpr or --max-exposure is needed"))?;
    let delta = super::delta(wish);
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
            "--epsilon",
            inputs,
        ));
    }
    Ok((
        Target::Epsilon {
            query,
            epsilon,
            delta,
        },
        "--epsilon",
        with_neighbours(inputs)?,
    ))
}

/// The promised quantity at the answer, evaluated once more.
pub(super) fn promise(plan: &Plan, target: Target) -> Result<Promise> {
    let zero_out = |group| -> Result<PrivacyLoss> {
        let query = Query {
            neighbours: Neighbours::ZeroOut,
            group,
        };
        Ok(PrivacyLoss::of(&plan.mechanism, query, Direction::Remove)?)
    };
    let group = plan.group;
    let (quantity, allowed, value) = match target {
        Target::Epsilon { epsilon, .. } => ("epsilon", epsilon.get(), numbered(plan.epsilon()?)),
        Target::Stranger { epsilon, .. } => {
            let found = plan
                .bayesian_epsilon()?
                .ok_or_else(|| anyhow!("--gamma is needed"))?;
            (
                "epsilon, adversary ignores the secret",
                epsilon.get(),
                numbered(found),
            )
        }
        Target::Posterior {
            prior, posterior, ..
        }
        | Target::PosteriorByKlFano {
            prior, posterior, ..
        } => {
            let found = zero_out(group)?.blow_up(prior, plan.tolerance)?;
            (
                "chance of guessing the secret",
                posterior.get(),
                numbered(found.bounds),
            )
        }
        Target::Exposure {
            bits, probability, ..
        } => {
            let share = Probability::new((-bits).exp2())?;
            let found = zero_out(group)?.blow_up(share, plan.tolerance)?;
            (
                "chance of that exposure",
                probability.get(),
                numbered(found.bounds),
            )
        }
        Target::TruePositiveRate { query, fpr, tpr } => {
            let query = Query { group, ..query };
            let found = true_positive_rate(&plan.mechanism, query, fpr, plan.tolerance)?;
            ("true-positive rate", tpr.get(), numbered(found.bounds))
        }
    };
    Ok(Promise {
        quantity: quantity.to_owned(),
        allowed: Number(allowed),
        value: Bounds {
            upper: (value.upper).map(|end| kept(end, allowed, plan.tolerance)),
            ..value
        },
    })
}

/// The answer is certified to keep what is allowed; asked the other way round, the same bound may end up
/// to a tolerance above it.
fn kept(end: Upper<Number>, allowed: f64, tolerance: Tolerance) -> Upper<Number> {
    let above = end.get().0 / allowed - 1.0;
    if above > 0.0 && above <= tolerance.get() {
        Upper::new(Number(allowed))
    } else {
        end
    }
}
