//! The null of every exposure statistic: its distribution for a model that ignores the secrets.

use crate::draw::Draw;
use crate::error::Result;
use crate::statistics::{binomial_upper_tail, bisect_last, bisect_last_whole, gamma_upper_tail};
use std::f64::consts::LN_2;

/// The null distribution of k exposures over N candidates, for any k and finite N.
///
/// Under the null a rank is uniform on 1..N (or larger, under ties and max-rank). For distinct
/// secrets the canaries are not independent. Everything about several of them then uses
/// N' = N − k + 1 ([`Draw::effective_candidates`]) and is conservative: means and percentiles are
/// upper bounds, and p-values are never below the true ones. With N = 10^6 and k = 10 the
/// difference is below 2e-5 bits.
///
/// ```
/// use reticent_attacks::Draw;
/// use reticent_attacks::exposure::ExposureNull;
/// let null = ExposureNull::new(1_000_000, 10, Draw::Independent)?;
/// assert!((null.single_mean() - 1.442_684).abs() < 1e-6); // one canary
/// assert!((null.order_mean(1) - 4.225_5).abs() < 1e-4); // the maximum of ten
/// assert!((null.order_percentile(1, 0.95) - 7.61).abs() < 1e-2);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExposureNull {
    candidates: u64,
    effective: u64,
    canaries: u64,
}

impl ExposureNull {
    /// Creates the null of `canaries` exposures over `candidates`.
    ///
    /// # Errors
    /// Returns an error if there is no canary or no candidate, or if there are more distinct
    /// canaries than candidates.
    pub fn new(candidates: u64, canaries: u64, draw: Draw) -> Result<Self> {
        Ok(Self {
            candidates,
            effective: draw.effective_candidates(candidates, canaries)?,
            canaries,
        })
    }

    /// Returns N, the number of candidates.
    #[must_use]
    pub const fn candidates(&self) -> u64 {
        self.candidates
    }

    /// Returns k, the number of canaries.
    #[must_use]
    pub const fn canaries(&self) -> u64 {
        self.canaries
    }

    /// Returns the mean exposure of one canary, which is also that of the mean of several, in bits:
    /// log2 N − (1/N) Σ log2 r = log2 N − lnΓ(N+1) / (N ln 2); 1.4427 for large N.
    #[must_use]
    pub fn single_mean(&self) -> f64 {
        let n = self.candidates as f64;
        // Use Stirling's formula where the two large terms would cancel: ln N − ln(N!)/N.
        let nats = if n > 1e6 {
            1.0 - ((2.0 * std::f64::consts::PI * n).ln() * 0.5 + 1.0 / (12.0 * n)) / n
        } else {
            n.ln() - libm::lgamma(n + 1.0) / n
        };
        nats / LN_2
    }

    /// Returns the mean of the `h`-th largest of the k exposures (1 = the maximum), in bits: with R
    /// the h-th smallest rank, log2 N − Σ_r log2((r+1)/r) P(R > r), P(R > r) = P[Bin(k, r/N') < h].
    ///
    /// Here and below, `h` outside 1..k is clamped to that range. Exact to 1e-9 for independent
    /// draws, an upper bound for distinct ones. For large N the maximum tends to
    /// (1 + 1/2 + … + 1/k) / ln 2.
    #[must_use]
    pub fn order_mean(&self, h: u64) -> f64 {
        let n = self.effective as f64;
        let h = h.clamp(1, self.canaries);
        let beyond = |rank: f64| 1.0 - binomial_upper_tail(h, self.canaries, rank / n);
        let summed = self.effective.min(SUMMED);
        let mut mean_ln_rank: f64 = (1..summed)
            .map(|r| (1.0 / r as f64).ln_1p() * beyond(r as f64))
            .sum();
        if summed < self.effective {
            // Euler–Maclaurin at midpoints s = r + 1/2: the corrections of ln((r+1)/r) against
            // 1/s and of the sum against the integral cancel to order s^-4.
            mean_ln_rank += integral((summed as f64).ln(), n.ln(), |y| {
                beyond((y.exp() - 0.5).max(0.0))
            });
        }
        ((self.candidates as f64).ln() - mean_ln_rank) / LN_2
    }

    /// Returns the `level` percentile of the `h`-th largest exposure, in bits: log2(N / r) for the
    /// largest r with P[Bin(k, (r−1)/N') ≥ h] ≤ 1 − level.
    #[must_use]
    pub fn order_percentile(&self, h: u64, level: f64) -> f64 {
        let rank = bisect_last_whole(1, self.effective, |rank| {
            self.order_p_value(h, rank - 1) <= 1.0 - level
        });
        exposure_bits(self.candidates, rank)
    }

    /// Returns the `level` percentile of the mean exposure, in bits, from the Gamma(k) distribution
    /// that dominates the sum of the exposures in nats.
    #[must_use]
    pub fn mean_percentile(&self, level: f64) -> f64 {
        let k = self.canaries as f64;
        let most = k * (self.candidates as f64).ln() + 1.0;
        let sum = bisect_last(0.0, most, |x| {
            gamma_upper_tail(self.canaries, x) >= 1.0 - level
        });
        (sum / k + self.excess()) / LN_2
    }

    /// Returns P(at least `h` of the k ranks are ≤ `rank`): the p-value of the h-th largest
    /// exposure. For h = 1 this is Šidák's 1 − (1 − rank/N')^k.
    #[must_use]
    pub fn order_p_value(&self, h: u64, rank: u64) -> f64 {
        let share = (rank as f64 / self.effective as f64).min(1.0);
        let h = h.clamp(1, self.canaries);
        if h == 1 {
            // Keeps the relative accuracy for tiny shares.
            return -(self.canaries as f64 * (-share).ln_1p()).exp_m1();
        }
        binomial_upper_tail(h, self.canaries, share)
    }

    /// Returns the p-value of the mean: under the null the sum of ln(N'/rank) is dominated by a
    /// Gamma(k, 1) variable, since each rank/N' is at least uniform given the earlier secrets.
    ///
    /// `mean_bits` is the mean exposure under max-rank; NaN gives 1.
    #[must_use]
    pub fn mean_p_value(&self, mean_bits: f64) -> f64 {
        let k = self.canaries as f64;
        gamma_upper_tail(self.canaries, k * (mean_bits * LN_2 - self.excess()))
    }

    /// Returns P(the maximum is this low or lower): ((N − r + 1)/N')^k, with r the best min-rank.
    ///
    /// "The maximum of ten exposures is below one bit" has probability 0.001: such a result means
    /// that something is wrong with the measurement, not that nothing leaked.
    #[must_use]
    pub fn low_maximum_p_value(&self, best_rank: u64) -> f64 {
        let above = self.candidates.saturating_sub(best_rank.saturating_sub(1));
        let share = (above as f64 / self.effective as f64).min(1.0);
        (self.canaries as f64 * share.ln()).exp()
    }

    /// Returns ln(N/N'), the most that distinct draws can add to an exposure.
    fn excess(&self) -> f64 {
        (self.candidates as f64 / self.effective as f64).ln()
    }
}

/// The number of ranks that are summed one by one before the integral takes over.
const SUMMED: u64 = 1 << 12;

/// Returns log2 N − log2 rank.
pub(crate) fn exposure_bits(candidates: u64, rank: u64) -> f64 {
    (candidates as f64).log2() - (rank as f64).log2()
}

/// Integrates f over [a, b] by five-point Gauss–Legendre quadrature on panels of width at most
/// 0.05.
pub(crate) fn integral(a: f64, b: f64, f: impl Fn(f64) -> f64) -> f64 {
    const NODES: [(f64, f64); 3] = [
        (0.0, 128.0 / 225.0),
        (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
        (0.906_179_845_938_664, 0.236_926_885_056_189_08),
    ];
    let panels = ((b - a) / 0.05).ceil().max(1.0);
    let half = (b - a) / panels / 2.0;
    (0..panels as u64)
        .map(|panel| {
            let centre = a + half * (2 * panel + 1) as f64;
            let pairs = NODES
                .iter()
                .skip(1)
                .map(|(node, weight)| weight * (f(centre - half * node) + f(centre + half * node)));
            half * (NODES[0].1 * f(centre) + pairs.sum::<f64>())
        })
        .sum()
}
