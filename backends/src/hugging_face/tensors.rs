//! Converts between Hugging Face's tensors and our parameters: joins, transposes and checks them.

use super::names::{Names, TensorPart};
use crate::checkpoint::weights::{Named, each_tensor, values};
use crate::error::{Error, Result};
use crate::model::{Head, TransformerConfig};
use crate::trainer::Parameter;
use safetensors::tensor::TensorView;
use std::collections::HashMap;
use std::path::Path;

/// Maximum number of names listed in a message.
const LISTED: usize = 5;

/// Converts our weights to Hugging Face's tensors.
pub(super) fn theirs(config: &TransformerConfig, weights: &[Vec<f32>]) -> Vec<Named> {
    let names = Names::of(config);
    let mut out = Vec::new();
    for ((parameter, weight), parts) in config.parameters().iter().zip(weights).zip(&names.parts) {
        let mut offset = 0;
        for part in parts {
            out.push(Named {
                name: part.name.clone(),
                shape: part.shape(parameter),
                values: part.cut(parameter, weight, offset),
            });
            offset += part.columns;
        }
    }
    // transformers 4.46 leaves RoBERTa's decoder bias at zero unless the bias has this name
    let bias = out.iter().find(|t| t.name == "lm_head.bias").cloned();
    out.extend(bias.filter(|_| !config.causal()).map(|bias| Named {
        name: "lm_head.decoder.bias".to_owned(),
        ..bias
    }));
    out
}

/// Returns rows and columns; a vector is one row.
fn sides(parameter: &Parameter) -> (usize, usize) {
    let columns = parameter.shape.last().copied().unwrap_or(1);
    (parameter.len() / columns.max(1), columns)
}

impl TensorPart {
    fn shape(&self, parameter: &Parameter) -> Vec<usize> {
        let (rows, _) = sides(parameter);
        match (parameter.shape.len(), self.transposed) {
            (1, _) => vec![self.columns],
            (_, true) => vec![self.columns, rows],
            (_, false) => vec![rows, self.columns],
        }
    }

    /// Calls `pair` for every pair of places (theirs, ours).
    fn places(&self, parameter: &Parameter, offset: usize, mut pair: impl FnMut(usize, usize)) {
        let (rows, width) = sides(parameter);
        for row in 0..rows {
            for column in 0..self.columns {
                let theirs = if self.transposed {
                    column * rows + row
                } else {
                    row * self.columns + column
                };
                pair(theirs, row * width + offset + self.column(column));
            }
        }
    }

    pub(super) fn cut(&self, parameter: &Parameter, ours: &[f32], offset: usize) -> Vec<f32> {
        let mut theirs = vec![0.0; sides(parameter).0 * self.columns];
        self.places(parameter, offset, |t, o| theirs[t] = ours[o]);
        theirs
    }
}

/// The place of one Hugging Face tensor.
#[derive(Clone, Copy)]
struct TensorSlot {
    parameter: usize,
    part: usize,
    offset: usize,
}

/// Gathers weights from one or more files.
pub(super) struct Gathering<'a> {
    config: &'a TransformerConfig,
    parameters: Vec<Parameter>,
    names: Names,
    places: HashMap<String, TensorSlot>,
    /// The name that each tensor found has in its file.
    found: HashMap<String, String>,
    /// Tensors found under their alternative name.
    second: HashMap<String, Vec<f32>>,
    weights: Vec<Vec<f32>>,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(config: &'a TransformerConfig) -> Self {
        let names = Names::of(config);
        let mut places = HashMap::new();
        for (parameter, parts) in names.parts.iter().enumerate() {
            let mut offset = 0;
            for (part, theirs) in parts.iter().enumerate() {
                let place = TensorSlot {
                    parameter,
                    part,
                    offset,
                };
                places.insert(theirs.name.clone(), place);
                offset += theirs.columns;
            }
        }
        let parameters = config.parameters();
        Self {
            config,
            weights: vec![Vec::new(); parameters.len()],
            parameters,
            names,
            places,
            found: HashMap::new(),
            second: HashMap::new(),
        }
    }

    /// Returns the full name of a tensor; a file may omit the bare model's prefix.
    fn full(&self, name: &str) -> Option<String> {
        let known = |n: &str| {
            self.places.contains_key(n) || self.names.aliases.iter().any(|(other, _)| other == n)
        };
        if known(name) {
            return Some(name.to_owned());
        }
        // the whole prefix, or its first parts
        let dots = self.names.prefix.match_indices('.');
        dots.map(|(at, _)| format!("{}{name}", &self.names.prefix[..=at]))
            .find(|prefixed| known(prefixed))
    }

    /// Takes every tensor of a file. `expected` says which tensors an index expects in it.
    pub(super) fn file(
        &mut self,
        path: &Path,
        bytes: &[u8],
        expected: Option<&dyn Fn(&str) -> bool>,
    ) -> Result<()> {
        each_tensor(path, bytes, |name, view| {
            let bad = |why: String| Error::checkpoint(path, why);
            if expected.is_some_and(|expected| !expected(name)) {
                return Err(bad(format!(
                    "holds the tensor {name}, which the index does not place in it"
                )));
            }
            if self.names.ignored(self.config, name) {
                return Ok(());
            }
            let full = self
                .full(name)
                .ok_or_else(|| bad(format!("holds the tensor {name}, which the model lacks")))?;
            if let Some(before) = self.found.insert(full.clone(), name.to_owned()) {
                return Err(bad(format!(
                    "holds the tensor {name}, which was there already as {before}"
                )));
            }
            self.take(path, &full, name, view)
        })
    }

    fn take(&mut self, path: &Path, full: &str, name: &str, view: &TensorView<'_>) -> Result<()> {
        let bad = |why: String| Error::checkpoint(path, why);
        let first = self.first_name(full).to_owned();
        let place = self.places[&first];
        let parameter = &self.parameters[place.parameter];
        let part = &self.names.parts[place.parameter][place.part];
        let shape = part.shape(parameter);
        let rows = |shape: &[usize]| shape.first().copied().unwrap_or_default();
        if let Head::Classes(classes) = self.config.head
            && (first.starts_with("classifier.") || first.starts_with("score."))
            && (rows(&shape), shape.len()) == (classes, view.shape().len())
            && rows(view.shape()) != classes
        {
            return Err(bad(format!(
                "tensor {name} tells {} classes, and config.json names {classes} (id2label)",
                rows(view.shape())
            )));
        }
        if view.shape() != shape {
            return Err(bad(format!(
                "tensor {name} has shape {:?}, expected {shape:?}",
                view.shape()
            )));
        }
        let theirs = values(path, name, view)?;
        if first == full {
            self.put(place, &theirs);
        } else {
            self.second.insert(full.to_owned(), theirs);
        }
        Ok(())
    }

    /// Returns the name for an alternative name.
    fn first_name<'b>(&'b self, name: &'b str) -> &'b str {
        let pair = self.names.aliases.iter().find(|(other, _)| other == name);
        pair.map_or(name, |(_, first)| first)
    }

    fn put(&mut self, place: TensorSlot, theirs: &[f32]) {
        let parameter = &self.parameters[place.parameter];
        let part = &self.names.parts[place.parameter][place.part];
        let ours = &mut self.weights[place.parameter];
        ours.resize(parameter.len(), 0.0);
        part.places(parameter, place.offset, |t, o| ours[o] = theirs[t]);
    }

    /// Returns the weights, if nothing is missing and the tensors under alternative names are equal to the others.
    pub(super) fn finish(mut self, path: &Path) -> Result<Vec<Vec<f32>>> {
        let bad = |why: String| Error::checkpoint(path, why);
        for (other, theirs) in std::mem::take(&mut self.second) {
            let first = self.first_name(&other).to_owned();
            let place = self.places[&first];
            if self.found.contains_key(&first) {
                let parameter = &self.parameters[place.parameter];
                let part = &self.names.parts[place.parameter][place.part];
                let own = part.cut(parameter, &self.weights[place.parameter], place.offset);
                let same = own
                    .iter()
                    .zip(&theirs)
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                if !same {
                    return Err(bad(format!(
                        "tensors {other} and {first} differ, though config.json ties them"
                    )));
                }
            } else {
                self.put(place, &theirs);
                self.found.insert(first, other);
            }
        }
        let mut missing: Vec<&str> = self
            .places
            .keys()
            .filter(|name| !self.found.contains_key(*name))
            .map(String::as_str)
            .collect();
        missing.sort_unstable();
        if missing.is_empty() {
            return Ok(self.weights);
        }
        let shown = missing[..missing.len().min(LISTED)].join(", ");
        let more = match missing.len().saturating_sub(LISTED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        Err(bad(format!("lacks the tensors {shown}{more}")))
    }
}
