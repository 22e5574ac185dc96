//! Arguments of `audit serve`.

use clap::Args;
use reticent_backends::Device;
use std::path::PathBuf;

/// Arguments of `audit serve`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "Example:\n  audit serve --model ckpt")]
pub struct Serve {
    /// The model: a checkpoint folder, a Hugging Face folder, or a folder with a LoRA adapter alone, which names its base.
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// A LoRA adapter on --model, of peft or of `audit train`: its change is merged into the weights.
    #[arg(long, value_name = "DIR")]
    pub adapter: Option<PathBuf>,
    /// Where: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is there.
    #[arg(long, default_value_t)]
    pub device: Device,
}
