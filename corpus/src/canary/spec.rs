//! Specifications such as `10x20`: the number of canaries, and the number of copies of each.

use crate::error::{Result, range, within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of canaries and copies of each, written `10x20`.
///
/// ```
/// use reticent_corpus::canary::Spec;
/// let spec: Spec = "10x20".parse()?;
/// assert_eq!((spec.canaries(), spec.copies()), (10, 20));
/// assert!("10x0".parse::<Spec>().is_err());
/// # Ok::<(), reticent_corpus::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    canaries: u32,
    copies: u32,
}

/// The largest number of canaries, and of copies of one canary, in a plan.
const MOST: u32 = 10_000;

/// The largest number of inserted lines in a plan.
const MOST_LINES: u32 = 1_000_000;

impl Spec {
    /// Creates a specification of `canaries` canaries, each inserted `copies` times. Both numbers
    /// must be from 1 to 10 000, and the total at most a million lines.
    ///
    /// # Errors
    /// Returns an error if a number is outside its range.
    pub fn new(canaries: u32, copies: u32) -> Result<Self> {
        within("the number of canaries", canaries, 1..=MOST)?;
        within("the number of copies of a canary", copies, 1..=MOST)?;
        if canaries * copies > MOST_LINES {
            return Err(range(
                "the number of inserted lines",
                canaries * copies,
                format!("at most {MOST_LINES}"),
            ));
        }
        Ok(Self { canaries, copies })
    }

    /// Returns the most canaries that a plan may have with so many copies of each; 0 where there may be no such plan.
    ///
    /// ```
    /// use reticent_corpus::canary::Spec;
    /// let most = Spec::most_canaries(128);
    /// assert!(Spec::new(most, 128).is_ok() && Spec::new(most + 1, 128).is_err());
    /// ```
    #[must_use]
    pub const fn most_canaries(copies: u32) -> u32 {
        match copies {
            1..=MOST if MOST_LINES / copies < MOST => MOST_LINES / copies,
            1..=MOST => MOST,
            _ => 0,
        }
    }

    /// Returns the number of canaries.
    #[must_use]
    pub fn canaries(self) -> u32 {
        self.canaries
    }

    /// Returns how often each canary is inserted.
    #[must_use]
    pub fn copies(self) -> u32 {
        self.copies
    }
}

impl std::str::FromStr for Spec {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            range(
                "the canary specification",
                format!("{text:?}"),
                format!("CANARIESxCOPIES such as 10x20, each from 1 to {MOST}"),
            )
        };
        let number = |part: &str| {
            let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if plain {
                part.parse::<u32>().ok()
            } else {
                None
            }
            .ok_or_else(wrong)
        };
        let (canaries, copies) = text.split_once('x').ok_or_else(wrong)?;
        Self::new(number(canaries)?, number(copies)?)
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.canaries, self.copies)
    }
}

kept_as_text!(Spec);
