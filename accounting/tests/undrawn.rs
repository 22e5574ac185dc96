//! Nothing leaks unless the record is drawn: ends that hold whatever the noise is, for every sampler,
//! and no cliff between neighbouring noises.

use reticent_accounting::calibrate::{
    Target, calibrate_group, calibrate_noise, calibrate_rate, calibrate_steps,
};
use reticent_accounting::rdp::Zcdp;
use reticent_accounting::redaction::Redaction;
use reticent_accounting::trade_off::{TradeOff, true_positive_rate};
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, MissRate, Neighbours, NoiseMultiplier,
    PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
};

fn run(sigma: f64, rate: f64, steps: u64, sampling: Sampling) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(steps),
        each: Box::new(Mechanism::SubsampledGaussian {
            noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
            sampling_rate: SamplingRate::new(rate).unwrap(),
            sampling,
        }),
    }
}

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

const ADD_REMOVE: Query = Query::single(Neighbours::AddRemove);
const REPLACE: Query = Query::single(Neighbours::Replace);

fn posterior(run: &Mechanism, prior: f64) -> (f64, f64) {
    let query = Query::single(Neighbours::ZeroOut);
    let loss = PrivacyLoss::of(run, query, Direction::Remove).unwrap();
    let ends = loss
        .blow_up(probability(prior), Tolerance::DEFAULT)
        .unwrap();
    let ends = ends.bounds;
    (
        ends.lower.unwrap().get().get(),
        ends.upper.unwrap().get().get(),
    )
}

/// σ 0.0989 gave 0.4023 and σ 0.0988 gave 1: guessing is at most 1 − c(1 − p), c = 0.95^10.
#[test]
fn a_posterior_has_no_cliff_where_noise_vanishes() {
    let most = 1.0 - 0.95f64.powi(10) * (1.0 - 0.00169);
    let mut before = 0.0;
    for sigma in [0.2, 0.12, 0.0989, 0.0988, 0.05, 0.01, 0.001] {
        let (low, high) = posterior(&run(sigma, 0.05, 10, Sampling::Poisson), 0.00169);
        assert!(
            low <= high && high <= most * (1.0 + 1e-11),
            "{sigma}: {low} {high} {most}"
        );
        assert!(high - low < 1e-4 * high, "{sigma}: {low} {high}");
        assert!(high >= before - 1e-6, "less noise shows more");
        before = high;
    }
    assert!((before / most - 1.0).abs() < 1e-9);
}

/// δ, ε, true-positive rates and whole curves of every sampler at next to no noise.
#[test]
fn every_sampler_hides_what_it_does_not_draw() {
    let truncated = Sampling::TruncatedPoisson {
        max_batch: 60,
        records: 1000,
    };
    for (sampling, query) in [
        (Sampling::Poisson, ADD_REMOVE),
        (Sampling::Poisson, REPLACE),
        (truncated, ADD_REMOVE),
        (truncated, REPLACE),
        (truncated, Query::single(Neighbours::ZeroOut)),
        (Sampling::WithoutReplacement, REPLACE),
        (
            Sampling::WithoutReplacement,
            Query::replace(GroupSize::new(2).unwrap()),
        ),
    ] {
        // Cut batches have a law of many pieces, which a grid of several steps takes long for.
        let (sigma, steps) = if sampling == truncated {
            (0.05, 1)
        } else {
            (0.02, 5)
        };
        // A batch holds one of these records with chance 0.05 at most.
        let run = run(sigma, 0.05 / f64::from(query.group.get()), steps, sampling);
        let seen = 1.0 - 0.95f64.powi(steps as i32);
        for direction in Direction::BOTH {
            let loss = PrivacyLoss::of(&run, query, direction).unwrap();
            let delta = loss
                .delta(Epsilon::new(3.0).unwrap(), Tolerance::DEFAULT)
                .unwrap();
            let delta = delta.bounds.upper.unwrap().get().get();
            assert!(
                delta <= seen * (1.0 + 1e-9),
                "{sampling:?} {query:?} {delta}"
            );
            let just = Delta::new(seen * (1.0 + 1e-9)).unwrap();
            let epsilon = loss.epsilon(just, Tolerance::DEFAULT).unwrap().bounds;
            assert!(epsilon.upper.unwrap().get().get() <= -0.95f64.ln() * steps as f64 + 1e-9);
        }
        let fpr = probability(0.01);
        let rate = true_positive_rate(&run, query, fpr, Tolerance::DEFAULT).unwrap();
        assert!(rate.bounds.upper.unwrap().get().get() <= seen + 0.01 + 1e-9);
        let curve = TradeOff::of(&run, query, &[fpr], Tolerance::DEFAULT).unwrap();
        let at = curve.true_positive_rate(fpr).unwrap().upper.unwrap();
        assert!(at.get().get() <= seen + 0.01 + 1e-9);
    }
}

/// At a rate of 0 a run is one of no steps, whatever the noise: ε and δ are 0, a guess is right as often as before and
/// a test as often as it is wrong. Where each record has a place in every epoch, no rate is 0.
#[test]
fn nobody_is_drawn_at_a_rate_of_zero() {
    let queries = [
        ADD_REMOVE,
        REPLACE,
        Query::single(Neighbours::ZeroOut),
        Query::new(Neighbours::ZeroOut, GroupSize::new(3).unwrap()),
    ];
    let truncated = Sampling::TruncatedPoisson {
        max_batch: 60,
        records: 1000,
    };
    let allocation = Sampling::RandomAllocation {
        selected: 2,
        steps: 8,
    };
    for query in queries {
        for sigma in [1e-200, 1e-7, 1.0] {
            for sampling in [
                Sampling::Poisson,
                truncated,
                Sampling::WithoutReplacement,
                Sampling::WithReplacement,
            ] {
                let never = run(sigma, 0.0, 10, sampling);
                for direction in Direction::BOTH {
                    let loss = PrivacyLoss::of(&never, query, direction).unwrap();
                    let none = run(sigma, 0.1, 0, Sampling::Poisson);
                    assert_eq!(loss, PrivacyLoss::of(&none, query, direction).unwrap());
                }
                assert!(*Zcdp::of(&never, query).unwrap().rho().get() <= 0.0);
            }
        }
        for sampling in [Sampling::Shuffled, Sampling::BallsInBins, allocation] {
            let unknown = run(1.0, 0.0, 10, sampling);
            for direction in Direction::BOTH {
                assert!(PrivacyLoss::of(&unknown, query, direction).is_err());
            }
        }
    }
    let unequal = |rates: &[f64]| Mechanism::PoissonBinomialGaussian {
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        rates: rates
            .iter()
            .map(|rate| SamplingRate::new(*rate).unwrap())
            .collect(),
    };
    let of = |run: &Mechanism| PrivacyLoss::of(run, ADD_REMOVE, Direction::Remove).unwrap();
    let delta = |rates: &[f64]| {
        let found = of(&unequal(rates)).delta(Epsilon::new(0.1).unwrap(), Tolerance::DEFAULT);
        found.unwrap().bounds.high().unwrap()
    };
    assert!((delta(&[0.0, 0.2]) / delta(&[0.2]) - 1.0).abs() < 1e-9);
    for run in [run(1.0, 0.0, 10, Sampling::Poisson), unequal(&[0.0, 0.0])] {
        let delta = of(&run).delta(Epsilon::new(0.0).unwrap(), Tolerance::DEFAULT);
        let delta = delta.unwrap().bounds;
        assert!(delta.low() == Some(0.0) && delta.high() == Some(0.0));
        let epsilon = of(&run).epsilon(Delta::ZERO, Tolerance::DEFAULT);
        let epsilon = epsilon.unwrap().bounds;
        assert!(epsilon.low() == Some(0.0) && epsilon.high() == Some(0.0));
        assert_eq!(posterior(&run, 0.25), (0.25, 0.25));
        let fpr = probability(0.25);
        let found = true_positive_rate(&run, ADD_REMOVE, fpr, Tolerance::DEFAULT);
        let found = found.unwrap().bounds;
        assert!(found.low() == Some(0.25) && found.high() == Some(0.25));
    }
}

/// Between present and absent a test's hits are at most 1 − c(1 − f) or f/c; a replacement allows 1 − c + f,
/// and attains it.
#[test]
fn replacements_have_a_form_of_their_own() {
    let rate = |query, fpr: f64| {
        let run = run(0.01, 0.5, 1, Sampling::Poisson);
        let found = true_positive_rate(&run, query, probability(fpr), Tolerance::DEFAULT).unwrap();
        let ends = found.bounds;
        (
            ends.lower.unwrap().get().get(),
            ends.upper.unwrap().get().get(),
        )
    };
    for (query, fpr, truth) in [
        (ADD_REMOVE, 0.1, 0.55),
        (ADD_REMOVE, 0.4, 0.8),
        (REPLACE, 0.1, 0.6),
        (REPLACE, 0.4, 0.9),
    ] {
        let (low, high) = rate(query, fpr);
        assert!(
            low <= truth + 1e-9 && high >= truth - 1e-9,
            "{low} {truth} {high}"
        );
        assert!(high - low < 1e-4, "{low} {high}");
    }
}

/// Groups and unequal rates: c = Π(1 − ρ)^T.
#[test]
fn groups_are_undrawn_together() {
    let loss = |run: &Mechanism, group: u32| {
        let query = Query {
            neighbours: Neighbours::ZeroOut,
            group: GroupSize::new(group).unwrap(),
        };
        PrivacyLoss::of(run, query, Direction::Remove).unwrap()
    };
    let of_three = loss(&run(0.01, 0.02, 4, Sampling::Poisson), 3);
    let rates = [0.1, 0.02, 0.3].map(|rate| SamplingRate::new(rate).unwrap());
    let unequal = Mechanism::Repeat {
        times: Steps::new(2),
        each: Box::new(Mechanism::PoissonBinomialGaussian {
            noise_multiplier: NoiseMultiplier::new(0.01).unwrap(),
            rates: rates.to_vec(),
        }),
    };
    for (loss, unseen) in [
        (of_three, 0.98f64.powi(12)),
        (loss(&unequal, 1), (0.9f64 * 0.98 * 0.7).powi(2)),
    ] {
        let found = loss
            .blow_up(probability(1e-3), Tolerance::DEFAULT)
            .unwrap()
            .bounds;
        let truth = 1.0 - unseen * (1.0 - 1e-3);
        let (low, high) = (
            found.lower.unwrap().get().get(),
            found.upper.unwrap().get().get(),
        );
        assert!(
            high >= truth * (1.0 - 1e-9) && high <= truth * (1.0 + 1e-9),
            "{high} {truth}"
        );
        assert!(low >= truth * (1.0 - 1e-5));
    }
}

/// A batch of fixed size has one of k records with chance kq at most: a guess was right with chance 1.
#[test]
fn guesses_of_groups_in_batches_of_fixed_size_are_bounded() {
    let run = run(0.5, 1e-5, 100, Sampling::WithoutReplacement);
    let (loss, _) = PrivacyLoss::of_guesses(&run, GroupSize::new(2).unwrap()).unwrap();
    let prior = probability(1e-6);
    let truth = 1.0 - (1.0 - 2e-5f64).powi(100) * (1.0 - 1e-6);
    let most = loss.blow_up_without_noise(prior).get().get();
    assert!((most / truth - 1.0).abs() < 1e-9, "{most} {truth}");
    let found = loss.blow_up(prior, Tolerance::DEFAULT).unwrap().bounds;
    let high = found.upper.unwrap().get().get();
    assert!(high <= most && high > 0.9 * most, "{high} {most}");
}

/// Where every noise keeps a promise, a search says so instead of ending at the least noise that an
/// engine can manage (it was 0.0063, after half a minute).
#[test]
fn calibrations_end_where_every_noise_will_do() {
    let with_sigma = |sigma: NoiseMultiplier| run(sigma.get(), 0.05, 10, Sampling::Poisson);
    let (epsilon, delta) = (Epsilon::new(1.0).unwrap(), Delta::new(0.45).unwrap());
    let promise = Target::Epsilon {
        query: ADD_REMOVE,
        epsilon,
        delta,
    };
    let guess = Target::Posterior {
        group: GroupSize::ONE,
        prior: probability(0.00169),
        posterior: probability(0.45),
    };
    let found = Target::TruePositiveRate {
        query: ADD_REMOVE,
        fpr: probability(0.01),
        tpr: probability(0.45),
    };
    let exposed = Target::Exposure {
        group: GroupSize::ONE,
        bits: 10.0,
        probability: probability(0.45),
    };
    let stranger = Target::Uninformed {
        redaction: Redaction::single_policy(MissRate::new(0.5).unwrap()),
        group: GroupSize::ONE,
        epsilon,
        delta,
    };
    for target in [promise, guess, found, exposed, stranger] {
        let least = calibrate_noise(with_sigma, target, Tolerance::DEFAULT).unwrap();
        assert_eq!(least.fails, None, "{target:?}");
        assert!(least.answer.get() < 1.1e-3);
    }
    // What is left to choose is how often a record is drawn: 1 − (1 − q)^T ≤ δ.
    let small = |rate: SamplingRate| run(0.01, rate.get(), 10, Sampling::Poisson);
    let rate = calibrate_rate(small, promise, Tolerance::new(1e-6).unwrap()).unwrap();
    let most = 1.0 - 0.55f64.powf(0.1);
    assert!(
        (rate.answer.get() / most - 1.0).abs() < 1e-5,
        "{rate:?} {most}"
    );
    let long = |steps: Steps| run(0.01, 0.05, steps.get(), Sampling::Poisson);
    let steps = calibrate_steps(long, promise, Tolerance::DEFAULT).unwrap();
    assert_eq!(steps.answer, Steps::new(11));
    let group = calibrate_group(
        &run(0.01, 0.05, 2, Sampling::Poisson),
        promise,
        Tolerance::DEFAULT,
    );
    assert_eq!(group.unwrap().answer, GroupSize::new(5).unwrap());
}

/// Next to no noise leaves δ flat in ε, far from the saddle point: ε(δ) has ends as near as δ's own digits
/// allow, on both sides of where δ is asked back.
#[test]
fn a_flat_profile_is_inverted_too() {
    for (sigma, rate, steps, delta) in [
        (0.12974457, 0.05, 10, 0.401),
        (0.15, 0.02, 10, 0.18),
        (0.1, 0.2, 5, 0.67),
    ] {
        let run = run(sigma, rate, steps, Sampling::Poisson);
        let loss = PrivacyLoss::of(&run, ADD_REMOVE, Direction::Remove).unwrap();
        let given = Delta::new(delta).unwrap();
        let found = loss.epsilon(given, Tolerance::DEFAULT).unwrap().bounds;
        let (low, high) = (*found.lower.unwrap().get(), *found.upper.unwrap().get());
        assert!(
            low <= high && high.get() - low.get() < 2e-3 * high.get(),
            "{sigma}: {low} {high}"
        );
        let tight = Tolerance::new(1e-7).unwrap();
        let at = |epsilon| loss.delta(epsilon, tight).unwrap().bounds;
        assert!(*at(high).lower.unwrap().get() <= given);
        assert!(*at(low).upper.unwrap().get() >= given);
    }
}
