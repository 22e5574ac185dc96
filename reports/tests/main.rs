//! All tests in one program: it is linked once, and its tests share the processors.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod account;
mod account_commands;
mod audit;
mod bad_input;
mod calibrations;
#[path = "../../schemas/check.rs"]
#[cfg(feature = "findings")]
mod check;
mod common;
mod corpus_commands;
mod grids;
mod mechanism_files;
mod old_documents;
mod owner_folders;
mod prepare_shards;
mod prepared_folders;
mod reproductions;
mod scorer;
mod screening;
#[path = "../../corpus/tests/onnx/tiny.rs"]
#[cfg(feature = "findings")]
mod tiny;
mod vectors;
mod workers;
