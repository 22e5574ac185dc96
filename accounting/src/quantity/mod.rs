//! Named numbers whose range is checked once, on construction.

pub(crate) mod bound;
pub(crate) mod decimal;
pub(crate) mod error;
pub(crate) mod neighbours;

use crate::quantity::error::{Error, Result};
use num_traits::ToPrimitive;
use schemars::{JsonSchema, Schema, json_schema};
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number as serialised: JSON has no infinity, so infinity is written as `"inf"`.
#[derive(Debug, Clone, Copy)]
struct Number(f64);

/// Infinity as serialised.
const INFINITY: &str = "inf";

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        if self.0 == f64::INFINITY {
            serializer.serialize_str(INFINITY)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a number or {INFINITY:?}")
    }
    fn visit_f64<E>(self, value: f64) -> std::result::Result<Number, E> {
        Ok(Number(value))
    }
    fn visit_u64<E>(self, value: u64) -> std::result::Result<Number, E> {
        Ok(Number(value as f64))
    }
    fn visit_i64<E>(self, value: i64) -> std::result::Result<Number, E> {
        Ok(Number(value as f64))
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Number, E> {
        if text == INFINITY {
            Ok(Number(f64::INFINITY))
        } else {
            Err(E::invalid_value(Unexpected::Str(text), &self))
        }
    }
}

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "number" }, { "const": INFINITY }] })
    }
}

/// Restricts a schema to numbers within a range, written as `(0, 1]` or `[0, inf]`.
fn within(schema: &mut Schema, range: &str) {
    let ends = range.trim_matches(|c| "[]()".contains(c)).split_once(", ");
    let Some((Ok(least), most)) = ends.map(|(low, high)| (low.parse::<f64>(), high)) else {
        return;
    };
    let mut number = json_schema!({ "type": "number" });
    let open = if range.starts_with('(') {
        "exclusiveMinimum"
    } else {
        "minimum"
    };
    number.insert(open.to_owned(), least.into());
    if most != INFINITY {
        let open = if range.ends_with(')') {
            "exclusiveMaximum"
        } else {
            "maximum"
        };
        number.insert(
            open.to_owned(),
            most.parse::<f64>().unwrap_or(f64::MAX).into(),
        );
    }
    schema.remove("anyOf");
    if range.ends_with("inf]") {
        schema.insert(
            "anyOf".to_owned(),
            serde_json::json!([number, { "const": INFINITY }]),
        );
    } else if let Some(members) = number.as_object() {
        schema.ensure_object().extend(members.clone());
    }
}

/// Returns `within` as a transform of a derived schema.
fn written_within(range: &'static str) -> impl FnMut(&mut Schema) {
    move |schema| within(schema, range)
}

macro_rules! quantity {
    ($(#[$meta:meta])* $name:ident, $what:literal, $range:literal, |$v:ident| $ok:expr) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "Number", into = "Number")]
        #[schemars(transform = written_within($range))]
        pub struct $name(f64);

        impl $name {
            #[doc = concat!("Checks that the ", $what, " lies in ", $range, ".")]
            ///
            /// # Errors
            /// Returns [`Error::OutOfRange`] if the value lies outside the range or is NaN.
            pub fn new($v: f64) -> Result<Self> {
                // Adding zero changes a negative zero alone.
                if $ok { Ok(Self($v + 0.0)) } else {
                    Err(Error::out_of_range($what, $range, $v))
                }
            }
            /// Returns the bare number.
            #[must_use]
            pub const fn get(self) -> f64 { self.0 }
        }
        impl TryFrom<f64> for $name {
            type Error = Error;
            fn try_from(value: f64) -> Result<Self> { Self::new(value) }
        }
        impl TryFrom<Number> for $name {
            type Error = Error;
            fn try_from(value: Number) -> Result<Self> { Self::new(value.0) }
        }
        impl From<$name> for Number {
            fn from(value: $name) -> Self { Self(value.0) }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
        impl From<$name> for f64 {
            fn from(value: $name) -> f64 { value.0 }
        }
    };
}

quantity!(
    /// Privacy loss ε in nats; infinity is a valid (empty) promise and is written `"inf"`.
    Epsilon, "epsilon", "[0, inf]", |v| v >= 0.0);
quantity!(
    /// The additive slack δ of a guarantee.
    Delta, "delta", "[0, 1]", |v| (0.0..=1.0).contains(&v));
quantity!(
    /// A probability.
    Probability, "probability", "[0, 1]", |v| (0.0..=1.0).contains(&v));
quantity!(
    /// The probability q with which Poisson sampling takes a record into a batch. At 0, no record is in any batch.
    SamplingRate, "sampling rate", "[0, 1]", |v| (0.0..=1.0).contains(&v));
quantity!(
    /// Noise standard deviation over clipping norm, σ.
    NoiseMultiplier, "noise multiplier", "(0, inf)", |v| v > 0.0 && v.is_finite());
quantity!(
    /// The share γ of secrets that a policy misses.
    MissRate, "miss rate", "[0, 1]", |v| (0.0..=1.0).contains(&v));
quantity!(
    /// The probability with which a statistical bound holds.
    Confidence, "confidence", "(0, 1)", |v| v > 0.0 && v < 1.0);
quantity!(
    /// How wide the two certified ends of an answer may be, relative to the answer.
    Tolerance, "tolerance", "[1e-12, 0.5]", |v| (1e-12..=0.5).contains(&v));
quantity!(
    /// The order α of a Rényi divergence.
    Order, "order", "(1, inf)", |v| v > 1.0 && v.is_finite());

quantity!(
    /// A Rényi divergence in nats, or a coefficient of one; infinity says nothing.
    Divergence, "Rényi divergence", "[0, inf]", |v| v >= 0.0);
quantity!(
    /// How often something runs on average.
    MeanRepetitions, "mean number of repetitions", "[1, inf)", |v| v >= 1.0 && v.is_finite());
quantity!(
    /// η of a random number of repetitions: 0 is logarithmic, 1 geometric, between and above truncated
    /// negative binomial, infinity Poisson.
    RepetitionShape, "shape of the number of repetitions", "[0, inf]", |v| v >= 0.0);

impl Divergence {
    /// No divergence.
    pub const ZERO: Self = Self(0.0);
}

impl Epsilon {
    /// Creates an ε from a computed value: clamps rounding errors below zero to 0 and turns NaN into infinity.
    pub(crate) fn nonnegative(value: f64) -> Self {
        if value.is_nan() {
            Self(f64::INFINITY)
        } else {
            Self(value.max(0.0))
        }
    }
}

impl Delta {
    /// No slack.
    pub const ZERO: Self = Self(0.0);

    /// Creates a δ from a computed value: clamps it to [0, 1] and turns NaN into 1.
    pub(crate) fn clamped(value: f64) -> Self {
        if value.is_nan() {
            Self(1.0)
        } else {
            Self(value.clamp(0.0, 1.0))
        }
    }
}

impl Order {
    /// Order two, that of the χ²-divergence.
    pub const TWO: Self = Self(2.0);
}

impl Tolerance {
    /// A relative width of 1e-6.
    pub const DEFAULT: Self = Self(1e-6);
}

impl SamplingRate {
    /// Returns `part` of `whole` records as a rate, rounded up: a larger rate is on the safe side.
    ///
    /// ```
    /// use reticent_accounting::SamplingRate;
    /// assert!(SamplingRate::of_share(12, 12)?.get() >= 1.0);
    /// assert!(SamplingRate::of_share(13, 12).is_err() && SamplingRate::of_share(0, 12).is_err());
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if `part` is zero or more than `whole`.
    pub fn of_share(part: u64, whole: u64) -> Result<Self> {
        let possible = (1..=whole).contains(&part);
        let (part, whole) = (part as f64, whole as f64);
        let share = part / whole;
        if !possible {
            return Err(Error::out_of_range("sampling rate", "(0, 1]", share));
        }
        Self::new(if share.mul_add(whole, -part) >= 0.0 {
            share
        } else {
            share.next_up()
        })
    }
}

impl From<SamplingRate> for Probability {
    fn from(rate: SamplingRate) -> Self {
        Self(rate.0)
    }
}

impl Probability {
    /// Certainty.
    pub const ONE: Self = Self(1.0);
}

impl Confidence {
    /// Returns the confidence of each of `bounds` bounds that together hold with this one: 1 − (1 − c)/k.
    ///
    /// Source: Bonferroni's inequality.
    ///
    /// ```
    /// use reticent_accounting::Confidence;
    /// let each = Confidence::new(0.95)?.shared_by(5)?;
    /// assert!((each.get() - 0.99).abs() < 1e-15);
    /// // The double next to one is a confidence, but no double stands for half of what it leaves.
    /// assert!(Confidence::new(1.0f64.next_down())?.shared_by(2).is_err());
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for no bound, and for a confidence so close to one that its share would round to one.
    pub fn shared_by(self, bounds: u64) -> Result<Self> {
        let (failure, least) = (1.0 - self.get(), 0.5 * f64::EPSILON);
        if bounds == 0 || failure < least * bounds as f64 {
            return Err(Error::out_of_range(
                "confidence of k bounds together",
                "(0, 1 - k/2^53]",
                self.get(),
            ));
        }
        Self::new(1.0 - failure / bounds as f64)
    }
}

impl MissRate {
    /// Nothing is missed.
    pub const ZERO: Self = Self(0.0);
}

/// The number of times a mechanism runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Steps(u64);

/// The largest count that arithmetic in f64 represents exactly.
pub(crate) const MOST_COUNT: u64 = 1 << 53;

/// Returns the count that a number states: whole, from 1 to 2^53 − 1. JSON and Python write counts as `3.0`, people as
/// `1e6`. `1e-400` and 2^53 + 1 have already become 0 and 2^53 at this point, so neither states a count.
pub(crate) fn count_of(number: f64) -> Option<u64> {
    number
        .to_u64()
        .filter(|count| number.fract() == 0.0 && (1..MOST_COUNT).contains(count))
}

impl Steps {
    /// The most steps that the accountant counts exactly, 2^53.
    pub const MOST: Self = Self(MOST_COUNT);

    /// Creates a count, which may be zero (a mechanism that never ran).
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }
    /// Returns the bare count.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the steps that a number states, if it is whole and in [1, 2^53).
    ///
    /// ```
    /// use reticent_accounting::Steps;
    /// assert_eq!(Steps::of_number(1e6), Some(Steps::new(1_000_000)));
    /// assert_eq!(Steps::of_number(1.5), None);
    /// ```
    #[must_use]
    pub fn of_number(number: f64) -> Option<Self> {
        count_of(number).map(Self)
    }

    /// Returns the steps of one epoch at a sampling rate: 1/q rounded up, as for a loader that keeps its last, smaller
    /// batch. Training uses this number; so do plans, but for samplers that use each record once an epoch, which take 1/q
    /// rounded down. At a rate of 0, where no epoch ends, it is [`Steps::MOST`].
    ///
    /// ```
    /// use reticent_accounting::{SamplingRate, Steps};
    /// assert_eq!(Steps::per_epoch(SamplingRate::new(256.0 / 60_000.0)?), Steps::new(235));
    /// assert_eq!(Steps::per_epoch(SamplingRate::new(0.1)?), Steps::new(10));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn per_epoch(rate: SamplingRate) -> Self {
        if rate.get() <= 0.0 {
            return Self::MOST;
        }
        // The rate may be a rounded reciprocal.
        Self(((1.0 / rate.get()) * (1.0 - 1e-12)).ceil().max(1.0) as u64)
    }

    /// Returns the fewest steps that one epoch may have at a sampling rate, 1/q rounded down: plans assume it for samplers
    /// that use each record once an epoch, since they are accounted for by epochs. [`Steps::MOST`] at a rate of 0.
    ///
    /// ```
    /// use reticent_accounting::{SamplingRate, Steps};
    /// assert_eq!(Steps::whole_per_epoch(SamplingRate::new(256.0 / 60_000.0)?), Steps::new(234));
    /// assert_eq!(Steps::whole_per_epoch(SamplingRate::new(0.1)?), Steps::new(10));
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn whole_per_epoch(rate: SamplingRate) -> Self {
        if rate.get() <= 0.0 {
            return Self::MOST;
        }
        Self(((1.0 / rate.get()) * (1.0 + 1e-12)).floor().max(1.0) as u64)
    }
}

/// How many records one person, secret or author accounts for in the question, at least one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "u32", into = "u32")]
pub struct GroupSize(u32);

impl GroupSize {
    /// A single record.
    pub const ONE: Self = Self(1);

    /// Checks that the group has between one and ten thousand records.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] otherwise.
    pub fn new(records: u32) -> Result<Self> {
        if (1..=10_000).contains(&records) {
            Ok(Self(records))
        } else {
            Err(Error::out_of_range(
                "group size",
                "[1, 10000]",
                f64::from(records),
            ))
        }
    }
    /// Returns the bare count.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for GroupSize {
    type Error = Error;
    fn try_from(records: u32) -> Result<Self> {
        Self::new(records)
    }
}
impl From<GroupSize> for u32 {
    fn from(size: GroupSize) -> Self {
        size.0
    }
}

/// What one record is (sentence, turn, dialogue, document, …), as a label: two guarantees
/// are compared only when their units agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct UnitName(String);

impl UnitName {
    /// Checks that the label is a name, which any sentence can contain: 1 to 64 letters, digits, hyphens, underscores,
    /// apostrophes and single spaces, with a letter or a digit at both ends. Other punctuation could end the sentence, and
    /// what is invisible would make two names look the same.
    ///
    /// ```
    /// use reticent_accounting::UnitName;
    /// for name in ["customer record", "donnée", "patient's visit", "turn-pair_2"] {
    ///     assert!(UnitName::new(name).is_ok(), "{name}");
    /// }
    /// let looks_alike = ["turn ", "turn\n", "two  turns", "two\u{a0}turns", "turn\u{200b}", "turn\u{3164}"];
    /// let ends_a_sentence = ["turn; every person is covered", "turn. No", "turn: no", "turn\u{37e} no", "turn (all)"];
    /// for none in ["", " ", "-", "--out"].into_iter().chain(looks_alike).chain(ends_a_sentence) {
    ///     assert!(UnitName::new(none).is_err(), "{none:?}");
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] otherwise.
    pub fn new(label: impl Into<String>) -> Result<Self> {
        let label = label.into();
        // Unicode counts the fillers of Hangul as letters, which show nothing.
        let filler = |c: char| matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
        let of_word = |c: char| c.is_alphanumeric() && !filler(c);
        let between = |c: char| matches!(c, ' ' | '-' | '_' | '\'' | '\u{2019}');
        if (1..=64).contains(&label.chars().count())
            && label.chars().all(|c| of_word(c) || between(c))
            && label.starts_with(of_word)
            && label.ends_with(of_word)
            && !label.contains("  ")
        {
            Ok(Self(label))
        } else {
            Err(Error::Unsupported {
                what: format!("unit {label:?}"),
                why: "a unit is named by 1 to 64 letters, digits, hyphens, underscores, apostrophes and single spaces, \
                      from a letter or digit to a letter or digit"
                    .into(),
            })
        }
    }
    /// Returns the label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for UnitName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for UnitName {
    type Error = Error;
    fn try_from(label: String) -> Result<Self> {
        Self::new(label)
    }
}
impl From<UnitName> for String {
    fn from(unit: UnitName) -> Self {
        unit.0
    }
}
