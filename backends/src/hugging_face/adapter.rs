//! LoRA adapters in peft's format: merges an adapter into the weights of its base model, and writes trained adapters.
//!
//! An adapter is `adapter_config.json` and `adapter_model.safetensors`, for decoders. Nothing in a folder is trusted,
//! and a setting that would change the sum in an unsupported way is refused.

use super::fields::Fields;
use super::names::{Names, TensorPart};
use crate::checkpoint::Kind;
use crate::checkpoint::weights::{Named, from_bytes, read, to_bytes};
use crate::error::{Error, Result};
use crate::model::{Head, HeadLayout, Lora, LoraModule, LoraSpec, Model, TransformerConfig};
use crate::trainer::{Parameter, check_shapes};
use rayon::prelude::*;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

pub(crate) const CONFIG: &str = "adapter_config.json";
pub(crate) const WEIGHTS: &str = "adapter_model.safetensors";
/// The name for all linear layers except the head.
const ALL_LINEAR: &str = "all-linear";
const PICKLE: &str = "adapter_model.bin";
/// The prefix that peft adds to a tensor's name in the model.
const WRAPPED: &str = "base_model.model.";
/// Advice for an adapter that is not covered.
const ELSEWHERE: &str =
    "merge it where it was made (peft's merge_and_unload) and name the merged folder as the model";

/// Keys that are read or do not affect the sum: the layout of a weight follows from its layer's type, and dropout ends
/// with training.
const HARMLESS: &str = "\
    auto_mapping base_model_name_or_path bias exclude_modules fan_in_fan_out inference_mode init_lora_weights \
    layers_pattern layers_to_transform lora_alpha lora_dropout megatron_core peft_type peft_version \
    qalora_group_size r revision target_modules task_type";
/// Initialisations that start as no change and leave the base weights as they are.
const STARTS: [&str; 2] = ["gaussian", "orthogonal"];

/// An adapter's matrices, by module.
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
    /// The weight that is changed, which peft saves along with a change of the model's head.
    base: Option<Named>,
}

/// The place of a linear module in our parameters.
struct Place {
    parameter: Parameter,
    index: usize,
    part: TensorPart,
    /// The module's first column.
    offset: usize,
}

/// Returns the linear modules of a model, by their names in transformers.
fn places(config: &TransformerConfig, names: &Names) -> BTreeMap<String, Place> {
    let layout = config.layout();
    let tables = [Some(layout.token_embedding), layout.position_embedding];
    let mut places = BTreeMap::new();
    let parameters = config.parameters().into_iter();
    for (index, (parameter, parts)) in parameters.zip(&names.parts).enumerate() {
        if parameter.shape.len() != 2 || tables.contains(&Some(index)) {
            continue;
        }
        let mut offset = 0;
        for part in parts {
            if let Some(module) = part.name.strip_suffix(".weight") {
                let place = Place {
                    parameter: parameter.clone(),
                    index,
                    part: part.clone(),
                    offset,
                };
                places.insert(module.to_owned(), place);
            }
            offset += part.columns;
        }
    }
    places
}

/// Returns the linear modules except the head: those for which an adapter can be trained.
fn trainable(config: &TransformerConfig) -> BTreeMap<String, Place> {
    let mut places = places(config, &Names::of(config));
    if let HeadLayout::NextToken {
        projection: Some(head),
        ..
    } = config.layout().head
    {
        places.retain(|_, place| place.index != head);
    }
    places
}

/// Returns the last part of a dotted name.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl Lora {
    /// Creates the adapter that a specification describes, on a model whose weights have this
    /// [`crate::checkpoint::weights_digest`]. Without targets the adapter covers the projections of queries and values;
    /// for `all-linear` it covers all linear layers except the head.
    ///
    /// # Errors
    /// Returns [`Error::Unsuitable`] for a model that is not a decoder, and for a target that is not one of its layers;
    /// [`Error::OutOfRange`] for a number outside its range.
    pub fn of(model: &Model, base: String, spec: LoraSpec) -> Result<Self> {
        match model {
            Model::Transformer(config) if config.head == Head::NextToken => {
                on_decoder(config, base, spec.validated()?)
            }
            _ => Err(Error::Unsuitable(
                "an adapter is trained on a decoder of Hugging Face's families, not on an LSTM or an encoder".into(),
            )),
        }
    }
}

fn on_decoder(config: &TransformerConfig, base: String, mut spec: LoraSpec) -> Result<Lora> {
    let places = trainable(config);
    let known: BTreeSet<&str> = places.keys().map(|name| last(name)).collect();
    if spec.targets.is_empty() {
        let attention = config
            .layout()
            .layers
            .first()
            .map(|l| l.attention_in.weight);
        let parts = places.iter().filter(|(_, p)| Some(p.index) == attention);
        let names: Vec<(usize, &str)> = parts.map(|(name, p)| (p.offset, last(name))).collect();
        let keys = config.query_width();
        let kept = names.into_iter().filter(|(offset, _)| *offset != keys);
        spec.targets = kept.map(|(_, name)| name.to_owned()).collect();
    } else if spec.targets == [ALL_LINEAR] {
        spec.targets = known.iter().map(|name| (*name).to_owned()).collect();
    }
    spec.targets.sort_unstable();
    spec.targets.dedup();
    let unknown = |target: &&String| !places.keys().any(|name| ends_with(name, target));
    if let Some(target) = spec.targets.iter().find(unknown) {
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Error::Unsuitable(format!(
            "must name linear layers of the model ({}) or be {ALL_LINEAR}, got {target:?}",
            known.join(", ")
        )));
    }
    let chosen = places
        .into_iter()
        .filter(|(name, _)| spec.targets.iter().any(|target| ends_with(name, target)));
    let modules = chosen.map(|(name, place)| LoraModule {
        name,
        weight: place.index,
        inputs: place.parameter.shape[0],
        offset: place.offset,
        columns: place.part.columns,
    });
    let modules = modules.collect();
    Ok(Lora::new(spec, base, modules))
}

/// Returns the text of `adapter_config.json` for an adapter on the model with this name.
pub(crate) fn config_json(lora: &Lora, config: &TransformerConfig, base: &str) -> Result<String> {
    let spec = lora.spec();
    let places = trainable(config);
    let upright = places.values().all(|place| !place.part.transposed);
    // peft's own value is a whole number
    let alpha = match spec.alpha {
        whole if whole.fract() == 0.0 && whole < 1e9 => serde_json::json!(whole as u64),
        other => serde_json::json!(other),
    };
    let fields = serde_json::json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": spec.rank,
        "lora_alpha": alpha,
        "target_modules": spec.targets,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": upright,
        "init_lora_weights": true,
        "inference_mode": true,
        "modules_to_save": null,
        "use_dora": false,
        "use_rslora": false,
    });
    serde_json::to_string_pretty(&fields).map_err(Error::engine)
}

/// Returns the bytes of `adapter_model.safetensors`, with these text entries in addition to the usual one.
pub(crate) fn weight_bytes(
    lora: &Lora,
    config: &TransformerConfig,
    weights: &[Vec<f32>],
    notes: BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    check_shapes(&lora.parameters(), weights)?;
    let places = trainable(config);
    let rank = lora.spec().rank;
    let mut tensors = Vec::with_capacity(weights.len());
    for (module, pair) in lora.modules().iter().zip(weights.chunks_exact(2)) {
        let LoraModule {
            name,
            inputs,
            columns,
            ..
        } = module;
        let place = &places[name];
        let mut b = Vec::with_capacity(pair[1].len());
        for theirs in 0..*columns {
            let ours = place.part.column(theirs);
            b.extend((0..rank).map(|k| pair[1][k * columns + ours]));
        }
        let a = (0..rank).flat_map(|k| (0..*inputs).map(move |i| pair[0][i * rank + k]));
        for (half, shape, values) in [
            ("lora_A", [rank, *inputs], a.collect()),
            ("lora_B", [*columns, rank], b),
        ] {
            tensors.push(Named {
                name: format!("{WRAPPED}{name}.{half}.weight"),
                shape: shape.to_vec(),
                values,
            });
        }
    }
    to_bytes(&tensors, notes)
}

/// Reads the weights of an adapter's folder, in the order of [`Lora::parameters`].
pub(crate) fn weights(
    folder: &Path,
    lora: &Lora,
    config: &TransformerConfig,
) -> Result<Vec<Vec<f32>>> {
    let adapter = Adapter::read(folder, config)?;
    let places = trainable(config);
    let rank = lora.spec().rank;
    let mut weights = Vec::new();
    for module in lora.modules() {
        let (inputs, columns) = (module.inputs, module.columns);
        let none = Pair::default();
        let pair = adapter.pairs.get(&module.name).unwrap_or(&none);
        let [a, b] = adapter.halves(&module.name, pair, [inputs, columns])?;
        let down = (0..inputs).flat_map(|i| (0..rank).map(move |k| a[k * inputs + i]));
        weights.push(down.collect());
        let mut up = vec![0.0; rank * columns];
        for theirs in 0..columns {
            let ours = places[&module.name].part.column(theirs);
            for k in 0..rank {
                up[k * columns + ours] = b[theirs * rank + k];
            }
        }
        weights.push(up);
    }
    Ok(weights)
}

/// Returns the base that an adapter names: the folder as named, or relative to the parent of the adapter's folder. A base
/// is a whole model, so that adapters that name each other are not followed for ever.
pub(crate) fn named_base(folder: &Path) -> Result<PathBuf> {
    let fields = Fields::read(&folder.join(CONFIG))?;
    let name = fields.text("base_model_name_or_path")?;
    let beside = folder.parent().map(|parent| parent.join(name));
    let found = [Some(PathBuf::from(name)), beside].into_iter().flatten();
    let base = found
        .filter(|path| !name.is_empty() && path != folder)
        .find(|path| path.join("config.json").is_file());
    let wrong = |why: &str| {
        let shown: String = name.chars().take(200).collect();
        fields.bad(format!(
            "base_model_name_or_path is {shown:?}, and {why}; give the base's folder as --model and this one as \
             --adapter"
        ))
    };
    let base = base.ok_or_else(|| wrong("no folder with a config.json is there"))?;
    match Kind::of(&base)? {
        Kind::Model => Ok(base),
        Kind::Adapter => Err(wrong("an adapter is there, no model")),
    }
}

/// Adds an adapter to the weights of its base:
///
/// W + s·B·A, with s = α/r, or α/√r if rank-stabilised; computed in double precision and rounded once.
pub(crate) fn merge(
    folder: &Path,
    config: &TransformerConfig,
    weights: &mut [Vec<f32>],
) -> Result<()> {
    if !config.causal() {
        return Err(Error::checkpoint(
            folder,
            "an adapter for an encoder; those of decoders (gpt2, llama and the others) are read",
        ));
    }
    Adapter::read(folder, config)?.add(config, weights)
}

impl Adapter {
    /// Reads an adapter, and checks that its settings name exactly the modules of this model that have tensors.
    fn read(folder: &Path, config: &TransformerConfig) -> Result<Self> {
        let path = folder.join(CONFIG);
        let fields = Fields::read(&path)?;
        let (rank, scale) = scale(&fields)?;
        let path = folder.join(WEIGHTS);
        if !path.exists() && folder.join(PICKLE).exists() {
            return Err(Error::checkpoint(
                folder.join(PICKLE),
                format!(
                    "a pickle, which can run code when it is read; save the adapter as {WEIGHTS} where you \
                     trust it (peft's save_pretrained does)"
                ),
            ));
        }
        let (tensors, _) = from_bytes(&path, &read(&path)?)?;
        let adapter = Self {
            pairs: pairs(&path, tensors)?,
            path,
            rank,
            scale,
        };
        adapter.is_on(config)?;
        Targets::read(&fields)?.agree(&fields, config, &adapter.pairs)?;
        Ok(adapter)
    }

    fn bad(&self, why: String) -> Error {
        Error::checkpoint(self.path.clone(), why)
    }

    /// Checks that each module with tensors is a linear layer of the model.
    fn is_on(&self, config: &TransformerConfig) -> Result<()> {
        let names = Names::of(config);
        let places = places(config, &names);
        let Some(module) = self.pairs.keys().find(|name| !places.contains_key(*name)) else {
            return Ok(());
        };
        let tied = format!("{module}.weight");
        let why = if names.aliases.iter().any(|(other, _)| *other == tied) {
            "is the embedding's, as config.json ties them"
        } else {
            "is no linear layer of the model"
        };
        Err(self.bad(format!("holds a change of {module}, which {why}")))
    }

    fn add(self, config: &TransformerConfig, weights: &mut [Vec<f32>]) -> Result<()> {
        let places = places(config, &Names::of(config));
        for (module, pair) in &self.pairs {
            let place = &places[module];
            self.add_one(module, pair, place, &mut weights[place.index])?;
        }
        Ok(())
    }

    /// Adds s·B·A to the columns of one module. Ours lies `[in, out]` in every family.
    fn add_one(&self, module: &str, pair: &Pair, place: &Place, ours: &mut [f32]) -> Result<()> {
        let (inputs, width) = (place.parameter.shape[0], place.parameter.shape[1]);
        let columns = place.offset..place.offset + place.part.columns;
        let [a, b] = self.halves(module, pair, [inputs, columns.len()])?;
        if let Some(base) = &pair.base {
            let own = place.part.cut(&place.parameter, ours, place.offset);
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

    /// Returns A and B of a module with this number of inputs and columns.
    fn halves<'a>(
        &self,
        module: &str,
        pair: &'a Pair,
        [inputs, columns]: [usize; 2],
    ) -> Result<[&'a [f32]; 2]> {
        let (a, b) = (pair.a.as_ref(), pair.b.as_ref());
        Ok([
            self.half(module, "lora_A", a, [self.rank, inputs])?,
            self.half(module, "lora_B", b, [columns, self.rank])?,
        ])
    }

    /// Returns one half of a pair, checked against the shape that the base requires.
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

/// The modules that an adapter's settings name, by the rules of peft. peft silently ignores tensors of other modules,
/// and starts at random where tensors are missing.
struct Targets {
    targets: Modules,
    excluded: Option<Modules>,
    /// Restricts the adapter to these layers, by the number that follows a pattern.
    layers: Option<(Vec<usize>, Vec<Regex>)>,
}

/// The modules that a key names: names or suffixes of names in a list, or a regular expression for whole names.
enum Modules {
    AllLinear,
    Listed(Vec<String>),
    Pattern(Regex),
}

impl Modules {
    fn read(fields: &Fields, key: &str) -> Result<Option<Self>> {
        let text = match fields.get(key) {
            None => return Ok(None),
            Some(value) => value.as_str(),
        };
        Ok(Some(match text {
            None => {
                let listed = fields.texts(key)?.into_iter();
                Self::Listed(listed.map(str::to_owned).collect())
            }
            Some(text) => {
                Self::Pattern(expression(fields, key, text, &format!(r"\A(?:{text})\z"))?)
            }
        }))
    }

    /// Returns whether a module is named; `head` says whether it is the model's head.
    fn name(&self, module: &str, head: bool) -> bool {
        match self {
            Self::AllLinear => !head,
            Self::Listed(targets) => targets.iter().any(|target| ends_with(module, target)),
            Self::Pattern(pattern) => pattern.is_match(module),
        }
    }
}

/// Compiles the regular expression of a key. Python's syntax has features that ours lacks.
fn expression(fields: &Fields, key: &str, given: &str, whole: &str) -> Result<Regex> {
    Regex::new(whole).map_err(|_| {
        let shown: String = given.chars().take(60).collect();
        fields.bad(format!(
            "{key} is {shown:?}, which can't be read as a regular expression; only those without backreferences, \
             lookahead and lookbehind are read; {ELSEWHERE}"
        ))
    })
}

impl Targets {
    fn read(fields: &Fields) -> Result<Self> {
        let targets = match Modules::read(fields, "target_modules")? {
            Some(Modules::Pattern(_))
                if fields
                    .text("target_modules")?
                    .eq_ignore_ascii_case(ALL_LINEAR) =>
            {
                Modules::AllLinear
            }
            Some(targets) => targets,
            None => return Err(fields.bad("lacks target_modules")),
        };
        let (transform, pattern) = ("layers_to_transform", "layers_pattern");
        let layers = match fields.get(transform) {
            None => None,
            Some(value) if value.is_array() => Some(fields.sizes(transform)?),
            Some(_) => Some(vec![fields.size(transform)?]),
        };
        let patterns = match fields.get(pattern).and_then(|v| v.as_str()) {
            Some("") => Vec::new(),
            Some(text) => vec![text],
            None => fields.texts(pattern)?,
        };
        for (key, there) in [
            (transform, layers.is_some()),
            (pattern, !patterns.is_empty()),
        ] {
            if there && !matches!(targets, Modules::Listed(_)) {
                return Err(fields.bad(format!(
                    "{key} must be absent unless target_modules is a list, as peft asks"
                )));
            }
        }
        if !patterns.is_empty() && layers.is_none() {
            return Err(fields.bad(format!("{pattern} needs {transform}, as peft asks")));
        }
        // Without a pattern the first number after two parts of a name counts.
        let numbers = match patterns.as_slice() {
            [] => vec![expression(
                fields,
                pattern,
                "",
                r"\A.*?\.[^.]*\.(?P<idx>[0-9]+)\.",
            )?],
            given => given
                .iter()
                .map(|given| {
                    let whole = format!(r"\A(?:(?:^|.*?\.){given}\.(?P<idx>[0-9]+)\.)");
                    expression(fields, pattern, given, &whole)
                })
                .collect::<Result<_>>()?,
        };
        Ok(Self {
            targets,
            excluded: Modules::read(fields, "exclude_modules")?,
            layers: layers
                .filter(|layers| !layers.is_empty())
                .map(|layers| (layers, numbers)),
        })
    }

    /// Returns the key that excludes a module, or `None` if the module is adapted.
    fn without(&self, module: &str, head: bool) -> Option<&'static str> {
        if self.excluded.as_ref().is_some_and(|m| m.name(module, head)) {
            return Some("exclude_modules");
        }
        if !self.targets.name(module, head) {
            return Some("target_modules");
        }
        let (layers, numbers) = self.layers.as_ref()?;
        if matches!(&self.targets, Modules::Listed(targets) if targets.iter().any(|t| t == module))
        {
            return None;
        }
        let found = numbers.iter().find_map(|number| number.captures(module));
        let layer = found.and_then(|found| found.name("idx")?.as_str().parse().ok());
        let there = layer.is_some_and(|layer: usize| layers.contains(&layer));
        (!there).then_some("layers_to_transform")
    }

    /// Checks that each linear layer of a model has tensors if it is named, and none if it is not.
    fn agree(
        &self,
        fields: &Fields,
        config: &TransformerConfig,
        pairs: &BTreeMap<String, Pair>,
    ) -> Result<()> {
        let but_the_head = trainable(config);
        for module in places(config, &Names::of(config)).keys() {
            let without = self.without(module, !but_the_head.contains_key(module));
            match (without, pairs.contains_key(module)) {
                (Some(key), true) => {
                    return Err(fields.bad(format!(
                        "{key} leaves out {module}, of which there are tensors"
                    )));
                }
                (None, false) => {
                    return Err(fields.bad(format!(
                        "target_modules names {module}, of which there are no tensors"
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns whether a target is a module's name, or its last parts.
fn ends_with(name: &str, target: &str) -> bool {
    name.strip_suffix(target)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Returns rank and scale of a plain LoRA adapter; refuses anything else, naming the key.
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
        if !HARMLESS.split(' ').any(|known| known == key) && key != "use_rslora" {
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
    let bad = |why: String| Error::checkpoint(path, why);
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
