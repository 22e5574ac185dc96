//! `audit neighbours`: how many records change when one secret is masked.

pub mod args;
pub(crate) mod run;
