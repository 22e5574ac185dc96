//! Text in: unit, tokenise, deduplicate, redact, split, insert canaries, simulate. Out: a
//! [`TrainingSet`] with its stages, their stability, and a canary plan.
//!
//! [`read_documents`] or [`simulate`] give [`Document`]s; [`prepare`] makes them a
//! [`Prepared`] corpus, after [`PrepareOptions`]; [`Prepared::write`] and [`Prepared::load`]
//! keep it in a folder. A [`Preparer`] holds what is settled before the first record, so that
//! neighbouring corpora can be prepared alike and compared by [`neighbour_diff`], the
//! primitive that defines which secrets are caught and how far a missed one reaches. A
//! [`CandidateSpace`] is what an exposure attack searches; a [`Trigram`] is the baseline a
//! trained model has to beat.

mod answers;
mod canary;
mod dedup;
mod document;
mod error;
mod folder;
mod labels;
#[cfg(feature = "onnx")]
mod onnx;
mod policy;
mod prepare;
mod quiet;
mod random;
mod read;
mod record;
mod screening;
mod simulate;
mod split;
mod sweep;
mod tagger;
mod tokenize;
mod trigram;
mod unit;
#[cfg(feature = "workers")]
mod worker;

pub use answers::{Answers, LossOn};
pub use canary::{
    Canary, CanaryFormat, CanaryOptions, CanaryPlace, CanaryPlan, CanaryTemplate, CanaryWords,
    CandidateSpace, Carriers, CoinPlan, CopyFate, CopyReport, Field, Insertion, Preflight,
    SampledPlace, SeedOrigin, Spec, TokenCounts, WordFacts, insert,
};
pub use dedup::{Deduplication, Fate, same_texts};
pub use document::{Document, Masked, Secret};
pub use error::{Error, Result};
pub use folder::prepared_schemas;
pub use labels::Labels;
#[cfg(feature = "onnx")]
pub use onnx::{Classified, TokenClassifier};
pub use policy::{
    AtLeast, Conservative, ConservativeOptions, Country, Cover, DetectorOptions, Detectors,
    Dictionary, DictionaryOptions, EntityKind, Gold, IDENTIFYING, Level, Levels, MASKED, NUMERIC,
    Names, OnnxOptions, PatternRule, Patterns, Policy, PolicyChoice, PolicyOptions, Role, RoleTag,
    Simulated, Span, Tagger, Threshold, View, missed_strings, resolved,
};
pub use prepare::{
    ButFor, CanarySight, Copies, Facts, KindFacts, NeighbourCounts, NeighbourDiff, Neighbours,
    Phase, Preparation, PrepareFiles, PrepareOptions, Prepared, Preparer, RestartCause,
    SecretCopies, SecretDiff, SecretFacts, SecretSource, Selection, ShardPlan, ShardStage,
    Stability, Stage, StageStability, TokenizerChoice, UnitDigests, mask_secret, neighbour_diff,
    prepare, shard_plan_schema,
};
pub use read::{
    ChatTemplate, Documents, LINE_LIMIT, ReadOptions, corpus_files, last_answer, made_up_number,
    read_documents, read_readable,
};
#[cfg(feature = "parquet")]
pub use read::{ParquetRow, ParquetRows, field_list, field_name};
pub use record::{Record, Side, TokenId, TrainingSet, misplaced, record_id};
pub use screening::{
    FoundSpan, Judged, PolicyJudge, SecretFate, Words, draw_sample, screening_records,
};
pub use simulate::{ACTS, simulate, simulate_turns};
pub use sweep::{
    DocumentFrequencies, Incidence, RedactFiles, RedactTo, Redaction, RedactionOptions,
    RedactionState, SecretList, Sense, Sensed, default_threads, redacted_text,
};
pub use tagger::{
    NAME_LABELS, PARTS_OF_SPEECH, ROLE_LABELS, TaggedSentence, TaggerLexicon, TaggerMaterial,
    TaggerModel, TaggerTraining, WordTags, name_labels,
};
pub use tokenize::{Encoded, MASK_TEXT, Origin, Tokenizer, train_tokenizer};
pub use trigram::{Evaluation, NGram, Trigram};
pub use unit::Unit;
#[cfg(feature = "workers")]
pub use worker::isolate;
