//! Tables of the demo, shared by text and page.

use super::{Arm, DemoReport};
use crate::audit::exposure::or_masked;
use crate::audit::unknown;
use crate::contract::{Table, dash};
use crate::number::{exposure_at_most, grouped, nearest, rounded, shortest};
use reticent_accounting::{Bounds, Convention, Epsilon};
use reticent_attacks::exposure::{CanaryFinding, CeilingOutcome};

/// Returns a table of what each arm promises and of its quality as a model.
pub(super) fn promises(report: &DemoReport) -> Table {
    let or_dash = |text: Option<String>| text.unwrap_or_else(dash);
    let delta = |arm: &Arm| {
        // If nothing is promised, there is no δ either.
        arm.promise()?;
        arm.guarantees.iter().find_map(|g| g.delta)
    };
    Table::of(&report.arms)
        .left("arm", |arm| &arm.name)
        .right("ε ≤, one record", |arm| {
            epsilon(arm.epsilon(Convention::Definition, false))
        })
        .right("papers' ε", |arm| {
            epsilon(arm.epsilon(Convention::Paper, false))
        })
        .right("ε ≤, all copies", |arm| {
            epsilon(arm.epsilon(Convention::Definition, true))
        })
        .right("δ", |arm| or_dash(delta(arm).map(|d| shortest(d.get()))))
        .right("σ", |arm| {
            or_dash(arm.private_phase.map(|p| nearest(p.noise_multiplier, 3)))
        })
        .right("q", |arm| {
            or_dash(arm.private_phase.map(|p| nearest(p.sampling_rate, 2)))
        })
        .right("steps", |arm| {
            or_dash(arm.private_phase.map(|p| grouped(p.steps)))
        })
        .right("perplexity", |arm| nearest(arm.perplexity, 3))
        .right("s", |arm| format!("{:.0}", arm.seconds))
        .into()
}

/// Formats the upper end of ε, rounded up.
fn epsilon(bounds: Option<Bounds<Epsilon>>) -> String {
    rounded(bounds.and_then(|b| b.upper), 3)
}

/// Returns a table of what leaked from each arm, compared with its promise.
pub(super) fn leaks(report: &DemoReport) -> Table {
    Table::of(&report.arms)
        .left("arm", |arm| &arm.name)
        .right("largest (bits)", |arm| {
            format!("{:.2}", arm.exposure.finding.summary.max().lower())
        })
        .right("p", |arm| {
            nearest(arm.exposure.finding.summary.max().p_value(), 2)
        })
        .right("mean (bits)", |arm| {
            format!("{:.2}", arm.exposure.finding.summary.mean().lower())
        })
        .right("p", |arm| {
            nearest(arm.exposure.finding.summary.mean().p_value(), 2)
        })
        .right("in top 10", |arm| {
            format!(
                "{} of {}",
                in_top_ten(arm),
                arm.exposure.finding.canaries.len()
            )
        })
        .right("ε ≥", |arm| {
            rounded(arm.exposure.finding.bound().lower, 3)
        })
        .right("ceiling (bits)", ceiling)
        .left("verdict", verdict)
        .into()
}

/// Returns the number of canaries that certainly rank 10 or better.
pub(super) fn in_top_ten(arm: &Arm) -> usize {
    let canaries = &arm.exposure.finding.canaries;
    canaries.iter().filter(|c| c.rank.max <= 10).count()
}

/// Formats the exposure below which a kept promise leaves the largest with the probability of the ceiling.
fn ceiling(arm: &Arm) -> String {
    let candidates = arm.exposure.finding.candidates as f64;
    match &arm.exposure.ceiling {
        Some(_) if arm.claim().is_none() => dash(),
        None => dash(),
        Some(ceiling) => exposure_at_most(*ceiling.exposure_at_most.get(), 3, Some(candidates)),
    }
}

/// Returns the verdict in two words; "nothing promised" if there is none.
fn verdict(arm: &Arm) -> String {
    let ranks = arm.exposure.ceiling.as_ref().map(|c| c.test.outcome);
    match (ranks, &arm.exposure.verdict) {
        (Some(CeilingOutcome::Contradicted), _) => "contradicted".to_owned(),
        _ if arm.claim().is_none() => "nothing promised".to_owned(),
        (_, Some(verdict)) if verdict.could_contradict() => verdict.outcome().to_owned(),
        (Some(CeilingOutcome::NotContradicted), _) => "not contradicted".to_owned(),
        (_, Some(_)) | (Some(_), None) => "could not contradict".to_owned(),
        (None, None) => "none".to_owned(),
    }
}

/// Returns a table of the rank of each canary in each arm.
pub(super) fn ranks(report: &DemoReport) -> Table {
    let first = report.arms.first();
    let canaries = first
        .into_iter()
        .flat_map(|arm| &arm.exposure.finding.canaries);
    let secret = |canary: &CanaryFinding| report.secrets.as_ref()?.get(&canary.id);
    let mut table = Table::of(canaries)
        .left("canary", |canary| &canary.id)
        .left("secret", |canary| or_masked(secret(canary)));
    for arm in &report.arms {
        let ranked = &arm.exposure.finding.canaries;
        table = table.right(&arm.name, |canary| {
            let found = ranked.iter().find(|found| found.id == canary.id);
            found.map_or_else(dash, |found| grouped(found.rank.max))
        });
    }
    table.into()
}

/// Describes what the preparation did.
pub(super) fn facts(report: &DemoReport) -> Vec<(&'static str, String)> {
    let facts = &report.preparation;
    let secrets = &facts.secrets.all;
    let mut rows = vec![
        ("text", report.source.to_string()),
        ("model", report.model.clone()),
        ("unit", facts.unit.to_string()),
        (
            "records",
            format!(
                "{} cut from {} documents ({} held out), {} of them distinct",
                grouped(facts.units),
                grouped(facts.documents),
                grouped(facts.held_out_documents),
                grouped(facts.distinct_units),
            ),
        ),
        (
            "sides",
            format!(
                "{} public, {} private ({} of these only <MASK>)",
                grouped(facts.public),
                grouped(facts.private),
                grouped(facts.mask_only),
            ),
        ),
        (
            "secrets",
            format!(
                "{} distinct: {} masked everywhere, {} missed by the policy, {} of these by both policies",
                grouped(secrets.distinct),
                grouped(secrets.masked),
                grouped(secrets.missed),
                grouped(secrets.missed_by_both),
            ),
        ),
        (
            "canaries",
            format!(
                "{} of the form {:?}, each inserted {} times",
                report.planted.canaries, report.planted.template, report.planted.copies
            ),
        ),
    ];
    if let Some(preflight) = &facts.canaries {
        rows.push(("pre-flight", preflight.to_string()));
    }
    rows.push((
        "tokens",
        format!("{} carry loss", grouped(facts.loss_tokens)),
    ));
    rows.extend(unknown::fact(facts).map(|said| ("unknown", said)));
    rows.push(("time", format!("{:.0} s in all", report.seconds)));
    rows
}
