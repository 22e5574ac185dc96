//! Miss rates from labels: coverage by simulation, strata, clusters, the split of the confidence.

use proptest::prelude::*;
use reticent_accounting::confidentiality::{Label, LabelledSecrets, MeasuredFor};
use reticent_accounting::statistics::{clopper_pearson_upper, labels_needed};
use reticent_accounting::{Confidence, MissRate, UnitName};

/// A deterministic generator for simulations: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn confidence(value: f64) -> Confidence {
    Confidence::new(value).unwrap()
}

fn label(
    kind: &str,
    missed: bool,
    open: Option<bool>,
    secret: Option<usize>,
    population: Option<u64>,
) -> Label {
    Label {
        kind: kind.into(),
        missed,
        missed_by_conservative: open,
        secret: secret.map(|id| format!("{kind}-{id}")),
        place: None,
        records: None,
        population,
        measured_for: None,
    }
}

/// 1000 simulated corpora (seed 4): three kinds with their own rates, 60, 40 and 25 secrets
/// labelled, up to three places each. At confidence 0.9 both bounds hold at once in at least 90 %
/// of them; fewer than 862 of 1000 would happen to a bound of exactly that coverage with
/// probability below 1e-4 (binomial), so the false-alarm rate is below 1e-4.
#[test]
fn both_rates_are_covered_together() {
    let mut random = Random(4);
    let kinds = [
        ("phone", 60usize, 700u64, 0.12, 0.3),
        ("name", 40, 200, 0.3, 0.1),
        ("key", 25, 100, 0.02, 0.9),
    ];
    let total: f64 = kinds.iter().map(|k| k.2 as f64).sum();
    let truth: f64 = kinds.iter().map(|k| k.2 as f64 / total * k.3).sum();
    let both: f64 = kinds.iter().map(|k| k.2 as f64 / total * k.3 * k.4).sum();
    let (mut covered, mut loose) = (0, 0.0);
    for _ in 0..1000 {
        let mut labels = Vec::new();
        for (kind, sample, population, miss, open) in kinds {
            for secret in 0..sample {
                let missed = random.next() < miss;
                let open = random.next() < open;
                let places = 1 + (random.next() * 3.0) as usize;
                // Missed in one of its places.
                for place in 0..places {
                    labels.push(label(
                        kind,
                        missed && place == 0,
                        Some(open),
                        Some(secret),
                        Some(population),
                    ));
                }
            }
        }
        let rates = LabelledSecrets::gather(labels)
            .unwrap()
            .rates(confidence(0.9))
            .unwrap();
        let (gamma, eta) = (rates.gamma.get().get(), rates.eta.get().get());
        covered += u32::from(gamma >= truth && eta >= both);
        loose += gamma / truth / 1000.0;
    }
    assert!(covered >= 862, "{covered}");
    // No wilder than a bound has to be: the average stays below three times the truth.
    assert!(loose < 3.0, "{loose}");
}

/// Coverage of the single bound without strata, exactly: the sum over outcomes that are covered.
#[test]
fn the_single_bound_covers_exactly() {
    let n = 40u64;
    for truth in [0.01, 0.05, 0.2, 0.5, 0.95] {
        let mut covered = 0.0;
        let mut weight = (1.0f64 - truth).powi(n as i32);
        for missed in 0..=n {
            let sample = (0..n).map(|i| label("any", i < missed, None, None, None));
            let rates = LabelledSecrets::gather(sample)
                .unwrap()
                .rates(confidence(0.95))
                .unwrap();
            if rates.gamma.get().get() >= truth {
                covered += weight;
            }
            weight *= (n - missed) as f64 / (missed as f64 + 1.0) * truth / (1.0 - truth);
        }
        assert!(covered >= 0.95, "{truth}: {covered}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Several labels of one secret are one observation, missed where any of them is.
    #[test]
    fn labels_of_one_secret_count_once(secrets in proptest::collection::vec((1usize..5, any::<bool>(), any::<bool>()), 1..30)) {
        let expand = |repeat: bool| {
            let mut labels = Vec::new();
            for (id, (places, missed, open)) in secrets.iter().enumerate() {
                for place in 0..if repeat { *places } else { 1 } {
                    labels.push(label("k", *missed && place == 0, Some(*open), Some(id), None));
                }
            }
            LabelledSecrets::gather(labels).unwrap()
        };
        let (many, one) = (expand(true), expand(false));
        prop_assert_eq!(many.labelled(), secrets.len() as u64);
        prop_assert_eq!((many.missed(), many.missed_by_both()), (one.missed(), one.missed_by_both()));
        let at = |sample: &LabelledSecrets| sample.rates(confidence(0.95)).unwrap();
        prop_assert_eq!(at(&many).gamma, at(&one).gamma);
        // η is never above γ, and both are above what was seen.
        let rates = at(&many);
        prop_assert!(rates.eta.get() <= rates.gamma.get());
        prop_assert!(rates.gamma.get().get() >= many.missed() as f64 / many.labelled() as f64);
        prop_assert!(rates.redaction().is_ok());
    }

    /// The split: each bound is Clopper–Pearson at 1 − α/bounds, or 1 where all but one were missed; the strata weighted by
    /// their sizes.
    #[test]
    fn strata_are_weighted_by_their_sizes(a in (1u64..50, 0.0f64..1.0, 50u64..500), b in (1u64..50, 0.0f64..1.0, 50u64..500), conservative: bool) {
        let missed = |k: &(u64, f64, u64)| (k.0 as f64 * k.1) as u64;
        let mut labels = Vec::new();
        for (kind, k) in [("a", &a), ("b", &b)] {
            for i in 0..k.0 {
                labels.push(label(kind, i < missed(k), conservative.then_some(false), None, Some(k.2)));
            }
        }
        let sample = LabelledSecrets::gather(labels).unwrap();
        let bounds = if conservative { 4 } else { 2 };
        prop_assert_eq!(sample.bounds(), bounds);
        let rates = sample.rates(confidence(0.9)).unwrap();
        let each = confidence(1.0 - 0.1 / bounds as f64);
        let bound = |k: &(u64, f64, u64)| match missed(k) {
            all if all > 0 && all + 1 == k.0 => 1.0,
            some => clopper_pearson_upper(some, k.0, each).unwrap().get().get(),
        };
        let weight = |k: &(u64, f64, u64)| k.2 as f64 / (a.2 + b.2) as f64;
        let wanted = weight(&a) * bound(&a) + weight(&b) * bound(&b);
        prop_assert!((rates.gamma.get().get() - wanted).abs() < 1e-12);
        if !conservative {
            // Nobody looked: whatever is missed may be missed by both.
            prop_assert_eq!(rates.eta, rates.gamma);
        }
    }
}

/// Golden: CRT's 200 labels and what its δ would take.
#[test]
fn two_hundred_labels_do_not_support_eight_in_a_hundred_thousand() {
    let sample = |labelled: u64, missed: u64| {
        let labels = (0..labelled).map(|i| label("any", i < missed, None, None, None));
        let rates = LabelledSecrets::gather(labels)
            .unwrap()
            .rates(confidence(0.95))
            .unwrap();
        rates.gamma.get().get()
    };
    assert!((sample(200, 0) - 0.0149).abs() < 5e-5);
    assert!((sample(200, 20) - 0.142).abs() < 5e-4);
    let needed = labels_needed(MissRate::new(8e-5).unwrap(), confidence(0.95)).unwrap();
    assert_eq!(needed, 37_446);
    // Tight: that many suffice and one fewer does not.
    assert!(sample(needed, 0) <= 8e-5 * (1.0 + 1e-9) && sample(needed - 1, 0) > 8e-5);
}

/// What contradicts itself is refused by name.
#[test]
fn labels_that_do_not_fit_together_are_refused() {
    let refused = |labels: Vec<Label>| LabelledSecrets::gather(labels).unwrap_err().to_string();
    assert!(refused(vec![]).contains("number of labels"));
    assert!(
        refused(vec![
            label("a", true, Some(true), None, None),
            label("a", true, None, None, None)
        ])
        .contains("missed_by_conservative")
    );
    assert!(
        refused(vec![
            label("a", true, None, None, Some(5)),
            label("a", true, None, None, Some(6))
        ])
        .contains("the same number on each label of the kind, got 5 and 6")
    );
    assert!(
        refused(vec![
            label("a", true, None, None, Some(1)),
            label("a", true, None, None, None)
        ])
        .contains("population")
    );
    assert!(
        refused(vec![
            label("a", true, None, None, Some(9)),
            label("b", true, None, None, None)
        ])
        .contains("\"b\"")
    );
    let mut two = label("b", true, None, None, None);
    two.secret = Some("a-1".into());
    assert!(refused(vec![label("a", true, None, Some(1), None), two]).contains("one kind"));
    // Of two sheets of one policy, a secret may be in both.
    let drawn = |seed| Label {
        measured_for: Some(MeasuredFor {
            policy: "general".into(),
            digest: None,
            conservative: None,
            unit: UnitName::new("turn").unwrap(),
            seed: Some(seed),
        }),
        ..label("a", true, None, None, None)
    };
    let said = refused(vec![drawn(1), drawn(2)]);
    assert!(said.contains("one policy, unit and sample"), "{said}");
    // Of a file that is joined to itself every secret would have two places.
    let at = |place: &str| Label {
        place: Some(place.into()),
        ..label("a", false, None, Some(1), None)
    };
    assert!(
        refused(vec![at("x"), at("y"), at("x")]).contains("two labels of one secret in one place")
    );
    let places = |labels| LabelledSecrets::gather(labels).unwrap().fewest_places();
    assert_eq!(places(vec![at("x"), at("y")]), Some(2));
    assert_eq!(places(vec![at("x"), at(" ")]), Some(1));
    // Without places, nothing tells it from a file of one label.
    let unnamed = label("a", false, None, Some(1), None);
    assert_eq!(places(vec![unnamed.clone(), unnamed.clone()]), Some(1));
    assert_eq!(places(vec![at("x"), at("y"), unnamed.clone()]), Some(2));
    let of_two = Label {
        records: Some(2),
        ..unnamed
    };
    assert_eq!(places(vec![of_two.clone(), of_two.clone()]), Some(1));
    let in_both = |place: &str| Label {
        place: Some(place.into()),
        ..of_two.clone()
    };
    assert_eq!(places(vec![in_both("x"), in_both("y")]), None);
    let other = Label {
        secret: Some("a-2".into()),
        ..at("x")
    };
    assert_eq!(places(vec![at("x"), other]), Some(1));
}

/// More labels at the same share of misses only help, and never exceed the population.
#[test]
fn more_labels_are_worth_something() {
    let labels = (0..100).map(|i| label("a", i < 10, Some(i < 1), None, Some(150)));
    let sample = LabelledSecrets::gather(labels).unwrap();
    let more = sample.enlarged(1000);
    assert_eq!(
        (more.labelled(), more.missed(), more.missed_by_both()),
        (150, 15, 2)
    );
    let at = |s: &LabelledSecrets| s.rates(confidence(0.95)).unwrap().gamma;
    assert!(at(&more).get() < at(&sample).get());
}
