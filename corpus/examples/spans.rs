//! What a policy finds, and how fast, on one core.
//!
//! ```console
//! $ cargo run --release --package reticent-corpus --example spans -- POLICY FILE.jsonl [ROUNDS] [SPANS.jsonl]
//! ```
//! POLICY is `general`, `names` or `detectors`. Prints a JSON object: texts, words (apart by white space), megabytes,
//! spans, seconds. With a fourth argument the spans of each text are written there, in characters, for
//! `benches/policy.py` and `benches/corpus_peers.py`.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use reticent_corpus::Document;
use reticent_corpus::policy::{Policy, PolicyChoice, Span, View, resolved};
use reticent_corpus::read::read_documents;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let policy = arguments.next().ok_or("POLICY is missing")?;
    let path = arguments.next().ok_or("FILE.jsonl is missing")?;
    let rounds: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let documents = read_documents(path.as_ref())?;
    let policy: PolicyChoice = serde_json::from_value(serde_json::json!({ "type": policy }))?;
    let policy = policy.build()?;
    let began = Instant::now();
    let mut found = Vec::new();
    for _ in 0..rounds {
        found = documents
            .iter()
            .map(|d| spans(policy.as_ref(), d))
            .collect();
    }
    let seconds = began.elapsed().as_secs_f64() / rounds as f64;
    if let Some(file) = arguments.next() {
        std::fs::write(file, lines(&documents, &found))?;
    }
    let texts = documents.iter().map(|d| d.text.as_str());
    let said = serde_json::json!({
        "texts": documents.len(),
        "words": texts.clone().map(|t| t.split_whitespace().count()).sum::<usize>(),
        "megabytes": texts.map(str::len).sum::<usize>() as f64 / 1e6,
        "spans": found.iter().map(Vec::len).sum::<usize>(),
        "seconds": seconds,
    });
    println!("{said}");
    Ok(())
}

fn spans(policy: &dyn Policy, document: &Document) -> Vec<Span> {
    let view = View {
        text: &document.text,
        secrets: &[],
    };
    resolved(policy, &view)
}

/// One line for each document: its id and its spans.
fn lines(documents: &[Document], found: &[Vec<Span>]) -> String {
    let mut out = String::new();
    for (document, spans) in documents.iter().zip(found) {
        let character = |byte: usize| document.text[..byte].chars().count();
        let spans: Vec<_> = spans
            .iter()
            .map(|s| serde_json::json!([character(s.start), character(s.end), &*s.kind, s.score]))
            .collect();
        let line = serde_json::json!({"id": document.id, "spans": spans});
        out.push_str(&line.to_string());
        out.push('\n');
    }
    out
}
