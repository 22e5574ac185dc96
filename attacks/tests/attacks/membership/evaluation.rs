//! What a set of scores proves.

use super::{close, ends, level};
use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reticent_attacks::membership::{
    AccuracyRule, AreaMethod, BlindFeatures, Rate, ScoreSet, blind_baseline, non_members_needed,
};

/// Golden: Mann–Whitney with ties; the hull gives 0.8125 for the first.
#[test]
fn areas() {
    for (members, others, expected) in [
        (vec![0.0, 4.0, 6.0, 7.0], vec![1.0, 2.0, 3.0, 5.0], 0.6875),
        (vec![0.0, 1.0, 1.0, 2.0], vec![0.0, 0.0, 1.0, 1.0], 0.6875),
        (vec![1.0, 1.0], vec![1.0, 1.0, 1.0], 0.5),
        (vec![f64::INFINITY, 0.0], vec![f64::INFINITY, -1.0], 0.625),
    ] {
        let area = ScoreSet::new(members, others)
            .unwrap()
            .area(level(0.95), 0)
            .unwrap();
        close(area.estimate, expected, 1e-12);
        assert_eq!(area.method, AreaMethod::DisjointPairs);
        let (low, high) = ends(&area.bounds);
        assert!(low <= area.estimate && area.estimate <= high);
    }
}

/// DeLong's variance on the logit scale, and the ends that skewness moves out, against an independent computation in double
/// loops.
#[test]
fn delong_by_its_definition() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let members: Vec<f64> = (0..40)
        .map(|_| f64::from(rng.random_range(2..14_u32)))
        .collect();
    let others: Vec<f64> = (0..60)
        .map(|_| f64::from(rng.random_range(0..12_u32)))
        .collect();
    let psi = |x: f64, y: f64| {
        if x > y {
            1.0
        } else if x < y {
            0.0
        } else {
            0.5
        }
    };
    let v10: Vec<f64> = members
        .iter()
        .map(|x| others.iter().map(|y| psi(*x, *y)).sum::<f64>() / 60.0)
        .collect();
    let v01: Vec<f64> = others
        .iter()
        .map(|y| members.iter().map(|x| psi(*x, *y)).sum::<f64>() / 40.0)
        .collect();
    let a = v10.iter().sum::<f64>() / 40.0;
    let power = |v: &[f64], n: i32| v.iter().map(|p| (p - a).powi(n)).sum::<f64>();
    let s = |v: &[f64]| power(v, 2) / (v.len() as f64 - 1.0);
    let se = (s(&v10) / 40.0 + s(&v01) / 60.0).sqrt() / (a * (1.0 - a));
    let logit = (a / (1.0 - a)).ln();
    let back = |x: f64| 1.0 / (1.0 + (-x).exp());
    let z = 1.959_963_984_540_054;
    let (low, high) = (back(logit - z * se), back(logit + z * se));
    // z²/2 more records of each side, as far off as its third moment towards the end over its second.
    let skewed = |sign: f64| {
        let sides = [&v10, &v01].map(|v| {
            let n = v.len() as f64;
            let towards = v.iter().map(|p| sign * (p - a)).filter(|d| *d > 0.0);
            let rare = towards.map(|d| d.powi(3)).sum::<f64>() / power(v, 2);
            let added = 0.5 * z * z;
            (
                added * rare / n,
                (power(v, 2) + added * rare * rare) / (n * n),
            )
        });
        let shift = sides[0].0 + sides[1].0;
        let se = ((sides[0].1 + sides[1].1) * 40.0 / 39.0).sqrt();
        match shift > 0.0 {
            true => a + sign * (shift + z * se),
            false => a,
        }
    };
    let set = ScoreSet::new(members, others).unwrap();
    let earlier = set.delong_without_skewness(level(0.95)).unwrap().unwrap();
    close(ends(&earlier).0, low, 1e-10);
    close(ends(&earlier).1, high, 1e-10);
    let area = set.area(level(0.95), 0).unwrap();
    assert_eq!(area.method, AreaMethod::Delong);
    close(area.estimate, a, 1e-12);
    let found = ends(&area.bounds);
    close(found.0, low.min(skewed(-1.0)), 1e-10);
    close(found.1, high.max(skewed(1.0)), 1e-10);
}

/// Of members that tie with all others but for k that lie lower, the lower end is beyond that of Clopper and Pearson for the
/// share of the k, and not far beyond it.
#[test]
fn an_end_covers_what_is_rare() {
    for (k, n) in [(5_u64, 100_u64), (5, 1000), (10, 400), (20, 1000)] {
        let members = (0..n).map(|i| if i < k { -1.0 } else { 0.0 });
        let set = ScoreSet::new(members.collect(), vec![0.0; 500]).unwrap();
        let area = set.area(level(0.95), 0).unwrap();
        assert_eq!(area.method, AreaMethod::Delong);
        let exact = ends(&Rate::of(k, n, level(0.95)).unwrap().bounds).1;
        let (low, exact) = (ends(&area.bounds).0, 0.5 * (1.0 - exact));
        let beyond = (exact - low) / (area.estimate - exact);
        assert!((0.0..0.12).contains(&beyond), "{k} of {n}: {low} {exact}");
    }
}

/// As many that lie higher make up for none of the few that lie lower: neither end comes closer to the area.
#[test]
fn what_is_rare_on_one_side_hides_nothing_on_the_other() {
    let reach = |higher: u32| {
        let members = (0..1000_u32).map(|i| match i {
            0..5 => -1.0,
            _ if i < 5 + higher => 1.0,
            _ => 0.0,
        });
        let set = ScoreSet::new(members.collect(), vec![0.0; 5000]).unwrap();
        let area = set.area(level(0.95), 0).unwrap();
        assert_eq!(area.method, AreaMethod::Delong);
        let (low, high) = ends(&area.bounds);
        (area.estimate - low, high - area.estimate)
    };
    let (alone, both) = (reach(0), reach(5));
    assert!(both.0 >= alone.0, "{both:?} {alone:?}");
    close(both.0, both.1, 1e-6);
}

/// Perfect separation is no certainty: the interval does not close.
#[test]
fn perfect_separation_keeps_an_interval() {
    let members: Vec<f64> = (100..200).map(f64::from).collect();
    let others: Vec<f64> = (0..100).map(f64::from).collect();
    let area = ScoreSet::new(members, others)
        .unwrap()
        .area(level(0.95), 0)
        .unwrap();
    let (low, high) = ends(&area.bounds);
    close(low, 0.025_f64.powf(0.01), 1e-9); // Clopper–Pearson, 100 of 100 pairs
    assert!(high >= 1.0);
}

/// Golden: Clopper–Pearson, scipy's beta quantiles.
#[test]
fn rates() {
    for (hits, trials, expected) in [
        (
            1200,
            2000,
            (0.578_145_898_723_078_9, 0.621_560_438_254_754_8),
        ),
        (
            1000,
            2000,
            (0.477_850_554_231_109_8, 0.522_149_445_768_890_2),
        ),
        (
            1,
            1000,
            (2.531_748_749_129_404e-5, 0.005_558_924_279_826_672),
        ),
        (
            37,
            1000,
            (0.026_182_708_843_737_34, 0.050_641_123_059_924_85),
        ),
    ] {
        let rate = Rate::of(hits, trials, level(0.95)).unwrap();
        let (low, high) = ends(&rate.bounds);
        close(low, expected.0, 1e-9);
        close(high, expected.1, 1e-9);
    }
}

/// Golden: ⌈ln 0.05 / ln(1 − x)⌉, and of 0.0125, a quarter of what may be wrong; one non-member fewer is refused, with the number.
#[test]
fn a_sample_certifies_what_it_can() {
    for (fpr, alone, needed) in [
        (0.01, 299, 437),
        (0.001, 2995, 4380),
        (0.0001, 29_956, 43_819),
    ] {
        assert_eq!(non_members_needed(fpr, level(0.95)).unwrap(), alone);
        let members: Vec<f64> = (0..50).map(|i| f64::from(i) + 1e6).collect();
        let at = |n: u64| {
            let others = (0..n).map(|i| i as f64).collect();
            let set = ScoreSet::new(members.clone(), others).unwrap();
            set.true_positives_at(fpr, level(0.95), 0).unwrap()
        };
        let short = at(needed - 1);
        assert!(short.found.is_none() && short.non_members_needed == needed);
        let found = at(needed).found.unwrap();
        assert_eq!((found.allowed, found.tpr.hits), (0, 50));
        assert!(found.fpr_upper <= fpr);
    }
    assert!(non_members_needed(0.0, level(0.95)).is_err());
}

/// The documented example of jax_privacy: 0..99 against the same + 9.5; 11 % of the members lie
/// above the largest but one non-member. Certified at 98.75 %, the threshold's share of 95 %, that is a rate of 6.2 %, not 1 %.
#[test]
fn what_an_empirical_rate_certifies() {
    let others: Vec<f64> = (0..100).map(f64::from).collect();
    let set = ScoreSet::new(others.iter().map(|s| s + 9.5).collect(), others).unwrap();
    let at_one_percent = set.roc().into_iter().filter(|p| p.fpr <= 0.01);
    close(
        at_one_percent.map(|p| p.tpr).fold(0.0, f64::max),
        0.11,
        1e-12,
    );
    assert!(
        set.true_positives_at(0.01, level(0.95), 0)
            .unwrap()
            .found
            .is_none()
    );
    let found = set
        .true_positives_at(0.0625, level(0.95), 0)
        .unwrap()
        .found
        .unwrap();
    assert_eq!((found.allowed, found.tpr.hits), (1, 11));
}

#[test]
fn the_roc_curve_steps_over_ties() {
    let set = ScoreSet::new(vec![0.0, 1.0, 1.0, 2.0], vec![0.0, 0.0, 1.0, 1.0]).unwrap();
    let corners: Vec<(f64, f64)> = set.roc().iter().map(|p| (p.fpr, p.tpr)).collect();
    assert_eq!(corners, [(0.0, 0.0), (0.0, 0.25), (0.5, 0.75), (1.0, 1.0)]);
    let (low, high) = set.roc_band(0.5, level(0.95), 0).unwrap();
    assert!(low <= 0.75 && 0.75 <= high);
}

#[test]
fn accuracy_with_a_fixed_threshold_and_with_a_split() {
    let members: Vec<f64> = (0..1000).map(|i| f64::from(i % 100) + 20.0).collect();
    let others: Vec<f64> = (0..1000).map(|i| f64::from(i % 100)).collect();
    let set = ScoreSet::new(members, others).unwrap();
    let fixed = set
        .accuracy(AccuracyRule::Fixed(59.5), level(0.95), 0)
        .unwrap();
    close(fixed.estimate, 0.6, 1e-12);
    let (low, high) = ends(&fixed.bounds);
    close(low, 0.578_145_898_723_078_9, 1e-9);
    close(high, 0.621_560_438_254_754_8, 1e-9);
    let split = set.accuracy(AccuracyRule::Split, level(0.95), 0).unwrap();
    assert_eq!((split.members, split.non_members), (500, 500));
    let (low, high) = ends(&split.bounds);
    assert!(low < 0.6 && 0.6 < high);
    assert!(
        set.accuracy(AccuracyRule::Fixed(f64::NAN), level(0.95), 0)
            .is_err()
    );
}

#[test]
fn scores_that_are_no_scores_are_refused() {
    assert!(ScoreSet::new(vec![], vec![1.0]).is_err());
    assert!(ScoreSet::new(vec![1.0], vec![]).is_err());
    let error = ScoreSet::new(vec![1.0, f64::NAN], vec![1.0]).unwrap_err();
    assert!(error.to_string().contains("NaN"), "{error}");
    let set = ScoreSet::new(vec![1.0; 30], vec![0.0; 30]).unwrap();
    assert!(set.with_groups(&[1; 29], &[2; 30]).is_err());
}

/// With an effective number of groups below ten, one record of each is judged: of one author with 300 records and 99 with
/// one, as of three groups.
#[test]
fn few_large_groups_are_judged_by_one_record_of_each() {
    let area = |sizes: &[usize]| {
        let names: Vec<usize> = (sizes.iter().enumerate())
            .flat_map(|(group, size)| std::iter::repeat_n(group, *size))
            .collect();
        let members: Vec<f64> = names.iter().map(|group| (7 * group % 100) as f64).collect();
        let others: Vec<f64> = (0..200).map(|i| f64::from(i) - 60.0).collect();
        let set = ScoreSet::new(members, others).unwrap();
        let own: Vec<usize> = (1000..1200).collect();
        set.with_groups(&names, &own)
            .unwrap()
            .area(level(0.95), 0)
            .unwrap()
    };
    for (sizes, method) in [
        ([vec![300], vec![1; 99]].concat(), AreaMethod::DisjointPairs),
        (vec![4; 3], AreaMethod::DisjointPairs),
        (vec![4; 9], AreaMethod::DisjointPairs),
        (vec![4; 10], AreaMethod::ClusterBootstrap),
        // (10·10 + 90)²/(10·100 + 90) = 33.
        (
            [vec![10; 10], vec![1; 90]].concat(),
            AreaMethod::ClusterBootstrap,
        ),
    ] {
        assert_eq!(area(&sizes).method, method, "{sizes:?}");
    }
}

/// Texts from two vocabularies are distinguished without any model; texts from one are not.
#[test]
fn a_blind_baseline_sees_a_shifted_split() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut text = |words: &[&str], group: usize| {
        let chosen: Vec<&str> = (0..6)
            .map(|_| words[rng.random_range(0..words.len())])
            .collect();
        (chosen.join(" "), group)
    };
    let old = ["order", "parcel", "2019", "invoice", "delivery", "street"];
    let new = ["order", "parcel", "2024", "refund", "delivery", "avenue"];
    let members: Vec<_> = (0..200).map(|i| text(&old, i)).collect();
    let same: Vec<_> = (200..400).map(|i| text(&old, i)).collect();
    let shifted: Vec<_> = (200..400).map(|i| text(&new, i)).collect();
    let found = blind_baseline(&members, &shifted, level(0.95), 0).unwrap();
    assert!(found.shifted && found.area.estimate > 0.9, "{found:?}");
    assert_eq!(found.judged, 200);
    let none = blind_baseline(&members, &same, level(0.95), 0).unwrap();
    assert!(!none.shifted && none.area.estimate < 0.65, "{none:?}");
}

/// Texts of the same words that are longer on one side are distinguished by that alone.
#[test]
fn a_blind_baseline_sees_lengths() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut texts = |from: usize, words: usize| -> Vec<(String, usize)> {
        let mut text = || -> String {
            let chosen = (0..words + rng.random_range(0..words / 2))
                .map(|_| ["order", "parcel", "call"][rng.random_range(0..3)]);
            chosen.collect::<Vec<_>>().join(" ")
        };
        (from..from + 200).map(|i| (text(), i)).collect()
    };
    let (members, same, longer) = (texts(0, 8), texts(200, 8), texts(200, 12));
    for (members, longer) in [
        (&members[..], &longer[..]),
        (&members[..40], &longer[..40]),
        (&longer[..40], &members[..40]),
    ] {
        let found = blind_baseline(members, longer, level(0.95), 0).unwrap();
        // Forms hold lengths too; of few texts either may show more.
        let by_length = found.by == BlindFeatures::Length;
        let by_form = found.by == BlindFeatures::Form && members.len() == 40;
        assert!(found.shifted && (by_length || by_form), "{found:?}");
    }
    let none = blind_baseline(&members, &same, level(0.95), 0).unwrap();
    assert!(
        !none.shifted && none.by == BlindFeatures::Content,
        "{none:?}"
    );
    // A mark at the end of one side's, of the same length, or the same length of all.
    let changed = |change: &dyn Fn(&str) -> String| -> Vec<(String, usize)> {
        let texts = same.iter().map(|(text, group)| (change(text), *group));
        texts.collect()
    };
    let stopped = changed(&|text| format!("{}.", &text[..text.len() - 1]));
    let padded = changed(&|text| format!("{text:x<44.44}"));
    for others in [stopped, padded] {
        let found = blind_baseline(&members, &others, level(0.95), 0).unwrap();
        assert!(found.shifted && found.area.estimate > 0.8, "{found:?}");
    }
}

/// A stratum of few groups, most of which have no member in it, is judged by one record of each.
#[test]
fn strata_of_groups_leave_empty_ones_out() {
    let members: Vec<f64> = (0..40).map(f64::from).collect();
    let set = ScoreSet::new(members.clone(), members).unwrap();
    let names: Vec<usize> = (0..40).map(|i| i / 4).collect();
    let others: Vec<usize> = (0..40).map(|i| 100 + i / 4).collect();
    let set = set.with_groups(&names, &others).unwrap();
    let copies: Vec<u64> = (0..40).map(|i| if i < 8 { 5 } else { 1 }).collect();
    let found = set.by_copies(&copies, &[0.5], level(0.95), 0).unwrap();
    assert_eq!((found[0].members, found[1].members), (32, 8));
}
