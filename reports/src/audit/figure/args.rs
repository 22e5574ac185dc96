//! Arguments of `audit figure`.

use crate::audit::figure::{Pattern, Quantity};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `audit figure`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  audit figure runs/{line}-{x}-{}.json --y exposure --x-label 'miss_rate' --plot figure.svg
  audit figure runs/{line}-{}.json --x epsilon --y exposure-mean --format json
  audit figure owner/{line}.jsonl --x step --y loss --plot loss.svg")]
pub struct Figure {
    /// The documents, or logs of runs (training.jsonl, each line a point), by their names: {line} is what a line of the figure stands for, {x} a
    /// number, {} anything that tells repetitions apart. Quote it, so that the shell leaves it.
    #[arg(value_name = "PATTERN")]
    pub documents: Pattern,
    /// What is drawn upwards: exposure (the largest, in bits), exposure-mean, epsilon (at least),
    /// auc, accuracy, perplexity, clipped-share (of a log), or the place of a number in the documents,
    /// such as summary.median, or loss, held_out_perplexity and promises.0.epsilon of a log.
    #[arg(long, value_name = "QUANTITY")]
    pub y: Quantity,
    /// What is drawn to the right, where it stands in the documents and not in their names.
    #[arg(long, value_name = "QUANTITY")]
    pub x: Option<Quantity>,
    /// What the horizontal axis is called.
    #[arg(long, value_name = "TEXT")]
    pub x_label: Option<String>,
    /// Equal factors instead of equal steps to the right.
    #[arg(long)]
    pub log_x: bool,
    /// Equal factors instead of equal steps upwards.
    #[arg(long)]
    pub log_y: bool,
    /// Where the figure is written, as SVG.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}
