//! Arguments of `audit redact`.

use crate::audit::args::PolicyArg;
use crate::audit::args::Reading;
use crate::audit::args::preparing::{DEFAULT_UNIT, unit_of_document};
use clap::Args;
use reticent_corpus::Unit;
use reticent_corpus::redaction::default_threads;
use std::path::PathBuf;

/// Arguments of `audit redact`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
A corpus of any size, as a stream: repeated records are left out, what the policy finds becomes <MASK>. Memory grows \
by about 80 bytes for every different record. The file appears when it is complete; until then it grows in .writing-NAME \
beside it. After an interruption, a crash or a full disk the same command goes on there and writes the same bytes; where \
version, options, policy or what had been read are others, it says so and starts over. Pipes, devices and - are written \
to as the work goes on. Ids, keys and roles are written as they are; it says in how many records the policy finds something \
there. Of records with one text the first stays, whatever else they hold.

Examples:
  audit redact corpus/ --out clean.jsonl
  audit redact corpus/ --out -")]
pub struct Redact {
    /// A file or folder: JSON Lines, JSON dialogues, CSV, Parquet, plain text; .gz and .zst too.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// The file to write, one {"id", "text"} per line; - for stdout. It must not exist, nor be a link to a file.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace the file, if it exists.
    #[arg(long)]
    pub force: bool,
    /// What one record is: turn, sentence, dialogue or document.
    #[arg(long, default_value = DEFAULT_UNIT, value_parser = unit_of_document)]
    pub unit: Unit,
    /// The redaction policy; as for `audit prepare`.
    #[arg(long, default_value = "general")]
    pub policy: PolicyArg,
    /// Keep repeated records.
    #[arg(long)]
    pub no_deduplication: bool,
    /// How many threads work [default: one for each core].
    #[arg(long, value_name = "N", default_value_t = default_threads() as u64, hide_default_value = true, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: u64,
    /// How the corpus is read.
    #[command(flatten)]
    pub reading: Reading,
}
