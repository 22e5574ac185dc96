//! Mechanisms from outside: what is read, what is refused and in which words, and that
//! nothing panics.

mod arbitrary;
mod events;
mod refusals;

use super::{Mechanism, Sampling};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{NoiseMultiplier, SamplingRate, Steps};

const ASKED: Neighbours = Neighbours::AddRemove;

fn read(text: &str) -> Result<Mechanism, String> {
    crate::training::read(text, ASKED)
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
