//! The privacy-loss law: dominating pairs as data, their composition, and the questions
//! δ(ε), ε(δ) and the profile.

mod around;
mod certify;
pub(crate) mod coarse;
mod compose;
mod convert;
mod curve;
mod cut;
mod every_step;
mod forced;
pub(crate) mod found;
mod gaussian;
mod looseness;
mod mixture;
pub(crate) mod nearly_one;
mod overlapping;
mod profile;
pub(crate) mod roots;
pub(crate) mod search;
mod single_hit;
pub(crate) mod solver;

pub use compose::{Direction, PrivacyLoss, Query};
pub use convert::Answer;
pub use looseness::Looseness;
pub use mixture::{Mixture, Pair};
pub use profile::{Profile, ProfilePoint, losses};

pub(crate) use curve::Curve;

#[cfg(test)]
mod tests;
