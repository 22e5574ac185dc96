//! The tokenizer of a folder: splits text into pieces of words, with their byte ranges.

use crate::tokenize::check_outline;
use serde::Deserialize;
use std::ops::Range;
use tokenizers::Tokenizer;

/// The longest window, whatever the model can read: time and memory are quadratic in its length.
const LONGEST: usize = 512;

/// A piece of a word.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) id: i32,
    /// The byte range in the text, on character boundaries, without white space at the ends.
    pub(super) range: Range<usize>,
    /// The number of the word; all pieces of a word have the same number.
    pub(super) word: usize,
}

/// The tokenizer, the special tokens that it puts around a text, and how many pieces the model
/// reads at once.
#[derive(Debug)]
pub(super) struct Pieces {
    tokenizer: Tokenizer,
    pub(super) prefix: Vec<i32>,
    suffix: Vec<i32>,
    pub(super) window: usize,
}

#[derive(Deserialize)]
struct Config {
    max_position_embeddings: Option<i64>,
    model_type: Option<String>,
    pad_token_id: Option<i64>,
}

impl Pieces {
    pub(super) fn new(tokenizer: &[u8], config: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(tokenizer).map_err(|_| "it is not UTF-8".to_owned())?;
        let outlined = check_outline(text).map_err(|e| e.to_string())?;
        let mut tokenizer = Tokenizer::from_bytes(tokenizer).map_err(|e| e.to_string())?;
        if !outlined {
            return Err("it contradicts itself".to_owned());
        }
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        // Special tokens in raw text are treated as text, so that text cannot end early.
        tokenizer.set_encode_special_tokens(true);
        let (prefix, suffix) = frame(&tokenizer)?;
        let config: Config =
            serde_json::from_slice(config).map_err(|e| format!("config.json: {e}"))?;
        let around = prefix.len() + suffix.len();
        let window = config.longest()?.checked_sub(around).filter(|w| *w > 0);
        Ok(Self {
            tokenizer,
            prefix,
            suffix,
            window: window.ok_or_else(|| {
                format!("config.json: max_position_embeddings leaves no room beside {around} special tokens")
            })?,
        })
    }

    pub(super) fn cut(&self, text: &str) -> Result<Vec<Piece>, String> {
        let encoding = self
            .tokenizer
            .encode(text, false)
            .map_err(|e| e.to_string())?;
        let each = encoding.get_ids().iter().zip(encoding.get_offsets());
        let each = each.zip(encoding.get_word_ids());
        each.enumerate()
            .map(|(number, ((id, (start, end)), word))| {
                Ok(Piece {
                    id: small(*id)?,
                    range: inside(text, *start, *end),
                    // A piece without a word is a word of its own; odd and even numbers never
                    // collide.
                    word: word.map_or(2 * number + 1, |word| 2 * word as usize),
                })
            })
            .collect()
    }

    /// Returns the ids with the special tokens around them.
    pub(super) fn framed(&self, ids: &[i32]) -> Vec<i32> {
        [&self.prefix, ids, &self.suffix].concat()
    }
}

impl Config {
    /// Returns the number of tokens that the model reads at once.
    fn longest(&self) -> Result<usize, String> {
        let Some(positions) = self.max_position_embeddings else {
            return Ok(LONGEST);
        };
        // RoBERTa and related models number positions starting after that of the padding token.
        let model = self.model_type.as_deref().unwrap_or("");
        let offset = if ["roberta", "camembert", "longformer"]
            .iter()
            .any(|m| model.contains(m))
        {
            self.pad_token_id.unwrap_or(1).clamp(0, 1 << 20) + 1
        } else {
            0
        };
        let left = usize::try_from(positions.saturating_sub(offset)).unwrap_or(0);
        if left == 0 {
            return Err(format!(
                "config.json: max_position_embeddings must be above {offset}, got {positions}"
            ));
        }
        Ok(left.min(LONGEST))
    }
}

/// Returns the special tokens that the tokenizer puts before and after a text.
fn frame(tokenizer: &Tokenizer) -> Result<(Vec<i32>, Vec<i32>), String> {
    let encoding = tokenizer.encode("a", true).map_err(|e| e.to_string())?;
    let special = encoding.get_special_tokens_mask();
    let ids: Vec<i32> = encoding
        .get_ids()
        .iter()
        .map(|id| small(*id))
        .collect::<Result<_, _>>()?;
    let before = special.iter().take_while(|s| **s == 1).count();
    let behind = special[before..]
        .iter()
        .rev()
        .take_while(|s| **s == 1)
        .count();
    Ok((ids[..before].to_vec(), ids[ids.len() - behind..].to_vec()))
}

fn small(id: u32) -> Result<i32, String> {
    i32::try_from(id).map_err(|_| format!("the id {id} of a token is beyond 2147483647"))
}

/// Extends a byte range to character boundaries, and removes white space at its ends.
fn inside(text: &str, start: usize, end: usize) -> Range<usize> {
    let end = text.ceil_char_boundary(end.max(start));
    let start = text.floor_char_boundary(start);
    let piece = &text[start..end];
    let from = start + (piece.len() - piece.trim_start().len());
    from..from + piece.trim().len()
}
