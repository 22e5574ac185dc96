//! Privacy accounting as pure mathematics: mechanism → profile → guarantee. No files, no command line, no tensors.
//!
//! A [`Mechanism`] describes what ran; a [`Query`] says which inputs are compared. A [`Plan`] answers every
//! question about a run at once; a [`PrivacyLoss`] answers single ones, δ(ε) and ε(δ). The types of the resulting
//! numbers ([`Upper`], [`Lower`], [`Estimate`]) state the direction of the bound.
//!
//! | module | contents |
//! |---|---|
//! | [`mechanism`] | what ran, as data: readers, writers, events, validation |
//! | [`pld`] | privacy-loss distributions: dominating pairs, profiles, engines and their certificates |
//! | [`calibrate`], [`group`], [`rdp`], [`trade_off`] | noise, rates and steps for a goal; groups; Rényi and zero-concentrated curves; error rates of tests |
//! | [`redaction`], [`confidentiality`], [`reconstruction`] | what redaction adds, what is promised of secrets, what an adversary can rebuild |
//! | [`protect`] | weights, rates and noise of secret protection |
//! | [`training`] | training runs, before and after they run |
//! | [`statistics`] | bounds on rates from counts |
//!
//! ```
//! use reticent_accounting::{Delta, Mechanism, NoiseMultiplier, Plan, SamplingRate, Steps, UnitName};
//!
//! let run = Mechanism::dp_sgd(NoiseMultiplier::new(1.1)?, SamplingRate::new(0.01)?, Steps::new(10_000));
//! let epsilon = Plan::new(run, UnitName::new("sentence")?, Delta::new(1e-5)?).epsilon()?;
//! let (low, high) = (epsilon.lower.unwrap().get().get(), epsilon.upper.unwrap().get().get());
//! assert!(low <= high && high - low < 1e-6 && high < 5.1926);
//! # Ok::<(), reticent_accounting::Error>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod compose;
mod engine;
mod guarantee;
mod loss;
pub mod mechanism;
mod numeric;
pub mod protect;
mod quantity;
pub mod training;

/// Privacy-loss distributions: dominating pairs as data, profiles, and the engine that computed a number.
pub mod pld {
    pub use crate::compose::{Answer, Looseness, Profile, ProfilePoint};
    pub use crate::engine::{Certificate, Engine, ErrorEnds, ErrorSource, ErrorTerm};
    pub use crate::loss::{Mixture, Pair, losses};
}

// Mechanisms and the questions about them.
pub use loss::{Direction, PrivacyLoss, Query};
pub use mechanism::{Mechanism, Sampling};
pub use quantity::neighbours::Neighbours;

// Guarantees.
pub use guarantee::{Base, ByDirection, Convention, Guarantee, Method, Notion, Plan};
pub use guarantee::{calibrate, confidentiality, group, rdp, reconstruction, redaction, trade_off};
pub use numeric::statistics;

// Numbers with their ranges, and bounds with their direction.
pub use quantity::bound::{Bounds, Estimate, Lower, Upper};
pub use quantity::decimal::{number, whole_number};
pub use quantity::{
    Confidence, Delta, Divergence, Epsilon, GroupSize, MeanRepetitions, MissRate, NoiseMultiplier,
    Order, Probability, RepetitionShape, SamplingRate, Steps, Tolerance, UnitName,
};

pub use quantity::error::{Error, Result};
