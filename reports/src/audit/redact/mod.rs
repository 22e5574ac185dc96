//! `audit redact`: writes a corpus without duplicates and without what a policy finds.

pub mod args;
pub(crate) mod run;
