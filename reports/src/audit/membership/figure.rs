//! The ROC curve on logarithmic axes, and the attacks compared.

use super::tables::without_model;
use super::{Attacks, MembershipReport};
use crate::number::{nearest, shortest};
use crate::plot::{Axis, Layer, Measured, Plot, Tone};

/// Draws the curve with its band and chance level.
pub(super) fn roc(report: &MembershipReport) -> anyhow::Result<Plot> {
    let left = report.band.first().map_or(1e-3, |p| p.fpr);
    let foot = (0.5 / report.members.max(1) as f64).min(left);
    let floor = |p: f64| p.max(foot);
    let confidence = shortest((report.confidence.get() * 1e4).round() / 1e2);
    let chance = |x: f64| (x, x);
    let found = report.roc.iter();
    let found: Vec<_> = found.map(|p| (p.fpr.max(left), floor(p.tpr))).collect();
    let plot = Plot::new(
        "ROC curve at low false-positive rates",
        Axis::log("false-positive rate").between(left, 1.0),
        Axis::log("true-positive rate").between(foot, 1.0),
    )
    .layer(Layer::Ribbon {
        name: format!("{confidence} % interval at each rate"),
        points: report
            .band
            .iter()
            .map(|p| (p.fpr, floor(p.lower), floor(p.upper)))
            .chain([(1.0, 1.0, 1.0)])
            .collect(),
        tone: Tone::MEASURED,
    })
    .layer(Layer::dashes(
        "chance",
        [chance(left.max(foot)), chance(1.0)],
        Tone::Muted,
    ))
    .layer(Layer::steps("this sample", &found, Tone::MEASURED))
    .described(format!(
        "ROC curve of {} members and {} non-members; area {}.",
        report.members,
        report.non_members,
        nearest(report.area.estimate, 3)
    ));
    Ok(plot)
}

/// Draws the interval of every attack's AUC, one row each.
pub(super) fn areas(report: &MembershipReport, attacks: &Attacks) -> Plot {
    let mut rows: Vec<(String, &reticent_attacks::membership::Area)> = attacks
        .rows
        .iter()
        .map(|r| (r.attack.clone(), &r.area))
        .collect();
    if let Some(blind) = &report.blind {
        rows.push((without_model(blind), &blind.area));
    }
    let measured: Vec<Measured> = rows
        .iter()
        .map(|(_, area)| Measured {
            estimate: area.estimate,
            lower: area.bounds.lower.map(|l| l.get().get()),
            upper: area.bounds.upper.map(|u| u.get().get()),
        })
        .collect();
    let low = measured
        .iter()
        .filter_map(|row| row.lower)
        .fold(0.5, f64::min);
    Plot::of_rows(
        "How well each attack distinguishes members from non-members",
        Axis::linear("area under the ROC curve").between((low * 20.0).floor() / 20.0, 1.0),
        ("", rows.iter().map(|(name, _)| name)),
        (110, 34),
    )
    .layer(Layer::dashes(
        "chance",
        [(0.5, -0.5), (0.5, rows.len() as f64 - 0.5)],
        Tone::Muted,
    ))
    .measured(&measured)
    .described(
        rows.iter()
            .map(|(name, area)| format!("{name}: {}", nearest(area.estimate, 3)))
            .collect::<Vec<_>>()
            .join("; "),
    )
}
