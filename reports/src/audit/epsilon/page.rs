//! Lower bounds on ε as a page.

use super::{EpsilonReport, caveat, counted, holds, method, table};
use crate::audit::args::EpsilonArgs;
use crate::contract::{Exit, Inputs};
use crate::number::{rounded_down, shortest};
use crate::page::{Page, Section};
use crate::plot::{Axis, Plot, Tone};
use anyhow::Result;

pub(super) fn page(report: &EpsilonReport, args: &EpsilonArgs, inputs: &Inputs) -> Result<Page> {
    let mut summary = format!("{}. {}", counted(&report.counts), says(report));
    if let (Some(limit), Exit::Exceeded) = (args.max_epsilon, report.exit(args)) {
        summary.push_str(&format!(
            " This is above the limit of {}.",
            shortest(limit.get())
        ));
    } else if let Some(limit) = args.max_epsilon {
        let shown = shortest(limit.get());
        if limit >= *report.provable.get() {
            summary.push_str(&format!(
                " Such counts can't exceed the limit of {shown}, even with every guess right."
            ));
        } else if report.undecided(args).is_none() {
            summary.push_str(&format!(
                " ε is not certainly above the limit of {shown} (--max-epsilon)."
            ));
        }
    }
    Ok(Page::new("How much leaks at least", summary.clone())
        .mood(report.mood(args))
        .section(
            Section::plot("ε at least", plot(report).to_inline_svg()?).caption(
                "Each bar begins where its method's lower bound lies: a smaller ε is refuted. \
                Where ε ends, no audit says.",
            ),
        )
        .answer(Section::table("In numbers", table(report)))
        .answer(Section::text(
            "In which terms",
            [holds(report), caveat(&report.counts).to_owned()]
                .into_iter()
                .chain(inputs.assumed_line()),
        ))
        .card(format!("{summary} {}", holds(report)))
        .caveats([
            "A lower bound of 0 means that this attack refuted nothing, not that nothing leaks.",
        ]))
}

/// Describes the bound that assumes no family of mechanisms.
fn says(report: &EpsilonReport) -> String {
    let (epsilon, provable) = (report.found(), report.provable.get().get());
    if report.is_turned() {
        return format!(
            "Nothing can be concluded: guesses are wrong more often than chance explains. Counted the other way round, they \
             refute every ε below {}.",
            rounded_down(report.turned, 4)
        );
    }
    if epsilon > 0.0 {
        format!("ε is at least {}.", rounded_down(epsilon, 4))
    } else if provable > 0.0 {
        format!(
            "No positive ε is refuted. With every guess right, ε would be at least {}.",
            rounded_down(provable, 4)
        )
    } else if let Some(delta) = report.forbidding_delta() {
        format!(
            "Nothing can be concluded: at δ = {} such counts refute no positive ε, even with every guess right. At a smaller δ they could.",
            shortest(delta.get())
        )
    } else {
        "Nothing can be concluded: so few counts refute no positive ε at any δ, even with every guess right."
            .to_owned()
    }
}

fn plot(report: &EpsilonReport) -> Plot {
    let found = |b: &reticent_attacks::AuditBound| b.lower.get().get();
    let largest = report.bounds.iter().map(found).fold(1.0, f64::max);
    let names = report.bounds.iter().map(|b| method(b.method));
    let rows = report.bounds.iter();
    let rows: Vec<_> = rows
        .map(|bound| (Some(found(bound)), Some(f64::INFINITY)))
        .collect();
    Plot::of_rows(
        "What is not refuted",
        Axis::linear("ε (nats)").between(0.0, largest * 1.3),
        ("", names),
        (110, 34),
    )
    .intervals(&rows, (Tone::MEASURED, "ε at least"), (Tone::Muted, ""))
    .described(says(report))
}
