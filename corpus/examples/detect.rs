//! Accuracy and speed of the detectors on a corpus with marked secrets.
//!
//! ```console
//! $ cargo run --release --package reticent-corpus --example detect -- FILE.jsonl [ROUNDS] [SPANS.jsonl]
//! ```
//! A marked secret counts as found when spans of the detectors cover it whole. With a third
//! argument every span found is written there, for `benches/corpus_peers.py`.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use reticent_corpus::Document;
use reticent_corpus::policy::{DetectorOptions, Detectors, Policy, View};
use reticent_corpus::read::read_documents;
use std::collections::BTreeMap;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("FILE.jsonl is missing")?;
    let rounds: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let documents = read_documents(path.as_ref())?;
    let policy = Detectors::new(&DetectorOptions::default())?;
    if let Some(file) = arguments.next() {
        write_spans(file.as_ref(), &policy, &documents)?;
    }
    let mut rows: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut found: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for document in &documents {
        let spans = spans(&policy, document);
        for secret in &document.secrets {
            let text = document.secret_text(secret);
            let row = rows.entry(secret.kind.clone()).or_default();
            row[0] += 1;
            let whole = spans
                .iter()
                .any(|(s, e, ..)| *s <= secret.start && secret.end <= *e);
            row[1] += usize::from(whole);
            if !whole && rounds == 0 {
                println!("missed {} {text:?}", secret.kind);
            }
        }
        for (start, end, kind, _) in spans {
            let count = found.entry(kind.clone()).or_default();
            count[0] += 1;
            let marked = document
                .secrets
                .iter()
                .find(|s| s.start < end && start < s.end);
            count[1] += usize::from(marked.is_some());
            if rounds == 0 {
                let text: String = document
                    .text
                    .chars()
                    .skip(start)
                    .take(end - start)
                    .collect();
                println!("found {kind} {text:?} {:?}", marked.map(|s| &s.kind));
            }
        }
    }
    for (kind, [marked, whole]) in rows {
        println!("{kind:24} {whole:6} of {marked:6} marked found whole");
    }
    for (kind, [all, marked]) in found {
        println!("{kind:24} {marked:6} of {all:6} found overlap a marked secret");
    }
    let bytes: usize = documents.iter().map(|d| d.text.len()).sum();
    let began = Instant::now();
    let mut number = 0;
    for _ in 0..rounds {
        for document in &documents {
            number += spans(&policy, document).len();
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = (bytes * rounds) as f64 / 1e6 / seconds;
    println!("{number} spans, {rate:.1} MB/s on one core");
    Ok(())
}

/// Spans in characters, with their kinds and scores.
fn spans(policy: &Detectors, document: &Document) -> Vec<(usize, usize, String, f32)> {
    let mut out = Vec::new();
    let view = View {
        text: &document.text,
        secrets: &[],
    };
    policy.find(&view, &mut out);
    let character = |byte: usize| {
        if document.text.is_ascii() {
            byte
        } else {
            document.text[..byte].chars().count()
        }
    };
    out.iter()
        .map(|s| {
            let kind = s.kind.to_string();
            (character(s.start), character(s.end), kind, s.score)
        })
        .collect()
}

/// One line of spans for each document, in characters.
fn write_spans(
    file: &std::path::Path,
    policy: &Detectors,
    documents: &[Document],
) -> Result<(), Box<dyn std::error::Error>> {
    let mut lines = String::new();
    for document in documents {
        let line = serde_json::json!({"id": document.id, "spans": spans(policy, document)});
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    std::fs::write(file, lines)?;
    Ok(())
}
