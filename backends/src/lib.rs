//! Trainer and scorer engines, and the recipes that run them. burn lives here and nowhere else.

mod error;
mod scorer;

pub use error::{Error, Result};
pub use scorer::{PrefixScorer, Scorer, StateId, TokenScore};
