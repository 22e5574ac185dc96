//! The ROC curve on logarithmic axes.

use super::MembershipReport;
use crate::number::{nearest, shortest};
use crate::plot::{Axis, Layer, Plot, Tone};

/// The curve, its band, and chance.
pub(super) fn roc(report: &MembershipReport) -> anyhow::Result<Plot> {
    let left = report.band.first().map_or(1e-3, |p| p.fpr);
    let foot = (0.5 / report.members.max(1) as f64).min(left);
    let floor = |p: f64| p.max(foot);
    let confidence = shortest((report.confidence.get() * 1e4).round() / 1e2);
    let chance = |x: f64| (x, x);
    let plot = Plot::new(
        "Members recognised at few false alarms",
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
        tone: Tone::First,
    })
    .layer(Layer::Line {
        name: "chance".into(),
        points: vec![chance(left.max(foot)), chance(1.0)],
        tone: Tone::Muted,
        dashed: true,
    })
    .layer(Layer::Steps {
        name: "this sample".into(),
        points: report
            .roc
            .iter()
            .map(|p| (p.fpr.max(left), floor(p.tpr)))
            .collect(),
        tone: Tone::First,
    })
    .described(format!(
        "ROC curve of {} members and {} non-members; area {}.",
        report.members,
        report.non_members,
        nearest(report.area.estimate, 3)
    ));
    Ok(plot)
}
