//! `account explain`: how a number was obtained and what certifies it.

pub(crate) mod args;
mod document;
mod page;
mod pairs;
mod run;

pub(crate) use document::{Derived, Explanation, Merged, OneWay, Step};
pub(crate) use page::page;
pub(crate) use pairs::Pair;
pub(crate) use run::explain;
