//! `account compose`: several mechanisms on the same data, one after the other.

pub mod args;
pub(super) mod run;
