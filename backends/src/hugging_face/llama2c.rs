//! Converts the first layout of llama2.c (`.bin` with its `tok*.bin`) to a Hugging Face folder.
//!
//! A model file holds seven little-endian 32-bit integers (width, feed-forward width, layers, heads, key-value heads,
//! vocabulary, positions; a negative vocabulary says that the head has its own matrix), then f32 tensors kind by kind,
//! `[out, in]`. Its rotary pairs are adjacent values; Hugging Face's are half a head apart, so the rows of queries and
//! keys are reordered.

use crate::checkpoint::weights::read as read_file;
use crate::error::{Error, Result};
use crate::model::{Family, TransformerConfig};
use serde_json::{Value, json};
use std::path::Path;

/// Number of pieces before the ordinary ones: unknown, beginning, end, and the 256 bytes.
const FIRST_PIECE: usize = 3 + 256;

/// Converts a model in llama2.c's first layout, with its tokenizer, to a folder that
/// [`crate::hugging_face::load_hugging_face`] and transformers can read. Returns its architecture.
///
/// # Errors
/// Returns [`Error::Checkpoint`] for a file that is truncated or too long, or does not fit the other; an error if the
/// folder exists and is not empty, or if it can't be written.
pub fn convert_llama2c(model: &Path, tokenizer: &Path, out: &Path) -> Result<TransformerConfig> {
    let (config, weights) = read_model(model)?;
    let pieces = read_pieces(tokenizer, config.vocabulary)?;
    let json = serde_json::to_string_pretty(&tokenizer_json(&pieces)).map_err(Error::engine)?;
    super::write(out, &config, &weights, Some([1, 2]), Some(&json))?;
    Ok(config)
}

/// Reads little-endian values from a file's bytes.
struct Reader<'a> {
    path: &'a Path,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn bad(&self, why: impl Into<String>) -> Error {
        Error::checkpoint(self.path, why)
    }

    fn bytes(&mut self, count: usize) -> Result<&[u8]> {
        if count > self.rest.len() {
            let left = self.rest.len();
            return Err(self.bad(format!("truncated: {count} bytes expected, {left} left")));
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<[u8; 4]> {
        let b = self.bytes(4)?;
        Ok([b[0], b[1], b[2], b[3]])
    }

    fn integer(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.word()?))
    }

    fn size(&mut self, what: &str) -> Result<usize> {
        let value = self.integer()?;
        usize::try_from(value).map_err(|_| self.bad(format!("{what} is {value}")))
    }

    fn float(&mut self) -> Result<f32> {
        Ok(f32::from_le_bytes(self.word()?))
    }

    fn floats(&mut self, what: &str, count: usize) -> Result<Vec<f32>> {
        let bytes = count
            .checked_mul(4)
            .ok_or_else(|| self.bad(format!("{what}: too large")))?;
        let words = self.bytes(bytes)?.chunks_exact(4);
        let values: Vec<f32> = words
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        match values.iter().find(|v| !v.is_finite()) {
            Some(value) => Err(self.bad(format!("{what} holds {value}; weights must be finite"))),
            None => Ok(values),
        }
    }
}

fn read_model(path: &Path) -> Result<(TransformerConfig, Vec<Vec<f32>>)> {
    let bytes = read_file(path)?;
    let mut r = Reader { path, rest: &bytes };
    let (width, feed_forward) = (r.size("width")?, r.size("feed-forward width")?);
    let (layers, heads) = (r.size("number of layers")?, r.size("number of heads")?);
    let key_value_heads = r.size("number of key-value heads")?;
    let vocabulary = r.integer()?;
    let positions = r.size("number of positions")?;
    let size = vocabulary.unsigned_abs() as usize;
    let base = TransformerConfig::new(Family::Llama, size, width, layers, heads, positions);
    let config = TransformerConfig {
        feed_forward,
        key_value_heads,
        tied: vocabulary > 0,
        norm_epsilon: 1e-5,
        ..base
    };
    let config = config.validated().map_err(|e| r.bad(e.to_string()))?;
    if config.query_width() != width {
        return Err(r.bad(format!("{heads} heads do not divide the width {width}")));
    }
    let weights = read_weights(&mut r, &config)?;
    Ok((config, weights))
}

fn read_weights(r: &mut Reader<'_>, c: &TransformerConfig) -> Result<Vec<Vec<f32>>> {
    let (d, f, key) = (c.width, c.feed_forward, c.key_value_width());
    let layout = c.layout();
    let mut weights: Vec<Vec<f32>> = vec![Vec::new(); c.parameters().len()];
    let per_layer = |r: &mut Reader<'_>, what: &str, length: usize| {
        (0..c.layers)
            .map(|_| r.floats(what, length))
            .collect::<Result<Vec<_>>>()
    };
    weights[layout.token_embedding] = r.floats("token embedding", c.vocabulary * d)?;
    let attention_norms = per_layer(r, "attention norm", d)?;
    let queries = per_layer(r, "query", d * d)?;
    let keys = per_layer(r, "key", key * d)?;
    let values = per_layer(r, "value", key * d)?;
    let outputs = per_layer(r, "attention output", d * d)?;
    let inner_norms = per_layer(r, "feed-forward norm", d)?;
    let gates = per_layer(r, "gate", f * d)?;
    let downs = per_layer(r, "down", d * f)?;
    let ups = per_layer(r, "up", f * d)?;
    for (i, at) in layout.layers.iter().enumerate() {
        let norm = |n: Option<crate::model::NormAt>| n.map_or(0, |n| n.gain);
        weights[norm(at.attention_before)].clone_from(&attention_norms[i]);
        weights[norm(at.feed_forward_before)].clone_from(&inner_norms[i]);
        let halves = |rows: &[f32]| apart(rows, d, c.head_width);
        let joined = [halves(&queries[i]), halves(&keys[i]), values[i].clone()].concat();
        weights[at.attention_in.weight] = turned(&joined, d);
        weights[at.attention_out.weight] = turned(&outputs[i], d);
        let joined = [gates[i].as_slice(), ups[i].as_slice()].concat();
        weights[at.feed_forward_in.weight] = turned(&joined, d);
        weights[at.feed_forward_out.weight] = turned(&downs[i], f);
    }
    if let Some(norm) = layout.final_norm {
        weights[norm.gain] = r.floats("final norm", d)?;
    }
    // cosines and sines of the angles, which we compute
    r.floats("rotary tables", c.positions * c.head_width)?;
    if let crate::model::HeadLayout::NextToken {
        projection: Some(at),
        ..
    } = layout.head
    {
        weights[at] = turned(&r.floats("head", c.vocabulary * d)?, d);
    }
    match r.rest.len() {
        0 => Ok(weights),
        left => Err(r.bad(format!(
            "{left} bytes too many: not llama2.c's first layout"
        ))),
    }
}

/// Transposes `[out, in]` to `[in, out]`.
fn turned(rows: &[f32], inputs: usize) -> Vec<f32> {
    let outputs = rows.len() / inputs;
    let value = |i: usize| rows[i % outputs * inputs + i / outputs];
    (0..rows.len()).map(value).collect()
}

/// Reorders the rows of each head: neighbours 2i, 2i + 1 become i and half + i.
fn apart(rows: &[f32], inputs: usize, head_width: usize) -> Vec<f32> {
    let half = head_width / 2;
    let lines: Vec<&[f32]> = rows.chunks_exact(inputs).collect();
    let source = |i: usize| {
        let (head, within) = (i / head_width * head_width, i % head_width);
        head + within % half * 2 + within / half
    };
    (0..lines.len())
        .flat_map(|i| lines[source(i)].iter().copied())
        .collect()
}

/// A piece of the vocabulary with its score. Pieces with a higher score are merged first.
struct Piece {
    text: String,
    score: f32,
}

fn read_pieces(path: &Path, vocabulary: usize) -> Result<Vec<Piece>> {
    let bytes = read_file(path)?;
    let mut r = Reader { path, rest: &bytes };
    let longest = r.size("longest piece")?;
    let mut pieces = Vec::new();
    for id in 0..vocabulary {
        let score = r.float()?;
        let length = r.size("length of a piece")?;
        if length > longest || score.is_nan() {
            return Err(r.bad(format!(
                "piece {id} has {length} bytes and score {score}; at most {longest} bytes and a number"
            )));
        }
        let text = String::from_utf8(r.bytes(length)?.to_vec())
            .map_err(|e| r.bad(format!("piece {id} is not UTF-8: {e}")))?;
        // the file spells the word mark as a blank
        let text = text.replace(' ', "\u{2581}");
        pieces.push(Piece { text, score });
    }
    if pieces.len() < FIRST_PIECE {
        return Err(r.bad(format!("{} pieces; at least {FIRST_PIECE}", pieces.len())));
    }
    match r.rest.len() {
        0 => Ok(pieces),
        left => Err(r.bad(format!("{left} bytes left after {vocabulary} pieces"))),
    }
}

/// Returns a `tokenizer.json` that encodes in the same way: of all neighbouring pairs that form a piece, the one with
/// the best score is merged first; a character outside the vocabulary falls back to bytes.
fn tokenizer_json(pieces: &[Piece]) -> Value {
    let mut ids = std::collections::HashMap::new();
    for (id, piece) in pieces.iter().enumerate().skip(FIRST_PIECE) {
        ids.entry(piece.text.as_str()).or_insert(id);
    }
    let mut by_score: Vec<usize> = (FIRST_PIECE..pieces.len()).collect();
    by_score.sort_by(|a, b| pieces[*b].score.total_cmp(&pieces[*a].score).then(a.cmp(b)));
    let mut merges = Vec::new();
    for id in by_score {
        let text = pieces[id].text.as_str();
        for (cut, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(cut);
            if ids.contains_key(left) && ids.contains_key(right) {
                merges.push(json!([left, right]));
            }
        }
    }
    let special = [(0, "<unk>"), (1, "<s>"), (2, "</s>")];
    let mut vocabulary = serde_json::Map::new();
    for (id, name) in special {
        vocabulary.insert(name.into(), json!(id));
    }
    for byte in 0..256 {
        vocabulary.insert(format!("<0x{byte:02X}>"), json!(byte + 3));
    }
    for (text, id) in ids {
        vocabulary.insert(text.into(), json!(id));
    }
    let added: Vec<Value> = special
        .iter()
        .map(|(id, name)| {
            json!({"id": id, "content": name, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true})
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]},
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>",
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
            "byte_fallback": true, "ignore_merges": false, "vocab": vocabulary, "merges": merges}
    })
}
