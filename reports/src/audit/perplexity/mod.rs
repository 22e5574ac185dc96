//! The report of `audit perplexity`: the perplexity and its distribution over the records.

pub mod args;
#[cfg(feature = "audit")]
pub(super) mod run;

use super::unknown::Characters;
use crate::contract::Table;
use crate::number::{count_of, grouped, nearest};
use crate::page::{Page, Section};
use crate::plot::{Axis, Layer, Plot, Tone};
use anyhow::Result;
use reticent_attacks::{Perplexity, RecordCost};
use reticent_corpus::Unit;
use schemars::JsonSchema;
use serde::Serialize;

/// The shares of records in [`PerplexityReport::spread`].
const SHARES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// The result of `audit perplexity`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PerplexityReport {
    /// exp(mean NLL) over all tokens but the first of each record.
    pub perplexity: f64,
    /// Of an encoder: pseudo-perplexity, of each token masked in turn and given all others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
    /// Tokens scored.
    pub tokens: u64,
    /// The text's characters.
    #[serde(flatten)]
    pub characters: Characters,
    /// Records of the text.
    pub records: u64,
    /// Records longer than the model reads at once, scored in windows.
    #[serde(skip_serializing_if = "crate::contract::is_zero")]
    pub cut: u64,
    /// What one record is.
    pub unit: Unit,
    /// How it is spread over what was scored at once: records, or their windows.
    pub spread: Vec<Share>,
    /// The perplexity of each, rising.
    #[serde(skip)]
    each: Vec<f64>,
}

/// A point of the spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    /// This share of the records has…
    pub share: f64,
    /// …at most this perplexity.
    pub perplexity: f64,
}

impl PerplexityReport {
    /// Creates the report from the measurements on records, of which some were cut into windows.
    #[must_use]
    pub fn new(measured: &Perplexity, records: u64, cut: u64, unit: Unit) -> Self {
        let scored = measured.records.iter().filter(|cost| cost.tokens > 0);
        let own = |cost: &RecordCost| (cost.nll / cost.tokens as f64).exp();
        let mut each: Vec<f64> = scored.map(own).collect();
        each.sort_by(f64::total_cmp);
        // The least value that this share does not exceed.
        let at = |share: f64| (share * each.len() as f64).ceil().max(1.0) as usize - 1;
        let spread = SHARES.iter().filter_map(|&share| {
            let perplexity = *each.get(at(share))?;
            Some(Share { share, perplexity })
        });
        Self {
            perplexity: measured.perplexity,
            masked: false,
            tokens: measured.tokens,
            characters: Characters::default(),
            records,
            cut,
            unit,
            spread: spread.collect(),
            each,
        }
    }

    /// The result in a sentence.
    #[must_use]
    pub fn says(&self, context: Option<usize>) -> String {
        let windows = match (self.cut, context) {
            (0, _) | (_, None) => String::new(),
            (_, Some(context)) => format!(
                "; {} of them longer than {context} tokens, scored in windows{}",
                grouped(self.cut),
                if self.masked {
                    ""
                } else {
                    " that overlap by one"
                }
            ),
        };
        let name = match self.masked {
            true => "Pseudo-perplexity (each token masked in turn)",
            false => "Perplexity",
        };
        let unknown = self.characters.says().map_or_else(String::new, |said| {
            format!(" {said}: this is no perplexity of the text itself, which is higher.")
        });
        format!(
            "{name} {} per token over {} in {}{windows} (unit: {}; the text as it stands, nothing redacted).{unknown}",
            nearest(self.perplexity, 4),
            count_of(self.tokens, "token"),
            count_of(self.records, "record"),
            self.unit,
        )
    }

    /// Returns the page.
    ///
    /// # Errors
    /// Returns an error if the plot can't be drawn.
    pub fn to_page(&self, released: &str, context: Option<usize>) -> Result<Page> {
        let summary = self.says(context);
        let table = Table::of(&self.spread)
            .left("share of records", |point| {
                format!("{} %", (point.share * 100.0).round())
            })
            .right("perplexity at most", |point| nearest(point.perplexity, 4));
        let table = Section::table("Record by record, in numbers", table)
            .caption("A record that was cut counts by its windows.");
        let per_token = match self.masked {
            true => {
                "It is no likelihood of a text: a masked token is predicted from the words on both sides. Models that predict \
                 the next token, and models with other tokenizers, cannot be compared by it."
            }
            false => "It is per token: models with different tokenizers cannot be compared by it.",
        };
        let not_said = [
            per_token,
            "A low perplexity on the training text is no proof of a leak; audit membership \
            compares it with text that was not trained on.",
        ];
        let mut page = Page::new(format!("Perplexity: {released}"), summary.clone());
        // An axis shows finite values alone.
        if self.each.iter().any(|perplexity| perplexity.is_finite()) {
            let plot = Section::plot("Record by record", self.plot().to_inline_svg()?);
            page = page.section(plot.caption(
                "The share of records with at most this perplexity. Records far to the left of all \
                others are known by heart, or say little.",
            ));
        }
        Ok(page
            .section(table)
            .card(summary)
            .section(Section::notes("What this number does not say", not_said)))
    }

    fn plot(&self) -> Plot {
        let all = self.each.len().max(1) as f64;
        let points = self.each.iter().enumerate();
        let points = points.map(|(index, value)| (*value, (index + 1) as f64 / all));
        let points: Vec<_> = points.collect();
        Plot::new(
            "How well each record is predicted",
            Axis::log("perplexity of the record"),
            Axis::linear("share of records").between(0.0, 1.0),
        )
        .layer(Layer::steps("records", &points, Tone::MEASURED))
        .layer(Layer::dashes(
            "the whole text",
            [(self.perplexity, 0.0), (self.perplexity, 1.0)],
            Tone::Muted,
        ))
        .described(format!(
            "{}; half of them have at most {}.",
            count_of(self.each.len() as u64, "record"),
            nearest(self.spread.get(2).map_or(f64::NAN, |s| s.perplexity), 3)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Envelope, Inputs};
    use crate::schema::fits;

    fn report() -> PerplexityReport {
        let cost = |nll: f64| RecordCost { nll, tokens: 2 };
        let measured = Perplexity {
            perplexity: 4.0,
            mean_nll: 4_f64.ln(),
            tokens: 8,
            records: vec![
                cost(2.0 * 8_f64.ln()),
                cost(2.0 * 2_f64.ln()),
                cost(2.0 * 4_f64.ln()),
                cost(2.0 * 4_f64.ln()),
                RecordCost {
                    nll: 0.0,
                    tokens: 0,
                },
            ],
        };
        PerplexityReport::new(&measured, 5, 1, Unit::Turn)
    }

    /// A text of which the model sees little flatters it.
    #[test]
    fn characters_outside_the_vocabulary_are_reported() {
        assert!(!report().says(None).contains("<UNK>"));
        let report = PerplexityReport {
            characters: Characters {
                characters: 8,
                unknown_characters: 6,
            },
            ..report()
        };
        let said = report.says(None);
        assert!(
            said.contains("75.0 % of the characters are outside the vocabulary")
                && said.contains("<UNK>"),
            "{said}"
        );
        let text = Envelope::new("perplexity", Inputs::new(), &report)
            .to_text()
            .unwrap();
        assert!(text.contains("\"unknown_characters\": 6"), "{text}");
    }

    #[test]
    fn the_spread_is_that_of_the_scored_records() {
        let found: Vec<(f64, f64)> = report()
            .spread
            .iter()
            .map(|s| (s.share, s.perplexity))
            .collect();
        let wanted = [
            (0.05, 2.0),
            (0.25, 2.0),
            (0.5, 4.0),
            (0.75, 4.0),
            (0.95, 8.0),
        ];
        for ((share, value), (at, expected)) in found.iter().zip(wanted) {
            assert!(
                (share - at).abs() < 1e-12 && (value - expected).abs() < 1e-9,
                "{found:?}"
            );
        }
    }

    #[test]
    fn text_document_and_page_say_the_same_number() {
        let report = report();
        assert!(
            report
                .says(Some(64))
                .starts_with("Perplexity 4.000 per token over 8 tokens")
        );
        let html = report.to_page("ckpt", Some(64)).unwrap().to_html().unwrap();
        assert!(html.contains("Perplexity 4.000 per token") && html.contains("<svg"));
        let text = Envelope::new("perplexity", Inputs::new(), &report)
            .to_text()
            .unwrap();
        fits("perplexity", &text);
    }
    /// A model that rules a token out makes its record infinitely perplexing: an answer, also where no record has
    /// another.
    #[test]
    fn infinite_perplexities_are_reported() {
        for (finite, plotted) in [(0, false), (1, true)] {
            let cost = |nll: f64| RecordCost { nll, tokens: 2 };
            let records = vec![cost(1.0); finite];
            let measured = Perplexity {
                perplexity: f64::INFINITY,
                mean_nll: f64::INFINITY,
                tokens: 2 + 2 * finite as u64,
                records: records.into_iter().chain([cost(f64::INFINITY)]).collect(),
            };
            let report = PerplexityReport::new(&measured, 1 + finite as u64, 0, Unit::Turn);
            let html = report.to_page("m", None).unwrap().to_html().unwrap();
            assert!(html.contains("Perplexity ∞ per token"), "{html}");
            assert_eq!(html.contains("<svg"), plotted, "{finite}");
            let text = Envelope::new("perplexity", Inputs::new(), &report)
                .to_text()
                .unwrap();
            fits("perplexity", &text);
        }
    }
}
