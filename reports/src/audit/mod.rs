//! What `audit` parses and shows.

pub mod cli;
pub mod demo;
pub mod exposure;
pub mod simulate;
pub mod work;

#[cfg(test)]
mod schema;
