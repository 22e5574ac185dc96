//! The explanation, computed.

use super::{Derived, Explanation, Merged, OneWay, Step, pairs};
use crate::account::answer::answer;
use crate::account::mechanism::{fold, words};
use crate::account::plan::Asked;
use crate::contract::Envelope;
use anyhow::Result;
use reticent_accounting::{
    Direction, GroupSize, Guarantee, Mechanism, Method, Neighbours, Notion, PrivacyLoss, Query,
    pld::{Engine, losses},
};

/// Explains the headline of a plan: differential privacy by the loss law, of the group if there
/// is one.
///
/// # Errors
/// A plan that can't be accounted.
pub(crate) fn explain(asked: &Asked) -> Result<Envelope<Explanation>> {
    let plan = &asked.plan;
    let query = Query {
        neighbours: plan.neighbours,
        group: plan.group,
    };
    let losses = asked.run.blamed(losses(&plan.mechanism, query))?;
    let both = losses.len() > 1;
    let mut directions = losses
        .iter()
        .zip(Direction::BOTH)
        .map(|(loss, direction)| one_way(asked, loss, both.then_some(direction)))
        .collect::<Result<Vec<_>>>()?;
    directions.sort_by(|a, b| b.upper().total_cmp(&a.upper()));
    let rows = answer(asked)?.body.guarantees;
    let by_law = rows.iter().any(|row| row.method == Method::Pld);
    let beside = rows.iter().find(|row| {
        let of_one = row.notion == Notion::Dp && plan.group == GroupSize::ONE;
        by_law && of_one && row.method == Method::Rdp
    });
    let parts = fold(&plan.mechanism);
    let steps: Vec<Step> = parts
        .iter()
        .map(|part| Step {
            what: words::step(part.step),
            times: part.times,
            treatment: pairs::treatment(part.step).to_owned(),
            pair: pairs::pair(part.step, query),
        })
        .collect();
    let engine = why(
        &directions,
        &steps,
        (
            losses.iter().any(|loss| loss.steps() > 0),
            parts.iter().any(|part| is_stated(part.step)),
        ),
    )
    .to_owned();
    let body = Explanation {
        merged: merged(asked, query),
        engine,
        directions,
        beside: beside.cloned(),
        derived: derived(&rows),
        steps,
        not_covered: not_covered(),
        mechanism: plan.mechanism.clone(),
    };
    Ok(Envelope::new("explanation", asked.inputs.clone(), body))
}

fn one_way(asked: &Asked, loss: &PrivacyLoss, direction: Option<Direction>) -> Result<OneWay> {
    let tolerance = asked.plan.tolerance;
    let (epsilon, delta, at) = match asked.epsilon {
        Some(at) => (None, Some(loss.delta(at, tolerance)?.bounds), Some(at)),
        None => {
            let found = loss.epsilon(asked.plan.delta, tolerance)?.bounds;
            (Some(found), None, found.upper.map(|end| *end.get()))
        }
    };
    let finite = at.filter(|epsilon| epsilon.get().is_finite());
    let certificate = finite
        .map(|epsilon| loss.certificate(epsilon, tolerance))
        .transpose()?;
    Ok(OneWay {
        direction,
        epsilon,
        delta,
        certificate,
    })
}

/// All plain Gaussian steps, as one.
fn merged(asked: &Asked, query: Query) -> Option<Merged> {
    let distance = f64::from(query.group.get())
        * if query.neighbours == Neighbours::Replace {
            2.0
        } else {
            1.0
        };
    let (mut steps, mut square) = (0u64, 0.0);
    for part in fold(&asked.plan.mechanism) {
        let sigma = match part.step {
            Mechanism::Gaussian { noise_multiplier } => noise_multiplier.get(),
            Mechanism::SubsampledGaussian {
                noise_multiplier,
                sampling_rate,
                sampling: reticent_accounting::Sampling::Poisson,
            } if sampling_rate.get() >= 1.0 => noise_multiplier.get(),
            _ => continue,
        };
        steps = steps.saturating_add(part.times);
        square += part.times as f64 * (distance / sigma).powi(2);
    }
    (steps > 1).then(|| Merged {
        steps,
        distance: square.sqrt(),
    })
}

/// Whether only Rényi divergences are known of a step.
const fn is_stated(step: &Mechanism) -> bool {
    matches!(
        step,
        Mechanism::Zcdp { .. } | Mechanism::RenyiDp { .. } | Mechanism::RepeatAndSelect { .. }
    )
}

/// Why the engine that answered did.
fn why(directions: &[OneWay], steps: &[Step], (open, stated): (bool, bool)) -> &'static str {
    let Some(certificate) = directions.first().and_then(|way| way.certificate.as_ref()) else {
        return "none: a part without protection, or a bound at infinity, decides";
    };
    match certificate.engine {
        _ if steps.is_empty() => "none: nothing is released",
        _ if certificate.cells.is_some() => {
            "the law of the loss on a grid, moved to its lines once upwards and once downwards, composed by Fourier \
             transform under a tilt: for few steps, atoms, and steps that differ"
        }
        Engine::Grid => "quadrature over the outcomes: a single step needs no composition",
        Engine::Closed if !open => "a formula: plain Gaussian steps add up to a single one",
        Engine::Closed => {
            "a formula: a single step, or a loss that never gets so far, needs no composition"
        }
        Engine::Contour => {
            "contour inversion of the moment generating function: its cost does not depend on the number of steps, and \
             the sum errs to one side only"
        }
        Engine::Chernoff if stated => {
            "Chernoff's bound at the best order: of some step only Rényi divergences are known, so that nothing is \
             known from below"
        }
        Engine::Chernoff => {
            "Chernoff's bound above, a window of the tilted law below: the tight computations could not be certified \
             here, so the ends are far apart, but both hold"
        }
    }
}

/// The rows that are not the headline, with the step that leads to them.
fn derived(rows: &[Guarantee]) -> Vec<Derived> {
    let how = |row: &Guarantee| match (row.notion, row.method) {
        (Notion::GroupDp, Method::GroupLemma) => Some(
            "from single records: epsilon adds up, delta grows by (e^(k epsilon) - 1)/(e^epsilon - 1)",
        ),
        (Notion::BayesianConfidentiality, Method::Pld) => Some(
            "the whole profile of replace (in the papers' convention: of add-remove) mixed once, after composition, \
             with the runs in which the policy caught the secret",
        ),
        (Notion::BayesianConfidentiality, Method::Proposition6) => Some(
            "epsilon' = ln(1 + gamma (e^epsilon - 1)) with the base's epsilon at (delta - eta)/(gamma - eta)",
        ),
        (Notion::Confidentiality | Notion::GroupConfidentiality, _) => Some(
            "epsilon of replace at (delta - eta)/(gamma - eta): whoever knows the secret gains nothing from gamma but in delta",
        ),
        (Notion::Gdp, _) => Some(
            "the least mu whose Gaussian lies above the profile everywhere, certified between the points by convexity",
        ),
        (Notion::SecretProtection, Method::BlowUp) => Some(
            "the least H(e^t) + e^t p over t for the zero-out pair, mixture first: right for every t, so no threshold \
             is rounded",
        ),
        (Notion::SecretProtection, Method::KlFano) => {
            Some("Fano's inequality for the Kullback-Leibler divergence")
        }
        (Notion::SecretProtection, Method::RenyiFano) => {
            Some("Fano's inequality for the Rényi divergence at its best order")
        }
        (Notion::SecretProtection, Method::ChiSquareFano) => {
            Some("Fano's inequality for the chi-square divergence")
        }
        (Notion::SecretProtection, Method::TotalVariation) => {
            Some("the prior and the total variation, delta at epsilon 0: the blow-up with t = 0")
        }
        _ => None,
    };
    rows.iter()
        .filter_map(|row| {
            Some(Derived {
                guarantee: row.clone(),
                how: how(row)?.to_owned(),
            })
        })
        .collect()
}

/// What no number of this kind covers.
fn not_covered() -> Vec<String> {
    [
        "settings, checkpoints or seeds chosen by looking at results on the same data: compose all runs",
        "metrics, early stopping and loss curves computed on private text",
        "a tokenizer, vocabulary, redaction policy or normalisation fitted on private text",
        "reports that name who was missed, or per-secret numbers",
        "batches that are drawn otherwise than stated, and division by the size a batch happened to have",
        "floating-point noise: the analysis is of real numbers; and seeds that become known",
        "other runs on the same data, unless they are composed here",
        "a delta that is not well below one over the number of records, or above the prior of a guess",
    ]
    .map(str::to_owned)
    .to_vec()
}
