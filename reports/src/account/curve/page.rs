//! A curve as text, rows and a plot.

use super::{CurveKind, CurvePoint, Points};
use crate::account::csv::Columns;
use crate::account::mechanism::words::line;
use crate::account::words::{PROMISED, about_the_answer, assumed, compared};
use crate::contract::{Envelope, Number, Table};
use crate::number::{capital, count_of, described, rounded, rounded_up, shortest, so_many};
use crate::page::{Page, Section};
use crate::plan::UNIT;
use crate::plot::{Axis, Layer, Plot, Shape, Tone};
use anyhow::Result;
use reticent_accounting::Bounds;
use reticent_accounting::pld::Engine;
use serde_json::Value;

const DIGITS: usize = 6;
/// The number of points in the short text.
const BRIEFLY: usize = 5;

/// Returns the page of a curve: a table with both ends of each point.
#[must_use]
pub(crate) fn page(document: &Envelope<Points>) -> Page {
    let body = &document.body;
    let (x, y) = body.curve.names();
    let whole = matches!(body.curve, CurveKind::Gamma) || body.delta.is_none();
    let first = if whole { "" } else { "at the first point " };
    let table: Table = Table::of(&body.points)
        .right(x, |point| described(point.at.0))
        .right(format!("{y} upper"), |p| rounded(p.value.upper, DIGITS))
        .right("lower", |p| rounded(p.value.lower, DIGITS))
        .into();
    let mut notes = vec![meaning(body.curve)];
    if body.engine == Some(Engine::Chernoff) {
        notes.push(
            "Where the ends are far apart the tight computation could not be certified; both still hold."
                .to_owned(),
        );
    }
    let title = format!(
        "{}: {first}{}",
        capital(&title(document)),
        line(&body.mechanism)
    );
    Page::new(title, headline(body))
        .decides(about_the_answer(
            &document.inputs,
            document.inputs.not_authenticated(),
            body.base,
        ))
        .brief(Section::thinned("", &table, BRIEFLY))
        .section(Section::table("Point by point", table))
        .decides(Section::text(
            "",
            wide(document).into_iter().chain(assumed(&document.inputs)),
        ))
        .section(Section::notes("What a point says", notes))
}

/// Returns a note if the ends of a point are farther apart than requested.
fn wide(document: &Envelope<Points>) -> Option<String> {
    let tolerance = document.inputs.number("tolerance")?;
    let apart = |point: &CurvePoint| {
        let (lower, upper) = (point.value.lower?.get().0, point.value.upper?.get().0);
        let apart = (upper - lower) / upper;
        (upper.is_finite() && apart > tolerance * 1.000_001).then_some((point.at.0, apart))
    };
    let wide: Vec<(f64, f64)> = document.body.points.iter().filter_map(apart).collect();
    let (at, most) = wide.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (x, _) = document.body.curve.names();
    Some(format!(
        "The ends of {} are farther apart than the tolerance of {}, at most {} relatively, at {x} {}: closer ones were \
         not certified. The upper ends hold all the same.",
        count_of(wide.len() as u64, "point"),
        described(tolerance),
        rounded_up(most, 2),
        described(at),
    ))
}

/// Describes the first and the last point in a sentence.
fn headline(body: &Points) -> String {
    let (x, y) = body.curve.names();
    let at = |point: &CurvePoint| {
        let upper = rounded(point.value.upper, DIGITS);
        format!("{upper} at {x} {}", described(point.at.0))
    };
    match &body.points[..] {
        [] => "No points.".to_owned(),
        [only] => format!("{} is at most {}.", capital(y), at(only)),
        [first, .., last] => format!(
            "{} is at most {}, and at most {}.",
            capital(y),
            at(first),
            at(last)
        ),
    }
}

/// Returns the points as CSV.
///
/// # Errors
/// Returns an error if a number is NaN.
pub(crate) fn csv(body: &Points) -> Result<String> {
    let (x, y) = body.curve.names();
    Columns::of(&body.points)
        .value("curve", |_| body.curve)
        .value("argument", |_| x)
        .value("at", |point| point.at)
        .value("quantity", |_| y)
        .value("lower", |point| point.value.lower)
        .value("upper", |point| point.value.upper)
        .into_text()
}

/// Draws a mark for each upper end, and for each lower end where they differ. No line joins them: it would run below the
/// bounds between them.
#[must_use]
pub(crate) fn figure(document: &Envelope<Points>) -> Plot {
    let body = &document.body;
    let (x, y) = axes(body.curve);
    let upper = |value: &Bounds<Number>| value.high().unwrap_or(f64::NAN);
    let lower = |value: &Bounds<Number>| value.low().unwrap_or(f64::NAN);
    let marks = |name: &str, of: &dyn Fn(&Bounds<Number>) -> f64, tone, shape| Layer::Points {
        name: name.to_owned(),
        points: body.points.iter().map(|p| (p.at.0, of(&p.value))).collect(),
        tone,
        shape,
    };
    let apart = |p: &CurvePoint| upper(&p.value) > 1.01 * lower(&p.value);
    let tone = match body.curve {
        CurveKind::Gamma => Tone::Third,
        _ => Tone::PROMISED,
    };
    let mut plot = Plot::new(capital(&title(document)), x, y)
        .described(format!("{} {BETWEEN}", meaning(body.curve)))
        .layer(marks("at most", &upper, tone, Shape::Disc));
    if body.points.iter().any(apart) {
        plot = plot.layer(marks("at least", &lower, Tone::Fourth, Shape::Ring));
    }
    if matches!(body.curve, CurveKind::TradeOff | CurveKind::BlowUp) {
        let blind = body.points.iter().map(|p| (p.at.0, p.at.0));
        plot = plot.layer(Layer::dashes(
            "without the model",
            blind.filter(|(at, _)| *at > 0.0),
            Tone::Muted,
        ));
    }
    plot
}

/// How a plot of points is read.
pub(crate) const BETWEEN: &str =
    "Nothing is certified between the marks; an open arrow is an infinite value.";

fn axes(kind: CurveKind) -> (Axis, Axis) {
    match kind {
        CurveKind::Profile => (Axis::linear("ε (nats)"), Axis::log("δ")),
        CurveKind::Epsilon => (Axis::log("δ"), Axis::linear("ε (nats)")),
        CurveKind::TradeOff => (
            Axis::log("false-positive rate"),
            Axis::log("true-positive rate"),
        ),
        CurveKind::Renyi => (Axis::log("order"), Axis::log("Rényi divergence (nats)")),
        CurveKind::BlowUp => (
            Axis::log("chance before training"),
            Axis::log("chance after training"),
        ),
        CurveKind::Sigma => (Axis::log("noise multiplier σ"), Axis::log("ε (nats)")),
        CurveKind::SampleRate => (Axis::log("sampling rate q"), Axis::log("ε (nats)")),
        CurveKind::Steps => (Axis::log("steps T"), Axis::log("ε (nats)")),
        CurveKind::Gamma => (
            Axis::log("share of secrets missed by redaction γ"),
            Axis::log("ε (nats), planning only"),
        ),
    }
}

fn title(document: &Envelope<Points>) -> String {
    let body = &document.body;
    let unit = document.inputs.get("unit").and_then(Value::as_str);
    let unit = unit.unwrap_or(UNIT);
    let curve = match body.curve {
        CurveKind::Profile => "delta at each epsilon",
        CurveKind::Epsilon => "epsilon at each delta",
        CurveKind::TradeOff => "the best attack on membership",
        CurveKind::Renyi => "Rényi divergence at each order",
        CurveKind::BlowUp => "guessing a secret, after training and before",
        CurveKind::Sigma => "epsilon at each noise multiplier",
        CurveKind::SampleRate => "epsilon at each sampling rate",
        CurveKind::Steps => "epsilon at each number of steps",
        CurveKind::Gamma => {
            "epsilon of a redacted secret at each share missed, adversary without prior knowledge of it (planning \
             only)"
        }
    };
    let slack = body.delta.map_or_else(String::new, |delta| {
        format!(", delta {}", shortest(delta.get()))
    });
    let records = so_many(body.group.get(), unit);
    let compared = compared(body.neighbours);
    format!("{curve}, {records}, {compared}{slack}")
}

fn meaning(kind: CurveKind) -> String {
    let said = match kind {
        CurveKind::Profile | CurveKind::Epsilon => {
            return format!(
                "Every point is a promise of its own, and all hold at once: {PROMISED}."
            );
        }
        CurveKind::TradeOff => {
            "No attack that decides from the released model whether the record was used, with at most this share of \
             false alarms, finds more than this share of true cases, whatever else it knows."
        }
        CurveKind::Sigma | CurveKind::SampleRate | CurveKind::Steps => {
            return format!("Every point is the promise of another run: {PROMISED}.");
        }
        CurveKind::Gamma => {
            "For planning: the model tells an adversary without prior knowledge of the secret from a masked one no better than this. \
             It bounds no chance of guessing a secret, no exposure and no audit that knows the secret."
        }
        CurveKind::Renyi => {
            "For composition elsewhere; as a promise it is looser than the profile."
        }
        CurveKind::BlowUp => {
            "Whoever would have guessed the secret with the chance before (everything known besides this model \
             included) guesses it with at most the chance after."
        }
    };
    said.to_owned()
}
