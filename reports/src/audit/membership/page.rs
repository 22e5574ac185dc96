//! The membership report as a page.

use super::tables::{
    TOO_FEW, attack_table, combined, copy_table, group_table, interval, origin, percent, reversed,
    says, shared, table,
};
use super::{HeatLine, MembershipReport, Signal, figure};
use crate::audit::args::MembershipArgs;
use crate::audit::percents;
use crate::audit::unknown::Characters;
use crate::contract::{Exit, Inputs, kept};
use crate::number::{capital, count_of, grouped, nearest, rounded_down, shortest};
use crate::page::{Mood, Page, Section, Shade};
use anyhow::Result;
use reticent_attacks::membership::{BlindFeatures, Repeats};

/// The gain, in nats, that has the full shade.
const FULL: f64 = 4.0;

/// What these numbers do not say.
const CAVEATS: [&str; 4] = [
    "No sign of membership means that these attacks saw none on these records. Stronger attacks, shadow models, or records that stand out more may see one.",
    "Members and non-members must come from one source and time. If the texts alone distinguish them, so may any attack, without any leak.",
    "An AUC says how an attack does on average over records. What it says of the most exposed record is the true-positive rate at few false alarms.",
    "Membership of a record is not the extraction of its content: audit exposure and audit extract ask for that.",
];

pub(super) fn page(
    report: &MembershipReport,
    args: &MembershipArgs,
    exit: Exit,
    heat: &[HeatLine],
    inputs: &Inputs,
) -> Result<Page> {
    let files = args.scores.as_ref().or(args.members.as_ref());
    let subject = match args.on.of.source() {
        Ok(_) => args.on.of.name(),
        Err(_) => files.map_or_else(|| "scores".to_owned(), |p| p.display().to_string()),
    };
    let mut page = Page::new(
        format!("Membership: {subject}"),
        summary(report, args, exit),
    )
    .mood(Mood::of(exit, report.otherwise(args.max_auc)))
    .brief(Section::text("", repeats(report)))
    .brief(Section::table("", table(report, false, args.max_auc)))
    .brief(Section::text("", [sample(report)]))
    .section(
        Section::plot(
            "ROC curve at low false-positive rates",
            figure::roc(report)?.to_inline_svg()?,
        )
        .caption(
            "Both axes are logarithmic: an attack that recognises few members for certain \
                matters more than one that is right on average. The band holds at each rate by \
                itself.",
        ),
    )
    .section(Section::table(
        "What the sample certifies",
        table(report, true, args.max_auc),
    ))
    .section(Section::text(
        "About these intervals",
        Some(format!(
            "{} A member is recognised by a score above a threshold; {}.",
            sample(report),
            origin(report)
        ))
        .into_iter()
        .chain(repeats(report))
        .chain(
            report
                .attacks
                .iter()
                .filter_map(|attacks| shared(attacks, report.confidence)),
        )
        .chain(inputs.assumed_line()),
    ));
    if let Some(attacks) = &report.attacks {
        let areas = figure::areas(report, attacks).to_inline_svg()?;
        let decided = format!(
            "{} was to decide before the scores were seen. Without the model: what the texts \
            alone tell; an attack that is no better proves nothing.",
            attacks.decides
        );
        let accuracy = format!(
            "Accuracy at a threshold that one half of the records chose for the other. {}",
            combined(attacks).unwrap_or_default()
        );
        let table = attack_table(report, attacks);
        page = page
            .section(Section::plot("Every attack", areas).caption(decided))
            .section(Section::table("Every attack in numbers", table).caption(accuracy));
        if attacks.group_size.is_some() {
            page = page.section(
                Section::table("Groups of records at once", group_table(attacks)).caption(
                    "Groups share records, so the interval comes from a bootstrap over the \
                    records.",
                ),
            );
        }
    }
    let counted = if args.on.training.is_some() {
        "--training"
    } else {
        "--members"
    };
    page = page.section(
        Section::table("By number of copies", copy_table(report)).caption(format!(
            "Members by how often their text, or nearly the same, stands in {counted}, each row against all non-members; each interval holds by itself."
        )),
    );
    let left_out = report.attacks.iter().flat_map(|a| &a.left_out);
    let left_out = left_out.map(|left| format!("Not run: {}: {}.", left.attack, left.why));
    page = page.section(Section::text("Attacks that were not run", left_out));
    let shadows = report.attacks.as_ref().and_then(|a| a.shadows.as_ref());
    if let Some(shadows) = shadows {
        page = page.section(Section::text(
            "Shadow models",
            Some(shadows.says())
                .into_iter()
                .chain(shadows.differs())
                .chain(shadows.spreads()),
        ));
    }
    page = page
        .section(
            Section::heat(
                "Where the model knows more than it should",
                heat.iter().map(line).collect(),
            )
            .caption(
                "The members with the highest scores, token by token: vermilion where the \
                model finds a token more likely than the comparison does, blue and underlined \
                where less.",
            ),
        )
        .card(card(report, args))
        .caveats(CAVEATS);
    Ok(page)
}

/// Describes the sizes of the sets and the confidence of the intervals.
fn sample(report: &MembershipReport) -> String {
    let groups = report.groups.map_or_else(String::new, |groups| {
        format!(
            " in {}; rates and accuracy take one record of each",
            count_of(groups as u64, "group")
        )
    });
    format!(
        "{}, {}{groups}; each interval holds with probability {}, those of TPRs for the FPR and the rate at it together. {}",
        count_of(report.members as u64, "member"),
        count_of(report.non_members as u64, "non-member"),
        shortest(report.confidence.get()),
        provable(
            report.provable_area,
            report
                .attacks
                .as_ref()
                .map_or(1, |attacks| attacks.rows.len())
        )
    )
}

/// Returns the most that the headline can show of such a sample; its confidence is shared among the attacks.
pub(super) fn provable(area: f64, attacks: usize) -> String {
    let of = match attacks {
        0 | 1 => "Scores".to_owned(),
        _ => format!("At the headline's confidence, shared by {attacks} attacks, scores"),
    };
    match area > 0.5 {
        true => format!(
            "{of} that distinguished them all would show an AUC of at least {}.",
            rounded_down(area, 3)
        ),
        false => format!("{of} that distinguished them all would show no AUC above 0.5."),
    }
}

/// Describes how the texts repeat and which were left out; `None` if none repeats.
fn repeats(report: &MembershipReport) -> Option<String> {
    let repeats = report.repeats.filter(Repeats::any)?;
    let sides = [
        (repeats.members, "member"),
        (repeats.non_members, "non-member"),
    ];
    let each = sides.iter().filter(|(side, _)| side.records > side.texts);
    let said: Vec<String> = each
        .map(|(side, name)| {
            let copies = side.records - side.on_both_sides - side.texts;
            let left_out = [
                (side.on_both_sides, "whose texts stand on both sides"),
                (copies, "that repeat another's text"),
            ];
            let left_out = left_out.iter().filter(|(count, _)| *count > 0);
            let left_out: Vec<String> = left_out
                .map(|(count, why)| format!("{} {why}", grouped(*count as u64)))
                .collect();
            format!(
                "Of {}, {} are judged; left out: {}.",
                count_of(side.records as u64, name),
                grouped(side.texts as u64),
                left_out.join(", ")
            )
        })
        .collect();
    Some(said.join(" "))
}

fn line(heat: &HeatLine) -> (String, Vec<Shade>) {
    let pieces = heat.pieces.iter().map(|(text, gain)| Shade {
        text: text.clone(),
        shade: gain / FULL,
        says: format!("{gain:+.2} nats"),
    });
    (heat.name.clone(), pieces.collect())
}

fn summary(report: &MembershipReport, args: &MembershipArgs, exit: Exit) -> String {
    let mut said = says(report);
    let characters = report.attacks.as_ref().map(|attacks| attacks.characters);
    if let Some(unknown) = characters.and_then(Characters::says) {
        said.push_str(&format!(" {unknown}."));
    }
    // A difference between the sets may explain the result as well.
    if let (Signal::Leak, Some(why)) = (report.signal, &report.no_blind) {
        said.push_str(&format!(
            " Whether the texts alone distinguish them was not checked: {why}."
        ));
    }
    if report.signal == Signal::Leak && report.may_be_the_texts() {
        said.push_str(&format!(
            " The texts alone may distinguish them as well: too few were judged to exclude it with confidence {}.",
            shortest(report.confidence.get())
        ));
    }
    let above = args.max_auc.and_then(|limit| report.above(limit));
    if let (Exit::Exceeded, Some(limit), Some(of)) = (exit, args.max_auc, above) {
        said = format!("The AUC{of} is certainly above the limit of {limit}. {said}");
    } else if let Some(limit) = args.max_auc {
        said.push_str(&match report.could_show(Some(limit)) {
            false => {
                format!(" So few records can't exceed the limit of {limit}, whatever their scores.")
            }
            true if report.undecided(Some(limit)).is_some() => String::new(),
            true => kept("--max-auc", "AUC", limit),
        });
    }
    said
}

/// Returns a paragraph for a model card.
fn card(report: &MembershipReport, args: &MembershipArgs) -> String {
    let confidence = shortest(report.confidence.get() * 100.0);
    let attack = report.attacks.as_ref().map_or_else(
        || "scores".to_owned(),
        |a| format!("the {} attack", a.decides),
    );
    let reference = args
        .on
        .reference
        .as_ref()
        .map_or_else(String::new, |r| format!(" against {r}"));
    let model = match args.on.of.source() {
        Ok(_) => format!(" of {},", args.on.of.name()),
        Err(_) => String::new(),
    };
    let mut said = format!(
        "Membership inference{model} with {attack}{reference} on {} members and {} non-members: AUC {} ({confidence} % interval {}).",
        grouped(report.members as u64),
        grouped(report.non_members as u64),
        nearest(report.area.estimate, 3),
        interval(&report.area.bounds),
    );
    for point in &report.at_fpr {
        let rate = percent(point.fpr);
        said.push_str(&match &point.found {
            Some(found) => format!(
                " At a false-positive rate of at most {rate} it recognises {} of members (as papers report it, without a certificate: {:.1} %).",
                percents(&found.tpr.bounds),
                100.0 * *point.plug_in.get(),
            ),
            None => format!(" The sample is too small for a false-positive rate of {rate}."),
        });
    }
    if let Some(blind) = &report.blind {
        said.push_str(&format!(
            " {}, without the model, give {} ({}).",
            match blind.by {
                BlindFeatures::Content => "The texts alone",
                BlindFeatures::Form => "The form of the texts alone",
                BlindFeatures::Length => "The lengths of the texts alone",
                BlindFeatures::Class => "The classes alone",
            },
            nearest(blind.area.estimate, 3),
            interval(&blind.area.bounds),
        ));
    }
    if report.no_blind.is_some() {
        said.push_str(" What the texts alone give was not checked.");
    }
    let together = report.attacks.as_ref().is_some_and(|a| a.rows.len() > 1);
    let too_few = format!(" {TOO_FEW}.");
    let reversed = format!(
        " {}: scores must rise with membership, so nothing can be concluded.",
        capital(&reversed(report))
    );
    said.push_str(match report.signal {
        Signal::Leak if together && report.no_blind.is_none() && !report.is_shifted() => {
            " Training records leave a trace that the attacks together find."
        }
        Signal::Leak if report.no_blind.is_some() => {
            " Training records leave a trace that this attack finds, unless the two sets differ in themselves."
        }
        Signal::Leak if report.is_shifted() => {
            " Training records leave a trace that this attack finds, if the texts alone can tell no more than is said here: the two sets differ in themselves."
        }
        Signal::Leak => " Training records leave a trace that this attack finds.",
        Signal::ShiftedSplit => " The two sets differ in themselves, so this proves no membership.",
        Signal::Unseen if !report.could_show(None) => &too_few,
        Signal::Unseen => {
            " This attack found no trace; stronger attacks may. It is no proof that nothing leaks."
        }
        Signal::Reversed => &reversed,
        Signal::Alike => " All scores are equal: nothing can be concluded.",
    });
    said
}
