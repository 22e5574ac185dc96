//! Computes the explanation of a number.

use super::{Derived, Explanation, Merged, OneWay, Step, pairs};
use crate::account::answer::rows;
use crate::account::mechanism::{fold, times, words};
use crate::account::plan::Question;
use crate::contract::Envelope;
use anyhow::Result;
use reticent_accounting::training::{NUMBER_OF_RECORDS, UNCOVERED};
use reticent_accounting::{
    Bounds, ByDirection, Delta, Direction, Epsilon, GroupSize, Guarantee, Mechanism, Method,
    Neighbours, Notion, Plan, PrivacyLoss, Query,
    pld::{Engine, losses},
};

/// Explains the headline of a plan: differential privacy by the loss law; for a group, by its law
/// or by the group lemma, whichever the plan uses.
///
/// # Errors
/// Returns an error if the plan can't be accounted.
pub(crate) fn explain(question: &Question) -> Result<Envelope<Explanation>> {
    let plan = &question.plan;
    let rows = rows(question)?;
    let headline = match rows.iter().find(|row| is_headline(row, plan)) {
        Some(row) => row.clone(),
        None => question.run.blamed(match question.epsilon {
            Some(epsilon) => plan.exactly_at(epsilon),
            None => plan.exactly(),
        })?,
    };
    // The group lemma starts from a single record.
    let by_lemma = headline.method == Method::GroupLemma;
    let group = if by_lemma { GroupSize::ONE } else { plan.group };
    let query = Query::new(plan.neighbours, group);
    let losses = question.run.blamed(losses(&plan.mechanism, query))?;
    let both = losses.len() > 1;
    let mut directions = losses
        .iter()
        .zip(Direction::BOTH)
        .map(|(loss, direction)| {
            let own = both.then_some(direction);
            let (epsilon, delta, at) = match by_lemma {
                true if both => of_group(question, loss)?,
                true => of_one_direction(question, &headline)?,
                false => match of_law(&headline, own) {
                    Some(known) => known,
                    None => evaluated(question, loss)?,
                },
            };
            let finite = at.filter(|epsilon| epsilon.get().is_finite());
            let certificate = finite.map(|at| loss.certificate(at, plan.tolerance));
            Ok(OneWay {
                direction: own,
                epsilon,
                delta,
                certificate: certificate.transpose()?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    directions.sort_by(|a, b| b.upper().total_cmp(&a.upper()));
    let by_law = rows.iter().any(|row| row.method == Method::Pld);
    let beside = rows.iter().find(|row| {
        let of_one = row.notion == Notion::Dp && plan.group == GroupSize::ONE;
        by_law && of_one && row.method == Method::Rdp
    });
    let parts = fold(&plan.mechanism);
    let steps: Vec<Step> = parts
        .iter()
        .map(|part| {
            let poisson = part.as_poisson();
            let accounted = poisson.as_ref().unwrap_or(part.step);
            Step {
                what: words::each(part),
                times: times(part),
                treatment: pairs::treatment(accounted).to_owned(),
                pair: pairs::pair(accounted, query),
            }
        })
        .collect();
    let engine = why(
        &directions,
        &steps,
        (
            losses.iter().any(|loss| loss.steps() > 0),
            parts.iter().any(|part| is_stated(part.step)),
        ),
    );
    let engine = match by_lemma {
        true => format!("the group lemma on a single record; of that record: {engine}"),
        false => engine.to_owned(),
    };
    let body = Explanation {
        merged: merged(question, query),
        engine,
        directions,
        beside: beside.cloned(),
        derived: derived(&rows, by_lemma),
        headline,
        steps,
        not_covered: not_covered(plan.neighbours),
        mechanism: plan.mechanism.clone(),
        base: question.run.base(),
    };
    Ok(Envelope::new("explanation", question.inputs.clone(), body))
}

/// ε or δ of a direction, whichever is asked for, and the ε at which its loss is evaluated.
type Evaluated = (
    Option<Bounds<Epsilon>>,
    Option<Bounds<Delta>>,
    Option<Epsilon>,
);

/// Returns whether the row is the one that a plan states for its own neighbours and group.
fn is_headline(row: &Guarantee, plan: &Plan) -> bool {
    let grouped = plan.group > GroupSize::ONE;
    let of_plan = match grouped {
        true => row.notion == Notion::GroupDp && row.group == Some(plan.group),
        false => row.notion == Notion::Dp && row.group.is_none(),
    };
    let by_law = row.method == Method::Pld && row.engine.is_some();
    of_plan && row.neighbours == plan.neighbours && (by_law || row.method == Method::GroupLemma)
}

/// Takes the numbers of a direction from the headline, which its law decides; `None` if it hasn't got them.
fn of_law(headline: &Guarantee, direction: Option<Direction>) -> Option<Evaluated> {
    if headline.method != Method::Pld {
        return None;
    }
    let epsilon = headline.epsilon?;
    if let Some(delta) = headline.delta_bounds {
        let own = of_direction(delta, headline.delta_by_direction, direction)?;
        return Some((None, Some(own), epsilon.upper.map(|end| *end.get())));
    }
    let own = of_direction(epsilon, headline.by_direction, direction)?;
    Some((Some(own), None, own.upper.map(|end| *end.get())))
}

fn of_direction<T>(
    whole: Bounds<T>,
    each: Option<ByDirection<T>>,
    direction: Option<Direction>,
) -> Option<Bounds<T>> {
    match direction {
        None => Some(whole),
        Some(Direction::Remove) => each.map(|each| each.remove),
        Some(Direction::Add) => each.map(|each| each.add),
    }
}

/// Returns the numbers of the lemma where there is one direction, which the headline is about.
fn of_one_direction(question: &Question, headline: &Guarantee) -> Result<Evaluated> {
    let group = f64::from(question.plan.group.get());
    let promised = headline.epsilon.and_then(|bounds| bounds.upper);
    let share = promised.map(|end| Epsilon::new(end.get().get() / group));
    let own = headline.epsilon.filter(|_| headline.delta_bounds.is_none());
    Ok((own, headline.delta_bounds, share.transpose()?))
}

fn evaluated(question: &Question, loss: &PrivacyLoss) -> Result<Evaluated> {
    let tolerance = question.plan.tolerance;
    Ok(match question.epsilon {
        Some(at) => (None, Some(loss.delta(at, tolerance)?.bounds), Some(at)),
        None => {
            let found = loss.epsilon(question.plan.delta, tolerance)?.bounds;
            (Some(found), None, found.upper.map(|end| *end.get()))
        }
    })
}

/// Evaluates a group by the lemma, that is, a single record at its share of the group's ε.
fn of_group(question: &Question, loss: &PrivacyLoss) -> Result<Evaluated> {
    let Plan {
        group,
        delta,
        tolerance,
        ..
    } = question.plan;
    let share = |epsilon: Epsilon| Epsilon::new(epsilon.get() / f64::from(group.get()));
    Ok(match question.epsilon {
        Some(at) => {
            let found = loss.delta_by_group_lemma(group, at, tolerance)?;
            let found = Bounds::at_most(found.into_inner());
            (None, Some(found), Some(share(at)?))
        }
        None => {
            let found = loss.epsilon_by_group_lemma(group, delta, tolerance)?;
            let at = share(*found.get())?;
            (Some(Bounds::at_most(found.into_inner())), None, Some(at))
        }
    })
}

/// Merges all plain Gaussian steps into one.
fn merged(question: &Question, query: Query) -> Option<Merged> {
    let distance = f64::from(query.group.get())
        * if query.neighbours == Neighbours::Replace {
            2.0
        } else {
            1.0
        };
    let (mut steps, mut square) = (0u64, 0.0);
    for part in fold(&question.plan.mechanism) {
        let sigma = match part.step {
            Mechanism::Gaussian { noise_multiplier } => noise_multiplier.get(),
            Mechanism::SubsampledGaussian {
                noise_multiplier,
                sampling_rate,
                sampling: reticent_accounting::Sampling::Poisson,
            } if sampling_rate.get() >= 1.0 => noise_multiplier.get(),
            _ => continue,
        };
        let times = times(&part);
        steps = steps.saturating_add(times);
        square += times as f64 * (distance / sigma).powi(2);
    }
    (steps > 1).then(|| Merged {
        steps,
        distance: square.sqrt(),
    })
}

/// Returns whether only Rényi divergences of a step are known.
const fn is_stated(step: &Mechanism) -> bool {
    match step {
        Mechanism::Zcdp { rho, .. } => rho.get() > 0.0,
        other => matches!(
            other,
            Mechanism::RenyiDp { .. } | Mechanism::RepeatAndSelect { .. }
        ),
    }
}

/// Returns why this engine gave the answer.
fn why(directions: &[OneWay], steps: &[Step], (open, stated): (bool, bool)) -> &'static str {
    let Some(certificate) = directions.first().and_then(|way| way.certificate.as_ref()) else {
        return "none: a part without protection, or a bound at infinity, decides";
    };
    match certificate.engine {
        _ if steps.is_empty() => "none: nothing is released",
        _ if certificate.cells.is_some() => {
            "the privacy-loss distribution, rounded to a grid once up and once down, composed by Fourier \
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

/// Returns the rows other than the headline, with how they are derived.
fn derived(rows: &[Guarantee], by_lemma: bool) -> Vec<Derived> {
    let how = |row: &Guarantee| match (row.notion, row.method) {
        (Notion::GroupDp, Method::Pld) if by_lemma => {
            Some("by the law of the group's records together, which is looser here")
        }
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
fn not_covered(neighbours: Neighbours) -> Vec<String> {
    let mut said: Vec<String> = UNCOVERED.iter().map(|text| (*text).to_owned()).collect();
    said.push(
        "a delta that is not well below one over the number of records, or above the prior of a guess"
            .to_owned(),
    );
    if neighbours == Neighbours::AddRemove {
        said.push(NUMBER_OF_RECORDS.to_owned());
    }
    said
}
