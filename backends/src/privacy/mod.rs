//! The privacy-relevant parts of training: which records a step takes, how much each may contribute, the noise, and the
//! ledger of released steps. [`Step`] is the only way from examples to a privatised update.

pub(crate) mod clip;
pub(crate) mod gaussian;
pub(crate) mod keystream;
pub(crate) mod ledger;
pub(crate) mod random;
pub(crate) mod segments;
pub(crate) mod step;

pub use clip::{Clip, Clipping, Factors, SquaredNorms};
pub use ledger::Ledger;
pub use random::{
    BinsSampler, ChaChaNoise, Noise, PoissonSampler, Rates, RunKey, Sampler, TruncatedSampler,
    keyed_digest,
};
pub use segments::{Segment, SelectiveBatch, SelectiveRecords};
pub use step::{PrivateStep, StateRelease, Step};
