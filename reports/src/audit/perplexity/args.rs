//! Arguments of `audit perplexity`.

use crate::audit::args::preparing::unit;
use crate::audit::args::{Audited, TextField};
use clap::{ArgGroup, Args};
use reticent_corpus::Unit;
use std::path::PathBuf;

/// Arguments of `audit perplexity`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    group = ArgGroup::new("audited").required(true).args(["model", "scorer"]),
    after_help = "\
For an encoder it is the pseudo-perplexity: each token is masked in turn and predicted from all others.\n\nExample:\n  audit perplexity --model ckpt --data held-out.jsonl"
)]
pub struct Perplexity {
    /// The model.
    #[command(flatten)]
    pub of: Audited,
    /// Text: JSON Lines, or plain text; or a prepared folder, whose held-out records are scored.
    #[arg(long, value_name = "FILE|DIR")]
    pub data: PathBuf,
    /// The key of the text.
    #[command(flatten)]
    pub text: TextField,
    /// What one record is; if absent, the model's own unit, or document if it has none.
    #[arg(long, value_parser = unit)]
    pub unit: Option<Unit>,
    /// Score the text without the end-of-text token after each record, for models that never saw one.
    #[arg(long)]
    pub without_end: bool,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
