//! Corpora of every format: the first byte says which.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reticent_corpus::read::{Documents, ReadOptions};
use std::path::Path;

const NAMES: [&str; 7] = [
    "x.jsonl",
    "x.json",
    "x.txt",
    "x.csv",
    "x.jsonl.gz",
    "x.jsonl.zst",
    "x.parquet",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let name = NAMES[usize::from(*kind) % NAMES.len()];
    let options = ReadOptions {
        longest: 400,
        ..ReadOptions::default()
    };
    for read in Documents::from_bytes(Path::new(name), rest.to_vec(), &options) {
        match read {
            Ok(document) => document.validate().expect("spans that fit"),
            Err(error) => assert!(error.to_string().starts_with(name), "{error}"),
        }
    }
});
