//! `config.json` of the families and of what is Llama by another name, read and written with Hugging
//! Face's own keys.

use super::fields::Fields;
use crate::dropout::Dropout;
use crate::error::Result;
use crate::model::{
    Activation, Additions, AttentionBias, Family, Head, Rotary, RotaryScaling, TransformerConfig,
};
use serde_json::{Value, json};
use std::path::Path;

/// Reads and checks a `config.json`.
pub(super) fn read(path: &Path) -> Result<TransformerConfig> {
    let fields = Fields::read(path)?;
    if fields.get("quantization_config").is_some() {
        return Err(fields.bad("quantized weights are not read; save the model in float32 first"));
    }
    let config = match fields.text("model_type")? {
        "gpt2" => gpt2(&fields),
        "llama" => llama(&fields),
        "mistral" => mistral(&fields),
        "qwen2" => qwen2(&fields),
        "qwen3" => qwen3(&fields),
        "gemma2" => gemma2(&fields),
        "bert" => encoder(&fields, Family::Bert),
        "roberta" => encoder(&fields, Family::Roberta),
        other => Err(fields.bad(format!(
            "model_type is `{other}`; gpt2, llama, mistral, qwen2, qwen3, gemma2, bert and roberta are read; any other can be audited through `--scorer`"
        ))),
    }?;
    config.validated().map_err(|e| fields.bad(e))
}

/// The dropout rates of a `config.json`, with transformers' own defaults where it names none.
/// Those of heads that are not trained here (`summary_first_dropout`, `classifier_dropout`) play
/// no part.
pub(super) fn dropout(path: &Path) -> Result<Dropout> {
    let fields = Fields::read(path)?;
    let rate = |key: &str, default: f64| -> Result<f64> {
        let rate = fields.number_if_there(key)?.unwrap_or(default);
        if (0.0..1.0).contains(&rate) {
            Ok(rate)
        } else {
            Err(fields.bad(format!("{key} must lie in [0, 1), got {rate}")))
        }
    };
    Ok(match fields.text("model_type")? {
        "gpt2" => Dropout {
            embedding: rate("embd_pdrop", 0.1)?,
            attention: rate("attn_pdrop", 0.1)?,
            hidden: rate("resid_pdrop", 0.1)?,
        },
        "bert" | "roberta" => {
            let hidden = rate("hidden_dropout_prob", 0.1)?;
            Dropout {
                embedding: hidden,
                attention: rate("attention_probs_dropout_prob", 0.1)?,
                hidden,
            }
        }
        _ => Dropout {
            attention: rate("attention_dropout", 0.0)?,
            ..Dropout::NONE
        },
    })
}

/// Refuses a switch that changes the arithmetic and that we do not follow.
fn refuse(fields: &Fields, key: &str, usual: bool) -> Result<()> {
    if fields.flag(key, usual)? == usual {
        Ok(())
    } else {
        Err(fields.bad(format!("{key} = {} is not covered", !usual)))
    }
}

fn activation(fields: &Fields, key: &str, default: Activation) -> Result<Activation> {
    match fields.text_if_there(key)? {
        None => Ok(default),
        Some("gelu") => Ok(Activation::Gelu),
        Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(Activation::GeluTanh),
        Some("silu" | "swish") => Ok(Activation::Silu),
        Some("relu") => Ok(Activation::Relu),
        Some(other) => Err(fields.bad(format!("{key} `{other}` is not covered"))),
    }
}

/// A decoder's architecture must be the one with the next-token head, or name the bare model.
fn decoder(fields: &Fields, allowed: [&str; 2]) -> Result<()> {
    let named = fields.texts("architectures")?;
    match named.iter().find(|a| !allowed.contains(a)) {
        Some(other) => Err(fields.bad(format!(
            "architecture `{other}` is not covered; {} is",
            allowed[0]
        ))),
        None => Ok(()),
    }
}

fn gpt2(f: &Fields) -> Result<TransformerConfig> {
    decoder(f, ["GPT2LMHeadModel", "GPT2Model"])?;
    refuse(f, "scale_attn_weights", true)?;
    refuse(f, "scale_attn_by_inverse_layer_idx", false)?;
    refuse(f, "add_cross_attention", false)?;
    let (width, heads) = (f.size("n_embd")?, f.size("n_head")?);
    let base = TransformerConfig::new(
        Family::Gpt2,
        f.size("vocab_size")?,
        width,
        f.size("n_layer")?,
        heads,
        f.size("n_positions")?,
    );
    let wide = width.saturating_mul(4);
    Ok(TransformerConfig {
        feed_forward: f.size_if_there("n_inner")?.unwrap_or(wide),
        norm_epsilon: f.number_if_there("layer_norm_epsilon")?.unwrap_or(1e-5),
        activation: activation(f, "activation_function", Activation::GeluTanh)?,
        tied: f.flag("tie_word_embeddings", true)?,
        ..base
    })
}

/// Keys that Llama, Gemma 2 and the encoders share.
fn common(f: &Fields, family: Family) -> Result<TransformerConfig> {
    let base = TransformerConfig::new(
        family,
        f.size("vocab_size")?,
        f.size("hidden_size")?,
        f.size("num_hidden_layers")?,
        f.size("num_attention_heads")?,
        f.size("max_position_embeddings")?,
    );
    Ok(TransformerConfig {
        feed_forward: f.size("intermediate_size")?,
        ..base
    })
}

/// Decoders with rotary positions; `absent` has the key-value heads and the head width that
/// transformers takes where the keys are not there (a `null` is what the sizes say).
fn grouped(
    f: &Fields,
    family: Family,
    absent: (Option<usize>, Option<usize>),
) -> Result<TransformerConfig> {
    let base = common(f, family)?;
    let or_absent = |key: &str, absent: Option<usize>, otherwise: usize| -> Result<usize> {
        let absent = absent.filter(|_| !f.named(key)).unwrap_or(otherwise);
        Ok(f.size_if_there(key)?.unwrap_or(absent))
    };
    Ok(TransformerConfig {
        key_value_heads: or_absent("num_key_value_heads", absent.0, base.heads)?,
        head_width: or_absent("head_dim", absent.1, base.head_width)?,
        norm_epsilon: f.number_if_there("rms_norm_eps")?.unwrap_or(1e-6),
        rotary: Some(rotary(f)?),
        ..base
    })
}

fn llama(f: &Fields) -> Result<TransformerConfig> {
    decoder(f, ["LlamaForCausalLM", "LlamaModel"])?;
    let additions = Additions {
        attention_bias: attention_bias(f)?,
        feed_forward_bias: f.flag("mlp_bias", false)?,
        ..Additions::default()
    };
    llama_like(f, additions, (None, None))
}

fn llama_like(
    f: &Fields,
    additions: Additions,
    absent: (Option<usize>, Option<usize>),
) -> Result<TransformerConfig> {
    Ok(TransformerConfig {
        activation: activation(f, "hidden_act", Activation::Silu)?,
        tied: f.flag("tie_word_embeddings", false)?,
        additions,
        ..grouped(f, Family::Llama, absent)?
    })
}

fn attention_bias(f: &Fields) -> Result<AttentionBias> {
    Ok(match f.flag("attention_bias", false)? {
        true => AttentionBias::Both,
        false => AttentionBias::None,
    })
}

/// Llama, every layer of which may see only the last positions.
fn mistral(f: &Fields) -> Result<TransformerConfig> {
    decoder(f, ["MistralForCausalLM", "MistralModel"])?;
    refuse(f, "attention_bias", false)?;
    let base = llama_like(f, Additions::default(), (Some(8), None))?;
    let window = match f.size_if_there("sliding_window")? {
        None if !f.named("sliding_window") => Some(4096),
        window => window,
    };
    Ok(TransformerConfig {
        // One that is as long as the context hides nothing.
        sliding_window: window.filter(|window| *window < base.positions),
        ..base
    })
}

fn qwen2(f: &Fields) -> Result<TransformerConfig> {
    decoder(f, ["Qwen2ForCausalLM", "Qwen2Model"])?;
    let additions = Additions {
        attention_bias: AttentionBias::Inner,
        ..Additions::default()
    };
    without_window(f, llama_like(f, additions, (Some(32), None))?)
}

fn qwen3(f: &Fields) -> Result<TransformerConfig> {
    decoder(f, ["Qwen3ForCausalLM", "Qwen3Model"])?;
    let additions = Additions {
        attention_bias: attention_bias(f)?,
        head_norms: true,
        ..Additions::default()
    };
    without_window(f, llama_like(f, additions, (Some(32), Some(128)))?)
}

/// Refuses a window that some layers of a Qwen have, unless it is as long as the context.
fn without_window(f: &Fields, config: TransformerConfig) -> Result<TransformerConfig> {
    if f.flag("use_sliding_window", false)? {
        let window = f.size_if_there("sliding_window")?.unwrap_or(4096);
        if window < config.positions {
            return Err(f.bad(format!(
                "use_sliding_window with sliding_window = {window}, below max_position_embeddings = {}, is not covered",
                config.positions
            )));
        }
        return Ok(config);
    }
    let types = f.texts("layer_types")?;
    match types.iter().position(|kind| *kind != "full_attention") {
        Some(i) => Err(f.bad(format!(
            "layer_types[{i}] is `{}`; only full_attention is covered",
            types[i]
        ))),
        None => Ok(config),
    }
}

fn gemma2(f: &Fields) -> Result<TransformerConfig> {
    decoder(f, ["Gemma2ForCausalLM", "Gemma2Model"])?;
    refuse(f, "use_bidirectional_attention", false)?;
    let alternate = ["sliding_attention", "full_attention"];
    let types = f.texts("layer_types")?;
    if let Some(i) = (0..types.len()).find(|i| types[*i] != alternate[i % 2]) {
        return Err(f.bad(format!(
            "layer_types[{i}] is `{}`; even layers slide and odd ones see all",
            types[i]
        )));
    }
    refuse(f, "attention_bias", false)?;
    let base = grouped(f, Family::Gemma2, (None, None))?;
    let head_width = f.size_if_there("head_dim")?.unwrap_or(256);
    Ok(TransformerConfig {
        head_width,
        activation: activation(f, "hidden_activation", Activation::GeluTanh)?,
        query_scalar: Some(f.number_if_there("query_pre_attn_scalar")?.unwrap_or(256.0)),
        attention_cap: f.number_if_there("attn_logit_softcapping")?,
        logit_cap: f.number_if_there("final_logit_softcapping")?,
        sliding_window: f.size_if_there("sliding_window")?,
        tied: f.flag("tie_word_embeddings", true)?,
        ..base
    })
}

/// θ and its stretching: `rope_theta` with `rope_scaling`, or `rope_parameters` alone.
fn rotary(f: &Fields) -> Result<Rotary> {
    let parameters = f.object("rope_parameters")?;
    for fields in parameters.iter().chain([f]) {
        if let Some(share) = fields.number_if_there("partial_rotary_factor")?
            && (share - 1.0).abs() > 0.0
        {
            return Err(fields.bad(format!("partial_rotary_factor = {share} is not covered")));
        }
    }
    let inner = parameters
        .as_ref()
        .map_or(Ok(None), |p| p.number_if_there("rope_theta"))?;
    let theta = inner.or(f.number_if_there("rope_theta")?);
    let scaling = match f.object("rope_scaling")?.or(parameters) {
        None => None,
        Some(s) => scaling(&s)?,
    };
    Ok(Rotary {
        theta: theta.unwrap_or(10_000.0),
        scaling,
    })
}

fn scaling(s: &Fields) -> Result<Option<RotaryScaling>> {
    let kind = match s.text_if_there("rope_type")? {
        Some(kind) => Some(kind),
        None => s.text_if_there("type")?,
    };
    match kind {
        None | Some("default") => Ok(None),
        Some("linear") => Ok(Some(RotaryScaling::Linear {
            factor: s.number("factor")?,
        })),
        Some("llama3") => Ok(Some(RotaryScaling::Llama3 {
            factor: s.number("factor")?,
            low: s.number("low_freq_factor")?,
            high: s.number("high_freq_factor")?,
            original: s.number("original_max_position_embeddings")?,
        })),
        Some(other) => Err(s.bad(format!(
            "rope_type `{other}` is not covered; default, linear and llama3 are"
        ))),
    }
}

fn encoder(f: &Fields, family: Family) -> Result<TransformerConfig> {
    refuse(f, "is_decoder", false)?;
    refuse(f, "add_cross_attention", false)?;
    if let Some(kind) = f.text_if_there("position_embedding_type")?
        && kind != "absolute"
    {
        return Err(f.bad(format!("position_embedding_type `{kind}` is not covered")));
    }
    let roberta = family == Family::Roberta;
    let padding = f.size_if_there("pad_token_id")?.unwrap_or(1);
    let padding = u32::try_from(padding).map_err(|e| f.bad(format!("pad_token_id: {e}")))?;
    Ok(TransformerConfig {
        norm_epsilon: f.number_if_there("layer_norm_eps")?.unwrap_or(1e-12),
        activation: activation(f, "hidden_act", Activation::Gelu)?,
        token_types: f.size_if_there("type_vocab_size")?.unwrap_or(2),
        padding: roberta.then_some(padding),
        head: encoder_head(f)?,
        tied: f.flag("tie_word_embeddings", true)?,
        ..common(f, family)?
    })
}

fn encoder_head(f: &Fields) -> Result<Head> {
    let named = f.texts("architectures")?;
    match named.first().copied() {
        Some("BertForMaskedLM" | "BertForPreTraining" | "RobertaForMaskedLM") => {
            Ok(Head::MaskedToken)
        }
        Some("BertForSequenceClassification" | "RobertaForSequenceClassification") => {
            let labels = match f.object("id2label")? {
                Some(labels) => labels.len(),
                None => f.size_if_there("num_labels")?.unwrap_or(2),
            };
            Ok(Head::Classes(labels))
        }
        other => Err(f.bad(format!(
            "architecture {} is not covered; those for masked tokens and sequence classification are",
            other.map_or("(none named)".into(), |o| format!("`{o}`"))
        ))),
    }
}

/// Ids that `config.json` names besides the shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Specials {
    pub(super) bos: u32,
    pub(super) eos: u32,
}

/// `config.json` such that transformers builds the same model.
pub(super) fn write(c: &TransformerConfig, specials: Option<Specials>) -> Value {
    let mut value = match c.family {
        Family::Gpt2 => write_gpt2(c),
        Family::Llama | Family::Gemma2 => write_grouped(c),
        Family::Bert | Family::Roberta => write_encoder(c),
    };
    value["model_type"] = json!(model_type(c));
    value["architectures"] = json!([architecture(c)]);
    value["vocab_size"] = json!(c.vocabulary);
    value["tie_word_embeddings"] = json!(c.tied);
    value["torch_dtype"] = json!("float32");
    if let Some(Specials { bos, eos }) = specials {
        value["bos_token_id"] = json!(bos);
        value["eos_token_id"] = json!(eos);
    }
    value
}

fn model_type(c: &TransformerConfig) -> &'static str {
    match c.family {
        Family::Gpt2 => "gpt2",
        Family::Llama if c.additions.head_norms => "qwen3",
        Family::Llama if c.additions.attention_bias == AttentionBias::Inner => "qwen2",
        Family::Llama if c.sliding_window.is_some() => "mistral",
        Family::Llama => "llama",
        Family::Gemma2 => "gemma2",
        Family::Bert => "bert",
        Family::Roberta => "roberta",
    }
}

fn architecture(c: &TransformerConfig) -> &'static str {
    match (c.family, c.head) {
        (Family::Gpt2, _) => "GPT2LMHeadModel",
        (Family::Llama, _) => match model_type(c) {
            "qwen3" => "Qwen3ForCausalLM",
            "qwen2" => "Qwen2ForCausalLM",
            "mistral" => "MistralForCausalLM",
            _ => "LlamaForCausalLM",
        },
        (Family::Gemma2, _) => "Gemma2ForCausalLM",
        (Family::Bert, Head::Classes(_)) => "BertForSequenceClassification",
        (Family::Bert, _) => "BertForMaskedLM",
        (Family::Roberta, Head::Classes(_)) => "RobertaForSequenceClassification",
        (Family::Roberta, _) => "RobertaForMaskedLM",
    }
}

fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_pytorch_tanh",
        Activation::Silu => "silu",
        Activation::Relu => "relu",
    }
}

fn write_gpt2(c: &TransformerConfig) -> Value {
    json!({
        "n_embd": c.width, "n_layer": c.layers, "n_head": c.heads, "n_positions": c.positions,
        "n_inner": c.feed_forward, "layer_norm_epsilon": c.norm_epsilon,
        "activation_function": activation_name(c.activation),
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
    value["num_key_value_heads"] = json!(c.key_value_heads);
    value["head_dim"] = json!(c.head_width);
    value["rms_norm_eps"] = json!(c.norm_epsilon);
    value["hidden_act"] = json!(activation_name(c.activation));
    if let Some(rotary) = &c.rotary {
        value["rope_theta"] = json!(rotary.theta);
        value["rope_scaling"] = write_scaling(rotary.scaling.as_ref());
    }
    if c.family == Family::Llama {
        let kind = model_type(c);
        if ["llama", "qwen3"].contains(&kind) {
            value["attention_bias"] = json!(c.additions.attention_bias == AttentionBias::Both);
        }
        match kind {
            "llama" => value["mlp_bias"] = json!(c.additions.feed_forward_bias),
            "mistral" => value["sliding_window"] = json!(c.sliding_window),
            _ => value["use_sliding_window"] = json!(false),
        }
    }
    if c.family == Family::Gemma2 {
        value["hidden_activation"] = value["hidden_act"].clone();
        value["query_pre_attn_scalar"] = whole(c.query_scalar.unwrap_or(c.head_width as f64));
        value["attn_logit_softcapping"] = json!(c.attention_cap);
        value["final_logit_softcapping"] = json!(c.logit_cap);
        value["sliding_window"] = json!(c.sliding_window);
    }
    value
}

/// A number; without a point where it is whole, as transformers 5 asks for.
fn whole(number: f64) -> Value {
    if number.fract() == 0.0 {
        json!(number as u64)
    } else {
        json!(number)
    }
}

fn write_scaling(scaling: Option<&RotaryScaling>) -> Value {
    match scaling {
        None => Value::Null,
        Some(RotaryScaling::Linear { factor }) => json!({"rope_type": "linear", "factor": factor}),
        Some(RotaryScaling::Llama3 {
            factor,
            low,
            high,
            original,
        }) => json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": *original as u64,
        }),
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
    if let Head::Classes(classes) = c.head {
        let label = |i: usize| format!("LABEL_{i}");
        let ids: serde_json::Map<String, Value> = (0..classes)
            .map(|i| (i.to_string(), json!(label(i))))
            .collect();
        let labels: serde_json::Map<String, Value> =
            (0..classes).map(|i| (label(i), json!(i))).collect();
        value["id2label"] = Value::Object(ids);
        value["label2id"] = Value::Object(labels);
    }
    value
}
