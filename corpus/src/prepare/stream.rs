//! Preparing a corpus of any size from files into a folder.

use super::facts::Facts;
use super::options::PrepareOptions;
use super::run::Pass;
use super::settled::Settled;
use super::source::{Passage, Source, again};
use crate::canary::CanaryPlan;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::folder::{FolderWriter, lines};
use crate::read::{Documents, ReadOptions, read_readable};
use crate::sweep::checked_threads;
use crate::tokenize::Tokenizer;
use std::cell::Cell;
use std::path::Path;

/// How a corpus is prepared from files.
///
/// The folder is the one that [`crate::Prepared::write`] makes of the same documents, byte for
/// byte, whatever the number of threads. Text goes through; what is kept in memory is, for each
/// unit that differs, the SHA-1 of its tokens (20 bytes, about 40 in the table), for each
/// document a digest of its id and what was seen of it (about 80), for each distinct secret a
/// digest and counts (about 100), the documents that canaries are planted in, and some batches.
/// A simulated miss rate keeps every distinct string that the policy finds; near-duplicates keep
/// the tokens of the units that stay, repeated stretches those of all units.
///
/// The files are read more than once, and must not change meanwhile: that is an error at the
/// end. What cannot be read twice, such as a pipe, is kept in memory.
#[derive(Debug, Clone, Copy)]
pub struct PrepareFiles<'a> {
    /// A file or folder, as [`Documents`] reads it.
    pub data: &'a Path,
    /// How it is read.
    pub reading: &'a ReadOptions,
    /// How it is prepared.
    pub options: &'a PrepareOptions,
    /// How many threads work, from 1 to 1024.
    pub threads: usize,
}

/// What was prepared into a folder.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// What was done, in numbers.
    pub facts: Facts,
    /// What was asked for.
    pub options: PrepareOptions,
    /// The canaries, if any were planted.
    pub plan: Option<CanaryPlan>,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
}

impl PrepareFiles<'_> {
    /// How many bytes the files have.
    ///
    /// # Errors
    /// As [`Documents::open`].
    pub fn size(&self) -> Result<u64> {
        Ok(Documents::with(self.data, self.reading)?.size())
    }

    /// Prepares the corpus into a folder, which appears under its name when it is complete.
    /// `force` allows replacing one that holds a prepared corpus, and nothing else.
    ///
    /// `watch` is told the part it is at, and how many bytes of the files have been read in it;
    /// when it says no, nothing is left, and the result is none. With the result come the errors
    /// of files that were left out, if [`ReadOptions::skip_unreadable`] asked for that.
    ///
    /// ```
    /// use reticent_corpus::{PrepareFiles, PrepareOptions, Prepared, ReadOptions, prepare};
    /// let place = tempfile::tempdir()?;
    /// let data = place.path().join("a.txt");
    /// std::fs::write(&data, "my number is 415-555-0123\n\nmy number is 415-555-0123\n")?;
    /// let (reading, options) = (ReadOptions::default(), PrepareOptions::default());
    /// let files = PrepareFiles { data: &data, reading: &reading, options: &options, threads: 2 };
    /// let (made, _) = files.write(&place.path().join("out"), false, &|_, _| true)?.unwrap();
    /// assert_eq!((made.facts.units, made.facts.duplicates), (2, 1));
    /// let read = Prepared::load(&place.path().join("out"))?;
    /// assert_eq!(read.training, prepare(&reticent_corpus::read_documents(&data)?, &options)?.training);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`crate::prepare`]; what [`Documents`] gives, of a folder every file that cannot be read;
    /// [`Error::Changed`]; an output folder that is not empty, or cannot be written.
    pub fn write(
        &self,
        folder: &Path,
        force: bool,
        watch: &dyn Fn(Passage, u64) -> bool,
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

    /// The documents of what cannot be read twice.
    fn kept(&self) -> Result<(Vec<Document>, Vec<Error>)> {
        let (documents, mut errors) = read_readable(self.data, self.reading)?;
        if errors.is_empty() || (self.reading.skip_unreadable && !documents.is_empty()) {
            return Ok((documents, errors));
        }
        Err(if errors.len() == 1 {
            errors.remove(0)
        } else {
            Error::Several(errors)
        })
    }

    fn write_from(
        &self,
        source: Source<'_>,
        threads: usize,
        folder: &Path,
        force: bool,
        watch: &dyn Fn(Passage, u64) -> bool,
    ) -> Result<Option<(Preparation, Vec<Error>)>> {
        // Before the work: a place that cannot be written is found out at once.
        let mut out = FolderWriter::begin(folder, force)?;
        let Some((settled, skipped)) = Settled::new(source, self.options, None, threads, watch)?
        else {
            return Ok(None);
        };
        out.with_held_out(settled.corpus.held_out > 0)?;
        let read = Cell::new(0);
        let pass = Pass {
            settled: &settled,
            corpus: settled.corpus,
            threads,
            open: &|| again(source, &settled.division, Some(&settled.planted), &read),
            form: |record, text: String| lines(&record, &text),
        };
        let go_on = |passage| watch(passage, read.get());
        let Some(facts) = pass.run(|put, lines| out.put(put, &lines), go_on)? else {
            return Ok(None);
        };
        let made = Preparation {
            facts,
            options: settled.options.clone(),
            plan: settled.plan.clone(),
            tokenizer: settled.tokenizer.clone(),
        };
        out.finish(&made)?;
        Ok(Some((made, skipped)))
    }
}
