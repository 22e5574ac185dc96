//! Propositions on redaction and groups over random finite mechanisms, with tight cases and the
//! traps of the theory as counterexamples.
//!
//! Cases by the seed in .cargo/config.toml; every case must hold, there is no false-alarm rate.

use crate::common::{Case, delta_by_convolution, simpson};
use proptest::prelude::*;
use reticent_accounting::group::group_lemma;
use reticent_accounting::pld::Profile;
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{
    Delta, Direction, Epsilon, Mechanism, MissRate, Neighbours, NoiseMultiplier, PrivacyLoss,
    Query, SamplingRate, Steps, Tolerance,
};

/// H_{e^ε}(P‖Q) over a finite alphabet.
fn excess(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    p.iter()
        .zip(q)
        .map(|(p, q)| (p - epsilon.exp() * q).max(0.0))
        .sum()
}

fn both(p: &[f64], q: &[f64], epsilon: f64) -> f64 {
    excess(p, q, epsilon).max(excess(q, p, epsilon))
}

fn law(size: usize) -> impl Strategy<Value = Vec<f64>> {
    // Some weights are zero: atoms that only one law has.
    let weight = prop_oneof![3 => 0.01f64..1.0, 1 => Just(0.0)];
    proptest::collection::vec(weight, size).prop_map(|mut weights| {
        weights[0] += 0.01;
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    })
}

fn mix(parts: &[(f64, &[f64])]) -> Vec<f64> {
    let mut sum = vec![0.0; parts[0].1.len()];
    for (weight, law) in parts {
        for (total, p) in sum.iter_mut().zip(*law) {
            *total += weight * p;
        }
    }
    sum
}

fn rate(value: f64) -> MissRate {
    MissRate::new(value).unwrap()
}

fn plain_gaussian(sigma: f64, neighbours: Neighbours) -> PrivacyLoss {
    let run = Mechanism::Gaussian {
        noise_multiplier: NoiseMultiplier::new(sigma).unwrap(),
    };
    PrivacyLoss::of(&run, Query::single(neighbours), Direction::Remove).unwrap()
}

fn delta_of(loss: &PrivacyLoss, epsilon: f64) -> f64 {
    let answer = loss
        .delta(
            Epsilon::new(epsilon).unwrap(),
            Tolerance::new(1e-9).unwrap(),
        )
        .unwrap();
    answer.bounds.upper.unwrap().get().get()
}

const ALPHABET: usize = 5;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Prop. 6 and Theorem 8.3: secrets x ~ μ, a policy that misses x with its own probability, a
    /// share η of all secrets missed by both policies and trained on in the raw. Against the run
    /// with masks, ε' = ln(1 + γ(e^ε − 1)) holds with (γ − η)δ + η, in both directions.
    #[test]
    fn the_uninformed_adversary_sees_the_amplified_guarantee(
        masked in law(ALPHABET),
        runs in proptest::collection::vec(law(ALPHABET), 3),
        raw in law(ALPHABET),
        secrets in law(3),
        missed in proptest::collection::vec(0.0f64..1.0, 3),
        both_share in 0.0f64..1.0,
        epsilon in 0.0f64..3.0,
    ) {
        let gamma: f64 = secrets.iter().zip(&missed).map(|(mu, miss)| mu * miss).sum();
        let eta = gamma * both_share;
        let base = runs.iter().map(|run| both(run, &masked, epsilon)).fold(0.0, f64::max);
        let mut parts: Vec<(f64, &[f64])> = vec![(1.0 - gamma, &masked), (eta, &raw)];
        for ((mu, miss), run) in secrets.iter().zip(&missed).zip(&runs) {
            parts.push((mu * miss * (1.0 - both_share), run));
        }
        let seen = mix(&parts);
        let redaction = Redaction::new(rate(gamma), rate(eta)).unwrap();
        let after = redaction.amplified(Epsilon::new(epsilon).unwrap()).get();
        let promised = redaction.shrunk(Delta::new(base).unwrap()).get();
        let truth = both(&seen, &masked, after);
        prop_assert!(truth <= promised + 1e-12, "{truth} > {promised}");
    }

    /// An adversary who knows the secret: no amplification of ε, the same δ.
    #[test]
    fn the_informed_adversary_sees_epsilon_unchanged(
        masked in law(ALPHABET),
        run in law(ALPHABET),
        raw in law(ALPHABET),
        gamma in 0.0f64..1.0,
        both_share in 0.0f64..1.0,
        epsilon in 0.0f64..3.0,
    ) {
        let eta = gamma * both_share;
        let seen = mix(&[(1.0 - gamma, &masked), (gamma - eta, &run), (eta, &raw)]);
        let redaction = Redaction::new(rate(gamma), rate(eta)).unwrap();
        let promised = redaction.shrunk(Delta::new(both(&run, &masked, epsilon)).unwrap()).get();
        prop_assert!(both(&seen, &masked, epsilon) <= promised + 1e-12);
    }

    /// The group lemma over a chain of neighbours, each pair with its exact δ.
    #[test]
    fn a_group_pays_no_more_than_the_lemma(
        chain in proptest::collection::vec(law(ALPHABET), 2..6),
        epsilons in proptest::collection::vec(0.0f64..1.5, 5),
    ) {
        let each: Vec<_> = chain
            .windows(2)
            .zip(&epsilons)
            .map(|(pair, epsilon)| {
                let delta = both(&pair[0], &pair[1], *epsilon);
                (Epsilon::new(*epsilon).unwrap(), Delta::new(delta.min(1.0)).unwrap())
            })
            .collect();
        let (epsilon, delta) = group_lemma(&each);
        // Walked from the first law to the last; the other direction walks the other way.
        let truth = excess(&chain[0], &chain[chain.len() - 1], epsilon.get().get());
        // The lemma's sum depends on the order, the truth does not: the best order must hold too
        // whichever way the chain was walked.
        let walked: f64 = each
            .iter()
            .scan(0.0, |before, (e, d)| {
                let term = d.get() * f64::exp(*before);
                *before += e.get();
                Some(term)
            })
            .sum();
        prop_assert!(delta.get().get() <= walked.min(1.0) * (1.0 + 1e-9) + 1e-12);
        prop_assert!(truth <= walked + 1e-12);
    }

    /// The inverse of the amplification undoes it, for any ε without overflow.
    #[test]
    fn amplification_and_its_inverse_agree(gamma in 1e-6f64..1.0, exponent in -6.0f64..3.5) {
        let redaction = Redaction::single_policy(rate(gamma));
        let epsilon = 10f64.powf(exponent);
        let there = redaction.amplified(Epsilon::new(epsilon).unwrap());
        let back = redaction.base_epsilon(there).get();
        // e^{ε'} − 1 = γ(e^ε − 1) loses digits where ε' is large against its change.
        prop_assert!((back - epsilon).abs() <= 1e-9 * (1.0 + epsilon) + 1e-13 / gamma, "{epsilon} {back}");
        prop_assert!(there.get() <= epsilon * (1.0 + 1e-14));
    }
}

/// A tight case: the bound is attained when every secret's run is the dominating pair itself.
#[test]
fn proposition_six_is_attained_by_the_gaussian_pair() {
    let (mu, gamma, epsilon) = (1.0, 0.1, 1.3);
    let density = |x: f64, m: f64| (-0.5 * (x - m) * (x - m)).exp() / std::f64::consts::TAU.sqrt();
    let redaction = Redaction::single_policy(rate(gamma));
    let after = redaction.amplified(Epsilon::new(epsilon).unwrap()).get();
    let forward = simpson(
        |x| {
            ((1.0 - gamma) * density(x, 0.0) + gamma * density(x, mu)
                - after.exp() * density(x, 0.0))
            .max(0.0)
        },
        epsilon / mu + 0.5 * mu,
        14.0,
        4000,
    );
    let promised = redaction.shrunk(
        Delta::new(delta_of(
            &plain_gaussian(1.0, Neighbours::AddRemove),
            epsilon,
        ))
        .unwrap(),
    );
    assert!(
        (forward / promised.get() - 1.0).abs() < 1e-8,
        "{forward} {promised}"
    );
}

/// ε' at a fixed δ, exactly and in both directions, against the mixture's own divergences.
#[test]
fn the_exact_epsilon_is_where_the_mixture_has_that_delta() {
    let loss = plain_gaussian(1.5, Neighbours::Replace);
    let mu = 2.0 / 1.5;
    let density = |x: f64, m: f64| (-0.5 * (x - m) * (x - m)).exp() / std::f64::consts::TAU.sqrt();
    for (gamma, eta, delta) in [
        (0.1, 0.0, 1e-4),
        (0.9, 0.0, 1e-2),
        (0.3, 0.001, 2e-3),
        (1.0, 0.0, 1e-3),
    ] {
        let redaction = Redaction::new(rate(gamma), rate(eta)).unwrap();
        let answer = redaction
            .exact_epsilon(
                &loss,
                &loss,
                Delta::new(delta).unwrap(),
                Tolerance::new(1e-9).unwrap(),
            )
            .unwrap();
        let e = answer.bounds.upper.unwrap().get().get();
        assert!(e - answer.bounds.lower.unwrap().get().get() < 1e-8);
        // Missed by both: in the worst case released in the raw, disjoint from everything.
        let seen = |x: f64| (1.0 - gamma) * density(x, 0.0) + (gamma - eta) * density(x, mu);
        let forward = eta + integral(|x| seen(x) - e.exp() * density(x, 0.0));
        let reverse = integral(|x| density(x, 0.0) - e.exp() * seen(x));
        assert!(
            (forward.max(reverse) / delta - 1.0).abs() < 1e-5,
            "{gamma} {eta}: {forward} {reverse}"
        );
        // Theorem 8.3 with γ in its logarithm is no tighter.
        let base = redaction.base_delta(Delta::new(delta).unwrap()).unwrap();
        let by_theorem = loss
            .epsilon(base, Tolerance::new(1e-9).unwrap())
            .unwrap()
            .bounds
            .upper
            .unwrap();
        assert!(redaction.amplified(*by_theorem.get()).get() >= e * (1.0 - 1e-9));
    }
}

/// A policy that misses every secret redacts nothing.
#[test]
fn what_misses_everything_leaves_the_epsilon_of_the_run() {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(2.0).unwrap(),
        SamplingRate::new(0.1).unwrap(),
        Steps::new(10),
    );
    let query = Query::single(Neighbours::Replace);
    let loss = PrivacyLoss::of(&run, query, Direction::Remove).unwrap();
    let all = Redaction::single_policy(rate(1.0));
    for delta in [0.1, 1e-3, 1e-6] {
        let delta = Delta::new(delta).unwrap();
        let own = loss.epsilon(delta, Tolerance::DEFAULT).unwrap().bounds;
        let found = all.exact_epsilon(&loss, &loss, delta, Tolerance::DEFAULT);
        let [own, found] = [own, found.unwrap().bounds].map(|ends| ends.upper.unwrap());
        let ratio = found.get().get() / own.get().get();
        assert!((ratio - 1.0).abs() < 1e-4, "{delta}: {found:?} {own:?}");
    }
}

fn integral(f: impl Fn(f64) -> f64) -> f64 {
    let count = 400_000;
    let step = 30.0 / f64::from(count);
    (0..count)
        .map(|i| f(-15.0 + step * (f64::from(i) + 0.5)).max(0.0) * step)
        .sum()
}

/// Trap: asking the base curve at the final δ instead of δ/γ.
#[test]
fn the_naive_delta_overstates_figure_six() {
    let redaction = Redaction::single_policy(rate(0.1));
    // Plain Gaussian calibrated to (1, 8e-5).
    let loss = plain_gaussian(3.241_122_277_4, Neighbours::AddRemove);
    let delta = Delta::new(8e-5).unwrap();
    let tolerance = Tolerance::new(1e-9).unwrap();
    let naive = redaction.amplified(
        *loss
            .epsilon(delta, tolerance)
            .unwrap()
            .bounds
            .upper
            .unwrap()
            .get(),
    );
    assert!((naive.get() - 0.158_565).abs() < 1e-5);
    let right = redaction
        .exact_epsilon(&loss, &loss, delta, tolerance)
        .unwrap()
        .bounds
        .upper
        .unwrap();
    assert!((right.get().get() - 0.112_386).abs() < 1e-5);
}

/// Trap: γ − η inside the logarithm of Theorem 8.3. Everything is missed (γ = 1), half of it by
/// both policies and released in the raw; the other half is randomised response at ε = 3, δ = 0.
#[test]
fn the_joint_miss_does_not_amplify() {
    let (epsilon, eta) = (3.0f64, 0.5);
    let (likely, rare) = (
        epsilon.exp() / (1.0 + epsilon.exp()),
        1.0 / (1.0 + epsilon.exp()),
    );
    let masked = [likely, rare, 0.0];
    let seen = mix(&[(1.0 - eta, &[rare, likely, 0.0]), (eta, &[0.0, 0.0, 1.0])]);
    let redaction = Redaction::new(rate(1.0), rate(eta)).unwrap();
    let promised = redaction.shrunk(Delta::new(0.0).unwrap()).get();
    let right = redaction.amplified(Epsilon::new(epsilon).unwrap()).get();
    assert!(both(&seen, &masked, right) <= promised);
    let wrong = ((1.0 - eta) * epsilon.exp_m1()).ln_1p();
    assert!(both(&seen, &masked, wrong) > promised + 0.2);
}

/// Trap: amplifying phase by phase. σ = 1 twice, γ = 0.1, ε' = 2: the true δ is 4.2e-4, while the
/// composition of two amplified phases says 6.9e-6.
#[test]
fn amplifying_each_phase_under_reports() {
    let redaction = Redaction::single_policy(rate(0.1));
    let phase = plain_gaussian(1.0, Neighbours::AddRemove);
    let whole = phase.then(&phase).unwrap();
    let base = redaction.base_epsilon(Epsilon::new(2.0).unwrap()).get();
    let truth = redaction
        .shrunk(Delta::new(delta_of(&whole, base)).unwrap())
        .get();
    assert!((truth / 4.2e-4 - 1.0).abs() < 0.02, "{truth}");
    // Amplified phases compose like two batches sampled at rate γ.
    let nested = Case {
        rate: 0.1,
        sigma: 1.0,
        steps: 2,
        group: 1,
        neighbours: Neighbours::AddRemove,
        direction: Direction::Remove,
    };
    let (_, most) = delta_by_convolution(&nested, 2.0, 1e-4);
    assert!((most / 6.9e-6 - 1.0).abs() < 0.02, "{most}");
}

/// Trap: the paper's bound for a group of equal records is looser than the lemma.
#[test]
fn the_lemma_is_tighter_than_the_papers_product() {
    let each = vec![(Epsilon::new(0.5).unwrap(), Delta::new(1e-6).unwrap()); 5];
    let (epsilon, delta) = group_lemma(&each);
    assert!((epsilon.get().get() - 2.5).abs() < 1e-12);
    let geometric = 1e-6 * 2.5f64.exp_m1() / 0.5f64.exp_m1();
    assert!((delta.get().get() / geometric - 1.0).abs() < 1e-12);
    assert!(delta.get().get() < 6.091_246_980_351_737e-5);
}

/// A profile answers at the δ it was made for as the engine does, and after redaction at the final δ.
#[test]
fn profiles_carry_their_certificates_through_redaction() {
    let run = Mechanism::dp_sgd(
        NoiseMultiplier::new(2.42632).unwrap(),
        reticent_accounting::SamplingRate::new(0.1).unwrap(),
        reticent_accounting::Steps::new(100),
    );
    let redaction = Redaction::single_policy(rate(0.1));
    let delta = Delta::new(1e-5).unwrap();
    let base = redaction.base_delta(delta).unwrap();
    let query = Query::single(Neighbours::Replace);
    let profile = Profile::at_deltas(&run, query, &[base], Tolerance::new(1e-9).unwrap()).unwrap();
    let after = redaction
        .against_uninformed(&profile)
        .epsilon(delta)
        .unwrap();
    let (low, high) = (
        after.lower.unwrap().get().get(),
        after.upper.unwrap().get().get(),
    );
    assert!(
        low <= 1.079_374_55 && 1.079_374_54 <= high && high - low < 1e-8,
        "{low} {high}"
    );
    let known = redaction
        .against_informed(&profile)
        .epsilon(delta)
        .unwrap()
        .unwrap()
        .get()
        .get();
    let at_base = profile.epsilon(base).unwrap().upper.unwrap().get().get();
    assert!((known - at_base).abs() < 1e-12 && (known - 3.016_925).abs() < 1e-5);
}

#[test]
fn a_share_missed_by_both_above_delta_leaves_no_promise() {
    let redaction = Redaction::new(rate(0.1), rate(0.01)).unwrap();
    assert!(redaction.base_delta(Delta::new(0.005).unwrap()).is_none());
    assert!(
        (redaction
            .base_delta(Delta::new(0.055).unwrap())
            .unwrap()
            .get()
            - 0.5)
            .abs()
            < 1e-12
    );
    assert!(
        (redaction
            .base_delta(Delta::new(0.5).unwrap())
            .unwrap()
            .get()
            - 1.0)
            .abs()
            < 1e-12
    );
    let nothing = Redaction::single_policy(rate(0.0));
    assert!(nothing.amplified(Epsilon::new(5.0).unwrap()).get() <= 0.0);
    assert!((nothing.base_delta(Delta::new(1e-9).unwrap()).unwrap().get() - 1.0).abs() < 1e-12);
}

#[test]
fn a_document_is_checked_as_given_rates_are() {
    let read = |text: &str| serde_json::from_str::<Redaction>(text);
    let good = read(r#"{"miss":0.1,"missed_by_both":0.001}"#).unwrap();
    assert_eq!(good, Redaction::new(rate(0.1), rate(0.001)).unwrap());
    let refused = read(r#"{"miss":0.001,"missed_by_both":0.1}"#).unwrap_err();
    assert!(
        refused.to_string().contains("share missed by both"),
        "{refused}"
    );
}
