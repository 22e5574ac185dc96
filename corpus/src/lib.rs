//! Turns text into training records, applies redaction policies, and plans canaries. Contains no model and no tensors.
//!
//! | module | what it does |
//! |---|---|
//! | [`read`] | reads files of many formats into [`Document`]s |
//! | [`policy`] | decides which spans are secret: detectors, dictionaries, levels |
//! | [`tagger`] | the word tagger that the levels of secrecy build on |
//! | [`dedup`] | finds exact duplicates, near duplicates and repeated substrings |
//! | [`canary`] | canaries: formats, carriers, coins, and the space that an attack searches |
//! | [`tokenize`] | our own tokenizers and pretrained ones |
//! | [`prepare`] | the pipeline in one pass, by one process or shards: text to a [`TrainingSet`] and its stability |
//! | [`redaction`] | applies the same policies with text as output, and records where each secret occurs |
//! | [`screening`] | human judgements, for measuring what a policy misses |
//! | [`simulate`] | generates dialogues with known secrets for trying out the rest |
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

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

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
mod rows;
pub mod screening;
pub mod simulate;
mod split;
pub mod tagger;
pub mod tokenize;
mod trigram;
mod unit;
#[cfg(feature = "workers")]
mod worker;

// Text and what is known about it.
pub use document::{Document, Masked, Secret};
pub use labels::Labels;
pub use unit::Unit;

// What training sees.
pub use answers::{Answers, LossOn};
pub use folder::prepared_schemas;
pub use record::{Record, Side, TokenId, TrainingSet, misplaced, record_id};

// The baseline that a trained model has to beat.
pub use trigram::{Evaluation, NGram, Trigram};

// Third-party models, run in a process with limits.
#[cfg(feature = "onnx")]
pub use onnx::{Classified, TokenClassifier};
#[cfg(feature = "workers")]
pub use worker::isolate;

pub use error::{Error, Result};
pub use random::system_seed;

/// The SHA-256, in hexadecimal, of the code that decides what is prepared: the sources and models of this crate, and the
/// versions and features of its dependencies. It is the same on every architecture. `build.rs` computes it.
pub const CODE: &str = env!("RETICENT_CODE");

/// Returns numbers below a bound, from a seed.
#[cfg(test)]
fn draws(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    }
}
