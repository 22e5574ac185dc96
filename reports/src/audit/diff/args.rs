//! Arguments of `audit diff`.

use crate::contract::quantity;
use clap::Args;
use reticent_accounting::Probability;
use std::path::PathBuf;

/// Arguments of `audit diff`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Example:
  audit diff old.json new.json")]
pub struct Diff {
    /// JSON answer of `audit exposure`, `membership`, `extract` or `report` for the old model.
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The same for the new one.
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Probability of a false "more" for a model that leaks no more, over all rows together.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Probability>, default_value = "0.05", allow_negative_numbers = true)]
    pub level: Probability,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
