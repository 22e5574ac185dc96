//! Arguments of `audit tokenizer`.

use crate::audit::args::Reading;
use crate::contract::whole_within;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `audit tokenizer`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
A byte-level BPE, like GPT-2's: any text is encoded without loss. A vocabulary publishes the words it was built from, so \
the text must be declared public; `audit prepare --tokenizer characters` and `bytes` learn nothing from any text.

Example:
  audit tokenizer public.txt --size 8000 --declared-public --out tokenizer.json
  audit prepare data.jsonl --tokenizer tokenizer.json --vocabulary declared-public --out prepared/")]
pub struct TokenizerArgs {
    /// Public text: JSON Lines {"text"}, CSV, Parquet, plain text, or a folder of them.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// Vocabulary size, from 257 to 1048576: every byte, the end of a text, and merges.
    #[arg(long, value_name = "N", value_parser = whole_within::<u64>(257..=1 << 20))]
    pub size: u64,
    /// Declare that no promise covers the text.
    #[arg(long)]
    pub declared_public: bool,
    /// How it is read.
    #[command(flatten)]
    pub reading: Reading,
    /// File to write; - for stdout. It must not exist or be a link to a file.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
}
