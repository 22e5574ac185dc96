//! A grid as a table and a page.

use super::cell::{GridReport, Row};
use super::plan::Place;
use crate::contract::{Align, Exit, Number, Table};
use crate::number::{count_of, nearest, rounded_down, rounded_up};
use crate::page::{Mood, Page, Section};

/// A name, the alignment of its cells, and how they are formatted.
type Column = (&'static str, Align, fn(&Row) -> String);

impl GridReport {
    /// Returns the page, for every format.
    #[must_use]
    pub fn to_page(&self) -> Page {
        let mut said = format!("{} finished", count_of(self.finished as u64, "cell"));
        if self.failed > 0 {
            said = format!("{said}, {} failed", self.failed);
        }
        said = format!(
            "{said}: {} in {} s",
            count_of(self.stages as u64, "stage"),
            nearest(self.seconds, 3)
        );
        if self.stages_before > 0 {
            said = format!("{said}, {} of them by earlier runs", self.stages_before);
        }
        let exceeded = self.rows.iter().filter(|row| row.exceeded).count();
        if exceeded > 0 {
            let cells = count_of(exceeded as u64, "cell");
            said = format!("A promise is contradicted, or a limit passed, in {cells}. {said}");
        }
        let shown = |value: &Option<Number>| value.map_or(String::new(), |n| nearest(n.0, 4));
        let columns: [Column; 8] = [
            ("arm", Align::Left, |row| row.place.arm.clone()),
            ("γ", Align::Right, |row| row.place.miss_rate.to_string()),
            ("caught", Align::Right, |row| {
                row.place.canary_recall.to_string()
            }),
            ("noise", Align::Right, |row| noise(&row.place)),
            ("model", Align::Left, |row| row.place.model.clone()),
            ("seed", Align::Right, |row| row.place.seed.to_string()),
            ("ε ≤", Align::Right, |row| {
                row.promise.map_or_else(String::new, |n| rounded_up(n.0, 4))
            }),
            ("seconds", Align::Right, |row| nearest(row.seconds, 3)),
        ];
        // A quantity that no cell has gets no column.
        let measured: Vec<(&str, Vec<String>)> = [
            ("perplexity", self.column(|row| shown(&row.perplexity))),
            ("accuracy", self.column(|row| shown(&row.accuracy))),
            ("bits", self.column(|row| shown(&row.exposure))),
            ("mean", self.column(|row| shown(&row.exposure_mean))),
            ("AUC", self.column(|row| shown(&row.auc))),
            (
                "ε ≥ by coins",
                self.column(|row| {
                    let lower = row.coins_epsilon.map(|n| rounded_down(n.0, 4));
                    lower.unwrap_or_default()
                }),
            ),
            (
                "outcome",
                self.column(|row| {
                    row.outcome
                        .map_or_else(String::new, |mood| mood.to_string())
                }),
            ),
        ]
        .into_iter()
        .filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()))
        .collect();
        let align = |name: &str| match name {
            "outcome" => Align::Left,
            _ => Align::Right,
        };
        let names = columns.iter().map(|(name, align, _)| (*name, *align));
        let more = measured.iter().map(|(name, _)| (*name, align(name)));
        let mut table = Table::new(names.chain(more));
        for (at, row) in self.rows.iter().enumerate() {
            let own = columns.iter().map(|(_, _, of)| of(row));
            table.row(own.chain(measured.iter().map(|(_, cells)| cells[at].clone())));
        }
        // The mood is that of the most severe cell; nothing is known about a failed one.
        let worst = self.rows.iter().filter_map(|row| row.outcome).max();
        let worst = worst.unwrap_or_default();
        let failed = match self.failed {
            0 => Mood::Plain,
            _ => Mood::Open,
        };
        let mood = Mood::of(self.exit(), worst.max(failed));
        Page::new("Grid", format!("{said}."))
            .mood(mood)
            .answer(Section::table("Cells", table).caption(
                "γ is the policy's miss rate, beside it the share of canaries that it catches. Bits are the largest exposure of the canaries, then their mean; ε ≤ is that of the first promise as the cell's document words it (of the most records that are known to hold one secret), ε ≥ that of all copies of a canary with a coin. The outcome is that of the attack that asks for most: fail, review, open, pass; the documents in cells/ have every verdict.",
            ))
            .answer(Section::notes(
                "Failed",
                self.rows
                    .iter()
                    .filter_map(|row| Some(format!("{}: {}", row.cell, row.failed.as_ref()?)))
                    .collect(),
            ))
            .section(Section::notes(
                "What this does not say",
                vec![
                    "A cell is one run: batches and noise are drawn anew in each, and only what is held out, missed and planted has a seed.".to_owned(),
                    "Choosing among cells by what was measured on private text is covered by no promise of a cell.".to_owned(),
                ],
            ))
    }

    /// Returns 1 if an attack contradicts a promise of some cell or exceeds a limit.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self.rows.iter().any(|row| row.exceeded) {
            true => Exit::Exceeded,
            false => Exit::Finished,
        }
    }

    fn column(&self, of: impl Fn(&Row) -> String) -> Vec<String> {
        self.rows.iter().map(of).collect()
    }
}

fn noise(place: &Place) -> String {
    match (place.sigma, place.epsilon) {
        (Some(sigma), _) => format!("σ {sigma}"),
        (None, Some(epsilon)) => format!("ε {epsilon}"),
        (None, None) => String::new(),
    }
}
