//! Answers that were far wider than asked: each class with a truth that shares no code with the engines, and
//! that those which stay wide say why.

use reticent_accounting::pld::{Answer, Looseness};
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss,
    Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
};

fn loss(each: Mechanism, times: u64, neighbours: Neighbours, direction: Direction) -> PrivacyLoss {
    let run = Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    };
    PrivacyLoss::of(&run, Query::single(neighbours), direction).unwrap()
}

fn laplace(scale: f64) -> Mechanism {
    Mechanism::Laplace {
        scale: NoiseMultiplier::new(scale).unwrap(),
    }
}

fn ends<T: Copy>(answer: &Answer<T>, number: impl Fn(T) -> f64) -> (f64, f64) {
    let (low, high) = (answer.bounds.lower.unwrap(), answer.bounds.upper.unwrap());
    (number(*low.get()), number(*high.get()))
}

fn delta(loss: &PrivacyLoss, epsilon: f64) -> (f64, f64) {
    let epsilon = Epsilon::new(epsilon).unwrap();
    let answer = loss.delta(epsilon, Tolerance::new(1e-6).unwrap()).unwrap();
    ends(&answer, |end| end.get())
}

fn blow_up(loss: &PrivacyLoss, prior: f64) -> (f64, f64) {
    let prior = Probability::new(prior).unwrap();
    let answer = loss.blow_up(prior, Tolerance::new(1e-6).unwrap()).unwrap();
    ends(&answer, |end| end.get())
}

/// Three Laplace steps lose 3/b at most, and do so with chance 1/8: B(x) = x e^{3/b} for x below that of the
/// second law, e^{−3/b}/8. The upper end was 1e-8 beside a prior of 2e-37.
#[test]
fn a_rare_guess_gains_the_largest_loss() {
    let scale = 1082.6;
    let loss = loss(laplace(scale), 3, Neighbours::AddRemove, Direction::Remove);
    for prior in [2e-37, 1e-3, 0.1] {
        let (low, high) = blow_up(&loss, prior);
        let truth = prior * (3.0 / scale).exp();
        assert!(low <= truth * (1.0 + 1e-12) && truth <= high * (1.0 + 1e-12));
        assert!(high - low <= 1e-6 * high, "{prior} {low} {high}");
    }
}

/// k of T randomised responses tell the truth under the first law: B(x) by adding up binomial outcomes from
/// the largest loss on, the last one in part. The upper end was 1e-15 beside 4e-24.
#[test]
fn guesses_after_many_responses_are_sums_of_binomials() {
    let (epsilon, steps) = (0.3f64, 3000u32);
    let pure = Mechanism::PureDp {
        epsilon: Epsilon::new(epsilon).unwrap(),
        neighbours: Neighbours::Replace,
    };
    let loss = loss(
        pure,
        u64::from(steps),
        Neighbours::Replace,
        Direction::Remove,
    );
    let p = epsilon.exp() / (1.0 + epsilon.exp());
    // ln P(k of T) by products of quotients.
    let mut ln_masses = vec![f64::from(steps) * (1.0 - p).ln()];
    for k in 1..=steps {
        let quotient = f64::from(steps - k + 1) / f64::from(k) * p / (1.0 - p);
        ln_masses.push(ln_masses[k as usize - 1] + quotient.ln());
    }
    for prior in [1e-40, 1e-12, 0.01] {
        let (mut first, mut second) = (0.0, 0.0);
        for (k, ln) in ln_masses.iter().enumerate().rev() {
            let lost = (2.0 * k as f64 - f64::from(steps)) * epsilon;
            let q = (ln - lost).exp();
            let share = ((prior - second) / q).clamp(0.0, 1.0);
            first += if q > 0.0 { share * ln.exp() } else { 0.0 };
            second += share * q;
        }
        let (low, high) = blow_up(&loss, prior);
        assert!(
            low <= first * (1.0 + 1e-9) && first <= high * (1.0 + 1e-9),
            "{prior} {low} {first} {high}"
        );
        assert!(high - low <= 2e-6 * high, "{prior} {low} {high}");
    }
}

/// Noise so small that each of 51 steps loses 1/2σ² but for 1e-250: ε(δ) = 51/2σ² + ln(1 − δ). The lower end
/// was zero.
#[test]
fn losses_on_few_whole_numbers_have_lower_ends() {
    let sigma = 0.0206;
    let each = Mechanism::DiscreteGaussian {
        sigma: NoiseMultiplier::new(sigma).unwrap(),
        sensitivity: 1,
    };
    let loss = loss(each, 51, Neighbours::AddRemove, Direction::Add);
    let tolerance = Tolerance::new(1e-9).unwrap();
    let found = loss
        .epsilon(Delta::new(5.6e-11).unwrap(), tolerance)
        .unwrap();
    let (low, high) = ends(&found, |end| end.get());
    let truth = 51.0 * 0.5 / (sigma * sigma);
    assert!(
        low <= truth && truth <= high * (1.0 + 1e-12),
        "{low} {truth} {high}"
    );
    assert!(high - low <= 1e-9 * high, "{low} {high}");
}

/// 59 records of one secret hardly ever drawn: no event of positive chance worth a number loses 2951. δ was
/// 0.019, since components of tiny weight met exponentials beyond the largest number.
#[test]
fn far_components_of_tiny_weight_do_not_overflow() {
    let run = Mechanism::Repeat {
        times: Steps::new(201_495),
        each: Box::new(Mechanism::SubsampledLaplace {
            scale: NoiseMultiplier::new(0.070_939_643).unwrap(),
            sampling_rate: SamplingRate::new(1.585_970_65e-9).unwrap(),
            sampling: Sampling::Poisson,
        }),
    };
    let query = Query {
        neighbours: Neighbours::Replace,
        group: GroupSize::new(59).unwrap(),
    };
    let loss = PrivacyLoss::of(&run, query, Direction::Add).unwrap();
    let tolerance = Tolerance::new(1e-6).unwrap();
    let delta = loss
        .delta(Epsilon::new(2951.0).unwrap(), tolerance)
        .unwrap();
    // To lose that much takes 100 draws at least: their number is Poisson of mean 0.019.
    assert!(ends(&delta, |end| end.get()).1 <= 1e-300, "{delta:?}");
}

/// Each answer that is wider than asked says why, and no other does.
#[test]
fn wide_answers_say_why() {
    let fine = Tolerance::new(1e-12).unwrap();
    let delta = Delta::new(1e-6).unwrap();
    let run = loss(laplace(1.0), 10, Neighbours::AddRemove, Direction::Remove);
    let close = run.epsilon(delta, Tolerance::new(1e-3).unwrap()).unwrap();
    assert_eq!(close.looseness, None);
    let shuffled = Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        sampling_rate: SamplingRate::new(0.1).unwrap(),
        sampling: Sampling::Shuffled,
    };
    let run = loss(shuffled, 10, Neighbours::ZeroOut, Direction::Remove);
    let apart = run.epsilon(delta, fine).unwrap();
    assert_eq!(apart.looseness, Some(Looseness::UnknownLaw), "{apart:?}");
    let pure = Mechanism::PureDp {
        epsilon: Epsilon::new(0.3).unwrap(),
        neighbours: Neighbours::Replace,
    };
    let run = loss(pure, 10_000_000, Neighbours::Replace, Direction::Remove);
    let rounded = run.delta(Epsilon::new(440_000.0).unwrap(), fine).unwrap();
    assert_eq!(rounded.looseness, Some(Looseness::Precision), "{rounded:?}");
    let run = loss(
        laplace(10.0),
        10_000,
        Neighbours::Replace,
        Direction::Remove,
    );
    let tiny = run.delta(Epsilon::new(1900.0).unwrap(), fine).unwrap();
    assert_eq!(tiny.looseness, Some(Looseness::SmallestNumbers), "{tiny:?}");
}

/// A million epochs whose law from below is known in cells rounded inwards: what they fall short of one was
/// taken for certain, and the lower end passed the upper one.
#[test]
fn epochs_in_rounded_cells_keep_their_ends_in_order() {
    for (scale, bins, steps, prior, direction) in [
        (
            2.609_422_427_939_618_8,
            24u32,
            264_667_741u64,
            3.9e-54,
            Direction::Remove,
        ),
        (1.437_705_505_654_705_7, 3, 298_725, 3.3e-10, Direction::Add),
    ] {
        let each = Mechanism::SubsampledLaplace {
            scale: NoiseMultiplier::new(scale).unwrap(),
            sampling_rate: SamplingRate::new(1.0 / f64::from(bins)).unwrap(),
            sampling: Sampling::RandomAllocation {
                selected: 1,
                steps: u64::from(bins),
            },
        };
        let loss = loss(each, steps, Neighbours::ZeroOut, direction);
        let (low, high) = blow_up(&loss, prior);
        assert!(low <= high && high <= 1.0 && low > 0.5, "{low} {high}");
    }
}

/// Two steps of an (ε, δ) promise: what is lost without bound has chance 1 − (1 − δ)², beside which a prior
/// of 1e-23 gains e^{2ε} at most. The upper end was 3e-14, a rounding of the largest loss.
#[test]
fn a_guess_gains_no_rounding_of_the_largest_loss() {
    let (epsilon, delta, prior) = (
        2.457_211_998_495_114f64,
        1.983_286_120_967_465e-20,
        1.481e-23,
    );
    let promise = Mechanism::ApproxDp {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(delta).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    let loss = loss(promise, 2, Neighbours::AddRemove, Direction::Remove);
    let (low, high) = blow_up(&loss, prior);
    // All the outcomes of infinite loss, and of the others those of the largest loss.
    let truth = 2.0 * delta + prior * (2.0 * epsilon).exp();
    assert!(
        low <= truth * (1.0 + 1e-9) && truth <= high * (1.0 + 1e-9),
        "{low} {high}"
    );
    assert!(high - low <= 1e-6 * high, "{low} {high}");
}

/// One batch of fixed size under noise so small that it shows whether the record was drawn: B(x) is the rate
/// for every x from e^{−100} on. The lower end was 1.5e-7.
#[test]
fn a_guess_after_a_batch_that_hides_nothing_is_the_rate() {
    let rate = 0.108_19;
    let batch = Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(0.030_94).unwrap(),
        sampling_rate: SamplingRate::new(rate).unwrap(),
        sampling: Sampling::WithoutReplacement,
    };
    let loss = loss(batch, 1, Neighbours::Replace, Direction::Add);
    for prior in [1e-51, 1e-30, 1e-12] {
        let (low, high) = blow_up(&loss, prior);
        let truth = rate + (1.0 - rate) * prior;
        assert!(
            low <= truth * (1.0 + 1e-9) && truth <= high * (1.0 + 1e-9),
            "{low} {high}"
        );
        assert!(high - low <= 1e-6 * high, "{prior} {low} {high}");
    }
}

/// Four steps of sampled Laplace noise, where the least of H + zx is a kink between two atoms.
#[test]
fn a_kink_between_atoms_is_found() {
    let run = Mechanism::Repeat {
        times: Steps::new(4),
        each: Box::new(Mechanism::SubsampledLaplace {
            scale: NoiseMultiplier::new(0.053_426).unwrap(),
            sampling_rate: SamplingRate::new(7.9126e-4).unwrap(),
            sampling: Sampling::Poisson,
        }),
    };
    let query = Query {
        neighbours: Neighbours::ZeroOut,
        group: GroupSize::new(22).unwrap(),
    };
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let (low, high) = blow_up(&loss, 0.008_886_9);
    assert!(low <= high && high - low <= 1e-5 * high, "{low} {high}");
}

/// Steps of little noise: a step is drawn, and then shows it, or it is not. The truth adds up the binomial
/// number of steps drawn in 60 digits: the others lose ln(1 − q), those drawn ln(q e^{Y/σ²} + …), Y ~ N(1/2, σ²).
/// No grid is fine enough for a millionth, and the best of them is laid once.
#[test]
fn steps_that_show_when_they_are_drawn_stay_within_a_thousandth() {
    let drawn = Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(0.05).unwrap(),
        sampling_rate: SamplingRate::new(0.01).unwrap(),
        sampling: Sampling::Poisson,
    };
    let loss = loss(drawn, 20, Neighbours::AddRemove, Direction::Remove);
    let answer = loss
        .epsilon(Delta::new(1e-5).unwrap(), Tolerance::new(1e-6).unwrap())
        .unwrap();
    let (low, high) = ends(&answer, |end| end.get());
    let truth = 812.789_194_45;
    assert!(low <= truth && truth <= high, "{low} {high}");
    assert!(high - low <= 1e-3 * truth, "{low} {high}");
}

/// Eight steps that fail with chance δ each, visible at once in an outcome that the other law never has:
/// B(x) ≥ 1 − (1 − δ)^8 whatever x is. The lower end was the prior itself. Of what only bounds a run nothing is
/// certain.
#[test]
fn outcomes_that_one_law_never_has_are_certain_guesses() {
    let delta = 8.615_668_934_112_656e-5;
    let stated = |neighbours| Mechanism::Repeat {
        times: Steps::new(8),
        each: Box::new(Mechanism::ApproxDp {
            epsilon: Epsilon::new(2.324_220_755_060_643_7).unwrap(),
            delta: Delta::new(delta).unwrap(),
            neighbours,
        }),
    };
    let rates = Mechanism::Repeat {
        times: Steps::new(47),
        each: Box::new(Mechanism::PoissonBinomialGaussian {
            noise_multiplier: NoiseMultiplier::new(0.415_841_570_287_827_2).unwrap(),
            rates: vec![SamplingRate::new(0.260_531_942_398_774_03).unwrap()],
        }),
    };
    let run = Mechanism::Sequence {
        parts: vec![stated(Neighbours::ZeroOut), rates],
    };
    let query = Query::single(Neighbours::ZeroOut);
    let loss = PrivacyLoss::of(&run, query, Direction::Add).unwrap();
    let least = -(8.0 * (-delta).ln_1p()).exp_m1();
    for prior in [0.0, 5.072_083_419_677_734e-45] {
        let (low, high) = blow_up(&loss, prior);
        // From below a share of 1e-12 is taken off for roundings.
        assert!(low >= least * (1.0 - 2e-12), "{low} {least}");
        assert!(low <= high && high - low <= 1e-6 * high, "{low} {high}");
    }
    let (guesses, _) =
        PrivacyLoss::of_guesses(&stated(Neighbours::Replace), GroupSize::ONE).unwrap();
    let (low, high) = blow_up(&guesses, 0.0);
    assert!(low <= 0.0 && high >= least, "{low} {high}");
}

/// One step of the exponential mechanism, by its worst instance: of x the outcome of the larger loss t with
/// e^{−t} = e^{−ε} + x(1 − e^{−ε}), so that B(x) = xe^t. A thousandth lay between the ends.
#[test]
fn a_rare_guess_after_an_exponential_mechanism_gains_its_epsilon() {
    for (epsilon, prior) in [
        (0.167_583_985_248_916_74f64, 3.840_960_703_247_407e-71f64),
        (13.774_152_315_768_353, 1.417_090_373_668_838e-30),
        (0.9, 1e-9),
        (0.9, 0.2),
    ] {
        let each = Mechanism::ExponentialMechanism {
            epsilon: Epsilon::new(epsilon).unwrap(),
            neighbours: Neighbours::Replace,
        };
        let (low, high) = blow_up(
            &loss(each, 1, Neighbours::Replace, Direction::Remove),
            prior,
        );
        let truth = prior / ((-epsilon).exp() - prior * (-epsilon).exp_m1());
        assert!(
            low <= truth * (1.0 + 1e-12) && truth <= high * (1.0 + 1e-12),
            "{prior} {low} {truth} {high}"
        );
        assert!(high - low <= 1e-6 * high, "{prior} {low} {high}");
    }
}

/// Noise that hardly ever moves: ε(δ) lies below the loss of the fewest moves that are likelier than δ, as the sum
/// over the numbers of moves up and down in 60 digits says. Millionths, and 1.5e-4, lay between the ends.
#[test]
fn moves_of_noise_that_hardly_ever_moves_are_counted() {
    for (sigma, sensitivity, steps, delta, truth) in [
        (
            0.069_682_080_749_407_13,
            5,
            1_197_961,
            6.495_495_972_386_98e-281,
            3_083_979_530.321_208_5,
        ),
        (
            0.040_265_709_176_195_47,
            4,
            797_956,
            1.956_405_259_572_844_9e-197,
            3_937_299_927.272_956_3,
        ),
        (
            0.042_925_973_405_834_955,
            98,
            310,
            6.124_634_580_673_69e-281,
            807_980_208.923_369_7,
        ),
    ] {
        let each = Mechanism::DiscreteGaussian {
            sigma: NoiseMultiplier::new(sigma).unwrap(),
            sensitivity,
        };
        let loss = loss(each, steps, Neighbours::AddRemove, Direction::Remove);
        let found = loss
            .epsilon(Delta::new(delta).unwrap(), Tolerance::new(1e-9).unwrap())
            .unwrap();
        let (low, high) = ends(&found, |end| end.get());
        assert!(
            low <= truth * (1.0 + 1e-13) && truth <= high * (1.0 + 1e-13),
            "{low} {truth} {high}"
        );
        assert!(high - low <= 1e-9 * high, "{low} {high}");
    }
}

/// Hundreds of thousands of steps of wide discrete Gaussian noise, whose sum is one step of wider noise: N(Ts, Tσ²)
/// against N(0, Tσ²) in 30 digits, to far fewer digits than the whole numbers take from it. A billionth lay between
/// the ends.
#[test]
fn sums_of_wide_integer_noise_keep_their_digits() {
    let each = Mechanism::DiscreteGaussian {
        sigma: NoiseMultiplier::new(5_269.266_530_218_614).unwrap(),
        sensitivity: 15,
    };
    let loss = loss(each, 850_941, Neighbours::ZeroOut, Direction::Remove);
    let delta = Delta::new(4.144_121_608_635_734e-7).unwrap();
    let found = loss.epsilon(delta, Tolerance::new(1e-9).unwrap()).unwrap();
    let (low, high) = ends(&found, |end| end.get());
    assert!(high - low <= 1e-9 * high, "{low} {high}");
    let truth = 15.829_138_896_237_356;
    assert!(
        low <= truth * (1.0 + 1e-9) && truth <= high * (1.0 + 1e-9),
        "{low} {truth} {high}"
    );
}

fn grouped(each: Mechanism, times: u64, group: u32) -> PrivacyLoss {
    let run = Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(each),
    };
    let query = Query {
        neighbours: Neighbours::AddRemove,
        group: GroupSize::new(group).unwrap(),
    };
    PrivacyLoss::of(&run, query, Direction::Remove).unwrap()
}

fn sampled(
    shape: fn(NoiseMultiplier, SamplingRate) -> Mechanism,
    noise: f64,
    rate: f64,
) -> Mechanism {
    shape(
        NoiseMultiplier::new(noise).unwrap(),
        SamplingRate::new(rate).unwrap(),
    )
}

fn sampled_laplace(scale: NoiseMultiplier, sampling_rate: SamplingRate) -> Mechanism {
    Mechanism::SubsampledLaplace {
        scale,
        sampling_rate,
        sampling: Sampling::Poisson,
    }
}

fn sampled_gaussian(noise_multiplier: NoiseMultiplier, sampling_rate: SamplingRate) -> Mechanism {
    Mechanism::SubsampledGaussian {
        noise_multiplier,
        sampling_rate,
        sampling: Sampling::Poisson,
    }
}

/// Losses so small that one less their exponential is all there is of δ: the ends were 4e-6 apart for two steps, and 2e-2
/// for a group, whose outcomes nearly all lie just below an atom, off the lines of a grid. The truths are by
/// mpmath with 30 digits: an integral over the first step's outcome of the second step's closed form, and inversions.
#[test]
fn epsilon_of_tiny_losses_of_laplace_noise_keeps_its_digits() {
    for (scale, rate, times, group, delta, truth) in [
        (3000.0, 1.2e-5, 2, 1, 4e-11, 7.841_227_832_254_539e-9),
        (45.0, 1.28e-6, 4151, 19, 6.3e-10, 1.312_987_249_417_097e-4),
    ] {
        let loss = grouped(sampled(sampled_laplace, scale, rate), times, group);
        let tolerance = Tolerance::new(1e-6).unwrap();
        let found = loss.epsilon(Delta::new(delta).unwrap(), tolerance).unwrap();
        let (low, high) = ends(&found, |end| end.get());
        assert!(
            low <= truth * (1.0 + 1e-12) && truth <= high * (1.0 + 1e-12),
            "{low:e} {truth:e} {high:e}"
        );
        assert!(high - low <= 1e-6 * high, "{low:e} {high:e}");
    }
}

/// Forty million steps of a record that is hardly ever drawn, at an ε that they add up to: the contour was out of reach
/// without far outcomes, and δ was known to 5e-6. By mpmath with 30 digits, as an inversion.
#[test]
fn delta_near_what_rare_draws_add_up_to_keeps_its_digits() {
    let loss = grouped(sampled(sampled_gaussian, 4.0, 1e-8), 44_000_000, 1);
    let tolerance = Tolerance::new(1e-6).unwrap();
    let found = loss
        .delta(Epsilon::new(1.4e-6).unwrap(), tolerance)
        .unwrap();
    let (low, high) = ends(&found, |end| end.get());
    let truth = 6.043_648_758_6e-6;
    assert!(
        low <= truth * (1.0 + 1e-10) && truth <= high * (1.0 + 1e-10),
        "{low:e} {truth:e} {high:e}"
    );
    assert!(high - low <= 1e-6 * high, "{low:e} {high:e}");
}

/// A guess that hardly gains, from losses of about 1e-5: the lower end of the minimum was looked for in steps of that size,
/// and stayed at the prior. By mpmath with 30 digits: the least of H + e^t x over t.
#[test]
fn guesses_that_gain_next_to_nothing_keep_their_digits() {
    let loss = grouped(sampled(sampled_gaussian, 7000.0, 1.5e-5), 50_000_000, 1);
    let (low, high) = blow_up(&loss, 5.5e-8);
    let truth = 5.500_457_230_116_556e-8;
    assert!(
        low <= truth * (1.0 + 1e-12) && truth <= high * (1.0 + 1e-12),
        "{low:e} {truth:e} {high:e}"
    );
    assert!(high - low <= 1e-6 * high, "{low:e} {high:e}");
}

/// A chance below the rounding of their sum: the largest is what the others leave, as of a sampling rate. Both ends were 0.
#[test]
fn a_chance_below_rounding_is_a_sampling_rate() {
    for (noise, rate, times) in [(0.1, 1e-17, 1 << 53), (0.05, 2e-16, 1_000_000)] {
        let mixture = Mechanism::MixtureOfGaussians {
            noise_multiplier: NoiseMultiplier::new(noise).unwrap(),
            sensitivities: vec![0.0, 1.0],
            probabilities: [1.0, rate].map(|p| Probability::new(p).unwrap()).to_vec(),
        };
        let drawn = sampled(sampled_gaussian, noise, rate);
        let [mixed, drawn] = [mixture, drawn].map(|each| {
            let loss = grouped(each, times, 1);
            let tolerance = Tolerance::new(1e-6).unwrap();
            let found = loss.delta(Epsilon::new(1.0).unwrap(), tolerance).unwrap();
            ends(&found, |end| end.get())
        });
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b;
        assert!(
            drawn.0 > 0.0 && near(mixed.0, drawn.0) && near(mixed.1, drawn.1),
            "{mixed:?} {drawn:?}"
        );
    }
}

/// Which component was drawn shows in every step: given the counts of the components, the loss is Gaussian, to 1e-30000, so
/// that δ is a sum of Gaussian profiles over binomial counts (40-digit arithmetic). No moment could be charted, and the
/// ends were 1e-2 apart.
#[test]
fn components_far_apart_compose_as_closely_as_asked() {
    let each = Mechanism::MixtureOfGaussians {
        noise_multiplier: NoiseMultiplier::new(1.0 / 128.0).unwrap(),
        sensitivities: vec![1.0, 4.0],
        probabilities: [0.75, 0.25].map(|p| Probability::new(p).unwrap()).to_vec(),
    };
    for (steps, delta, truth) in [
        (300, 1e-5, 15_732_882.182_733_58),
        (300, 1e-100, 33_187_028.737_693_597),
        (2000, 0.5, 77_820_250.428_007_56),
        (2000, 1e-9, 92_441_756.039_761_11),
    ] {
        for neighbours in [Neighbours::AddRemove, Neighbours::ZeroOut] {
            let loss = loss(each.clone(), steps, neighbours, Direction::Remove);
            let tolerance = Tolerance::new(1e-9).unwrap();
            let answer = loss.epsilon(Delta::new(delta).unwrap(), tolerance).unwrap();
            let (low, high) = ends(&answer, |end| end.get());
            assert!(
                low <= truth && truth <= high,
                "{steps} {delta}: {low} {high}"
            );
            assert!(high - low <= 1e-9 * high, "{steps} {delta}: {low} {high}");
        }
    }
}

/// Two kinds of responses whose losses have no common spacing, with a little Gaussian noise: the sum over the numbers of
/// true responses of each kind. The lower end was 2e-5 too low, since one kind lay just below lines of the other.
#[test]
fn responses_of_two_kinds_are_sums_over_both_counts() {
    use statrs::distribution::{ContinuousCDF, Normal};
    let kinds = [
        (0.0005847229915268352f64, 94u32),
        (0.00010270152548614973, 2),
    ];
    let sigma = 1e5;
    let pure = |epsilon: f64, times: u32| Mechanism::Repeat {
        times: Steps::new(u64::from(times)),
        each: Box::new(Mechanism::PureDp {
            epsilon: Epsilon::new(epsilon).unwrap(),
            neighbours: Neighbours::AddRemove,
        }),
    };
    let mut parts: Vec<Mechanism> = kinds.iter().map(|(e, n)| pure(*e, *n)).collect();
    parts.push(Mechanism::Gaussian {
        noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
    });
    let run = Mechanism::Sequence { parts };
    let loss = PrivacyLoss::of(
        &run,
        Query::single(Neighbours::AddRemove),
        Direction::Remove,
    );
    let loss = loss.unwrap();
    let normal = Normal::standard();
    let binomial = |epsilon: f64, times: u32| -> Vec<(f64, f64)> {
        let p = epsilon.exp() / (1.0 + epsilon.exp());
        let mut ln = f64::from(times) * (1.0 - p).ln();
        let mut masses = Vec::new();
        for k in 0..=times {
            masses.push((f64::from(2 * k) - f64::from(times), ln));
            ln += (f64::from(times - k) / f64::from(k + 1) * p / (1.0 - p)).ln();
        }
        masses
            .iter()
            .map(|(at, ln)| (at * epsilon, ln.exp()))
            .collect()
    };
    for epsilon in [1.2690700101532351e-6, 1e-3, 5e-3] {
        let mut truth = 0.0;
        for (a, p) in binomial(kinds[0].0, kinds[0].1) {
            for (b, q) in binomial(kinds[1].0, kinds[1].1) {
                let (rest, mu) = (epsilon - a - b, 1.0 / sigma);
                let first = normal.sf(rest / mu - 0.5 * mu);
                let second = normal.sf(rest / mu + 0.5 * mu);
                truth += p * q * (first - rest.exp() * second);
            }
        }
        let (low, high) = delta(&loss, epsilon);
        assert!(
            low <= truth * (1.0 + 1e-9) && truth <= high * (1.0 + 1e-9),
            "{low} {truth} {high}"
        );
        assert!(high - low <= 1e-6 * high, "{epsilon}: {low} {high}");
    }
}

/// Losses that gather at a point from one side, a few of them far off, over many steps: narrow cells for these, and a
/// transform whose error is relative to them. Ends were 3e-6 to 7e-4 apart.
#[test]
fn rare_losses_of_many_steps_are_known_to_a_millionth() {
    let close = |(scale, rate, steps): (f64, f64, u64), neighbours, direction, epsilon: f64| {
        let (noise, sampled) = (NoiseMultiplier::new(scale), SamplingRate::new(rate));
        let each = sampled_laplace(noise.unwrap(), sampled.unwrap());
        let (low, high) = delta(&loss(each, steps, neighbours, direction), epsilon);
        assert!(high - low <= 1e-6 * high, "{scale}: {low} {high}");
        (low, high)
    };
    use {Direction::*, Neighbours::*};
    close(
        (0.09034549386221133, 1.988682727879964e-5, 313),
        ZeroOut,
        Remove,
        0.00013947082992920665,
    );
    close(
        (0.021126998803510072, 1.242543925344535e-7, 3_594_995),
        Replace,
        Remove,
        0.0021174505249060304,
    );
    // Known to 1e-9 by grids of a hundredth of the spacing.
    let run = (0.05849072519857092, 1.2519153061211692e-6, 894_789);
    let (low, high) = close(run, AddRemove, Add, 1.4450991837792375e-5);
    assert!(
        low <= 0.5855420603456837 && 0.5855420603456837 <= high,
        "{low} {high}"
    );
}

/// A guess at a kink of the sum over two steps, a group whose far components are cut off, and losses so small that the
/// usual tilts don't reach them.
#[test]
fn kinks_groups_and_tiny_losses_are_known_as_closely_as_asked() {
    type Sampled = fn(NoiseMultiplier, SamplingRate) -> Mechanism;
    let of = |sampled: Sampled, (scale, rate), times, (group, neighbours, direction)| {
        let (noise, rate) = (NoiseMultiplier::new(scale), SamplingRate::new(rate));
        let each = sampled(noise.unwrap(), rate.unwrap());
        let run = Mechanism::Repeat {
            times: Steps::new(times),
            each: Box::new(each),
        };
        let query = Query {
            neighbours,
            group: GroupSize::new(group).unwrap(),
        };
        PrivacyLoss::of(&run, query, direction).unwrap()
    };
    let close = |(low, high): (f64, f64), share: f64| {
        assert!(high - low <= share * high, "{low} {high}");
    };
    use {Direction::*, Neighbours::*};
    let two = of(
        sampled_laplace,
        (0.046568335147959085, 0.0035757395668090364),
        2,
        (1, ZeroOut, Remove),
    );
    close(blow_up(&two, 1.093210068587645e-10), 1e-6);
    let epsilon = |loss: &PrivacyLoss, delta: f64, tolerance: f64| {
        let tolerance = Tolerance::new(tolerance).unwrap();
        let found = loss.epsilon(Delta::new(delta).unwrap(), tolerance).unwrap();
        ends(&found, |end| end.get())
    };
    let cut = of(
        sampled_gaussian,
        (7.019571407439874, 2.5132227508416453e-5),
        602,
        (185, ZeroOut, Remove),
    );
    close(epsilon(&cut, 8.676622171579416e-58, 1e-6), 1e-6);
    let tiny = of(
        sampled_gaussian,
        (147.38911127385003, 4.5830441981534165e-9),
        21,
        (1, AddRemove, Add),
    );
    close(epsilon(&tiny, 7.474419801512992e-18, 1e-9), 1e-9);
}

/// ln of binomial probabilities, by their quotients.
fn ln_binomial(count: u32, rate: f64) -> Vec<f64> {
    let mut ln = vec![f64::from(count) * (-rate).ln_1p()];
    for k in 1..=count {
        let quotient = f64::from(count - k + 1) / f64::from(k) * rate / (1.0 - rate);
        ln.push(ln[k as usize - 1] + quotient.ln());
    }
    ln
}

fn normal_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

/// Hundreds of millions of steps of 98 records, two thirds of which are drawn each time, under next to no noise: the charts of
/// 99 bells far apart were refused, and ε was known to 3e-5. A step that draws j loses ln w_j + j²κ²/2 + jκZ; so many add up
/// to a quantile of a normal law but for their skewness (Cornish and Fisher), which moves it by 5e-10.
#[test]
fn bells_far_apart_add_up_to_a_quantile() {
    let (sigma, rate, times, group) = (
        0.010_709_183_680_938_924,
        0.664_954_554_050_570_1,
        641_106_490,
        98,
    );
    let run = Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(sampled(sampled_gaussian, sigma, rate)),
    };
    let query = Query {
        neighbours: Neighbours::ZeroOut,
        group: GroupSize::new(group).unwrap(),
    };
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let delta = 5.266_461_562_801_581e-8;
    let found = loss.epsilon(Delta::new(delta).unwrap(), Tolerance::new(1e-6).unwrap());
    let (low, high) = ends(&found.unwrap(), |end| end.get());
    let steps = times as f64;
    let weights = ln_binomial(group, rate);
    let each: Vec<(f64, f64, f64)> = (weights.iter().enumerate())
        .map(|(j, ln)| {
            let distance = j as f64 / sigma;
            (
                ln.exp(),
                ln + 0.5 * distance * distance,
                distance * distance,
            )
        })
        .collect();
    let mean: f64 = each.iter().map(|(w, loss, _)| w * loss).sum();
    let (mut variance, mut third) = (0.0, 0.0);
    for (w, loss, own) in each {
        let off = loss - mean;
        variance += w * (off * off + own);
        third += w * off * (off * off + 3.0 * own);
    }
    let (mut below, mut above) = (0.0, 10.0);
    for _ in 0..60 {
        let z = 0.5 * (below + above);
        if normal_tail(z) > delta {
            below = z;
        } else {
            above = z;
        }
    }
    let skewed = (below * below - 1.0) * third / (6.0 * variance.powf(1.5) * steps.sqrt());
    let truth = steps * mean + (steps * variance).sqrt() * (below + skewed);
    assert!(
        low <= truth * (1.0 + 1e-8) && truth <= high * (1.0 + 1e-8),
        "{low} {truth} {high}"
    );
    assert!(high - low <= 1e-6 * high, "{low} {high}");
}

/// A million steps of Laplace noise for 399 records, between whose kinks all of a weight of e^−252 is merged: its ratio to a
/// whole density was no number, no engine had an answer, and ε was known to a third. The truth is the saddle-point
/// approximation of the sum, from moments of one step by a rule of five points between kinks, which is off by 1e-4 of δ.
#[test]
fn merged_components_that_weigh_nothing_are_numbers() {
    let (scale, rate, times, group) = (
        1.943_388_368_258_519,
        0.467_807_927_381_359_96,
        1_048_021,
        399,
    );
    let loss = grouped(sampled(sampled_laplace, scale, rate), times, group);
    let delta = 8.331_211_067_322_086e-291f64;
    let found = loss.epsilon(Delta::new(delta).unwrap(), Tolerance::new(1e-6).unwrap());
    let (low, high) = ends(&found.unwrap(), |end| end.get());
    assert!(high - low <= 1e-6 * high, "{low} {high}");
    let (weights, shift, last) = (
        ln_binomial(group, rate),
        1.0 / scale,
        f64::from(group) / scale,
    );
    // ln p at x, times 2e^{|x|}: the loss.
    let loss_at = |x: f64| {
        let terms = weights
            .iter()
            .enumerate()
            .map(|(k, w)| w - (x - k as f64 * shift).abs());
        let top = terms.clone().fold(f64::NEG_INFINITY, f64::max);
        top + terms.map(|term| (term - top).exp()).sum::<f64>().ln() + x.abs()
    };
    // Losses with their masses under the first law.
    let mut nodes = Vec::new();
    for (end, outwards) in [(0.0, 1.0), (last, 1.0)] {
        let loss = loss_at(end);
        nodes.push((loss, 0.5 * outwards * (loss - end).exp()));
    }
    let rule = [
        (0.0, 0.568_888_888_888_888_9),
        (0.538_469_310_105_683_1, 0.478_628_670_499_366_5),
        (0.906_179_845_938_664, 0.236_926_885_056_189_1),
    ];
    for k in 0..group {
        for (at, weight) in rule {
            let sides: &[f64] = if at > 0.0 { &[-1.0, 1.0] } else { &[1.0] };
            for side in sides {
                let x = (f64::from(k) + 0.5 + 0.5 * side * at) * shift;
                let loss = loss_at(x);
                nodes.push((loss, 0.5 * (loss - x).exp() * 0.5 * shift * weight));
            }
        }
    }
    let whole: f64 = nodes.iter().map(|(_, mass)| mass).sum();
    assert!((whole - 1.0).abs() < 1e-12, "{whole}");
    let steps = times as f64;
    // ε and ln δ at the saddle point s.
    let at = |s: f64| {
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for (loss, mass) in &nodes {
            let term = mass * (s * loss).exp();
            (sum, first, second) = (sum + term, first + term * loss, second + term * loss * loss);
        }
        let (mean, variance) = (first / sum, second / sum - (first / sum).powi(2));
        let spread = s * (steps * variance).sqrt();
        let square = 1.0 / (spread * spread);
        let ratio = (1.0 - square * (1.0 - square * (3.0 - 15.0 * square))) / spread;
        let front = steps * (sum.ln() - s * mean) - 0.5 * std::f64::consts::TAU.ln();
        // The whole excess counts, but for the share of losses less than one above ε.
        (steps * mean, front + (ratio - ratio * s / (1.0 + s)).ln())
    };
    let (mut near, mut far) = (1e-3, 1e-1);
    for _ in 0..60 {
        let s = 0.5 * (near + far);
        if at(s).1 > delta.ln() {
            near = s;
        } else {
            far = s;
        }
    }
    let truth = at(near).0;
    assert!(
        low <= truth * (1.0 + 1e-9) && truth <= high * (1.0 + 1e-9),
        "{low} {truth} {high}"
    );
}
