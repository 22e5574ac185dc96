//! A chat template at work: Jinja as transformers sets it up.

#[cfg(feature = "workers")]
use crate::worker::{Refusal, Work};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior};
use regex::Regex;
use serde_json::{Map, Value as Json};
use std::ops::Range;

/// Longest template, and longest text that one may make of a conversation, in bytes: 16 MiB.
pub(super) const LARGEST: usize = 1 << 24;
/// Instructions that one conversation may take.
const FUEL: u64 = 2_000_000;
/// How deep macros may call each other.
const DEPTH: usize = 64;

/// What `{% generation %}` calls, and the variable that holds what it puts around its text, where that is to be found.
const GENERATION: &str = "reticent_generation";
const MARKS: &str = "reticent_marks";

/// Transformers' block around what a model writes, as a call of ours; none where the template has no such block.
fn with_calls(source: &str) -> Option<String> {
    let tag = |name: &str| Regex::new(&format!(r"\{{%([-+]?)\s*{name}\s*([-+]?)%\}}"));
    let (Ok(begin), Ok(end)) = (tag("generation"), tag("endgeneration")) else {
        return None; // they are regular expressions
    };
    if !begin.is_match(source) {
        return None;
    }
    let begun = begin.replace_all(source, format!("{{%$1 call {GENERATION}() $2%}}"));
    Some(end.replace_all(&begun, "{%$1 endcall $2%}").into_owned())
}

/// Whether a template says by itself what the assistant writes.
pub(super) fn generates(source: &str) -> bool {
    with_calls(source).is_some()
}

/// The text of a block, between the marks where there are any.
fn generation(state: &mut State<'_, '_>, options: Kwargs) -> Result<String, Error> {
    let text = options.get::<Value>("caller")?.call(state, &[])?;
    let marks = state.lookup(MARKS);
    let marks = marks.as_ref().and_then(Value::as_str).unwrap_or_default();
    Ok(match marks.chars().collect::<Vec<char>>()[..] {
        [open, close] => format!("{open}{text}{close}"),
        _ => text.to_string(),
    })
}

/// Two characters that stand for no text, neither of which a request or a template has.
pub(super) fn marks(texts: [&str; 2]) -> Option<[char; 2]> {
    let mut free =
        ('\u{fdd0}'..='\u{fdef}').filter(|c| !texts.iter().any(|text| text.contains(*c)));
    Some([free.next()?, free.next()?])
}

/// A text without its marks, and the bytes that stood between them; none where they do not match.
pub(super) fn unmarked(
    text: &str,
    [open, close]: [char; 2],
) -> Option<(String, Vec<Range<usize>>)> {
    let (mut out, mut spans, mut open_at) =
        (String::with_capacity(text.len()), Vec::new(), Vec::new());
    for c in text.chars() {
        if c == open {
            open_at.push(out.len());
        } else if c == close {
            // A block inside another is part of it.
            let start = open_at.pop()?;
            if open_at.is_empty() && start < out.len() {
                spans.push(start..out.len());
            }
        } else {
            out.push(c);
        }
    }
    open_at.is_empty().then_some((out, spans))
}

/// A template with its special tokens, and what it may call.
pub(crate) struct Rendering {
    specials: Map<String, Json>,
    environment: Environment<'static>,
}

impl Rendering {
    /// # Errors
    /// A template that is none, or too long.
    pub(super) fn new(source: String, specials: Map<String, Json>) -> Result<Self, String> {
        if source.len() > LARGEST {
            return Err(format!(
                "a chat template of {} bytes; at most {LARGEST} are read",
                source.len()
            ));
        }
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
        environment.add_function(GENERATION, generation);
        environment
            .add_template_owned("chat", with_calls(&source).unwrap_or(source))
            .map_err(|e| wrong(&e))?;
        Ok(Self {
            specials,
            environment,
        })
    }

    /// The text of what has `messages` and `tools`, and perhaps `add_generation_prompt` and `marks`.
    ///
    /// # Errors
    /// What the template refuses, and where it is stopped; never a text of the conversation.
    pub(super) fn render(&self, said: Json) -> Result<String, String> {
        let template = self
            .environment
            .get_template("chat")
            .map_err(|e| wrong(&e))?;
        let mut seen = self.specials.clone();
        seen.insert("add_generation_prompt".into(), Json::Bool(false));
        if let Json::Object(said) = said {
            seen.extend(said);
        }
        if let Some(marks) = seen.remove("marks") {
            seen.insert(MARKS.into(), marks);
        }
        seen.insert("documents".into(), Json::Null);
        let mut out = Bounded(Vec::new());
        template
            .render_captured_to(Value::from(Serde(&seen)), &mut out)
            .map_err(|e| wrong(&e))?;
        String::from_utf8(out.0).map_err(|e| e.to_string())
    }
}

#[cfg(feature = "workers")]
impl Work for Rendering {
    const ARGUMENT: &'static str = "template-worker";
    /// The template, and its special tokens as JSON.
    const FILES: &'static [u64] = &[LARGEST as u64, LARGEST as u64];

    fn load(files: Vec<Vec<u8>>) -> Result<Self, Refusal> {
        let mut files = files.into_iter();
        let source = String::from_utf8(files.next().unwrap_or_default())
            .map_err(|_| refused("a template that is not UTF-8".to_owned()))?;
        let specials = serde_json::from_slice(&files.next().unwrap_or_default())
            .map_err(|_| refused("special tokens that are no JSON".to_owned()))?;
        Self::new(source, specials).map_err(refused)
    }

    fn about(&self) -> Vec<String> {
        Vec::new()
    }

    fn answer(&self, said: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let said = serde_json::from_slice(&said)
            .map_err(|_| refused("a conversation that is no JSON".to_owned()))?;
        self.render(said).map(String::into_bytes).map_err(refused)
    }
}

#[cfg(feature = "workers")]
fn refused(problem: String) -> Refusal {
    Refusal { file: 0, problem }
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
        Json::Number(number) if number.is_f64() => {
            out.push_str(&number.as_f64().map_or_else(String::new, float));
        }
        other => out.push_str(&other.to_string()),
    }
}

/// A number as Python's `repr` writes it: with an exponent below 1e-4 and from 1e16 on.
fn float(x: f64) -> String {
    let short = format!("{x:e}");
    match short.split_once('e').map(|(digits, e)| (digits, e.parse())) {
        Some((digits, Ok(e @ (..=-5_i32 | 16..)))) => {
            let sign = if e < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", e.abs())
        }
        _ => format!("{x:?}"),
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
    use super::super::ChatTemplate;
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
                "{\"role\": \"user\", \"content\": \" Hi\\nthere \"}nonerole,content,",
            ),
        ] {
            assert_eq!(
                template(source).render(&chat, None).unwrap(),
                want,
                "{source}"
            );
        }
        let tools =
            json!([{"type": "function", "n": [1, 2.5, null, true, 1.0, 1e30, 1e-5, 0.0001, 1e15]}]);
        let got = template("{{ tools | tojson }}").render(&chat, Some(&tools));
        assert_eq!(
            got.unwrap(),
            "[{\"type\": \"function\", \"n\": [1, 2.5, null, true, 1.0, 1e+30, 1e-05, 0.0001, 1000000000000000.0]}]"
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
}
