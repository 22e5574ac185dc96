//! Calibration: the answer keeps its promise, the other end doesn't, and closed forms agree.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use proptest::prelude::*;
use reticent_accounting::calibrate::{
    Target, calibrate_group, calibrate_noise, calibrate_rate, calibrate_steps,
};
use reticent_accounting::pld::losses;
use reticent_accounting::rdp::epsilon_by_renyi;
use reticent_accounting::reconstruction::ceiling::exposure_ceiling;
use reticent_accounting::redaction::Redaction;
use reticent_accounting::trade_off::true_positive_rate;
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, MissRate, Neighbours, NoiseMultiplier,
    PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
};
use std::cell::Cell;

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

fn tolerance(t: f64) -> Tolerance {
    Tolerance::new(t).unwrap()
}

fn group(k: u32) -> GroupSize {
    GroupSize::new(k).unwrap()
}

fn sigma(s: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(s).unwrap()
}

fn run(noise: f64, rate: f64, steps: u64) -> Mechanism {
    Mechanism::dp_sgd(
        sigma(noise),
        SamplingRate::new(rate).unwrap(),
        Steps::new(steps),
    )
}

/// The certified quantity over what is allowed, asked of the accountant itself: at most one
/// where the promise holds.
fn ratio(target: &Target, mechanism: &Mechanism, fine: Tolerance) -> f64 {
    let zero_out = |group| {
        let query = Query {
            neighbours: Neighbours::ZeroOut,
            group,
        };
        PrivacyLoss::of(mechanism, query, Direction::Remove).unwrap()
    };
    match *target {
        Target::Epsilon {
            query,
            epsilon,
            delta,
        } => {
            let ends = losses(mechanism, query).unwrap().into_iter().map(|loss| {
                let bounds = loss.delta(epsilon, fine).unwrap().bounds;
                bounds.upper.unwrap().get().get()
            });
            ends.fold(0.0, f64::max) / delta.get()
        }
        Target::Uninformed {
            redaction,
            group,
            epsilon,
            delta,
        } => {
            let query = Query {
                neighbours: Neighbours::Replace,
                group,
            };
            let loss = PrivacyLoss::of(mechanism, query, Direction::Remove).unwrap();
            let answer = redaction.exact_epsilon(&loss, &loss, delta, fine).unwrap();
            answer.bounds.upper.unwrap().get().get() / epsilon.get()
        }
        Target::EpsilonByRenyi {
            query,
            epsilon,
            delta,
        } => {
            let found = epsilon_by_renyi(mechanism, query, delta, None).unwrap();
            found.get().get() / epsilon.get()
        }
        Target::UninformedByRenyi {
            redaction,
            query,
            epsilon,
            delta,
        } => {
            let found = epsilon_by_renyi(mechanism, query, delta, Some(redaction)).unwrap();
            found.get().get() / epsilon.get()
        }
        Target::Posterior {
            group,
            prior,
            posterior,
        } => {
            let bounds = zero_out(group).blow_up(prior, fine).unwrap().bounds;
            bounds.upper.unwrap().get().get() / posterior.get()
        }
        Target::PosteriorByKlFano {
            group,
            prior,
            posterior,
        } => zero_out(group).kl_fano(prior).unwrap().get().get() / posterior.get(),
        Target::TruePositiveRate { query, fpr, tpr } => {
            let bounds = true_positive_rate(mechanism, query, fpr, fine)
                .unwrap()
                .bounds;
            bounds.upper.unwrap().get().get() / tpr.get()
        }
        Target::Exposure {
            group,
            bits,
            probability,
        } => {
            let ceiling = exposure_ceiling(&zero_out(group), bits, fine).unwrap();
            ceiling.get().get() / probability.get()
        }
    }
}

fn target() -> impl Strategy<Value = Target> {
    let query = (
        prop_oneof![
            Just(Neighbours::AddRemove),
            Just(Neighbours::ZeroOut),
            Just(Neighbours::Replace)
        ],
        1u32..4,
    )
        .prop_map(|(neighbours, k)| Query {
            neighbours,
            group: group(k),
        });
    prop_oneof![
        (query.clone(), 1.0f64..8.0, 3.0f64..8.0).prop_map(|(query, epsilon, d)| {
            Target::Epsilon {
                query,
                epsilon: Epsilon::new(epsilon).unwrap(),
                delta: Delta::new(10f64.powf(-d)).unwrap(),
            }
        }),
        (0.05f64..0.5, 0.5f64..2.0).prop_map(|(gamma, epsilon)| Target::Uninformed {
            redaction: Redaction::single_policy(MissRate::new(gamma).unwrap()),
            group: GroupSize::ONE,
            epsilon: Epsilon::new(epsilon).unwrap(),
            delta: Delta::new(1e-6).unwrap(),
        }),
        (1u32..4, 6.0f64..15.0, 3.0f64..5.0).prop_map(|(k, prior, up)| Target::Posterior {
            group: group(k),
            prior: probability(10f64.powf(-prior)),
            posterior: probability(10f64.powf(up - prior)),
        }),
        (1u32..20, 1e-3f64..0.5).prop_map(|(k, posterior)| Target::PosteriorByKlFano {
            group: group(k),
            prior: probability(1e-10),
            posterior: probability(posterior),
        }),
        (query, 1e-5f64..1e-2, 8.0f64..60.0).prop_map(|(query, fpr, factor)| {
            Target::TruePositiveRate {
                query,
                fpr: probability(fpr),
                tpr: probability(factor * fpr),
            }
        }),
        (1u32..4, 20.0f64..40.0, 10.0f64..16.0).prop_map(|(k, bits, up)| Target::Exposure {
            group: group(k),
            bits,
            probability: probability((up - bits).exp2()),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, max_shrink_iters: 8, ..ProptestConfig::default() })]

    /// The promise holds at the answer and fails, or cannot be certified, at the other end, which
    /// is one tolerance away.
    #[test]
    fn both_ends_of_the_noise_are_what_they_claim(target in target(), rate in 0.05f64..0.5, steps in 1000u64..4000) {
        let width = tolerance(1e-6);
        let found = calibrate_noise(|s| run(s.get(), rate, steps), target, width).unwrap();
        let (safe, fails) = (found.answer.get(), found.fails.unwrap().get());
        prop_assert!(fails < safe && safe - fails <= 1.0001e-6 * safe, "{fails} {safe}");
        let at = |noise: f64| ratio(&target, &run(noise, rate, steps), tolerance(1e-6));
        prop_assert!(at(safe) <= 1.0 + 1e-12, "{} at {safe}: {target:?}", at(safe));
        // Less noise by a little more than the tolerance certainly breaks the promise.
        prop_assert!(at(fails * (1.0 - 1e-5)) > 1.0, "{} at {fails}: {target:?}", at(fails));
    }

    #[test]
    fn both_ends_of_the_rate_are_what_they_claim(target in target(), noise in 1.0f64..3.0, steps in 2000u64..9000) {
        let at = |rate: f64| ratio(&target, &run(noise, rate, steps), tolerance(1e-6));
        let Ok(found) = calibrate_rate(|q| run(noise, q.get(), steps), target, tolerance(1e-6)) else {
            // Then the lowest rate of the range is too high, or can't be certified.
            prop_assert!(at(1e-12) > 1.0, "{target:?}");
            return Ok(());
        };
        prop_assert!(at(found.answer.get()) <= 1.0 + 1e-12);
        if let Some(fails) = found.fails {
            prop_assert!(fails > found.answer && fails.get() <= found.answer.get() * (1.0 + 1.0001e-6));
            prop_assert!(at((fails.get() * (1.0 + 1e-5)).min(1.0)) > 1.0 || fails.get() > 0.9999);
        } else {
            prop_assert!(found.answer.get() >= 1.0);
        }
    }

    /// Whole numbers end between consecutive ones.
    #[test]
    fn whole_numbers_end_next_to_each_other(target in target(), noise in 2.0f64..4.0, rate in 0.01f64..0.03) {
        match calibrate_steps(|t| run(noise, rate, t.get()), target, tolerance(1e-6)) {
            Ok(found) => {
                let (safe, fails) = (found.answer.get(), found.fails.unwrap().get());
                prop_assert_eq!(fails, safe + 1);
                prop_assert!(ratio(&target, &run(noise, rate, safe), tolerance(1e-6)) <= 1.0 + 1e-12);
                prop_assert!(ratio(&target, &run(noise, rate, fails), tolerance(1e-6)) > 1.0);
            }
            // Then one step is too many indeed.
            Err(_) => prop_assert!(ratio(&target, &run(noise, rate, 1), tolerance(1e-6)) > 1.0),
        }
    }
}

#[test]
fn plain_gaussians_meet_their_closed_form() {
    // ε(δ) of T steps, k records and noise σ depends on k√T/σ alone. 2.254084650219741 is ε(1e-6)
    // at a ratio of one half (50-digit arithmetic).
    let target = |k, e| Target::Epsilon {
        query: Query {
            neighbours: Neighbours::AddRemove,
            group: group(k),
        },
        epsilon: Epsilon::new(e).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    };
    let repeat = |noise: f64, steps| Mechanism::Repeat {
        times: Steps::new(steps),
        each: Box::new(Mechanism::Gaussian {
            noise_multiplier: sigma(noise),
        }),
    };
    let exact = 2.254084650219741;
    let fine = tolerance(1e-10);
    let noise = calibrate_noise(|s| repeat(s.get(), 100), target(3, exact), fine).unwrap();
    assert!((noise.answer.get() / 60.0 - 1.0).abs() < 1e-9);
    assert!(noise.answer.get() > noise.fails.unwrap().get());
    // Just enough, and just not enough.
    for (shift, steps) in [(1e-9, 100), (-1e-9, 99)] {
        let found = calibrate_steps(|t| repeat(20.0, t.get()), target(1, exact + shift), fine);
        assert_eq!(found.unwrap().answer.get(), steps);
    }
    for (shift, records) in [(1e-9, 10), (-1e-9, 9)] {
        let found = calibrate_group(&repeat(20.0, 1), target(1, exact + shift), fine).unwrap();
        assert_eq!(found.answer.get(), records);
        assert_eq!(found.fails.unwrap().get(), records + 1);
    }
    // Advantage: δ(0) = 2Φ(μ/2) − 1 ≤ 0.38292492254802624 at μ = 1.
    let advantage = Target::Epsilon {
        query: Query::single(Neighbours::AddRemove),
        epsilon: Epsilon::new(0.0).unwrap(),
        delta: Delta::new(0.38292492254802624).unwrap(),
    };
    let found = calibrate_noise(|s| repeat(s.get(), 1), advantage, fine).unwrap();
    assert!((found.answer.get() - 1.0).abs() < 1e-9);
}

#[test]
fn few_evaluations_are_enough() {
    let count = Cell::new(0);
    let target = Target::Epsilon {
        query: Query::single(Neighbours::AddRemove),
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    };
    let counted = |s: NoiseMultiplier| {
        count.set(count.get() + 1);
        run(s.get(), 0.01, 1000)
    };
    calibrate_noise(counted, target, tolerance(1e-9)).unwrap();
    // Bisection would take 31 after bracketing.
    assert!(count.get() <= 16, "{} evaluations", count.get());
}

/// Of balls in bins only two runs around it are known, 0.1 % apart in delta here: the search goes by the
/// upper end, and does not take the gap for a reason to bisect.
#[test]
fn few_evaluations_are_enough_between_two_runs() {
    let count = Cell::new(0);
    let target = Target::Epsilon {
        query: Query::single(Neighbours::AddRemove),
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    };
    let counted = |noise_multiplier: NoiseMultiplier| {
        count.set(count.get() + 1);
        let each = Mechanism::SubsampledGaussian {
            noise_multiplier,
            sampling_rate: SamplingRate::new(0.05).unwrap(),
            sampling: Sampling::BallsInBins,
        };
        Mechanism::Repeat {
            times: Steps::new(20),
            each: Box::new(each),
        }
    };
    let found = calibrate_noise(counted, target, tolerance(1e-5)).unwrap();
    assert!(count.get() <= 20, "{} evaluations", count.get());
    assert!(found.answer.get() > found.fails.unwrap().get());
}

#[test]
fn extreme_answers_are_found() {
    let target = |epsilon, delta| Target::Epsilon {
        query: Query::single(Neighbours::AddRemove),
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(delta).unwrap(),
    };
    let gaussian = |s: NoiseMultiplier| Mechanism::Gaussian {
        noise_multiplier: s,
    };
    for (epsilon, delta) in [(1e-4, 1e-12), (1e4, 1e-5), (1e-3, 1e-300), (50.0, 1e-300)] {
        let found = calibrate_noise(gaussian, target(epsilon, delta), tolerance(1e-6)).unwrap();
        let at = |s| ratio(&target(epsilon, delta), &gaussian(s), tolerance(1e-9));
        assert!(
            at(found.answer) <= 1.0 && at(found.fails.unwrap()) > 1.0,
            "{found:?}"
        );
    }
    // A billion steps.
    let found = calibrate_noise(
        |s| run(s.get(), 1e-3, 1_000_000_000),
        target(1.0, 1e-8),
        tolerance(1e-6),
    );
    assert!(found.unwrap().answer.get() > 50.0);
    let most = calibrate_steps(
        |t| run(100.0, 1e-6, t.get()),
        target(1.0, 1e-8),
        tolerance(1e-6),
    );
    assert!(most.unwrap().answer.get() > 1_000_000_000_000);
}

#[test]
fn what_cannot_be_met_says_so_and_what_always_holds_too() {
    let query = Query::single(Neighbours::AddRemove);
    let epsilon = |epsilon, delta| Target::Epsilon {
        query,
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(delta).unwrap(),
    };
    let wide = tolerance(1e-3);
    let text = |error: reticent_accounting::Error| error.to_string();
    // Pure DP of a Gaussian is out of reach.
    let none = calibrate_noise(|s| run(s.get(), 0.1, 10), epsilon(5.0, 0.0), wide);
    assert_eq!(
        text(none.unwrap_err()),
        "no noise multiplier up to 1e7 meets this target"
    );
    let bare = |_| Mechanism::NonPrivate { why: "none".into() };
    let none = calibrate_rate(bare, epsilon(1.0, 1e-5), wide);
    assert_eq!(
        text(none.unwrap_err()),
        "no sampling rate down to 1e-12 meets this target"
    );
    let none = calibrate_steps(|t| run(0.3, 1.0, t.get()), epsilon(1.0, 1e-5), wide);
    assert_eq!(
        text(none.unwrap_err()),
        "no number of steps meets this target"
    );
    let none = calibrate_group(&run(0.3, 1.0, 1), epsilon(1.0, 1e-5), wide);
    assert_eq!(text(none.unwrap_err()), "no group size meets this target");
    // Every rate keeps a loose promise: the answer is 1, and nothing lies beyond.
    let all = calibrate_rate(|q| run(10.0, q.get(), 1), epsilon(1.0, 1e-5), wide).unwrap();
    assert!(all.answer.get() >= 1.0 && all.fails.is_none());
    let all = calibrate_group(
        &Mechanism::Sequence { parts: vec![] },
        epsilon(1.0, 1e-5),
        wide,
    )
    .unwrap();
    assert_eq!((all.answer.get(), all.fails), (10_000, None));
    let all =
        calibrate_noise(|s| run(s.get(), 0.1, 1), epsilon(f64::INFINITY, 1e-5), wide).unwrap();
    assert!(all.fails.is_none());
    // Targets that contradict themselves name the argument and its range.
    let bad = |target| text(calibrate_noise(|s| run(s.get(), 0.1, 1), target, wide).unwrap_err());
    let posterior = |prior, posterior| Target::Posterior {
        group: GroupSize::ONE,
        prior: probability(prior),
        posterior: probability(posterior),
    };
    assert!(bad(posterior(0.1, 0.1)).contains("posterior must lie in (prior, 1]"));
    assert!(bad(epsilon(0.0, 0.0)).contains("target delta at epsilon 0"));
    let tpr = Target::TruePositiveRate {
        query,
        fpr: probability(0.1),
        tpr: probability(0.05),
    };
    assert!(bad(tpr).contains("true-positive rate"));
    let exposure = |bits, p| Target::Exposure {
        group: GroupSize::ONE,
        bits,
        probability: probability(p),
    };
    assert!(bad(exposure(f64::NAN, 0.5)).contains("exposure"));
    assert!(bad(exposure(3.0, 0.125)).contains("2^-exposure"));
    // An error of the accounting itself is passed on, not taken for a broken promise.
    let refused = calibrate_noise(
        |s| Mechanism::Estimated {
            inner: Box::new(run(s.get(), 0.1, 1)),
            why: "a guess".into(),
        },
        epsilon(1.0, 1e-5),
        wide,
    );
    assert!(text(refused.unwrap_err()).contains("estimate"));
}
