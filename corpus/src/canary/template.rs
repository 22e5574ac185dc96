//! The template of a canary: literal text and fields to fill.

use crate::error::{Error, Result};
use crate::random::Choices;
use crate::split::escapes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One field of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// `{digits:n}`: n digits.
    Digits(u32),
    /// `{letters:n}`: n lower-case letters.
    Letters(u32),
    /// `{upper:n}`: n upper-case letters.
    Upper(u32),
    /// `{list:a|b|c}`: one of several texts.
    List(Vec<String>),
}

/// The longest template that an error shows in full, in characters.
const SHOWN: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Literal(String),
    Field(Field),
}

/// Literal text with fields, such as `My ID is: {digits:6}`.
///
/// The **secret** is the text from the first field to the end of the last one. Fields:
/// `{digits:n}`, `{letters:n}` (lower case), `{upper:n}`, `{list:a|b|c}`; n from 1 to 64.
///
/// ```
/// use reticent_corpus::canary::CanaryTemplate;
/// let template: CanaryTemplate = "My ID is: {digits:6}".parse()?;
/// assert_eq!(template.candidates(), 1_000_000);
/// assert_eq!(template.prefix(), "My ID is: ");
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct CanaryTemplate {
    source: String,
    prefix: String,
    /// From the first field to the last.
    core: Vec<TemplatePart>,
    suffix: String,
    candidates: u128,
}

impl Default for CanaryTemplate {
    /// Returns `My ID is: {digits:6}`, the papers' canary.
    fn default() -> Self {
        Self {
            source: "My ID is: {digits:6}".to_owned(),
            prefix: "My ID is: ".to_owned(),
            core: vec![TemplatePart::Field(Field::Digits(6))],
            suffix: String::new(),
            candidates: 1_000_000,
        }
    }
}

impl CanaryTemplate {
    /// Returns the number of different secrets, all equally likely.
    #[must_use]
    pub fn candidates(&self) -> u128 {
        self.candidates
    }

    /// Returns the literal text before the first field.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the literal text after the last field.
    #[must_use]
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// Returns the template for an error message; for a long template, only the text before its
    /// first field.
    pub(crate) fn shown(&self) -> String {
        match self.source.char_indices().nth(SHOWN) {
            None => self.source.clone(),
            Some(_) => format!("{}…", self.prefix),
        }
    }

    /// Returns the choices at each position of the secret, in order. A literal between two fields
    /// is a position with one choice. Every secret consists of exactly one choice per position.
    #[must_use]
    pub fn positions(&self) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        for part in &self.core {
            match part {
                TemplatePart::Literal(text) => out.push(vec![text.clone()]),
                TemplatePart::Field(Field::List(items)) => out.push(items.clone()),
                TemplatePart::Field(Field::Digits(n)) => repeat(&mut out, *n, '0'..='9'),
                TemplatePart::Field(Field::Letters(n)) => repeat(&mut out, *n, 'a'..='z'),
                TemplatePart::Field(Field::Upper(n)) => repeat(&mut out, *n, 'A'..='Z'),
            }
        }
        out
    }

    /// Returns whether a text is one of the candidates.
    #[must_use]
    pub fn matches(&self, secret: &str) -> bool {
        candidate(&self.positions(), secret) == Some(secret)
    }

    /// Draws a secret uniformly from the candidates.
    pub(crate) fn draw(&self, choices: &mut Choices) -> String {
        self.positions()
            .iter()
            .map(|at| at[choices.index(at.len())].as_str())
            .collect()
    }
}

/// Returns the candidate with which a text begins. At most one choice fits at each position, since none is a prefix of
/// another.
pub(super) fn candidate<'t>(positions: &[Vec<String>], text: &'t str) -> Option<&'t str> {
    let mut rest = text;
    for choices in positions {
        rest = choices.iter().find_map(|c| rest.strip_prefix(c.as_str()))?;
    }
    Some(&text[..text.len() - rest.len()])
}

fn repeat(out: &mut Vec<Vec<String>>, n: u32, letters: std::ops::RangeInclusive<char>) {
    let choices: Vec<String> = letters.map(String::from).collect();
    out.extend((0..n).map(|_| choices.clone()));
}

impl std::str::FromStr for CanaryTemplate {
    type Err = Error;

    fn from_str(source: &str) -> Result<Self> {
        parse(source).map_err(|problem| Error::Template {
            template: source.to_owned(),
            problem,
        })
    }
}

type Parsed<T> = std::result::Result<T, String>;

fn parse(source: &str) -> Parsed<CanaryTemplate> {
    if source.contains(['\n', '\r']) {
        return Err("a canary is one line; it must not contain a line break".to_owned());
    }
    if !escapes(source).is_empty() {
        return Err("it contains a special token such as <MASK>".to_owned());
    }
    let mut parts = pieces(source)?;
    let is_field = |p: &TemplatePart| matches!(p, TemplatePart::Field(_));
    let Some(first) = parts.iter().position(is_field) else {
        return Err("it has no field; give one such as {digits:6}".to_owned());
    };
    let last = parts.iter().rposition(is_field).unwrap_or(first);
    let suffix = literal(parts.split_off(last + 1));
    let core = parts.split_off(first);
    let prefix = literal(parts);
    if prefix.trim().is_empty() {
        return Err(
            "it needs literal text before its first field, to score the secret in".to_owned(),
        );
    }
    let mut template = CanaryTemplate {
        source: source.to_owned(),
        prefix,
        core,
        suffix,
        candidates: 1,
    };
    for choices in template.positions() {
        template.candidates = template
            .candidates
            .checked_mul(choices.len() as u128)
            .ok_or("it has more than 2^128 candidates")?;
    }
    Ok(template)
}

fn literal(parts: Vec<TemplatePart>) -> String {
    parts
        .into_iter()
        .map(|p| match p {
            TemplatePart::Literal(text) => text,
            TemplatePart::Field(_) => String::new(),
        })
        .collect()
}

fn pieces(source: &str) -> Parsed<Vec<TemplatePart>> {
    let mut parts = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        let open = rest.find('{').unwrap_or(rest.len());
        let (text, after) = rest.split_at(open);
        if text.contains('}') {
            return Err("a } without its {".to_owned());
        }
        if !text.is_empty() {
            parts.push(TemplatePart::Literal(text.to_owned()));
        }
        if after.is_empty() {
            break;
        }
        let close = after.find('}').ok_or("a { without its }")?;
        parts.push(TemplatePart::Field(field(&after[1..close])?));
        rest = &after[close + 1..];
    }
    Ok(parts)
}

fn field(inside: &str) -> Parsed<Field> {
    let (name, value) = inside
        .split_once(':')
        .ok_or_else(|| format!("field {{{inside}}} has no colon; write {{digits:6}}"))?;
    let count = || match value.parse::<u32>() {
        Ok(n) if (1..=64).contains(&n) => Ok(n),
        _ => Err(format!("{name} takes a number from 1 to 64, got {value:?}")),
    };
    match name {
        "digits" => Ok(Field::Digits(count()?)),
        "letters" => Ok(Field::Letters(count()?)),
        "upper" => Ok(Field::Upper(count()?)),
        "list" => list(value),
        _ => Err(format!(
            "unknown field {name:?}; there are digits, letters, upper and list"
        )),
    }
}

/// Parses a list. No item may begin another; otherwise, two ways to fill the fields could give the
/// same text.
fn list(value: &str) -> Parsed<Field> {
    let items: Vec<String> = value.split('|').map(str::to_owned).collect();
    for (i, item) in items.iter().enumerate() {
        if item.is_empty() {
            return Err(format!("item {} of the list is empty", i + 1));
        }
        for (j, other) in items.iter().enumerate() {
            if i != j && other.starts_with(item.as_str()) {
                return Err(format!(
                    "list item {item:?} begins list item {other:?}; no item may begin another"
                ));
            }
        }
    }
    Ok(Field::List(items))
}

impl std::fmt::Display for CanaryTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source)
    }
}

kept_as_text!(CanaryTemplate);
