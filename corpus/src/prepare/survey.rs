//! The survey: one pass over every document, for what must be known about the whole corpus before its first record.

use super::source::{BATCH, Phase, Seal, Source, Stands, Stream, Watch};
use crate::canary::{gaps, speaks};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::rows::{Rows, Scratch};
use std::borrow::Cow;
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;

/// A callback that receives every document and where it stands.
pub(super) type Seen<'s> = &'s mut (dyn FnMut(&Document, &Stands) + Send);

/// What is made of a survey for a plan of shards.
pub(super) struct Planning<'s> {
    pub(super) seen: Seen<'s>,
    /// Where that lies of which there may be more than fits in memory.
    pub(super) scratch: Scratch<'s>,
    /// Keys the digests of ids that lie there.
    pub(super) key: [u8; 20],
}

/// The number of batches that are read ahead.
const AHEAD: usize = 2;

/// What the survey keeps of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Whether a secret is marked in it. Canaries are planted later.
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
            marked: !document.secrets.is_empty(),
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

impl Look {
    /// The number of its bytes.
    const SIZE: usize = 1 + 4 + 8;

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        let flags = [self.marked, self.masked, self.speaks];
        out[0] = (0..)
            .zip(flags)
            .map(|(at, flag)| u8::from(flag) << at)
            .sum();
        out[1..5].copy_from_slice(&self.joined.to_le_bytes());
        out[5..].copy_from_slice(&self.gaps.to_le_bytes());
        out
    }

    fn of_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let (mut joined, mut gaps) = ([0; 4], [0; 8]);
        joined.copy_from_slice(&bytes[1..5]);
        gaps.copy_from_slice(&bytes[5..]);
        Self {
            marked: bytes[0] & 1 > 0,
            masked: bytes[0] & 2 > 0,
            speaks: bytes[0] & 4 > 0,
            joined: u32::from_le_bytes(joined),
            gaps: u64::from_le_bytes(gaps),
        }
    }
}

/// The results of the survey.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// What is kept of each document, as bytes.
    looks: Rows<{ Look::SIZE }>,
    pub(super) seal: Option<[u8; 20]>,
    /// The errors of the files that were skipped.
    pub(super) skipped: Vec<Error>,
}

/// A document that was read.
struct Read<'a> {
    document: Cow<'a, Document>,
    joined: u32,
    stands: Stands,
}

/// What looks at the documents, in order.
struct Looker<'s> {
    looks: Rows<{ Look::SIZE }>,
    /// Why something could not be kept.
    failed: Option<Error>,
    seal: Option<Seal>,
    /// Whether no document so far has text.
    blank: bool,
    places: bool,
    seen: Option<Seen<'s>>,
}

impl Looker<'_> {
    fn at(&mut self, read: &Read<'_>) {
        let document = &read.document;
        if let Some(seal) = &mut self.seal {
            seal.enter(document);
        }
        self.blank &= document.text.trim().is_empty();
        let look = Look::at(document, read.joined, self.places);
        self.failed = self.looks.push(&look.to_bytes()).err();
        if let Some(seen) = &mut self.seen {
            seen(document, &read.stands);
        }
    }

    /// Looks at documents until something cannot be kept. Returns whether all was.
    fn all<'a>(&mut self, reads: impl IntoIterator<Item = Read<'a>>) -> bool {
        reads.into_iter().all(|read| {
            self.at(&read);
            self.failed.is_none()
        })
    }
}

/// Passes all documents to `look`, in batches, as long as it returns true. Returns false if `watch` returned false.
fn read_all<'a>(
    stream: &mut Stream<'a>,
    errors: &mut Vec<Error>,
    watch: Watch<'_>,
    look: &mut dyn FnMut(Vec<Read<'a>>) -> bool,
) -> bool {
    let (mut batch, mut bytes, mut count) = (Vec::new(), 0, 0u64);
    loop {
        let document = match stream.next() {
            Ok(Some(document)) => document,
            Ok(None) => break,
            Err(error) => {
                // A full disk is full for the next documents too.
                let ends = matches!(error, Error::Write { .. });
                errors.push(error);
                if ends {
                    return true;
                }
                continue;
            }
        };
        bytes += document.text.len() + 64;
        batch.push(Read {
            document,
            joined: stream.joined(),
            stands: stream.stands(),
        });
        if bytes >= BATCH {
            bytes = 0;
            if !look(std::mem::take(&mut batch)) {
                return true;
            }
        }
        count += 1;
        if count.is_multiple_of(1024) && !watch(Phase::Survey, stream.read()) {
            return false;
        }
    }
    look(batch);
    true
}

impl Survey {
    /// Returns the number of documents.
    pub(super) fn documents(&self) -> usize {
        usize::try_from(self.looks.len()).unwrap_or(usize::MAX)
    }

    /// Returns what is kept of each document, in order.
    pub(super) fn looks(&self) -> impl Iterator<Item = Result<Look>> {
        let looks = self.looks.all();
        looks.map(|look| look.map(|bytes| Look::of_bytes(&bytes)))
    }

    /// Surveys the corpus. Returns `None` if `watch` returned false. Errors name every file that cannot be read. For a
    /// plan, `seen` is called with every document and where it stands. With more than one of `threads`, another one looks at the
    /// documents while the next ones are read.
    pub(super) fn of(
        source: Source<'_>,
        places: bool,
        threads: usize,
        watch: Watch<'_>,
        planning: Option<Planning<'_>>,
    ) -> Result<Option<Self>> {
        let mut stream = source.open()?;
        let scratch = planning.as_ref().map(|planning| planning.scratch);
        if let Some(Planning { scratch, key, .. }) = &planning {
            stream = stream.sorting_ids(*scratch, *key);
        }
        let seen = planning.map(|planning| planning.seen);
        let mut errors = Vec::new();
        // The stages of a plan verify the documents shard by shard; a plan itself reads them again for canaries only.
        let sealed = matches!(source, Source::Files(..)) && (seen.is_none() || places);
        let mut looker = Looker {
            looks: Rows::new(scratch),
            failed: None,
            seal: sealed.then(Seal::default),
            blank: true,
            places,
            seen,
        };
        let whole = if threads == 1 {
            read_all(&mut stream, &mut errors, watch, &mut |batch| {
                looker.all(batch)
            })
            .then_some(looker)
        } else {
            std::thread::scope(|scope| {
                let (give, take) = sync_channel::<Vec<Read<'_>>>(AHEAD);
                let looking = scope.spawn(move || {
                    looker.all(take.into_iter().flatten());
                    looker
                });
                let whole = read_all(&mut stream, &mut errors, watch, &mut |batch| {
                    // The other thread takes all there is, unless it fails or panics, which it says when it is joined.
                    give.send(batch).is_ok()
                });
                drop(give);
                whole.then(|| looking.join().unwrap_or_else(|panic| resume_unwind(panic)))
            })
        };
        let Some(Looker {
            looks,
            failed,
            seal,
            blank,
            ..
        }) = whole
        else {
            return Ok(None);
        };
        errors.extend(failed);
        let mut out = Self {
            looks,
            ..Self::default()
        };
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
        if out.looks.len() == 0 {
            errors.extend(skipped);
        } else {
            out.skipped = skipped;
        }
        if !errors.is_empty() {
            return Err(Error::several(errors));
        }
        out.seal = seal.map(Seal::close);
        Ok(Some(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::ReadOptions;
    use crate::simulate::simulate;

    /// The rest of the corpus is not read for nothing.
    #[test]
    fn a_disk_that_is_gone_ends_the_survey() {
        let place = tempfile::tempdir().unwrap();
        let documents = simulate(400, 3).unwrap();
        let path = place.path().join("a.jsonl");
        let lines = documents.iter();
        let lines = lines.map(|d| serde_json::to_string(d).unwrap() + "\n");
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        let (folder, reading) = (place.path().join("gone"), ReadOptions::default());
        let sources = [Source::Files(&path, &reading), Source::Memory(&documents)];
        for (source, threads) in sources.into_iter().flat_map(|s| [(s, 1), (s, 2)]) {
            let mut seen = 0;
            let planning = Planning {
                seen: &mut |_, _| seen += 1,
                scratch: Scratch {
                    folder: &folder,
                    most: 1,
                },
                key: [7; 20],
            };
            let survey = Survey::of(source, false, threads, &|_, _| true, Some(planning));
            assert!(matches!(survey, Err(Error::Write { .. })), "{survey:?}");
            assert!(seen <= 1, "{threads} {seen}");
        }
    }
}
