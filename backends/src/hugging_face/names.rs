//! Maps the tensors of Hugging Face's models to our parameters.

use crate::model::{Family, HeadLayout, LayerLayout, LinearAt, NormAt, TransformerConfig};

/// One Hugging Face tensor: some columns of one of our parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorPart {
    /// Its name in transformers.
    pub(super) name: String,
    /// The number of its columns in our parameter.
    pub(super) columns: usize,
    /// Whether it is stored `[out, in]` where ours is stored `[in, out]`.
    pub(super) transposed: bool,
    /// The width of a head, if query, key and value of each head are adjacent, head after head; in ours all queries
    /// come first, then all keys, then all values.
    pub(super) by_head: Option<usize>,
}

impl TensorPart {
    /// The column of ours, among those of this part, where one of theirs goes.
    pub(super) fn column(&self, theirs: usize) -> usize {
        let Some(width) = self.by_head else {
            return theirs;
        };
        let (head, inside) = (theirs / (3 * width), theirs % (3 * width));
        inside / width * (self.columns / 3) + head * width + inside % width
    }
}

/// The names of the tensors of one model.
pub(super) struct Names {
    /// The parts of each parameter, left to right, in the order of the parameters.
    pub(super) parts: Vec<Vec<TensorPart>>,
    /// The prefix of the bare model's tensors inside a model with a head.
    pub(super) prefix: &'static str,
    /// Alternative names of tensors: (the other name, the name).
    pub(super) aliases: Vec<(String, String)>,
}

impl Names {
    pub(super) fn of(config: &TransformerConfig) -> Self {
        let parameters = config.parameters();
        let spelling = Spelling::of(config);
        let mut writer = Writer {
            config,
            last: parameters
                .iter()
                .map(|p| p.shape.last().copied().unwrap_or(0))
                .collect(),
            parts: vec![Vec::new(); parameters.len()],
            aliases: Vec::new(),
            spelling,
        };
        writer.all();
        Self {
            parts: writer.parts,
            prefix: writer.spelling.prefix,
            aliases: writer.aliases,
        }
    }

    /// Returns whether a tensor holds no weights of this model: masks, frequencies, position ids, and heads of the
    /// encoder's pre-training that this model does not have.
    pub(super) fn ignored(&self, config: &TransformerConfig, name: &str) -> bool {
        let bare = name.strip_prefix(self.prefix).unwrap_or(name);
        if config.causal() {
            return BUFFERS.iter().any(|suffix| bare.ends_with(suffix));
        }
        let classes = matches!(config.head, crate::model::Head::Classes(_));
        let pooled = config.family == Family::Bert && classes;
        ["embeddings.position_ids", "embeddings.token_type_ids"].contains(&bare)
            || bare.starts_with("cls.seq_relationship.")
            || (!pooled && bare.starts_with("pooler."))
            || (classes && bare.starts_with("cls.predictions."))
    }
}

/// Tensors that decoders save in addition to their weights: masks and frequencies of a layer.
const BUFFERS: [&str; 7] = [
    ".attn.bias",
    ".attn.masked_bias",
    ".attn.attention.bias",
    ".attn.attention.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    "rotary_emb.inv_freq",
];

/// How queries, keys and values are stored.
#[derive(Clone, Copy)]
enum Joined {
    /// In three tensors.
    Apart([&'static str; 3]),
    /// In one tensor: all queries, then all keys, then all values.
    Fused(&'static str),
    /// In one tensor: query, key and value of each head in turn.
    ByHead(&'static str),
}

/// The names of a family's tensors.
#[derive(Clone, Copy)]
struct Spelling {
    prefix: &'static str,
    tokens: &'static str,
    positions: &'static str,
    last_norm: &'static str,
    layers: &'static str,
    attention_before: &'static str,
    attention_after: &'static str,
    feed_forward_before: &'static str,
    feed_forward_after: &'static str,
    attention_in: Joined,
    attention_out: &'static str,
    /// One tensor, or gate and up separately.
    feed_forward_in: &'static [&'static str],
    feed_forward_out: &'static str,
    /// Whether linear layers are stored `[in, out]`.
    upright: bool,
    /// The matrix of a next-token head.
    head: &'static str,
}

const LLAMA: Spelling = Spelling {
    prefix: "model.",
    tokens: "embed_tokens",
    positions: "",
    last_norm: "norm",
    layers: "layers",
    attention_before: "input_layernorm",
    attention_after: "post_attention_layernorm",
    feed_forward_before: "post_attention_layernorm",
    feed_forward_after: "post_feedforward_layernorm",
    attention_in: Joined::Apart(["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
    attention_out: "self_attn.o_proj",
    feed_forward_in: &["mlp.gate_proj", "mlp.up_proj"],
    feed_forward_out: "mlp.down_proj",
    upright: false,
    head: "lm_head",
};

const GPT2: Spelling = Spelling {
    prefix: "transformer.",
    tokens: "wte",
    positions: "wpe",
    last_norm: "ln_f",
    layers: "h",
    attention_before: "ln_1",
    feed_forward_before: "ln_2",
    attention_in: Joined::Fused("attn.c_attn"),
    attention_out: "attn.c_proj",
    feed_forward_in: &["mlp.c_fc"],
    feed_forward_out: "mlp.c_proj",
    upright: true,
    ..LLAMA
};

const BERT: Spelling = Spelling {
    prefix: "bert.",
    tokens: "embeddings.word_embeddings",
    positions: "embeddings.position_embeddings",
    layers: "encoder.layer",
    attention_after: "attention.output.LayerNorm",
    feed_forward_after: "output.LayerNorm",
    attention_in: Joined::Apart([
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    ]),
    attention_out: "attention.output.dense",
    feed_forward_in: &["intermediate.dense"],
    feed_forward_out: "output.dense",
    ..LLAMA
};

impl Spelling {
    fn of(c: &TransformerConfig) -> Self {
        match c.family {
            Family::Gpt2 => GPT2,
            Family::GptBigcode => Self {
                attention_in: match c.key_value_heads == c.heads {
                    true => Joined::ByHead("attn.c_attn"),
                    false => Joined::Fused("attn.c_attn"),
                },
                upright: false,
                ..GPT2
            },
            Family::GptNeo => Self {
                attention_in: Joined::Apart([
                    "attn.attention.q_proj",
                    "attn.attention.k_proj",
                    "attn.attention.v_proj",
                ]),
                attention_out: "attn.attention.out_proj",
                upright: false,
                ..GPT2
            },
            Family::GptNeox => Self {
                prefix: "gpt_neox.",
                tokens: "embed_in",
                last_norm: "final_layer_norm",
                attention_in: Joined::ByHead("attention.query_key_value"),
                attention_out: "attention.dense",
                feed_forward_in: &["mlp.dense_h_to_4h"],
                feed_forward_out: "mlp.dense_4h_to_h",
                head: "embed_out",
                ..LLAMA
            },
            Family::Opt => Self {
                prefix: "model.decoder.",
                positions: "embed_positions",
                last_norm: "final_layer_norm",
                attention_before: "self_attn_layer_norm",
                feed_forward_before: "final_layer_norm",
                attention_out: "self_attn.out_proj",
                feed_forward_in: &["fc1"],
                feed_forward_out: "fc2",
                ..LLAMA
            },
            Family::Llama
            | Family::Mistral
            | Family::Qwen2
            | Family::Qwen3
            | Family::Gemma
            | Family::Olmo2
            | Family::Granite
            | Family::Smollm3 => LLAMA,
            Family::Gemma2 | Family::Gemma3 => Self {
                feed_forward_before: "pre_feedforward_layernorm",
                ..LLAMA
            },
            Family::Phi => Self {
                last_norm: "final_layernorm",
                attention_out: "self_attn.dense",
                feed_forward_in: &["mlp.fc1"],
                feed_forward_out: "mlp.fc2",
                ..LLAMA
            },
            Family::Phi3 => Self {
                attention_in: Joined::Fused("self_attn.qkv_proj"),
                feed_forward_in: &["mlp.gate_up_proj"],
                ..LLAMA
            },
            Family::Stablelm => LLAMA,
            Family::Starcoder2 => Self {
                feed_forward_in: &["mlp.c_fc"],
                feed_forward_out: "mlp.c_proj",
                ..LLAMA
            },
            Family::Bert => BERT,
            Family::Roberta => Self {
                prefix: "roberta.",
                ..BERT
            },
        }
    }
}

struct Writer<'a> {
    config: &'a TransformerConfig,
    spelling: Spelling,
    /// The last axis of each parameter.
    last: Vec<usize>,
    parts: Vec<Vec<TensorPart>>,
    aliases: Vec<(String, String)>,
}

impl Writer<'_> {
    fn all(&mut self) {
        let layout = self.config.layout();
        let spelling = self.spelling;
        let inner = |name: &str| format!("{}{name}", spelling.prefix);
        let tables = [
            (Some(layout.token_embedding), spelling.tokens),
            (layout.position_embedding, spelling.positions),
            (
                layout.token_type_embedding,
                "embeddings.token_type_embeddings",
            ),
        ];
        for (at, name) in tables {
            if let Some(at) = at {
                self.whole(at, format!("{}.weight", inner(name)));
            }
        }
        self.norm(layout.embedding_norm, &inner("embeddings.LayerNorm"));
        self.norm(layout.final_norm, &inner(spelling.last_norm));
        for (index, layer) in layout.layers.iter().enumerate() {
            self.layer(index, layer);
        }
        self.head(&layout.head);
    }

    fn layer(&mut self, index: usize, at: &LayerLayout) {
        let s = self.spelling;
        let here = |name: &str| format!("{}{}.{index}.{name}", s.prefix, s.layers);
        let c = self.config;
        let (query, key) = (c.query_width(), c.key_value_width());
        self.norm(at.attention_before, &here(s.attention_before));
        self.norm(at.attention_after, &here(s.attention_after));
        self.norm(at.feed_forward_before, &here(s.feed_forward_before));
        self.norm(at.feed_forward_after, &here(s.feed_forward_after));
        match s.attention_in {
            Joined::Apart(names) => {
                let widths = [query, key, key];
                let parts = names.iter().zip(widths).map(|(name, w)| (here(name), w));
                self.linear(at.attention_in, parts.collect());
            }
            Joined::Fused(name) => self.lone(at.attention_in, here(name)),
            Joined::ByHead(name) => {
                self.lone(at.attention_in, here(name));
                let LinearAt { weight, bias } = at.attention_in;
                for at in std::iter::once(weight).chain(bias) {
                    self.parts[at][0].by_head = Some(c.head_width);
                }
            }
        }
        if let Some(heads) = at.head_norms {
            self.whole(heads.query, here("self_attn.q_norm.weight"));
            self.whole(heads.key, here("self_attn.k_norm.weight"));
        }
        self.lone(at.attention_out, here(s.attention_out));
        match s.feed_forward_in {
            [one] => self.lone(at.feed_forward_in, here(one)),
            several => {
                let parts = several.iter().map(|name| (here(name), c.feed_forward));
                self.linear(at.feed_forward_in, parts.collect());
            }
        }
        self.lone(at.feed_forward_out, here(s.feed_forward_out));
    }

    fn head(&mut self, head: &HeadLayout) {
        let bert = self.config.family == Family::Bert;
        let embedding = self.parts[self.config.layout().token_embedding][0]
            .name
            .clone();
        match head {
            HeadLayout::NextToken { projection, bias } => {
                let head = self.spelling.head;
                let name = format!("{head}.weight");
                match projection {
                    Some(at) => self.turned(*at, name),
                    None => self.aliases.push((name, embedding)),
                }
                if let Some(bias) = bias {
                    self.whole(*bias, format!("{head}.bias"));
                }
            }
            HeadLayout::MaskedToken {
                transform,
                norm,
                projection,
                bias,
            } => {
                let [transform_name, norm_name, base] = if bert {
                    [
                        "cls.predictions.transform.dense",
                        "cls.predictions.transform.LayerNorm",
                        "cls.predictions",
                    ]
                } else {
                    ["lm_head.dense", "lm_head.layer_norm", "lm_head"]
                };
                self.lone(*transform, transform_name.into());
                self.norm(Some(*norm), norm_name);
                let decoder = format!("{base}.decoder.weight");
                match projection {
                    Some(at) => self.turned(*at, decoder),
                    None => self.aliases.push((decoder, embedding)),
                }
                self.whole(*bias, format!("{base}.bias"));
                self.aliases
                    .push((format!("{base}.decoder.bias"), format!("{base}.bias")));
            }
            HeadLayout::Classes { dense, output } => {
                let [dense_name, output_name] = match self.config.family {
                    Family::Bert => ["bert.pooler.dense", "classifier"],
                    Family::Roberta => ["classifier.dense", "classifier.out_proj"],
                    _ => ["", "score"],
                };
                if let Some(dense) = dense {
                    self.lone(*dense, dense_name.into());
                }
                // linear layers stored `[in, out]` occur only in GPT-2's blocks
                let upright = std::mem::replace(&mut self.spelling.upright, false);
                self.lone(*output, output_name.into());
                self.spelling.upright = upright;
            }
        }
    }

    /// Maps a tensor that is stored in the same way on both sides.
    fn whole(&mut self, at: usize, name: String) {
        self.parts[at] = vec![TensorPart {
            name,
            columns: self.last[at],
            transposed: false,
            by_head: None,
        }];
    }

    fn turned(&mut self, at: usize, name: String) {
        self.whole(at, name);
        self.parts[at][0].transposed = true;
    }

    fn norm(&mut self, at: Option<NormAt>, name: &str) {
        let Some(NormAt { gain, bias }) = at else {
            return;
        };
        // the first BERT checkpoints use the names of the TensorFlow original
        let mut second = |new: &str, old: &str| {
            let pair = (format!("{name}.{old}"), format!("{name}.{new}"));
            self.aliases.push(pair);
        };
        if name.ends_with("LayerNorm") {
            second("weight", "gamma");
            second("bias", "beta");
        }
        self.whole(gain, format!("{name}.weight"));
        if let Some(bias) = bias {
            self.whole(bias, format!("{name}.bias"));
        }
    }

    fn lone(&mut self, at: LinearAt, name: String) {
        let columns = self.last[at.weight];
        self.linear(at, vec![(name, columns)]);
    }

    /// Maps linear layers that are stored side by side in our parameter.
    fn linear(&mut self, at: LinearAt, layers: Vec<(String, usize)>) {
        let turned = !self.spelling.upright;
        let parts = |suffix: &str, transposed: bool| {
            layers
                .iter()
                .map(|(name, columns)| TensorPart {
                    name: format!("{name}.{suffix}"),
                    columns: *columns,
                    transposed,
                    by_head: None,
                })
                .collect()
        };
        self.parts[at.weight] = parts("weight", turned);
        if let Some(bias) = at.bias {
            self.parts[bias] = parts("bias", false);
        }
    }
}
