//! The eighteen kinds of named entities, and what finds each here.

use super::{Level, Tagger};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares the kinds with their names.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// A kind of named entity (the OntoNotes 5 scheme, which spaCy's English models use).
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum EntityKind {
            $($(#[$doc])* $kind,)*
        }

        impl EntityKind {
            /// All eighteen kinds.
            pub const ALL: [Self; 18] = [$(Self::$kind,)*];

            /// Returns its name as the kind of a span.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// People, real or made up.
    Person = "person",
    /// Nationalities, religious and political groups.
    Norp = "norp",
    /// Buildings, airports, roads.
    Fac = "fac",
    /// Companies, agencies, institutions.
    Org = "org",
    /// Countries, cities, states.
    Gpe = "gpe",
    /// Other places.
    Loc = "loc",
    /// Objects, vehicles, foods.
    Product = "product",
    /// Named storms, battles, sports events.
    Event = "event",
    /// Titles of books and songs.
    WorkOfArt = "work-of-art",
    /// Named documents made into law.
    Law = "law",
    /// Any named language.
    Language = "language",
    /// Dates and periods.
    Date = "date",
    /// Times shorter than a day.
    Time = "time",
    /// Percentages.
    Percent = "percent",
    /// Money.
    Money = "money",
    /// Measurements.
    Quantity = "quantity",
    /// First, second.
    Ordinal = "ordinal",
    /// Other numerals.
    Cardinal = "cardinal",
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
    #[serde(rename = "not-asked")]
    NotSensitive,
}

impl EntityKind {
    /// Returns the detectors' kind whose grammar finds it.
    pub(super) fn grammar(self) -> Option<&'static str> {
        super::NUMERIC.into_iter().find(|kind| *kind == self.name())
    }
}

pub(super) fn of(level: Level, tagger: Option<&dyn Tagger>) -> Vec<(EntityKind, Cover)> {
    let sensitive = level.entities();
    let cover = |kind: EntityKind| {
        if !sensitive.contains(&kind) {
            Cover::NotSensitive
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
