//! Membership scores and their evaluation against published numbers and by-hand oracles.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::Confidence;
use reticent_attacks::{
    AccuracyRule, AreaMethod, Attack, Evidence, GroupRule, Lira, Rate, ScoreSet, Scored, Shadows,
    Spread, blind_baseline, digit_mutations, disjoint_groups, group_score, lira,
    logit_of_confidence, logit_of_logits, min_k, non_members_needed, rmia, zlib_bytes,
};
use reticent_backends::TokenScore;

pub(crate) fn level(confidence: f64) -> Confidence {
    Confidence::new(confidence).unwrap()
}

fn close(got: f64, wanted: f64, tolerance: f64) {
    assert!(
        (got - wanted).abs() <= tolerance,
        "got {got}, wanted {wanted}"
    );
}

/// A token's score with nothing but its ln p; the model's first choice is `top`.
fn token(log_probability: f64, top_token: u32) -> TokenScore {
    TokenScore {
        log_probability,
        mean: -2.0,
        variance: 1.0,
        top_token,
        top_log_probability: -0.1,
    }
}

fn row(ln_p: &[f64]) -> Vec<TokenScore> {
    ln_p.iter().map(|p| token(*p, 9)).collect()
}

fn ends(bounds: &reticent_accounting::Bounds<reticent_accounting::Probability>) -> (f64, f64) {
    (
        bounds.lower.unwrap().get().get(),
        bounds.upper.unwrap().get().get(),
    )
}

/// Golden: the definition of Shi et al. 2023; the short text that int(k n) = 0 loses.
#[test]
fn min_k_counts_at_least_one_token() {
    let ln_p = [-0.1, -2.0, -0.5, -3.0, -1.0, -0.2, -4.0, -0.3, -0.7, -1.5];
    for (share, expected) in [(0.1, -4.0), (0.2, -3.5), (0.5, -2.3), (1.0, -1.33)] {
        close(min_k(ln_p, share).unwrap(), expected, 1e-12);
    }
    close(min_k([-1.0, -7.0, -2.0, -3.0], 0.2).unwrap(), -7.0, 1e-12);
    assert!(min_k(ln_p, 0.0).is_err() && min_k([], 0.2).is_err());
    // 0.1 of 30 tokens are three, although 0.1 · 30 > 3 in double precision.
    close(min_k((0..30).map(f64::from), 0.1).unwrap(), 1.0, 1e-12);
}

#[test]
fn min_k_plus_plus_standardises_and_survives_certainty() {
    let mut scores = row(&[-1.0, -4.0, -2.0, -3.0, -2.5]);
    scores[1].variance = 4.0; // (−4 + 2)/2 = −1
    let tokens = [1; 5];
    let scored = Scored::new(&tokens, &scores).unwrap();
    close(scored.min_k_plus_plus(0.2).unwrap(), -1.0, 1e-12);
    let certain = [TokenScore {
        mean: 0.0,
        variance: 0.0,
        ..token(0.0, 1)
    }; 5];
    let scored = Scored::new(&tokens, &certain).unwrap();
    assert!(scored.min_k_plus_plus(0.2).unwrap().is_finite());
}

/// Golden: mean NLL 1.5 against 2.4; 20 nats over 24 bytes; NLL 2 against four neighbours.
#[test]
fn scores_of_one_record() {
    let tokens = [5, 6];
    let (target, reference) = (row(&[-1.0, -2.0]), row(&[-2.0, -2.8]));
    let (target, reference) = (
        Scored::new(&tokens, &target).unwrap(),
        Scored::new(&tokens, &reference).unwrap(),
    );
    close(target.loss(), -1.5, 1e-12);
    close(target.reference(reference).unwrap(), 0.9, 1e-12);
    close(target.lower_case(reference), 1.6, 1e-12);
    let eight = [1; 8];
    let twenty = row(&[-2.5; 8]);
    let scored = Scored::new(&eight, &twenty).unwrap();
    close(scored.zlib("My ID is 341752."), -20.0 / 24.0, 1e-12);
    let two = row(&[-2.0; 8]);
    let scored = Scored::new(&eight, &two).unwrap();
    // The published sign is NLL − mean, −0.7; ours rises with membership.
    close(
        scored.neighbourhood(&[2.5, 2.7, 2.6, 3.0]).unwrap(),
        0.7,
        1e-12,
    );
    let other = [5, 7];
    let moved = row(&[-1.0, -1.0]);
    let error = target
        .reference(Scored::new(&other, &moved).unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("one tokenizer"), "{error}");
}

/// Golden: CPython's zlib at level 6 for short texts.
#[test]
fn zlib_lengths() {
    for (text, expected) in [
        ("My ID is 341752.", 24),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 11),
        ("The quick brown fox jumps over the lazy dog.", 51),
    ] {
        assert_eq!(zlib_bytes(text), expected, "{text}");
    }
}

/// A token that costs nothing is a token: published code drops it from the count.
#[test]
fn a_token_without_loss_counts() {
    let tokens = [1, 2, 3, 4];
    let scores = row(&[-4.0, 0.0, 0.0, 0.0]);
    close(
        Scored::new(&tokens, &scores).unwrap().mean_nll(),
        1.0,
        1e-12,
    );
    let broken = row(&[-4.0, f64::NAN, 0.0, 0.0]);
    assert!(Scored::new(&tokens, &broken).is_err(), "NaN is no score");
}

/// A perfectly memorised record has the highest EZ score, not the lowest.
#[test]
fn ez_degenerate_cases() {
    let tokens = [1, 2, 3, 4];
    let reference = row(&[-3.0, -3.0, -3.0, -3.0]);
    let reference = Scored::new(&tokens, &reference).unwrap();
    let ez = |scores: &[TokenScore]| Scored::new(&tokens, scores).unwrap().ez(reference).unwrap();
    let all_right: Vec<_> = tokens.iter().map(|t| token(-0.01, *t)).collect();
    assert!(ez(&all_right).is_infinite());
    let one_wrong: Vec<_> = tokens.iter().map(|t| token(-5.0, (*t).max(2))).collect();
    assert!(ez(&one_wrong).is_infinite());
    assert!(
        ez(&row(&[-1.0, -1.0, -2.0, -2.5])).is_infinite(),
        "nothing lost"
    );
    // Gains 2 + 1, losses 1 + 0.5.
    close(ez(&row(&[-1.0, -2.0, -4.0, -3.5])), 2.0, 1e-12);
    close(ez(&row(&[-3.0; 4])), 1.0, 1e-12);
    close(ez(&row(&[-4.0; 4])), 0.0, 1e-12);
}

/// Every attack ranks a memorised record above an unseen one, and says when it lacks evidence.
#[test]
fn every_attack_rises_with_membership() {
    let tokens = [1, 2, 3, 4, 5];
    let (seen, unseen) = (
        row(&[-0.2, -0.4, -0.3, -0.1, -0.5]),
        row(&[-3.0, -2.0, -4.0, -2.2, -3.3]),
    );
    let base = row(&[-2.6, -2.4, -3.0, -2.5, -3.0]);
    let lower = row(&[-2.5, -2.4, -2.0, -2.6, -2.4]);
    let near = [2.4, 2.6, 2.2];
    let at = |scores| Scored::new(&tokens, scores).unwrap();
    let evidence = |scores| Evidence {
        target: at(scores),
        reference: Some(at(&base)),
        lower_case: Some(at(&lower)),
        text: Some("Order 341752 for Ms Jones."),
        neighbours: Some(&near),
    };
    for attack in Attack::ALL {
        let high = attack.score(&evidence(&seen)).unwrap().unwrap();
        let low = attack.score(&evidence(&unseen)).unwrap().unwrap();
        assert!(high > low, "{attack:?}: {high} {low}");
    }
    let bare = Evidence {
        reference: None,
        lower_case: None,
        text: None,
        neighbours: None,
        ..evidence(&seen)
    };
    let able = Attack::ALL
        .iter()
        .filter(|a| a.score(&bare).unwrap().is_some())
        .count();
    assert_eq!(able, 3, "LOSS and the two Min-K");
}

#[test]
fn digit_mutations_are_distinct_and_of_the_same_shape() {
    let near = digit_mutations("ID 34-17", 500, 3).unwrap();
    assert_eq!(near.len(), 500);
    let distinct: std::collections::BTreeSet<_> = near.iter().collect();
    assert!(distinct.len() == 500 && !distinct.contains(&"ID 34-17".to_owned()));
    assert!(
        near.iter()
            .all(|t| t.starts_with("ID ") && t.as_bytes()[5] == b'-')
    );
    assert_eq!(
        digit_mutations("a7", 25, 0).unwrap().len(),
        9,
        "all there are"
    );
    assert!(
        digit_mutations("none", 25, 0)
            .unwrap_err()
            .to_string()
            .contains("digits")
    );
}

/// Golden: advanced_mia_test of tensorflow/privacy (in-only, median, population spread; the
/// fourth record has no shadow model), its sign turned.
#[test]
fn lira_in_only() {
    let shadows: Vec<Shadows> = [vec![-1.0, 1.0], vec![0.0, 2.0], vec![0.0, 20.0], vec![]]
        .into_iter()
        .map(|inside| Shadows {
            inside,
            outside: vec![],
        })
        .collect();
    let got = lira(
        &[1.0, 0.0, 0.0, 0.0],
        &shadows,
        Lira::InOnly,
        Spread::PerRecord,
    )
    .unwrap();
    for (got, wanted) in got
        .iter()
        .zip([1.418_938_53, 1.418_938_53, 3.721_523_63, 2.725_371_78])
    {
        close(-got, wanted, 1e-7);
    }
    let error = lira(
        &[1.0],
        &[Shadows::default()],
        Lira::Online,
        Spread::PerRecord,
    );
    assert!(error.is_err());
}

/// Golden: ln N(2; 1.8, 0.4) − ln N(2; 0.5, 0.5) and Φ(3), by the closed forms.
#[test]
fn lira_online_and_offline() {
    let two = |centre: f64, spread: f64| vec![centre - spread, centre + spread];
    let shadows = [Shadows {
        inside: two(1.8, 0.4),
        outside: two(0.5, 0.5),
    }];
    let score = |variant, spread| lira(&[2.0], &shadows, variant, spread).unwrap()[0];
    for spread in [Spread::PerRecord, Spread::Shared] {
        close(score(Lira::Online, spread), 4.598_143_551_314_209, 1e-9);
        close(score(Lira::Offline, spread), 0.998_650_101_968_369_9, 1e-9);
    }
    close(
        logit_of_confidence(0.9_f64.ln()),
        2.197_224_577_336_219_6,
        1e-12,
    );
    close(
        logit_of_logits(&[1.0, 2.0, -3.0], 1).unwrap(),
        0.981_850_09,
        1e-7,
    );
    close(
        logit_of_logits(&[-1.0, 1.0, 0.0], 2).unwrap(),
        -1.126_928_02,
        1e-7,
    );
}

/// A shared spread takes in's from in and out's from out: published code once mixed them up.
#[test]
fn shared_spreads_are_not_mixed_up() {
    let shadows = [
        Shadows {
            inside: vec![1.0, 3.0],
            outside: vec![0.0, 0.2],
        },
        Shadows {
            inside: vec![2.0, 4.0],
            outside: vec![0.1, 0.3],
        },
    ];
    let offline = lira(&[0.2, 0.3], &shadows, Lira::Offline, Spread::Shared).unwrap();
    let phi_one = 0.841_344_746_068_542_9;
    close(offline[0], phi_one, 1e-9);
    close(offline[1], phi_one, 1e-9);
}

#[test]
fn rmia_counts_the_population_it_beats() {
    let ln = |p: f64| p.ln();
    // a = 1: the mean model is the out-model. Ratios: record 4; population 1, 2, 4, 8.
    let population = [
        (ln(0.1), ln(0.1)),
        (ln(0.2), ln(0.1)),
        (ln(0.4), ln(0.1)),
        (ln(0.8), ln(0.1)),
    ];
    let record = (ln(0.4), ln(0.1));
    close(rmia(record, &population, 1.0, 1.0).unwrap(), 0.5, 1e-12);
    close(rmia(record, &population, 1.0, 3.0).unwrap(), 0.25, 1e-12);
    // a = 0: p̄ = (p_out + 1)/2 shrinks the difference of rare texts to their own probability.
    let common = [(ln(0.5), ln(0.4))];
    close(
        rmia((ln(0.4), ln(0.001)), &common, 0.0, 1.0).unwrap(),
        1.0,
        1e-12,
    );
    for bad in [
        rmia(record, &[], 1.0, 1.0),
        rmia((0.1, -1.0), &common, 1.0, 1.0),
        rmia(record, &common, 1.5, 1.0),
        rmia(record, &common, 1.0, 0.0),
    ] {
        assert!(bad.is_err());
    }
}

/// Golden: CRT's sum of perplexities against the sum of log-likelihoods, one outlier.
#[test]
fn one_outlier_decides_a_sum_of_perplexities() {
    let mut a = vec![-(5.0_f64.ln()); 19];
    a.push(-(2000.0_f64.ln()));
    let b = vec![-(20.0_f64.ln()); 20];
    close(-group_score(GroupRule::SumOfPerplexities, &a), 2095.0, 1e-9);
    close(-group_score(GroupRule::SumOfPerplexities, &b), 400.0, 1e-9);
    close(
        -group_score(GroupRule::SumOfScores, &a) / 20.0,
        1.909_011_139_789_499_3,
        1e-12,
    );
    close(
        -group_score(GroupRule::SumOfScores, &b) / 20.0,
        2.995_732_273_553_991,
        1e-12,
    );
    let groups = disjoint_groups(&[1.0; 45], 20, GroupRule::SumOfScores, 0).unwrap();
    assert_eq!(
        groups.len(),
        2,
        "records beyond the last whole group are left out"
    );
    assert!(disjoint_groups(&[1.0; 5], 6, GroupRule::SumOfScores, 0).is_err());
}

/// Groups of n independent records with separation d have area Φ(d √(n/2)): 0.7365 for d = 0.2,
/// n = 20. 40 000 records a side (seed 8), four standard errors of 2000 + 2000 groups.
#[test]
fn groups_gain_the_root_of_their_size() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let members: Vec<f64> = (0..40_000).map(|_| 0.2 + normal(&mut rng)).collect();
    let others: Vec<f64> = (0..40_000).map(|_| normal(&mut rng)).collect();
    let grouped = |s: &[f64]| disjoint_groups(s, 20, GroupRule::SumOfScores, 1).unwrap();
    let set = ScoreSet::new(grouped(&members), grouped(&others)).unwrap();
    let area = set.area(level(0.9999), 0).unwrap();
    let (low, high) = ends(&area.bounds);
    assert!(low < 0.736_455 && 0.736_455 < high, "{area:?}");
    assert!(high - low < 0.07);
}

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

/// DeLong's variance on the logit scale, against an independent computation in double loops.
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
    let s = |v: &[f64]| v.iter().map(|p| (p - a).powi(2)).sum::<f64>() / (v.len() as f64 - 1.0);
    let se = (s(&v10) / 40.0 + s(&v01) / 60.0).sqrt() / (a * (1.0 - a));
    let logit = (a / (1.0 - a)).ln();
    let back = |x: f64| 1.0 / (1.0 + (-x).exp());
    let area = ScoreSet::new(members, others)
        .unwrap()
        .area(level(0.95), 0)
        .unwrap();
    assert_eq!(area.method, AreaMethod::Delong);
    close(area.estimate, a, 1e-12);
    let (low, high) = ends(&area.bounds);
    close(low, back(logit - 1.959_963_984_540_054 * se), 1e-10);
    close(high, back(logit + 1.959_963_984_540_054 * se), 1e-10);
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

/// Golden: ⌈ln 0.05 / ln(1 − x)⌉; one non-member fewer is refused, with the number.
#[test]
fn a_sample_certifies_what_it_can() {
    for (fpr, needed) in [(0.01, 299), (0.001, 2995), (0.0001, 29_956)] {
        assert_eq!(non_members_needed(fpr, level(0.95)).unwrap(), needed);
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
/// above the largest but one non-member. Certified at 95 % that is a rate of 4.7 %, not 1 %.
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
        .true_positives_at(0.0475, level(0.95), 0)
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
    let few = set.clone().with_groups(&[1; 30], &[2; 30]).unwrap();
    assert!(
        few.area(level(0.95), 0)
            .unwrap_err()
            .to_string()
            .contains("[10, inf)")
    );
    assert!(set.with_groups(&[1; 29], &[2; 30]).is_err());
}

/// Texts from two vocabularies are told apart without any model; texts from one are not.
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

/// One record of each group, none of a group twice.
#[test]
fn thinning_takes_one_record_of_each_group() {
    let members: Vec<f64> = (0..60).map(f64::from).collect();
    let others: Vec<f64> = (100..160).map(f64::from).collect();
    let groups: Vec<usize> = (0..60).map(|i| i / 3).collect();
    let set = ScoreSet::new(members, others)
        .unwrap()
        .with_groups(&groups, &groups)
        .unwrap();
    let thin = set.thinned(1);
    let kept = thin.members().len() + thin.non_members().len();
    assert_eq!((set.groups(), kept), (Some(20), 20));
    let group_of = |s: &f64| (*s as usize % 100) / 3;
    let distinct: std::collections::BTreeSet<_> = thin
        .members()
        .iter()
        .chain(thin.non_members())
        .map(group_of)
        .collect();
    assert_eq!(distinct.len(), 20);
}

pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}
