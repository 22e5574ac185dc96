//! The parameters of a transformer: their names, shapes, starting values, and the indices by which engines find them.

use super::switches::{HeadNorms, NormKind, NormPlace, Residual};
use super::transformer::{Head, TransformerConfig};
use crate::trainer::Parameter;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Normal};

/// Indices of a linear layer's tensors: weight `[in, out]`, bias `[out]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearAt {
    /// The weight.
    pub weight: usize,
    /// The bias, if the layer has one.
    pub bias: Option<usize>,
}

/// Indices of a norm's tensors, both `[d]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NormAt {
    /// The gain.
    pub gain: usize,
    /// The bias, which only layer norms have.
    pub bias: Option<usize>,
}

/// Indices of the gains of a layer's queries and keys. Each is `[head width]`, or as wide as all queries or all keys if
/// those are normalised together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadNormsAt {
    /// The gain of queries.
    pub query: usize,
    /// The gain of keys.
    pub key: usize,
}

/// Indices of one layer's tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerLayout {
    /// The norm on the input of attention.
    pub attention_before: Option<NormAt>,
    /// Query, key and value side by side: `[d, query width + 2 · key-value width]`.
    pub attention_in: LinearAt,
    /// The norms of query and key heads, if the model has any.
    pub head_norms: Option<HeadNormsAt>,
    /// `[query width, d]`.
    pub attention_out: LinearAt,
    /// The norm on the output of attention ([`NormPlace::Both`], [`NormPlace::Output`]) or on the residual sum
    /// ([`NormPlace::After`]).
    pub attention_after: Option<NormAt>,
    /// The norm on the input of the feed-forward part; absent if that part uses the norm of attention
    /// ([`Residual::ParallelOneNorm`]).
    pub feed_forward_before: Option<NormAt>,
    /// `[d, feed_forward]`; gated: `[d, 2 · feed_forward]`, the gate first.
    pub feed_forward_in: LinearAt,
    /// `[feed_forward, d]`.
    pub feed_forward_out: LinearAt,
    /// As [`Self::attention_after`].
    pub feed_forward_after: Option<NormAt>,
}

/// Indices of the head's tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadLayout {
    /// A decoder's head: `[d, V]`, or `None` if the token embedding `[V, d]` is used.
    NextToken {
        /// The head's own matrix.
        projection: Option<usize>,
        /// `[V]`, if there is one.
        bias: Option<usize>,
    },
    /// An encoder's masked-token head.
    MaskedToken {
        /// `[d, d]`, followed by the activation.
        transform: LinearAt,
        /// The norm after the activation.
        norm: NormAt,
        /// `[d, V]`, or `None` if the token embedding `[V, d]` is used.
        projection: Option<usize>,
        /// `[V]`.
        bias: usize,
    },
    /// A head for classes of a whole sequence, read at [`TransformerConfig::class_position`].
    Classes {
        /// `[d, d]`, followed by tanh: encoders only.
        dense: Option<LinearAt>,
        /// `[d, classes]`; encoders have a bias.
        output: LinearAt,
    },
}

/// Indices of all tensors of a transformer in [`TransformerConfig::parameters`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// `[V, d]`.
    pub token_embedding: usize,
    /// `[positions, d]`; only with learned positions.
    pub position_embedding: Option<usize>,
    /// `[token types, d]`; only encoders.
    pub token_type_embedding: Option<usize>,
    /// The norm on the embedded sum; only encoders.
    pub embedding_norm: Option<NormAt>,
    /// The layers, first to last.
    pub layers: Vec<LayerLayout>,
    /// The norm after the last layer; only decoders.
    pub final_norm: Option<NormAt>,
    /// The head.
    pub head: HeadLayout,
}

/// The starting values of a parameter.
#[derive(Debug, Clone, Copy)]
enum Start {
    Normal(f32),
    Constant(f32),
}

/// The layout with the parameters that it refers to.
pub(super) struct Plan {
    pub(super) layout: Layout,
    entries: Vec<(Parameter, Start)>,
}

/// Standard deviation of the starting weights.
const DEVIATION: f32 = 0.02;

impl Plan {
    pub(super) fn of(config: &TransformerConfig) -> Self {
        let mut planner = Planner {
            config,
            entries: Vec::new(),
        };
        let layout = planner.layout();
        Self {
            layout,
            entries: planner.entries,
        }
    }

    pub(super) fn parameters(self) -> Vec<Parameter> {
        self.entries.into_iter().map(|(p, _)| p).collect()
    }

    pub(super) fn starting_weights(&self, seed: u64) -> Vec<Vec<f32>> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut values = |length: usize, start: Start| match start {
            Start::Constant(value) => vec![value; length],
            Start::Normal(deviation) => {
                let normal = Normal::new(0.0, deviation).expect("the deviations are positive");
                (0..length).map(|_| normal.sample(&mut rng)).collect()
            }
        };
        self.entries
            .iter()
            .map(|(p, start)| values(p.len(), *start))
            .collect()
    }
}

struct Planner<'a> {
    config: &'a TransformerConfig,
    entries: Vec<(Parameter, Start)>,
}

impl Planner<'_> {
    fn layout(&mut self) -> Layout {
        let c = self.config;
        let first = c.norm_place() == NormPlace::After;
        let learned = c.rotary.is_none();
        Layout {
            token_embedding: self.table("token", c.vocabulary),
            position_embedding: learned.then(|| self.table("position", c.positions)),
            token_type_embedding: (c.token_types > 0)
                .then(|| self.table("token_type", c.token_types)),
            embedding_norm: first.then(|| self.norm("embedding.norm")),
            layers: (0..c.layers).map(|i| self.layer(i)).collect(),
            final_norm: (!first).then(|| self.norm("final_norm")),
            head: self.head(),
        }
    }

    fn layer(&mut self, index: usize) -> LayerLayout {
        let c = self.config;
        let (before, after) = match c.norm_place() {
            NormPlace::Before => (true, false),
            NormPlace::After => (false, true),
            NormPlace::Both => (true, true),
            NormPlace::Output => (false, true),
        };
        let second = before && c.switches.residual != Residual::ParallelOneNorm;
        let biases = c.switches.biases;
        let at = |part: &str| format!("layers.{index}.{part}");
        let joined = c.query_width() + 2 * c.key_value_width();
        let inner = c.feed_forward * if c.gated() { 2 } else { 1 };
        let (inner_bias, outer_bias) = (biases.attention_in, biases.attention_out);
        let wide_bias = biases.feed_forward;
        LayerLayout {
            attention_before: before.then(|| self.norm(&at("attention.before"))),
            attention_in: self.linear(&at("attention.in"), (c.width, joined), inner_bias),
            head_norms: c.head_norm_widths().map(|[query, key]| HeadNormsAt {
                query: self.gain(&at("attention.query_norm"), query),
                key: self.gain(&at("attention.key_norm"), key),
            }),
            attention_out: self.residual(&at("attention.out"), c.query_width(), outer_bias),
            attention_after: after.then(|| self.norm(&at("attention.after"))),
            feed_forward_before: second.then(|| self.norm(&at("feed_forward.before"))),
            feed_forward_in: self.linear(&at("feed_forward.in"), (c.width, inner), wide_bias),
            feed_forward_out: self.residual(&at("feed_forward.out"), c.feed_forward, wide_bias),
            feed_forward_after: after.then(|| self.norm(&at("feed_forward.after"))),
        }
    }

    fn head(&mut self) -> HeadLayout {
        let (d, v, tied) = (self.config.width, self.config.vocabulary, self.config.tied);
        match self.config.head {
            Head::NextToken => HeadLayout::NextToken {
                projection: (!tied).then(|| self.weight("head.weight", &[d, v])),
                bias: (self.config.switches.biases.head)
                    .then(|| self.constant("head.bias", v, 0.0)),
            },
            Head::MaskedToken => HeadLayout::MaskedToken {
                transform: self.linear("head.transform", (d, d), true),
                norm: self.norm("head.norm"),
                projection: (!tied).then(|| self.weight("head.weight", &[d, v])),
                bias: self.constant("head.bias", v, 0.0),
            },
            Head::Classes(classes) => {
                let encoder = !self.config.causal();
                HeadLayout::Classes {
                    dense: encoder.then(|| self.linear("head.dense", (d, d), true)),
                    output: self.linear("head.output", (d, classes), encoder),
                }
            }
        }
    }

    fn push(&mut self, name: &str, shape: &[usize], start: Start) -> usize {
        let parameter = Parameter {
            name: name.to_owned(),
            shape: shape.to_vec(),
        };
        self.entries.push((parameter, start));
        self.entries.len() - 1
    }

    fn weight(&mut self, name: &str, shape: &[usize]) -> usize {
        self.push(name, shape, Start::Normal(DEVIATION))
    }

    fn constant(&mut self, name: &str, length: usize, value: f32) -> usize {
        self.push(name, &[length], Start::Constant(value))
    }

    fn table(&mut self, name: &str, rows: usize) -> usize {
        self.weight(
            &format!("embedding.{name}.weight"),
            &[rows, self.config.width],
        )
    }

    fn linear(&mut self, name: &str, (inputs, outputs): (usize, usize), bias: bool) -> LinearAt {
        let weight = self.weight(&format!("{name}.weight"), &[inputs, outputs]);
        self.with_bias(name, weight, outputs, bias)
    }

    /// Adds a linear layer whose output enters the residual stream.
    fn residual(&mut self, name: &str, inputs: usize, bias: bool) -> LinearAt {
        let d = self.config.width;
        let smaller = DEVIATION / ((2 * self.config.layers) as f32).sqrt();
        let weight = self.push(
            &format!("{name}.weight"),
            &[inputs, d],
            Start::Normal(smaller),
        );
        self.with_bias(name, weight, d, bias)
    }

    fn with_bias(&mut self, name: &str, weight: usize, outputs: usize, bias: bool) -> LinearAt {
        let bias = bias.then(|| self.constant(&format!("{name}.bias"), outputs, 0.0));
        LinearAt { weight, bias }
    }

    /// Adds a gain that starts as the identity.
    fn gain(&mut self, name: &str, width: usize) -> usize {
        let neutral = match self.config.norm_kind() {
            NormKind::RmsPlusOne => 0.0,
            NormKind::Layer | NormKind::Rms => 1.0,
        };
        self.constant(&format!("{name}.gain"), width, neutral)
    }

    fn norm(&mut self, name: &str) -> NormAt {
        let d = self.config.width;
        let gain = self.gain(name, d);
        let bias = (self.config.norm_kind() == NormKind::Layer)
            .then(|| self.constant(&format!("{name}.bias"), d, 0.0));
        NormAt { gain, bias }
    }
}

impl TransformerConfig {
    /// Returns how many values of queries and of keys are normalised together, if they are normalised.
    #[must_use]
    pub(crate) fn head_norm_widths(&self) -> Option<[usize; 2]> {
        match self.switches.head_norms {
            HeadNorms::None => None,
            HeadNorms::PerHead => Some([self.head_width; 2]),
            HeadNorms::Whole => Some([self.query_width(), self.key_value_width()]),
        }
    }
}
