//! `audit devices`: lists the devices of this machine that can run models.

pub mod args;
#[cfg(feature = "audit")]
pub(crate) mod run;
