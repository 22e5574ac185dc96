//! Closed forms, and which questions are covered or refused.

use super::*;
use reticent_accounting::rdp::RdpCurve;
use reticent_accounting::training::steps_of_epochs;

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

/// Asked at its own δ, a stated promise is its ε, and what promises without δ adds to it; just below that δ
/// nothing is promised. The upper end was infinite at that δ too.
#[test]
fn a_stated_guarantee_is_its_epsilon_at_its_own_delta() {
    let stated = Mechanism::ApproxDp {
        epsilon: Epsilon::new(0.7).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    let pure = Mechanism::PureDp {
        epsilon: Epsilon::new(0.4).unwrap(),
        neighbours: Neighbours::AddRemove,
    };
    let both = Mechanism::Sequence {
        parts: vec![pure, stated.clone()],
    };
    let query = Query::single(Neighbours::AddRemove);
    for (run, most) in [(stated, 0.7), (both, 1.1)] {
        let upper = epsilon(&run, query, 1e-6);
        assert!((most..=most * (1.0 + 1e-9)).contains(&upper), "{upper}");
        assert!(epsilon(&run, query, 1e-6f64.next_down()).is_infinite());
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
            "{low} {high} at {epsilon}"
        );
    }
}

#[test]
fn a_started_epoch_counts_whole() {
    // 1001 steps of 1/1000 of the records: two passes, each seen once without amplification.
    let run = |steps: u64| {
        repeat(
            steps,
            Mechanism::SubsampledGaussian {
                noise_multiplier: noise(2.0),
                sampling_rate: rate(1e-3),
                sampling: Sampling::Shuffled,
            },
        )
    };
    let plain = |times: u64| {
        repeat(
            times,
            Mechanism::Gaussian {
                noise_multiplier: noise(2.0),
            },
        )
    };
    let query = Query::single(Neighbours::ZeroOut);
    for (steps, epochs) in [(1001, 2), (1000, 1)] {
        let found = epsilon(&run(steps), query, 1e-5) / epsilon(&plain(epochs), query, 1e-5);
        assert!((found - 1.0).abs() < 1e-8, "{found}");
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
        &gaussian(Sampling::Shuffled),
        Query::single(Neighbours::Replace),
        Direction::Remove,
    )
    .unwrap();
    let found = loss
        .epsilon(Delta::new(1e-5).unwrap(), Tolerance::DEFAULT)
        .unwrap();
    assert!(found.bounds.lower.is_none() && found.bounds.upper.is_some());
}

#[test]
fn an_epoch_has_as_many_steps_as_a_loader_that_keeps_its_last_batch() {
    let steps = |epochs: f64, rate: f64| {
        let rate = SamplingRate::new(rate).unwrap();
        let found = steps_of_epochs(epochs, Steps::per_epoch(rate).get());
        found.map(Steps::get).ok()
    };
    // 1/0.28 = 3.57: four steps an epoch, as the trainer takes them, and not ⌈10/0.28⌉ = 36
    assert_eq!(steps(10.0, 0.28), Some(40));
    assert_eq!(steps(0.3, 0.28), Some(2));
    assert_eq!(steps(3.0, 1.0), Some(3));
    assert_eq!(steps(2.0, 0.7), Some(4));
    assert_eq!(steps(0.0, 0.5), None);
    assert_eq!(steps(f64::NAN, 0.5), None);
    assert_eq!(steps(1e300, 0.5), None);
}
