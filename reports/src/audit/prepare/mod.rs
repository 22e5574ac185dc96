//! `audit prepare`: from text to a training set in a folder.

pub mod args;
pub(crate) mod run;
pub(crate) mod shards;
