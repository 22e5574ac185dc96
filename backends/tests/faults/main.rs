//! Faults that such systems have had, one test each; `FAULTS.md` lists them with their mutants.
#![cfg(feature = "oracle")]
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

#[path = "../common/mod.rs"]
mod common;

mod folders;
mod steps;
