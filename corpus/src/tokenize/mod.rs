//! Text to tokens and back: bytes, characters, or any Hugging Face `tokenizer.json`.

mod alike;
mod ends;
mod own;
mod pretrained;
mod train;

pub use train::train_tokenizer;

#[cfg(feature = "onnx")]
pub(crate) use pretrained::checked_ids;

use crate::error::{Error, Result};
use crate::record::TokenId;
use ends::Ends;
use own::Alphabet;
use pretrained::Pretrained;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The text that stands for a mask: in decoded text, and in the files for outside trainers.
pub(crate) const MASK_TEXT: &str = "<MASK>";

/// Where a vocabulary comes from, hence whether publishing it says anything about the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// All 256 bytes.
    Bytes,
    /// A fixed public alphabet.
    Characters,
    /// Built by others before and without this text.
    Pretrained,
    /// Built from text that its owner declares public.
    DeclaredPublic,
    /// Built from the private text: it publishes its rare words, and ε is infinite.
    Leaks,
}

/// A text cut into tokens, each with the bytes of the text it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The tokens, without specials at the ends.
    pub tokens: Vec<TokenId>,
    /// For every token, the bytes of the input it covers.
    pub offsets: Vec<Range<usize>>,
}

/// The same, without a place for each token where they can be counted.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) places: Places,
}

/// Which bytes of a text its tokens cover.
#[derive(Debug, Clone)]
pub(crate) enum Places {
    /// One byte each; how many there are.
    Bytes(usize),
    /// In order, but tokens of one character may share its bytes.
    Each(Vec<Range<usize>>),
}

impl Places {
    pub(crate) fn of(&self, token: usize) -> Range<usize> {
        match self {
            Self::Bytes(_) => token..token + 1,
            Self::Each(places) => places[token].clone(),
        }
    }

    /// The tokens that overlap a span. A token without width counts inside one.
    pub(crate) fn touched(&self, span: &Range<usize>) -> Range<usize> {
        match self {
            Self::Bytes(count) => {
                let start = span.start.min(*count);
                start..span.end.min(*count).max(start)
            }
            Self::Each(places) => {
                let first = places.partition_point(|place| place.end <= span.start);
                let inside = places[first..].iter();
                first..first + inside.take_while(|place| place.start < span.end).count()
            }
        }
    }

    /// Each place.
    pub(crate) fn each(self) -> Vec<Range<usize>> {
        match self {
            Self::Bytes(count) => (0..count).map(|at| at..at + 1).collect(),
            Self::Each(places) => places,
        }
    }
}

/// A tokenizer with its special tokens; cheap to clone, usable from many threads.
///
/// Text never encodes to a mask: a literal `<MASK>` in it becomes ordinary tokens. Other special tokens
/// in text are what the file says, so that a model of others is asked in its own tokens; in tokenizers
/// of our own they are text.
/// In the two tokenizers of our own every digit is one token.
///
/// ```
/// use reticent_corpus::tokenize::Tokenizer;
/// let tokenizer = Tokenizer::characters();
/// let tokens = tokenizer.encode("ID 42")?;
/// assert_eq!(tokens.len(), 5);
/// assert_eq!(tokenizer.decode(&tokens), "ID 42");
/// assert_eq!(tokenizer.vocabulary_size(), 100);
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Inner,
    origin: Origin,
}

#[derive(Debug, Clone)]
enum Inner {
    Own(Alphabet),
    Pretrained(Arc<Pretrained>),
}

impl Tokenizer {
    /// One token per byte: 256 bytes, then `<BOS>`, `<EOS>`, `<MASK>`.
    #[must_use]
    pub fn bytes() -> Self {
        Self {
            inner: Inner::Own(Alphabet::Bytes),
            origin: Origin::Bytes,
        }
    }

    /// One token per character of a fixed public alphabet: printable ASCII and the line feed,
    /// then `<UNK>` for everything else, `<BOS>`, `<EOS>`, `<MASK>`: 100 tokens.
    #[must_use]
    pub fn characters() -> Self {
        Self {
            inner: Inner::Own(Alphabet::Characters),
            origin: Origin::Characters,
        }
    }

    /// Loads a `tokenizer.json`. Ours are recognised and run fast, with their own origin;
    /// `origin` is what the caller knows about any other.
    ///
    /// Beginning and end of text are those that the files beside it name, as transformers reads them:
    /// `tokenizer_config.json` (with `special_tokens_map.json` of the older layout), then
    /// `generation_config.json` and `config.json`; else they go by their usual names. `<MASK>`, and an
    /// end that has no name in the file, are added after the last id.
    ///
    /// # Errors
    /// A file that cannot be read, or that the `tokenizers` crate refuses.
    pub fn load(path: &Path, origin: Origin) -> Result<Self> {
        let json = read_text(path).map_err(|source| Error::Read {
            path: path.to_path_buf(),
            source,
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let made = Self::with(&json, origin, &Ends::beside(folder)?);
        made.map_err(|error| match error {
            Error::Tokenizer(problem) => Error::Tokenizer(format!("{}: {problem}", path.display())),
            other => other,
        })
    }

    /// Loads the tokenizer of a Hugging Face folder: `tokenizer.json`, or the `vocab.json` and
    /// `merges.txt` of a byte-level vocabulary (GPT-2, RoBERTa).
    ///
    /// # Errors
    /// A folder with neither, a file that cannot be read, or that the `tokenizers` crate refuses.
    pub fn load_folder(folder: &Path, origin: Origin) -> Result<Self> {
        let whole = folder.join("tokenizer.json");
        if whole.exists() {
            return Self::load(&whole, origin);
        }
        let files = [folder.join("vocab.json"), folder.join("merges.txt")];
        if !files.iter().all(|f| f.exists()) {
            return Err(Error::Tokenizer(format!(
                "{} has neither tokenizer.json nor vocab.json with merges.txt; write the first \
                 with: python -c \"import transformers as t; \
                 t.AutoTokenizer.from_pretrained('{0}').save_pretrained('{0}')\"",
                folder.display()
            )));
        }
        let [vocabulary, merges] =
            files.map(|path| read_text(&path).map_err(|source| Error::Read { path, source }));
        let json = pretrained::byte_level(&vocabulary?, &merges?)?;
        Self::with(&json, origin, &Ends::beside(folder)?)
    }

    /// The same from the text of a `tokenizer.json` alone.
    ///
    /// # Errors
    /// Text that is not JSON, or that the `tokenizers` crate refuses.
    pub fn from_json(json: &str, origin: Origin) -> Result<Self> {
        Self::with(json, origin, &Ends::default())
    }

    /// The same with the ids of beginning and end of text that a model was trained with; an id that the
    /// vocabulary lacks is passed over.
    ///
    /// # Errors
    /// As [`Self::from_json`].
    pub fn from_json_with_ends(json: &str, origin: Origin, ends: [TokenId; 2]) -> Result<Self> {
        Self::with(json, origin, &Ends::of(ends))
    }

    fn with(json: &str, origin: Origin, ends: &Ends) -> Result<Self> {
        let value: serde_json::Value = serde_json::from_str(json)
            .map_err(|error| Error::Tokenizer(format!("not JSON: {error}")))?;
        // Rules that frame a text are no part of an alphabet.
        let mut unframed = value;
        if let Some(rules) = unframed.get_mut(FRAMING) {
            *rules = serde_json::Value::Null;
        }
        for own in [Self::bytes(), Self::characters()] {
            if let Inner::Own(alphabet) = own.inner
                && alphabet.to_value() == unframed
            {
                return Ok(own);
            }
        }
        Ok(Self {
            inner: Inner::Pretrained(Arc::new(Pretrained::from_json(json, ends)?)),
            origin,
        })
    }

    /// The text of a Hugging Face `tokenizer.json` with the same ids.
    ///
    /// # Errors
    /// A pretrained tokenizer that cannot be serialised.
    pub fn to_json(&self) -> Result<String> {
        match &self.inner {
            Inner::Own(alphabet) => serde_json::to_string_pretty(&alphabet.to_value())
                .map_err(|error| Error::Tokenizer(error.to_string())),
            Inner::Pretrained(pretrained) => pretrained.to_json(),
        }
    }

    /// How many of its tokens were added to a vocabulary: other versions of the same tokenizer may lack them.
    ///
    /// # Errors
    /// As [`Self::to_json`].
    pub fn added_tokens(&self) -> Result<usize> {
        let json: serde_json::Value = serde_json::from_str(&self.to_json()?)
            .map_err(|error| Error::Tokenizer(error.to_string()))?;
        let added = json.get("added_tokens").and_then(|list| list.as_array());
        Ok(added.map_or(0, Vec::len))
    }

    /// Whether two tokenizers cut text alike, but for added tokens that only one of them has (a padding
    /// token, say, or our mask) where a text spells one.
    ///
    /// # Errors
    /// As [`Self::to_json`].
    pub fn cuts_like(&self, other: &Self) -> Result<bool> {
        let ends = |t: &Self| (t.bos(), t.eos());
        if ends(self) != ends(other) {
            return Ok(false);
        }
        let (one, two) = (self.to_json()?, other.to_json()?);
        Ok(one == two || alike::alike(&one, &two))
    }

    /// Cuts a text into tokens, without specials at the ends.
    ///
    /// # Errors
    /// Only from a pretrained tokenizer that refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<TokenId>> {
        match &self.inner {
            Inner::Own(alphabet) => Ok(alphabet.encode(text)),
            Inner::Pretrained(pretrained) => Ok(pretrained.encode(text)?.tokens),
        }
    }

    /// The same, with the bytes each token covers.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_with_offsets(&self, text: &str) -> Result<Encoded> {
        let Cut { tokens, places } = self.cut(text)?;
        Ok(Encoded {
            tokens,
            offsets: places.each(),
        })
    }

    pub(crate) fn cut(&self, text: &str) -> Result<Cut> {
        match &self.inner {
            Inner::Own(alphabet) => Ok(alphabet.cut(text)),
            Inner::Pretrained(pretrained) => pretrained.encode(text),
        }
    }

    /// Whether every character has tokens of its own, the same wherever it stands.
    pub(crate) const fn is_per_character(&self) -> bool {
        matches!(self.inner, Inner::Own(_))
    }

    /// Whether tokens of plain text hold a mask, which none may. Ours have no way to spell one.
    pub(crate) fn forges_a_mask(&self, tokens: &[TokenId]) -> bool {
        match &self.inner {
            Inner::Own(_) => false,
            Inner::Pretrained(_) => tokens.contains(&self.mask()),
        }
    }

    /// Whether beginning and end of text may stand inside a text: text can spell them in the
    /// vocabularies of others.
    pub(crate) fn spells_ends(&self) -> bool {
        matches!(self.inner, Inner::Pretrained(_))
    }

    /// Beginning and end of text by name, as a `tokenizer_config.json` says them; none where
    /// `tokenizer.json` alone says the same.
    pub(crate) fn settings(&self) -> Option<String> {
        match &self.inner {
            Inner::Own(_) => None,
            Inner::Pretrained(pretrained) => pretrained.settings(),
        }
    }

    /// The text of tokens: beginning and end of text vanish, a mask reads `<MASK>`, an unknown
    /// character is U+FFFD, an id outside the vocabulary is skipped.
    #[must_use]
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        let mut text = String::new();
        let mut rest = tokens;
        while !rest.is_empty() {
            let cut = rest.iter().position(|&t| self.is_special(t));
            let (plain, after) = rest.split_at(cut.unwrap_or(rest.len()));
            if !plain.is_empty() {
                text.push_str(&self.decode_plain(plain));
            }
            if after.first() == Some(&self.mask()) {
                text.push_str(MASK_TEXT);
            }
            rest = after.get(1..).unwrap_or_default();
        }
        text
    }

    fn decode_plain(&self, tokens: &[TokenId]) -> String {
        match &self.inner {
            Inner::Own(alphabet) => alphabet.decode(tokens),
            Inner::Pretrained(pretrained) => pretrained.decode(tokens),
        }
    }

    fn is_special(&self, token: TokenId) -> bool {
        token == self.mask() || token == self.bos() || token == self.eos()
    }

    /// Number of ids, specials included: every id is below it.
    #[must_use]
    pub fn vocabulary_size(&self) -> usize {
        match &self.inner {
            Inner::Own(alphabet) => alphabet.vocabulary_size(),
            Inner::Pretrained(pretrained) => pretrained.vocabulary_size(),
        }
    }

    /// Beginning of text.
    #[must_use]
    pub fn bos(&self) -> TokenId {
        match &self.inner {
            Inner::Own(alphabet) => alphabet.bos(),
            Inner::Pretrained(pretrained) => pretrained.bos,
        }
    }

    /// End of text. In some pretrained vocabularies the same token as [`Self::bos`].
    #[must_use]
    pub fn eos(&self) -> TokenId {
        match &self.inner {
            Inner::Own(alphabet) => alphabet.eos(),
            Inner::Pretrained(pretrained) => pretrained.eos,
        }
    }

    /// The mask.
    #[must_use]
    pub fn mask(&self) -> TokenId {
        match &self.inner {
            Inner::Own(alphabet) => alphabet.mask(),
            Inner::Pretrained(pretrained) => pretrained.mask,
        }
    }

    /// What an encoder reads in the place of a token that it has to tell: `[MASK]` or `<mask>` of a pretrained
    /// vocabulary, else [`Self::mask`].
    #[must_use]
    pub fn masked_token(&self) -> TokenId {
        match &self.inner {
            Inner::Own(alphabet) => alphabet.mask(),
            Inner::Pretrained(pretrained) => pretrained.masked.unwrap_or(pretrained.mask),
        }
    }

    /// The token that fills up sequences beside longer ones, where the vocabulary has one of a usual name.
    #[must_use]
    pub fn padding(&self) -> Option<TokenId> {
        match &self.inner {
            Inner::Own(_) => None,
            Inner::Pretrained(pretrained) => pretrained.padding,
        }
    }

    /// The token of a character outside the alphabet, where there is one.
    #[must_use]
    pub fn unknown(&self) -> Option<TokenId> {
        match &self.inner {
            Inner::Own(alphabet) => alphabet.unknown(),
            Inner::Pretrained(pretrained) => pretrained.unknown,
        }
    }

    /// Where the vocabulary comes from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// A whole text as a record's tokens: beginning of text, content, end of text.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn frame(&self, text: &str) -> Result<Vec<TokenId>> {
        Ok(self.frame_tokens(self.encode(text)?))
    }

    /// A whole text with the special tokens that the tokenizer's own files put around it, as transformers gives it to a model for
    /// `tokenizer(text)`: `add_bos_token` and `add_eos_token` of `tokenizer_config.json`, else the post-processor of
    /// `tokenizer.json`. Our own alphabets frame a text as [`Self::frame`].
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_with_special_tokens(&self, text: &str) -> Result<Vec<TokenId>> {
        match &self.inner {
            Inner::Own(_) => self.frame(text),
            Inner::Pretrained(pretrained) => pretrained.encode_with_special_tokens(text),
        }
    }

    /// The text of a `tokenizer.json` whose post-processor puts beginning and end around a text as [`Self::frame`] does.
    ///
    /// # Errors
    /// As [`Self::to_json`].
    pub fn to_json_framed(&self) -> Result<String> {
        let json = self.to_json()?;
        let wrong = |error: serde_json::Error| Error::Tokenizer(error.to_string());
        let mut value: serde_json::Value = serde_json::from_str(&json).map_err(wrong)?;
        let framed = |rules: &Self| Ok(rules.encode_with_special_tokens("a")? == rules.frame("a")?);
        if value[FRAMING].is_object() && framed(self)? {
            return Ok(json);
        }
        let added = value["added_tokens"].as_array().into_iter().flatten();
        let added: Vec<_> = added
            .map(|token| (&token["id"], &token["content"]))
            .collect();
        let [bos, eos] = [self.bos(), self.eos()].map(|id| {
            let entry = added.iter().find(|entry| *entry.0 == id);
            let name = entry.and_then(|entry| entry.1.as_str()).unwrap_or_default();
            (id, name.to_owned())
        });
        let text = |id: &str, kind| serde_json::json!({"Sequence": {"id": id, "type_id": kind}});
        let special =
            |name: &str, kind| serde_json::json!({"SpecialToken": {"id": name, "type_id": kind}});
        let single = [special(&bos.1, 0), text("A", 0), special(&eos.1, 0)];
        let second = [text("B", 1), special(&eos.1, 1)];
        let named = |(id, name): &(TokenId, String)| {
            let entry = serde_json::json!({"id": name, "ids": [id], "tokens": [name]});
            (name.clone(), entry)
        };
        let special_tokens = serde_json::Map::from_iter([named(&bos), named(&eos)]);
        value[FRAMING] = serde_json::json!({
            "type": "TemplateProcessing",
            "single": single,
            "pair": single.iter().chain(&second).collect::<Vec<_>>(),
            "special_tokens": special_tokens,
        });
        serde_json::to_string_pretty(&value).map_err(wrong)
    }

    pub(crate) fn frame_tokens(&self, content: Vec<TokenId>) -> Vec<TokenId> {
        let mut tokens = content;
        tokens.insert(0, self.bos());
        tokens.push(self.eos());
        tokens
    }
}
/// The key of a `tokenizer.json` with what goes around a text.
const FRAMING: &str = "post_processor";

/// Longest file of a tokenizer, in bytes: 256 MiB.
const LARGEST: u64 = 256 << 20;

fn read_text(path: &Path) -> std::io::Result<String> {
    let bytes = reticent_disk::read_regular(path, LARGEST)?;
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8"))
}
