//! Output formats.

use clap::ValueEnum;

/// How a result is written to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Tables and sentences for people.
    #[default]
    Text,
    /// One JSON document for programs.
    Json,
    /// The rows alone, comma-separated with a header.
    Csv,
    /// A page with plots.
    Html,
}
