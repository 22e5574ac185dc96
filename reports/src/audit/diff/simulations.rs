//! What 1000 pairs of models without a difference show. A rate of 5 % measured on 1000 pairs has a
//! standard error of 0.69 %; four of them above nominal, 7.8 %, is the limit, which a correct
//! comparison passes with a probability above 0.9999. Seeds are those of the calls.

use super::tests::{exposure, extraction, membership, says};
use super::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_attacks::exposure::ExposureSummary;
use reticent_attacks::membership::ScoreSet;
use reticent_attacks::search::RankCount;
use reticent_attacks::{Draw, sign_test};
use serde_json::json;

const LIMIT: usize = 78;
const CANARIES: usize = 20;

fn alarms(seed: u64, mut alarm: impl FnMut(&mut ChaCha8Rng) -> bool) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..1000).filter(|_| alarm(&mut rng)).count()
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Costs of three digits by place, and those of a model that likes one first digit less.
fn pair_of_models(rng: &mut ChaCha8Rng) -> [Vec<f64>; 2] {
    let places: Vec<f64> = (0..30).map(|_| normal(rng)).collect();
    let disliked = rng.random_range(0..10);
    let cost = |new: bool| {
        let of = |secret: usize| {
            let digits = [secret / 100, secret / 10 % 10, secret % 10];
            let own: f64 = (0..3).map(|place| places[10 * place + digits[place]]).sum();
            own + if new && digits[0] == disliked {
                6.0
            } else {
                0.0
            }
        };
        (0..1000).map(of).collect::<Vec<f64>>()
    };
    [cost(false), cost(true)]
}

/// log2 N − log2 rank of each secret.
fn exposures(costs: &[f64], secrets: &[usize]) -> Vec<f64> {
    let bits = |secret: &usize| {
        let rank = costs.iter().filter(|c| **c <= costs[*secret]).count();
        (costs.len() as f64 / rank as f64).log2()
    };
    secrets.iter().map(bits).collect()
}

fn both(rng: &mut ChaCha8Rng) -> [Vec<f64>; 2] {
    let models = pair_of_models(rng);
    let secrets: Vec<usize> = (0..CANARIES).map(|_| rng.random_range(0..1000)).collect();
    models.map(|costs| exposures(&costs, &secrets))
}

fn document(bits: &[f64]) -> Value {
    let mut document = exposure(bits);
    document["candidates"] = 1000.into();
    document
}

/// Neither model saw the canaries, and one likes a digit less than the other: nine of ten canaries
/// rise a little. A sign test of who rose takes that for a leak in more than half of all pairs.
#[test]
fn models_that_never_saw_the_canaries() {
    let more = alarms(1, |rng| {
        let [old, new] = both(rng);
        says(&document(&old), &document(&new)) == [Change::More]
    });
    assert!(more <= LIMIT, "{more}");
    let by_signs = alarms(1, |rng| {
        let [old, new] = both(rng);
        let rose = old.iter().zip(&new).filter(|(a, b)| b > a).count() as u64;
        let fell = old.iter().zip(&new).filter(|(a, b)| b < a).count() as u64;
        sign_test(rose, fell) <= 0.05
    });
    assert!(by_signs > 500, "{by_signs}");
}

/// Both models leak alike, each canary with its own noise: who comes and who goes is a fair coin.
#[test]
fn models_that_leak_alike() {
    let more = alarms(2, |rng| {
        let mut leaky = || {
            let bits = (0..CANARIES).map(|_| (5.0 + 3.0 * normal(rng)).clamp(0.0, 9.9));
            document(&bits.collect::<Vec<_>>())
        };
        says(&leaky(), &leaky()) == [Change::More]
    });
    assert!(more <= LIMIT, "{more}");
    // Not vacuous: two bits more for each are found in most pairs.
    let found = alarms(3, |rng| {
        let mut leaky = |by: f64| {
            let bits = (0..CANARIES).map(|_| (by + 2.0 * normal(rng)).clamp(0.0, 9.9));
            document(&bits.collect::<Vec<_>>())
        };
        says(&leaky(3.0), &leaky(7.0)) == [Change::More]
    });
    assert!(found > 500, "{found}");
}

#[test]
fn areas_of_attacks_that_see_nothing() {
    let more = alarms(4, |rng| {
        let mut scores = || (0..60).map(|_| normal(rng)).collect::<Vec<f64>>();
        let mut audit = || {
            let set = ScoreSet::new(scores(), scores()).unwrap();
            let area = set.area(Confidence::new(0.95).unwrap(), 0).unwrap();
            let (low, high) = super::super::ends(&area.bounds);
            membership(low, high, 0.95)
        };
        says(&audit(), &audit()) == [Change::More]
    });
    assert!(more <= LIMIT, "{more}");
}

/// How two models that leak alike score the same 40 members and 40 non-members.
struct Alike {
    seed: u64,
    /// How far the new model's scores follow the old one's; −1 is the other way round.
    shared: f64,
    /// By how much members score higher, and with what chance.
    gain: (f64, f64),
    /// Scores are multiples of it.
    step: f64,
    /// Records of a group on each side, which score alike.
    sizes: [usize; 2],
}

impl Alike {
    /// Members and non-members under both models.
    fn scores(&self, rng: &mut ChaCha8Rng) -> [[Vec<f64>; 2]; 2] {
        let mut both = [[vec![], vec![]], [vec![], vec![]]];
        for (side, size) in self.sizes.into_iter().enumerate() {
            let mut one = [0.0; 2];
            for i in 0..40 {
                if i % size == 0 {
                    let lifted = side == 0 && rng.random_bool(self.gain.1);
                    let lift = if lifted { self.gain.0 } else { 0.0 };
                    let (own, other) = (normal(rng), normal(rng));
                    let rest = (1.0 - self.shared * self.shared).sqrt();
                    one = [lift + own, lift + self.shared * own + rest * other];
                }
                for (model, score) in both.iter_mut().zip(one) {
                    model[side].push((score / self.step).round() * self.step);
                }
            }
        }
        both
    }

    fn area(&self, [inside, outside]: [Vec<f64>; 2], seed: u64) -> Value {
        let mut set = ScoreSet::new(inside, outside).unwrap();
        if self.sizes != [1, 1] {
            let names = |side: usize| -> Vec<String> {
                let group = |i: usize| format!("{side} {}", i / self.sizes[side]);
                (0..40).map(group).collect()
            };
            set = set.with_groups(&names(0), &names(1)).unwrap();
        }
        let area = set.area(Confidence::new(0.95).unwrap(), seed).unwrap();
        let (low, high) = super::super::ends(&area.bounds);
        membership(low, high, 0.95)
    }
}

/// Two models that leak alike, on the same records: scores of their own, shared and opposite ones (which carry two intervals
/// farthest apart without a cause), ties, members of whom one in ten is not remembered, groups on one side and on both. 300
/// pairs a row, 150 of groups; at most .05 and four standard deviations.
#[test]
fn areas_of_models_that_leak_alike() {
    let plain = Alike {
        seed: 20,
        shared: 0.0,
        gain: (0.5, 1.0),
        step: 1e-6,
        sizes: [1, 1],
    };
    for row in [
        Alike { ..plain },
        Alike {
            seed: 21,
            shared: 0.9,
            ..plain
        },
        Alike {
            seed: 22,
            shared: -1.0,
            ..plain
        },
        Alike {
            seed: 23,
            shared: -1.0,
            step: 1.0,
            ..plain
        },
        Alike {
            seed: 24,
            gain: (9.0, 0.9),
            ..plain
        },
        Alike {
            seed: 25,
            shared: -1.0,
            sizes: [2, 1],
            ..plain
        },
        Alike {
            seed: 26,
            shared: -1.0,
            sizes: [2, 2],
            ..plain
        },
    ] {
        let mut rng = ChaCha8Rng::seed_from_u64(row.seed);
        let runs: u32 = if row.sizes == [1, 1] { 300 } else { 150 };
        let mut more = 0;
        for run in 0..runs {
            let [old, new] = row.scores(&mut rng);
            let [old, new] = [old, new].map(|sides| row.area(sides, u64::from(run)));
            more += u32::from(says(&old, &new) == [Change::More]);
        }
        let expected = 0.05 * f64::from(runs);
        let limit = expected + 4.0 * (0.95 * expected).sqrt();
        assert!(f64::from(more) <= limit, "{}: {more} of {runs}", row.seed);
    }
}

/// Two lengths of prompt share the level.
#[test]
fn rates_of_equal_models() {
    for (seed, share) in [(5, 0.3), (6, 0.02)] {
        let more = alarms(seed, |rng| {
            let mut audit =
                || extraction((0..200).filter(|_| rng.random_bool(share)).count() as u64);
            says(&audit(), &audit()).contains(&Change::More)
        });
        assert!(more <= LIMIT, "{share}: {more}");
    }
}

/// A document with its summaries, as `audit exposure` writes it: ranks of canaries among 10^6, in
/// doses where several numbers of copies are given.
fn whole(ranks: &[u64], copies: &[u64]) -> Value {
    let count = |rank: &u64| RankCount {
        candidates: 1_000_000,
        nll: 5.0,
        below: rank - 1,
        ties: 0,
        unresolved: 0,
    };
    let summary = |ranks: &[u64]| {
        let counts: Vec<RankCount> = ranks.iter().map(count).collect();
        serde_json::to_value(ExposureSummary::of(&counts, Draw::Independent).unwrap()).unwrap()
    };
    let bits: Vec<f64> = ranks.iter().map(|r| (1e6 / *r as f64).log2()).collect();
    let mut document = exposure(&bits);
    document["summary"] = summary(ranks);
    for (i, _) in ranks.iter().enumerate() {
        document["canaries"][i]["copies"] = copies[i % copies.len()].into();
    }
    if copies.len() > 1 {
        let doses = (0..copies.len()).map(|dose| {
            let own: Vec<u64> = ranks
                .iter()
                .copied()
                .skip(dose)
                .step_by(copies.len())
                .collect();
            json!({"copies": copies[dose], "canaries": own.len(), "summary": summary(&own)})
        });
        document["doses"] = doses.collect();
    }
    document
}

fn chance(rng: &mut ChaCha8Rng, canaries: usize) -> Vec<u64> {
    (0..canaries)
        .map(|_| rng.random_range(1..=1_000_000))
        .collect()
}

fn fires(old: &Value, new: &Value) -> bool {
    DiffReport::of(old, new, 0.05).unwrap().exit() == Exit::Exceeded
}

/// Twelve canaries in three doses, the four of the largest at ranks 1 to 4: four that cross a line
/// are E = 2^4 at most, and against chance the new model alone is past doubt.
#[test]
fn a_leak_of_the_largest_dose_is_seen() {
    let doses = [1, 5, 20];
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let old = chance(&mut rng, 12);
    let mut new = chance(&mut rng, 12);
    for (rank, place) in [2, 5, 8, 11].into_iter().enumerate() {
        new[place] = rank as u64 + 1;
    }
    let (old, new) = (whole(&old, &doses), whole(&new, &doses));
    assert_eq!(says(&old, &new), [Change::Unseen, Change::Appeared]);
    let report = DiffReport::of(&old, &new, 0.05).unwrap();
    assert_eq!(report.exit(), Exit::Exceeded);
    assert_eq!(
        report.said(),
        "The new model leaks, and the old one was not seen to."
    );
    assert!(
        report.rows[0]
            .how
            .contains("4 canaries of 20 copies alone cannot say more: p would be"),
        "{}",
        report.rows[0].how
    );
    // Where both leak, this test says nothing.
    assert_eq!(says(&new, &new), [Change::Unseen; 2]);
    // Five canaries can't do it by lines at all.
    let five = whole(&[10, 20, 30, 40, 50], &[20]);
    let report = DiffReport::of(&five, &five, 0.05).unwrap();
    assert!(
        report.rows[0].how.contains(
            "it cannot say more: were all 5 canaries to come above every line, p would be"
        ),
        "{}",
        report.rows[0].how
    );
}

/// Two models that never saw the canaries, 5 to 1000 of them, in one dose and in three: 300 pairs
/// a row, at most .05 + 4 standard deviations (.0503: 30). And a leak of the largest dose to ranks
/// below 100 is found in nine of ten pairs.
#[test]
fn false_alarms_and_power_by_number_of_canaries() {
    for (seed, canaries) in [(8, 5), (9, 12), (10, 100), (11, 1_000)] {
        for copies in [&[20][..], &[1, 5, 20]] {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut alarms = 0;
            let mut found = 0;
            for _ in 0..300 {
                let old = chance(&mut rng, canaries);
                let mut new = chance(&mut rng, canaries);
                let before = whole(&old, copies);
                alarms += u32::from(fires(&before, &whole(&new, copies)));
                for rank in new.iter_mut().skip(copies.len() - 1).step_by(copies.len()) {
                    *rank = rng.random_range(1..=100);
                }
                found += u32::from(fires(&before, &whole(&new, copies)));
            }
            assert!(alarms <= 30, "{alarms} of 300: {canaries} in {copies:?}");
            assert!(found >= 270, "{found} of 300: {canaries} in {copies:?}");
        }
    }
}
