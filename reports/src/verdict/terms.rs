//! The terms under which a bound holds.

use crate::contract::to_json;
use reticent_accounting::{Delta, Neighbours, Notion, Probability, UnitName};
use schemars::JsonSchema;
use serde::Serialize;

/// What a bound is about. Two bounds are comparable only if all of it agrees.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Terms {
    /// What was released: the same checkpoint on both sides.
    pub released: String,
    /// The notion.
    pub notion: Notion,
    /// Neighbouring relation.
    pub neighbours: Neighbours,
    /// What one record is.
    pub unit: UnitName,
    /// The δ. Pure ε (δ = 0) of a Gaussian is infinite, so a δ of zero is comparable only with itself.
    pub delta: Delta,
    /// How many records change at once: all copies of one secret.
    pub group: u64,
    /// The largest chance of guessing a secret before training; only where the bound is one on the
    /// chance of guessing it after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior: Option<Probability>,
}

/// A part of [`Terms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// What was released.
    Released,
    /// The notion.
    Notion,
    /// The neighbours.
    Neighbours,
    /// The unit.
    Unit,
    /// δ.
    Delta,
    /// The group size.
    Group,
    /// The prior.
    Prior,
}

impl Field {
    const fn says(self) -> &'static str {
        match self {
            Self::Released => "what was released",
            Self::Notion => "the notion",
            Self::Neighbours => "the neighbours",
            Self::Unit => "the unit",
            Self::Delta => "δ",
            Self::Group => "the number of records",
            Self::Prior => "the chance before training",
        }
    }
}

/// Why a promise and a measurement cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[error(
    "promise and measurement are not comparable: {} is {promised} in the promise and {measured} in the measurement",
    .field.says()
)]
pub struct Mismatch {
    /// The first part that differs.
    pub field: Field,
    /// What the promise says.
    pub promised: String,
    /// What the measurement says.
    pub measured: String,
}

impl Terms {
    /// Returns every part as text, so that terms can be compared and a difference quoted.
    fn parts(&self) -> [(Field, String); 7] {
        [
            (Field::Released, self.released.clone()),
            (Field::Notion, named(self.notion)),
            (Field::Neighbours, self.neighbours.to_string()),
            (Field::Unit, self.unit.to_string()),
            // The shortest text that parses to the same number, so that equal texts mean equal
            // numbers.
            (Field::Delta, crate::number::shortest(self.delta.get())),
            (Field::Group, self.group.to_string()),
            (
                Field::Prior,
                self.prior.map_or_else(
                    || "not said".to_owned(),
                    |prior| crate::number::shortest(prior.get()),
                ),
            ),
        ]
    }
    /// Checks that these terms (the promise's) agree with the measurement's.
    ///
    /// # Errors
    /// Returns the first part that differs.
    pub fn agree(&self, measured: &Self) -> Result<(), Mismatch> {
        for ((field, promised), (_, measured)) in self.parts().into_iter().zip(measured.parts()) {
            if promised != measured {
                return Err(Mismatch {
                    field,
                    promised,
                    measured,
                });
            }
        }
        Ok(())
    }
}

/// Returns the name of a notion in the JSON files.
fn named(notion: Notion) -> String {
    match to_json(&notion) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{notion:?}"),
    }
}
