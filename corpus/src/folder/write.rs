//! Writing a prepared folder: all of it, or nothing.

use super::{
    CANARIES, FACTS, HELD_OUT, Product, RECORDS, RecordLine, Sheet, TEST, TEXTS, TOKENIZER,
    TextLine,
};
use crate::error::{Error, Result};
use crate::prepare::{Copies, Prepared};
use crate::record::Record;
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
        check_target(folder, force)?;
        let parent = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let beside = temporary(parent).map_err(|source| Error::Write {
            path: folder.to_path_buf(),
            source,
        })?;
        self.fill(beside.path())?;
        replace(beside, folder)
    }

    fn fill(&self, folder: &Path) -> Result<()> {
        let sheet = Sheet {
            schema: 1,
            kind: "preparation".to_owned(),
            options: self.options.clone(),
            facts: self.facts.clone(),
            stability: Product {
                all_copies: self.facts.stability(Copies::All),
                single_copy: self.facts.stability(Copies::Single),
            },
        };
        let points = self.points.iter().map(|&p| Some(p));
        write_lines(
            &folder.join(RECORDS),
            self.training.records.iter().zip(points).map(record_line),
        )?;
        let points = self.points.iter().copied();
        write_lines(
            &folder.join(TEXTS),
            text_lines(&self.training.records, &self.texts, points),
        )?;
        if self.facts.held_out_documents > 0 {
            let none = std::iter::repeat(None);
            write_lines(
                &folder.join(HELD_OUT),
                self.held_out.iter().zip(none).map(record_line),
            )?;
            write_lines(
                &folder.join(TEST),
                text_lines(&self.held_out, &self.held_out_texts, 0..),
            )?;
        }
        if let Some(plan) = &self.plan {
            write_text(&folder.join(CANARIES), &plan.to_json()?)?;
        }
        write_text(&folder.join(TOKENIZER), &self.tokenizer.to_json()?)?;
        let path = folder.join(FACTS);
        let sheet = serde_json::to_string_pretty(&sheet).map_err(|error| Error::Prepared {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        write_text(&path, &sheet)
    }
}

fn record_line((record, point): (&Record, Option<u64>)) -> RecordLine<'_> {
    RecordLine {
        point,
        side: record.side,
        tokens: Cow::Borrowed(&record.tokens),
        sensitive: Cow::Borrowed(&record.sensitive),
    }
}

fn text_lines<'a>(
    records: &'a [Record],
    texts: &'a [String],
    points: impl Iterator<Item = u64> + 'a,
) -> impl Iterator<Item = TextLine<'a>> {
    records
        .iter()
        .zip(texts)
        .zip(points)
        .map(|((record, text), point)| TextLine {
            id: format!("unit-{point}"),
            side: record.side,
            text: Cow::Borrowed(text),
        })
}

/// Whether the target may be taken.
fn check_target(folder: &Path, force: bool) -> Result<()> {
    let failed = |source| Error::Write {
        path: folder.to_path_buf(),
        source,
    };
    let occupied = || Error::Occupied {
        path: folder.to_path_buf(),
    };
    match std::fs::symlink_metadata(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(meta) if !meta.is_dir() => Err(occupied()),
        Ok(_) => {
            let mut entries = std::fs::read_dir(folder).map_err(failed)?;
            let ours = force && folder.join(FACTS).is_file();
            if entries.next().is_none() || ours {
                Ok(())
            } else {
                Err(occupied())
            }
        }
    }
}

fn temporary(parent: &Path) -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".preparing-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o700));
    }
    builder.tempdir_in(parent)
}

/// Gives the finished folder its name. What it replaces is kept until that has worked.
fn replace(beside: tempfile::TempDir, folder: &Path) -> Result<()> {
    let failed = |source| Error::Write {
        path: folder.to_path_buf(),
        source,
    };
    let parent = beside.path().parent().unwrap_or(Path::new("."));
    let old = if folder.exists() {
        let place = temporary(parent).map_err(failed)?;
        std::fs::rename(folder, place.path().join("old")).map_err(failed)?;
        Some(place)
    } else {
        None
    };
    match std::fs::rename(beside.path(), folder) {
        Ok(()) => {
            // It has moved: there is nothing left to clean up under the old name.
            let _moved: PathBuf = beside.keep();
            Ok(())
        }
        Err(error) => {
            if let Some(place) = old {
                std::fs::rename(place.path().join("old"), folder).map_err(failed)?;
            }
            Err(failed(error))
        }
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

fn write_lines<T: Serialize>(path: &Path, lines: impl Iterator<Item = T>) -> Result<()> {
    write_with(path, |out| {
        for line in lines {
            serde_json::to_writer(&mut *out, &line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })
}
