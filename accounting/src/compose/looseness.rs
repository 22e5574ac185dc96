//! Reasons why the ends of an answer are farther apart than requested.

use super::solver::Solver;
use crate::engine::Engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answers below this are close to the smallest numbers.
const SMALLEST: f64 = 1e-290;
/// Room for the rounding errors of a width that is just met.
const ROOM: f64 = 1e-9;

/// What keeps the ends of an answer farther apart than asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Looseness {
    /// The run's own worst case is not known: the upper end is that of a run which it is sure to be no
    /// worse than, the lower end, if there is one, that of a run which it is sure to be no better than.
    UnknownLaw,
    /// The answer lies among the smallest numbers.
    SmallestNumbers,
    /// The errors that the engine certified: roundings, and sums or grids of the greatest length that is
    /// tried.
    Precision,
    /// Neither the contour nor a grid could be certified: only coarse bounds are known.
    OutOfReach,
}

impl Solver {
    /// Returns the reason why these ends are farther apart than a relative `tolerance`, if they are.
    pub(crate) fn looseness(
        &self,
        (lower, upper): (f64, f64),
        engine: Engine,
        tolerance: f64,
    ) -> Option<Looseness> {
        if upper <= lower || upper - lower <= tolerance * upper * (1.0 + ROOM) {
            return None;
        }
        let unknown = self.below.is_some() || self.loss.bounds_only() || self.loss.unbounded;
        Some(if unknown || self.loss.is_stated() {
            Looseness::UnknownLaw
        } else if upper < SMALLEST {
            Looseness::SmallestNumbers
        } else if engine == Engine::Chernoff {
            Looseness::OutOfReach
        } else {
            Looseness::Precision
        })
    }
}
