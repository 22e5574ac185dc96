//! Near-duplicates of a corpus whose documents are words, for `benches/corpus_peers.py`.
//!
//! ```console
//! $ cargo run --release --package reticent-corpus --example near -- FILE.jsonl SIMILARITY BANDS ROWS
//! ```
//! One JSON object: seconds from words to fates, and the ids of the documents that are dropped.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use reticent_corpus::dedup::{Deduplication, Fate};
use reticent_corpus::read::read_documents;
use std::collections::HashMap;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, similarity, bands, rows] = arguments.as_slice() else {
        return Err("FILE.jsonl SIMILARITY BANDS ROWS".into());
    };
    let documents = read_documents(path.as_ref())?;
    let method = Deduplication::Near {
        shingle: 3,
        bands: bands.parse()?,
        rows: rows.parse()?,
        similarity: similarity.parse()?,
    };
    let began = Instant::now();
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let units: Vec<Vec<u32>> = documents
        .iter()
        .map(|document| {
            let words = document.text.split_whitespace();
            words
                .map(|word| {
                    let next = numbers.len() as u32;
                    *numbers.entry(word).or_insert(next)
                })
                .collect()
        })
        .collect();
    let fates = method.fates(&units, 0)?;
    let seconds = began.elapsed().as_secs_f64();
    let dropped: Vec<&str> = documents
        .iter()
        .zip(&fates)
        .filter(|(_, fate)| **fate == Fate::Drop)
        .map(|(document, _)| document.id.as_str())
        .collect();
    println!(
        "{}",
        serde_json::json!({"seconds": seconds, "dropped": dropped})
    );
    Ok(())
}
