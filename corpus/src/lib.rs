//! Text in: unit, tokenise, deduplicate, redact, split, insert canaries, simulate. Out: a
//! [`TrainingSet`] with its stages, their stability, and a canary plan.

mod canary;
mod document;
mod error;
mod folder;
mod policy;
mod prepare;
mod random;
mod read;
mod record;
mod simulate;
mod split;
mod tokenize;
mod trigram;
mod unit;

pub use canary::{
    Canary, CanaryOptions, CanaryPlace, CanaryPlan, CanaryTemplate, CandidateSpace, Carriers,
    CopyFate, CopyReport, Field, Insertion, Preflight, Spec, insert,
};
pub use document::{Document, Masked, Secret};
pub use error::{Error, Result};
pub use policy::{
    Conservative, ConservativeOptions, Gold, MASKED, PatternRule, Patterns, Policy, PolicyChoice,
    PolicyOptions, Simulated, Span, View, missed_strings, resolved,
};
pub use prepare::{
    CanarySight, Copies, Facts, KindFacts, NeighbourDiff, PrepareOptions, Prepared, Preparer,
    SecretFacts, SecretSource, Stability, Stage, StageStability, TokenizerChoice, mask_secret,
    neighbour_diff, prepare,
};
pub use read::{LINE_LIMIT, read_documents};
pub use record::{Record, Side, TokenId, TrainingSet};
pub use simulate::simulate;
pub use tokenize::{Encoded, MASK_TEXT, Origin, Tokenizer};
pub use trigram::{Evaluation, NGram, Trigram};
pub use unit::Unit;
