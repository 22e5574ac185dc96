//! What an auditor believes about one secret, and the closest distribution that (ε, 0) allows.

use crate::error::{Error, Result, given, numbers, positive, ranged, suited};
use crate::statistics::check_open_unit;
use std::sync::Arc;

/// Covers the rounding of the sums below: at most 2^20 terms, each sum with a relative error of at
/// most 2^-32.
const ROUNDING: f64 = 1e-9;

/// Assigns the least believed candidates, all below a multiple of 1/N, one common belief: their
/// mean.
///
/// Fewer than N / `below` candidates can have a belief of `below`/N or more, so at least
/// N − N/`below` are pooled, whatever the model says. The more are pooled, the less a δ > 0 costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool {
    below: Option<f64>,
}

impl Pool {
    /// No candidate is pooled.
    pub const NONE: Self = Self { below: None };

    /// Pools candidates whose belief is less than `below`/N.
    ///
    /// # Errors
    /// Returns an error if `below` is 1 or less, which might pool nothing, or is not finite.
    pub fn below(below: f64) -> Result<Self> {
        if below > 1.0 && below.is_finite() {
            Ok(Self { below: Some(below) })
        } else {
            Err(Error::out_of_range("pooled below", "(1, inf)", below))
        }
    }

    /// Returns the least number of candidates, out of N, that are pooled; 1 without a pool, since
    /// one is always the least.
    #[must_use]
    pub fn least_size(&self, candidates: u64) -> u64 {
        let Some(below) = self.below else { return 1 };
        // The computed beliefs add up to 1 up to rounding.
        let most_head = (candidates as f64 / below * (1.0 + ROUNDING)).floor() as u64;
        candidates.saturating_sub(most_head).max(1)
    }

    /// Returns the least belief at which a candidate keeps its own belief.
    pub(super) fn threshold(&self, candidates: f64) -> f64 {
        self.below.map_or(0.0, |below| below / candidates)
    }
}

/// Whether candidates keep their own beliefs or are pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// All keep their own.
    Head,
    /// All are pooled.
    Pooled,
    /// Some may keep their own.
    Open,
}

/// A set of candidates whose beliefs are known partly: their number, their sum, bounds on each
/// belief, and whether they are pooled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Block {
    pub(super) count: f64,
    pub(super) total: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) place: Place,
}

impl Block {
    /// Returns a block of one candidate, or of several with the same belief.
    pub(super) fn exact(count: f64, weight: f64, threshold: f64) -> Self {
        Self {
            count,
            total: count * weight,
            low: weight,
            high: weight,
            place: if weight >= threshold {
                Place::Head
            } else {
                Place::Pooled
            },
        }
    }
}

/// A belief about one secret: a weight for each of its N candidates, or bounds on the weights
/// that a search did not evaluate.
///
/// The weights may depend on the released model and on secrets that were revealed before, never on
/// this secret. Which weights are known may depend on it: every number below errs on the safe side
/// of the value for the full belief.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    candidates: f64,
    /// Values and counts that bound Σ (u − x)₊ from above, in decreasing order, with running sums.
    above: Vec<Atom>,
    /// Values and counts that bound Σ (x − u)₊ from below, in increasing order, with running sums.
    below: Vec<Atom>,
    /// Beliefs below this are pooled.
    threshold: f64,
    /// A lower bound on the belief in a pooled candidate.
    pooled: f64,
    /// ℓ, the number of candidates that certainly share the least belief.
    shared: f64,
}

/// Candidates with one value; `counts` and `totals` are sums from the first atom to this one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Atom {
    value: f64,
    counts: f64,
    totals: f64,
}

impl Beliefs {
    /// Creates a belief that is known for every candidate.
    ///
    /// ```
    /// use reticent_attacks::evalue::{Beliefs, Pool};
    /// let beliefs = Beliefs::full(&[0.7, 0.1, 0.1, 0.1], Pool::NONE)?;
    /// let guess = beliefs.guess(0.7)?;
    /// // At ε = 0 no posterior exceeds 1/N; at ε = ln 7 this belief is allowed.
    /// assert!((guess.ln_evalue(0.0).exp() - 2.8).abs() < 1e-6);
    /// assert!(guess.ln_evalue(7_f64.ln() + 1e-6).abs() < 1e-6);
    /// assert!(beliefs.guess(0.9).is_err()); // no candidate has this weight
    /// # Ok::<(), reticent_attacks::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two candidates, weights that are negative or not finite, or that do not add up to 1 to within 1e-9.
    pub fn full(weights: &[f64], pool: Pool) -> Result<Arc<Self>> {
        let sum: f64 = weights.iter().sum();
        check_weights(weights, sum, (sum - 1.0).abs() <= 1e-9)?;
        let count = weights.len();
        ranged("candidates of a belief", "[2, inf)", count, count >= 2)?;
        let candidates = weights.len() as f64;
        let threshold = pool.threshold(candidates);
        let blocks = weights
            .iter()
            .map(|&weight| Block::exact(1.0, weight, threshold));
        let mut beliefs = Self::of_blocks(blocks.collect(), candidates, pool);
        let least = weights.iter().copied().fold(f64::INFINITY, f64::min);
        let shares = |weight: &&f64| **weight < threshold || **weight <= least;
        let shared = weights.iter().filter(shares).count() as f64;
        beliefs.shared = beliefs.shared.max(shared);
        Ok(Arc::new(beliefs))
    }

    /// Creates a belief in a head of individually known candidates, chosen without knowledge of the
    /// secret (sampled ones, for example), with one common belief for all others. Also returns the
    /// resulting weights: those of the head, in its order, and that of one other candidate.
    ///
    /// Weights of the head below the weight of one other candidate are raised to it, because the
    /// slack for δ > 0 relies on the others being the least believed. The weights are then divided
    /// by their sum.
    ///
    /// # Errors
    /// No candidate in the head or none outside it, weights that are negative or not finite, or that
    /// add up to more than 1 + 1e-9.
    pub fn pooled(head: &[f64], others: u64) -> Result<(Arc<Self>, Vec<f64>, f64)> {
        ranged("candidates outside the head", "[1, inf)", 0, others > 0)?;
        let sum: f64 = head.iter().sum();
        check_weights(head, sum, sum <= 1.0 + 1e-9)?;
        let number = others as f64;
        let each = (1.0 - sum).max(0.0) / number;
        let raised: Vec<f64> = head.iter().map(|weight| weight.max(each)).collect();
        let all = raised.iter().sum::<f64>() + each * number;
        let head: Vec<f64> = raised.iter().map(|weight| weight / all).collect();
        let other = each / all;
        let named = head.iter().map(|&weight| Block::exact(1.0, weight, 0.0));
        let blocks = named.chain([Block::exact(number, other, 0.0)]).collect();
        let candidates = head.len() as f64 + number;
        let beliefs = Self {
            shared: number,
            ..Self::of_blocks(blocks, candidates, Pool::NONE)
        };
        Ok((Arc::new(beliefs), head, other))
    }

    /// Creates a belief from blocks that cover all candidates.
    pub(super) fn of_blocks(blocks: Vec<Block>, candidates: f64, pool: Pool) -> Self {
        let threshold = pool.threshold(candidates);
        let mut above: Vec<(f64, f64)> = Vec::with_capacity(2 * blocks.len());
        let mut below: Vec<(f64, f64)> = Vec::with_capacity(blocks.len());
        // Candidates that are certainly pooled, and candidates that may be: both are known by their
        // sums.
        let (mut pooled, mut open) = ((0.0, 0.0), (0.0, 0.0));
        let mut heads = 0.0;
        for block in blocks.into_iter().filter(|block| block.count > 0.0) {
            match block.place {
                Place::Head => {
                    heads += block.count;
                    spread(&mut above, &block);
                    below.push((block.total / block.count, block.count));
                }
                Place::Pooled => pooled = (pooled.0 + block.count, pooled.1 + block.total),
                Place::Open => {
                    open = (open.0 + block.count, open.1 + block.total);
                    spread(&mut above, &Block { low: 0.0, ..block });
                }
            }
        }
        if pooled.0 > 0.0 {
            above.push((pooled.1 / pooled.0, pooled.0));
        }
        // By Jensen's inequality: pooled candidates, and others at no more than their sum.
        let together = (pooled.0 + open.0, pooled.1 + open.1);
        if together.0 > 0.0 {
            below.push((together.1 / together.0, together.0));
        }
        above.sort_by(|a, b| b.0.total_cmp(&a.0));
        below.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self {
            candidates,
            above: running(above),
            below: running(below),
            threshold,
            // The smallest mean: as if all open candidates kept their own belief and there were
            // almost none of them.
            pooled: pooled.1 / (candidates - heads).max(1.0),
            shared: pool.least_size(candidates as u64) as f64,
        }
    }

    /// Returns the guess for a secret that is a candidate with this weight.
    ///
    /// # Errors
    /// Returns an error if no candidate has this weight: a larger one would prove an ε that the belief does not.
    pub fn guess(self: &Arc<Self>, weight: f64) -> Result<Guess> {
        let head = weight >= self.threshold;
        let held = if head {
            // Values of one candidate differ by the rounding of a product and a quotient at most.
            let (low, high) = (weight * (1.0 - ROUNDING), weight * (1.0 + ROUNDING));
            let first = self.below.partition_point(|atom| atom.value < low);
            let atom = self.below.get(first).filter(|atom| atom.value <= high);
            atom.map(|atom| atom.value)
        } else {
            // A pooled candidate has the common belief, whatever its own weight was.
            let pools = self.below.first().is_some_and(|a| a.value < self.threshold);
            (weight >= 0.0 && pools).then_some(self.pooled)
        };
        let held = held.ok_or_else(|| Error::Unsuitable {
            what: "weight of a guess",
            needed: "that of a candidate of the belief",
            got: weight.to_string(),
        })?;
        Ok(self.guess_at(weight.min(held), head))
    }

    /// Like `guess`, if it is known in another way whether the candidate keeps its own belief.
    pub(super) fn guess_at(self: &Arc<Self>, weight: f64, head: bool) -> Guess {
        let weight = if head { weight } else { self.pooled };
        Guess {
            beliefs: Arc::clone(self),
            weight,
        }
    }

    /// Returns N.
    #[must_use]
    pub const fn candidates(&self) -> f64 {
        self.candidates
    }

    /// Returns ℓ, the number of candidates that certainly share the least belief.
    pub(super) const fn shared(&self) -> f64 {
        self.shared
    }

    /// Returns an upper bound on the floor a of the closest distribution clip(b, a, a e^ε).
    ///
    /// a solves Σ (b − a e^ε)₊ = Σ (a − b)₊. The left side decreases in a and the right side
    /// increases, so an upper bound on the left side and a lower bound on the right side give an
    /// upper bound on a.
    pub(crate) fn floor(&self, epsilon: f64) -> f64 {
        let factor = epsilon.exp();
        let top = self.above.first().map_or(0.0, |atom| atom.value);
        let (mut low, mut high) = (0.0, top);
        for _ in 0..200 {
            let middle = if low > 0.0 {
                (low * high).sqrt()
            } else {
                // The floor is a mean of clipped values, so it is rarely this far below the top.
                high * 1e-3
            };
            if middle <= low || middle >= high || high <= low * (1.0 + ROUNDING / 8.0) {
                break;
            }
            if high < f64::MIN_POSITIVE {
                break;
            }
            if self.excess(middle * factor) > self.lack(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        high * (1.0 + ROUNDING)
    }

    /// Returns an upper bound on Σ (b − x)₊.
    fn excess(&self, x: f64) -> f64 {
        let beyond = self.above.partition_point(|atom| atom.value > x);
        beyond.checked_sub(1).map_or(0.0, |last| {
            let last = &self.above[last];
            (last.totals - last.counts * x).max(0.0)
        })
    }

    /// Returns a lower bound on Σ (x − b)₊.
    fn lack(&self, x: f64) -> f64 {
        let under = self.below.partition_point(|atom| atom.value < x);
        under.checked_sub(1).map_or(0.0, |last| {
            let last = &self.below[last];
            (last.counts * x - last.totals).max(0.0)
        })
    }
}

fn check_weights(weights: &[f64], sum: f64, sum_is_right: bool) -> Result<()> {
    let count = weights.len();
    suited(
        "belief",
        "weights of candidates, none negative, that add up to 1",
        format_args!("{count} weights that add up to {sum}"),
        count > 0 && weights.iter().all(|w| *w >= 0.0 && w.is_finite()) && sum_is_right,
    )
}

/// Replaces a block by candidates at its two ends, with the same number and sum: a convex function
/// of the weight is at most as large on the block as there.
fn spread(atoms: &mut Vec<(f64, f64)>, block: &Block) {
    let width = block.high - block.low;
    let mean = block.total / block.count;
    if width <= mean * 1e-15 {
        atoms.push((mean.max(block.high), block.count));
        return;
    }
    let share = ((mean - block.low) / width).clamp(0.0, 1.0);
    atoms.push((block.high, block.count * share));
    atoms.push((block.low, block.count * (1.0 - share)));
}

fn running(atoms: Vec<(f64, f64)>) -> Vec<Atom> {
    let (mut counts, mut totals) = (0.0, 0.0);
    atoms
        .into_iter()
        .map(|(value, count)| {
            counts += count;
            totals += count * value;
            Atom {
                value,
                counts,
                totals,
            }
        })
        .collect()
}

/// A belief together with the weight that it gave the true secret.
#[derive(Debug, Clone)]
pub struct Guess {
    pub(super) beliefs: Arc<Beliefs>,
    /// A lower bound on the belief in the true secret.
    pub(super) weight: f64,
}

impl Guess {
    /// Returns a lower bound on ln(b(s) / r(s)) with r = clip(b, a, a e^ε).
    #[must_use]
    pub fn ln_evalue(&self, epsilon: f64) -> f64 {
        self.ln_evalue_at(self.beliefs.floor(epsilon), epsilon)
    }

    /// Like `ln_evalue`, for a floor that is already known.
    pub(super) fn ln_evalue_at(&self, floor: f64, epsilon: f64) -> f64 {
        let weight = self.weight.ln();
        let floor = floor.ln();
        if weight > floor + epsilon {
            weight - floor - epsilon
        } else {
            (weight - floor).min(0.0)
        }
    }
}

/// A distribution over candidates proportional to weight^(1/temperature), mixed with a uniform one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temper {
    /// In (0, inf).
    pub(super) temperature: f64,
    /// In (0, 1).
    pub(super) uniform: f64,
}

impl Temper {
    /// Creates a temper, checking both arguments.
    ///
    /// # Errors
    /// Returns an error if the temperature is not positive and finite, or if the share is outside
    /// (0, 1).
    pub fn new(temperature: f64, uniform: f64) -> Result<Self> {
        positive("temperature", temperature)?;
        check_open_unit("share of the uniform law", uniform)?;
        Ok(Self {
            temperature,
            uniform,
        })
    }

    /// Returns the temperature: above 1 it flattens the model's probabilities, below 1 it sharpens them.
    #[must_use]
    pub const fn temperature(&self) -> f64 {
        self.temperature
    }

    /// Returns the uniform distribution's share, which limits the loss if the model is certain and wrong.
    #[must_use]
    pub const fn uniform(&self) -> f64 {
        self.uniform
    }

    /// Returns the belief in candidates with these NLLs, in nats.
    ///
    /// # Errors
    /// Returns an error if there is no candidate, if an NLL is NaN, or if none is finite.
    pub fn beliefs(&self, nlls: &[f64]) -> Result<Vec<f64>> {
        numbers("NLL of a candidate", "(-inf, inf]", nlls)?;
        let least = nlls.iter().copied().fold(f64::INFINITY, f64::min);
        given(least.is_finite(), "no candidate has a finite NLL")?;
        let raw: Vec<f64> = nlls
            .iter()
            .map(|nll| ((least - nll) / self.temperature).exp())
            .collect();
        let sum: f64 = raw.iter().sum();
        let each = self.uniform / nlls.len() as f64;
        Ok(raw
            .into_iter()
            .map(|weight| (1.0 - self.uniform) * weight / sum + each)
            .collect())
    }
}
