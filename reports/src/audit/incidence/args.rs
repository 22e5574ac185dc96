//! Arguments of `audit incidence`.

use crate::audit::args::PolicyArg;
use crate::audit::args::Reading;
use crate::audit::args::preparing::unit_of_document;
use crate::contract::{is_prepared, whole_within};
use clap::Args;
use reticent_corpus::Unit;
use reticent_corpus::redaction::default_threads;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The records of a prepared corpus as text, beside its prepared.json.
pub(super) const PREPARED_RECORDS: &str = "train.jsonl";

/// The redacted text of its held-out records.
pub(super) const PREPARED_HELD_OUT: &str = "test.jsonl";

/// Arguments of `audit incidence`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
One row for each record and secret in it, for `account protect --incidence` and `audit train --incidence`; a record \
without secrets has a row with none. Records are named by the id of their document, followed by #NUMBER if they are \
parts of one; those of a prepared folder keep their names. Secrets are numbered by kind in order of appearance, those of \
--list by their lines from 1, unless --show-secrets is given.

Examples:
  audit incidence data.jsonl --policy detectors --out pairs.csv
  audit incidence prepared/ --list names.txt --out pairs.parquet
  audit incidence notes.jsonl --unit document --field author --show-secrets --out pairs.csv
  audit incidence abstracts.jsonl --unit document --words 50001-150000 --out pairs.jsonl")]
pub struct IncidenceArgs {
    /// Corpus, as for `audit prepare`, or a prepared folder.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// File to write: .csv, .jsonl or .parquet. It must not exist or be a link to a file.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
    /// What one record is: turn, sentence, dialogue or document [default: turn, or the records of a
    /// prepared folder].
    #[arg(long, value_parser = unit_of_document)]
    pub unit: Option<Unit>,
    /// What a secret is.
    #[command(flatten)]
    pub sensing: Sensing,
    /// Write the secrets themselves.
    #[arg(long)]
    pub show_secrets: bool,
    /// Number of threads [default: one for each core].
    #[arg(long, value_name = "N", default_value_t = default_threads() as u64, hide_default_value = true, value_parser = whole_within::<u64>(1..=1024))]
    pub threads: u64,
    /// How the corpus is read.
    #[command(flatten)]
    pub reading: Reading,
}

impl IncidenceArgs {
    /// Returns the prepared folder that DATA is, or whose records it is.
    pub(in crate::audit) fn folder(&self) -> Option<&Path> {
        let records = self.data.file_name() == Some(PREPARED_RECORDS.as_ref());
        let folder = match self.data.parent() {
            Some(parent) if records => parent,
            _ => &self.data,
        };
        is_prepared(folder).then_some(folder)
    }
}

/// What a secret is: one of these.
#[derive(Debug, Clone, PartialEq, Args)]
#[group(required = true, multiple = false)]
pub struct Sensing {
    /// Whatever this policy finds in some record, as for `audit prepare`, wherever it occurs, as with --list. Case, spaces,
    /// how accents are written and what stands between digits make no other secret.
    #[arg(long)]
    pub policy: Option<PolicyArg>,
    /// The secrets in this file, one per line, wherever they occur, inside longer words too: in any case, however typed,
    /// and with anything but letters between digits.
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Values of this key or column: text, numbers, or lists of them. Case, spaces and how accents are written make no
    /// other value.
    #[arg(long, value_name = "NAME")]
    pub field: Option<String>,
    /// Words of these ranks by the number of records they occur in, the most frequent being 1.
    #[arg(long, value_name = "FIRST-LAST", value_parser = ranks)]
    pub words: Option<RangeInclusive<usize>>,
}

fn ranks(text: &str) -> Result<RangeInclusive<usize>, String> {
    let refused = || format!("must be two ranks from 1 up, such as 50001-150000, got {text:?}");
    let (first, last) = text.split_once('-').ok_or_else(refused)?;
    let parsed = |part: &str| part.parse::<usize>().map_err(|_| refused());
    let (first, last) = (parsed(first)?, parsed(last)?);
    if first >= 1 && first <= last {
        Ok(first..=last)
    } else {
        Err(refused())
    }
}
