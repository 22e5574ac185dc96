//! What `audit` parses and shows.

pub mod cli;
pub mod demo;
pub mod exposure;
pub mod simulate;

#[cfg(test)]
mod schema;
