//! Guarantees as tables.

use super::words::{method, neighbours, promise};
use crate::contract::{Table, dash};
use crate::number::{rounded, shortest};
use reticent_accounting::{Bounds, Convention, Guarantee, Notion};

const DIGITS: usize = 6;

/// Keeps one row for each promise, by the first method, which is the tightest; rows for planning
/// come last. Rows only for comparison with publications are left out.
pub(in crate::account) fn tightest(rows: &[Guarantee]) -> Vec<Guarantee> {
    let mut kept: Vec<Guarantee> = Vec::new();
    for row in rows {
        let printed =
            row.convention == Convention::Paper && row.notion == Notion::BayesianConfidentiality;
        if !printed && !kept.iter().any(|other| same(other, row)) {
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
    let ranges = rows.iter().filter_map(|row| Some((row, ends_of(row)?)));
    let mut ranges: Vec<_> = ranges.collect();
    // A second method that prints the same numbers adds nothing for a reader.
    ranges.dedup_by(|(row, ends), (before, those)| same(row, before) && ends == those);
    let ranges = Table::of(&ranges)
        .left("guarantee", |(row, _)| promise(row))
        .left("neighbouring relation", |(row, _)| neighbours(row))
        .right(bound, |(_, (upper, _))| upper)
        .right("lower", |(_, (_, lower))| lower)
        .only_if(how, |table| {
            table.left("accountant", |(row, _)| method(row))
        });
    let posteriors = rows
        .iter()
        .filter_map(|row| Some((row, row.prior?, row.posterior?)));
    let posteriors = Table::of(posteriors)
        .left("guarantee", |(row, ..)| promise(row))
        .right("before", |(_, prior, _)| shortest(prior.get()))
        .right("after, upper", |(.., posterior)| ends(&posterior).0)
        .right("lower", |(.., posterior)| ends(&posterior).1)
        .only_if(how, |table| {
            table.left("accountant", |(row, ..)| method(row))
        });
    let gaussians: Vec<Table> = rows.iter().filter_map(gaussian).collect();
    let all = [vec![ranges.into()], gaussians, vec![posteriors.into()]].concat();
    all.into_iter()
        .filter(|table| !table.rows().is_empty())
        .collect()
}

/// Returns a table for the row of μ-GDP.
fn gaussian(row: &Guarantee) -> Option<Table> {
    let (mu, regret) = (row.mu.as_ref()?, row.regret.as_ref()?);
    let table = Table::of([row])
        .left("guarantee", promise)
        .left("neighbouring relation", neighbours)
        .right("μ upper", |_| rounded(mu.upper, DIGITS))
        .right("lower", |_| rounded(mu.lower, DIGITS))
        .right("slack", |row| {
            row.delta.map_or_else(dash, |slack| shortest(slack.get()))
        })
        .right("regret upper", |_| rounded(regret.upper, 2));
    Some(table.into())
}

/// Formats the upper end rounded up and the lower end rounded down; a dash for an unknown end.
fn ends<T: Copy + Into<f64>>(bounds: &Bounds<T>) -> (String, String) {
    (rounded(bounds.upper, DIGITS), rounded(bounds.lower, DIGITS))
}

/// Returns both ends of a row's δ at an ε, or else of its ε: upper, lower.
pub(in crate::account) fn ends_of(row: &Guarantee) -> Option<(String, String)> {
    match (&row.delta_bounds, &row.epsilon) {
        (Some(delta), _) => Some(ends(delta)),
        (None, Some(epsilon)) => Some(ends(epsilon)),
        (None, None) => None,
    }
}

/// Whether two rows are one for who reads what is promised and what is compared.
fn same(row: &Guarantee, other: &Guarantee) -> bool {
    promise(row) == promise(other) && neighbours(row) == neighbours(other)
}
