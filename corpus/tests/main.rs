//! All tests of the crate in one program: it is linked once, and its tests share the processors.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod canary;
#[path = "../../schemas/check.rs"]
mod check;
mod code;
mod dedup;
mod detect;
mod folder;
mod labels;
mod neighbours;
#[cfg(feature = "onnx")]
mod onnx;
#[cfg(feature = "parquet")]
mod parquet;
mod policy;
mod prepare;
mod prepare_files;
mod prepare_resumed;
mod prepare_shards;
mod prepare_shared;
mod read;
mod schemas;
mod screening;
mod simulate;
mod sweep;
mod tokenizer;
mod trigram;
