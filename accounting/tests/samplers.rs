//! Samplers whose law is known between two others only: random allocation, shuffled and truncated
//! batches, against enumeration.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use proptest::prelude::*;
use reticent_accounting::calibrate::{Target, calibrate_noise, calibrate_steps};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{
    Base, Delta, Direction, Epsilon, Error, GroupSize, Guarantee, Mechanism, Method, MissRate,
    Neighbours, NoiseMultiplier, Notion, Plan, PrivacyLoss, Probability, Query, Sampling,
    SamplingRate, Steps, Tolerance, UnitName,
};

fn steps(count: u64, noise: f64, rate: f64, sampling: Sampling, laplace: bool) -> Mechanism {
    let sampling_rate = SamplingRate::new(rate).unwrap();
    let noise = NoiseMultiplier::new(noise).unwrap();
    let each = if laplace {
        Mechanism::SubsampledLaplace {
            scale: noise,
            sampling_rate,
            sampling,
        }
    } else {
        Mechanism::SubsampledGaussian {
            noise_multiplier: noise,
            sampling_rate,
            sampling,
        }
    };
    Mechanism::Repeat {
        times: Steps::new(count),
        each: Box::new(each),
    }
}

fn loss(run: &Mechanism, neighbours: Neighbours, direction: Direction) -> PrivacyLoss {
    PrivacyLoss::of(run, Query::single(neighbours), direction).unwrap()
}

fn delta(loss: &PrivacyLoss, epsilon: f64) -> (f64, f64) {
    let tolerance = Tolerance::new(1e-7).unwrap();
    let ends = loss
        .delta(Epsilon::new(epsilon).unwrap(), tolerance)
        .unwrap()
        .bounds;
    (
        ends.lower.unwrap().get().get(),
        ends.upper.unwrap().get().get(),
    )
}

fn epsilon(loss: &PrivacyLoss, delta: f64) -> (f64, f64) {
    let tolerance = Tolerance::new(1e-7).unwrap();
    let ends = loss
        .epsilon(Delta::new(delta).unwrap(), tolerance)
        .unwrap()
        .bounds;
    (
        ends.lower.map_or(0.0, |end| end.get().get()),
        ends.upper.unwrap().get().get(),
    )
}

fn side() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Remove), Just(Direction::Add)]
}

/// The likelihood ratio of one step as (value, Q-mass), on a mesh.
fn ratios(noise: f64, points: u32, laplace: bool) -> Vec<(f64, f64)> {
    let width = 17.0 / f64::from(points);
    let at = |i: u32| -8.0 + width * (f64::from(i) + 0.5);
    let shift = 1.0 / noise;
    let mut all: Vec<(f64, f64)> = (0..points)
        .map(at)
        .map(|x| {
            if laplace {
                ((x.abs() - (x - shift).abs()).exp(), 0.5 * (-x.abs()).exp())
            } else {
                ((shift * (x - 0.5 * shift)).exp(), (-0.5 * x * x).exp())
            }
        })
        .collect();
    let total: f64 = all.iter().map(|(_, mass)| mass).sum();
    all.iter_mut().for_each(|(_, mass)| *mass /= total);
    all
}

/// H_α of a random allocation to `selected` of `bins` steps, in both directions, by enumeration:
/// the mean over all subsets of the products of their ratios.
fn allocated(ratios: &[(f64, f64)], bins: usize, selected: usize, alpha: f64) -> [f64; 2] {
    fn all(
        ratios: &[(f64, f64)],
        left: usize,
        sums: &[f64],
        mass: f64,
        end: &mut dyn FnMut(f64, f64),
    ) {
        if left == 0 {
            return end(sums[sums.len() - 1], mass);
        }
        for (value, weight) in ratios {
            let mut next = sums.to_vec();
            for k in (1..next.len()).rev() {
                next[k] += next[k - 1] * value;
            }
            all(ratios, left - 1, &next, mass * weight, end);
        }
    }
    let mut subsets = 1.0;
    for k in 0..selected {
        subsets *= (bins - k) as f64 / (k + 1) as f64;
    }
    let mut start = vec![0.0; selected + 1];
    start[0] = 1.0;
    let mut sums = [0.0; 2];
    all(ratios, bins, &start, 1.0, &mut |sum, mass| {
        let ratio = sum / subsets;
        sums[0] += mass * (ratio - alpha).max(0.0);
        sums[1] += mass * (1.0 - alpha * ratio).max(0.0);
    });
    sums
}

const fn in_bins(selected: u64, steps: u64) -> Sampling {
    Sampling::RandomAllocation { selected, steps }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two and three steps an epoch, Gaussian and Laplace noise. The mesh of 500 (of 90) points errs
    /// by less than 1e-3 of δ.
    #[test]
    fn few_steps_an_epoch_match_enumeration(
        noise in 0.5f64..3.0, three in any::<bool>(), laplace in any::<bool>(), spot in 0.0f64..1.2,
        direction in side(),
    ) {
        // Kinks and heavy tails need the finer mesh.
        let three = three && !laplace;
        let bins = if three { 3u32 } else { 2 };
        let rate = 1.0 / f64::from(bins);
        let run = steps(bins.into(), noise, rate, Sampling::BallsInBins, laplace);
        let epsilon = spot * rate / noise;
        let ratios = ratios(noise, if three { 90 } else { 500 }, laplace);
        let both = allocated(&ratios, bins as usize, 1, epsilon.exp());
        let truth = if direction == Direction::Remove { both[0] } else { both[1] };
        let (low, high) = delta(&loss(&run, Neighbours::AddRemove, direction), epsilon);
        let slack = 2e-3 * truth + 1e-4 * rate / noise;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low} {truth} {high}");
        prop_assert!(high - low <= 2e-3 * high + 1e-12, "{low} {high}");
    }

    /// Runs that end within an epoch tell more than one epoch of all their steps: two runs of one step, and one run of
    /// two, by enumeration. 2e-3 relative and 1e-4: the mesh of 500 points.
    #[test]
    fn runs_that_end_within_an_epoch_match_enumeration(
        noise in 0.5f64..3.0, bins in 2u32..6, one in any::<bool>(), laplace in any::<bool>(), spot in 0.0f64..1.5,
        direction in side(),
    ) {
        let rate = 1.0 / f64::from(bins);
        let run = |length: u64| steps(length, noise, rate, Sampling::BallsInBins, laplace);
        let run = if one { run(2) } else { run(1).repeated(Steps::new(2)) };
        let alpha = (spot * rate / noise).exp();
        let ratios = ratios(noise, 500, laplace);
        let mut truth = 0.0;
        for (x, weight) in &ratios {
            for (y, other) in &ratios {
                // The record is in one of these steps, or in one of the others.
                let seen = |x: f64| 1.0 - rate + rate * x;
                let ratio = if one { 1.0 - 2.0 * rate + rate * (x + y) } else { seen(*x) * seen(*y) };
                truth += weight * other * match direction {
                    Direction::Remove => (ratio - alpha).max(0.0),
                    Direction::Add => (1.0 - alpha * ratio).max(0.0),
                };
            }
        }
        let (low, high) = delta(&loss(&run, Neighbours::AddRemove, direction), alpha.ln());
        let slack = 2e-3 * truth + 1e-4;
        prop_assert!(low <= truth + slack && truth <= high + slack, "{low} {truth} {high}");
    }

    /// A run repeated is its copies one after another; of single steps of places drawn for each record alone, it is
    /// Poisson sampling, whoever asks, and of shuffled batches no less.
    #[test]
    fn repeated_runs_are_their_copies(
        noise in 0.6f64..4.0, bins in 2u64..20, length in 1u64..50, runs in 1u64..6, selected in 1u64..4,
        group in 1u32..3, relation in 0u32..3, laplace in any::<bool>(), direction in side(),
    ) {
        let neighbours = [Neighbours::AddRemove, Neighbours::ZeroOut, Neighbours::Replace][relation as usize];
        let query = Query { neighbours, group: GroupSize::new(group).unwrap() };
        let ends = |run: &Mechanism| epsilon(&PrivacyLoss::of(run, query, direction).unwrap(), 1e-6);
        let close = |(low, high): (f64, f64), (other_low, other_high): (f64, f64)| {
            low <= other_high * (1.0 + 1e-9) && other_low <= high * (1.0 + 1e-9)
                && (high - other_high).abs() <= 1e-6 * high && (low - other_low).abs() <= 1e-6 * low.max(1e-9)
        };
        let selected = selected.min(bins);
        let rate = selected as f64 / bins as f64;
        let bins_or_more = if selected == 1 { Sampling::BallsInBins } else { in_bins(selected, bins) };
        let copies = |run: &Mechanism| Mechanism::Sequence { parts: vec![run.clone(); runs as usize] };
        let run = steps(length, noise, rate, bins_or_more, laplace);
        let (nested, copied) = (ends(&run.clone().repeated(Steps::new(runs))), ends(&copies(&run)));
        prop_assert!(close(nested, copied), "{nested:?} {copied:?}");
        let poisson = ends(&steps(runs, noise, rate, Sampling::Poisson, laplace));
        let step = steps(1, noise, rate, bins_or_more, laplace);
        let drawn = ends(&step.repeated(Steps::new(runs)));
        prop_assert!(close(drawn, poisson), "{drawn:?} {poisson:?}");
        if neighbours != Neighbours::AddRemove {
            let shuffled = steps(1, noise, 1.0 / bins as f64, Sampling::Shuffled, laplace);
            let poisson = ends(&steps(runs, noise, 1.0 / bins as f64, Sampling::Poisson, laplace));
            prop_assert!(ends(&shuffled.repeated(Steps::new(runs))).1 >= poisson.0);
        }
    }

    /// Several steps an epoch of the record's own: between the sum's Gaussian and blocks of one.
    #[test]
    fn several_places_an_epoch_match_enumeration(
        noise in 0.7f64..3.0, spot in 0.0f64..1.0, direction in side(),
    ) {
        let run = steps(4, noise, 0.5, in_bins(2, 4), false);
        let epsilon = spot / noise;
        let both = allocated(&ratios(noise, 44, false), 4, 2, epsilon.exp());
        let truth = if direction == Direction::Remove { both[0] } else { both[1] };
        let (low, high) = delta(&loss(&run, Neighbours::ZeroOut, direction), epsilon);
        prop_assert!(low <= truth * 1.02 + 1e-3 && truth <= high * 1.02 + 1e-3, "{low} {truth} {high}");
        prop_assert!(high <= 2.0 * truth + 0.1, "{truth} {high}");
    }

    /// More steps an epoch, more epochs, more told to the adversary.
    #[test]
    fn allocations_are_ordered(
        noise in 0.6f64..4.0, bins in 2u64..200, more in 1u64..100, epochs in 1u64..4, direction in side(),
    ) {
        let run = |bins: u64, epochs: u64| {
            let run = steps(bins * epochs, noise, 1.0 / bins as f64, Sampling::BallsInBins, false);
            epsilon(&loss(&run, Neighbours::AddRemove, direction), 1e-6)
        };
        let (low, high) = run(bins, epochs);
        prop_assert!(low <= high && high - low <= 4e-3 * high + 1e-9, "{low} {high}");
        prop_assert!(run(bins + more, epochs).0 <= high);
        prop_assert!(run(bins, epochs + 1).1 >= low);
        let plain = steps(epochs, noise, 1.0, Sampling::Poisson, false);
        let informed = epsilon(&loss(&plain, Neighbours::AddRemove, direction), 1e-6);
        prop_assert!(high <= informed.1 * (1.0 + 1e-9), "{high} {informed:?}");
        // A shuffled epoch tells no less than one of places drawn for each record alone.
        let shuffled = steps(bins * epochs, noise, 1.0 / bins as f64, Sampling::Shuffled, false);
        let shuffled = epsilon(&loss(&shuffled, Neighbours::ZeroOut, direction), 1e-6);
        prop_assert!((shuffled.0 - low).abs() <= 1e-6 * low && (shuffled.1 / informed.1 - 1.0).abs() < 1e-6);
    }
}

/// Golden at δ = 1e-5: the losses of four Poisson batches on a mesh of 1e-3, convolved in Python; 1e-3 is the mesh. One
/// epoch of all steps would promise 3.03 and 5.31.
#[test]
fn runs_within_an_epoch_are_no_epoch() {
    for (sampling, rate, truth) in [
        (Sampling::BallsInBins, 0.25, 4.2058),
        (in_bins(2, 4), 0.5, 6.677),
    ] {
        let step = steps(1, 1.0, rate, sampling, false);
        let query = Query::single(Neighbours::AddRemove);
        let sequence = Mechanism::Sequence {
            parts: vec![step.clone()],
        };
        let four = Steps::new(4);
        for run in [
            step.clone().repeated(four),
            sequence.repeated(four),
            step.clone().repeated(Steps::new(2)).repeated(Steps::new(2)),
        ] {
            let ends = epsilon(
                &PrivacyLoss::of(&run, query, Direction::Remove).unwrap(),
                1e-5,
            );
            assert!(
                (ends.0 - truth).abs() < 1e-3 && (ends.1 - truth).abs() < 1e-3,
                "{ends:?} {truth}"
            );
        }
    }
}

#[test]
fn every_step_of_an_epoch_is_no_sampling() {
    let plain = steps(6, 2.0, 1.0, Sampling::Poisson, false);
    let plain = epsilon(
        &loss(&plain, Neighbours::AddRemove, Direction::Remove),
        1e-5,
    );
    for sampling in [in_bins(3, 3), in_bins(1, 1)] {
        let run = steps(6, 2.0, 1.0, sampling, false);
        let found = epsilon(&loss(&run, Neighbours::AddRemove, Direction::Remove), 1e-5);
        assert!(
            (found.1 / plain.1 - 1.0).abs() < 1e-6,
            "{found:?} {plain:?}"
        );
    }
}

#[test]
fn what_an_allocation_does_not_cover_falls_back_to_informed_adversaries() {
    let run = steps(100, 2.0, 0.01, Sampling::BallsInBins, false);
    // Replaced records and groups: told the steps, one of them without sampling.
    let once = steps(1, 2.0, 1.0, Sampling::Poisson, false);
    for (neighbours, group) in [(Neighbours::Replace, 1), (Neighbours::AddRemove, 3)] {
        let query = Query {
            neighbours,
            group: GroupSize::new(group).unwrap(),
        };
        let of = |run| {
            epsilon(
                &PrivacyLoss::of(run, query, Direction::Remove).unwrap(),
                1e-5,
            )
        };
        let (found, plain) = (of(&run), of(&once));
        assert!(
            (found.1 / plain.1 - 1.0).abs() < 1e-6,
            "{found:?} {plain:?}"
        );
    }
    // So small a δ that what the sums leave out decides: finite all the same.
    let far = epsilon(&loss(&run, Neighbours::AddRemove, Direction::Remove), 1e-60);
    let plain = epsilon(
        &loss(&once, Neighbours::AddRemove, Direction::Remove),
        1e-60,
    );
    assert!(
        far.1.is_finite() && far.1 <= plain.1 * (1.0 + 1e-6),
        "{far:?}"
    );
    // Too little noise for ratios that are numbers.
    let loud = steps(100, 0.01, 0.01, Sampling::BallsInBins, false);
    let found = epsilon(&loss(&loud, Neighbours::AddRemove, Direction::Remove), 1e-5);
    assert!(found.1.is_finite() && found.1 > 4000.0, "{found:?}");
    // The blow-up has both ends as well.
    let posterior = loss(&run, Neighbours::ZeroOut, Direction::Remove)
        .blow_up(
            Probability::new(1e-6).unwrap(),
            Tolerance::new(1e-4).unwrap(),
        )
        .unwrap()
        .bounds;
    let (low, high) = (
        posterior.lower.unwrap().get().get(),
        posterior.upper.unwrap().get().get(),
    );
    assert!(
        1e-6 < low && low <= high && high < 1.01 * low,
        "{low} {high}"
    );
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    for (rate, sampling) in [
        (0.5, in_bins(0, 4)),
        (1.0, in_bins(5, 4)),
        (0.3, in_bins(1, 4)),
    ] {
        let run = steps(4, 1.0, rate, sampling, false);
        let query = Query::single(Neighbours::AddRemove);
        assert!(PrivacyLoss::of(&run, query, Direction::Remove).is_err());
    }
}

/// A truncated batch of at most four records with gradients on the line: the law of its sum, as
/// (position, probability).
fn truncated_sums(gradients: &[f64], rate: f64, max_batch: usize) -> Vec<(f64, f64)> {
    let n = gradients.len();
    let members = |set: u32| (0..n).filter(move |i| set >> i & 1 == 1);
    let mut sums = Vec::new();
    for drawn in 0u32..1 << n {
        let size = drawn.count_ones() as usize;
        let mass = rate.powi(size as i32) * (1.0 - rate).powi((n - size) as i32);
        let kept: Vec<u32> = (0u32..1 << n)
            .filter(|kept| kept & !drawn == 0)
            .filter(|kept| kept.count_ones() as usize == size.min(max_batch))
            .collect();
        for set in &kept {
            let sum: f64 = members(*set).map(|i| gradients[i]).sum();
            sums.push((sum, mass / kept.len() as f64));
        }
    }
    sums
}

/// Masses of both laws in cells of 0.05 on the line: cells only hide.
fn cells(with: &[(f64, f64)], without: &[(f64, f64)], noise: f64, width: f64) -> Vec<(f64, f64)> {
    let below = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    let mass = |law: &[(f64, f64)], x: f64| -> f64 {
        let one =
            |(at, p): &(f64, f64)| p * (below((x + width - at) / noise) - below((x - at) / noise));
        law.iter().map(one).sum()
    };
    let reach = 4.0 + 7.0 * noise;
    let count = (2.0 * reach / width) as u32;
    (0..count)
        .map(|i| -reach + width * f64::from(i))
        .map(|x| (mass(with, x), mass(without, x)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Four records with any gradients, another choice at each of two steps: never beyond the upper
    /// end, and where all others are zero at the lower one.
    #[test]
    fn truncated_batches_are_dominated(
        noise in 0.6f64..2.0, rate in 0.2f64..0.9, max_batch in 1u64..4, spot in 0.0f64..2.0,
        gradients in proptest::collection::vec(proptest::collection::vec(-1.0f64..=1.0, 5), 2),
        extreme in any::<bool>(), relation in 0u32..3, direction in side(), twice in any::<bool>(),
    ) {
        let neighbours = [Neighbours::AddRemove, Neighbours::ZeroOut, Neighbours::Replace][relation as usize];
        let sampling = Sampling::TruncatedPoisson { max_batch, records: 4 };
        let step = |choice: &[f64]| {
            let choice: Vec<f64> = choice.iter().map(|g| if extreme { g.signum() } else { *g }).collect();
            let with = truncated_sums(&choice[..4], rate, max_batch as usize);
            let mut other = choice[..4].to_vec();
            match neighbours {
                Neighbours::AddRemove => { other.remove(0); }
                Neighbours::ZeroOut => other[0] = 0.0,
                Neighbours::Replace => other[0] = choice[4],
            }
            let without = truncated_sums(&other, rate, max_batch as usize);
            let cells = cells(&with, &without, noise, if twice { 0.1 } else { 0.02 });
            match direction {
                Direction::Remove => cells,
                Direction::Add => cells.into_iter().map(|(p, q)| (q, p)).collect(),
            }
        };
        let epsilon = spot * rate / noise;
        let first = step(&gradients[0]);
        let truth: f64 = if twice {
            let second = step(&gradients[1]);
            first.iter().flat_map(|(p, q)| second.iter().map(move |(r, s)| (p * r, q * s)))
                .map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum()
        } else {
            first.iter().map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum()
        };
        let run = steps(if twice { 2 } else { 1 }, noise, rate, sampling, false);
        let (low, high) = delta(&loss(&run, neighbours, direction), epsilon);
        prop_assert!(low <= high && truth <= high + 1e-9, "{low} {truth} {high} {neighbours} {direction:?}");
        if !twice && neighbours != Neighbours::Replace {
            let alone = cells(
                &truncated_sums(&[1.0, 0.0, 0.0, 0.0], rate, max_batch as usize), &[(0.0, 1.0)], noise, 0.01,
            );
            let attained: f64 = alone.iter().map(|(p, q)| match direction {
                Direction::Remove => (p - epsilon.exp() * q).max(0.0),
                Direction::Add => (q - epsilon.exp() * p).max(0.0),
            }).sum();
            prop_assert!((attained - low).abs() <= 1e-3 * low + 1e-4, "{attained} {low}");
        }
    }
}

/// The tight case of a full batch: one place, drawn nearly always, and four equal gradients. A
/// record that is zeroed still takes the place of another, so the batch without it can look like
/// none of those with it (the add direction), far beyond what its own chance to be used allows.
#[test]
fn a_zeroed_record_still_takes_a_place() {
    let (noise, rate, epsilon) = (0.6, 0.9, 0.5f64);
    let with = truncated_sums(&[1.0; 4], rate, 1);
    let without = truncated_sums(&[0.0, 1.0, 1.0, 1.0], rate, 1);
    let truth: f64 = cells(&with, &without, noise, 0.01)
        .iter()
        .map(|(p, q)| (q - epsilon.exp() * p).max(0.0))
        .sum();
    let sampling = Sampling::TruncatedPoisson {
        max_batch: 1,
        records: 4,
    };
    let run = steps(1, noise, rate, sampling, false);
    let (_, high) = delta(&loss(&run, Neighbours::ZeroOut, Direction::Add), epsilon);
    assert!(
        truth > 0.05 && truth <= high && high < 4.0 * truth,
        "{truth} {high}"
    );
}

/// Golden: dp_accounting 0.6.0, PLD connect-the-dots, h = 1e-4, of
/// TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 1.1) at δ = 1e-5. It takes the record and the
/// one it displaces to be opposite in both laws, which only a replacement needs.
#[test]
fn a_truncated_batch_costs_no_more_than_the_reference_library_says() {
    let sampling = Sampling::TruncatedPoisson {
        max_batch: 20,
        records: 1000,
    };
    let run = steps(1, 1.1, 0.01, sampling, false);
    let (low, high) = epsilon(&loss(&run, Neighbours::AddRemove, Direction::Remove), 1e-5);
    assert!(high <= 0.1629807079355387 && high > 0.1617, "{high}");
    // The plain Poisson batch: 0.142290688.
    assert!(low < 0.142290688 && low > 0.1422, "{low}");
}

/// Σ over fixed-size batches of 5 of 10, two records whose contents are `sign`: P(0), P(1), P(2) of them drawn.
fn two_of_ten(x: f64, noise: f64, sign: f64) -> f64 {
    let chances = [56.0 / 252.0, 140.0 / 252.0, 56.0 / 252.0];
    let each = chances.iter().zip(0..).map(|(chance, drawn)| {
        let z = (x - sign * f64::from(drawn)) / noise;
        chance * (-0.5 * z * z).exp() / (noise * (2.0 * std::f64::consts::PI).sqrt())
    });
    each.sum()
}

/// What is certified of a group whose law is not known is no less than an instance of it: the tighter of the lemma and of
/// steps that all of its records are in. 1e-6 absolute: the oracle's trapezoidal rule.
#[test]
fn groups_of_fixed_size_batches_follow_from_single_records() {
    let mut methods = Vec::new();
    for noise in [0.7, 1.5, 4.0] {
        let run = steps(1, noise, 0.5, Sampling::WithoutReplacement, false);
        let plan = Plan {
            neighbours: Neighbours::Replace,
            group: GroupSize::new(2).unwrap(),
            ..Plan::new(
                run,
                UnitName::new("record").unwrap(),
                Delta::new(1e-5).unwrap(),
            )
        };
        for epsilon in [0.0, 0.1, 0.5, 1.0, 3.0] {
            let rows = plan.guarantees_at(Epsilon::new(epsilon).unwrap()).unwrap();
            let row = rows.iter().find(|row| row.group.is_some()).unwrap();
            methods.push(row.method);
            let upper = row.delta_bounds.unwrap().upper.unwrap().get().get();
            let (at, tolerance) = (
                Epsilon::new(epsilon).unwrap(),
                Tolerance::new(1e-6).unwrap(),
            );
            let single = loss(&plan.mechanism, Neighbours::Replace, Direction::Remove);
            let lemma = single
                .delta_by_group_lemma(plan.group, at, tolerance)
                .unwrap();
            let query = Query {
                neighbours: Neighbours::Replace,
                group: plan.group,
            };
            let full = steps(1, noise, 1.0, Sampling::Poisson, false);
            let full = PrivacyLoss::of(&full, query, Direction::Remove).unwrap();
            let tighter = delta(&full, epsilon).1.min(lemma.get().get());
            assert!(
                (upper / tighter - 1.0).abs() < 1e-5,
                "{noise} {epsilon}: {upper} {tighter}"
            );
            // The trapezoidal rule; the integrand vanishes with all its derivatives at the ends.
            let (ends, mesh) = (12.0 * noise + 4.0, 1e-3);
            let count = (2.0 * ends / mesh) as u32;
            let truth: f64 = (0..=count)
                .map(|i| {
                    let x = f64::from(i) * mesh - ends;
                    let lost =
                        two_of_ten(x, noise, 1.0) - epsilon.exp() * two_of_ten(x, noise, -1.0);
                    lost.max(0.0) * mesh
                })
                .sum();
            assert!(
                truth <= upper + 1e-6,
                "{noise} {epsilon}: {truth} above {upper}"
            );
        }
        let row = plan.exactly().unwrap();
        assert_eq!(row.group, Some(plan.group));
        assert!(row.epsilon.unwrap().upper.unwrap().get().get().is_finite());
        // Sizes of the input matter to such batches: nothing is said of records that come and go.
        let other = Plan {
            neighbours: Neighbours::AddRemove,
            ..plan.clone()
        };
        assert!(matches!(other.exactly(), Err(Error::Unsupported { .. })));
        // Of batches cut at some size a single record that comes or goes is covered, and still no group.
        let cut = Sampling::TruncatedPoisson {
            max_batch: 5,
            records: 10,
        };
        let single = Plan {
            mechanism: steps(1, noise, 0.5, cut, false),
            group: GroupSize::ONE,
            neighbours: Neighbours::AddRemove,
            ..plan
        };
        assert!(single.exactly().is_ok());
        let group = GroupSize::new(2).unwrap();
        let both = Plan { group, ..single };
        let refused = both.exactly();
        assert!(
            matches!(refused, Err(Error::Unsupported { .. })),
            "{refused:?}"
        );
    }
    assert!(methods.contains(&Method::GroupLemma) && methods.contains(&Method::Pld));
}

/// Every batch of `size` of the records, as often as any other: the sum and its chance.
fn fixed_sums(gradients: &[f64], size: u32) -> Vec<(f64, f64)> {
    let batches = (0u32..1 << gradients.len()).filter(|batch| batch.count_ones() == size);
    let sums: Vec<f64> = batches
        .map(|batch| {
            let members = (0..gradients.len()).filter(|i| batch >> i & 1 == 1);
            members.map(|i| gradients[i]).sum()
        })
        .collect();
    sums.iter()
        .map(|sum| (*sum, 1.0 / sums.len() as f64))
        .collect()
}

/// Against enumeration of all batches, in both directions: 1e-9, cells only hide. Tight where batches of one record
/// hide nothing: a step shows one of the k records with chance kq, more than the 1 − (1 − q)^k of independent draws.
#[test]
fn groups_of_fixed_size_batches_are_dominated() {
    let law = |count: u64, noise: f64, rate: f64, group: usize| {
        let run = steps(count, noise, rate, Sampling::WithoutReplacement, false);
        let query = Query::replace(GroupSize::new(group as u32).unwrap());
        PrivacyLoss::of(&run, query, Direction::Remove).unwrap()
    };
    for (records, size, group) in [(8, 1, 2), (6, 2, 2), (7, 1, 3), (7, 2, 3)] {
        let rate = f64::from(size) / records as f64;
        for noise in [0.3, 1.0] {
            let loss = law(1, noise, rate, group);
            for (others, other) in [(-1.0, -1.0), (0.0, -1.0), (1.0, -1.0), (-1.0, 0.3)] {
                let content = |of_group: f64| {
                    let mut gradients = vec![others; records];
                    gradients[..group].fill(of_group);
                    fixed_sums(&gradients, size)
                };
                let cells = cells(&content(1.0), &content(other), noise, 0.01);
                for epsilon in [0.0f64, 0.5, 2.0, 5.0] {
                    let beyond = |p: f64, q: f64| (p - epsilon.exp() * q).max(0.0);
                    let ways = [
                        cells.iter().map(|(p, q)| beyond(*p, *q)).sum::<f64>(),
                        cells.iter().map(|(p, q)| beyond(*q, *p)).sum(),
                    ];
                    let (low, high) = delta(&loss, epsilon);
                    let truth = ways[0].max(ways[1]);
                    assert!(truth <= high + 1e-9, "{noise} {epsilon}: {truth} {high}");
                    assert!(low <= 0.0, "a bound is attained by nothing known: {low}");
                }
            }
        }
    }
    for count in [1, 3] {
        let shown = 1.0 - 0.75f64.powi(count as i32);
        let (_, high) = delta(&law(count, 0.05, 0.125, 2), 0.5);
        assert!((high / shown - 1.0).abs() < 1e-6, "{count}: {high} {shown}");
    }
}

/// Two of three records in batches cut at two, zeroed or replaced: never beyond steps that both are in. 1e-9: roundings.
#[test]
fn groups_of_truncated_batches_are_dominated() {
    let sampling = Sampling::TruncatedPoisson {
        max_batch: 2,
        records: 3,
    };
    for (neighbours, other) in [(Neighbours::ZeroOut, 0.0), (Neighbours::Replace, -1.0)] {
        for (noise, rate) in [(0.7, 0.9), (1.5, 0.5)] {
            let query = Query {
                neighbours,
                group: GroupSize::new(2).unwrap(),
            };
            let run = steps(1, noise, rate, sampling, false);
            let law = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
            let full = steps(1, noise, 1.0, Sampling::Poisson, false);
            let full = PrivacyLoss::of(&full, query, Direction::Remove).unwrap();
            for third in [-1.0, 0.0, 1.0] {
                let with = truncated_sums(&[1.0, 1.0, third], rate, 2);
                let without = truncated_sums(&[other, other, third], rate, 2);
                let cells = cells(&with, &without, noise, 0.01);
                for epsilon in [0.0f64, 0.5, 2.0] {
                    let truth: f64 = cells
                        .iter()
                        .map(|(p, q)| (p - epsilon.exp() * q).max(0.0))
                        .sum();
                    let at = Epsilon::new(epsilon).unwrap();
                    let bounds = law.delta(at, Tolerance::new(1e-7).unwrap()).unwrap().bounds;
                    let upper = bounds.upper.unwrap().get().get();
                    assert!(truth <= upper + 1e-9, "{noise} {epsilon}: {truth} {upper}");
                    assert!(upper <= delta(&full, epsilon).1 * (1.0 + 1e-6));
                }
            }
        }
    }
}

/// Proposition 6 on the lemma is no less than what an instance of the group attains, and every question about the redacted
/// group has the same answer. 1e-6 absolute: the oracle's trapezoidal rule; 1e-5 relative: the search for ε.
#[test]
fn a_redacted_group_follows_from_single_records() {
    let gamma = 0.1;
    let redaction = Redaction::single_policy(MissRate::new(gamma).unwrap());
    let group = GroupSize::new(2).unwrap();
    let run =
        |sigma: NoiseMultiplier| steps(1, sigma.get(), 0.5, Sampling::WithoutReplacement, false);
    let plan = |mechanism: Mechanism| Plan {
        neighbours: Neighbours::Replace,
        group,
        redaction: Some(redaction),
        ..Plan::new(
            mechanism,
            UnitName::new("record").unwrap(),
            Delta::new(1e-5).unwrap(),
        )
    };
    let upper = |row: &Guarantee| row.epsilon.unwrap().upper.unwrap().get().get();
    // The first row is for an adversary who ignores the secret, the last for one who may know it.
    let redacted = |rows: Vec<Guarantee>| -> [Guarantee; 2] {
        let rows: Vec<_> = rows.into_iter().filter(|row| row.gamma.is_some()).collect();
        [rows[0].clone(), rows[rows.len() - 1].clone()]
    };
    let mut methods = Vec::new();
    for noise in [1.0, 1.5, 4.0] {
        let planned = plan(run(NoiseMultiplier::new(noise).unwrap()));
        let [unknown, known] = redacted(planned.guarantees().unwrap());
        assert_eq!(unknown.notion, Notion::BayesianConfidentiality);
        assert_eq!(known.notion, Notion::GroupConfidentiality);
        match known.method {
            Method::GroupLemma => assert_eq!(
                (unknown.method, unknown.base),
                (Method::Proposition6, Some(Base::GroupLemma))
            ),
            method => assert_eq!((method, unknown.method), (Method::Pld, Method::Pld)),
        }
        methods.push(known.method);
        assert!(unknown.group == Some(group) && known.group == Some(group));
        // The group's own row at δ/γ.
        let bare = Plan {
            redaction: None,
            delta: redaction.base_delta(planned.delta).unwrap(),
            ..planned.clone()
        };
        let base = bare.epsilon().unwrap().upper.unwrap();
        assert_eq!(known.epsilon.unwrap().upper, Some(base));
        let amplified = redaction.amplified(*base.get()).get();
        assert!((upper(&unknown) / amplified - 1.0).abs() < 1e-12);
        let again = planned.bayesian_epsilon().unwrap().unwrap().upper;
        assert_eq!(again, unknown.epsilon.unwrap().upper);
        for row in [&unknown, &known] {
            let there = Epsilon::new(upper(row)).unwrap();
            let back = redacted(planned.guarantees_at(there).unwrap());
            let same = back.iter().find(|other| other.notion == row.notion);
            let delta = same.unwrap().delta.unwrap().get();
            assert!(
                (0.99e-5..=1e-5 * (1.0 + 1e-5)).contains(&delta),
                "{delta:e}"
            );
        }
        for epsilon in [0.0, 0.1, 0.5, 1.0] {
            let at = planned
                .guarantees_at(Epsilon::new(epsilon).unwrap())
                .unwrap();
            let [unknown, known] = redacted(at).map(|row| row.delta.unwrap().get());
            let (ends, mesh, e) = (12.0 * noise + 4.0, 1e-3, epsilon.exp());
            let count = (2.0 * ends / mesh) as u32;
            let mut attained = [0.0; 3];
            for x in (0..=count).map(|i| f64::from(i) * mesh - ends) {
                let (p, q) = (two_of_ten(x, noise, 1.0), two_of_ten(x, noise, -1.0));
                let mixed = gamma * p + (1.0 - gamma) * q;
                let lost = [mixed - e * q, q - e * mixed, gamma * (p - e * q)];
                for (sum, lost) in attained.iter_mut().zip(lost) {
                    *sum += lost.max(0.0) * mesh;
                }
            }
            let truth = attained[0].max(attained[1]);
            assert!(
                truth <= unknown + 1e-6,
                "{noise} {epsilon}: {truth} {unknown}"
            );
            assert!(attained[2] <= known + 1e-6, "{noise} {epsilon}: {known}");
        }
    }
    assert!(methods.contains(&Method::GroupLemma) && methods.contains(&Method::Pld));
    let target = Target::Uninformed {
        redaction,
        group,
        epsilon: Epsilon::new(2.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    };
    let found = calibrate_noise(run, target, Tolerance::new(1e-6).unwrap()).unwrap();
    let at = |sigma| {
        plan(run(sigma))
            .bayesian_epsilon()
            .unwrap()
            .unwrap()
            .upper
            .unwrap()
    };
    let kept = at(found.answer).get().get();
    assert!((1.999..=2.0 * (1.0 + 1e-5)).contains(&kept), "{kept}");
    assert!(at(found.fails.unwrap()).get().get() > 2.0 * (1.0 - 1e-5));
}

/// A statement about zeroed records holds twice where contents are exchanged, so that a redacted secret has its rows.
#[test]
fn a_statement_about_zeroed_records_covers_redacted_secrets() {
    for group in [1, 2] {
        let stated = Mechanism::PureDp {
            epsilon: Epsilon::new(1.0).unwrap(),
            neighbours: Neighbours::ZeroOut,
        };
        let plan = Plan {
            neighbours: Neighbours::ZeroOut,
            group: GroupSize::new(group).unwrap(),
            redaction: Some(Redaction::single_policy(MissRate::new(0.1).unwrap())),
            ..Plan::new(
                stated,
                UnitName::new("record").unwrap(),
                Delta::new(1e-5).unwrap(),
            )
        };
        let at = plan.guarantees_at(Epsilon::new(1.0).unwrap());
        for rows in [plan.guarantees(), at] {
            assert!(rows.unwrap().iter().any(|row| row.gamma.is_some()));
        }
        let found = plan.bayesian_epsilon().unwrap().unwrap();
        let upper = found.upper.unwrap();
        let pure = f64::from(2 * group);
        let truth = (0.1 * pure.exp_m1()).ln_1p();
        let found = upper.get().get();
        assert!(
            found <= truth * (1.0 + 1e-6) && found > 0.5 * truth,
            "{found} {truth}"
        );
    }
}

/// The tighter of two bounds of a group leads, and calibration finds by it.
#[test]
fn groups_have_the_tighter_of_two_bounds() {
    let group = GroupSize::new(3).unwrap();
    let run = |sigma| steps(100, sigma, 0.01, Sampling::BallsInBins, false);
    let (delta, unit) = (Delta::new(1e-6).unwrap(), UnitName::new("record").unwrap());
    let plan = |sigma| Plan {
        group,
        ..Plan::new(run(sigma), unit.clone(), delta)
    };
    let upper = |row: &Guarantee| row.epsilon.unwrap().upper.unwrap().get().get();
    let rows = plan(1.1).guarantees().unwrap();
    let of_group: Vec<&Guarantee> = rows.iter().filter(|row| row.group.is_some()).collect();
    assert_eq!(of_group[0].method, Method::GroupLemma);
    assert!(upper(of_group[0]) < 0.5 * upper(of_group[1]));
    assert_eq!(plan(1.1).epsilon().unwrap(), of_group[0].epsilon.unwrap());
    let target = Target::Epsilon {
        query: Query {
            neighbours: Neighbours::AddRemove,
            group,
        },
        epsilon: Epsilon::new(4.0).unwrap(),
        delta,
    };
    let tolerance = Tolerance::new(1e-4).unwrap();
    let found = calibrate_noise(|sigma| run(sigma.get()), target, tolerance).unwrap();
    let sigma = found.answer.get();
    assert!(upper(&plan(sigma).exactly().unwrap()) <= 4.0 * (1.0 + 1e-3));
    assert!(upper(&plan(0.98 * sigma).exactly().unwrap()) > 4.0);
}

/// What a calibration finds by the lemma keeps its promise in the rows of the plan too: both asked at the target and
/// looked for from δ. As many steps are found as the noise was found for.
#[test]
fn a_calibration_by_the_lemma_agrees_with_its_rows() {
    let run = |sigma, count| steps(count, sigma, 0.01, Sampling::WithoutReplacement, false);
    let (delta, count) = (Delta::new(1e-6).unwrap(), 100);
    for (records, tolerance) in [(2, 1e-3), (4, 1e-6), (8, 1e-6)] {
        let group = GroupSize::new(records).unwrap();
        let target = Target::Epsilon {
            query: Query {
                neighbours: Neighbours::Replace,
                group,
            },
            epsilon: Epsilon::new(10.0).unwrap(),
            delta,
        };
        let goal = Tolerance::new(tolerance).unwrap();
        let found = calibrate_noise(|sigma| run(sigma.get(), count), target, goal).unwrap();
        let sigma = found.answer.get();
        let plan = |tolerance| Plan {
            neighbours: Neighbours::Replace,
            group,
            tolerance: Tolerance::new(tolerance).unwrap(),
            ..Plan::new(run(sigma, count), UnitName::new("record").unwrap(), delta)
        };
        let row = plan(1e-6).exactly().unwrap();
        assert_eq!(row.method, Method::GroupLemma);
        let upper = row.epsilon.unwrap().upper.unwrap().get().get();
        assert!(upper <= 10.0 * (1.0 + 1e-6), "{records}: {upper}");
        for tolerance in [tolerance, 1e-6] {
            let there = plan(tolerance)
                .exactly_at(Epsilon::new(10.0).unwrap())
                .unwrap();
            assert!(there.delta.unwrap() <= delta, "{records}: {there:?}");
        }
        let again = calibrate_steps(|count| run(sigma, count.get()), target, goal).unwrap();
        assert_eq!(again.answer.get(), count, "{records}");
    }
}

/// One number answers one question, whether the rows of a plan or its first row are asked.
#[test]
fn the_first_row_of_a_group_is_the_same_wherever_it_is_asked() {
    let (group, delta) = (GroupSize::new(3).unwrap(), Delta::new(1e-6).unwrap());
    for (sampling, neighbours) in [
        (Sampling::BallsInBins, Neighbours::AddRemove),
        (Sampling::WithoutReplacement, Neighbours::Replace),
        (Sampling::Poisson, Neighbours::AddRemove),
    ] {
        let run = steps(10, 1.1, 0.1, sampling, false);
        let plan = Plan {
            neighbours,
            group,
            prior: Some(Probability::new(1e-6).unwrap()),
            ..Plan::new(run, UnitName::new("record").unwrap(), delta)
        };
        let of_group = |rows: Vec<Guarantee>| {
            let group = |row: &Guarantee| row.group.is_some() && row.prior.is_none();
            rows.into_iter().find(group).unwrap()
        };
        // Where the lemma alone is known nothing is said of guesses, and the other rows stand.
        let first = of_group(plan.guarantees().unwrap());
        assert_eq!(plan.exactly().unwrap(), first, "{sampling:?}");
        let at = *first.epsilon.unwrap().upper.unwrap().get();
        let there = of_group(plan.guarantees_at(at).unwrap());
        assert_eq!(plan.exactly_at(at).unwrap(), there, "{sampling:?}");
        assert_eq!(there.method, first.method);
        assert!(there.delta.unwrap() <= delta, "{sampling:?}");
    }
}
