//! Rewrites templates so that minijinja's macros and blocks see the same variables as in Jinja2.
//!
//! In Jinja2, a macro, and the body of a `{% call %}` or `{% generation %}` block, sees the surrounding variables as
//! they are when it runs. minijinja passes a macro only those variables that it detects as read in the macro: not those
//! that are sliced, set from themselves or that filter a block, and in a loop it passes the values of an earlier
//! iteration. Defaults that read another parameter, and undefined arguments for parameters with a default, also behave
//! differently.

use super::rendering::LARGEST;
use super::tags::{Tag, outside_strings, tags};
use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, Value, from_args};
use minijinja::{Error, State};
use regex::Regex;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The function that `{% generation %}` calls, and the variable that it passes.
pub(super) const GENERATION: &str = "reticent_generation";
pub(super) const PROGRESS: &str = "reticent_progress";
/// The function that wraps a macro with defaults, and the test for arguments that were not given.
pub(super) const DEFAULTS: &str = "reticent_defaults";
pub(super) const MISSING: &str = "reticent_missing";

/// Rewrites a template without changing its output. If `marked` is true, each `{% generation %}` block becomes a call;
/// otherwise it becomes a plain scope.
///
/// # Errors
/// Returns an error for macros that use unnamed arguments, blocks with defaults, HTML escapes, and string escapes that
/// minijinja does not support.
pub(super) fn with_scopes(source: &str, marked: bool) -> Result<String, String> {
    let tags = tags(source);
    let names = assigned(&tags);
    supported(source, &tags, &names)?;
    let list = names.iter().copied().collect::<Vec<_>>().join(", ");
    // Because they are read here, all of them are passed to the macro that begins here.
    let seen = format!("{{% if false %}}{{{{ [{list}] }}}}{{% endif");
    let renewed = names.iter().map(|n| format!(" set {n} = {n} %}}{{%"));
    let renewed: String = renewed.collect();
    let (mut out, mut copied, mut loops, mut open) = (String::new(), 0, 0_usize, Vec::new());
    for tag in &tags {
        let (before, after) = (tag.before, tag.after);
        let written = match tag.word {
            "for" | "endfor" => {
                loops = match tag.word {
                    "for" => loops + 1,
                    _ => loops.saturating_sub(1),
                };
                continue;
            }
            "macro" => {
                // Values set in an earlier iteration of the loop are forgotten.
                let renewed = if loops > 0 { renewed.as_str() } else { "" };
                let (head, defaults) = signature(tag.rest);
                open.push((head, defaults.len()));
                let given: String = defaults
                    .iter()
                    .map(|(name, default)| {
                        format!("{{% if {name} is {MISSING} %}}{{% set {name} = {default} %}}{{% endif %}}")
                    })
                    .collect();
                let mut plain = head.to_owned();
                for (name, _) in &defaults {
                    let comma = if plain.ends_with(['(', ',']) { "" } else { "," };
                    plain = format!("{plain}{comma} {name}");
                }
                let close = if defaults.is_empty() { "" } else { ")" };
                format!("{{%{before}{renewed} macro {plain}{close} %}}{given}{seen} {after}%}}")
            }
            "endmacro" => match open.pop() {
                Some((head, defaults @ 1..)) => {
                    let name = head.split('(').next().unwrap_or_default().trim();
                    format!(
                        "{{%{before} endmacro %}}{{% set {name} = {DEFAULTS}({name}, {defaults}) {after}%}}"
                    )
                }
                _ => continue,
            },
            // A separate scope keeps nothing from an earlier iteration of a loop.
            "call" => format!(
                "{{%{before} with %}}{{% call{} %}}{seen} {after}%}}",
                match tag.rest.starts_with('(') {
                    true => tag.rest.to_owned(),
                    false => format!(" {}", tag.rest),
                }
            ),
            "endcall" => format!("{{%{before} endcall %}}{{% endwith {after}%}}"),
            "generation" if marked => format!(
                "{{%{before} with %}}{{% call {GENERATION}({PROGRESS}) %}}{seen} {after}%}}"
            ),
            "endgeneration" if marked => {
                format!("{{%{before} endcall %}}{{% endwith {after}%}}")
            }
            "generation" => format!("{{%{before} with {after}%}}"),
            "endgeneration" => format!("{{%{before} endwith {after}%}}"),
            _ => continue,
        };
        out.push_str(&source[copied..tag.place.start]);
        out.push_str(&written);
        copied = tag.place.end;
        if out.len() > LARGEST {
            return Err("the chat template has too many macros and variables".to_owned());
        }
    }
    out.push_str(&source[copied..]);
    Ok(out)
}

/// Returns whether a template itself marks what the assistant writes.
pub(super) fn generates(source: &str) -> bool {
    tags(source).iter().any(|tag| tag.word == "generation")
}

/// Returns every name that a template assigns somewhere, and possibly others.
fn assigned<'a>(tags: &[Tag<'a>]) -> BTreeSet<&'a str> {
    const NONE: [&str; 16] = [
        "true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if",
        "else", "caller", "loop", "self",
    ];
    let Ok(name) = Regex::new(r"[^\W\d]\w*") else {
        return BTreeSet::new(); // it is a regular expression
    };
    let targets = tags.iter().filter_map(|tag| match tag.word {
        "set" => tag.rest.split(['=', '|']).next(),
        "for" => tag.rest.split(" in ").next(),
        "with" | "macro" | "call" => Some(tag.rest),
        _ => None,
    });
    let names = targets.flat_map(|text| name.find_iter(text).map(|found| found.as_str()));
    names.filter(|name| !NONE.contains(name)).collect()
}

/// Splits a macro's signature before its first parameter with a default, and returns the parameters with their
/// defaults. Returns the whole signature if no parameter has one.
fn signature(rest: &str) -> (&str, Vec<(&str, &str)>) {
    let bytes = rest.as_bytes();
    let Some(list) = rest.find('(').map(|at| at + 1) else {
        return (rest, Vec::new());
    };
    let (mut depth, mut start, mut equals) = (0_usize, list, None);
    let (mut head, mut defaults) = (rest, Vec::new());
    outside_strings(bytes, list, |at| {
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b'=' if depth == 0 && equals.is_none() => equals = Some(at),
            b',' | b')' if depth == 0 => {
                if let Some(equals) = equals.take() {
                    if defaults.is_empty() {
                        head = rest[..start].trim_end();
                    }
                    defaults.push((rest[start..equals].trim(), rest[equals + 1..at].trim()));
                }
                start = at + 1;
                return bytes[at] == b')';
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        false
    });
    (head, defaults)
}

/// Rejects constructs whose output would differ.
fn supported(source: &str, tags: &[Tag<'_>], names: &BTreeSet<&str>) -> Result<(), String> {
    let has = |word: &str| tags.iter().any(|tag| tag.word == word);
    let found = |pattern: &str| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(source));
    let unnamed = ["varargs", "kwargs"];
    // String escapes that Python reads differently.
    let string = r#"(?s)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*""#;
    let escape = r"(?s)\A(?:[^\\]|\\[^aNUv/\n])*\z";
    let (Ok(string), Ok(escape)) = (Regex::new(string), Regex::new(escape)) else {
        return Ok(()); // they are regular expressions
    };
    let strings = tags
        .iter()
        .flat_map(|tag| string.find_iter(&source[tag.place.clone()]));
    let odd = strings
        .map(|found| found.as_str())
        .any(|text| !escape.is_match(text));
    let refusal = if has("macro")
        && found(r"\b(varargs|kwargs)\b")
        && !unnamed.iter().any(|name| names.contains(name))
    {
        "reads varargs or kwargs, the arguments of a macro that have no name; name them in {% macro … %}"
    } else if has("autoescape") {
        "escapes HTML ({% autoescape %}), which is not supported"
    } else if found(r"\{%[-+]?\s*call\s*\([^()]*=") {
        "gives defaults to the arguments of a {% call %} block, which is not supported; a {% macro %} may have some"
    } else if odd {
        r"has a string with an escape that is not read here (\a, \v, \/, \N, \U or the end of a line): write the character itself"
    } else {
        return match otherwise(tags, &string) {
            Some(refusal) => Err(format!("the chat template {refusal}")),
            None => Ok(()),
        };
    };
    Err(format!("the chat template {refusal}"))
}

/// Detects what minijinja renders differently from Jinja2: slices and comparisons of ranges, texts marked as HTML, and
/// methods that are read but not called.
fn otherwise(tags: &[Tag<'_>], string: &Regex) -> Option<String> {
    const CALL: &str = r"range\s*\((?:[^()]|\([^()]*\))*\)";
    let plain: Vec<(&str, Cow<'_, str>)> = tags
        .iter()
        .map(|tag| (tag.word, string.replace_all(tag.rest, "''")))
        .collect();
    // The names that are set to something matching a pattern.
    let set_to = |what: &str| -> Vec<&str> {
        let Ok(set) = Regex::new(&format!(r"\A(\w+)\s*=\s*{what}")) else {
            return Vec::new(); // it is a regular expression
        };
        let sets = plain.iter().filter(|(word, _)| *word == "set");
        let names = sets.filter_map(|(_, rest)| set.captures(rest)?.get(1));
        names.map(|name| name.as_str()).collect()
    };
    let range = match set_to(&format!(r"{CALL}\s*\z")).join("|") {
        names if names.is_empty() => format!(r"\b{CALL}"),
        names => format!(r"\b(?:{CALL}|(?:{names})\b)"),
    };
    let spaces = set_to(r"namespace\s*\(");
    let patterns = [
        format!(r"{range}\s*\[[^\[\]]*:[^\[\]]*\](\s*\|\s*list\b)?"),
        format!(r"{range}\s*[=!]=|[=!]=\s*{range}"),
        r"\|\s*(?:e|escape|safe)\b\s*(?:\(\s*\)\s*)?".to_owned(),
        r"\A[\s)]*(?:[-+]?\}\}|\z|~|(?:if|else|and|or)\b|[=!]=|\|\s*(?:e|escape|safe)\b)".to_owned(),
        r"(?:(\w+)\s*)?\.\s*(clear|copy|fromkeys|get|items|keys|pop|popitem|setdefault|update|values)\b\s*(\(?)".to_owned(),
        r"\w\s*\(".to_owned(),
    ];
    let patterns: Vec<Regex> = patterns.iter().filter_map(|p| Regex::new(p).ok()).collect();
    let [slice, compared, marks, ends, method, calls] = patterns.as_slice() else {
        return Some("has too many variables that are ranges".to_owned());
    };
    for (word, text) in &plain {
        let mut slices = slice.captures_iter(text);
        if *word != "for" && slices.any(|found| found.get(1).is_none()) {
            return Some(
                "takes a part of a range by a slice, which is a list here; write range(…)[…] | list"
                    .to_owned(),
            );
        }
        if compared.is_match(text) {
            return Some(
                "compares a range, which equals no list in Jinja2; write range(…) | list"
                    .to_owned(),
            );
        }
        let elsewhere = |found: regex::Match<'_>| {
            let after = &text[found.end()..];
            let called = after.trim_start().starts_with(')') && calls.is_match(text);
            let kept = match *word {
                "" | "if" | "elif" => true,
                "set" => names_are_only_written(text, &plain, calls),
                _ => false,
            };
            !kept || called || joins(text) || !ends.is_match(after)
        };
        if marks.find_iter(text).any(elsewhere) {
            return Some(
                "marks a text as HTML (| e, | escape or | safe) that is joined by +, called or read further, where Jinja2 may \
                 escape what it is joined to; write ~ for +"
                    .to_owned(),
            );
        }
        for found in method.captures_iter(text) {
            let of = found.get(1).map_or("", |name| name.as_str());
            if found[3].is_empty() && !spaces.contains(&of) {
                let name = &found[2];
                return Some(format!(
                    "reads .{name} without a call, which is a method in Jinja2; write .get('{name}') for a key of that name"
                ));
            }
        }
    }
    None
}

/// Returns whether a tag joins texts with operators that escape the other operand of a text marked as HTML.
fn joins(text: &str) -> bool {
    let inside = text.trim_start_matches("{{+").trim_end_matches("+}}");
    inside.contains(['+', '%', '*'])
}

/// Returns whether the name set by a tag is only written, compared and joined by ~ in the other tags.
fn names_are_only_written(set: &str, tags: &[(&str, Cow<'_, str>)], calls: &Regex) -> bool {
    let Some((name, _)) = set.split_once('=') else {
        return false;
    };
    let name = name.trim();
    let (Ok(mention), Ok(read)) = (
        Regex::new(&format!(r"\b{}\b", regex::escape(name))),
        Regex::new(&format!(r"\b{}\s*[.\[,\]}}]", regex::escape(name))),
    ) else {
        return false;
    };
    tags.iter().all(|(word, text)| {
        if !mention.is_match(text) {
            return true;
        }
        let own = *word == "set"
            && text
                .split_once('=')
                .is_some_and(|(to, _)| to.trim() == name);
        let written = matches!(*word, "" | "if" | "elif");
        let plain = !joins(text) && (own || !calls.is_match(text));
        let whole = text.trim_end_matches("}}");
        (own || written) && plain && (own || !read.is_match(whole))
    })
}

/// The value passed to a macro with defaults for an argument that was not given.
#[derive(Debug)]
struct Missing;

impl Object for Missing {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// Implements the test for a missing argument.
pub(super) fn is_missing(value: &Value) -> bool {
    value.downcast_object_ref::<Missing>().is_some()
}

/// A macro with defaults.
#[derive(Debug)]
struct Defaults {
    inner: Value,
    /// How many of its last parameters have a default.
    defaults: usize,
}

impl Object for Defaults {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (Rest(mut all), named): (Rest<Value>, Kwargs) = from_args(args)?;
        let names = self.inner.get_attr("arguments")?;
        let required = names.len().unwrap_or(0).saturating_sub(self.defaults);
        let mut left: Vec<(String, Value)> = named
            .args()
            .map(|name| Ok((name.to_owned(), named.get(name)?)))
            .collect::<Result<_, Error>>()?;
        for (place, name) in names.try_iter()?.enumerate().skip(all.len()) {
            let given = left
                .iter()
                .position(|(given, _)| Some(given.as_str()) == name.as_str());
            all.push(match given {
                Some(given) => left.remove(given).1,
                None if place < required => Value::UNDEFINED,
                None => Value::from_object(Missing),
            });
        }
        if !left.is_empty() {
            all.push(Kwargs::from_iter(left).into());
        }
        self.inner.call(state, &all)
    }
}

/// Wraps a macro, so that it can tell which of its last `defaults` arguments were not given.
pub(super) fn defaults(inner: Value, defaults: usize) -> Value {
    Value::from_object(Defaults { inner, defaults })
}
