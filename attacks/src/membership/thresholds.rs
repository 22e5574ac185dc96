//! From scores to a lower bound on ε, with thresholds that cannot be shopped for.

use super::set::{ScoreSet, falling};
use crate::audit_bound::{AuditBound, AuditTerms};
use crate::error::{Error, Result};
use crate::one_run::OneRunCounts;
use crate::rates::{RateCounts, Sides};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the threshold of a lower bound comes from. Searching all thresholds without a
/// correction raises the false alarms from 5 % to 37 % (1000 coins, nothing to find).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ThresholdRule {
    /// Named before the scores were seen: guessed members are those above it.
    Fixed(f64),
    /// The best of one random half; the bound is the other half's.
    Split {
        /// Draws the halves.
        seed: u64,
    },
    /// Halving numbers of guesses, fixed by the sample size alone; they share the failure
    /// probability.
    Bonferroni,
}

impl ScoreSet {
    /// A lower bound on ε(δ) from coins of one run: members are the canaries that were put in,
    /// non-members those left out, every coin fair and independent. `gaussian` asks for the
    /// bound under a Gaussian trade-off. Direction: lower.
    ///
    /// Guesses are the records with the largest scores, so that what is guessed depends on the
    /// model and never on the coins. Equal scores at the cut are not guessed.
    ///
    /// # Errors
    /// Grouped records (their coins are not independent: one record a coin), NaN as threshold,
    /// terms that [`OneRunCounts::bound`] refuses.
    pub fn one_run(
        &self,
        rule: ThresholdRule,
        gaussian: bool,
        terms: &AuditTerms,
    ) -> Result<AuditBound> {
        self.refuse_groups()?;
        let m = (self.members.len() + self.non_members.len()) as u64;
        let bound = |set: &Self, threshold: f64, m: u64, terms: &AuditTerms| {
            let (tp, fp) = set.above(threshold);
            let counts = OneRunCounts::new(m, tp + fp, tp)?;
            if gaussian {
                counts.gaussian_bound(terms)
            } else {
                counts.bound(terms)
            }
        };
        match rule {
            ThresholdRule::Fixed(threshold) => bound(self, number(threshold)?, m, terms),
            ThresholdRule::Split { seed } => {
                let (first, second) = self.halves_of_all(seed)?;
                let size = |set: &Self| (set.members.len() + set.non_members.len()) as u64;
                let mut best = (0.0, f64::INFINITY);
                for threshold in first.pooled_cuts() {
                    let found = bound(&first, threshold, size(&first), terms)?;
                    let epsilon = found.lower.get().get();
                    if epsilon > best.0 {
                        best = (epsilon, threshold);
                    }
                }
                bound(&second, best.1, size(&second), terms)
            }
            ThresholdRule::Bonferroni => {
                let cuts = self.pooled_cuts();
                let each = terms.shared_by(cuts.len())?;
                let found = cuts.iter().map(|&cut| bound(self, cut, m, &each));
                largest(found, cuts.len(), terms)
            }
        }
    }

    /// A lower bound on ε(δ) from independent trials, by Clopper and Pearson, or under a
    /// Gaussian trade-off. Direction: lower.
    ///
    /// Without a fixed threshold the thresholds are scores of non-members by rank: the rate
    /// above the (k+1)-th largest of n is bounded as k of n would be, whatever k.
    ///
    /// # Errors
    /// As [`Self::one_run`], and for [`RateCounts::bound`].
    pub fn independent_trials(
        &self,
        rule: ThresholdRule,
        gaussian: bool,
        terms: &AuditTerms,
    ) -> Result<AuditBound> {
        self.refuse_groups()?;
        let bound = |set: &Self, tp: u64, fp: u64, terms: &AuditTerms| {
            let (m, n) = (set.members.len() as u64, set.non_members.len() as u64);
            let counts = RateCounts::new(tp, m, fp, n)?;
            if gaussian {
                counts.gaussian_bound(terms)
            } else {
                counts.bound(Sides::Both, terms)
            }
        };
        match rule {
            ThresholdRule::Fixed(threshold) => {
                let (tp, fp) = self.above(number(threshold)?);
                bound(self, tp, fp, terms)
            }
            ThresholdRule::Split { seed } => {
                let (first, second) = self.halves(seed)?;
                let mut best = (0.0, f64::INFINITY);
                for (threshold, _) in first.non_member_cuts() {
                    let (tp, fp) = first.above(threshold);
                    let epsilon = bound(&first, tp, fp, terms)?.lower.get().get();
                    if epsilon > best.0 {
                        best = (epsilon, threshold);
                    }
                }
                let (tp, fp) = second.above(best.1);
                bound(&second, tp, fp, terms)
            }
            ThresholdRule::Bonferroni => {
                let cuts = self.non_member_cuts();
                let each = terms.shared_by(cuts.len())?;
                let found = cuts.iter().map(|&(cut, allowed)| {
                    let (tp, _) = self.above(cut);
                    bound(self, tp, allowed, &each)
                });
                largest(found, cuts.len(), terms)
            }
        }
    }

    fn refuse_groups(&self) -> Result<()> {
        match self.groups() {
            None => Ok(()),
            Some(groups) => Err(Error::Unsuitable {
                what: "groups",
                needed: "none: an epsilon needs one independent coin a record",
                got: format!("{groups} groups; thin them to one record each"),
            }),
        }
    }

    /// Scores above which ⌈m/2⌉, ⌈m/4⌉, … records lie at most; not fewer than eight.
    fn pooled_cuts(&self) -> Vec<f64> {
        let mut all = falling(&self.members);
        all.extend(&self.non_members);
        let all = falling(&all);
        halving(all.len())
            .map(|guesses| all.get(guesses).copied().unwrap_or(f64::NEG_INFINITY))
            .collect()
    }

    /// Non-members' scores by rank, with the false positives that each stands for: 0, and
    /// n/2, n/4, … .
    fn non_member_cuts(&self) -> Vec<(f64, u64)> {
        let outside = falling(&self.non_members);
        halving(outside.len())
            .chain([0])
            .map(|k| {
                (
                    outside[k.min(outside.len() - 1)],
                    k.min(outside.len() - 1) as u64,
                )
            })
            .collect()
    }
}

/// n/2, n/4, … while at least eight; at least one number.
fn halving(n: usize) -> impl Iterator<Item = usize> {
    let first = n.div_ceil(2);
    std::iter::successors(Some(first), |k| (k / 2 >= 8).then_some(k / 2))
}

fn number(threshold: f64) -> Result<f64> {
    if threshold.is_nan() {
        return Err(Error::out_of_range("threshold", "[-inf, inf]", threshold));
    }
    Ok(threshold)
}

/// The largest bound of several tests, in the terms of all together.
fn largest(
    found: impl Iterator<Item = Result<AuditBound>>,
    tests: usize,
    terms: &AuditTerms,
) -> Result<AuditBound> {
    let mut best: Option<AuditBound> = None;
    for bound in found {
        let bound = bound?;
        if best
            .as_ref()
            .is_none_or(|b| bound.lower.get() > b.lower.get())
        {
            best = Some(bound);
        }
    }
    let mut best = best.ok_or(Error::Empty("no threshold was given"))?;
    best.terms = terms.clone();
    best.tests = tests;
    Ok(best)
}
