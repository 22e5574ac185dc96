//! How a corpus is read.

use clap::Args;
use reticent_corpus::{LINE_LIMIT, ReadOptions};

/// How a corpus is read, for every command that reads one.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Reading {
    /// Longest line, row, block or dialogue, in bytes; a longer one is an error.
    #[arg(long, value_name = "BYTES", default_value_t = LINE_LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
    pub longest: u64,
    /// Go on without the files that cannot be read, and say which they are.
    #[arg(long)]
    pub skip_unreadable: bool,
}

impl Reading {
    /// The options of the corpus crate.
    #[must_use]
    pub fn options(&self, field: Option<&str>) -> ReadOptions {
        ReadOptions {
            longest: self.longest,
            field: field.map(str::to_owned),
            skip_unreadable: self.skip_unreadable,
        }
    }
}
