//! Reads dialogues in JSON: MultiWOZ to 2.1 (an object of `goal` + `log`), MultiWOZ 2.2 and SGD (a
//! list of `turns`). Only one dialogue is in memory at a time.

use super::shape::{self, Content, Object};
use super::source::Source;
use super::whole::object_of;
use super::{Entry, ReadOptions, Whole, values};
use crate::answers::Answers;
use crate::document::Document;
use crate::error::{Error, Result, json_problem};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// The keys of a dialogue's turns.
const TURNS: [&str; 2] = ["turns", "log"];

/// The turns of a dialogue, in either layout.
#[derive(Deserialize)]
struct Dialogue {
    log: Option<Vec<Said>>,
    turns: Option<Vec<Said>>,
}

/// One turn.
#[derive(Deserialize)]
struct Said {
    speaker: Option<String>,
    #[serde(alias = "utterance")]
    text: String,
}

/// Reads the elements of one JSON list, or the values of one object, one at a time.
pub(super) struct Dialogues {
    path: PathBuf,
    source: Source,
    options: ReadOptions,
    /// The byte that closes the list or object: `]` or `}`.
    close: u8,
    /// The number of the current element, from 1.
    number: u64,
    /// The number of bytes read so far.
    at: u64,
    done: bool,
}

impl Dialogues {
    /// Reads the opening bracket.
    pub(super) fn open(path: &Path, source: Source, options: &ReadOptions) -> Result<Self> {
        let mut out = Self {
            path: path.to_path_buf(),
            source,
            options: options.clone(),
            close: b']',
            number: 0,
            at: 0,
            done: false,
        };
        out.close = match out.solid()? {
            Some(b'[') => b']',
            Some(b'{') => b'}',
            other => {
                return Err(out.wrong(&format!("must begin with [ or {{, not {}", shown(other))));
            }
        };
        Ok(out)
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        if self.done {
            return Ok(None);
        }
        self.number += 1;
        let Some(first) = self.begin()? else {
            return Ok(None);
        };
        let mut name = None;
        let bytes = if self.close == b'}' {
            let key = self.element(first)?;
            name = Some(self.parse::<String>(&key)?);
            match self.solid()? {
                Some(b':') => {}
                other => {
                    return Err(
                        self.wrong(&format!("a colon must follow a key, not {}", shown(other)))
                    );
                }
            }
            let Some(first) = self.solid()? else {
                return Err(self.wrong("the file ends inside a dialogue"));
            };
            self.element(first)?
        } else {
            self.element(first)?
        };
        let object = object_of(&bytes, self.options.longest);
        let object = object.map_err(|error| self.no_dialogue(&error))?;
        let wrong = |problem: String| self.wrong(&problem);
        let id = match name {
            Some(name) => Some(name),
            None => id(&object).map_err(wrong)?,
        };
        let whose = self.options.user.is_some();
        let values = match &self.options.field {
            Some(field) => values::of_object(&object, field, whose).map_err(wrong)?,
            None => Vec::new(),
        };
        let (text, answers, object) = self.content(object, &bytes)?;
        let id = id.unwrap_or_else(|| format!("dialogue-{}", self.number));
        let document = Document::new(id, text);
        Ok(Some(Entry {
            values,
            object,
            ..Entry::plain(
                self.number,
                Document {
                    answers,
                    ..document
                },
            )
        }))
    }

    /// Returns the text of an element, what of it is learned, and the element itself if it is written again as a whole.
    fn content(
        &self,
        object: Object,
        bytes: &[u8],
    ) -> Result<(String, Option<Answers>, Option<Whole>)> {
        let wrong = |problem: String| self.wrong(&problem);
        let has_turns = TURNS.iter().any(|key| is_list(object.get(*key)));
        if has_turns && self.options.text.is_none() {
            let dialogue: Dialogue = self.parse(bytes)?;
            shape::without_marks(&object).map_err(wrong)?;
            let turns = dialogue.turns.or(dialogue.log).unwrap_or_default();
            return Ok((lines(&turns), None, None));
        }
        let found = shape::content(&object, bytes, &self.options).map_err(wrong)?;
        let (text, answers) = match found {
            Some(Content::Joined(text, answers)) => (text, answers),
            Some(Content::Text(text)) if self.options.text.is_some() => (text, None),
            Some(Content::Text(_)) => {
                return Err(self.wrong(
                    "a list is one of dialogues; records with a text stand one to a line (jq -c '.[]' writes them so)",
                ));
            }
            None => {
                return Err(self.wrong(&format!("none of turns, log, {} in it", shape::SHAPES)));
            }
        };
        shape::without_marks(&object).map_err(wrong)?;
        Ok((text, answers, Some(Whole::of_json(object, bytes))))
    }

    /// Returns the first byte of the next element; `None` after the last element.
    fn begin(&mut self) -> Result<Option<u8>> {
        let mut next = self.solid()?;
        if self.number > 1 && next == Some(b',') {
            next = self.solid()?;
            if next == Some(self.close) {
                return Err(self.wrong("a comma before the end"));
            }
        } else if self.number > 1 && next != Some(self.close) && next.is_some() {
            return Err(self.wrong(&format!(
                "a comma must separate dialogues, not {}",
                shown(next)
            )));
        }
        match next {
            Some(byte) if byte == self.close => {
                self.done = true;
                match self.solid()? {
                    None => Ok(None),
                    other => Err(self.wrong(&format!("{} behind the end", shown(other)))),
                }
            }
            None => Err(self.wrong("the file ends before its closing bracket")),
            found => Ok(found),
        }
    }

    /// Reads one value, whose first byte has already been read, up to its closing bracket or quote.
    fn element(&mut self, first: u8) -> Result<Vec<u8>> {
        let mut bytes = vec![first];
        let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
        let mut byte = first;
        loop {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b'{' | b'[' if !quoted => depth += 1,
                b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && !quoted {
                return if matches!(byte, b'}' | b']' | b'"') {
                    Ok(bytes)
                } else {
                    Err(self.wrong(&format!(
                        "a dialogue must be an object, not {}",
                        shown(Some(byte))
                    )))
                };
            }
            byte = match self.byte()? {
                Some(byte) => byte,
                None => return Err(self.wrong("the file ends inside it")),
            };
            bytes.push(byte);
            if bytes.len() as u64 > self.options.longest {
                return Err(self.wrong(&format!(
                    "it is longer than {} bytes, the most that is read",
                    self.options.longest
                )));
            }
        }
    }

    fn parse<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| self.no_dialogue(&error))
    }

    fn no_dialogue(&self, error: &serde_json::Error) -> Error {
        self.wrong(&format!("no dialogue: {} of it", json_problem(error)))
    }

    /// Returns the next byte that is not white space.
    fn solid(&mut self) -> Result<Option<u8>> {
        loop {
            match self.byte()? {
                Some(b' ' | b'\n' | b'\r' | b'\t') => {}
                // Skip a byte-order mark at the beginning of the file.
                Some(0xef | 0xbb | 0xbf) if self.at <= 3 => {}
                other => return Ok(other),
            }
        }
    }

    fn byte(&mut self) -> Result<Option<u8>> {
        let buffer = match self.source.fill_buf() {
            Ok(buffer) => buffer.first().copied(),
            Err(error) => return Err(self.wrong(&format!("cannot read: {error}"))),
        };
        if buffer.is_some() {
            self.source.consume(1);
            self.at += 1;
        }
        Ok(buffer)
    }

    fn wrong(&self, problem: &str) -> Error {
        let place = format!("dialogue {} (byte {})", self.number.max(1), self.at);
        Error::place(&self.path, place, problem)
    }
}

/// Returns the name of an element, if it has one.
fn id(object: &Object) -> std::result::Result<Option<String>, String> {
    for key in ["dialogue_id", "id"] {
        match object.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(id)) => return Ok(Some(id.clone())),
            Some(Value::Number(id)) if !id.is_f64() => return Ok(Some(id.to_string())),
            Some(other) => {
                return Err(format!(
                    "{key} must be text or a whole number, got {}",
                    shape::kind(other)
                ));
            }
        }
    }
    Ok(None)
}

fn is_list(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_array)
}

fn shown(byte: Option<u8>) -> String {
    byte.map_or_else(
        || "the end of the file".to_owned(),
        |b| format!("{:?}", char::from(b)),
    )
}

/// Renders one line per turn, `USR: …` or `SYS: …`. Without speakers, turns alternate, starting
/// with the user. Line breaks inside a turn become spaces.
fn lines(turns: &[Said]) -> String {
    let lines: Vec<String> = turns
        .iter()
        .enumerate()
        .map(|(number, said)| {
            let user = match said.speaker.as_deref() {
                Some(name) => name.eq_ignore_ascii_case("user"),
                None => number % 2 == 0,
            };
            let words: Vec<&str> = said.text.split(['\n', '\r']).map(str::trim).collect();
            let text = words.join(" ");
            format!("{}: {}", if user { "USR" } else { "SYS" }, text.trim())
        })
        .collect();
    lines.join("\n")
}

/// Returns whether the head of a `.json` file belongs to one list or object of dialogues rather than to JSON Lines. An
/// object over several lines does; one on a line does if its members are dialogues, or, where its line goes on behind the
/// head, if its first member is one.
pub(super) fn sniff(head: &[u8]) -> bool {
    let head = head.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(head);
    let head = head.trim_ascii_start();
    match head.first() {
        Some(b'[') => true,
        Some(b'{') => {
            let end = head.iter().position(|b| *b == b'\n');
            let line = &head[..end.unwrap_or(head.len())];
            let is_dialogue = |value: &Value| TURNS.iter().any(|key| is_list(value.get(*key)));
            match serde_json::from_slice::<serde_json::Map<String, Value>>(line) {
                Ok(object) => !object.is_empty() && object.values().all(is_dialogue),
                Err(error) if error.is_eof() => end.is_some() || begins_with_dialogue(line),
                Err(_) => false,
            }
        }
        _ => false,
    }
}

/// Returns whether the first member of an object, which may be cut off, is a dialogue.
fn begins_with_dialogue(json: &[u8]) -> bool {
    let look = || -> Option<bool> {
        let (_, first) = member(behind(json, b'{')?)?;
        let mut inside = behind(first, b'{')?;
        loop {
            let (key, value) = member(inside)?;
            if TURNS.contains(&key.as_str()) {
                return Some(behind(value, b'[').is_some());
            }
            let (_, rest) = value_of::<IgnoredAny>(value)?;
            inside = behind(rest, b',')?;
        }
    };
    look().unwrap_or(false)
}

/// Returns the key at the beginning of a JSON text, and what follows its colon.
fn member(json: &[u8]) -> Option<(String, &[u8])> {
    let (key, rest) = value_of(json)?;
    Some((key, behind(rest, b':')?))
}

/// Returns the value at the beginning of a JSON text, and the rest; `None` if it is another one, or cut off.
fn value_of<T: DeserializeOwned>(json: &[u8]) -> Option<(T, &[u8])> {
    let mut values = serde_json::Deserializer::from_slice(json).into_iter::<T>();
    let value = values.next()?.ok()?;
    json.get(values.byte_offset()..).map(|rest| (value, rest))
}

/// Returns what follows a byte, which white space may precede.
fn behind(json: &[u8], byte: u8) -> Option<&[u8]> {
    json.trim_ascii_start().strip_prefix(&[byte])
}
