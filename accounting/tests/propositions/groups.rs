//! Several secrets, several records, deduplication: Proposition 5's second half, Proposition 7,
//! Theorem 8.2, and what goes wrong with single copies and with packing.

use super::finite::{both, delta, epsilon, excess, gaussian, law, mix, profile, query, tight};
use proptest::prelude::*;
use reticent_accounting::confidentiality::{
    CorpusFacts, Knowledge, Reach, SecretGroup, Spread, Standing,
};
use reticent_accounting::group::group_lemma;
use reticent_accounting::pld::Profile;
use reticent_accounting::{GroupSize, Neighbours};
use std::collections::BTreeSet;

/// Exact deduplication: the second and later copies become masks (`None`).
fn deduplicate(records: &[Option<u8>]) -> Vec<Option<u8>> {
    let mut seen = BTreeSet::new();
    records
        .iter()
        .map(|r| r.filter(|text| seen.insert(*text)))
        .collect()
}

/// Records that differ.
fn differ(one: &[Option<u8>], other: &[Option<u8>]) -> u64 {
    one.iter().zip(other).filter(|(a, b)| a != b).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Prop. 5 for a list: a law for every set of secrets that is masked, (ε_i, δ_i) between any
    /// two that differ in secret i. All against none costs no more than the lemma says, whatever
    /// order makes it least.
    #[test]
    fn any_order_of_masking_holds(
        laws in proptest::collection::vec(law(4), 8),
        epsilons in proptest::collection::vec(0.0f64..0.1, 3),
    ) {
        // Close to each other, so that every δ is small and their order matters.
        let laws: Vec<Vec<f64>> = laws.iter().map(|law| mix(&[(0.95, &[0.25; 4]), (0.05, law)])).collect();
        let each: Vec<_> = epsilons.iter().enumerate().map(|(i, e)| {
            let boundaries = (0..8usize).filter(|set| set >> i & 1 == 0);
            let worst = boundaries.map(|set| both(&laws[set], &laws[set | 1 << i], *e)).fold(0.0, f64::max);
            (epsilon(*e), delta(worst.min(1.0)))
        }).collect();
        let (total, promised) = group_lemma(&each);
        let truth = both(&laws[0], &laws[7], total.get().get());
        prop_assert!(truth <= promised.get().get() + 1e-12, "{truth} {promised:?}");
        // No order of the sum is below it, and the paper's k e^ε δ is above.
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let (mut before, mut sum) = (0.0f64, 0.0);
            for i in order {
                sum += each[i].1.get() * before.exp();
                before += each[i].0.get();
            }
            prop_assert!(promised.get().get() <= sum * (1.0 + 1e-12) + 1e-15);
        }
        let worst = each.iter().map(|e| e.1.get()).fold(0.0, f64::max);
        prop_assert!(promised.get().get() <= 3.0 * total.get().get().exp() * worst + 1e-12);
    }

    /// Theorem 8.2: only the missed members cost anything, and one missed by both costs everything.
    #[test]
    fn a_group_pays_for_its_missed_members(
        standings in proptest::collection::vec(prop_oneof![
            4 => Just(Standing::Caught),
            3 => (1u64..4).prop_map(|records| Standing::Missed { records }),
            1 => Just(Standing::Exposed),
        ], 1..8),
        factor in 1u64..3,
    ) {
        let group = SecretGroup::new(standings.clone());
        let open = standings.contains(&Standing::Exposed);
        let records: u64 = standings.iter().map(|s| match s {
            Standing::Missed { records } => records * factor,
            _ => 0,
        }).sum();
        let wanted = match records {
            _ if open => Reach::Open,
            0 => Reach::Nothing,
            n => Reach::Records(GroupSize::new(n as u32).unwrap()),
        };
        prop_assert_eq!(group.reach(Spread::AtMost(factor)), wanted);
        let single = Profile::at_deltas(&gaussian(3.0), query(Neighbours::Replace, 1), &[delta(1e-6)], tight()).unwrap();
        let (e, d) = group.by_lemma(Spread::AtMost(factor), &single, delta(1e-6)).unwrap();
        let one = single.epsilon(delta(1e-6)).unwrap().upper.unwrap().get().get();
        if open {
            prop_assert!(e.get().get().is_infinite() && d.get().get() >= 1.0);
        } else {
            prop_assert!((e.get().get() - records as f64 * one).abs() < 1e-9 * (1.0 + e.get().get()));
        }
    }

    /// Prop. 7: with all copies of a secret masked together, deduplication changes as many records
    /// as the secret has distinct records, and never more; k of neighbour-diff is the group size.
    #[test]
    fn all_copies_together_change_each_distinct_record_once(
        records in proptest::collection::vec(0u8..6, 1..12),
        carriers in proptest::collection::btree_set(0u8..6, 1..4),
    ) {
        let before: Vec<Option<u8>> = records.iter().map(|r| Some(*r)).collect();
        // Masking the secret turns each carrier into its own masked text, new to the corpus.
        let after: Vec<Option<u8>> = records.iter().map(|r| {
            Some(if carriers.contains(r) { r + 100 } else { *r })
        }).collect();
        let k = differ(&deduplicate(&before), &deduplicate(&after));
        let distinct: BTreeSet<u8> = records.iter().copied().filter(|r| carriers.contains(r)).collect();
        prop_assert_eq!(k, distinct.len() as u64);
        let reach = Standing::Missed { records: k }.reach(Spread::AtMost(1));
        if k > 0 {
            prop_assert_eq!(reach, Reach::Records(GroupSize::new(k as u32).unwrap()));
        } else {
            prop_assert_eq!(reach, Reach::Nothing);
        }
    }

    /// Uniform confidentiality: masking everything at once, walked secret by secret.
    #[test]
    fn all_secrets_together_reach_the_sum(missed in 0u64..5, most in 1u64..4, factor in 1u64..3) {
        let facts = CorpusFacts::new(9, missed, 0, most, Spread::AtMost(factor), Knowledge::Counted).unwrap();
        let members = vec![Standing::Missed { records: most }; missed as usize];
        prop_assert_eq!(facts.reach_of_all(), SecretGroup::new(members).reach(Spread::AtMost(factor)));
    }
}

/// Tight: a chain of randomised responses attains ε = Σ ε_i with δ = 0, and k identical Gaussian
/// shifts attain the exact pair, below the lemma.
#[test]
fn the_lemma_is_attained_and_the_mixture_beats_it() {
    let e = 0.7f64;
    let factor = e.exp();
    // P_S(0) ∝ e^{|S|·ε} over two outcomes with a vanishing second one: ratios multiply.
    let tiny = 1e-9;
    let at = |k: i32| [tiny * factor.powi(k), 1.0 - tiny * factor.powi(k)];
    let each = vec![(epsilon(e), delta(0.0)); 3];
    let (total, none) = group_lemma(&each);
    assert!(none.get().get() <= 0.0);
    assert!(excess(&at(3), &at(0), total.get().get()) <= 1e-15);
    assert!(excess(&at(3), &at(0), total.get().get() - 1e-6) > 1e-16);
    let run = gaussian(3.0);
    let single =
        Profile::at_deltas(&run, query(Neighbours::Replace, 1), &[delta(1e-7)], tight()).unwrap();
    let group = SecretGroup::new(vec![
        Standing::Missed { records: 2 },
        Standing::Caught,
        Standing::Missed { records: 2 },
    ]);
    let (lemma, spent) = group
        .by_lemma(Spread::AtMost(1), &single, delta(1e-7))
        .unwrap();
    let all = Profile::at_deltas(
        &run,
        query(Neighbours::Replace, 4),
        &[*spent.get()],
        tight(),
    )
    .unwrap();
    let exact = group.exactly(Spread::AtMost(1), &all).unwrap();
    let exact = exact.epsilon(*spent.get()).unwrap().upper.unwrap();
    assert!(exact.get() < lemma.get());
    assert!(group.exactly(Spread::AtMost(1), &single).is_err());
    // A group of which nothing is missed costs nothing.
    let caught = SecretGroup::new(vec![Standing::Caught; 5]);
    let (e, d) = caught
        .by_lemma(Spread::AtMost(1), &single, delta(1e-7))
        .unwrap();
    assert!(e.get().get() <= 0.0 && d.get().get() <= 0.0);
}

/// Trap: Theorem 8.2 by its words, with the share that is detected. A policy that misses all of
/// three secrets "detects" none, so the words promise (0, 0).
#[test]
fn the_detected_share_promises_nothing_it_keeps() {
    let group = SecretGroup::new(vec![Standing::Missed { records: 1 }; 3]);
    let by_its_words = 1.0 - group.missed_share();
    assert!(by_its_words <= 0.0);
    let (run, masked) = ([0.9, 0.1], [0.1, 0.9]);
    let base = profile(query(Neighbours::Replace, 3), &run, &masked);
    let found = group.exactly(Spread::AtMost(1), &base).unwrap();
    let promised = found.delta(epsilon(0.0)).unwrap().upper.unwrap();
    assert!((promised.get().get() - 0.8).abs() < 1e-12);
    assert!(both(&run, &masked, 0.0) > 0.0);
}

/// Trap: Prop. 7 with a single copy. {s, s} → {s, M} but {s', s} → {s', s}: two records change.
#[test]
fn a_single_copy_changes_two_records() {
    let before = deduplicate(&[Some(1), Some(1)]);
    let after = deduplicate(&[Some(9), Some(1)]);
    assert_eq!(before, [Some(1), None]);
    assert_eq!(differ(&before, &after), 2);
    // All copies together: one.
    assert_eq!(differ(&before, &deduplicate(&[Some(9), Some(9)])), 1);
    let single = Standing::Missed { records: 1 }.reach(Spread::AtMost(2));
    assert_eq!(single, Reach::Records(GroupSize::new(2).unwrap()));
}

/// Trap: packing after redaction. One mask that is shorter than what it covers shifts every
/// later block: k grows with the corpus, so that no spread is finite.
#[test]
fn packing_after_redaction_shifts_every_block() {
    let packed =
        |tokens: Vec<u32>| -> Vec<Vec<u32>> { tokens.chunks(4).map(<[u32]>::to_vec).collect() };
    for blocks in [5u32, 50] {
        let tokens: Vec<u32> = (0..4 * blocks).collect();
        // The secret is tokens 1 and 2; masked, they are one token.
        let masked: Vec<u32> = tokens.iter().copied().filter(|t| *t != 2).collect();
        let (one, other) = (packed(tokens), packed(masked));
        let changed = one.iter().zip(&other).filter(|(a, b)| a != b).count() as u32;
        assert_eq!(changed, blocks);
    }
    assert_eq!(
        Standing::Missed { records: 1 }.reach(Spread::Unbounded),
        Reach::Open
    );
}
