//! The extraction report as a page.

use super::ExtractReport;
use super::tables::{beside_baseline, copies, draws, draws_by_copies, own_rates, says};
use crate::contract::{Exit, kept};
use crate::number::{count_of, shortest};
use crate::page::{Page, Section};
use crate::plot::{Axis, Measured, Plot};
use anyhow::Result;

impl ExtractReport {
    /// Returns the page, for every format.
    ///
    /// # Errors
    /// Returns an error if a plot has nothing to show.
    pub fn to_page(&self, released: &str, limit: Option<f64>) -> Result<Page> {
        let mut summary = match (&self.secrets, self.passages) {
            (Some(secrets), 0) => secrets.says(),
            (Some(secrets), _) => format!("{} {}", says(self), secrets.says()),
            (None, _) => says(self),
        };
        if let (Some(needed), false) = (self.passages_needed(), self.comes_out()) {
            summary.push_str(&format!(
                " So few passages can show no memory, whatever comes out: {needed} are needed at least."
            ));
        }
        let above = limit.and_then(|limit| Some((limit, self.above(limit)?.prompt)));
        if let Some((limit, prompt)) = above {
            summary = format!(
                "The rate after {prompt}-token prompts is certainly above the limit of {limit} (--max-rate). {summary}"
            );
        }
        match limit {
            Some(limit) if !self.decides(limit) => summary.push_str(&format!(
                " So few passages can't exceed the limit of {limit}, whatever comes out."
            )),
            Some(limit) if self.exit(Some(limit)) == Exit::Finished && self.passages > 0 => {
                summary.push_str(&kept("--max-rate", "rate", limit));
            }
            _ => {}
        }
        let mut page =
            Page::new(format!("Extraction: {released}"), summary.clone()).mood(self.mood(limit));
        if self.passages > 0 {
            let strata = copies(self);
            if !strata.rows().is_empty() {
                page = page
                    .section(
                        Section::plot("By number of copies", by_copies(self).to_inline_svg()?)
                            .caption(
                                "Dots: the share that is reproduced verbatim, beyond the baseline \
                        where there is one. Bars: its interval. Repetition decides what is \
                        remembered.",
                            ),
                    )
                    .section(
                        Section::table("By number of copies, in numbers", strata).caption(
                            "After the longest prompt; how often the suffix occurs in the text.",
                        ),
                    );
            }
            let rates = Section::table("By length of prompt", own_rates(self))
                .caption("Greedy decoding gives the suffix token by token.");
            // The table beside the baseline has them too.
            page = match self.baseline {
                true => page.section(rates),
                false => page.answer(rates),
            };
            page = page
                .answer(Section::text(
                    "Passages",
                    [format!(
                        "{}, suffixes of {} tokens{}.{} Each interval holds with probability {}.",
                        count_of(self.passages, "passage"),
                        self.suffix,
                        self.context.map_or_else(String::new, |context| format!(
                            " (the model reads {context} tokens at once: the usual prompts of 10, 25, 50 and 100 tokens and suffixes of 50 are shortened)"
                        )),
                        self.merged.says(),
                        shortest(self.confidence.get())
                    )],
                ));
            if self.baseline {
                page = page.answer(
                    Section::table("Beside the baseline", beside_baseline(self)).caption(
                        "p: McNemar's exact test, for each length by itself; the sentence above \
                    shares 5 % among them.",
                    ),
                );
            }
            page = page
                .section(Section::table("By sampling", draws(self)).caption(
                    "Passages that come up at least once with probability one half in so many draws.",
                ))
                .section(
                    Section::table("By sampling and number of copies", draws_by_copies(self))
                        .caption("After the longest prompt; how often the suffix occurs in the text."),
                );
        }
        if let Some(secrets) = &self.secrets {
            page = page.answer(Section::text("Candidates of the secrets", secrets.origin()));
        }
        page = page
            .card(summary)
            .caveats([
                "They speak of the prompts that were tried. Other prompts, or other \
                    continuations of the same text, may bring out more.",
                "A passage that is not reproduced verbatim may still be paraphrased.",
                "Without a baseline that never saw the text, predictable continuations count as memorised.",
                "A model fine-tuned on similar text continues better than the baseline even where it memorised nothing: measure held-out text of the same kind to see by how much.",
            ]);
        Ok(page)
    }
}

fn by_copies(report: &ExtractReport) -> Plot {
    let longest = report.prompts.iter().max_by_key(|p| p.prompt);
    let strata = longest.map_or(&[][..], |row| &row.strata);
    let names = strata.iter().map(|s| crate::audit::copies(s.from, s.to));
    let rows: Vec<Measured> = strata
        .iter()
        .map(|stratum| {
            let (low, high) = crate::audit::ends(&stratum.beyond_baseline.bounds);
            Measured {
                estimate: stratum.beyond_baseline.estimate,
                lower: Some(low),
                upper: Some(high),
            }
        })
        .collect();
    Plot::of_rows(
        "What is reproduced verbatim, by number of copies in the text",
        Axis::linear("share of passages").between(0.0, 1.0),
        ("copies", names),
        (120, 34),
    )
    .measured(&rows)
    .described("Share of passages that are reproduced verbatim, by number of copies.")
}
