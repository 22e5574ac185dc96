//! What `audit` parses and shows.

pub mod exposure;
