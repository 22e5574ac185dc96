//! The folder of a prepared corpus:
//!
//! | file | content |
//! |---|---|
//! | `prepared.json` | the options and the facts of the preparation |
//! | `records.jsonl` | the training records: point, document, side, tokens |
//! | `train.jsonl` | the same records as redacted text, for other trainers |
//! | `tokenizer.json` | Hugging Face format |
//! | `tokenizer_config.json` | which tokens begin and end a text, if their names are unusual |
//! | `canaries.json` | the canary plan, if any |
//! | `held-out.jsonl`, `test.jsonl` | held-out records and their redacted text, if any |
//! | `prepared.code` | the code of all these files under the owner's key, if the preparation had one |
//!
//! In text, a mask is written as `<MASK>`; a literal `<MASK>` of the source is written as `<\MASK>`.

mod beside;
mod file;
mod load;
mod seal;
mod stopped;
mod write;

pub use seal::seal_folder;

pub(crate) use beside::{Left, cleared, locked, unlock};
pub(crate) use file::{FileWriter, OutputFile};
pub(crate) use load::preparation_of;
pub(crate) use seal::code_of;
pub(crate) use stopped::Stopped;
pub(crate) use write::{FolderWriter, Lines, ManyLines, OutputFolder, PackedLines, Start, lines};

use crate::prepare::{Facts, PrepareOptions, Stability};
use crate::record::{Record, Side, TokenId};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;

const FACTS: &str = "prepared.json";
const RECORDS: &str = "records.jsonl";
const TEXTS: &str = "train.jsonl";
const TOKENIZER: &str = "tokenizer.json";
const SETTINGS: &str = "tokenizer_config.json";
const CANARIES: &str = "canaries.json";
const HELD_OUT: &str = "held-out.jsonl";
const TEST: &str = "test.jsonl";
const CODE: &str = "prepared.code";

/// Returns the schemas of `prepared.json` and of the lines of its records and texts.
#[must_use]
pub fn prepared_schemas(generator: &SchemaGenerator) -> [Schema; 3] {
    let of = || generator.clone();
    [
        of().into_root_schema_for::<PreparedDocument>(),
        of().into_root_schema_for::<RecordLine<'_>>(),
        of().into_root_schema_for::<TextLine<'_>>(),
    ]
}

/// The content of `prepared.json`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct PreparedDocument {
    schema: u32,
    #[serde(rename = "type")]
    kind: String,
    options: PrepareOptions,
    facts: Facts,
    stability: Product,
    /// SHA-256 of `tokenizer.json`, in hexadecimal: another one would read other texts in the same tokens.
    tokenizer_sha256: String,
}

/// The whole pipeline's stability.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Product {
    all_copies: Stability,
    single_copy: Stability,
}

/// A line of `records.jsonl` and `held-out.jsonl`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct RecordLine<'a> {
    /// Number of the unit among all units of the corpus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    point: Option<u64>,
    /// Number of its document among the training documents or, of a held-out record, among the held-out ones. Absent in
    /// folders of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    document: Option<u64>,
    side: Side,
    tokens: Cow<'a, [TokenId]>,
    /// What the policy found in text that was left as it is: ranges of `tokens`.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    sensitive: Cow<'a, [Range<usize>]>,
    /// What is read and carries no loss: ranges of `tokens`.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    ignored: Cow<'a, [Range<usize>]>,
    /// The number of the record's class in `options.labels.classes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<u32>,
}

impl RecordLine<'_> {
    fn into_record(self) -> Record {
        Record {
            side: self.side,
            tokens: self.tokens.into_owned(),
            sensitive: self.sensitive.into_owned(),
            ignored: self.ignored.into_owned(),
            label: self.label,
        }
    }
}

/// A line of `train.jsonl` and `test.jsonl`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct TextLine<'a> {
    id: String,
    side: Side,
    text: Cow<'a, str>,
    /// The number of the record's class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<u32>,
}
