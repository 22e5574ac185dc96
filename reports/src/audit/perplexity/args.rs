//! Arguments of `audit perplexity`.

use crate::audit::args::Audited;
use crate::audit::args::preparing::unit;
use clap::{ArgGroup, Args};
use reticent_corpus::Unit;
use std::path::PathBuf;

/// Arguments of `audit perplexity`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    group = ArgGroup::new("audited").required(true).args(["model", "scorer"]),
    after_help = "\
Of an encoder it is the pseudo-perplexity: each token is masked in turn and told from all others.\n\nExample:\n  audit perplexity --model ckpt --data held-out.jsonl"
)]
pub struct Perplexity {
    /// The model.
    #[command(flatten)]
    pub of: Audited,
    /// The text: JSON Lines, or plain text.
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// What one record is; the model's own unit if absent, a document if it has none.
    #[arg(long, value_parser = unit)]
    pub unit: Option<Unit>,
    /// Score the text alone, without the end-of-text token behind each record: for models that
    /// never saw one.
    #[arg(long)]
    pub without_end: bool,
    /// Also write a page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
