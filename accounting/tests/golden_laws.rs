//! Golden numbers of mechanisms that are not Gaussian: closed forms, and two values of a peer's
//! unit tests. The certified ends must enclose each number and lie close together.

use reticent_accounting::rdp::{RdpCurve, Zcdp};
use reticent_accounting::trade_off::true_positive_rate;
use reticent_accounting::{
    Delta, Direction, Epsilon, GroupSize, Mechanism, Neighbours, NoiseMultiplier, Order,
    PrivacyLoss, Probability, Query, Steps, Tolerance,
};

const NEIGHBOURS: Neighbours = Neighbours::AddRemove;

fn loss(run: &Mechanism, neighbours: Neighbours) -> PrivacyLoss {
    PrivacyLoss::of(run, Query::single(neighbours), Direction::Remove).unwrap()
}

fn pure(epsilon: f64) -> Mechanism {
    Mechanism::PureDp {
        epsilon: Epsilon::new(epsilon).unwrap(),
        neighbours: NEIGHBOURS,
    }
}

fn laplace() -> Mechanism {
    Mechanism::Laplace {
        scale: NoiseMultiplier::new(1.0).unwrap(),
    }
}

/// Both ends, to a relative `digits` (absolute below one), around the number.
fn encloses(low: f64, high: f64, expected: f64, digits: f64) {
    let near = digits * expected.abs().min(1.0);
    assert!(
        low <= expected + near && expected <= high + near,
        "{low} {expected} {high}"
    );
    assert!(high - low <= 4.0 * near, "{low} {high} {near}");
    assert!(
        (0.5 * (low + high) - expected).abs() <= near,
        "{low} {expected} {high}"
    );
}

/// An upper end alone: no lower than the number, and above it by no more than its own roundings.
fn just_above(found: f64, expected: f64) {
    let share = found / expected - 1.0;
    assert!((-1e-15..1e-13).contains(&share), "{found} {expected}");
}

fn delta(run: &Mechanism, epsilon: f64, expected: f64, digits: f64) {
    let answer = loss(run, NEIGHBOURS)
        .delta(
            Epsilon::new(epsilon).unwrap(),
            Tolerance::new(1e-10).unwrap(),
        )
        .unwrap();
    let high = answer.bounds.upper.unwrap().get().get();
    let low = answer.bounds.lower.unwrap().get().get();
    encloses(low, high, expected, digits);
}

fn renyi(loss: &PrivacyLoss, alpha: f64, expected: f64, digits: f64) {
    let ends = RdpCurve::bounds(loss, &[Order::new(alpha).unwrap()]).unwrap()[0];
    let (low, high) = (*ends.lower.unwrap().get(), *ends.upper.unwrap().get());
    encloses(low, high, expected, digits);
}

#[test]
fn divergences_of_laplace_and_randomised_response() {
    // laplace_rdp_2, laplace_rdp_10: Mironov 2017.
    let noise = loss(&laplace(), NEIGHBOURS);
    for (alpha, expected) in [(2.0, 0.6191236299985928), (10.0, 0.9286829020966803)] {
        renyi(&noise, alpha, expected, 1e-13);
    }
    // laplace_kl: e^{−1/b} + 1/b − 1.
    just_above(*noise.divergence().unwrap().get(), 0.36787944117144233);
    // rr_rdp2, rr_kl: binary, truth 3/4.
    let response = Mechanism::RandomisedResponse {
        truth: Probability::new(0.75).unwrap(),
        categories: 2,
    };
    let law = loss(&response, Neighbours::Replace);
    renyi(&law, 2.0, 0.8472978603872036, 1e-14);
    just_above(*law.divergence().unwrap().get(), 0.5493061443340549);
    let rho = Zcdp::of(&response, Query::single(Neighbours::Replace)).unwrap();
    assert!((rho.rho().get() - 0.5493061443340549).abs() < 1e-12); // KL, attained at order 1
}

#[test]
fn profiles_and_tests_of_finite_mechanisms() {
    // laplace_delta_0, laplace_delta_0.5: 1 − e^{(ε − 1/b)/2}.
    delta(&laplace(), 0.0, 0.3934693402873666, 1e-14);
    delta(&laplace(), 0.5, 0.22119921692859512, 4e-14);
    // rr_delta: Kairouz, Oh and Viswanath; Murtagh and Vadhan, 50-digit arithmetic.
    let ten = Mechanism::Repeat {
        times: Steps::new(10),
        each: Box::new(pure(0.1)),
    };
    delta(&ten, 0.5, 0.009929626917388853, 1e-12);
    // epsdelta_compose: 1 − 0.9·0.8, a peer's unit test.
    let part = |epsilon: f64, delta: f64| Mechanism::ApproxDp {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(delta).unwrap(),
        neighbours: NEIGHBOURS,
    };
    let leaks = Mechanism::Sequence {
        parts: vec![part(1.0, 0.1), part(2.0, 0.2)],
    };
    delta(&leaks, 3.0, 0.28, 1e-12);
    // pure_compose_tpr: exact; a peer's unit test says 0.8286 ± 1e-3.
    let both = Mechanism::Sequence {
        parts: vec![pure(1.0), pure(2.0)],
    };
    let query = Query::single(NEIGHBOURS);
    let fpr = Probability::new(0.1).unwrap();
    let answer = true_positive_rate(&both, query, fpr, Tolerance::new(1e-10).unwrap()).unwrap();
    let (low, high) = (
        answer.bounds.lower.unwrap().get().get(),
        answer.bounds.upper.unwrap().get().get(),
    );
    encloses(low, high, 0.8285981239918443, 1e-12);
}

/// peer_expmech_kl: dp_accounting's RDP accountant at order 1, of ε = 1, to the digits it quotes;
/// the largest over two-outcome instances, ε/(1 − e^{−ε}) − 1 − ln(ε/(1 − e^{−ε})). At every order
/// the instance with the largest moment, on a mesh.
#[test]
fn divergences_of_the_exponential_mechanism() {
    let mechanism = Mechanism::ExponentialMechanism {
        epsilon: Epsilon::new(1.0).unwrap(),
        neighbours: NEIGHBOURS,
    };
    let one = loss(&mechanism, NEIGHBOURS);
    let found = *one.divergence().unwrap().get();
    assert!((found - 0.123301561).abs() < 1e-8, "{found}");
    for alpha in [1.001, 1.5, 2.0, 8.0, 100.0] {
        let best = (0..=20_000).map(|i| {
            let t = f64::from(i) / 20_000.0;
            let q = (1.0 - (t - 1.0).exp()) / (t.exp() - (t - 1.0).exp());
            (q * (alpha * t).exp() + (1.0 - q) * (alpha * (t - 1.0)).exp()).ln() / (alpha - 1.0)
        });
        renyi(&one, alpha, best.fold(0.0, f64::max), 1e-7);
    }
    // Losses add up over steps, and each step may be the worst one.
    let ten = Mechanism::Repeat {
        times: Steps::new(10),
        each: Box::new(mechanism),
    };
    let ten = loss(&ten, NEIGHBOURS);
    assert!((ten.divergence().unwrap().get() / (10.0 * found) - 1.0).abs() < 1e-12);
}

/// Where the law of one step is not that of the composition, Rényi divergences may bound ε more tightly: that row is first.
#[test]
fn the_tighter_of_two_bounds_is_the_first() {
    use reticent_accounting::{Method, Plan, UnitName};
    let step = Mechanism::ExponentialMechanism {
        epsilon: Epsilon::new(0.2).unwrap(),
        neighbours: NEIGHBOURS,
    };
    let run = Mechanism::Repeat {
        times: Steps::new(20),
        each: Box::new(step),
    };
    let unit = UnitName::new("record").unwrap();
    let plan = Plan::new(run, unit, Delta::new(1e-5).unwrap());
    let rows = plan.guarantees().unwrap();
    let upper = |of: usize| rows[of].epsilon.unwrap().high().unwrap();
    assert_eq!((rows[0].method, rows[1].method), (Method::Rdp, Method::Pld));
    assert!(upper(0) < 1.855 && upper(1) > 1.97, "{rows:?}");
    assert_eq!(plan.exactly().unwrap(), rows[0]);
    let epsilon = Epsilon::new(1.86).unwrap();
    let at = plan.guarantees_at(epsilon).unwrap();
    assert!(at[0].delta.unwrap() < at[1].delta.unwrap());
    assert_eq!(plan.exactly_at(epsilon).unwrap(), at[0]);
}

/// A chance of telling everything leaves no finite Rényi divergence, and so no finite ε by it.
#[test]
fn what_renyi_cannot_bound_is_not_free() {
    let leak = Mechanism::ApproxDp {
        epsilon: Epsilon::new(0.1).unwrap(),
        delta: Delta::new(1e-7).unwrap(),
        neighbours: NEIGHBOURS,
    };
    for run in [
        leak.clone(),
        Mechanism::Sequence {
            parts: vec![laplace(), leak],
        },
    ] {
        let (epsilon, order) = loss(&run, NEIGHBOURS)
            .epsilon_by_rdp(Delta::new(1e-5).unwrap())
            .unwrap();
        assert!(epsilon.get().get().is_infinite() && order.is_none());
    }
}

/// More steps with a large loss than a grid has room for: ε is bounded, though from above alone.
#[test]
fn a_law_without_a_grid_has_a_bound_still() {
    let query = Query {
        neighbours: NEIGHBOURS,
        group: GroupSize::new(494).unwrap(),
    };
    let (times, scale) = (681_798, 0.034);
    let run = Mechanism::Repeat {
        times: Steps::new(times),
        each: Box::new(Mechanism::Laplace {
            scale: NoiseMultiplier::new(scale).unwrap(),
        }),
    };
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let found = loss
        .epsilon(Delta::new(1e-13).unwrap(), Tolerance::new(1e-3).unwrap())
        .unwrap();
    let most = times as f64 * 494.0 / scale;
    let upper = found.bounds.upper.unwrap().get().get();
    assert!(
        upper <= most * (1.0 + 1e-9) && upper > 0.9 * most,
        "{upper} {most}"
    );
}
