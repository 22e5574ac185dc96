//! `audit report`: runs every attack that the evidence allows and reports on one page.

pub mod args;
#[cfg(feature = "audit")]
pub(crate) mod run;
