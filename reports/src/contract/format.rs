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
    /// The answer in Markdown, for the summary of a run of continuous integration.
    Markdown,
    /// One result in SARIF 2.1.0, for what collects findings: an error where the exit code is 1.
    Sarif,
    /// A block in YAML, to be put into a model card.
    ModelCard,
}
