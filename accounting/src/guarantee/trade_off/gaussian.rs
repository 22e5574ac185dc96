//! Summary of the whole curve by one number: the least μ whose Gaussian trade-off lies below it, certified on the
//! whole range, with the loss of the summary.

use super::samples::Samples;
use crate::engine::Engine;
use crate::loss::{PrivacyLoss, Query, losses, sum_of_squares};
use crate::mechanism::Mechanism;
use crate::numeric::special::ln_normal_tail;
use crate::quantity::bound::{Bounds, Estimate, Lower, Upper};
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, NoiseMultiplier, SamplingRate, Steps, Tolerance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// μ-GDP of a run for a question, with slack and regret.
///
/// δ(ε) ≤ δ_μ(ε) + slack for every real ε and both directions, which is the same as
/// f(α) ≥ f_μ(α) − slack for every α, f_μ(α) = Φ(Φ⁻¹(1 − α) − μ). Without slack a subsampled
/// run has a useless μ: the rare event that every batch holds the record rules the far tail
/// (√T/σ, whatever the rate).
///
/// ```
/// use reticent_accounting::{Delta, Mechanism, Neighbours, NoiseMultiplier, Query, SamplingRate, Steps, Tolerance};
/// use reticent_accounting::trade_off::GaussianFit;
/// let run = Mechanism::dp_sgd(NoiseMultiplier::new(9.4)?, SamplingRate::new(0.328)?, Steps::new(2000));
/// let fit = GaussianFit::of(&run, Query::single(Neighbours::AddRemove), Delta::new(1e-10)?, Tolerance::new(1e-4)?)?;
/// // gdpnum prints μ = 1.56856 and a regret of 0.00102.
/// assert!((fit.mu.upper.unwrap().get() - 1.5686).abs() < 1e-2);
/// assert!(*fit.regret.upper.unwrap().get() < 2e-3);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GaussianFit {
    /// What was asked.
    pub query: Query,
    /// The least such μ lies between these; the upper end is the promise.
    pub mu: Bounds<f64>,
    /// The δ that is allowed on top of the Gaussian's own.
    pub slack: Delta,
    /// The regret of the promise: the least Δ with f(α + Δ) − Δ ≤ f_μ(α) for every α, how much
    /// worse than the run its summary is, in units of both error rates. Source: Kaissis et al.
    /// 2024 (the Δ-divergence), Gomez et al. 2026.
    pub regret: Bounds<f64>,
    /// The coarsest engine that was needed.
    pub engine: Engine,
}

impl GaussianFit {
    /// Returns the least μ of `mechanism` for `query` with the given slack, to a relative `tolerance` where that can
    /// be reached.
    ///
    /// Plain Gaussians are answered exactly and need no slack. A run that is only dominated by one has no lower end
    /// of μ above zero, and nothing is known of its regret.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if no finite μ suffices: the loss is infinite with a probability above the
    /// slack, or there is no slack and nothing bounds the loss.
    pub fn of(
        mechanism: &Mechanism,
        query: Query,
        slack: Delta,
        tolerance: Tolerance,
    ) -> Result<Self> {
        let losses = losses(mechanism, query)?;
        let plain: Option<Vec<f64>> = losses.iter().map(PrivacyLoss::plain_gaussian).collect();
        // A run that Gaussians only dominate may have a smaller μ, and with slack its bound has.
        let only_above = losses.iter().any(PrivacyLoss::bounds_only);
        if let Some(distances) = plain
            && (slack.get() <= 0.0 || !only_above)
        {
            let mu = distances.into_iter().fold(0.0, f64::max);
            let mut fit = Self::exactly(query, mu);
            if only_above {
                fit.mu.lower = None;
                // sup (δ_μ(ε) − δ(ε))/(1 + e^ε) ≤ δ_μ(0)/2 = 1/2 − Φ(−μ/2).
                fit.regret = Bounds::at_most(0.5 - (1.0 - 1e-12) * ln_normal_tail(0.5 * mu).exp());
            }
            return Ok(fit);
        }
        if losses.iter().any(PrivacyLoss::is_stated) {
            return Err(Error::Unsupported {
                what: "mu-GDP of a run with steps of which only Rényi divergences are known".into(),
                why: "these say nothing useful of the whole trade-off curve".into(),
            });
        }
        if slack.get() >= 1.0 {
            return Ok(Self {
                slack,
                ..Self::exactly(query, 0.0)
            });
        }
        // However records are sampled, a record contributes no more than if it is always present.
        let ceiling = losses
            .iter()
            .map(|loss| loss.dominating_gaussian().unwrap_or(f64::INFINITY))
            .fold(0.0, f64::max);
        let mut samples = Samples::of(&losses, slack.get(), tolerance.get())?;
        let (lower, upper) = samples.least_distance(slack.get(), ceiling)?;
        if upper == f64::INFINITY {
            return Err(none(slack));
        }
        let regret = samples.regret(upper)?;
        Ok(Self {
            query,
            mu: Bounds::between(lower.min(upper), upper),
            slack,
            regret: Bounds::between(regret.0, regret.1),
            engine: samples.engine(),
        })
    }

    /// Returns the fit of a run whose every loss is Gaussian with this distance between the means, or less.
    const fn exactly(query: Query, mu: f64) -> Self {
        Self {
            query,
            mu: Bounds {
                lower: Some(Lower::new(mu * (1.0 - 4.0 * f64::EPSILON))),
                upper: Some(Upper::new(mu * (1.0 + 4.0 * f64::EPSILON))),
            },
            slack: Delta::ZERO,
            regret: Bounds {
                lower: Some(Lower::new(0.0)),
                // |∂δ_μ/∂μ| ≤ 1/√(2π).
                upper: Some(Upper::new(4.0 * f64::EPSILON * mu)),
            },
            engine: Engine::Closed,
        }
    }
}

fn none(slack: Delta) -> Error {
    Error::Unsupported {
        what: format!("mu-GDP with slack {slack}"),
        why: "no finite mu does: the loss is unbounded, or infinite with more than that \
              probability; allow more slack"
            .into(),
    }
}

impl PrivacyLoss {
    /// Returns the distance between the means if the whole loss is Gaussian.
    pub(crate) fn plain_gaussian(&self) -> Option<f64> {
        (self.steps() == 0 && !self.unbounded).then(|| self.gaussian.sqrt())
    }

    /// Returns a μ with δ ≤ δ_μ everywhere and no slack, for Gaussian mixtures: each at its farthest positions, by
    /// joint quasi-convexity; `None` for other laws.
    pub(crate) fn dominating_gaussian(&self) -> Option<f64> {
        let count: u64 = self.parts.iter().map(|(_, times)| times).sum();
        if self.unbounded || count != self.steps() || self.missing() > 0.0 {
            return None;
        }
        let steps = self.parts.iter().map(|(pair, times)| {
            let distance = pair.first.farthest() + pair.second.farthest();
            sum_of_squares(*times, distance)
        });
        let slack = 1.0 + f64::EPSILON * (self.parts.len() as f64 + 8.0);
        Some((self.gaussian + steps.sum::<f64>()).sqrt() * slack)
    }
}

/// Returns μ = q √(T(e^{1/σ²} − 1)), the central limit of many steps at small rates.
///
/// Not a bound: it understates ε, 3.06 for a true 3.90 at q = 1e-4, σ = 0.5, T = 10⁶ and δ = 1e-5. Source: Bu, Dong,
/// Long and Su 2020.
///
/// ```
/// use reticent_accounting::{NoiseMultiplier, SamplingRate, Steps};
/// use reticent_accounting::trade_off::central_limit_distance;
/// let mu = central_limit_distance(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(10_000));
/// assert!((mu.get() / 1.1336592935244294 - 1.0).abs() < 1e-13);
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[must_use]
pub fn central_limit_distance(
    noise: NoiseMultiplier,
    rate: SamplingRate,
    steps: Steps,
) -> Estimate<f64> {
    if rate.get() <= 0.0 {
        return Estimate::new(0.0);
    }
    let spread = (1.0 / (noise.get() * noise.get())).exp_m1();
    Estimate::new(rate.get() * (steps.get() as f64 * spread).sqrt())
}
