//! `audit redact`: a corpus without repetitions and without what a policy finds.

pub mod args;
pub(crate) mod run;
