//! Tables and plots shared by the exposure report and the demo.

use crate::contract::Table;
use crate::number::{grouped, nearest, rounded_down, rounded_up};
use crate::plot::{Axis, Layer, Plot, Shape, Tone};
use reticent_attacks::Draw;
use reticent_attacks::exposure::{
    CanaryFinding, ExposureFinding, ExposureNull, ExposureSummary, Statistic,
};
use reticent_corpus::canary::CanaryPlan;
use std::collections::BTreeMap;

/// The text shown for a secret unless `--show-secrets` is given.
pub const MASKED_SECRET: &str = "••••••";

/// Returns the secrets of a plan by canary.
pub(in crate::audit) fn secrets(plan: &CanaryPlan) -> BTreeMap<String, String> {
    let canaries = plan.canaries.iter();
    canaries.map(|c| (c.id.clone(), c.secret.clone())).collect()
}

/// Returns a secret, or the dots in its place.
pub(in crate::audit) fn or_masked(secret: Option<&String>) -> &str {
    secret.map_or(MASKED_SECRET, String::as_str)
}

/// Formats `1`, or `1 to 7` if ties or a spent budget leave the rank open.
pub(super) fn range(low: u64, high: u64) -> String {
    if low == high {
        grouped(low)
    } else {
        format!("{} to {}", grouped(low), grouped(high))
    }
}

/// Returns why exposures are ranges, of which a low lower end says nothing.
pub(super) fn left_open(finding: &ExposureFinding) -> Option<&'static str> {
    if finding.canaries.iter().any(|canary| canary.unresolved > 0) {
        return Some("the search was cut off before every rank was found");
    }
    // A few ties that don't change the conclusion are ignored.
    let summary = &finding.summary;
    let matters = |of: &Statistic| of.lower() <= of.null_95() && of.upper() > of.null_95();
    [summary.max(), summary.mean()]
        .into_iter()
        .any(matters)
        .then_some("too many candidates are as likely as the canaries")
}

/// Formats a statistic to `decimals` decimals, with both ends if ranks were left open.
pub(super) fn measured(
    finding: &ExposureFinding,
    statistic: &Statistic,
    decimals: usize,
) -> String {
    let (low, high) = (statistic.lower(), statistic.upper());
    if left_open(finding).is_some() {
        // Rounded outwards, so that the true value lies between the numbers shown.
        format!(
            "between {} and {} bits",
            rounded_down(low, 4),
            rounded_up(high, 4)
        )
    } else {
        format!("{low:.decimals$} bits")
    }
}

/// Returns whether both ends are the same to two decimals.
fn is_known(low: f64, high: f64) -> bool {
    high - low < 0.005
}

/// Formats two decimals, of both ends if they differ.
fn bits(low: f64, high: f64) -> String {
    if is_known(low, high) {
        format!("{low:.2}")
    } else {
        format!("{low:.2} to {high:.2}")
    }
}

/// Formats a statistic as [`bits`] does.
pub(super) fn both_ends(of: &Statistic) -> String {
    bits(of.lower(), of.upper())
}

/// Draws a statistic along x: as a line, or as a dashed one for each end if ranks were left open somewhere.
pub(super) fn along(plot: Plot, name: &str, at: &[(f64, &Statistic)], tone: Tone) -> Plot {
    let line = |name: String, of: fn(&Statistic) -> f64, dashed| Layer::Line {
        name,
        points: at.iter().map(|(x, own)| (*x, of(own))).collect(),
        tone,
        dashed,
    };
    if at.iter().all(|(_, of)| is_known(of.lower(), of.upper())) {
        return plot.layer(line(name.to_owned(), Statistic::lower, false));
    }
    plot.layer(line(format!("{name}, at least"), Statistic::lower, true))
        .layer(line(format!("{name}, at most"), Statistic::upper, true))
}

/// Returns a table with one row for each canary.
pub(super) fn canary_table(
    finding: &ExposureFinding,
    secrets: Option<&BTreeMap<String, String>>,
) -> Table {
    Table::of(&finding.canaries)
        .left("canary", |canary| &canary.id)
        .right("copies", |canary| canary.copies.to_string())
        .right("rank", |canary| range(canary.rank.min, canary.rank.max))
        .right("exposure (bits)", |canary| {
            bits(canary.exposure.min, canary.exposure.max)
        })
        .right("p", |canary| nearest(canary.p_value, 2))
        .right("NLL (nats)", |canary| nearest(canary.nll, 4))
        .left("secret", |canary| {
            or_masked(secrets.and_then(|all| all.get(&canary.id)))
        })
        .into()
}

/// Returns maximum and mean, each beside its null, as the short text shows them.
pub(super) fn in_brief(summary: &ExposureSummary) -> [(&'static str, String); 2] {
    let line = |of: &Statistic| {
        format!(
            "{} bits; without a leak {:.2} on average, 95 % below {:.2}; p {}",
            both_ends(of),
            of.null_mean(),
            of.null_95(),
            nearest(of.p_value(), 2)
        )
    };
    [
        ("maximum", line(summary.max())),
        ("mean", line(summary.mean())),
    ]
}

/// Returns a table of maximum, mean and median, each compared with its null.
#[must_use]
pub fn summary_table(summary: &ExposureSummary) -> Table {
    let statistics = [
        ("maximum", summary.max()),
        ("mean", summary.mean()),
        ("median", summary.median()),
    ];
    Table::of(statistics)
        .left("of all canaries", |(name, _)| name)
        .right("exposure (bits)", |(_, of)| both_ends(of))
        .right("without a leak: mean", |(_, of)| {
            format!("{:.2}", of.null_mean())
        })
        .right("95 % below", |(_, of)| format!("{:.2}", of.null_95()))
        .right("p", |(_, of)| nearest(of.p_value(), 2))
        .into()
}

/// A column of an exposure plot: the label below it and the finding shown in it.
pub type Column<'a> = (&'a str, &'a ExposureFinding);

/// Draws every canary's exposure (with ties counted against it), a column for each finding, over the null of one
/// canary and of the maximum.
///
/// The nulls are those of the first column; the columns of one plot must have the same candidates and the same
/// number of canaries.
///
/// # Errors
/// Returns an error if there is no column, or a finding without a canary.
pub fn exposure_plot(title: &str, columns: &[Column<'_>]) -> anyhow::Result<Plot> {
    let (_, first) = columns
        .first()
        .ok_or_else(|| anyhow::anyhow!("an exposure plot needs at least one finding"))?;
    let count = first.canaries.len() as u64;
    let one = ExposureNull::new(first.candidates, 1, Draw::Independent)?;
    let all = ExposureNull::new(first.candidates, count, first.draw)?;
    let top = (first.candidates as f64).log2();
    let names = columns.iter().map(|(name, _)| *name);
    let plot = Plot::new(
        title,
        Axis::categories("", names),
        Axis::linear("exposure (bits)").between(0.0, top * 1.03),
    )
    .layer(Layer::Ribbon {
        name: "95 % of canaries never trained on lie here".into(),
        points: [-0.5, columns.len() as f64 - 0.5]
            .map(|x| (x, 0.0, one.order_percentile(1, 0.95)))
            .to_vec(),
        tone: Tone::Third,
    })
    .layer(Layer::rule(
        format!("95 % of the maxima of {count} such canaries lie below"),
        all.order_percentile(1, 0.95),
        Tone::Third,
    ))
    .described(in_words(columns));
    Ok(with_canaries(
        plot,
        columns.iter().enumerate().flat_map(spread),
    ))
}

/// Draws canaries at their positions: a disc each, and a line over the possible values if the search for its rank
/// was cut off.
pub(super) fn with_canaries<'a>(
    plot: Plot,
    canaries: impl Iterator<Item = (f64, &'a CanaryFinding)>,
) -> Plot {
    let (open, found): (Vec<_>, Vec<_>) = canaries.partition(|(_, canary)| canary.unresolved > 0);
    let lines = open.iter().enumerate().map(|(i, (x, canary))| {
        // The legend has a single entry for them.
        let first = "a canary whose rank was not found";
        let ends = [(*x, canary.exposure.min), (*x, canary.exposure.max)];
        Layer::dashes(if i == 0 { first } else { "" }, ends, Tone::MEASURED)
    });
    let plot = lines.fold(plot, Plot::layer);
    if found.is_empty() {
        return plot;
    }
    let found = found.iter().map(|(x, canary)| (*x, canary.exposure.min));
    plot.layer(Layer::marks("a canary", found, Tone::MEASURED, Shape::Disc))
}

/// Places the canaries of a column next to each other, so that equal exposures don't hide each other.
fn spread<'a>((index, (_, finding)): (usize, &Column<'a>)) -> Vec<(f64, &'a CanaryFinding)> {
    let canaries = &finding.canaries;
    let step = 0.6 / canaries.len().max(1) as f64;
    canaries
        .iter()
        .enumerate()
        .map(|(i, canary)| {
            let x = index as f64 - 0.3 + step * (i as f64 + 0.5);
            (x, canary)
        })
        .collect()
}

fn in_words(columns: &[Column<'_>]) -> String {
    let each = columns.iter().map(|(name, finding)| {
        format!(
            "{name}: largest {}, mean {}",
            measured(finding, finding.summary.max(), 1),
            measured(finding, finding.summary.mean(), 1)
        )
    });
    format!(
        "Exposure of each canary. {}.",
        each.collect::<Vec<_>>().join("; ")
    )
}
