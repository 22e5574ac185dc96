//! Groups of records.

use super::{close, ends, level, normal};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reticent_attacks::membership::{GroupRule, ScoreSet, disjoint_groups, group_score};

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
