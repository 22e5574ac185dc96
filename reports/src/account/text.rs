//! The answer as text.

use super::answer::{Guarantees, Limit, WhatIf};
use super::calibration::Calibrated;
use super::plan::Asked;
use super::words::{method, neighbours, notes, promise};
use crate::contract::{Align, Envelope, Inputs, Table};
use crate::number::{nearest, rounded_down, rounded_up, shortest};
use reticent_accounting::statistics::labels_needed;
use reticent_accounting::{Bounds, Epsilon, Guarantee, Probability};
use std::fmt::Write;

const DIGITS: usize = 6;
/// Lines of prose are filled to this width.
const WIDTH: usize = 100;

/// The guarantees of a plan.
#[must_use]
pub fn guarantees(asked: &Asked, document: &Envelope<Guarantees>, limit: Option<&Limit>) -> String {
    let body = &document.body;
    let mut out = format!(
        "sigma {}, sampling rate {}, {} steps, delta {}\n",
        shortest(asked.sigma.get()),
        shortest(asked.rate.get()),
        asked.steps.get(),
        shortest(asked.plan.delta.get()),
    );
    assumed(&mut out, &document.inputs);
    out.push('\n');
    tables(&mut out, &body.guarantees);
    if !body.what_if.is_empty() {
        out.push_str("\nwith another assumption:\n\n");
        out.push_str(&what_if(&body.what_if).to_text());
    }
    out.push('\n');
    if let Some(note) = sample_note(asked) {
        prose(&mut out, &note);
    }
    for note in notes(&body.guarantees) {
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

/// A calibration.
#[must_use]
pub fn calibration(document: &Envelope<Calibrated>) -> String {
    let body = &document.body;
    let mut out = format!("sigma {}\n", rounded_up(body.sigma.get(), 8));
    if let Some(small) = body.too_small {
        let _ = writeln!(out, "not certified at {}", rounded_down(small.get(), 8));
    }
    if let Some(fano) = body.kl_fano_sigma {
        let ratio = nearest(fano.get() / body.sigma.get(), 3);
        let _ = writeln!(
            out,
            "the same posterior proved by Fano's inequality would need sigma {}, {ratio} times as much",
            rounded_up(fano.get(), 6),
        );
    }
    assumed(&mut out, &document.inputs);
    out.push_str("\nat this sigma:\n\n");
    tables(&mut out, &body.guarantees);
    out.push('\n');
    for note in notes(&body.guarantees) {
        prose(&mut out, &note);
    }
    out
}

fn assumed(out: &mut String, inputs: &Inputs) {
    if let Some(line) = inputs.assumed_line() {
        let _ = writeln!(out, "{line}");
    }
}

/// One table of ε, one of posteriors, whichever rows there are.
fn tables(out: &mut String, rows: &[Guarantee]) {
    let columns = ["what is promised", "compared", "epsilon <=", ">=", "how"];
    let align = [
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Left,
    ];
    let mut epsilons = Table::new(columns.into_iter().zip(align));
    let mut posteriors = Table::new([
        ("what is promised", Align::Left),
        ("before", Align::Right),
        ("after <=", Align::Right),
        (">=", Align::Right),
        ("how", Align::Left),
    ]);
    for row in rows {
        if let Some(epsilon) = &row.epsilon {
            let (upper, lower) = ends(epsilon);
            let cells = [
                promise(row),
                neighbours(row).to_owned(),
                upper,
                lower,
                method(row),
            ];
            // A second method that prints the same adds nothing for a reader.
            if epsilons
                .rows()
                .last()
                .is_none_or(|last| last[..4] != cells[..4])
            {
                epsilons.row(cells);
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
    if !epsilons.rows().is_empty() {
        out.push_str(&epsilons.to_text());
    }
    if !posteriors.rows().is_empty() {
        out.push('\n');
        out.push_str(&posteriors.to_text());
    }
}

/// Upper end rounded up, lower end rounded down, a dash where an end is unknown.
fn ends(bounds: &Bounds<Epsilon>) -> (String, String) {
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

fn dash() -> String {
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
    let (sample, redaction, confidence) =
        (asked.sample?, asked.plan.redaction?, asked.plan.confidence?);
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
fn prose(out: &mut String, text: &str) {
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
