//! Folders from elsewhere: shards, second names, half precision, adapters, and everything that is refused.

mod adapters;
mod folder;
mod reading;
mod refusals;
