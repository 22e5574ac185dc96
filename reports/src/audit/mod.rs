//! What `audit` parses and shows.

pub mod cli;
pub mod demo;
pub mod diff;
pub mod epsilon;
pub mod exposure;
pub mod extract;
pub mod figure;
pub mod membership;
pub mod policy;
pub mod screen;
pub mod simulate;
pub mod work;

#[cfg(test)]
mod schema;
