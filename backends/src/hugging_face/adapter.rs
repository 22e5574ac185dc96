//! A LoRA adapter as peft writes it, added to the weights of the model that it was trained on.
//!
//! `adapter_config.json` and `adapter_model.safetensors`, for decoders. Nothing in a
//! folder is trusted, and what would change the sum in a way that is not followed is refused.

use super::fields::Fields;
use super::names::{Names, TensorPart};
use crate::error::{Error, Result};
use crate::model::TransformerConfig;
use crate::trainer::Parameter;
use crate::weights::{Named, from_bytes, read};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const PICKLE: &str = "adapter_model.bin";
/// What peft puts before the name that a tensor has in the model.
const WRAPPED: &str = "base_model.model.";
/// What to do about an adapter that is not covered.
const ELSEWHERE: &str =
    "merge it where it was made (peft's merge_and_unload) and name the merged folder as the model";

/// Keys that are read, or that say nothing about the sum: the tensors name the modules, a layer's kind
/// says how its weight lies, and dropout ends with training.
const HARMLESS: [&str; 19] = [
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "revision",
    "target_modules",
    "task_type",
];
/// How an adapter may have started: as no change, on weights that stayed as they were.
const STARTS: [&str; 2] = ["gaussian", "orthogonal"];

/// An adapter's matrices, by the module they belong to.
struct Adapter {
    path: PathBuf,
    rank: usize,
    scale: f64,
    pairs: BTreeMap<String, Pair>,
}

/// The two halves of a change: A is `[rank, in]`, B is `[out, rank]`.
#[derive(Default)]
struct Pair {
    a: Option<Named>,
    b: Option<Named>,
    /// The weight that is changed, which peft saves beside a change of the model's head.
    base: Option<Named>,
}

/// Where a linear module lies in our parameters.
struct Place<'a> {
    parameter: &'a Parameter,
    index: usize,
    part: &'a TensorPart,
    /// Its first column.
    offset: usize,
}

/// Adds an adapter to the weights of its base:
///
/// W + s·B·A, with s = α/r, or α/√r where it is rank-stabilised; in double precision, rounded once.
pub(super) fn merge(
    folder: &Path,
    config: &TransformerConfig,
    weights: &mut [Vec<f32>],
) -> Result<()> {
    if !config.causal() {
        return Err(Error::Checkpoint {
            path: folder.to_path_buf(),
            why:
                "an adapter for an encoder; those of decoders (gpt2, llama and the others) are read"
                    .into(),
        });
    }
    Adapter::read(folder)?.add(config, weights)
}

impl Adapter {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG);
        let fields = Fields::read(&path)?;
        let (rank, scale) = scale(&fields)?;
        let path = folder.join(WEIGHTS);
        if !path.exists() && folder.join(PICKLE).exists() {
            return Err(Error::Checkpoint {
                path: folder.join(PICKLE),
                why: format!(
                    "a pickle, which can run code when it is read; save the adapter as {WEIGHTS} where you \
                     trust it (peft's save_pretrained does)"
                ),
            });
        }
        let (tensors, _) = from_bytes(&path, &read(&path)?)?;
        let pairs = pairs(&path, tensors)?;
        Ok(Self {
            path,
            rank,
            scale,
            pairs,
        })
    }

    fn bad(&self, why: String) -> Error {
        Error::Checkpoint {
            path: self.path.clone(),
            why,
        }
    }

    fn add(self, config: &TransformerConfig, weights: &mut [Vec<f32>]) -> Result<()> {
        let names = Names::of(config);
        let parameters = config.parameters();
        let layout = config.layout();
        let tables = [Some(layout.token_embedding), layout.position_embedding];
        let mut places: HashMap<&str, Place<'_>> = HashMap::new();
        for (index, (parameter, parts)) in parameters.iter().zip(&names.parts).enumerate() {
            if parameter.shape.len() != 2 || tables.contains(&Some(index)) {
                continue;
            }
            let mut offset = 0;
            for part in parts {
                if let Some(module) = part.name.strip_suffix(".weight") {
                    let place = Place {
                        parameter,
                        index,
                        part,
                        offset,
                    };
                    places.insert(module, place);
                }
                offset += part.columns;
            }
        }
        for (module, pair) in &self.pairs {
            let Some(place) = places.get(module.as_str()) else {
                let tied = format!("{module}.weight");
                let why = if names.aliases.iter().any(|(other, _)| *other == tied) {
                    "is the embedding's, as config.json ties them"
                } else {
                    "is no linear layer of the model"
                };
                return Err(self.bad(format!("holds a change of {module}, which {why}")));
            };
            self.add_one(module, pair, place, &mut weights[place.index])?;
        }
        Ok(())
    }

    /// Adds s·B·A to the columns of one module. Ours lies `[in, out]` in every family.
    fn add_one(
        &self,
        module: &str,
        pair: &Pair,
        place: &Place<'_>,
        ours: &mut [f32],
    ) -> Result<()> {
        let (inputs, width) = (place.parameter.shape[0], place.parameter.shape[1]);
        let columns = place.offset..place.offset + place.part.columns;
        let a = self.half(module, "lora_A", pair.a.as_ref(), [self.rank, inputs])?;
        let b = self.half(
            module,
            "lora_B",
            pair.b.as_ref(),
            [columns.len(), self.rank],
        )?;
        if let Some(base) = &pair.base {
            let own = place.part.cut(place.parameter, ours, place.offset);
            if own != base.values {
                return Err(self.bad(format!(
                    "tensor {} differs from {module}.weight of the model, so the adapter was trained on \
                     another; {ELSEWHERE}",
                    base.name
                )));
            }
        }
        ours.par_chunks_mut(width)
            .enumerate()
            .try_for_each(|(input, row)| {
                let down: Vec<f64> = (0..self.rank)
                    .map(|k| f64::from(a[k * inputs + input]))
                    .collect();
                let row = &mut row[columns.clone()];
                for (theirs, up) in b.chunks(self.rank).enumerate() {
                    let weight = &mut row[place.part.column(theirs)];
                    let product: f64 = up.iter().zip(&down).map(|(u, d)| f64::from(*u) * d).sum();
                    *weight = (f64::from(*weight) + self.scale * product) as f32;
                    if !weight.is_finite() {
                        return Err(self.bad(format!(
                            "{module}.weight becomes {weight} with its change; weights must be finite"
                        )));
                    }
                }
                Ok(())
            })
    }

    /// One half of a pair, of the shape that the base asks for.
    fn half<'a>(
        &self,
        module: &str,
        half: &str,
        tensor: Option<&'a Named>,
        expected: [usize; 2],
    ) -> Result<&'a [f32]> {
        let name = format!("{WRAPPED}{module}.{half}.weight");
        let tensor = tensor.ok_or_else(|| {
            self.bad(format!(
                "lacks the tensor {name}, the other half of a change"
            ))
        })?;
        if tensor.shape == expected {
            Ok(&tensor.values)
        } else {
            Err(self.bad(format!(
                "tensor {name} has shape {:?}, expected {expected:?}",
                tensor.shape
            )))
        }
    }
}

/// Rank and scale of a plain LoRA adapter; anything else is refused by its key.
fn scale(fields: &Fields) -> Result<(usize, f64)> {
    let only = |key: &str, given: Option<&str>, wanted: &str| match given {
        Some(value) if value != wanted => Err(fields.bad(format!(
            "{key} is `{value}`, only {wanted} is read; {ELSEWHERE}"
        ))),
        _ => Ok(()),
    };
    only("peft_type", Some(fields.text("peft_type")?), "LORA")?;
    only("task_type", fields.text_if_there("task_type")?, "CAUSAL_LM")?;
    only("bias", fields.text_if_there("bias")?, "none")?;
    fields.flag("fan_in_fan_out", false)?;
    let start = fields.get("init_lora_weights");
    if let Some(start) = start.filter(|v| !v.is_boolean())
        && !start.as_str().is_some_and(|s| STARTS.contains(&s))
    {
        return Err(fields.bad(format!(
            "init_lora_weights is {start}, which may change the base itself; true, false, {} are read; \
             {ELSEWHERE}",
            STARTS.join(", ")
        )));
    }
    let stabilised = fields.flag("use_rslora", false)?;
    for (key, value) in fields.set() {
        if !HARMLESS.contains(&key) && key != "use_rslora" {
            let shown: String = value.to_string().chars().take(60).collect();
            return Err(fields.bad(format!(
                "{key} is {shown}, which may change what is merged; only null, false and nothing are \
                 read; {ELSEWHERE}"
            )));
        }
    }
    let rank = fields.size("r")?;
    if rank == 0 {
        return Err(fields.bad("r must be at least 1, got 0"));
    }
    let alpha = fields.number("lora_alpha")?;
    let rows = rank as f64;
    Ok((rank, alpha / if stabilised { rows.sqrt() } else { rows }))
}

/// Sorts the tensors of an adapter by module.
fn pairs(path: &Path, tensors: HashMap<String, Named>) -> Result<BTreeMap<String, Pair>> {
    let bad = |why: String| Error::Checkpoint {
        path: path.to_path_buf(),
        why,
    };
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    let sorted: BTreeMap<String, Named> = tensors.into_iter().collect();
    for (name, tensor) in sorted {
        let inner = name.strip_prefix(WRAPPED).unwrap_or_default();
        if let Some(module) = inner.strip_suffix(".lora_A.weight") {
            pairs.entry(module.to_owned()).or_default().a = Some(tensor);
        } else if let Some(module) = inner.strip_suffix(".lora_B.weight") {
            pairs.entry(module.to_owned()).or_default().b = Some(tensor);
        } else if let Some(module) = inner.strip_suffix(".base_layer.weight") {
            pairs.entry(module.to_owned()).or_default().base = Some(tensor);
        } else {
            return Err(bad(format!(
                "holds the tensor {name}; only {WRAPPED}MODULE.lora_A.weight and .lora_B.weight are read; \
                 {ELSEWHERE}"
            )));
        }
    }
    if pairs.is_empty() {
        return Err(bad("holds no tensor".into()));
    }
    Ok(pairs)
}
