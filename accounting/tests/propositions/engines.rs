//! Profiles, conversions and truncation. The engines' own error terms have their tests beside
//! the code, and the independent oracle in `tests/oracle.rs`.

use super::finite::{
    both, delta, delta_of, dp_sgd, epsilon, epsilon_of, excess, gaussian, law, least_delta_of,
    loss, query, tight,
};
use proptest::prelude::*;
use reticent_accounting::pld::Mixture;
use reticent_accounting::pld::{Profile, ProfilePoint};
use reticent_accounting::rdp::{epsilon_from_renyi, epsilon_from_renyi_classic};
use reticent_accounting::{Delta, Direction, Lower, Neighbours, Order, Upper};

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// δ is convex in e^ε: chords of a finite pair's profile lie above it, extended chords below.
    #[test]
    fn chords_and_tangents_enclose_the_profile(
        p in law(6), q in law(6),
        mut spots in proptest::collection::vec(0.0f64..3.0, 3..7),
        at in 0.0f64..3.0,
    ) {
        spots.sort_by(f64::total_cmp);
        spots.dedup();
        let points = spots.iter().map(|e| {
            let exact = Delta::new(both(&p, &q, *e).min(1.0)).unwrap();
            ProfilePoint { epsilon: epsilon(*e), delta_lower: Lower::new(exact), delta_upper: Upper::new(exact) }
        });
        let known = Profile::from_points(query(Neighbours::Replace, 1), points.collect()).unwrap();
        let truth = both(&p, &q, at);
        let found = known.delta(epsilon(at)).unwrap();
        prop_assert!(found.lower.unwrap().get().get() <= truth + 1e-12);
        prop_assert!(truth <= found.upper.unwrap().get().get() + 1e-12);
        // And back: ε at a δ.
        let wish = delta(0.1);
        if let Some(promised) = known.epsilon(wish).unwrap().upper {
            prop_assert!(both(&p, &q, promised.get().get()) <= 0.1 + 1e-12);
        }
    }

    /// Composition: the Gaussian engine against the product of finite laws cut from it is in
    /// `dominance`; here the order of ends for random runs.
    #[test]
    fn lower_ends_stay_below_upper_ends(rate in 0.001f64..1.0, sigma in 0.5f64..8.0, steps in 1u64..5000, at in 0.0f64..6.0) {
        let pair = loss(&dp_sgd(sigma, rate, steps), query(Neighbours::AddRemove, 1), Direction::Remove);
        prop_assert!(least_delta_of(&pair, at) <= delta_of(&pair, at));
    }

    /// Canonne, Kamath and Steinke, Prop. 12: a Rényi divergence of any order promises (ε, δ).
    #[test]
    fn renyi_divergences_convert(p in law(5), q in proptest::collection::vec(0.05f64..1.0, 5), order in 1.05f64..30.0, exponent in -6.0f64..-0.3) {
        let total: f64 = q.iter().sum();
        let q: Vec<f64> = q.iter().map(|x| x / total).collect();
        let moment: f64 = p.iter().zip(&q).map(|(p, q)| p.powf(order) * q.powf(1.0 - order)).sum();
        let renyi = Upper::new(moment.ln() / (order - 1.0));
        let (order, wish) = (Order::new(order).unwrap(), delta(10f64.powf(exponent)));
        let promised = epsilon_from_renyi(order, renyi, wish).unwrap();
        prop_assert!(excess(&p, &q, promised.get().get()) <= wish.get() + 1e-12);
        let classic = epsilon_from_renyi_classic(order, renyi, wish).unwrap();
        prop_assert!(promised.get() <= classic.get());
    }

    /// Rényi accounting is never below the loss itself.
    #[test]
    fn renyi_accounting_is_looser(rate in 0.01f64..0.5, sigma in 0.7f64..4.0, steps in 1u64..500, exponent in -9.0f64..-3.0) {
        let pair = loss(&dp_sgd(sigma, rate, steps), query(Neighbours::AddRemove, 1), Direction::Remove);
        let wish = delta(10f64.powf(exponent));
        let least = pair.epsilon(wish, tight()).unwrap().bounds.lower.unwrap();
        let (promised, _) = pair.epsilon_by_rdp(wish).unwrap();
        prop_assert!(least.get() <= promised.get());
    }

    /// A mixture without its far components, as first argument: δ grows by at most what was dropped;
    /// as second argument it falls not at all.
    #[test]
    fn dropped_mass_is_paid_once(rate in 0.01f64..0.5, count in 1u32..8, mass in 1e-6f64..0.2, at in 0.0f64..2.0) {
        let whole = Mixture::binomial(count, rate, 1.5).unwrap();
        let kept = whole.trimmed(mass);
        prop_assert!(kept.missing() <= mass * (1.0 + 1e-9));
        // Far apart: each component an outcome of its own.
        let weights = |m: &Mixture| -> Vec<f64> {
            let mut out: Vec<f64> = m.components().map(|(_, w)| w.exp()).collect();
            out.resize(count as usize + 1, 0.0);
            out
        };
        let other: Vec<f64> = weights(&Mixture::binomial(count, 0.3, 1.5).unwrap());
        let (all, some) = (weights(&whole), weights(&kept));
        prop_assert!(excess(&all, &other, at) <= excess(&some, &other, at) + kept.missing() + 1e-12);
        prop_assert!(excess(&other, &all, at) <= excess(&other, &some, at) + 1e-12);
    }
}

/// Tight: a straight line in e^ε (randomised response) is met by its chords exactly, and the
/// conversion is attained in the limit of a law with one rare, large loss.
#[test]
fn randomised_response_is_a_straight_line() {
    let (p, q) = ([0.8, 0.2], [0.2, 0.8]);
    let ends: Vec<ProfilePoint> = [0.0, 1.2]
        .iter()
        .map(|e| {
            let exact = Delta::new(both(&p, &q, *e)).unwrap();
            ProfilePoint {
                epsilon: epsilon(*e),
                delta_lower: Lower::new(exact),
                delta_upper: Upper::new(exact),
            }
        })
        .collect();
    let known = Profile::from_points(query(Neighbours::Replace, 1), ends).unwrap();
    for at in [0.3, 0.7, 1.1] {
        let found = known.delta(epsilon(at)).unwrap().upper.unwrap();
        assert!((found.get().get() - both(&p, &q, at)).abs() < 1e-12);
    }
    // δ = max over laws with E_Q e^{αL} = M of H: the two-point law of the proof, for an M above one.
    let (alpha, at) = (4.0f64, 2.5f64);
    let ratio = at.exp() * alpha / (alpha - 1.0);
    let rare = 1e-4;
    let (p, q) = ([rare * ratio, 1.0 - rare * ratio], [rare, 1.0 - rare]);
    let moment: f64 = rare * ratio.powf(alpha);
    let truth = excess(&p, &q, at);
    let found = epsilon_from_renyi(
        Order::new(alpha).unwrap(),
        Upper::new(moment.ln() / (alpha - 1.0)),
        delta(truth),
    )
    .unwrap();
    assert!((found.get().get() - at).abs() < 1e-9, "{found:?}");
    // What is no profile is refused.
    let mut points = known.points().to_vec();
    points.reverse();
    assert!(Profile::from_points(query(Neighbours::Replace, 1), points).is_err());
}

/// Trap: a central-limit μ as a bound. q = 1e-4, σ = 0.5, a million steps, δ = 1e-5: 3.06 for a
/// true 3.898.
#[test]
fn a_central_limit_is_no_bound() {
    let (rate, sigma, steps) = (1e-4f64, 0.5f64, 1e6f64);
    let mu = rate * (steps * (sigma.powi(-2).exp_m1())).sqrt();
    let limit = loss(
        &gaussian(1.0 / mu),
        query(Neighbours::AddRemove, 1),
        Direction::Remove,
    );
    let estimate = epsilon_of(&limit, 1e-5);
    assert!((estimate - 3.0616).abs() < 1e-3, "{estimate}");
    let pair = loss(
        &dp_sgd(sigma, rate, 1_000_000),
        query(Neighbours::AddRemove, 1),
        Direction::Remove,
    );
    let found = pair.epsilon(delta(1e-5), tight()).unwrap().bounds;
    assert!(
        found.lower.unwrap().get().get() > 3.89 && found.upper.unwrap().get().get() >= 3.898_153_6
    );
}

/// Trap: renormalised truncation. Scaling the second argument back to one hides what was dropped.
#[test]
fn renormalising_the_second_argument_under_reports() {
    let first = [0.5, 0.3, 0.2, 0.0];
    let second = [0.35, 0.3, 0.2, 0.15];
    let truth = excess(&first, &second, 0.0);
    let kept: Vec<f64> = second[..3].iter().map(|q| q / 0.85).chain([0.0]).collect();
    assert!(excess(&first, &kept, 0.0) < 0.65 * truth);
    // The kept part unscaled, as a mixture of ours is: never below the truth.
    let unscaled = [0.35, 0.3, 0.2, 0.0];
    assert!(excess(&first, &unscaled, 0.0) >= truth - 1e-15);
    let trimmed = Mixture::new(vec![
        (0.0, 0.5f64.ln()),
        (1.0, 0.3f64.ln()),
        (9.0, 0.2f64.ln()),
    ])
    .unwrap()
    .trimmed(0.25);
    let left: f64 = trimmed.components().map(|(_, w)| w.exp()).sum();
    assert!((left - 0.8).abs() < 1e-12 && (trimmed.missing() - 0.2).abs() < 1e-10);
}

/// Zero-out is no bound on two contents: under replace the divergence per step is up to four
/// times as large (k = 100, ρ = 1.2e-3, σ = 45).
#[test]
fn zero_out_is_not_replace() {
    let run = dp_sgd(45.0, 1.2e-3, 1);
    let of = |neighbours| {
        *loss(&run, query(neighbours, 100), Direction::Remove)
            .divergence()
            .unwrap()
            .get()
    };
    assert!((of(Neighbours::ZeroOut) / 3.556e-6 - 1.0).abs() < 1e-3);
    assert!((of(Neighbours::Replace) / 1.422e-5 - 1.0).abs() < 1e-3);
}
