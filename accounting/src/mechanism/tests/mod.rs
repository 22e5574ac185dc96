//! Mechanisms from outside: what is read, what is refused and in which words, and that
//! nothing panics.

mod arbitrary;
mod events;
mod refusals;

use super::{Mechanism, Sampling};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};

const NEIGHBOURS: Neighbours = Neighbours::AddRemove;

fn read(text: &str) -> Result<Mechanism, String> {
    crate::training::read(text, NEIGHBOURS)
        .map(|document| document.mechanism)
        .map_err(|refused| refused.to_string())
}

fn sigma(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

fn rate(value: f64) -> SamplingRate {
    SamplingRate::new(value).unwrap()
}

fn batch(noise: f64, share: f64, sampling: Sampling) -> Mechanism {
    Mechanism::SubsampledGaussian {
        noise_multiplier: sigma(noise),
        sampling_rate: rate(share),
        sampling,
    }
}

fn repeat(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

/// Steps count equally often however they are nested; where a sampler draws by epochs, in the same runs.
#[test]
fn a_run_is_known_by_its_steps_and_epochs() {
    let four = |run: Mechanism| run.repeated(Steps::new(4));
    let poisson = batch(1.0, 0.25, Sampling::Poisson);
    assert!(four(poisson.clone()).is_same_run(&repeat(2, repeat(2, poisson))));
    for sampling in [
        Sampling::BallsInBins,
        Sampling::Shuffled,
        Sampling::RandomAllocation {
            selected: 1,
            steps: 4,
        },
    ] {
        let step = batch(1.0, 0.25, sampling);
        let copies = Mechanism::Sequence {
            parts: vec![step.clone(); 4],
        };
        let epoch = repeat(4, step.clone());
        assert!(four(step.clone()).is_same_run(&copies), "{sampling:?}");
        assert!(!four(step.clone()).is_same_run(&epoch), "{sampling:?}");
        assert!(!repeat(2, repeat(2, step.clone())).is_same_run(&epoch));
        // Whole epochs count however they are grouped.
        assert!(repeat(2, repeat(8, step.clone())).is_same_run(&repeat(16, step.clone())));
        assert!(
            repeat(2, repeat(6, step.clone())).is_same_run(&Mechanism::Sequence {
                parts: vec![repeat(6, step.clone()), repeat(6, step)],
            })
        );
    }
}
