//! Stability: how far a change to one record spreads.

use crate::dedup::Deduplication;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many records of a stage's output may change when one record of its input does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// At most so many.
    Bounded(u64),
    /// No bound that does not grow with the corpus: no guarantee passes through.
    Unbounded,
}

impl Stability {
    /// Returns the stability of two consecutive stages.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Bounded(a), Self::Bounded(b)) => {
                a.checked_mul(b).map_or(Self::Unbounded, Self::Bounded)
            }
            _ => Self::Unbounded,
        }
    }
}

impl JsonSchema for Stability {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Stability".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "How many records of a stage's output may change when one record of its input does.",
            "anyOf": [{ "type": "integer", "minimum": 0 }, { "const": "unbounded" }]
        })
    }
}

impl Serialize for Stability {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bounded(factor) => s.serialize_u64(*factor),
            Self::Unbounded => s.serialize_str("unbounded"),
        }
    }
}

impl<'de> Deserialize<'de> for Stability {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(d)? {
            Either::Number(factor) => Ok(Self::Bounded(factor)),
            Either::Text(text) if text == "unbounded" => Ok(Self::Unbounded),
            Either::Text(text) => Err(serde::de::Error::custom(format!(
                "stability {text:?}; a number or \"unbounded\""
            ))),
        }
    }
}

/// A stage of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Documents to units.
    Split,
    /// Text to tokens.
    Tokenise,
    /// Later copies to `<MASK>`.
    Deduplicate,
    /// The policy's spans to `<MASK>`.
    Redact,
    /// Public or private.
    Screen,
    /// Cutting records to length.
    Truncate,
}

/// Which neighbours are compared: every copy of a record changed at once, or one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Copies {
    /// All copies of a secret against their masked versions together.
    All,
    /// One copy, while others of the same text stay.
    Single,
}

/// A stage's stability, per changed distinct record of its input, while what is drawn over all documents stays: which
/// are held out, and where canaries are planted.
///
/// Exact deduplication: with all copies of a unit s changed to s′ together, the first differs
/// and the later ones are `<MASK>` either way, so 1. With a single copy changed,
/// {s, s} → {s, `<MASK>`} but {s′, s} → {s′, s}: 2. Where the input holds masked spans
/// already, s′ may be there before the change and lose its place: 2 as well. A Bloom filter
/// has these numbers but for a collision; near-duplicates and repeated stretches have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageStability {
    /// The stage.
    pub stage: Stage,
    /// Under [`Copies::All`].
    pub all_copies: Stability,
    /// Under [`Copies::Single`].
    pub single_copy: Stability,
    /// What holds instead but for a rare event, whose probability then belongs into δ. Who
    /// does not add it takes the two above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub but_for: Option<ButFor>,
}

/// Stability that fails with a known probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ButFor {
    /// Under [`Copies::All`].
    pub all_copies: Stability,
    /// Under [`Copies::Single`].
    pub single_copy: Stability,
    /// It fails with probability at most 2 to the power of minus this.
    pub probability_bits: u32,
}

impl StageStability {
    /// Returns the stages of a pipeline, in order.
    pub(super) fn of(
        deduplicate: Option<&Deduplication>,
        truncate: bool,
        masked_input: bool,
        units: usize,
    ) -> Vec<Self> {
        let stage = |stage, all, single| Self {
            stage,
            all_copies: Stability::Bounded(all),
            single_copy: Stability::Bounded(single),
            but_for: None,
        };
        let mut out = vec![stage(Stage::Split, 1, 1), stage(Stage::Tokenise, 1, 1)];
        if let Some(method) = deduplicate {
            let (all_copies, single_copy, but_for) = method.stability(masked_input, units);
            out.push(Self {
                stage: Stage::Deduplicate,
                all_copies,
                single_copy,
                but_for,
            });
        }
        out.push(stage(Stage::Redact, 1, 1));
        out.push(stage(Stage::Screen, 1, 1));
        if truncate {
            out.push(stage(Stage::Truncate, 1, 1));
        }
        out
    }

    /// Returns the stability of a pipeline: the product over its stages.
    #[must_use]
    pub fn product(stages: &[Self], copies: Copies) -> Stability {
        stages.iter().fold(Stability::Bounded(1), |all, stage| {
            all.then(match copies {
                Copies::All => stage.all_copies,
                Copies::Single => stage.single_copy,
            })
        })
    }

    /// Returns whether masking all copies of a secret can change records without it.
    pub(super) fn spread(stages: &[Self]) -> bool {
        Self::product(stages, Copies::All) != Stability::Bounded(1)
    }
}
