//! Writing a prepared folder: all of it, or nothing.

use super::beside::Beside;
use super::{
    CANARIES, FACTS, HELD_OUT, Product, RECORDS, RecordLine, Sheet, TEST, TEXTS, TOKENIZER,
};
use crate::canary::CanaryPlan;
use crate::error::{Error, Result};
use crate::prepare::{Copies, Facts, Preparation, PrepareOptions, Prepared, Put};
use crate::record::{Record, Side};
use crate::tokenize::Tokenizer;
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

impl Prepared {
    /// Writes the folder. It appears under its name when it is complete: until then it is a
    /// hidden folder beside it, which an error removes. Files can be read by the owner only.
    ///
    /// `force` allows replacing a folder that holds a prepared corpus, and nothing else.
    ///
    /// # Errors
    /// A folder that exists and is not empty, or a place that cannot be written.
    pub fn write(&self, folder: &Path, force: bool) -> Result<()> {
        let mut out = FolderWriter::begin(folder, force)?;
        out.with_held_out(self.facts.held_out_documents > 0)?;
        let training = self.training.records.iter().zip(&self.texts);
        for ((record, text), point) in training.zip(&self.points) {
            out.put(Put::Training(*point), &lines(record, text)?)?;
        }
        for (record, text) in self.held_out.iter().zip(&self.held_out_texts) {
            out.put(Put::HeldOut, &lines(record, text)?)?;
        }
        out.close(
            &self.facts,
            &self.options,
            self.plan.as_ref(),
            &self.tokenizer,
        )
    }
}

/// A prepared folder while it is written.
pub(crate) struct FolderWriter {
    beside: Beside,
    training: Pair,
    held_out: Option<Pair>,
    /// Records held out so far.
    tests: u64,
}

/// The lines of a record, without the numbers that only its place gives it.
pub(crate) struct Lines {
    record: Vec<u8>,
    text: Vec<u8>,
}

/// The rest of a line of `train.jsonl`, behind its id.
#[derive(Serialize)]
struct TextRest<'a> {
    side: Side,
    text: &'a str,
}

/// The lines of a record: workers make them, because that takes longer than writing them.
pub(crate) fn lines(record: &Record, text: &str) -> Result<Lines> {
    let line = RecordLine {
        point: None,
        side: record.side,
        tokens: Cow::Borrowed(&record.tokens),
        sensitive: Cow::Borrowed(&record.sensitive),
    };
    let rest = TextRest {
        side: record.side,
        text,
    };
    Ok(Lines {
        record: json(&line)?,
        text: json(&rest)?,
    })
}

fn json<T: Serialize>(line: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(line).map_err(|error| Error::Prepared {
        path: RECORDS.into(),
        problem: error.to_string(),
    })
}

impl FolderWriter {
    /// Opens the hidden folder.
    pub(crate) fn begin(folder: &Path, force: bool) -> Result<Self> {
        let beside = Beside::begin(folder, force)?;
        Ok(Self {
            training: Pair::create(beside.path(), RECORDS, TEXTS)?,
            beside,
            held_out: None,
            tests: 0,
        })
    }

    /// Whether there is a part held out, empty though it may be.
    pub(crate) fn with_held_out(&mut self, there: bool) -> Result<()> {
        if there {
            self.held_out = Some(Pair::create(self.beside.path(), HELD_OUT, TEST)?);
        }
        Ok(())
    }

    /// The next record.
    pub(crate) fn put(&mut self, put: Put, lines: &Lines) -> Result<()> {
        match (put, &mut self.held_out) {
            (Put::Training(point), _) => {
                let fields = (
                    format!("{{\"point\":{point},"),
                    format!("{{\"id\":\"unit-{point}\","),
                );
                self.training.write(&fields, lines)
            }
            (Put::HeldOut, Some(pair)) => {
                let fields = ("{".to_owned(), format!("{{\"id\":\"unit-{}\",", self.tests));
                self.tests += 1;
                pair.write(&fields, lines)
            }
            (Put::HeldOut, None) => Ok(()),
        }
    }

    /// Writes the other files, and gives the folder its name.
    pub(crate) fn finish(self, made: &Preparation) -> Result<()> {
        self.close(
            &made.facts,
            &made.options,
            made.plan.as_ref(),
            &made.tokenizer,
        )
    }

    fn close(
        self,
        facts: &Facts,
        options: &PrepareOptions,
        plan: Option<&CanaryPlan>,
        tokenizer: &Tokenizer,
    ) -> Result<()> {
        self.training.close()?;
        if let Some(pair) = self.held_out {
            pair.close()?;
        }
        let folder = self.beside.path();
        if let Some(plan) = plan {
            write_text(&folder.join(CANARIES), &plan.to_json()?)?;
        }
        write_text(&folder.join(TOKENIZER), &tokenizer.to_json()?)?;
        let sheet = Sheet {
            schema: 1,
            kind: "preparation".to_owned(),
            options: options.clone(),
            facts: facts.clone(),
            stability: Product {
                all_copies: facts.stability(Copies::All),
                single_copy: facts.stability(Copies::Single),
            },
        };
        let path = folder.join(FACTS);
        let sheet = serde_json::to_string_pretty(&sheet).map_err(|error| Error::Prepared {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        write_text(&path, &sheet)?;
        self.beside.finish()
    }
}

/// A file of records and one of their texts.
struct Pair {
    records: (PathBuf, BufWriter<File>),
    texts: (PathBuf, BufWriter<File>),
}

impl Pair {
    fn create(folder: &Path, records: &str, texts: &str) -> Result<Self> {
        let open = |name| {
            let path = folder.join(name);
            let file = create(&path).map_err(|source| Error::Write {
                path: path.clone(),
                source,
            })?;
            Ok((path, BufWriter::with_capacity(1 << 18, file)))
        };
        Ok(Self {
            records: open(records)?,
            texts: open(texts)?,
        })
    }

    /// Writes a line to each, with what it begins with in the place of its first brace.
    fn write(&mut self, begin: &(String, String), lines: &Lines) -> Result<()> {
        let files = [
            (&mut self.records, &begin.0, &lines.record),
            (&mut self.texts, &begin.1, &lines.text),
        ];
        for ((path, file), begin, line) in files {
            let mut write = || -> std::io::Result<()> {
                file.write_all(begin.as_bytes())?;
                file.write_all(&line[1..])?;
                file.write_all(b"\n")
            };
            write().map_err(|source| Error::Write {
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    fn close(self) -> Result<()> {
        for (path, file) in [self.records, self.texts] {
            let done = file
                .into_inner()
                .map_err(std::io::IntoInnerError::into_error);
            done.and_then(|file| file.sync_all())
                .map_err(|source| Error::Write { path, source })?;
        }
        Ok(())
    }
}

fn create(path: &Path) -> std::io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::new(create(path)?);
        fill(&mut out)?;
        out.into_inner().map_err(|e| e.into_error())?.sync_all()
    };
    write().map_err(|source| Error::Write {
        path: path.to_path_buf(),
        source,
    })
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    write_with(path, |out| {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")
    })
}
