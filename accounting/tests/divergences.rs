//! zCDP, χ² and the closed reconstruction bounds against quadrature, finite mechanisms and the
//! blow-up itself.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use crate::common::{Case, simpson};
use proptest::prelude::*;
use reticent_accounting::rdp::{RdpCurve, Zcdp, epsilon_from_renyi, epsilon_from_renyi_classic};
use reticent_accounting::reconstruction::chi_square::chi_square_posterior;
use reticent_accounting::reconstruction::closed::{approximate_blow_up, balle_cherubin_hayes};
use reticent_accounting::reconstruction::fano::renyi_posterior;
use reticent_accounting::{
    Delta, Direction, Divergence, Epsilon, GroupSize, Mechanism, Method, Neighbours,
    NoiseMultiplier, Order, Plan, PrivacyLoss, Probability, Query, Sampling, SamplingRate, Steps,
    Tolerance, UnitName, Upper,
};

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

fn epsilon(e: f64) -> Epsilon {
    Epsilon::new(e).unwrap()
}

fn delta(d: f64) -> Delta {
    Delta::new(d).unwrap()
}

fn order(a: f64) -> Order {
    Order::new(a).unwrap()
}

/// The χ²-divergence, from the Rényi divergence of order 2.
fn chi_square(loss: &PrivacyLoss) -> f64 {
    let curve = RdpCurve::of(loss, &[order(2.0)]).unwrap();
    curve.divergences()[0].get().exp_m1()
}

/// D_α of binary randomised response, from its four probabilities.
fn response_divergence(e: f64, alpha: f64) -> f64 {
    let (yes, no) = (1.0 / (1.0 + (-e).exp()), 1.0 / (1.0 + e.exp()));
    let sum = yes.powf(alpha) * no.powf(1.0 - alpha) + no.powf(alpha) * yes.powf(1.0 - alpha);
    sum.ln() / (alpha - 1.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, max_shrink_iters: 8, ..ProptestConfig::default() })]

    /// ε tanh(ε/2) covers randomised response at every order, tightly at orders near one.
    #[test]
    fn pure_privacy_is_concentrated(e in 0.01f64..12.0, alpha in 1.001f64..50.0) {
        let rho = *Zcdp::pure(epsilon(e)).rho().get();
        prop_assert!(response_divergence(e, alpha) <= rho * alpha * (1.0 + 1e-9) + 1e-12);
        prop_assert!(response_divergence(e, 1.0001) >= rho * (1.0 - 1e-3));
        prop_assert!(rho <= 0.5 * e * e);
        // Any pair of laws with losses within ±ε: three atoms as a witness beyond the extreme one.
        let (a, b) = (0.3, 0.2);
        let loss = [e, 0.0, -e];
        let q = [a, 1.0 - a - b, b];
        let total: f64 = q.iter().zip(loss).map(|(q, l)| q * l.exp()).sum();
        let moment: f64 = q.iter().zip(loss).map(|(q, l)| q * (alpha * (l - total.ln())).exp()).sum();
        // Losses shift by ln total, so that the pair is 2ε-DP at most.
        let wider = *Zcdp::pure(epsilon(2.0 * e)).rho().get();
        prop_assert!(moment.ln() / (alpha - 1.0) <= wider * alpha * (1.0 + 1e-9) + 1e-12);
    }

    /// The exponential mechanism's worst pair: losses within a range of ε.
    #[test]
    fn a_bounded_range_is_concentrated(e in 0.01f64..8.0, share in 0.01f64..0.99, alpha in 1.001f64..50.0) {
        let rho = *Zcdp::bounded_range(epsilon(e)).rho().get();
        prop_assert!(rho <= 0.125 * e * e * (1.0 + 1e-12));
        // Losses t and t − ε with Q-masses s and 1 − s, t from Σ q e^L = 1.
        let shift = -(share * e.exp() + 1.0 - share).ln();
        let moment = share * (alpha * (e + shift)).exp() + (1.0 - share) * (alpha * shift).exp();
        prop_assert!(moment.ln() / (alpha - 1.0) <= rho * alpha * (1.0 + 1e-9) + 1e-12);
    }

    /// Mixtures stay below their farthest components at every order.
    #[test]
    fn mixtures_stay_below_their_farthest(
        rate in 0.01f64..1.0, sigma in 0.7f64..5.0, steps in 1u64..50, group in 1u32..4,
        neighbours in prop_oneof![Just(Neighbours::AddRemove), Just(Neighbours::Replace)],
        direction in prop_oneof![Just(Direction::Remove), Just(Direction::Add)], alpha in 1.01f64..20.0,
    ) {
        let case = Case { rate, sigma, steps, group, neighbours, direction };
        let run = Mechanism::dp_sgd(
            NoiseMultiplier::new(sigma).unwrap(), SamplingRate::new(rate).unwrap(), Steps::new(steps));
        let query = Query { neighbours, group: GroupSize::new(group).unwrap() };
        let rho = *Zcdp::of(&run, query).unwrap().rho().get();
        let curve = RdpCurve::of(&case.loss(), &[order(alpha)]).unwrap();
        prop_assert!(*curve.divergences()[0].get() <= rho * alpha * (1.0 + 1e-9));
        let reach = f64::from(group) * if neighbours == Neighbours::Replace { 2.0 } else { 1.0 };
        let exact = steps as f64 * reach * reach / (2.0 * sigma * sigma);
        prop_assert!((rho / exact - 1.0).abs() < 1e-12);
    }

    /// ε(δ) is the least over orders, and δ(ε) is its inverse.
    #[test]
    fn conversions_use_the_best_order(rho in 1e-4f64..20.0, digits in 1.0f64..100.0) {
        let zcdp = Zcdp::new(Upper::new(rho)).unwrap();
        let at = delta(10f64.powf(-digits));
        let best = zcdp.epsilon(at).unwrap().get().get();
        for i in 1..400 {
            let alpha = 1.0 + 10f64.powf(-3.0 + 0.02 * f64::from(i));
            let one = epsilon_from_renyi(order(alpha), Upper::new(rho * alpha), at).unwrap();
            prop_assert!(best <= one.get().get() * (1.0 + 1e-9) + 1e-12, "{best} at order {alpha}");
        }
        if best > 1e-6 {
            let back = zcdp.delta(epsilon(best)).unwrap().get().get();
            prop_assert!((back.ln() / at.get().ln() - 1.0).abs() < 1e-6, "{back} {at}");
        }
        // Never below the Gaussian that attains every order.
        let plain = Mechanism::Gaussian { noise_multiplier: NoiseMultiplier::new((0.5 / rho).sqrt()).unwrap() };
        let loss = reticent_accounting::PrivacyLoss::of(&plain, Query::single(Neighbours::AddRemove), Direction::Remove).unwrap();
        let truth = loss.epsilon(at, Tolerance::new(1e-6).unwrap()).unwrap().bounds.lower.unwrap();
        prop_assert!(truth.get().get() <= best * (1.0 + 1e-9) + 1e-12);
        let truth = loss.delta(epsilon(best), Tolerance::new(1e-6).unwrap()).unwrap().bounds.lower.unwrap();
        prop_assert!(truth.get().get() <= zcdp.delta(epsilon(best)).unwrap().get().get());
    }

    /// χ² of one step against ∫ p²/q.
    #[test]
    fn chi_square_is_its_integral(
        rate in 0.01f64..1.0, sigma in 0.9f64..5.0, group in 1u32..3,
        direction in prop_oneof![Just(Direction::Remove), Just(Direction::Add)],
    ) {
        let case = Case { rate, sigma, steps: 1, group, neighbours: Neighbours::AddRemove, direction };
        // The integrand is a bell around 2k at worst.
        let reach = 2.0 * f64::from(group) + 9.0 * sigma;
        let truth = simpson(|x| {
            let (p, q) = case.densities(x);
            if q > 0.0 { (p - q) * (p - q) / q } else { 0.0 }
        }, -reach, reach, 8_000);
        let value = chi_square(&case.loss());
        prop_assert!(value >= truth * (1.0 - 1e-9) && value <= truth * (1.0 + 1e-6) + 1e-12, "{value} {truth} {case:?}");
    }

    /// No divergence bound undercuts the blow-up, whatever it drops on the way. Order 2 is the χ²-divergence, so the best
    /// order gives no more than that: 1e-6 relative for the rounding errors of a divergence near zero.
    #[test]
    fn bounds_by_divergence_stay_above_the_blow_up(
        rate in 1e-4f64..0.3, sigma in 0.05f64..4.0, group in 1u32..12, digits in 0.3f64..9.0,
    ) {
        // One step: its blow-up is a closed form.
        let case = Case { rate, sigma, steps: 1, group, neighbours: Neighbours::ZeroOut, direction: Direction::Remove };
        let prior = probability(10f64.powf(-digits));
        let loss = case.loss();
        let Ok(bound) = loss.chi_square_fano(prior) else { return Ok(()) };
        let exact = loss.blow_up(prior, Tolerance::new(1e-6).unwrap()).unwrap().bounds.lower.unwrap();
        prop_assert!(exact.get() <= bound.get(), "{} above {}: {case:?}", exact.get(), bound.get());
        let renyi = loss.renyi_fano(prior).unwrap().0;
        prop_assert!(exact.get() <= renyi.get(), "{} above {}: {case:?}", exact.get(), renyi.get());
        let (renyi, bound) = (renyi.get().get(), bound.get().get());
        prop_assert!(renyi <= bound * (1.0 + 1e-6), "{renyi} above {bound}: {case:?}");
    }

    /// Laplace noise moved by m: E_P[L] = x + e^{−x} − 1 with x = m/b a step, from tiny losses to ones whose
    /// exponentials are no numbers. The bound on roundings grows with the loss.
    #[test]
    fn the_divergence_of_laplace_noise_is_its_formula(
        digits in -2.0f64..2.0, group in 1u32..1000, steps in 1u64..1000,
    ) {
        let scale = NoiseMultiplier::new(10f64.powf(digits)).unwrap();
        let run = Mechanism::Repeat { times: Steps::new(steps), each: Box::new(Mechanism::Laplace { scale }) };
        let query = Query { neighbours: Neighbours::AddRemove, group: GroupSize::new(group).unwrap() };
        let x = f64::from(group) / scale.get();
        let each = if x < 0.1 {
            // Σ (−x)^k/k! from k = 2 on.
            (2..12).rev().fold(0.0, |sum, k| (1.0 - sum) * x / f64::from(k)) * x
        } else {
            x + (-x).exp_m1()
        };
        let exact = steps as f64 * each;
        for direction in Direction::BOTH {
            let upper = *PrivacyLoss::of(&run, query, direction).unwrap().divergence().unwrap().get();
            prop_assert!(exact * (1.0 - 1e-12) <= upper && upper <= exact * (1.0 + 1e-9 * (1.0 + x)), "{x} {exact} {upper}");
        }
    }

    /// (r − p)² = χ² p(1 − p), and the two-outcome pair that attains it.
    #[test]
    fn the_posterior_solves_its_equation(p in 1e-9f64..0.999, up in 0.0f64..1.0) {
        let r = p + up * (1.0 - p);
        let divergence = (r - p) * (r - p) / (p * (1.0 - p));
        let found = chi_square_posterior(Upper::new(divergence), probability(p)).unwrap().get().get();
        prop_assert!(found >= r * (1.0 - 1e-14) && found <= r * (1.0 + 1e-9) + 1e-15, "{found} {r}");
    }

    /// The blow-up of (ε, δ) against all lines that the definition gives, and its Rényi cousin
    /// against the form that keeps the wrong guesses.
    #[test]
    fn closed_bounds_are_what_their_definitions_give(
        e in 0.0f64..20.0, d in prop_oneof![Just(0.0), 0.0f64..0.9], p in 1e-12f64..1.0,
        alpha in 1.01f64..64.0, rho in 0.0f64..5.0,
    ) {
        let found = approximate_blow_up(epsilon(e), delta(d), probability(p)).get().get();
        // P(E) ≤ e^ε Q(E) + δ, and 1 − Q(E) ≤ e^ε (1 − P(E)) + δ.
        let least = (e.exp() * p + d).min(1.0 - (-e).exp() * (1.0 - p - d)).clamp(p, 1.0);
        prop_assert!((found - least).abs() <= 1e-12 * least + 1e-15, "{found} {least}");
        prop_assert!(found >= least * (1.0 - 1e-15));
        let weak = balle_cherubin_hayes(order(alpha), Upper::new(rho), probability(p)).unwrap();
        let strong = renyi_posterior(order(alpha), Upper::new(rho), probability(p)).unwrap();
        prop_assert!(strong.get().get() <= weak.get().get().max(p) * (1.0 + 1e-12));
    }
}

/// Randomised response with a failure probability attains the blow-up of (ε, δ).
#[test]
fn the_approximate_blow_up_is_attained() {
    let (e, d) = (1.0f64, 0.1);
    // P and Q on {told, yes, no, told the other}: loss ∞, ε, −ε, −∞.
    let (yes, no) = (e.exp() / (1.0 + e.exp()), 1.0 / (1.0 + e.exp()));
    let p = [d, (1.0 - d) * yes, (1.0 - d) * no, 0.0];
    let q = [0.0, (1.0 - d) * no, (1.0 - d) * yes, d];
    for prior in [0.01, 0.2, 0.5, 0.9, 0.95] {
        // Fill the test from the largest loss down.
        let (mut left, mut hits) = (prior, 0.0);
        for (p, q) in p.iter().zip(q) {
            let share = if q > 0.0 { (left / q).min(1.0) } else { 1.0 };
            hits += share * p;
            left -= share * q;
        }
        let found = approximate_blow_up(epsilon(e), delta(d), probability(prior));
        assert!((found.get().get() - hits).abs() < 1e-14, "{prior}: {hits}");
    }
}

/// A batch that nearly always misses the record: without it the laws agree, and its mass has to
/// come back.
#[test]
fn dropped_mass_is_added_to_the_posterior() {
    let case = Case {
        rate: 0.05,
        sigma: 0.1,
        steps: 1,
        group: 1,
        neighbours: Neighbours::ZeroOut,
        direction: Direction::Remove,
    };
    let bound = case.loss().chi_square_fano(probability(1e-3)).unwrap();
    let truth = 0.05 + 0.95 * 1e-3;
    assert!(bound.get().get() >= truth - 1e-9 && bound.get().get() < 1.2 * truth);
    // Hush!'s secret at σ = 2, p = 1e-10: the raw χ² says nothing, trimmed it says something.
    let many = Case {
        rate: 20480.0 / 1.7e7,
        sigma: 2.0,
        steps: 2000,
        group: 100,
        ..case
    };
    let loss = many.loss();
    let raw = chi_square_posterior(Upper::new(chi_square(&loss)), probability(1e-10)).unwrap();
    let trimmed = loss.chi_square_fano(probability(1e-10)).unwrap();
    assert!(trimmed.get() <= raw.get() && trimmed.get().get() > 3.0e-4);
}

#[test]
fn zcdp_refuses_what_it_does_not_know() {
    let noise = NoiseMultiplier::new(1.0).unwrap();
    let rate = SamplingRate::new(0.1).unwrap();
    let sampled = |sampling| Mechanism::SubsampledGaussian {
        noise_multiplier: noise,
        sampling_rate: rate,
        sampling,
    };
    let single = Query::single;
    for sampling in [
        Sampling::WithReplacement,
        Sampling::Shuffled,
        Sampling::BallsInBins,
        Sampling::WithoutReplacement,
    ] {
        assert!(Zcdp::of(&sampled(sampling), single(Neighbours::AddRemove)).is_err());
    }
    let fixed = Zcdp::of(
        &sampled(Sampling::WithoutReplacement),
        single(Neighbours::Replace),
    );
    assert!((fixed.unwrap().rho().get() - 2.0).abs() < 1e-12);
    for mechanism in [
        Mechanism::NonPrivate { why: "none".into() },
        Mechanism::ApproxDp {
            epsilon: epsilon(1.0),
            delta: delta(1e-6),
            neighbours: Neighbours::AddRemove,
        },
    ] {
        assert!(Zcdp::of(&mechanism, single(Neighbours::AddRemove)).is_err());
    }
    let pure = |neighbours| Mechanism::PureDp {
        epsilon: epsilon(0.5),
        neighbours,
    };
    // A replacement is two steps of add/remove; the other way round nothing is known.
    let twice = Zcdp::of(&pure(Neighbours::AddRemove), single(Neighbours::Replace)).unwrap();
    assert!((twice.rho().get() - 0.5f64.tanh()).abs() < 1e-12);
    assert!(Zcdp::of(&pure(Neighbours::Replace), single(Neighbours::AddRemove)).is_err());
    let sequence = Mechanism::Sequence {
        parts: vec![
            Mechanism::Gaussian {
                noise_multiplier: noise,
            },
            Mechanism::Repeat {
                times: Steps::new(3),
                each: Box::new(pure(Neighbours::AddRemove)),
            },
        ],
    };
    let total = Zcdp::of(&sequence, single(Neighbours::AddRemove)).unwrap();
    assert!((total.rho().get() - (0.5 + 3.0 * 0.5 * 0.25f64.tanh())).abs() < 1e-12);
    assert!(Zcdp::new(Upper::new(-1.0)).is_err() && Zcdp::new(Upper::new(f64::NAN)).is_err());
    // Ends of the range.
    let free = Zcdp::new(Upper::new(0.0)).unwrap();
    assert!(free.epsilon(delta(1e-300)).unwrap().get().get() <= 0.0);
    assert!(free.delta(epsilon(0.0)).unwrap().get().get() <= 0.0);
    let lost = Zcdp::new(Upper::new(f64::INFINITY)).unwrap();
    assert!(lost.epsilon(delta(0.1)).unwrap().get().get() == f64::INFINITY);
    for e in [5.0, f64::INFINITY] {
        assert!(lost.delta(epsilon(e)).unwrap().get().get() >= 1.0);
    }
    for rho in [1e-12, 1.0, 1e6] {
        let zcdp = Zcdp::new(Upper::new(rho)).unwrap();
        let found = zcdp.epsilon(delta(1e-300)).unwrap().get().get();
        assert!(found.is_finite() && found > 0.0, "rho {rho}: {found}");
    }
}

/// Minimised over orders with moments by quadrature in double precision on 40 001 points (NumPy), the inequality solved
/// by bisection. 1e-7 absolute: the digits given.
#[test]
fn fano_for_renyi_is_the_inequality_at_the_best_order() {
    for (sigma, rate, steps, prior, best, at) in [
        (0.8, 0.05, 200, 0.01, 0.237_711_4, 1.767),
        (0.5, 1.0, 1, 0.01, 0.548_674_1, 1.322),
        (0.5, 1.0, 1, 0.001, 0.225_325_4, 1.806),
    ] {
        let case = Case {
            rate,
            sigma,
            steps,
            group: 1,
            neighbours: Neighbours::ZeroOut,
            direction: Direction::Remove,
        };
        let (found, order) = case.loss().renyi_fano(probability(prior)).unwrap();
        let found = found.get().get();
        assert!((found - best).abs() < 1e-7, "{case:?}: {found}");
        assert!((order.get() - at).abs() < 0.01, "{case:?}: {}", order.get());
    }
    // Of divergences that are only stated, D_α ≤ α/2 here, the blow-up's row says no more.
    let stated = Mechanism::Zcdp {
        rho: Divergence::new(0.5).unwrap(),
        xi: Divergence::ZERO,
        neighbours: Neighbours::ZeroOut,
    };
    let unit = UnitName::new("record").unwrap();
    let plan = Plan {
        neighbours: Neighbours::ZeroOut,
        prior: Some(probability(0.01)),
        ..Plan::new(stated, unit, delta(1e-5))
    };
    let rows = plan.guarantees().unwrap();
    let mut rows = rows.iter().filter(|row| row.method == Method::RenyiFano);
    let row = rows.next().unwrap();
    assert!(rows.next().is_none());
    let found = row.posterior.unwrap().upper.unwrap().get().get();
    assert!((found - 0.124_589_2).abs() < 1e-7, "{found}");
    assert!((row.order.unwrap().get() - 2.91).abs() < 0.02, "{row:?}");
}

#[test]
fn negative_divergences_are_refused() {
    let (order, delta) = (Order::new(2.0).unwrap(), Delta::new(1e-5).unwrap());
    for bad in [-1e9, f64::NAN] {
        let found = epsilon_from_renyi(order, Upper::new(bad), delta).unwrap_err();
        assert!(found.to_string().contains("Rényi divergence"), "{found}");
        assert!(epsilon_from_renyi_classic(order, Upper::new(bad), delta).is_err());
        assert!(Zcdp::new(Upper::new(bad)).is_err());
    }
}
