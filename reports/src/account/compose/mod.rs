//! `account compose`: several mechanisms on the same data, one after the other.

pub(crate) mod args;
pub(super) mod run;
