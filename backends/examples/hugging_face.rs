//! Our logits on the folders that `benches/hugging_face.py` made, and our copies of them.
//!
//! `hugging_face DIR`: reads DIR/*/ with its `cases.json`, writes DIR/*/ours, and prints of each as
//! JSON the worst max |difference| / max |logit| of the exact engine and of the fast one, and of
//! decoders the largest difference of a token's loss, in nats.

use reticent_backends::engine::{transformer, transformer_logits};
use reticent_backends::hugging_face::load_hugging_face;
use reticent_backends::oracle::{exact_logits, save_hugging_face};
use reticent_backends::{Device, Logits, Scorer};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

#[derive(Deserialize)]
struct Case {
    tokens: Vec<u32>,
    token_types: Vec<u32>,
    logits: Vec<f64>,
    losses: Option<Vec<f64>>,
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

type Found = (f64, f64, Option<f64>);

fn compare(folder: &Path) -> Result<Found, Box<dyn std::error::Error>> {
    let (config, weights) = load_hugging_face(folder)?;
    save_hugging_face(&folder.join("ours"), &config, &weights, None)?;
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(folder.join("cases.json"))?)?;
    let losses = match cases.iter().all(|case| case.losses.is_some()) {
        true => Some(worst_loss(
            transformer(&config, weights.clone(), Device::Cpu)?.as_mut(),
            &cases,
        )?),
        false => None,
    };
    let mut fast = transformer_logits(&config, weights.clone())?;
    let mut exact = exact_logits(&config.into(), weights)?;
    Ok((
        worst(exact.as_mut(), &cases)?,
        worst(fast.as_mut(), &cases)?,
        losses,
    ))
}

fn worst_loss(
    model: &mut (impl Scorer + ?Sized),
    cases: &[Case],
) -> Result<f64, Box<dyn std::error::Error>> {
    let sequences: Vec<Vec<u32>> = cases.iter().map(|case| case.tokens.clone()).collect();
    let scores = model.score(&sequences)?;
    let mut worst = 0.0f64;
    for (scores, case) in scores.iter().zip(cases) {
        let losses = case.losses.as_deref().unwrap_or_default();
        if scores.len() != losses.len() {
            return Err(format!("{} scores against {}", scores.len(), losses.len()).into());
        }
        let pairs = scores.iter().zip(losses);
        worst = pairs.fold(worst, |m, (s, l)| m.max((s.log_probability + l).abs()));
    }
    Ok(worst)
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
