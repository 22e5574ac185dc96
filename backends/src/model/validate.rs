//! Bounds on an untrusted shape.

use super::in_range;
use super::rotary::{Rotary, RotaryScaling};
use super::transformer::{Additions, AttentionBias, Family, Head, TransformerConfig};
use crate::error::{Error, Result};

/// Most parameters of a model: 16 GiB of f32.
const MOST_PARAMETERS: u128 = 1 << 32;

impl TransformerConfig {
    /// Checks every size and number, and that they fit the family, so that a checkpoint from
    /// elsewhere can't ask for all memory.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a number outside its range; [`Error::Unsuitable`] for a switch
    /// that the family does not have.
    pub fn validated(self) -> Result<Self> {
        self.sizes()?;
        self.numbers()?;
        self.shape()?;
        self.switches()?;
        let count = self.parameter_count();
        if count > MOST_PARAMETERS {
            return Err(Error::OutOfRange {
                what: "number of parameters",
                range: "[1, 4294967296]",
                value: count as f64,
            });
        }
        Ok(self)
    }

    fn sizes(&self) -> Result<()> {
        let vocabulary = self.vocabulary;
        in_range("vocabulary size", vocabulary, 2, 1 << 20, "[2, 1048576]")?;
        in_range("width", self.width, 1, 1 << 14, "[1, 16384]")?;
        in_range("number of layers", self.layers, 1, 256, "[1, 256]")?;
        in_range("number of heads", self.heads, 1, 1024, "[1, 1024]")?;
        in_range(
            "number of key-value heads",
            self.key_value_heads,
            1,
            1024,
            "[1, 1024]",
        )?;
        in_range("head width", self.head_width, 1, 1024, "[1, 1024]")?;
        in_range(
            "feed-forward width",
            self.feed_forward,
            1,
            1 << 17,
            "[1, 131072]",
        )?;
        in_range(
            "number of positions",
            self.positions,
            1,
            1 << 20,
            "[1, 1048576]",
        )?;
        in_range(
            "number of token types",
            self.token_types,
            0,
            1 << 10,
            "[0, 1024]",
        )?;
        if let Head::Classes(classes) = self.head {
            in_range("number of classes", classes, 1, 1 << 16, "[1, 65536]")?;
        }
        if let Some(window) = self.sliding_window {
            in_range("sliding window", window, 1, 1 << 20, "[1, 1048576]")?;
        }
        Ok(())
    }

    fn numbers(&self) -> Result<()> {
        number("norm epsilon", self.norm_epsilon, 0.0, 1.0, "[0, 1]")?;
        let range = "[0.000001, 1000000]";
        for (what, value) in [
            ("query scalar", self.query_scalar),
            ("attention soft cap", self.attention_cap),
            ("logit soft cap", self.logit_cap),
        ] {
            number(what, value.unwrap_or(1.0), 1e-6, 1e6, range)?;
        }
        self.rotary.as_ref().map_or(Ok(()), rotary)
    }

    /// Relations between sizes.
    fn shape(&self) -> Result<()> {
        let fits = |holds: bool, why: String| {
            if holds {
                Ok(())
            } else {
                Err(Error::Unsuitable(why))
            }
        };
        let (heads, key_value) = (self.heads, self.key_value_heads);
        fits(
            heads.is_multiple_of(key_value),
            format!("{heads} heads are no multiple of {key_value} key-value heads"),
        )?;
        fits(
            self.rotary.is_none() || self.head_width.is_multiple_of(2),
            format!(
                "rotary positions need an even head width, got {}",
                self.head_width
            ),
        )?;
        let grouped = matches!(self.family, Family::Llama | Family::Gemma2);
        fits(
            grouped || (heads == key_value && self.query_width() == self.width),
            format!(
                "{:?} needs heads × head width = width, and as many key-value heads as heads; \
                 got {heads} × {}, width {}, {key_value} key-value heads",
                self.family, self.head_width, self.width
            ),
        )?;
        fits(
            self.longest() > 0,
            format!(
                "{} positions leave none after the padding id",
                self.positions
            ),
        )
    }

    /// Switches that only some families have.
    fn switches(&self) -> Result<()> {
        let gemma = self.family == Family::Gemma2;
        let encoder = !self.causal();
        let rotary = matches!(self.family, Family::Llama | Family::Gemma2);
        let rules = [
            ("rotary positions", self.rotary.is_some(), rotary, !rotary),
            ("a query scalar", self.query_scalar.is_some(), false, !gemma),
            (
                "soft caps",
                self.attention_cap.is_some() || self.logit_cap.is_some(),
                false,
                !gemma,
            ),
            (
                "a sliding window",
                self.sliding_window.is_some(),
                false,
                !rotary,
            ),
            (
                "additions",
                !self.additions.is_none(),
                false,
                self.family != Family::Llama,
            ),
            ("token types", self.token_types > 0, encoder, !encoder),
            (
                "a padding id",
                self.padding.is_some(),
                self.family == Family::Roberta,
                self.family != Family::Roberta,
            ),
            (
                "a next-token head",
                self.head == Head::NextToken,
                !encoder,
                encoder,
            ),
        ];
        for (what, there, needed, forbidden) in rules {
            if (there && forbidden) || (!there && needed) {
                let verb = if there { "has no" } else { "needs" };
                return Err(Error::Unsuitable(format!(
                    "{:?} {verb} {what}",
                    self.family
                )));
            }
        }
        self.together()
    }

    /// Additions and windows that no `config.json` has together.
    fn together(&self) -> Result<()> {
        let Additions {
            attention_bias,
            feed_forward_bias,
            head_norms,
        } = self.additions;
        let inner = attention_bias == AttentionBias::Inner;
        let window = self.family == Family::Llama && self.sliding_window.is_some();
        let rules = [
            (
                window && !self.additions.is_none(),
                "a sliding window and additions",
            ),
            (
                head_norms && feed_forward_bias,
                "norms of heads and biases of the feed-forward part",
            ),
            (
                inner && (head_norms || feed_forward_bias),
                "biases of queries, keys and values alone and other additions",
            ),
        ];
        match rules.iter().find(|(both, _)| *both) {
            Some((_, what)) => Err(Error::Unsuitable(format!("no model has {what} together"))),
            None => Ok(()),
        }
    }

    /// Number of parameters, without laying them out.
    fn parameter_count(&self) -> u128 {
        let [v, d, f] = [self.vocabulary, self.width, self.feed_forward].map(|n| n as u128);
        let attention = (2 * self.query_width() + 2 * self.key_value_width()) as u128;
        let layer =
            d * (attention + 3 * f + 16) + 4 * attention + 4 * f + 2 * self.head_width as u128;
        let tables = d * (2 * v + (self.positions + self.token_types) as u128);
        self.layers as u128 * layer + tables + d * (d + 8) + v
    }
}

fn rotary(rotary: &Rotary) -> Result<()> {
    number("rotary theta", rotary.theta, 1.0, 1e12, "[1, 1e12]")?;
    let positive = |what, value| number(what, value, 1e-6, 1e9, "[0.000001, 1e9]");
    match rotary.scaling {
        None => Ok(()),
        Some(RotaryScaling::Linear { factor }) => positive("rotary factor", factor),
        Some(RotaryScaling::Llama3 {
            factor,
            low,
            high,
            original,
        }) => {
            positive("rotary factor", factor)?;
            positive("rotary low_freq_factor", low)?;
            positive("rotary high_freq_factor", high)?;
            positive("rotary original_max_position_embeddings", original)?;
            if low < high {
                Ok(())
            } else {
                Err(Error::Unsuitable(format!(
                    "rotary low_freq_factor {low} must lie below high_freq_factor {high}"
                )))
            }
        }
    }
}

/// An error unless the number lies in the range; NaN lies in none.
fn number(
    what: &'static str,
    value: f64,
    least: f64,
    most: f64,
    range: &'static str,
) -> Result<()> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(Error::OutOfRange { what, range, value })
    }
}
