//! `reticent.toml`: a project's defaults, read by `account`, `audit` and Python.
//!
//! The file comes with a checkout and is not trusted: it says in which terms questions are asked and where
//! limits lie, never what runs, what is masked or which files are read, and whatever an answer takes from
//! it is shown with the answer.

mod command;
mod file;

pub use command::{TakesDefaults, with_defaults};
pub use file::{Configured, Project, ProjectFile};

#[cfg(test)]
mod tests;
