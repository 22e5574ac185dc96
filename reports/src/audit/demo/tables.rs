//! Tables of the demo, shared by text and page.

use super::{Arm, DemoReport};
use crate::audit::exposure::MASKED_SECRET;
use crate::audit::unknown;
use crate::contract::{Align, Table, dash};
use crate::number::{exposure_at_most, grouped, nearest, rounded_down, rounded_up, shortest};
use reticent_accounting::{Bounds, Convention, Epsilon};
use reticent_attacks::exposure::CeilingOutcome;

/// Returns a table of what each arm promises and of its quality as a model.
pub(super) fn promises(report: &DemoReport) -> Table {
    let mut table = Table::new([
        ("arm", Align::Left),
        ("ε ≤, one record", Align::Right),
        ("papers' ε", Align::Right),
        ("ε ≤, all copies", Align::Right),
        ("δ", Align::Right),
        ("σ", Align::Right),
        ("q", Align::Right),
        ("steps", Align::Right),
        ("perplexity", Align::Right),
        ("s", Align::Right),
    ]);
    for arm in &report.arms {
        let phase = arm.private_phase;
        // If nothing is promised, there is no δ either.
        let promised = arm.promise().is_some();
        let delta = arm.guarantees.iter().find_map(|g| g.delta);
        let delta = delta.filter(|_| promised);
        let or_dash = |text: Option<String>| text.unwrap_or_else(dash);
        table.row([
            arm.name.clone(),
            epsilon(arm.epsilon(Convention::Definition, false)),
            epsilon(arm.epsilon(Convention::Paper, false)),
            epsilon(arm.epsilon(Convention::Definition, true)),
            or_dash(delta.map(|d| shortest(d.get()))),
            or_dash(phase.map(|p| nearest(p.noise_multiplier, 3))),
            or_dash(phase.map(|p| nearest(p.sampling_rate, 2))),
            or_dash(phase.map(|p| grouped(p.steps))),
            nearest(arm.perplexity, 3),
            format!("{:.0}", arm.seconds),
        ]);
    }
    table
}

/// Formats the upper end of ε, rounded up.
fn epsilon(bounds: Option<Bounds<Epsilon>>) -> String {
    match bounds.and_then(|b| b.upper) {
        Some(upper) => rounded_up(upper.get().get(), 3),
        None => dash(),
    }
}

/// Returns a table of what leaked from each arm, compared with its promise.
pub(super) fn leaks(report: &DemoReport) -> Table {
    let mut table = Table::new([
        ("arm", Align::Left),
        ("largest (bits)", Align::Right),
        ("p", Align::Right),
        ("mean (bits)", Align::Right),
        ("p", Align::Right),
        ("in top 10", Align::Right),
        ("ε ≥", Align::Right),
        ("ceiling (bits)", Align::Right),
        ("verdict", Align::Left),
    ]);
    for arm in &report.arms {
        let finding = &arm.exposure.finding;
        let (max, mean) = (finding.summary.max(), finding.summary.mean());
        table.row([
            arm.name.clone(),
            format!("{:.2}", max.lower()),
            nearest(max.p_value(), 2),
            format!("{:.2}", mean.lower()),
            nearest(mean.p_value(), 2),
            format!("{} of {}", in_top_ten(arm), finding.canaries.len()),
            rounded_down(finding.bound().lower.get().get(), 3),
            ceiling(arm),
            verdict(arm),
        ]);
    }
    table
}

/// Returns the number of canaries that certainly rank 10 or better.
pub(super) fn in_top_ten(arm: &Arm) -> usize {
    let canaries = &arm.exposure.finding.canaries;
    canaries.iter().filter(|c| c.rank.max <= 10).count()
}

/// Formats the exposure that the promise allows.
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
    let mut columns = vec![
        ("canary".to_owned(), Align::Left),
        ("secret".to_owned(), Align::Left),
    ];
    columns.extend(report.arms.iter().map(|a| (a.name.clone(), Align::Right)));
    let mut table = Table::new(columns);
    let Some(first) = report.arms.first() else {
        return table;
    };
    for canary in &first.exposure.finding.canaries {
        let secret = report.secrets.as_ref().and_then(|s| s.get(&canary.id));
        let mut row = vec![
            canary.id.clone(),
            secret.map_or_else(|| MASKED_SECRET.to_owned(), Clone::clone),
        ];
        row.extend(report.arms.iter().map(|arm| {
            let same = |c: &&reticent_attacks::exposure::CanaryFinding| c.id == canary.id;
            match arm.exposure.finding.canaries.iter().find(same) {
                Some(found) => grouped(found.rank.max),
                None => dash(),
            }
        }));
        table.row(row);
    }
    table
}

/// Describes what the preparation did.
pub(super) fn facts(report: &DemoReport) -> Vec<(String, String)> {
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
    rows.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
