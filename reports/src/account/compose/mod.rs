//! `account compose`: several mechanisms on the same data, one after another.

pub(crate) mod args;
pub(super) mod run;
