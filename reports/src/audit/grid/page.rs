//! A grid as a table and a page.

use super::cell::{GridReport, Row};
use super::plan::Place;
use crate::contract::{Exit, Number, Table, open_limit};
use crate::number::{count_of, nearest, rounded_down, rounded_up};
use crate::page::{Mood, Page, Section};
use anyhow::Result;

/// What an alarm of a grid says, and what the number of its cells takes from it.
const EACH_ALONE: &str = "Each cell is judged at its own false-alarm rate: among n cells, a false alarm is up to n times as likely.";

impl GridReport {
    /// Returns the page, for every format.
    #[must_use]
    pub fn to_page(&self) -> Page {
        let mut said = format!("{} finished", count_of(self.finished as u64, "cell"));
        if self.failed > 0 {
            said = format!("{said}, {} failed", self.failed);
        }
        if self.undecided() > 0 {
            said = format!("{said}, a limit undecided in {}", self.undecided());
        }
        said = format!(
            "{said}: {} in {} s",
            count_of(self.stages as u64, "stage"),
            nearest(self.seconds, 3)
        );
        if self.stages_before > 0 {
            said = format!("{said}, {} of them by earlier runs", self.stages_before);
        }
        said = self.most() + &said;
        let exceeded = self.rows.iter().filter(|row| row.exceeded).count();
        if exceeded > 0 {
            let cells = count_of(exceeded as u64, "cell");
            said = format!(
                "A promise is contradicted, or a limit exceeded, in {cells}. {EACH_ALONE} {said}"
            );
        }
        let shown = |value: &Option<Number>| value.map_or(String::new(), |n| nearest(n.0, 4));
        let up = |value: Option<Number>| value.map_or_else(String::new, |n| rounded_up(n.0, 4));
        let down = |value: Option<Number>| value.map_or_else(String::new, |n| rounded_down(n.0, 4));
        let outcome = |row: &Row| match (&row.failed, row.outcome) {
            (Some(_), _) => "failed".to_owned(),
            (None, mood) => mood.map_or_else(String::new, |mood| mood.to_string()),
        };
        let table = Table::of(&self.rows)
            .left("arm", |row| &row.place.arm)
            .right("γ", |row| row.place.miss_rate.to_string())
            .right("caught", |row| row.place.canary_recall.to_string())
            // A quantity that no cell has gets no column.
            .right("noise", |row| noise(&row.place))
            .left("model", |row| &row.place.model)
            .right("seed", |row| row.place.seed.to_string())
            .right("ε ≤", |row| up(row.promise))
            .right("seconds", |row| nearest(row.seconds, 3))
            .right("perplexity", |row| shown(&row.perplexity))
            .right("accuracy", |row| shown(&row.accuracy))
            .right("bits", |row| shown(&row.exposure))
            .right("mean", |row| shown(&row.exposure_mean))
            .right("AUC", |row| shown(&row.auc))
            .right("ε ≥ by coins", |row| down(row.coins_epsilon))
            .left("outcome", outcome)
            .without_empty(3);
        // The mood is that of the most severe cell; nothing is known about a failed or undecided one.
        let worst = self.rows.iter().filter_map(|row| row.outcome).max();
        let worst = worst.unwrap_or_default();
        let unknown = match self.failed + self.undecided() {
            0 => Mood::Plain,
            _ => Mood::Open,
        };
        let mood = Mood::of(self.exit(), worst.max(unknown));
        Page::new("Grid", format!("{said}."))
            .mood(mood)
            .answer(Section::notes(
                "Failed",
                self.rows
                    .iter()
                    .filter_map(|row| Some(format!("{}: {}", row.cell, row.failed.as_ref()?))),
            ))
            .answer(Section::notes(
                "Undecided",
                self.rows
                    .iter()
                    .filter_map(|row| Some(format!("{}: {}", row.cell, row.undecided.as_ref()?))),
            ))
            .answer(Section::table("Cells", table).caption(self.columns()))
            .answer(Section::notes(
                "Texts",
                (self.texts > 1).then(|| format!(
                    "Perplexity and accuracy are of {} texts: without `test`, each preparation's own held-out text, with the masks of its policy. Between policies, miss rates and seeds they compare the texts too; `test` is one text for all.",
                    self.texts
                )),
            ))
            .section(Section::notes(
                "What this does not say",
                [
                    EACH_ALONE,
                    "A cell is one run: batches and noise are drawn independently in each, and only what is held out, missed and planted has a seed.",
                    "Choosing among cells by what was measured on private text is covered by no promise of a cell.",
                ],
            ))
    }

    /// Explains the columns that the table has.
    fn columns(&self) -> String {
        let any = |has: fn(&Row) -> bool| self.rows.iter().any(has);
        let parts = [
            (
                true,
                "γ is the policy's miss rate, beside it the share of canaries that it catches.",
            ),
            (
                any(|row| row.exposure.is_some()),
                " Bits are the largest exposure of the canaries, then their mean.",
            ),
            (
                any(|row| row.promise.is_some()),
                " ε ≤ is that of the first promise as the cell's document words it (of the most records that are known to hold one secret).",
            ),
            (
                any(|row| row.coins_epsilon.is_some()),
                " ε ≥ is that of all copies of a canary with a coin.",
            ),
            (
                any(|row| row.outcome.is_some()),
                " The outcome is that of the attack that asks for most: fail, review, open, pass; a failed cell has none. The documents in cells/ have every verdict.",
            ),
        ];
        let parts = parts.into_iter().filter(|(shown, _)| *shown);
        parts.map(|(_, part)| part).collect()
    }

    /// Says the most severe outcome and the largest exposure, of which cell.
    fn most(&self) -> String {
        let outcomes = self.rows.iter().filter_map(|row| row.outcome);
        let worst = outcomes.clone().max().map(|worst| {
            let cells = outcomes.filter(|outcome| *outcome == worst).count();
            format!(
                "Most severe outcome: {worst}, in {cells} of {}. ",
                count_of(self.finished as u64, "cell")
            )
        });
        let exposures = self
            .rows
            .iter()
            .filter_map(|row| Some((row.exposure?.0, &row.cell)));
        let largest = exposures
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(bits, cell)| {
                format!("Largest exposure: {} bits, in {cell}. ", nearest(bits, 4))
            });
        worst.unwrap_or_default() + &largest.unwrap_or_default()
    }

    /// Returns 1 if an attack contradicts a promise of some cell or exceeds a limit.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::of(self.rows.iter().any(|row| row.exceeded))
    }

    /// Returns how the grid ends: a contradiction stands, whatever happened to other cells.
    ///
    /// # Errors
    /// Returns an error if nothing is exceeded and cells failed or leave a limit undecided.
    pub(in crate::audit) fn end(&self) -> Result<Exit> {
        let (cells, undecided) = (self.rows.len(), self.undecided());
        let failed = (self.failed > 0).then(|| {
            format!(
                "{} of {cells} cells failed: `failed` says why, and the same command retries them",
                self.failed
            )
        });
        let open = (undecided > 0).then(|| {
            format!(
                "a limit is left undecided in {undecided} of {cells} cells: `undecided` says why"
            )
        });
        let why: Vec<String> = failed.into_iter().chain(open).collect();
        open_limit(self.exit(), (!why.is_empty()).then(|| why.join("; ")))
    }

    fn undecided(&self) -> usize {
        let open = self.rows.iter().filter(|row| row.undecided.is_some());
        open.count()
    }
}

fn noise(place: &Place) -> String {
    match (place.sigma, place.epsilon) {
        (Some(sigma), _) => format!("σ {sigma}"),
        (None, Some(epsilon)) => format!("ε {epsilon}"),
        (None, None) => String::new(),
    }
}
