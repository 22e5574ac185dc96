//! Rank audits by e-values: a lower bound on ε from a model's beliefs about each secret.
//!
//! # Statement
//! There are m secrets. Secret i is uniform on N candidates given everything else the auditor
//! conditions on. A mechanism is (ε, 0)-indistinguishable (in both directions) when all copies of
//! one secret are replaced at once, whatever the others are. The auditor sees the release and, for
//! each i in turn, states a belief b_i over the candidates, which may depend on the release and on
//! the secrets revealed before; then s_i is revealed. Let r_i = clip(b_i, a, a e^ε), where a is
//! such that r_i sums to 1. Then e_i = b_i(s_i) / r_i(s_i) satisfies
//!
//! E[e_i | release, s_1, …, s_{i−1}] ≤ 1.
//!
//! E_t(ε) = Π_{i ≤ t} e_i is therefore a non-negative supermartingale, and so are averages of such
//! products over beliefs fixed in advance; hence P(∃ t: E_t(ε) ≥ 1/α) ≤ α (Ville).
//!
//! # Proof
//! Given the release and the secrets before i, the posterior p of s_i has p(x) ≤ e^ε p(y) for all
//! x, y (average over the later secrets). Let S = {b > a e^ε}, D = {b < a}; elsewhere b = r.
//! Σ p (b/r − 1) = Σ_S p (b − a e^ε)/(a e^ε) − Σ_D p (a − b)/a. Both Σ_S (b − a e^ε) and
//! Σ_D (a − b) are one number M, since r sums to 1; with p ≤ e^ε min p on S and p ≥ min p on D
//! the difference is at most min p · (M − M)/a = 0. ∎
//!
//! A larger a makes every e_i smaller, and so does a smaller b(s). An upper bound on a and a lower
//! bound on b(s) therefore suffice where a search did not evaluate every candidate.
//!
//! # δ > 0
//! Let every e be capped at F, and let at least ℓ candidates share the least belief. Then
//! P(∃ t ≤ m: E_t ≥ 1/α') ≤ α' + m δ (F − 1)(N − 1)/ℓ.
//! *Proof.* Transport the surplus of S to the lack of D by the product plan
//! γ(x, y) = (b_x − a e^ε)₊ (a − b_y)₊ / M. Then Σ p (e − 1) = Σ_{x,y} γ(x, y)/(a e^ε) ·
//! (p_x − e^ε p_y), and γ/(a e^ε) ≤ (F − 1)/ℓ: the first factor is e_x − 1 (capped: smaller), and
//! (a − b_y)/M ≤ 1/ℓ as M ≥ ℓ (a − min b). Integrated over the outputs, each of the N (N − 1)
//! ordered pairs adds at most δ (F − 1)/ℓ, weighted by 1/N. Up to the first crossing
//! α' E_{i−1} ≤ 1, so the m steps add m times that to E[α' E] ≤ α'. ∎
//! F, ℓ and m are fixed in advance; nothing may be added to such an audit later.
//!
//! # The bound
//! The bound is the first level that is not rejected, inf{ε ≥ 0: max_t E_t(ε) < 1/α}, found by
//! going up from 0: if it were above the true ε₀, ε₀ itself would be rejected. The largest level
//! with E ≥ 1/α is **not** a bound, because E is not monotone in ε. Between two levels ln e_i
//! decreases towards 0 where it is positive and increases towards 0 where it is negative, so the
//! positive parts at the upper end and the negative ones at the lower end bound ln E on the whole
//! interval.
//!
//! Source: Steinke, Nasr and Jagielski 2023 for auditing with one run; Grünwald, de Heide and
//! Koolen 2024 for e-values as likelihood ratios against the reverse information projection.

mod belief;
mod coins;
mod design;
mod gather;
mod law;
mod sequential;

pub use belief::{Beliefs, Guess, Pool, Temper};
pub use coins::coin_beliefs;
use coins::largest_beliefs;
pub use design::{PlannedAudit, Prediction, coin_power};
pub(crate) use gather::{BeliefTracker, Gathered, LnBeliefs, MOST as MOST_BELIEFS};
pub use law::ScoreLaw;
pub use sequential::SequentialTest;

use crate::audit_bound::{AuditBound, AuditTerms};
use crate::draw::Draw;
use crate::error::{Error, Result, counted, given, ranged, suited};
use crate::exposure::{Assumption, EpsilonBound, EpsilonMethod, RankAudit};
use crate::statistics::{bisect_last, ln_mean};
use reticent_accounting::{Confidence, Delta, Epsilon, Lower, Neighbours, Upper};
use reticent_corpus::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The resolution of the bound, relative to 1 + ε.
const RESOLUTION: f64 = 1e-4;

/// The possible error of sums of logarithms.
const ROUNDING: f64 = 1e-9;

/// The largest ε that is considered; e^ε stays finite.
const LARGEST: f64 = 500.0;

/// The test's own numbers, which follow from the plan of an audit before anything is scored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EValueTest {
    /// α′: E has to reach 1/α′.
    pub working_alpha: f64,
    /// F, at which each e-value is capped; absent without a cap.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cap: Option<f64>,
    /// ℓ, the fewest candidates that share the least belief.
    pub pooled: u64,
    /// The beliefs averaged over.
    pub beliefs: usize,
}

impl EValueTest {
    /// Returns the largest ε that is rejected if ln E is at `most` what this function says.
    fn largest(&self, most: impl Fn(f64) -> f64) -> Result<Upper<Epsilon>> {
        let wanted = -self.working_alpha.ln();
        if most(0.0) < wanted {
            return Ok(Upper::new(Epsilon::new(0.0)?));
        }
        let epsilon = bisect_last(0.0, LARGEST, |epsilon| most(epsilon) >= wanted);
        Ok(Upper::new(Epsilon::new(epsilon * (1.0 + 1e-12))?))
    }
}

/// What must be fixed before a model is scored.
#[derive(Debug, Clone, PartialEq)]
pub struct EValueAudit {
    /// The beliefs that are averaged over.
    pub tempers: Vec<Temper>,
    /// 1 − α, the probability that the bound holds.
    pub confidence: Confidence,
    /// The δ of the ε that is bounded.
    pub delta: Delta,
    /// How the secrets were drawn.
    pub draw: Draw,
    /// What one record is in the audited training.
    pub unit: Unit,
    /// The number of records that hold one secret and are replaced together.
    pub copies: u64,
    /// N, the number of candidates.
    pub candidates: u64,
    /// m, the number of secrets; with δ > 0 no more may follow.
    pub canaries: u64,
    /// Which candidates share one belief: the slack for δ > 0 decreases with their number.
    pub pool: Pool,
}

/// The beliefs about one canary: a guess for each belief that is averaged over, in their order.
pub type CanaryGuesses = Vec<Guess>;

impl EValueAudit {
    /// Returns the audit of the same canaries as a rank audit, with the usual tempers and the
    /// smallest pool that leaves room for a useful cap.
    #[must_use]
    pub fn beside(rank: &RankAudit, candidates: u64, canaries: u64) -> Self {
        let alpha = 1.0 - rank.confidence.get();
        Self {
            pool: usual_pool(alpha, rank.delta.get(), canaries, candidates),
            tempers: Self::usual_tempers(),
            confidence: rank.confidence,
            delta: rank.delta,
            draw: rank.draw,
            unit: rank.unit,
            copies: rank.copies,
            candidates,
            canaries,
        }
    }

    /// Returns the usual tempers: the model's own probabilities, sharpened and softened.
    #[must_use]
    pub fn usual_tempers() -> Vec<Temper> {
        TEMPERS
            .map(|(temperature, uniform)| Temper {
                temperature,
                uniform,
            })
            .to_vec()
    }

    /// Returns the test's parameters.
    ///
    /// # Errors
    /// Returns an error if there is no belief, no canary or no copy, if there are fewer than two
    /// candidates, if δ = 1, or if distinct canaries would collide too often.
    pub fn test(&self) -> Result<EValueTest> {
        given(self.canaries > 0, "no canary was given")?;
        ranged(
            "candidates",
            "[2, inf)",
            self.candidates,
            self.candidates >= 2,
        )?;
        ranged("copies", "[1, inf)", self.copies, self.copies > 0)?;
        let alpha =
            (1.0 - self.confidence.get()) * self.draw.uncollided(self.candidates, self.canaries)?;
        test_of(
            alpha,
            self.delta.get(),
            self.canaries,
            self.candidates,
            self.pool,
            self.tempers.len(),
        )
    }

    /// Returns the lower bound on ε that these guesses support.
    ///
    /// Direction: lower. The canaries are revealed in the order given, which may not depend on
    /// their secrets; the bound is the one at the best stopping time.
    ///
    /// # Errors
    /// Returns an error if the number of canaries or of guesses is not the planned one, and as for
    /// [`Self::test`].
    pub fn bound(&self, canaries: &[CanaryGuesses]) -> Result<EpsilonBound> {
        counted(
            "canaries",
            canaries.len(),
            usize::try_from(self.canaries).unwrap_or(usize::MAX),
        )?;
        let mut process = EValueProcess::new(self)?;
        for guesses in canaries {
            process.reveal(guesses.clone())?;
        }
        self.found(&process)
    }

    /// Returns what limits the secrets that may be revealed: with δ > 0 each takes its part of the
    /// slack, and the more secrets there are, the less likely independent ones are distinct.
    fn limits(&self, test: &EValueTest) -> Limits {
        let limited = test.cap.is_some() || self.draw == Draw::Distinct;
        Limits {
            planned: limited.then_some(self.canaries),
            candidates: Some(self.candidates),
        }
    }

    /// Returns what a sequence of revealed secrets proves so far, in this audit's terms.
    ///
    /// # Errors
    /// Returns an error if the process was created for another audit.
    pub fn found(&self, process: &EValueProcess) -> Result<EpsilonBound> {
        let test = self.test()?;
        suited(
            "process",
            "one that was created for this audit",
            "one with another test or plan",
            process.test == test && process.limits == self.limits(&test),
        )?;
        Ok(EpsilonBound {
            lower: process.bound()?,
            confidence: self.confidence,
            delta: self.delta,
            neighbours: Neighbours::Replace,
            unit: self.unit,
            copies: self.copies,
            method: EpsilonMethod::EValue,
            assumes: Assumption::of(self.delta),
            threshold: None,
            hits: None,
            canaries: process.revealed() as u64,
            thresholds: None,
            e_value: Some(process.test),
        })
    }

    /// Returns the largest ε that this audit can prove: every secret is the top candidate of a
    /// belief that is as certain as the audit's tempers allow.
    ///
    /// No belief gives more than e = 1 + (N − 1) e^−ε; the uniform share of a temper reduces it
    /// further.
    ///
    /// # Errors
    /// As for [`Self::test`].
    pub fn provable(&self) -> Result<Upper<Epsilon>> {
        self.provable_by(self.canaries)
    }

    /// Returns the largest ε that `hits` of the secrets can prove, each of them the top candidate of such a belief. The
    /// others are no evidence for or against it: the bound is the one at the best stopping time.
    ///
    /// # Errors
    /// As for [`Self::test`].
    pub(crate) fn provable_by(&self, hits: u64) -> Result<Upper<Epsilon>> {
        let test = self.test()?;
        let hits = hits.min(self.canaries);
        let rejected = |epsilon: f64| self.ln_at_best(&test, epsilon, (hits, 0), 1);
        test.largest(rejected)
    }

    /// Returns the smallest number of canaries within the first `threshold` candidates that proves
    /// more than this ε, if the belief in those candidates is as certain as it can be; `None` if
    /// not even all canaries do.
    ///
    /// # Errors
    /// As for [`Self::test`].
    pub fn hits_beyond(&self, epsilon: Epsilon, threshold: u64) -> Result<Option<u64>> {
        let test = self.test()?;
        let wanted = -test.working_alpha.ln();
        let enough = |hits: u64| {
            let misses = self.canaries - hits;
            self.ln_at_best(&test, epsilon.get(), (hits, misses), threshold.max(1)) > wanted
        };
        Ok((1..=self.canaries).find(|&hits| enough(hits)))
    }

    /// Returns ln E of secrets of which `hits` are among the `threshold` candidates that receive all belief, and
    /// `misses` are not.
    fn ln_at_best(
        &self,
        test: &EValueTest,
        epsilon: f64,
        (hits, misses): (u64, u64),
        threshold: u64,
    ) -> f64 {
        let n = self.candidates as f64;
        let t = (threshold as f64).min(n - 1.0);
        let misses = misses as f64;
        let each = self.tempers.iter().map(|temper| {
            let other = temper.uniform / n;
            let own = (1.0 - temper.uniform) / t + other;
            // a (t e^ε + N − t) = 1 while the head is above a e^ε.
            let floor = 1.0 / (t * epsilon.exp() + n - t);
            let hit = ln_clipped(own, floor, epsilon);
            let hit = test.cap.map_or(hit, |cap| hit.min(cap.ln()));
            let miss = ln_clipped(other, floor, epsilon);
            hits as f64 * hit + if misses > 0.0 { misses * miss } else { 0.0 }
        });
        ln_mean(&each.collect::<Vec<_>>())
    }

    /// Returns which test decides, from what is known before anything is scored: e-values if they
    /// can prove about as much as the rank test. E-values use all canaries at once. With ten
    /// canaries, the rank test proves more if only some of them are remembered
    /// (`examples/evalue_gains.rs`).
    ///
    /// # Errors
    /// As for [`Self::test`] and [`RankAudit::bound`].
    pub fn decides(&self, rank: &RankAudit) -> Result<EpsilonMethod> {
        let by_rank = rank.provable(self.candidates, self.canaries)?;
        let by_evalue = self.provable()?;
        let about = by_evalue.get().get() >= 0.9 * by_rank.get().get();
        Ok(if self.canaries >= FEWEST && about {
            EpsilonMethod::EValue
        } else {
            EpsilonMethod::RankAudit
        })
    }
}

/// The smallest number of canaries for the e-value test; fewer are left to the rank test.
const FEWEST: u64 = 50;

/// The temperatures and shares of the uniform distribution that are averaged over.
const TEMPERS: [(f64, f64); 3] = [(0.5, 0.03), (1.0, 0.05), (2.0, 0.05)];

/// Returns ln(b / clip(b, a, a e^ε)).
fn ln_clipped(weight: f64, floor: f64, epsilon: f64) -> f64 {
    let over = (weight / floor).ln();
    if over > epsilon {
        over - epsilon
    } else {
        over.min(0.0)
    }
}

/// Shares of α that the slack for δ > 0 may take; the first that suffices is used.
const SHARES: [f64; 4] = [0.01, 0.02, 0.05, 0.1];

/// The share that the slack takes if none of `SHARES` suffices.
const LARGEST_SHARE: f64 = 0.5;

/// What is pooled below which multiple of 1/N, the fewest first: 9.1 % of the candidates at least, a
/// fifth, a third, half, three quarters.
const POOLED: [f64; 5] = [1.1, 1.25, 1.5, 2.0, 4.0];

/// F that is worth having: a quarter of the canaries, or one if that is more, have to be able to
/// reach 1/α by themselves. At least 5, and at most N.
fn useful_cap(alpha: f64, canaries: u64, candidates: u64) -> f64 {
    let few = (4.0 / canaries as f64).min(1.0);
    (candidates as f64).min(alpha.powf(-few).max(5.0))
}

/// Returns the part of α that the slack takes per unit of F − 1.
fn price(delta: f64, canaries: u64, candidates: u64, pool: Pool) -> f64 {
    let ordered = canaries as f64 * (candidates as f64 - 1.0);
    delta * ordered / pool.least_size(candidates) as f64
}

/// Returns the smallest pool that leaves room for a useful cap; no pool at δ = 0 or for coins.
fn usual_pool(alpha: f64, delta: f64, canaries: u64, candidates: u64) -> Pool {
    if delta <= 0.0 || candidates <= 2 {
        return Pool::NONE;
    }
    let mut pool = Pool::NONE;
    for below in POOLED {
        pool = Pool::below(below).unwrap_or(pool);
        let cap = 1.0 + SHARES[3] * alpha / price(delta, canaries, candidates, pool);
        if cap >= useful_cap(alpha, canaries, candidates) {
            break;
        }
    }
    pool
}

/// Returns α′ and F for δ > 0, with the smallest share of α for the slack that leaves room for a
/// useful F.
fn test_of(
    alpha: f64,
    delta: f64,
    canaries: u64,
    candidates: u64,
    pool: Pool,
    beliefs: usize,
) -> Result<EValueTest> {
    given(beliefs > 0, "no belief was given")?;
    ranged("delta", "[0, 1)", delta, delta < 1.0)?;
    let pure = EValueTest {
        working_alpha: alpha,
        cap: None,
        pooled: pool.least_size(candidates),
        beliefs,
    };
    if delta <= 0.0 {
        return Ok(pure);
    }
    let price = price(delta, canaries, candidates, pool);
    let cap = |share: f64| 1.0 + share * alpha / price;
    let wanted = useful_cap(alpha, canaries, candidates);
    let share = SHARES.into_iter().find(|share| cap(*share) >= wanted);
    let share = share.unwrap_or(LARGEST_SHARE);
    Ok(EValueTest {
        working_alpha: alpha * (1.0 - share),
        cap: Some(cap(share)),
        ..pure
    })
}

/// What a test takes for granted about the secrets that it reveals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// How many may be revealed; absent for any number.
    planned: Option<u64>,
    /// N of each; absent for secrets with different numbers of candidates.
    candidates: Option<u64>,
}

/// Checks whether a test may reveal one more secret, with these guesses about it.
fn check_guesses(
    test: &EValueTest,
    limits: &Limits,
    revealed: u64,
    guesses: &CanaryGuesses,
) -> Result<()> {
    counted("guesses", guesses.len(), test.beliefs)?;
    for guess in guesses {
        let beliefs = &guess.beliefs;
        if let Some(candidates) = limits.candidates
            && (beliefs.candidates() - candidates as f64).abs() > 0.5
        {
            return Err(Error::OutOfRange {
                what: "candidates of a belief",
                range: "the number of candidates of the audit",
                value: format!("{} for {candidates}", beliefs.candidates()),
            });
        }
        ranged(
            "candidates that share the least belief",
            "[those that the audit's pool shares, inf): fewer would need more slack than was set aside",
            format_args!("{} for {}", beliefs.shared(), test.pooled),
            test.cap.is_none() || beliefs.shared() >= test.pooled as f64,
        )?;
    }
    match limits.planned {
        Some(planned) if revealed >= planned => Err(Error::OutOfRange {
            what: "secrets of an audit with delta > 0, or of distinct secrets",
            range: "[1, planned]: more would need more slack than was set aside",
            value: format!("{} of {planned}", revealed + 1),
        }),
        _ => Ok(()),
    }
}

/// An audit process in which secrets are revealed one by one.
#[derive(Debug, Clone)]
pub struct EValueProcess {
    test: EValueTest,
    limits: Limits,
    canaries: Vec<CanaryGuesses>,
}

impl EValueProcess {
    /// Creates the process of an audit in which nothing is revealed yet. If δ > 0 or the secrets are
    /// distinct, at most `audit.canaries` secrets may be revealed.
    ///
    /// # Errors
    /// As for [`EValueAudit::test`].
    pub fn new(audit: &EValueAudit) -> Result<Self> {
        let test = audit.test()?;
        Self::limited(test, audit.limits(&test))
    }

    /// Creates the process of `coins` fair in/out coins (N = 2), with `beliefs` beliefs about each. If
    /// δ > 0, at most `coins` coins may be revealed.
    ///
    /// # Errors
    /// Returns an error if there is no coin or no belief, if δ = 1, or if there are zero copies.
    pub fn of_coins(coins: u64, terms: &AuditTerms, beliefs: usize) -> Result<Self> {
        let test = coin_test(coins, terms, beliefs)?;
        let limits = Limits {
            planned: test.cap.map(|_| coins),
            candidates: Some(2),
        };
        Self::limited(test, limits)
    }

    fn limited(test: EValueTest, limits: Limits) -> Result<Self> {
        crate::statistics::check_open_unit("working alpha", test.working_alpha)?;
        Ok(Self {
            test,
            limits,
            canaries: Vec::new(),
        })
    }

    /// Creates a process for secrets with different numbers of candidates, at δ = 0: without a cap
    /// and for any number of secrets.
    ///
    /// # Errors
    /// Returns an error if the level is outside (0, 1) or if there is no belief.
    pub fn pure(alpha: f64, beliefs: usize) -> Result<Self> {
        given(beliefs > 0, "no belief was given")?;
        let test = EValueTest {
            working_alpha: alpha,
            cap: None,
            pooled: 1,
            beliefs,
        };
        let limits = Limits {
            planned: None,
            candidates: None,
        };
        Self::limited(test, limits)
    }

    /// Reveals the next secret. The beliefs behind its guesses must be stated before.
    ///
    /// # Errors
    /// Returns an error if there are more secrets than planned at δ > 0 or for distinct secrets, if the
    /// number of guesses is not that of beliefs, if a belief has another number of candidates than the
    /// audit, or, at δ > 0, if fewer candidates share its least belief than in the audit's pool.
    pub fn reveal(&mut self, guesses: CanaryGuesses) -> Result<()> {
        let revealed = self.canaries.len() as u64;
        check_guesses(&self.test, &self.limits, revealed, &guesses)?;
        self.canaries.push(guesses);
        Ok(())
    }

    /// Returns the number of secrets revealed so far.
    #[must_use]
    pub fn revealed(&self) -> usize {
        self.canaries.len()
    }

    /// Returns whether this ε is rejected: whether E at this ε is, or was at any time, at least
    /// 1/α′. Use this to test a promised ε by itself. A bound uses the same α, so do not use both.
    #[must_use]
    pub fn rejects(&self, epsilon: Epsilon) -> bool {
        let at = self.parts(epsilon.get());
        self.rejected(&at, &at)
    }

    /// Returns a lower bound on max_t ln E_t at this ε.
    #[must_use]
    pub fn ln_evalue(&self, epsilon: Epsilon) -> f64 {
        let at = self.parts(epsilon.get());
        self.highest(&at, &at)
    }

    /// Returns the first level that is not rejected. Direction: lower.
    ///
    /// # Errors
    /// None for a process created by [`Self::new`].
    pub fn bound(&self) -> Result<Lower<Epsilon>> {
        let mut low = 0.0;
        let mut at_low = self.parts(low);
        if !self.rejected(&at_low, &at_low) {
            return Ok(Lower::new(Epsilon::new(0.0)?));
        }
        let mut width = 0.25;
        while low < LARGEST {
            let high = low + width;
            let at_high = self.parts(high);
            if self.rejected(&at_low, &at_high) {
                (low, at_low) = (high, at_high);
                width *= 2.0;
            } else {
                width *= 0.5;
                if width < RESOLUTION * (1.0 + low) {
                    break;
                }
            }
        }
        Ok(Lower::new(Epsilon::new(low)?))
    }

    /// Returns whether all levels between two ends are rejected.
    fn rejected(&self, low: &[f64], high: &[f64]) -> bool {
        self.highest(low, high) >= -self.test.working_alpha.ln() + ROUNDING
    }

    /// Returns the largest lower end of ln E_t on an interval, over t: positive terms are least at
    /// the upper end, negative ones at the lower end.
    fn highest(&self, low: &[f64], high: &[f64]) -> f64 {
        let beliefs = self.test.beliefs;
        let mut sums = vec![0.0; beliefs];
        let mut best = 0.0_f64;
        for (low, high) in low.chunks(beliefs).zip(high.chunks(beliefs)) {
            for ((sum, low), high) in sums.iter_mut().zip(low).zip(high) {
                *sum += if *low > 0.0 { *high } else { *low };
            }
            best = best.max(ln_mean(&sums));
        }
        best
    }

    /// Returns ln e of every canary and belief at this ε, capped.
    fn parts(&self, epsilon: f64) -> Vec<f64> {
        let cap = self.test.cap.map_or(f64::INFINITY, f64::ln);
        let mut floors: HashMap<*const Beliefs, f64> = HashMap::new();
        let guesses = self.canaries.iter().flatten();
        guesses
            .map(|guess| {
                let key = std::sync::Arc::as_ptr(&guess.beliefs);
                let floor = *floors
                    .entry(key)
                    .or_insert_with(|| guess.beliefs.floor(epsilon));
                guess.ln_evalue_at(floor, epsilon).min(cap)
            })
            .collect()
    }
}

/// Returns the lower bound on ε from beliefs about fair in/out coins of one run: N = 2.
///
/// Direction: lower. There is no number of guesses to choose, so no correction for such a choice is
/// needed.
///
/// # Errors
/// Returns an error if there is no coin or no guess, if coins have different numbers of guesses, if a
/// belief is not about two candidates, if δ = 1, or if there are zero copies.
pub fn coin_bound(coins: &[CanaryGuesses], terms: &AuditTerms) -> Result<AuditBound> {
    let first = coins.first().ok_or(Error::Empty("no canary was given"))?;
    let planned = coins.len() as u64;
    let mut process = EValueProcess::of_coins(planned, terms, first.len())?;
    for guesses in coins {
        process.reveal(guesses.clone())?;
    }
    let epsilon = process.bound()?.get().get();
    AuditBound::new(epsilon, terms, EpsilonMethod::EValue)
}

/// Returns the largest ε that `coins` coins can prove, if every score tells its coin as clearly as a score can. Even
/// then the curves keep a distance from certainty, and that they may be trusted is learned coin by coin.
///
/// # Errors
/// Returns an error if there is no coin, if δ = 1, or if there are zero copies.
pub fn coin_provable(coins: u64, terms: &AuditTerms) -> Result<Upper<Epsilon>> {
    let all = CoinCounts {
        met: coins,
        absent: 0,
        out: 0,
    };
    coin_provable_of(all, terms)
}

/// The canaries of an audit by in/out coins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinCounts {
    /// Included canaries that training met.
    pub met: u64,
    /// Included canaries that it did not meet.
    pub absent: u64,
    /// Canaries that are left out.
    pub out: u64,
}

impl CoinCounts {
    /// Returns the number of coins.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.met + self.absent + self.out
    }
}

/// Returns the largest ε that coins can prove where training did not meet all included canaries.
///
/// The scores of canaries that training met tell their coins as clearly as a score can. Those of the others can't tell
/// the absent ones from those left out: of these n coins, a belief p = max(absent, out)/n is the best, and the sum of
/// their ln e is n KL(p ‖ 1/(1 + e^−ε)) where p is above 1/(1 + e^−ε), and 0 elsewhere.
///
/// # Errors
/// As for [`coin_provable`].
pub fn coin_provable_of(coins: CoinCounts, terms: &AuditTerms) -> Result<Upper<Epsilon>> {
    let CoinCounts { met, absent, out } = coins;
    let test = coin_test(coins.total(), terms, 1)?;
    let cap = test.cap.map_or(f64::INFINITY, f64::ln);
    let beliefs: Vec<f64> = largest_beliefs(met + out).iter().map(|b| b.ln()).collect();
    let (of_out, of_met) = beliefs.split_at(usize::try_from(out).unwrap_or(usize::MAX));
    let alike = (absent + out) as f64;
    let likelier = absent.max(out) as f64 / alike;
    // p ln(p/q), with −ln q.
    let part = |p: f64, ln: f64| if p > 0.0 { p * (p.ln() + ln) } else { 0.0 };
    // A belief b in what a coin shows gives e = b (1 + e^−ε) where that is above 1, and 1 at most elsewhere.
    let most = |epsilon: f64| -> f64 {
        let room = (-epsilon).exp().ln_1p();
        let by_scores =
            |beliefs: &[f64]| -> f64 { beliefs.iter().map(|ln| (ln + room).clamp(0.0, cap)).sum() };
        let by_counts = match absent {
            0 => f64::INFINITY,
            // 1/(1 + e^−ε) is e^−room.
            _ if likelier.ln() + room <= 0.0 => 0.0,
            _ => alike * (part(likelier, room) + part(1.0 - likelier, room + epsilon)),
        };
        by_scores(of_met) + by_scores(of_out).min(by_counts)
    };
    test.largest(most)
}

/// Returns the test for `coins` fair in/out coins, with `beliefs` beliefs about each.
fn coin_test(coins: u64, terms: &AuditTerms, beliefs: usize) -> Result<EValueTest> {
    given(coins > 0, "no canary was given")?;
    terms.check()?;
    let (alpha, delta) = (terms.alpha(), terms.delta.get());
    test_of(alpha, delta, coins, 2, Pool::NONE, beliefs)
}
