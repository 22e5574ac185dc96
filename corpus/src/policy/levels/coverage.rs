//! The eighteen kinds of named entities, and what finds each here.

use super::{Level, Tagger};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of named entity (the OntoNotes 5 scheme, which spaCy's English models use).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EntityKind {
    /// People, real or made up.
    Person,
    /// Nationalities, religious and political groups.
    Norp,
    /// Buildings, airports, roads.
    Fac,
    /// Companies, agencies, institutions.
    Org,
    /// Countries, cities, states.
    Gpe,
    /// Other places.
    Loc,
    /// Objects, vehicles, foods.
    Product,
    /// Named storms, battles, sports events.
    Event,
    /// Titles of books and songs.
    WorkOfArt,
    /// Named documents made into law.
    Law,
    /// Any named language.
    Language,
    /// Dates and periods.
    Date,
    /// Times shorter than a day.
    Time,
    /// Percentages.
    Percent,
    /// Money.
    Money,
    /// Measurements.
    Quantity,
    /// First, second.
    Ordinal,
    /// Other numerals.
    Cardinal,
}

/// What finds a kind of entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cover {
    /// A grammar: numbers and times in their usual forms.
    Grammar,
    /// A tagger, and capitals inside sentences.
    Tagger,
    /// A short list, and capitals inside sentences; a name that begins a sentence is missed
    /// unless it is listed.
    ListAndCapitals,
    /// Capitals inside sentences only; a name that begins a sentence is missed.
    CapitalsOnly,
    /// Not sensitive at this level.
    NotAsked,
}

impl EntityKind {
    /// All eighteen kinds.
    pub const ALL: [Self; 18] = [
        Self::Person,
        Self::Norp,
        Self::Fac,
        Self::Org,
        Self::Gpe,
        Self::Loc,
        Self::Product,
        Self::Event,
        Self::WorkOfArt,
        Self::Law,
        Self::Language,
        Self::Date,
        Self::Time,
        Self::Percent,
        Self::Money,
        Self::Quantity,
        Self::Ordinal,
        Self::Cardinal,
    ];

    /// Returns its name as the kind of a span.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Norp => "norp",
            Self::Fac => "fac",
            Self::Org => "org",
            Self::Gpe => "gpe",
            Self::Loc => "loc",
            Self::Product => "product",
            Self::Event => "event",
            Self::WorkOfArt => "work-of-art",
            Self::Law => "law",
            Self::Language => "language",
            Self::Date => "date",
            Self::Time => "time",
            Self::Percent => "percent",
            Self::Money => "money",
            Self::Quantity => "quantity",
            Self::Ordinal => "ordinal",
            Self::Cardinal => "cardinal",
        }
    }

    /// Returns the detectors' kind whose grammar finds it.
    pub(super) fn grammar(self) -> Option<&'static str> {
        super::NUMERIC.into_iter().find(|kind| *kind == self.name())
    }
}

pub(super) fn of(level: Level, tagger: Option<&dyn Tagger>) -> Vec<(EntityKind, Cover)> {
    let asked = level.entities();
    let cover = |kind: EntityKind| {
        if !asked.contains(&kind) {
            Cover::NotAsked
        } else if kind.grammar().is_some() {
            Cover::Grammar
        } else if tagger.is_some_and(|t| t.covers(kind)) {
            Cover::Tagger
        } else if matches!(
            kind,
            EntityKind::Norp | EntityKind::Gpe | EntityKind::Language
        ) {
            Cover::ListAndCapitals
        } else {
            Cover::CapitalsOnly
        }
    };
    EntityKind::ALL.into_iter().map(|k| (k, cover(k))).collect()
}
