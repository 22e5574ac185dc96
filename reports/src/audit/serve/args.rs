//! Arguments of `audit serve`.

use clap::Args;
use reticent_backends::Device;
use std::path::PathBuf;

/// Arguments of `audit serve`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "Example:\n  audit serve --model ckpt")]
pub struct Serve {
    /// Model: a checkpoint folder, a Hugging Face folder, or a folder with only a LoRA adapter, which names its base.
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// LoRA adapter on --model, from peft or `audit train`, merged into the weights.
    #[arg(long, value_name = "DIR")]
    pub adapter: Option<PathBuf>,
    /// Device: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is available.
    #[arg(long, default_value_t)]
    pub device: Device,
}
