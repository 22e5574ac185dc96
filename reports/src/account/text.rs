//! The answer as text.

use super::answer::{Guarantees, Limit, WhatIf};
use super::calibration::Calibrated;
use super::cli::Solve;
use super::explain::status;
use super::mechanism::words::{batches as batches_in_words, line};
use super::plan::{Asked, Run};
use super::sheet::labels_for;
use super::words::{method, neighbours, notes, promise, wide};
use crate::contract::{Align, Envelope, Inputs, Table};
use crate::number::{grouped, nearest, rounded_down, rounded_up, shortest};
use crate::page::{Page, Section};
use crate::plan::Redacted;
use reticent_accounting::statistics::labels_needed;
use reticent_accounting::training::Recipe;
use reticent_accounting::{
    Bounds, Convention, Delta, Epsilon, GroupSize, Guarantee, Mechanism, Notion, Probability,
    Sampling,
};
use std::fmt::Write;

const DIGITS: usize = 6;

/// The guarantees of a plan.
#[must_use]
pub fn guarantees(asked: &Asked, document: &Envelope<Guarantees>, limit: Option<&Limit>) -> Page {
    let body = &document.body;
    let title = format!(
        "{}, {}",
        what_runs(&asked.run, &asked.plan.mechanism),
        what_is_asked(asked)
    );
    let mut page = Page::new(title, body.says.clone());
    for table in tables(&tightest(&body.guarantees), false) {
        page = page.brief(Section::table("", table));
    }
    for table in tables(&body.guarantees, true) {
        page = page.section(Section::table("Every accountant", table));
    }
    if let Some(secrets) = &body.secrets {
        page = page
            .answer(Section::table("Of each secret", secrets.table()))
            .answer(Section::text("", secrets.sentences()));
    }
    page = page.answer(Section::text(
        "",
        document.inputs.assumed_line().into_iter().collect(),
    ));
    page = page.section(Section::table(
        "With another assumption",
        what_if(&body.what_if),
    ));
    let mut alarms: Vec<String> = sample_note(asked).into_iter().collect();
    let labels = asked.redacted.as_ref().and_then(Redacted::both_labelled);
    alarms.extend(labels.and_then(|found| labels_for(asked.plan.delta, &found.rates)));
    alarms.extend(asked.caveats.iter().cloned());
    alarms.extend(about_the_run(asked, &document.inputs));
    alarms.extend(wide(&body.guarantees, asked.plan.tolerance));
    page = page
        .answer(Section::notes("About this answer", alarms))
        .section(Section::notes(
            "What the numbers mean and do not cover",
            notes(&body.guarantees),
        ));
    if let Some(limit) = limit {
        page = page.answer(Section::text(
            "",
            vec![format!(
                "limit {}: promised epsilon {} is {}",
                shortest(limit.allowed.get()),
                rounded_up(limit.promised, DIGITS),
                if limit.passed {
                    "above it"
                } else {
                    "within it"
                },
            )],
        ));
    }
    page
}

/// One row for each promise, those for planning last: the first method is the tightest. What only
/// compares with print is left out.
fn tightest(rows: &[Guarantee]) -> Vec<Guarantee> {
    let mut kept: Vec<Guarantee> = Vec::new();
    for row in rows {
        let known = |other: &Guarantee| {
            promise(other) == promise(row) && neighbours(other) == neighbours(row)
        };
        let printed =
            row.convention == Convention::Paper && row.notion == Notion::BayesianConfidentiality;
        if !printed && !kept.iter().any(known) {
            kept.push(row.clone());
        }
    }
    kept.sort_by_key(|row| row.notion == Notion::BayesianConfidentiality);
    kept
}

/// What the batches are accounted for as, where that is no common knowledge; and a δ that protects
/// nobody.
fn about_the_run(asked: &Asked, inputs: &Inputs) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(noisy) = asked.run.noisy()
        && *noisy.sampling != Sampling::Poisson
    {
        notes.push(format!(
            "{}: {}.",
            batches_in_words(*noisy.sampling, noisy.sampling_rate.get()),
            status(*noisy.sampling)
        ));
    }
    if let Some(plan) = asked.run.of_manifest()
        && !matches!(
            plan.run.recipe(),
            None | Some(Recipe::Sgd | Recipe::Protect)
        )
        && plan.secret_records().is_none()
        && asked.plan.group == GroupSize::ONE
    {
        notes.push(format!(
            "How many {unit}s hold one secret is counted in private text and stands in no manifest: each row is about \
             one {unit}. Ask with --group.",
            unit = asked.plan.unit
        ));
    }
    let size = inputs.iter().find(|(name, _)| *name == "dataset_size");
    if let Some(records) = size.and_then(|(_, value)| value.as_u64())
        && asked.epsilon.is_none()
        && asked.plan.delta.get() * records as f64 >= 1.0
    {
        notes.push(format!(
            "delta {} is not below one over the {} records: whoever publishes one of them outright keeps such a \
             promise too. Ask for a --delta well below {}.",
            shortest(asked.plan.delta.get()),
            grouped(records),
            nearest(1.0 / records as f64, 2),
        ));
    }
    notes
}

/// The first line: what runs.
pub(super) fn what_runs(run: &Run, mechanism: &Mechanism) -> String {
    match run {
        Run::Plan(_) => match run.noisy() {
            Some(noisy) => {
                let numbers = format!(
                    "DP-SGD on every record: sigma {}, sampling rate {}, {} steps",
                    shortest(noisy.noise_multiplier.get()),
                    shortest(noisy.sampling_rate.get()),
                    noisy.steps.get(),
                );
                match *noisy.sampling {
                    Sampling::Poisson => numbers,
                    sampling => format!(
                        "{numbers}, {}",
                        batches_in_words(sampling, noisy.sampling_rate.get())
                    ),
                }
            }
            None => line(mechanism),
        },
        Run::Files { names, .. } => format!("{}: {}", names.join(", "), line(mechanism)),
    }
}

/// And what is asked about it.
pub(super) fn what_is_asked(asked: &Asked) -> String {
    match asked.epsilon {
        Some(epsilon) => format!("epsilon {}", shortest(epsilon.get())),
        None => format!("delta {}", shortest(asked.plan.delta.get())),
    }
}

/// A calibration.
#[must_use]
pub fn calibration(document: &Envelope<Calibrated>) -> Page {
    let body = &document.body;
    let up = body.solved == Solve::Sigma;
    let shown = |value: f64, safe: bool| match body.solved {
        Solve::Steps | Solve::Group => format!("{value}"),
        Solve::Sigma | Solve::Rate if up == safe => rounded_up(value, 8),
        Solve::Sigma | Solve::Rate => rounded_down(value, 8),
    };
    let (name, found, all) = match body.solved {
        Solve::Sigma => (
            "sigma",
            "sigma",
            "no less noise was tried: every value from here on keeps the promise",
        ),
        Solve::Rate => (
            "sampling rate",
            "rate",
            "the highest rate there is keeps the promise",
        ),
        Solve::Steps => (
            "steps",
            "number of steps",
            "no more steps can be counted: any number of them keeps the promise",
        ),
        Solve::Group => (
            "records",
            "group size",
            "no larger group was tried: all of them keep the promise",
        ),
    };
    let promise = &body.promise;
    let upper = promise
        .value
        .upper
        .map_or_else(dash, |end| rounded_up(end.get().0, DIGITS));
    let lower = promise
        .value
        .lower
        .map_or_else(dash, |end| rounded_down(end.get().0, DIGITS));
    let mut facts = vec![format!(
        "{} at most {upper} (allowed {}), at least {lower}",
        promise.quantity,
        shortest(promise.allowed.0)
    )];
    if let Some(fano) = body.kl_fano {
        let (ratio, verb, much) = match up {
            true => (fano / body.answer, "need", "as much"),
            false => (body.answer / fano, "allow", "less"),
        };
        facts.push(format!(
            "the same posterior proved by Fano's inequality would {verb} {name} {}, {} times {much}",
            shown(fano, true),
            nearest(ratio, 3),
        ));
    }
    facts.extend(document.inputs.assumed_line());
    let summary = match body.fails {
        Some(fails) => format!("not certified at {}", shown(fails, false)),
        None => all.to_owned(),
    };
    let mut page = Page::new(format!("{name} {}", shown(body.answer, true)), summary)
        .answer(Section::text("", facts));
    for table in tables(&tightest(&body.guarantees), false) {
        page = page.brief(Section::table("", table));
    }
    for table in tables(&body.guarantees, true) {
        page = page.section(Section::table(
            &format!("Every accountant at this {found}"),
            table,
        ));
    }
    page.section(Section::notes(
        "What the numbers mean and do not cover",
        notes(&body.guarantees),
    ))
}

/// One table of ε (of δ, if that was asked), one of μ-GDP, one of posteriors, whichever rows there
/// are; with how each was found, or without.
fn tables(rows: &[Guarantee], how: bool) -> Vec<Table> {
    let bound = match rows.iter().any(|row| row.delta_bounds.is_some()) {
        true => "δ upper",
        false => "ε upper",
    };
    let method_column = how.then_some(("accountant", Align::Left));
    let what = [("guarantee", Align::Left)];
    let ends_of = |name| [(name, Align::Right), ("lower", Align::Right)];
    let compared = [("neighbouring relation", Align::Left)];
    let before = [("before", Align::Right)];
    let mut ranges = Table::new(
        what.into_iter()
            .chain(compared)
            .chain(ends_of(bound))
            .chain(method_column),
    );
    let mut posteriors = Table::new(
        what.into_iter()
            .chain(before)
            .chain(ends_of("after, upper"))
            .chain(method_column),
    );
    let mut gaussians = Vec::new();
    for row in rows {
        let range = match (&row.delta_bounds, &row.epsilon) {
            (Some(delta), _) => Some(slacks(delta)),
            (None, Some(epsilon)) => Some(ends(epsilon)),
            (None, None) => None,
        };
        if let Some((upper, lower)) = range {
            let cells = [
                promise(row),
                neighbours(row).to_owned(),
                upper,
                lower,
                method(row),
            ];
            // A second method that prints the same adds nothing for a reader.
            if ranges
                .rows()
                .last()
                .is_none_or(|last| last[..4] != cells[..4])
            {
                ranges.row(cells);
            }
        }
        gaussians.extend(gaussian(row));
        if let (Some(prior), Some(posterior)) = (row.prior, &row.posterior) {
            let (upper, lower) = chances(posterior);
            posteriors.row([
                promise(row),
                shortest(prior.get()),
                upper,
                lower,
                method(row),
            ]);
        }
    }
    let all = [vec![ranges], gaussians, vec![posteriors]].concat();
    all.into_iter()
        .filter(|table| !table.rows().is_empty())
        .collect()
}

/// A table for the row of μ-GDP.
fn gaussian(row: &Guarantee) -> Option<Table> {
    let (mu, regret) = (row.mu.as_ref()?, row.regret.as_ref()?);
    let mut table = Table::new([
        ("guarantee", Align::Left),
        ("neighbouring relation", Align::Left),
        ("μ upper", Align::Right),
        ("lower", Align::Right),
        ("slack", Align::Right),
        ("regret upper", Align::Right),
    ]);
    table.row([
        promise(row),
        neighbours(row).to_owned(),
        mu.upper
            .map_or_else(dash, |end| rounded_up(*end.get(), DIGITS)),
        mu.lower
            .map_or_else(dash, |end| rounded_down(*end.get(), DIGITS)),
        row.delta.map_or_else(dash, |slack| shortest(slack.get())),
        regret
            .upper
            .map_or_else(dash, |end| rounded_up(*end.get(), 2)),
    ]);
    Some(table)
}

/// Upper end rounded up, lower end rounded down, a dash where an end is unknown.
fn ends(bounds: &Bounds<Epsilon>) -> (String, String) {
    let upper = bounds.upper.map(|end| rounded_up(end.get().get(), DIGITS));
    let lower = bounds
        .lower
        .map(|end| rounded_down(end.get().get(), DIGITS));
    (upper.unwrap_or_else(dash), lower.unwrap_or_else(dash))
}

fn slacks(bounds: &Bounds<Delta>) -> (String, String) {
    let upper = bounds.upper.map(|end| rounded_up(end.get().get(), DIGITS));
    let lower = bounds
        .lower
        .map(|end| rounded_down(end.get().get(), DIGITS));
    (upper.unwrap_or_else(dash), lower.unwrap_or_else(dash))
}

fn chances(bounds: &Bounds<Probability>) -> (String, String) {
    let upper = bounds.upper.map(|end| rounded_up(end.get().get(), 4));
    let lower = bounds.lower.map(|end| rounded_down(end.get().get(), 4));
    (upper.unwrap_or_else(dash), lower.unwrap_or_else(dash))
}

pub(super) fn dash() -> String {
    "-".to_owned()
}

fn what_if(rows: &[WhatIf]) -> Table {
    let redacted = rows.iter().any(|row| row.bayesian.is_some());
    let mut columns = vec![
        ("changed", Align::Left),
        ("to", Align::Right),
        ("ε upper", Align::Right),
    ];
    if redacted {
        columns.push(("without prior knowledge of the secret", Align::Right));
    }
    let mut table = Table::new(columns);
    for row in rows {
        let to = match &row.to {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Number(number) if number.is_f64() => {
                shortest(number.as_f64().unwrap_or(f64::NAN))
            }
            other => other.to_string(),
        };
        let upper = |bounds: &Bounds<Epsilon>| {
            bounds
                .upper
                .map_or_else(dash, |end| rounded_up(end.get().get(), 4))
        };
        let mut cells = vec![
            row.changed.replace('_', " ").replace("sample", "sampling"),
            to,
            upper(&row.epsilon),
        ];
        if redacted {
            cells.push(row.bayesian.as_ref().map_or_else(dash, upper));
        }
        table.row(cells);
    }
    table
}

/// What a measured miss rate means, and what more labels would be worth.
fn sample_note(asked: &Asked) -> Option<String> {
    let (sample, redaction, confidence) = (
        asked.redacted.as_ref()?.sample?,
        asked.plan.redaction?,
        asked.plan.confidence?,
    );
    let gamma = redaction.miss();
    let mut note = format!(
        "{} of {} labelled secrets were missed: with confidence {} the miss rate is at most {}, not {}. It holds for \
         a simple random sample drawn before the policy was tuned on it.",
        sample.missed,
        sample.labelled,
        shortest(confidence.get()),
        rounded_up(gamma.get(), 3),
        nearest(sample.missed as f64 / sample.labelled as f64, 3),
    );
    if sample.missed == 0
        && let Ok(half) = reticent_accounting::MissRate::new(0.5 * gamma.get())
        && let Some(more) = labels_needed(half, confidence)
    {
        let _ = write!(
            note,
            " Half of that would take {more} labels without a miss."
        );
    }
    Some(note)
}
