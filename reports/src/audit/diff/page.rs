//! The comparison of two audits as a page.

use super::{DiffReport, Row};
use crate::page::{Mood, Page, Section};
use crate::plot::{Axis, Layer, Plot, Shape, Tone};
use anyhow::Result;

pub(super) fn page(report: &DiffReport, old: &str, new: &str) -> Result<Page> {
    let page = Page::new(format!("What changed: {old} → {new}"), report.said())
        .mood(Mood::of(report.exit(), report.otherwise()))
        .answer(Section::text("", report.notes.clone()))
        .answer(
            Section::table("Quantity by quantity", report.table()).caption(report.level_said()),
        );
    let shares: Vec<&Row> = report.rows.iter().filter(|row| is_share(row)).collect();
    if shares.is_empty() {
        return Ok(page);
    }
    Ok(page.section(
        Section::plot("Rates and areas", plot(&shares).to_inline_svg()?)
            .caption("Rings: the old model. Discs: the new one."),
    ))
}

/// Returns whether a row belongs on the axis of rates and areas; exposures and ε are not drawn.
fn is_share(row: &Row) -> bool {
    !["exposure", "ε"]
        .iter()
        .any(|other| row.quantity.starts_with(other))
}

fn plot(rows: &[&Row]) -> Plot {
    let names = rows.iter().map(|row| &row.quantity);
    let at = |value: fn(&Row) -> f64| {
        let places = rows.iter().rev().enumerate();
        places.map(move |(y, row)| (value(row), y as f64))
    };
    Plot::of_rows(
        "Old and new",
        Axis::linear("share").between(0.0, 1.0),
        ("", names),
        (110, 34),
    )
    .layer(Layer::marks(
        "old",
        at(|row| row.old),
        Tone::Muted,
        Shape::Ring,
    ))
    .layer(Layer::marks(
        "new",
        at(|row| row.new),
        Tone::MEASURED,
        Shape::Disc,
    ))
}
