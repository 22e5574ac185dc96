//! The explanation of a number in sentences.

use super::{Explanation, OneWay, Step};
use crate::account::answer::{what_is_asked, what_runs};
use crate::account::plan::Question;
use crate::account::tables::ends_of;
use crate::account::words::{about_the_answer, assumed, promise, together};
use crate::contract::dash;
use crate::contract::{Envelope, Table};
use crate::number::{capital, grouped, nearest, rounded, rounded_down, rounded_up};
use crate::page::{Page, Section};
use reticent_accounting::pld::{Certificate, ErrorEnds, ErrorSource};
use reticent_accounting::{Direction, GroupSize, Guarantee, Method, Neighbours};

const DIGITS: usize = 6;

/// Returns the explanation as a page.
#[must_use]
pub(crate) fn page(question: &Question, document: &Envelope<Explanation>) -> Page {
    let body = &document.body;
    let title = format!(
        "{}, {}",
        what_runs(&question.run, &question.plan.mechanism),
        what_is_asked(question)
    );
    let mut how = vec![format!("Engine: {}.", body.engine)];
    how.extend(body.directions.iter().map(direction));
    let mut page = Page::new(title, answer(question, body))
        .decides(about_the_answer(
            &document.inputs,
            question.caveats.iter().cloned(),
            body.base,
        ))
        .decides(Section::text("", assumed(&document.inputs)))
        .section(Section::notes("What runs", what_ran(body)))
        .section(Section::notes("How", how))
        .brief(Section::text("", [format!("Engine: {}.", body.engine)]));
    let of = match body.headline.method {
        Method::GroupLemma => " of a single record",
        _ => "",
    };
    let first = body.directions.first();
    if let Some(certificate) = first.and_then(|way| way.certificate.as_ref()) {
        page = page
            .answer(Section::notes(
                "What certifies it",
                certified(certificate, of),
            ))
            .section(Section::table("Each error", errors(certificate)));
    }
    page.section(Section::notes("For comparison", beside(body)))
        .section(Section::notes(
            "What it does not cover",
            body.not_covered.clone(),
        ))
}

fn what_ran(body: &Explanation) -> Vec<String> {
    let mut said: Vec<String> = body.steps.iter().map(step).collect();
    if said.is_empty() {
        said.push("Nothing is released.".to_owned());
    }
    if let Some(merged) = &body.merged {
        said.push(format!(
            "The {} plain Gaussian steps are one Gaussian whose means lie {} noise deviations apart.",
            grouped(merged.steps),
            nearest(merged.distance, DIGITS)
        ));
    }
    said
}

/// States the number in full.
fn answer(question: &Question, body: &Explanation) -> String {
    let plan = &question.plan;
    let records = together(plan.group, &plan.unit);
    let change = match plan.neighbours {
        Neighbours::AddRemove => "being present or absent",
        Neighbours::ZeroOut => {
            "contributing or being zeroed (who contains which secret stays public)"
        }
        Neighbours::Replace => "having this content or another",
    };
    let headline = &body.headline;
    // A row at an ε contains that ε too.
    let (upper, lower) = ends_of(headline).unwrap_or_else(|| (dash(), dash()));
    let what = match question.epsilon {
        None => "epsilon",
        Some(_) => "delta",
    };
    let by = match headline.method {
        Method::GroupLemma => ", by the group lemma",
        _ if plan.group > GroupSize::ONE => ", by the loss law of all of them",
        _ => "",
    };
    let least = if lower == dash() {
        String::new()
    } else {
        format!(" No accountant can promise less than {lower} for it.")
    };
    format!(
        "{} is at most {upper} for {records} {change}{by}.{least}",
        capital(what)
    )
}

fn step(step: &Step) -> String {
    let times = match step.times {
        1 => String::new(),
        times => format!("{} × ", grouped(times)),
    };
    let pair = step.pair.as_ref().map_or_else(String::new, |pair| {
        format!(" With: {}. Without: {}.", pair.with, pair.without)
    });
    format!("{times}{}: {}.{pair}", step.what, step.treatment)
}

fn direction(way: &OneWay) -> String {
    let (what, upper) = match way.epsilon {
        Some(of) => ("epsilon", rounded(of.upper, DIGITS)),
        None => ("delta", rounded(way.delta.and_then(|of| of.upper), DIGITS)),
    };
    match way.direction {
        Some(Direction::Remove) => {
            format!("Chance with the records over chance without them: {what} is at most {upper}.")
        }
        Some(Direction::Add) => {
            format!("Chance without the records over chance with them: {what} is at most {upper}.")
        }
        None => format!(
            "The pair is its own mirror image, so one direction stands for both: {what} is at most {upper}."
        ),
    }
}

/// Describes what was computed at the upper end.
fn certified(certificate: &Certificate, of: &str) -> Vec<String> {
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
    let mut said = vec![format!(
        "Evaluated once more at epsilon {at}: delta{of} lies between {lower} and {upper}."
    )];
    said.extend(work(certificate));
    said
}

/// Lists each error with what bounds it.
fn errors(certificate: &Certificate) -> Table {
    Table::of(&certificate.errors)
        .left("error", |error| source(error.source).0)
        .right("share of δ, upper", |error| rounded_up(error.relative, 2))
        .left("moves", |error| match error.ends {
            ErrorEnds::Lower => "the lower end",
            ErrorEnds::Upper => "the upper end",
            ErrorEnds::Both => "both ends",
        })
        .left("bounded by", |error| source(error.source).1)
        .into()
}

/// Describes the work of the engine in numbers.
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

/// Returns an error's name and what bounds it.
const fn source(source: ErrorSource) -> (&'static str, &'static str) {
    match source {
        ErrorSource::Aliasing => ("aliasing", "Chernoff, one period away; aliases only add"),
        ErrorSource::CutOff => ("terms left out", "decay of the characteristic function"),
        ErrorSource::Terms => ("inside the terms", "quadrature off the real axis, rounding"),
        ErrorSource::Summation => ("the sum", "rounding of phases and additions"),
        ErrorSource::Front => (
            "the leading moment",
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

/// Describes the results of other methods, and what follows from the number.
fn beside(body: &Explanation) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(row) = &body.beside {
        let order = row
            .order
            .map(|order| format!(" at order {}", nearest(order.get(), 4)))
            .unwrap_or_default();
        let (what, value) = bounded(row).unwrap_or(("epsilon", dash()));
        said.push(format!(
            "By Rényi divergence{order}, as most accountants: {what} is at most {value}. It holds and is looser."
        ));
    }
    for derived in &body.derived {
        let row = &derived.guarantee;
        if let Some((what, value)) = bounded(row) {
            said.push(format!(
                "{}: {what} is at most {value}; {}.",
                promise(row),
                derived.how
            ));
        }
    }
    said
}

/// Returns what a row bounds, and its upper end.
fn bounded(row: &Guarantee) -> Option<(&'static str, String)> {
    let (what, upper) = match (row.mu, row.posterior, row.delta_bounds, row.epsilon) {
        (Some(mu), ..) => ("mu", mu.high()),
        (_, Some(after), ..) => ("chance after", after.high()),
        (.., Some(delta), _) => ("delta", delta.high()),
        (.., Some(epsilon)) => ("epsilon", epsilon.high()),
        (None, None, None, None) => return None,
    };
    Some((what, rounded_up(upper?, DIGITS)))
}
