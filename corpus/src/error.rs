//! What can go wrong between a text file and a prepared folder.

use crate::read::{TOO_MANY, TWICE};
use std::path::PathBuf;

/// An error of the corpus crate: it names the place, the value and the allowed range.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be opened or read.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file or folder that cannot be written.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Several files that cannot be read.
    #[error("{} files cannot be read:{}", .0.len(), .0.iter().map(|e| format!("\n  {e}")).collect::<String>())]
    Several(Vec<Error>),
    /// Nothing to read: no document, or only blank ones.
    #[error("{}: empty corpus: no document with text in it", path.display())]
    EmptyCorpus {
        /// The file.
        path: PathBuf,
    },
    /// Nothing to prepare.
    #[error("empty corpus: {0}")]
    Empty(String),
    /// Classes that do not fit, or a document that does not fit them.
    #[error("labels: {0}")]
    Labels(String),
    /// Loss on answers where there are none.
    #[error("loss on answers: {0}")]
    Answers(&'static str),
    /// A line that is not what the format asks for.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong, with the value and the allowed range.
        problem: String,
    },
    /// A place in a file that has no lines.
    #[error("{}, {place}: {problem}", path.display())]
    Place {
        /// The file.
        path: PathBuf,
        /// Which row, dialogue or byte.
        place: String,
        /// What is wrong, with the value and the allowed range.
        problem: String,
    },
    /// A document whose spans do not fit its text; who knows its place says so.
    #[error("a document: {problem}")]
    Span {
        /// The document's id, which may say whose it is: no message has it.
        document: String,
        /// What is wrong, with the value and the allowed range.
        problem: String,
    },
    /// An argument outside its range.
    #[error("{name} must be {allowed}, got {value}")]
    Range {
        /// The argument.
        name: &'static str,
        /// The value given.
        value: String,
        /// The allowed range, in words.
        allowed: String,
    },
    /// A canary template that cannot be parsed.
    #[error("canary template {template:?}: {problem}")]
    Template {
        /// The template.
        template: String,
        /// What is wrong.
        problem: String,
    },
    /// A canary plan that contradicts itself or the corpus.
    #[error("canary plan: {0}")]
    Plan(String),
    /// A pattern that does not compile.
    #[error("{rule}: {problem}")]
    Pattern {
        /// Which one, without the pattern: it may name what it looks for.
        rule: String,
        /// What is wrong, without the pattern.
        problem: String,
    },
    /// A tagger's model that cannot be read.
    #[error("tagger model: {0}")]
    Tagger(String),
    /// A token classifier of the user's that cannot be loaded or run.
    #[error("{}: {problem}", path.display())]
    Classifier {
        /// The file of its folder.
        path: PathBuf,
        /// What is wrong, with the value and the allowed range.
        problem: String,
    },
    /// A tokenizer that cannot be loaded, saved or used.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// The tokenizer does not cut candidates at the template's positions.
    #[error("tokenizer is not compositional on this template: {0}")]
    NotCompositional(String),
    /// A prepared folder that is damaged, tampered with, or of another version.
    #[error("{}: {problem}", path.display())]
    Prepared {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A corpus that was not the same when it was read again.
    #[error("{}: changed while it was being read; prepare it again when nobody writes to it", path.display())]
    Changed {
        /// The file or folder.
        path: PathBuf,
    },
    /// What cannot be prepared in shards.
    #[error("shards: {0}")]
    Sharding(String),
    /// A place that nothing can be written to.
    #[error("{}: {problem}", path.display())]
    Output {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that is there already.
    #[error("{}: a file of that name exists; choose another, or replace it by force", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A folder that holds something already.
    #[error("{}: the folder exists and is not empty; choose another, or empty it", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Of what [`reticent_disk::OutputPlace::of`] says of a name.
    pub(crate) fn of_place(path: &std::path::Path, source: std::io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            std::io::ErrorKind::AlreadyExists => Self::Exists { path },
            std::io::ErrorKind::InvalidInput => Self::Output {
                path,
                problem: source.to_string(),
            },
            _ => Self::Write { path, source },
        }
    }
}

/// A range error, spelled once.
pub(crate) fn range(
    name: &'static str,
    value: impl std::fmt::Display,
    allowed: impl Into<String>,
) -> Error {
    Error::Range {
        name,
        value: value.to_string(),
        allowed: allowed.into(),
    }
}

/// What is wrong with a JSON text, without any of the text: it may be private. The place, and what was expected.
pub(crate) fn json_problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let ours = ["missing field", "duplicate field", TWICE, TOO_MANY];
    if !error.is_data() || ours.iter().any(|start| said.starts_with(start)) {
        return said;
    }
    let place = format!("line {} column {}", error.line(), error.column());
    match said.rsplit_once(", expected ") {
        // A type of ours is an object to whoever wrote the file.
        Some((_, expected)) if expected.starts_with("struct ") => {
            format!("expected an object at {place}")
        }
        Some((_, expected)) => format!("expected {expected}"),
        None => format!("not what belongs there at {place}"),
    }
}

/// What is wrong with a regular expression, without the expression.
pub(crate) fn pattern_problem(said: &str) -> String {
    let last = said.lines().last().unwrap_or_default().trim();
    let last = last.strip_prefix("error: ").unwrap_or(last);
    // A message of one line is no excerpt.
    last.to_owned()
}

#[cfg(test)]
mod tests {
    use super::json_problem;
    use crate::Document;

    #[test]
    fn nothing_of_the_text_is_repeated() {
        for text in [
            "\"078-05-1120\"",
            "{\"id\":\"a\",\"text\":780511204111}",
            "{\"id\":\"a\",\"text\":\"x\",\"secrets\":\"078-05-1120, expected 0780\"}",
            "{\"id\":\"a\",\"text\":\"x\",\"secrets\":[{\"start\":\"078-05-1120\"}]}",
        ] {
            let error = serde_json::from_str::<Document>(text).unwrap_err();
            let found = json_problem(&error);
            assert!(!found.contains("078") && !found.contains("7805"), "{found}");
            assert!(found.contains("column"), "{found}");
        }
    }
}
