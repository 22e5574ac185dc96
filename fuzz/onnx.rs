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
#![expect(clippy::print_stdout, reason = "an example shows its result")]
#![expect(clippy::print_stderr, reason = "findings are no data")]

#[path = "mutation.rs"]
mod mutation;
#[path = "../corpus/tests/onnx/tiny.rs"]
mod tiny;

use mutation::{kept, mutated};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_corpus::TokenClassifier;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// One of the three files and its mutants.
struct Part {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static str],
    /// Of the inputs, in percent.
    share: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let inputs: u64 = arguments.next().ok_or("how many inputs?")?.parse()?;
    let seed: u64 = arguments.next().map_or(Ok(0), |s| s.parse())?;
    let folder = arguments.next().map(PathBuf::from);
    std::panic::set_hook(Box::new(|_| ()));
    let part = |name, seed: Vec<u8>, words, share| Part {
        name,
        seeds: vec![seed],
        words,
        share,
    };
    let mut parts = [
        part("onnx-model", tiny::classifier(&tiny::table()), GRAPH, 70),
        part("onnx-config", tiny::config(&tiny::LABELS), JSON, 10),
        part("onnx-tokenizer", tiny::tokenizer(), JSON, 20),
    ];
    let mut findings = 0;
    for number in 0..parts.len() {
        let mut random = ChaCha8Rng::seed_from_u64(seed.wrapping_add(number as u64));
        if let Some(folder) = &folder {
            let more = kept(&folder.join(parts[number].name))?;
            parts[number].seeds.extend(more);
        }
        let count = inputs * parts[number].share / 100;
        findings += campaign(&mut parts, number, count, &mut random, folder.as_deref())?;
    }
    if findings > 0 {
        return Err(format!("{findings} findings").into());
    }
    Ok(())
}

fn campaign(
    parts: &mut [Part; 3],
    number: usize,
    count: u64,
    random: &mut ChaCha8Rng,
    folder: Option<&Path>,
) -> std::io::Result<u64> {
    let began = Instant::now();
    let mut sorts = BTreeSet::new();
    let (mut findings, mut refused, mut slowest) = (0, 0u64, Duration::ZERO);
    let known = parts[number].seeds.len();
    for input in 0..count {
        let part = &parts[number];
        let bytes = match part
            .seeds
            .get(input as usize)
            .filter(|_| (input as usize) < known)
        {
            Some(seed) => seed.clone(),
            None if random.random_bool(0.7) => in_place(&part.seeds, random),
            None => mutated(&part.seeds, part.words, random),
        };
        let mut files = [0, 1, 2].map(|i| parts[i].seeds[0].clone());
        files[number].clone_from(&bytes);
        if number == 0 && random.random_bool(0.02) {
            // Another number of labels than the graph has.
            files[1] = tiny::config(&tiny::LABELS[..3]);
        }
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| judge(files)));
        let took = start.elapsed();
        slowest = slowest.max(took);
        let finding = match outcome {
            Ok(Ok(_)) if took > Duration::from_secs(5) => Some(format!("{took:?}")),
            Ok(Ok(sort)) => {
                refused += u64::from(sort.starts_with('E'));
                if sorts.len() < 60 && sorts.insert(sort) && bytes.len() <= 4096 {
                    if let Some(folder) = folder.filter(|_| input as usize >= known) {
                        let name = format!("{:03}", parts[number].seeds.len());
                        std::fs::write(folder.join(parts[number].name).join(name), &bytes)?;
                    }
                    parts[number].seeds.push(bytes.clone());
                }
                None
            }
            Ok(Err(finding)) => Some(finding),
            Err(_) => Some("a panic got out".to_owned()),
        };
        if let Some(finding) = finding {
            findings += 1;
            eprintln!("{}: {finding}: {bytes:?}", parts[number].name);
        }
    }
    println!(
        "{:14} {count:9} inputs, {refused:9} refused, {:3} sorts of outcome, {findings} findings, {:.0} a second, slowest {:.1} ms",
        parts[number].name,
        sorts.len(),
        count as f64 / began.elapsed().as_secs_f64(),
        slowest.as_secs_f64() * 1e3,
    );
    Ok(findings)
}

/// A seed with a few bytes changed where they are: lengths still fit, so that more is read.
fn in_place(seeds: &[Vec<u8>], random: &mut ChaCha8Rng) -> Vec<u8> {
    // What was refused before is refused again, mostly: half are mutants of the one that loads.
    let from = if random.random_bool(0.5) {
        0
    } else {
        random.random_range(0..seeds.len())
    };
    let mut bytes = seeds[from].clone();
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        bytes[at] = match random.random_range(0..3u8) {
            0 => bytes[at] ^ (1 << random.random_range(0..8)),
            1 => random.random(),
            _ => bytes[at].wrapping_add([1, 255][random.random_range(0..2)]),
        };
    }
    bytes
}

/// The sort of outcome, or what is wrong with it.
fn judge(files: [Vec<u8>; 3]) -> Result<String, String> {
    let [model, config, tokenizer] = files;
    let loaded = TokenClassifier::from_bytes(Path::new(FOLDER), model, &config, &tokenizer);
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
