//! Scores of known members and non-members.

use crate::are_alike;
use crate::error::{Result, counted, given, numbers, ranged};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_accounting::statistics::{clopper_pearson_lower, clopper_pearson_upper};
use reticent_accounting::{Bounds, Confidence, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Scores of members and non-members; a higher score indicates membership.
///
/// Records that share a secret (or an author, a template) are not independent evidence: give
/// them one group.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreSet {
    pub(super) members: Vec<f64>,
    pub(super) non_members: Vec<f64>,
    pub(super) groups: Option<Groups>,
}

impl ScoreSet {
    /// Returns whether all scores are equal up to rounding.
    #[must_use]
    pub fn is_alike(&self) -> bool {
        are_alike(self.members.iter().chain(&self.non_members).copied())
    }
}

/// A group number for every record.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Groups {
    pub(super) members: Vec<usize>,
    pub(super) non_members: Vec<usize>,
    pub(super) count: usize,
}

impl Groups {
    /// Numbers the groups of members and of non-members in the order in which they occur.
    pub(super) fn of<G: Ord>(
        members: impl Iterator<Item = G>,
        non_members: impl Iterator<Item = G>,
    ) -> Self {
        let mut known = BTreeMap::new();
        let mut number = |group| {
            let next = known.len();
            *known.entry(group).or_insert(next)
        };
        let members = members.map(&mut number).collect();
        let non_members = non_members.map(&mut number).collect();
        Self {
            members,
            non_members,
            count: known.len(),
        }
    }

    /// Returns the number of members and of non-members of each group.
    fn sizes(&self) -> Vec<[usize; 2]> {
        let mut sizes = vec![[0; 2]; self.count];
        self.members.iter().for_each(|&g| sizes[g][0] += 1);
        self.non_members.iter().for_each(|&g| sizes[g][1] += 1);
        sizes
    }

    /// Returns the effective number of groups with members, or that of groups with non-members, whichever is smaller:
    /// of groups of n records each, (Σn)²/Σn², their number if they are equally large.
    pub(super) fn effective(&self) -> f64 {
        let sizes = self.sizes();
        let of = |side: usize| {
            let sizes = sizes.iter().map(|size| size[side] as f64);
            let all: f64 = sizes.clone().sum();
            all * all / sizes.map(|n| n * n).sum::<f64>()
        };
        of(0).min(of(1))
    }

    /// Returns the groups with members alone, with non-members alone, and with both.
    pub(super) fn by_kind(&self) -> [Vec<usize>; 3] {
        let sizes = self.sizes();
        [[true, false], [false, true], [true, true]].map(|kind| {
            let alike = |g: &usize| sizes[*g].map(|records| records > 0) == kind;
            (0..self.count).filter(alike).collect()
        })
    }

    /// Adds up a value of each record by group, kind by kind.
    pub(super) fn sums(&self, [members, non_members]: &[Vec<f64>; 2]) -> [Vec<f64>; 3] {
        let mut sums = vec![0.0; self.count];
        for (numbers, values) in [(&self.members, members), (&self.non_members, non_members)] {
            for (&group, value) in numbers.iter().zip(values) {
                sums[group] += value;
            }
        }
        self.by_kind()
            .map(|groups| groups.into_iter().map(|g| sums[g]).collect())
    }
}

/// A rate: what was counted, and a two-sided Clopper–Pearson interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// The count.
    pub hits: u64,
    /// Of how many.
    pub trials: u64,
    /// hits / trials.
    pub estimate: f64,
    /// Both ends, half of the failure probability each.
    #[serde(flatten)]
    pub bounds: Bounds<Probability>,
}

impl Rate {
    /// Returns the rate for a count.
    ///
    /// ```
    /// use reticent_accounting::Confidence;
    /// let chance = reticent_attacks::membership::Rate::of(1000, 2000, Confidence::new(0.95)?)?;
    /// assert!((chance.bounds.upper.unwrap().get().get() - 0.522_149_446).abs() < 1e-8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no trial, or if there are more hits than trials.
    pub fn of(hits: u64, trials: u64, confidence: Confidence) -> Result<Self> {
        let each = confidence.shared_by(2)?;
        let lower = clopper_pearson_lower(hits, trials, each)?;
        let upper = clopper_pearson_upper(hits, trials, each)?;
        Ok(Self {
            hits,
            trials,
            estimate: hits as f64 / trials as f64,
            bounds: Bounds::between(lower.into_inner(), upper.into_inner()),
        })
    }
}

impl ScoreSet {
    /// Creates a set of independent records.
    ///
    /// # Errors
    /// Returns an error if there is no member or no non-member, or if a score is NaN. A score that
    /// could not be computed is not a low score: leave the record out on both sides and say so, or
    /// compute it.
    pub fn new(members: Vec<f64>, non_members: Vec<f64>) -> Result<Self> {
        given(!members.is_empty(), "no member was given")?;
        given(!non_members.is_empty(), "no non-member was given")?;
        numbers(
            "score",
            "[-inf, inf], a number",
            members.iter().chain(&non_members),
        )?;
        Ok(Self {
            members,
            non_members,
            groups: None,
        })
    }

    /// Assigns a group to every record; records with the same name are in one group, on both sides.
    ///
    /// # Errors
    /// Returns an error if the number of names is not that of records.
    pub fn with_groups<G: Ord + Clone>(mut self, members: &[G], non_members: &[G]) -> Result<Self> {
        for (names, records) in [(members, &self.members), (non_members, &self.non_members)] {
            counted("groups", names.len(), records.len())?;
        }
        self.groups = Some(Groups::of(members.iter(), non_members.iter()));
        Ok(self)
    }

    /// Returns the same records with scores that separate all members from all non-members: the
    /// most they can show.
    #[must_use]
    pub fn separated(&self) -> Self {
        Self {
            members: vec![1.0; self.members.len()],
            non_members: vec![0.0; self.non_members.len()],
            groups: self.groups.clone(),
        }
    }

    /// Returns the members' scores.
    #[must_use]
    pub fn members(&self) -> &[f64] {
        &self.members
    }

    /// Returns the non-members' scores.
    #[must_use]
    pub fn non_members(&self) -> &[f64] {
        &self.non_members
    }

    /// Returns the number of groups, if groups are known.
    #[must_use]
    pub fn groups(&self) -> Option<usize> {
        self.groups.as_ref().map(|g| g.count)
    }

    /// Returns the members' and the non-members' scores.
    pub(super) fn sides(&self) -> [&[f64]; 2] {
        [&self.members, &self.non_members]
    }

    /// Returns a group for every record of each kind; without groups every record is its own.
    pub(super) fn group_numbers(&self) -> (Vec<usize>, Vec<usize>) {
        match &self.groups {
            Some(groups) => (groups.members.clone(), groups.non_members.clone()),
            None => {
                let members = self.members.len();
                let all = members + self.non_members.len();
                ((0..members).collect(), (members..all).collect())
            }
        }
    }

    /// Returns one record of every group, drawn at random: independent records, for statistics of
    /// independent trials. Without groups, returns the set itself. For a group with both kinds, a
    /// fair coin chooses the kind.
    #[must_use]
    pub fn thinned(&self, seed: u64) -> Self {
        let Some(groups) = &self.groups else {
            return self.clone();
        };
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut held: Vec<[Vec<f64>; 2]> = vec![[Vec::new(), Vec::new()]; groups.count];
        let sides = [
            (&groups.members, &self.members),
            (&groups.non_members, &self.non_members),
        ];
        for (side, (numbers, scores)) in sides.into_iter().enumerate() {
            for (&group, &score) in numbers.iter().zip(scores) {
                held[group][side].push(score);
            }
        }
        let mut kept = [Vec::new(), Vec::new()];
        for group in held {
            let side = match (group[0].is_empty(), group[1].is_empty()) {
                (false, true) => 0,
                (true, false) => 1,
                _ => usize::from(rng.random_bool(0.5)),
            };
            let of = &group[side];
            kept[side].push(of[rng.random_range(0..of.len())]);
        }
        let [mut members, mut non_members] = kept;
        // If all groups have both kinds and every coin fell the same way, keep one record of the
        // missing kind.
        if members.is_empty() {
            members.extend(self.members.first());
        }
        if non_members.is_empty() {
            non_members.extend(self.non_members.first());
        }
        Self {
            members,
            non_members,
            groups: None,
        }
    }

    /// Returns two halves at random, independent of the scores.
    ///
    /// # Errors
    /// Fewer than two records of a kind, of which a half would then lack it.
    pub(super) fn halves(&self, seed: u64) -> Result<(Self, Self)> {
        let fewest = self.members.len().min(self.non_members.len());
        let what = "records of a kind, to choose a threshold on one half";
        ranged(what, "[2, inf)", fewest, fewest >= 2)?;
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut cut = |scores: &[f64]| {
            let mut mixed = scores.to_vec();
            mixed.shuffle(&mut rng);
            let rest = mixed.split_off(mixed.len() / 2);
            (mixed, rest)
        };
        let (members, other_members) = cut(&self.members);
        let (non_members, other_non_members) = cut(&self.non_members);
        let half = |members, non_members| Self {
            members,
            non_members,
            groups: None,
        };
        Ok((
            half(members, non_members),
            half(other_members, other_non_members),
        ))
    }

    /// Returns the numbers of members and non-members above a threshold.
    pub(super) fn above(&self, threshold: f64) -> (u64, u64) {
        let count = |scores: &[f64]| scores.iter().filter(|s| **s > threshold).count() as u64;
        (count(&self.members), count(&self.non_members))
    }
}

/// Returns scores in descending order.
pub(super) fn falling(scores: &[f64]) -> Vec<f64> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted
}
