//! Trainer and scorer engines, and the recipes that run them. burn lives here and nowhere else.
//!
//! Without features this crate is traits and data: [`Scorer`], [`PrefixScorer`], [`Trainer`],
//! [`Noise`], [`Sampler`], [`Collective`], and the [`Step`] that alone makes a privatised
//! update. With `cpu` it trains and scores on the processor, with `cuda` on NVIDIA devices.

mod collective;
#[cfg(feature = "cpu")]
mod engine;
mod error;
mod files;
mod ledger;
mod model;
mod optimizer;
mod random;
mod scorer;
mod step;
mod trainer;

pub use collective::{Collective, Local, Threads};
#[cfg(feature = "cpu")]
pub use engine::{Device, lstm};
pub use error::{Error, Result};
pub use ledger::Ledger;
pub use model::LstmConfig;
pub use optimizer::{Optimizer, OptimizerSpec, Update};
pub use random::{ChaChaNoise, Noise, PoissonSampler, RunKey, Sampler, keyed_digest, shuffled};
pub use scorer::{PrefixScorer, Scorer, StateId, TokenScore};
pub use step::{PrivateStep, Step};
pub use trainer::{
    Added, Clip, Parameter, PrivateBatch, PrivateRecords, Privatized, PublicBatch, PublicRecords,
    Trainer, all_private, split, unprotected,
};
