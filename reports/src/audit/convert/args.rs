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
    /// The model's file; with --merge the folder of the adapter's base, where it is not the one that the adapter names.
    #[arg(value_name = "MODEL", required_unless_present = "merge")]
    pub model: Option<PathBuf>,
    /// The layout it has.
    #[arg(long, value_enum, required_unless_present = "merge")]
    pub from: Option<Layout>,
    /// The file of its tokenizer.
    #[arg(long, value_name = "FILE", required_unless_present = "merge")]
    pub tokenizer: Option<PathBuf>,
    /// Write the base of a LoRA adapter, of peft or of `audit train`, with its change merged into the weights.
    #[arg(long, value_name = "ADAPTER", conflicts_with_all = ["from", "tokenizer"])]
    pub merge: Option<PathBuf>,
    /// The folder to write; it must not exist, or be empty.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// A layout to convert from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// The first layout of llama2.c, with its tokenizer's scores.
    #[value(name = "llama2.c")]
    Llama2c,
}
