//! Folders from elsewhere: shards, second names, half precision, and everything that is refused.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

mod folder;
mod reading;
mod refusals;
