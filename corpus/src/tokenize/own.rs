//! Our own two alphabets. Their tables are arithmetic, so encoding is as fast as a copy.

use super::{Cut, Places, Unknown};
use crate::record::TokenId;
use serde_json::{Value, json};

/// A fixed public alphabet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    Bytes,
    Characters,
}

/// Printable ASCII is 0x20..=0x7e, with the ids 0..=94.
const FIRST: u32 = 0x20;
const LINE_FEED: TokenId = 95;
const UNKNOWN: TokenId = 96;

impl Alphabet {
    pub(super) fn vocabulary_size(self) -> usize {
        self.mask() as usize + 1
    }

    pub(super) fn bos(self) -> TokenId {
        match self {
            Self::Bytes => 256,
            Self::Characters => UNKNOWN + 1,
        }
    }

    pub(super) fn eos(self) -> TokenId {
        self.bos() + 1
    }

    pub(super) fn mask(self) -> TokenId {
        self.bos() + 2
    }

    /// Returns the token of characters outside the alphabet, if there are any.
    fn unknown(self) -> Option<TokenId> {
        (self == Self::Characters).then_some(UNKNOWN)
    }

    pub(super) fn encode(self, text: &str) -> Vec<TokenId> {
        match self {
            Self::Bytes => text.bytes().map(u32::from).collect(),
            Self::Characters if text.is_ascii() => text.bytes().map(byte_id).collect(),
            Self::Characters => {
                // To count first takes less than to grow.
                let mut tokens = Vec::with_capacity(text.chars().count());
                tokens.extend(text.bytes().filter(begins_a_character).map(byte_id));
                tokens
            }
        }
    }

    pub(super) fn cut(self, text: &str) -> Cut {
        let tokens = self.encode(text);
        let places = if self == Self::Bytes || text.is_ascii() {
            Places::Bytes(text.len())
        } else {
            let mut places = Vec::with_capacity(tokens.len() + 1);
            places.extend(text.char_indices().map(|(at, _)| at));
            places.push(text.len());
            Places::Adjacent(places)
        };
        let mut unknown = Unknown::default();
        if let Some(id) = self.unknown() {
            let numbers = 0..tokens.len();
            unknown.tokens = numbers.filter(|number| tokens[*number] == id).collect();
            unknown.characters = unknown.tokens.len() as u64;
        }
        Cut {
            tokens,
            places,
            unknown,
        }
    }

    /// Decodes tokens; ids outside the alphabet are skipped.
    pub(super) fn decode(self, tokens: &[TokenId]) -> String {
        match self {
            Self::Bytes => {
                let bytes: Vec<u8> = tokens
                    .iter()
                    .filter_map(|&t| u8::try_from(t).ok())
                    .collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Self::Characters => tokens.iter().filter_map(|&t| id_character(t)).collect(),
        }
    }

    /// Returns the `tokenizer.json`: a byte-pair model without merges, which has exactly one token
    /// per symbol.
    pub(super) fn to_value(self) -> Value {
        let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false,
            "trim_offsets": false, "use_regex": false});
        let (pre_tokenizer, decoder) = match self {
            Self::Bytes => (byte_level.clone(), byte_level),
            Self::Characters => (Value::Null, json!({"type": "Fuse"})),
        };
        let mut vocabulary: serde_json::Map<String, Value> = self
            .symbols()
            .enumerate()
            .map(|(id, symbol)| (symbol.to_string(), json!(id)))
            .collect();
        let mut specials = vec![
            (self.bos(), "<BOS>"),
            (self.eos(), "<EOS>"),
            (self.mask(), super::MASK_TEXT),
        ];
        if let Some(unknown) = self.unknown() {
            specials.insert(0, (unknown, "<UNK>"));
        }
        for &(id, name) in &specials {
            vocabulary.insert(name.to_owned(), json!(id));
        }
        let added: Vec<Value> = specials
            .iter()
            .map(|(id, name)| {
                json!({"id": id, "content": name, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true})
            })
            .collect();
        json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": added, "normalizer": null, "pre_tokenizer": pre_tokenizer,
            "post_processor": null, "decoder": decoder,
            "model": {"type": "BPE", "dropout": null,
                "unk_token": self.unknown().map(|_| "<UNK>"),
                "continuing_subword_prefix": null, "end_of_word_suffix": null,
                "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": vocabulary, "merges": []}
        })
    }

    /// Returns the symbol of each id in the file, in order.
    fn symbols(self) -> Box<dyn Iterator<Item = char>> {
        match self {
            Self::Bytes => Box::new((0..=255u8).map(byte_symbol)),
            Self::Characters => Box::new((0..=LINE_FEED).filter_map(id_character)),
        }
    }
}

/// Returns whether a byte of UTF-8 is the first one of a character.
const fn begins_a_character(byte: &u8) -> bool {
    !matches!(*byte, 0x80..0xc0)
}

/// Returns the id of the character that begins with this byte, without branches.
fn byte_id(byte: u8) -> TokenId {
    let id = TokenId::from(byte).wrapping_sub(FIRST);
    let other = if byte == b'\n' { LINE_FEED } else { UNKNOWN };
    if id < LINE_FEED { id } else { other }
}

fn id_character(id: TokenId) -> Option<char> {
    match id {
        0..LINE_FEED => char::from_u32(id + FIRST),
        LINE_FEED => Some('\n'),
        UNKNOWN => Some(char::REPLACEMENT_CHARACTER),
        _ => None,
    }
}

/// Returns the printable substitute of a byte in byte-level vocabularies: printable Latin-1 stands
/// for itself, and the rest is numbered from U+0100.
pub(super) fn byte_symbol(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        char::from(byte)
    } else {
        let before = (0..byte).filter(|&b| !printable(b)).count() as u32;
        char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}
