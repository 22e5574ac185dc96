//! The properties of architectures besides sizes and numbers, each a switch of its own.

use super::rotary::Rotary;
use super::transformer::{Activation, Family};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a row is normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// (x − mean) / √(variance + ε) · gain + bias.
    Layer,
    /// x / √(mean of x² + ε) · gain.
    Rms,
    /// x / √(mean of x² + ε) · (1 + gain).
    RmsPlusOne,
}

/// Where the norms of a layer stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NormPlace {
    /// Pre-norm: x + block(norm(x)), and a norm after the last layer.
    Before,
    /// Post-norm: norm(x + block(x)), and a norm after the embedding.
    After,
    /// Sandwich norm: x + norm(block(norm(x))), and a norm after the last layer.
    Both,
    /// x + norm(block(x)), and a norm after the last layer.
    Output,
}

/// Whether the two parts of a layer follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Residual {
    /// The feed-forward part reads what attention left: y = x + attention, then y + feed-forward(y).
    InTurn,
    /// Both read the layer's input, each behind a norm of its own, and are added to it.
    Parallel,
    /// Both read the layer's input behind one norm, and are added to it.
    ParallelOneNorm,
}

/// Which linear layers have biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Biases {
    /// That of queries, keys and values.
    pub attention_in: bool,
    /// That behind attention.
    pub attention_out: bool,
    /// Those of the feed-forward part.
    pub feed_forward: bool,
    /// The matrix of a next-token head.
    pub head: bool,
}

/// Norms of queries and keys, before their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeadNorms {
    /// None.
    None,
    /// Of every query head and of every key head: one gain for all query heads of a layer, and one
    /// for all key heads.
    PerHead,
    /// Of all queries of a position at once, and of all keys.
    Whole,
}

/// Numbers that values are multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Multipliers {
    /// Embedded tokens.
    pub embedding: f64,
    /// Attention scores; what the query scalar or the head's width says where absent.
    pub attention: Option<f64>,
    /// What each part of a layer adds to the residual stream.
    pub residual: f64,
    /// Logits are divided by this.
    pub logits: f64,
}

/// What an architecture decides besides sizes and numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switches {
    /// Whether a position sees only itself and what stands before it.
    pub causal: bool,
    /// How rows are normalised.
    pub norm: NormKind,
    /// Where the norms stand.
    pub norm_place: NormPlace,
    /// Whether the parts of a layer follow each other.
    pub residual: Residual,
    /// Whether the feed-forward part is gated.
    pub gated: bool,
    /// Which linear layers have biases.
    pub biases: Biases,
    /// Norms of queries and keys, of the model's kind and without biases.
    pub head_norms: HeadNorms,
    /// The layers that slide, in ascending order; all where absent.
    pub sliding_layers: Option<Vec<usize>>,
    /// Layers without rotary positions (NoPE), in ascending order.
    pub unturned_layers: Vec<usize>,
    /// Rows of the position table before that of the first position.
    pub position_offset: usize,
    /// Numbers that values are multiplied by.
    pub multipliers: Multipliers,
}

impl Switches {
    /// Llama's switches; all others are given by their differences from these.
    const fn plain() -> Self {
        Self {
            causal: true,
            norm: NormKind::Rms,
            norm_place: NormPlace::Before,
            residual: Residual::InTurn,
            gated: true,
            biases: Biases::NONE,
            head_norms: HeadNorms::None,
            sliding_layers: None,
            unturned_layers: Vec::new(),
            position_offset: 0,
            multipliers: Multipliers::NONE,
        }
    }

    /// GPT-2's switches.
    fn classic() -> Self {
        Self {
            norm: NormKind::Layer,
            gated: false,
            biases: Biases {
                head: false,
                ..Biases::ALL
            },
            ..Self::plain()
        }
    }

    /// Returns the usual switches of a family.
    #[must_use]
    pub fn of(family: Family, width: usize, layers: usize) -> Self {
        let scaled = Multipliers {
            embedding: (width as f64).sqrt(),
            ..Multipliers::NONE
        };
        let but_every = |n: usize| (0..layers).filter(|i| !(i + 1).is_multiple_of(n)).collect();
        let every = |n: usize| (0..layers).filter(|i| (i + 1).is_multiple_of(n)).collect();
        match family {
            Family::Gpt2 | Family::GptBigcode => Self::classic(),
            Family::GptNeo => Self {
                biases: Biases {
                    attention_in: false,
                    ..Self::classic().biases
                },
                sliding_layers: Some(every(2)),
                multipliers: Multipliers {
                    attention: Some(1.0),
                    ..Multipliers::NONE
                },
                ..Self::classic()
            },
            Family::GptNeox => Self {
                residual: Residual::Parallel,
                ..Self::classic()
            },
            Family::Opt => Self {
                position_offset: 2,
                ..Self::classic()
            },
            Family::Llama | Family::Mistral | Family::Phi3 => Self::plain(),
            Family::Granite => Self {
                multipliers: Multipliers {
                    attention: Some(1.0),
                    ..Multipliers::NONE
                },
                ..Self::plain()
            },
            Family::Qwen2 => Self {
                biases: Biases {
                    attention_in: true,
                    ..Biases::NONE
                },
                ..Self::plain()
            },
            Family::Qwen3 => Self {
                head_norms: HeadNorms::PerHead,
                ..Self::plain()
            },
            Family::Gemma => Self {
                norm: NormKind::RmsPlusOne,
                multipliers: scaled,
                ..Self::plain()
            },
            Family::Gemma2 => Self {
                norm: NormKind::RmsPlusOne,
                norm_place: NormPlace::Both,
                sliding_layers: Some(but_every(2)),
                multipliers: scaled,
                ..Self::plain()
            },
            Family::Gemma3 => Self {
                norm: NormKind::RmsPlusOne,
                norm_place: NormPlace::Both,
                head_norms: HeadNorms::PerHead,
                sliding_layers: Some(but_every(6)),
                multipliers: scaled,
                ..Self::plain()
            },
            Family::Phi => Self {
                residual: Residual::ParallelOneNorm,
                biases: Biases::ALL,
                ..Self::classic()
            },
            Family::Olmo2 => Self {
                norm_place: NormPlace::Output,
                head_norms: HeadNorms::Whole,
                ..Self::plain()
            },
            Family::Smollm3 => Self {
                unturned_layers: every(4),
                ..Self::plain()
            },
            Family::Stablelm => Self {
                norm: NormKind::Layer,
                ..Self::plain()
            },
            Family::Starcoder2 => Self::classic(),
            Family::Bert | Family::Roberta => Self {
                causal: false,
                norm_place: NormPlace::After,
                ..Self::classic()
            },
        }
    }

    /// Returns whether a layer slides if there is a window.
    #[must_use]
    pub fn slides(&self, layer: usize) -> bool {
        let listed = self.sliding_layers.as_ref();
        listed.is_none_or(|layers| layers.binary_search(&layer).is_ok())
    }
}

impl Multipliers {
    /// No multipliers.
    pub const NONE: Self = Self {
        embedding: 1.0,
        attention: None,
        residual: 1.0,
        logits: 1.0,
    };
}

impl Biases {
    /// No biases.
    pub const NONE: Self = Self {
        attention_in: false,
        attention_out: false,
        feed_forward: false,
        head: false,
    };
    /// All biases.
    pub const ALL: Self = Self {
        attention_in: true,
        attention_out: true,
        feed_forward: true,
        head: true,
    };
}

impl Family {
    pub(super) const fn norm_epsilon(self) -> f64 {
        match self {
            Self::Bert => 1e-12,
            Self::Llama
            | Self::Mistral
            | Self::Qwen2
            | Self::Qwen3
            | Self::Gemma
            | Self::Gemma2
            | Self::Gemma3
            | Self::Granite
            | Self::Smollm3 => 1e-6,
            _ => 1e-5,
        }
    }

    pub(super) const fn activation(self) -> Activation {
        match self {
            Self::Bert | Self::Roberta | Self::GptNeox => Activation::Gelu,
            Self::Opt => Activation::Relu,
            Self::Gpt2
            | Self::GptBigcode
            | Self::GptNeo
            | Self::Gemma
            | Self::Gemma2
            | Self::Gemma3
            | Self::Phi
            | Self::Starcoder2 => Activation::GeluTanh,
            _ => Activation::Silu,
        }
    }

    pub(super) const fn tied(self) -> bool {
        !matches!(
            self,
            Self::Llama
                | Self::Mistral
                | Self::Qwen2
                | Self::Qwen3
                | Self::Phi
                | Self::Phi3
                | Self::GptNeox
                | Self::Olmo2
                | Self::Granite
                | Self::Stablelm
        )
    }

    pub(super) fn rotary(self, head_width: usize) -> Option<Rotary> {
        let learned = matches!(
            self,
            Self::Gpt2 | Self::GptBigcode | Self::GptNeo | Self::Opt | Self::Bert | Self::Roberta
        );
        // an even number of values
        let share = |parts: usize| Some((head_width / (2 * parts) * 2).max(2));
        let (theta, local_theta) = match self {
            Self::Gemma3 => (1e6, Some(10_000.0)),
            Self::Smollm3 => (2e6, None),
            _ => (10_000.0, None),
        };
        (!learned).then_some(Rotary {
            theta,
            scaling: None,
            width: match self {
                Self::GptNeox | Self::Stablelm => share(4),
                Self::Phi => share(2),
                _ => None,
            }
            .filter(|width| *width < head_width),
            local_theta,
        })
    }
}
