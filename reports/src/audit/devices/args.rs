//! Arguments of `audit devices`.

use clap::Args;

/// Arguments of `audit devices`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    after_help = "Examples:\n  audit devices\n  audit train prepared --recipe dpsgd --sigma 1 --out ckpt --device wgpu:0"
)]
pub struct DevicesArgs {}
