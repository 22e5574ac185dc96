//! Membership scores and their evaluation against published numbers and by-hand oracles.

mod combined;
mod evaluation;
mod groups;
mod panel;
mod scores;
mod shadow;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Bounds, Confidence, Probability};
use reticent_backends::TokenScore;

pub(crate) fn level(confidence: f64) -> Confidence {
    Confidence::new(confidence).unwrap()
}

fn close(got: f64, wanted: f64, tolerance: f64) {
    assert!(
        (got - wanted).abs() <= tolerance,
        "got {got}, wanted {wanted}"
    );
}

/// A token's score with nothing but its ln p; the model's first choice is `top`.
fn token(log_probability: f64, top_token: u32) -> TokenScore {
    TokenScore {
        log_probability,
        mean: -2.0,
        variance: 1.0,
        top_token,
        top_log_probability: -0.1,
    }
}

fn row(ln_p: &[f64]) -> Vec<TokenScore> {
    ln_p.iter().map(|p| token(*p, 9)).collect()
}

fn ends(bounds: &Bounds<Probability>) -> (f64, f64) {
    (
        bounds.lower.unwrap().get().get(),
        bounds.upper.unwrap().get().get(),
    )
}

pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}
