//! Guarantees as tables.

use super::words::{method, neighbours, promise};
use crate::contract::{Align, Table, dash};
use crate::number::{rounded_down, rounded_up, shortest};
use reticent_accounting::{Bounds, Convention, Guarantee, Notion};

const DIGITS: usize = 6;

/// Keeps one row for each promise, by the first method, which is the tightest; rows for planning
/// come last. Rows only for comparison with publications are left out.
pub(in crate::account) fn tightest(rows: &[Guarantee]) -> Vec<Guarantee> {
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

/// Returns one table of ε (or of δ, if that was asked for), one of μ-GDP and one of posteriors, if
/// there are such rows. `how` adds how each number was found.
pub(in crate::account) fn tables(rows: &[Guarantee], how: bool) -> Vec<Table> {
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
            (Some(delta), _) => Some(ends(delta)),
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
            // A second method that prints the same numbers adds nothing for a reader.
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
            let (upper, lower) = ends(posterior);
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

/// Returns a table for the row of μ-GDP.
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

/// Formats the upper end rounded up and the lower end rounded down; a dash for an unknown end.
fn ends<T: Copy + Into<f64>>(bounds: &Bounds<T>) -> (String, String) {
    let upper = (bounds.upper).map(|end| rounded_up((*end.get()).into(), DIGITS));
    let lower = (bounds.lower).map(|end| rounded_down((*end.get()).into(), DIGITS));
    (upper.unwrap_or_else(dash), lower.unwrap_or_else(dash))
}
