//! `audit train`: trains a recipe on a prepared corpus and writes a checkpoint.

pub mod args;
#[cfg(feature = "audit")]
mod left;
#[cfg(feature = "audit")]
pub(crate) mod log;
#[cfg(feature = "audit")]
mod material;
#[cfg(feature = "audit")]
pub(super) mod model;
#[cfg(feature = "audit")]
pub(super) mod options;
#[cfg(feature = "audit")]
mod other_run;
#[cfg(feature = "audit")]
pub(crate) mod run;
#[cfg(feature = "audit")]
mod tensorboard;
#[cfg(feature = "audit")]
mod trained_on;
pub(super) mod uses;
#[cfg(feature = "audit")]
pub(super) mod workers;

#[cfg(feature = "audit")]
pub(super) use material::masking;
#[cfg(feature = "audit")]
pub use workers::join;
