//! Privacy accounting as pure mathematics: mechanism → profile → guarantee. No files, no
//! command line, no tensors.
//!
//! A [`Mechanism`] says what ran. A query adds [`Neighbours`], unit and group size. The
//! answer is a guarantee whose numbers carry their direction ([`Upper`], [`Lower`],
//! [`Estimate`]) in their type.

mod bound;
mod contour;
mod error;
mod guarantee;
mod interval;
mod mechanism;
mod neighbours;
pub mod pld;
mod quantity;
mod special;
pub mod statistics;

pub use bound::{Bounds, Estimate, Lower, Upper};
pub use error::{Error, Result};
pub use guarantee::{Base, ByDirection, Convention, Engine, Guarantee, Method, Notion};
pub use mechanism::{Mechanism, Sampling};
pub use neighbours::Neighbours;
pub use quantity::{
    Confidence, Delta, Epsilon, GroupSize, MissRate, NoiseMultiplier, Order, Probability,
    SamplingRate, Steps, Tolerance, UnitName,
};
