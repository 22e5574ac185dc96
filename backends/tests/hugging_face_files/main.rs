//! Folders from elsewhere: shards, second names, half precision, adapters, and everything that is refused.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

mod adapters;
mod folder;
mod reading;
mod refusals;
