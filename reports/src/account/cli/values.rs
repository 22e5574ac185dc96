//! Values of arguments.

use clap::ValueEnum;
use reticent_accounting::{GroupSize, Neighbours, UnitName};

/// Who is compared with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NeighboursArg {
    /// One record more or less.
    AddRemove,
    /// One record's contribution replaced by zero.
    ZeroOut,
    /// One record's content replaced.
    Replace,
}

impl From<NeighboursArg> for Neighbours {
    fn from(neighbours: NeighboursArg) -> Self {
        match neighbours {
            NeighboursArg::AddRemove => Self::AddRemove,
            NeighboursArg::ZeroOut => Self::ZeroOut,
            NeighboursArg::Replace => Self::Replace,
        }
    }
}

/// How batches are drawn.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// Each record by a coin of its own at every step; what most accountants assume.
    #[default]
    Poisson,
    /// As Poisson, cut down to --max-batch at random; an upper and a lower bound.
    TruncatedPoisson,
    /// A fresh subset of fixed size at every step; for replace.
    WithoutReplacement,
    /// A list of fixed size that may repeat records; refused, since nothing certified is known.
    WithReplacement,
    /// Each record once an epoch, in batches of a random order, as ordinary loaders do; for
    /// zero-out and replace, bounded without any gain from the order.
    Shuffled,
    /// Each record once an epoch, in a step drawn for it alone; an upper and a lower bound.
    BallsInBins,
    /// Each record in --selected of every --epoch-steps; an upper and a lower bound.
    RandomAllocation,
}

pub(super) fn group(text: &str) -> Result<GroupSize, String> {
    let size = text
        .parse::<u32>()
        .ok()
        .and_then(|records| GroupSize::new(records).ok());
    size.ok_or_else(|| format!("must be a whole number in [1, 10000], got {text:?}"))
}

pub(super) fn unit(text: &str) -> Result<UnitName, String> {
    UnitName::new(text).map_err(|error| error.to_string())
}

pub(super) fn whole(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("must be a whole number from 0 on, got {text:?}"))
}

pub(super) fn point(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 => Ok(value),
        _ => Err(format!("must be a number in [0, inf], got {text:?}")),
    }
}

pub(super) fn points(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(value) if (2..=1000).contains(&value) => Ok(value),
        _ => Err(format!("must be a whole number in [2, 1000], got {text:?}")),
    }
}

pub(super) fn bits(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1074.0 => Ok(value),
        _ => Err(format!(
            "must be a number of bits in (0, 1074], got {text:?}"
        )),
    }
}
