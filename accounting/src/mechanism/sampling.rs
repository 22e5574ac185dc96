//! Samplers: how the records of a batch are drawn.

use super::validate::whole;
use crate::quantity::MOST_COUNT;
use crate::quantity::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the records of a batch are drawn. What each one is accounted for as, and in which
/// direction, is said where it is accounted (`PrivacyLoss::of`): a combination of
/// sampler, noise and neighbours that is not covered is refused, never approximated in silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sampling {
    /// Each record independently, with the sampling rate.
    Poisson,
    /// As Poisson, but a batch larger than `max_batch` is cut down to that size at random.
    TruncatedPoisson {
        /// The most records in a batch.
        #[schemars(range(min = 1, max = MOST_COUNT))]
        max_batch: u64,
        /// The number of records, the neighbour's included.
        #[schemars(range(min = 1, max = MOST_COUNT))]
        records: u64,
    },
    /// A fixed-size uniform subset, fresh at each step; the rate is its size over the records.
    WithoutReplacement,
    /// A fixed-size list of records drawn with replacement.
    WithReplacement,
    /// Each record once an epoch, in consecutive batches of a random order, the same or another one
    /// each epoch.
    Shuffled,
    /// Each record once an epoch, in one of the epoch's steps drawn for it alone (balls in bins,
    /// random allocation); the rate is one over the steps of an epoch.
    BallsInBins,
    /// Each record in a fixed number of every epoch's steps, drawn for it alone; the rate is their
    /// share.
    RandomAllocation {
        /// In how many steps of an epoch.
        #[schemars(range(min = 1, max = MOST_COUNT))]
        selected: u64,
        /// Of how many.
        #[schemars(range(min = 1, max = MOST_COUNT))]
        steps: u64,
    },
}

/// What accountants and readers need to know of a sampler besides its law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Whether the draw of a record depends on no other record.
    pub independent: bool,
    /// Whether each step's batch is a draw of fixed size.
    pub fixed_size: bool,
    /// Whether a record is in a batch at most once.
    pub distinct: bool,
    /// If batches are drawn for whole epochs: in how many steps of an epoch a record is, and of how many, unless the
    /// sampling rate determines it.
    pub epoch: Option<(u64, Option<u64>)>,
}

impl Sampling {
    /// Returns how the sampler draws.
    #[must_use]
    pub const fn draw(self) -> Draw {
        let (independent, fixed_size, distinct, epoch) = match self {
            Self::Poisson => (true, false, true, None),
            Self::TruncatedPoisson { .. } => (false, false, true, None),
            Self::WithoutReplacement => (false, true, true, None),
            Self::WithReplacement => (false, true, false, None),
            Self::Shuffled => (false, false, true, Some((1, None))),
            Self::BallsInBins => (true, false, true, Some((1, None))),
            Self::RandomAllocation { selected, steps } => {
                (true, false, true, Some((selected, Some(steps))))
            }
        };
        Draw {
            independent,
            fixed_size,
            distinct,
            epoch,
        }
    }

    /// Checks the sampler's own numbers.
    pub(super) fn validate(self) -> Result<()> {
        match self {
            Self::TruncatedPoisson { max_batch, records } => {
                whole("max_batch", max_batch, 1, MOST_COUNT)
                    .and_then(|()| whole("records", records, 1, MOST_COUNT))
                    .map_err(|e| e.within("truncated-poisson"))
            }
            Self::RandomAllocation { selected, steps } => whole("steps", steps, 1, MOST_COUNT)
                .and_then(|()| whole("selected", selected, 1, steps))
                .map_err(|e| e.within("random-allocation")),
            _ => Ok(()),
        }
    }
}
