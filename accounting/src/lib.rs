//! Privacy accounting as pure mathematics: mechanism → profile → guarantee. No files, no
//! command line, no tensors.
//!
//! A [`Mechanism`] says what ran, a [`Query`] who is compared with whom. A [`Plan`] asks every question of a run at
//! once; a [`PrivacyLoss`] answers single ones, δ(ε) and ε(δ). The answer's numbers carry their direction
//! ([`Upper`], [`Lower`], [`Estimate`]) in their type.
//!
//! | module | what is there |
//! |---|---|
//! | [`mechanism`] | what ran, read and written: events, validation |
//! | [`pld`] | privacy-loss distributions: dominating pairs, profiles, which engine answered and its certificate |
//! | [`calibrate`], [`group`], [`rdp`], [`trade_off`] | noise, rates and steps for a goal; groups; Rényi and zero-concentrated curves; error rates of tests |
//! | [`redaction`], [`confidentiality`], [`reconstruction`] | what redaction adds, what is promised of secrets, what an adversary can rebuild |
//! | [`protect`] | weights, rates and noise of secret protection |
//! | [`training`] | what a training run is, before and after it runs |
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

mod compose;
mod engine;
mod guarantee;
mod loss;
pub mod mechanism;
mod numeric;
pub mod protect;
mod quantity;
pub mod training;

/// Privacy-loss distributions: dominating pairs as data, profiles, and which engine gave a number.
pub mod pld {
    pub use crate::compose::{Answer, Looseness, Profile, ProfilePoint};
    pub use crate::engine::{Certificate, Engine, ErrorEnds, ErrorSource, ErrorTerm};
    pub use crate::loss::{Mixture, Pair, losses};
}

// What ran, and what is asked of it.
pub use loss::{Direction, PrivacyLoss, Query};
pub use mechanism::{Mechanism, Sampling};
pub use quantity::neighbours::Neighbours;

// What is promised.
pub use guarantee::{Base, ByDirection, Convention, Guarantee, Method, Notion, Plan};
pub use guarantee::{calibrate, confidentiality, group, rdp, reconstruction, redaction, trade_off};
pub use numeric::statistics;

// Numbers with their ranges, and the direction of a bound.
pub use quantity::bound::{Bounds, Estimate, Lower, Upper};
pub use quantity::decimal::{number, whole_number};
pub use quantity::{
    Confidence, Delta, Divergence, Epsilon, GroupSize, MeanRepetitions, MissRate, NoiseMultiplier,
    Order, Probability, RepetitionShape, SamplingRate, Steps, Tolerance, UnitName,
};

pub use quantity::error::{Error, Result};
