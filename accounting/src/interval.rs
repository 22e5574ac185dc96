//! Certified intervals of logarithms: how tiny probabilities travel inside the crate.

use crate::special::{ln_add_exp, ln_one_minus_exp};

/// Two certified ends and the value between them, as natural logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LnBounds {
    pub(crate) lower: f64,
    pub(crate) middle: f64,
    pub(crate) upper: f64,
}

impl LnBounds {
    pub(crate) const fn exactly(value: f64) -> Self {
        Self {
            lower: value,
            middle: value,
            upper: value,
        }
    }

    /// Both ends moved outwards by `error`.
    pub(crate) fn widened(self, error: f64) -> Self {
        Self {
            lower: self.lower - error,
            middle: self.middle,
            upper: self.upper + error,
        }
    }

    /// The tighter of two statements about the same quantity.
    pub(crate) fn meet(self, other: Self) -> Self {
        let (lower, upper) = (self.lower.max(other.lower), self.upper.min(other.upper));
        Self {
            lower,
            middle: self.middle.clamp(lower.min(upper), upper.max(lower)),
            upper,
        }
    }

    /// ln(1 − e^x) for each end, with `missing` mass taken off the new lower end.
    pub(crate) fn complement(self, missing: f64) -> Self {
        let of = |x: f64| ln_one_minus_exp(x.min(0.0));
        let lower = (-self.upper.min(0.0).exp_m1() - missing).max(0.0).ln();
        Self {
            lower: lower.min(of(self.upper)),
            middle: of(self.middle),
            upper: of(self.lower),
        }
        .widened(4.0 * f64::EPSILON)
    }

    /// The upper end raised by an absolute `mass`.
    pub(crate) fn raised(self, mass: f64) -> Self {
        Self {
            upper: ln_add_exp(self.upper, mass.ln()),
            ..self
        }
    }

    /// Relative distance of the ends.
    pub(crate) fn width(&self) -> f64 {
        if self.upper == f64::NEG_INFINITY {
            0.0
        } else {
            self.upper - self.lower
        }
    }
}
