//! Our logits on the folders that `benches/hugging_face.py` made, and our copies of them.
//!
//! `hugging_face DIR`: reads DIR/*/ with its `cases.json`, writes DIR/*/ours, and prints the
//! worst max |difference| / max |logit| of each as JSON: of the exact engine, of the fast one.

use reticent_backends::{
    Logits, exact_logits, load_hugging_face, save_hugging_face, transformer_logits,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

#[derive(Deserialize)]
struct Case {
    tokens: Vec<u32>,
    token_types: Vec<u32>,
    logits: Vec<f64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: hugging_face DIR")?;
    let mut worst = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.join("cases.json").exists() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            worst.insert(name.into_owned(), compare(&path)?);
        }
    }
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&worst)?)?;
    Ok(())
}

fn compare(folder: &Path) -> Result<[f64; 2], Box<dyn std::error::Error>> {
    let (config, weights) = load_hugging_face(folder)?;
    save_hugging_face(&folder.join("ours"), &config, &weights, None)?;
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(folder.join("cases.json"))?)?;
    let mut fast = transformer_logits(&config, weights.clone())?;
    let mut exact = exact_logits(&config.into(), weights)?;
    Ok([
        worst(exact.as_mut(), &cases)?,
        worst(fast.as_mut(), &cases)?,
    ])
}

fn worst(model: &mut dyn Logits, cases: &[Case]) -> Result<f64, Box<dyn std::error::Error>> {
    let mut worst = 0.0f64;
    for case in cases {
        let ours = model.logits(&case.tokens, &case.token_types)?;
        if ours.len() != case.logits.len() {
            return Err(format!("{} logits against {}", ours.len(), case.logits.len()).into());
        }
        let largest = case.logits.iter().fold(0.0f64, |m, l| m.max(l.abs()));
        let pairs = ours.iter().zip(&case.logits);
        let difference = pairs.fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        worst = worst.max(difference / largest);
    }
    Ok(worst)
}
