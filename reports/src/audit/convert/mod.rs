//! `audit convert`: writes a model of another layout as a Hugging Face folder.

pub mod args;
#[cfg(feature = "audit")]
pub(crate) mod run;
