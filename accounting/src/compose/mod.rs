//! The questions about a composed privacy loss: δ(ε), ε(δ), blow-ups and the profile. Chooses the engine that
//! answers, and reports its certificate.

mod around;
pub(crate) mod blow_up;
mod certify;
pub(crate) mod coarse;
mod concentration;
mod convert;
mod curve;
mod cut;
mod divergence;
mod every_step;
mod far_hits;
mod forced;
pub(crate) mod found;
mod inverse;
mod ladder;
mod looseness;
mod minimum;
mod moments;
pub(crate) mod nearly_one;
pub(crate) mod on_grid;
mod overlapping;
mod profile;
pub(crate) mod renyi;
pub(crate) mod roots;
pub(crate) mod search;
mod single_hit;
pub(crate) mod solver;
mod stated;

pub use convert::Answer;
pub use looseness::Looseness;
pub use profile::{Profile, ProfilePoint};

pub(crate) use curve::Curve;

#[cfg(test)]
mod tests;
