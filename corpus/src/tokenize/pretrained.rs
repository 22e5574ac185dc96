//! Any Hugging Face `tokenizer.json`, through the `tokenizers` crate.

use super::ends::Ends;
use super::own::byte_symbol;
use super::{Cut, MASK_TEXT, Places, Unknown, cost, growth};
use crate::error::{Error, Result};
use crate::quiet::quietly;
use crate::record::TokenId;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;
use tokenizers::{
    AddedToken, Encoding, NormalizedString, Normalizer, PostProcessor, PostProcessorWrapper,
    Tokenizer as Engine,
};

/// A loaded tokenizer, with padding, truncation and post-processing disabled.
#[derive(Debug)]
pub(super) struct Pretrained {
    /// The tokenizer as in its file: text is split as its own model expects, including special tokens. If the file
    /// contains our mask, so does this engine.
    engine: Engine,
    /// Treats special tokens in text as text, if the file contains our mask, so that text cannot forge a mask.
    plain: Option<Engine>,
    /// The names of beginning, end and mask, which are special tokens in our files.
    special: [String; 3],
    /// Whether beginning and end are the ones that their usual names give.
    usual: bool,
    /// Restored when the file is written.
    post_processor: Option<PostProcessorWrapper>,
    /// Whether the beginning and end are put around a text, if the files beside the tokenizer say so.
    around: Option<[bool; 2]>,
    pub(super) bos: TokenId,
    /// Whether the vocabulary has it; otherwise it was added.
    pub(super) own_bos: bool,
    pub(super) eos: TokenId,
    pub(super) mask: TokenId,
    unknown: Option<TokenId>,
    /// The same tokenizer with `unknown` for each character that it drops, if it may drop any.
    marking: Option<Engine>,
    pub(super) masked: Option<TokenId>,
    pub(super) padding: Option<TokenId>,
    size: usize,
}

/// The usual names, in order of precedence; the last one is added if none exists.
const BOS: [&str; 7] = [
    "<BOS>",
    "<bos>",
    "<s>",
    "<|begin_of_text|>",
    "<|endoftext|>",
    "[CLS]",
    "<BOS>",
];
const EOS: [&str; 7] = [
    "<EOS>",
    "<eos>",
    "</s>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "[SEP]",
    "<EOS>",
];
/// What encoders read in place of a token to be predicted.
const MASKED_TOKEN: [&str; 2] = ["[MASK]", "<mask>"];
const PADDING: [&str; 5] = [
    "<PAD>",
    "<pad>",
    "[PAD]",
    "<|pad|>",
    "<|finetune_right_pad_id|>",
];

impl Pretrained {
    pub(super) fn from_json(json: &str, ends: &Ends) -> Result<Self> {
        let outline = Outline::checked(json)?;
        let mut engine: Engine = guarded(|| json.parse())?;
        engine.with_truncation(None).map_err(problem)?;
        engine.with_padding(None);
        let post_processor = engine.get_post_processor().cloned();
        engine.with_post_processor(None::<PostProcessorWrapper>);
        let special = [
            ends.bos(&engine).unwrap_or_else(|| usual(&engine, &BOS)),
            ends.eos(&engine).unwrap_or_else(|| usual(&engine, &EOS)),
            MASK_TEXT.to_owned(),
        ];
        // What can't be outlined, the library has refused, but for keys that are there twice.
        let outline = outline.ok_or_else(|| problem("it contradicts itself"))?;
        let named = |names: &[&str]| names.iter().find_map(|name| engine.token_to_id(name));
        let (masked, padding) = (named(&MASKED_TOKEN), named(&PADDING));
        let mut whole = engine.clone();
        let own_bos = engine.token_to_id(&special[0]).is_some();
        let [bos, eos, mask] = add(&mut whole, &special)?;
        // Ids may have gaps, so the size is one more than the largest.
        let largest = whole.get_vocab(true).into_values().max().unwrap_or(0);
        let found = [usual(&whole, &BOS), usual(&whole, &EOS)];
        let size = largest as usize + 1;
        let (unknown, marking) = match outline.drops(&engine) {
            true => {
                let unknown = TokenId::try_from(size).map_err(problem)?;
                (Some(unknown), Some(marking(json, unknown)?))
            }
            false => (outline.model.unknown(&engine), None),
        };
        let mut plain = None;
        if engine.token_to_id(MASK_TEXT).is_some() {
            // A mask in the plain vocabulary becomes special as well, so that text cannot spell it.
            engine = whole.clone();
            whole.set_encode_special_tokens(true);
            plain = Some(whole);
        }
        Ok(Self {
            size,
            engine,
            plain,
            usual: found == special[..2],
            special,
            post_processor,
            around: ends.around,
            bos,
            own_bos,
            eos,
            mask,
            unknown,
            marking,
            masked,
            padding,
        })
    }

    pub(super) fn to_json(&self) -> Result<String> {
        let mut engine = self.engine.clone();
        add(&mut engine, &self.special)?;
        engine.with_post_processor(self.post_processor.clone());
        engine.to_string(true).map_err(problem)
    }

    /// Returns the `tokenizer_config.json` for the beginning and end of text, if their usual names would not find them.
    pub(super) fn settings(&self) -> Option<String> {
        let [bos, eos, _] = &self.special;
        let named = json!({"bos_token": bos, "eos_token": eos});
        (!self.usual).then(|| named.to_string())
    }

    pub(super) fn vocabulary_size(&self) -> usize {
        self.size
    }

    pub(super) fn encode(&self, text: &str) -> Result<Cut> {
        let encoding = self.encoding(text)?;
        let places = encoding.get_offsets().iter().map(|&(s, e)| s..e);
        Ok(Cut {
            tokens: encoding.get_ids().to_vec(),
            places: Places::Each(places.collect()),
            unknown: self.unknown(text, &encoding)?,
        })
    }

    /// Finds what of a text is outside the vocabulary: what lies in no token, and what the unknown token stands for. White
    /// space without a token separates words.
    fn unknown(&self, text: &str, encoding: &Encoding) -> Result<Unknown> {
        let marking = self.marking.as_ref();
        let marked = marking.map(|engine| guarded(|| engine.encode(text, false)));
        let marked = marked.transpose()?;
        let shown = marked.as_ref().unwrap_or(encoding);
        let mut found = Unknown::default();
        let mut covered = 0;
        let places = shown.get_offsets().iter().zip(shown.get_ids());
        let end = ((text.len(), text.len()), None);
        let places = places.map(|(place, id)| (*place, Some(*id))).chain([end]);
        for (number, ((start, to), id)) in places.enumerate() {
            let mut characters = 0;
            if start > covered {
                characters += self.skipped(text, covered..start);
            }
            if id.is_some() && id == self.unknown {
                characters += slice(text, &(start.max(covered)..to)).chars().count();
            }
            if characters > 0 {
                found.characters += characters as u64;
                found.tokens.push(number);
            }
            covered = covered.max(to);
        }
        if marked.is_some() {
            // Both have the same words; in them, characters that are dropped leave no place.
            let words = shown.get_word_ids();
            let word = |number: &usize| words.get(*number).copied().flatten();
            let own = encoding.get_word_ids();
            let numbers = found.tokens.iter().flat_map(|number| {
                let word = word(number).unwrap_or(u32::MAX);
                let first = own.partition_point(|own| *own < Some(word));
                let end = own.partition_point(|own| *own <= Some(word));
                first..end.max(first + 1)
            });
            let numbers: BTreeSet<usize> = numbers.collect();
            found.tokens = numbers.into_iter().collect();
        }
        Ok(found)
    }

    /// Counts the characters without a token in a part of a text. One that the normaliser joins to the character before it
    /// has its token.
    fn skipped(&self, text: &str, part: Range<usize>) -> usize {
        let gap = slice(text, &part);
        let count = gap.chars().filter(|c| !c.is_whitespace()).count();
        let before = slice(text, &(0..part.start)).chars().next_back();
        if let (1.., Some(before), Some(rules)) = (count, before, self.engine.get_normalizer()) {
            let normal = |text: String| {
                let mut text = NormalizedString::from(text);
                guarded(|| rules.normalize(&mut text)).map(|()| text.get().to_owned())
            };
            let alone = normal(before.to_string());
            if let (Ok(alone), Ok(both)) = (alone, normal(format!("{before}{gap}")))
                && alone != both
                && both.chars().count() <= alone.chars().count()
            {
                return 0;
            }
        }
        count
    }

    fn encoding(&self, text: &str) -> Result<Encoding> {
        let encoding = guarded(|| self.engine.encode(text, false))?;
        match &self.plain {
            Some(plain) if encoding.get_ids().contains(&self.mask) => {
                guarded(|| plain.encode(text, false))
            }
            _ => Ok(encoding),
        }
    }

    /// Tokenises a text with the special tokens that the files put around it.
    pub(super) fn encode_with_special_tokens(&self, text: &str) -> Result<Vec<TokenId>> {
        let encoding = self.encoding(text)?;
        if let Some([begins, ends]) = self.around {
            let (bos, eos) = (begins.then_some(self.bos), ends.then_some(self.eos));
            let content = encoding.get_ids().iter().copied();
            return Ok(bos.into_iter().chain(content).chain(eos).collect());
        }
        let Some(rules) = &self.post_processor else {
            return Ok(encoding.get_ids().to_vec());
        };
        let whole = guarded(|| rules.process(encoding, None, true))?;
        Ok(whole.get_ids().to_vec())
    }

    pub(super) fn decode(&self, tokens: &[TokenId]) -> Result<String> {
        guarded(|| self.engine.decode(tokens, false))
    }
}

/// All token ids must be below this: 2^20. Libraries allocate tables as long as the largest id.
pub(crate) const IDS: u64 = 1 << 20;

/// Returns a part of a text; nothing where it is none.
fn slice<'t>(text: &'t str, part: &Range<usize>) -> &'t str {
    text.get(part.clone()).unwrap_or_default()
}

/// Returns the tokenizer of a file with this token for each character that byte-pair encoding drops.
fn marking(json: &str, unknown: TokenId) -> Result<Engine> {
    let mut file: Value = serde_json::from_str(json).map_err(problem)?;
    let model = &mut file["model"];
    let mut name = "unknown".to_owned();
    while model["vocab"].get(&name).is_some() {
        name.push('?');
    }
    model["vocab"][&name] = unknown.into();
    model["unk_token"] = name.into();
    for rule in ["truncation", "padding", "post_processor"] {
        file[rule] = Value::Null;
    }
    guarded(|| file.to_string().parse())
}

/// The parts of a `tokenizer.json` that are checked before anything is built from it.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    model: ModelOutline,
    #[serde(default)]
    added_tokens: Vec<AddedOutline>,
}

#[derive(Deserialize, Default)]
struct ModelOutline {
    #[serde(default)]
    vocab: Vocabulary,
    #[serde(default)]
    r#type: Value,
    #[serde(default)]
    merges: Option<IgnoredAny>,
    #[serde(default)]
    unk_token: Value,
    #[serde(default)]
    unk_id: Value,
    #[serde(default)]
    dropout: Value,
    #[serde(default)]
    max_input_chars_per_word: Value,
    #[serde(default)]
    continuing_subword_prefix: Value,
    #[serde(default)]
    end_of_word_suffix: Value,
}

impl ModelOutline {
    /// Returns the token that the model puts for what is outside its vocabulary, by its own name or id for it. Other
    /// tokens stand for nothing unknown, whatever their names.
    fn unknown(&self, engine: &Engine) -> Option<TokenId> {
        match self.unk_token.as_str() {
            Some(name) => engine.token_to_id(name),
            None => TokenId::try_from(self.unk_id.as_u64()?).ok(),
        }
    }
}

#[derive(Deserialize)]
struct AddedOutline {
    id: serde_json::Number,
}

/// What is checked of a vocabulary, given as ids by token or as a list of pieces with their scores.
#[derive(Default)]
struct Vocabulary {
    /// The largest id.
    largest: Option<serde_json::Number>,
    /// The bytes of the longest token that has an id.
    longest: usize,
    pieces: Vec<String>,
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Vocabulary;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a vocabulary")
            }
            fn visit_unit<E>(self) -> std::result::Result<Vocabulary, E> {
                Ok(Vocabulary::default())
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Vocabulary, A::Error> {
                let mut found = Vocabulary::default();
                while let Some((token, id)) = map.next_entry::<String, serde_json::Number>()? {
                    found.longest = found.longest.max(token.len());
                    if found.largest.as_ref().is_none_or(|l| value(&id) > value(l)) {
                        found.largest = Some(id);
                    }
                }
                Ok(found)
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Vocabulary, A::Error> {
                let mut found = Vocabulary::default();
                let mut count = 0u64;
                while let Some(piece) = list.next_element::<Value>()? {
                    count += 1;
                    found.pieces.extend(piece[0].as_str().map(str::to_owned));
                }
                found.largest = count.checked_sub(1).map(Into::into);
                Ok(found)
            }
        }
        from.deserialize_any(Read)
    }
}

fn value(id: &serde_json::Number) -> f64 {
    id.as_f64().unwrap_or(f64::INFINITY)
}

/// Checks the parts of a `tokenizer.json` as [`Outline::checked`] does. Returns whether there is an outline: where the
/// library accepts a file without one, it contains a key twice.
///
/// # Errors
/// As for [`Outline::checked`].
#[cfg(feature = "onnx")]
pub(crate) fn check_outline(json: &str) -> Result<bool> {
    Ok(Outline::checked(json)?.is_some())
}

impl Outline {
    /// Reads the outline, and rejects implausible ids before anything is built from them. `None` for what is no
    /// document of this kind, which the library rejects with its own messages.
    ///
    /// # Errors
    /// Returns an error for an id of 2^20 or more, for what takes too much time or memory at each character, and for a
    /// dropout, with which the library splits one text at random into other tokens each time.
    fn checked(json: &str) -> Result<Option<Self>> {
        let Ok(mut outline) = serde_json::from_str::<Self>(json) else {
            return Ok(None);
        };
        let added = outline.added_tokens.iter().map(|token| &token.id);
        for id in outline.model.vocab.largest.iter().chain(added) {
            if value(id) >= IDS as f64 {
                return Err(Error::Tokenizer(format!(
                    "ids of tokens must be below {IDS}, got {id}"
                )));
            }
        }
        let dropout = &outline.model.dropout;
        if !dropout.is_null() && dropout.as_f64() != Some(0.0) {
            return Err(Error::Tokenizer(format!(
                "model.dropout must be 0 or null, got {dropout}: it would split a text at random into other tokens \
                 each time"
            )));
        }
        for rules in [
            &outline.normalizer,
            &outline.pre_tokenizer,
            &outline.decoder,
        ] {
            growth::check(rules).map_err(Error::Tokenizer)?;
        }
        let model = &mut outline.model;
        let pieces = std::mem::take(&mut model.vocab.pieces);
        let unknown = model.unk_token.as_str().map_or(0, str::len);
        let affixes = [&model.continuing_subword_prefix, &model.end_of_word_suffix];
        cost::check_pieces(pieces)
            .and_then(|()| cost::check_token(unknown.max(model.vocab.longest)))
            .and_then(|()| cost::check_words(&model.max_input_chars_per_word, &affixes))
            .map_err(Error::Tokenizer)?;
        Ok(Some(outline))
    }

    /// Returns whether the model may give no token at all to a character: a byte-pair encoding without an unknown token,
    /// unless it has all bytes.
    fn drops(&self, engine: &Engine) -> bool {
        let model = &self.model;
        let pairs = match model.r#type.as_str() {
            Some(name) => name == "BPE",
            None => model.merges.is_some(),
        };
        let all = |symbol: &dyn Fn(u8) -> String| {
            (0..=u8::MAX).all(|byte| engine.token_to_id(&symbol(byte)).is_some())
        };
        let in_bytes = self.pre_tokenizer.to_string().contains("\"ByteLevel\"")
            && all(&|byte| byte_symbol(byte).to_string());
        pairs
            && !model.unk_token.is_string()
            && !in_bytes
            && !all(&|byte| format!("<0x{byte:02X}>"))
    }
}

/// Returns the first name that exists, or the last one.
fn usual(engine: &Engine, names: &[&str]) -> String {
    let there = names.iter().find(|name| engine.token_to_id(name).is_some());
    let name = there.or(names.last()).copied().unwrap_or(MASK_TEXT);
    name.to_owned()
}

/// Makes these tokens special, adding new ones after the last id. Returns their ids.
fn add(engine: &mut Engine, names: &[String; 3]) -> Result<[TokenId; 3]> {
    let mut ids = [0; 3];
    for (id, name) in ids.iter_mut().zip(names) {
        engine
            .add_special_tokens([AddedToken::from(name.as_str(), true)])
            .map_err(problem)?;
        *id = engine
            .token_to_id(name)
            .ok_or_else(|| Error::Tokenizer(format!("cannot add the special token {name}")))?;
    }
    Ok(ids)
}

/// Calls the library, which panics on some of the files that it accepts.
fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
    quietly(call)
        .unwrap_or_else(|| Err("it contradicts itself".into()))
        .map_err(problem)
}

fn problem(error: impl std::fmt::Display) -> Error {
    Error::Tokenizer(error.to_string())
}
