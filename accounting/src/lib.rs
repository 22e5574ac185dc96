//! Privacy accounting as pure mathematics: mechanism → profile → guarantee. No files, no
//! command line, no tensors.
//!
//! A [`Mechanism`] says what ran. A query adds [`Neighbours`], unit and group size. The
//! answer is a guarantee whose numbers carry their direction ([`Upper`], [`Lower`],
//! [`Estimate`]) in their type.

mod compose;
mod engine;
mod guarantee;
mod loss;
pub mod mechanism;
mod numeric;
pub mod protect;
mod quantity;
pub mod training;

/// Privacy-loss distributions: dominating pairs as data, their composition, and the questions δ(ε), ε(δ) and
/// the profile.
pub mod pld {
    pub use crate::compose::{Answer, Looseness, Profile, ProfilePoint};
    pub use crate::loss::{Direction, Mixture, Pair, PrivacyLoss, Query, losses};
}

pub use compose::{Answer, Looseness, Profile, ProfilePoint};
pub use engine::{Certificate, Engine, ErrorEnds, ErrorSource, ErrorTerm};
pub use guarantee::{
    Base, ByDirection, Convention, Guarantee, Method, Notion, Plan, calibrate, confidentiality,
    group, rdp, reconstruction, redaction, trade_off,
};
pub use loss::{Direction, PrivacyLoss, Query};
pub use mechanism::{Mechanism, Sampling};
pub use numeric::statistics;
pub use quantity::bound::{Bounds, Estimate, Lower, Upper};
pub use quantity::error::{Error, Result};
pub use quantity::neighbours::Neighbours;
pub use quantity::{
    Confidence, Delta, Divergence, Epsilon, GroupSize, MeanRepetitions, MissRate, NoiseMultiplier,
    Order, Probability, RepetitionShape, SamplingRate, Steps, Tolerance, UnitName,
};
pub use redaction::{BayesianKnown, BayesianUnknown, Redaction};
pub use trade_off::TradeOff;
