//! What the tests of prepared folders share.

use reticent_corpus::Unit;
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::dedup::Deduplication;
use reticent_corpus::policy::{ConservativeOptions, PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{PrepareOptions, TokenizerChoice};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns numbers below a bound, from a seed.
pub(crate) fn draws(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    }
}

/// Everything that is drawn or counted over the corpus; canaries such as `5x20`, with numbers of
/// copies in turn.
pub(crate) fn full(canaries: &str, doses: [u32; 2]) -> PrepareOptions {
    let mut canaries = CanaryOptions::new(canaries.parse().unwrap());
    canaries.doses = doses.to_vec();
    PrepareOptions {
        canaries: Some(canaries),
        held_out: 0.2,
        conservative: Some(ConservativeOptions::default()),
        max_tokens: Some(60),
        policy: PolicyOptions {
            miss_rate: 0.1,
            false_positive_rate: 0.02,
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    }
}

/// Near-duplicates, found by so many bands of four.
pub(crate) const fn near(bands: usize, similarity: f64) -> Deduplication {
    Deduplication::Near {
        shingle: 5,
        bands,
        rows: 4,
        similarity,
    }
}

/// Options of each kind, most of them beside everything else.
#[allow(
    dead_code,
    reason = "not every test that shares this file goes through all of them"
)]
pub(crate) fn of_each_kind() -> Vec<PrepareOptions> {
    let full = full("3x4", [2, 4]);
    let duplicates = |duplicates| PrepareOptions {
        duplicates,
        ..full.clone()
    };
    let gold = PolicyOptions {
        policy: PolicyChoice::Gold,
        ..PolicyOptions::default()
    };
    vec![
        full.clone(),
        duplicates(Deduplication::Bloom { bits: 8 }),
        duplicates(Deduplication::Substring { length: 30 }),
        duplicates(near(16, 0.7)),
        PrepareOptions {
            deduplicate: false,
            redact: false,
            unit: Unit::Sentence,
            tokenizer: TokenizerChoice::Bytes,
            ..full.clone()
        },
        PrepareOptions {
            unit: Unit::Dialogue,
            policy: gold,
            ..PrepareOptions::default()
        },
    ]
}

/// Every file of a folder.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|e| {
            let name = e.file_name().into_string().unwrap();
            (name, std::fs::read(e.path()).unwrap())
        })
        .collect()
}
