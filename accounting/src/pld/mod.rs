//! The privacy-loss law: dominating pairs as data, their composition, and the questions
//! δ(ε), ε(δ) and the profile.

mod compose;
mod convert;
mod gaussian;
mod mixture;
mod search;
pub(crate) mod solver;

pub use compose::{Direction, PrivacyLoss, Query};
pub use convert::Answer;
pub use mixture::{Mixture, Pair};
