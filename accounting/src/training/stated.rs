//! A value together with where it comes from.

use crate::quantity::Confidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a value of a plan comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Provenance {
    /// Somebody gave it.
    Given {
        /// The flag or the key of the file.
        by: String,
    },
    /// It was counted in the data or estimated from a sample.
    Measured {
        /// The file, or what was labelled.
        by: String,
        /// The confidence of a bound from a sample; absent for a count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confidence: Option<Confidence>,
    },
    /// Nobody gave it: the default, which errs to the safe side.
    Assumed,
}

impl Provenance {
    /// Creates the provenance of a value given by a flag or a key.
    #[must_use]
    pub fn given(by: impl Into<String>) -> Self {
        Self::Given { by: by.into() }
    }

    /// Creates the provenance of a value counted in a file.
    #[must_use]
    pub fn counted(by: impl Into<String>) -> Self {
        Self::Measured {
            by: by.into(),
            confidence: None,
        }
    }
}

/// A value and where it comes from. Reads as the value.
///
/// ```
/// use reticent_accounting::training::Stated;
/// let epochs = Stated::or_assumed(None, "--epochs", 8);
/// assert!(*epochs == 8 && epochs.is_assumed());
/// assert!(!Stated::or_assumed(Some(3), "--epochs", 8).is_assumed());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Stated{T}")]
pub struct Stated<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub provenance: Provenance,
}

impl<T> Stated<T> {
    /// Creates a value that somebody gave.
    #[must_use]
    pub fn given(value: T, by: impl Into<String>) -> Self {
        Self {
            value,
            provenance: Provenance::given(by),
        }
    }

    /// Creates a value that was counted.
    #[must_use]
    pub fn counted(value: T, by: impl Into<String>) -> Self {
        Self {
            value,
            provenance: Provenance::counted(by),
        }
    }

    /// Creates a default value.
    #[must_use]
    pub const fn assumed(value: T) -> Self {
        Self {
            value,
            provenance: Provenance::Assumed,
        }
    }

    /// Returns the given value, or the default if there is none.
    #[must_use]
    pub fn or_assumed(given: Option<T>, by: impl Into<String>, default: T) -> Self {
        match given {
            Some(value) => Self::given(value, by),
            None => Self::assumed(default),
        }
    }

    /// Returns whether the value is a default.
    #[must_use]
    pub const fn is_assumed(&self) -> bool {
        matches!(self.provenance, Provenance::Assumed)
    }

    /// Returns whether the value was counted in the data or estimated from a sample. Such a value
    /// is a function of the private text and isn't published.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        matches!(self.provenance, Provenance::Measured { .. })
    }

    /// Returns another value with the same provenance.
    #[must_use]
    pub fn with<U>(&self, value: U) -> Stated<U> {
        Stated {
            value,
            provenance: self.provenance.clone(),
        }
    }
}

impl<T> std::ops::Deref for Stated<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
