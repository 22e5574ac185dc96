//! Exposures of two models, canary by canary.

use crate::number::{nearest, shortest};
use anyhow::{Result, ensure};
use reticent_attacks::sign_test;
use serde_json::Value;
use std::collections::BTreeMap;

/// Exposures, bits, at which canaries are counted; fixed before anything is measured.
const LINES: [f64; 4] = [2.0, 5.0, 10.0, 15.0];

/// The same canaries in two models.
///
/// Counted is who comes above a line and who falls below it. Where neither model saw the secrets,
/// a secret drawn at random is above the line with one probability in both, whatever the models
/// are: as many candidates rank so high in one as in the other. So as many come as go on average,
/// given both models, and McNemar's test is exact. Who merely rose and fell says nothing: a model
/// that likes one digit less lifts nine tenths of all candidates a little and drops the rest far.
pub(super) struct Exposures {
    /// Mean exposures, ties at their worst for a leak.
    pub(super) means: (f64, f64),
    more: Crossed,
    less: Crossed,
    /// How many canaries there are, and how many of them have one number of copies, at most.
    canaries: u64,
    largest_dose: u64,
    lines: usize,
}

/// Canaries at the line where a test of one direction says most.
struct Crossed {
    line: f64,
    crossed: u64,
    back: u64,
    /// Over all lines: at most their number times the smallest.
    p_value: f64,
}

/// Both ends of an exposure, where ties leave it open.
type Ends = (f64, f64);

impl Exposures {
    /// Of two documents.
    ///
    /// # Errors
    /// Canaries or candidates that are not the same.
    pub(super) fn of(old: &Value, new: &Value) -> Result<Self> {
        let (before, after) = (by_id(old), by_id(new));
        ensure!(
            !before.is_empty() && before.keys().eq(after.keys()),
            "OLD and NEW must hold the same canaries: {} against {}",
            before.len(),
            after.len()
        );
        ensure!(
            old["candidates"] == new["candidates"],
            "OLD and NEW rank among {} and {} candidates",
            old["candidates"],
            new["candidates"]
        );
        let top = old["candidates"].as_f64().unwrap_or(1.0).log2();
        let lines: Vec<f64> = LINES.into_iter().filter(|line| *line <= top).collect();
        let mean = |all: &BTreeMap<String, Ends>| {
            all.values().map(|ends| ends.0).sum::<f64>() / all.len() as f64
        };
        let pairs: Vec<(Ends, Ends)> = before
            .values()
            .copied()
            .zip(after.values().copied())
            .collect();
        let back: Vec<(Ends, Ends)> = pairs.iter().map(|(old, new)| (*new, *old)).collect();
        Ok(Self {
            means: (mean(&before), mean(&after)),
            more: crossed(&pairs, &lines),
            less: crossed(&back, &lines),
            canaries: pairs.len() as u64,
            largest_dose: largest_dose(new),
            lines: lines.len(),
        })
    }

    /// Whether the new model is certainly more exposed at this level.
    pub(super) fn more(&self, level: f64) -> bool {
        self.more.p_value <= level
    }

    /// Whether the old one is.
    pub(super) fn less(&self, level: f64) -> bool {
        self.less.p_value <= level
    }

    /// The fewest canaries that have to cross one line for the test to say anything at this level.
    fn needed(&self, level: f64) -> u64 {
        (1..64)
            .find(|&count| sign_test(count, 0) * self.lines as f64 <= level)
            .unwrap_or(64)
    }

    /// The test in words, of the direction that it says more about; and that it could not have said
    /// anything, where that is so.
    pub(super) fn how(&self, level: f64) -> String {
        let fell = self.less.p_value < self.more.p_value;
        let shift = if fell { &self.less } else { &self.more };
        let (crossed, back) = if fell {
            ("fell below", "came above it")
        } else {
            ("came above", "fell below it")
        };
        let needed = self.needed(level);
        let weak = if self.canaries < needed {
            format!(
                "; it cannot say more: {needed} canaries would have to cross one line, and there are {}",
                self.canaries
            )
        } else if self.largest_dose < needed {
            format!(
                "; {needed} canaries have to cross one line, and at most {} have one number of copies",
                self.largest_dose
            )
        } else {
            String::new()
        };
        format!(
            "McNemar's test: {} {crossed} {} bits, {} {back}, p = {} over all lines{weak}",
            shift.crossed,
            shortest(shift.line),
            shift.back,
            nearest(shift.p_value, 2)
        )
    }
}

/// Each model against chance alone: maximum, mean, and the mean of each number of copies, at
/// Bonferroni's price.
///
/// This says that a model leaks, not by how much more than another: the old one may leak as much
/// and have been missed.
pub(super) struct AgainstChance {
    /// p of both models.
    pub(super) p_values: (f64, f64),
    tests: usize,
}

impl AgainstChance {
    /// Of two documents; nothing where one says nothing about chance.
    pub(super) fn of(old: &Value, new: &Value) -> Option<Self> {
        let (before, after) = (p_values(old)?, p_values(new)?);
        let all = |p_values: &[f64]| {
            let least = p_values.iter().copied().fold(1.0, f64::min);
            (least * p_values.len() as f64).min(1.0)
        };
        Some(Self {
            p_values: (all(&before), all(&after)),
            tests: after.len(),
        })
    }

    /// Whether the new model rejects "no leak" at this level and the old one does not.
    pub(super) fn appeared(&self, level: f64) -> bool {
        self.p_values.1 <= level && self.p_values.0 > level
    }

    pub(super) fn how(&self) -> String {
        format!(
            "each model against chance, over {} tests; the old one may leak unseen",
            self.tests
        )
    }
}

/// p of maximum and mean, and of the mean of each dose.
fn p_values(document: &Value) -> Option<Vec<f64>> {
    let summary = &document["summary"];
    let mut all = vec![summary["p_max"].as_f64()?, summary["p_mean"].as_f64()?];
    let doses = document["doses"].as_array();
    for dose in doses.into_iter().flatten() {
        all.push(dose["summary"]["p_mean"].as_f64()?);
    }
    // what is no probability rejects nothing
    Some(
        all.into_iter()
            .map(|p| if (0.0..=1.0).contains(&p) { p } else { 1.0 })
            .collect(),
    )
}

/// The most canaries that have one number of copies.
fn largest_dose(document: &Value) -> u64 {
    let mut by_copies: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    for canary in document["canaries"].as_array().into_iter().flatten() {
        *by_copies.entry(canary["copies"].as_u64()).or_default() += 1;
    }
    by_copies.into_values().max().unwrap_or(0)
}

fn by_id(document: &Value) -> BTreeMap<String, Ends> {
    let canaries = document["canaries"].as_array();
    canaries
        .into_iter()
        .flatten()
        .filter_map(|c| {
            let id = c["id"].as_str()?.to_owned();
            let low = c["exposure"]["min"].as_f64()?;
            Some((id, (low, c["exposure"]["max"].as_f64().unwrap_or(low))))
        })
        .collect()
}

/// The line with the smallest p-value. Ties count for the first model and against the second.
fn crossed(pairs: &[(Ends, Ends)], lines: &[f64]) -> Crossed {
    let at = |line: f64| {
        let sides = || {
            pairs
                .iter()
                .map(move |(first, second)| (first.1 >= line, second.0 >= line))
        };
        let crossed = sides().filter(|(first, second)| !first && *second).count() as u64;
        let back = sides().filter(|(first, second)| *first && !second).count() as u64;
        Crossed {
            line,
            crossed,
            back,
            p_value: (sign_test(crossed, back) * lines.len() as f64).min(1.0),
        }
    };
    let all = lines.iter().map(|line| at(*line));
    all.min_by(|a, b| a.p_value.total_cmp(&b.p_value))
        .unwrap_or(Crossed {
            line: LINES[0],
            crossed: 0,
            back: 0,
            p_value: 1.0,
        })
}
