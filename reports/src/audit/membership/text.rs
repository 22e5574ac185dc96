//! The membership report as text.

use super::{MembershipReport, Signal};
use crate::contract::{Align, Inputs, Table};
use crate::number::{grouped, shortest};
use reticent_accounting::{Bounds, Probability};
use reticent_attacks::{AccuracyRule, Area, AreaMethod};

pub(super) fn text(report: &MembershipReport, inputs: &Inputs) -> String {
    let mut out = format!(
        "{} members, {} non-members",
        grouped(report.members as u64),
        grouped(report.non_members as u64)
    );
    if let Some(groups) = report.groups {
        out.push_str(&format!(
            " in {} groups; rates and accuracy take one record of each",
            grouped(groups as u64)
        ));
    }
    out.push_str("\n\n");
    out.push_str(&table(report).to_text());
    out.push('\n');
    out.push_str(says(report));
    out.push('\n');
    out.push_str(&format!(
        "Each interval holds with probability {}. A member is recognised by a score above a threshold; {}.\n",
        shortest(report.confidence.get()),
        origin(report)
    ));
    if let Some(line) = inputs.assumed_line() {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn table(report: &MembershipReport) -> Table {
    let mut table = Table::new([
        ("measure", Align::Left),
        ("measured", Align::Right),
        ("interval", Align::Right),
        ("how", Align::Left),
    ]);
    area(&mut table, "AUC", &report.area);
    for point in &report.at_fpr {
        let name = format!("TPR at FPR {}", percent(point.fpr));
        match &point.found {
            Some(found) => table.row([
                name,
                shown(found.tpr.estimate),
                interval(&found.tpr.bounds),
                format!("{} false positives allowed", grouped(found.allowed)),
            ]),
            None => table.row([
                name,
                "-".to_owned(),
                "-".to_owned(),
                format!(
                    "this sample can't certify it: {} non-members needed",
                    grouped(point.non_members_needed)
                ),
            ]),
        };
    }
    if let Some(accuracy) = &report.accuracy {
        table.row([
            "accuracy".to_owned(),
            shown(accuracy.estimate),
            interval(&accuracy.bounds),
            format!(
                "{} + {} records",
                grouped(accuracy.members),
                grouped(accuracy.non_members)
            ),
        ]);
    }
    if let Some(blind) = &report.blind {
        area(&mut table, "AUC without the model", &blind.area);
    }
    table
}

fn area(table: &mut Table, name: &str, area: &Area) {
    let how = match area.method {
        AreaMethod::Delong => "DeLong",
        AreaMethod::DisjointPairs => "disjoint pairs, exact",
        AreaMethod::ClusterBootstrap => "bootstrap over groups",
    };
    table.row([
        name.to_owned(),
        shown(area.estimate),
        interval(&area.bounds),
        how.to_owned(),
    ]);
}

/// Three decimals, the ends of an interval rounded outwards.
fn shown(value: f64) -> String {
    format!("{value:.3}")
}

fn interval(bounds: &Bounds<Probability>) -> String {
    let lower = bounds.lower.map_or(0.0, |l| l.get().get());
    let upper = bounds.upper.map_or(1.0, |u| u.get().get());
    let (low, high) = ((lower * 1e3).floor() / 1e3, (upper * 1e3).ceil() / 1e3);
    format!("{low:.3} to {high:.3}")
}

fn percent(rate: f64) -> String {
    format!("{} %", shortest((rate * 1e14).round() / 1e12))
}

const fn says(report: &MembershipReport) -> &'static str {
    match report.says {
        Signal::Leak => "The scores tell members from non-members better than chance explains.",
        Signal::ShiftedSplit => {
            "The scores tell the two sets apart, but so do the texts without the model: the sets differ in themselves, and this proves no membership."
        }
        Signal::Reversed => {
            "Members score lower than non-members. Scores must rise with membership: losses and perplexities need --lower-is-member."
        }
        Signal::Unseen => {
            "No sign of membership beyond chance in these scores. Another attack, or more records, may show one."
        }
    }
}

fn origin(report: &MembershipReport) -> &'static str {
    match report.accuracy.map(|a| a.rule) {
        Some(AccuracyRule::Fixed(_)) => {
            "the accuracy's threshold was given, those of the rates are non-members' scores by rank"
        }
        _ => {
            "the accuracy's threshold comes from the other half, those of the rates are non-members' scores by rank"
        }
    }
}
