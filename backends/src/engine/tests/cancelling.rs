//! A record whose rows cancel: every row of its head reads one hidden state, and the predictions' errors add up to
//! almost nothing.

use super::*;
use crate::engine::bound::MARGIN;
use crate::engine::layers::Sums;
use crate::privacy::clip::SquaredNorms;

/// Log-probabilities of a record's seven tokens as it counts them, but for `off`, in a direction drawn with this seed.
fn almost_as_counted(tokens: &[u32], vocabulary: usize, off: f64, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let moved: Vec<f64> = (0..7).map(|_| rng.random::<f64>() - 0.5).collect();
    let mean = moved.iter().sum::<f64>() / 7.0;
    let rows = (tokens.len() - 1) as f64;
    let logit = |v: usize| {
        let count = tokens[1..].iter().filter(|t| **t as usize == v).count() as f64;
        let moved = moved.get(v)?;
        Some(((count + off * (moved - mean)) / rows).ln() as f32)
    };
    (0..vocabulary).map(|v| logit(v).unwrap_or(-60.0)).collect()
}

/// Seeds 0 to 15 of weights; 196 predictions of seven of 260 tokens, 28 each.
#[test]
fn no_share_of_a_record_that_cancels_exceeds_the_clipping_norm() {
    let config = LstmConfig {
        vocabulary: 260,
        embedding: 4,
        hidden: 200,
    };
    let tokens: Vec<u32> = (0..197).map(|t| t % 7).collect();
    let all = [tokens.clone()];
    let device = Default::default();
    let mut over = [0; 2];
    for seed in 0..16 {
        let mut weights: Vec<Vec<f32>> = config
            .parameters()
            .iter()
            .map(|p| vec![0.0; p.len()])
            .collect();
        // all gates open, and nothing remembered: h = tanh(1) in every row
        for (gate, value) in [40.0, -200.0, 40.0, 40.0].into_iter().enumerate() {
            weights[3][gate * 200..][..200].fill(value);
        }
        weights[5] = almost_as_counted(&tokens, 260, 0.02, seed);
        let model =
            super::super::lstm::Lstm::<Flex>::new(config.clone(), weights, Default::default())
                .unwrap();
        let packed = model
            .packed(&PrivateBatch::in_order(views(&all)).0, None)
            .unwrap();
        let taps = || model.taps(&packed).0;
        let norms = [
            Flex::squared_norms(&taps(), &model.weights, &packed),
            portable::squared_norms(&taps(), &model.weights, &packed),
        ];
        let whole = |factors: &crate::privacy::clip::Factors, engine: usize| {
            let parameters = config.parameters();
            let mut sums: Sums<Flex> = match engine {
                0 => Flex::zeros(&parameters, &device),
                _ => crate::engine::portable_layers::zeros(&parameters, &device),
            };
            match engine {
                0 => Flex::add_weighted_sums(taps(), &model.weights, factors, &packed, &mut sums),
                _ => {
                    portable::add_weighted_sums(taps(), &model.weights, factors, &packed, &mut sums)
                }
            }
            norm(&sums.into_host())
        };
        for (engine, norms) in norms.iter().enumerate() {
            let kinds = [
                (0.01, Clipping::Flat),
                (0.01, Clipping::PerLayer),
                (1.0, Clipping::Automatic { stability: 0.01 }),
            ];
            for (c, kind) in kinds {
                let clip = Clip::new(c, MARGIN).unwrap().by(kind).unwrap();
                let factors = clip.factors(&SquaredNorms::new(3, norms.clone()).unwrap());
                let reach = whole(&factors, engine) / c;
                assert!(
                    reach <= 1.0,
                    "engine {engine}, seed {seed}, {kind:?}: {reach}"
                );
                assert!(
                    reach > 0.4,
                    "engine {engine}, seed {seed}, {kind:?}: {reach}"
                );
            }
            // the rows are thousands of times as long as their sum
            let one = crate::privacy::clip::Factors::uniform(1, 3, 1.0);
            over[engine] += usize::from(whole(&one, engine) < 0.5);
        }
    }
    assert_eq!(over, [16, 16]);
}
