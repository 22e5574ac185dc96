//! `reticent.toml`: a project's defaults, read by `account`, `audit` and Python.
//!
//! The file comes with a checkout and is not trusted: it sets the terms of questions and the limits, and
//! names no command, policy or file. By delta and unit it can change what is trained and prepared.
//! Everything that an answer takes from it is shown with the answer.

mod command;
mod file;

pub use command::{TakesDefaults, with_defaults};
pub use file::{Configured, Project, ProjectFile};

#[cfg(test)]
mod tests;
