//! What the engine guarantees of a record: f32 arithmetic never lets its share of a sum exceed the clipping norm.
//!
//! A share is f·G with G = Σ_t a_t g_tᵀ, computed in f32; a norm is another contraction of the same a and g. Where the
//! terms cancel, both are off by a rounding of S = Σ_t ‖a_t‖‖g_t‖, however small ‖G‖ is, so no margin relative to
//! ‖G‖ covers them. With ρ(n) the relative rounding of a sum of n terms ([`rounding`]):
//!
//! - A sum of T rows is off by at most ρ(T)·S: each value (i, j) by ρ(T) Σ_t |a_ti g_tj|, and the norm of these is at
//!   most ρ(T)·S by the triangle inequality. This holds for the share, and for a gradient computed for its norm.
//! - An entry ⟨a_s, a_t⟩ of a Gram matrix is off by at most ρ(d)‖a_s‖‖a_t‖, so Σ (aaᵀ)∘(ggᵀ) is off by at most
//!   D = Σ_{s,t} ρ(d)‖a_s‖‖a_t‖|⟨g_s, g_t⟩| + ρ(p)‖g_s‖‖g_t‖|⟨a_s, a_t⟩| + ρ(d)ρ(p) S².
//!
//! So the share is at most f·(√(‖G‖² + D) + R), where R bounds the roundings of sums. [`Measured::bound`] is this
//! length as far as the margin η does not cover it, and the norm as computed otherwise, as for ordinary records. Where D
//! alone would lengthen the norm much ([`Measured::doubtful`]), the record is measured again with products in f64. All
//! of this depends on the record's own rows alone.
//!
//! It bounds a record's own share. What a record changes in the roundings of others, which are added to the same f32
//! sum, is no part of it, as of no analysis of real numbers.

use std::ops::{Add, AddAssign};

/// η: clipping multiplies norms by 1 + η. It covers the roundings of ordinary records, and of factors.
pub(crate) const MARGIN: f64 = 2.5e-4;

/// Half the distance from 1 to the next f32.
const UNIT: f64 = f32::EPSILON as f64 / 2.0;

/// Added to lengths of rows in D: products of values whose own product is below 2^-126 may vanish. Its square times ρ is
/// far above the sum of 2^20 such products.
pub(crate) const FLOOR: f64 = 1e-13;

/// ρ(n): by how much a sum of n products in f32 may be off, relative to the sum of their magnitudes.
///
/// n·u is certain. For n > 64 it is 8√n·u, exceeded only if roundings agree in sign far beyond chance: with roundings of
/// independent sign, with probability below 2e^-32 for each value (Higham & Mary 2019).
pub(crate) fn rounding(terms: usize) -> f64 {
    let n = terms as f64;
    UNIT * n.min(8.0 * n.sqrt())
}

/// ρ of a gradient that is a sum of T rows: their products with factors, and the sums of blocks, round too.
pub(crate) fn rounding_of_rows(rows: usize) -> f64 {
    rounding(rows + 4)
}

/// A record's gradient of one parameter as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Measured {
    /// ‖G‖² as computed.
    pub(crate) squared: f64,
    /// D: how far that may be from the truth.
    pub(crate) doubt: f64,
    /// R: how much longer than G the f32 sums may be.
    pub(crate) slack: f64,
}

impl Measured {
    /// Whether the norm should be computed again: D may lengthen it by more than 5 %, and by more than 1e-10. Long
    /// ordinary records stay below: at 1 000 tokens D lengthens their norms by 1 to 3 % on devices, by less here.
    pub(crate) fn doubtful(&self) -> bool {
        self.doubt > 0.1 * self.squared + 1e-20
    }

    /// Returns what was measured of a multiple of the gradient.
    pub(crate) fn scaled(self, scale: f64) -> Self {
        Self {
            squared: scale * scale * self.squared,
            doubt: scale * scale * self.doubt,
            slack: scale.abs() * self.slack,
        }
    }

    /// Returns the squared norm to clip by; an undefined one stays undefined.
    pub(crate) fn bound(&self) -> f64 {
        // not `max`: it would turn an undefined norm into zero
        let squared = if self.squared < 0.0 {
            0.0
        } else {
            self.squared
        };
        let longest = ((squared + self.doubt).sqrt() + self.slack) / (1.0 + MARGIN);
        let bound = longest * longest;
        if bound <= squared { squared } else { bound }
    }
}

impl Add for Measured {
    type Output = Self;
    /// Parts of one gradient, whose product is measured as a part of its own.
    fn add(self, other: Self) -> Self {
        Self {
            squared: self.squared + other.squared,
            doubt: self.doubt + other.doubt,
            slack: self.slack + other.slack,
        }
    }
}

impl AddAssign for Measured {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Part of what the number of the arithmetic stands for: if one of these changes, increase it.
    #[test]
    fn bounds_are_those_of_the_arithmetic() {
        assert_eq!(crate::checkpoint::description::ARITHMETIC, 2);
        assert_eq!(MARGIN.to_bits(), 2.5e-4f64.to_bits());
        assert!((rounding(1004) / 1.510_904_266_143_308_6e-5 - 1.0).abs() < 1e-12);
        let measured = Measured {
            squared: 4.0,
            doubt: 0.01,
            slack: 0.02,
        };
        assert!((measured.bound() / 4.088_455_454_322_377 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_norm_stays_where_the_margin_covers_its_rounding_and_grows_elsewhere() {
        let ordinary = Measured {
            squared: 4.0,
            doubt: 4e-4,
            slack: 2e-4,
        };
        assert_eq!(ordinary.bound().to_bits(), 4.0f64.to_bits());
        // 1 % of the norm is rounding: all of it but the margin is in the bound
        let cancelling = Measured {
            slack: 0.02,
            ..ordinary
        };
        let reach = cancelling.bound().sqrt() * (1.0 + MARGIN);
        assert!((reach - (4.0004f64.sqrt() + 0.02)).abs() < 1e-12);
        // a sum that came out negative is no zero
        let negative = Measured {
            squared: -1e-6,
            doubt: 1e-4,
            slack: 0.0,
        };
        assert!(
            negative.doubtful() && (negative.bound() - 1e-4 / (1.0 + MARGIN).powi(2)).abs() < 1e-12
        );
        for undefined in [f64::NAN, f64::INFINITY] {
            let in_each = [
                Measured {
                    squared: undefined,
                    ..ordinary
                },
                Measured {
                    doubt: undefined,
                    ..ordinary
                },
                Measured {
                    slack: undefined,
                    ..ordinary
                },
            ];
            assert!(in_each.iter().all(|m| !m.bound().is_finite()));
        }
    }
}
