//! The exposure report as a page.

use super::pieces::{Column, canary_table, exposure_plot, summary_table};
use super::text::facts;
use super::{ExposureReport, Leak, caveats};
use crate::contract::Exit;
use crate::number::grouped;
use crate::page::{Mood, Page, Section};
use anyhow::Result;

pub(super) fn page(report: &ExposureReport, released: &str) -> Result<String> {
    let finding = &report.finding;
    let column = Column {
        name: released,
        finding,
    };
    let plot = exposure_plot("Exposure of each canary", &[column])?;
    let mood = match report.exit(None) {
        Exit::Finished => Mood::Plain,
        Exit::Exceeded => Mood::Alarm,
    };
    let page = Page::new(format!("Exposure: {released}"), summary(report))
        .mood(mood)
        .section(Section::Plot {
            heading: "Against chance".into(),
            caption: "Each dot is one canary. Inside the band lie 95 % of canaries the model has never seen.".into(),
            svg: plot.to_inline_svg()?,
        })
        .section(Section::Table {
            heading: "Summaries beside their nulls".into(),
            caption: "Exposure counts ties against the canary. p is the chance of this much or more without a leak.".into(),
            table: summary_table(&finding.summary),
        })
        .section(Section::Table {
            heading: "Every canary".into(),
            caption: format!(
                "Rank 1 of {} is the model's favourite.",
                grouped(finding.candidates)
            ),
            table: canary_table(finding, report.secrets.as_ref()),
        })
        .section(Section::Facts {
            heading: "What follows".into(),
            facts: facts(report),
        })
        .section(Section::Caveats {
            heading: "What these numbers do not say".into(),
            items: caveats(),
        });
    Ok(page.to_html()?)
}

fn summary(report: &ExposureReport) -> String {
    let finding = &report.finding;
    let (max, mean) = (finding.summary.max(), finding.summary.mean());
    let count = finding.canaries.len();
    match Leak::of(&finding.summary) {
        Leak::Single => format!(
            "The model leaks: the most exposed of {count} canaries gives away {:.1} bits, where 95 % of models that never saw them stay below {:.1}.",
            max.lower(),
            max.null_95()
        ),
        Leak::Together => format!(
            "The model leaks a little: no canary stands out, but the {count} together have a mean exposure of {:.2} bits, where 95 % of models that never saw them stay below {:.2}.",
            mean.lower(),
            mean.null_95()
        ),
        Leak::Unseen => format!(
            "No leak of these {count} canaries was seen: the largest exposure is {:.1} bits, and {:.1} is usual for the maximum of {count} canaries never trained on.",
            max.lower(),
            max.null_mean()
        ),
    }
}
