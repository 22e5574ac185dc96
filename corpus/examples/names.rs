//! Speed of the tagger that ships, on one core.
//!
//! ```console
//! $ cargo run --release --package reticent-corpus --example names -- FILE.jsonl [ROUNDS]
//! ```
//! Prints a JSON object: texts, words (apart by white space), megabytes, spans, seconds.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use reticent_corpus::{Names, PolicyChoice, View, read_documents};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("FILE.jsonl is missing")?;
    let rounds: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let documents = read_documents(path.as_ref())?;
    let policy = PolicyChoice::Names {
        least: Names::LEAST,
    };
    let policy = policy.build()?;
    let began = Instant::now();
    let mut spans = Vec::new();
    for _ in 0..rounds {
        spans.clear();
        for document in &documents {
            let view = View {
                text: &document.text,
                secrets: &[],
            };
            policy.find(&view, &mut spans);
        }
    }
    let seconds = began.elapsed().as_secs_f64() / rounds as f64;
    let texts = documents.iter().map(|d| d.text.as_str());
    let said = serde_json::json!({
        "texts": documents.len(),
        "words": texts.clone().map(|t| t.split_whitespace().count()).sum::<usize>(),
        "megabytes": texts.map(str::len).sum::<usize>() as f64 / 1e6,
        "spans": spans.len(),
        "seconds": seconds,
    });
    println!("{said}");
    Ok(())
}
