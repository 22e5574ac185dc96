//! Mutations of the three files of a token classifier: a model that says something, or an error
//! that names its file, never a panic that gets out.
//!
//! ```console
//! $ cargo run --package reticent-corpus --features onnx --example fuzz_onnx -- 1000000 [SEED] [fuzz/corpus]
//! ```
//! Deterministic for a seed. Each input is the tiny model of the tests with a few mutations of its
//! graph, its `config.json` or its `tokenizer.json`. What is asserted beside "no panic, no abort":
//! errors name one of the files, spans lie in the text at its characters' boundaries, scores from
//! 0 to 1, and a model whose look-over refuses it is not built. A model is a program: run this
//! under a limit of memory (`ulimit -v`), as one that asks for more is not stopped by the loader.
#![expect(clippy::print_stderr, reason = "findings are no data")]

#[path = "campaign.rs"]
mod campaign;
#[path = "mutation.rs"]
mod mutation;
#[path = "../corpus/tests/onnx/tiny.rs"]
mod tiny;

use campaign::{Campaign, Target, none_found};
use mutation::{in_place, mutated};
use rand::RngExt;
use reticent_corpus::TokenClassifier;
use std::path::Path;
use std::time::Duration;

const TEXT: &str = "caf\u{e9} Ada King met Bob in Paris. \u{fffc} London \u{1f980} Rose";
const FOLDER: &str = "m";

/// Operators and names that a graph may hold, and pieces of the JSON files.
const GRAPH: &[&str] = &[
    "Gather",
    "Add",
    "MatMul",
    "Cast",
    "Slice",
    "Shape",
    "Unsqueeze",
    "Mul",
    "Reshape",
    "Expand",
    "Concat",
    "Softmax",
    "Transpose",
    "Loop",
    "If",
    "Constant",
    "ConstantOfShape",
    "Range",
    "Tile",
    "LSTM",
    "Resize",
    "Einsum",
    "logits",
    "input_ids",
    "attention_mask",
    "\u{0}",
    "\u{1}",
    "\u{7f}",
    "words",
    "shape",
];
const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"id2label\":",
    "\"0\":",
    "\"B-PER\"",
    "\"O\"",
    "\"max_position_embeddings\":",
    "\"vocab\":",
    "\"model\":",
    "\"type\":",
    "\"BPE\"",
    "\"Unigram\"",
    "\"merges\":[]",
    "\"truncation\":",
    "\"normalizer\":",
    "\"Replace\"",
    "\"pattern\":",
    "\"Regex\":\"(a+)+$\"",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let campaign = Campaign::of_command()?;
    let whole = [
        tiny::classifier(&tiny::table()),
        tiny::config(&tiny::LABELS),
        tiny::tokenizer(),
    ];
    let mut findings = 0;
    for (part, name, words, share) in [
        (0, "onnx-model", GRAPH, 70),
        (1, "onnx-config", JSON, 10),
        (2, "onnx-tokenizer", JSON, 20),
    ] {
        let target = Target {
            name,
            seeds: vec![whole[part].clone()],
            share,
            patience: Duration::from_secs(5),
            sorts: 60,
        };
        findings += campaign.run(
            part as u64,
            target,
            |seeds, random| {
                if random.random_bool(0.7) {
                    in_place(seeds, random)
                } else {
                    mutated(seeds, words, random)
                }
            },
            |bytes, random| {
                let mut files = whole.to_vec();
                files[part] = bytes.to_vec();
                if part == 0 && random.random_bool(0.02) {
                    // Another number of labels than the graph has.
                    files[1] = tiny::config(&tiny::LABELS[..3]);
                }
                files
            },
            judge,
        )?;
    }
    none_found(findings)
}

/// The sort of outcome, or what is wrong with it.
fn judge(files: &[Vec<u8>]) -> Result<String, String> {
    let [model, config, tokenizer] = files else {
        return Err("not three files".to_owned());
    };
    let loaded = TokenClassifier::from_bytes(Path::new(FOLDER), model.clone(), config, tokenizer);
    let model = match loaded {
        Ok(model) => model,
        Err(error) => return refusal(&error.to_string(), "m/"),
    };
    match model.entities(TEXT, 0.3) {
        Err(error) => refusal(&error.to_string(), "model.onnx"),
        Ok(spans) => {
            for span in &spans {
                let fits = span.start < span.end && TEXT.get(span.start..span.end).is_some();
                if !fits || !(0.0..=1.0).contains(&span.score) {
                    return Err(format!("{span:?}"));
                }
            }
            Ok(format!("D{}", spans.len()))
        }
    }
}

fn refusal(text: &str, begins: &str) -> Result<String, String> {
    if !text.starts_with(begins) {
        return Err(format!("{text:?} does not name the file"));
    }
    let quoted = text.split('"').next().unwrap_or("");
    let sort: String = quoted
        .chars()
        .filter(|c| !c.is_ascii_digit())
        .take(80)
        .collect();
    Ok(format!("E{sort}"))
}
