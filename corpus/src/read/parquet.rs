//! Parquet files with a column `text`, perhaps `id`.

use super::columns::{ParquetRows, field_list, field_name};
use super::format::Raw;
use super::{Entry, ReadOptions};
use crate::document::Document;
use crate::error::{Error, Result};
use parquet::record::Field;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Rows {
    path: PathBuf,
    rows: ParquetRows,
    text: usize,
    id: Option<usize>,
    field: Option<usize>,
    limit: u64,
    /// What was read, as a share of the file's bytes.
    read: Arc<AtomicU64>,
    told: u64,
}

impl Rows {
    pub(super) fn open(
        path: &Path,
        raw: Raw,
        options: &ReadOptions,
        read: Arc<AtomicU64>,
    ) -> Result<Self> {
        let field = options.field.as_deref();
        let text = options.text.as_deref().unwrap_or("text");
        let wanted: Vec<&str> = [text, "id"].into_iter().chain(field).collect();
        let rows = ParquetRows::begin(path, raw, &wanted)?;
        Ok(Self {
            path: path.to_path_buf(),
            text: rows.needed(text)?,
            id: rows.column("id"),
            field: field.map(|name| rows.needed(name)).transpose()?,
            rows,
            limit: options.longest,
            read,
            told: 0,
        })
    }

    /// Rows read, as a share of the file's bytes.
    fn tell(&mut self, number: u64) {
        let all = u128::from(self.rows.rows_in_all.max(1));
        let at = u128::from(number).min(all) * u128::from(self.rows.bytes) / all;
        let at = u64::try_from(at).unwrap_or(self.rows.bytes);
        self.read
            .fetch_add(at.saturating_sub(self.told), Ordering::Relaxed);
        self.told = self.told.max(at);
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let Some(row) = self.rows.next_row()? else {
            self.tell(u64::MAX);
            return Ok(None);
        };
        let number = row.number;
        self.tell(number);
        let wrong = |problem: String| Error::Place {
            path: self.path.clone(),
            place: format!("row {number}"),
            problem,
        };
        let named = |column: usize, what: &str| -> Result<Option<String>> {
            row.field(column)
                .map(|value| {
                    field_name(value).ok_or_else(|| wrong(format!("{what}, got {}", kind(value))))
                })
                .transpose()
        };
        let text = named(self.text, "text must be text in UTF-8")?.unwrap_or_default();
        let id = match self.id {
            Some(id) => named(id, "id must be text or a whole number")?,
            None => None,
        };
        if text.len() as u64 > self.limit {
            return Err(wrong(format!(
                "the row is longer than {} bytes, the most that is read",
                self.limit
            )));
        }
        let values = match self.field.and_then(|field| row.field(field)) {
            Some(value) => values(value).ok_or_else(|| {
                wrong("the field must be text, a whole number, or a list of them".to_owned())
            })?,
            None => Vec::new(),
        };
        Ok(Some(Entry {
            number,
            document: Document::new(id.unwrap_or_else(|| format!("row-{number}")), text),
            values,
            object: None,
        }))
    }
}

/// One value, or those of a list; empty text is none.
fn values(field: &Field) -> Option<Vec<String>> {
    let named: Option<Vec<String>> = field_list(field).iter().map(field_name).collect();
    named.map(|all| all.into_iter().filter(|v| !v.is_empty()).collect())
}

fn kind(field: &Field) -> &'static str {
    match field {
        Field::Bytes(_) => "bytes that are none",
        Field::Bool(_) => "a truth value",
        Field::Float(_) | Field::Double(_) => "a number with a point",
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => "a list or group",
        _ => "another type",
    }
}
