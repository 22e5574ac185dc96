//! LiRA and RMIA of signals from standard input, for comparison with other implementations (`benches/membership_peers.py`):
//! `{"targets": […], "inside": [[…]], "outside": [[…]], "a": 0.3}`, mean ln p per token of each record under the audited model and under shadow
//! models with it and without it. Prints `{"lira": {"online-shared": […], …}, "rmia": […]}`.
#![expect(clippy::print_stdout, reason = "a report for scripts")]

use reticent_attacks::membership::{Lira, Shadows, Spread, lira, logit_of_confidence, rmia};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Signals {
    targets: Vec<f64>,
    inside: Vec<Vec<f64>>,
    outside: Vec<Vec<f64>>,
    a: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Signals = serde_json::from_reader(std::io::stdin())?;
    let logits = |all: &[f64]| all.iter().map(|p| logit_of_confidence(*p)).collect();
    let shadows: Vec<Shadows> = given
        .inside
        .iter()
        .zip(&given.outside)
        .map(|(inside, outside)| Shadows {
            inside: logits(inside),
            outside: logits(outside),
        })
        .collect();
    let targets: Vec<f64> = logits(&given.targets);
    let mut scores = BTreeMap::new();
    for (name, variant, spread) in [
        ("online-shared", Lira::Online, Spread::Shared),
        ("online-per-record", Lira::Online, Spread::PerRecord),
        ("in-only-shared", Lira::InOnly, Spread::Shared),
    ] {
        scores.insert(name, lira(&targets, &shadows, variant, spread)?);
    }
    let without =
        |ln_p: &Vec<f64>| (ln_p.iter().map(|p| p.exp()).sum::<f64>() / ln_p.len() as f64).ln();
    let population: Vec<(f64, f64)> = given
        .targets
        .iter()
        .zip(&given.outside)
        .map(|(target, outside)| (*target, without(outside)))
        .collect();
    let ratios: Vec<f64> = population
        .iter()
        .map(|record| rmia(*record, &population, given.a, 1.0))
        .collect::<Result<_, _>>()?;
    println!("{}", serde_json::json!({ "lira": scores, "rmia": ratios }));
    Ok(())
}
