//! The survey: one pass over every document, for what must be known about the whole corpus before its first record.

use super::source::{Phase, Seal, Source, Stream, Watch};
use crate::canary::{gaps, speaks};
use crate::document::Document;
use crate::error::{Error, Result};

/// A callback that receives every document and the stream that it comes from.
pub(super) type Seen<'s> = &'s mut dyn FnMut(&Document, &Stream<'_>);

/// What the survey keeps of a document: 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Whether a secret other than a canary is marked in it.
    pub(super) marked: bool,
    /// Whether a span was masked beforehand.
    pub(super) masked: bool,
    /// Whether it contains a line spoken by a user.
    pub(super) speaks: bool,
    /// The number of a user's documents that it was joined from.
    pub(super) joined: u32,
    /// The number of lines before which another line may be inserted.
    pub(super) gaps: u64,
}

impl Look {
    /// `places` says whether canaries are to be planted.
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

/// The results of the survey.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) looks: Vec<Look>,
    pub(super) seal: Option<[u8; 20]>,
    /// The errors of the files that were skipped.
    pub(super) skipped: Vec<Error>,
}

impl Survey {
    /// Surveys the corpus. Returns `None` if `watch` returned false. Errors name every file that cannot be read. `seen`
    /// is called with every document and the stream that it comes from.
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
