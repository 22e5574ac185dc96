//! Reads corpora for the commands.

use crate::contract::{Interrupt, Progress, note};
use crate::number::count_of;
use anyhow::Result;
use reticent_corpus::prepare::Phase;
use reticent_corpus::read::{ReadOptions, corpus_files, read_readable};
use reticent_corpus::tokenize::MASK_TEXT;
use reticent_corpus::{Document, Error};
use std::cell::RefCell;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A crash loses at most this much work.
pub(in crate::audit) const PAUSE: Duration = Duration::from_secs(10);

/// What separates documents in many plain texts, if `--separator` names it.
const END_OF_TEXT: &str = "<|endoftext|>";

/// How many plain texts of a corpus are looked through for it, and how many bytes of each.
const LOOKED_AT: (usize, u64) = (8, 1 << 16);

/// Notes on stderr that the documents of a plain text are read as one: it has the usual separator and none is given, or
/// not the one that is.
pub(in crate::audit) fn hint_separator(data: &Path, options: &ReadOptions) {
    if let Some(hint) = unseparated(data, options) {
        note(&format!("hint: {hint}"));
    }
}

/// Looks through the beginnings of a few plain texts.
fn unseparated(data: &Path, options: &ReadOptions) -> Option<String> {
    let mark = options
        .separator
        .as_deref()
        .unwrap_or(END_OF_TEXT)
        .as_bytes();
    let holds = |file: &PathBuf| {
        let mut head = Vec::new();
        let read = File::open(file).and_then(|file| file.take(LOOKED_AT.1).read_to_end(&mut head));
        read.is_ok() && head.windows(mark.len()).any(|part| part == mark)
    };
    // What can't be listed is an error of the reader. A pipe would be read away from it.
    let files = corpus_files(data).unwrap_or_default().into_iter();
    let is_text = |file: &PathBuf| {
        let ending = file.extension();
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case("txt")) && file.is_file()
    };
    let texts: Vec<PathBuf> = files.filter(is_text).take(LOOKED_AT.0).collect();
    match (&options.separator, texts.iter().find(|file| holds(file))) {
        (None, Some(file)) => Some(format!(
            "{} has {END_OF_TEXT}, which separates no documents without --separator \"{END_OF_TEXT}\"",
            file.display()
        )),
        (Some(_), None) => texts.first().map(|file| {
            format!(
                "what --separator names is not in the first {} bytes of {}; a text without it is one document",
                LOOKED_AT.1,
                file.display()
            )
        }),
        _ => None,
    }
}

/// Reads a whole corpus. Without --skip-unreadable, an unreadable file is an error that names every such
/// file; with it, they are named on stderr.
pub(in crate::audit) fn documents(path: &Path, options: &ReadOptions) -> Result<Vec<Document>> {
    hint_separator(path, options);
    let (documents, mut errors) = read_readable(path, options)?;
    if options.skip_unreadable && !documents.is_empty() {
        errors.iter().for_each(warn);
        return Ok(documents);
    }
    match errors.pop() {
        None => Ok(documents),
        Some(only) if errors.is_empty() => Err(only.into()),
        Some(last) => {
            errors.push(last);
            Err(Error::Several(errors).into())
        }
    }
}

/// Reads the documents of a file to measure. Lines of `train.jsonl` and `test.jsonl` are read as they were prepared; a
/// literal `<MASK>` in other text stays text, and is noted.
pub(in crate::audit) fn to_measure(path: &Path, options: &ReadOptions) -> Result<Vec<Document>> {
    let options = ReadOptions {
        prepared: true,
        ..options.clone()
    };
    let found = documents(path, &options)?;
    let literal =
        |document: &&Document| document.masked.is_empty() && document.text.contains(MASK_TEXT);
    let count = found.iter().filter(literal).count() as u64;
    if count > 0 {
        note(&format!(
            "{}: {} with a literal {MASK_TEXT}, which is read as ordinary characters, as audit prepare reads it; masks are \
             read of a prepared folder, and of unchanged lines of its train.jsonl and test.jsonl",
            path.display(),
            count_of(count, "document")
        ));
    }
    Ok(found)
}

/// Reports on stderr which file is left out, and why.
pub(in crate::audit) fn warn(error: &Error) {
    note(&format!("left out: {error}"));
}

/// Returns the lines of a list of secrets with their numbers from 1, without blank lines and duplicates.
pub(in crate::audit) fn list(path: &Path) -> Result<Vec<(u64, String)>> {
    use anyhow::ensure;
    let text = crate::contract::read_named_text(path)?;
    let mut seen = std::collections::HashSet::new();
    let lines = (1..).zip(text.lines().map(str::trim));
    let out: Vec<(u64, String)> = lines
        .filter(|(_, line)| !line.is_empty() && seen.insert(*line))
        .map(|(number, line)| (number, line.to_owned()))
        .collect();
    ensure!(!out.is_empty(), "{}: no secret in it", path.display());
    Ok(out)
}

/// Does resumable work over a corpus, which stops on an interruption, with a progress line. Returns what was made and
/// the bytes that an interrupted run had processed.
pub(in crate::audit) fn watched<T>(
    size: u64,
    work: &'static str,
    interrupt: &Interrupt,
    make: impl FnOnce(&dyn Fn(Phase, u64) -> bool) -> T,
) -> (T, u64) {
    let bar = RefCell::new(WorkBar {
        size,
        work,
        phase: None,
        line: Progress::bytes(size, work),
        before: 0,
    });
    let made = make(&|phase, read| {
        bar.borrow_mut().at(phase, read);
        !interrupt.raised()
    });
    (made, bar.into_inner().before)
}

/// The progress line of resumable work.
struct WorkBar {
    size: u64,
    /// The name of the work itself.
    work: &'static str,
    phase: Option<Phase>,
    line: Progress,
    /// The bytes that an interrupted run had processed.
    before: u64,
}

impl WorkBar {
    fn at(&mut self, phase: Phase, read: u64) {
        if let Phase::Restart(cause) = phase {
            note(&format!("note: {cause}; this one starts over"));
            return;
        }
        if self.phase != Some(phase) {
            self.phase = Some(phase);
            self.line = Progress::bytes(self.size, self.said(phase));
            if phase == Phase::Prepare {
                self.line.begins_at(self.before);
            }
        }
        if phase == Phase::Resume {
            self.before = read;
        }
        self.line.at(read);
    }

    /// Returns the text of the progress line.
    const fn said(&self, phase: Phase) -> &'static str {
        match phase {
            Phase::Survey => "looking through",
            Phase::Secrets => "finding secrets",
            Phase::Canaries => "placing canaries",
            Phase::Duplicates => "finding repetitions",
            Phase::Prepare | Phase::Restart(_) => self.work,
            Phase::Resume => "reading again",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two documents with a mark between them are one record without --separator: only then, and in plain text, is it said.
    #[test]
    fn a_separator_that_is_not_named_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("two.txt");
        std::fs::write(&text, "one<|endoftext|>two").unwrap();
        let lines = folder.path().join("two.jsonl");
        std::fs::write(&lines, "{\"text\":\"one<|endoftext|>two\"}\n").unwrap();
        let mut options = ReadOptions::default();
        let said =
            |path: &Path, options: &ReadOptions| unseparated(path, options).unwrap_or_default();
        assert!(said(&text, &options).contains("two.txt has <|endoftext|>"));
        assert_eq!(said(folder.path(), &options), said(&text, &options));
        assert_eq!(said(&lines, &options), "");
        options.separator = Some(END_OF_TEXT.to_owned());
        assert_eq!(said(&text, &options), "");
        options.separator = Some("---".to_owned());
        assert!(said(&text, &options).contains("not in the first 65536 bytes of"));
    }

    /// The first secret has none of the byte-order mark; blank lines and copies are left out.
    #[test]
    fn a_list_is_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.txt");
        std::fs::write(&path, "\u{feff}Ada Byron\r\n\n Zed \nAda Byron\n").unwrap();
        let secrets = [(1, "Ada Byron".to_owned()), (3, "Zed".to_owned())];
        assert_eq!(list(&path).unwrap(), secrets);
        std::fs::write(&path, "\u{feff}\n").unwrap();
        let error = list(&path).unwrap_err().to_string();
        assert!(error.ends_with("no secret in it"), "{error}");
    }
}
