//! The page as HTML, self-contained.

use super::figure::{amplification, profile};
use super::{PlannedRun, Sheet, text};
use crate::contract::Envelope;
use crate::page::{Mood, Page, Section};
use anyhow::Result;

/// The page.
///
/// # Errors
/// A plot that can't be drawn.
pub fn html(run: &PlannedRun, document: &Envelope<Sheet>) -> Result<String> {
    let body = &document.body;
    let title = format!("Privacy plan: {}", text::what_runs(run));
    let mood = if body.headline.get().get().is_finite() {
        Mood::Plain
    } else {
        Mood::Alarm
    };
    let mut page = Page::new(title, text::summary(run, body))
        .mood(mood)
        .section(Section::Table {
            heading: "What is promised, to whom, against whom".into(),
            caption: format!(
                "Upper bounds ε ≤ at δ = {}; ≥ is what no accountant could promise less than, so the gap is rounding. \
                 Rows for planning are not promises.",
                crate::number::shortest(run.plan.delta.get()),
            ),
            table: text::promises(&body.promises),
        });
    if !body.ceilings.is_empty() {
        page = page.section(Section::Table {
            heading: "What an attack can reach".into(),
            caption:
                "Upper bounds on chances and bits, beside what is reached without any training."
                    .into(),
            table: text::ceilings(&body.ceilings),
        });
    }
    if !body.tighten.is_empty() {
        page = page.section(Section::Table {
            heading: "What would tighten the first promise most".into(),
            caption: format!(
                "Each change alone, everything else kept. {}",
                text::no_help(body).unwrap_or_default()
            ),
            table: text::tighten(body),
        });
    }
    if let Some(plot) = profile(run)? {
        page = page.section(Section::Plot {
            heading: "The chance that the promise fails".into(),
            caption: "δ at most, for each ε. Lower and further left is better.".into(),
            svg: plot.to_inline_svg()?,
        });
    }
    if !body.amplification.is_empty() {
        page = page.section(Section::Plot {
            heading: "What redaction adds, for planning".into(),
            caption: "ε' against an adversary who ignores the secret, as the noise varies. It bounds no guess and no audit.".into(),
            svg: amplification(run, &body.amplification).to_inline_svg()?,
        });
    }
    let mut assumptions = body.assumptions.clone();
    assumptions.extend(body.labels_wanted.clone());
    Ok(page
        .section(Section::Caveats {
            heading: "Under these assumptions".into(),
            items: assumptions,
        })
        .section(Section::Caveats {
            heading: "Not covered".into(),
            items: body.not_covered.clone(),
        })
        .section(Section::Facts {
            heading: "Signed".into(),
            facts: ["Name", "Date", "Signature"]
                .map(|name| (name.to_owned(), "________________".to_owned()))
                .to_vec(),
        })
        .to_html()?)
}
