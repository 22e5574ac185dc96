//! `audit devices`: what this machine has to run models on.

pub mod args;
#[cfg(feature = "audit")]
pub(crate) mod run;
