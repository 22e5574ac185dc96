//! How far the records that are asked about move the sum over a random batch.

use super::pairs::Mixture;

/// K of `count` records at `rate`, each a shift of one.
pub(crate) fn binomial(count: u32, rate: f64) -> Mixture {
    poisson_binomial(&vec![rate; count as usize])
}

pub(crate) fn poisson_binomial(rates: &[f64]) -> Mixture {
    let mut law = vec![1.0];
    for rate in rates {
        let mut next = vec![0.0; law.len() + 1];
        for (k, mass) in law.iter().enumerate() {
            next[k] += mass * (1.0 - rate);
            next[k + 1] += mass * rate;
        }
        law = next;
    }
    let all = law.iter().enumerate().map(|(k, mass)| (*mass, k as f64));
    all.filter(|(mass, _)| *mass > 0.0).collect()
}

pub(crate) fn mirrored(law: &Mixture) -> Mixture {
    law.iter().map(|(mass, place)| (*mass, -place)).collect()
}

pub(crate) fn at(place: f64) -> Mixture {
    vec![(1.0, place)]
}

/// The law of the sum over a Poisson batch cut to `most` at random, of `others` records at one place and
/// perhaps one more.
pub(crate) fn truncated_sum(
    rate: f64,
    most: u64,
    others: u64,
    others_at: f64,
    record_at: Option<f64>,
) -> Mixture {
    let mut law: Vec<(f64, f64)> = Vec::new();
    let mut add = |mass: f64, place: f64| {
        if mass > 0.0 {
            match law
                .iter_mut()
                .find(|(_, there)| (*there - place).abs() < 1e-9)
            {
                Some((sum, _)) => *sum += mass,
                None => law.push((mass, place)),
            }
        }
    };
    let drawn = binomial(others as u32, rate);
    for (mass, count) in &drawn {
        let cut = count.min(most as f64);
        let Some(record_at) = record_at else {
            add(*mass, cut * others_at);
            continue;
        };
        add(mass * (1.0 - rate), cut * others_at);
        // Drawn too, and kept with the chance of a place among all that were drawn.
        let kept = (most as f64 / (count + 1.0)).min(1.0);
        let beside = (count + 1.0).min(most as f64) - 1.0;
        add(mass * rate * kept, beside * others_at + record_at);
        add(mass * rate * (1.0 - kept), cut * others_at);
    }
    law
}
