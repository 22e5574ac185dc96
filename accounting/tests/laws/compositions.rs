//! Compositions of each mechanism against lists of outcomes.

use super::*;

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
    fn truncated_batches_lie_between_their_cases(
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
        // A record that is used less often may cost less than in full batches, never more from below.
        prop_assert!(cut.0 <= cut.1 && cut.0 <= plain.1);
        // Never full, never different.
        prop_assert!(loose.1 <= plain.1 * (1.0 + 1e-5) && loose.1 >= plain.0 * (1.0 - 1e-5));
        if share > 0.2 {
            // One of all that are drawn, and hardly ever none: the record has a chance of 1/40 and
            // displaces another then, twice the sensitivity.
            let single = bounds(&of(Sampling::TruncatedPoisson { max_batch: 1, records }), Neighbours::AddRemove, side, epsilon);
            let doubled = repeat(times, Mechanism::SubsampledGaussian {
                noise_multiplier: noise(0.5 * sigma), sampling_rate: rate(1.0 / 40.0), sampling: Sampling::Poisson,
            });
            let (low, high) = bounds(&doubled, Neighbours::AddRemove, side, epsilon);
            prop_assert!(single.1 >= 0.98 * low - 1e-3 && single.1 <= high * 1.05 + 1e-3, "{single:?} {low} {high}");
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

/// With so many outcomes the run is laid on lines once from above and once more from below. The loss of two
/// steps is a function of the sum of their noise, whose law is a convolution.
#[test]
fn wide_noise_on_integers_is_laid_one_side_after_the_other() {
    let (sigma, sensitivity, reach) = (250.0f64, 100i64, 2200i64);
    let weight = |x: i64| (-0.5 * (x * x) as f64 / (sigma * sigma)).exp();
    let total: f64 = (-reach..=reach).map(weight).sum();
    let one: Vec<f64> = (-reach..=reach).map(|x| weight(x) / total).collect();
    let mut two = vec![0.0; 2 * one.len() - 1];
    for (i, a) in one.iter().enumerate() {
        for (sum, b) in two[i..].iter_mut().zip(&one) {
            *sum += a * b;
        }
    }
    let run = repeat(
        2,
        Mechanism::DiscreteGaussian {
            sigma: noise(sigma),
            sensitivity: u32::try_from(sensitivity).unwrap(),
        },
    );
    let shift = 2 * usize::try_from(sensitivity).unwrap();
    for epsilon in [0.3, 1.0, 2.5f64] {
        let gain = |(p, q): (&f64, &f64)| (p - epsilon.exp() * q).max(0.0);
        let truth: f64 = two.iter().zip(&two[shift..]).map(gain).sum();
        let (low, high) = bounds(&run, Neighbours::AddRemove, Direction::Remove, epsilon);
        assert!(
            low <= truth * (1.0 + 1e-9) && truth * (1.0 - 1e-9) <= high,
            "{low} {truth} {high}"
        );
        assert!(high - low <= 3e-6 * high, "{low} {high}");
    }
}
