//! Conversion of weights to sampling rates, and the distribution of the number of a secret's examples in a batch.

use super::Incidence;
use super::program::Sum;
use crate::loss::{Mixture, Pair, PrivacyLoss};
use crate::numeric::special::ROUND;
use crate::quantity::error::{Error, Result};
use crate::quantity::{NoiseMultiplier, Steps};

/// The quantity of [`Error::OutOfRange`] if weights add up to no more than the batch size.
pub const WEIGHTS_TOO_LIGHT: &str = "sum of the weights";

/// Returns ρ_i = B w_i / Σ w, the probability of each example to be in a batch of expected size B.
///
/// Rounded up, so that the accounted rates cover the sampled ones. Source: Hush! Algorithm 2, line 3.
///
/// ```
/// use reticent_accounting::protect::sampling_rates;
/// let rates = sampling_rates(&[1.0, 0.5, 0.5, 0.0], 1.0)?;
/// assert!(rates.iter().zip([0.5, 0.25, 0.25, 0.0]).all(|(a, b)| (a - b).abs() < 1e-15));
/// assert!(sampling_rates(&[1.0, 0.5, 0.5], 2.0).is_err()); // the weights sum to no more than 2
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::OutOfRange`] for a weight outside [0, 1], a batch size that isn't positive, and weights whose sum
/// isn't above the batch size (a rate could exceed 1).
pub fn sampling_rates(weights: &[f64], batch: f64) -> Result<Vec<f64>> {
    if let Some(bad) = weights.iter().find(|w| !(0.0..=1.0).contains(*w)) {
        return Err(Error::out_of_range("weight of an example", "[0, 1]", *bad));
    }
    if !(batch > 0.0 && batch.is_finite()) {
        return Err(Error::out_of_range("batch size", "(0, inf)", batch));
    }
    let mut sum = Sum::default();
    for weight in weights {
        sum.add(*weight);
    }
    let mass = sum.value() * (1.0 - 4.0 * ROUND);
    if mass <= batch {
        return Err(Error::out_of_range(
            WEIGHTS_TOO_LIGHT,
            "(batch size, inf)",
            mass,
        ));
    }
    let scale = batch / mass * (1.0 + 4.0 * ROUND);
    Ok(weights.iter().map(|w| (w * scale).min(1.0)).collect())
}

/// The rates of the examples of one secret. K, their number in a batch, is Poisson–binomial.
#[derive(Debug, Clone, PartialEq)]
pub struct RateProfile {
    /// The positive rates, the largest first.
    rates: Vec<f64>,
}

/// Returns the rate of one example.
///
/// # Errors
/// Returns [`Error::OutOfRange`] if there is none.
pub(crate) fn rate_of(rates: &[f64], example: u32) -> Result<f64> {
    let rate = rates.get(example as usize).copied();
    rate.ok_or(Error::out_of_range(
        "index of an example",
        "[0, number of rates)",
        f64::from(example),
    ))
}

/// The law of K is kept up to an L with P(K ≥ L) ≤ e^this; the rest is moved to the farthest point.
const LN_FAR: f64 = -460.0;
/// An upper bound on what underflowing products can have lost.
const UNDERFLOW: f64 = 1e-290;
/// The largest sum of all weights: closer to one than a mixture requires.
const MOST_MASS: f64 = 1.0 + 1e-10;

impl RateProfile {
    /// Creates a profile from rates in any order; zeros are ignored.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for a rate outside [0, 1].
    pub fn new(rates: impl IntoIterator<Item = f64>) -> Result<Self> {
        let mut rates: Vec<f64> = rates.into_iter().filter(|rate| *rate != 0.0).collect();
        if let Some(bad) = rates.iter().find(|rate| !(0.0..=1.0).contains(*rate)) {
            return Err(Error::out_of_range("sampling rate", "[0, 1]", *bad));
        }
        rates.sort_unstable_by(|a, b| b.total_cmp(a));
        Ok(Self { rates })
    }

    /// Returns the profile of one secret, given the rates of all examples.
    ///
    /// # Errors
    /// As [`RateProfile::new`]; also returns [`Error::OutOfRange`] for an example without a rate, and for an index
    /// beyond the last secret.
    pub fn of(incidence: &Incidence, secret: usize, rates: &[f64]) -> Result<Self> {
        incidence.check_secret(secret)?;
        let examples = incidence.examples_of(secret).iter();
        let own = examples.map(|example| rate_of(rates, *example));
        Self::new(own.collect::<Result<Vec<_>>>()?)
    }

    /// Returns the number of examples that can be drawn at all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rates.len()
    }

    /// Returns E K = Σ ρ_i.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// Returns the rates, largest first.
    #[must_use]
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Returns Σ −ln(1 − ρ_i) = −ln P(K = 0), rounded up; infinite if a rate is one.
    ///
    /// A Poisson–binomial K is stochastically smaller than Binomial(k, 1 − e^{−Λ/k}) with the same count k and the same
    /// Λ (Boland, Singh and Cukic 2002), and so is its pair.
    #[must_use]
    pub fn hazard(&self) -> f64 {
        let sum: f64 = self.rates.iter().map(|rate| -(-rate).ln_1p()).sum();
        sum * (1.0 + ROUND * (self.rates.len() as f64 + 4.0))
    }

    /// Returns P(K = k) for k below some L, with the probability of L and more in the last entry.
    ///
    /// Computed by convolution of positive terms: every entry has a relative error of at most 3n roundings for n rates,
    /// apart from underflow below 1e-290.
    fn law(&self) -> Vec<f64> {
        let states = self.states();
        let mut law = vec![0.0; states + 1];
        law[0] = 1.0;
        for (drawn, rate) in self.rates.iter().enumerate() {
            let miss = 1.0 - rate;
            let top = (drawn + 1).min(states);
            if top == states {
                law[states] += law[states - 1] * rate;
            } else {
                law[top] = law[top - 1] * rate;
            }
            for k in (1..top.min(states)).rev() {
                law[k] = law[k] * miss + law[k - 1] * rate;
            }
            law[0] *= miss;
        }
        law
    }

    /// Returns L: the number of examples, or a number for which P(K ≥ L) ≤ (Σρ)^L / L! is negligible.
    fn states(&self) -> usize {
        let ln_mean = self.mean().max(1e-300).ln();
        let mut ln_bound = 0.0;
        for k in 1..self.rates.len() {
            ln_bound += ln_mean - (k as f64).ln();
            if ln_bound < LN_FAR {
                return k;
            }
        }
        self.rates.len()
    }

    /// Returns the mixture Σ_k P(K = k) N(k/σ, 1), stochastically no smaller than the true one: every weight except the
    /// nearest has its rounding error added, and the mass beyond L is moved to the farthest point. For many rates, the
    /// errors alone may make the sum exceed one. The excess is then taken from the nearest weights, so that every tail
    /// is still at least the smaller of its own and one.
    ///
    /// # Errors
    /// None for rates in range.
    pub fn mixture(&self, noise: NoiseMultiplier) -> Result<Mixture> {
        if self.rates.is_empty() {
            return Mixture::point(0.0);
        }
        let shift = 1.0 / noise.get();
        let law = self.law();
        let states = law.len() - 1;
        let inflation = 1.0 + 4.0 * ROUND * (self.rates.len() as f64 + 4.0);
        let mut components = Vec::with_capacity(law.len());
        let mut others = Sum::default();
        for (k, mass) in law.iter().enumerate().skip(1).rev() {
            let far = k == states;
            let position = if far { self.rates.len() } else { k };
            let mass = mass * inflation + if far { UNDERFLOW } else { 0.0 };
            let mass = mass.min(MOST_MASS - others.value());
            if mass > 0.0 {
                others.add(mass);
                components.push((position as f64 * shift, mass.ln()));
            }
        }
        let rest = 1.0 - others.value();
        let nearest = (law[0] * (1.0 - 2.0 * (inflation - 1.0))).min(rest.max(0.0));
        // The other weights have taken what the nearest one lost: unless the difference is small, all sum to one.
        let ln_nearest = if rest > 0.25 {
            (-others.value()).ln_1p()
        } else {
            nearest.ln()
        };
        if nearest > 0.0 {
            components.push((0.0, ln_nearest));
        }
        components.reverse();
        Mixture::computed(components)
    }

    /// Returns the privacy loss of `steps` steps for this secret: its examples learned from, against zeroed, with the
    /// mixture first.
    ///
    /// Bound: the pair dominates every run that differs from the zeroed one in the content of these examples, whatever
    /// that content is (by the common reference, without a factor of 2).
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for more than 2^53 steps.
    pub fn loss(&self, noise: NoiseMultiplier, steps: Steps) -> Result<PrivacyLoss> {
        let pair = Pair {
            first: self.mixture(noise)?,
            second: Mixture::point(0.0)?,
        };
        PrivacyLoss::of_steps(&pair, steps)
    }
}

/// Returns the loss of Binomial(`count`, 1 − e^{−`hazard`/`count`}) draws. It dominates every profile with no more
/// examples and no larger hazard.
pub(crate) fn dominating_loss(
    count: u32,
    hazard: f64,
    noise: NoiseMultiplier,
    steps: Steps,
) -> Result<PrivacyLoss> {
    let rate = (-(-hazard / f64::from(count)).exp_m1() * (1.0 + 8.0 * ROUND)).min(1.0);
    let first = if rate > 0.0 {
        Mixture::binomial(count, rate, 1.0 / noise.get())?
    } else {
        Mixture::point(0.0)?
    };
    let second = Mixture::point(0.0)?;
    PrivacyLoss::of_steps(&Pair { first, second }, steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::special::ln_binomial_pmf;

    fn masses(profile: &RateProfile) -> Vec<f64> {
        let noise = NoiseMultiplier::new(1.0).unwrap();
        let mixture = profile.mixture(noise).unwrap();
        let mut masses = vec![0.0; profile.count() + 1];
        for (position, ln) in mixture.components() {
            masses[position.round() as usize] = ln.exp();
        }
        masses
    }

    #[test]
    fn equal_rates_are_binomial_to_the_last_digits() {
        for (count, rate) in [(1, 0.3), (5, 0.01), (100, 20480.0 / 1.7e7), (60, 0.9)] {
            let profile = RateProfile::new(vec![rate; count]).unwrap();
            for (k, mass) in masses(&profile).iter().enumerate() {
                let exact = ln_binomial_pmf(k as u64, count as u64, rate).exp();
                // What the others carry on top is taken from the nearest.
                let slack = if k == 0 {
                    1e-12
                } else {
                    1e-12 * exact + 1e-195
                };
                assert!(
                    (mass - exact).abs() <= slack,
                    "{count} {rate} {k}: {mass} {exact}"
                );
            }
        }
    }

    #[test]
    fn examples_without_a_rate_are_refused() {
        let incidence = Incidence::new(3, 1, vec![(0, 0), (2, 0)]).unwrap();
        let of = |secret, rates: &[f64]| RateProfile::of(&incidence, secret, rates);
        assert_eq!(of(0, &[0.1, 0.2, 0.3]).unwrap().rates(), [0.3, 0.1]);
        let short = of(0, &[0.1, 0.2]).unwrap_err().to_string();
        assert!(short.starts_with("index of an example must lie"), "{short}");
        let beyond = of(1, &[0.1, 0.2, 0.3]).unwrap_err().to_string();
        assert!(beyond.starts_with("index of a secret must lie"), "{beyond}");
    }

    #[test]
    fn the_law_equals_enumeration_of_all_subsets() {
        let rates = [0.9, 0.5, 0.25, 0.125, 0.01, 1e-9];
        let profile = RateProfile::new(rates).unwrap();
        let mut exact = [0.0; 7];
        for subset in 0u32..64 {
            let chance: f64 = (0..6)
                .map(|i| {
                    if subset >> i & 1 == 1 {
                        rates[i]
                    } else {
                        1.0 - rates[i]
                    }
                })
                .product();
            exact[subset.count_ones() as usize] += chance;
        }
        for (k, mass) in masses(&profile).iter().enumerate() {
            let slack = if k == 0 { 1e-13 } else { 1e-13 * exact[k] };
            assert!((mass - exact[k]).abs() <= slack, "{k}: {mass} {}", exact[k]);
        }
    }

    #[test]
    fn rounding_only_ever_moves_mass_outwards() {
        let profile = RateProfile::new((1..40).map(|i| 0.02 * f64::from(i))).unwrap();
        let plain = profile.law();
        let safe = masses(&profile);
        assert!(safe[0] <= plain[0]);
        assert!((1..40).all(|k| safe[k] >= plain[k]));
        assert!((safe.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    /// Rounding errors grow with the rates: with about half of the mass on no draw they made the sum less than one, with
    /// about none there more; of some millions a mixture takes neither.
    #[test]
    fn a_million_rates_keep_their_tails() {
        for (count, mean) in [(1_000_000u32, 2f64.ln()), (500_000, 40.0)] {
            let profile = RateProfile::new(vec![mean / f64::from(count); count as usize]).unwrap();
            let plain = profile.law();
            let mixture = profile.mixture(NoiseMultiplier::new(1.0).unwrap()).unwrap();
            let safe: Vec<(f64, f64)> = mixture.components().collect();
            let tail = |k: usize| {
                let beyond = safe
                    .iter()
                    .filter(|(position, _)| *position > k as f64 - 0.5);
                beyond.map(|(_, ln)| ln.exp()).sum::<f64>()
            };
            // The sums of this test have roundings of their own.
            assert!((tail(0) - 1.0).abs() <= 1.1e-10, "{count}: {}", tail(0));
            for k in 0..plain.len() {
                let exact: f64 = plain[k..].iter().sum::<f64>().min(1.0);
                assert!(tail(k) >= exact * (1.0 - 1e-13), "{count} {k}");
            }
        }
    }

    #[test]
    fn certain_and_empty_draws() {
        let sure = RateProfile::new([1.0, 1.0, 0.5]).unwrap();
        let masses = masses(&sure);
        assert!(masses[0] <= 0.0 && masses[1] <= 0.0);
        assert!((masses[2] - 0.5).abs() < 1e-12);
        assert!(sure.hazard() == f64::INFINITY);
        let noise = NoiseMultiplier::new(1.0).unwrap();
        let none = RateProfile::new([0.0, 0.0]).unwrap();
        let loss = none.loss(noise, Steps::new(10)).unwrap();
        assert_eq!(loss.steps(), 0);
        assert!(RateProfile::new([1.5]).is_err());
    }
}
