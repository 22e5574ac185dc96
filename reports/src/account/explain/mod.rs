//! How a number was obtained and what certifies it.

pub mod args;
mod document;
mod page;
mod pairs;
mod run;

pub use document::{Derived, Explanation, Merged, OneWay, Step};
pub use page::page;
pub use pairs::{Pair, status};
pub use run::explain;
