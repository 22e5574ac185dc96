//! The four levels of detectors of JFT (Shi et al. 2022, section 4), and what covers them here.

mod coverage;
mod words;

pub use coverage::{Cover, EntityKind};
pub(crate) use words::listed;

use super::detect::{DetectorOptions, Detectors, NUMERIC};
use super::dictionary::{Dictionary, DictionaryOptions};
use super::folded::{Composed, Forms};
use super::introduced;
use super::speakers::{is_no_name, is_question, without_speakers};
use super::{Policy, Span, View, threshold};
use crate::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// How much a detector takes for sensitive. Each level holds the one before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Persons, organisations, dates and locations.
    LowEntity,
    /// All eighteen kinds of named entities.
    HighEntity,
    /// Those, and proper nouns, pronouns, subjects and objects.
    LowContextual,
    /// Those, and verbs.
    HighContextual,
}

impl Level {
    /// All levels, from the lowest.
    pub const ALL: [Self; 4] = [
        Self::LowEntity,
        Self::HighEntity,
        Self::LowContextual,
        Self::HighContextual,
    ];

    /// Returns the kinds of entities that are sensitive at this level.
    #[must_use]
    pub fn entities(self) -> Vec<EntityKind> {
        let takes = |kind: &EntityKind| self.takes(*kind);
        EntityKind::ALL.into_iter().filter(takes).collect()
    }

    /// Returns whether a kind of entity is sensitive at this level.
    #[must_use]
    pub const fn takes(self, kind: EntityKind) -> bool {
        use EntityKind::{Date, Fac, Gpe, Loc, Org, Person};
        !matches!(self, Self::LowEntity) || matches!(kind, Person | Org | Date | Gpe | Loc | Fac)
    }
}

/// The role that a tagger assigns to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// A named entity of a kind.
    Entity(EntityKind),
    /// A proper noun.
    ProperNoun,
    /// A pronoun.
    Pronoun,
    /// The subject of a clause.
    Subject,
    /// The object of a verb or a preposition.
    Object,
    /// A verb other than an auxiliary.
    Verb,
}

/// A word with one of its roles.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleTag {
    /// The word, in bytes of the text.
    pub range: Range<usize>,
    /// Its role.
    pub role: Role,
    /// The confidence, from 0 to 1.
    pub score: f32,
}

/// A tagger or parser that [`Levels`] uses for what patterns cannot find. It must depend on the record alone.
pub trait Tagger: Send + Sync + std::fmt::Debug {
    /// Appends words with their roles, in bytes of the text; a word may have several roles. Words are in order.
    /// Unlikely roles may be included, with their scores.
    fn tag(&self, text: &str, found: &mut Vec<RoleTag>);

    /// Appends only the entities among the results of [`Self::tag`].
    fn names(&self, text: &str, found: &mut Vec<RoleTag>) {
        let mut all = Vec::new();
        self.tag(text, &mut all);
        found.extend(
            all.into_iter()
                .filter(|t| matches!(t.role, Role::Entity(_))),
        );
    }

    /// Returns whether the tagger was made to find this kind of entity.
    fn covers(&self, _kind: EntityKind) -> bool {
        true
    }
}

/// One of JFT's levels: grammars of numbers and times, word lists, capitals inside sentences,
/// closed word classes, and a tagger for the rest.
///
/// Without a tagger, subjects, objects and verbs are not found, and names are found only by their capitals:
/// [`Levels::coverage`] lists what covers each kind.
///
/// ```
/// use reticent_corpus::policy::{Level, Levels, View, resolved};
/// let text = "Did you hear Alice is getting divorced?";
/// let spans = resolved(&Levels::new(Level::LowEntity, None)?, &View { text, secrets: &[] });
/// assert_eq!(&text[spans[0].start..spans[0].end], "Alice");
/// assert_eq!(spans.len(), 1);
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Levels {
    level: Level,
    grammar: Detectors,
    lists: Vec<Dictionary>,
    tagger: Option<Arc<dyn Tagger>>,
    least: f32,
    source: Arc<str>,
}

/// The default threshold for the score of a tag: more likely than not.
pub(crate) const LIKELY: f32 = 0.5;

impl Levels {
    /// Creates the detector of a level.
    ///
    /// # Errors
    /// Never fails for the patterns and lists created here.
    pub fn new(level: Level, tagger: Option<Arc<dyn Tagger>>) -> Result<Self> {
        let numeric = level.entities().into_iter().filter_map(EntityKind::grammar);
        let options = DetectorOptions {
            kinds: numeric.map(str::to_owned).collect(),
            countries: Vec::new(),
            ..DetectorOptions::default()
        };
        let lists = words::lists()
            .into_iter()
            .filter(|(kind, _)| level.takes(*kind))
            .map(|(kind, words)| {
                Dictionary::new(&DictionaryOptions {
                    kind: kind.name().to_owned(),
                    words,
                    case_sensitive: true,
                    whole_words: true,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            level,
            grammar: Detectors::new(&options)?,
            lists,
            tagger,
            least: LIKELY,
            source: "level".into(),
        })
    }

    /// Sets another threshold for the tagger's scores; patterns and lists are certain.
    ///
    /// # Errors
    /// As for [`threshold`].
    pub fn at_least(self, least: f32) -> Result<Self> {
        Ok(Self {
            least: threshold(least)?,
            ..self
        })
    }

    /// Returns, for each of the eighteen kinds of entities, what covers it at this level.
    #[must_use]
    pub fn coverage(&self) -> Vec<(EntityKind, Cover)> {
        coverage::of(self.level, self.tagger.as_deref())
    }

    fn contextual(&self) -> bool {
        self.level >= Level::LowContextual
    }

    fn wants(&self, role: Role) -> bool {
        match role {
            Role::Entity(kind) => self.level.takes(kind),
            Role::Verb => self.level == Level::HighContextual,
            Role::ProperNoun | Role::Pronoun | Role::Subject | Role::Object => self.contextual(),
        }
    }
}

impl Policy for Levels {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        // Of spans over the same text, the first gives the kind, so names come last.
        self.grammar.find(view, spans);
        let forms = Forms::of(view.text, false);
        for list in &self.lists {
            list.find_in(&forms, spans);
        }
        for composed in Composed::readings(view.text) {
            self.find_in(&composed, spans);
        }
    }
}

impl Levels {
    fn find_in(&self, composed: &Composed<'_>, spans: &mut Vec<Span>) {
        let text = composed.text();
        let mut push = |range: Range<usize>, kind: &str, score| {
            let range = composed.place(range);
            spans.push(Span::new(range, kind, self.source.clone(), score));
        };
        if self.contextual() {
            for pronoun in words::pronouns(text) {
                push(pronoun, "pronoun", 1.0);
            }
        }
        if let Some(tagger) = &self.tagger {
            let mut found = Vec::new();
            if self.contextual() {
                tagger.tag(text, &mut found);
            } else {
                tagger.names(text, &mut found);
            }
            found.retain(|tag| self.wants(tag.role));
            for span in joined(found, text, self.least) {
                push(span.range, span.role.name(), span.score);
            }
        }
        for name in words::names(text) {
            // No list or pattern distinguishes persons from places; the capitals only indicate a name.
            push(name, "proper-name", 0.6);
        }
    }
}

/// Returns the names whose score reaches a threshold, with the words of each name joined, but without speaker marks and
/// question words.
pub(super) fn names(tagger: &dyn Tagger, text: &str, least: f32) -> Vec<RoleTag> {
    let readings = Composed::readings(text);
    readings
        .flat_map(|composed| names_in(tagger, &composed, least))
        .collect()
}

fn names_in(tagger: &dyn Tagger, composed: &Composed<'_>, least: f32) -> Vec<RoleTag> {
    let text = composed.text();
    let mut found = Vec::new();
    tagger.names(&without_speakers(text), &mut found);
    found.retain(|tag| !is_question(text, tag.range.start, tag.range.end));
    let mut names = joined(found, text, least);
    names.retain(|name| !is_no_name(&text[name.range.clone()]));
    names.extend(introduced::names(text).into_iter().map(|range| RoleTag {
        range,
        role: Role::Entity(EntityKind::Person),
        score: 1.0,
    }));
    for RoleTag { range, .. } in &mut names {
        *range = composed.place(range.clone());
    }
    names
}

/// Keeps tags whose score reaches the threshold, and joins the words of one name.
fn joined(found: Vec<RoleTag>, text: &str, least: f32) -> Vec<RoleTag> {
    let mut out: Vec<RoleTag> = Vec::new();
    let mut name: Option<usize> = None;
    // A NaN score counts as sure: better to mask than to miss.
    for tag in found
        .into_iter()
        .filter(|t| t.score >= least || t.score.is_nan())
    {
        if !matches!(tag.role, Role::Entity(_)) {
            out.push(tag);
            continue;
        }
        let last = name.and_then(|at| out.get_mut(at)).filter(|last| {
            let between = text.get(last.range.end..tag.range.start);
            last.role == tag.role && between.is_some_and(|b| b.chars().all(|c| c == ' '))
        });
        if let Some(last) = last {
            last.range.end = tag.range.end;
            last.score = last.score.min(tag.score);
        } else {
            name = Some(out.len());
            out.push(tag);
        }
    }
    out
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Entity(kind) => kind.name(),
            Self::ProperNoun => "proper-noun",
            Self::Pronoun => "pronoun",
            Self::Subject => "subject",
            Self::Object => "object",
            Self::Verb => "verb",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::resolved;

    #[test]
    fn names_are_read_without_their_controls_too() -> Result<()> {
        let levels = Levels::new(Level::LowEntity, None)?;
        for text in [
            "She met Ma\0ria there",
            "S\0h\0e\0 \0m\0e\0t\0 \0M\0a\0r\0i\0a",
        ] {
            let found = resolved(&levels, &View { text, secrets: &[] });
            let (start, end) = (text.find('M').unwrap(), text.rfind('a').unwrap());
            let whole = |span: &Span| span.start <= start && span.end > end;
            assert!(found.iter().any(whole), "{text:?}: {found:?}");
        }
        Ok(())
    }

    #[test]
    fn names_end_behind_their_accents() -> Result<()> {
        let text = "She met Rene\u{301} and Zoe\u{308} there";
        let levels = Levels::new(Level::LowEntity, None)?;
        let found = resolved(&levels, &View { text, secrets: &[] });
        let found: Vec<&str> = found.iter().map(|s| &text[s.start..s.end]).collect();
        assert_eq!(found, ["Rene\u{301}", "Zoe\u{308}"]);
        Ok(())
    }
}
