//! Text in: unit, tokenise, deduplicate, redact, split, insert canaries, simulate. Out: a
//! [`TrainingSet`] with its stages, their stability, and a canary plan.

mod record;
mod unit;

pub use record::{Record, Side, TokenId, TrainingSet};
pub use unit::Unit;
