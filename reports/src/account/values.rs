//! Values of arguments.

use crate::contract::number_within;
use clap::ValueEnum;
use clap::builder::{EnumValueParser, TypedValueParser};
use reticent_accounting::{GroupSize, Neighbours};

/// The values of `--neighbours` with what `--help` says of each.
#[derive(Clone, Copy, ValueEnum)]
enum Relation {
    /// One record added or removed.
    AddRemove,
    /// One record's contribution replaced by zero.
    ZeroOut,
    /// One record's content replaced.
    Replace,
}

/// Reads a neighbouring relation.
pub(in crate::account) fn neighbours() -> impl TypedValueParser<Value = Neighbours> {
    EnumValueParser::<Relation>::new().map(|relation| match relation {
        Relation::AddRemove => Neighbours::AddRemove,
        Relation::ZeroOut => Neighbours::ZeroOut,
        Relation::Replace => Neighbours::Replace,
    })
}

pub(in crate::account) fn group(text: &str) -> Result<GroupSize, String> {
    let size = text
        .parse::<u32>()
        .ok()
        .and_then(|records| GroupSize::new(records).ok());
    size.ok_or_else(|| format!("must be a whole number in [1, 10000], got {text:?}"))
}

pub(in crate::account) fn point(text: &str) -> Result<f64, String> {
    number_within(text, "a number in [0, inf]", |value| value >= 0.0)
}

pub(in crate::account) fn points(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(value) if (2..=1000).contains(&value) => Ok(value),
        _ => Err(format!("must be a whole number in [2, 1000], got {text:?}")),
    }
}

pub(in crate::account) fn bits(text: &str) -> Result<f64, String> {
    number_within(text, "a number of bits in (0, 1074]", |value| {
        value > 0.0 && value <= 1074.0
    })
}
