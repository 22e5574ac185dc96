//! `{% generation %}` blocks, and which bytes of a template's text they write.

use super::rendering::LARGEST;
use minijinja::value::{Kwargs, Object, Value};
use minijinja::{Error, State};
use regex::Regex;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What `{% generation %}` calls, and the variable that it hands over: the [`Progress`] of the text.
pub(super) const GENERATION: &str = "reticent_generation";
pub(super) const PROGRESS: &str = "reticent_progress";

/// Transformers' block around what a model writes, as a call of ours. What it reads in a slice, or sets from itself, is not
/// seen by a call, so that its text is compared with that of [`with_scopes`].
pub(super) fn with_calls(source: &str) -> Cow<'_, str> {
    let kept = assigned(source);
    let begin = |before: &str, after: &str| {
        // A call sees what its body reads; a block, whatever it assigns to as well.
        format!(
            "{{%{before} call {GENERATION}({PROGRESS}) %}}{{% if false %}}{{{{ [{kept}] }}}}{{% endif {after}%}}"
        )
    };
    replaced(source, begin, "endcall")
}

/// The same block as a scope for what is set in it, which marks nothing.
pub(super) fn with_scopes(source: &str) -> Cow<'_, str> {
    let begin = |before: &str, after: &str| format!("{{%{before} with {after}%}}");
    replaced(source, begin, "endwith")
}

fn replaced<'a>(
    source: &'a str,
    begin: impl Fn(&str, &str) -> String,
    close: &str,
) -> Cow<'a, str> {
    let (mut out, mut copied) = (String::new(), 0);
    for (tag, [_, begins, before, after]) in tags(source) {
        out.push_str(&source[copied..tag.start]);
        out.push_str(&match begins.is_empty() {
            true => format!("{{%{before} {close} {after}%}}"),
            false => begin(before, after),
        });
        copied = tag.end;
    }
    if copied == 0 {
        return Cow::Borrowed(source);
    }
    out.push_str(&source[copied..]);
    Cow::Owned(out)
}

/// The namespaces whose attributes a template sets, with commas.
fn assigned(source: &str) -> String {
    let Ok(set) = Regex::new(r"\{%[-+]?\s*set\s+([A-Za-z_]\w*)\s*\.") else {
        return String::new(); // it is a regular expression
    };
    let names: BTreeSet<&str> = set
        .captures_iter(source)
        .filter_map(|found| found.get(1).map(|name| name.as_str()))
        .collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Whether a template says by itself what the assistant writes.
pub(super) fn generates(source: &str) -> bool {
    !tags(source).is_empty()
}

/// A tag's bytes; its text, `generation` where it begins a block, and its signs at both ends.
type Tag<'a> = (Range<usize>, [&'a str; 4]);

/// The tags of such blocks: those in comments, strings and raw text are none.
fn tags(source: &str) -> Vec<Tag<'_>> {
    let tag = Regex::new(r"\A\{%([-+]?)\s*(?:(generation)|endgeneration|(raw))\s*([-+]?)%\}");
    let raw_end = Regex::new(r"\{%[-+]?\s*endraw\s*[-+]?%\}");
    let (Ok(tag), Ok(raw_end)) = (tag, raw_end) else {
        return Vec::new(); // they are regular expressions
    };
    let (mut tags, mut at) = (Vec::new(), 0);
    while let Some(begin) = source[at..].find('{').map(|found| at + found) {
        let rest = &source[begin..];
        at = match rest.as_bytes().get(1) {
            Some(b'#') => begin + rest.find("#}").map_or(rest.len(), |end| end + 2),
            Some(b'{') => begin + expression(rest, "}}"),
            Some(b'%') => match tag.captures(rest) {
                None => begin + expression(rest, "%}"),
                Some(found) => {
                    let [whole, sign, begins, raw, last] =
                        [0, 1, 2, 3, 4].map(|part| found.get(part).map_or("", |m| m.as_str()));
                    let end = begin + whole.len();
                    if raw.is_empty() {
                        tags.push((begin..end, [whole, begins, sign, last]));
                        end
                    } else {
                        let rest = &source[end..];
                        end + raw_end.find(rest).map_or(rest.len(), |m| m.end())
                    }
                }
            },
            _ => begin + 1,
        };
    }
    tags
}

/// How many bytes a tag has that ends with these two, outside its strings and brackets.
fn expression(text: &str, close: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (2, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            _ if depth == 0 && bytes[at..].starts_with(close.as_bytes()) => return at + 2,
            quote @ (b'\'' | b'"') => {
                at += 1;
                while bytes.get(at).is_some_and(|b| b != quote) {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// How much of its text a template has written, and what its blocks put behind that much: transformers takes a block's text
/// to stand there.
#[derive(Debug, Default)]
pub(super) struct Progress {
    written: AtomicUsize,
    blocks: Mutex<Vec<(usize, String)>>,
}

impl Object for Progress {}

impl Progress {
    /// The bytes of the text that its blocks wrote; none where some block's text stands elsewhere: in a macro or a variable
    /// that is written behind more, or changed by a filter.
    pub(super) fn spans(&self, text: &str) -> Option<Vec<Range<usize>>> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut spans, mut least) = (Vec::new(), 0);
        for (start, block) in blocks.iter().filter(|(_, block)| !block.is_empty()) {
            let span = *start..start + block.len();
            if span.start < least || text.get(span.clone()) != Some(block) {
                return None;
            }
            least = span.end;
            spans.push(span);
        }
        Some(spans)
    }
}

/// The text of a block, which is written down.
pub(super) fn generation(
    state: &mut State<'_, '_>,
    progress: &Value,
    options: Kwargs,
) -> Result<Value, Error> {
    let text = options.get::<Value>("caller")?.call(state, &[])?;
    if let (Some(progress), Some(block)) =
        (progress.downcast_object_ref::<Progress>(), text.as_str())
    {
        let start = progress.written.load(Ordering::Relaxed);
        let blocks = progress.blocks.lock();
        let mut blocks = blocks.unwrap_or_else(PoisonError::into_inner);
        // A block inside this one is part of it.
        blocks.retain(|(begun, inside)| *begun < start || inside.len() > block.len());
        blocks.push((start, block.to_owned()));
    }
    Ok(text)
}

/// A text that stops growing.
pub(super) struct Bounded {
    pub(super) text: Vec<u8>,
    pub(super) progress: Arc<Progress>,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > LARGEST {
            return Err(io::Error::other("too long"));
        }
        self.text.extend_from_slice(bytes);
        self.progress
            .written
            .store(self.text.len(), Ordering::Relaxed);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
