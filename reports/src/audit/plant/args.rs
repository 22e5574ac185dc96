//! Arguments of `audit plant`.

use crate::audit::args::preparing::{CanaryArgs, unit_of_document};
use crate::audit::args::{TextField, TokenizerArg};
use clap::Args;
use reticent_corpus::Unit;
use reticent_corpus::canary::Spec;
use std::path::PathBuf;

/// Arguments of `audit plant`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Writes, for any trainer, the same file with canaries in it and nothing else changed, and canaries.json, which `audit \
exposure --canary-file` takes after training. A canary is a line of a document's text, a chat's last answer or a pair's \
completion. JSON lines without a canary stay identical, byte for byte; in those with one, all else does too (numbers, \
spaces, line ends), except how the text escapes characters. `audit prepare --canaries` plants canaries in a corpus that is \
deduplicated and redacted.

Examples:
  audit plant train.jsonl --canaries 10x20 --out planted/
  audit plant train.jsonl --canaries 100x2 --canary-format code:{rare:3} --tokenizer model/tokenizer.json --out planted/
  audit plant train.jsonl --canaries 1000x1 --canary-format code:{new:2} --coins --out planted/
  audit plant train.jsonl --canaries 100x2 --canary-format note:{sampled:8} --sampling-model gpt2/ --out planted/")]
pub struct Plant {
    /// File of JSON Lines with a text, chat or pair, or of plain text with blank lines between documents.
    #[arg(value_name = "FILE")]
    pub data: PathBuf,
    /// Number of canaries, and copies of each.
    #[arg(long, value_name = "MxR")]
    pub canaries: Spec,
    /// What the canaries are.
    #[command(flatten)]
    pub shape: CanaryArgs,
    /// The model's tokenizer (a file, characters or bytes): to check before training that every candidate has its own
    /// tokens, and to choose the words of {rare:n}.
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<TokenizerArg>,
    /// The key of the text.
    #[command(flatten)]
    pub text: TextField,
    /// What one record is in training: turn, sentence, dialogue or document.
    #[arg(long, default_value = "document", value_parser = unit_of_document)]
    pub unit: Unit,
    /// Include or leave out each canary by a fair coin, for `audit coins`. The coins and all canaries are written to
    /// coins.json instead of canaries.json; it is the owner's, and whoever trains must not see it.
    #[arg(long, conflicts_with_all = ["doses", "independent_secrets"])]
    pub coins: bool,
    /// Seed of the canaries; without it, the operating system draws them. Anyone who knows it can redraw them.
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Folder to write; it must be absent or empty.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}
