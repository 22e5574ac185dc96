//! Reads Parquet files with a column `text` and optionally `id`, or with columns of messages, prompts and completions.

use super::columns::{ParquetRow, ParquetRows, field_list, field_name};
use super::format::Raw;
use super::shape::{self, Content, Object};
use super::{Entry, ReadOptions, Whole, values};
use crate::document::Document;
use crate::error::{Error, Result};
use parquet::record::Field;
use serde_json::{Number, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Rows {
    path: PathBuf,
    rows: ParquetRows,
    /// The text column, if there is one.
    text: Option<usize>,
    /// Whether other columns may hold the texts of a row without a text.
    shaped: bool,
    id: Option<usize>,
    field: Option<usize>,
    options: ReadOptions,
    /// The progress through the rows, expressed in bytes of the file.
    read: Arc<AtomicU64>,
    counted: u64,
}

impl Rows {
    pub(super) fn open(
        path: &Path,
        raw: Raw,
        options: &ReadOptions,
        all: bool,
        read: Arc<AtomicU64>,
    ) -> Result<Self> {
        let field = options.field.as_deref();
        let text = options.text.as_deref().unwrap_or("text");
        let wanted: Vec<&str> = [text, "id"].into_iter().chain(field).collect();
        let instead = match options.text {
            None => &shape::KEYS[..],
            Some(_) => &[],
        };
        let rows = ParquetRows::begin(path, raw, &wanted, (instead, all))?;
        rows.without_marks(&[Some(text), field])?;
        let shaped = rows.columns().iter().any(|c| instead.contains(&c.as_str()));
        Ok(Self {
            path: path.to_path_buf(),
            text: match rows.column(text) {
                None if shaped => None,
                None if !instead.is_empty() => return Err(rows.lacks(shape::SHAPES)),
                _ => Some(rows.needed(text)?),
            },
            shaped,
            id: rows.column("id"),
            field: field.map(|name| rows.needed(name)).transpose()?,
            options: options.clone(),
            rows,
            read,
            counted: 0,
        })
    }

    /// Reports the progress through the rows in bytes of the file.
    fn tell(&mut self, number: u64) {
        let all = u128::from(self.rows.rows_in_all.max(1));
        let at = u128::from(number).min(all) * u128::from(self.rows.bytes) / all;
        let at = u64::try_from(at).unwrap_or(self.rows.bytes);
        self.read
            .fetch_add(at.saturating_sub(self.counted), Ordering::Relaxed);
        self.counted = self.counted.max(at);
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let Some(row) = self.rows.next_row()? else {
            self.tell(u64::MAX);
            return Ok(None);
        };
        let number = row.number;
        self.tell(number);
        let wrong = |problem: String| Error::place(&self.path, format!("row {number}"), problem);
        let named = |column: usize, what: &str| -> Result<Option<String>> {
            row.field(column)
                .map(|value| {
                    field_name(value).ok_or_else(|| wrong(format!("{what}, got {}", kind(value))))
                })
                .transpose()
        };
        let own = match self.text {
            Some(text) => named(text, "text must be text in UTF-8")?,
            None => None,
        };
        let is_blank = own.as_deref().is_none_or(|text| text.trim().is_empty());
        let joined = match self.shaped && is_blank {
            true => {
                let (object, left_out) = whole(&row, self.rows.columns()).map_err(wrong)?;
                match shape::content(&object, &[], &self.options).map_err(wrong)? {
                    Some(Content::Joined(text, answers)) => {
                        // Numbers in a column have 64 bits.
                        let whole = Whole {
                            object,
                            rounded: false,
                            left_out,
                        };
                        Some((text, answers, whole))
                    }
                    _ => None,
                }
            }
            false => None,
        };
        let (text, answers, object) = match joined {
            Some((text, answers, object)) => (text, answers, Some(object)),
            None if self.text.is_some() => (own.unwrap_or_default(), None, None),
            None => return Err(wrong(format!("none of {} in it", shape::SHAPES))),
        };
        let id = match self.id {
            Some(id) => named(id, "id must be text or a whole number")?,
            None => None,
        };
        if text.len() as u64 > self.options.longest {
            return Err(wrong(format!(
                "the row is longer than {} bytes, the most that is read",
                self.options.longest
            )));
        }
        let value = self.field.and_then(|field| row.field(field));
        if let (Some(user), Some(Field::ListInternal(_))) = (&self.options.user, value) {
            return Err(wrong(values::list_of_users(user)));
        }
        let values = match value {
            Some(value) => texts(value).ok_or_else(|| {
                wrong("the field must be text, a whole number, or a list of them".to_owned())
            })?,
            None => Vec::new(),
        };
        let document = Document::new(id.unwrap_or_else(|| format!("row-{number}")), text);
        Ok(Some(Entry {
            values,
            object,
            ..Entry::plain(
                number,
                Document {
                    answers,
                    ..document
                },
            )
        }))
    }
}

/// Converts a row to the object that JSON Lines would contain. Also returns the columns that cannot be represented in
/// it; null columns are omitted, unless they belong to what is read.
fn whole(
    row: &ParquetRow,
    columns: &[String],
) -> std::result::Result<(Object, Vec<String>), String> {
    let (mut object, mut left_out) = (Object::new(), Vec::new());
    for (place, name) in columns.iter().enumerate() {
        let Some(field) = row.field(place) else {
            if shape::KEYS.contains(&name.as_str()) {
                object.insert(name.clone(), Value::Null);
            }
            continue;
        };
        match json(field) {
            Ok(value) => {
                object.insert(name.clone(), value);
            }
            Err(kind) if shape::KEYS.contains(&name.as_str()) => {
                return Err(format!(
                    "column {name} has {kind}, which is not read; write it as text"
                ));
            }
            Err(_) => left_out.push(name.clone()),
        }
    }
    Ok((object, left_out))
}

/// Converts a value to JSON, or returns what it is if that is impossible.
fn json(field: &Field) -> std::result::Result<Value, &'static str> {
    let number = |x: f64| {
        Number::from_f64(x)
            .map(Value::Number)
            .ok_or("a number that is not finite")
    };
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::Bool(*value),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float(value) => number(f64::from(*value))?,
        Field::Double(value) => number(*value)?,
        Field::Str(_) | Field::Bytes(_) => {
            Value::String(field_name(field).ok_or("bytes that are no text in UTF-8")?)
        }
        Field::ListInternal(list) => {
            let items = list.elements().iter().map(json);
            Value::Array(items.collect::<std::result::Result<_, _>>()?)
        }
        Field::Group(row) => {
            let fields = row.get_column_iter();
            let fields = fields.map(|(name, field)| json(field).map(|value| (name.clone(), value)));
            object_of(fields)?
        }
        Field::MapInternal(map) => {
            let entries = map.entries().iter().map(|(key, value)| {
                let key = field_name(key).ok_or("keys that are no text")?;
                json(value).map(|value| (key, value))
            });
            object_of(entries)?
        }
        _ => return Err("dates, times or decimals"),
    })
}

/// Returns the object of these entries, or what is wrong with them.
fn object_of(
    entries: impl Iterator<Item = std::result::Result<(String, Value), &'static str>>,
) -> std::result::Result<Value, &'static str> {
    let mut object = Object::new();
    for entry in entries {
        let (key, value) = entry?;
        if object.insert(key, value).is_some() {
            return Err("a key that stands twice");
        }
    }
    Ok(Value::Object(object))
}

/// Returns one value, or the values of a list; empty texts are omitted.
fn texts(field: &Field) -> Option<Vec<String>> {
    let named = |field: &Field| match field {
        Field::Float(number) => values::whole_number(f64::from(*number)),
        Field::Double(number) => values::whole_number(*number),
        other => field_name(other),
    };
    let named: Option<Vec<String>> = field_list(field).iter().map(named).collect();
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
