//! `audit prepare`: turns text into a training set in a folder.

pub mod args;
pub(crate) mod run;
pub(crate) mod shards;
