//! The engines: each computes δ(ε) of a composed privacy loss with both ends, independently of the question.

mod certificate;
pub(crate) mod contour;
pub(crate) mod grid;

pub use certificate::{Certificate, ErrorEnds, ErrorSource, ErrorTerm};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The numerical engine behind a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Contour inversion of the moment generating function, certified at both ends.
    Contour,
    /// The loss law on a grid, from above and from below, composed by a tilted transform.
    Grid,
    /// A closed form.
    Closed,
    /// Chernoff's bound from above and a tilted window from below: certified but coarse,
    /// used where the contour can't be certified.
    Chernoff,
}

impl Engine {
    /// Returns the engine to report if two numbers are combined into one.
    #[must_use]
    pub const fn coarser(self, other: Self) -> Self {
        match (self, other) {
            (Self::Chernoff, _) | (_, Self::Chernoff) => Self::Chernoff,
            (Self::Grid, _) | (_, Self::Grid) => Self::Grid,
            (Self::Contour, _) | (_, Self::Contour) => Self::Contour,
            (Self::Closed, Self::Closed) => Self::Closed,
        }
    }
}
