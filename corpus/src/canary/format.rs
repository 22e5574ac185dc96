//! Canary formats, some of whose words are chosen when they are planted.

use super::template::CanaryTemplate;
use super::words::CanaryWords;
use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest number of places in a row.
const IN_A_ROW: u32 = 8;
/// The largest number of sampled tokens.
const SAMPLED_TOKENS: u32 = 64;

/// A [`CanaryTemplate`], or one that waits for words: `{rare:n}` is n places in a row, each of one of 64 words that are one
/// token each and occur most rarely in the text; `{new:n}` n places of one of 64 made-up words that do not occur in it;
/// `{sampled:n}` one place for a text of n tokens that a public model was sampled for.
///
/// A model that was trained before has hardly learnt such words, so that what it says of them afterwards is what this
/// training did: fewer copies show more (Panda et al. 2025, who take tokens new to the vocabulary; sampled canaries are
/// those of arXiv 2606.10481).
///
/// ```
/// use reticent_corpus::canary::{CanaryFormat, CanaryWords};
/// let format: CanaryFormat = "The code is{rare:2}".parse()?;
/// assert!(format.template().is_none());
/// let words = CanaryWords { rare: vec![" abc".to_owned(), " xyz".to_owned()], ..CanaryWords::default() };
/// let template = format.with_words(&words)?;
/// assert_eq!((template.candidates(), template.prefix()), (4, "The code is"));
/// assert!(template.matches(" xyz abc"));
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct CanaryFormat {
    source: String,
    parts: Vec<Part>,
    template: Option<CanaryTemplate>,
}

/// The place for a sampled text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledPlace<'a> {
    /// The text before it.
    pub before: &'a str,
    /// The number of tokens to sample.
    pub tokens: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Text of the template, including its fields.
    Plain(String),
    Rare(u32),
    New(u32),
    Sampled(u32),
}

impl CanaryFormat {
    /// Returns the template, if the format needs no words.
    #[must_use]
    pub const fn template(&self) -> Option<&CanaryTemplate> {
        self.template.as_ref()
    }

    /// Returns whether the format needs rare words.
    #[must_use]
    pub fn has_rare(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Rare(_)))
    }

    /// Returns whether the format needs made-up words.
    #[must_use]
    pub fn has_new(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::New(_)))
    }

    /// Returns the place for a sampled text, which is the first field.
    #[must_use]
    pub fn sampled(&self) -> Option<SampledPlace<'_>> {
        match self.parts.as_slice() {
            [Part::Plain(before), Part::Sampled(tokens), ..] => Some(SampledPlace {
                before,
                tokens: *tokens,
            }),
            _ => None,
        }
    }

    /// Returns the template with these words at its places.
    ///
    /// # Errors
    /// Returns an error if one word begins another, or there are no words for a place.
    pub fn with_words(&self, words: &CanaryWords) -> Result<CanaryTemplate> {
        filled(&self.parts, words).parse()
    }
}

impl Default for CanaryFormat {
    /// Returns the default template.
    fn default() -> Self {
        CanaryTemplate::default().into()
    }
}

impl From<CanaryTemplate> for CanaryFormat {
    fn from(template: CanaryTemplate) -> Self {
        let source = template.to_string();
        Self {
            parts: vec![Part::Plain(source.clone())],
            source,
            template: Some(template),
        }
    }
}

impl std::str::FromStr for CanaryFormat {
    type Err = Error;

    fn from_str(source: &str) -> Result<Self> {
        let wrong = |problem: String| Error::Template {
            template: source.to_owned(),
            problem,
        };
        let parts = parts(source).map_err(wrong)?;
        // Any two words suffice to check whether the rest is a template.
        let two = vec![" a".to_owned(), " b".to_owned()];
        let words = CanaryWords {
            rare: two.clone(),
            new: two.clone(),
            sampled: two,
        };
        let parsed: CanaryTemplate =
            filled(&parts, &words)
                .parse()
                .map_err(|error| match error {
                    Error::Template { problem, .. } => wrong(problem),
                    other => other,
                })?;
        let sampled = parts.iter().filter(|part| matches!(part, Part::Sampled(_)));
        let first = matches!(parts.as_slice(), [Part::Plain(before), Part::Sampled(_), ..] if *before == parsed.prefix());
        match (sampled.count(), first) {
            (0, _) | (1, true) => {}
            (1, false) => {
                return Err(wrong(
                    "{sampled:n} must be the first field: its text is sampled behind what stands before it".to_owned(),
                ));
            }
            (count, _) => {
                return Err(wrong(format!("{{sampled:n}} may stand once, got {count}")));
            }
        }
        let waits = parts.iter().any(|part| !matches!(part, Part::Plain(_)));
        Ok(Self {
            source: source.to_owned(),
            parts,
            template: (!waits).then_some(parsed),
        })
    }
}

impl std::fmt::Display for CanaryFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source)
    }
}

kept_as_text!(CanaryFormat);

/// A kind of place: its name, the largest number it accepts, and the part that it becomes.
type Kind = (&'static str, u32, fn(u32) -> Part);

/// Splits the source at the places that need words.
fn parts(source: &str) -> std::result::Result<Vec<Part>, String> {
    let kinds: [Kind; 3] = [
        ("rare", IN_A_ROW, Part::Rare),
        ("new", IN_A_ROW, Part::New),
        ("sampled", SAMPLED_TOKENS, Part::Sampled),
    ];
    let (mut out, mut plain, mut rest) = (Vec::new(), String::new(), source);
    while let Some(open) = rest.find('{') {
        let (before, field) = rest.split_at(open);
        plain.push_str(before);
        let close = field.find('}').ok_or("a { without its }")?;
        let inside = &field[1..close];
        let found = kinds.iter().find_map(|(name, most, part)| {
            let count = inside.strip_prefix(name)?.strip_prefix(':')?;
            Some((name, most, part, count))
        });
        match found {
            Some((name, most, part, count)) => {
                let number = count.parse().ok().filter(|n| (1..=*most).contains(n));
                let number = number.ok_or_else(|| {
                    format!("{name} takes a number from 1 to {most}, got {count:?}")
                })?;
                if !plain.is_empty() {
                    out.push(Part::Plain(std::mem::take(&mut plain)));
                }
                out.push(part(number));
            }
            None => plain.push_str(&field[..=close]),
        }
        rest = &field[close + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        out.push(Part::Plain(plain));
    }
    Ok(out)
}

/// Returns the source of a template with a list at each place.
fn filled(parts: &[Part], words: &CanaryWords) -> String {
    let list = |words: &[String], times: u32| {
        format!("{{list:{}}}", words.join("|")).repeat(times as usize)
    };
    parts
        .iter()
        .map(|part| match part {
            Part::Plain(text) => text.clone(),
            Part::Rare(times) => list(&words.rare, *times),
            Part::New(times) => list(&words.new, *times),
            Part::Sampled(_) => list(&words.sampled, 1),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_wait_are_checked_with_the_rest() {
        let parse = |source: &str| source.parse::<CanaryFormat>();
        let waiting = parse("My code is{rare:3}, {digits:2}").unwrap();
        assert_eq!(waiting.to_string(), "My code is{rare:3}, {digits:2}");
        assert!(waiting.template().is_none() && waiting.has_rare() && !waiting.has_new());
        let rare: Vec<String> = [" abc", " def", " ghi"].map(String::from).to_vec();
        let words = CanaryWords {
            rare,
            ..CanaryWords::default()
        };
        assert_eq!(waiting.with_words(&words).unwrap().candidates(), 2700);
        let plain = parse("My ID is: {digits:6}").unwrap();
        assert_eq!(plain.template(), Some(&CanaryTemplate::default()));
        assert_eq!(plain, CanaryFormat::default());
        assert!(parse("x{new:2}{rare:1}").unwrap().has_new());
        let sampled = parse("My note:{sampled:12}, {digits:2}").unwrap();
        let place = sampled.sampled().unwrap();
        assert_eq!((place.before, place.tokens), ("My note:", 12));
        for bad in [
            "x{rare:0}",
            "x{rare:9}",
            "x{rare:a}",
            "x{rare:2",
            "x}{rare:2}",
            "{rare:2}",
            "{sampled:4}",
            "x{rare:2}{digits:}",
            "x{new:9}",
            "x{sampled:0}",
            "x{sampled:65}",
            "x{digits:2} y{sampled:4}",
            "x{new:2}{sampled:4}",
            "x{sampled:4} {sampled:4}",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        // A problem is one of what was written, not of what takes its place.
        let said = parse("{new:2}").unwrap_err().to_string();
        assert!(said.contains("{new:2}") && !said.contains("list"), "{said}");
        let beginning = CanaryWords {
            rare: [" abc", " abcd"].map(String::from).to_vec(),
            ..CanaryWords::default()
        };
        assert!(waiting.with_words(&beginning).is_err());
        assert!(waiting.with_words(&CanaryWords::default()).is_err());
    }
}
