//! What 1000 models without anything to find show: every printed number alarms at its nominal
//! rate. Each test states its seed; a rate of 5 % measured on 1000 models has a standard error of
//! 0.69 %, and four of them above nominal (7.8 %) is the limit, which a correct number passes
//! with a probability above 0.9999 (binomial tail 8e-5). Where a trap is shown, the uncorrected
//! rule must alarm more often than the limit: the test would notice if it did not matter.

use crate::lower_bounds::terms;
use crate::membership::{level, normal};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::statistics::{clopper_pearson_lower, clopper_pearson_upper};
use reticent_accounting::{Bounds, Probability};
use reticent_attacks::membership::{
    AccuracyRule, GroupRule, ScoreSet, blind_baseline, overlapping_groups_area,
};
use reticent_attacks::{AuditBound, Error, OneRunCounts, RateCounts, Sides};

const MODELS: u32 = 1000;
pub(crate) const LIMIT: f64 = 0.05 + 4.0 * 0.006_892;

/// The share of models at which something happens.
pub(crate) fn rate(seed: u64, mut alarm: impl FnMut(&mut ChaCha8Rng) -> bool) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let alarms = (0..MODELS).filter(|_| alarm(&mut rng)).count();
    alarms as f64 / f64::from(MODELS)
}

pub(crate) fn normals(rng: &mut ChaCha8Rng, n: usize, mean: f64) -> Vec<f64> {
    (0..n).map(|_| mean + normal(rng)).collect()
}

fn null(rng: &mut ChaCha8Rng, m: usize, n: usize) -> ScoreSet {
    ScoreSet::new(normals(rng, m, 0.0), normals(rng, n, 0.0)).unwrap()
}

pub(crate) fn excludes(bounds: &Bounds<Probability>, truth: f64) -> bool {
    let (low, high) = (bounds.lower.unwrap(), bounds.upper.unwrap());
    low.get().get() > truth || high.get().get() < truth
}

#[test]
fn areas_without_a_difference() {
    for (seed, m, n) in [(1, 100, 100), (2, 25, 200), (3, 21, 21), (4, 8, 30)] {
        let alarms = rate(seed, |rng| {
            excludes(&null(rng, m, n).area(level(0.95), 0).unwrap().bounds, 0.5)
        });
        assert!(alarms <= LIMIT, "{m} + {n}: {alarms}");
    }
    let coarse = rate(5, |rng| {
        let mut whole = |n| {
            (0..n)
                .map(|_| f64::from(rng.random_range(0..4_u32)))
                .collect()
        };
        let set = ScoreSet::new(whole(80), whole(80)).unwrap();
        excludes(&set.area(level(0.95), 0).unwrap().bounds, 0.5)
    });
    assert!(coarse <= LIMIT, "ties: {coarse}");
}

/// Members of which some occur in the training text often: each stratum's area holds by itself, and so does its rate of true
/// positives at a certified false-positive rate. Seed 10.
#[test]
fn strata_by_copies() {
    let copies: Vec<u64> = (0..90).map(|i| [1, 1, 3, 30][i % 4]).collect();
    let mut alarms = [0_u32; 3];
    let mut missed = [0_u32; 3];
    rate(10, |rng| {
        let set = null(rng, 90, 120);
        let found = set.by_copies(&copies, &[0.05], level(0.95), 0).unwrap();
        assert_eq!(
            found.iter().map(|s| s.members).collect::<Vec<_>>(),
            [46, 22, 22]
        );
        for (at, stratum) in found.iter().enumerate() {
            alarms[at] += u32::from(excludes(&stratum.area.bounds, 0.5));
            let point = stratum.at_fpr[0].found.unwrap();
            // The true rate of both kinds above the threshold is that of a normal score.
            let truth = 0.5 * libm::erfc(point.threshold / std::f64::consts::SQRT_2);
            missed[at] += u32::from(excludes(&point.tpr.bounds, truth));
        }
        false
    });
    for count in alarms.into_iter().chain(missed) {
        let share = f64::from(count) / f64::from(MODELS);
        assert!(share <= LIMIT, "{alarms:?} {missed:?}");
    }
}

/// Not only at 1/2: Φ(d/√2) is covered at d = 1 (0.760), 2 (0.921) and 3 (0.983).
#[test]
fn areas_with_a_difference() {
    for (seed, shift, truth) in [
        (6, 1.0, 0.760_249_938_906_523_3),
        (7, 2.0, 0.921_350_396_474_857_4),
        (8, 3.0, 0.983_052_573_238_147_1),
    ] {
        let misses = rate(seed, |rng| {
            let set = ScoreSet::new(normals(rng, 60, shift), normals(rng, 60, 0.0)).unwrap();
            excludes(&set.area(level(0.95), 0).unwrap().bounds, truth)
        });
        assert!(misses <= LIMIT, "{shift}: {misses}");
    }
}

/// Where most members are remembered and lie above nearly everybody, and the rest are as non-members, the sample may
/// hold none of the rest: DeLong's interval alone lies above the truth in 18 % of such samples. Scores: a share of
/// 0.93 (0.97) of the members is normal around 3 with deviation 0.3; the truth is 0.93·Φ(3/√1.09) + 0.07/2.
#[test]
fn areas_where_most_members_are_remembered() {
    let phi = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    for (seed, share, members, others) in [
        (51, 0.93, 20, 200),
        (52, 0.97, 50, 500),
        (53, 0.93, 50, 500),
    ] {
        let truth = share * phi(3.0 / 1.09_f64.sqrt()) + 0.5 * (1.0 - share);
        let above = rate(seed, |rng| {
            let remembered = |rng: &mut ChaCha8Rng| {
                let known = rng.random::<f64>() < share;
                let score = normal(rng);
                if known { 3.0 + 0.3 * score } else { score }
            };
            let inside = (0..members).map(|_| remembered(rng)).collect();
            let set = ScoreSet::new(inside, normals(rng, others, 0.0)).unwrap();
            let bounds = set.area(level(0.95), 0).unwrap().bounds;
            bounds.lower.unwrap().get().get() > truth
        });
        assert!(above <= LIMIT / 2.0, "{share}, {members}: {above}");
    }
}

/// Where nearly all scores are equal, a sample that holds fewer of the rare ones than usual has a more extreme area and a
/// smaller variance: DeLong's interval alone errs on one side in 5.5 to 9.3 % of such samples for 2.5 %. Scores: a share
/// of the members, and one of the non-members, have another value than the rest. Each end is held to half the level.
#[test]
fn areas_of_scores_that_are_nearly_all_equal() {
    for (seed, (members, inside), (others, outside), value) in [
        (54, (300, 0.0225), (5000, 0.0225), -1.0),
        (55, (100, 0.069), (3000, 0.069), -1.0),
        (56, (100, 0.08), (2000, 0.08), -1.0),
        (57, (100, 0.08), (2000, 0.08), 1.0),
        (58, (3000, 0.069), (100, 0.069), 1.0),
        (59, (100, 0.2), (100, 0.01), -1.0),
        (60, (100, 0.3), (2000, 0.1), 1.0),
    ] {
        // A record that has the value moves the area by half of those of the other side that lack it.
        let truth = 0.5 + 0.5 * value * (inside - outside);
        let (mut above, mut below) = (0, 0);
        rate(seed, |rng| {
            let mut side = |count: usize, share: f64| -> Vec<f64> {
                let drawn = (0..count).map(|_| rng.random_bool(share));
                drawn.map(|rare| if rare { value } else { 0.0 }).collect()
            };
            let set = ScoreSet::new(side(members, inside), side(others, outside)).unwrap();
            let bounds = set.area(level(0.95), 0).unwrap().bounds;
            above += u32::from(bounds.lower.unwrap().get().get() > truth + 1e-12);
            below += u32::from(bounds.upper.unwrap().get().get() < truth - 1e-12);
            false
        });
        for misses in [above, below] {
            let misses = f64::from(misses) / f64::from(MODELS);
            assert!(
                misses <= LIMIT / 2.0,
                "seed {seed}: {above} above, {below} below"
            );
        }
    }
}

/// Where some of the rare scores are above all others and some below, their skewness cancels, and an end missed in 1.1 to 1.2 %
/// of such samples for 0.5 %. Seeds 62 and 63; 6000 models: four standard deviations of 0.5 % are 0.36 %.
#[test]
fn areas_of_scores_that_are_rare_on_both_sides() {
    let models = 6000;
    for (seed, members, (m, n), others) in [
        (62, (0.01, 0.005), (1000, 150), (0.05, 0.01)),
        (63, (0.02, 0.005), (2000, 150), (0.01, 0.05)),
    ] {
        // A share of each side below all others, and a share above.
        let truth = 0.5 * (1.0 + (members.1 - others.1) - (members.0 - others.0))
            + 0.5 * (members.0 * others.1 - members.1 * others.0);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut side = |count: usize, (below, above): (f64, f64)| -> Vec<f64> {
            let score = |u: f64| {
                if u < below {
                    -1.0
                } else if u < below + above {
                    1.0
                } else {
                    0.0
                }
            };
            (0..count).map(|_| score(rng.random())).collect()
        };
        let (mut above, mut below) = (0, 0);
        for _ in 0..models {
            let set = ScoreSet::new(side(m, members), side(n, others)).unwrap();
            let bounds = set.area(level(0.99), 0).unwrap().bounds;
            above += u32::from(bounds.lower.unwrap().get().get() > truth + 1e-12);
            below += u32::from(bounds.upper.unwrap().get().get() < truth - 1e-12);
        }
        for misses in [above, below] {
            let misses = f64::from(misses) / f64::from(models);
            assert!(
                misses <= 0.005 + 0.0036,
                "seed {seed}: {above} above, {below} below"
            );
        }
    }
}

/// The same where the rest is not equal but lies closely together, between two kinds of non-members: nearly all members
/// around 0 with deviation 0.005, a share of 0.08 at −2, non-members at −1 and 1. The truth is (1 − 0.08)/2.
#[test]
fn areas_of_scores_that_are_nearly_all_close() {
    let above = rate(61, |rng| {
        let member = |rng: &mut ChaCha8Rng| match rng.random_bool(0.08) {
            true => -2.0,
            false => 0.005 * normal(rng),
        };
        let inside = (0..200).map(|_| member(rng)).collect();
        let outside = (0..5000).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 });
        let set = ScoreSet::new(inside, outside.collect()).unwrap();
        let bounds = set.area(level(0.95), 0).unwrap().bounds;
        bounds.lower.unwrap().get().get() > 0.46
    });
    assert!(above <= LIMIT / 2.0, "{above}");
}

/// The area under the convex hull, which published code prints, is above 1/2 for any scores:
/// 0.578 on average at 50 + 50. Mann and Whitney's is 1/2.
#[test]
fn the_area_is_not_that_of_the_hull() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mean: f64 = (0..MODELS)
        .map(|_| {
            null(&mut rng, 50, 50)
                .area(level(0.95), 0)
                .unwrap()
                .estimate
        })
        .sum::<f64>()
        / f64::from(MODELS);
    assert!(
        (mean - 0.5).abs() < 4.0 * 0.058 / f64::from(MODELS).sqrt(),
        "{mean}"
    );
}

/// Uniform scores: the rate above the threshold is 1 − threshold, known exactly.
#[test]
fn certified_false_positive_rates() {
    let uniform = |rng: &mut ChaCha8Rng, n| -> Vec<f64> { (0..n).map(|_| rng.random()).collect() };
    let (mut beyond, mut alarms) = (0, 0);
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    for _ in 0..MODELS {
        let set = ScoreSet::new(uniform(&mut rng, 200), uniform(&mut rng, 400)).unwrap();
        let found = set
            .true_positives_at(0.05, level(0.95), 0)
            .unwrap()
            .found
            .unwrap();
        beyond += u32::from(1.0 - found.threshold > found.fpr_upper);
        alarms += u32::from(excludes(&found.tpr.bounds, 0.05));
    }
    let (beyond, alarms) = (f64::from(beyond) / 1000.0, f64::from(alarms) / 1000.0);
    // A quarter of 5 %, and four standard deviations of it.
    assert!(
        beyond <= 0.0125 + 4.0 * 0.003_52,
        "the rate is above its bound: {beyond}"
    );
    assert!(
        beyond > 0.002,
        "the certificate gives too much away: {beyond}"
    );
    assert!(alarms <= LIMIT, "{alarms}");
}

/// Laws that make both ends of a certified rate err as often as they may: α/2 − α²/16 of .025 at α = .05.
///
/// Below: members that stand out with probability b, the others exactly where the false-positive rate is x, so that a threshold
/// below x lets all of them in. Above: members just above that place, so that a threshold above it sees none. x and the share
/// are those at which Clopper and Pearson's bounds are attained. 20 000 audits an end, seeds 14 and 15; four standard
/// deviations of .0248 are .0044. With all of α for the threshold the lower end errs at .0619.
#[test]
fn both_errors_of_a_certified_rate_share_alpha() {
    let (n, m, runs) = (200_u64, 100_u64, 20_000);
    let each = level(1.0 - 0.05 / 4.0);
    let near = 1e-9;
    let value = |bound: f64, to: f64| bound * (1.0 + to * near);
    let upper = |k, of| clopper_pearson_upper(k, of, each).unwrap().get().get();
    let lower = |k, of| clopper_pearson_lower(k, of, each).unwrap().get().get();
    for (seed, below) in [(14, true), (15, false)] {
        let (fpr, share) = match below {
            true => (value(upper(4, n), 1.0), value(lower(50, m), -1.0)),
            false => (value(lower(20, n), -1.0), value(upper(40, m), 1.0)),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut alarms = 0;
        for _ in 0..runs {
            let outside: Vec<f64> = (0..n).map(|_| rng.random()).collect();
            let inside = (0..m).map(|_| match (below, rng.random::<f64>() < share) {
                (true, true) => 2.0,
                (true, false) => 1.0 - fpr,
                (false, true) => 1.0 - fpr + 1e-12,
                (false, false) => -1.0,
            });
            let set = ScoreSet::new(inside.collect(), outside).unwrap();
            let point = set.true_positives_at(fpr, level(0.95), 0).unwrap();
            alarms += u32::from(excludes(&point.found.unwrap().tpr.bounds, share));
        }
        let alarms = f64::from(alarms) / f64::from(runs);
        assert!((alarms - 0.024_84).abs() <= 0.0044, "{below}: {alarms}");
    }
}

#[test]
fn the_band_covers_the_curve() {
    for fpr in [0.02, 0.1, 0.5] {
        let misses = rate(11, |rng| {
            let (low, high) = null(rng, 100, 300).roc_band(fpr, level(0.95), 0).unwrap();
            low > fpr || high < fpr
        });
        assert!(misses <= LIMIT, "{fpr}: {misses}");
    }
}

/// The threshold is chosen on records that are not judged. Chosen on the judged ones the lower
/// end alone, nominally wrong at 2.5 %, alarms at 8 %.
#[test]
fn accuracies() {
    for (seed, m, n) in [(12, 100, 100), (13, 60, 140)] {
        let alarms = rate(seed, |rng| {
            let accuracy = null(rng, m, n)
                .accuracy(AccuracyRule::Split, level(0.95), 7)
                .unwrap();
            excludes(&accuracy.bounds, 0.5)
        });
        assert!(alarms <= LIMIT, "{m} + {n}: {alarms}");
    }
    let chosen_on_the_data = rate(14, |rng| {
        let set = null(rng, 100, 100);
        let best = set
            .members()
            .iter()
            .map(|t| {
                set.accuracy(AccuracyRule::Fixed(*t), level(0.95), 0)
                    .unwrap()
            })
            .max_by(|a, b| a.estimate.total_cmp(&b.estimate))
            .unwrap();
        best.bounds.lower.unwrap().get().get() > 0.5
    });
    assert!(chosen_on_the_data > 0.06, "{chosen_on_the_data}");
}

/// Thirty secrets a side, four records each that resemble one another.
fn clustered(rng: &mut ChaCha8Rng) -> ScoreSet {
    let mut side = || -> Vec<f64> {
        (0..30)
            .flat_map(|_| {
                let common = normal(rng);
                (0..4)
                    .map(|_| common + 0.5 * normal(rng))
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    ScoreSet::new(side(), side()).unwrap()
}

#[test]
fn records_of_one_secret_are_one_piece_of_evidence() {
    let inside: Vec<usize> = (0..120).map(|i| i / 4).collect();
    let outside: Vec<usize> = (0..120).map(|i| 100 + i / 4).collect();
    let alarm = |set: &ScoreSet| excludes(&set.area(level(0.95), 3).unwrap().bounds, 0.5);
    let grouped = |rng: &mut ChaCha8Rng| clustered(rng).with_groups(&inside, &outside).unwrap();
    let naive = rate(15, |rng| alarm(&clustered(rng)));
    let by_secret = rate(15, |rng| alarm(&grouped(rng)));
    assert!(naive > 0.2, "{naive}");
    assert!(by_secret <= LIMIT, "{by_secret}");
    let accuracy = rate(16, |rng| {
        let accuracy = grouped(rng)
            .accuracy(AccuracyRule::Split, level(0.95), 3)
            .unwrap();
        excludes(&accuracy.bounds, 0.5)
    });
    assert!(accuracy <= LIMIT, "{accuracy}");
}

/// Few authors who wrote most of the text: as many groups as there are authors count for more than they are. A bootstrap
/// that takes all groups for equally large misses in 8.2 to 12.5 % of such samples for 5 %. And authors of whom few deviate:
/// percentiles lie above the truth in 5 % for 2.5 %, as DeLong's interval does for single records.
#[test]
fn groups_of_unequal_sizes() {
    let authors = |sizes: &[(usize, usize)]| -> Vec<usize> {
        let sizes = sizes
            .iter()
            .flat_map(|&(count, size)| std::iter::repeat_n(size, count));
        let names = sizes.enumerate();
        names
            .flat_map(|(author, size)| std::iter::repeat_n(author, size))
            .collect()
    };
    let own: Vec<usize> = (1000..1300).collect();
    for (seed, sizes) in [
        (62, vec![(4, 300), (96, 1)]),
        (63, vec![(5, 400), (35, 1)]),
        (64, vec![(10, 50), (90, 1)]),
    ] {
        let names = authors(&sizes);
        let alarms = rate(seed, |rng| {
            let styles: Vec<f64> = (0..100).map(|_| normal(rng)).collect();
            let inside = names
                .iter()
                .map(|&author| styles[author] + 0.1 * normal(rng));
            let set = ScoreSet::new(inside.collect(), normals(rng, 300, 0.0)).unwrap();
            let set = set.with_groups(&names, &own).unwrap();
            excludes(&set.area(level(0.95), 3).unwrap().bounds, 0.5)
        });
        assert!(alarms <= LIMIT, "{sizes:?}: {alarms}");
    }
    let names = authors(&[(100, 2)]);
    let above = rate(65, |rng| {
        let styles: Vec<f64> = (0..400)
            .map(|_| -f64::from(u8::from(rng.random_bool(0.08))))
            .collect();
        let inside = names.iter().map(|&author| styles[author]).collect();
        let set = ScoreSet::new(inside, styles[100..].to_vec()).unwrap();
        let set = set.with_groups(&names, &own).unwrap();
        let bounds = set.area(level(0.95), 3).unwrap().bounds;
        bounds.lower.unwrap().get().get() > 0.5
    });
    assert!(above <= LIMIT / 2.0, "{above}");
}

/// The same secrets on both sides (as when carriers differ): resampled as wholes.
#[test]
fn secrets_on_both_sides() {
    let groups: Vec<usize> = (0..120).map(|i| i / 4).collect();
    let alarms = rate(17, |rng| {
        let set = clustered(rng).with_groups(&groups, &groups).unwrap();
        excludes(&set.area(level(0.95), 3).unwrap().bounds, 0.5)
    });
    assert!(alarms <= LIMIT, "{alarms}");
}

/// CRT's protocol in small: 100 + 100 records, groups of 5, 100 groups a side. Groups share
/// records, so that 100 + 100 overstates the evidence.
#[test]
fn groups_that_share_records() {
    for rule in [GroupRule::SumOfScores, GroupRule::SumOfPerplexities] {
        let alarms = rate(18, |rng| {
            let set = null(rng, 100, 100);
            let area = overlapping_groups_area(&set, 5, 60, rule, level(0.95), 1).unwrap();
            excludes(&area.bounds, 0.5)
        });
        assert!(alarms <= LIMIT, "{rule:?}: {alarms}");
    }
    let naive = rate(19, |rng| {
        let sums = |rng: &mut ChaCha8Rng| -> Vec<f64> {
            let records = normals(rng, 100, 0.0);
            (0..100)
                .map(|_| (0..5).map(|_| records[rng.random_range(0..100)]).sum())
                .collect()
        };
        let set = ScoreSet::new(sums(rng), sums(rng)).unwrap();
        excludes(&set.area(level(0.95), 0).unwrap().bounds, 0.5)
    });
    assert!(naive > 0.2, "{naive}");
}

#[test]
fn blind_baselines() {
    let words = [
        "order", "parcel", "street", "refund", "call", "invoice", "number", "late",
    ];
    let alarms = rate(20, |rng| {
        let mut texts = |from: usize| -> Vec<(String, usize)> {
            let mut text = || -> Vec<&str> {
                (0..4)
                    .map(|_| words[rng.random_range(0..words.len())])
                    .collect()
            };
            (from..from + 60).map(|i| (text().join(" "), i)).collect()
        };
        let (members, others) = (texts(0), texts(60));
        blind_baseline(&members, &others, level(0.95), 5)
            .unwrap()
            .shifted
    });
    assert!(alarms <= LIMIT, "{alarms}");
}

/// No ε above 0 where there is nothing to find: coins of one run and independent runs at a threshold named beforehand, with and
/// without a family.
#[test]
fn lower_bounds_on_epsilon() {
    let guesses = |rng: &mut ChaCha8Rng, n: usize| {
        let above = normals(rng, n, 0.0)
            .into_iter()
            .filter(|score| *score > 0.3);
        above.count() as u64
    };
    for gaussian in [false, true] {
        let terms = terms(0.95, if gaussian { 1e-5 } else { 0.0 });
        let alarms = |bound: Result<AuditBound, Error>| bound.unwrap().lower.get().get() > 0.0;
        let coins = rate(21, |rng| {
            let members = (0..200).filter(|_| rng.random_bool(0.5)).count();
            let (right, wrong) = (guesses(rng, members), guesses(rng, 200 - members));
            let counts = OneRunCounts::new(200, right + wrong, right).unwrap();
            alarms(if gaussian {
                counts.gaussian_bound(&terms)
            } else {
                counts.bound(&terms)
            })
        });
        assert!(coins <= LIMIT, "{gaussian}: {coins}");
        let trials = rate(22, |rng| {
            let counts = RateCounts::new(guesses(rng, 100), 100, guesses(rng, 100), 100).unwrap();
            alarms(if gaussian {
                counts.gaussian_bound(&terms)
            } else {
                counts.bound(Sides::Both, &terms)
            })
        });
        assert!(trials <= LIMIT, "{gaussian}: {trials}");
    }
}

/// A search of all thresholds without a correction alarms at 37 % of 1000 null models with 1000
/// coins, seven times the nominal rate (published code does it with a still finer search: 48 %).
#[test]
fn an_uncorrected_search_of_thresholds_alarms() {
    let least: Vec<u64> = (0..=1000)
        .map(|r| {
            (0..=r)
                .find(|&v| {
                    let counts = OneRunCounts::new(1000, r, v).unwrap();
                    counts.bound(&terms(0.95, 0.0)).unwrap().lower.get().get() > 0.0
                })
                .unwrap_or(r + 1)
        })
        .collect();
    let alarms = rate(23, |rng| {
        let mut right = 0;
        (1..=1000).any(|r: usize| {
            right += u64::from(rng.random_bool(0.5));
            right >= least[r]
        })
    });
    assert!((alarms - 0.37).abs() < 0.06, "{alarms}");
}
