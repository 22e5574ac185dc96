//! The transformer families: one set of sizes and switches for decoders and encoders.

use super::layout::{Layout, Plan};
use super::rotary::Rotary;
use super::switches::{NormKind, NormPlace, Switches};
use crate::trainer::Parameter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An architecture of transformers, by its `model_type`. It decides which names a folder has and
/// the usual [`Switches`]; what the layers compute is decided by sizes, numbers and switches alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Decoder with learned positions (Radford et al. 2019).
    Gpt2,
    /// GPT-2 with one key-value head for all query heads (Ben Allal et al. 2023).
    GptBigcode,
    /// GPT-2 with windows in every other layer (Black et al. 2021).
    GptNeo,
    /// Both parts of a layer side by side, partly turned heads (Black et al. 2022).
    GptNeox,
    /// Learned positions from row 2 on (Zhang et al. 2022).
    Opt,
    /// Rotary positions and a gated feed-forward part (Touvron et al. 2023).
    Llama,
    /// Llama with a window (Jiang et al. 2023).
    Mistral,
    /// Llama with biases of queries, keys and values (Qwen team 2024).
    Qwen2,
    /// Llama with norms of query and key heads (Qwen team 2025).
    Qwen3,
    /// Gains counted from one, scaled embeddings (Gemma team 2024).
    Gemma,
    /// Gemma with norms on both sides, soft caps and windows (Gemma team 2024).
    Gemma2,
    /// Gemma 2 with norms of heads for caps and a rotary base for windows (Gemma team 2025).
    Gemma3,
    /// Both parts of a layer side by side behind one norm (Li et al. 2023).
    Phi,
    /// Llama with fused projections (Abdin et al. 2024).
    Phi3,
    /// Llama with norms behind each part and over all queries and keys (OLMo team 2025).
    Olmo2,
    /// Llama with multipliers (Granite team 2024).
    Granite,
    /// Llama with layers without positions (Bakouch et al. 2025).
    Smollm3,
    /// Layer norms, partly turned heads and a gated feed-forward part (Bellagente et al. 2024).
    Stablelm,
    /// Layer norms, rotary positions and shared key-value heads (Lozhkov et al. 2024).
    Starcoder2,
    /// Encoder with token types (Devlin et al. 2019).
    Bert,
    /// Encoder whose positions start after the padding id (Liu et al. 2019).
    Roberta,
}

/// The nonlinearity of the feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// x Φ(x), with the error function.
    Gelu,
    /// x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
    GeluTanh,
    /// x / (1 + e^(−x)).
    Silu,
    /// max(x, 0).
    Relu,
    /// x / (1 + e^(−1.702 x)).
    QuickGelu,
}

/// What stands on top of the last layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Head {
    /// Logits over the vocabulary for the next token (decoders).
    NextToken,
    /// Logits over the vocabulary for a masked token (encoders): transform, activation, norm, decoder.
    MaskedToken,
    /// Logits over so many classes of a whole sequence: of encoders from the first token (dense, tanh, output), of
    /// decoders from the last that is no padding (one matrix without a bias).
    Classes(usize),
}

/// A transformer's shape.
///
/// All linear weights are stored `[in, out]`, so that a layer computes x·W + b.
///
/// ```
/// use reticent_backends::model::{Family, TransformerConfig};
/// let config = TransformerConfig::new(Family::Gpt2, 100, 32, 2, 4, 64).validated()?;
/// let layout = config.layout();
/// let parameters = config.parameters();
/// let projection = &parameters[layout.layers[0].attention_in.weight];
/// assert_eq!(projection.name, "layers.0.attention.in.weight");
/// assert_eq!(projection.shape, [32, 96]); // query, key, value
/// # Ok::<(), reticent_backends::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// The architecture: the names that a folder has.
    pub family: Family,
    /// Number of tokens V.
    pub vocabulary: usize,
    /// Width d of the residual stream.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / key_value_heads` query heads in a row.
    pub key_value_heads: usize,
    /// Width of one head.
    pub head_width: usize,
    /// Width of the feed-forward part.
    pub feed_forward: usize,
    /// Rows of the position table, or the longest sequence with rotary positions.
    pub positions: usize,
    /// ε of the norms.
    pub norm_epsilon: f64,
    /// The nonlinearity of the feed-forward part.
    pub activation: Activation,
    /// Rotary positions; learned ones where absent.
    pub rotary: Option<Rotary>,
    /// Scores are divided by the square root of this; the head's width where absent, but for
    /// [`Multipliers::attention`](super::Multipliers::attention).
    pub query_scalar: Option<f64>,
    /// c in c·tanh(score / c).
    pub attention_cap: Option<f64>,
    /// c in c·tanh(logit / c).
    pub logit_cap: Option<f64>,
    /// Sliding layers ([`Switches::sliding_layers`]) see only so many last positions, their own included.
    pub sliding_window: Option<usize>,
    /// Rows of the token type table; 0 for none (BERT 2, RoBERTa 1).
    pub token_types: usize,
    /// The padding id: positions of RoBERTa are counted from it, and a decoder with classes reads the last token that
    /// is another.
    pub padding: Option<u32>,
    /// What stands on top.
    pub head: Head,
    /// The names of the classes of [`Head::Classes`]; empty where they are numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_names: Vec<String>,
    /// Whether the head's matrix is the token embedding.
    pub tied: bool,
    /// What the architecture decides besides sizes and numbers.
    pub switches: Switches,
}

impl TransformerConfig {
    /// Returns the family's usual numbers at these sizes: width d, layers, heads (as many for keys and values),
    /// positions. Encoders get the masked-token head.
    #[must_use]
    pub fn new(
        family: Family,
        vocabulary: usize,
        width: usize,
        layers: usize,
        heads: usize,
        positions: usize,
    ) -> Self {
        let encoder = matches!(family, Family::Bert | Family::Roberta);
        let gemma = matches!(family, Family::Gemma2 | Family::Gemma3);
        let capped = family == Family::Gemma2;
        let head_width = width / heads.max(1);
        let shared = family == Family::GptBigcode;
        Self {
            family,
            vocabulary,
            width,
            layers,
            heads,
            key_value_heads: if shared { 1 } else { heads },
            head_width,
            feed_forward: width.saturating_mul(4),
            positions,
            norm_epsilon: family.norm_epsilon(),
            activation: family.activation(),
            rotary: family.rotary(head_width),
            query_scalar: gemma.then_some(head_width as f64),
            attention_cap: capped.then_some(50.0),
            logit_cap: capped.then_some(30.0),
            sliding_window: (gemma || family == Family::GptNeo).then_some(positions.div_ceil(2)),
            token_types: match family {
                Family::Bert => 2,
                Family::Roberta => 1,
                _ => 0,
            },
            padding: (family == Family::Roberta).then_some(1),
            head: if encoder {
                Head::MaskedToken
            } else {
                Head::NextToken
            },
            class_names: Vec::new(),
            tied: family.tied(),
            switches: Switches::of(family, width, layers),
        }
    }

    /// Returns GPT-2 small with this vocabulary: 12 layers, 12 heads, width 768, 1024 positions.
    #[must_use]
    pub fn gpt2(vocabulary: usize) -> Self {
        Self::new(Family::Gpt2, vocabulary, 768, 12, 12, 1024)
    }

    /// Returns whether a position sees only itself and earlier positions.
    #[must_use]
    pub const fn causal(&self) -> bool {
        self.switches.causal
    }

    /// Returns how rows are normalised.
    #[must_use]
    pub const fn norm_kind(&self) -> NormKind {
        self.switches.norm
    }

    /// Returns where the norms stand.
    #[must_use]
    pub const fn norm_place(&self) -> NormPlace {
        self.switches.norm_place
    }

    /// Returns whether the feed-forward part is activation(x·W_gate) ∘ (x·W_up), then W_down. The first two matrices
    /// are stored side by side in one, the gate first.
    #[must_use]
    pub const fn gated(&self) -> bool {
        self.switches.gated
    }

    /// Returns the factor of the embedded tokens.
    #[must_use]
    pub const fn embedding_scale(&self) -> f64 {
        self.switches.multipliers.embedding
    }

    /// Returns the factor of attention scores.
    #[must_use]
    pub fn attention_scale(&self) -> f64 {
        let scalar = self.query_scalar.unwrap_or(self.head_width as f64);
        let usual = scalar.sqrt().recip();
        self.switches.multipliers.attention.unwrap_or(usual)
    }

    /// Returns how many last positions a layer sees, the current one included; `None` for all.
    #[must_use]
    pub fn window(&self, layer: usize) -> Option<usize> {
        self.sliding_window.filter(|_| self.switches.slides(layer))
    }

    /// The rotary positions of a layer, where it has any.
    #[must_use]
    pub fn rotary_of(&self, layer: usize) -> Option<Rotary> {
        let turned = !self.switches.unturned_layers.contains(&layer);
        let rotary = self.rotary.as_ref().filter(|_| turned)?;
        Some(rotary.of(self.switches.slides(layer)))
    }

    /// Returns whether a position of a layer attends to another.
    #[must_use]
    pub fn sees(&self, layer: usize, position: usize, other: usize) -> bool {
        if !self.causal() {
            return true;
        }
        other <= position
            && self
                .window(layer)
                .is_none_or(|window| position - other < window)
    }

    /// Width of all query heads side by side.
    #[must_use]
    pub const fn query_width(&self) -> usize {
        self.heads * self.head_width
    }

    /// Returns the width of all key heads (or of all value heads) side by side.
    #[must_use]
    pub const fn key_value_width(&self) -> usize {
        self.key_value_heads * self.head_width
    }

    /// Returns the row of the position table for each token, before [`Switches::position_offset`]: 0, 1, 2, …. If
    /// positions are counted from a padding id, they start at that id + 1, and a padding token takes the padding's row
    /// and is not counted.
    #[must_use]
    pub fn position_rows(&self, tokens: &[u32]) -> Vec<usize> {
        let Some(padding) = self.first_position() else {
            return (0..tokens.len()).collect();
        };
        let mut last = padding as usize;
        let mut row = |token: &u32| {
            if *token == padding {
                padding as usize
            } else {
                last += 1;
                last
            }
        };
        tokens.iter().map(&mut row).collect()
    }

    /// Returns the padding id, if positions are counted from it.
    const fn first_position(&self) -> Option<u32> {
        if self.causal() { None } else { self.padding }
    }

    /// Returns the position of the token whose last hidden state determines the classes of a sequence: an encoder's
    /// first token; a decoder's last token that is not padding, or the first if all are padding.
    ///
    /// ```
    /// use reticent_backends::model::{Family, Head, TransformerConfig};
    /// let base = TransformerConfig::new(Family::Llama, 50, 8, 1, 2, 16);
    /// let decoder = TransformerConfig { head: Head::Classes(3), padding: Some(0), ..base };
    /// assert_eq!(decoder.class_position(&[7, 9, 9, 0, 0]), 2);
    /// let base = TransformerConfig::new(Family::Bert, 50, 8, 1, 2, 16);
    /// assert_eq!(TransformerConfig { head: Head::Classes(3), ..base }.class_position(&[7, 9]), 0);
    /// ```
    #[must_use]
    pub fn class_position(&self, tokens: &[u32]) -> usize {
        if !self.causal() {
            return 0;
        }
        let last = tokens.iter().rposition(|t| Some(*t) != self.padding);
        last.unwrap_or(0)
    }

    /// Returns the longest sequence in tokens.
    #[must_use]
    pub fn longest(&self) -> usize {
        let first = self
            .first_position()
            .map_or(0, |padding| padding as usize + 1);
        let before = first.saturating_add(self.switches.position_offset);
        self.positions.saturating_sub(before)
    }

    /// Returns the parameters in checkpoint order.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        Plan::of(self).parameters()
    }

    /// Returns the index of each tensor in [`Self::parameters`].
    #[must_use]
    pub fn layout(&self) -> Layout {
        Plan::of(self).layout
    }

    /// Returns random starting weights that depend only on the seed: normal with standard deviation 0.02, divided by
    /// √(2 · layers) where a block enters the residual stream (Radford et al. 2019); gains neutral, biases zero.
    #[must_use]
    pub fn starting_weights(&self, seed: u64) -> Vec<Vec<f32>> {
        Plan::of(self).starting_weights(seed)
    }
}
