//! Golden numbers of mechanisms that are not Gaussian: closed forms, and two values of a peer's
//! unit tests. The certified ends must enclose each number and lie close together.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use reticent_accounting::rdp::{RdpCurve, Zcdp};
use reticent_accounting::trade_off::true_positive_rate;
use reticent_accounting::{
    Direction, Epsilon, Mechanism, Neighbours, NoiseMultiplier, Order, PrivacyLoss, Probability,
    Query, Steps, Tolerance,
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

fn encloses(low: f64, high: f64, expected: f64, width: f64) {
    assert!(
        low <= expected + 1e-14 && expected <= high + 1e-14,
        "{low} {expected} {high}"
    );
    assert!(high - low <= width, "{low} {high}");
}

fn delta(run: &Mechanism, epsilon: f64, expected: f64) {
    let answer = loss(run, NEIGHBOURS)
        .delta(
            Epsilon::new(epsilon).unwrap(),
            Tolerance::new(1e-7).unwrap(),
        )
        .unwrap();
    let high = answer.bounds.upper.unwrap().get().get();
    let low = answer.bounds.lower.map_or(0.0, |end| end.get().get());
    assert!(
        expected <= high + 1e-14 && high <= expected + 1e-6,
        "{low} {expected} {high}"
    );
    assert!(low <= expected + 1e-14);
}

#[test]
fn divergences_of_laplace_and_randomised_response() {
    // laplace_rdp_2, laplace_rdp_10: Mironov 2017.
    for (alpha, expected) in [(2.0, 0.6191236299985928), (10.0, 0.9286829020966803)] {
        let curve = RdpCurve::of(&loss(&laplace(), NEIGHBOURS), &[Order::new(alpha).unwrap()]);
        let found = *curve.unwrap().divergences[0].get();
        encloses(found - 1e-6, found, expected, 2e-6);
    }
    // laplace_kl: e^{−1/b} + 1/b − 1.
    let found = *loss(&laplace(), NEIGHBOURS).divergence().unwrap().get();
    encloses(found - 1e-6, found, 0.36787944117144233, 2e-6);
    // rr_rdp2, rr_kl: binary, truth 3/4.
    let response = Mechanism::RandomisedResponse {
        truth: Probability::new(0.75).unwrap(),
        categories: 2,
    };
    let law = loss(&response, Neighbours::Replace);
    let found = *RdpCurve::of(&law, &[Order::TWO]).unwrap().divergences[0].get();
    encloses(found - 1e-6, found, 0.8472978603872036, 2e-6);
    let found = *law.divergence().unwrap().get();
    encloses(found - 1e-6, found, 0.5493061443340549, 2e-6);
    let rho = Zcdp::of(&response, Query::single(Neighbours::Replace)).unwrap();
    assert!((rho.rho.get() - 0.5493061443340549).abs() < 1e-12); // KL, attained at order 1
}

#[test]
fn profiles_and_tests_of_finite_mechanisms() {
    // laplace_delta: 1 − e^{(ε − 1/b)/2}.
    delta(&laplace(), 0.0, 0.3934693402873666);
    delta(&laplace(), 0.5, 0.22119921692859512);
    // rr_delta: Kairouz, Oh and Viswanath; Murtagh and Vadhan, 50-digit arithmetic.
    let ten = Mechanism::Repeat {
        times: Steps::new(10),
        each: Box::new(pure(0.1)),
    };
    delta(&ten, 0.5, 0.009929626917388853);
    // pure_compose_tpr: exact; a peer's unit test says 0.8286 ± 1e-3.
    let both = Mechanism::Sequence {
        parts: vec![pure(1.0), pure(2.0)],
    };
    let query = Query::single(NEIGHBOURS);
    let fpr = Probability::new(0.1).unwrap();
    let answer = true_positive_rate(&both, query, fpr, Tolerance::new(1e-7).unwrap()).unwrap();
    let high = answer.bounds.upper.unwrap().get().get();
    assert!(
        (0.8285981239918443 - 1e-14..0.8285981239918443 + 1e-6).contains(&high),
        "{high}"
    );
}
