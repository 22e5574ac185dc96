//! Renders chat templates with Jinja, configured as in transformers.

use super::generation::{Bounded, Progress, generation};
use super::python;
use super::scopes::{
    DEFAULTS, GENERATION, MISSING, PROGRESS, defaults, generates, is_missing, with_scopes,
};
#[cfg(feature = "workers")]
use crate::worker::{Refusal, Work};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
#[cfg(feature = "workers")]
use serde_json::json;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The longest template, and the longest text that a template may render, in bytes: 16 MiB.
pub(super) const LARGEST: usize = 1 << 24;
/// The largest number of instructions for one conversation.
const FUEL: u64 = 2_000_000;
/// The maximum depth of macro calls.
const DEPTH: usize = 64;

/// The reason for refusing a template that asks for the time.
const CLOCK: &str = "it writes today's date (strftime_now), so that no text would come out twice; put \
                     {% set date_string = '...' %}, or what it calls the date, in front of it";

/// The text of a conversation, and the bytes of it that the template's `{% generation %}` blocks wrote; `None` if the
/// template does not show this.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) spans: Option<Vec<Range<usize>>>,
}

/// The names of the template that writes only the text, and of the one with calls that mark its blocks.
const TEXT: &str = "text";
const MARKED: &str = "marked";

/// A template with its special tokens and the functions that it may call.
pub(crate) struct Rendering {
    specials: Map<String, Json>,
    environment: Environment<'static>,
}

impl Rendering {
    /// Compiles a template.
    ///
    /// # Errors
    /// Returns an error if the template is invalid or too long.
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
        environment.set_unknown_method_callback(python::method);
        environment.set_formatter(|out, _, value| {
            out.write_str(&python::text(value)?).map_err(Error::from)
        });
        environment.add_filter("tojson", python::to_json);
        environment.add_filter("e", python::escape);
        environment.add_filter("escape", python::escape);
        environment.add_filter("int", python::int);
        environment.add_filter("string", python::string);
        environment.add_filter("title", python::title);
        environment.add_filter("trim", python::trim);
        environment.add_test("iterable", python::is_iterable);
        environment.add_test("sequence", python::is_sequence);
        environment.add_function("raise_exception", raise);
        environment.add_function("range", python::range);
        environment.add_function("strftime_now", clock);
        environment.add_function(GENERATION, generation);
        environment.add_function(DEFAULTS, defaults);
        environment.add_test(MISSING, is_missing);
        // Jinja2 does not have these names, or they mean something else there.
        for name in ["attr", "bool", "chain", "lines", "pprint", "split", "zip"] {
            environment.remove_filter(name);
        }
        // Jinja normalises line ends in this way.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let mut templates = vec![(TEXT, with_scopes(&source, false)?)];
        if generates(&source) {
            templates.push((MARKED, with_scopes(&source, true)?));
        }
        for (name, source) in templates {
            environment
                .add_template_owned(name, source)
                .map_err(|e| match e.detail() {
                    // The detail concerns only the template.
                    Some(detail) => format!("{}: {detail}", wrong(&e)),
                    None => wrong(&e),
                })?;
        }
        Ok(Self {
            specials,
            environment,
        })
    }

    /// Renders an object with `messages`, `tools` and optionally `add_generation_prompt`.
    ///
    /// # Errors
    /// Returns an error if the template rejects the conversation or is stopped by a limit. The error never contains
    /// text of the conversation.
    pub(super) fn render(&self, said: Json) -> Result<Rendered, String> {
        let mut seen = self.specials.clone();
        seen.insert("add_generation_prompt".into(), Json::Bool(false));
        seen.insert("documents".into(), Json::Null);
        if let Json::Object(said) = said {
            seen.extend(said);
        }
        if let Some(Json::Array(messages)) = seen.get_mut("messages") {
            messages.iter_mut().try_for_each(normalise)?;
        }
        let mut expanded = Vec::new();
        seen.values()
            .for_each(|value| python::expanded(value, &mut expanded));
        let seen = seen.iter();
        let mut seen: BTreeMap<&str, Value> = seen
            .map(|(name, value)| (name.as_str(), Value::from(Serde(value))))
            .collect();
        let text = self.written(TEXT, Value::from(seen.clone()), &Arc::default())?;
        if expanded.iter().any(|number| text.contains(number)) {
            return Err(
                "the chat template joins a number of 1e16 or more, or below 1e-4, to a text (by ~ or join), which is not written as Python \
                 writes it; put it in quotes"
                    .to_owned(),
            );
        }
        if self.environment.get_template(MARKED).is_err() {
            return Ok(Rendered { text, spans: None });
        }
        let progress = Arc::<Progress>::default();
        seen.insert(PROGRESS, Value::from_dyn_object(Arc::clone(&progress)));
        let marked = self.written(MARKED, Value::from(seen), &progress);
        let spans = marked.map_or(None, |marked| progress.spans(&marked, &text));
        Ok(Rendered { text, spans })
    }

    /// Renders a template with these variables.
    fn written(
        &self,
        template: &str,
        seen: Value,
        progress: &Arc<Progress>,
    ) -> Result<String, String> {
        let template = self.environment.get_template(template);
        let mut out = Bounded {
            text: Vec::new(),
            progress: Arc::clone(progress),
        };
        template
            .and_then(|template| template.render_captured_to(seen, &mut out))
            .map_err(|e| wrong(&e))?;
        String::from_utf8(out.text).map_err(|e| e.to_string())
    }
}

/// Normalises a message as `apply_chat_template` does: removes keys with null values, and stores its reasoning under
/// the names that templates use.
fn normalise(message: &mut Json) -> Result<(), String> {
    let Json::Object(message) = message else {
        return Err("a message that is no object".to_owned());
    };
    message.retain(|_, value| !value.is_null());
    let reasoning = ["reasoning_content", "thinking", "reasoning"];
    if let Some(reasoning) = reasoning
        .iter()
        .find_map(|name| message.get(*name))
        .cloned()
    {
        if !message.contains_key("thinking") {
            message.shift_insert(0, "thinking".into(), reasoning.clone());
        }
        message.insert("reasoning_content".into(), reasoning);
    }
    Ok(())
}

impl Rendered {
    /// Serialises the spans as JSON in the first line, followed by the text.
    #[cfg(feature = "workers")]
    fn to_bytes(&self) -> Vec<u8> {
        let of = |span: &Range<usize>| json!([span.start, span.end]);
        let spans = self.spans.as_ref();
        let spans = spans.map_or(Json::Null, |spans| spans.iter().map(of).collect());
        format!("{spans}\n{}", self.text).into_bytes()
    }

    /// Parses the output of an untrusted process.
    #[cfg(feature = "workers")]
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let whole = String::from_utf8(bytes).ok()?;
        let (spans, text) = whole.split_once('\n')?;
        let spans: Option<Vec<(usize, usize)>> = serde_json::from_str(spans).ok()?;
        let mut least = 0;
        let span = |(start, end): (usize, usize)| {
            let apart = start >= least && start < end && text.get(start..end).is_some();
            least = end;
            apart.then_some(start..end)
        };
        let spans = match spans {
            Some(spans) => Some(spans.into_iter().map(span).collect::<Option<_>>()?),
            None => None,
        };
        let text = text.to_owned();
        Some(Self { text, spans })
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
            .map_err(|_| Refusal::first("a template that is not UTF-8"))?;
        let specials = serde_json::from_slice(&files.next().unwrap_or_default())
            .map_err(|_| Refusal::first("special tokens that are no JSON"))?;
        Self::new(source, specials).map_err(Refusal::first)
    }

    fn about(&self) -> Vec<String> {
        Vec::new()
    }

    fn answer(&self, said: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let said = serde_json::from_slice(&said)
            .map_err(|_| Refusal::first("a conversation that is no JSON"))?;
        let rendered = self.render(said).map_err(Refusal::first)?;
        Ok(rendered.to_bytes())
    }
}

/// Describes an error without quoting the conversation: what happened, and the line of the template.
fn wrong(error: &Error) -> String {
    let line = error
        .line()
        .map_or_else(String::new, |line| format!(" in line {line}"));
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    if let Some(reason) = causes.find_map(|cause| cause.downcast_ref::<Reason>()) {
        return format!("the chat template fails{line}: {reason}");
    }
    match error.kind() {
        ErrorKind::OutOfFuel => {
            format!("the chat template takes more than {FUEL} instructions{line}")
        }
        ErrorKind::WriteFailure => {
            format!("the chat template writes more than {LARGEST} bytes{line}")
        }
        kind => {
            let detail = error.detail();
            let harmless = detail.filter(|detail| quotes_nothing(kind, detail));
            let said = harmless.map_or_else(|| explained(kind, detail), str::to_owned);
            format!("the chat template fails{line}: {said}")
        }
    }
}

/// Returns whether an error's detail only names types and what the template calls, and contains no value.
fn quotes_nothing(kind: ErrorKind, detail: &str) -> bool {
    const BEGINNINGS: [&str; 15] = [
        "tried to use ",
        "value of type ",
        "cannot calculate length of value of type ",
        "cannot reverse values of type ",
        "cannot join value of type ",
        "cannot round value ",
        "cannot get ",
        "cannot recurse ",
        "cannot perform a containment check ",
        "can only sum numbers",
        "can only assign to namespaces",
        "object is not callable",
        "recursion limit exceeded",
        "repeated ",
        "strings can only be multiplied",
    ];
    use ErrorKind::{CannotUnpack, UnknownFilter, UnknownFunction, UnknownMethod, UnknownTest};
    matches!(
        kind,
        CannotUnpack | UnknownFilter | UnknownFunction | UnknownMethod | UnknownTest
    ) || BEGINNINGS.iter().any(|begin| detail.starts_with(begin))
}

/// Describes an error whose detail might quote a conversation.
fn explained(kind: ErrorKind, detail: Option<&str>) -> String {
    let calculates = |detail: &str| detail.starts_with("unable to calculate ");
    match kind {
        ErrorKind::InvalidOperation if detail.is_some_and(calculates) => {
            "it divides by zero, or computes a whole number beyond 128 bits".to_owned()
        }
        ErrorKind::InvalidOperation => {
            "it computes or writes what its values don't allow".to_owned()
        }
        ErrorKind::UndefinedError => "it reads a part of what is not there".to_owned(),
        kind => kind.to_string(),
    }
}

/// The reason for refusing a template, without text of the conversation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Reason(&'static str);

/// Creates an error for a function that a template calls.
pub(super) fn refused(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason).with_source(Reason(reason))
}

/// Implements `raise_exception`. Its message is dropped, since it may quote the conversation.
fn raise(_: Value) -> Result<Value, Error> {
    Err(refused("it refuses the conversation (raise_exception)"))
}

/// Implements transformers' clock, `strftime_now`.
fn clock(_: Value) -> Result<Value, Error> {
    Err(refused(CLOCK))
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

    /// By transformers 5.24 (`apply_chat_template`): values as Python writes them, keys whose value is null, reasoning, tests.
    #[test]
    fn values_are_those_of_python() {
        let arguments = json!({"city": "Köln", "days": null, "ok": true, "t": 1e30, "l": ["it's", null, false, 2.0],
            "d": {"k": "a\nb", "n": 1e-5}});
        let call = json!({"type": "function", "function": {"name": "w", "arguments": arguments}});
        let chat = [
            json!({"role": "user", "content": "w?"}),
            json!({"role": "assistant", "content": null, "tool_calls": [call], "reasoning": "hm"}),
            json!({"role": "tool", "content": " 3 "}),
            json!({"role": "assistant", "content": "It is 3.", "tool_calls": null}),
        ];
        for (source, want) in [
            (
                "{% for k, v in messages[1].tool_calls[0].function.arguments.items() %}{{ k }}={{ v }};{{ v | string }};{{ k ~ (v if v is none or v is true else '') }}\n{% endfor %}",
                "city=Köln;Köln;city\ndays=None;None;daysNone\nok=True;True;okTrue\nt=1e+30;1e+30;t\nl=[\"it's\", None, False, 2.0];[\"it's\", None, False, 2.0];l\nd={'k': 'a\\nb', 'n': 1e-05};{'k': 'a\\nb', 'n': 1e-05};d\n",
            ),
            (
                "{% for m in messages %}{% for k in m %}{{ k }} {% endfor %}{{ m.content is defined }}{{ m.reasoning_content }}{{ m.thinking }}|{% endfor %}",
                "role content True|thinking role tool_calls reasoning reasoning_content Falsehmhm|role content True|role content True|",
            ),
            (
                "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '^' }}>{{ m.role }}>{% if loop.nextitem %}{{ loop.nextitem.role }}{% else %}${% endif %} {% endfor %}",
                "^>user>assistant user>assistant>tool assistant>tool>assistant tool>assistant>$ ",
            ),
            (
                "{% for x in [none, tools, 'a', messages, messages[0], 1, true, 1.5, nothing] %}{{ x is iterable }}{{ x is sequence }}{{ x is mapping }}{{ x is number }}{{ x is string }} {% endfor %}{% if tools is iterable and tools | length > 0 %}tools{% endif %}",
                "FalseFalseFalseFalseFalse FalseFalseFalseFalseFalse TrueTrueFalseFalseTrue TrueTrueFalseFalseFalse TrueTrueTrueFalseFalse FalseFalseFalseTrueFalse FalseFalseFalseTrueFalse FalseFalseFalseTrueFalse TrueTrueFalseFalseFalse ",
            ),
            (
                "{{ messages[1].tool_calls[0] | tojson(ensure_ascii=true, sort_keys=true) }}{{ messages[0] | tojson(separators=(',', ':')) }}{{ messages[0] | tojson(indent=2) }}",
                "{\"function\": {\"arguments\": {\"city\": \"K\\u00f6ln\", \"d\": {\"k\": \"a\\nb\", \"n\": 1e-05}, \"days\": null, \"l\": [\"it's\", null, false, 2.0], \"ok\": true, \"t\": 1e+30}, \"name\": \"w\"}, \"type\": \"function\"}{\"role\":\"user\",\"content\":\"w?\"}{\n  \"role\": \"user\",\n  \"content\": \"w?\"\n}",
            ),
            (
                "{{ ', '.join(['a', 'b']) }}{{ 'a.b.c'.rsplit('.', 1) }}{{ 'abc'.removeprefix('a').removesuffix('c') }}{{ '12'.isdigit() }}{{ 'xax'.rfind('x') }}{{ ' a  b '.split() }}{{ 'a b c'.split(' ', 1) }}{{ messages[2].content | trim }}.{{ 'xax' | trim('x') }}{{ 'ab cd' | title }}{{ 'a\nb'.splitlines() }}{{ 'ab'.index('b') }}",
                "a, b['a.b', 'c']bTrue2['a', 'b']['a', 'b c']3.aAb Cd['a', 'b']1",
            ),
            (
                "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ dict(a=1).a }}{{ range(3) | list }}",
                "41[0, 1, 2]",
            ),
        ] {
            let got = template(source).render(&chat, None);
            assert_eq!(got.as_deref(), Ok(want), "{source}");
        }
    }

    /// What would give another text tomorrow, and what is not there, by its name.
    #[test]
    fn what_is_refused_has_a_name() {
        let chat = said(&[("user", "hunter2")]);
        for (source, word) in [
            (
                "{% macro day() %}{{ strftime_now('%d %b %Y') }}{% endmacro %}{{ day() }}",
                "strftime_now",
            ),
            ("\r\n{{ messages | wordcount }}", "line 2: filter wordcount"),
            ("{{ messages[0] is odd_one }}", "odd_one"),
            ("{{ image(messages) }}", "image"),
        ] {
            let said = template(source).render(&chat, None).unwrap_err();
            assert!(
                said.contains(word) && !said.contains("hunter2"),
                "{source}: {said}"
            );
        }
        let defined = "{% if strftime_now is defined %}yes{% endif %}";
        assert_eq!(template(defined).render(&chat, None).unwrap(), "yes");
        assert!(
            template("{{ messages }}")
                .render(&[json!("hi")], None)
                .is_err()
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
