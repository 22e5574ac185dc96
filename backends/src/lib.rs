//! Models, the recipes that train them, and what scores text with them. burn lives here and nowhere else.
//!
//! | module | what is there |
//! |---|---|
//! | [`model`] | the shapes of LSTMs and transformers, each difference a switch |
//! | [`trainer`] | what an engine offers to be trained: records, updates, dropout, optimisers |
//! | [`privacy`] | sampling, clipping, noise, the ledger, and the [`Step`](privacy::Step) that alone makes a privatised update |
//! | [`run`] | a recipe over a corpus, from the first step to a trained model |
//! | [`checkpoint`] | folders of models: weights, manifest, state to resume from, the owner's key |
//! | [`hugging_face`] | folders of other libraries, read and written |
//! | `engine` | the processor's engine (feature `cpu`) and those of devices |
//!
//! Attacks see a model through [`Scorer`], [`PrefixScorer`] and [`Logits`]. Without features the crate is traits and
//! data. With `cpu` it trains and scores on the processor, with `cuda` on NVIDIA devices, with `wgpu` on those of
//! Vulkan, Metal and DirectX 12; `tcp` trains by several processes; `oracle` adds the slow engine in f64 that tests
//! compare the others with.
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

#[cfg(test)]
extern crate self as reticent_backends;

pub mod checkpoint;
mod collective;
mod device;
#[cfg(feature = "cpu")]
pub mod engine;
mod error;
#[cfg(feature = "oracle")]
mod exact;
mod files;
pub mod hugging_face;
mod material;
pub mod model;
pub mod privacy;
mod recipe;
mod replay;
pub mod run;
mod scorer;
pub mod trainer;

// Scorers, and where they run.
pub use device::Device;
pub use scorer::{Logits, PrefixScorer, Scorer, StateId, TokenScore};

// What a recipe is given.
pub use material::{Corpus, SecretRates, Sensitive};
pub use recipe::{PrivateOptions, Schedule, TrainOptions};
pub use reticent_accounting::training::Recipe;

// Who trains together.
pub use collective::{Collective, Local, Threads};
#[cfg(feature = "tcp")]
pub use collective::{Tcp, TcpOptions};

// What tests compare with.
#[cfg(feature = "oracle")]
pub use exact::{exact, exact_logits};
pub use replay::{Replay, replay};

pub use error::{Error, Result};
