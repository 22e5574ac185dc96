//! Arguments of `audit prepare`.

use super::shards::args::Sharding;
use crate::audit::args::Preparing;
use crate::audit::args::Reading;
use crate::contract::whole_within;
use clap::Args;
use reticent_corpus::redaction::default_threads;
use std::path::PathBuf;

/// Arguments of `audit prepare`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Prepares a corpus of any size: it is read more than once, by several threads, and memory grows by up to 50 bytes for \
every distinct record, 160 for every document and about 100 for every distinct secret; --duplicates near takes 320 to 480 more \
for every remaining record, and its text; substring takes 170 MB or, if that is more, half a byte for every token of the \
corpus, and a file of one byte for every character or two for every token of a tokenizer.json, which has no name and goes \
away with the process. The folder is the same for any number of threads, and appears when complete. Until \
then it grows in .preparing-NAME next to it: after an interruption, a crash or a full disk the same command resumes there \
and writes the same bytes. Its files are authenticated under the owner's key (RETICENT_OWNER_KEY names its file, made if missing): where \
the key is, an edited folder is refused. If the version, options, policy, tokenizer or corpus differ, or that folder is damaged, it says \
so and starts over.

Several processes, on one machine or many, can write the same folder by a plan: --shards writes the plan, --run or --stage \
follows it. Until the folder is complete, intermediate data is kept next to the plan: text, authenticated (not encrypted) \
under the owner's key (RETICENT_OWNER_KEY names its file).

Example:
  audit prepare data.jsonl --unit turn --policy customers --miss-rate 0.1 --canaries 10x20 --out prepared/
  audit prepare data.jsonl --policy customers --out prepared/ --plan plan.json --shards 8
  audit prepare --plan plan.json --run local:4
  audit prepare --plan plan.json --stage scan --shard 3")]
pub struct Prepare {
    /// Corpus, a file or folder (links to folders are not followed): JSON Lines {"id", "text", "secrets"?}, JSON
    /// dialogues (MultiWOZ, SGD), CSV or Parquet with a column text, or plain text with blank lines between
    /// documents; .gz and .zst too.
    #[arg(value_name = "DATA", required_unless_present_any = ["stage", "run"])]
    pub data: Option<PathBuf>,
    /// Folder to write; it must be absent or empty.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["stage", "run"])]
    pub out: Option<PathBuf>,
    /// How it is prepared.
    #[command(flatten)]
    pub how: Preparing,
    /// By which processes.
    #[command(flatten)]
    pub sharding: Sharding,
    /// Number of threads [default: one for each core].
    #[arg(long, value_name = "N", default_value_t = default_threads() as u64, hide_default_value = true, value_parser = whole_within::<u64>(1..=1024))]
    pub threads: u64,
    /// How it is read.
    #[command(flatten)]
    pub reading: Reading,
}
