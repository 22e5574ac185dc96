//! What a token classifier of a folder says of texts, for `benches/onnx_parity.py`.
//!
//! ```console
//! $ cargo run --package reticent-corpus --features onnx --example classify -- FOLDER TEXTS.txt
//! ```
//! One JSON list for each line: `[start, end, kind, score]` of every entity from 0.02 on, in bytes.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use reticent_corpus::TokenClassifier;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("FOLDER is missing")?;
    let texts = arguments.next().ok_or("TEXTS.txt is missing")?;
    let model = TokenClassifier::load(folder.as_ref())?;
    for text in std::fs::read_to_string(texts)?.lines() {
        let spans = model.entities(text, 0.02)?;
        let spans: Vec<_> = spans
            .iter()
            .map(|s| serde_json::json!([s.start, s.end, &*s.kind, s.score]))
            .collect();
        println!("{}", serde_json::to_string(&spans)?);
    }
    Ok(())
}
