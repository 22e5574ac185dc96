//! `audit incidence`: which record holds which secret, as a file.

pub mod args;
pub(crate) mod run;
