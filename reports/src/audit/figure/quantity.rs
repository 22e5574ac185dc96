//! The quantities that a figure reads from documents.

use crate::audit::diff::{CUT_OFF, got, is_cut_off};
use crate::number::{nearest, rounded_down, rounded_up};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde_json::Value;
use std::convert::Infallible;
use std::str::FromStr;

/// A quantity of the figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quantity {
    /// A quantity that audits measure.
    Known(Known),
    /// The number at a path: keys and indices with dots between them.
    At(String),
}

/// The quantities that audits measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Known {
    /// The largest exposure, in bits.
    Exposure,
    /// The mean exposure, in bits.
    ExposureMean,
    /// The lower bound on ε.
    Epsilon,
    /// The area under the ROC curve of membership inference.
    Auc,
    /// The accuracy of membership inference.
    Accuracy,
    /// The perplexity.
    Perplexity,
    /// The share of a private batch whose gradients were clipped, in a log.
    ClippedShare,
}

impl Known {
    const fn label(self) -> &'static str {
        match self {
            Self::Exposure => "largest exposure (bits)",
            Self::ExposureMean => "mean exposure (bits)",
            Self::Epsilon => "ε at least",
            Self::Auc => "area under the ROC curve",
            Self::Accuracy => "accuracy of membership inference",
            Self::Perplexity => "perplexity",
            Self::ClippedShare => "share of a batch that was clipped",
        }
    }
    /// Returns the part of an `audit report` or of a grid cell that holds the quantity, and its
    /// path there.
    const fn place(self) -> (Option<&'static str>, &'static str) {
        match self {
            Self::Exposure => (Some("exposure"), "summary.max"),
            Self::ExposureMean => (Some("exposure"), "summary.mean"),
            Self::Epsilon => (Some("exposure"), "epsilon.lower"),
            Self::Auc => (Some("membership"), "area.estimate"),
            Self::Accuracy => (Some("membership"), "accuracy.estimate"),
            Self::Perplexity => (Some("perplexity"), "perplexity"),
            Self::ClippedShare => (None, "clipped"),
        }
    }
}

impl FromStr for Quantity {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let known = <Known as ValueEnum>::from_str(text, false);
        Ok(known.map_or_else(|_| Self::At(text.to_owned()), Self::Known))
    }
}

impl Quantity {
    /// Returns the label of its axis.
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::Known(known) => known.label(),
            Self::At(place) => place,
        }
    }

    /// Returns the last key of its path.
    fn key(&self) -> Option<&str> {
        let place = match self {
            Self::Known(known) => known.place().1,
            Self::At(place) => place,
        };
        place.rsplit('.').next()
    }

    /// Returns whether its values are bounds.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        matches!(
            self.key(),
            Some("lower" | "upper" | "headline" | "largest_epsilon" | "epsilon")
        )
    }

    /// Returns whether it is a setting in this document, and not measured. What a cell measured is in its stages' answers.
    pub(super) fn is_setting(&self, document: &Value) -> bool {
        let of_cell = |place: &str| document["type"] == "grid-cell" && !place.contains('.');
        matches!(self, Self::At(place) if place.starts_with("inputs.") || of_cell(place))
    }

    /// Formats a value with so many significant digits: a bound is rounded to its side, anything else to nearest.
    #[must_use]
    pub fn shown(&self, value: f64, digits: usize) -> String {
        match self.key() {
            Some("lower") => rounded_down(value, digits),
            // `headline` and the promises of runs and logs are upper bounds.
            _ if self.is_bound() => rounded_up(value, digits),
            _ => nearest(value, digits),
        }
    }

    /// Returns its value in a document; infinite if the document says so.
    ///
    /// # Errors
    /// Returns an error if the document doesn't hold the quantity, or holds something else in its
    /// place.
    pub fn of(&self, document: &Value) -> Result<f64> {
        if *self == Self::Known(Known::ClippedShare) {
            let count = |key: &str| Self::At(key.to_owned()).of(document);
            let (clipped, all) = (count("clipped")?, count("examples")?);
            ensure!(all > 0.0, "the batch is empty");
            return Ok(clipped / all);
        }
        let kind = document["type"].as_str().unwrap_or("unknown");
        let (document, place) = match self {
            Self::Known(known) => {
                let (part, place) = known.place();
                (inside(document, part), place)
            }
            Self::At(place) => (document, place.as_str()),
        };
        if let Self::Known(Known::Exposure | Known::ExposureMean) = self {
            ensure!(
                !is_cut_off(document),
                "exposures are known from below only: {CUT_OFF}"
            );
        }
        let value = walk(document, place)
            .with_context(|| format!("a document of type {kind} holds no {place}"))?;
        match value {
            Value::Number(number) => number.as_f64().context("a number beyond all sizes"),
            Value::String(text) if text == "inf" => Ok(f64::INFINITY),
            // What stands there may be private.
            other => bail!("{place} must be a number, got {}", got(other)),
        }
    }

    /// Returns its mean value if nothing leaked, as stated by the document or by theory.
    #[must_use]
    pub fn without_a_leak(&self, document: &Value) -> Option<f64> {
        let Self::Known(known) = self else {
            return None;
        };
        let document = inside(document, known.place().0);
        match known {
            Known::Exposure => walk(document, "summary.null_max_mean")?.as_f64(),
            Known::ExposureMean => walk(document, "summary.null_mean_mean")?.as_f64(),
            Known::Auc | Known::Accuracy => Some(0.5),
            // A lower bound that errs in one of twenty audits has no mean of 0, even without a leak.
            Known::Epsilon | Known::Perplexity | Known::ClippedShare => None,
        }
    }
}

/// Returns a part of an `audit report` or of a grid cell; any other document is that part itself.
fn inside<'a>(document: &'a Value, part: Option<&str>) -> &'a Value {
    match part {
        Some(part) if document["type"] == "report" || document["type"] == "grid-cell" => {
            &document[part]
        }
        _ => document,
    }
}

fn walk<'a>(document: &'a Value, place: &str) -> Option<&'a Value> {
    place
        .split('.')
        .try_fold(document, |value, key| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            Value::Object(entries) => entries.get(key),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(quantity: &str, document: &Value) -> Result<f64> {
        quantity.parse::<Quantity>().unwrap().of(document)
    }

    #[test]
    fn a_quantity_is_found_where_its_command_wrote_it() {
        let exposure =
            json!({"type": "exposure", "summary": {"max": 7.5, "mean": 2.0, "null_max_mean": 4.2}});
        assert!((of("exposure", &exposure).unwrap() - 7.5).abs() < 1e-12);
        assert!((of("summary.mean", &exposure).unwrap() - 2.0).abs() < 1e-12);
        let report = json!({"type": "report", "exposure": exposure});
        assert!((of("exposure-mean", &report).unwrap() - 2.0).abs() < 1e-12);
        let null = "exposure".parse::<Quantity>().unwrap();
        assert!((null.without_a_leak(&report).unwrap() - 4.2).abs() < 1e-12);
        let listed = json!({"type": "train", "promises": [{"epsilon": "inf"}]});
        assert!(of("promises.0.epsilon", &listed).unwrap().is_infinite());
    }

    #[test]
    fn a_bound_is_rounded_to_its_side() {
        for (quantity, value, shown) in [
            ("epsilon", 1.2349, "1.234"),
            ("coins.epsilon.lower", 1.2349, "1.234"),
            ("answer.upper", 1.2341, "1.235"),
            ("headline", 1.2341, "1.235"),
            ("promises.0.epsilon", 1.2341, "1.235"),
            ("exposure", 1.2349, "1.235"),
            ("auc", 1.2341, "1.234"),
            ("headline", f64::INFINITY, "∞"),
        ] {
            let found = quantity.parse::<Quantity>().unwrap().shown(value, 4);
            assert_eq!(found, shown, "{quantity}");
        }
    }

    #[test]
    fn what_a_document_does_not_hold_is_said() {
        let cut_off = json!({"type": "exposure", "summary": {"max": 0.0, "mean": 0.0},
            "canaries": [{"unresolved": 0}, {"unresolved": 3}]});
        assert!(
            of("exposure", &cut_off)
                .unwrap_err()
                .to_string()
                .contains(CUT_OFF)
        );
        assert!(of("summary.mean", &cut_off).is_ok());
        let document = json!({"type": "exposure", "summary": {"max": "high"}, "canaries": [{"secret": "4111"}]});
        for (quantity, says) in [
            ("perplexity", "holds no perplexity"),
            ("exposure", "summary.max must be a number, got a text"),
            ("summary.max.deep", "holds no summary.max.deep"),
            ("summary", "summary must be a number, got an object"),
            ("canaries", "canaries must be a number, got a list"),
        ] {
            let error = of(quantity, &document).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
