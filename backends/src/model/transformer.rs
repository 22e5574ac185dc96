//! The transformer families: one set of sizes and switches for decoders and encoders.

use super::layout::{Layout, Plan};
use super::rotary::Rotary;
use crate::trainer::Parameter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A published architecture. It decides everything that is not a size or a number:
///
/// | family | norm | where | positions | feed-forward | biases |
/// |---|---|---|---|---|---|
/// | GPT-2 | layer norm | before each block | learned | two layers | yes |
/// | Llama | RMS norm | before each block | rotary | gated | no, but for [`Additions`] |
/// | Gemma 2 | RMS norm with gain 1 + w | before and after each block | rotary | gated | no |
/// | BERT, RoBERTa | layer norm | after each residual sum | learned | two layers | yes |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Decoder with learned positions (Radford et al. 2019).
    Gpt2,
    /// Decoder with rotary positions and a gated feed-forward part (Touvron et al. 2023). Mistral and
    /// Qwen 2 and 3 are it with a sliding window or [`Additions`].
    Llama,
    /// Decoder with soft caps and alternating sliding windows (Gemma team 2024).
    Gemma2,
    /// Encoder with token types (Devlin et al. 2019).
    Bert,
    /// Encoder whose positions start after the padding id (Liu et al. 2019).
    Roberta,
}

/// How a row is normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// (x − mean) / √(variance + ε) · gain + bias.
    Layer,
    /// x / √(mean of x² + ε) · gain.
    Rms,
    /// x / √(mean of x² + ε) · (1 + gain).
    RmsPlusOne,
}

/// Where the norms of a layer stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlace {
    /// x + block(norm(x)), and a norm after the last layer.
    Before,
    /// norm(x + block(x)), and a norm after the embedding.
    After,
    /// x + norm(block(norm(x))), and a norm after the last layer.
    Both,
}

/// What relatives of Llama add to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Additions {
    /// Biases of the linear layers of attention.
    #[serde(default)]
    pub attention_bias: AttentionBias,
    /// Biases of the linear layers of the feed-forward part.
    #[serde(default)]
    pub feed_forward_bias: bool,
    /// An RMS norm of every query head and of every key head, before their positions (Qwen 3): one
    /// gain for all query heads of a layer, and one for all key heads.
    #[serde(default)]
    pub head_norms: bool,
}

impl Additions {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Which linear layers of attention have biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionBias {
    /// Neither.
    #[default]
    None,
    /// That of queries, keys and values (Qwen 2).
    Inner,
    /// That one and the one behind attention (Llama's and Qwen 3's `attention_bias`).
    Both,
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
}

/// What stands on top of the last layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Head {
    /// Logits over the vocabulary for the next token (decoders).
    NextToken,
    /// Logits over the vocabulary for a masked token (encoders): transform, activation, norm, decoder.
    MaskedToken,
    /// Logits over so many classes from the first token (encoders): dense, tanh, output.
    Classes(usize),
}

/// A transformer's shape.
///
/// All linear weights are stored `[in, out]`, so that a layer computes x·W + b.
///
/// ```
/// use reticent_backends::{Family, TransformerConfig};
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
    /// The architecture.
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
    /// Rotary positions (Llama, Gemma 2).
    pub rotary: Option<Rotary>,
    /// Scores are divided by the square root of this; the head's width where absent.
    pub query_scalar: Option<f64>,
    /// c in c·tanh(score / c) (Gemma 2).
    pub attention_cap: Option<f64>,
    /// c in c·tanh(logit / c) (Gemma 2).
    pub logit_cap: Option<f64>,
    /// Layers see only so many last positions, their own included: even ones (Gemma 2), or all
    /// (Llama, as Mistral).
    pub sliding_window: Option<usize>,
    /// Rows of the token type table; 0 for none (BERT 2, RoBERTa 1).
    pub token_types: usize,
    /// The padding id, which positions of RoBERTa are counted from.
    pub padding: Option<u32>,
    /// What stands on top.
    pub head: Head,
    /// Whether the head's matrix is the token embedding.
    pub tied: bool,
    /// What relatives of Llama add to it.
    #[serde(default, skip_serializing_if = "Additions::is_none")]
    pub additions: Additions,
}

impl TransformerConfig {
    /// The family's usual numbers at these sizes: width d, layers, heads (as many for keys and
    /// values), positions. Encoders get the masked-token head.
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
        let rotary = matches!(family, Family::Llama | Family::Gemma2);
        let gemma = family == Family::Gemma2;
        let head_width = width / heads.max(1);
        Self {
            family,
            vocabulary,
            width,
            layers,
            heads,
            key_value_heads: heads,
            head_width,
            feed_forward: width.saturating_mul(4),
            positions,
            norm_epsilon: match family {
                Family::Gpt2 | Family::Roberta => 1e-5,
                Family::Llama | Family::Gemma2 => 1e-6,
                Family::Bert => 1e-12,
            },
            activation: match family {
                Family::Gpt2 | Family::Gemma2 => Activation::GeluTanh,
                Family::Llama => Activation::Silu,
                Family::Bert | Family::Roberta => Activation::Gelu,
            },
            rotary: rotary.then_some(Rotary {
                theta: 10_000.0,
                scaling: None,
            }),
            query_scalar: gemma.then_some(head_width as f64),
            attention_cap: gemma.then_some(50.0),
            logit_cap: gemma.then_some(30.0),
            sliding_window: gemma.then_some(positions.div_ceil(2)),
            token_types: match family {
                Family::Bert => 2,
                Family::Roberta => 1,
                Family::Gpt2 | Family::Llama | Family::Gemma2 => 0,
            },
            padding: (family == Family::Roberta).then_some(1),
            head: if encoder {
                Head::MaskedToken
            } else {
                Head::NextToken
            },
            tied: family != Family::Llama,
            additions: Additions::default(),
        }
    }

    /// GPT-2 small over a vocabulary: 12 layers, 12 heads, width 768, 1024 positions.
    #[must_use]
    pub fn gpt2(vocabulary: usize) -> Self {
        Self::new(Family::Gpt2, vocabulary, 768, 12, 12, 1024)
    }

    /// Whether a position sees only itself and what stands before it.
    #[must_use]
    pub const fn causal(&self) -> bool {
        matches!(self.family, Family::Gpt2 | Family::Llama | Family::Gemma2)
    }

    /// How rows are normalised.
    #[must_use]
    pub const fn norm_kind(&self) -> NormKind {
        match self.family {
            Family::Gpt2 | Family::Bert | Family::Roberta => NormKind::Layer,
            Family::Llama => NormKind::Rms,
            Family::Gemma2 => NormKind::RmsPlusOne,
        }
    }

    /// Where the norms stand.
    #[must_use]
    pub const fn norm_place(&self) -> NormPlace {
        match self.family {
            Family::Gpt2 | Family::Llama => NormPlace::Before,
            Family::Gemma2 => NormPlace::Both,
            Family::Bert | Family::Roberta => NormPlace::After,
        }
    }

    /// Whether all linear layers have biases.
    #[must_use]
    pub const fn biases(&self) -> bool {
        matches!(self.norm_kind(), NormKind::Layer)
    }

    /// Whether the linear layers have biases: of queries, keys and values, behind attention, and of
    /// the feed-forward part.
    #[must_use]
    pub fn layer_biases(&self) -> [bool; 3] {
        let all = self.biases();
        let Additions {
            attention_bias,
            feed_forward_bias,
            ..
        } = self.additions;
        [
            all || attention_bias != AttentionBias::None,
            all || attention_bias == AttentionBias::Both,
            all || feed_forward_bias,
        ]
    }

    /// Whether the feed-forward part is activation(x·W_gate) ∘ (x·W_up), then W_down. The two
    /// matrices lie side by side in one, the gate first.
    #[must_use]
    pub const fn gated(&self) -> bool {
        !self.biases()
    }

    /// What the embedded tokens are multiplied by: √d for Gemma 2.
    #[must_use]
    pub fn embedding_scale(&self) -> f64 {
        if self.family == Family::Gemma2 {
            (self.width as f64).sqrt()
        } else {
            1.0
        }
    }

    /// What attention scores are multiplied by.
    #[must_use]
    pub fn attention_scale(&self) -> f64 {
        self.query_scalar
            .unwrap_or(self.head_width as f64)
            .sqrt()
            .recip()
    }

    /// How many last positions a layer sees, its own included; `None` for all.
    #[must_use]
    pub fn window(&self, layer: usize) -> Option<usize> {
        let every = self.family == Family::Llama;
        self.sliding_window
            .filter(|_| every || layer.is_multiple_of(2))
    }

    /// Whether a position of a layer attends to another.
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

    /// Width of all key heads (or of all value heads) side by side.
    #[must_use]
    pub const fn key_value_width(&self) -> usize {
        self.key_value_heads * self.head_width
    }

    /// The row of the position table for each token: 0, 1, 2, …; for RoBERTa counted from
    /// padding + 1, where a padding token takes the padding's row and is not counted.
    #[must_use]
    pub fn position_rows(&self, tokens: &[u32]) -> Vec<usize> {
        let Some(padding) = self.padding else {
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

    /// The longest sequence in tokens.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.padding.map_or(self.positions, |padding| {
            self.positions.saturating_sub(padding as usize + 1)
        })
    }

    /// Parameters in checkpoint order.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        Plan::of(self).parameters()
    }

    /// Where in [`Self::parameters`] each tensor stands.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Plan::of(self).layout
    }

    /// Random starting weights that depend on nothing but the seed: normal with deviation 0.02,
    /// divided by √(2 · layers) where a block enters the residual stream (Radford et al. 2019);
    /// gains neutral, biases zero.
    #[must_use]
    pub fn starting_weights(&self, seed: u64) -> Vec<Vec<f32>> {
        Plan::of(self).starting_weights(seed)
    }
}
