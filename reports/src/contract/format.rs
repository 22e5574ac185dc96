//! Output formats.

use clap::ValueEnum;

/// Output format on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Tables and sentences for people.
    #[default]
    Text,
    /// One JSON document for programs.
    Json,
    /// The rows alone, comma-separated with a header.
    Csv,
    /// An HTML page with plots.
    Html,
    /// The answer in Markdown, for the job summary of a CI run.
    Markdown,
    /// One result in SARIF 2.1.0, for tools that collect findings: an error if the exit code is 1.
    Sarif,
    /// A YAML block for a model card.
    ModelCard,
}
