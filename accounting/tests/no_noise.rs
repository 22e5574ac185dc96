//! Next to no noise: what is implied whatever it is stays an answer, for every sampler, and no noise
//! promises more than a larger one.

use reticent_accounting::{
    Delta, GroupSize, Mechanism, Neighbours, NoiseMultiplier, Plan, Probability, Sampling,
    SamplingRate, Steps, Tolerance, UnitName,
};

const SIGMAS: [f64; 3] = [1e-5, 1e-8, 1e-140];

fn run(sigma: f64, rate: f64, sampling: Sampling) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(100),
        each: Box::new(Mechanism::SubsampledGaussian {
            noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
            sampling_rate: SamplingRate::new(rate).unwrap(),
            sampling,
        }),
    }
}

/// All rows of a plan, and the ends of its ε.
fn ends(mechanism: Mechanism, neighbours: Neighbours, group: u32, delta: f64) -> (f64, f64) {
    let unit = UnitName::new("record").unwrap();
    let plan = Plan {
        neighbours,
        group: GroupSize::new(group).unwrap(),
        prior: Some(Probability::new(1e-3).unwrap()),
        tolerance: Tolerance::new(1e-3).unwrap(),
        ..Plan::new(mechanism, unit, Delta::new(delta).unwrap())
    };
    let rows = plan.guarantees().unwrap();
    for row in &rows {
        if let Some(bounds) = row.posterior {
            let lower = bounds.lower.map_or(0.0, |end| end.get().get());
            assert!(lower <= bounds.upper.unwrap().get().get(), "{row:?}");
        }
    }
    let found = plan.epsilon().unwrap();
    let lower = found.lower.map_or(0.0, |end| end.get().get());
    (lower, found.upper.unwrap().get().get())
}

/// The ends overlap from one noise to the next smaller one as a decreasing ε demands.
fn falls_with_noise(rate: f64, sampling: &Sampling, neighbours: Neighbours, group: u32) {
    for delta in [1e-6, 0.3] {
        let mut largest_lower = 0.0f64;
        for sigma in SIGMAS {
            let run = run(sigma, rate, *sampling);
            let (lower, upper) = ends(run, neighbours, group, delta);
            let place = format!("{sampling:?} {neighbours:?} {group} {rate} {sigma} {delta}");
            assert!(lower <= upper, "{place}: {lower} {upper}");
            assert!(upper >= largest_lower, "{place}: {upper} {largest_lower}");
            largest_lower = largest_lower.max(lower);
        }
    }
}

#[test]
fn batches_by_coins_have_ends_at_every_noise() {
    for (neighbours, group) in [
        (Neighbours::AddRemove, 1),
        (Neighbours::ZeroOut, 1),
        (Neighbours::Replace, 3),
    ] {
        for rate in [0.01, 1e-9] {
            falls_with_noise(rate, &Sampling::Poisson, neighbours, group);
        }
    }
}

#[test]
fn batches_of_other_samplers_have_ends_at_every_noise() {
    let truncated = Sampling::TruncatedPoisson {
        max_batch: 20,
        records: 1000,
    };
    falls_with_noise(0.01, &truncated, Neighbours::AddRemove, 1);
    falls_with_noise(0.01, &Sampling::WithoutReplacement, Neighbours::Replace, 1);
    let allocated = Sampling::RandomAllocation {
        selected: 1,
        steps: 20,
    };
    falls_with_noise(0.05, &allocated, Neighbours::AddRemove, 1);
}

/// A sum of plain Gaussians is one Gaussian, whose ε is μ²/2 to leading order.
#[test]
fn plain_gaussians_keep_their_closed_form() {
    for sigma in SIGMAS {
        let run = run(sigma, 1.0, Sampling::Poisson);
        let (lower, upper) = ends(run, Neighbours::AddRemove, 1, 1e-6);
        let leading = 50.0 / sigma / sigma;
        assert!(lower <= upper && upper <= leading * 1.01, "{sigma}");
        assert!(lower >= leading * 0.99, "{sigma}: {lower} {leading}");
    }
}

/// A single draw, likelier than δ, loses 1/2σ² in the middle.
#[test]
fn less_noise_than_places_have_digits_for_is_not_taken_for_more() {
    for sigma in SIGMAS {
        let run = run(sigma, 0.01, Sampling::Poisson);
        let (_, upper) = ends(run, Neighbours::AddRemove, 1, 1e-6);
        assert!(upper >= 0.5 / sigma / sigma, "{sigma}: {upper}");
    }
}

/// 1e-320 was refused without the key that it stands at, and ended discrete noise in a panic. Such noise promises nothing but
/// what drawing promises.
#[test]
fn noise_whose_reciprocal_is_no_number_protects_nothing() {
    for tiny in [5e-324, 1e-320, 1e-307, 1e-160] {
        let scale = NoiseMultiplier::new(tiny).unwrap();
        let sampling_rate = SamplingRate::new(0.1).unwrap();
        let half = Probability::new(0.5).unwrap();
        for mechanism in [
            Mechanism::Gaussian {
                noise_multiplier: scale,
            },
            Mechanism::Laplace { scale },
            Mechanism::SubsampledLaplace {
                scale,
                sampling_rate,
                sampling: Sampling::Poisson,
            },
            Mechanism::PoissonBinomialGaussian {
                noise_multiplier: scale,
                rates: vec![sampling_rate],
            },
            Mechanism::MixtureOfGaussians {
                noise_multiplier: scale,
                sensitivities: vec![1.0, 1e100],
                probabilities: vec![half, half],
            },
            Mechanism::DiscreteGaussian {
                sigma: scale,
                sensitivity: 1,
            },
            Mechanism::DiscreteLaplace {
                scale,
                sensitivity: 1,
            },
        ] {
            let place = format!("{mechanism:?}");
            let (_, upper) = ends(mechanism, Neighbours::AddRemove, 1, 1e-6);
            assert!(upper > 1e100, "{place}: {upper}");
        }
        // A record that is not drawn leaks nothing.
        let rare = run(tiny, 1e-9, Sampling::Poisson);
        let (_, upper) = ends(rare, Neighbours::AddRemove, 1, 1e-6);
        assert!(upper <= 0.0, "{tiny}: {upper}");
    }
}
