//! Zero-concentrated differential privacy: a straight Rényi curve described by one number.

use super::convert::epsilon_from_renyi;
use crate::loss::{Query, product_of, sum_of_squares};
use crate::mechanism::{Mechanism, Sampling};
use crate::numeric::search::minimiser;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Delta, Epsilon, GroupSize, Order};

/// Rounding error of a handful of operations.
const SLACK: f64 = 8.0 * f64::EPSILON;

/// ρ-zCDP: the Rényi divergence of every order α > 1 is at most ρα, in both directions.
///
/// Source: Bun and Steinke 2016.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zcdp {
    rho: Upper<f64>,
}

impl Zcdp {
    /// Creates a promise from a known ρ.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if ρ is negative or NaN.
    pub fn new(rho: Upper<f64>) -> Result<Self> {
        if *rho.get() >= 0.0 {
            Ok(Self { rho })
        } else {
            Err(Error::out_of_range("rho", "[0, inf]", *rho.get()))
        }
    }

    /// Returns ρ in nats.
    #[must_use]
    pub const fn rho(&self) -> Upper<f64> {
        self.rho
    }

    /// Returns ρ = ε tanh(ε/2) of a mechanism known to be ε-differentially private.
    ///
    /// Bound: upper, attained by randomised response as α falls to 1. With u = α − ½ the moment of
    /// randomised response is ln cosh(uε) − ln cosh(ε/2), and ln cosh(ε√v) is concave in v: the tangent at
    /// v = ¼ is ρα(α − 1). Sharper than the ε²/2 of Bun and Steinke 2016.
    ///
    /// ```
    /// use reticent_accounting::{Epsilon, rdp::Zcdp};
    /// let pure = Zcdp::pure(Epsilon::new(1.0)?);
    /// assert!((pure.rho().get() - 0.5f64.tanh()).abs() < 1e-14 && *pure.rho().get() < 0.5);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn pure(epsilon: Epsilon) -> Self {
        let e = epsilon.get();
        Self::rounded(product_of(e, e * (0.5 * e).tanh()))
    }

    /// Returns ρ = ε²/8 of a mechanism whose loss has range ε (the exponential mechanism).
    ///
    /// Bound: upper. Source: Cesar and Rogers 2021, by Hoeffding's lemma.
    #[must_use]
    pub fn bounded_range(epsilon: Epsilon) -> Self {
        let e = epsilon.get();
        // A loss of range ε is also at most ε in size.
        let squares = product_of(e, 0.125 * e * e);
        Self::rounded(squares.min(*Self::pure(epsilon).rho.get()))
    }

    /// Returns ρ = μ²/2 of a Gaussian with distance μ between the means.
    #[must_use]
    pub fn gaussian(distance: f64) -> Self {
        Self::rounded(0.5 * sum_of_squares(1, distance))
    }

    fn rounded(rho: f64) -> Self {
        let rho = if rho.is_nan() { f64::INFINITY } else { rho };
        Self {
            rho: Upper::new(rho * (1.0 + SLACK)),
        }
    }

    /// Returns the promise of one mechanism after the other: the values of ρ add up.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self::rounded(self.rho.get() + next.rho.get())
    }

    /// Returns the promise of the same mechanism run `times` times.
    #[must_use]
    pub fn repeated(self, times: u64) -> Self {
        if times == 0 {
            return Self::gaussian(0.0);
        }
        Self::rounded(self.rho.get() * times as f64)
    }

    /// Returns the promise for several records at once: ρk².
    ///
    /// Source: Bun and Steinke 2016, Proposition 1.9.
    #[must_use]
    pub fn of_group(self, records: u32) -> Self {
        let k = f64::from(records);
        Self::rounded(self.rho.get() * k * k)
    }

    /// Returns ρ of a run for a question.
    ///
    /// Bound: upper. Sampling doesn't help: the zCDP of a mixture of Gaussians is that of its farthest
    /// components (joint quasi-convexity), attained as α grows.
    ///
    /// ```
    /// use reticent_accounting::{Mechanism, Neighbours, NoiseMultiplier, Query, SamplingRate, Steps};
    /// use reticent_accounting::rdp::Zcdp;
    /// let run = Mechanism::dp_sgd(NoiseMultiplier::new(10.0)?, SamplingRate::new(0.5)?, Steps::new(100));
    /// let zcdp = Zcdp::of(&run, Query::single(Neighbours::AddRemove))?;
    /// assert!((zcdp.rho().get() - 0.5).abs() < 1e-13); // T/(2σ²)
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if no finite ρ is known: for a run without protection, an estimate,
    /// approximate DP, or a promise for other neighbours.
    pub fn of(mechanism: &Mechanism, query: Query) -> Result<Self> {
        match mechanism {
            Mechanism::Repeat { times, each } => Ok(Self::of(each, query)?.repeated(times.get())),
            Mechanism::Sequence { parts } => {
                parts.iter().try_fold(Self::gaussian(0.0), |sum, part| {
                    Ok(sum.then(Self::of(part, query)?))
                })
            }
            step if step.draws_nobody() => Ok(Self::gaussian(0.0)),
            leaf => Self::of_leaf(leaf, query),
        }
    }

    fn of_leaf(mechanism: &Mechanism, query: Query) -> Result<Self> {
        let records = f64::from(query.group.get());
        // Replacing a record moves a sum twice as far as removing it.
        let twice = match query.neighbours {
            Neighbours::Replace => 2.0,
            Neighbours::AddRemove | Neighbours::ZeroOut => 1.0,
        };
        let reach = records * twice;
        let pure = |epsilon: f64| Ok(Self::pure(Epsilon::nonnegative(epsilon)));
        match mechanism {
            Mechanism::Gaussian {
                noise_multiplier: noise,
            } => Ok(Self::gaussian(reach / noise.get())),
            Mechanism::SubsampledGaussian {
                noise_multiplier: noise,
                sampling,
                ..
            } if once_a_batch(*sampling, query) => Ok(Self::gaussian(reach / noise.get())),
            Mechanism::PoissonBinomialGaussian {
                noise_multiplier: noise,
                rates,
            } if query.group == GroupSize::ONE => {
                let drawn = rates.iter().filter(|rate| rate.get() > 0.0).count();
                Ok(Self::gaussian(twice * drawn as f64 / noise.get()))
            }
            Mechanism::MixtureOfGaussians {
                noise_multiplier: noise,
                sensitivities,
                ..
            } if query.group == GroupSize::ONE => {
                let farthest = sensitivities.iter().fold(0.0f64, |far, s| far.max(s.abs()));
                Ok(Self::gaussian(twice * farthest / noise.get()))
            }
            Mechanism::DiscreteGaussian { sigma, sensitivity } => Ok(Self::gaussian(
                reach * f64::from(*sensitivity) / sigma.get(),
            )),
            Mechanism::Laplace { scale } => pure(reach / scale.get()),
            Mechanism::SubsampledLaplace {
                scale, sampling, ..
            } if once_a_batch(*sampling, query) => pure(reach / scale.get()),
            Mechanism::DiscreteLaplace { scale, sensitivity } => {
                pure(reach * f64::from(*sensitivity) / scale.get())
            }
            Mechanism::RandomisedResponse { truth, categories }
                if query.neighbours == Neighbours::Replace && *categories >= 2 =>
            {
                let others = f64::from(categories - 1);
                let epsilon = (truth.get() * others / (1.0 - truth.get())).ln().abs();
                // Records of a group answer independently.
                Ok(Self::pure(Epsilon::nonnegative(epsilon)).repeated(query.group.get().into()))
            }
            Mechanism::PureDp {
                epsilon,
                neighbours,
            } => pure(group_factor(*neighbours, query, records)? * epsilon.get()),
            Mechanism::Zcdp {
                rho,
                xi,
                neighbours,
            } if xi.get() <= 0.0 => {
                let links = group_factor(*neighbours, query, records)?;
                Ok(Self::rounded(rho.get() * links * links))
            }
            Mechanism::ExponentialMechanism {
                epsilon,
                neighbours,
            } => {
                let range = group_factor(*neighbours, query, records)? * epsilon.get();
                Ok(Self::bounded_range(Epsilon::nonnegative(range)))
            }
            other => Err(Error::Unsupported {
                what: format!("zCDP of {other:?} under {}", query.neighbours),
                why: "no finite rho is known for it".into(),
            }),
        }
    }

    /// Returns ε at `delta`, at the best real order.
    ///
    /// Bound: upper. Source: Canonne, Kamath and Steinke 2020, Corollary 13, with the order optimised
    /// continuously; √-forms such as ρ + 2√(ρ ln 1/δ) are looser.
    ///
    /// ```
    /// use reticent_accounting::{Delta, Upper, rdp::Zcdp};
    /// let epsilon = Zcdp::new(Upper::new(0.5))?.epsilon(Delta::new(1e-5)?)?;
    /// let usual = 0.5 + 2.0 * (0.5 * 1e5f64.ln()).sqrt();
    /// assert!(epsilon.get().get() < usual && epsilon.get().get() > 4.377); // the Gaussian's own
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    ///
    /// # Errors
    /// None for a δ in range.
    pub fn epsilon(&self, delta: Delta) -> Result<Upper<Epsilon>> {
        let rho = *self.rho.get();
        if rho <= 0.0 || delta.get() >= 1.0 {
            return Ok(Upper::new(Epsilon::new(0.0)?));
        }
        if delta.get() <= 0.0 || rho == f64::INFINITY {
            return Ok(Upper::new(Epsilon::new(f64::INFINITY)?));
        }
        let at = |order: Order| {
            epsilon_from_renyi(order, Upper::new(rho * order.get() * (1.0 + SLACK)), delta)
        };
        let cost = |t: f64| {
            let order = Order::new(1.0 + t.exp());
            order
                .and_then(at)
                .map_or(f64::INFINITY, |end| end.get().get())
        };
        let centre = self.centre(-delta.get().ln());
        let t = minimiser(cost, centre - 4.0, centre + 4.0);
        at(Order::new(1.0 + t.exp())?)
    }

    /// Returns δ at `epsilon`, at the best real order: min over α of e^{(α−1)(αρ − ε)} (1 − 1/α)^α / (α −
    /// 1).
    ///
    /// Bound: upper. Source: Canonne, Kamath and Steinke 2020, Corollary 13.
    ///
    /// # Errors
    /// None for an ε in range.
    pub fn delta(&self, epsilon: Epsilon) -> Result<Upper<Delta>> {
        let (rho, e) = (*self.rho.get(), epsilon.get());
        if rho == f64::INFINITY {
            return Ok(Upper::new(Delta::new(1.0)?));
        }
        if rho <= 0.0 || e == f64::INFINITY {
            return Ok(Upper::new(Delta::ZERO));
        }
        let ln_delta = |t: f64| {
            let (less, order) = (t.exp(), 1.0 + t.exp());
            less * (order * rho - e) + order * (-1.0 / order).ln_1p() - t
        };
        // The saddle of the exponent: α = (ρ + ε)/2ρ.
        let centre = (0.5 * (e - rho) / rho).max(1e-3).ln();
        let best = minimiser(ln_delta, centre - 6.0, centre + 6.0);
        let (order, ln) = (1.0 + best.exp(), ln_delta(best));
        let rounding = SLACK * (best.exp() * (order * rho + e) + ln.abs() + 4.0);
        let value = if (ln + rounding).is_finite() {
            (ln + rounding).exp()
        } else {
            1.0
        };
        Ok(Upper::new(Delta::clamped(value.max(f64::MIN_POSITIVE))))
    }

    /// Returns ln(α − 1) near the best order for ln 1/δ: √(ln(1/δ)/ρ).
    fn centre(&self, ln_inverse_delta: f64) -> f64 {
        0.5 * (ln_inverse_delta.max(1e-6) / self.rho.get()).ln()
    }
}

/// Returns whether a record is in a batch once or not at all, whatever other records it holds.
fn once_a_batch(sampling: Sampling, query: Query) -> bool {
    let draw = sampling.draw();
    // A batch of fixed size has no room for an additional record.
    let fits = draw.independent || draw.fixed_size && query.neighbours == Neighbours::Replace;
    fits && draw.distinct && draw.epoch.is_none()
}

/// Returns the factor on ε that a promise for `given` neighbours costs for the neighbours in question.
fn group_factor(given: Neighbours, query: Query, records: f64) -> Result<f64> {
    match (given, query.neighbours) {
        (a, b) if a == b => Ok(records),
        // A replacement is a removal and an addition.
        (Neighbours::AddRemove, Neighbours::Replace) => Ok(2.0 * records),
        (given, other) => Err(Error::Unsupported {
            what: format!("a promise for {given} neighbours"),
            why: format!("it says nothing about {other}"),
        }),
    }
}
