//! Text in; records, the policy's work and a canary plan out. No model, no tensors.
//!
//! | module | what happens to text |
//! |---|---|
//! | [`read`] | files of many formats become [`Document`]s |
//! | [`policy`] | detectors, dictionaries, levels: which spans are secret |
//! | [`tagger`] | the tagger of words that levels of secrecy rest on |
//! | [`dedup`] | duplicates: exact, near, by substring |
//! | [`canary`] | canaries: formats, carriers, coins, and the space an attack searches |
//! | [`tokenize`] | tokenizers of our own and pretrained ones |
//! | [`prepare`] | all of it in one pass, by one process or shards: documents become a [`TrainingSet`] with its stages and their stability |
//! | [`redaction`] | the same policies with text as the outcome, and which secret is where |
//! | [`screening`] | what people judge, to measure what a policy misses |
//! | [`simulate`] | dialogues with known secrets, to try all of this on |
//!
//! ```
//! use reticent_corpus::prepare::{PrepareOptions, prepare};
//! use reticent_corpus::simulate::simulate;
//!
//! let prepared = prepare(&simulate(20, 7)?, &PrepareOptions::default())?;
//! assert_eq!(prepared.training.records.len(), prepared.texts.len());
//! assert!(prepared.texts.iter().any(|text| text.contains("<MASK>")));
//! # Ok::<(), reticent_corpus::Error>(())
//! ```

mod answers;
pub mod canary;
pub mod dedup;
mod document;
mod error;
mod folder;
mod labels;
#[cfg(feature = "onnx")]
mod onnx;
pub mod policy;
pub mod prepare;
mod quiet;
mod random;
pub mod read;
mod record;
pub mod redaction;
pub mod screening;
pub mod simulate;
mod split;
pub mod tagger;
pub mod tokenize;
mod trigram;
mod unit;
#[cfg(feature = "workers")]
mod worker;

// Text and what is known of it.
pub use document::{Document, Masked, Secret};
pub use labels::Labels;
pub use unit::Unit;

// What training sees.
pub use answers::{Answers, LossOn};
pub use folder::prepared_schemas;
pub use record::{Record, Side, TokenId, TrainingSet, misplaced, record_id};

// The baseline that a trained model has to beat.
pub use trigram::{Evaluation, NGram, Trigram};

// Models of others, in a process with limits.
#[cfg(feature = "onnx")]
pub use onnx::{Classified, TokenClassifier};
#[cfg(feature = "workers")]
pub use worker::isolate;

pub use error::{Error, Result};
pub use random::system_seed;
