//! `account calibrate`: finds the last value of a parameter that keeps a promise.

pub(crate) mod args;
mod page;
mod run;
mod target;

pub(crate) use page::{csv, page};
#[cfg(test)]
pub(crate) use run::Calibrated;
pub(crate) use run::calibrate;
pub(super) use run::numbered;
