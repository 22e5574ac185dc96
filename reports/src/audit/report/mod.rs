//! `audit report`: every attack that the evidence allows, on one page.

pub mod args;
#[cfg(feature = "audit")]
pub(crate) mod run;
