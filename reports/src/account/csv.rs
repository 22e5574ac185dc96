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

/// Returns the lower and the upper end.
pub(super) fn ends<T: Serialize>(bounds: Option<&Bounds<T>>) -> Result<[String; 2]> {
    let lower = bounds.and_then(|b| b.lower.as_ref());
    let upper = bounds.and_then(|b| b.upper.as_ref());
    Ok([cell(&lower)?, cell(&upper)?])
}

/// Returns guarantees as CSV, one row each.
pub(super) fn guarantees<'a>(rows: impl IntoIterator<Item = &'a Guarantee>) -> Result<String> {
    let mut csv = Csv::new([
        "notion",
        "neighbours",
        "convention",
        "unit",
        "about",
        "group",
        "method",
        "base",
        "engine",
        "order",
        "epsilon_lower",
        "epsilon_upper",
        "delta",
        "delta_lower",
        "delta_upper",
        "gamma",
        "missed_by_both",
        "confidence",
        "prior",
        "posterior_lower",
        "posterior_upper",
        "mu_lower",
        "mu_upper",
        "regret_lower",
        "regret_upper",
        "same_class",
    ]);
    for row in rows {
        let [epsilon_lower, epsilon_upper] = ends(row.epsilon.as_ref())?;
        let [delta_lower, delta_upper] = ends(row.delta_bounds.as_ref())?;
        let [posterior_lower, posterior_upper] = ends(row.posterior.as_ref())?;
        let [mu_lower, mu_upper] = ends(row.mu.as_ref())?;
        let [regret_lower, regret_upper] = ends(row.regret.as_ref())?;
        csv.row([
            cell(&row.notion)?,
            cell(&row.neighbours)?,
            cell(&row.convention)?,
            cell(&row.unit)?,
            cell(&row.about)?,
            cell(&row.group)?,
            cell(&row.method)?,
            cell(&row.base)?,
            cell(&row.engine)?,
            cell(&row.order)?,
            epsilon_lower,
            epsilon_upper,
            cell(&row.delta)?,
            delta_lower,
            delta_upper,
            cell(&row.gamma)?,
            cell(&row.missed_by_both)?,
            cell(&row.confidence)?,
            cell(&row.prior)?,
            posterior_lower,
            posterior_upper,
            mu_lower,
            mu_upper,
            regret_lower,
            regret_upper,
            cell(&row.same_class)?,
        ]);
    }
    Ok(csv.into_text())
}
