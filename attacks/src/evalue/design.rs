//! Predicts what an audit by planted canaries will prove, before anything is planted.
//!
//! Each of the N candidates has a standard normal score, that of the secret has the law of the best
//! attack on what runs ([`ScoreLaw`]), and the model's NLL is minus the logarithm of the likelihood
//! ratio, which is the belief of an attacker who knows the whole model of the scores. The simulated
//! audit is the one that will run: the same tests, tempers, α and slack. The estimate is optimistic,
//! since a model reveals less than its gradients did.
//!
//! Of many candidates only the highest scores are drawn, one by one from the top. Those below are
//! placed at their expected values, which fixes the sum that a softmax divides by to a few parts in
//! a thousand.

use super::belief::{Beliefs, Block};
use super::{
    CanaryGuesses, CoinCounts, EValueAudit, LARGEST, RESOLUTION, ScoreLaw, coin_beliefs,
    coin_bound, coin_provable, ln_mean,
};
use crate::audit_bound::AuditTerms;
use crate::error::{Result, ranged};
use crate::exposure::{EpsilonBound, EpsilonMethod, RankAudit};
use crate::normal::{normal_cdf, normal_quantile};
use crate::search::RankCount;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Confidence, Epsilon, Estimate, Probability, Upper};
use std::sync::Arc;

/// The largest number of other candidates whose scores are all drawn one by one; of more, the highest
/// quarter of this number are.
const DRAWN: u64 = 256;

/// The number of expected places for the scores below the drawn ones.
const PLACES: usize = 96;

/// The step between the levels that the quick estimate examines.
const STEP: f64 = 0.125;

/// The number of canaries over which the mean evidence of one is taken, and the seed of the scores of other candidates.
const SAMPLED: u64 = 400;
const SEED: u64 = 0;

/// Both tests at one false-alarm rate, and which of them counts, fixed before anything is scored.
#[derive(Debug, Clone)]
pub struct PlannedAudit {
    /// The audit by ranks.
    pub by_rank: RankAudit,
    /// The audit by e-values, which also holds the numbers of candidates and canaries.
    pub by_evalue: EValueAudit,
    decides: EpsilonMethod,
    /// The canaries that training meets.
    reached: u64,
}

/// What a planned audit is expected to prove.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The mean of the bounds.
    pub mean: Estimate<Epsilon>,
    /// The value that a tenth of the bounds are below.
    pub tenth: Estimate<Epsilon>,
    /// The value that a tenth of the bounds are above.
    pub ninetieth: Estimate<Epsilon>,
}

impl PlannedAudit {
    /// Creates the audit of `canaries` canaries with `candidates` candidates each.
    ///
    /// # Errors
    /// As for [`EValueAudit::decides`].
    pub fn new(by_rank: RankAudit, candidates: u64, canaries: u64) -> Result<Self> {
        let by_evalue = EValueAudit::beside(&by_rank, candidates, canaries);
        Ok(Self {
            decides: by_evalue.decides(&by_rank)?,
            by_rank,
            by_evalue,
            reached: canaries,
        })
    }

    /// Returns the audit of a run that met only this many of the canaries. Its tests and their levels are those of all
    /// canaries; what it can prove is limited to what the ones that it met can show.
    #[must_use]
    pub fn reaching(self, reached: u64) -> Self {
        Self {
            reached: reached.min(self.by_evalue.canaries),
            ..self
        }
    }

    /// Returns the number of canaries that training meets: all, unless [`Self::reaching`] said otherwise.
    #[must_use]
    pub const fn reached(&self) -> u64 {
        self.reached
    }

    /// Returns the audit with the same test, tempers and pool at another confidence. Beliefs are
    /// searched once, with one pool, so a bound that is shown next to a verdict uses the verdict's
    /// pool.
    #[must_use]
    pub fn at(&self, confidence: Confidence) -> Self {
        Self {
            by_rank: RankAudit {
                confidence,
                ..self.by_rank.clone()
            },
            by_evalue: EValueAudit {
                confidence,
                ..self.by_evalue.clone()
            },
            decides: self.decides,
            reached: self.reached,
        }
    }

    /// Returns the test that counts.
    #[must_use]
    pub const fn decides(&self) -> EpsilonMethod {
        self.decides
    }

    /// Returns the bound by the test that counts.
    ///
    /// # Errors
    /// As for [`EValueAudit::bound`] and [`RankAudit::bound`].
    pub fn bound(&self, counts: &[RankCount], guesses: &[CanaryGuesses]) -> Result<EpsilonBound> {
        match self.decides {
            EpsilonMethod::EValue => self.by_evalue.bound(guesses),
            _ => self.by_rank.bound(counts),
        }
    }

    /// Returns the largest ε that the audit can prove: every canary that training meets is certain, and the others are
    /// no evidence. A canary that training does not meet can be a hit by chance only.
    ///
    /// # Errors
    /// As for [`EValueAudit::provable`] and [`RankAudit::provable`].
    pub fn provable(&self) -> Result<Upper<Epsilon>> {
        match self.decides {
            EpsilonMethod::EValue => self.provable_by_evalues(),
            _ => self.provable_by_ranks(),
        }
    }

    /// Returns the largest ε that e-values of the canaries that training meets can prove.
    ///
    /// # Errors
    /// As for [`EValueAudit::provable`].
    pub fn provable_by_evalues(&self) -> Result<Upper<Epsilon>> {
        self.by_evalue.provable_by(self.reached)
    }

    /// Returns the largest ε that ranks of the canaries that training meets can prove.
    ///
    /// # Errors
    /// As for [`RankAudit::provable`].
    pub fn provable_by_ranks(&self) -> Result<Upper<Epsilon>> {
        self.by_rank.provable_by(self.of(), self.reached)
    }

    /// Returns the smallest number of canaries within a threshold that contradicts this ε.
    ///
    /// # Errors
    /// As for [`EValueAudit::hits_beyond`] and [`RankAudit::hits_beyond`].
    pub fn hits_beyond(&self, epsilon: Epsilon, threshold: u64) -> Result<Option<u64>> {
        match self.decides {
            EpsilonMethod::EValue => self.by_evalue.hits_beyond(epsilon, threshold),
            _ => self.by_rank.hits_beyond(epsilon, threshold, self.of()),
        }
    }

    /// Returns the numbers of candidates and canaries.
    #[must_use]
    pub const fn of(&self) -> (u64, u64) {
        (self.by_evalue.candidates, self.by_evalue.canaries)
    }

    /// Returns the ε that canaries prove whose scores are the quantiles of their law: the expected
    /// number of hits, or the mean evidence of a canary. This is quicker than [`Self::predict`] and
    /// meant for comparing many plans, among which a sample would favour the luckiest.
    ///
    /// # Errors
    /// As for [`EValueAudit::bound`] and [`RankAudit::bound`].
    pub fn expected(&self, law: &ScoreLaw) -> Result<Estimate<Epsilon>> {
        let (candidates, canaries) = self.of();
        let scores = Scores { law, candidates };
        if self.decides != EpsilonMethod::EValue {
            let own = scores.quantiles(canaries);
            let counts: Vec<RankCount> = own.map(|own| scores.expected_rank(own)).collect();
            return Ok(Estimate::new(*self.by_rank.bound(&counts)?.lower.get()));
        }
        let times = canaries as f64 / SAMPLED as f64;
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let test = self.by_evalue.test()?;
        let cap = test.cap.map_or(f64::INFINITY, f64::ln);
        let guesses = scores
            .quantiles(SAMPLED)
            .map(|own| scores.guesses(own, &self.by_evalue, &mut random))
            .collect::<Result<Vec<_>>>()?;
        let wanted = -test.working_alpha.ln();
        let reached = |epsilon: f64| {
            let mut sums = vec![0.0; test.beliefs];
            for canary in &guesses {
                for (sum, guess) in sums.iter_mut().zip(canary) {
                    *sum += times * guess.ln_evalue(epsilon).min(cap);
                }
            }
            ln_mean(&sums) >= wanted
        };
        // Evidence is not monotone in ε, so no level may be skipped on the way up.
        let (mut low, mut width) = (0.0, STEP);
        if reached(low) {
            while low < LARGEST && width > 16.0 * RESOLUTION {
                if reached(low + width) {
                    low += width;
                } else {
                    width *= 0.5;
                }
            }
        }
        Ok(Estimate::new(Epsilon::new(low)?))
    }

    /// Returns the bound of one simulated audit.
    ///
    /// # Errors
    /// As for [`EValueAudit::bound`] and [`RankAudit::bound`].
    pub fn simulate(&self, law: &ScoreLaw, seed: u64) -> Result<Epsilon> {
        let (candidates, canaries) = self.of();
        let scores = Scores { law, candidates };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        Ok(if self.decides == EpsilonMethod::EValue {
            let guesses = (0..canaries)
                .map(|_| scores.guesses(scores.own(&mut random), &self.by_evalue, &mut random))
                .collect::<Result<Vec<_>>>()?;
            *self.by_evalue.bound(&guesses)?.lower.get()
        } else {
            let counts: Vec<RankCount> = (0..canaries).map(|_| scores.rank(&mut random)).collect();
            *self.by_rank.bound(&counts)?.lower.get()
        })
    }

    /// Summarizes the bounds of `runs` simulated audits.
    ///
    /// # Errors
    /// Returns an error if `runs` is 0, and as for [`Self::simulate`].
    pub fn predict(&self, law: &ScoreLaw, runs: u64) -> Result<Prediction> {
        check_runs(runs)?;
        let found = (0..runs).map(|seed| Ok(self.simulate(law, seed)?.get()));
        let mut found = found.collect::<Result<Vec<f64>>>()?;
        found.sort_by(f64::total_cmp);
        let at = |share: f64| found[(share * (found.len() - 1) as f64).round() as usize];
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let estimate = |value: f64| -> Result<_> { Ok(Estimate::new(Epsilon::new(value)?)) };
        Ok(Prediction {
            mean: estimate(mean)?,
            tenth: estimate(at(0.1))?,
            ninetieth: estimate(at(0.9))?,
        })
    }

    /// Returns the distance μ between two unit normals with this total variation distance.
    #[must_use]
    pub fn shift_of(total_variation: f64) -> f64 {
        2.0 * normal_quantile(0.5 + 0.5 * total_variation.clamp(0.0, 1.0 - 1e-15))
    }
}

/// Returns the share of `runs` simulated audits by in/out coins whose bound is above a promise,
/// where the scores of inserted canaries have this law, and those of the others are standard normal, as are those of the
/// inserted canaries that training does not meet.
///
/// # Errors
/// Returns an error if `runs` is 0, and as for [`coin_bound`].
pub fn coin_power(
    law: &ScoreLaw,
    coins: CoinCounts,
    terms: &AuditTerms,
    promised: Epsilon,
    runs: u64,
) -> Result<Estimate<Probability>> {
    check_runs(runs)?;
    let mut above = 0.0;
    if *coin_provable(coins.total(), terms)?.get() > promised {
        for seed in 0..runs {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let drawn: Vec<bool> = (0..coins.total()).map(|_| random.random()).collect();
            let mut unmet = coins.absent;
            let scores: Vec<f64> = drawn
                .iter()
                .map(|inside| {
                    let y = normal(&mut random);
                    if !*inside {
                        y
                    } else if unmet > 0 {
                        unmet -= 1;
                        y
                    } else {
                        law.score(y)
                    }
                })
                .collect();
            let bound = coin_bound(&coin_beliefs(&scores, &drawn)?, terms)?;
            above += f64::from(u8::from(*bound.lower.get() > promised));
        }
    }
    Ok(Estimate::new(Probability::new(above / runs as f64)?))
}

/// Refuses a simulation without a run: a share of none is no power.
fn check_runs(runs: u64) -> Result<()> {
    ranged("runs", "[1, inf)", runs, runs > 0)
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Scores of one canary's candidates.
struct Scores<'a> {
    /// The law of the secret's.
    law: &'a ScoreLaw,
    /// N.
    candidates: u64,
}

impl Scores<'_> {
    fn own(&self, random: &mut ChaCha8Rng) -> f64 {
        self.law.score(normal(random))
    }

    /// Returns the secret's scores at the middles of so many equal parts of the probability.
    fn quantiles(&self, parts: u64) -> impl Iterator<Item = f64> {
        let middle = move |i: u64| (i as f64 + 0.5) / parts as f64;
        (0..parts).map(move |i| self.law.score(-normal_quantile(middle(i))))
    }

    const fn ranked(&self, own: f64, below: u64) -> RankCount {
        RankCount {
            candidates: self.candidates,
            nll: -own,
            below,
            ties: 0,
            unresolved: 0,
        }
    }

    /// Returns the rank of a secret with this score among others at their quantiles: within t where less than a share
    /// t/N of all scores is higher.
    fn expected_rank(&self, own: f64) -> RankCount {
        let below = (self.candidates as f64 * normal_cdf(-own)) as u64;
        self.ranked(own, below.min(self.candidates - 1))
    }

    /// Draws the rank of the secret: how many of the others score higher.
    fn rank(&self, random: &mut ChaCha8Rng) -> RankCount {
        let own = self.own(random);
        let others = self.candidates - 1;
        let each = normal_cdf(-own);
        self.ranked(own, binomial(others, each, random))
    }

    /// Draws the others' scores: values and how many candidates have each.
    fn others(&self, random: &mut ChaCha8Rng) -> Vec<(f64, f64)> {
        let others = self.candidates - 1;
        let drawn = if others <= DRAWN { others } else { DRAWN / 4 };
        let mut above = 0.0_f64;
        let mut found = Vec::with_capacity(drawn as usize + PLACES);
        // The upper tail probabilities of the highest score, the next, …: order statistics of
        // uniforms.
        for left in (others - drawn + 1..=others).rev() {
            let u: f64 = 1.0 - random.random::<f64>();
            above += (1.0 - above) * -(u.ln() / left as f64).exp_m1();
            found.push((-normal_quantile(above), 1.0));
        }
        let rest = (others - drawn) as f64;
        if rest > 0.0 {
            let ratio = (-above.ln() / PLACES as f64).exp();
            for place in 0..PLACES {
                let from = above * ratio.powi(place as i32);
                let to = (from * ratio).min(1.0);
                let middle = (0.5 * (from + to)).min(1.0 - 1e-12);
                found.push((-normal_quantile(middle), rest * (to - from) / (1.0 - above)));
            }
        }
        found
    }

    /// Returns what a model with these scores believes about the secret, whose score is given.
    fn guesses(
        &self,
        own: f64,
        audit: &EValueAudit,
        random: &mut ChaCha8Rng,
    ) -> Result<CanaryGuesses> {
        let own = self.law.ln_ratio(own);
        let mut others = self.others(random);
        for (x, _) in &mut others {
            *x = self.law.ln_ratio(*x);
        }
        let n = self.candidates as f64;
        let threshold = audit.pool.threshold(n);
        let top = others.iter().map(|(x, _)| *x).fold(own, f64::max);
        let guesses = audit.tempers.iter().map(|temper| {
            let raw = |x: f64| ((x - top) / temper.temperature).exp();
            let sum = others.iter().map(|(x, count)| count * raw(*x)).sum::<f64>() + raw(own);
            let belief = |x: f64| (1.0 - temper.uniform) * raw(x) / sum + temper.uniform / n;
            let mut blocks = vec![Block::exact(1.0, belief(own), threshold)];
            let each = others.iter();
            blocks.extend(each.map(|(x, count)| Block::exact(*count, belief(*x), threshold)));
            let beliefs = Arc::new(Beliefs::of_blocks(blocks, n, audit.pool));
            beliefs.guess(belief(own))
        });
        guesses.collect()
    }
}

/// Draws a binomial count: by inversion if its mean is small, otherwise by the normal
/// approximation.
fn binomial(trials: u64, chance: f64, random: &mut ChaCha8Rng) -> u64 {
    let mean = trials as f64 * chance;
    let u: f64 = random.random();
    if mean > 200.0 {
        let x = mean + normal_quantile(u) * (mean * (1.0 - chance)).sqrt();
        return x.round().clamp(0.0, trials as f64) as u64;
    }
    let odds = chance / (1.0 - chance).max(f64::MIN_POSITIVE);
    let mut term = (trials as f64 * (-chance).ln_1p()).exp();
    let (mut sum, mut count) = (term, 0);
    while sum < u && count < trials {
        term *= odds * (trials - count) as f64 / (count + 1) as f64;
        count += 1;
        sum += term;
        if term < 1e-300 {
            break;
        }
    }
    count
}
