//! Attacks on a trained model: from a canary plan or marked records and a scorer to a finding, which is a lower bound.
//! The attacks use the scorer's traits only, never a tensor library.
//!
//! | module | question |
//! |---|---|
//! | [`search`] | what is the exact rank of each canary among all its candidates? |
//! | [`exposure`] | what do the ranks say compared with a model that ignores the secrets, and against a promised ε? |
//! | [`evalue`] | which ε do a model's beliefs, or coins, exclude, at any stopping time? |
//! | [`membership`] | was this record, this group or this text in the training data? |
//! | [`extract`] | does a prompt make the model produce the text that followed it? |
//!
//! [`RateCounts`] of independent trials and [`OneRunCounts`] of the coins of one run give an [`AuditBound`]: a lower
//! bound on ε together with everything that it refers to.
//!
//! ```
//! use reticent_attacks::Draw;
//! use reticent_attacks::exposure::ExposureSummary;
//! use reticent_attacks::search::RankCount;
//!
//! // Four canaries of a million candidates each; the model ranks one of them first.
//! let canary = |below| RankCount { candidates: 1_000_000, nll: 9.0, below, ties: 0, unresolved: 0 };
//! let counts = [canary(0), canary(301_110), canary(52_000), canary(710_000)];
//! let summary = ExposureSummary::of(&counts, Draw::Independent)?;
//! assert!(summary.max().lower() > 19.9); // bits
//! assert!(summary.max().p_value() < 1e-5); // without any leak
//! # Ok::<(), reticent_attacks::Error>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod audit_bound;
mod draw;
mod error;
pub mod evalue;
pub mod exposure;
pub mod extract;
pub mod membership;
mod normal;
mod one_run;
mod perplexity;
mod rates;
mod scoring;
pub mod search;
mod spelled;
mod statistics;

pub use audit_bound::{AuditBound, AuditTerms};
pub use draw::Draw;
pub use error::{Error, Result};
pub use one_run::OneRunCounts;
pub use perplexity::{
    Perplexity, RecordCost, are_alike, check_speaks, is_silent, perplexity, pseudo_perplexity,
};
pub use rates::{RateCounts, RatioMethod, Sides, accuracy_ceiling};
pub use scoring::windows;
pub use statistics::sign_test;
