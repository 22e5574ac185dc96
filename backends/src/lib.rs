//! Models, the recipes that train them, and the engines that score text with them. Only this crate depends on burn.
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | the architectures of LSTMs and transformers, each difference a switch |
//! | [`trainer`] | the interface of a trainable engine: records, updates, dropout, optimisers |
//! | [`privacy`] | sampling, clipping, noise, the ledger; [`Step`](privacy::Step), that alone makes a private update |
//! | [`run`] | training a recipe on a corpus, from the first step to a trained model |
//! | [`checkpoint`] | model folders: weights, manifest, resumable state, the owner's key |
//! | [`hugging_face`] | reading and writing the model folders of other libraries |
//! | `engine` | the engines of the processor (feature `cpu`) and of devices |
//!
//! Attacks see a model through [`Scorer`], [`PrefixScorer`] and [`Logits`]. Without features the crate contains only
//! traits and data types. The feature `cpu` adds training and scoring on the processor, `cuda` on NVIDIA devices, and
//! `wgpu` on devices of Vulkan, Metal and DirectX 12. `tcp` adds training by several processes. `oracle` adds what
//! tests compare engines and recipes with.
//!
//! ```
//! use reticent_accounting::SamplingRate;
//! use reticent_backends::privacy::{PoissonSampler, RunKey, Sampler};
//!
//! // Who is in a batch follows from the run's key, the step and the record: a run can be replayed.
//! let sampler = || PoissonSampler::new(RunKey::from_seed(7), SamplingRate::new(0.1).unwrap(), 1000);
//! let (mut once, mut again) = (sampler(), sampler());
//! assert_eq!(once.batch(3), again.batch(3));
//! assert_ne!(once.batch(3), once.batch(4));
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(test)]
extern crate self as reticent_backends;

pub mod checkpoint;
mod collective;
mod device;
#[cfg(feature = "cpu")]
pub mod engine;
mod error;
mod files;
pub mod hugging_face;
mod material;
pub mod model;
#[cfg(feature = "oracle")]
#[path = "../oracle/mod.rs"]
pub mod oracle;
pub mod privacy;
mod recipe;
pub mod run;
mod scorer;
pub mod trainer;

// Scorers, and the devices they run on.
pub use device::Device;
pub use scorer::{
    AGREEMENT, Logits, PrefixScorer, Scorer, StateId, States, TokenScore, check_sequence,
    check_tokens,
};

// The inputs of a recipe.
pub use material::{Corpus, SecretRates, Sensitive};
pub use recipe::{PrivateOptions, Schedule, TrainOptions};
pub use reticent_accounting::training::Recipe;

// Training by several workers.
pub use collective::{Collective, Local, Threads, accumulate};
#[cfg(feature = "tcp")]
pub use collective::{Tcp, TcpOptions};

pub use error::{Error, Result};
