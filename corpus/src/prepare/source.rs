//! A corpus that is read more than once: from memory, or from files that are opened again.

use super::held_out::HeldOut;
use super::resume::RestartCause;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::read::{Documents, Place, ReadOptions, regular};
use crate::redaction::until;
use crate::rows::Scratch;
use sha1::{Digest, Sha1};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;

/// The size of a batch's text, in bytes: large enough that the cost of handing it over is
/// negligible.
pub(super) const BATCH: usize = 1 << 19;

/// The phase of a preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reads every document once for the choices that depend on all of them.
    Survey,
    /// Collects what the policy finds, a share of which the simulated policy misses.
    Secrets,
    /// Reads the documents that canaries are planted in.
    Canaries,
    /// Finds duplicates, if this needs a pass over the whole corpus.
    Duplicates,
    /// Prepares the records.
    Prepare,
    /// Reads the part again that a stopped preparation had done, for its duplicates, before
    /// resuming after it.
    Resume,
    /// Starts over, because the state of a stopped preparation cannot be used.
    Restart(RestartCause),
}

/// The progress callback of a preparation: it receives the phase and the number of bytes of the
/// files read in it. If it returns false, the preparation ends.
pub(super) type Watch<'w> = &'w dyn Fn(Phase, u64) -> bool;

/// The use of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Training, with its number among the training documents.
    Training(usize),
    /// Evaluation only, with its number among the held-out documents.
    HeldOut(usize),
}

/// Documents in order, each with its role.
pub(super) type Feed<'a> = Box<dyn FnMut() -> Result<Option<(Role, Cow<'a, Document>)>> + 'a>;

/// The location of a corpus.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    Memory(&'a [Document]),
    Files(&'a Path, &'a ReadOptions),
}

/// One pass over the documents of a corpus.
pub(super) enum Stream<'a> {
    Memory(std::slice::Iter<'a, Document>),
    Files(Box<Documents>),
}

/// Where a document of files stands, recognised by what follows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stands {
    /// The place from which the next document is read.
    pub(super) next: Place,
    /// The number of bytes before that.
    pub(super) before_next: u64,
}

impl<'a> Source<'a> {
    pub(super) fn open(self) -> Result<Stream<'a>> {
        Ok(match self {
            Self::Memory(documents) => Stream::Memory(documents.iter()),
            Self::Files(path, reading) => Stream::Files(Box::new(Documents::with(path, reading)?)),
        })
    }

    fn changed(self) -> Error {
        let path = match self {
            Self::Memory(_) => Path::new(""),
            Self::Files(path, _) => path,
        };
        Error::Changed {
            path: path.to_path_buf(),
        }
    }

    /// Returns whether the corpus can be read twice; a pipe cannot.
    pub(super) fn lasts(self) -> Result<bool> {
        match self {
            Self::Memory(_) => Ok(true),
            Self::Files(path, _) => regular(path),
        }
    }
}

impl<'a> Stream<'a> {
    /// As [`Documents::sorting_ids`].
    pub(super) fn sorting_ids(self, scratch: Scratch<'_>, key: [u8; 20]) -> Self {
        match self {
            Self::Files(documents) => Self::Files(Box::new(documents.sorting_ids(scratch, key))),
            memory => memory,
        }
    }

    /// As [`Documents::with_known_ids`].
    fn with_known_ids(self) -> Self {
        match self {
            Self::Files(documents) => Self::Files(Box::new(documents.with_known_ids())),
            memory => memory,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Cow<'a, Document>>> {
        match self {
            Self::Memory(documents) => Ok(documents.next().map(Cow::Borrowed)),
            Self::Files(documents) => Ok(documents.next().transpose()?.map(Cow::Owned)),
        }
    }

    pub(super) fn read(&self) -> u64 {
        match self {
            Self::Memory(_) => 0,
            Self::Files(documents) => documents.bytes_read(),
        }
    }

    /// Returns where the last document stands.
    pub(super) fn stands(&self) -> Stands {
        match self {
            Self::Memory(_) => Stands::default(),
            Self::Files(documents) => Stands {
                next: documents.place(),
                before_next: documents.bytes_before(),
            },
        }
    }

    /// Returns the number of documents that the last one, a user's, was joined from, if known.
    pub(super) fn joined(&self) -> u32 {
        match self {
            Self::Memory(_) => 0,
            Self::Files(documents) => documents.joined(),
        }
    }

    /// Returns the errors of the files that were skipped.
    pub(super) fn into_skipped(self) -> Vec<Error> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Files(documents) => documents.into_skipped(),
        }
    }
}

/// A digest of the documents that were read; another pass must produce the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seal(Sha1);

impl Seal {
    pub(crate) fn enter(&mut self, document: &Document) {
        self.bytes(document.id.as_bytes());
        self.bytes(document.text.as_bytes());
        for secret in &document.secrets {
            self.bytes(secret.kind.as_bytes());
            self.span(secret.start, secret.end);
        }
        if let Some(label) = document.label {
            self.bytes(&label.to_le_bytes());
        }
        for masked in &document.masked {
            self.span(masked.start, masked.end);
        }
        if let Some(answers) = &document.answers {
            self.bytes(&[u8::from(answers.end)]);
            for span in &answers.spans {
                self.span(span.start, span.end);
            }
        }
    }

    fn span(&mut self, start: usize, end: usize) {
        self.bytes(&(start as u64).to_le_bytes());
        self.bytes(&(end as u64).to_le_bytes());
    }

    /// Adds bytes that belong to the document entered last.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn close(self) -> [u8; 20] {
        self.0.finalize().into()
    }
}

/// Which documents are held out, and the seal of the first pass.
#[derive(Debug, Default)]
pub(super) struct Division {
    /// The numbers of the held-out documents in the corpus.
    pub(super) held_out: HeldOut,
    pub(super) seal: Option<[u8; 20]>,
}

/// Reads a corpus again, with the canaries in place. Returns an error at the end if its content
/// differs from the first pass. `planted` contains the documents with canaries, by number among the
/// training documents; `read` is set to the number of bytes of the files that have been read.
pub(super) fn again<'a>(
    source: Source<'a>,
    division: &'a Division,
    planted: Option<&'a HashMap<usize, Document>>,
    read: &'a Cell<u64>,
) -> Result<Feed<'a>> {
    let mut stream = source.open()?;
    if division.seal.is_some() {
        stream = stream.with_known_ids();
    }
    let (mut number, mut training) = (0, 0);
    let mut seal = division.seal.map(|_| Seal::default());
    Ok(Box::new(move || {
        let next = stream.next()?;
        read.set(stream.read());
        let Some(document) = next else {
            let same = seal.take().is_none_or(|s| Some(s.close()) == division.seal);
            return if same {
                Ok(None)
            } else {
                Err(source.changed())
            };
        };
        if let Some(seal) = &mut seal {
            seal.enter(&document);
        }
        number += 1;
        if division.held_out.contains(number - 1) {
            return Ok(Some((Role::HeldOut(number - 1 - training), document)));
        }
        training += 1;
        let planted = planted.and_then(|p| p.get(&(training - 1)));
        let document = planted.map_or(document, Cow::Borrowed);
        Ok(Some((Role::Training(training - 1), document)))
    }))
}

/// Passes the documents in batches to `threads` workers, and their results in order to `emit`.
/// Returns false if `emit` returned false. During each call of `emit`, `read` is the position at
/// which its batch was read, although later batches are already being processed.
pub(super) fn batches<T: Send>(
    feed: &mut Feed<'_>,
    threads: usize,
    read: &Cell<u64>,
    work: impl Fn(&[(Role, Cow<'_, Document>)]) -> Result<T> + Sync,
    mut emit: impl FnMut(T) -> Result<bool>,
) -> Result<bool> {
    until(
        threads,
        || {
            let mut batch = Vec::new();
            let mut bytes = 0;
            while bytes < BATCH {
                let Some(next) = feed()? else { break };
                bytes += next.1.text.len() + 64;
                batch.push(next);
            }
            Ok((!batch.is_empty()).then_some((batch, read.get())))
        },
        |batch| work(&batch),
        |made, at| {
            read.set(at);
            emit(made)
        },
    )
}
