//! Tables and sentences of the membership report.

use super::{AttackRow, Attacks, GroupedArea, MembershipReport, Signal};
use crate::audit::ends;
use crate::contract::{Align, Rows, Table, dash, judges, not_known};
use crate::number::{count_of, grouped, nearest, rounded_down, shortest};
use crate::page::{Mood, Reach};
use reticent_accounting::{Bounds, Confidence, Probability};
use reticent_attacks::membership::{
    AccuracyRule, Area, AreaMethod, Attack, BlindBaseline, BlindFeatures, GroupRule, Need,
    OperatingPoint,
};

/// Returns a table with one row for each attack.
pub(super) fn attack_table(report: &MembershipReport, attacks: &Attacks) -> Table {
    let mut table = Table::of(&attacks.rows).left("attack", |row| &row.attack);
    table = measured(table, "AUC", |row| {
        Some((row.area.estimate, row.area.bounds))
    });
    for (at, point) in report.at_fpr.iter().enumerate() {
        // What the sample can't certify is stated once, below.
        if point.found.is_some() {
            table = measured(table, at_rate(point), |row| {
                let found = row.at_fpr.get(at)?.found?;
                Some((found.tpr.estimate, found.tpr.bounds))
            });
        }
    }
    let accuracy = |row: &AttackRow| row.accuracy.map(|of| (of.estimate, of.bounds));
    let mut table: Table = measured(table, "accuracy", accuracy).into();
    if let Some(blind) = &report.blind {
        table.row([
            without_model(blind),
            shown(blind.area.estimate),
            interval(&blind.area.bounds),
        ]);
    }
    table
}

/// Adds a quantity: its estimate, and its interval.
fn measured<T: Copy>(
    table: Rows<T>,
    name: impl Into<String>,
    of: impl Fn(T) -> Option<(f64, Bounds<Probability>)>,
) -> Rows<T> {
    table
        .right(name, |row| {
            of(row).map_or_else(dash, |(estimate, _)| shown(estimate))
        })
        .right("interval", |row| {
            of(row).map_or_else(dash, |(_, bounds)| interval(&bounds))
        })
}

fn at_rate(point: &OperatingPoint) -> String {
    format!("TPR at FPR {}", percent(point.fpr))
}

/// Describes how several attacks share one false-alarm rate.
pub(super) fn shared(attacks: &Attacks, confidence: Confidence) -> Option<String> {
    let count = attacks.rows.len() as u64;
    let each = (1.0 - confidence.get()) / count as f64;
    (count > 1).then(|| {
        format!(
            "Each of the {count} attacks is tested at a false-alarm rate of {}, which bounds the overall rate by {}. The intervals in the tables hold one by one, each with probability {}.",
            nearest(each, 2),
            nearest(1.0 - confidence.get(), 2),
            shortest(confidence.get())
        )
    })
}

/// Describes the row of the combined attacks.
pub(super) fn combined(attacks: &Attacks) -> Option<String> {
    let row = attacks.rows.iter().find(|row| row.fitted.is_some())?;
    Some(format!(
        "{}: a linear discriminant of the other attacks, fitted to {} of the records and judged on the rest.",
        row.attack,
        grouped(row.fitted? as u64)
    ))
}

/// Returns a table with one row for each attack and rule.
pub(super) fn group_table(attacks: &Attacks) -> Table {
    let size = attacks.group_size.unwrap_or(1);
    let rows = attacks.rows.iter();
    let table = Table::of(rows.flat_map(|row| row.grouped.iter().map(move |groups| (row, groups))))
        .left(format!("groups of {size}"), |(row, _)| &row.attack)
        .left("score of a group", |(row, groups)| match groups.rule {
            GroupRule::SumOfScores if row.attack == "loss" => "sum of log-likelihoods",
            GroupRule::SumOfScores => "sum of scores",
            GroupRule::SumOfPerplexities => "sum of perplexities (CRT)",
        });
    let area = |(_, groups): (_, &GroupedArea)| Some((groups.area.estimate, groups.area.bounds));
    measured(table, "AUC", area)
        .left("how", |(_, groups)| method(groups.area.method))
        .into()
}

/// Returns the attacks on which the headline rests besides the deciding one: the one that shows the signal best, and the one
/// that is above the limit.
fn behind(report: &MembershipReport, limit: Option<f64>) -> impl Iterator<Item = &AttackRow> {
    let above = limit.and_then(|limit| report.above(limit));
    let attacks = report.attacks.iter();
    let others = attacks.flat_map(|all| {
        let rows = all.rows.iter();
        rows.filter(move |row| row.attack != all.decides)
    });
    others.filter(move |row| {
        let exceeds = above == Some(format!(" of {}", row.attack));
        exceeds || row.attack == report.shown_by.0
    })
}

/// Returns a table with one row for each measure; `full` adds what papers print.
pub(super) fn table(report: &MembershipReport, full: bool, limit: Option<f64>) -> Table {
    let mut table = Table::new([
        ("measure", Align::Left),
        ("measured", Align::Right),
        ("interval", Align::Right),
        ("how", Align::Left),
    ]);
    let attack = report.attacks.as_ref().map(|attacks| &attacks.decides);
    let auc = attack.map_or_else(|| "AUC".to_owned(), |attack| format!("AUC of {attack}"));
    area(&mut table, &auc, &report.area);
    // What the headline rests on comes first: a short text may have no room for the rest.
    for row in behind(report, limit) {
        area(&mut table, &format!("AUC of {}", row.attack), &row.area);
    }
    if let Some(blind) = &report.blind {
        area(
            &mut table,
            &format!("AUC, {}", without_model(blind)),
            &blind.area,
        );
    }
    for point in &report.at_fpr {
        let name = at_rate(point);
        match &point.found {
            Some(found) => table.row([
                name,
                shown(found.tpr.estimate),
                interval(&found.tpr.bounds),
                format!("{} false positives allowed", grouped(found.allowed)),
            ]),
            None => table.row([
                name,
                dash(),
                dash(),
                format!(
                    "not certified: {} non-members needed",
                    grouped(point.non_members_needed)
                ),
            ]),
        };
        if full {
            table.row([
                format!("the same, plug-in {}", percent(point.fpr)),
                shown(*point.plug_in.get()),
                dash(),
                "as papers print it: no certificate".to_owned(),
            ]);
        }
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
    table
}

/// Names what distinguishes the two sets without the model.
pub(super) fn without_model(blind: &BlindBaseline) -> String {
    let by = match blind.by {
        BlindFeatures::Content => "",
        BlindFeatures::Form => ", by form",
        BlindFeatures::Length => ", by length",
        BlindFeatures::Class => ", by class",
    };
    format!("blind baseline{by}")
}

fn area(table: &mut Table, name: &str, area: &Area) {
    table.row([
        name.to_owned(),
        shown(area.estimate),
        interval(&area.bounds),
        method(area.method).to_owned(),
    ]);
}

const fn method(method: AreaMethod) -> &'static str {
    match method {
        AreaMethod::Delong => "DeLong",
        AreaMethod::DisjointPairs => "disjoint pairs, exact",
        AreaMethod::ClusterBootstrap => "bootstrap",
    }
}

/// Returns a table with one row for each number of copies.
pub(super) fn copy_table(report: &MembershipReport) -> Table {
    let table = Table::of(&report.copies)
        .left("copies", |stratum| {
            crate::audit::copies(stratum.from, stratum.to)
        })
        .right("members", |stratum| grouped(stratum.members));
    let table = measured(table, "AUC", |stratum| {
        Some((stratum.area.estimate, stratum.area.bounds))
    });
    let points = report.at_fpr.iter().enumerate();
    let table = points.fold(table, |table, (at, point)| {
        table
            .right(at_rate(point), |stratum| match &stratum.at_fpr[at].found {
                Some(found) => shown(found.tpr.estimate),
                None => format!("{} plug-in", shown(*stratum.at_fpr[at].plug_in.get())),
            })
            .right("interval", |stratum| {
                let found = &stratum.at_fpr[at].found;
                found
                    .as_ref()
                    .map_or_else(dash, |found| interval(&found.tpr.bounds))
            })
    });
    table.into()
}

/// Formats a number with three decimals.
fn shown(value: f64) -> String {
    format!("{value:.3}")
}

/// Formats an interval with three decimals, the lower end rounded down and the upper end rounded up.
pub(super) fn interval(bounds: &Bounds<Probability>) -> String {
    let (lower, upper) = crate::audit::ends(bounds);
    let (low, high) = ((lower * 1e3).floor() / 1e3, (upper * 1e3).ceil() / 1e3);
    format!("{low:.3} to {high:.3}")
}

pub(super) fn percent(rate: f64) -> String {
    format!("{} %", shortest((rate * 1e14).round() / 1e12))
}

impl MembershipReport {
    /// Returns whether this many records could have exceeded the limit or, without a limit, shown a leak. An area that
    /// is certainly below the limit, in both orientations of the scores, keeps the limit.
    pub(super) fn could_show(&self, limit: Option<f64>) -> bool {
        match limit {
            Some(limit) => self.passable_area > limit || self.surely_below(limit),
            None => self.provable_area > 0.5,
        }
    }

    /// Returns whether the area is certainly below the limit in both orientations of the scores. If members score lower,
    /// this is asked of every attack that is not fitted: of exchanged sets, any of them may exceed the limit.
    fn surely_below(&self, limit: f64) -> bool {
        let below = |area: &Area| {
            let (lower, upper) = ends(&area.bounds);
            upper.max(1.0 - lower) <= limit
        };
        let rows = self.attacks.iter().flat_map(|attacks| &attacks.rows);
        let mut others = rows.filter(|row| row.fitted.is_none());
        match self.signal {
            Signal::Alike => false,
            Signal::Reversed => below(&self.area) && others.all(|row| below(&row.area)),
            _ => below(&self.area),
        }
    }

    /// Returns whether every attack compares the model with a reference that is nearly the same model. Their scores say
    /// nothing of what the model remembers, wherever their areas lie.
    fn compares_with_copy(&self) -> bool {
        let compares = |row: &AttackRow| {
            let attack = Attack::named(&row.attack);
            attack.is_some_and(|attack| attack.needs == Need::Reference)
        };
        self.attacks.as_ref().is_some_and(|attacks| {
            // What is fitted to the other attacks reads no more than they do.
            let mut rows = attacks.rows.iter().filter(|row| row.fitted.is_none());
            attacks.reference.is_some_and(|apart| apart.near_copy) && rows.all(compares)
        })
    }

    /// Returns why these scores don't decide whether the AUC exceeds the limit. An interval that contains the limit is
    /// decided, since the question is whether the AUC certainly exceeds it. So is one below the limit in both
    /// orientations of the scores.
    pub(in crate::audit) fn undecided(&self, limit: Option<f64>) -> Option<String> {
        let limit = limit.filter(|limit| judges(*limit))?;
        let why = match self.signal {
            Signal::Alike => "all scores are equal, and distinguish no record from another".to_owned(),
            _ if self.compares_with_copy() => {
                "every attack compares the model with a reference that is nearly the same model"
                    .to_owned()
            }
            _ if self.surely_below(limit) => return None,
            Signal::Reversed if self.attacks.is_some() => {
                "the model likes members less than non-members".to_owned()
            }
            Signal::Reversed => {
                "members score lower than non-members: losses and perplexities need --lower-is-member"
                    .to_owned()
            }
            _ if !self.could_show(Some(limit)) => format!(
                "scores that separate all of {} from all of {} would show at least {}; give more records, or a limit below that",
                count_of(self.members as u64, "member"),
                count_of(self.non_members as u64, "non-member"),
                rounded_down(self.passable_area, 3)
            ),
            _ => return None,
        };
        Some(not_known("--max-auc", "the AUC", &shortest(limit), &why))
    }

    /// Returns the mood if no limit is exceeded. Nothing is concluded if the sets differ in themselves, if all scores
    /// are equal or have the opposite sign, or if nothing was seen although the reference is nearly the same model or
    /// so few records could not have shown anything.
    pub(super) fn otherwise(&self, limit: Option<f64>) -> Mood {
        let reference = self.attacks.as_ref().and_then(|a| a.reference);
        let limit = limit.filter(|limit| judges(*limit));
        match self.signal {
            Signal::ShiftedSplit | Signal::Reversed | Signal::Alike => Mood::Open,
            Signal::Leak | Signal::Unseen => Mood::of_leak(
                self.signal == Signal::Leak,
                Reach {
                    leak: self.could_show(None),
                    promise: None,
                    limit: limit.map(|_| self.could_show(limit) && !self.compares_with_copy()),
                },
                reference.is_some_and(|apart| apart.near_copy),
            ),
        }
    }
}

/// What is said of records that no scores could distinguish with this confidence.
pub(super) const TOO_FEW: &str = "So few records can show no membership, whatever their scores";

/// Describes a signal of the wrong sign, and names the attack that shows it.
pub(super) fn reversed(report: &MembershipReport) -> String {
    let mut said = "members score lower than non-members".to_owned();
    if report.attacks.is_some() {
        said.push_str(&format!(" in the attack {}", report.shown_by.0));
    }
    said
}

/// Describes the result in a sentence.
pub(super) fn says(report: &MembershipReport) -> String {
    let (subject, again) = match &report.attacks {
        Some(attacks) if attacks.rows.len() > 1 => (
            format!("The {} attacks together", attacks.rows.len()),
            "in these attacks",
        ),
        Some(_) => ("The attack".to_owned(), "in this attack"),
        None => ("The scores".to_owned(), "in these scores"),
    };
    let s = if subject.ends_with('k') { "es" } else { "" };
    let reference = report.attacks.as_ref().and_then(|a| a.reference);
    let warning = reference.and_then(|apart| apart.warning("The reference"));
    let said = match report.signal {
        Signal::Leak if report.is_shifted() => format!(
            "{subject} distinguish{s} members from non-members better than the texts do without the model, but these distinguish the two sets, too: the sets differ in themselves."
        ),
        Signal::Leak => {
            format!("{subject} distinguish{s} members from non-members better than chance explains.")
        }
        Signal::ShiftedSplit => format!(
            "{subject} distinguish{s} the two sets, but so do the texts without the model: the sets differ in themselves, and this proves no membership."
        ),
        Signal::Reversed if report.attacks.is_some() => format!(
            "Nothing can be concluded: {}, which distinguishes them too. Were the two sets exchanged, or was the text unlearned?",
            reversed(report)
        ),
        Signal::Reversed => "Members score lower than non-members. Scores must rise with membership: losses and perplexities need --lower-is-member.".to_owned(),
        Signal::Alike => {
            "Nothing can be concluded: all scores are equal, and distinguish no record from another.".to_owned()
        }
        Signal::Unseen if !report.could_show(None) => {
            format!("{TOO_FEW}: more of them are needed.")
        }
        Signal::Unseen => format!(
            "No sign of membership beyond chance {again}. Another attack, or more records, may show one."
        ),
    };
    said + &warning.unwrap_or_default()
}

/// Describes the origin of the thresholds.
pub(super) fn origin(report: &MembershipReport) -> &'static str {
    match report.accuracy.map(|a| a.rule) {
        Some(AccuracyRule::Fixed(_)) => {
            "the accuracy's threshold was given, those of the rates are non-members' scores by rank"
        }
        _ => {
            "the accuracy's threshold comes from the other half, those of the rates are non-members' scores by rank"
        }
    }
}
