//! A reproduction as a page.

use super::claims::{DETECTORS, PRINTED_SHARES};
use super::rules::shown;
use super::{Detector, Judged, Judgement, Reproduction, Series};
use crate::contract::{Table, dash};
use crate::number::{count_of, nearest};
use crate::page::{Page, Section};
use std::collections::BTreeSet;

impl Reproduction {
    /// Describes the outcome for the claims in a sentence.
    #[must_use]
    pub fn says(&self) -> String {
        let mut said = format!(
            "{}: {} reproduced, {} not reproduced, {} not testable",
            count_of(self.claims.len() as u64, "claim"),
            self.reproduced,
            self.not_reproduced,
            self.not_testable
        );
        if self.cells > 0 {
            said = format!(
                "{said}; {} in {} s",
                count_of(self.cells as u64, "cell"),
                nearest(self.seconds, 3)
            );
        }
        format!("{said}.")
    }

    /// Returns the page, with figures drawn from the same documents.
    #[must_use]
    pub fn to_page(&self, figures: Vec<Section>) -> Page {
        let table = Table::of(&self.claims)
            .left("item", |claim| &claim.item)
            .left("claim", |claim| &claim.claim)
            .left("paper", |claim| &claim.printed)
            .left("here", here)
            .left("judgement", |claim| claim.judgement.says());
        let documents = |claim: &Judged| {
            let points = claim.measured.iter().flat_map(|series| &series.points);
            let from: BTreeSet<&String> = points.flat_map(|point| &point.from).collect();
            from.into_iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let judged = self.claims.iter().filter(|claim| !claim.rule.is_empty());
        let rules = Table::of(judged)
            .left("claim", |claim| format!("{}, {}", claim.item, claim.id))
            .left("reproduced if", |claim| &claim.rule)
            .left("documents", documents);
        let mut notes = vec![
            "Rules are fixed in the program before a run. A mean counts with one standard error of its runs against the claim; of a single run no spread is known.".to_owned(),
            "The text is smaller than the papers' and, unless a folder was given, made up: what is not reproduced here may hold there, and the reverse.".to_owned(),
        ];
        notes.extend(self.notes.iter().cloned());
        notes.extend(
            self.failed
                .iter()
                .map(|why| format!("A cell failed: {why}")),
        );
        let page = Page::new(self.paper.title(), self.says())
            .answer(Section::table("Claims", table).caption(
            "What the paper prints, and the mean here with the least and the largest of the runs.",
        ));
        let page = match self.detectors.is_empty() {
            true => page,
            false => page.section(self.detectors()),
        };
        let page = figures.into_iter().fold(page, Page::section);
        page.section(
            Section::table("Rules", rules).caption("Documents lie in the folder of the report."),
        )
        .section(Section::notes("What this does not say", notes))
    }
}

impl Reproduction {
    /// Returns what each detector masks, a row for each text: as measured here, then as printed in
    /// the paper.
    fn detectors(&self) -> Section {
        let mut texts: Vec<&str> = Vec::new();
        for row in &self.detectors {
            if !texts.contains(&row.text.as_str()) {
                texts.push(&row.text);
            }
        }
        let found = |text: &str, share: fn(&Detector) -> f64| {
            DETECTORS.map(|name| {
                let mut rows = self.detectors.iter();
                rows.find(|row| row.detector == name && row.text == text)
                    .map(share)
            })
        };
        let measured = texts.into_iter().flat_map(|text| {
            [
                (format!("{text}, here"), found(text, |row| row.words)),
                (
                    format!("{text}, here: records"),
                    found(text, |row| row.records),
                ),
            ]
        });
        let printed =
            PRINTED_SHARES.map(|(text, shares)| (format!("{text}, paper"), shares.map(Some)));
        let rows: Vec<_> = measured.chain(printed).collect();
        let percent =
            |share: Option<f64>| share.map_or_else(String::new, |share| nearest(100.0 * share, 3));
        let first = Table::of(&rows).left("text", |(name, _)| name);
        let names = DETECTORS.iter().enumerate();
        let table = names.fold(first, |table, (level, name)| {
            table.right(name.replace('-', " "), |(_, shares)| percent(shares[level]))
        });
        Section::table("What the detectors mask", table).caption(
            "Percent of words, and of records in which something is masked; the paper prints percent of tokens.",
        )
    }
}

/// Summarises the measurements; of several points, the first and the last.
fn here(claim: &Judged) -> String {
    if matches!(claim.judgement, Judgement::NotTestable { .. }) && claim.measured.is_empty() {
        return String::new();
    }
    let said = claim.measured.iter().map(|series: &Series| {
        let values = match &series.points[..] {
            [] => dash(),
            [only] => shown(only),
            [first, .., last] => format!(
                "{} at {}, {} at {}",
                shown(first),
                first.x,
                shown(last),
                last.x
            ),
        };
        format!("{}: {values}", series.what)
    });
    said.collect::<Vec<_>>().join("; ")
}
