//! Far corners: finite, ordered, certified answers, whatever the numbers.

use crate::common::Case;
use reticent_accounting::rdp::Zcdp;
use reticent_accounting::trade_off::GaussianFit;
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, Plan,
    PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps, Tolerance, UnitName,
};

const QUESTIONS: [(Neighbours, Direction); 3] = [
    (Neighbours::AddRemove, Direction::Remove),
    (Neighbours::AddRemove, Direction::Add),
    (Neighbours::Replace, Direction::Remove),
];

/// ε in four decades of σ, from one step to a billion, down to δ = 1e-300.
#[test]
fn epsilon_is_finite_ordered_and_falls_with_delta() {
    for (sigma, rate) in [
        (0.02, 0.5),
        (0.4, 0.01),
        (1.0, 1e-3),
        (1.0, 0.5),
        (30.0, 0.1),
        (1e4, 1e-4),
        (1e4, 1.0),
    ] {
        for steps in [1, 40, 1_000_000_000] {
            for (neighbours, direction) in QUESTIONS {
                let case = Case {
                    rate,
                    sigma,
                    steps,
                    group: 1,
                    neighbours,
                    direction,
                };
                let mut before = f64::INFINITY;
                for delta in [1e-300, 1e-5, 0.3] {
                    let (low, high) = case.epsilon(delta, 1e-5);
                    assert!(
                        low.is_finite() && high.is_finite() && low >= 0.0,
                        "{case:?} {delta}: {low} {high}"
                    );
                    assert!(low <= high, "{case:?} {delta}: {low} > {high}");
                    assert!(low <= before, "{case:?} {delta}: {low} after {before}");
                    before = high;
                }
            }
        }
    }
}

/// δ anywhere, with ε up to 1e4.
#[test]
fn delta_is_a_probability_and_falls_with_epsilon() {
    for (sigma, rate, steps) in [
        (0.05, 0.2, 10),
        (0.7, 0.01, 1000),
        (2.0, 0.3, 200),
        (100.0, 1.0, 50),
    ] {
        for (neighbours, direction) in QUESTIONS {
            let case = Case {
                rate,
                sigma,
                steps,
                group: 1,
                neighbours,
                direction,
            };
            let mut before = 1.0;
            for epsilon in [0.0, 1e-9, 0.1, 1.0, 10.0, 100.0, 1e4] {
                let (low, high) = case.delta(epsilon, 1e-5);
                assert!(
                    (0.0..=1.0).contains(&low) && low <= high && high <= 1.0,
                    "{case:?} {epsilon}: {low} {high}"
                );
                assert!(low <= before, "{case:?} {epsilon}");
                before = high;
            }
        }
    }
}

/// Priors down to 2^-256: at least the prior, at most one, and increasing in the prior.
#[test]
fn blow_up_is_monotone_down_to_tiny_priors() {
    for (sigma, rate, steps, group) in [
        (5.0, 0.01, 500, 1),
        (10.0, 20480.0 / 1.7e7, 2000, 100),
        (1.0, 1.0, 1, 1),
    ] {
        let case = Case {
            rate,
            sigma,
            steps,
            group,
            neighbours: Neighbours::ZeroOut,
            direction: Direction::Remove,
        };
        let loss = case.loss();
        let mut before = 0.0;
        for bits in [256, 128, 64, 20, 7, 1] {
            let prior = 0.5f64.powi(bits);
            let answer = loss
                .blow_up(
                    Probability::new(prior).unwrap(),
                    Tolerance::new(1e-5).unwrap(),
                )
                .unwrap();
            let low = answer.bounds.lower.unwrap().get().get();
            let high = answer.bounds.upper.unwrap().get().get();
            assert!(
                prior <= low && low <= high && high <= 1.0,
                "{case:?} 2^-{bits}: {low} {high}"
            );
            assert!(before <= high, "{case:?} 2^-{bits}");
            before = low;
        }
    }
}

/// Few expected hits, several of them at once counting as much: the blow-up's ends are close at
/// every tolerance, and those of one engine meet the other's. More copies at the same total rate
/// say more.
#[test]
fn few_expected_hits_of_several_copies_are_bounded_tightly() {
    let total: f64 = 2.15505630084584e-4;
    let ends = |copies: u32, tolerance: f64| {
        let rate = total / f64::from(copies);
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(0.4).unwrap(),
            SamplingRate::new(rate).unwrap(),
            Steps::new(4000),
        );
        let query = Query {
            neighbours: Neighbours::ZeroOut,
            group: GroupSize::new(copies).unwrap(),
        };
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let prior = Probability::new(1e-8).unwrap();
        let bounds = loss
            .blow_up(prior, Tolerance::new(tolerance).unwrap())
            .unwrap()
            .bounds;
        (
            bounds.lower.unwrap().get().get(),
            bounds.upper.unwrap().get().get(),
        )
    };
    let mut before = 0.0;
    for copies in [1, 4, 16] {
        for tolerance in [1e-2, 1e-3] {
            let (low, high) = ends(copies, tolerance);
            assert!(low <= high && high < 1.03 * low, "{copies} {low} {high}");
            assert!(before < high, "{copies} {high} after {before}");
        }
        before = ends(copies, 1e-2).0;
    }
    let (rough, fine) = (ends(4, 1e-2), ends(4, 1e-5));
    assert!(fine.1 < (1.0 + 1e-3) * fine.0, "{fine:?}");
    assert!(rough.0 <= fine.1 && fine.0 <= rough.1, "{rough:?} {fine:?}");
}

/// One step whose moments spread too wide for any order still has its δ, and a Rényi row that says
/// nothing.
#[test]
fn a_step_without_moments_has_a_delta() {
    let step = Mechanism::MixtureOfGaussians {
        noise_multiplier: NoiseMultiplier::new(0.1574749560224124).unwrap(),
        sensitivities: vec![0.002, 0.34, 15.5, 89.35399207198623],
        probabilities: [0.0079, 0.0102, 1.8e-3, 0.9801]
            .map(|p| Probability::new(p).unwrap())
            .to_vec(),
    };
    let unit = UnitName::new("record").unwrap();
    let plan = Plan::new(step, unit, Delta::new(1e-5).unwrap());
    let rows = plan.guarantees_at(Epsilon::new(0.0).unwrap()).unwrap();
    let delta = |row: usize| rows[row].delta.unwrap().get();
    assert!(delta(0) > 0.98 && delta(0) <= delta(1) && delta(1) <= 1.0);
}

/// Nothing, everything and not private at all.
#[test]
fn trivial_runs_have_trivial_answers() {
    let tolerance = Tolerance::DEFAULT;
    let question = Query::single(Neighbours::AddRemove);
    let delta = Delta::new(1e-5).unwrap();
    let ask = |run: &Mechanism| {
        let loss = PrivacyLoss::of(run, question, Direction::Remove).unwrap();
        let bounds = loss.epsilon(delta, tolerance).unwrap().bounds;
        (
            bounds.lower.map(|end| end.get().get()),
            bounds.upper.unwrap().get().get(),
        )
    };
    assert_eq!(
        ask(&Mechanism::Sequence { parts: Vec::new() }),
        (Some(0.0), 0.0)
    );
    let sgd = Mechanism::NonPrivate {
        why: "plain SGD".into(),
    };
    assert_eq!(ask(&sgd), (None, f64::INFINITY));
    let never = Mechanism::Repeat {
        times: Steps::new(0),
        each: Box::new(sgd.clone()),
    };
    assert_eq!(ask(&never), (Some(0.0), 0.0));
    let then = Mechanism::Sequence {
        parts: vec![never, sgd],
    };
    assert!(ask(&then).1.is_infinite());
    let guess = Mechanism::Estimated {
        inner: Box::new(Mechanism::Gaussian {
            noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        }),
        why: "light noise".into(),
    };
    let refused = PrivacyLoss::of(&guess, question, Direction::Remove).unwrap_err();
    assert!(refused.to_string().contains("light noise"), "{refused}");
}

/// The Gaussian's loss has no largest value, so that δ is above zero at every finite ε: where a square overflows, too.
#[test]
fn a_delta_far_out_is_zero_only_where_losses_end() {
    let noise_multiplier = NoiseMultiplier::new(1.0).unwrap();
    let plain = Mechanism::Gaussian { noise_multiplier };
    let sampled = Mechanism::Repeat {
        times: Steps::new(10),
        each: Box::new(Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling_rate: SamplingRate::new(0.01).unwrap(),
            sampling: Sampling::Poisson,
        }),
    };
    for epsilon in [1e3, 1e155, 1e300, 1e308, f64::MAX] {
        let delta = |run: &Mechanism, direction| {
            let question = Query::single(Neighbours::AddRemove);
            let loss = PrivacyLoss::of(run, question, direction).unwrap();
            let answer = loss.delta(Epsilon::new(epsilon).unwrap(), Tolerance::DEFAULT);
            answer.unwrap().bounds.upper.unwrap().get().get()
        };
        for direction in [Direction::Remove, Direction::Add] {
            assert!(delta(&plain, direction) > 0.0, "{epsilon}");
        }
        assert!(delta(&sampled, Direction::Remove) > 0.0, "{epsilon}");
        // Ten steps without a record that a hundredth of the draws would hold lose 0.1 and little more.
        assert!(delta(&sampled, Direction::Add) <= 0.0, "{epsilon}");
    }
}

/// What roundings take off the masses of a step comes to 1e-4 and more of so many: the run below such a run must not
/// count on it.
#[test]
fn masses_rounded_inwards_stay_consistent_over_very_many_epochs() {
    for (noise, steps, epochs, epsilon) in [
        (0.05626381899626638, 186, 169_527_586, 0.024),
        (0.07456703511459896, 54, 48_720_956, 616.0),
    ] {
        let noise = NoiseMultiplier::new(noise).unwrap();
        let sampling_rate = SamplingRate::new(1.0 / steps as f64).unwrap();
        let sampling = Sampling::RandomAllocation { selected: 1, steps };
        for each in [
            Mechanism::SubsampledGaussian {
                noise_multiplier: noise,
                sampling_rate,
                sampling,
            },
            Mechanism::SubsampledLaplace {
                scale: noise,
                sampling_rate,
                sampling,
            },
        ] {
            let run = Mechanism::Repeat {
                times: Steps::new(epochs),
                each: Box::new(each),
            };
            let question = Query::single(Neighbours::AddRemove);
            let loss = PrivacyLoss::of(&run, question, Direction::Add).unwrap();
            let answer = loss.delta(Epsilon::new(epsilon).unwrap(), Tolerance::DEFAULT);
            assert!(answer.unwrap().bounds.upper.unwrap().get().get() > 0.999);
        }
    }
}

/// δ = 0 is pure ε: finite only where the loss is bounded.
#[test]
fn a_delta_of_zero_asks_for_the_largest_loss() {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(1.0).unwrap(),
        SamplingRate::new(0.01).unwrap(),
        Steps::new(10),
    );
    let zero = Delta::new(0.0).unwrap();
    let ask = |direction| {
        let loss = PrivacyLoss::of(&run, Query::single(Neighbours::AddRemove), direction).unwrap();
        loss.epsilon(zero, Tolerance::DEFAULT)
            .unwrap()
            .bounds
            .upper
            .unwrap()
            .get()
            .get()
    };
    assert!(ask(Direction::Remove).is_infinite());
    assert!((ask(Direction::Add) + 10.0 * (-0.01f64).ln_1p()).abs() < 1e-12);
}

/// Configurations at random over the whole range, and the hard ones a longer sweep
/// (`examples/sweep`) met: every answer is finite and ordered, and δ at both ends of ε lies on
/// both sides of δ. 12 draws of splitmix64 from seed 3; nothing here is a confidence statement.
#[test]
fn answers_hold_together_wherever_they_are_asked() {
    let mut state = 3u64;
    let mut uniform = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut cases: Vec<(Case, f64)> = (0..12)
        .map(|_| {
            let mut decades = |low: f64, high: f64| 10f64.powf(low + (high - low) * uniform());
            let (neighbours, direction) = QUESTIONS[(decades(0.0, 1.0) as usize) % 3];
            let group = decades(-3.0, 3.0).max(1.0) as u32;
            let case = Case {
                rate: decades(-9.0, 0.0),
                sigma: decades(-2.0, 4.0),
                steps: decades(0.0, 9.0) as u64,
                group,
                neighbours,
                direction,
            };
            (case, decades(-300.0, 0.0))
        })
        .collect();
    for (sigma, rate, steps, group, which) in [
        (0.1005, 5.898e-5, 21_784_883, 20, 0),
        (0.0519, 0.0313, 4, 17, 1),
        (1602.4, 2.19e-7, 19, 3, 2),
        (1832.8, 5.78e-6, 9, 905, 2),
        (0.0157, 0.0222, 4_997_762, 50, 1),
        (0.219, 0.278, 5_937_394, 116, 1),
        (185.7, 8.8e-7, 472_904, 1, 2),
    ] {
        let (neighbours, direction) = QUESTIONS[which];
        let case = Case {
            rate,
            sigma,
            steps,
            group,
            neighbours,
            direction,
        };
        cases.push((case, 1e-9));
    }
    for (case, delta) in cases {
        let (low, high) = case.epsilon(delta, 0.05);
        assert!(low <= high && high.is_finite(), "{case:?} {delta:e}");
        let above = case.delta(high, 0.5).0;
        assert!(
            above <= delta * (1.0 + 1e-9),
            "{case:?} {delta:e}: {above:e}"
        );
        if low > 0.0 {
            let below = case.delta(low, 0.5).1;
            assert!(
                below >= delta * (1.0 - 1e-9),
                "{case:?} {delta:e}: {below:e}"
            );
        }
        let prior = delta.max(1e-77);
        let answer = case.loss().blow_up(
            Probability::new(prior).unwrap(),
            Tolerance::new(0.05).unwrap(),
        );
        let bounds = answer.unwrap().bounds;
        let (low, high) = (
            bounds.lower.unwrap().get().get(),
            bounds.upper.unwrap().get().get(),
        );
        assert!(
            prior * (1.0 - 1e-12) <= low && low <= high && high <= 1.0,
            "{case:?} {prior:e}: {low:e} {high:e}"
        );
        let (renyi, _) = case
            .loss()
            .epsilon_by_rdp(Delta::new(delta).unwrap())
            .unwrap();
        assert!(renyi.get().get().is_finite(), "{case:?} {delta:e}");
    }
}

/// With so little noise no moment is in reach: whatever a divergence would say, a chance is at most one.
#[test]
fn posteriors_without_a_divergence_are_one() {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(0.005).unwrap(),
        SamplingRate::new(0.01).unwrap(),
        Steps::new(1000),
    );
    let query = Query::single(Neighbours::ZeroOut);
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let prior = Probability::new(0.1).unwrap();
    let kl = loss.kl_fano(prior).unwrap();
    let renyi = loss.renyi_fano(prior).unwrap().0;
    assert!(kl.get().get() >= 1.0 && renyi.get().get() >= 1.0);
}

/// Losses of a lattice are o + ks: what the rounding of s adds to a sum of millions is a share of the sum, not
/// of its farthest atom times the number of steps.
#[test]
fn lattices_of_very_many_steps_keep_their_digits() {
    let run = Mechanism::Repeat {
        times: Steps::new(225_602_035),
        each: Box::new(Mechanism::DiscreteGaussian {
            sigma: NoiseMultiplier::new(195.481_121_178_853_73).unwrap(),
            sensitivity: 3,
        }),
    };
    let query = Query {
        neighbours: Neighbours::AddRemove,
        group: GroupSize::new(24).unwrap(),
    };
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let delta = Delta::new(3.795_843_004_349_731e-113).unwrap();
    let found = loss.epsilon(delta, Tolerance::new(1e-9).unwrap()).unwrap();
    let (low, high) = (
        found.bounds.lower.unwrap().get().get(),
        found.bounds.upper.unwrap().get().get(),
    );
    assert!(high - low <= 1e-9 * high, "{low} {high}");
    // A discrete Gaussian this wide is a Gaussian to its last digit: the closed form is the oracle.
    let gaussian = Mechanism::Repeat {
        times: Steps::new(225_602_035),
        each: Box::new(Mechanism::Gaussian {
            noise_multiplier: NoiseMultiplier::new(195.481_121_178_853_73 / 72.0).unwrap(),
        }),
    };
    let single = Query::single(Neighbours::AddRemove);
    let exact = PrivacyLoss::of(&gaussian, single, Direction::Remove).unwrap();
    let exact = exact
        .epsilon(delta, Tolerance::new(1e-12).unwrap())
        .unwrap();
    let exact = exact.bounds.upper.unwrap().get().get();
    assert!(
        (high / exact - 1.0).abs() < 1e-8 && (low / exact - 1.0).abs() < 1e-8,
        "{low} {exact} {high}"
    );
}

/// Where the square of the distance is no number any more, little is released, but not nothing.
#[test]
fn very_much_noise_is_not_nothing_released() {
    let zero = |run: &Mechanism| {
        let single = Query::single(Neighbours::AddRemove);
        let loss = PrivacyLoss::of(run, single, Direction::Remove).unwrap();
        let ends = loss.delta(Epsilon::new(0.0).unwrap(), Tolerance::DEFAULT);
        let fit = GaussianFit::of(run, single, Delta::ZERO, Tolerance::DEFAULT).unwrap();
        let rho = *Zcdp::of(run, single).unwrap().rho().get();
        (loss, ends.unwrap().bounds, fit.mu, rho)
    };
    for sigma in [1e155, 1e162, 1e200] {
        for rate in [1.0, 0.1] {
            let run = Mechanism::dp_sgd(
                NoiseMultiplier::new(sigma).unwrap(),
                SamplingRate::new(rate).unwrap(),
                Steps::new(1),
            );
            let (loss, delta, mu, rho) = zero(&run);
            // δ(0) = q(2Φ(1/2σ) − 1), and that of μ-GDP is no less.
            let truth = rate / (sigma * std::f64::consts::TAU.sqrt());
            assert!(delta.upper.unwrap().get().get() >= truth * (1.0 - 1e-9));
            let lower = delta.lower.map_or(0.0, |end| end.get().get());
            assert!(lower <= truth, "{sigma} {rate}: {lower:e} {truth:e}");
            assert!(*mu.upper.unwrap().get() >= rate / sigma * (1.0 - 1e-9));
            assert!(mu.lower.is_none_or(|end| *end.get() <= 1.0 / sigma));
            assert!(rho > 0.0, "{sigma} {rate}");
            let epsilon = loss.epsilon(Delta::new(1e-300).unwrap(), Tolerance::DEFAULT);
            let upper = epsilon.unwrap().bounds.upper.unwrap();
            assert!(upper.get().get() > 0.0, "{sigma} {rate}");
        }
    }
    let nothing = Mechanism::MixtureOfGaussians {
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        sensitivities: vec![0.0],
        probabilities: vec![Probability::new(1.0).unwrap()],
    };
    let (_, delta, mu, rho) = zero(&nothing);
    let zeros = [
        delta.upper.unwrap().get().get(),
        *mu.upper.unwrap().get(),
        rho,
    ];
    assert!(zeros.iter().all(|zero| *zero <= 1e-300), "{zeros:?}");
}

/// The square of a tiny ε is not nothing either.
#[test]
fn very_little_that_is_released_has_a_positive_rho() {
    let neighbours = Neighbours::AddRemove;
    for tiny in [1e-155, 1e-170, 1e-200, 1e-300] {
        let epsilon = Epsilon::new(tiny).unwrap();
        let scale = NoiseMultiplier::new(1.0 / tiny).unwrap();
        for run in [
            Mechanism::Laplace { scale },
            Mechanism::PureDp {
                epsilon,
                neighbours,
            },
            Mechanism::ExponentialMechanism {
                epsilon,
                neighbours,
            },
        ] {
            let rho = *Zcdp::of(&run, Query::single(neighbours))
                .unwrap()
                .rho()
                .get();
            assert!(rho >= f64::MIN_POSITIVE, "{run:?}: {rho:e}");
        }
    }
    let none = Epsilon::new(0.0).unwrap();
    for zcdp in [Zcdp::pure(none), Zcdp::bounded_range(none)] {
        assert!(*zcdp.rho().get() <= 0.0);
    }
}

/// Few steps that stand for many of their law: 2^64 were counted as none, so that nothing was lost.
#[test]
fn more_steps_of_a_law_than_are_counted_exactly_are_refused() {
    let repeat = |times: u64, each: Mechanism| Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    };
    // 4096 steps, two of each epoch of 2^53; if an epoch was begun, all of it counts.
    let allocated = |selected: u64| {
        let step = Mechanism::SubsampledGaussian {
            noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
            sampling_rate: SamplingRate::new(selected as f64 / 2f64.powi(53)).unwrap(),
            sampling: Sampling::RandomAllocation {
                selected,
                steps: 1 << 53,
            },
        };
        repeat(2048, repeat(2, step))
    };
    let single = Query::single(Neighbours::AddRemove);
    let of = |run: &Mechanism, query| PrivacyLoss::of(run, query, Direction::Remove);
    for selected in [1 << 53, 1 << 52] {
        let refused = of(&allocated(selected), single).unwrap_err().to_string();
        assert!(refused.contains("in each of 2048 epochs"), "{refused}");
    }
    // Each record of the group responds 2^52 times, twice.
    let responses = || {
        let each = Mechanism::RandomisedResponse {
            truth: Probability::new(0.9).unwrap(),
            categories: 2,
        };
        repeat(1 << 52, each)
    };
    let twice = Mechanism::Sequence {
        parts: vec![responses(), responses()],
    };
    for (records, said) in [
        (1, ""),
        (2, "9007199254740992 more steps"),
        (2048, "of each of 2048 records"),
    ] {
        let query = Query {
            neighbours: Neighbours::Replace,
            group: GroupSize::new(records).unwrap(),
        };
        match of(&twice, query) {
            Ok(loss) => assert_eq!((loss.steps(), said), (1 << 53, "")),
            Err(refused) => {
                let refused = refused.to_string();
                assert!(!said.is_empty() && refused.contains(said), "{refused}");
            }
        }
    }
}

/// Two runs of 2^53 steps, one after the other: each is counted exactly, both together are not.
#[test]
fn more_steps_than_are_counted_exactly_are_refused_in_sequences_too() {
    let times = Steps::new(1 << 53);
    let run = |scale: f64| Mechanism::Repeat {
        times,
        each: Box::new(Mechanism::Laplace {
            scale: NoiseMultiplier::new(scale).unwrap(),
        }),
    };
    let of = |run: &Mechanism| {
        PrivacyLoss::of(run, Query::single(Neighbours::AddRemove), Direction::Remove)
    };
    let alone = of(&run(1e9)).unwrap();
    for other in [1e9, 2e9] {
        let parts = vec![run(1e9), run(other)];
        let refused = of(&Mechanism::Sequence { parts }).unwrap_err().to_string();
        assert!(refused.contains("9007199254740992 more steps"), "{refused}");
        // Losses that are put together have no error to give: nothing bounds these.
        let both = alone.then(&of(&run(other)).unwrap()).unwrap();
        let delta = both
            .delta(Epsilon::new(1e300).unwrap(), Tolerance::DEFAULT)
            .unwrap();
        assert!(delta.bounds.upper.unwrap().get().get() >= 1.0);
    }
}

#[test]
fn losses_of_different_questions_do_not_add_up() {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(1.0).unwrap(),
        SamplingRate::new(0.1).unwrap(),
        Steps::new(10),
    );
    let of = |neighbours, records, direction| {
        let group = GroupSize::new(records).unwrap();
        PrivacyLoss::of(&run, Query { neighbours, group }, direction).unwrap()
    };
    let removed = of(Neighbours::AddRemove, 1, Direction::Remove);
    let nothing = PrivacyLoss::default();
    for same in [&removed, &nothing] {
        assert!(removed.then(same).is_ok() && same.then(&removed).is_ok());
    }
    // What began with nothing is still a loss of that question.
    let begun = nothing.then(&removed).unwrap();
    for other in [
        of(Neighbours::AddRemove, 1, Direction::Add),
        of(Neighbours::AddRemove, 2, Direction::Remove),
        of(Neighbours::Replace, 1, Direction::Remove),
    ] {
        for loss in [&removed, &begun] {
            let refused = loss.then(&other).unwrap_err().to_string();
            assert!(
                refused.contains("add-remove (remove, group size 1)"),
                "{refused}"
            );
        }
    }
}

/// Losses whose spread overflows as a number beside others: the contour panicked.
#[test]
fn a_spread_beyond_all_numbers_is_answered() {
    let far = Mechanism::MixtureOfGaussians {
        noise_multiplier: NoiseMultiplier::new(0.01).unwrap(),
        sensitivities: vec![0.001, 56.0],
        probabilities: [1.0 - 1e-9, 1e-9]
            .map(|p| Probability::new(p).unwrap())
            .to_vec(),
    };
    let discrete = Mechanism::DiscreteGaussian {
        sigma: NoiseMultiplier::new(2.4).unwrap(),
        sensitivity: 10_000,
    };
    let repeat = |times: u64, each: Mechanism| Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    };
    let run = Mechanism::Sequence {
        parts: vec![repeat(21_200, far), repeat(1_000_000_000, discrete)],
    };
    let query = Query::single(Neighbours::Replace);
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let delta = loss.delta(Epsilon::new(0.4).unwrap(), Tolerance::DEFAULT);
    // A billion discrete draws moved by ten thousand show it.
    assert!(delta.unwrap().bounds.high().unwrap() >= 1.0);
}

/// Fewer grids leave the ends where they are, or farther apart, around the same number.
#[test]
fn modest_answers_hold_around_the_others() {
    let run = |scale: f64, rate: f64| Mechanism::Repeat {
        times: Steps::new(25),
        each: Box::new(Mechanism::SubsampledLaplace {
            scale: NoiseMultiplier::new(scale).unwrap(),
            sampling_rate: SamplingRate::new(rate).unwrap(),
            sampling: Sampling::Poisson,
        }),
    };
    let delta = Delta::new(1e-9).unwrap();
    let query = Query::single(Neighbours::Replace);
    for (run, close) in [(run(0.01, 0.0095), 0.01), (run(1.0, 0.1), 1e-5)] {
        let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let full = loss.epsilon(delta, Tolerance::DEFAULT).unwrap().bounds;
        let modest = loss.modestly();
        let found = modest.epsilon(delta, Tolerance::DEFAULT).unwrap().bounds;
        let ends = |bounds: reticent_accounting::Bounds<Epsilon>| {
            (bounds.low().unwrap(), bounds.high().unwrap())
        };
        let ((low, high), (least, most)) = (ends(full), ends(found));
        assert!(least <= high && low <= most, "{full:?} {found:?}");
        assert!(most - least <= close * most, "{found:?}");
    }
}

/// ε among the smallest numbers, of which half is zero: every answer is finite and ordered, and no larger than it has to be.
#[test]
fn the_smallest_epsilons_are_answered() {
    let neighbours = Neighbours::AddRemove;
    let query = Query::single(neighbours);
    for epsilon in [
        5e-324, 1e-323, 1e-310, 1e-300, 1e-292, 1e-291, 1e-200, 1e-100,
    ] {
        let stated = Epsilon::new(epsilon).unwrap();
        for run in [
            Mechanism::ExponentialMechanism {
                epsilon: stated,
                neighbours,
            },
            Mechanism::PureDp {
                epsilon: stated,
                neighbours,
            },
            Mechanism::ApproxDp {
                epsilon: stated,
                delta: Delta::new(epsilon).unwrap(),
                neighbours,
            },
        ] {
            for direction in [Direction::Remove, Direction::Add] {
                let loss = PrivacyLoss::of(&run, query, direction).unwrap();
                let ordered = |lower: f64, upper: f64| {
                    assert!(0.0 <= lower && lower <= upper, "{run:?}: {lower} {upper}");
                };
                for delta in [0.0, 1e-6] {
                    let delta = Delta::new(delta).unwrap();
                    let found = loss.epsilon(delta, Tolerance::DEFAULT).unwrap().bounds;
                    let lower = found.lower.map_or(0.0, |end| end.get().get());
                    ordered(lower, found.upper.unwrap().get().get());
                }
                let at_zero = loss
                    .delta(Epsilon::new(0.0).unwrap(), Tolerance::DEFAULT)
                    .unwrap()
                    .bounds;
                let lower = at_zero.lower.map_or(0.0, |end| end.get().get());
                ordered(lower, at_zero.upper.unwrap().get().get());
                let prior = Probability::new(1e-6).unwrap();
                let guess = loss.blow_up(prior, Tolerance::DEFAULT).unwrap().bounds;
                let most = guess.upper.unwrap().get().get();
                ordered(guess.lower.map_or(0.0, |end| end.get().get()), most);
                assert!((1e-6..1.1e-6).contains(&most), "{run:?}: {most}");
            }
        }
    }
}
