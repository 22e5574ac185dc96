//! JSON Lines and plain text.

use super::lines::Lines;
use super::{Entry, values};
use crate::document::{Document, Masked, Secret};
use crate::error::Result;
use crate::error::json_problem;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// One line of JSON, with an id of any scalar type.
#[derive(Deserialize, JsonSchema)]
struct Line {
    id: Option<Id>,
    text: Option<String>,
    /// The name it has in arXiv's public metadata; read where there is no `text`.
    #[serde(rename = "abstract")]
    summary: Option<Value>,
    #[serde(default)]
    secrets: Vec<Secret>,
    #[serde(default)]
    masked: Vec<Masked>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(i64),
}

/// Objects, one to a line.
pub(super) struct JsonLines {
    lines: Lines,
    field: Option<String>,
}

impl JsonLines {
    pub(super) const fn new(lines: Lines, field: Option<String>) -> Self {
        Self { lines, field }
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let lines = &mut self.lines;
        let line = loop {
            match lines.next_line()? {
                None => return Ok(None),
                Some(line) if line.trim().is_empty() => {}
                Some(line) => break line,
            }
        };
        if line.trim_start().starts_with('[') {
            return Err(
                lines.problem("a list; each line must be an object {\"id\",\"text\"}".to_owned())
            );
        }
        let parsed: Line = serde_json::from_str(&line)
            .map_err(|error| lines.problem(format!("invalid JSON: {}", describe(&error))))?;
        let id = match parsed.id {
            Some(Id::Text(id)) => id,
            Some(Id::Number(id)) => id.to_string(),
            None => format!("line-{}", lines.number),
        };
        let text = match (parsed.text, parsed.summary) {
            (Some(text), _) | (None, Some(Value::String(text))) => text,
            (None, Some(_)) => {
                return Err(lines.problem("the key abstract holds no text".to_owned()));
            }
            (None, None) => {
                let column = line.trim_end().len();
                return Err(lines.problem(format!(
                    "invalid JSON: missing field `text` at column {column}"
                )));
            }
        };
        let document = Document {
            id,
            text,
            secrets: parsed.secrets,
            masked: parsed.masked,
        };
        document
            .validate()
            .map_err(|error| lines.problem(error.to_string()))?;
        let values = match &self.field {
            Some(field) => serde_json::from_str(&line)
                .map_err(|error| describe(&error))
                .and_then(|object| values::of_object(&object, field))
                .map_err(|problem| lines.problem(problem))?,
            None => Vec::new(),
        };
        Ok(Some(Entry {
            number: lines.number,
            document,
            values,
        }))
    }
}

/// The parser's message with the column, without its line number (always 1 here).
fn describe(error: &serde_json::Error) -> String {
    let text = json_problem(error);
    match text.find(" at line 1 column ") {
        Some(at) => format!("{} at column {}", &text[..at], error.column()),
        None => text,
    }
}

/// Blocks of lines between blank ones.
pub(super) struct Blocks {
    lines: Lines,
    limit: u64,
}

impl Blocks {
    pub(super) const fn new(lines: Lines, limit: u64) -> Self {
        Self { lines, limit }
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let mut open: Option<(u64, Document)> = None;
        while let Some(line) = self.lines.next_line()? {
            match (&mut open, line.trim().is_empty()) {
                (None, true) => {}
                (Some(_), true) => break,
                (Some((_, document)), false) => {
                    if (document.text.len() + line.len()) as u64 > self.limit {
                        return Err(self.lines.problem(format!(
                            "the block is longer than {} bytes, the most that is read; blank lines separate documents",
                            self.limit
                        )));
                    }
                    document.text.push('\n');
                    document.text.push_str(&line);
                }
                (None, false) => {
                    let number = self.lines.number;
                    open = Some((number, Document::new(format!("block-{number}"), line)));
                }
            }
        }
        Ok(open.map(|(number, document)| Entry {
            number,
            document,
            values: Vec::new(),
        }))
    }
}
