//! The two commands, tables, JSON, plots and pages; the only place where an upper and a lower bound meet.
//!
//! [`contract`] is what both commands promise: exit codes, formats, files that are whole or
//! absent. [`plot`] and [`page`] draw. [`verdict`] compares promise and measurement. Without the default feature `audit` this crate builds
//! `account` alone and needs no tensor library.

pub mod account;
#[cfg(feature = "findings")]
pub mod audit;
pub mod contract;
pub mod defaults;
pub mod number;
pub mod page;
pub mod plan;
pub mod plot;
#[cfg(feature = "findings")]
pub mod verdict;

#[cfg(all(test, feature = "audit"))]
mod advice;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod schema;
