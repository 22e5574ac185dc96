//! Named numbers, checked once at the door.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($(#[$meta:meta])* $name:ident, $what:literal, $range:literal, |$v:ident| $ok:expr) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            #[doc = concat!("Checks that the ", $what, " lies in ", $range, ".")]
            ///
            /// # Errors
            /// [`Error::OutOfRange`] outside the range, NaN included.
            pub fn new($v: f64) -> Result<Self> {
                if $ok { Ok(Self($v)) } else {
                    Err(Error::OutOfRange { what: $what, range: $range, value: $v })
                }
            }
            /// The bare number.
            #[must_use]
            pub const fn get(self) -> f64 { self.0 }
        }
        impl TryFrom<f64> for $name {
            type Error = Error;
            fn try_from(value: f64) -> Result<Self> { Self::new(value) }
        }
        impl From<$name> for f64 {
            fn from(value: $name) -> f64 { value.0 }
        }
    };
}

quantity!(
    /// Privacy loss ε in nats; infinity is a valid (empty) promise.
    Epsilon, "epsilon", "[0, inf]", |v| v >= 0.0);
quantity!(
    /// The additive slack δ of a guarantee.
    Delta, "delta", "[0, 1]", |v| (0.0..=1.0).contains(&v));
quantity!(
    /// A probability.
    Probability, "probability", "[0, 1]", |v| (0.0..=1.0).contains(&v));
quantity!(
    /// The probability q with which Poisson sampling takes a record into a batch.
    SamplingRate, "sampling rate", "(0, 1]", |v| v > 0.0 && v <= 1.0);
quantity!(
    /// Noise standard deviation over clipping norm, σ.
    NoiseMultiplier, "noise multiplier", "(0, inf)", |v| v > 0.0 && v.is_finite());
quantity!(
    /// The share γ of secrets that a policy misses.
    MissRate, "miss rate", "[0, 1]", |v| (0.0..=1.0).contains(&v));
quantity!(
    /// The order α of a Rényi divergence.
    Order, "order", "(1, inf)", |v| v > 1.0 && v.is_finite());

/// The number of times a mechanism runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Steps(u64);

impl Steps {
    /// Any count, zero included (a mechanism that never ran).
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }
    /// The bare count.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
