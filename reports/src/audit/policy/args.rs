//! Arguments of `audit policy`.

use crate::audit::args::Measured;
use clap::Args;

/// Arguments of `audit policy`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "Example:
  audit policy data.jsonl --policy names --conservative digits,names")]
pub struct Policy {
    /// What is measured.
    #[command(flatten)]
    pub measured: Measured,
}
