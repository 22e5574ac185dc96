//! The last value that keeps a promise, as a page and as rows.

use super::args::Solve;
use super::run::Calibrated;
use crate::account::csv::{cell, ends};
use crate::account::tables::{dash, tables, tightest};
use crate::account::words::notes;
use crate::contract::{Csv, Envelope};
use crate::number::{nearest, rounded_down, rounded_up, shortest};
use crate::page::{Page, Section};
use anyhow::Result;

const DIGITS: usize = 6;

/// A calibration.
#[must_use]
pub fn page(document: &Envelope<Calibrated>) -> Page {
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
            format!("Every accountant at this {found}"),
            table,
        ));
    }
    page.section(Section::notes(
        "What the numbers mean and do not cover",
        notes(&body.guarantees),
    ))
}

/// A calibration: the answer alone.
pub fn csv(body: &Calibrated) -> Result<String> {
    let mut csv = Csv::new([
        "solved", "answer", "fails", "quantity", "allowed", "lower", "upper", "kl_fano",
    ]);
    let [lower, upper] = ends(Some(&body.promise.value))?;
    csv.row([
        cell(&body.solved)?,
        cell(&body.answer)?,
        cell(&body.fails)?,
        body.promise.quantity.clone(),
        cell(&body.promise.allowed)?,
        lower,
        upper,
        cell(&body.kl_fano)?,
    ]);
    Ok(csv.into_text())
}
