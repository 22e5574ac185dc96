//! Results for members by their number of copies in the training text.

use super::area::Area;
use super::operating::OperatingPoint;
use super::set::{Groups, ScoreSet};
use crate::error::{Result, counted};
use crate::extract::strata_of;
use reticent_accounting::Confidence;
use reticent_corpus::dedup::same_texts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// An attack on the members that stand equally often in the training text, against all non-members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopyStratum {
    /// At least so many copies.
    pub from: u64,
    /// At most so many; absent for the last stratum.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<u64>,
    /// Members among them.
    pub members: u64,
    /// The area under their ROC curve.
    pub area: Area,
    /// True positives at certified false-positive rates.
    pub at_fpr: Vec<OperatingPoint>,
}

/// Returns how often each text occurs in the training text, including near-copies ([`same_texts`]).
///
/// ```
/// let training = ["one more", "two", "One more!"].map(String::from);
/// let texts = ["one more", "two", "three"].map(String::from);
/// assert_eq!(reticent_attacks::membership::copies_among(&texts, &training), [2, 1, 0]);
/// ```
#[must_use]
pub fn copies_among(texts: &[String], training: &[String]) -> Vec<u64> {
    let [own, all] = same_texts([texts, training]);
    let mut counts: HashMap<usize, u64> = HashMap::new();
    for number in all {
        *counts.entry(number).or_default() += 1;
    }
    let count = |number| counts.get(&number).copied().unwrap_or(0);
    own.into_iter().map(count).collect()
}

impl ScoreSet {
    /// Returns areas and true positives of the members by their number of copies (0, 1, 2 to 9, 10 to 99, 100 and
    /// more), each against all non-members; empty strata are omitted. Each interval holds by itself.
    ///
    /// ```
    /// use reticent_accounting::Confidence;
    /// use reticent_attacks::membership::ScoreSet;
    /// let outside: Vec<f64> = (0..100).map(f64::from).collect();
    /// let inside = [outside.clone(), vec![200.0; 30]].concat();
    /// let copies = [vec![1; 100], vec![40; 30]].concat();
    /// let found = ScoreSet::new(inside, outside)?.by_copies(&copies, &[0.05], Confidence::new(0.95)?, 0)?;
    /// assert_eq!((found[0].from, found[1].from, found[1].to), (1, 10, Some(99)));
    /// assert_eq!((found[0].area.estimate, found[1].area.estimate), (0.5, 1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the number of copies is not that of members, or if a rate is outside (0, 1).
    pub fn by_copies(
        &self,
        copies: &[u64],
        rates: &[f64],
        confidence: Confidence,
        seed: u64,
    ) -> Result<Vec<CopyStratum>> {
        counted("numbers of copies", copies.len(), self.members.len())?;
        let stratum = |(from, to, places): (u64, Option<u64>, Vec<usize>)| {
            let set = self.with_members(&places);
            let area = set.area(confidence, seed)?;
            let points = rates.iter();
            Ok(CopyStratum {
                from,
                to,
                members: places.len() as u64,
                area,
                at_fpr: points
                    .map(|fpr| set.true_positives_at(*fpr, confidence, seed))
                    .collect::<Result<_>>()?,
            })
        };
        strata_of(copies).into_iter().map(stratum).collect()
    }

    /// Returns the set with only some of the members.
    fn with_members(&self, places: &[usize]) -> Self {
        // Groups that have no record left must not count.
        let groups = self.groups.as_ref().map(|groups| {
            let members = places.iter().map(|&i| groups.members[i]);
            Groups::of(members, groups.non_members.iter().copied())
        });
        Self {
            members: places.iter().map(|&i| self.members[i]).collect(),
            non_members: self.non_members.clone(),
            groups,
        }
    }
}
