//! Python semantics for templates: `str`, `repr` and JSON of values, and the methods of strings and dictionaries.

use super::rendering::refused;
use minijinja::value::{
    Enumerator, Kwargs, Object, ObjectRepr, Rest, Tuple, Value, ValueKind, from_args,
};
use minijinja::{Error, ErrorKind, State};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::fmt::{Formatter, Write};
use std::sync::Arc;

/// The deepest nesting of lists and dictionaries that is written.
const DEPTH: usize = 128;

/// The largest range, as in Jinja2's sandbox.
const RANGE: u64 = 100_000;
/// The reason for refusing to write a macro: Jinja2 writes its name, which is never intended.
const MACRO: &str = "it writes what is no text, but a macro or a function";

/// Writes a value as `str` does.
pub(super) fn text(value: &Value) -> Result<Cow<'_, str>, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => Ok(Cow::Borrowed(text)),
        (None, ValueKind::Number | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) => {
            let mut out = String::new();
            represent(value, 0, &mut out)?;
            Ok(Cow::Owned(out))
        }
        (None, ValueKind::Plain) => Err(refused(MACRO)),
        _ => Ok(Cow::Owned(value.to_string())),
    }
}

/// Implements the filter `int`.
pub(super) fn int(value: &Value, default: Option<Value>) -> Result<Value, Error> {
    const LARGE: &str = "it reads a whole number beyond 128 bits";
    if value.is_undefined() {
        return Err(refused("it reads a number of what is not there"));
    }
    let cut = |x: f64| match x.trunc() {
        x if x.abs() < 2_f64.powi(127) => Ok(Some(Value::from(x as i128))),
        x if x.is_finite() => Err(refused(LARGE)),
        _ => Ok(None),
    };
    let found = match (value.as_str(), value.kind()) {
        (Some(text), _) => {
            let text = text.trim();
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            match text.parse::<i128>() {
                Ok(number) => Some(Value::from(number)),
                Err(_) if !digits.is_empty() && digits.chars().all(char::is_numeric) => {
                    return Err(refused(LARGE));
                }
                Err(_) if text.contains('_') => {
                    return Err(refused("it reads a number with _ in it"));
                }
                Err(_) => text.parse().map_or(Ok(None), cut)?,
            }
        }
        (None, ValueKind::Bool) => Some(Value::from(i64::from(value.is_true()))),
        (None, ValueKind::Number) if value.is_integer() => Some(value.clone()),
        (None, ValueKind::Number) => cut(f64::try_from(value.clone())?)?,
        _ => None,
    };
    Ok(found.unwrap_or_else(|| default.unwrap_or_else(|| Value::from(0))))
}

/// Implements the filter `string`.
pub(super) fn string(value: &Value) -> Result<String, Error> {
    text(value).map(Cow::into_owned)
}

/// Writes a value as `repr` does.
fn represent(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > DEPTH {
        return Err(refused("it writes lists in lists without end"));
    }
    if let Some(text) = value.as_str() {
        quote(text, out);
        return Ok(());
    }
    if let Some(range) = value.downcast_object_ref::<Range>() {
        out.push_str(&range.to_string());
        return Ok(());
    }
    let object = value.as_object();
    if object.is_some_and(|object| object.type_name().ends_with("::Macro")) {
        return Err(refused(MACRO));
    }
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            out.push_str(&f64::try_from(value.clone()).map(float)?);
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let view = value.downcast_object_ref::<DictView>();
            let [begin, end] = match value.downcast_object_ref::<Tuple>() {
                None => ["[", "]"],
                Some(tuple) => ["(", if tuple.len() == 1 { ",)" } else { ")" }],
            };
            let [begin, end] = match view {
                None => [begin.to_owned(), end.to_owned()],
                Some(view) => [format!("{}([", view.name), "])".to_owned()],
            };
            out.push_str(&begin);
            for (number, item) in value.try_iter()?.enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                represent(&item, depth + 1, out)?;
            }
            out.push_str(&end);
        }
        ValueKind::Map => {
            out.push('{');
            for (number, key) in value.try_iter()?.enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                represent(&key, depth + 1, out)?;
                out.push_str(": ");
                represent(&value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Writes a string in quotes.
fn quote(text: &str, out: &mut String) {
    let mark = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(mark);
    for c in text.chars() {
        let code = u32::from(c);
        // Checked after a letter, so that a combining mark is judged in that position.
        let printable = |c: char| format!("a{c}").escape_debug().nth(1) == Some(c);
        let written = match c {
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            '\\' => write!(out, "\\\\"),
            c if c == mark => write!(out, "\\{c}"),
            ' '..='~' => write!(out, "{c}"),
            c if c > '\u{a0}' && c != '\u{ad}' && printable(c) => write!(out, "{c}"),
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
        debug_assert!(written.is_ok(), "a string takes what is written");
    }
    out.push(mark);
}

/// Returns whether Python can iterate over the value.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Returns whether the value has a length and items; strings and dictionaries do.
pub(super) fn is_sequence(value: &Value) -> bool {
    use ValueKind::{Iterable, Map, Seq, String, Undefined};
    let view = || value.downcast_object_ref::<DictView>().is_some();
    match value.kind() {
        // Slices are iterables.
        Iterable => !view(),
        kind => matches!(kind, Undefined | String | Seq | Map),
    }
}

/// Implements the filter `escape`: uses Markup's HTML entities, and escapes only once.
pub(super) fn escape(value: &Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let mut out = String::new();
    for c in text(value)?.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    Ok(Value::from_safe_string(out))
}

/// Implements the filter `title`, in which words begin after white space, hyphens and brackets.
pub(super) fn title(value: &Value) -> Result<String, Error> {
    let text = text(value)?;
    let words = text.split_inclusive(|c| "-({[<".contains(c) || dropped(c, None));
    let each = words.map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(char::to_uppercase);
        let rest = letters.as_str().to_lowercase();
        first.into_iter().flatten().chain(rest.chars()).collect()
    });
    Ok(each.collect::<Vec<String>>().concat())
}

/// Implements the method `title`, in which words begin after any character without case.
fn titled(state: &mut State<'_, '_>, text: &str) -> Result<String, Error> {
    // Convert the whole text: a sigma at the end of a word has a lower-case letter of its own.
    let lower = text.to_lowercase();
    let (mut out, mut at, mut inside) = (String::new(), 0, false);
    for c in text.chars() {
        let width: usize = c.to_lowercase().map(char::len_utf8).sum();
        match inside {
            true => out.push_str(lower.get(at..at + width).unwrap_or_default()),
            false => {
                let letter = Value::from(c.to_string());
                let capital = state.apply_filter("capitalize", &[letter])?;
                out.push_str(capital.as_str().unwrap_or_default());
            }
        }
        at += width;
        // The third case, title case, is that of digraphs such as ǅ.
        inside = c.is_lowercase() || c.is_uppercase() || !c.to_lowercase().eq([c]);
    }
    Ok(out)
}

/// An arithmetic sequence of integers.
#[derive(Debug)]
struct Range {
    start: i64,
    end: i64,
    step: i64,
}

impl Range {
    /// Returns the number of elements.
    fn count(&self) -> u64 {
        let (from, to) = match self.step > 0 {
            true => (self.start, self.end),
            false => (self.end, self.start),
        };
        match from < to {
            true => (to.abs_diff(from) - 1) / self.step.unsigned_abs() + 1,
            false => 0,
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { start, end, step } = self;
        match step {
            1 => write!(f, "range({start}, {end})"),
            step => write!(f, "range({start}, {end}, {step})"),
        }
    }
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let number = key.as_i64().filter(|number| *number >= 0)?;
        let there = number.unsigned_abs() < self.count();
        there.then(|| Value::from(self.start + number * self.step))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(usize::try_from(self.count()).unwrap_or(0))
    }

    fn render(self: &Arc<Self>, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Implements the function `range`.
pub(super) fn range(first: i64, end: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let range = Range {
        start: end.map_or(0, |_| first),
        end: end.unwrap_or(first),
        step: step.unwrap_or(1),
    };
    if range.step == 0 {
        return Err(refused("it makes a range of step 0"));
    }
    if range.count() > RANGE {
        return Err(refused("it makes a range of more than 100000 numbers"));
    }
    Ok(Value::from_object(range))
}

/// Removes white space, or the characters in `set`, from both ends.
pub(super) fn trim(value: &Value, set: Option<&str>) -> Result<String, Error> {
    let text = text(value)?;
    Ok(text.trim_matches(|c| dropped(c, set)).to_owned())
}

fn dropped(c: char, set: Option<&str>) -> bool {
    let blank = || c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    set.map_or_else(blank, |set| set.contains(c))
}

/// The format in which JSON is written.
struct Layout {
    indent: Option<usize>,
    ascii: bool,
    sort: bool,
    comma: String,
    colon: String,
}

/// Writes JSON as transformers' `tojson` does, which is Python's `json.dumps`.
pub(super) fn to_json(value: &Value, args: Rest<Value>, options: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(refused("it writes what is not there as JSON"));
    }
    let (ascii, indent, separators, sort): (
        Option<bool>,
        Option<usize>,
        Option<Vec<String>>,
        Option<bool>,
    ) = from_args(&args)?;
    let either = |given: Option<bool>, name: &str| match given {
        Some(given) => Ok(given),
        None => options
            .get::<Option<bool>>(name)
            .map(Option::unwrap_or_default),
    };
    let (ascii, sort) = (either(ascii, "ensure_ascii")?, either(sort, "sort_keys")?);
    let indent = indent.map_or_else(|| options.get("indent"), |indent| Ok(Some(indent)))?;
    let separators = separators.map_or_else(|| options.get("separators"), |two| Ok(Some(two)))?;
    options.assert_all_used()?;
    let usual = || {
        vec![
            if indent.is_some() { "," } else { ", " }.to_owned(),
            ": ".to_owned(),
        ]
    };
    let [comma, colon] = <[String; 2]>::try_from(separators.unwrap_or_else(usual))
        .map_err(|_| refused("tojson takes two separators"))?;
    let layout = Layout {
        indent: indent.map(|i: usize| i.min(16)),
        ascii,
        sort,
        comma,
        colon,
    };
    let json = serde_json::to_value(value).map_err(|_| {
        refused("it writes as JSON what JSON has not, or a whole number beyond 64 bits")
    })?;
    let mut out = String::new();
    layout.dump(&json, 0, &mut out);
    Ok(out)
}

impl Layout {
    fn dump(&self, value: &Json, depth: usize, out: &mut String) {
        let newline = |out: &mut String, depth: usize| {
            if let Some(indent) = self.indent {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent * depth));
            }
        };
        match value {
            Json::Array(items) if !items.is_empty() => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { &self.comma } else { "" });
                    newline(out, depth + 1);
                    self.dump(item, depth + 1, out);
                }
                newline(out, depth);
                out.push(']');
            }
            Json::Object(fields) if !fields.is_empty() => {
                let mut fields: Vec<(&String, &Json)> = fields.iter().collect();
                if self.sort {
                    fields.sort_by_key(|(key, _)| *key);
                }
                out.push('{');
                for (i, (key, item)) in fields.into_iter().enumerate() {
                    out.push_str(if i > 0 { &self.comma } else { "" });
                    newline(out, depth + 1);
                    self.quote(key, out);
                    out.push_str(&self.colon);
                    self.dump(item, depth + 1, out);
                }
                newline(out, depth);
                out.push('}');
            }
            Json::String(text) => self.quote(text, out),
            Json::Number(number) if number.is_f64() => {
                out.push_str(&number.as_f64().map_or_else(String::new, float));
            }
            other => out.push_str(&other.to_string()),
        }
    }

    fn quote(&self, text: &str, out: &mut String) {
        let quoted = Json::String(text.to_owned()).to_string();
        if !self.ascii {
            return out.push_str(&quoted);
        }
        for c in quoted.chars() {
            // Python's ASCII JSON escapes DEL too, which is not printable.
            if c.is_ascii() && c != '\x7f' {
                out.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

/// Writes a number as Python's `repr` does: with an exponent below 1e-4 and from 1e16.
fn float(x: f64) -> String {
    let short = format!("{x:e}");
    match short.split_once('e').map(|(digits, e)| (digits, e.parse())) {
        Some((digits, Ok(e @ (..=-5_i32 | 16..)))) => {
            let sign = if e < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", e.abs())
        }
        _ if x.is_nan() => "nan".to_owned(),
        _ => format!("{x:?}"),
    }
}

/// Collects the numbers that Python writes with an exponent, in the form in which minijinja joins them to text.
pub(super) fn expanded(value: &Json, out: &mut Vec<String>) {
    match value {
        Json::Number(number) if number.is_f64() => {
            let number = number.as_f64().filter(|x| float(*x).contains('e'));
            out.extend(number.map(|x| Value::from(x).to_string()));
        }
        Json::Array(items) => items.iter().for_each(|item| expanded(item, out)),
        Json::Object(fields) => fields.values().for_each(|field| expanded(field, out)),
        _ => {}
    }
}

/// Implements the methods of Python's strings and dictionaries that templates call.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let unknown = || Error::from(ErrorKind::UnknownMethod);
    if let Some(text) = value.as_str() {
        return text_method(state, text, name, args)?.ok_or_else(unknown);
    }
    if value.kind() == ValueKind::Map {
        return map_method(value, name, args)?.ok_or_else(unknown);
    }
    Err(unknown())
}

fn text_method(
    state: &mut State<'_, '_>,
    text: &str,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    let stripped = |from_left: bool, from_right: bool| -> Result<Value, Error> {
        let (set,): (Option<&str>,) = from_args(args)?;
        let drops = |c: char| dropped(c, set);
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
                "capitalize" => state.apply_filter("capitalize", &[Value::from(text)])?,
                _ => Value::from(titled(state, text)?),
            }
        }
        "startswith" | "endswith" => {
            let (part,): (&Value,) = from_args(args)?;
            let has = |part: &Value| match part.as_str() {
                Some(part) if name == "startswith" => Ok(text.starts_with(part)),
                Some(part) => Ok(text.ends_with(part)),
                None => Err(refused("startswith and endswith take texts")),
            };
            Value::from(match part.downcast_object_ref::<Tuple>() {
                None => has(part)?,
                Some(parts) => parts
                    .iter()
                    .map(has)
                    .collect::<Result<Vec<_>, _>>()?
                    .contains(&true),
            })
        }
        "partition" | "rpartition" => {
            let (by,): (&str,) = from_args(args)?;
            if by.is_empty() {
                return Err(refused("partition takes a separator that is not empty"));
            }
            let parts = match name {
                "partition" => text
                    .split_once(by)
                    .map_or([text, "", ""], |(a, b)| [a, by, b]),
                _ => text
                    .rsplit_once(by)
                    .map_or(["", "", text], |(a, b)| [a, by, b]),
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "removeprefix" | "removesuffix" => {
            let (part,): (&str,) = from_args(args)?;
            let left = match name {
                "removeprefix" => text.strip_prefix(part),
                _ => text.strip_suffix(part),
            };
            Value::from(left.unwrap_or(text))
        }
        "find" | "rfind" | "index" => {
            let (part,): (&str,) = from_args(args)?;
            let at = match name {
                "rfind" => text.rfind(part),
                _ => text.find(part),
            };
            match at.map(|at| text[..at].chars().count() as i64) {
                Some(at) => Value::from(at),
                None if name == "index" => {
                    return Err(refused("index looks for a text that is not there"));
                }
                None => Value::from(-1),
            }
        }
        "isdigit" | "isspace" => {
            let () = from_args(args)?;
            let is = |c: char| match name {
                "isdigit" => c.is_numeric(),
                _ => dropped(c, None),
            };
            let all = !text.is_empty() && text.chars().all(is);
            if name == "isdigit" && all && !text.is_ascii() {
                return Err(refused("isdigit asks of other numerals than 0 to 9"));
            }
            Value::from(all)
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            let mut out = String::new();
            for (number, item) in items.try_iter()?.enumerate() {
                out.push_str(if number > 0 { text } else { "" });
                out.push_str(
                    item.as_str()
                        .ok_or_else(|| refused("join takes texts alone"))?,
                );
            }
            Value::from(out)
        }
        "count" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.matches(part).count())
        }
        "replace" => {
            let (from, to, most): (&str, &str, Option<usize>) = from_args(args)?;
            Value::from(text.replacen(from, to, most.unwrap_or(usize::MAX)))
        }
        "split" | "rsplit" => {
            let (by, most, options): (Option<&str>, Option<i64>, Kwargs) = from_args(args)?;
            let by = by.map_or_else(|| options.get::<Option<&str>>("sep"), |by| Ok(Some(by)))?;
            let most = most.map_or_else(|| options.get("maxsplit"), |most| Ok(Some(most)))?;
            options.assert_all_used()?;
            let most = most.and_then(|n: i64| usize::try_from(n).ok());
            let most = most.map_or(usize::MAX, |n| n.saturating_add(1));
            match (by, name) {
                (Some(""), _) => return Err(refused("split takes a separator that is not empty")),
                (Some(by), "split") => text.splitn(most, by).map(Value::from).collect(),
                (Some(by), _) => {
                    let mut parts: Vec<Value> = text.rsplitn(most, by).map(Value::from).collect();
                    parts.reverse();
                    Value::from(parts)
                }
                (None, _) if most == usize::MAX => words(text).map(Value::from).collect(),
                (None, _) => return Err(refused("split counts words only with a separator")),
            }
        }
        "splitlines" => {
            let () = from_args(args)?;
            lines(text).into_iter().map(Value::from).collect()
        }
        _ => return Ok(None),
    }))
}

/// Splits a text into words as Python does.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| dropped(c, None))
        .filter(|word| !word.is_empty())
}

/// Splits a text into lines as Python does.
fn lines(text: &str) -> Vec<&str> {
    let ends = |c| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        lines.push(&rest[..at]);
        let end = &rest[at..];
        let width = end.chars().next().map_or(0, char::len_utf8);
        rest = end.strip_prefix("\r\n").unwrap_or(&end[width..]);
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The result of `keys`, `values` and `items`.
#[derive(Debug)]
struct DictView {
    name: &'static str,
    items: Vec<Value>,
}

impl Object for DictView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn render(self: &Arc<Self>, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        let value = Value::from_dyn_object(Arc::clone(self));
        represent(&value, 0, &mut out).map_err(|_| std::fmt::Error)?;
        f.write_str(&out)
    }
}

fn map_method(value: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let view = |name, each: &dyn Fn(Value) -> Result<Value, Error>| {
        let () = from_args(args)?;
        let items = value.try_iter()?.map(each).collect::<Result<_, Error>>()?;
        Ok::<_, Error>(Value::from_object(DictView { name, items }))
    };
    Ok(Some(match name {
        "keys" => view("dict_keys", &Ok)?,
        "values" => view("dict_values", &|key| value.get_item(&key))?,
        "items" => view("dict_items", &|key| {
            let item = value.get_item(&key)?;
            Ok(Value::from(Tuple::from([key, item])))
        })?,
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
