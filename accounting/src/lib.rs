//! Privacy accounting as pure mathematics: mechanism → profile → guarantee. No files, no
//! command line, no tensors.
//!
//! A [`Mechanism`] says what ran. A query adds [`Neighbours`], unit and group size. The
//! answer is a guarantee whose numbers carry their direction ([`Upper`], [`Lower`],
//! [`Estimate`]) in their type.

mod bound;
pub mod calibrate;
mod certificate;
pub mod confidentiality;
mod contour;
mod error;
mod grid;
pub mod group;
mod guarantee;
mod interval;
mod loss;
pub mod mechanism;
mod neighbours;
mod plan;
pub mod pld;
pub mod protect;
mod quantity;
pub mod rdp;
pub mod reconstruction;
pub mod redaction;
mod search;
mod special;
pub mod statistics;
pub mod trade_off;
pub mod training;

pub use bound::{Bounds, Estimate, Lower, Upper};
pub use certificate::{Certificate, ErrorEnds, ErrorSource, ErrorTerm};
pub use error::{Error, Result};
pub use guarantee::{Base, ByDirection, Convention, Engine, Guarantee, Method, Notion};
pub use mechanism::{Mechanism, Sampling};
pub use neighbours::Neighbours;
pub use plan::Plan;
pub use pld::{Answer, Direction, Looseness, PrivacyLoss, Profile, ProfilePoint, Query};
pub use quantity::{
    Confidence, Delta, Divergence, Epsilon, GroupSize, MeanRepetitions, MissRate, NoiseMultiplier,
    Order, Probability, RepetitionShape, SamplingRate, Steps, Tolerance, UnitName,
};
pub use redaction::{BayesianKnown, BayesianUnknown, Redaction};
pub use trade_off::TradeOff;
