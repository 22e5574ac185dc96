//! Reads and writes `config.json` of every family, with Hugging Face's own keys. A reader only sets sizes, numbers and
//! switches.

mod decoders;
mod dropout;
mod encoders;
mod labels;
mod rotary;
mod write;

pub(super) use dropout::read as dropout;
pub(super) use write::{Specials, write};

use super::fields::Fields;
use crate::error::{Error, Result};
use crate::model::{Activation, Family, TransformerConfig, checked_layers};
use serde_json::Value;
use std::fmt::Display;
use std::path::Path;

/// Advice for a model that is not covered.
const ELSEWHERE: &str = "the model can be audited by its losses through `--scorer`, as reports/examples/scorer_transformers.py does";
/// The same for a model that predicts no next token.
const NO_LOSSES: &str = "it predicts no next token, so a scorer has no losses to give either; of encoders, those of BERT and RoBERTa for masked tokens and for sequence classification are read";
/// Model types that read a text in both directions.
const ENCODERS: &str = "\
    albert bert big_bird camembert canine deberta deberta-v2 distilbert electra ernie esm eurobert fnet \
    layoutlm longformer mobilebert modernbert mpnet roberta roformer xlm-roberta xlm-roberta-xl";
/// What the names of architectures with another head than that of a next token end in.
const OTHER_HEADS: [&str; 7] = [
    "ForMaskedLM",
    "ForMultipleChoice",
    "ForNextSentencePrediction",
    "ForPreTraining",
    "ForQuestionAnswering",
    "ForSequenceClassification",
    "ForTokenClassification",
];
/// Model types whose layers route tokens to experts.
const EXPERTS: &str = "\
    dbrx deepseek_v2 deepseek_v3 dots1 ernie4_5_moe glm4_moe gpt_oss granitemoe granitemoeshared hunyuan_v1_moe \
    jetmoe llama4 llama4_text minimax mixtral nllb-moe olmoe phimoe qwen2_moe qwen3_moe qwen3_vl_moe \
    switch_transformers";
/// Model types with recurrent or state-space layers, some or all.
const HYBRIDS: &str = "\
    bamba falcon_h1 falcon_mamba granitemoehybrid jamba lfm2 mamba mamba2 nemotron_h qwen3_next recurrent_gemma \
    rwkv xlstm zamba zamba2 kimi_linear";

/// Reads and checks a `config.json`.
pub(super) fn read(path: &Path) -> Result<TransformerConfig> {
    of(&Fields::read(path)?)
}

fn of(fields: &Fields) -> Result<TransformerConfig> {
    if fields.get("quantization_config").is_some() {
        return Err(fields.bad("quantized weights are not read; save the model in float32 first"));
    }
    let kind = fields.text("model_type")?;
    let config = match family(kind) {
        Some(family @ (Family::Bert | Family::Roberta)) => encoders::read(fields, family),
        Some(family) => {
            decoders::read(fields, family).and_then(|decoder| labels::decoder(fields, decoder))
        }
        None => Err(refused(fields, kind)),
    }?;
    config.checked().map_err(|e| fields.bad(e))
}

/// Returns whether a model type is in a list.
fn among(kinds: &str, kind: &str) -> bool {
    kinds.split(' ').any(|known| known == kind)
}

fn refused(fields: &Fields, kind: &str) -> Error {
    let reason = if among(EXPERTS, kind) {
        "a mixture of experts, which is not covered".to_owned()
    } else if among(HYBRIDS, kind) {
        "not made of attention alone, which is not covered".to_owned()
    } else {
        let read: Vec<&str> = FAMILIES.iter().map(|(kind, ..)| *kind).collect();
        format!("not covered ({} are)", read.join(", "))
    };
    fields.uncovered(format!("model_type `{kind}` is {reason}"))
}

impl Fields {
    /// Returns the error for a model or setting that is not covered, with advice.
    fn uncovered(&self, why: impl Display) -> Error {
        let advice = match predicts_next_token(self) {
            true => ELSEWHERE,
            false => NO_LOSSES,
        };
        self.bad(format!("{why}; {advice}"))
    }
}

/// Returns whether a scorer could give the losses of the model.
fn predicts_next_token(fields: &Fields) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = fields.get("model_type").map(text).unwrap_or_default();
    let named = fields.get("architectures").and_then(|list| list.get(0));
    let named = named.map(text).unwrap_or_default();
    let ends = |heads: &[&str]| heads.iter().any(|head| named.ends_with(head));
    ends(&["ForCausalLM", "LMHeadModel"]) || !among(ENCODERS, &kind) && !ends(&OTHER_HEADS)
}

/// Every `model_type` that is read, and what the names of its classes in transformers begin with.
const FAMILIES: [(&str, Family, &str); 21] = [
    ("bert", Family::Bert, "Bert"),
    ("gemma", Family::Gemma, "Gemma"),
    ("gemma2", Family::Gemma2, "Gemma2"),
    ("gemma3_text", Family::Gemma3, "Gemma3"),
    ("gpt2", Family::Gpt2, "GPT2"),
    ("gpt_bigcode", Family::GptBigcode, "GPTBigCode"),
    ("gpt_neo", Family::GptNeo, "GPTNeo"),
    ("gpt_neox", Family::GptNeox, "GPTNeoX"),
    ("granite", Family::Granite, "Granite"),
    ("llama", Family::Llama, "Llama"),
    ("mistral", Family::Mistral, "Mistral"),
    ("olmo2", Family::Olmo2, "Olmo2"),
    ("opt", Family::Opt, "OPT"),
    ("phi", Family::Phi, "Phi"),
    ("phi3", Family::Phi3, "Phi3"),
    ("qwen2", Family::Qwen2, "Qwen2"),
    ("qwen3", Family::Qwen3, "Qwen3"),
    ("roberta", Family::Roberta, "Roberta"),
    ("smollm3", Family::Smollm3, "SmolLM3"),
    ("stablelm", Family::Stablelm, "StableLm"),
    ("starcoder2", Family::Starcoder2, "Starcoder2"),
];

fn family(kind: &str) -> Option<Family> {
    let found = FAMILIES.iter().find(|(known, ..)| *known == kind);
    found.map(|(_, family, _)| *family)
}

/// Returns the `model_type` of a family, and what the names of its classes begin with.
fn names(family: Family) -> [&'static str; 2] {
    let found = FAMILIES.iter().find(|(_, known, _)| *known == family);
    found.map_or([""; 2], |(kind, _, stem)| [*kind, *stem])
}

/// Checks that an architecture survives a round trip through its own `config.json`. An architecture that no file can
/// express is not a model of the family.
///
/// # Errors
/// Returns [`Error::Unsuitable`] naming the settings that the file could not express.
pub(super) fn expressible(config: &TransformerConfig) -> Result<()> {
    let [kind, _] = names(config.family);
    let fields = Fields::of(Path::new("config.json"), write(config, None));
    let back = of(&fields?).map_err(|e| Error::Unsuitable(format!("no {kind}: {e}")))?;
    if back == *config {
        return Ok(());
    }
    let text = |config: &TransformerConfig| serde_json::to_value(config);
    let (Ok(ours), Ok(said)) = (text(config), text(&back)) else {
        return Err(Error::Unsuitable(format!("no {kind} is like this")));
    };
    let mut different = Vec::new();
    differences("", &ours, &said, &mut different);
    Err(Error::Unsuitable(format!(
        "the config.json of a {kind} cannot say {}",
        different.join(", ")
    )))
}

/// Collects the places where two values differ, with the first value there.
fn differences(at: &str, ours: &Value, said: &Value, out: &mut Vec<String>) {
    match (ours, said) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let at = if at.is_empty() {
                    key.clone()
                } else {
                    format!("{at}.{key}")
                };
                differences(&at, value, b.get(key).unwrap_or(&Value::Null), out);
            }
        }
        _ if ours == said => {}
        _ => out.push(format!("{at} = {ours}")),
    }
}

/// Refuses a switch that changes the arithmetic and that is not supported.
fn refuse(fields: &Fields, key: &str, usual: bool) -> Result<()> {
    if fields.flag(key, usual)? == usual {
        Ok(())
    } else {
        Err(fields.uncovered(format!("{key} = {} is not covered", !usual)))
    }
}

fn activation(fields: &Fields, key: &str, default: Activation) -> Result<Activation> {
    match fields.text_if_there(key)? {
        None => Ok(default),
        Some("gelu") => Ok(Activation::Gelu),
        Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(Activation::GeluTanh),
        Some("silu" | "swish") => Ok(Activation::Silu),
        Some("relu") => Ok(Activation::Relu),
        Some("quick_gelu") => Ok(Activation::QuickGelu),
        Some(other) => Err(fields.uncovered(format!("{key} `{other}` is not covered"))),
    }
}

/// Reads the sizes of which a family names these four, on top of its usual numbers. The number of layers is checked
/// before a list by layer is as long.
fn sized(
    f: &Fields,
    family: Family,
    [width, layers, heads, positions]: [&str; 4],
) -> Result<TransformerConfig> {
    let base = TransformerConfig::new(
        family,
        f.size("vocab_size")?,
        f.size(width)?,
        checked_layers(f.size(layers)?).map_err(|e| f.bad(e))?,
        f.size(heads)?,
        f.size(positions)?,
    );
    Ok(TransformerConfig {
        tied: f.flag("tie_word_embeddings", base.tied)?,
        ..base
    })
}

/// The names of most families.
const SIZES: [&str; 4] = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
];

/// Reads the keys that most families share.
fn common(f: &Fields, family: Family) -> Result<TransformerConfig> {
    Ok(TransformerConfig {
        feed_forward: f.size("intermediate_size")?,
        ..sized(f, family, SIZES)?
    })
}
