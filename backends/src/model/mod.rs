//! Model architectures and starting weights, independent of any tensor library.

mod classes;
mod grow;
mod layout;
mod lora;
mod lstm;
mod rotary;
mod switches;
mod transformer;
mod validate;

pub use layout::{HeadLayout, HeadNormsAt, LayerLayout, Layout, LinearAt, NormAt};
pub(crate) use lora::LoraModule;
pub use lora::{Lora, LoraSpec};
pub use lstm::LstmConfig;
pub use rotary::{Rotary, RotaryScaling};
pub use switches::{Biases, HeadNorms, Multipliers, NormKind, NormPlace, Residual, Switches};
pub use transformer::{Activation, Family, Head, TransformerConfig};
pub(crate) use validate::checked_layers;

#[cfg(test)]
pub(crate) mod cases;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result, ranged};
use crate::trainer::Parameter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shape of any model we train or score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The papers' one-layer LSTM.
    Lstm(LstmConfig),
    /// A decoder or an encoder of the transformer families.
    Transformer(Box<TransformerConfig>),
}

impl Model {
    /// Checks the sizes, so that a foreign checkpoint can't exhaust the memory.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] or [`Error::Unsuitable`].
    pub fn validated(self) -> Result<Self> {
        match self {
            Self::Lstm(config) => Ok(Self::Lstm(config.validated()?)),
            Self::Transformer(config) => Ok(Self::Transformer(Box::new(config.validated()?))),
        }
    }

    /// Returns the parameters in checkpoint order.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        match self {
            Self::Lstm(config) => config.parameters(),
            Self::Transformer(config) => config.parameters(),
        }
    }

    /// Returns the clipping group of each parameter, numbered from 0 without gaps. The tensors of one layer (a weight
    /// and its bias, a gain and its bias) share a group.
    #[must_use]
    pub fn groups(&self) -> Vec<usize> {
        groups(&self.parameters())
    }

    /// Returns random starting weights that depend only on the seed.
    #[must_use]
    pub fn starting_weights(&self, seed: u64) -> Vec<Vec<f32>> {
        match self {
            Self::Lstm(config) => config.starting_weights(seed),
            Self::Transformer(config) => config.starting_weights(seed),
        }
    }

    /// Returns the number of tokens V.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        match self {
            Self::Lstm(config) => config.vocabulary,
            Self::Transformer(config) => config.vocabulary,
        }
    }

    /// Returns what the model predicts.
    #[must_use]
    pub fn head(&self) -> Head {
        match self {
            Self::Lstm(_) => Head::NextToken,
            Self::Transformer(config) => config.head,
        }
    }

    /// Checks that the model is a language model that predicts each token from those before it.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for an encoder or a classifier, naming which of the two it is.
    pub fn predicts_next_token(&self) -> Result<()> {
        match self.head() {
            Head::NextToken => Ok(()),
            Head::MaskedToken => Err(Error::Unsuitable(
                "this model predicts masked tokens, and no next token: it has no likelihood of a text".into(),
            )),
            Head::Classes(classes) => Err(Error::Unsuitable(format!(
                "this model tells {classes} classes of texts, and predicts no next token: it has no likelihood of a text"
            ))),
        }
    }

    /// Returns the longest sequence in tokens; an LSTM has no limit.
    #[must_use]
    pub fn context(&self) -> Option<usize> {
        match self {
            Self::Lstm(_) => None,
            Self::Transformer(config) => Some(config.longest()),
        }
    }
}

impl From<LstmConfig> for Model {
    fn from(config: LstmConfig) -> Self {
        Self::Lstm(config)
    }
}

impl From<TransformerConfig> for Model {
    fn from(config: TransformerConfig) -> Self {
        Self::Transformer(Box::new(config))
    }
}

/// Like [`Model::groups`], for any parameters.
pub(crate) fn groups(parameters: &[Parameter]) -> Vec<usize> {
    let layer = |i: usize| parameters[i].name.rsplit_once('.').map(|(layer, _)| layer);
    let mut groups = Vec::with_capacity(parameters.len());
    for i in 0..parameters.len() {
        let last = groups.last().copied();
        groups.push(match last {
            None => 0,
            Some(group) if layer(i) == layer(i - 1) => group,
            Some(group) => group + 1,
        });
    }
    groups
}

/// Returns an error unless `value` lies between `least` and `most`.
pub(crate) fn in_range(
    what: &'static str,
    value: usize,
    least: usize,
    most: usize,
    range: &'static str,
) -> Result<()> {
    ranged(what, range, value as f64, (least..=most).contains(&value))
}
