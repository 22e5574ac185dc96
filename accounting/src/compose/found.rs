//! Both ends of an ε found by a search.

use super::convert::Answer;
use crate::engine::Engine;
use crate::numeric::interval::in_order;
use crate::quantity::Epsilon;
use crate::quantity::bound::{Bounds, Lower, Upper};
use crate::quantity::error::Result;

/// Both ends of ε; an unknown lower end is absent, and an upper end may be infinite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) lower: Option<f64>,
    pub(crate) upper: f64,
    pub(crate) engine: Engine,
}

impl Found {
    pub(super) const fn exactly(value: f64, engine: Engine) -> Self {
        Self {
            lower: Some(value),
            upper: value,
            engine,
        }
    }

    /// Creates ends of which only the upper one is known.
    pub(super) const fn at_most(upper: f64, engine: Engine) -> Self {
        Self {
            lower: None,
            upper,
            engine,
        }
    }

    /// Returns the tighter of two statements about the same ε, and the engine with the narrower
    /// one.
    pub(crate) fn meet(self, other: Self) -> Self {
        let lower = match (self.lower, other.lower) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        Self {
            lower,
            upper: self.upper.min(other.upper),
            engine: if other.width() < self.width() {
                other.engine
            } else {
                self.engine
            },
        }
    }

    pub(crate) fn width(&self) -> f64 {
        match self.lower {
            Some(lower) if lower.is_infinite() => 0.0,
            lower => self.upper - lower.unwrap_or(0.0),
        }
    }

    /// Converts the ends to public types.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotCertified`] if the ends contradict each other.
    pub(crate) fn answer(self) -> Result<Answer<Epsilon>> {
        let (lower, upper) = in_order(self.lower.unwrap_or(0.0), self.upper)?;
        let lower = self.lower.map(|_| Epsilon::new(lower)).transpose()?;
        let bounds = Bounds {
            lower: lower.map(Lower::new),
            upper: Some(Upper::new(Epsilon::new(upper)?)),
        };
        Ok(Answer {
            bounds,
            engine: self.engine,
            looseness: None,
        })
    }
}
