//! Arguments of `audit convert`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `audit convert`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  audit convert --from llama2.c stories260K.bin --tokenizer tok512.bin --out stories
  audit convert --merge adapter/ --out merged/
  audit convert base/ --merge adapter/ --out merged/")]
pub struct Convert {
    /// Model file; with --merge, the folder of the adapter's base, if not the one that the adapter names.
    #[arg(value_name = "MODEL", required_unless_present = "merge")]
    pub model: Option<PathBuf>,
    /// Layout of the model.
    #[arg(long, value_enum, required_unless_present = "merge")]
    pub from: Option<Layout>,
    /// File of its tokenizer.
    #[arg(long, value_name = "FILE", required_unless_present = "merge")]
    pub tokenizer: Option<PathBuf>,
    /// Merge this LoRA adapter, from peft or `audit train`, into the weights of its base.
    #[arg(long, value_name = "ADAPTER", conflicts_with_all = ["from", "tokenizer"])]
    pub merge: Option<PathBuf>,
    /// Folder to write; it must be absent or empty.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// A layout to convert from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// First layout of llama2.c, with its tokenizer's scores.
    #[value(name = "llama2.c")]
    Llama2c,
}
