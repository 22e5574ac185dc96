//! Arguments of `audit convert`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `audit convert`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    after_help = "Example:\n  audit convert --from llama2.c stories260K.bin --tokenizer tok512.bin --out stories"
)]
pub struct Convert {
    /// The model's file.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// The layout it has.
    #[arg(long, value_enum)]
    pub from: Layout,
    /// The file of its tokenizer.
    #[arg(long, value_name = "FILE")]
    pub tokenizer: PathBuf,
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
