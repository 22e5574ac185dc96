//! Confidentiality after redaction and deduplication (CRT), and Just Fine-tune Twice (JFT).
//!
//! The corpus provides facts, the run provides a profile, and each statement of the papers is a
//! function of the two:
//!
//! | statement | item |
//! |---|---|
//! | CRT Prop. 5, Theorem 8.1: one secret | [`Standing::confidentiality`], [`CorpusFacts::every_secret`] |
//! | CRT Prop. 5, Theorem 8.2: a list of secrets | [`SecretGroup::exactly`], [`SecretGroup::by_lemma`] |
//! | uniform confidentiality: all secrets together | [`CorpusFacts::reach_of_all`] |
//! | CRT Prop. 6, Theorem 8.3: a random secret | [`Redaction`](crate::redaction::Redaction) |
//! | CRT Prop. 7: deduplication | [`Spread`], [`Standing::reach`] |
//! | recall as a labelled sample | [`LabelledSecrets`] |
//! | JFT Theorem 1, light noise | [`JustFineTuneTwice`], [`LightNoise`], [`CountedBatches`] |
//!
//! A secret is **caught** if preparing the corpus and preparing it with the secret masked give the
//! same bytes on the same sides; anything else is a miss.

mod facts;
mod group;
mod labels;
mod selective;

pub use facts::{Confidentiality, CorpusFacts, Knowledge, Reach, Spread, Standing};
pub use group::SecretGroup;
pub use labels::{KindRates, Label, LabelledSecrets, MeasuredFor, MeasuredRates, StratumCounts};
pub use selective::{CountedBatches, JustFineTuneTwice, LightNoise, PhaseOne, RedactedAlike};
