//! Exposure by number of copies: the effect of repetition.

use super::pieces::{along, both_ends, with_canaries};
use crate::contract::Table;
use crate::number::{count_of, nearest};
use crate::plot::{Axis, Layer, Plot, Tone};
use reticent_attacks::exposure::{ExposureFinding, ExposureSummary};
use reticent_attacks::search::RankCount;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The canaries of one number of copies.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Dose {
    /// Copies of each.
    pub copies: u64,
    /// How many canaries.
    pub canaries: u64,
    /// Their exposures next to those expected by chance.
    pub summary: ExposureSummary,
}

/// Returns the exposures by number of copies, ascending; empty if all canaries have the same
/// number.
pub(super) fn doses(finding: &ExposureFinding) -> Vec<Dose> {
    let mut by_copies: BTreeMap<u64, Vec<RankCount>> = BTreeMap::new();
    for canary in &finding.canaries {
        let own = by_copies.entry(canary.copies).or_default();
        let rank = canary.rank;
        own.push(RankCount::of_ranks(finding.candidates, rank.min, rank.max));
    }
    if by_copies.len() < 2 {
        return Vec::new();
    }
    let each = by_copies.into_iter().filter_map(|(copies, counts)| {
        // All canaries together have a summary already, so a part of them has one.
        let summary = ExposureSummary::of(&counts, finding.draw).ok()?;
        Some(Dose {
            copies,
            canaries: counts.len() as u64,
            summary,
        })
    });
    each.collect()
}

/// Returns a table with one row for each number of copies.
pub(super) fn dose_table(doses: &[Dose]) -> Table {
    let two = |value: f64| format!("{value:.2}");
    Table::of(doses)
        .right("copies", |dose| dose.copies.to_string())
        .right("canaries", |dose| dose.canaries.to_string())
        .right("mean exposure (bits)", |dose| {
            both_ends(dose.summary.mean())
        })
        .right("largest", |dose| both_ends(dose.summary.max()))
        .right("without a leak: mean", |dose| {
            two(dose.summary.mean().null_mean())
        })
        .right("p", |dose| nearest(dose.summary.mean().p_value(), 2))
        .into()
}

/// Draws every canary against its number of copies, and their means as a line.
pub(super) fn dose_plot(doses: &[Dose], finding: &ExposureFinding) -> Plot {
    let canaries = finding.canaries.iter();
    let means = doses.iter().map(|d| (d.copies as f64, d.summary.mean()));
    let means: Vec<_> = means.collect();
    let top = (finding.candidates as f64).log2();
    let mut plot = Plot::new(
        "What repetition does",
        Axis::linear("copies of the canary"),
        Axis::linear("exposure (bits)").between(0.0, top * 1.03),
    );
    if let Some(dose) = doses.first() {
        plot = plot.layer(Layer::rule(
            "mean without a leak",
            dose.summary.mean().null_mean(),
            Tone::Muted,
        ));
    }
    let plot = along(plot, "mean", &means, Tone::MEASURED);
    with_canaries(plot, canaries.map(|c| (c.copies as f64, c))).described(
        doses
            .iter()
            .map(|d| {
                format!(
                    "{}: mean {} bits",
                    count_of(d.copies, "copy"),
                    both_ends(d.summary.mean())
                )
            })
            .collect::<Vec<_>>()
            .join("; "),
    )
}
