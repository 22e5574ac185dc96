//! Reads JSON Lines and plain text.

use super::lines::Lines;
use super::shape::{self, Content};
use super::whole::object_of;
use super::{Entry, ReadOptions, Whole, values};
use crate::document::{Document, Masked, Secret};
use crate::error::{Error, Result, json_problem};
use crate::record::{Side, is_record_id};
use serde::de::value::StrDeserializer;
use serde::de::{IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// One line of JSON, with an id of any scalar type.
#[derive(Deserialize)]
struct Line {
    id: Option<Id>,
    text: Option<Text>,
    secrets: Option<Vec<Secret>>,
    masked: Option<Vec<Masked>>,
    /// Where a line of a prepared corpus is trained on; other files have something else there, or nothing.
    side: Option<Text>,
}

/// A text, or another value in its place, of which nothing is kept: it may be many times as large in memory as in the line.
enum Text {
    Is(String),
    Other,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Text;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_str<E>(self, text: &str) -> std::result::Result<Text, E> {
                Ok(Text::Is(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> std::result::Result<Text, E> {
                Ok(Text::Is(text))
            }
            fn visit_bool<E>(self, _: bool) -> std::result::Result<Text, E> {
                Ok(Text::Other)
            }
            fn visit_i64<E>(self, _: i64) -> std::result::Result<Text, E> {
                Ok(Text::Other)
            }
            fn visit_u64<E>(self, _: u64) -> std::result::Result<Text, E> {
                Ok(Text::Other)
            }
            fn visit_f64<E>(self, _: f64) -> std::result::Result<Text, E> {
                Ok(Text::Other)
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut items: A,
            ) -> std::result::Result<Text, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text::Other)
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut members: A,
            ) -> std::result::Result<Text, A::Error> {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

enum Id {
    Text(String),
    Number(i64),
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Id;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(
                    f,
                    "an id that is text, or a whole number from {} to {} without a point or an exponent",
                    i64::MIN,
                    i64::MAX
                )
            }
            fn visit_str<E>(self, text: &str) -> std::result::Result<Id, E> {
                Ok(Id::Text(text.to_owned()))
            }
            fn visit_i64<E>(self, number: i64) -> std::result::Result<Id, E> {
                Ok(Id::Number(number))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> std::result::Result<Id, E> {
                let whole = i64::try_from(number).map(Id::Number);
                whole.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Reads objects, one per line.
pub(super) struct JsonLines {
    pub(super) lines: Lines,
    options: ReadOptions,
}

impl JsonLines {
    pub(super) fn new(lines: Lines, options: &ReadOptions) -> Self {
        Self {
            lines,
            options: options.clone(),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let (lines, options) = (&mut self.lines, &self.options);
        let mut line = String::new();
        while line.trim().is_empty() {
            if !lines.next_line(&mut line)? {
                return Ok(None);
            }
        }
        if line.trim_start().starts_with('[') {
            return Err(
                lines.problem("a list; each line must be an object {\"id\",\"text\"}".to_owned())
            );
        }
        let parsed: Line =
            serde_json::from_str(&line).map_err(|error| lines.problem(in_record(&line, &error)))?;
        let id = match parsed.id {
            Some(Id::Text(id)) => id,
            Some(Id::Number(id)) => id.to_string(),
            None => format!("line-{}", lines.number),
        };
        let whole = |lines: &Lines| {
            object_of(line.as_bytes(), options.longest)
                .map_err(|error| lines.problem(describe(&error)))
        };
        let (text, answers, object) = match (&options.text, parsed.text) {
            // What any other way would come to, without the rest of the object in memory.
            (None, Some(Text::Is(text))) if !text.trim().is_empty() => (text, None, None),
            (named, _) => {
                let whole = whole(lines)?;
                let found = shape::content(&whole, line.as_bytes(), options);
                let (text, answers, keeps) = match found.map_err(|why| lines.problem(why))? {
                    Some(Content::Text(text)) => (text, None, named.is_some()),
                    Some(Content::Joined(text, answers)) => (text, answers, true),
                    None => {
                        return Err(lines.problem(format!(
                            "missing field `text`: it has none of {} (--text-field names another key)",
                            shape::SHAPES
                        )));
                    }
                };
                let object = keeps.then(|| Whole::of_json(whole, line.as_bytes()));
                (text, answers, object)
            }
        };
        let prepared = parsed.side.is_some_and(|side| is_prepared(&id, &side))
            && parsed.secrets.is_none()
            && parsed.masked.is_none()
            && object.is_none()
            && answers.is_none();
        let document = Document {
            id,
            text,
            secrets: parsed.secrets.unwrap_or_default(),
            masked: parsed.masked.unwrap_or_default(),
            label: None,
            answers,
        };
        let unmasked = || match options.unmasked {
            true => document.unmasked(),
            false => Ok(()),
        };
        document
            .validate()
            .and_then(|()| unmasked())
            .map_err(|error| {
                lines.problem(match error {
                    Error::Span { problem, .. } => problem,
                    other => other.to_string(),
                })
            })?;
        let values = match &options.field {
            Some(field) => values::of_object(&whole(lines)?, field, options.user.is_some())
                .map_err(|problem| lines.problem(problem))?,
            None => Vec::new(),
        };
        Ok(Some(Entry {
            number: lines.number,
            document,
            values,
            object,
            prepared,
        }))
    }
}

/// Returns whether a line with this id and side is one of a prepared corpus.
fn is_prepared(id: &str, side: &Text) -> bool {
    let is_side = |side: &str| {
        let side: StrDeserializer<'_, serde::de::value::Error> = side.into_deserializer();
        Side::deserialize(side).is_ok()
    };
    matches!(side, Text::Is(side) if is_side(side)) && is_record_id(id)
}

/// Returns the parser's message with the column, but without the line number, which is always 1 here.
fn describe(error: &serde_json::Error) -> String {
    let text = json_problem(error);
    // If it is valid JSON but not a record, the message says what is wrong.
    let about = if error.is_data() {
        ""
    } else {
        "invalid JSON: "
    };
    match text.find(" at line 1 column ") {
        Some(at) => format!("{about}{} at column {}", &text[..at], error.column()),
        None => format!("{about}{text}"),
    }
}

/// Describes what is wrong with a record, and in which of its marks.
fn in_record(line: &str, error: &serde_json::Error) -> String {
    let said = describe(error);
    match mark_at(line, error.column()).filter(|_| error.is_data()) {
        Some(key) => format!("{key}: {said}"),
        None => said,
    }
}

/// Returns which of the marks of an object is being read at a column, counted from 1.
fn mark_at(line: &str, column: usize) -> Option<&'static str> {
    let (mut depth, mut begins, mut escaped) = (0_usize, None, false);
    let mut key = "";
    for (at, byte) in line.bytes().enumerate().take(column) {
        match (begins, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(start), b'"') => {
                begins = None;
                let behind = line[at + 1..].trim_start();
                if depth == 1 && behind.starts_with(':') {
                    key = &line[start..at];
                }
            }
            (Some(_), _) => {}
            (None, b'"') => begins = Some(at + 1),
            (None, b'{' | b'[') => depth += 1,
            (None, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    super::MARKS.into_iter().find(|mark| *mark == key)
}

/// The error for JSON Lines in a file whose name indicates plain text.
const JSON_AS_PLAIN: &str =
    "JSON in its lines and a name of plain text; name it FILE.jsonl, or give it by stdin (-)";

/// Room for longer lines, in bytes, is not kept.
const MOST_ROOM: usize = 1 << 20;

/// Reads blocks of lines separated by blank lines.
pub(super) struct Blocks {
    pub(super) lines: Lines,
    limit: u64,
    /// The separator between documents, if it is not a blank line.
    separator: Option<String>,
    /// The rest of the line after the last separator.
    rest: Option<(u64, String)>,
    /// Documents so far.
    count: u64,
    /// Room for a line.
    room: String,
    /// Whether nothing has been read yet.
    pub(super) begins: bool,
}

impl Blocks {
    pub(super) fn new(lines: Lines, options: &ReadOptions) -> Self {
        Self {
            lines,
            limit: options.longest,
            separator: options.separator.clone(),
            rest: None,
            count: 0,
            room: String::new(),
            begins: true,
        }
    }

    /// Returns the next line, or the rest of a line after a separator.
    fn line(&mut self) -> Result<Option<(u64, String)>> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let mut line = String::new();
        let is_there = self.next_line(&mut line)?;
        Ok(is_there.then_some((self.lines.number, line)))
    }

    /// Reads the next line as [`Lines::next_line`] does. The first line that is not blank must not be a JSON object, because
    /// escapes would hide secrets.
    fn next_line(&mut self, line: &mut String) -> Result<bool> {
        let is_there = self.lines.next_line(line)?;
        if self.begins && !line.trim().is_empty() {
            self.begins = false;
            if line.trim_start().starts_with('{')
                && serde_json::from_str::<serde_json::Map<_, _>>(line).is_ok()
            {
                return Err(self.lines.problem(JSON_AS_PLAIN.to_owned()));
            }
        }
        Ok(is_there)
    }

    /// Returns the document up to the next separator, including blank lines within it; blank documents are omitted.
    fn between(&mut self, separator: &str) -> Result<Option<Entry>> {
        let mut first = None;
        let mut text = String::new();
        while let Some((number, line)) = self.line()? {
            let (part, ended) = match line.split_once(separator) {
                Some((part, rest)) => {
                    self.rest = Some((number, rest.to_owned()));
                    (part, true)
                }
                None => (line.as_str(), false),
            };
            if (text.len() + part.len()) as u64 > self.limit {
                return Err(self.lines.problem(format!(
                    "the document is longer than {} bytes, the most that is read; --separator separates documents",
                    self.limit
                )));
            }
            if first.is_none() && !part.trim().is_empty() {
                first = Some(number);
            }
            if first.is_some() {
                text.push_str(part);
                text.push('\n');
            }
            if ended && first.is_some() {
                break;
            }
        }
        let trimmed = text.trim_end().len();
        text.truncate(trimmed);
        Ok(first.map(|number| {
            // Two documents may begin on the same line.
            self.count += 1;
            let id = format!("block-{number}-{}", self.count);
            Entry::plain(number, Document::new(id, text))
        }))
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        if let Some(separator) = self.separator.clone() {
            return self.between(&separator);
        }
        let mut open: Option<(u64, Document)> = None;
        let mut line = std::mem::take(&mut self.room);
        while self.next_line(&mut line)? {
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
                    open = Some((
                        number,
                        Document::new(format!("block-{number}"), line.as_str()),
                    ));
                }
            }
        }
        if line.capacity() <= MOST_ROOM {
            self.room = line;
        }
        Ok(open.map(|(number, document)| Entry::plain(number, document)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of 32 million zeros in 64 MiB took a gigabyte.
    #[test]
    fn nothing_is_kept_of_what_stands_in_the_place_of_a_text() {
        for other in [
            "[0, [1.5, {\"a\": []}]]",
            "{\"a\": [true]}",
            "-1",
            "0.5",
            "false",
        ] {
            let json = format!("{{\"text\": {other}, \"side\": {other}}}");
            let line: Line = serde_json::from_str(&json).unwrap();
            let [text, side] = [line.text, line.side].map(Option::unwrap);
            assert!(matches!(text, Text::Other) && !is_prepared("unit-0-0123456789abcdef", &side));
        }
        let line: Line = serde_json::from_str("{\"text\": null, \"side\": \"public\"}").unwrap();
        assert!(line.text.is_none());
        assert!(is_prepared("unit-0-0123456789abcdef", &line.side.unwrap()));
        for wrong in ["[0", "{\"a\"}", "nul"] {
            assert!(serde_json::from_str::<Line>(&format!("{{\"text\": {wrong}}}")).is_err());
        }
    }
}
