//! Guarantees and calibrations as rows for spreadsheets, with all digits.

use crate::contract::{Csv, to_json};
use anyhow::Result;
use reticent_accounting::{Bounds, Guarantee};
use serde::Serialize;
use serde_json::Value;

/// Returns a value as JSON writes it, with all digits but without quotes; an absent one as an empty
/// text.
pub(super) fn cell(value: &impl Serialize) -> Result<String> {
    Ok(match to_json(value)? {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// Rows for spreadsheets under construction: each column has a name and says what it holds of an item.
pub(super) struct Columns<T> {
    items: Vec<T>,
    columns: Vec<(String, Result<Vec<String>>)>,
}

impl<T: Copy> Columns<T> {
    /// Begins with a row for each item.
    pub(super) fn of(items: impl IntoIterator<Item = T>) -> Self {
        Self {
            items: items.into_iter().collect(),
            columns: Vec::new(),
        }
    }
    /// Adds a column.
    pub(super) fn value<V: Serialize>(
        mut self,
        name: impl Into<String>,
        of: impl Fn(T) -> V,
    ) -> Self {
        let cells = self.items.iter().map(|item| cell(&of(*item)));
        let cells = cells.collect();
        self.columns.push((name.into(), cells));
        self
    }
    /// Adds the lower and the upper end of a quantity.
    pub(super) fn ends<V: Serialize + Copy>(
        self,
        name: &str,
        of: impl Fn(T) -> Option<Bounds<V>>,
    ) -> Self {
        let lower = |item| of(item).and_then(|bounds| bounds.lower);
        let upper = |item| of(item).and_then(|bounds| bounds.upper);
        self.value(format!("{name}_lower"), lower)
            .value(format!("{name}_upper"), upper)
    }
    /// Returns the whole text.
    ///
    /// # Errors
    /// Returns an error if a number is NaN.
    pub(super) fn into_text(self) -> Result<String> {
        let mut csv = Csv::new(self.columns.iter().map(|(name, _)| name));
        let columns = self.columns.into_iter().map(|(_, cells)| cells);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        for row in 0..self.items.len() {
            csv.row(columns.iter().map(|cells| &cells[row]));
        }
        Ok(csv.into_text())
    }
}

/// Returns guarantees as CSV, one row each.
pub(super) fn guarantees<'a>(rows: impl IntoIterator<Item = &'a Guarantee>) -> Result<String> {
    Columns::of(rows)
        .value("notion", |row| &row.notion)
        .value("neighbours", |row| &row.neighbours)
        .value("convention", |row| &row.convention)
        .value("unit", |row| &row.unit)
        .value("about", |row| &row.about)
        .value("group", |row| &row.group)
        .value("method", |row| &row.method)
        .value("base", |row| &row.base)
        .value("engine", |row| &row.engine)
        .value("order", |row| &row.order)
        .ends("epsilon", |row| row.epsilon)
        .value("delta", |row| &row.delta)
        .ends("delta", |row| row.delta_bounds)
        .value("gamma", |row| &row.gamma)
        .value("missed_by_both", |row| &row.missed_by_both)
        .value("confidence", |row| &row.confidence)
        .value("prior", |row| &row.prior)
        .ends("posterior", |row| row.posterior)
        .ends("mu", |row| row.mu)
        .ends("regret", |row| row.regret)
        .value("same_class", |row| &row.same_class)
        .into_text()
}
