//! Reads and writes tensors in safetensors files: the only format for weights and snapshots on disk.

use crate::error::{Error, Result, at};
use reticent_disk::hexadecimal;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A named tensor with its shape and values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

/// The size of the largest file that is read: a foreign checkpoint must not exhaust the memory.
const LARGEST: u64 = 16 << 30;

/// Returns the SHA-256 of weights in checkpoint order, hexadecimal: for each tensor its length, then its values as
/// little-endian f32.
#[must_use]
pub fn weights_digest(weights: &[Vec<f32>]) -> String {
    let mut digest = Sha256::new();
    let mut bytes = Vec::new();
    for tensor in weights {
        digest.update((tensor.len() as u64).to_le_bytes());
        for block in tensor.chunks(1 << 16) {
            bytes.clear();
            bytes.extend(block.iter().flat_map(|v| v.to_le_bytes()));
            digest.update(&bytes);
        }
    }
    hexadecimal(&digest.finalize())
}

/// Returns the header of a safetensors file of f32 tensors (name, shape, number of values) in this order, preceded by
/// its length. Equal content gives equal bytes.
pub(crate) fn header<'a>(
    notes: &BTreeMap<String, String>,
    tensors: impl Iterator<Item = (&'a str, &'a [usize], usize)>,
) -> Result<Vec<u8>> {
    let mut entries = serde_json::Map::new();
    if !notes.is_empty() {
        entries.insert("__metadata__".into(), serde_json::json!(notes));
    }
    let mut from = 0u64;
    for (name, shape, values) in tensors {
        let end = from + 4 * values as u64;
        let entry = serde_json::json!({
            "dtype": "F32", "shape": shape, "data_offsets": [from, end]
        });
        entries.insert(name.to_owned(), entry);
        from = end;
    }
    let mut json = serde_json::to_vec(&entries).map_err(Error::engine)?;
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut json);
    Ok(bytes)
}

/// Returns the bytes of a safetensors file, with text entries in its header in addition to the usual one.
pub(crate) fn to_bytes(tensors: &[Named], mut notes: BTreeMap<String, String>) -> Result<Vec<u8>> {
    notes.insert("format".to_owned(), "pt".to_owned());
    let mut sorted: Vec<&Named> = tensors.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let entries = sorted.iter().map(|t| (&*t.name, &*t.shape, t.values.len()));
    let mut bytes = header(&notes, entries)?;
    bytes.reserve(4 * sorted.iter().map(|t| t.values.len()).sum::<usize>());
    for tensor in sorted {
        bytes.extend(tensor.values.iter().flat_map(|v| v.to_le_bytes()));
    }
    Ok(bytes)
}

/// Reads the text entries in the header of a safetensors file, and nothing beyond the header.
pub(crate) fn notes(path: &Path) -> Result<HashMap<String, String>> {
    use std::io::Read;
    // the longest header that the format's own library reads
    const LONGEST: u64 = 100_000_000;
    let bad = |why: String| Error::checkpoint(path, format!("not a whole safetensors file: {why}"));
    let mut file = at(path, reticent_disk::open_regular(path))?;
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|e| bad(e.to_string()))?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(bad(format!("a header of {length} bytes")));
    }
    let mut bytes = Vec::new();
    let read = at(path, file.take(length).read_to_end(&mut bytes))?;
    if read as u64 != length {
        return Err(bad(format!(
            "its header ends after {read} of {length} bytes"
        )));
    }
    /// The rest of the header is read with the tensors.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Header {
        #[serde(rename = "__metadata__")]
        notes: Option<HashMap<String, String>>,
    }
    let header: Header = serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string()))?;
    Ok(header.notes.unwrap_or_default())
}

/// Parses the tensors of a safetensors file by name; everything is checked, nothing is trusted.
pub(crate) fn from_bytes(
    path: &Path,
    bytes: &[u8],
) -> Result<(HashMap<String, Named>, HashMap<String, String>)> {
    let bad = |why: String| Error::checkpoint(path, why);
    let not_ours =
        |e: safetensors::SafeTensorError| bad(format!("not a whole safetensors file: {e}"));
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_ours)?;
    let notes = header.metadata().clone().unwrap_or_default();
    let mut tensors = HashMap::new();
    each_tensor(path, bytes, |name, view| {
        let named = Named {
            name: name.to_owned(),
            shape: view.shape().to_vec(),
            values: values(path, name, view)?,
        };
        tensors.insert(name.to_owned(), named);
        Ok(())
    })?;
    Ok((tensors, notes))
}

/// The longest name of a tensor, in bytes.
const LONGEST_NAME: usize = 200;

/// Visits the tensors of a safetensors file without decoding them.
pub(crate) fn each_tensor(
    path: &Path,
    bytes: &[u8],
    mut visit: impl FnMut(&str, &TensorView<'_>) -> Result<()>,
) -> Result<()> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| Error::checkpoint(path, format!("not a whole safetensors file: {e}")))?;
    file.iter().try_for_each(|(name, view)| {
        // Messages show names.
        match name.len() > LONGEST_NAME || name.contains(char::is_control) {
            true => Err(Error::checkpoint(
                path,
                format!(
                    "the name of a tensor has {} bytes; it must have at most {LONGEST_NAME}, and no control characters",
                    name.len()
                ),
            )),
            false => visit(name, &view),
        }
    })
}

/// Returns the values of a tensor of type f32, f16 or bf16. All must be finite.
pub(crate) fn values(path: &Path, name: &str, view: &TensorView<'_>) -> Result<Vec<f32>> {
    let bad = |why: String| Error::checkpoint(path, format!("tensor {name} {why}"));
    let halves = || {
        let pairs = view.data().chunks_exact(2);
        pairs.map(|b| u16::from_le_bytes([b[0], b[1]]))
    };
    let values: Vec<f32> = match view.dtype() {
        Dtype::F32 => {
            let words = view.data().chunks_exact(4);
            words
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect()
        }
        Dtype::F16 => halves().map(from_f16).collect(),
        Dtype::BF16 => halves().map(from_bf16).collect(),
        other => {
            return Err(bad(format!(
                "has type {other:?}, expected F32, F16 or BF16"
            )));
        }
    };
    match values.iter().find(|v| !v.is_finite()) {
        Some(value) => Err(bad(format!("holds {value}; weights must be finite"))),
        None => Ok(values),
    }
}

/// bf16 is the upper half of an f32.
fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// IEEE half precision: 1 sign, 5 exponent and 10 fraction bits. Exact.
fn from_f16(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction > 0.0 => f32::NAN,
        31 => f32::INFINITY,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Reads a file of bounded size.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    at(path, reticent_disk::read_regular(path, LARGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known patterns (IEEE 754): 1, −2, the largest, the smallest normal and subnormal, 1/3.
    #[test]
    fn half_precision_is_read_exactly() {
        let known = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x0400, 6.103_515_6e-5),
            (0x0001, 5.960_464_5e-8),
            (0x3555, 0.333_251_95),
        ];
        for (bits, value) in known {
            assert_eq!(from_f16(bits).to_bits(), f32::to_bits(value), "{bits:x}");
        }
        assert!(from_f16(0x7c00).is_infinite() && from_f16(0x7e00).is_nan());
        assert_eq!(from_bf16(0x3f80).to_bits(), 1f32.to_bits());
        assert_eq!(from_bf16(0xc2f7).to_bits(), (-123.5f32).to_bits());
    }

    /// To open a pipe could block forever.
    #[cfg(unix)]
    #[test]
    fn a_header_is_read_from_a_regular_file_alone() {
        let error = notes(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("a pipe or a device"), "{error}");
    }
}
