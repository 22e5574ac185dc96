//! What a mechanism implies is answered: guesses under any reference, groups where only one record is
//! covered, promises proved by the Rényi curve.

use reticent_accounting::calibrate::{Target, calibrate_group, calibrate_noise};
use reticent_accounting::rdp::epsilon_by_renyi;
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{
    Delta, Epsilon, Error, GroupSize, Mechanism, Method, MissRate, Neighbours, NoiseMultiplier,
    Notion, Plan, PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
    UnitName,
};

fn posterior(mechanism: &Mechanism, prior: f64) -> (Neighbours, f64, f64) {
    let unit = UnitName::new("record").unwrap();
    let mut plan = Plan::new(mechanism.clone(), unit, Delta::new(1e-5).unwrap());
    plan.neighbours = Neighbours::Replace;
    plan.prior = Some(Probability::new(prior).unwrap());
    let rows = plan.guarantees().unwrap();
    let row = rows
        .iter()
        .find(|row| row.notion == Notion::SecretProtection && row.method == Method::BlowUp)
        .unwrap();
    let ends = row.posterior.unwrap();
    let (lower, upper) = (ends.lower.unwrap(), ends.upper.unwrap());
    (row.neighbours, lower.get().get(), upper.get().get())
}

/// One uniform secret of N, batches of fixed size: any content may be the reference, so the replace pair
/// bounds a guess. With next to no noise a guess is right when the secret was drawn or by luck.
#[test]
fn guesses_after_batches_of_fixed_size_have_another_content_as_reference() {
    let fixed = |sigma: f64| Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
        sampling_rate: SamplingRate::new(0.2).unwrap(),
        sampling: Sampling::WithoutReplacement,
    };
    let (compared, least, bound) = posterior(&fixed(0.01), 0.1);
    assert_eq!(compared, Neighbours::Replace);
    // The true chance, drawn and seen or guessed: 0.2 + 0.8/10. The pair of two contents attains 0.3, which
    // no guess does.
    assert!((0.28..=0.28 + 1e-9).contains(&bound), "{bound}");
    assert!(least <= 0.28, "{least}");
    let (_, _, noisy) = posterior(&fixed(3.0), 0.1);
    assert!(noisy > 0.1 && noisy < bound);
}

/// B of (ε, δ) is min(1, δ + e^ε x, 1 − e^{−ε}(1 − δ)(1 − x)) whatever the reference.
#[test]
fn guesses_after_a_stated_guarantee_use_its_own_neighbours() {
    let stated = |neighbours| Mechanism::ApproxDp {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-3).unwrap(),
        neighbours,
    };
    for neighbours in [
        Neighbours::ZeroOut,
        Neighbours::AddRemove,
        Neighbours::Replace,
    ] {
        let (loss, compared) =
            PrivacyLoss::of_guesses(&stated(neighbours), GroupSize::ONE).unwrap();
        assert_eq!(compared, neighbours);
        let prior = Probability::new(0.01).unwrap();
        let bound = loss.blow_up(prior, Tolerance::DEFAULT).unwrap().bounds;
        let upper = bound.upper.unwrap().get().get();
        let truth = 1e-3 + (1.0 - 1e-3) * 1f64.exp() * 0.01;
        assert!(
            upper >= truth * (1.0 - 1e-9) && upper <= (1e-3 + 1f64.exp() * 0.01) * (1.0 + 1e-9)
        );
    }
}

/// Truncated batches are covered for one record: one it is, or none, never "a group of 8 is not covered".
#[test]
fn the_largest_group_is_one_where_only_one_is_covered() {
    let each = |sigma: f64| Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
        sampling_rate: SamplingRate::new(0.01).unwrap(),
        sampling: Sampling::TruncatedPoisson {
            max_batch: 20,
            records: 1000,
        },
    };
    let target = Target::Epsilon {
        query: Query::single(Neighbours::AddRemove),
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    };
    let found = calibrate_group(&each(2.0), target, Tolerance::new(1e-3).unwrap()).unwrap();
    assert_eq!(found.answer, GroupSize::ONE);
    let broken = calibrate_group(&each(0.3), target, Tolerance::new(1e-3).unwrap()).unwrap_err();
    assert!(
        matches!(&broken, Error::NotMet { what } if what == "group size"),
        "{broken}"
    );
}

/// A promise proved by the Rényi curve is that curve's own: kept there, broken a tolerance below, and
/// dearer than by the loss itself.
#[test]
fn calibration_by_renyi_is_tight_in_its_own_terms() {
    let run = |sigma: NoiseMultiplier| {
        Mechanism::dp_sgd(sigma, SamplingRate::new(0.1).unwrap(), Steps::new(100))
    };
    let query = Query::single(Neighbours::AddRemove);
    let (epsilon, delta) = (Epsilon::new(2.0).unwrap(), Delta::new(1e-5).unwrap());
    let tolerance = Tolerance::new(1e-6).unwrap();
    let redaction = Redaction::single_policy(MissRate::new(0.1).unwrap());
    let by_law = Target::Epsilon {
        query,
        epsilon,
        delta,
    };
    let own = calibrate_noise(run, by_law, tolerance).unwrap().answer;
    for (target, redaction) in [
        (
            Target::EpsilonByRenyi {
                query,
                epsilon,
                delta,
            },
            None,
        ),
        (
            Target::UninformedByRenyi {
                redaction,
                query,
                epsilon,
                delta,
            },
            Some(redaction),
        ),
    ] {
        let found = calibrate_noise(run, target, tolerance).unwrap();
        let at = |sigma| {
            let proved = epsilon_by_renyi(&run(sigma), query, delta, redaction).unwrap();
            proved.get().get()
        };
        assert!(at(found.answer) <= 2.0 && at(found.fails.unwrap()) > 2.0);
        assert!(redaction.is_some() || found.answer > own);
    }
}

/// Batches cut to a size: given that the record is never drawn a run is the same for every content, so a
/// guess with prior p is right with chance 1 − c(1 − p) at most, c = (1 − q)^T.
#[test]
fn guesses_after_truncated_batches_are_bounded_by_the_chance_to_be_drawn() {
    for (sigma, steps) in [(0.05, 1), (0.1, 10)] {
        let run = Mechanism::Repeat {
            times: Steps::new(steps),
            each: Box::new(Mechanism::SubsampledGaussian {
                noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
                sampling_rate: SamplingRate::new(0.05).unwrap(),
                sampling: Sampling::TruncatedPoisson {
                    max_batch: 60,
                    records: 1000,
                },
            }),
        };
        let (_, least, bound) = posterior(&run, 0.5);
        let most = 1.0 - 0.95f64.powi(i32::try_from(steps).unwrap()) * 0.5;
        assert!(bound <= most * (1.0 + 1e-9), "{bound} {most}");
        assert!(least <= bound);
    }
}

/// ε = k/b at δ = 0, between the ends; the law and the lemma of a group never contradict each other there.
#[test]
fn pure_privacy_of_laplace_noise_lies_between_its_ends() {
    for scale in [0.5, 0.7, 0.9, 3.0] {
        for group in 1..=10_u32 {
            let run = Mechanism::Laplace {
                scale: NoiseMultiplier::new(scale).unwrap(),
            };
            let unit = UnitName::new("record").unwrap();
            let mut plan = Plan::new(run, unit, Delta::new(0.0).unwrap());
            plan.group = GroupSize::new(group).unwrap();
            let bounds = plan.exactly().unwrap().epsilon.unwrap();
            let (lower, upper) = (bounds.lower.unwrap(), bounds.upper.unwrap());
            let (lower, upper) = (lower.get().get(), upper.get().get());
            let truth = f64::from(group) / scale;
            assert!(lower <= truth && truth <= upper, "{lower} {truth} {upper}");
            assert!(upper - lower <= 1e-12 * truth);
        }
    }
}
