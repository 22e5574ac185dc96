//! `audit serve`: offers a model of ours as a scorer to other programs.

pub mod args;
