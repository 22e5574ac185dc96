//! Dominating pairs that somebody else computed: mixtures, and laws of finitely many outcomes.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use proptest::prelude::*;
use reticent_accounting::pld::{Mixture, Pair};
use reticent_accounting::{
    Delta, Direction, Epsilon, Mechanism, Neighbours, NoiseMultiplier, PrivacyLoss, Probability,
    Query, Result, SamplingRate, Steps, Tolerance,
};

const QUERY: Query = Query::single(Neighbours::AddRemove);

fn of_outcomes(outcomes: &[(f64, f64)], steps: u64) -> Result<PrivacyLoss> {
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|(p, q)| (Probability::new(*p).unwrap(), Probability::new(*q).unwrap()))
        .collect();
    PrivacyLoss::of_outcomes(&outcomes, QUERY, Direction::Remove, Steps::new(steps))
}

/// Both ends of δ(ε); an unknown lower end is below zero.
fn delta(loss: &PrivacyLoss, epsilon: f64) -> (f64, f64) {
    let bounds = loss
        .delta(Epsilon::new(epsilon).unwrap(), Tolerance::DEFAULT)
        .unwrap()
        .bounds;
    let lower = bounds.lower.map_or(-1.0, |end| end.get().get());
    (lower, bounds.upper.unwrap().get().get())
}

/// Σ (p − e^ε q)₊ over all outcomes of the composition.
fn exact(outcomes: &[(f64, f64)], steps: u64, epsilon: f64) -> f64 {
    let mut all = vec![(1.0, 1.0)];
    for _ in 0..steps {
        let pairs = all
            .iter()
            .flat_map(|(p, q)| outcomes.iter().map(move |o| (p * o.0, q * o.1)));
        all = pairs.collect();
    }
    let excess = all.iter().map(|(p, q)| (p - epsilon.exp() * q).max(0.0));
    excess.sum()
}

/// Two laws on up to four outcomes, some of which only one of them has.
fn laws() -> impl Strategy<Value = Vec<(f64, f64)>> {
    let weight = || prop_oneof![1 => Just(0.0), 4 => 0.01f64..1.0];
    let others = prop::collection::vec((weight(), weight()), 1..4);
    (0.01f64..1.0, 0.01f64..1.0, others).prop_map(|(p, q, mut weights)| {
        weights.push((p, q));
        let whole = weights
            .iter()
            .fold((0.0, 0.0), |sum, w| (sum.0 + w.0, sum.1 + w.1));
        let shares = weights.iter().map(|w| (w.0 / whole.0, w.1 / whole.1));
        shares.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The ends enclose the sum over all outcomes.
    #[test]
    fn outcomes_give_the_delta_of_their_enumeration(outcomes in laws(), steps in 1u64..5, epsilon in 0.0f64..3.0) {
        let loss = of_outcomes(&outcomes, steps).unwrap();
        let (low, high) = delta(&loss, epsilon);
        let truth = exact(&outcomes, steps, epsilon);
        prop_assert!(low <= truth + 1e-12 && truth <= high + 1e-12, "[{low}, {high}] {truth} {outcomes:?}");
        prop_assert!(high - low <= 1e-5 * truth + 1e-9, "[{low}, {high}] {truth} {outcomes:?}");
    }
}

/// The same pair, as a mechanism and as data.
#[test]
fn a_pair_is_accounted_for_as_the_mechanism_that_it_dominates() {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(1.1).unwrap(),
        SamplingRate::new(0.01).unwrap(),
        Steps::new(1000),
    );
    let with = Mixture::binomial(1, 0.01, 1.0 / 1.1).unwrap();
    let none = Mixture::point(0.0).unwrap();
    for (direction, first, second) in [
        (Direction::Remove, &with, &none),
        (Direction::Add, &none, &with),
    ] {
        let (first, second) = (first.clone(), second.clone());
        let own = PrivacyLoss::of_pair(&Pair { first, second }, QUERY, direction, Steps::new(1000));
        let (own, run) = (
            own.unwrap(),
            PrivacyLoss::of(&run, QUERY, direction).unwrap(),
        );
        let at = |loss: &PrivacyLoss| {
            let found = loss
                .epsilon(Delta::new(1e-5).unwrap(), Tolerance::DEFAULT)
                .unwrap()
                .bounds;
            (
                found.lower.unwrap().get().get(),
                found.upper.unwrap().get().get(),
            )
        };
        let ((low, high), (least, most)) = (at(&own), at(&run));
        assert!(
            low <= most && least <= high && high - low <= 2e-6 * high,
            "{direction:?}"
        );
        assert!(own.then(&run).is_ok());
    }
}

/// Binary responses, which the accountant knows in closed form.
#[test]
fn outcomes_of_responses_compose_as_responses_do() {
    let truth = Probability::new(0.75).unwrap();
    let run = Mechanism::Repeat {
        times: Steps::new(50),
        each: Box::new(Mechanism::RandomisedResponse {
            truth,
            categories: 2,
        }),
    };
    let query = Query::single(Neighbours::Replace);
    let run = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let own = of_outcomes(&[(0.75, 0.25), (0.25, 0.75)], 50).unwrap();
    // A third outcome that tells nothing, with the same law otherwise.
    let third = of_outcomes(&[(0.5, 0.2), (0.2, 0.5), (0.3, 0.3)], 50).unwrap();
    for epsilon in [0.0, 5.0, 20.0] {
        let ((low, high), (least, most)) = (delta(&own, epsilon), delta(&run, epsilon));
        assert!(
            low <= most && least <= high && high - low <= 1e-6 * high,
            "{epsilon}"
        );
        let (low, high) = delta(&third, epsilon);
        assert!(high - low <= 1e-5 * high, "{epsilon}: {low} {high}");
    }
}

#[test]
fn what_the_first_law_lacks_is_an_infinite_loss() {
    let (short, whole) = (
        [(0.5, 0.5), (0.4, 0.5)],
        [(0.5, 0.5), (0.4, 0.5), (0.1, 0.0)],
    );
    for steps in [1, 3] {
        let [short, whole] = [&short[..], &whole].map(|laws| of_outcomes(laws, steps).unwrap());
        let ((low, high), (_, exact)) = (delta(&short, 1.0), delta(&whole, 1.0));
        assert!(
            high >= exact * (1.0 - 1e-9) && low <= 0.0,
            "{low} {high} {exact}"
        );
        let never = Probability::new(0.0).unwrap();
        let guessed = short
            .blow_up(never, Tolerance::DEFAULT)
            .unwrap()
            .bounds
            .upper;
        assert!(guessed.unwrap().get().get() >= 0.1);
    }
    // Ten tenths: rounding leaves no infinite loss.
    let tenths = of_outcomes(&[(0.1, 0.1); 10], 100).unwrap();
    assert!(delta(&tenths, 1e-9).1 <= 0.0);
    // All mass is beyond the second law's.
    assert!(delta(&of_outcomes(&[(1.0, 0.0), (0.0, 1.0)], 1).unwrap(), 1e9).1 >= 1.0);
}

#[test]
fn pairs_that_are_no_laws_are_refused() {
    for (outcomes, what) in [
        (
            [(0.6, 0.5), (0.5, 0.5)],
            "sum of the first law's probabilities",
        ),
        (
            [(0.5, 0.6), (0.5, 0.5)],
            "sum of the second law's probabilities",
        ),
    ] {
        let refused = of_outcomes(&outcomes, 1).unwrap_err().to_string();
        assert!(refused.starts_with(what), "{refused}");
    }
    assert!(of_outcomes(&[(1.0, 1.0)], (1 << 53) + 1).is_err());
    let with = Mixture::binomial(2, 0.1, 1.0).unwrap();
    let (cut, none) = (with.trimmed(0.05), Mixture::point(0.0).unwrap());
    let of = |first: &Mixture, second: &Mixture| {
        let pair = Pair {
            first: first.clone(),
            second: second.clone(),
        };
        PrivacyLoss::of_pair(&pair, QUERY, Direction::Remove, Steps::new(1))
    };
    assert!(of(&with, &none).is_ok() && of(&none, &with).is_ok());
    assert!(of(&cut, &none).is_err() && of(&none, &cut).is_err());
    // A law that lacks 1e-10 would promise a delta that is too small by as much; one with an excess, too.
    for (near, kept) in [(0.9, true), (0.9 - 1e-10, false), (0.9 + 1e-10, false)] {
        let mixture = Mixture::new(vec![(0.0, f64::ln(near)), (1.0, 0.1f64.ln())]);
        assert_eq!(mixture.is_ok(), kept, "{near}");
    }
    // Counts too rare for a number are no part that is missing.
    let rare = Mixture::poisson_binomial(&[1e-200; 2], 1.0).unwrap();
    assert!(of(&rare, &none).is_ok());
}
