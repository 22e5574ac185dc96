//! Values of arguments.

use crate::contract::{number_within, whole_within};
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
    let records = whole_within::<u32>(1..=10_000)(text)?;
    GroupSize::new(records).map_err(|error| error.to_string())
}

pub(in crate::account) fn point(text: &str) -> Result<f64, String> {
    number_within(text, "a number in [0, inf]", |value| value >= 0.0)
}

pub(in crate::account) fn bits(text: &str) -> Result<f64, String> {
    number_within(text, "a number of bits in (0, 1074]", |value| {
        value > 0.0 && value <= 1074.0
    })
}
