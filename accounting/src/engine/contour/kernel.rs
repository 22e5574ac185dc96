//! The expectation that is inverted, with its pole structure and Chernoff's bound.

/// The function of the composed loss L that is averaged under Q.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// (e^L − e^ε)₊, whose average is δ(ε); Re s > 1. Used where δ is small.
    Excess,
    /// min(e^L, e^ε), whose average is P's mass minus δ(ε); 0 < Re s < 1. Used where δ is large.
    Shared,
}

impl Kernel {
    /// Returns the open interval of orders at which the transform converges.
    pub(crate) const fn interval(self) -> (f64, f64) {
        match self {
            Self::Excess => (1.0, f64::INFINITY),
            Self::Shared => (0.0, 1.0),
        }
    }

    /// Returns 1/(s(s−1)) or 1/(s(1−s)) at s = c + iy, as real and imaginary part.
    pub(crate) fn factor(self, c: f64, y: f64) -> (f64, f64) {
        // s(s−1) = c(c−1) − y² + iy(2c−1).
        let (re, im) = (c * (c - 1.0) - y * y, y * (2.0 * c - 1.0));
        let size = re * re + im * im;
        let sign = match self {
            Self::Excess => 1.0,
            Self::Shared => -1.0,
        };
        (sign * re / size, -sign * im / size)
    }

    /// Returns the derivatives of −ln(c|c−1|), the logarithm of the factor on the real axis.
    pub(crate) fn ln_factor_slopes(c: f64) -> (f64, f64) {
        let (a, b) = (1.0 / c, 1.0 / (c - 1.0));
        (-a - b, a * a + b * b)
    }

    /// Returns ln sup_l g(l) e^{−cl + ε(c−1)} for the averaged function g, so that its average is
    /// at most this constant times e^{K(c) − ε(c−1)}; c in the closed interval.
    ///
    /// For the excess: sup_z (e^z − 1)e^{−cz} = (1/c)(1 − 1/c)^{c−1}, the constant of Canonne,
    /// Kamath and Steinke (Proposition 12).
    pub(crate) fn ln_chernoff(self, c: f64) -> f64 {
        match self {
            Self::Shared => 0.0,
            Self::Excess if c <= 1.0 => 0.0,
            Self::Excess => -c.ln() + (c - 1.0) * (-1.0 / c).ln_1p(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chernoff_constants_are_the_suprema() {
        for c in [1.01f64, 1.5, 3.0, 20.0] {
            let best = (1..200_000)
                .map(|i| f64::from(i) * 1e-4)
                .map(|z| z.exp_m1() * (-c * z).exp())
                .fold(0.0, f64::max);
            assert!(
                (Kernel::Excess.ln_chernoff(c) - best.ln()).abs() < 1e-6,
                "c = {c}"
            );
        }
    }

    #[test]
    fn factors_are_reciprocal_polynomials() {
        let (re, im) = Kernel::Excess.factor(2.0, 3.0);
        // s(s−1) at 2+3i: (2+3i)(1+3i) = −7 + 9i.
        assert!((re + 7.0 / 130.0).abs() < 1e-15 && (im + 9.0 / 130.0).abs() < 1e-15);
    }
}
