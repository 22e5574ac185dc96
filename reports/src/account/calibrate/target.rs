//! The promise that a calibration has to keep, and whether it is kept.

use super::args::{By, Calibrate};
use super::run::{Promise, numbered};
use crate::account::answer::headline;
use crate::account::plan::neighbours_of;
use crate::contract::{Inputs, Number};
use crate::number::shortest;
use anyhow::{Result, anyhow, bail, ensure};
use reticent_accounting::calibrate::Target;
use reticent_accounting::rdp::epsilon_by_renyi;
use reticent_accounting::redaction::Redaction;
use reticent_accounting::trade_off::true_positive_rate;
use reticent_accounting::{
    Bounds, Delta, GroupSize, Guarantee, Method, Neighbours, Notion, Plan, PrivacyLoss,
    Probability, Query, Tolerance, Upper,
};

/// Returns the promise to keep, the flag that sets it, and the inputs. `given` is a δ that was given, `delta` the one
/// that is used.
pub(super) fn target(
    wish: &Calibrate,
    (given, delta): (Option<Delta>, Delta),
    inputs: Inputs,
) -> Result<(Target, &'static str, Inputs)> {
    let group = wish.group.unwrap_or(GroupSize::ONE);
    let inputs = inputs.or_assumed("delta", given, delta)?;
    if let (Some(prior), Some(posterior)) = (wish.prior, wish.posterior) {
        let inputs = inputs
            .given("prior", prior)?
            .given("posterior", posterior)?;
        let target = Target::Posterior {
            group,
            prior,
            posterior,
        };
        return Ok((target, "--posterior", inputs));
    }
    if let (Some(bits), Some(probability)) = (wish.max_exposure, wish.chance) {
        let least = (-bits).exp2();
        ensure!(
            probability.get() > least,
            "--chance: must lie in ({}, 1], above 2^-{bits}, got {probability}",
            shortest(least)
        );
        let inputs = inputs
            .given("max_exposure", bits)?
            .given("chance", probability)?;
        let target = Target::Exposure {
            group,
            bits,
            probability,
        };
        return Ok((target, "--max-exposure", inputs));
    }
    let neighbours = match (wish.by, wish.neighbours) {
        // The papers computed add-remove, whatever they compared.
        (By::Papers, None) => Neighbours::AddRemove,
        (By::Papers, Some(other)) if other != Neighbours::AddRemove => {
            bail!("--neighbours: --by papers compares add-remove, got {other}")
        }
        _ => neighbours_of(wish.neighbours, wish.schedule.sampler),
    };
    let query = Query::new(neighbours, group);
    let with_neighbours =
        |inputs: Inputs| inputs.or_assumed("neighbours", wish.neighbours, neighbours);
    if let (Some(tpr), Some(fpr)) = (wish.tpr, wish.fpr) {
        let inputs = with_neighbours(inputs.given("tpr", tpr)?.given("fpr", fpr)?)?;
        let target = Target::TruePositiveRate { query, fpr, tpr };
        return Ok((target, "--tpr", inputs));
    }
    let epsilon = wish
        .epsilon
        .ok_or_else(|| anyhow!("--epsilon, --posterior, --tpr or --max-exposure is needed"))?;
    let inputs = inputs.given("epsilon", epsilon)?;
    let inputs = match wish.by {
        By::Pld => inputs,
        by => inputs.given("by", by)?,
    };
    if let Some(gamma) = wish.gamma {
        let redaction = Redaction::single_policy(gamma);
        let neighbours = match wish.by {
            By::Papers => Neighbours::AddRemove,
            By::Pld | By::Renyi => Neighbours::Replace,
        };
        let inputs = inputs
            .given("gamma", gamma)?
            .assumed("neighbours", neighbours)?;
        let target = match wish.by {
            By::Pld => Target::Uninformed {
                redaction,
                group,
                epsilon,
                delta,
            },
            By::Renyi | By::Papers => Target::UninformedByRenyi {
                redaction,
                query: Query::new(neighbours, group),
                epsilon,
                delta,
            },
        };
        return Ok((target, "--epsilon", inputs));
    }
    let target = match wish.by {
        By::Pld => Target::Epsilon {
            query,
            epsilon,
            delta,
        },
        By::Renyi | By::Papers => Target::EpsilonByRenyi {
            query,
            epsilon,
            delta,
        },
    };
    Ok((target, "--epsilon", with_neighbours(inputs)?))
}

/// Returns the promised quantity at the answer: ε as in the rows, any other quantity evaluated once
/// more.
pub(super) fn promise(plan: &Plan, target: Target, rows: &[Guarantee]) -> Result<Promise> {
    let guesses =
        |group| -> Result<PrivacyLoss> { Ok(PrivacyLoss::of_guesses(&plan.mechanism, group)?.0) };
    let group = plan.group;
    let by_renyi = |query: Query, delta, redaction| -> Result<Bounds<Number>> {
        let query = Query { group, ..query };
        let found = epsilon_by_renyi(&plan.mechanism, query, delta, redaction)?;
        Ok(numbered(Bounds::below(found)))
    };
    let (quantity, allowed, value) = match target {
        Target::Epsilon { epsilon, .. } => (
            "epsilon",
            epsilon.get(),
            numbered(
                headline(rows)
                    .and_then(|row| row.clone().certified_at(epsilon).epsilon)
                    .unwrap_or(Bounds::at_most(epsilon)),
            ),
        ),
        Target::Uninformed { epsilon, .. } => {
            let found = plan
                .bayesian_epsilon()?
                .ok_or_else(|| anyhow!("--gamma is needed"))?;
            let what = "epsilon, adversary without prior knowledge";
            (what, epsilon.get(), numbered(found))
        }
        Target::EpsilonByRenyi {
            query,
            epsilon,
            delta,
        } => {
            let found = by_renyi(query, delta, None)?;
            ("epsilon by Rényi", epsilon.get(), found)
        }
        Target::UninformedByRenyi {
            redaction,
            query,
            epsilon,
            delta,
        } => {
            let what = "epsilon by Rényi, adversary without prior knowledge";
            let found = by_renyi(query, delta, Some(redaction))?;
            (what, epsilon.get(), found)
        }
        Target::Posterior {
            prior, posterior, ..
        }
        | Target::PosteriorByKlFano {
            prior, posterior, ..
        } => {
            let found = guesses(group)?.blow_up(prior, plan.tolerance)?.bounds;
            let what = "chance of guessing the secret";
            (what, posterior.get(), numbered(found))
        }
        Target::Exposure {
            bits, probability, ..
        } => {
            // Rounded up, as in the search.
            let share = (-bits).exp2() * (1.0 + 2.0 * f64::EPSILON);
            let share = Probability::new(share.min(1.0))?;
            let found = guesses(group)?.blow_up(share, plan.tolerance)?.bounds;
            let what = "chance of that exposure";
            (what, probability.get(), numbered(found))
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

/// Returns ε of replacing the same records' content, where the goal is an ε of another relation.
pub(super) fn replaced(plan: &Plan, target: Target) -> Option<Bounds<Number>> {
    let (Target::Epsilon { query, .. } | Target::EpsilonByRenyi { query, .. }) = target else {
        return None;
    };
    if query.neighbours == Neighbours::Replace {
        return None;
    }
    let plan = Plan {
        neighbours: Neighbours::Replace,
        ..plan.clone()
    };
    plan.epsilon().ok().map(numbered)
}

/// Returns the guarantees at the answer, including what the calibration certified.
pub(super) fn guarantees(plan: &Plan, target: Target) -> Result<Vec<Guarantee>> {
    let mut rows = plan.guarantees()?;
    let notion = match plan.group {
        GroupSize::ONE => Notion::Dp,
        _ => Notion::GroupDp,
    };
    // The tighter row comes first.
    let by_delta = |row: &&mut Guarantee| {
        row.notion == notion && matches!(row.method, Method::Pld | Method::GroupLemma)
    };
    if let Target::Epsilon { epsilon, .. } = target
        && let Some(row) = rows.iter_mut().find(by_delta)
    {
        *row = row.clone().certified_at(epsilon);
    }
    Ok(rows)
}

/// Returns the bound at the answer, which is certified to keep the allowed value. Evaluated in the other
/// direction, the same bound may exceed that value by up to the tolerance.
fn kept(end: Upper<Number>, allowed: f64, tolerance: Tolerance) -> Upper<Number> {
    let above = end.get().0 / allowed - 1.0;
    if above > 0.0 && above <= tolerance.get() {
        Upper::new(Number(allowed))
    } else {
        end
    }
}
