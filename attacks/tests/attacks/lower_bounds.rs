//! Lower bounds on ε from coins and from independent trials: published numbers, exact
//! probabilities, order, and what a null shows.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Confidence, Delta, Epsilon, Neighbours, UnitName};
use reticent_attacks::exposure::{Assumption, EpsilonMethod};
use reticent_attacks::{
    AuditTerms, OneRunCounts, RateCounts, RatioMethod, Sides, accuracy_ceiling,
};

pub(crate) fn terms(confidence: f64, delta: f64) -> AuditTerms {
    AuditTerms {
        confidence: Confidence::new(confidence).unwrap(),
        delta: Delta::new(delta).unwrap(),
        neighbours: Neighbours::AddRemove,
        unit: UnitName::new("turn").unwrap(),
        copies: 1,
    }
}

fn one_run(m: u64, r: u64, v: u64, terms: &AuditTerms) -> f64 {
    let counts = OneRunCounts::new(m, r, v).unwrap();
    counts.bound(terms).unwrap().lower.get().get()
}

fn f_dp(m: u64, r: u64, v: u64, terms: &AuditTerms) -> f64 {
    let counts = OneRunCounts::new(m, r, v).unwrap();
    counts.gaussian_bound(terms).unwrap().lower.get().get()
}

/// Golden: the algorithm of Steinke, Nasr and Jagielski 2023, appendix D, by two independent
/// Python implementations (binomial tails of scipy 1.17).
#[test]
fn one_run_p_values() {
    for (m, r, v, epsilon, delta, expected) in [
        (1000, 100, 90, 1.0, 0.0, 2.735_812_800_766_158_4e-5),
        (1000, 100, 90, 1.0, 1e-5, 8.412_885_614_385_305e-4),
        (1000, 100, 90, 1.5, 1e-5, 1.876_458_847_467_200_5e-2),
        (1000, 1000, 600, 0.2, 1e-3, 2.656_601_205_480_085_8e-2),
    ] {
        let counts = OneRunCounts::new(m, r, v).unwrap();
        let p = counts
            .p_value(Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap())
            .unwrap();
        assert!((p.get().get() - expected).abs() < 1e-9, "{p:?} {expected}");
    }
}

/// Golden: the same two implementations, 95 %.
#[test]
fn one_run_bounds() {
    for (m, r, v, delta, expected) in [
        (1000, 1000, 600, 1e-5, 0.2972),
        (1000, 100, 95, 1e-5, 2.1652),
        (100, 100, 100, 0.0, 3.4930),
        (500, 500, 490, 1e-5, 3.3543),
        (1000, 1000, 1000, 1e-5, 5.7823),
        (1000, 1000, 510, 1e-5, 0.0),
    ] {
        let got = one_run(m, r, v, &terms(0.95, delta));
        assert!((got - expected).abs() < 6e-5, "{m} {r} {v}: {got}");
    }
}

/// Golden: Google's jax_privacy for the Gaussian trade-off, 95 %, delta 1e-5.
#[test]
fn one_run_bounds_under_a_gaussian_trade_off() {
    for (r, v, expected) in [(1000, 600, 0.5835), (100, 95, 3.3233)] {
        let got = f_dp(1000, r, v, &terms(0.95, 1e-5));
        assert!((got - expected).abs() < 6e-5, "{r} {v}: {got}");
    }
    let bound = OneRunCounts::new(1000, 100, 95).unwrap();
    let bound = bound.gaussian_bound(&terms(0.95, 1e-5)).unwrap();
    assert_eq!(bound.assumes, Assumption::GaussianTradeOff);
    assert_eq!(bound.method, EpsilonMethod::OneRunFDp);
    assert!(bound.against(&bound.terms).is_none(), "it meets no promise");
}

/// Golden: the audit_2020 tests of tensorflow/privacy (alpha 0.01 over both rates; a group of
/// two divides the pure epsilon).
#[test]
fn clopper_pearson_over_models() {
    let counts = RateCounts::new(500, 500, 0, 500).unwrap();
    for sides in [Sides::One, Sides::Both] {
        let bound = counts.bound(sides, &terms(0.99, 0.0)).unwrap();
        let got = bound.lower.get().get();
        assert!((got - 4.541_915_810_224_092).abs() < 1e-9, "{got}");
        assert!((got / 2.0 - 2.270_957_905_11).abs() < 1e-9);
        assert_eq!(bound.assumes, Assumption::PureDp);
    }
    // One side sees nothing where only non-members are recognised.
    let lopsided = RateCounts::new(999, 1000, 500, 1000).unwrap();
    let one = lopsided.bound(Sides::One, &terms(0.95, 0.0)).unwrap();
    let both = lopsided.bound(Sides::Both, &terms(0.95, 0.0)).unwrap();
    assert!(one.lower.get().get() < 0.7 && both.lower.get().get() > 4.0);
}

/// Golden: epsilon_lower_bound_test of tensorflow/privacy, after asbio's ci.prat in R.
#[test]
fn ratio_limits() {
    let methods = [
        RatioMethod::KatzLog,
        RatioMethod::AdjustedLog,
        RatioMethod::Bailey,
        RatioMethod::InverseSinh,
    ];
    for ((tp, fns, fp, tn), expected) in [
        (
            (473, 511, 755, 950),
            [1.011_661_94, 1.011_890_79, 1.011_489_34, 1.011_676_69],
        ),
        (
            (1000, 10, 10, 10000),
            [
                589.273_355_93,
                568.326_595_63,
                613.587_661_47,
                592.632_645_72,
            ],
        ),
    ] {
        let counts = RateCounts::new(tp, tp + fns, fp, fp + tn).unwrap();
        for (method, wanted) in methods.into_iter().zip(expected) {
            let got = counts.ratio(method, Confidence::new(0.95).unwrap());
            let got = got.into_inner();
            assert!((got - wanted).abs() < 1e-6, "{method:?}: {got} {wanted}");
        }
    }
}

/// Golden: ln((TPR − delta)/FPR) over three thresholds, from jax_privacy's raw-count test.
#[test]
fn raw_counts_are_an_estimate() {
    for (delta, expected) in [(0.0, 3.0_f64.ln()), (0.125, std::f64::consts::LN_2)] {
        let delta = Delta::new(delta).unwrap();
        let at = |tp, fp| RateCounts::new(tp, 8, fp, 8).unwrap().raw(delta);
        let largest = [at(2, 0), at(6, 4), at(8, 8), at(0, 0)]
            .into_iter()
            .flatten()
            .map(|e| e.into_inner())
            .fold(0.0, f64::max);
        // The published rule interpolates to one false positive of eight: TPR 3/8.
        let interpolated = ((3.0 / 8.0 - delta.get()) * 8.0_f64).ln();
        assert!((largest.max(interpolated) - expected).abs() < 1e-12);
    }
}

/// Golden: (e^eps + delta)/(1 + e^eps) in double precision.
#[test]
fn accuracy_under_a_promise() {
    let delta = Delta::new(8e-5).unwrap();
    for (epsilon, expected) in [
        (0.0, 0.500_04),
        (0.1, 0.525_017_189_143_941_7),
        (1.0, 0.731_080_093_943_714_5),
        (3.0, 0.952_577_920_892_287_4),
    ] {
        let most = accuracy_ceiling(Epsilon::new(epsilon).unwrap(), delta).unwrap();
        assert!((most.get().get() - expected).abs() < 1e-10);
    }
}

/// Thresholds on the upper convex hull of the ROC curve as (tp, fp), both ends included.
fn hull(inside: &[f64], outside: &[f64]) -> Vec<(u64, u64)> {
    let mut all: Vec<f64> = inside.iter().chain(outside).copied().collect();
    all.push(f64::INFINITY);
    all.sort_by(|a, b| b.total_cmp(a));
    all.dedup();
    let (mut inside, mut outside) = (inside.to_vec(), outside.to_vec());
    inside.sort_by(|a, b| b.total_cmp(a));
    outside.sort_by(|a, b| b.total_cmp(a));
    let mut corners: Vec<(u64, u64)> = Vec::new();
    for threshold in all {
        let tp = inside.partition_point(|s| *s >= threshold) as u64;
        let fp = outside.partition_point(|s| *s >= threshold) as u64;
        let point = (tp, fp);
        while let [.., a, b] = corners[..] {
            let cross = (b.1 - a.1) as f64 * (point.0 as f64 - a.0 as f64)
                - (point.1 - a.1) as f64 * (b.0 as f64 - a.0 as f64);
            if cross < 0.0 {
                break;
            }
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// Golden: jax_privacy's auditor on deterministic normal scores (10 000 in, 10 000 out, delta
/// 1e-6, 95 %, shared by the corners of the hull), which it tests against itself. The hull is
/// chosen on the data, so that sharing by its corners alone is no valid correction: our own
/// thresholds are others (see the null simulations); the formulas below a threshold are the same.
#[test]
fn deterministic_normal_scores() {
    let n = 10_000;
    let base: Vec<f64> = (0..n)
        .map(|i| quantile((f64::from(i) + 0.5) / f64::from(n)))
        .collect();
    for (shift, run, rates, gaussian) in [
        (1.0, 1.133_46, 1.787_169_606_689_965, 4.334_711_957_148_129),
        (2.0, 2.311_945, 3.827_951_175_698_56, 10.240_682_641_626_485),
        (4.0, 4.395_568, 6.412_509_045_593_09, 24.690_521_244_210_97),
    ] {
        let moved: Vec<f64> = base.iter().map(|x| x + shift).collect();
        let corners = hull(&moved, &base);
        let all = n as u64;
        let each = terms(1.0 - 0.05 / corners.len() as f64, 1e-6);
        let (mut best, mut best_rates, mut best_gaussian) = (0.0_f64, 0.0_f64, 0.0_f64);
        for &(tp, fp) in &corners {
            let counts = RateCounts::new(tp, all, fp, all).unwrap();
            let bound = counts.bound(Sides::One, &each).unwrap();
            best_rates = best_rates.max(bound.lower.get().get());
            let bound = counts.gaussian_bound(&each).unwrap();
            best_gaussian = best_gaussian.max(bound.lower.get().get());
            let plain = AuditTerms {
                delta: Delta::ZERO,
                ..each.clone()
            };
            if one_run(2 * all, tp + fp, tp, &plain) > best {
                best = best.max(one_run(2 * all, tp + fp, tp, &each));
            }
        }
        assert!(
            (best / run - 1.0).abs() < 1e-5,
            "shift {shift}: one run {best}"
        );
        assert!(
            (best_rates / rates - 1.0).abs() < 1e-6,
            "shift {shift}: {best_rates}"
        );
        assert!(
            (best_gaussian / gaussian - 1.0).abs() < 1e-6,
            "shift {shift}: {best_gaussian}"
        );
    }
    let nothing = hull(&base, &base);
    assert!(
        nothing
            .iter()
            .all(|&(tp, fp)| one_run(2 * n as u64, tp + fp, tp, &terms(0.95, 1e-6)) <= 0.0)
    );
}

/// Φ⁻¹ by bisection on erfc: slow and independent of the crate's.
fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(-middle / std::f64::consts::SQRT_2) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// A model that recognises nothing, or the wrong way round, has no bound but 0 (jax_privacy's
/// GDP estimator gave 3.54 and 5.92 before its fix).
#[test]
fn null_and_reversed_scores_bound_nothing() {
    for (tp, fp) in [(2500, 2500), (800, 4200), (5, 4995), (0, 5000)] {
        let counts = RateCounts::new(tp, 5000, fp, 5000).unwrap();
        let gaussian = counts.gaussian_bound(&terms(0.95, 1e-5)).unwrap();
        assert!(gaussian.lower.get().get() <= 0.0, "{tp} {fp}");
        let one = counts.bound(Sides::One, &terms(0.95, 1e-5)).unwrap();
        assert!(one.lower.get().get() <= 0.0);
        assert!(f_dp(10_000, tp + fp, tp, &terms(0.95, 1e-5)) <= 0.0);
    }
}

/// More right guesses, less confidence, a larger δ: each moves the bound one way only.
#[test]
fn order() {
    for v in 60..100 {
        let base = one_run(500, 100, v, &terms(0.95, 1e-5));
        assert!(one_run(500, 100, v + 1, &terms(0.95, 1e-5)) >= base);
        assert!(one_run(500, 100, v, &terms(0.99, 1e-5)) <= base);
        assert!(one_run(500, 100, v, &terms(0.95, 1e-4)) <= base);
        assert!(one_run(5000, 100, v, &terms(0.95, 1e-5)) <= base);
        let gaussian = f_dp(500, 100, v, &terms(0.95, 1e-5));
        assert!(f_dp(500, 100, v + 1, &terms(0.95, 1e-5)) >= gaussian);
        assert!(f_dp(500, 100, v, &terms(0.99, 1e-5)) <= gaussian);
    }
}

/// The slack is what its formula says, term by term.
#[test]
fn slack_by_its_definition() {
    use reticent_accounting::{Probability, statistics::ln_binomial_probability};
    let mut rng = ChaCha8Rng::seed_from_u64(20);
    for _ in 0..300 {
        let r = rng.random_range(1..120);
        let v = rng.random_range(1..=r);
        let epsilon: f64 = rng.random_range(0.0..4.0);
        let q = Probability::new(1.0 / (1.0 + (-epsilon).exp())).unwrap();
        let pmf = |k| ln_binomial_probability(k, r, q).unwrap().exp();
        let tail: f64 = (v..=r).map(pmf).sum();
        let (mut sum, mut best) = (0.0, 0.0_f64);
        for i in 1..=v {
            sum += pmf(v - i);
            best = best.max(sum / i as f64);
        }
        let wanted = (tail + 2.0 * 300.0 * 1e-4 * best).min(1.0);
        let counts = OneRunCounts::new(300, r, v).unwrap();
        let got = counts
            .p_value(Epsilon::new(epsilon).unwrap(), Delta::new(1e-4).unwrap())
            .unwrap();
        let got = got.get().get();
        assert!(
            (got / wanted - 1.0).abs() < 1e-8,
            "{r} {v} {epsilon}: {got} {wanted}"
        );
    }
}

/// Randomised response is pure ε and attains the one-run bound's distribution: over 20 000 runs
/// (seed 4) of 100 coins at ε = 1 the 95 % bound exceeds 1 in at most 5 % of the runs; the test's
/// own false alarm, at four standard errors, is below 1e-4. It comes within reach of 1, too.
#[test]
fn the_bound_holds_and_is_tight_for_randomised_response() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let truth = 1.0_f64.exp() / (1.0 + 1.0_f64.exp());
    let terms = terms(0.95, 0.0);
    let bounds: Vec<f64> = (0..=100).map(|v| one_run(100, 100, v, &terms)).collect();
    let runs = 20_000;
    let wrong = (0..runs)
        .filter(|_| {
            let v = (0..100).filter(|_| rng.random_bool(truth)).count();
            bounds[v] > 1.0
        })
        .count() as f64;
    let rate = wrong / f64::from(runs);
    assert!(
        rate <= 0.05 + 4.0 * (0.05 * 0.95 / f64::from(runs)).sqrt(),
        "{rate}"
    );
    assert!(rate > 0.02, "the bound gives too much away: {rate}");
}

/// Clopper–Pearson over models: randomised response at ε = 1, both sides used, 20 000 audits of
/// 100 + 100 models (seed 5), exact outcome probabilities instead of a simulation of each.
#[test]
fn rates_hold_for_randomised_response() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let truth = 1.0_f64.exp() / (1.0 + 1.0_f64.exp());
    let runs = 4_000;
    let wrong = (0..runs)
        .filter(|_| {
            let tp = (0..100).filter(|_| rng.random_bool(truth)).count() as u64;
            let fp = (0..100).filter(|_| rng.random_bool(1.0 - truth)).count() as u64;
            let counts = RateCounts::new(tp, 100, fp, 100).unwrap();
            let bound = counts.bound(Sides::Both, &terms(0.95, 0.0)).unwrap();
            bound.lower.get().get() > 1.0
        })
        .count() as f64;
    let rate = wrong / f64::from(runs);
    assert!(
        rate <= 0.05 + 4.0 * (0.05 * 0.95 / f64::from(runs)).sqrt(),
        "{rate}"
    );
}

#[test]
fn impossible_counts_and_terms_are_named() {
    for (result, says) in [
        (
            OneRunCounts::new(0, 0, 0),
            "m (canaries) must lie in [1, 10^8], got 0",
        ),
        (
            OneRunCounts::new(10, 11, 1),
            "r (guesses) must lie in [0, m], got 11 of m = 10",
        ),
        (
            OneRunCounts::new(10, 5, 6),
            "v (right guesses) must lie in [0, r], got 6 of r = 5",
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), says);
    }
    assert!(
        RateCounts::new(3, 2, 0, 1)
            .unwrap_err()
            .to_string()
            .contains("n_in")
    );
    // What is read from a file is checked as well.
    let read = |text: &str| serde_json::from_str::<OneRunCounts>(text);
    assert!(read(r#"{"canaries":10,"guesses":20,"correct":20}"#).is_err());
    let good = OneRunCounts::new(10, 5, 4).unwrap();
    assert_eq!(read(&serde_json::to_string(&good).unwrap()).unwrap(), good);
    assert_eq!(
        (good.canaries(), good.guesses(), good.correct()),
        (10, 5, 4)
    );
    assert_eq!((good.best().correct(), good.inverted().correct()), (5, 1));
    let read = |text: &str| serde_json::from_str::<RateCounts>(text);
    assert!(read(r#"{"tp":600,"members":500,"fp":0,"non_members":500}"#).is_err());
    assert!(read(r#"{"tp":0,"members":0,"fp":0,"non_members":0}"#).is_err());
    let good = RateCounts::new(3, 5, 2, 7).unwrap();
    assert_eq!(read(&serde_json::to_string(&good).unwrap()).unwrap(), good);
    assert_eq!(good.best(), RateCounts::new(5, 5, 0, 7).unwrap());
    assert_eq!(good.inverted(), RateCounts::new(2, 5, 5, 7).unwrap());
    let counts = OneRunCounts::new(10, 10, 10).unwrap();
    let error = counts.gaussian_bound(&terms(0.95, 0.0)).unwrap_err();
    assert!(error.to_string().contains("infinite"), "{error}");
    let none = AuditTerms {
        copies: 0,
        ..terms(0.95, 0.0)
    };
    assert!(
        counts
            .bound(&none)
            .unwrap_err()
            .to_string()
            .contains("copies")
    );
    assert!(one_run(10, 0, 0, &terms(0.95, 1e-5)) <= 0.0);
}
