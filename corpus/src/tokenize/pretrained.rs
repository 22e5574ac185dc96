//! Any Hugging Face `tokenizer.json`, through the `tokenizers` crate.

use super::ends::Ends;
use super::{Cut, MASK_TEXT, Places};
use crate::error::{Error, Result};
use crate::quiet::quietly;
use crate::record::TokenId;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use tokenizers::{AddedToken, Encoding, PostProcessor, PostProcessorWrapper, Tokenizer as Engine};

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
    pub(super) unknown: Option<TokenId>,
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
        let unknown = outline.model.unknown(&engine);
        let named = |names: &[&str]| names.iter().find_map(|name| engine.token_to_id(name));
        let (masked, padding) = (named(&MASKED_TOKEN), named(&PADDING));
        let mut whole = engine.clone();
        let own_bos = engine.token_to_id(&special[0]).is_some();
        let [bos, eos, mask] = add(&mut whole, &special)?;
        // Ids may have gaps, so the size is one more than the largest.
        let largest = whole.get_vocab(true).into_values().max().unwrap_or(0);
        let found = [usual(&whole, &BOS), usual(&whole, &EOS)];
        let mut plain = None;
        if engine.token_to_id(MASK_TEXT).is_some() {
            // A mask in the plain vocabulary becomes special as well, so that text cannot spell it.
            engine = whole.clone();
            whole.set_encode_special_tokens(true);
            plain = Some(whole);
        }
        Ok(Self {
            size: largest as usize + 1,
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
        })
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

/// The parts of a `tokenizer.json` that are checked before anything is built from it.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    model: ModelOutline,
    #[serde(default)]
    added_tokens: Vec<AddedOutline>,
}

#[derive(Deserialize, Default)]
struct ModelOutline {
    #[serde(default)]
    vocab: Largest,
    #[serde(default)]
    unk_token: Value,
    #[serde(default)]
    unk_id: Value,
    #[serde(default)]
    dropout: Value,
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

/// The largest id of a vocabulary, given as ids by token or as a list of tokens.
#[derive(Default)]
struct Largest(Option<serde_json::Number>);

impl<'de> Deserialize<'de> for Largest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Vocabulary;
        impl<'de> Visitor<'de> for Vocabulary {
            type Value = Largest;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a vocabulary")
            }
            fn visit_unit<E>(self) -> std::result::Result<Largest, E> {
                Ok(Largest(None))
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Largest, A::Error> {
                let mut largest: Option<serde_json::Number> = None;
                while let Some((_, id)) = map.next_entry::<IgnoredAny, serde_json::Number>()? {
                    if largest.as_ref().is_none_or(|l| value(&id) > value(l)) {
                        largest = Some(id);
                    }
                }
                Ok(Largest(largest))
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Largest, A::Error> {
                let mut count = 0u64;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Largest(count.checked_sub(1).map(Into::into)))
            }
        }
        from.deserialize_any(Vocabulary)
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
    /// Returns an error for an id of 2^20 or more, and for a dropout, with which the library splits one text at random
    /// into other tokens each time.
    fn checked(json: &str) -> Result<Option<Self>> {
        let Ok(outline) = serde_json::from_str::<Self>(json) else {
            return Ok(None);
        };
        let added = outline.added_tokens.iter().map(|token| &token.id);
        for id in outline.model.vocab.0.iter().chain(added) {
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
        Ok(Some(outline))
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
