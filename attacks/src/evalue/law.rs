//! The scores that the best attack gives a canary, from the blow-up of what ran.

use crate::error::{Result, ranged};
use crate::normal::{normal_cdf, normal_quantile};
use reticent_accounting::Probability;

/// The scores without the secret at which the blow-up is evaluated: from here on, so far apart, and so many. The last
/// is exceeded with probability 1.3e-12, less than that of a guess among a billion candidates.
const LOWEST: f64 = -1.5;
const SPACING: f64 = 0.5;
const KNOTS: u32 = 18;

/// The least distance of two scores with the secret. A blow-up that is known to a tolerance may rise by less.
const LEAST: f64 = 1e-9;

/// A probability that is as good as one.
const CERTAIN: f64 = 1.0 - 1e-9;

/// The law of a secret's score where scores of other secrets are standard normal.
///
/// B(x) is the largest probability, with the secret, of an event whose probability without it is at most x. The best
/// attack orders outcomes by their likelihood ratio. Scaled to be standard normal without the secret, its score exceeds
/// z with probability B(Φ(−z)) with it, so it is z(y) for a standard normal y, where Φ(−y) = B(Φ(−z)). Of a Gaussian
/// mechanism, z = y + μ. Of rare draws, a few scores are far away and the others nearly standard normal. Between knots
/// z is interpolated, and its slope is 1 beyond them.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreLaw {
    /// (y, z), both increasing.
    knots: Vec<(f64, f64)>,
}

impl ScoreLaw {
    /// Returns the law of scores that the secret shifts by μ standard deviations.
    ///
    /// # Errors
    /// Returns an error if μ is not finite.
    pub fn gaussian(mu: f64) -> Result<Self> {
        ranged("mu", "(-inf, inf)", mu, mu.is_finite())?;
        Ok(Self {
            knots: vec![(0.0, mu)],
        })
    }

    /// Returns the law whose blow-up this is.
    ///
    /// # Errors
    /// Returns the first error of `blow_up`.
    pub fn of_blow_up<E>(
        mut blow_up: impl FnMut(Probability) -> std::result::Result<Probability, E>,
    ) -> std::result::Result<Self, E> {
        let mut knots: Vec<(f64, f64)> = Vec::with_capacity(KNOTS as usize);
        for knot in (0..KNOTS).rev() {
            let z = LOWEST + SPACING * f64::from(knot);
            let without = Probability::new(normal_cdf(-z)).unwrap_or(Probability::ONE);
            let with = blow_up(without)?.get();
            let y = -normal_quantile(with.clamp(without.get(), CERTAIN));
            let above = knots.last().map_or(f64::INFINITY, |(y, _)| y - LEAST);
            knots.push((y.min(above), z));
            // It is no less at a larger x.
            if with >= CERTAIN {
                break;
            }
        }
        knots.reverse();
        Ok(Self { knots })
    }

    /// Returns z(y).
    pub(super) fn score(&self, y: f64) -> f64 {
        let place = self.knots.partition_point(|(at, _)| *at <= y);
        self.line(place).map_or(y, |line| line.z(y))
    }

    /// Returns the logarithm of the likelihood ratio at a score, ln(φ(y)/φ(z) dy/dz).
    pub(super) fn ln_ratio(&self, z: f64) -> f64 {
        let place = self.knots.partition_point(|(_, at)| *at <= z);
        self.line(place).map_or(0.0, |line| {
            let y = line.from.0 + (z - line.from.1) / line.slope;
            0.5 * (z * z - y * y) - line.slope.ln()
        })
    }

    /// Returns the line before the knot at this place; `None` without a knot.
    fn line(&self, place: usize) -> Option<Line> {
        let to = self.knots.get(place);
        let from = place.checked_sub(1).and_then(|last| self.knots.get(last));
        let slope = match (from, to) {
            (Some(from), Some(to)) => (to.1 - from.1) / (to.0 - from.0),
            _ => 1.0,
        };
        let from = *from.or(to)?;
        Some(Line { from, slope })
    }
}

/// A line through a knot.
struct Line {
    from: (f64, f64),
    /// dz/dy.
    slope: f64,
}

impl Line {
    const fn z(&self, y: f64) -> f64 {
        self.from.1 + (y - self.from.0) * self.slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(blow_up: impl Fn(f64) -> f64) -> ScoreLaw {
        ScoreLaw::of_blow_up(|x: Probability| Probability::new(blow_up(x.get()))).unwrap()
    }

    /// The blow-up of a shift is Φ(Φ⁻¹(x) + μ), and ln of its likelihood ratio μz − μ²/2.
    #[test]
    fn a_shift_is_recovered_from_its_blow_up() {
        let of_curve = law(|x| normal_cdf(normal_quantile(x) + 2.0));
        for exact in [ScoreLaw::gaussian(2.0).unwrap(), of_curve] {
            for y in [-3.0, -1.0, 0.0, 0.7, 4.0, 9.0] {
                let z = y + 2.0;
                assert!((exact.score(y) - z).abs() < 1e-6, "{y}");
                assert!((exact.ln_ratio(z) - (2.0 * z - 2.0)).abs() < 1e-5, "{z}");
            }
        }
        assert!(ScoreLaw::gaussian(f64::NAN).is_err());
    }

    /// Without noise B(x) = 1 − c(1 − x), where c is the probability that no record is drawn: a share 1 − c of the secrets
    /// stands out from all others, and the rest does not. A shift of the same total variation, 0.025, shows none.
    #[test]
    fn secrets_that_are_drawn_stand_out() {
        let rare = law(|x| 1.0 - 0.99 * (1.0 - x));
        let seen = |share: f64| rare.score(-normal_quantile(share));
        assert!(seen(0.0099) > 6.9 && seen(0.0102) < 4.0);
        assert!((seen(0.5) - -normal_quantile(1.0 - 0.5 / 0.99)).abs() < 0.02);
        assert!(rare.ln_ratio(9.0) > 20.0 && rare.ln_ratio(0.25).abs() < 0.1);
        // Where every secret is seen, all of them stand out, and nothing else looks like one.
        let always = law(|_| 1.0);
        assert!(always.score(-5.0) > 7.0 && always.ln_ratio(3.0) < -20.0);
        // Where nothing is seen, a secret scores as any other.
        let never = law(|x| x);
        assert!((never.score(1.3) - 1.3).abs() < 1e-9 && never.ln_ratio(1.3).abs() < 1e-9);
    }
}
