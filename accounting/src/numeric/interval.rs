//! Certified intervals of logarithms, the crate's representation of tiny probabilities.

use crate::numeric::special::{ln_add_exp, ln_one_minus_exp};
use crate::quantity::error::{Error, Result};

/// Ends in the wrong order by no more than this, relatively, differ by rounding errors only.
const ROUNDINGS: f64 = 1e-11;

/// Two certified ends and a value between them, as natural logarithms.
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

    /// Returns the bounds with both ends moved outwards by `error`.
    pub(crate) fn widened(self, error: f64) -> Self {
        Self {
            lower: self.lower - error,
            middle: self.middle,
            upper: self.upper + error,
        }
    }

    /// Returns the tighter of two statements about the same quantity. If they contradict each other, the
    /// ends are in the wrong order: see [`LnBounds::consistent`].
    pub(crate) fn meet(self, other: Self) -> Self {
        let (lower, upper) = (self.lower.max(other.lower), self.upper.min(other.upper));
        Self {
            lower,
            middle: self.middle.clamp(lower.min(upper), upper.max(lower)),
            upper,
        }
    }

    /// Returns the same ends, swapped if only rounding errors have put them in the wrong order.
    ///
    /// # Errors
    /// Returns [`Error::NotCertified`] if two certified ends contradict each other.
    pub(crate) fn consistent(self) -> Result<Self> {
        let (lower, upper) = in_order(self.lower, self.upper)?;
        Ok(Self {
            lower,
            middle: self.middle.clamp(lower, upper),
            upper,
        })
    }

    /// Returns ln(1 − e^x) for each end, with `missing` mass subtracted from the new lower end.
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

    /// Returns the bounds with the upper end raised by an absolute `mass`.
    pub(crate) fn raised(self, mass: f64) -> Self {
        Self {
            upper: ln_add_exp(self.upper, mass.ln()),
            ..self
        }
    }

    /// Returns the relative distance of the ends.
    pub(crate) fn width(&self) -> f64 {
        if self.upper == f64::NEG_INFINITY {
            0.0
        } else {
            self.upper - self.lower
        }
    }
}

/// Returns two certified ends of one quantity, swapped if only rounding errors have put them in the wrong
/// order.
///
/// # Errors
/// Returns [`Error::NotCertified`] if they contradict each other, or if one of them is NaN.
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
