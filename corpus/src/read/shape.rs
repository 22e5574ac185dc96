//! What is read of a JSON object, whatever the format of its file: its one text, or the texts of a chat or of a pair of a
//! prompt and its answer, as other trainers keep them; and whether its marks belong to that.

use super::{ReadOptions, values};
use crate::answers::Answers;
use crate::document::Offsets;
use serde_json::{Map, Value, json};
use std::ops::Range;

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// The keys that an object without `text` may have instead, for messages.
pub(super) const SHAPES: &str =
    "text, messages, conversations, prompt and completion, or instruction and output";

/// The same: the keys of messages, and of pairs with that of the answer last.
const SHAPE_KEYS: [&[&str]; 4] = [
    &["messages"],
    &["conversations"],
    &["prompt", "completion"],
    &["instruction", "input", "output"],
];

/// The keys that are read from such an object or from a table.
#[cfg(feature = "parquet")]
pub(super) const KEYS: [&str; 8] = [
    "messages",
    "conversations",
    "prompt",
    "completion",
    "instruction",
    "input",
    "output",
    "tools",
];

/// The reason for rejecting an object whose numbers would change when written.
pub(super) const BEYOND_64_BITS: &str = "a whole number beyond 64 bits, -0, or a number with more digits than a double keeps, which would be written as another one; put it in quotes";

/// The reason for rejecting a record with its own text when a chat template is given.
pub(super) const OWN_TEXT: &str = "a text of its own, which no chat template changes: read it without the template, or messages without a text beside them";

/// The reason for rejecting a pair when a chat template is given.
const PAIR: &str = "a pair of texts, which no chat template changes: read it without the template, or write its texts as messages";

/// What is read of an object.
pub(super) enum Content {
    /// Its one text, whose characters its marks count.
    Text(String),
    /// The texts of its messages or its pair, joined, and what of them is learned.
    Joined(String, Option<Answers>),
}

/// Returns what is read of an object; `None` if it has neither a text nor a known shape. `json` is what it was parsed
/// from; empty if its numbers come from columns, which have 64 bits.
///
/// # Errors
/// Returns an error if the text is not text, a message has no text, marks would count the characters of several texts,
/// or the chat template rejects the conversation, would write one of its numbers as another one, or is given for texts
/// that are not messages.
pub(super) fn content(
    object: &Object,
    json: &[u8],
    options: &ReadOptions,
) -> Result<Option<Content>, String> {
    if let Some(key) = text_key(object, options.text.as_deref()) {
        return match object.get(key) {
            Some(Value::String(text)) => Ok(Some(Content::Text(text.clone()))),
            Some(other) => Err(format!(
                "the key {key} must hold text, got {} (--text-field names another key)",
                kind(other)
            )),
            None => Err(format!("no key {key}")),
        };
    }
    if options.chat.is_some() && values::has_whole_number_beyond_64_bits(json) {
        return Err(BEYOND_64_BITS.to_owned());
    }
    let Some((text, answers)) = text_of(object, options)? else {
        return Ok(None);
    };
    without_marks(object)?;
    Ok(Some(Content::Joined(text, answers)))
}

/// Rejects an object with marks whose texts they do not count: several texts, or one that is written again with masks.
pub(super) fn without_marks(object: &Object) -> Result<(), String> {
    let is_empty = |marks: &Value| marks.is_null() || marks.as_array().is_some_and(Vec::is_empty);
    let marked = |key: &&str| object.get(*key).is_some_and(|marks| !is_empty(marks));
    match super::MARKS.into_iter().find(marked) {
        None => Ok(()),
        Some(key) => Err(format!(
            "{key} counts the characters of `text`, and the text of this record is elsewhere; write it as {{\"id\", \"text\", \"{key}\"}}"
        )),
    }
}

/// Returns the key of an object's one text: the one asked for, `text`, or `abstract`, arXiv's name for it. `None` if the
/// texts of messages or of a pair are read instead, or there is nothing. A blank text counts only if nothing else is there.
fn text_key<'k>(object: &Object, named: Option<&'k str>) -> Option<&'k str> {
    const OWN: [&str; 2] = ["text", "abstract"];
    let is_there = |key: &&str| object.get(*key).is_some_and(|value| !value.is_null());
    let is_solid = |key: &&str| {
        let text = object.get(*key).and_then(Value::as_str);
        is_there(key) && text.is_none_or(|text| !text.trim().is_empty())
    };
    match named {
        Some(_) => named,
        None if is_solid(&OWN[0]) => Some(OWN[0]),
        None if joined_keys(object).is_some() => None,
        None => {
            let solid = OWN.into_iter().find(is_solid);
            solid.or_else(|| OWN.into_iter().find(is_there))
        }
    }
}

/// Returns the keys of the messages or of the pair that an object holds, in order; the last one has the answer. One with
/// a value comes first.
fn joined_keys(object: &Object) -> Option<&'static [&'static str]> {
    let holds = |keys: &&[&str]| match keys {
        [chat] => object.get(*chat).is_some_and(Value::is_array),
        [first, .., last] => object.contains_key(*first) && object.contains_key(*last),
        [] => false,
    };
    let says = |keys: &&[&str]| {
        let mut values = keys.iter().filter_map(|key| object.get(*key));
        values.any(|value| !value.is_null())
    };
    let full = SHAPE_KEYS.into_iter().filter(holds).find(says);
    full.or_else(|| SHAPE_KEYS.into_iter().find(holds))
}

/// Returns whether columns of these names may hold messages or a pair.
#[cfg(feature = "parquet")]
pub(super) fn is_shape(columns: &[&str]) -> bool {
    SHAPE_KEYS.into_iter().any(|keys| {
        let mut ends = [keys.first(), keys.last()].into_iter().flatten();
        ends.all(|key| columns.contains(key))
    })
}

/// Returns the text of messages or of a pair; `None` if an object has neither.
///
/// Without a chat template, each message becomes a line that begins with its speaker, as in dialogues; otherwise the
/// template renders the messages. The parts of a pair follow each other, and the last one is what is learned.
///
/// # Errors
/// Returns an error if a message has no text, the template rejects the conversation, or a template is given for texts
/// that are not messages.
fn text_of(
    object: &Object,
    options: &ReadOptions,
) -> Result<Option<(String, Option<Answers>)>, String> {
    let Some(chat) = &options.chat else {
        return Ok(Joined::of(object)?.map(|joined| {
            let answers = options.loss_on.and_then(|_| joined.answer(object));
            (joined.text, answers)
        }));
    };
    let Some((key, said)) = conversation(object) else {
        return match Joined::of(object)? {
            Some(_) => Err(PAIR.to_owned()),
            None => Ok(None),
        };
    };
    let text = chat.record(&said, object.get("tools"), options.loss_on);
    text.map(Some).map_err(|why| format!("{key}: {why}"))
}

/// The joined texts of an object, as read without a chat template, and where each part of the text comes from.
#[derive(Debug, Default)]
pub(crate) struct Joined<'a> {
    pub(crate) text: String,
    /// In order and disjoint.
    pieces: Vec<Piece<'a>>,
}

/// `length` bytes at offset `from` of a string in the object, which are at offset `at` in the text.
#[derive(Debug)]
struct Piece<'a> {
    at: usize,
    source: &'a str,
    from: usize,
    length: usize,
}

impl<'a> Joined<'a> {
    /// Joins the texts; returns `None` if the object has no known shape.
    pub(crate) fn of(object: &'a Object) -> Result<Option<Self>, String> {
        let Some(keys) = joined_keys(object) else {
            return Ok(None);
        };
        let mut joined = Self::default();
        let parts = keys.iter();
        for (key, part) in parts.filter_map(|key| Some((*key, object.get(*key)?))) {
            match part {
                Value::String(text) => {
                    let mut whole = Self::default();
                    whole.push(&[(0, text.as_str())], 0..text.len(), text);
                    joined.line(whole);
                }
                Value::Null => {}
                Value::Array(said) => joined.line(Self::messages(key, said)?),
                other => {
                    return Err(format!(
                        "{key} must be text or a list of messages, got {}",
                        kind(other)
                    ));
                }
            }
        }
        Ok(Some(joined))
    }

    /// Returns which ranges of which strings a span of the text covers. Strings are identified by address, since two
    /// may be equal.
    pub(crate) fn sources(&self, span: &Range<usize>) -> Vec<(&'a str, Range<usize>)> {
        let mut out: Vec<(&str, Range<usize>)> = Vec::new();
        let ends_before = |piece: &Piece<'_>| piece.at + piece.length <= span.start;
        let touched = &self.pieces[self.pieces.partition_point(ends_before)..];
        for piece in touched.iter().take_while(|piece| piece.at < span.end) {
            let (start, end) = (
                span.start.max(piece.at),
                span.end.min(piece.at + piece.length),
            );
            let range = piece.from + start - piece.at..piece.from + end - piece.at;
            match out.last_mut() {
                Some((source, last)) if std::ptr::eq(*source, piece.source) => last.end = range.end,
                _ => out.push((piece.source, range)),
            }
        }
        out
    }

    /// Returns where the answer of a pair is, with the end of the text; `None` if it is not one text.
    fn answer(&self, object: &Object) -> Option<Answers> {
        let [_, .., last] = joined_keys(object)? else {
            return None;
        };
        let answer = object.get(*last)?.as_str()?;
        let offsets = Offsets::new(&self.text);
        let mut pieces = self.pieces.iter();
        let piece = pieces.find(|piece| std::ptr::eq(piece.source, answer));
        let spans = piece.map(|piece| {
            let end = piece.at + piece.length;
            offsets.character(piece.at)..offsets.character(end)
        });
        Some(Answers {
            spans: spans.into_iter().collect(),
            end: true,
        })
    }

    /// Joins messages, one per line, each after its speaker.
    fn messages(key: &str, said: &'a [Value]) -> Result<Self, String> {
        let mut lines = Self::default();
        for (number, message) in said.iter().enumerate() {
            let wrong = |why: &str| format!("{key}, message {}: {why}", number + 1);
            let get = |names: [&str; 2]| names.into_iter().find_map(|name| message.get(name));
            let content: Vec<&str> = match get(["content", "value"]) {
                Some(Value::String(text)) => vec![text],
                Some(Value::Array(parts)) => parts.iter().filter_map(part_text).collect(),
                // A message that only calls a tool.
                Some(Value::Null) => Vec::new(),
                None if calls(message) => Vec::new(),
                Some(other) => {
                    return Err(wrong(&format!(
                        "its content must be text or a list of parts, got {}",
                        kind(other)
                    )));
                }
                None => return Err(wrong("neither content nor value in it")),
            };
            let role = get(["role", "from"]).and_then(Value::as_str);
            let mut line = Self {
                text: format!("{}: ", speaker(role, number)),
                pieces: Vec::new(),
            };
            line.say(&content);
            lines.line(line);
        }
        Ok(lines)
    }

    /// Appends the lines of a content with several parts as one line, with each line trimmed.
    fn say(&mut self, parts: &[&'a str]) {
        let content = parts.join(" ");
        let mut begins = 0;
        let parts: Vec<(usize, &str)> = parts
            .iter()
            .map(|part| {
                let at = begins;
                begins += part.len() + 1;
                (at, *part)
            })
            .collect();
        let mut words = Vec::new();
        let mut at = 0;
        for line in content.split(['\n', '\r']) {
            let start = at + line.len() - line.trim_start().len();
            words.push(start..start + line.trim().len());
            at += line.len() + 1;
        }
        let said = |words: &Range<usize>| !words.is_empty();
        let (first, last) = (words.iter().position(said), words.iter().rposition(said));
        let (Some(first), Some(last)) = (first, last) else {
            return;
        };
        for (number, words) in words[first..=last].iter().enumerate() {
            if number > 0 {
                self.text.push(' ');
            }
            self.push(&parts, words.clone(), &content);
        }
    }

    /// Appends a range of `content`, which consists of `parts` (each with its offset in `content`) separated by spaces.
    fn push(&mut self, parts: &[(usize, &'a str)], range: Range<usize>, content: &str) {
        let first = parts.partition_point(|(begins, part)| begins + part.len() <= range.start);
        let touched = parts[first..].iter();
        for &(begins, source) in touched.take_while(|(begins, _)| *begins < range.end) {
            let (start, end) = (
                range.start.max(begins),
                range.end.min(begins + source.len()),
            );
            if start < end {
                self.pieces.push(Piece {
                    at: self.text.len() + start - range.start,
                    source,
                    from: start - begins,
                    length: end - start,
                });
            }
        }
        self.text.push_str(&content[range]);
    }

    /// Appends a line, if it is not empty.
    fn line(&mut self, line: Self) {
        if line.text.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let by = self.text.len();
        let pieces = line.pieces.into_iter();
        self.pieces.extend(pieces.map(|piece| Piece {
            at: piece.at + by,
            ..piece
        }));
        self.text.push_str(&line.text);
    }
}

/// Returns the messages of an object with `role` and `content`, as chat templates expect, and the key they are stored
/// under. A prompt and its completion form one conversation.
fn conversation(object: &Object) -> Option<(&'static str, Vec<Value>)> {
    let list = |key: &str| object.get(key).and_then(Value::as_array);
    if let Some(said) = list("messages") {
        return Some(("messages", said.clone()));
    }
    if let Some(said) = list("conversations") {
        return Some(("conversations", said.iter().map(by_role).collect()));
    }
    let (prompt, completion) = (list("prompt")?, list("completion")?);
    Some(("prompt", prompt.iter().chain(completion).cloned().collect()))
}

/// Converts a message with `from` and `value` to the names that templates use.
fn by_role(message: &Value) -> Value {
    let (Some(from), Some(value)) = (message.get("from"), message.get("value")) else {
        return message.clone();
    };
    let role = match from.as_str() {
        Some("human") => json!("user"),
        Some("gpt") => json!("assistant"),
        _ => from.clone(),
    };
    json!({"role": role, "content": value})
}

/// Returns the text of an object that is learned, for a change in place, and whether it is all that is read of it: the
/// text under the key asked for, `text` or `abstract`; else the answer, which is the completion, the output, or the last
/// message of the assistant with a text. `None` if there is none of them.
///
/// ```
/// # use serde_json::json;
/// use reticent_corpus::read::taught_text;
/// let mut chat = json!({"text": null, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]});
/// let taught = chat.as_object_mut().and_then(|chat| taught_text(chat, None));
/// assert_eq!(taught.unwrap(), (&mut "Hello".to_owned(), false));
/// ```
pub fn taught_text<'o>(
    object: &'o mut Object,
    named: Option<&str>,
) -> Option<(&'o mut String, bool)> {
    let Some(key) = text_key(object, named) else {
        return last_answer(object).map(|answer| (answer, false));
    };
    match object.get_mut(key)? {
        Value::String(text) => Some((text, true)),
        _ => None,
    }
}

/// Returns the text of the answer.
fn last_answer(object: &mut Object) -> Option<&mut String> {
    let key = joined_keys(object)?.last()?;
    match object.get_mut(*key)? {
        Value::String(text) => Some(text),
        Value::Array(said) => last_said(said),
        _ => None,
    }
}

/// Returns the text of the assistant's last message that has one.
fn last_said(said: &mut [Value]) -> Option<&mut String> {
    let by_assistant = |(number, message): &(usize, &mut Value)| {
        let role = ["role", "from"].iter().find_map(|key| message.get(key));
        speaker(role.and_then(Value::as_str), *number) == "SYS"
    };
    let mut answers = said.iter_mut().enumerate().rev().filter(by_assistant);
    answers.find_map(|(_, message)| said_text(message))
}

/// Returns the text of a part of a message: a string, or what is under `text`, which may be an object with a `value`.
fn part_text(part: &Value) -> Option<&str> {
    match part.get("text") {
        None => part.as_str(),
        Some(text) => text.get("value").unwrap_or(text).as_str(),
    }
}

/// The same, for a change in place.
fn part_text_mut(part: &mut Value) -> Option<&mut String> {
    if part.get("text").is_none() {
        return solid(part);
    }
    let text = part.get_mut("text")?;
    match text.get("value").is_some() {
        true => solid(text.get_mut("value")?),
        false => solid(text),
    }
}

/// Returns the text of a message, or the last text among its parts, that is not blank.
fn said_text(message: &mut Value) -> Option<&mut String> {
    let key = ["content", "value"]
        .into_iter()
        .find(|key| message.get(key).is_some())?;
    match message.get_mut(key)? {
        Value::Array(parts) => {
            let mut parts = parts.iter_mut().rev();
            parts.find_map(part_text_mut)
        }
        text => solid(text),
    }
}

/// Returns a text that is not blank.
fn solid(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text),
        _ => None,
    }
}

/// Returns whether a message calls a tool.
fn calls(message: &Value) -> bool {
    let called = |key: &&str| message.get(*key).is_some_and(|calls| !calls.is_null());
    ["tool_calls", "function_call"].iter().any(called)
}

/// Returns the name of a speaker, as in dialogues.
fn speaker(role: Option<&str>, number: usize) -> &'static str {
    let known = [
        ("USR", ["user", "human", "prompter", "customer"]),
        ("SYS", ["assistant", "gpt", "model", "bot"]),
        ("SYSTEM", ["system", "developer", "context", "instructions"]),
        ("TOOL", ["tool", "function", "function_call", "observation"]),
    ];
    let of = |role: &str| {
        let is = |names: &[&str; 4]| names.iter().any(|name| role.eq_ignore_ascii_case(name));
        known
            .iter()
            .find(|(_, names)| is(names))
            .map(|(name, _)| *name)
    };
    role.and_then(of).unwrap_or(if number.is_multiple_of(2) {
        "USR"
    } else {
        "SYS"
    })
}

/// Describes the type of a value for messages, never its content.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The place of a value in a chat. Some strings are not text there: the role, the type of a part, ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Record,
    Message,
    /// A part of a message's content.
    Part,
    /// A tool call.
    Call,
    /// Elsewhere every string is text: `from` may be an argument of a tool.
    Other,
}

impl Place {
    /// Returns the place of the objects in a list under a key. A single object is not part of a chat.
    fn inside(self, key: &str, value: &Value) -> Self {
        match (self, key) {
            _ if !value.is_array() => Self::Other,
            (Self::Record, "messages" | "conversations" | "prompt" | "completion") => Self::Message,
            (Self::Message, "content" | "value") => Self::Part,
            (Self::Message, "tool_calls") => Self::Call,
            _ => Self::Other,
        }
    }

    /// Returns whether the value under a key of this object is a name rather than text.
    fn is_name(self, object: &Object, key: &str) -> bool {
        let known: &[&str] = match self {
            Self::Record => &["id"],
            Self::Message => &["role", "from", "type", "id", "tool_call_id", "call_id"],
            Self::Part | Self::Call => &["type", "id", "tool_use_id"],
            Self::Other => &[],
        };
        let says = ["content", "value", "tool_calls"];
        let is_one = self != Self::Message || says.iter().any(|key| object.contains_key(*key));
        let plain = object
            .get(key)
            .is_some_and(|value| value.is_string() || value.is_number());
        is_one && plain && known.contains(&key)
    }
}

/// The keys of texts, which say nothing of what is in them.
const OF_TEXTS: [&str; 10] = [
    "text",
    "abstract",
    "content",
    "value",
    "prompt",
    "completion",
    "instruction",
    "input",
    "output",
    "arguments",
];

/// How much of the keys above a text is read with it, in bytes. Words that say what follows stand at the end.
const LONGEST_KEY: usize = 64;

/// Returns the end of a key.
fn ending(key: &str) -> &str {
    &key[key.ceil_char_boundary(key.len().saturating_sub(LONGEST_KEY))..]
}

/// Returns an object with every text changed, wherever it is, except names. Numbers count as text, and become strings
/// if they are changed. `change` receives each string by reference to the object, and what the keys above it say it is: the
/// end of all of them and, if there are several, that of the innermost.
pub(crate) fn each_text(
    object: &Object,
    change: &mut impl FnMut(&str, &[&str]) -> Option<String>,
) -> Object {
    changed(object, Place::Record, &[], change)
}

/// `above`: what the keys above the object say is in it.
fn changed(
    object: &Object,
    place: Place,
    above: &[&str],
    change: &mut impl FnMut(&str, &[&str]) -> Option<String>,
) -> Object {
    let each = object.iter().map(|(key, value)| {
        let innermost = ending(key);
        let all = above.first().map(|above| format!("{above} {innermost}"));
        let both = [all.as_deref().map_or("", ending), innermost];
        let said: &[&str] = match (OF_TEXTS.contains(&key.as_str()), above) {
            (true, above) => above,
            (false, []) => &both[1..],
            (false, _) => &both,
        };
        let new = match place.is_name(object, key) {
            true => value.clone(),
            false => changed_value(value, place.inside(key, value), said, change),
        };
        (key.clone(), new)
    });
    each.collect()
}

fn changed_value(
    value: &Value,
    place: Place,
    keys: &[&str],
    change: &mut impl FnMut(&str, &[&str]) -> Option<String>,
) -> Value {
    let new = match value {
        Value::String(text) => change(text, keys),
        Value::Number(number) => change(&number.to_string(), keys),
        Value::Array(items) => {
            let each = items
                .iter()
                .map(|item| changed_value(item, place, keys, change));
            return Value::Array(each.collect());
        }
        Value::Object(object) => {
            let above = match place {
                Place::Other => keys,
                _ => &[],
            };
            return Value::Object(changed(object, place, above, change));
        }
        Value::Null | Value::Bool(_) => None,
    };
    new.map_or_else(|| value.clone(), Value::String)
}

/// Returns an object without its id and those of its messages, parts and calls, by which copies may differ.
pub(crate) fn without_ids(object: &Object) -> Object {
    rest(object, Place::Record)
}

fn rest(object: &Object, place: Place) -> Object {
    let is_id = |key: &str| key.ends_with("id") && place.is_name(object, key);
    let others = object.iter().filter(|(key, _)| !is_id(key));
    let others = others.map(|(key, value)| {
        let value = match (value, place.inside(key, value)) {
            (Value::Array(items), place) if place != Place::Other => {
                let items = items.iter().map(|item| match item {
                    Value::Object(object) => Value::Object(rest(object, place)),
                    item => item.clone(),
                });
                Value::Array(items.collect())
            }
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    others.collect()
}

/// Returns whether `found` returns true for anything that [`each_text`] does not change: keys and names.
pub(crate) fn any_name(object: &Object, found: &mut impl FnMut(&str) -> bool) -> bool {
    any_inside(object, Place::Record, found)
}

fn any_inside(object: &Object, place: Place, found: &mut impl FnMut(&str) -> bool) -> bool {
    object.iter().any(|(key, value)| {
        found(key)
            || match value {
                Value::String(name) if place.is_name(object, key) => found(name),
                Value::Number(name) if place.is_name(object, key) => found(&name.to_string()),
                value => any_below(value, place.inside(key, value), found),
            }
    })
}

fn any_below(value: &Value, place: Place, found: &mut impl FnMut(&str) -> bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| any_below(item, place, found)),
        Value::Object(object) => any_inside(object, place, found),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::ChatTemplate;
    use serde_json::json;

    fn text(value: Value) -> Result<Option<String>, String> {
        let Value::Object(object) = value else {
            panic!("an object");
        };
        text_of(&object, &ReadOptions::default()).map(|found| found.map(|(text, _)| text))
    }

    #[test]
    fn chats_and_pairs_have_the_texts_that_their_trainers_read() {
        let chat = json!({"messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hi,\nI am Ada."},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url"}]},
        ]});
        let lines = "SYSTEM: Be kind.\nUSR: Hi, I am Ada.\nSYS: Hello";
        assert_eq!(text(chat).unwrap().unwrap(), lines);
        let parts =
            json!({"messages": [{"role": "user", "content": ["Hi", {"text": {"value": "you"}}]}]});
        assert_eq!(text(parts).unwrap().unwrap(), "USR: Hi you");
        let shared = json!({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]});
        assert_eq!(text(shared).unwrap().unwrap(), "USR: Hi\nSYS: Ho");
        let pair = json!({"prompt": "Name?", "completion": " Ada"});
        assert_eq!(text(pair).unwrap().unwrap(), "Name?\n Ada");
        let alpaca = json!({"instruction": "Add", "input": "", "output": "2"});
        assert_eq!(text(alpaca).unwrap().unwrap(), "Add\n2");
        // As OpenAI writes an answer that only calls a tool.
        let call = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [{"id": "a"}]}]});
        assert_eq!(text(call).unwrap().unwrap(), "USR: Hi\nSYS: ");
        let nothing = json!({"messages": [{"role": "user", "tool_calls": null}]});
        let error = text(nothing).unwrap_err();
        assert_eq!(
            error,
            "messages, message 1: neither content nor value in it"
        );
        assert_eq!(text(json!({"title": "x"})).unwrap(), None);
        let error = text(json!({"messages": [{"role": "user", "content": 78}]})).unwrap_err();
        assert_eq!(
            error,
            "messages, message 1: its content must be text or a list of parts, got a number"
        );
    }

    /// By transformers 5: what is put around messages is the template's; our own ends are not repeated.
    #[test]
    fn chats_have_the_text_that_their_template_makes() {
        let source = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] | trim }}{{ eos_token }}{% endfor %}";
        let settings = json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}});
        let template = ChatTemplate::new(source.into(), settings.as_object().unwrap()).unwrap();
        let options = ReadOptions {
            chat: Some(template),
            ..ReadOptions::default()
        };
        let text = |value: Value| {
            let Value::Object(object) = value else {
                panic!("an object");
            };
            text_of(&object, &options).map(|found| found.map(|(text, _)| text))
        };
        let both = "[user] Hi</s>[assistant] Hello";
        let (user, assistant) = (
            json!({"role": "user", "content": "Hi "}),
            json!({"role": "assistant", "content": "Hello"}),
        );
        for chat in [
            json!({"messages": [user, assistant]}),
            json!({"prompt": [user], "completion": [assistant]}),
            json!({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}),
        ] {
            assert_eq!(text(chat).unwrap().unwrap(), both);
        }
        for pair in [
            json!({"prompt": "Name?", "completion": " Ada"}),
            json!({"prompt": [user], "completion": " Ada"}),
            json!({"instruction": "Add", "output": "2"}),
        ] {
            assert_eq!(text(pair).unwrap_err(), PAIR);
        }
        assert_eq!(text(json!({"title": "x"})).unwrap(), None);
    }

    #[test]
    fn the_last_answer_is_the_text_that_trainers_teach() {
        let answer = |value: Value| {
            let Value::Object(mut object) = value else {
                panic!("an object");
            };
            last_answer(&mut object).cloned()
        };
        let chat = json!({"messages": [
            {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"},
            {"role": "assistant", "content": [{"type": "text", "text": "c"}, {"type": "image_url"}]},
            {"role": "user", "content": "d"},
        ]});
        assert_eq!(answer(chat).unwrap(), "c");
        for part in [json!("c"), json!({"text": {"value": "c"}})] {
            let chat = json!({"messages": [{"role": "assistant", "content": [part, {"type": "image_url"}]}]});
            assert_eq!(answer(chat).unwrap(), "c");
        }
        let shared = json!({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]});
        assert_eq!(answer(shared).unwrap(), "Ho");
        assert_eq!(
            answer(json!({"prompt": "p", "completion": "c"})).unwrap(),
            "c"
        );
        let pair = json!({"prompt": [{"role": "user", "content": "p"}], "completion": [{"role": "assistant", "content": "q"}]});
        assert_eq!(answer(pair).unwrap(), "q");
        assert_eq!(
            answer(json!({"instruction": "i", "output": "o"})).unwrap(),
            "o"
        );
        assert_eq!(
            answer(json!({"messages": [{"role": "user", "content": "b"}]})),
            None
        );
        assert_eq!(
            answer(json!({"messages": [{"role": "assistant", "content": null}]})),
            None
        );
        assert_eq!(answer(json!({"title": "x"})), None);
        // A key without a list is read no more than here, and an answer that only calls a tool has no text.
        let pair = json!({"messages": null, "prompt": "p", "completion": "c"});
        assert_eq!(answer(pair).unwrap(), "c");
        for last in [
            json!({"role": "assistant", "content": null, "tool_calls": []}),
            json!({"role": "assistant", "tool_calls": []}),
            json!({"role": "assistant", "content": " ", "tool_calls": []}),
            json!({"role": "assistant", "content": [{"type": "text", "text": ""}]}),
        ] {
            let chat = json!({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}, last]});
            assert_eq!(answer(chat).unwrap(), "a");
        }
    }

    /// What is read, what is taught, and whether marks belong to it, of one object.
    #[test]
    fn what_is_read_and_what_is_taught_are_of_the_same_keys() {
        let messages =
            json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]);
        let joined = "USR: q\nSYS: a";
        for (value, named, read, taught) in [
            (json!({"text": "t", "messages": messages}), None, "t", "t"),
            (
                json!({"text": null, "messages": messages}),
                None,
                joined,
                "a",
            ),
            (
                json!({"text": " \n", "messages": messages}),
                None,
                joined,
                "a",
            ),
            (json!({"text": " ", "abstract": "s"}), None, "s", "s"),
            (json!({"text": " ", "abstract": null}), None, " ", " "),
            (
                json!({"abstract": "s", "messages": messages}),
                None,
                joined,
                "a",
            ),
            (
                json!({"text": "t", "body": "b", "messages": messages}),
                Some("body"),
                "b",
                "b",
            ),
        ] {
            let Value::Object(mut object) = value else {
                panic!("an object");
            };
            let options = ReadOptions {
                text: named.map(str::to_owned),
                ..ReadOptions::default()
            };
            let content = content(&object, b"", &options).unwrap().unwrap();
            let (text, whole) = match content {
                Content::Text(text) => (text, true),
                Content::Joined(text, _) => (text, false),
            };
            assert_eq!(text, read, "{object:?}");
            let found = taught_text(&mut object, named).unwrap();
            assert_eq!((found.0.as_str(), found.1), (taught, whole));
            // Marks count the characters of one text.
            object.insert("masked".to_owned(), json!([{"start": 0, "end": 1}]));
            assert_eq!(super::content(&object, b"", &options).is_ok(), whole);
        }
    }

    /// Names are those of a record, of its messages, their parts and calls; an argument of a tool may have any key.
    #[test]
    fn every_text_is_seen_but_roles_types_and_ids() {
        let Value::Object(object) = json!({
            "id": "x1", "from": "a", "n": 5,
            "messages": [
                {"role": "x2", "content": [{"type": "x3", "tool_use_id": "x8", "text": "b"}], "name": "c"},
                {"role": "x4", "tool_calls": [{"id": "x5", "type": "x6", "function": {"arguments": {"from": "d", "id": 7}}}]},
                {"role": "x7", "tool_call_id": "x9", "content": ""},
                {"from": "e"},
            ],
            "prompt": {"from": "f", "content": "g"},
        }) else {
            panic!("an object");
        };
        let mut seen = Vec::new();
        let new = each_text(&object, &mut |text, keys| {
            seen.push(text.to_owned());
            let texts = ["b", "g", ""];
            assert_eq!(keys.is_empty(), texts.contains(&text), "{text}");
            (text == "5" || text == "c").then(|| "M".to_owned())
        });
        seen.sort();
        assert_eq!(seen, ["", "5", "7", "a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(new["n"], "M");
        assert_eq!(new["messages"][0]["name"], "M");
        let mut names = Vec::new();
        any_name(&object, &mut |name| {
            names.extend(name.starts_with('x').then(|| name.to_owned()));
            false
        });
        names.sort();
        assert_eq!(
            names,
            ["x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9"]
        );
    }

    /// Every piece of a joined text is where it says it is, in the string that it is from.
    #[test]
    fn spans_of_the_joined_text_are_found_in_their_strings() {
        let Value::Object(object) = json!({"messages": [
            {"role": "user", "content": " one\r\n two  three\n"},
            {"role": "assistant", "content": [{"text": "a\nb"}, {"type": "image"}, {"text": "c"}]},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": null, "tool_calls": []},
        ]}) else {
            panic!("an object");
        };
        let joined = Joined::of(&object).unwrap().unwrap();
        assert_eq!(
            joined.text,
            "USR: one  two  three\nSYS: a b c\nUSR: a\nSYS: "
        );
        for piece in &joined.pieces {
            let there = &joined.text[piece.at..piece.at + piece.length];
            assert_eq!(there, &piece.source[piece.from..piece.from + piece.length]);
        }
        let at = joined.text.find("one").unwrap();
        let sources = joined.sources(&(at..at + "one  two".len()));
        assert_eq!(sources.len(), 1);
        assert_eq!(&sources[0].0[sources[0].1.clone()], "one\r\n two");
        let at = joined.text.find("b c").unwrap();
        let sources = joined.sources(&(at..at + 3));
        let parts: Vec<&str> = sources.iter().map(|(s, r)| &s[r.clone()]).collect();
        assert_eq!(parts, ["b", "c"]);
        assert_eq!(joined.sources(&(0..4)), []);
    }
}
