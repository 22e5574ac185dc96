//! Converts text to tokens and back: bytes, characters, or any Hugging Face `tokenizer.json`.

mod alike;
mod cost;
mod ends;
mod growth;
mod overrides;
mod own;
mod pretrained;
mod train;
mod two_files;

pub use train::train_tokenizer;

pub(crate) use overrides::check_settings;
#[cfg(feature = "onnx")]
pub(crate) use pretrained::check_outline;

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

/// The text of a mask, in decoded text and in the files for other trainers.
pub const MASK_TEXT: &str = "<MASK>";

/// Where a vocabulary comes from, hence whether publishing it says anything about the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// All 256 bytes.
    Bytes,
    /// A fixed public alphabet.
    #[default]
    Characters,
    /// Built by others before and without this text.
    Pretrained,
    /// Built from text that its owner declares public.
    DeclaredPublic,
    /// Built from the private text: it publishes its rare words, and ε is infinite.
    Leaks,
}

/// A tokenised text, with the bytes of the text that each token covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The tokens, without special tokens at the ends.
    pub tokens: Vec<TokenId>,
    /// For every token, the bytes of the input it covers.
    pub offsets: Vec<Range<usize>>,
}

/// What of a text is outside a vocabulary: it has no token, or one that stands for all such text. A model distinguishes none of
/// it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The number of such characters.
    pub characters: u64,
    /// The numbers of the tokens that stand for them or stand behind them, ascending.
    pub tokens: Vec<usize>,
}

/// The same, but without explicit places if each token is one byte.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) places: Places,
    pub(crate) unknown: Unknown,
}

/// The bytes of a text that its tokens cover.
#[derive(Debug, Clone)]
pub(crate) enum Places {
    /// One byte each; the number of tokens.
    Bytes(usize),
    /// One after the other: where each begins, and the last ends.
    Adjacent(Vec<usize>),
    /// In order, but tokens of one character may share its bytes.
    Each(Vec<Range<usize>>),
}

impl Places {
    pub(crate) fn of(&self, token: usize) -> Range<usize> {
        match self {
            Self::Bytes(_) => token..token + 1,
            Self::Adjacent(places) => places[token]..places[token + 1],
            Self::Each(places) => places[token].clone(),
        }
    }

    /// Returns the tokens that overlap a span. A token without width counts if it lies inside the span.
    pub(crate) fn touched(&self, span: &Range<usize>) -> Range<usize> {
        match self {
            Self::Bytes(count) => {
                let start = span.start.min(*count);
                start..span.end.min(*count).max(start)
            }
            Self::Adjacent(places) => {
                let (begins, ends) = (&places[..places.len() - 1], &places[1..]);
                let first = ends.partition_point(|end| *end <= span.start);
                first..begins.partition_point(|begin| *begin < span.end).max(first)
            }
            Self::Each(places) => {
                let first = places.partition_point(|place| place.end <= span.start);
                let inside = places[first..].iter();
                first..first + inside.take_while(|place| place.start < span.end).count()
            }
        }
    }

    /// Returns all places.
    pub(crate) fn each(self) -> Vec<Range<usize>> {
        match self {
            Self::Bytes(count) => (0..count).map(|at| at..at + 1).collect(),
            Self::Adjacent(places) => places.windows(2).map(|ends| ends[0]..ends[1]).collect(),
            Self::Each(places) => places,
        }
    }
}

/// A tokenizer with its special tokens; cheap to clone, and usable from several threads.
///
/// Text never encodes to a mask: a literal `<MASK>` in it becomes ordinary tokens. Other special tokens in text are
/// treated as their file defines them, so that a third-party model gets its own tokens; in our own tokenizers they are
/// ordinary text. In our own two tokenizers, every digit is one token.
///
/// ```
/// use reticent_corpus::tokenize::Tokenizer;
/// let tokenizer = Tokenizer::characters();
/// let tokens = tokenizer.encode("ID 42")?;
/// assert_eq!(tokens.len(), 5);
/// assert_eq!(tokenizer.decode(&tokens)?, "ID 42");
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
    /// Returns the tokenizer with one token per byte: 256 bytes, then `<BOS>`, `<EOS>`, `<MASK>`.
    #[must_use]
    pub fn bytes() -> Self {
        Self {
            inner: Inner::Own(Alphabet::Bytes),
            origin: Origin::Bytes,
        }
    }

    /// Returns the tokenizer with one token per character of a fixed public alphabet: printable ASCII and the line
    /// feed, then `<UNK>` for everything else, `<BOS>`, `<EOS>`, `<MASK>`: 100 tokens.
    #[must_use]
    pub fn characters() -> Self {
        Self {
            inner: Inner::Own(Alphabet::Characters),
            origin: Origin::Characters,
        }
    }

    /// Loads a `tokenizer.json`. Our own tokenizers are recognised, and use a fast implementation and their own origin;
    /// `origin` is what the caller knows about any other tokenizer.
    ///
    /// The beginning and end of text are those that the files in the same folder name, as in transformers:
    /// `tokenizer_config.json` (with `special_tokens_map.json` of the older layout), then `generation_config.json` and
    /// `config.json`; otherwise, their usual names are used. `<MASK>`, and an end that has no name in the file, are
    /// added after the last id.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or the `tokenizers` crate rejects it; and if `tokenizer_config.json`
    /// has settings by which transformers splits text in another way than the file says.
    pub fn load(path: &Path, origin: Origin) -> Result<Self> {
        let json = read_text(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        check_settings(folder, &name, &json)?;
        let made = Self::with(&json, origin, &Ends::beside(folder)?);
        made.map_err(|error| match error {
            Error::Tokenizer(problem) => Error::Tokenizer(format!("{}: {problem}", path.display())),
            other => other,
        })
    }

    /// Loads the tokenizer of a Hugging Face folder: `tokenizer.json`, or the `vocab.json` and `merges.txt` of a
    /// byte-level vocabulary (GPT-2, RoBERTa) with its added tokens.
    ///
    /// # Errors
    /// Returns an error if the folder contains neither, a file cannot be read, or the `tokenizers` crate rejects it; and
    /// for two files of another tokenizer, which splits text in another way than GPT-2's.
    pub fn load_folder(folder: &Path, origin: Origin) -> Result<Self> {
        let whole = folder.join("tokenizer.json");
        if whole.exists() {
            return Self::load(&whole, origin);
        }
        Self::with(&two_files::joined(folder)?, origin, &Ends::beside(folder)?)
    }

    /// Creates a tokenizer from the text of a `tokenizer.json` alone.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, or the `tokenizers` crate rejects it.
    pub fn from_json(json: &str, origin: Origin) -> Result<Self> {
        Self::with(json, origin, &Ends::default())
    }

    /// Creates a tokenizer from JSON and the ids of the beginning and end of text that a model was trained with. An id
    /// that is not in the vocabulary is ignored.
    ///
    /// # Errors
    /// As for [`Self::from_json`].
    pub fn from_json_with_ends(json: &str, origin: Origin, ends: [TokenId; 2]) -> Result<Self> {
        Self::with(json, origin, &Ends::of(ends))
    }

    /// Creates a tokenizer from the texts of a `tokenizer.json` and of the `tokenizer_config.json` beside it, if any.
    ///
    /// # Errors
    /// As for [`Self::from_json`]; also if the settings are not a JSON object.
    pub fn of_files(json: &str, settings: Option<&str>, origin: Origin) -> Result<Self> {
        let ends = settings.map(Ends::of_settings).transpose()?;
        Self::with(json, origin, &ends.unwrap_or_default())
    }

    fn with(json: &str, origin: Origin, ends: &Ends) -> Result<Self> {
        let value: serde_json::Value = serde_json::from_str(json)
            .map_err(|error| Error::Tokenizer(format!("not JSON: {error}")))?;
        // Rules that frame a text are not part of an alphabet.
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

    /// Returns what one of our own alphabets says, or a pretrained tokenizer.
    fn said<T>(&self, own: impl FnOnce(Alphabet) -> T, theirs: impl FnOnce(&Pretrained) -> T) -> T {
        match &self.inner {
            Inner::Own(alphabet) => own(*alphabet),
            Inner::Pretrained(pretrained) => theirs(pretrained),
        }
    }

    /// Returns the text of a Hugging Face `tokenizer.json` with the same ids.
    ///
    /// # Errors
    /// Returns an error if a pretrained tokenizer cannot be serialised.
    pub fn to_json(&self) -> Result<String> {
        match &self.inner {
            Inner::Own(alphabet) => serde_json::to_string_pretty(&alphabet.to_value())
                .map_err(|error| Error::Tokenizer(error.to_string())),
            Inner::Pretrained(pretrained) => pretrained.to_json(),
        }
    }

    /// Returns how many of its tokens were added to a vocabulary; other versions of the same tokenizer may lack them.
    ///
    /// # Errors
    /// As for [`Self::to_json`].
    pub fn added_tokens(&self) -> Result<usize> {
        let json: serde_json::Value = serde_json::from_str(&self.to_json()?)
            .map_err(|error| Error::Tokenizer(error.to_string()))?;
        let added = json.get("added_tokens").and_then(|list| list.as_array());
        Ok(added.map_or(0, Vec::len))
    }

    /// Returns whether two tokenizers split text in the same way, between the same beginning and end, except where a text
    /// spells an added token that only one of them has (a padding token, say, or our mask).
    ///
    /// # Errors
    /// As for [`Self::to_json`].
    pub fn cuts_like(&self, other: &Self) -> Result<bool> {
        let ends = |t: &Self| (t.bos(), t.eos());
        if ends(self) != ends(other) {
            return Ok(false);
        }
        self.splits_like(other)
    }

    /// Returns the same, whatever begins and ends a text.
    ///
    /// # Errors
    /// As for [`Self::to_json`].
    pub fn splits_like(&self, other: &Self) -> Result<bool> {
        let (one, two) = (self.to_json()?, other.to_json()?);
        Ok(one == two || alike::alike(&one, &two))
    }

    /// Tokenises a text, without special tokens at the ends.
    ///
    /// # Errors
    /// Returns an error only if a pretrained tokenizer rejects the text.
    pub fn encode(&self, text: &str) -> Result<Vec<TokenId>> {
        match &self.inner {
            Inner::Own(alphabet) => Ok(alphabet.encode(text)),
            Inner::Pretrained(pretrained) => Ok(pretrained.encode(text)?.tokens),
        }
    }

    /// Tokenises a text, and returns the bytes that each token covers.
    ///
    /// # Errors
    /// As for [`Self::encode`].
    pub fn encode_with_offsets(&self, text: &str) -> Result<Encoded> {
        let Cut { tokens, places, .. } = self.cut(text)?;
        Ok(Encoded {
            tokens,
            offsets: places.each(),
        })
    }

    pub(crate) fn cut(&self, text: &str) -> Result<Cut> {
        self.said(|own| Ok(own.cut(text)), |theirs| theirs.encode(text))
    }

    /// Returns whether each character is tokenised on its own, independently of the text around it.
    pub(crate) const fn is_per_character(&self) -> bool {
        matches!(self.inner, Inner::Own(_))
    }

    /// Returns whether tokens of plain text contain a mask, which is forbidden. Our own tokenizers cannot spell a mask.
    pub(crate) fn forges_a_mask(&self, tokens: &[TokenId]) -> bool {
        match &self.inner {
            Inner::Own(_) => false,
            Inner::Pretrained(_) => tokens.contains(&self.mask()),
        }
    }

    /// Returns whether the beginning and end of text may occur inside a text: text can spell them in third-party
    /// vocabularies.
    pub(crate) fn spells_ends(&self) -> bool {
        matches!(self.inner, Inner::Pretrained(_))
    }

    /// Returns the names of the beginning and end of text as a `tokenizer_config.json`; `None` if `tokenizer.json`
    /// alone says the same.
    pub(crate) fn settings(&self) -> Option<String> {
        self.said(|_| None, Pretrained::settings)
    }

    /// Decodes tokens. The beginning and end of text vanish, a mask becomes `<MASK>`, an unknown character becomes
    /// U+FFFD, and an id outside the vocabulary is skipped.
    ///
    /// # Errors
    /// Returns an error only if the decoder of a pretrained tokenizer fails.
    pub fn decode(&self, tokens: &[TokenId]) -> Result<String> {
        let mut text = String::new();
        let mut rest = tokens;
        while !rest.is_empty() {
            let specials = [self.mask(), self.bos(), self.eos()];
            let cut = rest.iter().position(|token| specials.contains(token));
            let (plain, after) = rest.split_at(cut.unwrap_or(rest.len()));
            if !plain.is_empty() {
                let decoded =
                    self.said(|own| Ok(own.decode(plain)), |theirs| theirs.decode(plain))?;
                text.push_str(&decoded);
            }
            if after.first() == Some(&self.mask()) {
                text.push_str(MASK_TEXT);
            }
            rest = after.get(1..).unwrap_or_default();
        }
        Ok(text)
    }

    /// Returns the number of ids, including special tokens; every id is below it.
    #[must_use]
    pub fn vocabulary_size(&self) -> usize {
        self.said(Alphabet::vocabulary_size, Pretrained::vocabulary_size)
    }

    /// Returns the token for the beginning of text.
    #[must_use]
    pub fn bos(&self) -> TokenId {
        self.said(Alphabet::bos, |theirs| theirs.bos)
    }

    /// Returns whether the vocabulary has the beginning of text. Otherwise it was added, and no model was trained behind it.
    #[must_use]
    pub fn has_own_bos(&self) -> bool {
        self.said(|_| true, |theirs| theirs.own_bos)
    }

    /// Returns the token for the end of text. In some pretrained vocabularies this is the same token as [`Self::bos`].
    #[must_use]
    pub fn eos(&self) -> TokenId {
        self.said(Alphabet::eos, |theirs| theirs.eos)
    }

    /// Returns the token for a mask.
    #[must_use]
    pub fn mask(&self) -> TokenId {
        self.said(Alphabet::mask, |theirs| theirs.mask)
    }

    /// Returns the token that an encoder reads in place of a token to be predicted: `[MASK]` or `<mask>` of a
    /// pretrained vocabulary, else [`Self::mask`].
    #[must_use]
    pub fn masked_token(&self) -> TokenId {
        self.said(Alphabet::mask, |theirs| {
            theirs.masked.unwrap_or(theirs.mask)
        })
    }

    /// Returns the token that pads shorter sequences, if the vocabulary has one with a usual name.
    #[must_use]
    pub fn padding(&self) -> Option<TokenId> {
        self.said(|_| None, |theirs| theirs.padding)
    }

    /// Finds what of the text of a prepared record is outside the vocabulary. Tokens have their numbers in
    /// [`Self::frame_prepared`]. White space without a token is not counted: it separates words.
    ///
    /// ```
    /// use reticent_corpus::tokenize::Tokenizer;
    /// let unknown = Tokenizer::characters().unknown("5 € or <MASK>")?;
    /// assert_eq!((unknown.characters, unknown.tokens), (1, vec![3]));
    /// assert_eq!(Tokenizer::bytes().unknown("5 €")?.characters, 0);
    /// # Ok::<(), reticent_corpus::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::encode`].
    pub fn unknown(&self, text: &str) -> Result<Unknown> {
        let mut found = Unknown::default();
        // Behind the beginning of text.
        let mut at = 1;
        for piece in text.split(MASK_TEXT) {
            let cut = self.cut(piece)?;
            found.characters += cut.unknown.characters;
            found
                .tokens
                .extend(cut.unknown.tokens.iter().map(|number| at + number));
            at += cut.tokens.len() + 1;
        }
        Ok(found)
    }

    /// Returns where the vocabulary comes from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Tokenises a whole text as a record: beginning of text, content, end of text.
    ///
    /// # Errors
    /// As for [`Self::encode`].
    pub fn frame(&self, text: &str) -> Result<Vec<TokenId>> {
        Ok(self.frame_tokens(self.encode(text)?))
    }

    /// Tokenises the text of a prepared record as [`Self::frame`] does, except that each `<MASK>` in it is one mask. The
    /// text between masks is tokenised on its own, as it was when it was prepared; a literal `<MASK>` is escaped there.
    ///
    /// ```
    /// use reticent_corpus::tokenize::Tokenizer;
    /// let tokenizer = Tokenizer::characters();
    /// let (tokens, mask) = (tokenizer.frame_prepared("I am <MASK>.")?, tokenizer.mask());
    /// assert_eq!((tokens.len(), tokens[6]), (9, mask));
    /// assert!(!tokenizer.frame_prepared(r"I am <\MASK>.")?.contains(&mask));
    /// # Ok::<(), reticent_corpus::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::encode`].
    pub fn frame_prepared(&self, text: &str) -> Result<Vec<TokenId>> {
        let mut tokens = Vec::new();
        for (number, piece) in text.split(MASK_TEXT).enumerate() {
            if number > 0 {
                tokens.push(self.mask());
            }
            if !piece.is_empty() {
                tokens.extend(self.encode(piece)?);
            }
        }
        Ok(self.frame_tokens(tokens))
    }

    /// Tokenises a whole text with the special tokens that the tokenizer's own files put around it, like
    /// `tokenizer(text)` in transformers: `add_bos_token` and `add_eos_token` of `tokenizer_config.json`, else the
    /// post-processor of `tokenizer.json`. Our own alphabets frame a text as [`Self::frame`] does.
    ///
    /// # Errors
    /// As for [`Self::encode`].
    pub fn encode_with_special_tokens(&self, text: &str) -> Result<Vec<TokenId>> {
        match &self.inner {
            Inner::Own(_) => self.frame(text),
            Inner::Pretrained(pretrained) => pretrained.encode_with_special_tokens(text),
        }
    }

    /// Returns the text of a `tokenizer.json` whose post-processor frames a text as [`Self::frame`] does.
    ///
    /// # Errors
    /// As for [`Self::to_json`].
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

/// Returns a text that is not prepared as preparation writes it: with one more backslash in each literal special.
#[must_use]
pub fn escaped(text: &str) -> String {
    crate::split::escaped(text).unwrap_or_else(|| text.to_owned())
}

/// Returns the text of a prepared record in lower case. Its masks stay masks.
#[must_use]
pub fn lower_case(text: &str) -> String {
    let pieces: Vec<String> = text.split(MASK_TEXT).map(str::to_lowercase).collect();
    pieces.join(MASK_TEXT)
}

/// The key of a `tokenizer.json` for what is put around a text.
const FRAMING: &str = "post_processor";

/// The largest tokenizer file, in bytes: 256 MiB.
const LARGEST: u64 = 256 << 20;

fn read_text(path: &Path) -> Result<String> {
    let unreadable = Error::reading(path);
    let bytes = reticent_disk::read_regular(path, LARGEST).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|_| unreadable(std::io::Error::other("it is not UTF-8")))
}
