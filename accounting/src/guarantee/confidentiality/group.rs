//! Confidentiality of several secrets at once.

use super::facts::{Confidentiality, Reach, Spread, Standing};
use crate::compose::Profile;
use crate::guarantee::group::group_lemma;
use crate::quantity::bound::Upper;
use crate::quantity::error::{Error, Result};
use crate::quantity::{Delta, Epsilon, GroupSize};

/// A list of secrets that are masked together, with the standing of each.
///
/// ```
/// use reticent_accounting::confidentiality::{Reach, SecretGroup, Spread, Standing};
/// use reticent_accounting::GroupSize;
/// // Ten secrets, of which the redaction policy misses two, in one and in three records.
/// let mut members = vec![Standing::Caught; 8];
/// members.extend([Standing::Missed { records: 1 }, Standing::Missed { records: 3 }]);
/// let group = SecretGroup::new(members);
/// assert_eq!(group.missed_share(), 0.2);
/// assert_eq!(group.reach(Spread::AtMost(1)), Reach::Records(GroupSize::new(4)?));
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretGroup {
    members: Vec<Standing>,
}

impl SecretGroup {
    /// Creates a group from its members; a group without members is a promise about nothing.
    #[must_use]
    pub const fn new(members: Vec<Standing>) -> Self {
        Self { members }
    }

    /// Returns the share γ̃ of the members that the redaction policy misses. The formula of Theorem
    /// 8.2 needs this share; the theorem's text speaks of the share that is detected.
    #[must_use]
    pub fn missed_share(&self) -> f64 {
        let missed = self.members.iter().filter(|s| **s != Standing::Caught);
        missed.count() as f64 / self.members.len().max(1) as f64
    }

    /// Returns the number of records that differ if all members are masked: the sum over the missed
    /// ones, or open if any member is missed by both policies.
    #[must_use]
    pub fn reach(&self, spread: Spread) -> Reach {
        let mut total = 0u64;
        for member in &self.members {
            match member.reach(spread) {
                Reach::Nothing => {}
                Reach::Records(records) => total += u64::from(records.get()),
                Reach::Open => return Reach::Open,
            }
        }
        match u32::try_from(total).map(GroupSize::new) {
            Ok(Ok(records)) => Reach::Records(records),
            _ if total == 0 => Reach::Nothing,
            _ => Reach::Open,
        }
    }

    /// Returns group confidentiality from the profile of all differing records together (the
    /// mixture of k independently sampled records).
    ///
    /// Bound: upper; attained by gradients that all point in one direction. Source: mathematics of
    /// the dominating pair; CRT Theorem 8.2 for the condition on the conservative policy.
    ///
    /// # Errors
    /// As [`Standing::confidentiality`].
    pub fn exactly(&self, spread: Spread, profile: &Profile) -> Result<Confidentiality> {
        Confidentiality::new(self.reach(spread), profile)
    }

    /// Returns group confidentiality from (ε, δ) of a single record, by the group lemma: (kε,
    /// δ(e^{kε} − 1)/(e^ε − 1)), infinite if any member is open.
    ///
    /// Bound: upper. Source: CRT Prop. 5 and Theorem 8.2, whose k e^{kε} δ is looser.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the profile is for more than one record or for other
    /// neighbours.
    pub fn by_lemma(
        &self,
        spread: Spread,
        single: &Profile,
        each_delta: Delta,
    ) -> Result<(Upper<Epsilon>, Upper<Delta>)> {
        if single.query().group != GroupSize::ONE {
            return Err(Error::Unsupported {
                what: format!("a profile of {} records", single.query().group.get()),
                why: "the group lemma starts from single records".into(),
            });
        }
        let records = match self.reach(spread) {
            Reach::Nothing => return Ok(group_lemma(&[])),
            Reach::Open => {
                let nothing = (Epsilon::new(f64::INFINITY)?, Delta::new(1.0)?);
                return Ok((Upper::new(nothing.0), Upper::new(nothing.1)));
            }
            Reach::Records(records) => records,
        };
        let one = Confidentiality::new(Reach::Records(GroupSize::ONE), single)?;
        let epsilon = one.epsilon(each_delta)?.upper;
        let epsilon = epsilon.map_or(f64::INFINITY, |end| end.get().get());
        let each = (Epsilon::new(epsilon)?, each_delta);
        Ok(group_lemma(&vec![each; records.get() as usize]))
    }
}
