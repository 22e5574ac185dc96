//! Effects of a preparation on the secrets, and the resulting confidentiality of each.

use crate::compose::Profile;
use crate::guarantee::Convention;
use crate::loss::Query;
use crate::quantity::bound::Bounds;
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Delta, Epsilon, GroupSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many records of the training set change when one record of the input does: the product
/// of the stabilities of the stages.
///
/// Exact deduplication has 1 when all copies of a secret are masked together, 2 for one copy
/// alone ({s, s} → {s, M} but {s', s} → {s', s}); clusters of near-duplicates have no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// At most so many.
    AtMost(u64),
    /// No bound that does not grow with the corpus: no guarantee passes through.
    Unbounded,
}

/// What became of one secret, by neighbour-diff against the corpus with all its places masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Both preparations are equal byte for byte.
    Caught,
    /// So many kept records differ, and each is private in both: missed by the redaction
    /// policy, flagged by the conservative one.
    Missed {
        /// Records of the deduplicated input in which it is missed.
        records: u64,
    },
    /// In at least one record missed by both policies: trained on in the open.
    Exposed,
}

/// The number of records of the training set that differ if the secrets in question are masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// No record differs: the two runs are the same.
    Nothing,
    /// At most this many records differ, all of them private.
    Records(GroupSize),
    /// The number has no bound, or a record that differs is trained on without noise.
    Open,
}

impl Reach {
    /// Returns the reach of `records` records, each spreading as the stages say.
    pub(crate) fn of(records: Option<u64>, spread: Spread) -> Self {
        match (records, spread) {
            (Some(0), _) => Self::Nothing,
            (Some(records), Spread::AtMost(factor)) => records
                .checked_mul(factor)
                .and_then(|n| u32::try_from(n).ok())
                .and_then(|n| GroupSize::new(n).ok())
                .map_or(Self::Open, Self::Records),
            _ => Self::Open,
        }
    }

    /// Returns the question whose profile applies to these records; `None` if no profile is needed
    /// or none suffices.
    #[must_use]
    pub const fn query(self) -> Option<Query> {
        match self {
            Self::Records(group) => Some(Query::replace(group)),
            Self::Nothing | Self::Open => None,
        }
    }
}

impl Standing {
    /// Returns k, the number of records of the training set that differ if this secret is masked
    /// everywhere.
    ///
    /// Deduplication keeps a secret in ten different sentences ten times, so k counts records in
    /// which the secret is missed, not distinct secrets. Source: CRT Prop. 7, with all places
    /// masked together.
    ///
    /// ```
    /// use reticent_accounting::confidentiality::{Reach, Spread, Standing};
    /// use reticent_accounting::GroupSize;
    /// let missed = Standing::Missed { records: 3 };
    /// assert_eq!(missed.reach(Spread::AtMost(2)), Reach::Records(GroupSize::new(6)?));
    /// assert_eq!(missed.reach(Spread::Unbounded), Reach::Open);
    /// assert_eq!(Standing::Caught.reach(Spread::AtMost(1)), Reach::Nothing);
    /// # Ok::<(), reticent_accounting::Error>(())
    /// ```
    #[must_use]
    pub fn reach(self, spread: Spread) -> Reach {
        match self {
            // Both texts are identical byte for byte, so nothing spreads.
            Self::Caught => Reach::Nothing,
            Self::Missed { records } => Reach::of(Some(records), spread),
            Self::Exposed => Reach::Open,
        }
    }

    /// Returns ε̃(x) = ε(x)·1\[missed\], infinite for a secret that the conservative policy misses
    /// too.
    ///
    /// Bound: upper. `profile` is the profile of the private side for at least the records of
    /// [`Standing::reach`]. Source: CRT Prop. 5 and Theorem 8.1; the theorem's condition is that
    /// the conservative policy flags whatever the redaction policy misses.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the profile is for other neighbours or fewer records.
    pub fn confidentiality(self, spread: Spread, profile: &Profile) -> Result<Confidentiality> {
        Confidentiality::new(self.reach(spread), profile)
    }
}

/// Whether what is missed was counted or can't be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Knowledge {
    /// The secrets are marked in the text: misses are counted.
    Counted,
    /// The secrets are those that the policy found: what it misses is not among them, and any
    /// secret may be missed.
    Detected,
}

/// What a preparation did to the secrets of a corpus. All counts are of distinct secrets.
///
/// ```
/// use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, Spread};
/// let facts = CorpusFacts::new(1000, 100, 0, 3, Spread::AtMost(1), Knowledge::Counted)?;
/// assert_eq!(facts.missed(), 100);
/// assert!(CorpusFacts::new(1000, 100, 101, 3, Spread::AtMost(1), Knowledge::Counted).is_err());
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CorpusFacts {
    secrets: u64,
    missed: u64,
    missed_by_both: u64,
    most_records: u64,
    spread: Spread,
    knowledge: Knowledge,
}

fn at_most(what: &'static str, range: &'static str, value: u64, most: u64) -> Result<()> {
    if value <= most {
        return Ok(());
    }
    Err(Error::out_of_range(what, range, value as f64))
}

impl CorpusFacts {
    /// Creates the facts from the number of distinct `secrets`, those `missed` by the redaction
    /// policy in at least one record, those `missed_by_both` policies in at least one record, the
    /// most records in which one missed secret is missed, the spread of the stages with all copies
    /// masked together, and how misses are known.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] if the counts contradict each other.
    pub fn new(
        secrets: u64,
        missed: u64,
        missed_by_both: u64,
        most_records: u64,
        spread: Spread,
        knowledge: Knowledge,
    ) -> Result<Self> {
        at_most("missed secrets", "[0, secrets]", missed, secrets)?;
        at_most(
            "secrets missed by both policies",
            "[0, missed secrets]",
            missed_by_both,
            missed,
        )?;
        if missed > 0 && most_records == 0 {
            return Err(Error::out_of_range(
                "most records of a missed secret",
                "[1, 2^64) where a secret is missed",
                0.0,
            ));
        }
        if spread == Spread::AtMost(0) {
            return Err(Error::out_of_range(
                "spread of the stages",
                "[1, 2^64)",
                0.0,
            ));
        }
        Ok(Self {
            secrets,
            missed,
            missed_by_both,
            most_records,
            spread,
            knowledge,
        })
    }

    /// Returns the facts of the same secrets with other counts of those that both policies miss, and of the most records.
    ///
    /// # Errors
    /// As [`CorpusFacts::new`].
    pub fn recounted(&self, missed_by_both: u64, most_records: u64) -> Result<Self> {
        Self::new(
            self.secrets,
            self.missed,
            missed_by_both,
            most_records,
            self.spread,
            self.knowledge,
        )
    }

    /// Returns the number of distinct secrets.
    #[must_use]
    pub const fn secrets(&self) -> u64 {
        self.secrets
    }
    /// Returns the number of secrets missed by the redaction policy.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }
    /// Returns the number of secrets missed by both policies.
    #[must_use]
    pub const fn missed_by_both(&self) -> u64 {
        self.missed_by_both
    }
    /// Returns the most records in which one missed secret is missed.
    #[must_use]
    pub const fn most_records(&self) -> u64 {
        self.most_records
    }
    /// Returns the spread of the stages.
    #[must_use]
    pub const fn spread(&self) -> Spread {
        self.spread
    }
    /// Returns how misses are known.
    #[must_use]
    pub const fn knowledge(&self) -> Knowledge {
        self.knowledge
    }

    /// Returns the standing of the worst secret. If misses can't be known, a secret may be missed
    /// in as many records as the text has, and counts as exposed.
    #[must_use]
    pub const fn worst(&self) -> Standing {
        match self.knowledge {
            Knowledge::Detected => Standing::Exposed,
            Knowledge::Counted if self.missed_by_both > 0 => Standing::Exposed,
            Knowledge::Counted if self.missed > 0 => Standing::Missed {
                records: self.most_records,
            },
            Knowledge::Counted => Standing::Caught,
        }
    }

    /// Returns the records that differ if the worst missed secret is masked, whether or not the
    /// conservative policy flags it: the group of the Bayesian rows.
    #[must_use]
    pub fn missed_reach(&self) -> Reach {
        if self.missed == 0 && self.knowledge == Knowledge::Counted {
            return Reach::Nothing;
        }
        Reach::of(Some(self.most_records.max(1)), self.spread)
    }

    /// Returns an upper bound on the records that differ if all secrets are masked together: uniform confidentiality.
    /// Source: CRT Def. 3.
    #[must_use]
    pub fn reach_of_all(&self) -> Reach {
        match self.worst() {
            Standing::Caught => Reach::Nothing,
            Standing::Missed { records } => {
                Reach::of(records.checked_mul(self.missed), self.spread)
            }
            Standing::Exposed => Reach::Open,
        }
    }

    /// Returns the confidentiality of the worst secret, which holds for each secret on its own.
    ///
    /// Bound: upper. Source: CRT Prop. 5, Theorem 8.1.
    ///
    /// # Errors
    /// As [`Standing::confidentiality`].
    pub fn every_secret(&self, profile: &Profile) -> Result<Confidentiality> {
        self.worst().confidentiality(self.spread, profile)
    }
}

/// (ε, δ)-confidentiality of one secret, or of several together, at every δ.
#[derive(Debug, Clone, PartialEq)]
pub struct Confidentiality {
    reach: Reach,
    profile: Profile,
}

impl Confidentiality {
    /// Creates the promise of `profile` for the records of `reach`.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for zero-out neighbours, which compare with a run that learns
    /// nothing rather than with a run on `<MASK>`, and for a profile of fewer records.
    pub fn new(reach: Reach, profile: &Profile) -> Result<Self> {
        let have = profile.query();
        if have.neighbours == Neighbours::ZeroOut {
            return Err(Error::Unsupported {
                what: "confidentiality from a zero-out profile".into(),
                why: "a secret is compared with <MASK> in its place, which is replace".into(),
            });
        }
        if let Reach::Records(needed) = reach
            && have.group < needed
        {
            return Err(Error::Unsupported {
                what: format!("a profile of {} records", have.group.get()),
                why: format!("masking these secrets changes {} records", needed.get()),
            });
        }
        Ok(Self {
            reach,
            profile: profile.clone(),
        })
    }

    /// Returns the records that differ.
    #[must_use]
    pub const fn reach(&self) -> Reach {
        self.reach
    }

    /// Returns whether the neighbours are the notion's own (replace) or those the paper computed
    /// (add/remove): only the former is a promise.
    #[must_use]
    pub const fn convention(&self) -> Convention {
        match self.profile.query().neighbours {
            Neighbours::Replace => Convention::Definition,
            Neighbours::AddRemove | Neighbours::ZeroOut => Convention::Paper,
        }
    }

    /// Returns ε at `delta`: zero if nothing differs, infinite if the reach is open. The lower end,
    /// if there is one, is that of a profile of the same records: some secret of that reach attains it.
    ///
    /// # Errors
    /// None for a δ in range.
    pub fn epsilon(&self, delta: Delta) -> Result<Bounds<Epsilon>> {
        match self.reach {
            Reach::Records(records) => {
                let found = self.attained(records, self.profile.epsilon(delta)?);
                // No point reaches this δ, so nothing finite is certified.
                let none = Bounds::at_most(Epsilon::new(f64::INFINITY)?);
                Ok(if found.upper.is_some() { found } else { none })
            }
            Reach::Open if delta.get() < 1.0 => Ok(Bounds::at_most(Epsilon::new(f64::INFINITY)?)),
            Reach::Nothing | Reach::Open => {
                let zero = Epsilon::new(0.0)?;
                Ok(Bounds::between(zero, zero))
            }
        }
    }

    /// Returns δ at `epsilon`: zero if nothing differs, at most one if the reach is open.
    ///
    /// # Errors
    /// None for an ε in range.
    pub fn delta(&self, epsilon: Epsilon) -> Result<Bounds<Delta>> {
        match self.reach {
            Reach::Nothing => {
                let zero = Delta::new(0.0)?;
                Ok(Bounds::between(zero, zero))
            }
            Reach::Records(records) => Ok(self.attained(records, self.profile.delta(epsilon)?)),
            Reach::Open => Ok(Bounds::at_most(Delta::new(1.0)?)),
        }
    }

    /// Returns the profile's bounds; fewer records than its own need not attain the lower end.
    fn attained<T>(&self, records: GroupSize, bounds: Bounds<T>) -> Bounds<T> {
        let same = self.profile.query().group == records;
        Bounds {
            lower: bounds.lower.filter(|_| same),
            ..bounds
        }
    }
}
