//! Writes a `config.json` from which transformers builds the same model.

use super::decoders::epsilon_key;
use super::{labels, names, rotary};
use crate::model::{Activation, Family, Head, Residual, TransformerConfig};
use serde_json::{Value, json};

/// Ids that `config.json` records in addition to the architecture.
#[derive(Debug, Clone, Copy)]
pub(in crate::hugging_face) struct Specials {
    pub(in crate::hugging_face) bos: u32,
    pub(in crate::hugging_face) eos: u32,
}

pub(in crate::hugging_face) fn write(c: &TransformerConfig, specials: Option<Specials>) -> Value {
    let mut value = match c.family {
        Family::Gpt2 | Family::GptBigcode => write_gpt2(c),
        Family::GptNeo => write_gpt_neo(c),
        Family::Opt => write_opt(c),
        Family::Bert | Family::Roberta => write_encoder(c),
        _ => write_grouped(c),
    };
    let [kind, _] = names(c.family);
    value["model_type"] = json!(kind);
    value["architectures"] = json!([architecture(c)]);
    value["vocab_size"] = json!(c.vocabulary);
    value["tie_word_embeddings"] = json!(c.tied);
    value["torch_dtype"] = json!("float32");
    if c.causal() {
        // a class's own default may lie outside the vocabulary
        value["pad_token_id"] = Value::Null;
    }
    labels::put(c, &mut value);
    if let Some(Specials { bos, eos }) = specials {
        value["bos_token_id"] = json!(bos);
        value["eos_token_id"] = json!(eos);
    }
    value
}

/// Returns a decoder's class in transformers, and the bare model's.
pub(super) fn classes(family: Family) -> [String; 2] {
    let [_, stem] = names(family);
    let [head, bare] = match family {
        Family::Gpt2 => ["LMHeadModel", "Model"],
        Family::Gemma3 => ["ForCausalLM", "TextModel"],
        Family::Bert => ["ForMaskedLM", "ForPreTraining"],
        Family::Roberta => ["ForMaskedLM"; 2],
        _ => ["ForCausalLM", "Model"],
    };
    [format!("{stem}{head}"), format!("{stem}{bare}")]
}

/// Returns the class in transformers that classifies sequences, if a family has one.
pub(super) fn sequence_class(family: Family) -> Option<String> {
    let [_, stem] = names(family);
    match family {
        Family::Granite => None,
        Family::Gemma3 => Some(format!("{stem}TextForSequenceClassification")),
        _ => Some(format!("{stem}ForSequenceClassification")),
    }
}

fn architecture(c: &TransformerConfig) -> String {
    let classes_of = match c.head {
        Head::Classes(_) => sequence_class(c.family),
        Head::NextToken | Head::MaskedToken => None,
    };
    let [class, _] = classes(c.family);
    classes_of.unwrap_or(class)
}

fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_pytorch_tanh",
        Activation::Silu => "silu",
        Activation::Relu => "relu",
        Activation::QuickGelu => "quick_gelu",
    }
}

fn write_gpt2(c: &TransformerConfig) -> Value {
    let mut value = json!({
        "n_embd": c.width, "n_layer": c.layers, "n_head": c.heads, "n_positions": c.positions,
        "n_inner": c.feed_forward, "layer_norm_epsilon": c.norm_epsilon,
        "activation_function": activation_name(c.activation),
    });
    if c.family == Family::GptBigcode {
        value["multi_query"] = json!(c.key_value_heads == 1);
    }
    value
}

fn write_gpt_neo(c: &TransformerConfig) -> Value {
    let kind = |layer| {
        if c.switches.slides(layer) {
            "local"
        } else {
            "global"
        }
    };
    let kinds: Vec<&str> = (0..c.layers).map(kind).collect();
    json!({
        "hidden_size": c.width, "num_layers": c.layers, "num_heads": c.heads,
        "max_position_embeddings": c.positions, "intermediate_size": c.feed_forward,
        "layer_norm_epsilon": c.norm_epsilon, "activation_function": activation_name(c.activation),
        "window_size": c.sliding_window, "attention_types": [[kinds, 1]], "attention_layers": kinds,
    })
}

fn write_opt(c: &TransformerConfig) -> Value {
    json!({
        "hidden_size": c.width, "num_hidden_layers": c.layers, "num_attention_heads": c.heads,
        "ffn_dim": c.feed_forward, "word_embed_proj_dim": c.width,
        "max_position_embeddings": c.positions.saturating_sub(c.switches.position_offset),
        "activation_function": activation_name(c.activation), "do_layer_norm_before": true,
        "enable_bias": c.switches.biases.attention_in,
    })
}

fn write_common(c: &TransformerConfig) -> Value {
    json!({
        "hidden_size": c.width, "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads, "intermediate_size": c.feed_forward,
        "max_position_embeddings": c.positions,
    })
}

fn write_grouped(c: &TransformerConfig) -> Value {
    let mut value = write_common(c);
    if c.family != Family::GptNeox {
        value["num_key_value_heads"] = json!(c.key_value_heads);
    }
    if c.head_width.checked_mul(c.heads) != Some(c.width) || wide_heads(c.family) {
        value["head_dim"] = json!(c.head_width);
    }
    value[epsilon_key(c.family)] = json!(c.norm_epsilon);
    value["hidden_act"] = json!(activation_name(c.activation));
    rotary::write(c, &mut value);
    let (s, biases) = (&c.switches, c.switches.biases);
    match c.family {
        Family::Llama | Family::Granite | Family::Smollm3 => {
            value["attention_bias"] = json!(biases.attention_in);
            value["mlp_bias"] = json!(biases.feed_forward);
        }
        Family::Qwen3 | Family::Olmo2 | Family::GptNeox => {
            value["attention_bias"] = json!(biases.attention_in);
        }
        Family::Starcoder2 => value["use_bias"] = json!(biases.attention_in),
        Family::Stablelm => value["use_qkv_bias"] = json!(biases.attention_in),
        _ => {}
    }
    match c.family {
        Family::GptNeox | Family::Stablelm => {
            value["use_parallel_residual"] = json!(s.residual != Residual::InTurn);
        }
        Family::Granite => {
            value["embedding_multiplier"] = json!(s.multipliers.embedding);
            value["attention_multiplier"] = json!(c.attention_scale());
            value["residual_multiplier"] = json!(s.multipliers.residual);
            value["logits_scaling"] = json!(s.multipliers.logits);
        }
        Family::Smollm3 => {
            let turned = |layer| u8::from(!s.unturned_layers.contains(&layer));
            value["no_rope_layers"] = (0..c.layers).map(turned).collect();
        }
        Family::Gemma | Family::Gemma2 | Family::Gemma3 => {
            value["hidden_activation"] = value["hidden_act"].clone();
        }
        _ => {}
    }
    write_window(c, &mut value);
    if let Some(scalar) = c.query_scalar {
        value["query_pre_attn_scalar"] = whole(scalar);
        value["attn_logit_softcapping"] = json!(c.attention_cap);
        value["final_logit_softcapping"] = json!(c.logit_cap);
    }
    value
}

/// Returns whether the heads of a family may have a width other than the model's width over their number, and usually
/// have another.
const fn wide_heads(family: Family) -> bool {
    matches!(
        family,
        Family::Llama
            | Family::Mistral
            | Family::Qwen3
            | Family::Gemma
            | Family::Gemma2
            | Family::Gemma3
    )
}

fn write_window(c: &TransformerConfig, value: &mut Value) {
    let kind = |layer| match c.switches.slides(layer) {
        true => "sliding_attention",
        false => "full_attention",
    };
    let kinds = || (0..c.layers).map(kind).collect::<Vec<_>>();
    match c.family {
        Family::Mistral | Family::Phi3 | Family::Starcoder2 => {
            value["sliding_window"] = json!(c.sliding_window);
        }
        Family::Qwen2 | Family::Qwen3 | Family::Smollm3 => {
            value["use_sliding_window"] = json!(c.sliding_window.is_some());
            if c.sliding_window.is_some() {
                value["sliding_window"] = json!(c.sliding_window);
                value["layer_types"] = json!(kinds());
            }
        }
        Family::Gemma2 | Family::Gemma3 => {
            value["sliding_window"] = json!(c.sliding_window);
            value["layer_types"] = json!(kinds());
        }
        _ => {}
    }
}

/// Returns a number, without a decimal point if it is whole, as transformers 5 requires.
fn whole(number: f64) -> Value {
    if number.fract() == 0.0 {
        json!(number as u64)
    } else {
        json!(number)
    }
}

fn write_encoder(c: &TransformerConfig) -> Value {
    let mut value = write_common(c);
    value["layer_norm_eps"] = json!(c.norm_epsilon);
    value["hidden_act"] = json!(activation_name(c.activation));
    value["type_vocab_size"] = json!(c.token_types);
    value["position_embedding_type"] = json!("absolute");
    if let Some(padding) = c.padding {
        value["pad_token_id"] = json!(padding);
    }
    value
}
