//! Checks the bounds of an untrusted architecture.

use super::in_range;
use super::rotary::{Rotary, RotaryScaling};
use super::switches::{HeadNorms, Multipliers, NormKind, NormPlace, Residual};
use super::transformer::{Head, TransformerConfig};
use crate::error::{Error, Result, ranged};

/// Maximum number of parameters of a model: 16 GiB of f32.
const MOST_PARAMETERS: u128 = 1 << 32;

impl TransformerConfig {
    /// Checks every size and number, and that they are consistent, so that a foreign checkpoint can't exhaust the
    /// memory; and that the family's `config.json` can express them.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for a number outside its range; [`Error::Unsuitable`] for a switch that the family
    /// does not have.
    pub fn validated(self) -> Result<Self> {
        let checked = self.checked()?;
        crate::hugging_face::expressible(&checked)?;
        Ok(checked)
    }

    /// Checks everything except whether the family's `config.json` can express it.
    pub(crate) fn checked(self) -> Result<Self> {
        self.sizes()?;
        self.numbers()?;
        self.shape()?;
        self.switches()?;
        let count = self.parameter_count();
        let (number, range) = ("number of parameters", "[1, 4294967296]");
        ranged(number, range, count as f64, count <= MOST_PARAMETERS)?;
        Ok(self)
    }

    fn sizes(&self) -> Result<()> {
        let vocabulary = self.vocabulary;
        in_range("vocabulary size", vocabulary, 2, 1 << 20, "[2, 1048576]")?;
        in_range("width", self.width, 1, 1 << 14, "[1, 16384]")?;
        checked_layers(self.layers)?;
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
        if let Some(padding) = self.padding.filter(|p| *p as usize >= self.vocabulary) {
            return Err(Error::UnknownToken {
                token: padding,
                size: self.vocabulary,
            });
        }
        let classes = match self.head {
            Head::Classes(classes) => classes,
            _ => 0,
        };
        if !self.class_names.is_empty() && self.class_names.len() != classes {
            return Err(Error::Unsuitable(format!(
                "names must be given for each of {classes} classes, got {}",
                self.class_names.len()
            )));
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
        let Multipliers {
            embedding,
            attention,
            residual,
            logits,
        } = self.switches.multipliers;
        for (what, value) in [
            ("embedding multiplier", embedding),
            ("attention multiplier", attention.unwrap_or(1.0)),
            ("residual multiplier", residual),
            ("logits scaling", logits),
        ] {
            number(what, value, 1e-6, 1e6, range)?;
        }
        self.rotary.as_ref().map_or(Ok(()), rotary)
    }

    /// Checks relations between sizes.
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
        let turned = self
            .rotary
            .as_ref()
            .map_or(2, |r| r.turned(self.head_width));
        fits(
            turned.is_multiple_of(2) && turned > 0,
            format!("rotary positions need an even head width, got {turned}"),
        )?;
        fits(
            self.rotary.is_none() || turned <= self.head_width,
            format!(
                "rotary positions turn {turned} values of heads that have {}",
                self.head_width
            ),
        )?;
        fits(
            self.longest() > 0,
            format!(
                "{} positions leave none after the padding id and the offset",
                self.positions
            ),
        )
    }

    /// Checks for switches that exclude each other.
    fn switches(&self) -> Result<()> {
        let s = &self.switches;
        let encoder = !s.causal;
        let listed = |layers: &[usize]| {
            layers.windows(2).all(|pair| pair[0] < pair[1])
                && layers.last().is_none_or(|last| *last < self.layers)
        };
        let sliding = s.sliding_layers.as_deref().unwrap_or_default();
        let side_by_side = s.residual != Residual::InTurn;
        let layer_norms = s.norm == NormKind::Layer;
        let rules = [
            (
                encoder != (s.norm_place == NormPlace::After),
                "norms after the sum belong to encoders, and to them alone",
            ),
            (
                match self.head {
                    Head::NextToken => encoder,
                    Head::MaskedToken => !encoder,
                    Head::Classes(_) => false,
                },
                "decoders predict the next token, and encoders masked ones; both classes",
            ),
            (
                self.token_types > 0 && !encoder,
                "a decoder has no token types",
            ),
            (
                self.padding.is_some() && !encoder && !matches!(self.head, Head::Classes(_)),
                "a decoder asks for a padding id only where it tells classes",
            ),
            (
                self.rotary.is_some() && (encoder || s.position_offset > 0),
                "rotary positions belong to decoders without an offset of positions",
            ),
            (
                self.rotary.is_none() && !s.unturned_layers.is_empty(),
                "layers without rotary positions need others that have them",
            ),
            (
                encoder && self.sliding_window.is_some(),
                "an encoder has no sliding window",
            ),
            (
                !listed(sliding) || !listed(&s.unturned_layers),
                "layers are listed in ascending order, each below their number",
            ),
            (
                side_by_side && s.norm_place != NormPlace::Before,
                "parts of a layer side by side have their norms before them",
            ),
            (
                s.head_norms != HeadNorms::None && layer_norms,
                "norms of queries and keys have no biases, so they are not layer norms",
            ),
            (
                s.biases.head && s.multipliers.logits.total_cmp(&1.0).is_ne(),
                "logits with a bias are not divided",
            ),
            (
                s.biases.head && (self.tied || encoder),
                "a head with a bias has a matrix of its own",
            ),
        ];
        match rules.iter().find(|(broken, _)| *broken) {
            Some((_, rule)) => Err(Error::Unsuitable(format!("{:?}: {rule}", self.family))),
            None => Ok(()),
        }
    }

    /// Returns the number of parameters without building the layout.
    fn parameter_count(&self) -> u128 {
        let [v, d, f] = [self.vocabulary, self.width, self.feed_forward].map(|n| n as u128);
        let attention = (2 * self.query_width() + 2 * self.key_value_width()) as u128;
        let layer = d * (attention + 3 * f + 16) + 6 * attention + 4 * f;
        let tables = d * (2 * v + (self.positions + self.token_types) as u128);
        self.layers as u128 * layer + tables + d * (d + 8) + 2 * v
    }
}

/// Checks a number of layers. Of an untrusted one this comes before anything else: lists by layer are as long.
pub(crate) fn checked_layers(layers: usize) -> Result<usize> {
    in_range("number of layers", layers, 1, 256, "[1, 256]")?;
    Ok(layers)
}

fn rotary(rotary: &Rotary) -> Result<()> {
    for theta in [Some(rotary.theta), rotary.local_theta]
        .into_iter()
        .flatten()
    {
        number("rotary theta", theta, 1.0, 1e12, "[1, 1e12]")?;
    }
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

/// Returns an error unless the number lies in the range; NaN lies in none.
fn number(
    what: &'static str,
    value: f64,
    least: f64,
    most: f64,
    range: &'static str,
) -> Result<()> {
    ranged(what, range, value, (least..=most).contains(&value))
}
