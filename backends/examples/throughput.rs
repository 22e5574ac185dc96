//! Tokens per second of one public and one private gradient of the papers' LSTM.
//!
//! `cargo run --release -p reticent-backends --features cpu --example throughput`
#![expect(clippy::print_stdout, reason = "a measuring program prints")]

use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use reticent_backends::{Clip, Device, LstmConfig, all_private, lstm, unprotected};
use reticent_corpus::{Record, Side, TrainingSet, Unit};
use std::time::Instant;

fn main() -> reticent_backends::Result<()> {
    let config = LstmConfig::paper(100);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for (batch, length) in [
        (8, 45),
        (16, 45),
        (64, 40),
        (128, 40),
        (256, 40),
        (256, 64),
        (64, 256),
    ] {
        let records = (0..batch)
            .map(|_| Record {
                side: Side::Private,
                tokens: (0..length / 2 + rng.random::<u32>() % length)
                    .map(|_| rng.random::<u32>() % 100)
                    .collect(),
                sensitive: Vec::new(),
            })
            .collect();
        let set = TrainingSet {
            unit: Unit::Turn,
            records,
            mask_only: 0,
        };
        let tokens: usize = set.records.iter().map(|r| r.tokens.len() - 1).sum();
        let mut model = lstm(&config, config.starting_weights(0), Device::Cpu)?;
        let (public, private) = (unprotected(&set), all_private(&set));
        let everything: Vec<u32> = (0..batch as u32).collect();
        let clip = Clip::new(1.0, model.norm_margin())?;
        let mut best = [f64::INFINITY; 2];
        for _ in 0..8 {
            let start = Instant::now();
            model.public_gradient(&public.batch(&everything))?;
            best[0] = best[0].min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            model.begin();
            model.add(&private.batch(&everything), &clip)?;
            best[1] = best[1].min(start.elapsed().as_secs_f64());
        }
        println!(
            "batch {batch} length {length}: public {:.0} tokens/s, private {:.0} tokens/s, ratio {:.2}",
            tokens as f64 / best[0],
            tokens as f64 / best[1],
            best[1] / best[0]
        );
    }
    Ok(())
}
