//! A screening as a page.

use super::measure::{MissingRate, Screening};
use super::sheet::{Header, Sheet};
use crate::audit::policy::TRACES;
use crate::contract::Table;
use crate::number::{count_of, grouped, nearest, rounded};
use crate::page::{Page, Section};
use reticent_accounting::{Confidence, MissRate, Upper};
use reticent_corpus::canary::SeedOrigin;
use std::path::Path;

/// Returns the page for a sheet without labels, with what to do next.
pub(super) fn waiting(sheet: &Sheet, name: &str) -> Page {
    let h = &sheet.header;
    let near = match h.near {
        0 => String::new(),
        near => format!(", and {} near the threshold", grouped(near)),
    };
    let drawn = format!(
        "{name}: {} of {} drawn at random{near}.",
        grouped(h.sample),
        count_of(h.records, &h.unit.to_string()),
    );
    let open = format!(
        "{} of {} have no labels yet: label them with --label, or write \"secrets\": \
         [{{\"start\", \"end\", \"kind\"}}] (characters; [] for none) into each line, and run the same command again.",
        grouped(sheet.open() as u64),
        grouped(sheet.lines.len() as u64),
    );
    let mut lines = how_drawn(h);
    lines.push(open);
    Page::new("Screening", drawn).answer(Section::text("", lines))
}

/// Describes how the sample was drawn.
fn how_drawn(h: &Header) -> Vec<String> {
    let duplicates = (h.duplicates > 0).then(|| {
        let them = count_of(h.duplicates, "exact duplicate");
        format!("Left out before: {them}, as preparation does.")
    });
    let given = (h.seed_origin == SeedOrigin::Given).then(|| {
        format!(
            "The seed, {}, was given: such a sample can be foreseen, and is the same as an earlier one's.",
            h.seed
        )
    });
    duplicates.into_iter().chain(given).collect()
}

impl Screening {
    /// Returns the page, with the bounds first; `labels`: where the labels were written.
    pub(super) fn to_page(
        &self,
        header: &Header,
        confidence: Confidence,
        sheet: &Path,
        labels: Option<&Path>,
    ) -> Page {
        let percent = nearest(confidence.get() * 100.0, 4);
        let said = format!(
            "{} drawn at random, {} with a secret, {} of these with one that the policy misses.",
            count_of(self.sample, "record"),
            grouped(self.with_secrets),
            grouped(self.missed)
        );
        let kept = format!(
            "{} holds the sample with its labels: keep it private.",
            sheet.display()
        );
        let next = labels.map(|path| {
            format!(
                "Next: account --labels {} --sigma ... --sample-rate ... --steps ...",
                path.display()
            )
        });
        let mut page = Page::new("Screening", said);
        page = match &self.rates {
            Some(rates) => {
                let share = |who: &str, rate: Upper<MissRate>| {
                    format!(
                        "{who} a secret in at most {} of the records that introduce one",
                        rounded(rate, 4)
                    )
                };
                let gamma = format!(
                    "{} (in the sample, {} of {})",
                    share("the policy misses", rates.gamma),
                    grouped(self.bringing_missed),
                    grouped(self.bringing),
                );
                let mut facts = vec![("missed (gamma)", gamma)];
                if self.kinds.values().any(|k| k.eta.is_some()) {
                    facts.push(("missed by both (eta)", share("both policies miss", rates.eta)));
                }
                let how = format!(
                    "Together with {percent} % confidence, by Clopper and Pearson. Each secret counts once, in the first \
                     record of the corpus in which it is marked: that record introduces it. Where an earlier record \
                     outside the sample contains its text unmarked, a secret counts if it is missed and not if it is \
                     caught. A miss counts there or elsewhere in the sample. Occurrences outside the sample are not \
                     examined: of secrets in several records more are missed, and account refuses these labels for them. A record that introduces several secrets counts as missed where one of them \
                     is, so that the bound is on records, not on the share of all secrets."
                );
                page.answer(Section::facts("", facts))
                    .answer(Section::text("", std::iter::once(kept).chain(next)))
                    .answer(Section::text("", [how]).called("what the bounds count"))
            }
            None => page.answer(Section::text(
                "",
                [
                    "No record of the sample introduces a secret, that is, is known to be the first of the corpus with it: \
                    nothing can be said about what is missed; draw a larger sample.".to_owned(),
                    kept,
                ]
                .into_iter()
                .chain(next),
            )),
        };
        page = page
            .answer(Section::text("", how_drawn(header)).called("how the sample was drawn"))
            .section(Section::table(
                format!("By kind; each bound holds with {percent} % confidence by itself"),
                self.by_kind(),
            ))
            .section(Section::table("What the policy found", self.by_span()));
        if self.kinds.values().any(|row| row.caught < row.covered) {
            page = page.answer(Section::text("", [TRACES]));
        }
        if self.near > 0 {
            page = page.answer(Section::text(
                "",
                [format!(
                    "Near the threshold: a missed secret in {} of {}. They were not drawn at random and bound nothing.",
                    grouped(self.near_missed),
                    count_of(self.near, "record")
                )],
            ));
        }
        if let Some(rate) = &self.missing_rate {
            page = page.answer(rate.to_section());
        }
        page
    }

    fn by_kind(&self) -> Table {
        Table::of(&self.kinds)
            .left("kind", |(kind, _)| kind)
            .right("records", |(_, row)| grouped(row.records))
            .right("missed", |(_, row)| grouped(row.missed))
            .right("gamma at most", |(_, row)| rounded(row.gamma, 4))
            .right("by both", |(_, row)| {
                row.missed_by_both.map_or_else(String::new, grouped)
            })
            .right("eta at most", |(_, row)| {
                row.eta.map_or_else(String::new, |eta| rounded(eta, 4))
            })
            .right("places", |(_, row)| grouped(row.secrets))
            .right("covered", |(_, row)| grouped(row.covered))
            .right("recall", |(_, row)| nearest(row.recall, 4))
            .right("nothing left", |(_, row)| nearest(row.nothing_left, 4))
            .into()
    }

    fn by_span(&self) -> Table {
        Table::of(&self.found)
            .left("kind", |(kind, _)| kind)
            .right("spans", |(_, row)| grouped(row.spans))
            .right("right", |(_, row)| grouped(row.right))
            .right("precision", |(_, row)| nearest(row.precision, 4))
            .right("records", |(_, row)| grouped(row.records))
            .right("all right", |(_, row)| grouped(row.records_right))
            .right("share at least", |(_, row)| {
                rounded(row.records_all_right, 4)
            })
            .into()
    }
}

impl MissingRate {
    fn to_section(&self) -> Section {
        let (low, high) = (nearest(*self.low.get(), 4), nearest(*self.high.get(), 4));
        let facts = [
            ("missed words over all words, m", format!("{low} to {high}")),
            (
                "redacted words over all words, Pct",
                nearest(self.redacted, 4),
            ),
            (
                "recall, 1 - m/Pct",
                format!(
                    "{} to {}",
                    nearest(*self.recall_low.get(), 4),
                    nearest(*self.recall_high.get(), 4)
                ),
            ),
            (
                "for audit train --recipe jft",
                format!("--token-miss {low},{high}"),
            ),
        ];
        Section::facts(
            "JFT's estimate (ten samples, Student's 95 % interval, 0 to 1 where all are equal; no bound)",
            facts.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        )
    }
}
