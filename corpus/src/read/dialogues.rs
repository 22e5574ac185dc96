//! Reads dialogues in JSON: MultiWOZ to 2.1 (an object of `goal` + `log`), MultiWOZ 2.2 and SGD (a
//! list of `turns`). Only one dialogue is in memory at a time.

use super::shape::{self, Object};
use super::source::Source;
use super::whole::object_of;
use super::{Entry, ReadOptions, Whole, values};
use crate::document::Document;
use crate::error::{Error, Result, json_problem};
use serde::Deserialize;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// One dialogue, in either layout.
#[derive(Deserialize)]
struct Dialogue {
    #[serde(alias = "id")]
    dialogue_id: Option<String>,
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
        let dialogue: Dialogue = self.parse(&bytes)?;
        let id = name
            .or(dialogue.dialogue_id)
            .unwrap_or_else(|| format!("dialogue-{}", self.number));
        let ((text, answers), object) = match dialogue.turns.or(dialogue.log) {
            Some(turns) => ((lines(&turns), None), None),
            None => {
                let object = self.whole(&bytes)?;
                let text = shape::text_of_json(&object, &bytes, &self.options)
                    .map_err(|problem| self.wrong(&problem))?;
                let Some(text) = text else {
                    let missing = match object.contains_key("text") {
                        true => "a list is one of dialogues; records with a text stand one to a line (jq -c '.[]' writes them so)".to_owned(),
                        false => format!("none of turns, log, {} in it", shape::SHAPES),
                    };
                    return Err(self.wrong(&missing));
                };
                (text, Some(Whole::of_json(object, &bytes)))
            }
        };
        let whose = self.options.user.is_some();
        let values = match &self.options.field {
            Some(field) => values::of_object(&self.whole(&bytes)?, field, whose)
                .map_err(|problem| self.wrong(&problem))?,
            None => Vec::new(),
        };
        Ok(Some(Entry {
            number: self.number,
            document: Document {
                answers,
                ..Document::new(id, text)
            },
            values,
            object,
        }))
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

    fn parse<T: serde::de::DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| self.no_dialogue(&error))
    }

    fn whole(&self, bytes: &[u8]) -> Result<Object> {
        object_of(bytes, self.options.longest).map_err(|error| self.no_dialogue(&error))
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

/// Returns whether the head of a `.json` file belongs to one list or object of dialogues rather
/// than to JSON Lines. For an object, the first line must not be an object with a text.
pub(super) fn sniff(head: &[u8]) -> bool {
    let head = head.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(head);
    let head = head.trim_ascii_start();
    match head.first() {
        Some(b'[') => true,
        Some(b'{') => {
            let line = head.split(|b| *b == b'\n').next().unwrap_or(head);
            let text: std::result::Result<serde_json::Map<String, serde_json::Value>, _> =
                serde_json::from_slice(line);
            match text {
                Ok(object) => {
                    !object.contains_key("text") && object.values().any(|v| v.get("log").is_some())
                }
                // The line continues beyond the head, or the object spans several lines.
                Err(error) => error.is_eof() && !starts_as_line(line),
            }
        }
        _ => false,
    }
}

/// Returns whether the first key of an incomplete object is one that we read from JSON Lines.
fn starts_as_line(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let key = text.trim_start_matches(['{', ' ', '\t']);
    let names = [
        "text",
        "id",
        "secrets",
        "masked",
        "messages",
        "conversations",
        "prompt",
        "completion",
        "instruction",
        "input",
        "output",
    ];
    names
        .iter()
        .any(|name| key.starts_with(&format!("\"{name}\"")))
}
