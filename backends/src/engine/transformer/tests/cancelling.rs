//! A record whose rows cancel in the head: all read one hidden state, and the predictions' errors add up to almost
//! nothing.

use super::*;
use crate::privacy::clip::Clipping;

/// 84 predictions of seven of 500 tokens.
fn record() -> Vec<u32> {
    (0..85).map(|t| t % 7).collect()
}

/// Weights whose hidden state is one vector of length 100, and whose probabilities are those counted in the record but
/// for 0.02 of a prediction.
fn crafted(config: &TransformerConfig, seed: u64) -> Vec<Vec<f32>> {
    let (parameters, layout) = (config.parameters(), config.layout());
    let mut weights: Vec<Vec<f32>> = parameters.iter().map(|p| vec![0.0; p.len()]).collect();
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut random = |n: usize| -> Vec<f64> { (0..n).map(|_| rng.random::<f64>() - 0.5).collect() };
    let (d, v) = (config.width, config.vocabulary);
    let direction = random(d);
    let length = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
    let hidden: Vec<f64> = direction.iter().map(|x| 100.0 * x / length).collect();
    let norm = layout.final_norm.unwrap();
    weights[norm.bias.unwrap()] = hidden.iter().map(|x| *x as f32).collect();
    let moved = random(7);
    let mean = moved.iter().sum::<f64>() / 7.0;
    let logit = |token: usize| match moved.get(token) {
        Some(moved) => ((12.0 + 0.02 * (moved - mean)) / 84.0).ln(),
        None => -60.0,
    };
    let (head, _) = parameters
        .iter()
        .enumerate()
        .rfind(|(_, p)| p.shape == if config.tied { [v, d] } else { [d, v] })
        .unwrap();
    for token in 0..v {
        for (i, h) in hidden.iter().enumerate() {
            let at = if config.tied {
                token * d + i
            } else {
                i * v + token
            };
            weights[head][at] = (logit(token) * h / 1e4) as f32;
        }
    }
    weights
}

/// Seeds 0 to 7 of weights.
#[test]
fn no_share_of_a_record_that_cancels_exceeds_the_clipping_norm() {
    for tied in [false, true] {
        let config = TransformerConfig {
            tied,
            ..TransformerConfig::new(Family::Gpt2, 500, 256, 1, 2, 128)
        };
        for seed in 0..8 {
            let weights = crafted(&config, seed);
            let engines: [Box<dyn Trainer>; 2] = [
                Box::new(Fast::new(config.clone(), weights.clone(), Default::default()).unwrap()),
                Box::new(Slow::new(config.clone(), weights, Default::default()).unwrap()),
            ];
            for (engine, mut model) in engines.into_iter().enumerate() {
                for (c, kind) in [
                    (0.5, Clipping::Flat),
                    (0.5, Clipping::PerLayer),
                    (0.5, Clipping::Automatic { stability: 0.01 }),
                ] {
                    let clip = Clip::new(c, model.norm_margin()).unwrap().by(kind).unwrap();
                    model.begin();
                    let batch = [record()];
                    model
                        .add(&PrivateBatch::in_order(views(&batch)), &clip)
                        .unwrap();
                    let reach = norm(model.accumulator()) / c;
                    let what = format!("tied {tied}, engine {engine}, seed {seed}, {kind:?}");
                    assert!(reach <= 1.0 && reach > 0.2, "{what}: {reach}");
                }
            }
        }
    }
}
