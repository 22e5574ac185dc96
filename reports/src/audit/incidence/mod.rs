//! `audit incidence`: writes which record contains which secret.

pub mod args;
pub(crate) mod run;
