//! Certified intervals of logarithms: how tiny probabilities travel inside the crate.

use crate::numeric::special::{ln_add_exp, ln_one_minus_exp};
use crate::quantity::error::{Error, Result};

/// Ends that lie the wrong way round by no more than this, relatively, differ by roundings.
const ROUNDINGS: f64 = 1e-11;

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

    /// The tighter of two statements about the same quantity. Where they contradict each other, so do the
    /// ends: see [`LnBounds::consistent`].
    pub(crate) fn meet(self, other: Self) -> Self {
        let (lower, upper) = (self.lower.max(other.lower), self.upper.min(other.upper));
        Self {
            lower,
            middle: self.middle.clamp(lower.min(upper), upper.max(lower)),
            upper,
        }
    }

    /// The same ends; the other way round where roundings alone have swapped them.
    ///
    /// # Errors
    /// [`Error::NotCertified`] when two certified ends contradict each other.
    pub(crate) fn consistent(self) -> Result<Self> {
        let (lower, upper) = in_order(self.lower, self.upper)?;
        Ok(Self {
            lower,
            middle: self.middle.clamp(lower, upper),
            upper,
        })
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

/// Two certified ends of one quantity; the other way round where roundings alone have swapped them.
///
/// # Errors
/// [`Error::NotCertified`] when they contradict each other, or one of them is no number.
pub(crate) fn in_order(lower: f64, upper: f64) -> Result<(f64, f64)> {
    if lower <= upper {
        Ok((lower, upper))
    } else if lower - upper <= ROUNDINGS * (upper.abs() + lower.abs()) {
        Ok((upper, lower))
    } else {
        Err(Error::NotCertified {
            what: "an answer",
            why: "two bounds contradict each other, which is a bug; please report it".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither end gives way to the other.
    #[test]
    fn certified_ends_that_contradict_each_other_are_an_error() {
        let ends = |lower: f64, upper: f64| LnBounds {
            lower,
            middle: 0.5 * (lower + upper),
            upper,
        };
        let wrong = ends(-9.0, -8.0).meet(ends(-7.0, -6.0));
        assert!(matches!(
            wrong.consistent(),
            Err(Error::NotCertified { .. })
        ));
        assert!(ends(-9.0, f64::NAN).consistent().is_err());
        let swapped = ends(-9.0, -8.0).meet(ends(-8.0 + 1e-13, -7.0));
        let found = swapped.consistent().unwrap();
        assert!(found.lower <= -8.0 && found.upper >= -8.0 + 1e-13);
        let nothing = LnBounds::exactly(f64::NEG_INFINITY);
        assert_eq!(nothing.consistent().unwrap(), nothing);
    }
}
