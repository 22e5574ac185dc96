//! Trainer and scorer engines, and the recipes that run them. burn lives here and nowhere else.
//!
//! Without features this crate is traits and data: [`Scorer`], [`PrefixScorer`], [`Trainer`],
//! [`Noise`], [`Sampler`], [`Collective`], and the [`Step`] that alone makes a privatised
//! update. With `cpu` it trains and scores on the processor, with `cuda` on NVIDIA devices, with
//! `wgpu` on those of Vulkan, Metal and DirectX 12;
//! `oracle` adds the slow engine in f64 that tests compare them with.

#[cfg(test)]
extern crate self as reticent_backends;

mod checkpoint;
mod clip;
mod collective;
mod description;
mod device;
mod dropout;
#[cfg(feature = "cpu")]
mod engine;
mod error;
#[cfg(feature = "oracle")]
mod exact;
mod files;
mod gaussian;
mod hugging_face;
mod keystream;
mod learning_rate;
mod ledger;
mod lock;
mod manifest;
mod masking;
mod material;
mod model;
mod optimizer;
mod owner;
mod random;
mod recipe;
mod replay;
mod run;
mod scorer;
mod segments;
mod snapshot;
mod state;
mod step;
mod trainer;
mod weights;

pub use checkpoint::{Checkpoint, Mark, Pretrained, free_for};
pub use clip::{Clip, Clipping, Factors, SquaredNorms};
pub use collective::{Collective, Local, Threads};
#[cfg(feature = "tcp")]
pub use collective::{Tcp, TcpOptions};
pub use device::Device;
pub use dropout::{Dropout, Masks};
#[cfg(feature = "cpu")]
pub use engine::{
    DeviceKind, Devices, FoundDevice, Transfers, devices, lstm, open, transfers, transformer,
    transformer_logits,
};
pub use error::{Error, Result};
#[cfg(feature = "oracle")]
pub use exact::{exact, exact_logits};
pub use hugging_face::{
    convert_llama2c, load_adapted, load_hugging_face, save_hugging_face, save_with_weights,
};
pub use learning_rate::{Decay, LearningRates};
pub use ledger::Ledger;
pub use lock::FolderLock;
pub use manifest::{CanarySeal, Course, Digests, Initial, Manifest, Phase, hexadecimal};
pub use masking::{Masking, TokenMasks};
pub use material::{Corpus, SecretRates, Sensitive};
pub use model::{
    Activation, Biases, Family, Head, HeadLayout, HeadNorms, HeadNormsAt, LayerLayout, Layout,
    LinearAt, Lora, LoraSpec, LstmConfig, Model, Multipliers, NormAt, NormKind, NormPlace,
    Residual, Rotary, RotaryScaling, Switches, TransformerConfig,
};
pub use optimizer::{Optimizer, OptimizerSpec, Update};
pub use owner::{Authentication, Owner, owner_folder, state_folder};
pub use random::{
    BinsSampler, ChaChaNoise, Noise, PoissonSampler, Rates, RunKey, Sampler, TruncatedSampler,
    keyed_digest, shuffled,
};
pub use recipe::{PrivateOptions, Schedule, TrainOptions};
pub use replay::{Replay, replay};
pub use reticent_accounting::training::Recipe;
pub use run::{
    AtEpoch, Classified, Epoch, Ran, Surroundings, TrainProgress, Trained, train, train_on,
    train_together,
};
pub use scorer::{Logits, PrefixScorer, Scorer, StateId, TokenScore};
pub use segments::{Segment, SelectiveBatch, SelectiveRecords};
pub use state::erase_finished;
pub use step::{PrivateStep, StateRelease, Step};
pub use trainer::{
    Added, Parameter, Precision, PrivateBatch, PrivateRecords, Privatized, PublicBatch,
    PublicRecords, Recurrent, ReleaseState, Trainer, all_private, split, unprotected,
};
pub use weights::weights_digest;
