//! `audit neighbours`: how many records masking one secret changes.

pub mod args;
pub(crate) mod run;
