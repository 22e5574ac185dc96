//! Chat templates: a conversation as the text that a model was taught to read.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior};
use serde_json::{Map, Value as Json};
use std::path::Path;
use std::sync::Arc;

/// The file of a template by itself.
const OWN: &str = "chat_template.jinja";
/// The file that holds one among other settings.
const SETTINGS: &str = "tokenizer_config.json";
/// Longest template, and longest text that one may make of a conversation, in bytes: 16 MiB.
const LARGEST: usize = 1 << 24;
/// Instructions that one conversation may take.
const FUEL: u64 = 2_000_000;
/// How deep macros may call each other.
const DEPTH: usize = 64;
/// The name of the template where a folder has several.
const DEFAULT: &str = "default";

/// A template as transformers' `apply_chat_template` reads it.
///
/// Nothing in it is trusted: it sees the conversation and the special tokens alone, and is stopped after so many
/// instructions, at a depth, and when its text grows too long.
#[derive(Clone)]
pub struct ChatTemplate {
    source: String,
    specials: Vec<(String, String)>,
    environment: Arc<Environment<'static>>,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl PartialEq for ChatTemplate {
    fn eq(&self, other: &Self) -> bool {
        (&self.source, &self.specials) == (&other.source, &other.specials)
    }
}

impl Eq for ChatTemplate {}

impl ChatTemplate {
    /// Of a model's folder, or of a file: `chat_template.jinja` first, then `chat_template` of
    /// `tokenizer_config.json`, whose special tokens the template sees.
    ///
    /// # Errors
    /// What is wrong, in words: no template, a file that can't be read, a template that is none.
    pub fn load(path: &Path) -> Result<Self, String> {
        let folder = match path.is_dir() {
            true => path,
            false => path.parent().unwrap_or(path),
        };
        let settings = match text(&folder.join(SETTINGS))? {
            Some(text) => object(&text)?,
            None => Map::new(),
        };
        let own = match path.is_dir() {
            true => folder.join(OWN),
            false => path.to_path_buf(),
        };
        let is_settings = own.file_name().is_some_and(|name| name == SETTINGS);
        let source = match text(&own)? {
            Some(text) if !is_settings => text,
            None if !path.is_dir() => return Err("no such file or folder".to_owned()),
            _ => template_of(&settings).ok_or_else(|| {
                format!(
                    "neither {OWN} nor chat_template in {SETTINGS}: the model has no chat template"
                )
            })?,
        };
        Self::new(source, &settings)
    }

    /// A template with the special tokens that these settings name.
    ///
    /// # Errors
    /// A template that is none, or too long.
    pub fn new(source: String, settings: &Map<String, Json>) -> Result<Self, String> {
        if source.len() > LARGEST {
            return Err(format!(
                "a chat template of {} bytes; at most {LARGEST} are read",
                source.len()
            ));
        }
        let named = |(key, value): (&String, &Json)| {
            let text = value.get("content").unwrap_or(value).as_str()?;
            key.ends_with("_token")
                .then(|| (key.clone(), text.to_owned()))
        };
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.map_err(|e| wrong(&e))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(DEPTH);
        environment.set_unknown_method_callback(method);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", raise);
        environment
            .add_template_owned("chat", source.clone())
            .map_err(|e| wrong(&e))?;
        Ok(Self {
            source,
            specials: settings.iter().filter_map(named).collect(),
            environment: Arc::new(environment),
        })
    }

    /// The text of a conversation as `apply_chat_template` gives it without the beginning of another answer, `tools`
    /// being those that the assistant may call.
    ///
    /// ```
    /// use reticent_corpus::ChatTemplate;
    /// use serde_json::{Map, json};
    /// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content.strip() }}\n{% endfor %}";
    /// let template = ChatTemplate::new(source.to_owned(), &Map::new())?;
    /// let said = [json!({"role": "user", "content": "Hi "}), json!({"role": "assistant", "content": "Hello"})];
    /// assert_eq!(template.render(&said, None)?, "<|user|>Hi\n<|assistant|>Hello\n");
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// What the template refuses, and where it is stopped; never a text of the conversation.
    pub fn render(&self, messages: &[Json], tools: Option<&Json>) -> Result<String, String> {
        let template = self
            .environment
            .get_template("chat")
            .map_err(|e| wrong(&e))?;
        let mut seen: Map<String, Json> = Map::new();
        for (name, token) in &self.specials {
            seen.insert(name.clone(), Json::String(token.clone()));
        }
        seen.insert("messages".into(), Json::Array(messages.to_vec()));
        seen.insert("add_generation_prompt".into(), Json::Bool(false));
        seen.insert("tools".into(), tools.cloned().unwrap_or_default());
        seen.insert("documents".into(), Json::Null);
        let mut out = Bounded(Vec::new());
        template
            .render_captured_to(Value::from(Serde(&seen)), &mut out)
            .map_err(|e| wrong(&e))?;
        String::from_utf8(out.0).map_err(|e| e.to_string())
    }

    /// The same for a record, which gets the tokens of beginning and end of text by itself: not twice.
    pub(super) fn record(&self, messages: &[Json], tools: Option<&Json>) -> Result<String, String> {
        let whole = self.render(messages, tools)?;
        let special = |name: &str| {
            let found = self.specials.iter().find(|(key, _)| key == name);
            found.map_or("", |(_, token)| token)
        };
        let text = whole.strip_prefix(special("bos_token")).unwrap_or(&whole);
        Ok(text
            .strip_suffix(special("eos_token"))
            .unwrap_or(text)
            .to_owned())
    }
}

/// A text that stops growing.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > LARGEST {
            return Err(std::io::Error::other("too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file that is there.
fn text(path: &Path) -> Result<Option<String>, String> {
    let shown = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    match reticent_disk::read_regular(path, LARGEST as u64) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|e| shown(&e)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(shown(&e)),
    }
}

fn object(text: &str) -> Result<Map<String, Json>, String> {
    match serde_json::from_str(text) {
        Ok(Json::Object(map)) => Ok(map),
        Ok(_) => Err(format!("{SETTINGS} is no JSON object")),
        Err(e) => Err(format!("{SETTINGS} is not JSON: {e}")),
    }
}

/// The template among the settings: the only one, or that named default.
fn template_of(settings: &Map<String, Json>) -> Option<String> {
    match settings.get("chat_template")? {
        Json::String(text) => Some(text.clone()),
        Json::Array(list) => list.iter().find_map(|one| {
            (one.get("name")?.as_str()? == DEFAULT).then_some(())?;
            Some(one.get("template")?.as_str()?.to_owned())
        }),
        _ => None,
    }
}

/// What went wrong, without a word of the conversation: the kind and the line; what a template itself raises is its own
/// text.
fn wrong(error: &Error) -> String {
    let line = error
        .line()
        .map_or_else(String::new, |line| format!(" in line {line}"));
    match error.kind() {
        ErrorKind::OutOfFuel => {
            format!("the chat template takes more than {FUEL} instructions{line}")
        }
        ErrorKind::WriteFailure => {
            format!("the chat template writes more than {LARGEST} bytes{line}")
        }
        kind => format!("the chat template fails{line}: {kind}"),
    }
}

/// What a template refuses by itself.
fn raise(_: String) -> Result<Value, Error> {
    Err(Error::new(
        ErrorKind::InvalidOperation,
        "raised by the template",
    ))
}

/// JSON as Python's `json.dumps` writes it, in UTF-8, with `indent` where it is given.
fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    options.get::<Option<bool>>("ensure_ascii")?;
    options.assert_all_used()?;
    let json = serde_json::to_value(value)
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, "no JSON"))?;
    let mut out = String::new();
    dump(&json, indent.map(|i| i.min(16)), 0, &mut out);
    Ok(out)
}

fn dump(value: &Json, indent: Option<usize>, depth: usize, out: &mut String) {
    let newline = |out: &mut String, depth: usize| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value {
        Json::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                newline(out, depth + 1);
                dump(item, indent, depth + 1, out);
            }
            newline(out, depth);
            out.push(']');
        }
        Json::Object(fields) if !fields.is_empty() => {
            out.push('{');
            for (i, (key, item)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                newline(out, depth + 1);
                out.push_str(&Json::String(key.clone()).to_string());
                out.push_str(": ");
                dump(item, indent, depth + 1, out);
            }
            newline(out, depth);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// The methods of Python's texts and dictionaries that templates call.
fn method(
    _: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let unknown = || Error::from(ErrorKind::UnknownMethod);
    if let Some(text) = value.as_str() {
        return text_method(text, name, args)?.ok_or_else(unknown);
    }
    if value.kind() == ValueKind::Map {
        return map_method(value, name, args)?.ok_or_else(unknown);
    }
    Err(unknown())
}

fn text_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let stripped = |from_left: bool, from_right: bool| -> Result<Value, Error> {
        let (set,): (Option<&str>,) = from_args(args)?;
        let drops = |c: char| set.map_or_else(|| c.is_whitespace(), |set| set.contains(c));
        let text = if from_left {
            text.trim_start_matches(drops)
        } else {
            text
        };
        Ok(Value::from(if from_right {
            text.trim_end_matches(drops)
        } else {
            text
        }))
    };
    Ok(Some(match name {
        "strip" => stripped(true, true)?,
        "lstrip" => stripped(true, false)?,
        "rstrip" => stripped(false, true)?,
        "upper" | "lower" | "title" | "capitalize" => {
            let () = from_args(args)?;
            match name {
                "upper" => Value::from(text.to_uppercase()),
                "lower" => Value::from(text.to_lowercase()),
                "capitalize" => Value::from(capitalised(text)),
                _ => {
                    let words = text.split_inclusive(|c: char| !c.is_alphabetic());
                    Value::from(words.map(capitalised).collect::<String>())
                }
            }
        }
        "startswith" | "endswith" => {
            let (part,): (&str,) = from_args(args)?;
            let begins = name == "startswith";
            Value::from(if begins {
                text.starts_with(part)
            } else {
                text.ends_with(part)
            })
        }
        "find" => {
            let (part,): (&str,) = from_args(args)?;
            let at = text.find(part).map(|at| text[..at].chars().count() as i64);
            Value::from(at.unwrap_or(-1))
        }
        "count" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.matches(part).count())
        }
        "replace" => {
            let (from, to, most): (&str, &str, Option<usize>) = from_args(args)?;
            Value::from(text.replacen(from, to, most.unwrap_or(usize::MAX)))
        }
        "split" => {
            let (by, most): (Option<&str>, Option<i64>) = from_args(args)?;
            let most = most
                .and_then(|n| usize::try_from(n).ok())
                .map_or(usize::MAX, |n| n.saturating_add(1));
            match by {
                Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
                Some(by) => text.splitn(most, by).map(Value::from).collect(),
                None => text.split_whitespace().map(Value::from).collect(),
            }
        }
        "splitlines" => {
            let () = from_args(args)?;
            text.lines().map(Value::from).collect()
        }
        _ => return Ok(None),
    }))
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(char::to_uppercase);
    first
        .into_iter()
        .flatten()
        .chain(letters.as_str().to_lowercase().chars())
        .collect()
}

fn map_method(value: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "keys" => {
            let () = from_args(args)?;
            value.try_iter()?.collect()
        }
        "values" => {
            let () = from_args(args)?;
            let keys = value.try_iter()?;
            keys.map(|key| value.get_item(&key))
                .collect::<Result<Value, _>>()?
        }
        "items" => {
            let () = from_args(args)?;
            let keys = value.try_iter()?;
            keys.map(|key| Ok(Value::from(vec![key.clone(), value.get_item(&key)?])))
                .collect::<Result<Value, Error>>()?
        }
        "get" => {
            let (key, other): (&Value, Option<Value>) = from_args(args)?;
            match value.get_item(key)? {
                found if !found.is_undefined() => found,
                _ => other.unwrap_or_else(|| Value::from(())),
            }
        }
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(source: &str) -> ChatTemplate {
        let settings =
            json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "model_max_length": 9});
        ChatTemplate::new(source.to_owned(), settings.as_object().unwrap()).unwrap()
    }

    fn said(pairs: &[(&str, &str)]) -> Vec<Json> {
        let message = |(role, content): &(&str, &str)| json!({"role": role, "content": content});
        pairs.iter().map(message).collect()
    }

    /// By transformers 5.
    #[test]
    fn templates_of_common_kinds_give_what_transformers_gives() {
        let chat = said(&[
            ("user", " Hi\nthere "),
            ("assistant", "<think>\nhm\n</think>\n\nHallo \"ö\""),
        ]);
        for (source, want) in [
            (
                "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] \
                 + eos_token }}\n{% else %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n\
                 {% endfor %}",
                "<|user|>\n Hi\nthere </s>\n<|assistant|>\n<think>\nhm\n</think>\n\nHallo \"ö\"</s>\n",
            ),
            (
                "{{ bos_token }}{%- for m in messages %}{%- set text = m.content.split('</think>')[-1].lstrip('\\n') %}\
                 {{- '[' + m.role | upper + '] ' + text | trim }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}\
                 {% if tools is not none %}{{ tools | tojson }}{% endif %}",
                "<s>[USER] Hi\nthere\n[ASSISTANT] Hallo \"ö\"",
            ),
            (
                "{% for m in messages %}{{ m | tojson }}{% break %}{% endfor %}{{ messages[1].get('name', 'none') }}\
                 {% for k, v in messages[0].items() %}{{ k }},{% endfor %}",
                "{\"content\": \" Hi\\nthere \", \"role\": \"user\"}nonecontent,role,",
            ),
        ] {
            assert_eq!(
                template(source).render(&chat, None).unwrap(),
                want,
                "{source}"
            );
        }
        let tools = json!([{"type": "function", "n": [1, 2.5, null, true]}]);
        let got = template("{{ tools | tojson }}").render(&chat, Some(&tools));
        assert_eq!(
            got.unwrap(),
            "[{\"n\": [1, 2.5, null, true], \"type\": \"function\"}]"
        );
    }

    /// Neither time nor stack nor text without end, and no word of a conversation in what is said.
    #[test]
    fn templates_that_never_end_are_stopped() {
        let secret = said(&[("user", "hunter2")]);
        for (source, word) in [
            (
                "{% for i in range(99999) %}{% for j in range(99999) %}{{ '' }}{% endfor %}{% endfor %}",
                "instructions",
            ),
            (
                "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
                "fails",
            ),
            ("{{ 'x' * 99999999 }}", "bytes"),
            ("{{ raise_exception(messages[0].content) }}", "fails"),
            ("{{ messages[0].content.fly() }}", "fails"),
            ("{{ messages[0].content + 1 }}", "fails"),
        ] {
            let said = template(source).render(&secret, None).unwrap_err();
            assert!(
                said.contains(word) && !said.contains("hunter2"),
                "{source}: {said}"
            );
        }
    }

    /// No other file is within its reach.
    #[test]
    fn a_template_reads_no_other() {
        for source in [
            "{% include 'x' %}",
            "{% import 'x' as y %}",
            "{% extends 'x' %}",
        ] {
            let made = ChatTemplate::new(source.to_owned(), &Map::new());
            assert!(made.is_err(), "{source}");
        }
    }

    #[test]
    fn a_template_is_read_where_transformers_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let read = || ChatTemplate::load(folder.path()).map(|t| t.render(&[], None).unwrap());
        assert!(read().unwrap_err().contains("no chat template"));
        std::fs::write(
            at(SETTINGS),
            json!({"chat_template": "one{{ eos_token }}", "eos_token": "!"}).to_string(),
        )
        .unwrap();
        assert_eq!(read().unwrap(), "one!");
        let several = json!({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]});
        std::fs::write(at(SETTINGS), several.to_string()).unwrap();
        assert_eq!(read().unwrap(), "d");
        std::fs::write(at(OWN), "own\n").unwrap();
        assert_eq!(read().unwrap(), "own");
        std::fs::write(at("other.jinja"), "other").unwrap();
        let other = ChatTemplate::load(&at("other.jinja")).unwrap();
        assert_eq!(other.render(&[], None).unwrap(), "other");
        assert!(ChatTemplate::load(&at("missing")).is_err());
        std::fs::write(at(OWN), "{% for %}").unwrap();
        assert!(read().unwrap_err().contains("chat template"));
        std::fs::write(at(SETTINGS), "[]").unwrap();
        assert!(read().unwrap_err().contains(SETTINGS));
    }
}
