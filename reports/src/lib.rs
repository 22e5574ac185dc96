//! The two commands with their tables, JSON, plots and pages. Only this crate compares an upper with a lower bound.
//!
//! | module | what is there |
//! |---|---|
//! | [`account`], `audit` | the two commands, a folder for each subcommand |
//! | [`contract`] | what both commands share: exit codes, formats, files that are whole or absent |
//! | [`plan`], [`defaults`] | flags, plan files and prepared corpora become a training plan; a project's defaults become flags |
//! | `verdict` | the comparison of a promise with a measurement |
//! | [`number`], [`page`], [`plot`] | how numbers, answers and figures are shown |
//!
//! Without the default feature `audit` this crate builds `account` alone and needs no tensor library.
//!
//! ```
//! use reticent_reports::number::{rounded_down, rounded_up};
//!
//! // What is printed of a bound never flatters it.
//! assert_eq!(rounded_up(1.234_01, 4), "1.235");
//! assert_eq!(rounded_down(1.234_99, 4), "1.234");
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

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
