//! Tensors in safetensors files: the one format in which weights and snapshots lie on disk.

use crate::error::{Error, Result, at};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;
use std::path::Path;

/// A named tensor with its shape and values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

/// Largest file we read: a checkpoint from elsewhere must not ask for all memory.
const LARGEST: u64 = 16 << 30;

/// The bytes of a safetensors file, with text entries in its header.
pub(crate) fn to_bytes(tensors: &[Named], notes: HashMap<String, String>) -> Result<Vec<u8>> {
    let raw: Vec<Vec<u8>> = tensors
        .iter()
        .map(|t| t.values.iter().flat_map(|v| v.to_le_bytes()).collect())
        .collect();
    let views = tensors
        .iter()
        .zip(&raw)
        .map(|(t, bytes)| {
            Ok((
                t.name.as_str(),
                TensorView::new(Dtype::F32, t.shape.clone(), bytes)?,
            ))
        })
        .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>();
    let engine = |e: safetensors::SafeTensorError| Error::Engine(e.to_string());
    let notes = (!notes.is_empty()).then_some(notes);
    safetensors::serialize(views.map_err(engine)?, notes).map_err(engine)
}

/// The tensors of a safetensors file by name; everything is checked, nothing is trusted.
pub(crate) fn from_bytes(
    path: &Path,
    bytes: &[u8],
) -> Result<(HashMap<String, Named>, HashMap<String, String>)> {
    let bad = |why: String| Error::Checkpoint {
        path: path.to_path_buf(),
        why,
    };
    let not_ours =
        |e: safetensors::SafeTensorError| bad(format!("not a whole safetensors file: {e}"));
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_ours)?;
    let notes = header.metadata().clone().unwrap_or_default();
    let file = SafeTensors::deserialize(bytes).map_err(not_ours)?;
    let mut tensors = HashMap::new();
    for (name, view) in file.tensors() {
        if view.dtype() != Dtype::F32 {
            return Err(bad(format!(
                "tensor {name} has type {:?}, expected F32",
                view.dtype()
            )));
        }
        let values: Vec<f32> = view
            .data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        if let Some(bad_value) = values.iter().find(|v| !v.is_finite()) {
            return Err(bad(format!(
                "tensor {name} holds {bad_value}; weights must be finite"
            )));
        }
        tensors.insert(
            name.clone(),
            Named {
                name,
                shape: view.shape().to_vec(),
                values,
            },
        );
    }
    Ok((tensors, notes))
}

/// Reads a file of bounded size.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let size = at(path, std::fs::metadata(path))?.len();
    if size > LARGEST {
        return Err(Error::Checkpoint {
            path: path.to_path_buf(),
            why: format!("{size} bytes, more than the {LARGEST} that are read"),
        });
    }
    at(path, std::fs::read(path))
}
