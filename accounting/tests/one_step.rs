//! One step of every mechanism against tail probabilities written down from its definition, and
//! steps whose outcomes are integers against plain convolution: thousands of configurations.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use proptest::prelude::*;
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss,
    Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
};

/// Weighted shifts of one density.
type Shifts = Vec<(f64, f64)>;

#[derive(Debug, Clone, Copy)]
enum Noise {
    Gaussian,
    Laplace,
}

impl Noise {
    /// P(X > x) at unit scale.
    fn tail(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => 0.5 * libm::erfc(x / std::f64::consts::SQRT_2),
            Self::Laplace if x > 0.0 => 0.5 * (-x).exp(),
            Self::Laplace => 1.0 - 0.5 * x.exp(),
        }
    }

    /// ln of the density, up to a constant.
    fn ln_density(self, x: f64) -> f64 {
        match self {
            Self::Gaussian => -0.5 * x * x,
            Self::Laplace => -x.abs(),
        }
    }

    fn ln_of(self, law: &Shifts, x: f64) -> f64 {
        let terms: Vec<f64> = (law.iter())
            .map(|(weight, at)| weight.ln() + self.ln_density(x - at))
            .collect();
        let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        top + terms.iter().map(|t| (t - top).exp()).sum::<f64>().ln()
    }

    /// δ(ε) where the likelihood ratio does not fall in x: P(x > t) − e^ε Q(x > t) at the best t,
    /// with the size of what was subtracted.
    fn delta(self, first: &Shifts, second: &Shifts, epsilon: f64) -> (f64, f64) {
        let (mut low, mut high) = (-60.0, 60.0);
        for _ in 0..90 {
            let middle = 0.5 * (low + high);
            if self.ln_of(first, middle) - self.ln_of(second, middle) > epsilon {
                high = middle
            } else {
                low = middle
            }
        }
        let tail = |law: &Shifts| -> f64 {
            let each = law.iter().map(|(weight, at)| weight * self.tail(high - at));
            each.sum()
        };
        let (p, q) = (tail(first), tail(second));
        ((p - epsilon.exp() * q).max(0.0), p)
    }
}

fn noise(x: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(x).unwrap()
}

fn rate(x: f64) -> SamplingRate {
    SamplingRate::new(x).unwrap()
}

fn repeat(times: u64, each: Mechanism) -> Mechanism {
    Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    }
}

fn ends(run: &Mechanism, query: Query, direction: Direction, epsilon: f64) -> (f64, f64) {
    let loss = PrivacyLoss::of(run, query, direction).unwrap();
    let tolerance = Tolerance::new(1e-6).unwrap();
    let bounds = loss
        .delta(Epsilon::new(epsilon).unwrap(), tolerance)
        .unwrap()
        .bounds;
    (
        bounds.lower.map_or(0.0, |end| end.get().get()),
        bounds.upper.unwrap().get().get(),
    )
}

/// `copies` of a record, each there with probability q, each one shift of κ.
fn binomial(copies: u32, q: f64, shift: f64) -> Shifts {
    let mut choose = 1.0;
    let mut law = Vec::new();
    for k in 0..=copies {
        let rest = copies - k;
        let weight = choose * q.powi(k as i32) * (1.0 - q).powi(rest as i32);
        if weight > 0.0 {
            law.push((weight, f64::from(k) * shift));
        }
        choose *= f64::from(rest) / f64::from(k + 1);
    }
    law
}

fn mirrored(law: &Shifts) -> Shifts {
    law.iter().rev().map(|(w, at)| (*w, -at)).collect()
}

/// The pair whose likelihood ratio rises.
fn pair(with: &Shifts, neighbours: Neighbours, direction: Direction) -> (Shifts, Shifts) {
    let without = vec![(1.0, 0.0)];
    match (neighbours, direction) {
        (Neighbours::Replace, _) => (with.clone(), mirrored(with)),
        (_, Direction::Remove) => (with.clone(), without),
        (_, Direction::Add) => (without, mirrored(with)),
    }
}

fn question() -> impl Strategy<Value = (Neighbours, Direction)> {
    prop_oneof![
        Just((Neighbours::AddRemove, Direction::Remove)),
        Just((Neighbours::AddRemove, Direction::Add)),
        Just((Neighbours::ZeroOut, Direction::Remove)),
        Just((Neighbours::ZeroOut, Direction::Add)),
        Just((Neighbours::Replace, Direction::Remove)),
    ]
}

/// δ(ε) of `times` steps of outcomes on integers: (loss in units of `gap`, P-mass, Q-mass).
fn convolved(step: &[(i64, f64)], gap: f64, times: u64, epsilon: f64) -> f64 {
    let mut whole = std::collections::BTreeMap::from([(0i64, 1.0)]);
    for _ in 0..times {
        let mut next = std::collections::BTreeMap::new();
        for (a, p) in &whole {
            for (b, q) in step {
                *next.entry(a + b).or_insert(0.0) += p * q;
            }
        }
        whole = next;
    }
    whole
        .iter()
        .map(|(index, p)| p * -(epsilon - *index as f64 * gap).exp_m1().min(0.0))
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sampled_noise_of_both_shapes(
        decades in -0.7f64..2.0, ln_rate in -9.0f64..0.0, whole in any::<bool>(), group in 1u32..6,
        laplace in any::<bool>(), (neighbours, direction) in question(), spot in 0.0f64..1.2,
    ) {
        let (scale, q) = (10f64.powf(decades), if whole { 1.0 } else { ln_rate.exp() });
        let (shape, sampling) = (if laplace { Noise::Laplace } else { Noise::Gaussian }, Sampling::Poisson);
        let run = if laplace {
            Mechanism::SubsampledLaplace { scale: noise(scale), sampling_rate: rate(q), sampling }
        } else {
            Mechanism::SubsampledGaussian { noise_multiplier: noise(scale), sampling_rate: rate(q), sampling }
        };
        let (first, second) = pair(&binomial(group, q, 1.0 / scale), neighbours, direction);
        let epsilon = spot * f64::from(group) / scale;
        let (truth, size) = shape.delta(&first, &second, epsilon);
        let query = Query { neighbours, group: GroupSize::new(group).unwrap() };
        let (low, high) = ends(&run, query, direction, epsilon);
        let slack = 1e-12 * size + 1e-300;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low:e} {truth:e} {high:e}");
        prop_assert!(high - low <= 1e-5 * high + 10.0 * slack, "{low:e} {truth:e} {high:e}");
    }

    /// ε ≥ 0: the batch with the record among the others' (Balle, Barthe and Gaboardi 2018).
    #[test]
    fn fixed_size_batches_of_both_shapes(
        decades in -0.5f64..2.0, share in 0.001f64..1.0, laplace in any::<bool>(), spot in 0.0f64..1.2,
    ) {
        let scale = 10f64.powf(decades);
        let (shape, sampling) = (if laplace { Noise::Laplace } else { Noise::Gaussian }, Sampling::WithoutReplacement);
        let run = if laplace {
            Mechanism::SubsampledLaplace { scale: noise(scale), sampling_rate: rate(share), sampling }
        } else {
            Mechanism::SubsampledGaussian { noise_multiplier: noise(scale), sampling_rate: rate(share), sampling }
        };
        let first = vec![(1.0 - share, -1.0 / scale), (share, 1.0 / scale)];
        let epsilon = spot * (share * (2.0 / scale).exp_m1()).ln_1p();
        let (truth, size) = shape.delta(&first, &vec![(1.0, -1.0 / scale)], epsilon);
        let (low, high) = ends(&run, Query::single(Neighbours::Replace), Direction::Remove, epsilon);
        let slack = 1e-12 * size + 1e-300;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low:e} {truth:e} {high:e}");
    }

    /// Batches that never fill are not cut at all; from below, cutting can only spare.
    #[test]
    fn cut_batches_cover_whole_ones(
        decades in -0.5f64..2.0, share in 0.001f64..0.9, max_batch in 1u64..60, records in 1u64..60,
        laplace in any::<bool>(), (neighbours, direction) in question(), spot in 0.0f64..1.2,
    ) {
        let scale = 10f64.powf(decades);
        let (shape, sampling) = (
            if laplace { Noise::Laplace } else { Noise::Gaussian },
            Sampling::TruncatedPoisson { max_batch, records },
        );
        let run = if laplace {
            Mechanism::SubsampledLaplace { scale: noise(scale), sampling_rate: rate(share), sampling }
        } else {
            Mechanism::SubsampledGaussian { noise_multiplier: noise(scale), sampling_rate: rate(share), sampling }
        };
        let (first, second) = pair(&binomial(1, share, 1.0 / scale), neighbours, direction);
        let epsilon = spot / scale;
        let (truth, size) = shape.delta(&first, &second, epsilon);
        let (low, high) = ends(&run, Query::single(neighbours), direction, epsilon);
        let slack = 1e-12 * size + 1e-300;
        prop_assert!(low <= high && low <= truth + slack, "{low:e} {truth:e} {high:e}");
        prop_assert!(max_batch <= records || truth <= high + slack, "{low:e} {truth:e} {high:e}");
    }

    #[test]
    fn sensitivities_at_random(
        weights in prop::collection::vec(0.01f64..1.0, 1..8), gaps in prop::collection::vec(0.1f64..2.0, 8),
        sigma in 0.3f64..10.0, (neighbours, direction) in question(), spot in 0.0f64..1.2,
    ) {
        let whole: f64 = weights.iter().sum();
        let sensitivities: Vec<f64> = gaps.iter().scan(-gaps[0], |sum, gap| { *sum += gap; Some(*sum) })
            .take(weights.len()).collect();
        let run = Mechanism::MixtureOfGaussians {
            noise_multiplier: noise(sigma),
            sensitivities: sensitivities.clone(),
            probabilities: weights.iter().map(|w| Probability::new(w / whole).unwrap()).collect(),
        };
        let with: Shifts = weights.iter().zip(&sensitivities).map(|(w, s)| (w / whole, s / sigma)).collect();
        let (first, second) = pair(&with, neighbours, direction);
        let epsilon = spot * sensitivities[weights.len() - 1] / sigma;
        let (truth, size) = Noise::Gaussian.delta(&first, &second, epsilon);
        let (low, high) = ends(&run, Query::single(neighbours), direction, epsilon);
        let slack = 1e-11 * size + 1e-300;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low:e} {truth:e} {high:e}");
    }

    #[test]
    fn records_with_rates_of_their_own(
        rates in prop::collection::vec(0.001f64..1.0, 1..6), sigma in 0.3f64..10.0,
        (neighbours, direction) in question(), spot in 0.0f64..1.2,
    ) {
        let run = Mechanism::PoissonBinomialGaussian {
            noise_multiplier: noise(sigma),
            rates: rates.iter().map(|q| rate(*q)).collect(),
        };
        // Every subset of the records in turn.
        let mut counts = vec![0.0; rates.len() + 1];
        for subset in 0u32..1 << rates.len() {
            let each = rates.iter().enumerate().map(|(i, q)| if subset >> i & 1 == 1 { *q } else { 1.0 - q });
            counts[subset.count_ones() as usize] += each.product::<f64>();
        }
        let with: Shifts = counts.iter().enumerate().map(|(k, w)| (*w, k as f64 / sigma)).collect();
        let (first, second) = pair(&with, neighbours, direction);
        let epsilon = spot * rates.len() as f64 / sigma;
        let (truth, size) = Noise::Gaussian.delta(&first, &second, epsilon);
        let (low, high) = ends(&run, Query::single(neighbours), direction, epsilon);
        let slack = 1e-11 * size + 1e-300;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low:e} {truth:e} {high:e}");
    }

    /// (1 − e^{(ε − ε₀)/2})²/(1 − e^{−ε₀}), the supremum over instances.
    #[test]
    fn the_exponential_mechanism_in_closed_form(decades in -3.0f64..1.0, spot in 0.0f64..1.1) {
        let range = 10f64.powf(decades);
        let run = Mechanism::ExponentialMechanism { epsilon: Epsilon::new(range).unwrap(), neighbours: Neighbours::AddRemove };
        let epsilon = spot * range;
        let root = (0.5 * (epsilon - range)).exp_m1().min(0.0);
        let truth = root * root / -(-range).exp_m1();
        let (low, high) = ends(&run, Query::single(Neighbours::AddRemove), Direction::Remove, epsilon);
        let slack = 1e-12 * truth + 1e-15;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low:e} {truth:e} {high:e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn integer_noise_composes_by_convolution(
        spread in 0.4f64..8.0, sensitivity in 1u32..5, times in 1u64..8, gaussian in any::<bool>(), spot in 0.0f64..1.5,
    ) {
        let s = i64::from(sensitivity);
        let run = if gaussian {
            Mechanism::DiscreteGaussian { sigma: noise(spread), sensitivity }
        } else {
            Mechanism::DiscreteLaplace { scale: noise(spread), sensitivity }
        };
        let weight = |x: i64| {
            let x = x as f64;
            if gaussian { (-0.5 * x * x / (spread * spread)).exp() } else { (-x.abs() / spread).exp() }
        };
        let total: f64 = (-400..=400).map(weight).sum();
        // Losses (2xs − s²)/2σ² and (|x| − |x − s|)/b, in whole units.
        let (gap, unit): (f64, fn(i64, i64) -> i64) = if gaussian {
            (0.5 / (spread * spread), |x, s| 2 * x * s - s * s)
        } else {
            (1.0 / spread, |x, s| x.abs() - (x - s).abs())
        };
        let mut step = std::collections::BTreeMap::new();
        for x in -300..=300 {
            *step.entry(unit(x, s)).or_insert(0.0) += weight(x - s) / total;
        }
        let step: Vec<(i64, f64)> = step.into_iter().filter(|(_, p)| *p > 1e-18).collect();
        let epsilon = spot * (times as f64).sqrt() * s as f64 / spread;
        let truth = convolved(&step, gap, times, epsilon);
        let (low, high) = ends(&repeat(times, run), Query::single(Neighbours::AddRemove), Direction::Remove, epsilon);
        let slack = 1e-11 * truth + 1e-14;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low:e} {truth:e} {high:e}");
        prop_assert!(high - low <= 1e-5 * high + slack, "{low:e} {truth:e} {high:e}");
    }

    #[test]
    fn answers_and_guarantees_compose_by_convolution(
        truth_rate in 0.05f64..0.95, categories in 2u32..9, slack in 0.0f64..0.1, each in 0.01f64..2.0,
        times in 1u64..20, stated in any::<bool>(), spot in 0.0f64..1.1,
    ) {
        let other = (1.0 - truth_rate) / f64::from(categories - 1);
        let (run, gap, step, finite) = if stated {
            let run = Mechanism::ApproxDp {
                epsilon: Epsilon::new(each).unwrap(), delta: Delta::new(slack).unwrap(), neighbours: Neighbours::Replace,
            };
            let likely = (1.0 - slack) / (1.0 + (-each).exp());
            (run, each, vec![(1, likely), (-1, 1.0 - slack - likely)], 1.0 - slack)
        } else {
            let run = Mechanism::RandomisedResponse { truth: Probability::new(truth_rate).unwrap(), categories };
            let rest = 1.0 - truth_rate - other;
            (run, (truth_rate / other).ln(), vec![(1, truth_rate), (-1, other), (0, rest.max(0.0))], 1.0)
        };
        let epsilon = spot * gap.abs() * times as f64;
        let infinite = 1.0 - f64::powi(finite, times as i32);
        let expected = convolved(&step, gap, times, epsilon) + infinite;
        let (low, high) = ends(&repeat(times, run), Query::single(Neighbours::Replace), Direction::Remove, epsilon);
        let room = 1e-11 * expected + 1e-14;
        prop_assert!(low <= expected + room && expected <= high + room, "{low:e} {expected:e} {high:e}");
        prop_assert!(high - low <= 1e-5 * high + room, "{low:e} {expected:e} {high:e}");
    }
}

/// 1e-10 that was cut off in writing may have been the larger sensitivity's: whoever has it
/// tells all with that chance, so no δ below it is ever promised.
#[test]
fn chances_that_were_cut_off_are_not_forgotten() {
    let run = |probabilities: [f64; 2]| Mechanism::MixtureOfGaussians {
        noise_multiplier: NoiseMultiplier::new(0.01).unwrap(),
        sensitivities: vec![0.0, 1.0],
        probabilities: probabilities.map(|p| Probability::new(p).unwrap()).to_vec(),
    };
    let ends = |run: &Mechanism| {
        let query = Query::single(Neighbours::AddRemove);
        let loss = PrivacyLoss::of(run, query, Direction::Remove).unwrap();
        let at = Epsilon::new(1.0).unwrap();
        loss.delta(at, Tolerance::DEFAULT).unwrap().bounds
    };
    let upper = |run: &Mechanism| ends(run).upper.unwrap().get().get();
    // One over, one under; what they may have stood for is below both.
    for (given, truth) in [
        ([1.0 - 1e-10, 0.0], [1.0 - 1e-10, 1e-10]),
        ([0.9, 0.1 + 1e-10], [0.9 - 1e-10, 0.1 + 1e-10]),
        ([0.9, 0.1 - 1e-10], [0.9, 0.1]),
    ] {
        let (found, least) = (upper(&run(given)), upper(&run(truth)));
        assert!(found >= least * (1.0 - 1e-6), "{given:?}: {found} {least}");
        assert!(
            ends(&run(given))
                .lower
                .is_none_or(|end| end.get().get() <= 0.0)
        );
    }
}
