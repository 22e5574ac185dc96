//! Values as Python's templates see them: their text, their JSON, the methods of texts and dictionaries.

use minijinja::value::{Kwargs, Rest, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::fmt::Write;

/// How deep lists and dictionaries are written inside each other.
const DEPTH: usize = 128;

/// A value as `str` writes it.
pub(super) fn text(value: &Value) -> Result<Cow<'_, str>, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => Ok(Cow::Borrowed(text)),
        (None, ValueKind::Number | ValueKind::Seq | ValueKind::Map) => {
            let mut out = String::new();
            represent(value, 0, &mut out)?;
            Ok(Cow::Owned(out))
        }
        _ => Ok(Cow::Owned(value.to_string())),
    }
}

/// The filter of the same name.
pub(super) fn string(value: &Value) -> Result<String, Error> {
    text(value).map(Cow::into_owned)
}

/// The same as `repr` writes it.
fn represent(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > DEPTH {
        return Err(invalid("lists in lists without end"));
    }
    if let Some(text) = value.as_str() {
        quote(text, out);
        return Ok(());
    }
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            out.push_str(&f64::try_from(value.clone()).map(float)?);
        }
        ValueKind::Seq => {
            out.push('[');
            for (number, item) in value.try_iter()?.enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                represent(&item, depth + 1, out)?;
            }
            out.push(']');
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

/// A text in quotes.
fn quote(text: &str, out: &mut String) {
    let mark = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(mark);
    for c in text.chars() {
        let code = u32::from(c);
        // Behind a letter, so that a mark above it counts as what it is there.
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

/// What Python gives an iterator of.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// What has a length and items: texts and dictionaries too.
pub(super) fn is_sequence(value: &Value) -> bool {
    use ValueKind::{Map, Seq, String, Undefined};
    matches!(value.kind(), Undefined | String | Seq | Map)
}

/// A text without white space, or these characters, at both ends.
pub(super) fn trim(value: &Value, set: Option<&str>) -> Result<String, Error> {
    let text = text(value)?;
    Ok(text.trim_matches(|c| dropped(c, set)).to_owned())
}

fn dropped(c: char, set: Option<&str>) -> bool {
    let blank = || c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    set.map_or_else(blank, |set| set.contains(c))
}

fn invalid(detail: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}

/// How JSON is written.
struct Layout {
    indent: Option<usize>,
    ascii: bool,
    sort: bool,
    comma: String,
    colon: String,
}

/// JSON as transformers' `tojson` writes it, which is Python's `json.dumps`.
pub(super) fn to_json(value: &Value, args: Rest<Value>, options: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(invalid("an undefined value as JSON"));
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
        .map_err(|_| invalid("separators that are not two"))?;
    let layout = Layout {
        indent: indent.map(|i: usize| i.min(16)),
        ascii,
        sort,
        comma,
        colon,
    };
    let json = serde_json::to_value(value).map_err(|_| invalid("no JSON"))?;
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
            // Python's JSON in ASCII escapes DEL as it is no printable character.
            if c.is_ascii() {
                out.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
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
pub(super) fn method(
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
                None if name == "index" => return Err(invalid("a text that is not there")),
                None => Value::from(-1),
            }
        }
        "isdigit" | "isspace" => {
            let () = from_args(args)?;
            let is = |c: char| match name {
                "isdigit" => c.is_numeric(),
                _ => dropped(c, None),
            };
            Value::from(!text.is_empty() && text.chars().all(is))
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            let mut out = String::new();
            for (number, item) in items.try_iter()?.enumerate() {
                out.push_str(if number > 0 { text } else { "" });
                out.push_str(item.as_str().ok_or_else(|| invalid("join of no texts"))?);
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
        "split" => {
            let (by, most): (Option<&str>, Option<i64>) = from_args(args)?;
            let most = most
                .and_then(|n| usize::try_from(n).ok())
                .map_or(usize::MAX, |n| n.saturating_add(1));
            match by {
                Some("") => return Err(invalid("empty separator")),
                Some(by) => text.splitn(most, by).map(Value::from).collect(),
                None if most == usize::MAX => text.split_whitespace().map(Value::from).collect(),
                None => return Ok(None),
            }
        }
        "rsplit" => {
            let (by, most): (&str, Option<usize>) = from_args(args)?;
            if by.is_empty() {
                return Err(invalid("empty separator"));
            }
            let most = most.map_or(usize::MAX, |n| n.saturating_add(1));
            let mut parts: Vec<Value> = text.rsplitn(most, by).map(Value::from).collect();
            parts.reverse();
            Value::from(parts)
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
