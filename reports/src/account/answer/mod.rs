//! `account` without a command: what a plan promises.

pub mod args;
pub mod figure;
mod page;
mod run;

pub use page::guarantees;
pub(super) use page::{about_the_batches, noise_found, what_is_asked, what_runs};
pub use run::{Guarantees, Limit, WhatIf, answer, headline, held_to, in_brief, limit};
pub(super) use run::{Judged, is_promise, rows, said, upper};
