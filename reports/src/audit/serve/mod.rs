//! `audit serve`: a model of ours as a scorer for other programs.

pub mod args;
