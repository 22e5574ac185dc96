//! A reproduction as a page.

use super::{Judged, Judgement, Reproduction, Series};
use crate::contract::{Exit, Table, dash};
use crate::number::{count_of, nearest};
use crate::page::{Mood, Page, Section};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;

impl Reproduction {
    /// Describes the outcome for the claims in a sentence.
    #[must_use]
    pub fn says(&self) -> String {
        let computed = self.claims.iter().filter(|claim| claim.is_computed());
        let computed = match computed.count() {
            0 => String::new(),
            some => format!(" ({some} computed by account alone)"),
        };
        let mut said = format!(
            "{}: {} reproduced{computed}, {} not reproduced, {} not testable",
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
        if !self.failed.is_empty() {
            said = format!("{said}, {} failed", self.failed.len());
        }
        if !self.contradicted.is_empty() {
            said = format!(
                "A promise is contradicted, or a limit exceeded, in {}, each judged at its own false-alarm rate. {said}",
                count_of(self.contradicted.len() as u64, "cell")
            );
        }
        format!("{said}.")
    }

    /// Returns 1 if an attack contradicts a promise of some cell or exceeds a limit.
    ///
    /// # Errors
    /// Returns an error if cells or questions failed and nothing is contradicted.
    pub fn ending(&self) -> Result<Exit> {
        let exit = Exit::of(!self.contradicted.is_empty());
        // A contradiction stands, whatever happened to other cells.
        ensure!(
            self.failed.is_empty() || exit == Exit::Exceeded,
            "{} of the cells and questions failed: `failed` says why, and the same command retries them",
            self.failed.len()
        );
        Ok(exit)
    }

    /// Returns the outcome of the page: unset where every cell finished and none contradicts a promise, since a claim
    /// that is not reproduced is no leak.
    fn mood(&self) -> Option<Mood> {
        match (self.contradicted.is_empty(), self.failed.is_empty()) {
            (false, _) => Some(Mood::Alarm),
            (true, false) => Some(Mood::Open),
            (true, true) => None,
        }
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
            "Rules are fixed in the program before a run. A mean counts with one standard error of its runs against the claim, and against the conditions that it needs; only a step within a rise may fall by as much. A single run of a model reproduces nothing: no spread is known of it.".to_owned(),
            "The text is smaller than the papers' and, unless a folder was given, made up: what is not reproduced here may hold there, and the reverse.".to_owned(),
        ];
        notes.extend(self.notes.iter().cloned());
        let page = Page::new(self.paper.title(), self.says());
        let page = match self.mood() {
            Some(mood) => page.mood(mood),
            None => page,
        };
        let page = page
            .answer(Section::notes("Contradicted", self.contradicted.iter()))
            .answer(Section::notes("Failed", self.failed.iter()))
            .answer(Section::table("Claims", table).caption(
                "What the paper prints, and the mean here with the least and the largest of the runs.",
            ));
        let page = figures.into_iter().fold(page, Page::section);
        page.section(
            Section::table("Rules", rules).caption("Documents lie in the folder of the report."),
        )
        .section(Section::notes("What this does not say", notes))
    }
}

/// Summarises the measurements, at every place.
fn here(claim: &Judged) -> String {
    if matches!(claim.judgement, Judgement::NotTestable { .. }) && claim.measured.is_empty() {
        return String::new();
    }
    let said = claim.measured.iter().map(|series: &Series| {
        let values = match &series.points[..] {
            [] => dash(),
            [only] => series.shown(only),
            several => {
                let each = several.iter();
                let each = each.map(|point| format!("{} at {}", series.shown(point), point.x));
                each.collect::<Vec<_>>().join(", ")
            }
        };
        format!("{}: {values}", series.what)
    });
    said.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::{Paper, Scale};
    use super::*;

    fn report(failed: &[&str], contradicted: &[&str]) -> Reproduction {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Reproduction {
            paper: Paper::Crt,
            scale: Scale::Small,
            data: "simulated".to_owned(),
            reproduced: 0,
            not_reproduced: 0,
            not_testable: 0,
            cells: 8,
            failed: owned(failed),
            contradicted: owned(contradicted),
            seconds: 1.0,
            notes: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// Every ending was 0: a contradicted promise stood nowhere, a failed cell in the notes of the page.
    #[test]
    fn a_reproduction_ends_with_what_its_cells_show() {
        let whole = report(&[], &[]);
        assert_eq!(whole.ending().unwrap(), Exit::Finished);
        assert_eq!(whole.to_page(Vec::new()).outcome(), None);
        assert!(!whole.says().contains("failed"), "{}", whole.says());
        let failed = report(&["a: why", "b: why"], &[]);
        let error = failed.ending().unwrap_err().to_string();
        assert!(error.starts_with("2 of the cells"), "{error}");
        assert_eq!(failed.to_page(Vec::new()).outcome(), Some(Mood::Open));
        assert!(failed.says().contains("2 failed"), "{}", failed.says());
        for failed in [&[][..], &["a: why"][..]] {
            let worst = report(failed, &["c"]);
            assert_eq!(worst.ending().unwrap(), Exit::Exceeded);
            assert_eq!(worst.to_page(Vec::new()).outcome(), Some(Mood::Alarm));
            assert!(worst.says().contains("in 1 cell,"), "{}", worst.says());
        }
    }
}
