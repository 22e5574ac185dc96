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
    /// File-name pattern of the documents, or run logs (training.jsonl, each line a point): {line} names a line of
    /// the figure, {x} is a number, {} anything that distinguishes repetitions; in the cells of a grid, {line} is the arm
    /// where it can be. Quote it to protect it from the shell.
    #[arg(value_name = "PATTERN")]
    pub documents: Pattern,
    /// Vertical quantity: exposure (the largest, in bits), exposure-mean, epsilon (at least), auc, accuracy,
    /// perplexity, clipped-share (of a log), or the path of a number in the documents, such as summary.median, or
    /// loss, held_out_perplexity and promises.0.epsilon of a log.
    #[arg(long, value_name = "QUANTITY")]
    pub y: Quantity,
    /// Horizontal quantity, if it is in the documents and not in their names.
    #[arg(long, value_name = "QUANTITY")]
    pub x: Option<Quantity>,
    /// Label of the horizontal axis.
    #[arg(long, value_name = "TEXT")]
    pub x_label: Option<String>,
    /// Use a logarithmic horizontal axis.
    #[arg(long)]
    pub log_x: bool,
    /// Use a logarithmic vertical axis.
    #[arg(long)]
    pub log_y: bool,
    /// Write the figure to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}
