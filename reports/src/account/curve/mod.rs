//! `account curve`: a curve of a plan, point by point, with both certified ends of each.

pub(crate) mod args;
mod document;
mod over;
mod page;
mod points;
mod run;

pub use document::CurveKind;
pub(crate) use document::{CurvePoint, Points};
pub(crate) use page::{BETWEEN, csv, figure, page};
pub(crate) use run::curve;
