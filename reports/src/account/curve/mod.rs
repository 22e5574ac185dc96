//! A curve of a plan, point by point, with both certified ends of each.

pub mod args;
mod document;
mod over;
mod page;
mod points;
mod run;

pub use document::{CurveKind, CurvePoint, Points};
pub use page::{csv, figure, page};
pub use run::{curve, drawing};
