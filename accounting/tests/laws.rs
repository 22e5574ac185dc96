//! Every mechanism, sampler, neighbours and direction on the grid, against composition of plain
//! lists of outcomes that share no code with it.
//!
//! proptest's own seeds; every case must hold, there is no false-alarm rate.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use proptest::prelude::*;
use reticent_accounting::rdp::RdpCurve;
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, Order,
    PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
};

/// Outcomes of one step as (P-mass, Q-mass), about.
type Outcomes = Vec<(f64, f64)>;

fn repeat(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

fn noise(x: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(x).unwrap()
}

fn rate(x: f64) -> SamplingRate {
    SamplingRate::new(x).unwrap()
}

fn bounds(
    run: &Mechanism,
    neighbours: Neighbours,
    direction: Direction,
    epsilon: f64,
) -> (f64, f64) {
    let loss = PrivacyLoss::of(run, Query::single(neighbours), direction).unwrap();
    let tolerance = Tolerance::new(1e-6).unwrap();
    let answer = loss
        .delta(Epsilon::new(epsilon).unwrap(), tolerance)
        .unwrap();
    let ends = answer.bounds;
    (
        ends.lower.unwrap().get().get(),
        ends.upper.unwrap().get().get(),
    )
}

/// Two densities on a fine mesh; masses by the midpoint rule.
fn mesh(first: impl Fn(f64) -> f64, second: impl Fn(f64) -> f64) -> Outcomes {
    let (from, to, count) = (-40.0, 40.0, 80_000);
    let step = (to - from) / f64::from(count);
    (0..count)
        .map(|i| from + step * (f64::from(i) + 0.5))
        .map(|x| (first(x) * step, second(x) * step))
        .collect()
}

fn laplace(x: f64, centre: f64, scale: f64) -> f64 {
    (-(x - centre).abs() / scale).exp() / (2.0 * scale)
}

fn gaussian(x: f64, centre: f64, sigma: f64) -> f64 {
    let z = (x - centre) / sigma;
    (-0.5 * z * z).exp() / (sigma * std::f64::consts::TAU.sqrt())
}

/// (least, most) δ(ε) of `times` steps: losses rounded down and up to a mesh, convolved.
fn composed(step: &Outcomes, times: u32, epsilon: f64) -> (f64, f64) {
    const WIDTH: f64 = 2e-3;
    let side = |up: bool| {
        let mut law: std::collections::BTreeMap<i64, f64> = std::collections::BTreeMap::new();
        let mut infinite = 0.0;
        for (p, q) in step {
            if *p <= 0.0 {
                continue;
            }
            if *q <= 0.0 {
                infinite += p;
                continue;
            }
            // An outcome on the mesh, up to rounding, stays there.
            let loss = (p / q).ln() / WIDTH;
            let index = if (loss - loss.round()).abs() < 1e-9 {
                loss.round()
            } else if up {
                loss.ceil()
            } else {
                loss.floor()
            };
            *law.entry(index as i64).or_default() += p;
        }
        let mut whole = std::collections::BTreeMap::from([(0i64, 1.0)]);
        let mut finite = 1.0;
        for _ in 0..times {
            let mut next = std::collections::BTreeMap::new();
            for (a, p) in &whole {
                for (b, q) in &law {
                    if p * q > 1e-18 {
                        *next.entry(a + b).or_insert(0.0) += p * q;
                    }
                }
            }
            whole = next;
            finite *= 1.0 - infinite;
        }
        let excess =
            |(index, p): (&i64, &f64)| p * -(epsilon - *index as f64 * WIDTH).exp_m1().min(0.0);
        whole.iter().map(excess).sum::<f64>() + 1.0 - finite
    };
    (side(false), side(true))
}

/// Both ends agree with the lists: 2e-6 covers the mesh's own masses.
fn agree(
    run: &Mechanism,
    neighbours: Neighbours,
    direction: Direction,
    step: &Outcomes,
    times: u32,
    epsilon: f64,
) {
    let (low, high) = bounds(run, neighbours, direction, epsilon);
    let (least, most) = composed(step, times, epsilon);
    assert!(low <= high, "{low} {high} {run:?}");
    assert!(
        low <= most * 1.0001 + 2e-6,
        "{low} above {most}: {run:?} {direction:?} at {epsilon}"
    );
    assert!(
        high >= least * 0.9999 - 2e-6,
        "{high} below {least}: {run:?} {direction:?} at {epsilon}"
    );
    assert!(
        high - low <= 1e-5 * high + 1e-15 || low <= 0.0,
        "{low} {high} {run:?}"
    );
}

fn swapped(step: &Outcomes, direction: Direction) -> Outcomes {
    match direction {
        Direction::Remove => step.clone(),
        Direction::Add => step.iter().map(|(p, q)| (*q, *p)).collect(),
    }
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Remove), Just(Direction::Add)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laplace_with_and_without_sampling(
        scale in 0.5f64..4.0, share in 0.02f64..1.0, times in 1u32..5, spot in 0.0f64..0.9,
        side in direction(), replace in any::<bool>(),
    ) {
        let each = Mechanism::SubsampledLaplace {
            scale: noise(scale), sampling_rate: rate(share), sampling: Sampling::Poisson,
        };
        let with = |x: f64, at: f64| (1.0 - share) * laplace(x, 0.0, scale) + share * laplace(x, at, scale);
        let (step, neighbours) = if replace {
            (mesh(|x| with(x, 1.0), |x| with(x, -1.0)), Neighbours::Replace)
        } else {
            (mesh(|x| with(x, 1.0), |x| laplace(x, 0.0, scale)), Neighbours::AddRemove)
        };
        let side = if replace { Direction::Remove } else { side };
        let epsilon = spot * f64::from(times) / scale;
        agree(&repeat(u64::from(times), each), neighbours, side, &swapped(&step, side), times, epsilon);
    }

    /// The fixed-size law is the worse of two sampled pairs for every ε, so it is at least each.
    #[test]
    fn sampling_without_replacement_covers_both_of_its_pairs(
        sigma in 0.7f64..3.0, share in 0.05f64..0.9, times in 1u32..3, spot in 0.0f64..1.5,
    ) {
        let each = Mechanism::SubsampledGaussian {
            noise_multiplier: noise(sigma), sampling_rate: rate(share), sampling: Sampling::WithoutReplacement,
        };
        let run = repeat(u64::from(times), each);
        let epsilon = spot * share / sigma;
        let (_, high) = bounds(&run, Neighbours::Replace, Direction::Remove, epsilon);
        let with = |x: f64| (1.0 - share) * gaussian(x, -1.0, sigma) + share * gaussian(x, 1.0, sigma);
        let one = mesh(with, |x| gaussian(x, -1.0, sigma));
        for step in [one.clone(), swapped(&one, Direction::Add)] {
            prop_assert!(high >= composed(&step, times, epsilon).0 * 0.9999 - 2e-6);
        }
        // One step at ε ≥ 0 is the first pair itself (Balle, Barthe and Gaboardi 2018).
        let single = Mechanism::SubsampledGaussian {
            noise_multiplier: noise(sigma), sampling_rate: rate(share), sampling: Sampling::WithoutReplacement,
        };
        agree(&single, Neighbours::Replace, Direction::Remove, &one, 1, epsilon);
    }

    #[test]
    fn truncated_batches_cost_no_less_than_full_ones(
        sigma in 0.7f64..3.0, share in 0.05f64..0.5, extra in 0u64..8, times in 1u64..6, side in direction(),
    ) {
        let records = 40;
        let max_batch = (40.0 * share).ceil() as u64 + extra;
        let of = |sampling| repeat(times, Mechanism::SubsampledGaussian {
            noise_multiplier: noise(sigma), sampling_rate: rate(share), sampling,
        });
        let epsilon = 0.5 * share / sigma;
        let plain = bounds(&of(Sampling::Poisson), Neighbours::AddRemove, side, epsilon);
        let cut = bounds(&of(Sampling::TruncatedPoisson { max_batch, records }), Neighbours::AddRemove, side, epsilon);
        let loose = bounds(&of(Sampling::TruncatedPoisson { max_batch: 41, records }), Neighbours::AddRemove, side, epsilon);
        prop_assert!(cut.1 >= plain.0 * (1.0 - 1e-9) && cut.0 <= 0.0);
        // Never full, never different.
        prop_assert!(loose.1 <= plain.1 * (1.0 + 1e-5) && loose.1 >= plain.0 * (1.0 - 1e-5));
        // Fuller, never cheaper.
        let fuller = bounds(&of(Sampling::TruncatedPoisson { max_batch: 1, records }), Neighbours::AddRemove, side, epsilon);
        prop_assert!(fuller.1 >= cut.0 && fuller.1 >= plain.1);
        if share > 0.2 {
            // Hardly ever not full: the record displaces another, twice the sensitivity.
            let doubled = repeat(times, Mechanism::SubsampledGaussian {
                noise_multiplier: noise(0.5 * sigma), sampling_rate: rate(share), sampling: Sampling::Poisson,
            });
            let (low, high) = bounds(&doubled, Neighbours::AddRemove, side, epsilon);
            prop_assert!(fuller.1 >= 0.98 * low && fuller.1 <= high * (1.0 + 1e-5), "{fuller:?} {low} {high}");
        }
    }

    #[test]
    fn discrete_noise_on_integers(
        spread in 0.6f64..6.0, sensitivity in 1u32..4, times in 1u32..5, spot in 0.0f64..2.0,
        gaussian in any::<bool>(), replace in any::<bool>(),
    ) {
        let (run, neighbours) = if gaussian {
            (Mechanism::DiscreteGaussian { sigma: noise(spread), sensitivity }, if replace { Neighbours::Replace } else { Neighbours::AddRemove })
        } else {
            (Mechanism::DiscreteLaplace { scale: noise(spread), sensitivity }, if replace { Neighbours::Replace } else { Neighbours::AddRemove })
        };
        let shift = i64::from(sensitivity) * if replace { 2 } else { 1 };
        let weight = |x: i64| {
            let x = x as f64;
            if gaussian { (-0.5 * x * x / (spread * spread)).exp() } else { (-x.abs() / spread).exp() }
        };
        let total: f64 = (-400..=400).map(weight).sum();
        let step: Outcomes = (-300..=300)
            .map(|x| (weight(x - shift) / total, weight(x) / total))
            .filter(|(p, q)| *p > 1e-15 && *q > 0.0)
            .collect();
        let epsilon = spot * shift as f64 / spread;
        agree(&repeat(u64::from(times), run), neighbours, Direction::Remove, &step, times, epsilon);
    }

    #[test]
    fn answers_of_chance(
        truth in 0.3f64..0.9, categories in 2u32..6, times in 1u32..6, spot in 0.0f64..1.0,
    ) {
        let other = (1.0 - truth) / f64::from(categories - 1);
        let rest = f64::from(categories - 2) * other;
        let step = vec![(truth, other), (other, truth), (rest, rest)];
        let run = Mechanism::RandomisedResponse { truth: Probability::new(truth).unwrap(), categories };
        let epsilon = spot * f64::from(times) * (truth / other).ln().abs();
        agree(&repeat(u64::from(times), run), Neighbours::Replace, Direction::Remove, &step, times, epsilon);
    }

    #[test]
    fn pure_and_approximate_guarantees(
        each in 0.01f64..1.5, slack in 0.0f64..0.05, times in 1u32..6, spot in 0.0f64..1.1,
    ) {
        let run = Mechanism::ApproxDp {
            epsilon: Epsilon::new(each).unwrap(), delta: Delta::new(slack).unwrap(), neighbours: Neighbours::AddRemove,
        };
        let likely = (1.0 - slack) / (1.0 + (-each).exp());
        let rare = (1.0 - slack) / (1.0 + each.exp());
        let step = vec![(slack, 0.0), (likely, rare), (rare, likely), (0.0, slack)];
        agree(&repeat(u64::from(times), run), Neighbours::AddRemove, Direction::Remove, &step, times, spot * f64::from(times) * each);
    }

    /// Any instance of the exponential mechanism is two outcomes of loss t and t − ε; the law
    /// covers the composition of each, and one step is the supremum over them.
    #[test]
    fn the_exponential_mechanism_covers_its_instances(
        range in 0.05f64..2.0, share in 0.05f64..0.95, times in 1u32..6, spot in 0.0f64..0.9,
    ) {
        let run = Mechanism::ExponentialMechanism { epsilon: Epsilon::new(range).unwrap(), neighbours: Neighbours::AddRemove };
        let instance = |t: f64| {
            let q = (1.0 - (t - range).exp()) / (t.exp() - (t - range).exp());
            vec![(q * t.exp(), q), ((1.0 - q) * (t - range).exp(), 1.0 - q)]
        };
        let epsilon = spot * f64::from(times) * range;
        let (_, high) = bounds(&repeat(u64::from(times), run.clone()), Neighbours::AddRemove, Direction::Remove, epsilon);
        prop_assert!(high >= composed(&instance(share * range), times, epsilon).0 * 0.9999 - 1e-9);
        let single = spot * range;
        let best = (1..1000).map(|i| {
            let step = instance(range * f64::from(i) / 1000.0);
            step.iter().map(|(p, q)| (p - single.exp() * q).max(0.0)).sum::<f64>()
        }).fold(0.0, f64::max);
        let (low, high) = bounds(&run, Neighbours::AddRemove, Direction::Remove, single);
        prop_assert!(low <= best + 1e-5 && best <= high + 1e-12, "{low} {best} {high}");
    }

    /// Mixed steps: a sampled Gaussian, a Laplace and a guarantee, in one run.
    #[test]
    fn heterogeneous_steps(
        sigma in 0.8f64..3.0, share in 0.05f64..0.9, scale in 1.0f64..4.0, each in 0.05f64..0.8, spot in 0.1f64..1.2,
        side in direction(),
    ) {
        let run = Mechanism::Sequence { parts: vec![
            Mechanism::SubsampledGaussian { noise_multiplier: noise(sigma), sampling_rate: rate(share), sampling: Sampling::Poisson },
            Mechanism::Laplace { scale: noise(scale) },
            Mechanism::PureDp { epsilon: Epsilon::new(each).unwrap(), neighbours: Neighbours::AddRemove },
        ] };
        let with = |x: f64| (1.0 - share) * gaussian(x, 0.0, sigma) + share * gaussian(x, 1.0, sigma);
        let one = swapped(&mesh(with, |x| gaussian(x, 0.0, sigma)), side);
        let two = mesh(|x| laplace(x, 1.0, scale), |x| laplace(x, 0.0, scale));
        let epsilon = spot * (share / sigma + 1.0 / scale);
        // δ = Σ over the guarantee's and the Laplace's outcomes of p q δ_1(ε − their losses).
        let rare = 1.0 / (1.0 + each.exp());
        let coarse: Outcomes = two.chunks(40).map(|c| c.iter().fold((0.0, 0.0), |s, o| (s.0 + o.0, s.1 + o.1))).collect();
        let finer: Outcomes = one.chunks(20).map(|c| c.iter().fold((0.0, 0.0), |s, o| (s.0 + o.0, s.1 + o.1))).collect();
        let mut truth = 0.0;
        for (p, q) in [(1.0 - rare, rare), (rare, 1.0 - rare)] {
            for (a, b) in &coarse {
                if *a < 1e-12 { continue; }
                let level = epsilon.exp() * q * b;
                truth += finer.iter().map(|(x, y)| (p * a * x - level * y).max(0.0)).sum::<f64>();
            }
        }
        let (low, high) = bounds(&run, Neighbours::AddRemove, side, epsilon);
        // Merged outcomes tell a little less.
        prop_assert!(high >= truth * 0.9999 - 1e-7, "{low} {truth} {high}");
        prop_assert!(low <= truth * 1.01 + 1e-6, "{low} {truth} {high}");
        prop_assert!(high - low <= 1e-4 * high + 1e-12, "{low} {high}");
    }
}

#[test]
fn divergences_match_closed_forms() {
    // shared vectors rdp_laplace_*, rdp_rr_*, kl_rr, rdp_expmech: Mironov 2017, Table II.
    let of = |run: &Mechanism, neighbours, order: f64| {
        let loss = PrivacyLoss::of(run, Query::single(neighbours), Direction::Remove).unwrap();
        let ends = RdpCurve::bounds(&loss, &[Order::new(order).unwrap()]).unwrap()[0];
        (
            *ends.lower.unwrap().get(),
            *ends.upper.unwrap().get(),
            *loss.divergence().unwrap().get(),
        )
    };
    let within = |(low, high): (f64, f64), truth: f64| {
        low <= truth && truth <= high && high - low < 1e-4 * truth
    };
    let one = Mechanism::Laplace { scale: noise(1.0) };
    for order in [1.5f64, 2.0, 8.0, 40.0] {
        // ln[(α e^{(α−1)/b} + (α−1) e^{−α/b})/(2α−1)]/(α−1).
        let sum = order * (order - 1.0).exp() + (order - 1.0) * (-order).exp();
        let truth = (sum / (2.0 * order - 1.0)).ln() / (order - 1.0);
        let (low, high, _) = of(&one, Neighbours::AddRemove, order);
        assert!(within((low, high), truth), "{low} {truth} {high}");
        assert!(high - low < 2e-13 * truth, "{low} {high}");
    }
    // 1/b + e^{−1/b} − 1.
    let kl = of(&one, Neighbours::AddRemove, 2.0).2;
    assert!(
        kl >= (-1.0f64).exp() && kl < (-1.0f64).exp() + 1e-13,
        "{kl}"
    );
    let coin = Mechanism::RandomisedResponse {
        truth: Probability::new(0.75).unwrap(),
        categories: 2,
    };
    let (low, high, kl) = of(&coin, Neighbours::Replace, 2.0);
    // ln(p²/(1−p) + (1−p)²/p) at p = 3/4, and (2p − 1) ln 3.
    assert!(within((low, high), (0.5625f64 / 0.25 + 0.0625 / 0.75).ln()));
    assert!((kl / (0.5 * 3f64.ln()) - 1.0).abs() < 1e-9);
    let integers = Mechanism::DiscreteGaussian {
        sigma: noise(3.0),
        sensitivity: 2,
    };
    let (_, high, _) = of(&integers, Neighbours::AddRemove, 4.0);
    assert!((high / (4.0 * 4.0 / 18.0) - 1.0).abs() < 1e-9);
    let fixed = Mechanism::SubsampledGaussian {
        noise_multiplier: noise(2.0),
        sampling_rate: rate(1.0),
        sampling: Sampling::WithoutReplacement,
    };
    let (_, high, _) = of(&fixed, Neighbours::Replace, 3.0);
    // The whole set: a Gaussian of sensitivity 2, α Δ²/2σ².
    assert!((high / 1.5 - 1.0).abs() < 1e-4, "{high}");
}

/// ε at δ, the upper end.
fn epsilon(run: &Mechanism, query: Query, delta: f64) -> f64 {
    let loss = PrivacyLoss::of(run, query, Direction::Remove).unwrap();
    let found = loss
        .epsilon(Delta::new(delta).unwrap(), Tolerance::new(1e-9).unwrap())
        .unwrap();
    found.bounds.upper.unwrap().get().get()
}

#[test]
fn stated_guarantees_reach_other_neighbours_and_groups_by_the_lemma() {
    let stated = |neighbours| Mechanism::ApproxDp {
        epsilon: Epsilon::new(0.2).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
        neighbours,
    };
    let group = |k: u32, neighbours| Query {
        neighbours,
        group: GroupSize::new(k).unwrap(),
    };
    // (kε, δ(e^{kε} − 1)/(e^ε − 1)): just above that δ, ε is just below kε.
    let sum = |k: f64| (k * 0.2).exp_m1() / 0.2f64.exp_m1();
    for (query, k) in [
        (group(3, Neighbours::AddRemove), 3.0),
        (group(1, Neighbours::Replace), 2.0),
        (group(2, Neighbours::Replace), 4.0),
    ] {
        let run = stated(Neighbours::AddRemove);
        let enough = epsilon(&run, query, 1e-6 * sum(k) * (1.0 + 1e-6));
        assert!((enough - k * 0.2).abs() < 1e-5, "{enough}");
        assert!(epsilon(&run, query, 1e-6 * sum(k) * (1.0 - 1e-6)).is_infinite());
    }
}

#[test]
fn beyond_the_largest_finite_loss_only_the_infinite_is_left() {
    // Shared vector epsdelta_compose: δ(3) of (1, 0.1) and (2, 0.2) is 1 − 0.9·0.8.
    let part = |epsilon: f64, delta: f64| Mechanism::ApproxDp {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(delta).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    let run = Mechanism::Sequence {
        parts: vec![part(1.0, 0.1), part(2.0, 0.2)],
    };
    for epsilon in [3.0, 3.5, 40.0] {
        let (low, high) = bounds(&run, Neighbours::AddRemove, Direction::Remove, epsilon);
        assert!(
            low <= 0.28 && 0.28 <= high && high - low < 1e-9,
            "{low} {high}"
        );
    }
}

#[test]
fn a_started_epoch_counts_whole() {
    // 1001 steps of 1/1000 of the records: two passes, each seen once without amplification.
    for sampling in [Sampling::Shuffled, Sampling::BallsInBins] {
        let run = repeat(
            1001,
            Mechanism::SubsampledGaussian {
                noise_multiplier: noise(2.0),
                sampling_rate: rate(1e-3),
                sampling,
            },
        );
        let plain = repeat(
            2,
            Mechanism::Gaussian {
                noise_multiplier: noise(2.0),
            },
        );
        let query = Query::single(Neighbours::ZeroOut);
        assert!((epsilon(&run, query, 1e-5) / epsilon(&plain, query, 1e-5) - 1.0).abs() < 1e-8);
        let exact = repeat(
            1000,
            Mechanism::SubsampledGaussian {
                noise_multiplier: noise(2.0),
                sampling_rate: rate(1e-3),
                sampling,
            },
        );
        let once = Mechanism::Gaussian {
            noise_multiplier: noise(2.0),
        };
        assert!((epsilon(&exact, query, 1e-5) / epsilon(&once, query, 1e-5) - 1.0).abs() < 1e-8);
    }
}

#[test]
fn what_is_not_covered_is_refused() {
    let gaussian = |sampling| Mechanism::SubsampledGaussian {
        noise_multiplier: noise(1.0),
        sampling_rate: rate(0.1),
        sampling,
    };
    let coin = Mechanism::RandomisedResponse {
        truth: Probability::new(0.7).unwrap(),
        categories: 2,
    };
    let replaced = Mechanism::PureDp {
        epsilon: Epsilon::new(1.0).unwrap(),
        neighbours: Neighbours::Replace,
    };
    for (run, neighbours, words) in [
        (
            gaussian(Sampling::WithReplacement),
            Neighbours::AddRemove,
            "with replacement",
        ),
        (
            gaussian(Sampling::WithoutReplacement),
            Neighbours::AddRemove,
            "replace",
        ),
        (
            gaussian(Sampling::Shuffled),
            Neighbours::AddRemove,
            "every batch",
        ),
        (coin, Neighbours::AddRemove, "every record reports"),
        (replaced, Neighbours::AddRemove, "does not imply"),
    ] {
        let error =
            PrivacyLoss::of(&run, Query::single(neighbours), Direction::Remove).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    // An upper bound only: no lower end.
    let loss = PrivacyLoss::of(
        &gaussian(Sampling::BallsInBins),
        Query::single(Neighbours::AddRemove),
        Direction::Remove,
    )
    .unwrap();
    let found = loss
        .epsilon(Delta::new(1e-5).unwrap(), Tolerance::DEFAULT)
        .unwrap();
    assert!(found.bounds.lower.is_none() && found.bounds.upper.is_some());
}

#[test]
fn an_epoch_is_the_whole_steps_nearest_to_one_over_the_rate() {
    let steps = |epochs: f64, rate: f64| {
        let rate = SamplingRate::new(rate).unwrap();
        Steps::for_epochs(epochs, rate).map(Steps::get)
    };
    // 1/0.28 = 3.57: four steps an epoch, as the trainer takes them, and not ⌈10/0.28⌉ = 36
    assert_eq!(steps(10.0, 0.28), Some(40));
    assert_eq!(steps(0.3, 0.28), Some(2));
    assert_eq!(steps(3.0, 1.0), Some(3));
    assert_eq!(steps(2.0, 0.7), Some(2));
    assert_eq!(steps(0.0, 0.5), None);
    assert_eq!(steps(f64::NAN, 0.5), None);
    assert_eq!(steps(1e300, 0.5), None);
}
