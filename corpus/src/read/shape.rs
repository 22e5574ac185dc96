//! Records as other trainers have them: chats, and pairs of a prompt and its answer, each a JSON object with several
//! texts in it.

use super::ChatTemplate;
use crate::answers::{Answers, LossOn};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// What an object without `text` may have instead, for messages.
pub(super) const SHAPES: &str =
    "text, messages, conversations, prompt and completion, or instruction and output";

/// The keys that are read of such an object, those of a table too.
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

/// Why an object is refused whose numbers would be written as others.
pub(super) const BEYOND_64_BITS: &str = "a whole number beyond 64 bits, -0, or a number with more digits than a double keeps, which would be written as another one; put it in quotes";

/// Why a record is refused beside a chat template.
pub(super) const OWN_TEXT: &str = "a text of its own, which no chat template changes: read it without the template, or messages without a text beside them";

/// Keys under which a string is no text: who speaks, and what a part is.
const NO_TEXT: [&str; 4] = ["role", "from", "type", "id"];

/// The text of an object, by what is in it; none where it has no shape that is known.
///
/// Messages are lines, each with who speaks in front, as dialogues are, or what a chat template makes of them; parts of a
/// pair follow each other.
///
/// # Errors
/// A message without a text; what a chat template refuses; texts beside a template that are no messages.
pub(super) fn text_of(
    object: &Object,
    (chat, loss_on): (Option<&ChatTemplate>, Option<LossOn>),
) -> Result<Option<(String, Option<Answers>)>, String> {
    let Some(chat) = chat else {
        return Ok(plain_text(object)?.map(|text| (text, None)));
    };
    let Some((key, said)) = conversation(object) else {
        return match plain_text(object)? {
            Some(_) => Err(OWN_TEXT.to_owned()),
            None => Ok(None),
        };
    };
    let text = chat.record(&said, object.get("tools"), loss_on);
    text.map(Some).map_err(|why| format!("{key}: {why}"))
}

/// The same without a template.
fn plain_text(object: &Object) -> Result<Option<String>, String> {
    for key in ["messages", "conversations"] {
        if let Some(Value::Array(said)) = object.get(key) {
            return messages(key, said).map(Some);
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
        let parts = keys
            .iter()
            .filter_map(|key| Some((*key, object.get(*key)?)));
        let parts: Vec<String> = parts
            .map(|(key, part)| match part {
                Value::String(text) => Ok(text.clone()),
                Value::Null => Ok(String::new()),
                Value::Array(said) => messages(key, said),
                other => Err(format!(
                    "{key} must be text or a list of messages, got {}",
                    kind(other)
                )),
            })
            .collect::<Result<_, _>>()?;
        let parts: Vec<&str> = parts
            .iter()
            .map(String::as_str)
            .filter(|p| !p.is_empty())
            .collect();
        return Ok(Some(parts.join("\n")));
    }
    Ok(None)
}

/// The messages of an object as chat templates read them, `role` and `content`, and the key they stand under; those of a
/// prompt and its completion are one conversation.
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

/// A message of `from` and `value` with the names that templates know.
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

/// Where an object without a text is taught to answer: the text of the last message of the assistant, of the completion or
/// of the output; none where it has none of them.
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

/// The text of the assistant's last message.
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

fn messages(key: &str, said: &[Value]) -> Result<String, String> {
    let lines = said.iter().enumerate().map(|(number, message)| {
        let wrong = |why: &str| format!("{key}, message {}: {why}", number + 1);
        let get = |names: [&str; 2]| names.into_iter().find_map(|name| message.get(name));
        let content = match get(["content", "value"]) {
            Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                Cow::Owned(texts.collect::<Vec<_>>().join(" "))
            }
            // A message that only calls a tool.
            Some(Value::Null) => Cow::Borrowed(""),
            Some(other) => {
                return Err(wrong(&format!(
                    "its content must be text or a list of parts, got {}",
                    kind(other)
                )));
            }
            None => return Err(wrong("neither content nor value in it")),
        };
        let role = get(["role", "from"]).and_then(Value::as_str);
        let words: Vec<&str> = content.split(['\n', '\r']).map(str::trim).collect();
        Ok(format!(
            "{}: {}",
            speaker(role, number),
            words.join(" ").trim()
        ))
    });
    Ok(lines.collect::<Result<Vec<String>, String>>()?.join("\n"))
}

/// Who speaks, as in dialogues.
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

/// What a value is, for messages: never the value.
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

/// Changes every text of an object, wherever it stands but for roles, types and ids. A number is a text too, and
/// becomes one if that is changed.
pub(crate) fn each_text(value: &mut Value, change: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = change(text) {
                *text = new;
            }
        }
        Value::Number(number) => {
            if let Some(new) = change(&number.to_string()) {
                *value = Value::String(new);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                if !(NO_TEXT.contains(&key.as_str()) && (value.is_string() || value.is_number())) {
                    each_text(value, change);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Whether `found` says so of anything that [`each_text`] leaves as it is: keys, and roles, types and ids.
pub(crate) fn any_name(value: &Value, found: &mut impl FnMut(&str) -> bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| any_name(item, found)),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            found(key)
                || match value {
                    Value::String(name) if NO_TEXT.contains(&key.as_str()) => found(name),
                    Value::Number(name) if NO_TEXT.contains(&key.as_str()) => {
                        found(&name.to_string())
                    }
                    _ => any_name(value, found),
                }
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(value: Value) -> Result<Option<String>, String> {
        let Value::Object(object) = value else {
            panic!("an object");
        };
        text_of(&object, (None, None)).map(|found| found.map(|(text, _)| text))
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
        let text = |value: Value| {
            let Value::Object(object) = value else {
                panic!("an object");
            };
            text_of(&object, (Some(&template), None)).map(|found| found.map(|(text, _)| text))
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

    #[test]
    fn every_text_is_seen_but_roles_types_and_ids() {
        let mut value = json!({"id": "x1", "n": 5, "messages": [{"role": "x2", "content": "x3", "name": "x4"}]});
        let mut seen = Vec::new();
        each_text(&mut value, &mut |text| {
            seen.push(text.to_owned());
            (text == "5" || text == "x4").then(|| "M".to_owned())
        });
        assert_eq!(seen, ["5", "x3", "x4"]);
        assert_eq!(
            value,
            json!({"id": "x1", "n": "M", "messages": [{"role": "x2", "content": "x3", "name": "M"}]})
        );
    }
}
