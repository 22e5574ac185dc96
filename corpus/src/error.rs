//! Errors that can occur between reading a text file and writing a prepared folder.

use crate::read::{TOO_MANY, TWICE};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// An error of the corpus crate. Messages name the place, the value and the allowed range.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be opened or read.
    #[error("{}: cannot read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file or folder that cannot be written.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// Several files that cannot be read.
    #[error("{} files cannot be read:{}", .0.len(), .0.iter().map(|e| format!("\n  {e}")).collect::<String>())]
    Several(Vec<Error>),
    /// A corpus with no documents, or only blank ones.
    #[error("{}: empty corpus: no document with text in it", path.display())]
    EmptyCorpus {
        /// The file.
        path: PathBuf,
    },
    /// Nothing to prepare.
    #[error("empty corpus: {0}")]
    Empty(String),
    /// Invalid classes, or a document whose class is not among them.
    #[error("labels: {0}")]
    Labels(String),
    /// Loss on answers was requested, but there are no answers.
    #[error("loss on answers: {0}")]
    Answers(&'static str),
    /// A line that does not match the format.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
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
    /// A document whose spans do not fit its text. Callers that know the document's place add it.
    #[error("a document: {problem}")]
    Span {
        /// The document's id. It may identify a person, so no message contains it.
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
        /// The name of the rule, without the pattern, which may reveal what it looks for.
        rule: String,
        /// What is wrong, without the pattern.
        problem: String,
    },
    /// A tagger model that cannot be read.
    #[error("tagger model: {0}")]
    Tagger(String),
    /// A token classifier supplied by the user that cannot be loaded or run.
    #[error("{}: {problem}", path.display())]
    Classifier {
        /// The affected file in the classifier's folder.
        path: PathBuf,
        /// What is wrong, with the value and the allowed range.
        problem: String,
    },
    /// A tokenizer that cannot be loaded, saved or used.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// The tokenizer does not split candidates at the template's positions.
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
    /// A corpus whose content changed between two reads.
    #[error("{}: changed while it was being read; prepare it again when nobody writes to it", path.display())]
    Changed {
        /// The file or folder.
        path: PathBuf,
    },
    /// An input or setting that cannot be prepared in shards.
    #[error("shards: {0}")]
    Sharding(String),
    /// An output path that cannot be written to.
    #[error("{}: {problem}", path.display())]
    Output {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that already exists.
    #[error("{}: a file of that name exists; choose another", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A folder that is not empty.
    #[error("{}: the folder exists and is not empty; choose another, or empty it", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns what turns an error of the operating system into that of a file that cannot be opened or read.
    pub(crate) fn reading(path: &Path) -> impl Fn(std::io::Error) -> Self + Copy {
        move |source| Self::Read {
            path: path.to_path_buf(),
            source,
        }
    }

    /// The same for a file or folder that cannot be written.
    pub(crate) fn writing(path: &Path) -> impl Fn(std::io::Error) -> Self + Copy {
        move |source| Self::Write {
            path: path.to_path_buf(),
            source,
        }
    }

    /// Returns the error of files that cannot be read, of which there is at least one.
    pub(crate) fn several(mut errors: Vec<Self>) -> Self {
        match errors.len() {
            1 => errors.remove(0),
            _ => Self::Several(errors),
        }
    }

    /// Creates the error of a line.
    pub(crate) fn line(path: &Path, line: u64, problem: impl Into<String>) -> Self {
        Self::Line {
            path: path.to_path_buf(),
            line,
            problem: problem.into(),
        }
    }

    /// Creates the error of a place in a file that has no lines.
    pub(crate) fn place(path: &Path, place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Place {
            path: path.to_path_buf(),
            place: place.into(),
            problem: problem.into(),
        }
    }

    /// Creates the error of a prepared folder.
    pub(crate) fn prepared(path: &Path, problem: impl Into<String>) -> Self {
        Self::Prepared {
            path: path.to_path_buf(),
            problem: problem.into(),
        }
    }

    /// Converts an error of [`reticent_disk::OutputPlace::of`] or [`reticent_disk::refuse_alias`].
    pub(crate) fn of_place(path: &Path, source: std::io::Error) -> Self {
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

/// Creates a range error.
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

/// Returns a number if it lies within a range, else the error that says so.
pub(crate) fn within<T: PartialOrd + std::fmt::Display>(
    name: &'static str,
    value: T,
    allowed: RangeInclusive<T>,
) -> Result<T> {
    if allowed.contains(&value) {
        return Ok(value);
    }
    let (least, most) = allowed.into_inner();
    Err(range(name, value, format!("from {least} to {most}")))
}

/// Describes what is wrong with a JSON text without quoting it, since it may be private: the place and what was
/// expected.
pub(crate) fn json_problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let ours = ["missing field", "duplicate field", TWICE, TOO_MANY];
    if !error.is_data() || ours.iter().any(|start| said.starts_with(start)) {
        return said;
    }
    let place = format!("line {} column {}", error.line(), error.column());
    match said.rsplit_once(", expected ") {
        // Whoever wrote the file knows a struct of ours as an object.
        Some((_, expected)) if expected.starts_with("struct ") => {
            format!("expected an object at {place}")
        }
        Some((_, expected)) => format!("expected {expected}"),
        None => format!("not what belongs there at {place}"),
    }
}

/// Describes what is wrong with a regular expression without quoting it.
pub(crate) fn pattern_problem(said: &str) -> String {
    let last = said.lines().last().unwrap_or_default().trim();
    let last = last.strip_prefix("error: ").unwrap_or(last);
    // A one-line message contains no excerpt of the pattern.
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
