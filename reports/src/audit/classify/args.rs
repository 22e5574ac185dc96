//! Arguments of `audit classify`.

use crate::audit::args::Reading;
use crate::audit::args::preparing::unit_of_document;
use clap::Args;
use reticent_backends::Device;
use reticent_corpus::Unit;
use std::path::PathBuf;

/// Arguments of `audit classify`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  audit classify --model ckpt --data held-out.jsonl --label domain
  audit classify --model ckpt --data prepared/
  audit classify --model ckpt --data members.jsonl --label domain --scores-out members.csv")]
pub struct Classify {
    /// Classifier: a checkpoint folder, or a Hugging Face folder of a sequence-classification model.
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Texts, each with its class: JSON Lines or a table; or a prepared folder with classes, whose held-out records are
    /// read as they were prepared.
    #[arg(long, value_name = "FILE|DIR")]
    pub data: PathBuf,
    /// Key or column of a text's class; needed unless --data is a prepared folder. The class is one of the names in the
    /// model's id2label. A number from 0 is one only if the model has no names or is a checkpoint of ours.
    #[arg(long, alias = "label-column", value_name = "KEY", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub label: Option<String>,
    /// What one record is; if absent, the model's own unit, or document if it has none.
    #[arg(long, value_parser = unit_of_document)]
    pub unit: Option<Unit>,
    /// How the texts are read.
    #[command(flatten)]
    pub reading: Reading,
    /// Device: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is available.
    #[arg(long, default_value_t)]
    pub device: Device,
    /// Also write each record's loss, −ln p of its class, with its document, text and class: a CSV for `audit membership
    /// --members FILE --non-members FILE --lower-is-member`.
    #[arg(long, value_name = "FILE")]
    pub scores_out: Option<PathBuf>,
    /// Replace the --scores-out file if it exists.
    #[arg(long, requires = "scores_out")]
    pub force: bool,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
