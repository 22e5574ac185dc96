//! Exposure statistics against published numbers, enumeration of small nulls, and null models.

use crate::models::{Bigram, Levels, Toy};
use crate::search::{digits, quiet};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_attacks::Draw;
use reticent_attacks::exposure::{Exposure, ExposureNull, ExposureSummary, rank_p_value};
use reticent_attacks::search::{RankCount, SearchOptions, Target, search_ranks};

fn count(candidates: u64, below: u64, ties: u64) -> RankCount {
    RankCount {
        candidates,
        nll: 1.0,
        below,
        ties,
        unresolved: 0,
    }
}

fn close(got: f64, wanted: f64, absolute: f64) {
    assert!(
        (got - wanted).abs() <= absolute,
        "got {got}, wanted {wanted}"
    );
}

/// Golden: attack vectors expo-01 to -04 and -19.
#[test]
fn exposure_of_known_ranks() {
    for (candidates, rank, bits) in [
        (1_000_000, 1, 19.931_568_569_324_174),
        (1_000_000, 2, 18.931_568_569_324_174),
        (1_000_000, 1_000_000, 0.0),
        (456_976, 1, 18.801_758_872_564_367),
        (1_000_000_000, 1, 29.897_352_853_986_263),
    ] {
        let exposure = Exposure::of(&count(candidates, rank - 1, 0));
        close(exposure.min, bits, 1e-12);
        close(exposure.mid.unwrap(), bits, 1e-12);
        close(exposure.max, bits, 1e-12);
    }
}

/// Golden: attack vectors expo-08 to -12.
#[test]
fn nulls_of_a_million_candidates() {
    let one = ExposureNull::new(1_000_000, 1, Draw::Independent).unwrap();
    let ten = ExposureNull::new(1_000_000, 10, Draw::Independent).unwrap();
    close(one.single_mean(), 1.442_683_749_356_494, 1e-11);
    close(one.order_mean(1), 1.442_683_749_356_494, 1e-9);
    close(ten.order_mean(1), 4.225_5, 1e-3);
    close(one.order_percentile(1, 0.95), 4.321_928_094_887_363, 1e-4);
    close(ten.order_percentile(1, 0.95), 7.610_712_498_669_306, 1e-3);
    // T9: "the maximum of ten is below one bit" means every rank is above half a million.
    close(ten.low_maximum_p_value(500_001), 0.000_976_562_5, 1e-12);
    // Ten bits are rank N/1024.
    let null = ExposureNull::new(1_024_000, 10, Draw::Independent).unwrap();
    close(
        rank_p_value(&count(1_024_000, 999, 0)),
        0.000_976_562_5,
        1e-15,
    );
    close(
        null.order_p_value(1, 1_000),
        0.009_722_821_223_700_384,
        1e-14,
    );
}

/// For large N the laws of the continuous limit hold: maximum H_k / ln 2, lower median
/// (H_k − H_{h−1}) / ln 2, percentile −log2(1 − 0.95^{1/k}), mean 1/ln 2.
#[test]
fn nulls_of_a_vast_space() {
    let null = ExposureNull::new(1 << 60, 10, Draw::Independent).unwrap();
    let harmonic = |from: u64, to: u64| (from..=to).map(|i| 1.0 / i as f64).sum::<f64>();
    let ln_2 = std::f64::consts::LN_2;
    close(null.order_mean(1), 4.225_607_974_921_206, 1e-9);
    close(null.order_mean(6), harmonic(6, 10) / ln_2, 1e-9);
    close(null.order_mean(10), harmonic(10, 10) / ln_2, 1e-9);
    close(null.order_percentile(1, 0.95), 7.610_712_498_669_306, 1e-9);
    close(null.single_mean(), 1.0 / ln_2, 1e-12);
    // Gamma(10): the 95th percentile is 15.705216422115463 nats (50-digit decimal arithmetic).
    close(
        null.mean_percentile(0.95),
        15.705_216_422_115_463 / 10.0 / ln_2,
        1e-12,
    );
    // The median of one canary is one bit.
    let one = ExposureNull::new(1 << 60, 1, Draw::Independent).unwrap();
    close(one.order_percentile(1, 0.5), 1.0, 1e-12);
}

/// Oracle: the sum over all ranks, with exact binomials, in Python's double-precision fsum.
#[test]
fn order_means_equal_full_summation() {
    for (candidates, canaries, order, bits) in [
        (10, 3, 1, 2.027_707_727_865_631_7),
        (10, 3, 2, 1.018_463_930_490_236_3),
        (1_000, 10, 1, 4.182_799_137_914_786),
        (1_000, 10, 6, 0.930_012_683_765_454_2),
        (100_000, 10, 1, 4.224_848_962_163_18),
        (100_000, 10, 6, 0.931_439_871_382_532_6),
        (1_000_000, 10, 1, 4.225_515_466_011_727),
        (1_000_000, 10, 6, 0.931_452_855_530_781),
        (20_000, 1_000, 1, 10.643_170_037_555_816),
        (20_000, 1_000, 501, 0.999_206_880_807_819_6),
    ] {
        let null = ExposureNull::new(candidates, canaries, Draw::Independent).unwrap();
        close(null.order_mean(order), bits, 2e-8);
    }
}

/// All ways to rank `canaries` secrets: independent draws, or distinct ones whose orders of the
/// candidates are given by `orders` (one per canary; a shared context repeats one order).
fn all_ranks(candidates: u64, canaries: usize, distinct: Option<&[Vec<u64>]>) -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = vec![vec![]];
    for _ in 0..canaries {
        all = all
            .iter()
            .flat_map(|chosen| {
                (1..=candidates)
                    .filter(|s| distinct.is_none() || !chosen.contains(s))
                    .map(|s| [&chosen[..], &[s]].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    if let Some(orders) = distinct {
        for ranks in &mut all {
            for (rank, order) in ranks.iter_mut().zip(orders) {
                *rank = order[(*rank - 1) as usize];
            }
        }
    }
    all
}

fn summaries(candidates: u64, ranks: &[Vec<u64>], draw: Draw) -> Vec<ExposureSummary> {
    ranks
        .iter()
        .map(|ranks| {
            let counts: Vec<RankCount> =
                ranks.iter().map(|r| count(candidates, r - 1, 0)).collect();
            ExposureSummary::of(&counts, draw).unwrap()
        })
        .collect()
}

type PValue = fn(&ExposureSummary) -> f64;
const P_VALUES: [(&str, PValue); 4] = [
    ("max", |s| s.max().p_value()),
    ("mean", |s| s.mean().p_value()),
    ("median", |s| s.median().p_value()),
    ("low max", ExposureSummary::low_maximum_p_value),
];

/// P(p ≤ a) ≤ a at every attained p-value; returns whether it is an equality everywhere.
fn valid(name: &str, p_values: &[f64]) -> bool {
    let mut sorted = p_values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let total = sorted.len() as f64;
    let mut exact = true;
    for p in &sorted {
        let reached = sorted.partition_point(|other| *other <= p + 1e-12) as f64 / total;
        assert!(reached <= p + 1e-9, "{name}: P(p <= {p}) = {reached}");
        exact &= (reached - p).abs() < 1e-9;
    }
    exact
}

/// Every tuple of independent ranks: means as stated, p-values valid; exact for the order
/// statistics (the tight case).
#[test]
fn independent_nulls_by_enumeration() {
    for (candidates, canaries) in [(6, 3), (9, 2), (5, 4), (12, 1)] {
        let ranks = all_ranks(candidates, canaries, None);
        let all = summaries(candidates, &ranks, Draw::Independent);
        for (name, p_value) in P_VALUES {
            let exact = valid(name, &all.iter().map(p_value).collect::<Vec<_>>());
            assert_eq!(exact, name != "mean" || canaries == 1, "{name}");
        }
        let mean = |f: PValue| all.iter().map(f).sum::<f64>() / all.len() as f64;
        close(mean(|s| s.max().lower()), all[0].max().null_mean(), 1e-12);
        close(mean(|s| s.mean().lower()), all[0].mean().null_mean(), 1e-12);
        close(
            mean(|s| s.median().lower()),
            all[0].median().null_mean(),
            1e-12,
        );
        for statistic in [
            ExposureSummary::max,
            ExposureSummary::mean,
            ExposureSummary::median,
        ] {
            let limit = statistic(&all[0]).null_95();
            let within = all
                .iter()
                .filter(|s| statistic(s).lower() <= limit + 1e-12)
                .count();
            assert!(within as f64 >= 0.95 * all.len() as f64);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Distinct secrets, one shared context or one order per canary (where hits can be
    /// positively dependent): p-values stay valid and the means are upper bounds.
    #[test]
    fn distinct_nulls_by_enumeration(candidates in 3_u64..8, canaries in 1_usize..=3, shared: bool, seed: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut order: Vec<u64> = (1..=candidates).collect();
        let orders: Vec<Vec<u64>> = (0..canaries)
            .map(|_| {
                if !shared {
                    for i in (1..order.len()).rev() {
                        order.swap(i, random.random_range(0..=i));
                    }
                }
                order.clone()
            })
            .collect();
        let ranks = all_ranks(candidates, canaries, Some(&orders));
        let all = summaries(candidates, &ranks, Draw::Distinct);
        for (name, p_value) in P_VALUES {
            valid(name, &all.iter().map(p_value).collect::<Vec<_>>());
        }
        let mean = |f: PValue| all.iter().map(f).sum::<f64>() / all.len() as f64;
        prop_assert!(mean(|s| s.max().lower()) <= all[0].max().null_mean() + 1e-12);
        prop_assert!(mean(|s| s.median().lower()) <= all[0].median().null_mean() + 1e-12);
    }

    /// Ties lower the leak side and raise the other; the leak side's p-values stay valid.
    #[test]
    fn ties_keep_the_leak_side_valid(blocks in prop::collection::vec(1_u64..4, 1..5)) {
        let candidates: u64 = blocks.iter().sum();
        let mut of_candidate = Vec::new();
        let mut below = 0;
        for block in &blocks {
            of_candidate.extend((0..*block).map(|_| count(candidates, below, block - 1)));
            below += block;
        }
        let mut singles = Vec::new();
        let mut pairs = Vec::new();
        for a in &of_candidate {
            singles.push(rank_p_value(a));
            for b in &of_candidate {
                pairs.push(ExposureSummary::of(&[*a, *b], Draw::Independent).unwrap());
            }
        }
        valid("single", &singles);
        for (name, p_value) in P_VALUES {
            valid(name, &pairs.iter().map(p_value).collect::<Vec<_>>());
        }
        for pair in &pairs {
            for statistic in [pair.max(), pair.mean(), pair.median()] {
                prop_assert!(statistic.lower() <= statistic.upper());
            }
        }
    }
}

/// 1000 random models that never saw the secrets, searched end to end: fewer than 78 p-values of
/// each kind are ≤ 0.05. Seeds 0 to 999; expected 50, standard deviation 6.9; a right
/// implementation fails with probability below 1e-4.
#[test]
fn models_that_ignore_the_secrets_raise_no_alarm() {
    let tree = digits(3);
    let mut alarms = [0; 4];
    for seed in 0..1000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed + 10_000);
        let targets: Vec<Target> = (0..5)
            .map(|i| Target {
                context: vec![i % 2],
                secret: tree.candidate(random.random_range(0..tree.candidates())),
            })
            .collect();
        let mut toy = Toy::new(Bigram::random(10, Levels::Smooth, seed));
        let options = SearchOptions::default();
        let found = search_ranks(&mut toy, &tree, &targets, &options, &mut quiet()).unwrap();
        let summary = ExposureSummary::of(&found.counts, Draw::Independent).unwrap();
        for (alarm, (_, p_value)) in alarms.iter_mut().zip(P_VALUES) {
            *alarm += u32::from(p_value(&summary) <= 0.05);
        }
    }
    assert!(alarms.iter().all(|&a| a < 78), "{alarms:?} of 1000");
    // The order statistics are exact, so the test must not be vacuous either.
    assert!(
        alarms[0] >= 14 && alarms[2] >= 14 && alarms[3] >= 14,
        "{alarms:?} of 1000"
    );
}

#[test]
fn summaries_refuse_what_they_cannot_say() {
    let said =
        |counts: &[RankCount], draw| ExposureSummary::of(counts, draw).unwrap_err().to_string();
    assert_eq!(
        said(&[], Draw::Independent),
        "nothing to score: no canary was given"
    );
    let said_two = said(&[count(10, 0, 0), count(11, 0, 0)], Draw::Independent);
    assert!(
        said_two.starts_with("candidates must lie in one number"),
        "{said_two}"
    );
    let crowd = vec![count(3, 0, 0); 4];
    let said_crowd = said(&crowd, Draw::Distinct);
    assert!(
        said_crowd.contains("got 4 for 3 candidates"),
        "{said_crowd}"
    );
}

#[test]
fn a_statistic_prints_its_null() {
    let counts = vec![count(1_000_000, 99, 0); 10];
    let text = ExposureSummary::of(&counts, Draw::Independent)
        .unwrap()
        .max()
        .to_string();
    let expected = "13.29 bits (without any leak 4.23 on average, 95 % below 7.61; p = 1.00e-3)";
    assert_eq!(text, expected);
}
