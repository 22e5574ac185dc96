//! Redaction: Propositions 5 and 6 and Theorem 8, with the traps around them. More of it,
//! written earlier, is in `tests/redaction.rs`.

use super::finite::{
    both, cells, delta, delta_of, dp_sgd, epsilon, epsilon_of, excess, gaussian, law, loss, mix,
    profile, query, rate, tight,
};
use proptest::prelude::*;
use reticent_accounting::confidentiality::{
    Confidentiality, CorpusFacts, Knowledge, Reach, Spread, Standing,
};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::{Convention, Direction, Neighbours};

const ALPHABET: usize = 5;

fn upper_delta(found: &Confidentiality, at: f64) -> f64 {
    found.delta(epsilon(at)).unwrap().upper.unwrap().get().get()
}

fn upper_epsilon(found: &Confidentiality, at: f64) -> f64 {
    found.epsilon(delta(at)).unwrap().upper.unwrap().get().get()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Prop. 5 and Theorem 8.1: a run per secret, one for the mask; a caught secret gives the
    /// mask's own run, a missed and flagged one a run of the private optimiser, a secret missed by
    /// both whatever training in the open makes of it.
    #[test]
    fn a_missed_secret_has_its_epsilon_and_a_caught_one_none(
        masked in law(ALPHABET),
        private in law(ALPHABET),
        open in law(ALPHABET),
        caught: bool,
        flagged: bool,
        at in 0.0f64..3.0,
    ) {
        let standing = match (caught, flagged) {
            (true, _) => Standing::Caught,
            (false, true) => Standing::Missed { records: 1 },
            (false, false) => Standing::Exposed,
        };
        let run = match standing {
            Standing::Caught => &masked,
            Standing::Missed { .. } => &private,
            Standing::Exposed => &open,
        };
        let base = profile(query(Neighbours::Replace, 1), &private, &masked);
        let found = standing.confidentiality(Spread::AtMost(1), &base).unwrap();
        prop_assert_eq!(found.convention(), Convention::Definition);
        prop_assert!(both(run, &masked, at) <= upper_delta(&found, at) + 1e-12);
        // At the promised ε the promised δ holds.
        let wish = 0.05;
        let promised = upper_epsilon(&found, wish);
        prop_assert!(promised.is_infinite() || both(run, &masked, promised) <= wish + 1e-12);
        if standing == Standing::Caught {
            prop_assert!(promised <= 0.0);
        }
    }

    /// Theorem 8.1: the worst secret of a corpus bounds each of them; one that both policies
    /// miss leaves no promise.
    #[test]
    fn the_worst_secret_bounds_every_one(
        masked in law(ALPHABET),
        runs in proptest::collection::vec((law(ALPHABET), 0u8..12), 1..5),
        at in 0.0f64..3.0,
    ) {
        // Fates: below 6 caught, below 11 missed and flagged, 11 missed by both.
        let missed = runs.iter().filter(|(_, fate)| *fate >= 6).count() as u64;
        let open = runs.iter().filter(|(_, fate)| *fate >= 11).count() as u64;
        let facts = CorpusFacts::new(
            runs.len() as u64, missed, open, missed.min(1), Spread::AtMost(1), Knowledge::Counted,
        ).unwrap();
        // The private optimiser's own guarantee, whatever the secret; training in the open is
        // another run altogether.
        let private = runs.iter().filter(|(_, fate)| *fate < 11).map(|(run, _)| run);
        let worst = private.max_by(|a, b| both(a, &masked, at).total_cmp(&both(b, &masked, at)));
        let base = profile(query(Neighbours::Replace, 1), worst.unwrap_or(&masked), &masked);
        let found = facts.every_secret(&base).unwrap();
        for (run, fate) in &runs {
            let seen = if *fate < 6 { &masked } else { run };
            prop_assert!(both(seen, &masked, at) <= upper_delta(&found, at) + 1e-12);
        }
        prop_assert!(open == 0 || upper_epsilon(&found, 0.1).is_infinite());
    }

    /// Theorem 8.3 for one who may know the secret: no amplification of ε, δ' = (γ−η)δ + η; also
    /// when γ is an average over carriers.
    #[test]
    fn averaging_over_carriers_is_safe_against_an_informed_adversary(
        carriers in proptest::collection::vec((0.05f64..1.0, 0.0f64..1.0, 0.0f64..1.0, law(ALPHABET), law(ALPHABET)), 1..4),
        at in 0.0f64..3.0,
    ) {
        let total: f64 = carriers.iter().map(|c| c.0).sum();
        let gamma: f64 = carriers.iter().map(|c| c.0 / total * c.1).sum();
        let eta: f64 = carriers.iter().map(|c| c.0 / total * c.1 * c.2).sum();
        let (mut seen, mut masked) = (Vec::new(), Vec::new());
        let mut base = 0.0f64;
        // Which carrier it is can be seen: outcomes of different carriers are different.
        for (weight, miss, open, run, mask) in &carriers {
            let (weight, open) = (weight / total, miss * open);
            base = base.max(both(run, mask, at));
            let law = mix(&[(1.0 - miss, mask), (miss - open, run)]);
            seen.extend(law.iter().map(|p| weight * p));
            seen.push(weight * open);
            masked.extend(mask.iter().map(|p| weight * p));
            masked.push(0.0);
        }
        let redaction = Redaction::new(rate(gamma), rate(eta.min(gamma))).unwrap();
        let promised = redaction.shrunk(delta(base)).get();
        prop_assert!(both(&seen, &masked, at) <= promised + 1e-12);
    }
}

/// Tight: Prop. 5 is attained by the worst secret, Theorem 8.1 by the Gaussian pair.
#[test]
fn the_gaussian_pair_attains_proposition_five() {
    let base = reticent_accounting::pld::Profile::at_deltas(
        &gaussian(1.5),
        query(Neighbours::Replace, 1),
        &[delta(1e-4)],
        tight(),
    )
    .unwrap();
    let missed = Standing::Missed { records: 1 };
    let found = missed.confidentiality(Spread::AtMost(1), &base).unwrap();
    let pair = loss(
        &gaussian(1.5),
        query(Neighbours::Replace, 1),
        Direction::Remove,
    );
    assert!((upper_epsilon(&found, 1e-4) - epsilon_of(&pair, 1e-4)).abs() < 1e-8);
    assert!(upper_epsilon(&found, 1e-9).is_infinite());
    // What a policy missed and nobody can count leaves no promise.
    let detected = CorpusFacts::new(10, 0, 0, 0, Spread::AtMost(1), Knowledge::Detected).unwrap();
    assert!(upper_epsilon(&detected.every_secret(&base).unwrap(), 1e-4).is_infinite());
}

/// A profile of other neighbours or of fewer records is refused; the papers' is named.
#[test]
fn a_profile_must_answer_the_question() {
    let of = |neighbours| {
        let run = gaussian(2.0);
        let single = query(neighbours, 1);
        reticent_accounting::pld::Profile::at_deltas(&run, single, &[delta(1e-5)], tight()).unwrap()
    };
    let one = Standing::Missed { records: 1 };
    let two = Standing::Missed { records: 2 };
    let spread = Spread::AtMost(1);
    assert!(
        one.confidentiality(spread, &of(Neighbours::ZeroOut))
            .is_err()
    );
    assert!(
        two.confidentiality(spread, &of(Neighbours::Replace))
            .is_err()
    );
    let paper = one
        .confidentiality(spread, &of(Neighbours::AddRemove))
        .unwrap();
    assert_eq!(paper.convention(), Convention::Paper);
    assert_eq!(two.reach(Spread::Unbounded), Reach::Open);
}

/// No secret in one record need attain what a profile of two attains.
#[test]
fn a_profile_of_more_records_gives_no_lower_end() {
    let base = profile(query(Neighbours::Replace, 2), &[0.9, 0.1], &[0.1, 0.9]);
    for (records, known) in [(1, false), (2, true)] {
        let standing = Standing::Missed { records };
        let found = standing.confidentiality(Spread::AtMost(1), &base).unwrap();
        assert_eq!(found.delta(epsilon(0.0)).unwrap().lower.is_some(), known);
        assert_eq!(found.epsilon(delta(0.1)).unwrap().lower.is_some(), known);
        assert!((upper_delta(&found, 0.0) - 0.8).abs() < 1e-12);
    }
}

/// Trap: averaging γ over carriers. Half of the carriers always miss, half never: ε' at the
/// average is broken, (ε, γδ) holds.
#[test]
fn averaging_gamma_over_carriers_breaks_the_amplification() {
    let e = 2.0f64;
    let (likely, rare) = (e.exp() / (1.0 + e.exp()), 1.0 / (1.0 + e.exp()));
    // Outcomes: (carrier that misses: 0, 1), (carrier that catches: 0, 1).
    let masked = [0.5 * likely, 0.5 * rare, 0.5 * likely, 0.5 * rare];
    let seen = [0.5 * rare, 0.5 * likely, 0.5 * likely, 0.5 * rare];
    let redaction = Redaction::single_policy(rate(0.5));
    let amplified = redaction.amplified(epsilon(e)).get();
    // Randomised response has δ = 0 at its own ε, so ε' would promise δ = 0.
    let promised = redaction.shrunk(delta(0.0)).get();
    assert!(promised <= 0.0 && both(&seen, &masked, amplified) > 0.1);
    assert!(both(&seen, &masked, e) <= 1e-12);
}

/// Trap: ε' read as a posterior bound. A(D_x) = x against A(mask) ~ μ is (0, 0)-Bayesian
/// confidential and reveals the secret.
#[test]
fn a_bayesian_epsilon_of_zero_reveals_the_secret() {
    let mu = [0.4, 0.3, 0.2, 0.1];
    let released: Vec<[f64; 4]> = (0..4)
        .map(|x| std::array::from_fn(|y| f64::from(u8::from(x == y))))
        .collect();
    let parts: Vec<(f64, &[f64])> = mu
        .iter()
        .zip(&released)
        .map(|(w, law)| (*w, law.as_slice()))
        .collect();
    let seen = mix(&parts);
    assert!(both(&seen, &mu, 0.0) <= 1e-15);
    let guessed: f64 = mu
        .iter()
        .zip(&released)
        .enumerate()
        .map(|(x, (w, law))| w * law[x])
        .sum();
    assert!(guessed >= 1.0 - 1e-15);
    // A informed's row says so: with everything missed, δ is that of the released pair.
    let base = both(&released[3], &mu, 0.0);
    let informed = Redaction::single_policy(rate(1.0))
        .shrunk(delta(base))
        .get();
    assert!((informed - 0.9).abs() < 1e-12);
}

/// Trap: a base that holds in one direction only. The other direction of the mixture is not
/// bounded by Prop. 6 then.
#[test]
fn a_one_sided_base_bounds_one_side_only() {
    // The run never gives outcome 0, the mask often does.
    let (run, masked) = ([0.0, 1.0], [0.5, 0.5]);
    let e = std::f64::consts::LN_2;
    assert!(excess(&run, &masked, e) <= 1e-15);
    let gamma = 0.9;
    let seen = mix(&[(1.0 - gamma, &masked), (gamma, &run)]);
    let redaction = Redaction::single_policy(rate(gamma));
    let after = redaction.amplified(epsilon(e)).get();
    assert!(excess(&seen, &masked, after) <= 1e-12);
    assert!(excess(&masked, &seen, after) > 0.3);
    // With both directions in the base it holds.
    let base = both(&run, &masked, e);
    assert!(both(&seen, &masked, after) <= redaction.shrunk(delta(base)).get() + 1e-12);
}

/// The paper's γδ + δ₂ of Theorem 8.3 is looser than (γ−η)δ + η with η ≤ δ₂, and both hold.
#[test]
fn the_papers_delta_is_looser() {
    let pair = loss(
        &gaussian(1.0),
        query(Neighbours::Replace, 1),
        Direction::Remove,
    );
    for (gamma, eta) in [(0.1, 0.01), (0.5, 0.5), (1.0, 0.3)] {
        let redaction = Redaction::new(rate(gamma), rate(eta)).unwrap();
        let base = delta_of(&pair, 1.0);
        let ours = redaction.shrunk(delta(base)).get();
        assert!(ours <= gamma * base + eta && (gamma - eta) * base + eta <= ours * (1.0 + 1e-14));
    }
    assert!(Redaction::new(rate(0.1), rate(0.2)).is_err());
}

/// The reverse direction can rule: a mask that moves the sum where the secret does not. Both
/// directions at the promised ε, by fine cells.
#[test]
fn the_reverse_direction_can_rule() {
    let (sigma, sampled, gamma, wish) = (0.7, 0.2, 0.9, 1e-2);
    let run = dp_sgd(sigma, sampled, 1);
    let single = query(Neighbours::ZeroOut, 1);
    // With the secret: no shift. With the mask: shifted when sampled.
    let with = loss(&run, single, Direction::Add);
    let without = loss(&run, single, Direction::Remove);
    let redaction = Redaction::single_policy(rate(gamma));
    let answer = redaction
        .exact_epsilon(&with, &without, delta(wish), tight())
        .unwrap();
    let found = answer.bounds.upper.unwrap().get().get();
    let cuts: Vec<f64> = (-6000..8000).map(|i| f64::from(i) * 1e-3).collect();
    let secret = cells(0.0, sigma, &cuts);
    let masked = mix(&[
        (1.0 - sampled, &secret),
        (sampled, &cells(1.0, sigma, &cuts)),
    ]);
    let seen = mix(&[(1.0 - gamma, &masked), (gamma, &secret)]);
    let (forward, reverse) = (excess(&seen, &masked, found), excess(&masked, &seen, found));
    assert!(forward < 0.9 * reverse, "{forward} {reverse}");
    assert!((reverse / wish - 1.0).abs() < 1e-3, "{reverse}");
}
