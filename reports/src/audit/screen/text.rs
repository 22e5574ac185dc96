//! A screening in words and tables.

use super::measure::{MissingRate, Screening};
use super::sheet::Sheet;
use crate::contract::{Align, Table};
use crate::number::{grouped, nearest, rounded_down, rounded_up};
use reticent_accounting::Confidence;
use std::path::Path;

/// What to do with a sheet that has no labels yet.
pub(super) fn waiting(sheet: &Sheet, name: &str) -> String {
    let h = &sheet.header;
    format!(
        "{name}: {} of {} {}s drawn at random with seed {}{}\n{} of {} have no labels yet: label them with --label, or write \"secrets\": \
         [{{\"start\", \"end\", \"kind\"}}] (characters; [] for none) into each line, and run the same command again",
        grouped(h.sample),
        grouped(h.records),
        h.unit,
        h.seed,
        if h.near > 0 {
            format!(", and {} near the threshold", grouped(h.near))
        } else {
            String::new()
        },
        grouped(sheet.open() as u64),
        grouped(sheet.lines.len() as u64),
    )
}

impl Screening {
    pub(super) fn to_text(&self, confidence: Confidence, labels: Option<&Path>) -> String {
        let percent = nearest(confidence.get() * 100.0, 4);
        let mut out = format!(
            "{} records drawn at random, {} with a secret, {} of these with one that the policy misses\n",
            grouped(self.sample),
            grouped(self.with_secrets),
            grouped(self.missed)
        );
        match &self.rates {
            Some(rates) => {
                out.push_str(&format!("missed (gamma)          at most {} of the records with a secret\n", rounded_up(rates.gamma.get().get(), 4)));
                if self.kinds.values().any(|k| k.eta.is_some()) {
                    out.push_str(&format!("missed by both (eta)    at most {}\n", rounded_up(rates.eta.get().get(), 4)));
                }
                out.push_str(&format!("together with {percent} % confidence, by Clopper and Pearson; a record counts as missed when one of its secrets is\n"));
            }
            None => out.push_str("the sample has no secret: nothing can be said about what is missed; draw a larger one\n"),
        }
        if !self.kinds.is_empty() {
            out.push_str(&format!(
                "\nBy kind; each bound holds with {percent} % confidence by itself.\n{}",
                self.by_kind()
            ));
        }
        if !self.found.is_empty() {
            out.push_str(&format!("\nWhat the policy found.\n{}", self.by_span()));
        }
        if self.near > 0 {
            out.push_str(&format!(
                "\nNear the threshold: {} of {} records have a missed secret. They were not drawn at random and bound nothing.\n",
                grouped(self.near_missed),
                grouped(self.near)
            ));
        }
        if let Some(rate) = &self.missing_rate {
            out.push_str(&rate.to_text());
        }
        if let Some(path) = labels {
            out.push_str(&format!(
                "\nnext: account --labels {} --sigma ... --sample-rate ... --steps ...\n",
                path.display()
            ));
        }
        out
    }

    fn by_kind(&self) -> String {
        let mut table = Table::new([
            ("kind", Align::Left),
            ("records", Align::Right),
            ("missed", Align::Right),
            ("gamma at most", Align::Right),
            ("by both", Align::Right),
            ("eta at most", Align::Right),
            ("secrets", Align::Right),
            ("caught", Align::Right),
            ("recall", Align::Right),
        ]);
        for (kind, row) in &self.kinds {
            table.row([
                kind.clone(),
                grouped(row.records),
                grouped(row.missed),
                rounded_up(row.gamma.get().get(), 4),
                row.missed_by_both.map_or_else(String::new, grouped),
                row.eta
                    .map_or_else(String::new, |eta| rounded_up(eta.get().get(), 4)),
                grouped(row.secrets),
                grouped(row.caught),
                nearest(row.recall, 4),
            ]);
        }
        table.to_text()
    }

    fn by_span(&self) -> String {
        let mut table = Table::new([
            ("kind", Align::Left),
            ("spans", Align::Right),
            ("right", Align::Right),
            ("precision", Align::Right),
            ("records", Align::Right),
            ("all right", Align::Right),
            ("share at least", Align::Right),
        ]);
        for (kind, row) in &self.found {
            table.row([
                kind.clone(),
                grouped(row.spans),
                grouped(row.right),
                nearest(row.precision, 4),
                grouped(row.records),
                grouped(row.records_right),
                rounded_down(row.records_all_right.get().get(), 4),
            ]);
        }
        table.to_text()
    }
}

impl MissingRate {
    fn to_text(&self) -> String {
        let (low, high) = (nearest(*self.low.get(), 4), nearest(*self.high.get(), 4));
        format!(
            "\nJFT's estimate (ten samples, Student's 95 % interval; no bound)\n\
             missed words over all words   {low} to {high}\n\
             redacted words over all words {}\n\
             recall, 1 - m/Pct             {} to {}\n\
             for audit train --recipe jft  --token-miss {low},{high}\n",
            nearest(self.redacted, 4),
            nearest(*self.recall_low.get(), 4),
            nearest(*self.recall_high.get(), 4),
        )
    }
}
