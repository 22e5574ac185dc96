//! Trade-off curves, membership bounds and the Gaussian summary against oracles that share no
//! code with them: error functions, plain quadrature, sums over finite sets.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use crate::common::{Case, simpson};
use proptest::prelude::*;
use reticent_accounting::trade_off::{
    GaussianFit, TradeOff, advantage, membership_accuracy, true_positive_rate,
};
use reticent_accounting::{
    Bounds, Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier,
    PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps, Tolerance,
};

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

fn tolerance(t: f64) -> Tolerance {
    Tolerance::new(t).unwrap()
}

fn ends(bounds: Bounds<Probability>) -> (f64, f64) {
    (
        bounds.lower.unwrap().get().get(),
        bounds.upper.unwrap().get().get(),
    )
}

fn plain(mu: f64) -> Mechanism {
    Mechanism::Gaussian {
        noise_multiplier: NoiseMultiplier::new(1.0 / mu).unwrap(),
    }
}

/// P(Z > z).
fn tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

/// z with P(Z > z) = p.
fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if tail(middle) > p {
            low = middle
        } else {
            high = middle
        }
    }
    0.5 * (low + high)
}

fn question() -> impl Strategy<Value = (Neighbours, Direction)> {
    prop_oneof![
        Just((Neighbours::AddRemove, Direction::Remove)),
        Just((Neighbours::AddRemove, Direction::Add)),
        Just((Neighbours::Replace, Direction::Remove)),
    ]
}

/// B(α) of one step: the best test is a half-line, on the side where the loss is large.
fn best_test(case: &Case, fpr: f64) -> f64 {
    let (from, to) = case.support();
    // Add puts the mixture second: its loss falls with x.
    let upwards = case.direction == Direction::Remove;
    let mass = |x: f64, law: usize| {
        let density = |x: f64| {
            let (p, q) = case.densities(x);
            if law == 0 { p } else { q }
        };
        if upwards {
            simpson(density, x, to, 2_000)
        } else {
            simpson(density, from, x, 2_000)
        }
    };
    let (mut low, mut high) = (from, to);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if (mass(middle, 1) > fpr) == upwards {
            low = middle
        } else {
            high = middle
        }
    }
    mass(0.5 * (low + high), 0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, max_shrink_iters: 8, ..ProptestConfig::default() })]

    /// Φ(Φ⁻¹(α) + μ), by the complementary error function.
    #[test]
    fn a_plain_gaussian_has_its_curve(mu in 0.01f64..6.0, exponent in 0.1f64..30.0) {
        let fpr = 10f64.powf(-exponent);
        let truth = tail(quantile(fpr) - mu);
        let query = Query::single(Neighbours::AddRemove);
        let (low, high) = ends(true_positive_rate(&plain(mu), query, probability(fpr), tolerance(1e-9)).unwrap().bounds);
        prop_assert!(low <= truth * (1.0 + 1e-11) && truth <= high * (1.0 + 1e-11), "{low} {truth} {high}");
        prop_assert!(high - low <= 1e-8 * high);
    }

    /// One subsampled step against a search over half-lines by quadrature (relative error below
    /// 1e-8 at rates of false alarms from 1e-4).
    #[test]
    fn one_step_is_the_best_half_line(
        rate in 0.01f64..1.0, sigma in 0.5f64..4.0, group in 1u32..4,
        (neighbours, direction) in question(), fpr in 1e-4f64..0.9,
    ) {
        let case = Case { rate, sigma, steps: 1, group, neighbours, direction };
        let truth = best_test(&case, fpr);
        let answer = case.loss().true_positive_rate(probability(fpr), tolerance(1e-9)).unwrap();
        let (low, high) = ends(answer.bounds);
        prop_assert!(low <= truth + 1e-8 && truth <= high + 1e-8, "{low} {truth} {high} {case:?}");
        prop_assert!(high - low <= 1e-8);
    }

    /// Accuracy at a prior against ∫ max(πp, (1 − π)q).
    #[test]
    fn accuracy_is_the_integral_of_the_likelier_law(
        rate in 0.01f64..1.0, sigma in 0.5f64..4.0, group in 1u32..4,
        (neighbours, direction) in question(), prior in 0.02f64..0.98,
    ) {
        let case = Case { rate, sigma, steps: 1, group, neighbours, direction };
        let (from, to) = case.support();
        let truth = simpson(|x| {
            let (p, q) = case.densities(x);
            (prior * p).max((1.0 - prior) * q)
        }, from, to, 40_000);
        let (low, high) = ends(case.loss().accuracy(probability(prior), tolerance(1e-9)).unwrap().bounds);
        // The kink costs Simpson's rule its order.
        prop_assert!(low <= truth + 1e-6 && truth <= high + 1e-6, "{low} {truth} {high} {case:?}");
        prop_assert!(high - low <= 1e-8);
        prop_assert!(low >= prior.max(1.0 - prior) - 1e-12);
    }

    /// Two directions, one test: who guesses P at prior π guesses Q at prior 1 − π; TV is the same
    /// both ways, and B is the lower envelope of the lines H + e^t α.
    #[test]
    fn directions_and_lines_agree(
        rate in 0.05f64..0.3, sigma in 0.8f64..3.0, steps in 500u64..2000,
        prior in 0.05f64..0.95, fpr in 1e-6f64..0.8, t in -3.0f64..3.0,
    ) {
        let case = |direction| Case { rate, sigma, steps, group: 1, neighbours: Neighbours::AddRemove, direction }.loss();
        let (remove, add) = (case(Direction::Remove), case(Direction::Add));
        let fine = tolerance(1e-7);
        let (a, b) = ends(remove.accuracy(probability(prior), fine).unwrap().bounds);
        let (c, d) = ends(add.accuracy(probability(1.0 - prior), fine).unwrap().bounds);
        prop_assert!(a <= d + 1e-12 && c <= b + 1e-12, "[{a}, {b}] against [{c}, {d}]");
        let (a, b) = ends(remove.advantage(fine).unwrap().bounds);
        let (c, d) = ends(add.advantage(fine).unwrap().bounds);
        prop_assert!(a <= d && c <= b, "[{a}, {b}] against [{c}, {d}]");
        let (low, _) = ends(remove.true_positive_rate(probability(fpr), fine).unwrap().bounds);
        let line = remove.hockey_stick(t, fine).unwrap().bounds.upper.unwrap().get().get() + t.exp() * fpr;
        prop_assert!(low <= line * (1.0 + 1e-12), "{low} above the line {line}");
        // (1 + TV)/2 at even odds.
        let (low, high) = ends(remove.accuracy(probability(0.5), fine).unwrap().bounds);
        prop_assert!(low <= 0.5 + 0.5 * b + 1e-12 && 0.5 + 0.5 * a <= high + 1e-12);
    }

    /// What the value says between its points encloses what the engine says there.
    #[test]
    fn the_curve_encloses_the_engine(
        rate in 0.05f64..0.3, sigma in 0.8f64..3.0, steps in 500u64..2000,
        fpr in 1e-5f64..1.0, coarse in prop_oneof![Just(1e-5), Just(1e-3)],
    ) {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma).unwrap(), SamplingRate::new(rate).unwrap(), Steps::new(steps));
        let query = Query::single(Neighbours::AddRemove);
        let rates = [1e-4, 1e-3, 0.01, 0.1, 0.3, 0.6, 0.9].map(probability);
        let curve = TradeOff::of(&run, query, &rates, tolerance(coarse)).unwrap();
        let (low, high) = ends(curve.true_positive_rate(probability(fpr)).unwrap());
        let (least, most) = ends(true_positive_rate(&run, query, probability(fpr), tolerance(1e-5)).unwrap().bounds);
        prop_assert!(low <= most && least <= high, "[{low}, {high}] against [{least}, {most}] at {fpr}");
        let (miss_low, miss_high) = ends(curve.false_negative_rate(probability(fpr)).unwrap());
        prop_assert!((miss_low - (1.0 - high)).abs() < 1e-15 && (miss_high - (1.0 - low)).abs() < 1e-15);
    }
}

#[test]
fn tiny_rates_of_false_alarms_keep_their_digits() {
    // Shared vector gdp_blowup_2^-64: log2 Φ(Φ⁻¹(2^-64) + 2), 50-digit arithmetic.
    let query = Query::single(Neighbours::AddRemove);
    let rate = probability((-64f64).exp2());
    let (low, high) = ends(
        true_positive_rate(&plain(2.0), query, rate, tolerance(1e-10))
            .unwrap()
            .bounds,
    );
    assert!((low.log2() + 40.337136613087885).abs() < 1e-9 && (high / low - 1.0).abs() < 1e-8);
    for exponent in [128, 256, 900] {
        let rate = probability((-f64::from(exponent)).exp2());
        let (low, high) = ends(
            true_positive_rate(&plain(0.5), query, rate, tolerance(1e-6))
                .unwrap()
                .bounds,
        );
        assert!(
            rate.get() <= low && low <= high && high < 1.0,
            "2^-{exponent}: {low} {high}"
        );
    }
}

/// Between two points a decade apart: the chord below, the extended chords above.
#[test]
fn concavity_leaves_little_room() {
    let query = Query::single(Neighbours::AddRemove);
    let rates = [1e-3, 0.01, 0.1, 0.3, 0.6].map(probability);
    let curve = TradeOff::of(&plain(1.0), query, &rates, tolerance(1e-9)).unwrap();
    for (fpr, least, most) in [(0.05, 0.225, 0.285), (0.2, 0.54, 0.585), (1e-4, 1e-3, 2e-3)] {
        let (low, high) = ends(curve.true_positive_rate(probability(fpr)).unwrap());
        let truth = tail(quantile(fpr) - 1.0);
        assert!(low <= truth && truth <= high, "{low} {truth} {high}");
        assert!(
            low > least * 0.9 && high < most * 1.2 || fpr < 1e-3,
            "{low} {truth} {high}"
        );
        // At the points themselves nothing is lost.
        let (low, high) = ends(curve.true_positive_rate(probability(0.1)).unwrap());
        assert!(high - low < 1e-8);
    }
    let (low, high) = ends(curve.true_positive_rate(probability(1.0)).unwrap());
    assert!(low >= 1.0 && high >= 1.0);
    let (_, high) = ends(curve.true_positive_rate(probability(0.0)).unwrap());
    assert!(high < 0.02);
}

#[test]
fn a_rate_given_twice_is_one_point() {
    let query = Query::single(Neighbours::AddRemove);
    let of = |rates: &[f64]| {
        let rates: Vec<_> = rates.iter().map(|rate| probability(*rate)).collect();
        TradeOff::of(&plain(1.0), query, &rates, tolerance(1e-9)).unwrap()
    };
    for rates in [&[0.1, 0.1][..], &[0.0, 0.1, 0.3, 0.1, 1.0, 1.0]] {
        for fpr in [1e-3, 0.05, 0.2, 0.9] {
            let (low, high) = ends(of(rates).true_positive_rate(probability(fpr)).unwrap());
            let truth = tail(quantile(fpr) - 1.0);
            assert!(low <= truth && truth <= high, "{low} {truth} {high}");
        }
    }
    assert_eq!(of(&[0.3, 0.1, 0.3]), of(&[0.1, 0.3]));
}

#[test]
fn a_run_without_protection_is_told_apart_and_an_empty_one_is_not() {
    let query = Query::single(Neighbours::AddRemove);
    let bare = Mechanism::NonPrivate { why: "none".into() };
    let (_, high) = ends(
        true_positive_rate(&bare, query, probability(1e-3), tolerance(1e-6))
            .unwrap()
            .bounds,
    );
    assert!(high >= 1.0);
    let (_, high) = ends(
        membership_accuracy(&bare, query, probability(0.3), tolerance(1e-6))
            .unwrap()
            .bounds,
    );
    assert!(high >= 1.0);
    let nothing = Mechanism::Sequence { parts: vec![] };
    let (low, high) = ends(advantage(&nothing, query, tolerance(1e-6)).unwrap().bounds);
    assert!(low <= 0.0 && high <= 0.0);
    let (low, high) = ends(
        membership_accuracy(&nothing, query, probability(0.3), tolerance(1e-6))
            .unwrap()
            .bounds,
    );
    assert!(low <= 0.7 && (0.7..0.7 + 1e-12).contains(&high));
    let loss = PrivacyLoss::of(&bare, query, Direction::Remove).unwrap();
    assert!(loss.hockey_stick(f64::NAN, tolerance(1e-6)).is_err());
}

fn fit(run: &Mechanism, slack: f64, width: f64) -> GaussianFit {
    let query = Query::single(Neighbours::AddRemove);
    GaussianFit::of(run, query, Delta::new(slack).unwrap(), tolerance(width)).unwrap()
}

fn distance(fit: &GaussianFit) -> (f64, f64) {
    (*fit.mu.lower.unwrap().get(), *fit.mu.upper.unwrap().get())
}

/// δ_μ(ε) from the error function.
fn gaussian_delta(mu: f64, epsilon: f64) -> f64 {
    tail(epsilon / mu - 0.5 * mu) - epsilon.exp() * tail(epsilon / mu + 0.5 * mu)
}

#[test]
fn plain_gaussians_are_their_own_summary() {
    for (sigma, steps, mu) in [
        (2.0, 4, 1.0),
        (0.1, 1, 10.0),
        (50.0, 10_000, 2.0),
        (1e3, 1, 1e-3),
    ] {
        let run = Mechanism::Repeat {
            times: Steps::new(steps),
            each: Box::new(Mechanism::Gaussian {
                noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
            }),
        };
        let found = fit(&run, 1e-10, 1e-6);
        let (low, high) = distance(&found);
        assert!(
            (low / mu - 1.0).abs() < 1e-9 && (high / mu - 1.0).abs() < 1e-9,
            "{found:?}"
        );
        assert!(low <= mu && mu <= high);
        assert!(*found.regret.upper.unwrap().get() < 1e-13 && found.slack == Delta::ZERO);
    }
}

/// A batch of one record never holds both records of the group, so μ ≤ 2; the batch that holds both, at distance 4,
/// only dominates it.
#[test]
fn a_gaussian_that_only_dominates_has_no_lower_end() {
    let run = Mechanism::SubsampledGaussian {
        noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        sampling_rate: SamplingRate::new(1e-3).unwrap(),
        sampling: Sampling::Shuffled,
    };
    let query = Query {
        neighbours: Neighbours::Replace,
        group: GroupSize::new(2).unwrap(),
    };
    let fit =
        |slack| GaussianFit::of(&run, query, Delta::new(slack).unwrap(), tolerance(1e-3)).unwrap();
    let (found, looser) = (fit(0.0), fit(0.1));
    let upper = |fit: &GaussianFit| *fit.mu.upper.unwrap().get();
    assert!((upper(&found) - 4.0).abs() < 1e-9, "{found:?}");
    assert!(found.mu.lower.is_none() && found.regret.lower.is_none());
    // The regret of μ = 4 for a run of μ ≤ 2 is at least the difference at ε = 0, halved.
    let regret = 0.5 * (gaussian_delta(4.0, 0.0) - gaussian_delta(2.0, 0.0));
    assert!(*found.regret.upper.unwrap().get() >= regret);
    // Slack that is allowed is used.
    assert_eq!(looser.slack, Delta::new(0.1).unwrap());
    assert!(upper(&looser) < 0.99 * upper(&found), "{looser:?}");
    assert!(looser.mu.lower.is_none_or(|lower| *lower.get() <= 2.0));
    assert!(
        *looser.regret.upper.unwrap().get()
            >= 0.5 * (gaussian_delta(upper(&looser), 0.0) - gaussian_delta(2.0, 0.0))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, max_shrink_iters: 8, ..ProptestConfig::default() })]

    /// At ε the fit never asked about: below the run's curve in both directions at its upper end;
    /// above it somewhere just below its lower end; and no farther off than the regret.
    #[test]
    fn the_gaussian_summary_is_below_the_curve_and_no_better_one_is(
        rate in 0.05f64..0.5, sigma in 1.0f64..4.0, steps in prop_oneof![Just(1u64), 200u64..1500],
        slack in prop_oneof![Just(1e-12), Just(1e-8), Just(1e-4)],
    ) {
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma).unwrap(), SamplingRate::new(rate).unwrap(), Steps::new(steps));
        let query = Query::single(Neighbours::AddRemove);
        let found = fit(&run, slack, 1e-5);
        let (low, high) = distance(&found);
        prop_assert!(low <= high && high < 60.0, "{found:?}");
        let regret = *found.regret.upper.unwrap().get();
        prop_assert!(*found.regret.lower.unwrap().get() <= regret);
        let losses = Direction::BOTH.map(|d| PrivacyLoss::of(&run, query, d).unwrap());
        let (mut needed, mut apart) = (false, 0.0f64);
        let last = losses[0].epsilon(Delta::new(slack).unwrap(), tolerance(1e-3)).unwrap().bounds.upper.unwrap().get().get();
        for i in 0..200 {
            let epsilon = 1.02 * last * f64::from(i) / 200.0;
            let (mut least, mut most) = (0.0f64, 0.0f64);
            for loss in &losses {
                let answer = loss.delta(Epsilon::new(epsilon).unwrap(), tolerance(1e-5)).unwrap().bounds;
                least = least.max(answer.lower.unwrap().get().get());
                most = most.max(answer.upper.unwrap().get().get());
            }
            let gaussian = gaussian_delta(high, epsilon);
            prop_assert!(least <= gaussian + slack + 1e-12, "{least} above {gaussian} at {epsilon}");
            needed |= most > gaussian_delta(0.999 * low, epsilon) + slack;
            apart = apart.max((gaussian - most) / (1.0 + epsilon.exp()));
        }
        prop_assert!(needed, "{found:?}: a smaller one would do");
        prop_assert!(apart <= regret * (1.0 + 1e-9) + 1e-12, "{apart} above the regret {regret}");
        prop_assert!(regret <= 1.05 * apart + 1e-6, "regret {regret} for {apart}");
    }
}

#[test]
fn without_slack_only_the_full_sum_is_safe() {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(2.0).unwrap(),
        SamplingRate::new(0.1).unwrap(),
        Steps::new(400),
    );
    let (low, high) = distance(&fit(&run, 0.0, 1e-4));
    // √T/σ, attained as ε grows; the samples see only part of it.
    assert!(
        (high - 10.0).abs() < 1e-9 && low > 1.0 && low < high,
        "{low} {high}"
    );
    // Replaced, both sides move: twice as far.
    let query = Query::single(Neighbours::Replace);
    let replaced = GaussianFit::of(&run, query, Delta::ZERO, tolerance(1e-4)).unwrap();
    let high = distance(&replaced).1;
    assert!((high - 20.0).abs() < 1e-9, "{high}");
    let with_slack = distance(&fit(&run, 1e-10, 1e-4)).1;
    assert!(with_slack < 2.0);
    let query = Query::single(Neighbours::AddRemove);
    let bare = Mechanism::NonPrivate { why: "none".into() };
    let refused = GaussianFit::of(&bare, query, Delta::new(0.1).unwrap(), tolerance(1e-3));
    assert!(refused.unwrap_err().to_string().contains("no finite mu"));
}

/// With next to no noise a sampled record tells all and another one nothing.
#[test]
fn all_is_revealed_or_nothing() {
    let (rate, sigma) = (0.25, 0.01);
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(sigma).unwrap(),
        SamplingRate::new(rate).unwrap(),
        Steps::new(1),
    );
    let query = Query::single(Neighbours::AddRemove);
    for fpr in [1e-6, 0.01, 0.4] {
        let remove = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
        let (low, high) = ends(
            remove
                .true_positive_rate(probability(fpr), tolerance(1e-9))
                .unwrap()
                .bounds,
        );
        let truth = rate + (1.0 - rate) * fpr;
        assert!(
            low <= truth && low > truth - 1e-5 && (high - truth).abs() < 1e-8,
            "{low} {truth} {high}"
        );
    }
    let (low, high) = ends(advantage(&run, query, tolerance(1e-9)).unwrap().bounds);
    assert!((low - rate).abs() < 1e-8 && (high - rate).abs() < 1e-8);
    let (low, high) = ends(
        membership_accuracy(&run, query, probability(0.2), tolerance(1e-9))
            .unwrap()
            .bounds,
    );
    // Say "in" only when it is told: 0.8 + 0.2·0.25.
    assert!(
        (low - 0.85).abs() < 1e-8 && (high - 0.85).abs() < 1e-8,
        "{low} {high}"
    );
}
