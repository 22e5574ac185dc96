//! Arguments of `audit redact`.

use crate::audit::args::PolicyArg;
use crate::audit::args::Reading;
use crate::audit::args::preparing::{DEFAULT_UNIT, unit_of_document};
use crate::contract::whole_within;
use clap::Args;
use reticent_corpus::Unit;
use reticent_corpus::redaction::default_threads;
use std::path::PathBuf;

/// Arguments of `audit redact`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Streams a corpus of any size: repeated records are dropped, and what the policy finds becomes <MASK>. Memory grows by \
90 to 190 bytes for every distinct record. The file appears when complete; until then it grows in .writing-NAME next to \
it. After an interruption, a crash or a full disk the same command resumes there and writes the same bytes; if the \
version, options, policy or input read so far differ, it says so and starts over. Pipes, devices and - are written to \
during the run. Ids, keys and roles are copied as they are; it says in how many records the policy finds something there. \
Of records with the same text, the first is kept; chats and pairs must be the same in all but their ids.

Examples:
  audit redact corpus/ --out clean.jsonl
  audit redact corpus/ --out -")]
pub struct Redact {
    /// File or folder: JSON Lines, JSON dialogues, CSV, Parquet, plain text; .gz and .zst too.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// File to write, FILE.jsonl: one {"id", "text"} per line, chats and pairs in their own shape, whatever DATA is; - for
    /// stdout. It must not exist or be a link to a file.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
    /// What one record is: turn, sentence, dialogue or document.
    #[arg(long, default_value = DEFAULT_UNIT, value_parser = unit_of_document)]
    pub unit: Unit,
    /// Redaction policy, as for `audit prepare`.
    #[arg(long, default_value = "general")]
    pub policy: PolicyArg,
    /// Keep repeated records.
    #[arg(long)]
    pub no_deduplication: bool,
    /// Number of threads [default: one for each core].
    #[arg(long, value_name = "N", default_value_t = default_threads() as u64, hide_default_value = true, value_parser = whole_within::<u64>(1..=1024))]
    pub threads: u64,
    /// How the corpus is read.
    #[command(flatten)]
    pub reading: Reading,
}
