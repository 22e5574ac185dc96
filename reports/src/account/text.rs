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
use crate::plan::Redacted;
use reticent_accounting::statistics::labels_needed;
use reticent_accounting::{Bounds, Delta, Epsilon, Guarantee, Mechanism, Probability, Sampling};
use std::fmt::Write;

const DIGITS: usize = 6;
/// Lines of prose are filled to this width.
const WIDTH: usize = 100;

/// The guarantees of a plan.
#[must_use]
pub fn guarantees(asked: &Asked, document: &Envelope<Guarantees>, limit: Option<&Limit>) -> String {
    let body = &document.body;
    let mut out = format!(
        "{}, {}\n",
        what_runs(&asked.run, &asked.plan.mechanism),
        what_is_asked(asked)
    );
    assumed(&mut out, &document.inputs);
    out.push('\n');
    tables(&mut out, &body.guarantees);
    if let Some(secrets) = &body.secrets {
        let _ = write!(out, "\n{}", secrets.text());
    }
    if !body.what_if.is_empty() {
        out.push_str("\nwith another assumption:\n\n");
        out.push_str(&what_if(&body.what_if).to_text());
    }
    out.push('\n');
    if let Some(note) = sample_note(asked) {
        prose(&mut out, &note);
    }
    let labels = asked.redacted.as_ref().and_then(Redacted::both_labelled);
    if let Some(wanted) = labels.and_then(|found| labels_for(asked.plan.delta, &found.rates)) {
        prose(&mut out, &wanted);
    }
    for note in notes(&body.guarantees) {
        prose(&mut out, &note);
    }
    for note in &asked.caveats {
        prose(&mut out, note);
    }
    for note in about_the_run(asked, &document.inputs) {
        prose(&mut out, &note);
    }
    if let Some(note) = wide(&body.guarantees, asked.plan.tolerance) {
        prose(&mut out, &note);
    }
    if let Some(limit) = limit {
        let _ = writeln!(
            out,
            "\nlimit {}: promised epsilon {} is {}",
            shortest(limit.allowed.get()),
            rounded_up(limit.promised, DIGITS),
            if limit.passed {
                "above it"
            } else {
                "within it"
            },
        );
    }
    out
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
pub fn calibration(document: &Envelope<Calibrated>) -> String {
    let body = &document.body;
    let up = body.solved == Solve::Sigma;
    let shown = |value: f64, safe: bool| match body.solved {
        Solve::Steps | Solve::Group => format!("{value}"),
        Solve::Sigma | Solve::Rate if up == safe => rounded_up(value, 8),
        Solve::Sigma | Solve::Rate => rounded_down(value, 8),
    };
    let name = match body.solved {
        Solve::Sigma => "sigma",
        Solve::Rate => "sampling rate",
        Solve::Steps => "steps",
        Solve::Group => "records",
    };
    let mut out = format!("{name} {}\n", shown(body.answer, true));
    if let Some(fails) = body.fails {
        let _ = writeln!(out, "not certified at {}", shown(fails, false));
    } else {
        let every = match body.solved {
            Solve::Sigma => "no less noise was tried: every value from here on keeps the promise",
            Solve::Rate => "the highest rate there is keeps the promise",
            Solve::Steps => "no more steps can be counted: any number of them keeps the promise",
            Solve::Group => "no larger group was tried: all of them keep the promise",
        };
        let _ = writeln!(out, "{every}");
    }
    let promise = &body.promise;
    let upper = promise
        .value
        .upper
        .map_or_else(dash, |end| rounded_up(end.get().0, DIGITS));
    let lower = promise
        .value
        .lower
        .map_or_else(dash, |end| rounded_down(end.get().0, DIGITS));
    let allowed = shortest(promise.allowed.0);
    let _ = writeln!(
        out,
        "{} <= {upper} (allowed {allowed}), >= {lower}",
        promise.quantity
    );
    if let Some(fano) = body.kl_fano {
        let ratio = if up {
            fano / body.answer
        } else {
            body.answer / fano
        };
        let (verb, much) = if up {
            ("need", "as much")
        } else {
            ("allow", "less")
        };
        let _ = writeln!(
            out,
            "the same posterior proved by Fano's inequality would {verb} {name} {}, {} times {much}",
            shown(fano, true),
            nearest(ratio, 3),
        );
    }
    assumed(&mut out, &document.inputs);
    let _ = writeln!(
        out,
        "\nat this {}:\n",
        match body.solved {
            Solve::Sigma => "sigma",
            Solve::Rate => "rate",
            Solve::Steps => "number of steps",
            Solve::Group => "group size",
        }
    );
    tables(&mut out, &body.guarantees);
    out.push('\n');
    for note in notes(&body.guarantees) {
        prose(&mut out, &note);
    }
    out
}

pub(super) fn assumed(out: &mut String, inputs: &Inputs) {
    if let Some(line) = inputs.assumed_line() {
        let _ = writeln!(out, "{line}");
    }
}

/// One table of ε (of δ, if that was asked), one of posteriors, whichever rows there are.
fn tables(out: &mut String, rows: &[Guarantee]) {
    let mut ranges = Table::new([
        ("what is promised", Align::Left),
        ("compared", Align::Left),
        (
            if rows.iter().any(|row| row.delta_bounds.is_some()) {
                "delta <="
            } else {
                "epsilon <="
            },
            Align::Right,
        ),
        (">=", Align::Right),
        ("how", Align::Left),
    ]);
    let mut posteriors = Table::new([
        ("what is promised", Align::Left),
        ("before", Align::Right),
        ("after <=", Align::Right),
        (">=", Align::Right),
        ("how", Align::Left),
    ]);
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
    if !ranges.rows().is_empty() {
        out.push_str(&ranges.to_text());
    }
    for row in rows {
        gaussian(out, row);
    }
    if !posteriors.rows().is_empty() {
        out.push('\n');
        out.push_str(&posteriors.to_text());
    }
}

/// A table for the row of μ-GDP.
fn gaussian(out: &mut String, row: &Guarantee) {
    let (Some(mu), Some(regret)) = (&row.mu, &row.regret) else {
        return;
    };
    let mut table = Table::new([
        ("what is promised", Align::Left),
        ("compared", Align::Left),
        ("mu <=", Align::Right),
        (">=", Align::Right),
        ("slack", Align::Right),
        ("regret <=", Align::Right),
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
    out.push('\n');
    out.push_str(&table.to_text());
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
        ("epsilon <=", Align::Right),
    ];
    if redacted {
        columns.push(("adversary ignores the secret <=", Align::Right));
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

/// A paragraph, filled, with a hanging indent.
pub(super) fn prose(out: &mut String, text: &str) {
    let mut line = String::from("-");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}
