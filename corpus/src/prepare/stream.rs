//! Prepares a corpus of any size from files into a folder.

use super::context::PreparationContext;
use super::facts::Facts;
use super::options::PrepareOptions;
use super::pace::Pace;
use super::resume::{DoneNow, Identity};
use super::run::{Pass, Put};
use super::shards::Key;
use super::sink::Sink;
use super::source::{Phase, Source, again};
use crate::canary::{CanaryPlan, SeedOrigin};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::folder::{FolderWriter, Lines, OutputFolder, Start, lines};
use crate::read::{Documents, ReadOptions, read_readable};
use crate::redaction::checked_threads;
use crate::tokenize::Tokenizer;
use std::borrow::Cow;
use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

/// Prepares a corpus from files.
///
/// The resulting folder equals the one that [`crate::prepare::Prepared::write`] makes from the same documents, byte for
/// byte, whatever the number of threads. Text is streamed. Memory holds, for each distinct unit, the SHA-1 of what
/// exact copies share: text, marks, class and where loss is (20 bytes, up to 50 in the table); before that, for each
/// document, a digest of its id and what the survey keeps of it (up to 160); for each distinct secret, a digest and counts
/// (about 100); the documents that canaries are planted in; and some batches. A simulated miss rate also keeps every distinct
/// string that the policy finds. Detection of near-duplicates keeps, for each unit that is kept, 10 to 15 bytes for
/// each band, and its tokens (one byte for a token below 128, at most five). Detection of repeated stretches keeps, during
/// the search, tables of three eighths of a byte for each token, at least 100 MiB, and one bit for each token, also
/// after it, and 8 bytes for each unit and document; the tokens themselves (one byte each if at most 255 differ, as with
/// characters; two up to 65 535, else four) lie in a file without a name on the disk of the output, once they are more
/// than 64 MiB.
///
/// The files are read more than once and must not change meanwhile; a change is reported as an error at the end. Input
/// that cannot be read twice, such as a pipe, is kept in memory.
#[derive(Debug, Clone, Copy)]
pub struct PrepareFiles<'a> {
    /// A file or folder, as [`Documents`] reads it.
    pub data: &'a Path,
    /// How it is read.
    pub reading: &'a ReadOptions,
    /// The options of the preparation.
    pub options: &'a PrepareOptions,
    /// The number of threads, from 1 to 1024.
    pub threads: usize,
    /// The least time between checkpoints, and so the amount of work that a crash loses. Zero means a checkpoint after
    /// every batch of half a megabyte.
    pub pause: Duration,
    /// The owner's key, under which the finished folder is authenticated; none: it is not.
    pub owner: Option<[u8; 32]>,
}

/// The result of a preparation into a folder.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// What the preparation did, in numbers.
    pub facts: Facts,
    /// The options of the preparation.
    pub options: PrepareOptions,
    /// The canaries, if any were planted.
    pub plan: Option<CanaryPlan>,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// How many documents a stopped preparation had completed, if this one resumed from it.
    pub taken_up: Option<u64>,
}

impl PrepareFiles<'_> {
    /// Returns whether a stopped preparation of a folder lies beside it.
    #[must_use]
    pub fn stopped(folder: &Path) -> bool {
        OutputFolder::stopped(folder)
    }

    /// Returns the total size of the files in bytes.
    ///
    /// # Errors
    /// As for [`Documents::open`].
    pub fn size(&self) -> Result<u64> {
        Ok(Documents::with(self.data, self.reading)?.size())
    }

    /// Prepares the corpus into a folder, which appears under its name only when it is complete. `force` allows
    /// replacing a folder that holds a prepared corpus, but nothing else.
    ///
    /// `watch` is called with the current phase and the number of bytes of the files read in it; if it returns false,
    /// the result is `None`. What was prepared by then remains in a hidden folder beside the output, `.preparing-NAME`,
    /// as after a crash or on a full disk. The next call for the same folder resumes there, and produces the same
    /// bytes, if version, options, policy, tokenizer, corpus and owner's key are the same; otherwise it reports the reason
    /// ([`Phase::Restart`]) and starts over. In any case, the corpus is read once more, and the part that was done is
    /// tokenised again, but no policy is applied to that part again. The result includes the errors of files that were
    /// skipped under [`ReadOptions::skip_unreadable`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use reticent_corpus::prepare::{PrepareFiles, PrepareOptions, Prepared, prepare};
    /// use reticent_corpus::read::ReadOptions;
    /// let place = tempfile::tempdir()?;
    /// let data = place.path().join("a.txt");
    /// std::fs::write(&data, "my number is 415-555-0123\n\nmy number is 415-555-0123\n")?;
    /// let (reading, options) = (ReadOptions::default(), PrepareOptions::default());
    /// let files = PrepareFiles { data: &data, reading: &reading, options: &options, threads: 2, pause: Duration::from_secs(10), owner: None };
    /// let (made, _) = files.write(&place.path().join("out"), false, &|_, _| true)?.unwrap();
    /// assert_eq!((made.facts.units, made.facts.duplicates), (2, 1));
    /// let read = Prepared::load(&place.path().join("out"), None)?;
    /// assert_eq!(read.training, prepare(&reticent_corpus::read::read_documents(&data)?, &options)?.training);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`crate::prepare::prepare`]. Also returns the errors of [`Documents`], for a folder those of every file
    /// that cannot be read; [`Error::Changed`]; and an error if the output folder is not empty or cannot be written.
    pub fn write(
        &self,
        folder: &Path,
        force: bool,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<Option<(Preparation, Vec<Error>)>> {
        let threads = checked_threads(self.threads)?;
        let files = Source::Files(self.data, self.reading);
        if files.lasts()? {
            return self.write_from(files, threads, folder, force, watch);
        }
        let (documents, errors) = self.kept()?;
        let memory = Source::Memory(&documents);
        let made = self.write_from(memory, threads, folder, force, watch)?;
        Ok(made.map(|(made, _)| (made, errors)))
    }

    /// Reads input that cannot be read twice into memory.
    fn kept(&self) -> Result<(Vec<Document>, Vec<Error>)> {
        let (documents, errors) = read_readable(self.data, self.reading)?;
        if errors.is_empty() || (self.reading.skip_unreadable && !documents.is_empty()) {
            return Ok((documents, errors));
        }
        Err(Error::several(errors))
    }

    fn write_from(
        &self,
        source: Source<'_>,
        threads: usize,
        folder: &Path,
        force: bool,
        watch: &dyn Fn(Phase, u64) -> bool,
    ) -> Result<Option<(Preparation, Vec<Error>)>> {
        let owner = self.owner.map(Key::new);
        // Done first, so that an output that cannot be written is reported before any work.
        let place = OutputFolder::take(folder, force)?;
        let mut options = self.options.clone();
        if let Some(canaries) = &mut options.canaries
            && canaries.seed_origin == SeedOrigin::System
        {
            // A resumed preparation uses the seed that it drew first.
            canaries.seed = place.seed(canaries.seed, owner.as_ref())?;
        }
        let Some((context, skipped)) =
            PreparationContext::new(source, &options, None, threads, watch, None)?
        else {
            return Ok(None);
        };
        let held_out = context.corpus.held_out > 0;
        let (out, start) = match Identity::of(&context)? {
            Some(identity) => place.take_up(identity, held_out, owner.as_ref())?,
            None => (place.begin(held_out, owner.as_ref())?, Start::Fresh),
        };
        let (done, say) = match start {
            Start::Fresh => (None, None),
            Start::Restart(cause) => (None, Some(Phase::Restart(cause))),
            Start::On(done) => (Some(*done), Some(Phase::Resume)),
        };
        let taken_up = done.as_ref().map(|done| done.documents);
        let read = Cell::new(0);
        let mut sink = Written {
            out,
            read: &read,
            watch,
            pace: Pace::new(self.pause),
        };
        if say.is_some_and(|passage| !watch(passage, 0)) {
            sink.out.stop();
            return Ok(None);
        }
        let scratch = sink.out.path().to_path_buf();
        let pass = Pass {
            context: &context,
            corpus: context.corpus,
            threads,
            open: &|| again(source, &context.division, Some(&context.planted), &read),
            read: &read,
            scratch: Some(&scratch),
            form: |record, text: Cow<'_, str>| lines(&record, &text, context.options.loss_on),
        };
        let facts = match pass.run(done, &mut sink) {
            Ok(Some(facts)) => facts,
            Ok(None) => {
                sink.out.stop();
                return Ok(None);
            }
            Err(error) => {
                // The disk is full: the state can be resumed once there is room.
                if matches!(error, Error::Write { .. }) {
                    sink.out.stop();
                }
                return Err(error);
            }
        };
        let made = Preparation {
            facts,
            options: context.options.clone(),
            plan: context.plan.clone(),
            tokenizer: context.tokenizer.clone(),
            taken_up,
        };
        sink.out.finish(&made)?;
        Ok(Some((made, skipped)))
    }
}

/// Writes records into a folder.
struct Written<'a> {
    out: FolderWriter,
    read: &'a Cell<u64>,
    watch: &'a dyn Fn(Phase, u64) -> bool,
    pace: Pace,
}

impl Sink<Lines> for Written<'_> {
    fn put(&mut self, put: Put, lines: Lines) -> Result<()> {
        self.out.put(put, lines.parts())
    }

    fn go_on(&self, passage: Phase) -> bool {
        (self.watch)(passage, self.read.get())
    }

    fn between(&mut self, done: &DoneNow<'_>, last: bool) -> Result<()> {
        if self.out.lasts() && (last || self.pace.is_due()) {
            let out = &mut self.out;
            return self.pace.keep(|| out.checkpoint(done));
        }
        Ok(())
    }
}
