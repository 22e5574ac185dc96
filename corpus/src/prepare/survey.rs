//! What is to be known of a whole corpus before its first record: one look at every document.

use super::source::{Phase, Seal, Source, Stream, Watch};
use crate::canary::{gaps, speaks};
use crate::document::Document;
use crate::error::{Error, Result};

/// Who is told every document, and the stream behind it.
pub(super) type Seen<'s> = &'s mut dyn FnMut(&Document, &Stream<'_>);

/// What is kept of a document: 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Whether a secret is marked in it that is no canary.
    pub(super) marked: bool,
    /// Whether a span was masked beforehand.
    pub(super) masked: bool,
    /// Whether it has a line of a user's.
    pub(super) speaks: bool,
    /// Of how many documents of a user it is made.
    pub(super) joined: u32,
    /// Before how many lines another may be put.
    pub(super) gaps: u64,
}

impl Look {
    /// `places`: whether canaries are to be planted.
    pub(super) fn at(document: &Document, joined: u32, places: bool) -> Self {
        Self {
            marked: document.marked(),
            masked: !document.masked.is_empty(),
            speaks: places && speaks(document),
            joined,
            gaps: if places {
                gaps(document).len() as u64
            } else {
                0
            },
        }
    }
}

/// A look at every document.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) looks: Vec<Look>,
    pub(super) seal: Option<[u8; 20]>,
    /// What was wrong with the files that were left out.
    pub(super) skipped: Vec<Error>,
}

impl Survey {
    /// None when `watch` said no. Every file that cannot be read is named. `seen` is told every document, and the
    /// stream behind it.
    pub(super) fn of(
        source: Source<'_>,
        places: bool,
        watch: Watch<'_>,
        mut seen: Option<Seen<'_>>,
    ) -> Result<Option<Self>> {
        let mut stream = source.open()?;
        let mut seal = matches!(source, Source::Files(..)).then(Seal::default);
        let mut errors = Vec::new();
        let mut out = Self::default();
        let mut blank = true;
        loop {
            let document = match stream.next() {
                Ok(Some(document)) => document,
                Ok(None) => break,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            if let Some(seal) = &mut seal {
                seal.enter(&document);
            }
            blank &= document.text.trim().is_empty();
            out.looks.push(Look::at(&document, stream.joined(), places));
            if let Some(seen) = &mut seen {
                seen(&document, &stream);
            }
            if out.looks.len().is_multiple_of(1024) && !watch(Phase::Survey, stream.read()) {
                return Ok(None);
            }
        }
        let skipped = stream.into_skipped();
        if let Source::Files(path, _) = source
            && blank
            && errors.is_empty()
            && skipped.is_empty()
        {
            errors.push(Error::EmptyCorpus {
                path: path.to_path_buf(),
            });
        }
        if out.looks.is_empty() {
            errors.extend(skipped);
        } else {
            out.skipped = skipped;
        }
        match errors.len() {
            0 => {
                out.seal = seal.map(Seal::close);
                Ok(Some(out))
            }
            1 => Err(errors.remove(0)),
            _ => Err(Error::Several(errors)),
        }
    }
}
