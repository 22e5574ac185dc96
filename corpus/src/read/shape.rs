//! Record formats of other trainers: chats, and pairs of a prompt and its answer. Each record is a JSON object with
//! several texts.

use super::{ReadOptions, values};
use crate::answers::Answers;
use serde_json::{Map, Value, json};
use std::ops::Range;

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// The keys that an object without `text` may have instead, for messages.
pub(super) const SHAPES: &str =
    "text, messages, conversations, prompt and completion, or instruction and output";

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

/// Returns the text of an object whose JSON text is known, as [`text_of`] does.
///
/// # Errors
/// Also returns an error if a chat template would write one of its numbers as another one.
pub(super) fn text_of_json(
    object: &Object,
    json: &[u8],
    options: &ReadOptions,
) -> Result<Option<(String, Option<Answers>)>, String> {
    if options.chat.is_some() && values::has_whole_number_beyond_64_bits(json) {
        return Err(BEYOND_64_BITS.to_owned());
    }
    text_of(object, options)
}

/// Returns the text of an object, according to its keys; `None` if it has no known shape.
///
/// Without a chat template, each message becomes a line that begins with its speaker, as in dialogues; otherwise the
/// template renders the messages. The parts of a pair follow each other.
///
/// # Errors
/// Returns an error if a message has no text, the template rejects the conversation, or a template is given for texts
/// that are not messages.
pub(super) fn text_of(
    object: &Object,
    options: &ReadOptions,
) -> Result<Option<(String, Option<Answers>)>, String> {
    let Some(chat) = &options.chat else {
        return Ok(plain_text(object)?.map(|text| (text, None)));
    };
    let Some((key, said)) = conversation(object) else {
        return match plain_text(object)? {
            Some(_) => Err(OWN_TEXT.to_owned()),
            None => Ok(None),
        };
    };
    let text = chat.record(&said, object.get("tools"), options.loss_on);
    text.map(Some).map_err(|why| format!("{key}: {why}"))
}

/// Returns the text without a template.
fn plain_text(object: &Object) -> Result<Option<String>, String> {
    Ok(Joined::of(object)?.map(|joined| joined.text))
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
        for key in ["messages", "conversations"] {
            if let Some(Value::Array(said)) = object.get(key) {
                return Self::messages(key, said).map(Some);
            }
        }
        let pairs: [(&[&str], &str); 2] = [
            (&["prompt", "completion"], "completion"),
            (&["instruction", "input", "output"], "output"),
        ];
        for (keys, needed) in pairs {
            if !object.contains_key(keys[0]) || !object.contains_key(needed) {
                continue;
            }
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
            return Ok(Some(joined));
        }
        Ok(None)
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

    /// Joins messages, one per line, each after its speaker.
    fn messages(key: &str, said: &'a [Value]) -> Result<Self, String> {
        let mut lines = Self::default();
        for (number, message) in said.iter().enumerate() {
            let wrong = |why: &str| format!("{key}, message {}: {why}", number + 1);
            let get = |names: [&str; 2]| names.into_iter().find_map(|name| message.get(name));
            let content: Vec<&str> = match get(["content", "value"]) {
                Some(Value::String(text)) => vec![text],
                Some(Value::Array(parts)) => {
                    let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                    texts.collect()
                }
                // A message that only calls a tool.
                Some(Value::Null) => Vec::new(),
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

/// Returns the answer that an object without `text` trains on: the text of the assistant's last message, of the
/// completion, or of the output. Returns `None` if it has none of them.
///
/// ```
/// # use serde_json::json;
/// let mut chat = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]});
/// let answer = chat.as_object_mut().and_then(reticent_corpus::read::last_answer);
/// assert_eq!(answer.unwrap(), "Hello");
/// ```
pub fn last_answer(object: &mut Object) -> Option<&mut String> {
    let key = ["messages", "conversations", "completion", "output"]
        .into_iter()
        .find(|key| object.contains_key(*key))?;
    match object.get_mut(key)? {
        Value::String(text) => Some(text),
        Value::Array(said) => last_said(said),
        _ => None,
    }
}

/// Returns the text of the assistant's last message.
fn last_said(said: &mut [Value]) -> Option<&mut String> {
    let by_assistant = |(number, message): &(usize, &mut Value)| {
        let role = ["role", "from"].iter().find_map(|key| message.get(key));
        speaker(role.and_then(Value::as_str), *number) == "SYS"
    };
    let (_, message) = said.iter_mut().enumerate().rfind(by_assistant)?;
    let key = ["content", "value"]
        .into_iter()
        .find(|key| message.get(key).is_some())?;
    match message.get_mut(key)? {
        Value::String(text) => Some(text),
        Value::Array(parts) => {
            parts
                .iter_mut()
                .rev()
                .find_map(|part| match part.get_mut("text")? {
                    Value::String(text) => Some(text),
                    _ => None,
                })
        }
        _ => None,
    }
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
            Self::Message => &["role", "from", "type", "id"],
            Self::Part | Self::Call => &["type", "id"],
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

/// Returns an object with every text changed, wherever it is, except names. Numbers count as text, and become strings
/// if they are changed. `change` receives each string by reference to the object.
pub(crate) fn each_text(
    object: &Object,
    change: &mut impl FnMut(&str) -> Option<String>,
) -> Object {
    changed(object, Place::Record, change)
}

fn changed(
    object: &Object,
    place: Place,
    change: &mut impl FnMut(&str) -> Option<String>,
) -> Object {
    let each = object.iter().map(|(key, value)| {
        let new = match place.is_name(object, key) {
            true => value.clone(),
            false => changed_value(value, place.inside(key, value), change),
        };
        (key.clone(), new)
    });
    each.collect()
}

fn changed_value(
    value: &Value,
    place: Place,
    change: &mut impl FnMut(&str) -> Option<String>,
) -> Value {
    let new = match value {
        Value::String(text) => change(text),
        Value::Number(number) => change(&number.to_string()),
        Value::Array(items) => {
            let each = items.iter().map(|item| changed_value(item, place, change));
            return Value::Array(each.collect());
        }
        Value::Object(object) => return Value::Object(changed(object, place, change)),
        Value::Null | Value::Bool(_) => None,
    };
    new.map_or_else(|| value.clone(), Value::String)
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
        let shared = json!({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]});
        assert_eq!(text(shared).unwrap().unwrap(), "USR: Hi\nSYS: Ho");
        let pair = json!({"prompt": "Name?", "completion": " Ada"});
        assert_eq!(text(pair).unwrap().unwrap(), "Name?\n Ada");
        let alpaca = json!({"instruction": "Add", "input": "", "output": "2"});
        assert_eq!(text(alpaca).unwrap().unwrap(), "Add\n2");
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
            assert_eq!(text(pair).unwrap_err(), OWN_TEXT);
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
    }

    /// Names are those of a record, of its messages, their parts and calls; an argument of a tool may have any key.
    #[test]
    fn every_text_is_seen_but_roles_types_and_ids() {
        let Value::Object(object) = json!({
            "id": "x1", "from": "a", "n": 5,
            "messages": [
                {"role": "x2", "content": [{"type": "x3", "text": "b"}], "name": "c"},
                {"role": "x4", "tool_calls": [{"id": "x5", "type": "x6", "function": {"arguments": {"from": "d", "id": 7}}}]},
                {"from": "e"},
            ],
            "prompt": {"from": "f", "content": "g"},
        }) else {
            panic!("an object");
        };
        let mut seen = Vec::new();
        let new = each_text(&object, &mut |text| {
            seen.push(text.to_owned());
            (text == "5" || text == "c").then(|| "M".to_owned())
        });
        seen.sort();
        assert_eq!(seen, ["5", "7", "a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(new["n"], "M");
        assert_eq!(new["messages"][0]["name"], "M");
        let mut names = Vec::new();
        any_name(&object, &mut |name| {
            names.extend(name.starts_with('x').then(|| name.to_owned()));
            false
        });
        names.sort();
        assert_eq!(names, ["x1", "x2", "x3", "x4", "x5", "x6"]);
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
