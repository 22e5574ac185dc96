//! Reads and writes model folders in the format of Hugging Face's transformers.
//!
//! The folders hold `config.json` and `model.safetensors` (or shards with their index) in f32, f16 or bf16. Covered are
//! GPT-2, Llama and the other decoders of [`crate::model::Family`], BERT and RoBERTa, and LoRA adapters of the
//! decoders. Nothing in a folder is trusted.

pub(crate) mod adapter;
mod beside;
mod config;
mod fields;
mod files;
mod llama2c;
mod names;
mod tensors;

pub use beside::Beside;
pub use llama2c::convert_llama2c;

use crate::checkpoint::free_for;
use crate::checkpoint::weights::to_bytes;
use crate::error::{Error, Result};
use crate::files::Building;
use crate::model::{Head, TransformerConfig};
use crate::trainer::check_shapes;
use crate::trainer::dropout::Dropout;
use reticent_corpus::tokenize::Tokenizer;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a transformer's architecture and weights from a folder.
///
/// # Errors
/// Returns [`Error::Io`] for a missing file; [`Error::Checkpoint`] naming file and tensor for one that is truncated, is
/// not covered, or does not fit the others. A folder that holds only a pickle (`pytorch_model.bin`) is refused with the
/// command that converts it.
pub fn load_hugging_face(folder: &Path) -> Result<(TransformerConfig, Vec<Vec<f32>>)> {
    let config = config::read(&folder.join("config.json"))?;
    let weights = files::read(folder, &config)?;
    Ok((config, weights))
}

/// Reads a folder and merges a LoRA adapter of peft into the weights, as its `merge_and_unload` does: W + s·B·A, where
/// s is `lora_alpha` over the rank, or over its square root for `use_rslora`.
///
/// # Errors
/// As [`load_hugging_face`], for either folder. Also returns an error if the adapter does not fit the model, is of
/// another kind, or has a setting that would change the sum (`DoRA`, biases, rank patterns, modules saved whole).
pub fn load_adapted(folder: &Path, adapter: &Path) -> Result<(TransformerConfig, Vec<Vec<f32>>)> {
    let (config, mut weights) = load_hugging_face(folder)?;
    adapter::merge(adapter, &config, &mut weights)?;
    Ok((config, weights))
}

/// The files of a folder's vocabulary, which a change of the weights does not affect.
const VOCABULARY: [&str; 4] = [
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
];

/// Writes a copy of a model's folder with these weights, whole or not at all. The weights are stored in single
/// precision and in one file; the rest is unchanged.
///
/// # Errors
/// Returns an error if the folder exists and is not empty, if it can't be written, or if a file of the other can't be
/// read; [`Error::Shape`] if the weights do not fit.
pub fn save_with_weights(folder: &Path, like: &Path, weights: &[Vec<f32>]) -> Result<()> {
    free_for(folder)?;
    let path = like.join("config.json");
    let config = config::read(&path)?;
    let mut fields: serde_json::Value = serde_json::from_slice(&fields::read_small(&path)?)
        .map_err(|e| Error::checkpoint(path, format!("not JSON: {e}")))?;
    for key in ["dtype", "torch_dtype"] {
        if let Some(precision) = fields.get_mut(key) {
            *precision = "float32".into();
        }
    }
    let json = serde_json::to_string_pretty(&fields).map_err(Error::engine)?;
    let building = Building::beside(folder)?;
    building.write("config.json", json.as_bytes())?;
    let bytes = weight_bytes(&config, weights, BTreeMap::new())?;
    building.write("model.safetensors", &bytes)?;
    for name in VOCABULARY.iter().filter(|name| like.join(name).exists()) {
        building.write(name, &fields::read_small(&like.join(name))?)?;
    }
    for (name, bytes) in Beside::of(like)?.files(false) {
        building.write(name, &bytes)?;
    }
    building.finish(folder)
}

/// Writes a folder that transformers loads unchanged, whole or not at all.
pub(crate) fn write(
    folder: &Path,
    config: &TransformerConfig,
    weights: &[Vec<f32>],
    specials: Option<[u32; 2]>,
    tokenizer: Option<&str>,
) -> Result<()> {
    free_for(folder)?;
    let building = Building::beside(folder)?;
    building.write(
        "config.json",
        config_json(config, specials, &Beside::default())?.as_bytes(),
    )?;
    building.write(
        "model.safetensors",
        &weight_bytes(config, weights, BTreeMap::new())?,
    )?;
    if let Some(json) = tokenizer {
        building.write("tokenizer.json", json.as_bytes())?;
    }
    building.finish(folder)
}

/// Returns the text of `tokenizer.json`. For a model that predicts classes or masked tokens the tokenizer frames a text
/// like a record, so that the head reads the same tokens in transformers.
pub(crate) fn tokenizer_json(head: Head, tokenizer: &Tokenizer) -> Result<String> {
    let json = match head {
        Head::NextToken => tokenizer.to_json(),
        _ => tokenizer.to_json_framed(),
    };
    json.map_err(|e| Error::Unsuitable(e.to_string()))
}

/// Returns the text of `config.json`; `specials` are the ids of beginning and end of text.
pub(crate) fn config_json(
    config: &TransformerConfig,
    specials: Option<[u32; 2]>,
    beside: &Beside,
) -> Result<String> {
    let specials = specials.map(|[bos, eos]| config::Specials { bos, eos });
    let mut json = config::write(config, specials);
    beside.enter(&mut json, config.vocabulary);
    serde_json::to_string_pretty(&json).map_err(Error::engine)
}

/// Returns the bytes of `model.safetensors`, with these text entries in addition to the usual one.
pub(crate) fn weight_bytes(
    config: &TransformerConfig,
    weights: &[Vec<f32>],
    notes: BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    check_shapes(&config.parameters(), weights)?;
    to_bytes(&tensors::theirs(config, weights), notes)
}

/// Checks that a family's `config.json` can express an architecture.
pub(crate) fn expressible(config: &TransformerConfig) -> Result<()> {
    config::expressible(config)
}

/// Reads the architecture from a folder's `config.json`.
pub(crate) fn read_config(path: &Path) -> Result<TransformerConfig> {
    config::read(path)
}

/// Returns whether a folder holds the weights of a whole model, in a format that is read or not.
pub(crate) fn has_weights(folder: &Path) -> bool {
    files::are_in(folder)
}

/// Returns whether a file of a folder is read as weights.
pub(crate) fn is_loaded(path: &Path) -> bool {
    files::is_loaded(path)
}

/// Reads the dropout rates of a `config.json`, or the reason why training can't follow them.
pub(crate) fn read_dropout(path: &Path) -> Result<std::result::Result<Dropout, String>> {
    config::dropout(path)
}

/// Reads the weights from the bytes of one safetensors file.
pub(crate) fn read_weights(
    path: &Path,
    bytes: &[u8],
    config: &TransformerConfig,
) -> Result<Vec<Vec<f32>>> {
    let mut gathering = tensors::Gathering::new(config);
    gathering.file(path, bytes, None)?;
    gathering.finish(path)
}
