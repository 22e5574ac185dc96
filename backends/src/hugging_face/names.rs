//! Which Hugging Face tensors make up each of our parameters.

use crate::model::{Family, HeadLayout, LayerLayout, LinearAt, NormAt, TransformerConfig};

/// One of their tensors: some columns of one of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorPart {
    /// Its name as transformers writes it.
    pub(super) name: String,
    /// Its columns in ours.
    pub(super) columns: usize,
    /// Whether it lies `[out, in]` where ours lies `[in, out]`.
    pub(super) transposed: bool,
}

/// The map for one model.
pub(super) struct Names {
    /// The parts of each parameter, left to right, in the order of the parameters.
    pub(super) parts: Vec<Vec<TensorPart>>,
    /// The prefix that the bare model's tensors have inside a model with a head.
    pub(super) prefix: &'static str,
    /// Second names of tensors: (the other name, the name).
    pub(super) aliases: Vec<(String, String)>,
}

impl Names {
    pub(super) fn of(config: &TransformerConfig) -> Self {
        let parameters = config.parameters();
        let mut writer = Writer {
            config,
            last: parameters
                .iter()
                .map(|p| p.shape.last().copied().unwrap_or(0))
                .collect(),
            parts: vec![Vec::new(); parameters.len()],
            aliases: Vec::new(),
        };
        writer.all();
        Self {
            parts: writer.parts,
            prefix: prefix(config.family),
            aliases: writer.aliases,
        }
    }

    /// Whether a tensor carries no weights of this model: masks, frequencies, position ids, and
    /// heads of the encoder's pre-training that this model does not have.
    pub(super) fn ignored(&self, config: &TransformerConfig, name: &str) -> bool {
        let bare = name.strip_prefix(self.prefix).unwrap_or(name);
        let ends = |suffixes: &[&str]| suffixes.iter().any(|s| bare.ends_with(s));
        match config.family {
            Family::Gpt2 => bare.starts_with("h.") && ends(&[".attn.bias", ".attn.masked_bias"]),
            Family::Llama | Family::Gemma2 => ends(&["rotary_emb.inv_freq"]),
            Family::Bert | Family::Roberta => {
                let classes = matches!(config.head, crate::model::Head::Classes(_));
                let pooled = config.family == Family::Bert && classes;
                ["embeddings.position_ids", "embeddings.token_type_ids"].contains(&bare)
                    || bare.starts_with("cls.seq_relationship.")
                    || (!pooled && bare.starts_with("pooler."))
                    || (classes && bare.starts_with("cls.predictions."))
            }
        }
    }
}

fn prefix(family: Family) -> &'static str {
    match family {
        Family::Gpt2 => "transformer.",
        Family::Llama | Family::Gemma2 => "model.",
        Family::Bert => "bert.",
        Family::Roberta => "roberta.",
    }
}

struct Writer<'a> {
    config: &'a TransformerConfig,
    /// The last axis of each parameter.
    last: Vec<usize>,
    parts: Vec<Vec<TensorPart>>,
    aliases: Vec<(String, String)>,
}

impl Writer<'_> {
    fn all(&mut self) {
        let layout = self.config.layout();
        let [tokens, positions, types, norm, last] = match self.config.family {
            Family::Gpt2 => ["wte", "wpe", "", "", "ln_f"],
            Family::Llama | Family::Gemma2 => ["embed_tokens", "", "", "", "norm"],
            Family::Bert | Family::Roberta => [
                "embeddings.word_embeddings",
                "embeddings.position_embeddings",
                "embeddings.token_type_embeddings",
                "embeddings.LayerNorm",
                "",
            ],
        };
        let inner = |name: &str| format!("{}{name}", prefix(self.config.family));
        let tables = [
            (Some(layout.token_embedding), inner(tokens)),
            (layout.position_embedding, inner(positions)),
            (layout.token_type_embedding, inner(types)),
        ];
        let (norm, last) = (inner(norm), inner(last));
        for (at, name) in tables {
            if let Some(at) = at {
                self.whole(at, format!("{name}.weight"));
            }
        }
        self.norm(layout.embedding_norm, &norm);
        self.norm(layout.final_norm, &last);
        for (index, layer) in layout.layers.iter().enumerate() {
            self.layer(index, layer);
        }
        self.head(&layout.head);
    }

    fn layer(&mut self, index: usize, at: &LayerLayout) {
        let family = self.config.family;
        let prefix = prefix(family);
        let here = |name: &str| match family {
            Family::Gpt2 => format!("{prefix}h.{index}.{name}"),
            Family::Llama | Family::Gemma2 => format!("{prefix}layers.{index}.{name}"),
            Family::Bert | Family::Roberta => format!("{prefix}encoder.layer.{index}.{name}"),
        };
        let c = self.config;
        let (query, key, f) = (c.query_width(), c.key_value_width(), c.feed_forward);
        let attention = |names: [&str; 3]| {
            vec![
                (here(names[0]), query),
                (here(names[1]), key),
                (here(names[2]), key),
            ]
        };
        match family {
            Family::Gpt2 => {
                self.norm(at.attention_before, &here("ln_1"));
                self.norm(at.feed_forward_before, &here("ln_2"));
                self.upright(at.attention_in, &here("attn.c_attn"));
                self.upright(at.attention_out, &here("attn.c_proj"));
                self.upright(at.feed_forward_in, &here("mlp.c_fc"));
                self.upright(at.feed_forward_out, &here("mlp.c_proj"));
            }
            Family::Llama | Family::Gemma2 => {
                self.norm(at.attention_before, &here("input_layernorm"));
                if family == Family::Llama {
                    self.norm(at.feed_forward_before, &here("post_attention_layernorm"));
                } else {
                    self.norm(at.attention_after, &here("post_attention_layernorm"));
                    self.norm(at.feed_forward_before, &here("pre_feedforward_layernorm"));
                    self.norm(at.feed_forward_after, &here("post_feedforward_layernorm"));
                }
                let names = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
                self.linear(at.attention_in, attention(names));
                if let Some(heads) = at.head_norms {
                    self.whole(heads.query, here("self_attn.q_norm.weight"));
                    self.whole(heads.key, here("self_attn.k_norm.weight"));
                }
                self.lone(at.attention_out, here("self_attn.o_proj"));
                let gate_up = vec![(here("mlp.gate_proj"), f), (here("mlp.up_proj"), f)];
                self.linear(at.feed_forward_in, gate_up);
                self.lone(at.feed_forward_out, here("mlp.down_proj"));
            }
            Family::Bert | Family::Roberta => {
                self.norm(at.attention_after, &here("attention.output.LayerNorm"));
                self.norm(at.feed_forward_after, &here("output.LayerNorm"));
                let names = [
                    "attention.self.query",
                    "attention.self.key",
                    "attention.self.value",
                ];
                self.linear(at.attention_in, attention(names));
                self.lone(at.attention_out, here("attention.output.dense"));
                self.lone(at.feed_forward_in, here("intermediate.dense"));
                self.lone(at.feed_forward_out, here("output.dense"));
            }
        }
    }

    fn head(&mut self, head: &HeadLayout) {
        let bert = self.config.family == Family::Bert;
        let embedding = self.parts[self.config.layout().token_embedding][0]
            .name
            .clone();
        match head {
            HeadLayout::NextToken { projection } => match projection {
                Some(at) => self.turned(*at, "lm_head.weight".into()),
                None => self.aliases.push(("lm_head.weight".into(), embedding)),
            },
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
                let [dense_name, output_name] = if bert {
                    ["bert.pooler.dense", "classifier"]
                } else {
                    ["classifier.dense", "classifier.out_proj"]
                };
                self.lone(*dense, dense_name.into());
                self.lone(*output, output_name.into());
            }
        }
    }

    /// A tensor that is the same on both sides.
    fn whole(&mut self, at: usize, name: String) {
        self.parts[at] = vec![TensorPart {
            name,
            columns: self.last[at],
            transposed: false,
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
        // the first BERT checkpoints have the names of its TensorFlow original
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

    /// A linear layer that lies `[in, out]` (GPT-2's).
    fn upright(&mut self, at: LinearAt, name: &str) {
        self.whole(at.weight, format!("{name}.weight"));
        if let Some(bias) = at.bias {
            self.whole(bias, format!("{name}.bias"));
        }
    }

    fn lone(&mut self, at: LinearAt, name: String) {
        let columns = self.last[at.weight];
        self.linear(at, vec![(name, columns)]);
    }

    /// Linear layers that lie `[out, in]`, side by side in ours.
    fn linear(&mut self, at: LinearAt, layers: Vec<(String, usize)>) {
        let parts = |suffix: &str, transposed: bool| {
            layers
                .iter()
                .map(|(name, columns)| TensorPart {
                    name: format!("{name}.{suffix}"),
                    columns: *columns,
                    transposed,
                })
                .collect()
        };
        self.parts[at.weight] = parts("weight", true);
        if let Some(bias) = at.bias {
            self.parts[bias] = parts("bias", false);
        }
    }
}
