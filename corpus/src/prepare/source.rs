//! A corpus that is gone through more than once: in memory, or in files that are opened again.

use super::resume::RestartCause;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::read::{Documents, ReadOptions, regular};
use crate::redaction::until;
use sha1::{Digest, Sha1};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Text of one batch, in bytes: enough that handing it over costs nothing.
const BATCH: usize = 1 << 19;

/// The part a preparation is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Every document is read once, for what depends on all of them.
    Survey,
    /// What the policy finds, of which a simulated miss rate misses a share.
    Secrets,
    /// The documents that canaries are planted in.
    Canaries,
    /// What is a copy of what, where that takes a look at the whole corpus first.
    Duplicates,
    /// The preparation itself.
    Prepare,
    /// What a stopped preparation did is read again, for its duplicates: the next one goes on
    /// behind it.
    Resume,
    /// What a stopped preparation left is of no use: this one begins anew.
    Restart(RestartCause),
}

/// Who is told how far a preparation is: the part, and the bytes of the files read in it. When
/// it says no, the preparation ends.
pub(super) type Watch<'w> = &'w dyn Fn(Phase, u64) -> bool;

/// What a document is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Trained on: its number among those.
    Training(usize),
    /// For evaluation only.
    HeldOut,
}

/// Documents in order, each with its role.
pub(super) type Feed<'a> = Box<dyn FnMut() -> Result<Option<(Role, Cow<'a, Document>)>> + 'a>;

/// Where a corpus is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    Memory(&'a [Document]),
    Files(&'a Path, &'a ReadOptions),
}

/// One way through a corpus.
pub(super) enum Stream<'a> {
    Memory(std::slice::Iter<'a, Document>),
    Files(Box<Documents>),
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

    /// Whether it reads alike a second time: a pipe does not.
    pub(super) fn lasts(self) -> Result<bool> {
        match self {
            Self::Memory(_) => Ok(true),
            Self::Files(path, _) => regular(path),
        }
    }
}

impl<'a> Stream<'a> {
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

    /// Of how many documents of a user the last one is made, where that is known.
    pub(super) fn joined(&self) -> u32 {
        match self {
            Self::Memory(_) => 0,
            Self::Files(documents) => documents.joined(),
        }
    }

    /// What was wrong with the files that were left out.
    pub(super) fn into_skipped(self) -> Vec<Error> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Files(documents) => documents.into_skipped(),
        }
    }
}

/// What was read, in one number: another pass must read the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seal(Sha1);

impl Seal {
    pub(crate) fn enter(&mut self, document: &Document) {
        let mut bytes = |part: &[u8]| {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        };
        bytes(document.id.as_bytes());
        bytes(document.text.as_bytes());
        for secret in &document.secrets {
            bytes(secret.kind.as_bytes());
            bytes(&(secret.start as u64).to_le_bytes());
            bytes(&(secret.end as u64).to_le_bytes());
        }
        if let Some(label) = document.label {
            bytes(&label.to_le_bytes());
        }
        for masked in &document.masked {
            bytes(&(masked.start as u64).to_le_bytes());
            bytes(&(masked.end as u64).to_le_bytes());
        }
        if let Some(answers) = &document.answers {
            bytes(&[u8::from(answers.end)]);
            for span in &answers.spans {
                bytes(&(span.start as u64).to_le_bytes());
                bytes(&(span.end as u64).to_le_bytes());
            }
        }
    }

    /// What belongs to the document that was entered last.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn close(self) -> [u8; 20] {
        self.0.finalize().into()
    }
}

/// Which documents are held out, and what the first way through read.
#[derive(Debug, Default)]
pub(super) struct Division {
    /// By number in the corpus.
    pub(super) held_out: HashSet<usize>,
    pub(super) seal: Option<[u8; 20]>,
}

/// Another way through a corpus, with the canaries in place, and with an error at the end when
/// it was not what the first one read. `planted`: documents with canaries, by number among those
/// trained on; `read` is told how many bytes of the files have been read.
pub(super) fn again<'a>(
    source: Source<'a>,
    division: &'a Division,
    planted: Option<&'a HashMap<usize, Document>>,
    read: &'a Cell<u64>,
) -> Result<Feed<'a>> {
    let mut stream = source.open()?;
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
        if division.held_out.contains(&(number - 1)) {
            return Ok(Some((Role::HeldOut, document)));
        }
        training += 1;
        let planted = planted.and_then(|p| p.get(&(training - 1)));
        let document = planted.map_or(document, Cow::Borrowed);
        Ok(Some((Role::Training(training - 1), document)))
    }))
}

/// Gives the documents to `threads` workers in batches, and what they make of them to `emit`, in
/// order. False when `emit` said that this was enough. While it is asked, `read` says what had been
/// read when its batch was: by then others are under way.
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
