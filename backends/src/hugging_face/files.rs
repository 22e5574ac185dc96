//! Reads weights from one safetensors file or from shards with their index; never from a pickle.

use super::fields::Fields;
use super::tensors::Gathering;
use crate::checkpoint::weights::read as read_file;
use crate::error::{Error, Result};
use crate::model::TransformerConfig;
use std::collections::{BTreeMap, HashSet};
use std::path::{Component, Path};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const PICKLES: [&str; 2] = ["pytorch_model.bin", "pytorch_model.bin.index.json"];
/// Maximum number of shards of a model.
const MOST_SHARDS: usize = 1024;

pub(super) fn read(folder: &Path, config: &TransformerConfig) -> Result<Vec<Vec<f32>>> {
    let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
    if single.exists() {
        let bytes = read_file(&single)?;
        return super::read_weights(&single, &bytes, config);
    }
    if index.exists() {
        return read_shards(folder, &index, config);
    }
    Err(absent(folder))
}

/// Returns whether a folder holds the weights of a whole model, in a format that is read or not.
pub(super) fn are_in(folder: &Path) -> bool {
    let mut names = [SINGLE, INDEX].into_iter().chain(PICKLES);
    names.any(|name| folder.join(name).exists())
}

/// Returns whether a file of a folder is read as weights.
pub(super) fn is_loaded(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(name), Some(folder)) = (name, path.parent()) else {
        return true;
    };
    if name == SINGLE || name == super::adapter::WEIGHTS {
        return true;
    }
    if folder.join(SINGLE).exists() {
        return false;
    }
    let named = |fields: &Fields| {
        let map = fields.object("weight_map").ok()??;
        let shards = map.all_texts().ok()?;
        Some(shards.into_iter().any(|(_, shard)| shard == name))
    };
    // An index that can't be read names any file.
    let fields = Fields::read(&folder.join(INDEX));
    folder.join(INDEX).exists() && fields.map_or(true, |fields| named(&fields).unwrap_or(true))
}

/// Returns the error for a folder without safetensors, with advice.
fn absent(folder: &Path) -> Error {
    for pickle in PICKLES {
        let path = folder.join(pickle);
        if path.exists() {
            let from = folder.display();
            let why = format!(
                "a pickle, which can run code when it is read; convert it where you trust it: \
                 python -c \"import transformers as t; d = '{from}'; \
                 c = t.AutoConfig.from_pretrained(d); \
                 getattr(t, c.architectures[0]).from_pretrained(d)\
                 .save_pretrained(d + '-safetensors', safe_serialization=True); \
                 t.AutoTokenizer.from_pretrained(d).save_pretrained(d + '-safetensors')\""
            );
            return Error::checkpoint(path, why);
        }
    }
    Error::Io {
        path: folder.join(SINGLE),
        source: std::io::ErrorKind::NotFound.into(),
    }
}

fn read_shards(folder: &Path, index: &Path, config: &TransformerConfig) -> Result<Vec<Vec<f32>>> {
    let fields = Fields::read(index)?;
    let map = fields
        .object("weight_map")?
        .ok_or_else(|| fields.bad("lacks weight_map"))?;
    let mut shards: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for (tensor, shard) in map.all_texts()? {
        if !plain(shard) {
            return Err(fields.bad(format!(
                "weight_map places {tensor:.200} in `{shard:.200}`; a shard is a plain file name that ends \
                 in .safetensors"
            )));
        }
        shards.entry(shard).or_default().insert(tensor);
    }
    if shards.len() > MOST_SHARDS {
        return Err(fields.bad(format!(
            "{} shards, more than the {MOST_SHARDS} that are read",
            shards.len()
        )));
    }
    let mut gathering = Gathering::new(config);
    for (shard, tensors) in &shards {
        let path = folder.join(shard);
        let bytes = read_file(&path)?;
        gathering.file(&path, &bytes, Some(&|name| tensors.contains(name)))?;
    }
    gathering.finish(index)
}

/// Returns whether a name is a plain file name, which stays in its folder.
fn plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let one = matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(_)), None)
    );
    one && name.ends_with(".safetensors") && !name.contains(['/', '\\', ':', '\0'])
}
