//! `account calibrate`: the last value of a parameter that keeps a promise.

pub mod args;
mod page;
mod run;
mod target;

pub use page::{csv, page};
pub(super) use run::numbered;
pub use run::{Calibrated, Promise, calibrate};
