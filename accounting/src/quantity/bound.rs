//! Bounds whose type states their direction.
//!
//! An [`Upper`] never becomes a [`Lower`], the two can't be compared, and an [`Estimate`] becomes neither.
//! Upper and lower bounds meet in one place only, the verdict of the reports crate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A certified upper bound: the truth is at most this.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Upper<T>(T);

/// A lower bound: the truth is at least this (with the confidence its maker states, if it is statistical).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Lower<T>(T);

/// A number that bounds nothing: planning aid, central-limit value, simulation.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Estimate<T>(T);

macro_rules! direction {
    ($name:ident, $doc:literal) => {
        impl<T> $name<T> {
            #[doc = $doc]
            #[must_use]
            pub const fn new(value: T) -> Self {
                Self(value)
            }
            /// Returns the bare number. The direction is lost, so keep the result local.
            pub fn get(&self) -> &T {
                &self.0
            }
            /// Returns the bare number by value.
            #[must_use]
            pub fn into_inner(self) -> T {
                self.0
            }
        }
    };
}
direction!(Upper, "Claims that the truth is at most `value`.");
direction!(Lower, "Claims that the truth is at least `value`.");
direction!(Estimate, "Marks `value` as no bound.");

impl<T: PartialOrd> Upper<T> {
    /// Returns the larger of this bound and a value that was attained.
    ///
    /// ```
    /// use reticent_accounting::Upper;
    /// assert_eq!(Upper::new(2.0).no_less_than(3.0), Upper::new(3.0));
    /// assert_eq!(Upper::new(2.0).no_less_than(1.0), Upper::new(2.0));
    /// ```
    #[must_use]
    pub fn no_less_than(self, attained: T) -> Self {
        match attained > self.0 {
            true => Self(attained),
            false => self,
        }
    }
}

/// Both ends of a quantity. An unknown end is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
#[schemars(rename = "BoundsOf{T}")]
pub struct Bounds<T> {
    /// The truth is at least this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lower: Option<Lower<T>>,
    /// The truth is at most this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upper: Option<Upper<T>>,
}

impl<T> Bounds<T> {
    /// Both ends are unknown.
    pub const UNKNOWN: Self = Self {
        lower: None,
        upper: None,
    };

    /// Creates bounds with both ends.
    #[must_use]
    pub const fn between(lower: T, upper: T) -> Self {
        Self {
            lower: Some(Lower::new(lower)),
            upper: Some(Upper::new(upper)),
        }
    }
    /// Creates bounds with an upper end only.
    #[must_use]
    pub const fn at_most(upper: T) -> Self {
        Self {
            lower: None,
            upper: Some(Upper::new(upper)),
        }
    }
    /// Creates bounds of which an upper end is known already.
    #[must_use]
    pub const fn below(upper: Upper<T>) -> Self {
        Self {
            lower: None,
            upper: Some(upper),
        }
    }
    /// Returns the upper end alone.
    #[must_use]
    pub fn without_lower(self) -> Self {
        Self {
            lower: None,
            ..self
        }
    }
    /// Creates bounds with a lower end only.
    #[must_use]
    pub const fn at_least(lower: T) -> Self {
        Self {
            lower: Some(Lower::new(lower)),
            upper: None,
        }
    }
}

impl<T: Copy + Into<f64>> Bounds<T> {
    /// Returns the bare number of the lower end. The direction is lost, so keep the result local.
    #[must_use]
    pub fn low(&self) -> Option<f64> {
        self.lower.map(|end| end.0.into())
    }
    /// Returns the bare number of the upper end. The direction is lost, so keep the result local.
    #[must_use]
    pub fn high(&self) -> Option<f64> {
        self.upper.map(|end| end.0.into())
    }
}
