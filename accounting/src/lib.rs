//! Privacy accounting as pure mathematics: mechanism → profile → guarantee. No files, no
//! command line, no tensors.
//!
//! A [`Mechanism`] says what ran. A query adds [`Neighbours`], unit and group size. The
//! answer is a guarantee whose numbers carry their direction ([`Upper`], [`Lower`],
//! [`Estimate`]) in their type.

mod bound;
mod error;
mod mechanism;
mod neighbours;
mod quantity;

pub use bound::{Bounds, Estimate, Lower, Upper};
pub use error::{Error, Result};
pub use mechanism::{Mechanism, Sampling};
pub use neighbours::Neighbours;
pub use quantity::{
    Delta, Epsilon, MissRate, NoiseMultiplier, Order, Probability, SamplingRate, Steps,
};
