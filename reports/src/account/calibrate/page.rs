//! The result of a calibration as a page and as rows.

use super::args::Solve;
use super::run::Calibrated;
use crate::account::csv::Columns;
use crate::account::tables::{tables, tightest};
use crate::account::words::{about_the_answer, assumed, compared, notes};
use crate::contract::dash;
use crate::contract::{Envelope, Inputs};
use crate::number::{capital, nearest, rounded, rounded_down, rounded_up, shortest};
use crate::page::{Page, Section};
use anyhow::Result;
use reticent_accounting::Neighbours;
use serde::Deserialize;

const DIGITS: usize = 6;

/// Returns the page of a calibration.
#[must_use]
pub(crate) fn page(document: &Envelope<Calibrated>) -> Page {
    let body = &document.body;
    let up = body.solved == Solve::Sigma;
    let shown = |value: f64, safe: bool| match body.solved {
        Solve::Steps | Solve::Group => format!("{value}"),
        Solve::Sigma | Solve::Rate if up == safe => rounded_up(value, 8),
        Solve::Sigma | Solve::Rate => rounded_down(value, 8),
    };
    // A mechanism from a file runs several times; its own steps are not counted.
    let of_file = document.inputs.get("files").is_some();
    let (title, name, found, all) = match body.solved {
        Solve::Sigma => (
            "The least noise for the promise",
            "sigma",
            "sigma",
            "No less noise was tried: every sigma from here on keeps the promise.",
        ),
        Solve::Rate => (
            "The highest sampling rate for the promise",
            "sampling rate",
            "rate",
            "It is the highest sampling rate there is.",
        ),
        Solve::Steps if of_file => (
            "The most runs of the file for the promise",
            "runs of the file",
            "number of runs",
            "No more runs can be counted; no claim is made about more.",
        ),
        Solve::Steps => (
            "The most steps for the promise",
            "steps",
            "number of steps",
            "No more steps can be counted; no claim is made about more.",
        ),
        Solve::Group => (
            "The largest group for the promise",
            "records",
            "group size",
            "Larger groups are not supported; no claim is made about them.",
        ),
    };
    let promise = &body.promise;
    let upper = rounded(promise.value.upper, DIGITS);
    let lower = rounded(promise.value.lower, DIGITS);
    let mut facts = Vec::new();
    if let Some(fano) = body.kl_fano {
        let (ratio, verb, much) = match up {
            true => (fano / body.answer, "need", "as much"),
            false => (body.answer / fano, "allow", "less"),
        };
        facts.push(format!(
            "The same posterior proved by Fano's inequality would {verb} {name} {}, {} times {much}.",
            shown(fano, true),
            nearest(ratio, 3),
        ));
    }
    if let Some(upper) = body.replaced.and_then(|replaced| replaced.upper) {
        facts.push(format!(
            "For this content or another, as for secrets and canaries and in audit train --epsilon, epsilon is at most {} \
             at this delta.",
            rounded(upper, DIGITS)
        ));
    }
    facts.extend(document.inputs.given_line());
    facts.extend(assumed(&document.inputs));
    let answer = shown(body.answer, true);
    let what = match body.solved {
        Solve::Sigma | Solve::Rate => format!("{} {answer}", capital(name)),
        Solve::Steps | Solve::Group if body.answer > 1.0 => format!("{answer} {name}"),
        Solve::Steps if of_file => format!("{answer} run of the file"),
        Solve::Steps => format!("{answer} step"),
        Solve::Group => format!("{answer} record"),
    };
    let verb = match body.solved {
        Solve::Steps | Solve::Group if body.answer > 1.0 => "keep",
        _ => "keeps",
    };
    let limit = match body.fails {
        Some(fails) => format!("At {} that is not certified.", shown(fails, false)),
        None => all.to_owned(),
    };
    let quantity = in_its_terms(&promise.quantity, &document.inputs);
    let ends = match promise.value.lower {
        Some(_) => format!("it lies between {lower} and {upper}"),
        None => format!("it is at most {upper}"),
    };
    let summary = format!(
        "{what} {verb} {quantity} at most {}: {ends}. {limit}",
        shortest(promise.allowed.0)
    );
    let mut page = Page::new(title, summary)
        .decides(about_the_answer(
            &document.inputs,
            document.inputs.not_authenticated(),
            body.base,
        ))
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

/// Returns what is kept and at which value, with its neighbours if the question has them.
fn in_its_terms(quantity: &str, inputs: &Inputs) -> String {
    let given = |name: &str| inputs.number(name).map_or_else(dash, shortest);
    let relation = inputs.get("neighbours");
    let relation = relation.and_then(|value| Neighbours::deserialize(value).ok());
    let relation =
        relation.map_or_else(String::new, |relation| format!(" ({})", compared(relation)));
    if quantity.starts_with("epsilon") {
        return format!("{quantity}{relation} at delta {}", given("delta"));
    }
    match quantity {
        "true-positive rate" => {
            format!(
                "the {quantity}{relation} at a false-positive rate of {}",
                given("fpr")
            )
        }
        "chance of that exposure" => {
            format!(
                "the chance of an exposure of {} bits",
                given("max_exposure")
            )
        }
        _ => format!("the {quantity}, {} before training,", given("prior")),
    }
}

/// Returns the answer of a calibration as CSV.
pub(crate) fn csv(body: &Calibrated) -> Result<String> {
    Columns::of([body])
        .value("solved", |body| body.solved)
        .value("answer", |body| body.answer)
        .value("fails", |body| body.fails)
        .value("quantity", |body| &body.promise.quantity)
        .value("allowed", |body| body.promise.allowed)
        .value("lower", |body| body.promise.value.lower)
        .value("upper", |body| body.promise.value.upper)
        .value("kl_fano", |body| body.kl_fano)
        .into_text()
}
