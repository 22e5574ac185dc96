//! Decoders: the keys of each family, and the switches that they set.

use super::{SIZES, activation, common, refuse, rotary, sized};
use crate::error::Result;
use crate::hugging_face::fields::Fields;
use crate::model::{
    Activation, Biases, Family, Multipliers, Residual, Switches, TransformerConfig,
};

pub(super) fn read(f: &Fields, family: Family) -> Result<TransformerConfig> {
    named(f, family)?;
    match family {
        Family::Gpt2 | Family::GptBigcode => gpt2(f, family),
        Family::GptNeo => gpt_neo(f),
        Family::Opt => opt(f),
        Family::Gemma | Family::Gemma2 | Family::Gemma3 => gemma(f, family),
        _ => rotated(f, family),
    }
}

/// Checks that a decoder's architecture is the one with the next-token head or with classes, or the bare model.
fn named(f: &Fields, family: Family) -> Result<()> {
    let allowed = super::write::classes(family);
    let named = f.texts("architectures")?;
    let classes = super::write::sequence_class(family);
    let known = |name: &str| allowed.iter().chain(&classes).any(|class| class == name);
    match named.iter().find(|name| !known(name)) {
        Some(other) => {
            let also = classes.map_or(String::new(), |name| format!(" and {name}"));
            let verb = if also.is_empty() { "is" } else { "are" };
            Err(f.uncovered(format!(
                "architecture `{other}` is not covered ({}{also} {verb})",
                allowed[0]
            )))
        }
        None => Ok(()),
    }
}

/// GPT-2 and GPT BigCode.
fn gpt2(f: &Fields, family: Family) -> Result<TransformerConfig> {
    refuse(f, "scale_attn_weights", true)?;
    refuse(f, "scale_attn_by_inverse_layer_idx", false)?;
    refuse(f, "add_cross_attention", false)?;
    let base = sized(f, family, ["n_embd", "n_layer", "n_head", "n_positions"])?;
    let shared = family == Family::GptBigcode && f.flag("multi_query", true)?;
    Ok(TransformerConfig {
        key_value_heads: if shared { 1 } else { base.heads },
        ..of_gpt(f, "n_inner", base)?
    })
}

/// Reads the keys that all GPTs share.
fn of_gpt(f: &Fields, inner: &str, base: TransformerConfig) -> Result<TransformerConfig> {
    let epsilon = f.number_if_there("layer_norm_epsilon")?;
    Ok(TransformerConfig {
        feed_forward: f.size_if_there(inner)?.unwrap_or(base.feed_forward),
        norm_epsilon: epsilon.unwrap_or(base.norm_epsilon),
        activation: activation(f, "activation_function", base.activation)?,
        ..base
    })
}

fn gpt_neo(f: &Fields) -> Result<TransformerConfig> {
    let sizes = [
        "hidden_size",
        "num_layers",
        "num_heads",
        "max_position_embeddings",
    ];
    let base = of_gpt(f, "intermediate_size", sized(f, Family::GptNeo, sizes)?)?;
    let kinds = match f.texts("attention_layers")? {
        kinds if !kinds.is_empty() => kinds.into_iter().map(str::to_owned).collect(),
        _ if f.get("attention_types").is_some() => f.repeated_texts("attention_types")?,
        _ => ["global", "local"]
            .repeat(12)
            .into_iter()
            .map(str::to_owned)
            .collect(),
    };
    let sliding = chosen(
        f,
        "attention_layers",
        &kinds,
        ["local", "global"],
        base.layers,
    )?;
    Ok(TransformerConfig {
        sliding_window: Some(f.size_if_there("window_size")?.unwrap_or(256)),
        switches: Switches {
            sliding_layers: Some(sliding),
            ..base.switches
        },
        ..base
    })
}

fn opt(f: &Fields) -> Result<TransformerConfig> {
    refuse(f, "do_layer_norm_before", true)?;
    refuse(f, "layer_norm_elementwise_affine", true)?;
    refuse(f, "_remove_final_layer_norm", false)?;
    let base = sized(f, Family::Opt, SIZES)?;
    if let Some(other) = f.size_if_there("word_embed_proj_dim")?
        && other != base.width
    {
        return Err(f.uncovered(format!(
            "word_embed_proj_dim = {other} beside hidden_size = {} is not covered",
            base.width
        )));
    }
    let all = f.flag("enable_bias", true)?;
    let offset = base.switches.position_offset;
    Ok(TransformerConfig {
        feed_forward: f.size("ffn_dim")?,
        positions: base.positions.saturating_add(offset),
        activation: activation(f, "activation_function", base.activation)?,
        switches: Switches {
            biases: Biases {
                head: false,
                ..if all { Biases::ALL } else { Biases::NONE }
            },
            ..base.switches
        },
        ..base
    })
}

/// Returns the number of key-value heads and the width of a head for absent keys (for `null` they follow from the
/// sizes).
fn absent(family: Family) -> (Option<usize>, Option<usize>) {
    match family {
        Family::Mistral => (Some(8), None),
        Family::Qwen2 => (Some(32), None),
        Family::Qwen3 => (Some(32), Some(128)),
        Family::Gemma => (Some(16), Some(256)),
        Family::Gemma2 | Family::Gemma3 => (Some(4), Some(256)),
        Family::Smollm3 => (Some(4), None),
        Family::Stablelm => (Some(32), None),
        Family::Starcoder2 => (Some(2), None),
        _ => (None, None),
    }
}

/// Returns the key of the norms' ε.
pub(super) fn epsilon_key(family: Family) -> &'static str {
    match family {
        Family::Phi | Family::GptNeox | Family::Stablelm => "layer_norm_eps",
        Family::Starcoder2 => "norm_epsilon",
        _ => "rms_norm_eps",
    }
}

/// Reads the keys that decoders with rotary positions share.
fn grouped(f: &Fields, family: Family) -> Result<TransformerConfig> {
    let base = common(f, family)?;
    let absent = absent(family);
    let or_absent = |key: &str, absent: Option<usize>, otherwise: usize| -> Result<usize> {
        let absent = absent.filter(|_| !f.named(key)).unwrap_or(otherwise);
        Ok(f.size_if_there(key)?.unwrap_or(absent))
    };
    let shared = family != Family::GptNeox;
    let base = TransformerConfig {
        key_value_heads: match shared {
            true => or_absent("num_key_value_heads", absent.0, base.heads)?,
            false => base.heads,
        },
        head_width: or_absent("head_dim", absent.1, base.head_width)?,
        norm_epsilon: f
            .number_if_there(epsilon_key(family))?
            .unwrap_or(base.norm_epsilon),
        activation: activation(f, "hidden_act", base.activation)?,
        ..base
    };
    Ok(TransformerConfig {
        rotary: Some(rotary::read(f, &base)?),
        ..base
    })
}

fn rotated(f: &Fields, family: Family) -> Result<TransformerConfig> {
    let base = grouped(f, family)?;
    let (sliding_window, sliding_layers) = window(f, &base)?;
    let unturned_layers = match family {
        Family::Smollm3 => unturned(f, base.layers)?,
        _ => Vec::new(),
    };
    let switches = Switches {
        biases: biases(f, &base)?,
        residual: residual(f, &base)?,
        multipliers: multipliers(f, &base)?,
        sliding_layers,
        unturned_layers,
        ..base.switches
    };
    Ok(TransformerConfig {
        sliding_window,
        switches,
        ..base
    })
}

fn biases(f: &Fields, base: &TransformerConfig) -> Result<Biases> {
    let attention = |usual: bool| f.flag("attention_bias", usual);
    let usual = base.switches.biases;
    Ok(match base.family {
        Family::Llama | Family::Granite | Family::Smollm3 => {
            let attention = attention(false)?;
            Biases {
                attention_in: attention,
                attention_out: attention,
                feed_forward: f.flag("mlp_bias", false)?,
                head: false,
            }
        }
        Family::Qwen3 | Family::Olmo2 | Family::GptNeox => {
            let attention = attention(base.family == Family::GptNeox)?;
            Biases {
                attention_in: attention,
                attention_out: attention,
                ..usual
            }
        }
        Family::Starcoder2 => match f.flag("use_bias", true)? {
            true => usual,
            false => Biases::NONE,
        },
        Family::Stablelm => Biases {
            attention_in: f.flag("use_qkv_bias", false)?,
            ..usual
        },
        _ => {
            refuse(f, "attention_bias", false)?;
            usual
        }
    })
}

fn residual(f: &Fields, base: &TransformerConfig) -> Result<Residual> {
    let parallel = |usual: bool| f.flag("use_parallel_residual", usual);
    Ok(match base.family {
        Family::GptNeox if !parallel(true)? => Residual::InTurn,
        Family::Stablelm => {
            refuse(f, "qk_layernorm", false)?;
            match parallel(false)? {
                true => Residual::ParallelOneNorm,
                false => Residual::InTurn,
            }
        }
        Family::Phi => {
            refuse(f, "qk_layernorm", false)?;
            base.switches.residual
        }
        _ => base.switches.residual,
    })
}

fn multipliers(f: &Fields, base: &TransformerConfig) -> Result<Multipliers> {
    if base.family != Family::Granite {
        return Ok(base.switches.multipliers);
    }
    let number = |key: &str| -> Result<f64> { Ok(f.number_if_there(key)?.unwrap_or(1.0)) };
    Ok(Multipliers {
        embedding: number("embedding_multiplier")?,
        attention: Some(number("attention_multiplier")?),
        residual: number("residual_multiplier")?,
        logits: number("logits_scaling")?,
    })
}

/// Returns the positions of the layers of one kind in a list of kinds, of which there are two.
fn chosen(
    f: &Fields,
    key: &str,
    kinds: &[impl AsRef<str>],
    [wanted, other]: [&str; 2],
    layers: usize,
) -> Result<Vec<usize>> {
    if kinds.len() != layers {
        return Err(f.bad(format!(
            "{key} has {} entries for {layers} layers",
            kinds.len()
        )));
    }
    let mut found = Vec::new();
    for (layer, kind) in kinds.iter().enumerate() {
        match kind.as_ref() {
            kind if kind == wanted => found.push(layer),
            kind if kind == other => {}
            kind => {
                return Err(f.uncovered(format!(
                    "{key}[{layer}] is `{kind}`, which is not covered ({wanted} and {other} are)"
                )));
            }
        }
    }
    Ok(found)
}

const KINDS: [&str; 2] = ["sliding_attention", "full_attention"];

/// Returns the layers that `layer_types` lists as sliding, if it is present.
fn sliding(f: &Fields, layers: usize) -> Result<Option<Vec<usize>>> {
    let types = f.texts("layer_types")?;
    if types.is_empty() {
        return Ok(None);
    }
    chosen(f, "layer_types", &types, KINDS, layers).map(Some)
}

/// Returns the window and the layers that have it: all of them, or, subject to `use_sliding_window`, those of
/// `layer_types`.
fn window(f: &Fields, base: &TransformerConfig) -> Result<(Option<usize>, Option<Vec<usize>>)> {
    let all = matches!(
        base.family,
        Family::Mistral | Family::Phi3 | Family::Starcoder2
    );
    let some = matches!(base.family, Family::Qwen2 | Family::Qwen3 | Family::Smollm3);
    if !all && !some {
        return Ok((None, None));
    }
    // A window as long as the context hides nothing.
    let hiding = |window: Option<usize>| window.filter(|window| *window < base.positions);
    let given = f.size_if_there("sliding_window")?;
    let usual = |window: Option<usize>| given.or(window.filter(|_| !f.named("sliding_window")));
    if all {
        let usual = usual((base.family == Family::Mistral).then_some(4096));
        return Ok((hiding(usual), None));
    }
    let listed = sliding(f, base.layers)?;
    if !f.flag("use_sliding_window", false)? {
        return match listed.and_then(|layers| layers.first().copied()) {
            None => Ok((None, None)),
            Some(layer) => Err(f.bad(format!(
                "layer_types[{layer}] is `sliding_attention` without use_sliding_window"
            ))),
        };
    }
    let smol = base.family == Family::Smollm3;
    let Some(window) = hiding(usual((!smol).then_some(4096))) else {
        return Ok((None, None));
    };
    let layers = match listed {
        Some(layers) => layers,
        None if smol => unturned(f, base.layers)?,
        None => {
            let first = f.size_if_there("max_window_layers")?.unwrap_or(28);
            (first..base.layers).collect()
        }
    };
    Ok(match layers.len() {
        0 => (None, None),
        all if all == base.layers => (Some(window), None),
        _ => (Some(window), Some(layers)),
    })
}

/// Returns the layers without rotary positions: those with a 0 in `no_rope_layers`.
fn unturned(f: &Fields, layers: usize) -> Result<Vec<usize>> {
    let marks = f.sizes("no_rope_layers")?;
    if marks.is_empty() {
        let every = f.size_if_there("no_rope_layer_interval")?.unwrap_or(4);
        return Ok((0..layers)
            .filter(|i| (i + 1).is_multiple_of(every))
            .collect());
    }
    if marks.len() != layers {
        return Err(f.bad(format!(
            "no_rope_layers has {} entries for {layers} layers",
            marks.len()
        )));
    }
    Ok((0..layers).filter(|i| marks[*i] == 0).collect())
}

fn gemma(f: &Fields, family: Family) -> Result<TransformerConfig> {
    refuse(f, "use_bidirectional_attention", false)?;
    refuse(f, "attention_bias", false)?;
    let base = grouped(f, family)?;
    if family == Family::Gemma {
        return gemma1(f, base);
    }
    let activation = activation(f, "hidden_activation", Activation::GeluTanh)?;
    let pattern = |every: usize| {
        (0..base.layers)
            .filter(|i| !(i + 1).is_multiple_of(every))
            .collect()
    };
    let sliding_layers = match sliding(f, base.layers)? {
        Some(layers) => layers,
        None if family == Family::Gemma2 => pattern(2),
        None => pattern(f.size_if_there("sliding_window_pattern")?.unwrap_or(6)),
    };
    let gemma2 = family == Family::Gemma2;
    let cap = |key: &str, usual: f64| -> Result<Option<f64>> {
        let absent = Some(usual).filter(|_| gemma2 && !f.named(key));
        Ok(f.number_if_there(key)?.or(absent))
    };
    let attention_cap = cap("attn_logit_softcapping", 50.0)?;
    if let Some(cap) = attention_cap.filter(|_| !gemma2) {
        return Err(f.uncovered(format!(
                "attn_logit_softcapping = {cap} is not covered: transformers reads it and does not follow it"
            ),
        ));
    }
    let window = Some(4096).filter(|_| !f.named("sliding_window"));
    Ok(TransformerConfig {
        activation,
        query_scalar: Some(f.number_if_there("query_pre_attn_scalar")?.unwrap_or(256.0)),
        attention_cap,
        logit_cap: cap("final_logit_softcapping", 30.0)?,
        sliding_window: f.size_if_there("sliding_window")?.or(window),
        switches: Switches {
            sliding_layers: Some(sliding_layers),
            ..base.switches
        },
        ..base
    })
}

/// Reads the first Gemma, whose `hidden_activation` some versions of transformers read and others ignore.
fn gemma1(f: &Fields, base: TransformerConfig) -> Result<TransformerConfig> {
    // the first folders say one activation and mean the other, as transformers knows
    let said = match base.activation {
        Activation::Gelu => Activation::GeluTanh,
        other => other,
    };
    if activation(f, "hidden_activation", said)? != said {
        let text = |key: &str| f.text_if_there(key).map(|text| text.unwrap_or("absent"));
        return Err(f.uncovered(format!(
                "hidden_activation `{}` beside hidden_act `{}` is not covered: transformers 4 follows the first \
                 and 5 the second",
                text("hidden_activation")?,
                text("hidden_act")?
            ),
        ));
    }
    Ok(TransformerConfig {
        activation: said,
        ..base
    })
}
