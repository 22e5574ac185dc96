//! The explanation in sentences.

use super::{Explanation, OneWay, Step};
use crate::account::plan::Asked;
use crate::account::text::{assumed, dash, prose, what_is_asked, what_runs};
use crate::account::words::promise;
use crate::contract::{Align, Envelope, Table};
use crate::number::{grouped, nearest, rounded_down, rounded_up};
use reticent_accounting::{Certificate, Direction, ErrorEnds, ErrorSource, GroupSize, Neighbours};
use std::fmt::Write;

const DIGITS: usize = 6;

/// The explanation of a number, for people.
#[must_use]
pub fn text(asked: &Asked, document: &Envelope<Explanation>) -> String {
    let body = &document.body;
    let mut out = format!(
        "{}, {}\n",
        what_runs(&asked.run, &asked.plan.mechanism),
        what_is_asked(asked)
    );
    assumed(&mut out, &document.inputs);
    answer(&mut out, asked, body);
    heading(&mut out, "What runs");
    if body.steps.is_empty() {
        prose(&mut out, "Nothing is released.");
    }
    for step in &body.steps {
        step_lines(&mut out, step);
    }
    if let Some(merged) = &body.merged {
        let line = format!(
            "The {} plain Gaussian steps are one Gaussian whose means lie {} noise deviations apart.",
            grouped(merged.steps),
            nearest(merged.distance, DIGITS)
        );
        prose(&mut out, &line);
    }
    heading(&mut out, "How");
    prose(&mut out, &format!("Engine: {}.", body.engine));
    for way in &body.directions {
        prose(&mut out, &direction(way));
    }
    if let Some(certificate) = body
        .directions
        .first()
        .and_then(|way| way.certificate.as_ref())
    {
        certified(&mut out, certificate);
    }
    beside(&mut out, body);
    heading(&mut out, "What it does not cover");
    for line in &body.not_covered {
        prose(&mut out, line);
    }
    out
}

fn heading(out: &mut String, title: &str) {
    let _ = writeln!(out, "\n{title}\n");
}

/// The number itself, said in full.
fn answer(out: &mut String, asked: &Asked, body: &Explanation) {
    let plan = &asked.plan;
    let records = match plan.group {
        GroupSize::ONE => format!("one {}", plan.unit),
        many => format!("{} {}s together", many.get(), plan.unit),
    };
    let change = match plan.neighbours {
        Neighbours::AddRemove => "being present or absent",
        Neighbours::ZeroOut => "being learned from or not (who contains which secret stays public)",
        Neighbours::Replace => "having this content or another",
    };
    let Some(way) = body.directions.first() else {
        return;
    };
    let (upper, lower) = ends(way);
    let what = if way.epsilon.is_some() {
        "epsilon"
    } else {
        "delta"
    };
    let least = if lower == dash() {
        String::new()
    } else {
        format!(" No accountant can promise less than {lower} for it.")
    };
    heading(out, "The number");
    prose(
        out,
        &format!("{what} <= {upper} for {records} {change}.{least}"),
    );
}

fn ends(way: &OneWay) -> (String, String) {
    let (upper, lower) = match (&way.epsilon, &way.delta) {
        (Some(e), _) => (
            e.upper.map(|end| end.get().get()),
            e.lower.map(|end| end.get().get()),
        ),
        (None, Some(d)) => (
            d.upper.map(|end| end.get().get()),
            d.lower.map(|end| end.get().get()),
        ),
        (None, None) => (None, None),
    };
    let up = upper.map_or_else(dash, |end| rounded_up(end, DIGITS));
    (up, lower.map_or_else(dash, |end| rounded_down(end, DIGITS)))
}

fn step_lines(out: &mut String, step: &Step) {
    let times = if step.times == 1 {
        String::new()
    } else {
        format!("{} × ", grouped(step.times))
    };
    prose(out, &format!("{times}{}: {}.", step.what, step.treatment));
    if let Some(pair) = &step.pair {
        let _ = writeln!(
            out,
            "      with     {}\n      without  {}",
            pair.with, pair.without
        );
    }
}

fn direction(way: &OneWay) -> String {
    let (upper, _) = ends(way);
    let what = if way.epsilon.is_some() {
        "epsilon"
    } else {
        "delta"
    };
    match way.direction {
        Some(Direction::Remove) => {
            format!("Chance with the records over chance without them: {what} <= {upper}.")
        }
        Some(Direction::Add) => {
            format!("Chance without the records over chance with them: {what} <= {upper}.")
        }
        None => format!(
            "The pair is its own mirror image, so one direction stands for both: {what} <= {upper}."
        ),
    }
}

/// What was computed at the upper end, and each error.
fn certified(out: &mut String, certificate: &Certificate) {
    heading(out, "What certifies it");
    let end = |ln: Option<f64>, side: &str| {
        ln.map_or_else(
            || "nothing".to_owned(),
            |ln| {
                let delta = ln.exp();
                let shown = if side == "up" {
                    rounded_up(delta, 10)
                } else {
                    rounded_down(delta, 10)
                };
                if delta > 1e-300 {
                    shown
                } else {
                    format!("e^{}", nearest(ln, 8))
                }
            },
        )
    };
    let lower = end(certificate.ln_delta.lower.map(|end| *end.get()), "down");
    let upper = end(certificate.ln_delta.upper.map(|end| *end.get()), "up");
    let at = rounded_up(certificate.epsilon.get(), 10);
    prose(
        out,
        &format!("Evaluated once more at epsilon {at}: delta lies between {lower} and {upper}."),
    );
    if let Some(work) = work(certificate) {
        prose(out, &work);
    }
    out.push('\n');
    let mut table = Table::new([
        ("error", Align::Left),
        ("share of delta <=", Align::Right),
        ("moves", Align::Left),
        ("bounded by", Align::Left),
    ]);
    for error in &certificate.errors {
        let (name, by) = source(error.source);
        let moves = match error.ends {
            ErrorEnds::Lower => "the lower end",
            ErrorEnds::Upper => "the upper end",
            ErrorEnds::Both => "both ends",
        };
        table.row([
            name.to_owned(),
            rounded_up(error.relative, 2),
            moves.to_owned(),
            by.to_owned(),
        ]);
    }
    out.push_str(&table.to_text());
}

/// What the engine did, in its numbers.
fn work(certificate: &Certificate) -> Option<String> {
    if let (Some(order), Some(step), Some(terms), Some(nodes)) = (
        certificate.order,
        certificate.step,
        certificate.terms,
        certificate.nodes,
    ) {
        return Some(format!(
            "Contour at order {} (its saddle point), {} terms at distance {}, each by quadrature over {} outcomes.",
            nearest(order, 6),
            grouped(terms),
            nearest(step, 4),
            grouped(nodes),
        ));
    }
    if let (Some(cells), Some(spacing)) = (certificate.cells, certificate.spacing) {
        let tilt = certificate
            .tilt
            .map(|tilt| format!(", tilted by {}", nearest(tilt, 6)))
            .unwrap_or_default();
        return Some(format!(
            "Grid of {} losses at distance {}{tilt}.",
            grouped(cells),
            nearest(spacing, 4)
        ));
    }
    certificate
        .order
        .map(|order| format!("Chernoff's bound at order {}.", nearest(order, 6)))
}

/// An error's name and what bounds it.
const fn source(source: ErrorSource) -> (&'static str, &'static str) {
    match source {
        ErrorSource::Aliasing => ("aliasing", "Chernoff, one period away; aliases only add"),
        ErrorSource::CutOff => ("terms left out", "decay of the characteristic function"),
        ErrorSource::Terms => ("inside the terms", "quadrature off the real axis, rounding"),
        ErrorSource::Summation => ("the sum", "rounding of phases and additions"),
        ErrorSource::Front => (
            "the moment in front",
            "quadrature on the real axis, rounding",
        ),
        ErrorSource::Truncation => ("dropped components", "their mass, added to delta"),
        ErrorSource::Discretisation => (
            "the grid",
            "losses moved up for one end, down for the other",
        ),
        ErrorSource::Transform => ("Fourier transform", "rounding of its butterflies"),
        ErrorSource::WrapAround => ("wrap-around", "Chernoff, beyond the window"),
        ErrorSource::Formula => ("the formula", "rounding"),
        ErrorSource::Coarseness => ("coarseness", "two bounds that are not tight"),
        ErrorSource::UnknownLaw => (
            "what is not known",
            "another run, which this one is no better than",
        ),
    }
}

fn beside(out: &mut String, body: &Explanation) {
    let renyi = body.beside.as_ref();
    if renyi.is_none() && body.derived.is_empty() {
        return;
    }
    heading(out, "Beside it");
    if let Some(row) = renyi {
        let order = row
            .order
            .map(|order| format!(" at order {}", nearest(order.get(), 4)))
            .unwrap_or_default();
        let (what, value) = match (&row.delta_bounds, &row.epsilon) {
            (Some(delta), _) => ("delta", delta.upper.map(|end| end.get().get())),
            (None, Some(epsilon)) => ("epsilon", epsilon.upper.map(|end| end.get().get())),
            (None, None) => ("epsilon", None),
        };
        let value = value.map_or_else(dash, |value| rounded_up(value, DIGITS));
        prose(
            out,
            &format!(
                "By Rényi divergence{order}, as most accountants: {what} <= {value}. It holds and is looser."
            ),
        );
    }
    for derived in &body.derived {
        let row = &derived.guarantee;
        let value = match (&row.posterior, &row.delta_bounds, &row.epsilon) {
            _ if row.mu.is_some() => row.mu.and_then(|mu| mu.upper).map(|end| ("mu", *end.get())),
            (Some(after), ..) => after.upper.map(|end| ("chance after", end.get().get())),
            (None, Some(delta), _) => delta.upper.map(|end| ("delta", end.get().get())),
            (None, None, Some(epsilon)) => epsilon.upper.map(|end| ("epsilon", end.get().get())),
            (None, None, None) => None,
        };
        if let Some((what, value)) = value {
            let value = rounded_up(value, DIGITS);
            prose(
                out,
                &format!("{}: {what} <= {value}; {}.", promise(row), derived.how),
            );
        }
    }
}
