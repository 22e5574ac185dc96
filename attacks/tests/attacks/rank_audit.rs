//! The lower bound on ε: golden numbers, exact coverage, and the inequality on random channels.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Confidence, Delta, Epsilon, Neighbours};
use reticent_attacks::Draw;
use reticent_attacks::exposure::{Assumption, ExposureSummary, RankAudit, hit_probability, hits};
use reticent_attacks::search::RankCount;
use reticent_corpus::Unit;

fn ranks(candidates: u64, ranks: &[u64]) -> Vec<RankCount> {
    let count = |rank: &u64| RankCount {
        candidates,
        nll: 1.0,
        below: rank - 1,
        ties: 0,
        unresolved: 0,
    };
    ranks.iter().map(count).collect()
}

/// At 95 %, of independent draws, 20 copies each.
pub(crate) fn audit(thresholds: &[u64], delta: f64) -> RankAudit {
    RankAudit {
        thresholds: thresholds.to_vec(),
        confidence: Confidence::new(0.95).unwrap(),
        delta: Delta::new(delta).unwrap(),
        draw: Draw::Independent,
        unit: Unit::Turn,
        copies: 20,
    }
}

fn epsilon(audit: &RankAudit, counts: &[RankCount]) -> f64 {
    audit.bound(counts).unwrap().lower.get().get()
}

proptest! {
    /// No ranks give a larger bound than the largest that the audit can prove, and ten first ranks
    /// give it.
    #[test]
    fn provable_is_the_largest_bound(
        below in proptest::collection::vec(0..999_999_u64, 1..30),
        thresholds in proptest::sample::subsequence(vec![1_u64, 10, 100, 1000], 1..4),
        delta in proptest::sample::select(vec![0.0, 1e-6, 1e-4, 1e-2]),
    ) {
        let audit = audit(&thresholds, delta);
        let canaries = below.len() as u64;
        let most = audit.provable(1_000_000, canaries).unwrap().get().get();
        let some: Vec<u64> = below.iter().map(|rank| rank + 1).collect();
        prop_assert!(epsilon(&audit, &ranks(1_000_000, &some)) <= most);
        let all = epsilon(&audit, &ranks(1_000_000, &vec![1; below.len()]));
        prop_assert!((all - most).abs() <= 1e-12 * most, "{all} {most}");
        // The fewest hits that prove more than an ε do, and one fewer does not.
        let half = Epsilon::new(0.5 * most).unwrap();
        for &threshold in &thresholds {
            let single = RankAudit { thresholds: vec![threshold], ..audit.clone() };
            let wanted = single.hits_beyond(half, threshold, (1_000_000, canaries)).unwrap();
            let with = |hits: u64| {
                let of = |i| if i < hits { 1 } else { 999_999 };
                epsilon(&single, &ranks(1_000_000, &(0..canaries).map(of).collect::<Vec<_>>()))
            };
            match wanted {
                Some(hits) => {
                    prop_assert!(with(hits) > half.get());
                    prop_assert!(hits == 1 || with(hits - 1) <= half.get());
                }
                None => prop_assert!(with(canaries) <= half.get()),
            }
        }
    }
}

/// Golden: the numbers of our own derivation, computed before this code was written.
#[test]
fn known_bounds() {
    let firsts = ranks(1_000_000, &[1; 10]);
    for (delta, expected) in [(0.0, 14.867_3), (1e-5, 14.867_2), (1e-3, 14.846_7)] {
        let got = epsilon(&audit(&[1], delta), &firsts);
        assert!((got - expected).abs() < 1e-4, "delta {delta}: {got}");
    }
    let shared = ranks(1_000_000, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let got = epsilon(&audit(&[10], 0.0), &shared);
    assert!((got - 12.565).abs() < 1e-3, "{got}");
    let half = ranks(
        1_000_000,
        &[1, 1, 1, 1, 1, 77_000, 500_000, 20_000, 999_999, 3],
    );
    let got = epsilon(&audit(&[1], 0.0), &half);
    assert!((got - 12.56).abs() < 5e-3, "{got}");
}

#[test]
fn a_bound_says_what_it_is_a_bound_of() {
    let counts = ranks(1_000, &[1, 1, 400]);
    let bound = audit(&[1, 10], 0.0).bound(&counts).unwrap();
    assert_eq!(bound.neighbours, Neighbours::Replace);
    assert_eq!((bound.unit, bound.copies), (Unit::Turn, 20));
    assert_eq!(bound.assumes, Assumption::PureDp);
    assert_eq!(
        (
            bound.threshold,
            bound.hits,
            bound.canaries,
            bound.thresholds
        ),
        (Some(1), Some(2), 3, Some(2))
    );
    let bound = audit(&[1], 1e-6).bound(&counts).unwrap();
    assert_eq!(bound.assumes, Assumption::ApproximateDp);
    assert_eq!(hits(&counts, 399), 2);
}

/// More hits, fewer thresholds, smaller δ, independent draws: each can only help.
#[test]
fn order() {
    let two = epsilon(&audit(&[1], 0.0), &ranks(1_000, &[1, 1, 900, 900]));
    let three = epsilon(&audit(&[1], 0.0), &ranks(1_000, &[1, 1, 1, 900]));
    assert!(two < three);
    let counts = ranks(1_000, &[1, 1, 1, 900]);
    assert!(epsilon(&audit(&[1, 10], 0.0), &counts) < three);
    assert!(epsilon(&audit(&[1], 1e-3), &counts) < three);
    let distinct = RankAudit {
        draw: Draw::Distinct,
        ..audit(&[1], 0.0)
    };
    let lower = epsilon(&distinct, &counts);
    assert!(lower < three && three - lower < 0.004);
    // Nothing in the top: no bound. A δ that explains everything: no bound.
    assert!(epsilon(&audit(&[1], 0.0), &ranks(1_000, &[2; 10])).abs() < 1e-300);
    assert!(epsilon(&audit(&[1], 0.2), &ranks(1_000, &[1; 10])).abs() < 1e-300);
}

#[test]
fn ties_and_open_candidates_only_weaken() {
    let mut counts = ranks(1_000, &[1; 10]);
    counts[0].ties = 5;
    counts[1].unresolved = 700;
    assert_eq!(audit(&[1], 0.0).bound(&counts).unwrap().hits, Some(8));
}

#[test]
fn what_is_refused() {
    let counts = ranks(1_000, &[1; 10]);
    let said = |audit: RankAudit| audit.bound(&counts).unwrap_err().to_string();
    assert!(said(audit(&[0], 0.0)).starts_with("threshold must lie in [1, N')"));
    assert!(said(audit(&[1_000], 0.0)).ends_with("got 1000 for N' = 1000"));
    assert!(said(audit(&[], 0.0)).contains("no threshold"));
    assert!(said(audit(&[1], 1.0)).starts_with("delta must lie in [0, 1)"));
    assert!(
        said(RankAudit {
            copies: 0,
            ..audit(&[1], 0.0)
        })
        .starts_with("copies")
    );
    assert!(audit(&[1], 0.0).bound(&[]).is_err());
}

#[test]
fn thresholds_follow_from_the_plan() {
    assert_eq!(
        RankAudit::planned_thresholds(1_000_000, 10),
        [10, 100, 1_000]
    );
    assert_eq!(RankAudit::planned_thresholds(1_000_000, 1), [1, 10, 100]);
    assert_eq!(RankAudit::planned_thresholds(100, 3), [3, 30]);
}

fn binomial(trials: u64, q: f64) -> Vec<f64> {
    let mut masses = vec![1.0];
    for _ in 0..trials {
        let mut next = vec![0.0; masses.len() + 1];
        for (i, mass) in masses.iter().enumerate() {
            next[i] += mass * (1.0 - q);
            next[i + 1] += mass * q;
        }
        masses = next;
    }
    masses
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Coverage, computed exactly: for secrets through randomised response over N candidates,
    /// with a chance β of being named outright (which is exactly (ε, β)), the bound exceeds the
    /// true ε with probability at most α, for every α and threshold, up to the mechanism's own.
    #[test]
    fn coverage_of_randomised_response(
        m in 1_u64..40, n in 2_u64..2_000, truth in 0.0..12.0_f64,
        delta in prop_oneof![Just(0.0), 1e-6..0.05_f64], confidence in 0.5..0.999_f64,
    ) {
        let q = truth.exp() / (truth.exp() + n as f64 - 1.0);
        let hit = q + delta * (1.0 - q);
        let audit = RankAudit { confidence: Confidence::new(confidence).unwrap(), ..audit(&[1], delta) };
        let alarm: f64 = binomial(m, hit)
            .iter()
            .enumerate()
            .filter(|(v, _)| {
                let mut named = vec![n; m as usize];
                named[..*v].fill(1);
                epsilon(&audit, &ranks(n, &named)) > truth
            })
            .map(|(_, mass)| mass)
            .sum();
        prop_assert!(alarm <= 1.0 - confidence + 1e-9, "{alarm} at {confidence}");
    }

    /// The bound inverts the stated probability: just at α there, above α a little higher.
    #[test]
    fn inversion(m in 1_u64..40, share in 0.0..1.0_f64, n in 3_u64..100_000, delta in prop_oneof![Just(0.0), 1e-9..1e-3_f64]) {
        let v = 1 + ((m - 1) as f64 * share) as u64;
        let mut named = vec![n; m as usize];
        named[..v as usize].fill(1);
        let bound = epsilon(&audit(&[1], delta), &ranks(n, &named));
        let delta = Delta::new(delta).unwrap();
        let p = |e: f64| {
            *hit_probability(v, m, n, 1, Epsilon::new(e).unwrap(), delta).unwrap().get()
        };
        prop_assert!(bound <= 0.0 || p(bound).get() <= 0.05 + 1e-9);
        prop_assert!(p(bound + 1e-5).get() > 0.05);
    }
}

/// Tight case, one secret: named outright with chance β, else randomised response. Its hit
/// probability is the bound itself.
#[test]
fn the_bound_is_attained() {
    for (n, truth, delta) in [(5_u64, 1.0_f64, 0.0), (5, 1.0, 0.03), (1_000, 4.0, 1e-3)] {
        let q = truth.exp() / (truth.exp() + n as f64 - 1.0);
        let hit = delta + (1.0 - delta) * q;
        let bound = hit_probability(
            1,
            1,
            n,
            1,
            Epsilon::new(truth).unwrap(),
            Delta::new(delta).unwrap(),
        );
        assert!((bound.unwrap().get().get() - hit).abs() < 1e-9);
    }
}

/// A random mechanism on m secrets of N values: a table of output probabilities, rough enough
/// to have zeros.
struct Channel {
    secrets: usize,
    values: usize,
    outputs: usize,
    /// One row per input; inputs count in base `values`.
    table: Vec<Vec<f64>>,
}

impl Channel {
    fn random(
        secrets: usize,
        values: usize,
        outputs: usize,
        sharpness: f64,
        random: &mut ChaCha8Rng,
    ) -> Self {
        let base: Vec<f64> = (0..outputs)
            .map(|_| random.random::<f64>() + 0.05)
            .collect();
        let inputs = values.pow(secrets as u32);
        let table = (0..inputs)
            .map(|_| {
                let row: Vec<f64> = base
                    .iter()
                    .map(|b| match random.random_range(0..12) {
                        0 if sharpness > 1.0 => 0.0,
                        _ => b * (sharpness * random.random::<f64>()).exp(),
                    })
                    .collect();
                let sum: f64 = row.iter().sum();
                row.iter().map(|p| p / sum.max(1e-300)).collect()
            })
            .collect();
        Self {
            secrets,
            values,
            outputs,
            table,
        }
    }
    fn value(&self, input: usize, slot: usize) -> usize {
        input / self.values.pow(slot as u32) % self.values
    }
    fn inputs(&self, draw: Draw) -> Vec<usize> {
        (0..self.table.len())
            .filter(|&input| {
                let mut all: Vec<usize> = (0..self.secrets).map(|s| self.value(input, s)).collect();
                all.sort_unstable();
                all.dedup();
                draw == Draw::Independent || all.len() == self.secrets
            })
            .collect()
    }
    /// δ(ε) over all pairs of possible inputs that differ in one secret, both directions.
    fn delta(&self, epsilon: f64, inputs: &[usize]) -> f64 {
        let mut worst = 0.0_f64;
        for &a in inputs {
            for &b in inputs {
                let differ = (0..self.secrets).filter(|&s| self.value(a, s) != self.value(b, s));
                if differ.count() == 1 {
                    let excess = self.table[a].iter().zip(&self.table[b]);
                    let excess = excess.map(|(p, q)| (p - epsilon.exp() * q).max(0.0));
                    worst = worst.max(excess.sum());
                }
            }
        }
        worst
    }
    /// The law of v when every T_j holds the t most probable values given output and earlier secrets.
    fn hits(&self, inputs: &[usize], threshold: usize) -> Vec<f64> {
        let mut law = vec![0.0; self.secrets + 1];
        for output in 0..self.outputs {
            for &input in inputs {
                let hit = (0..self.secrets)
                    .filter(|&slot| {
                        let mut weight = vec![0.0; self.values];
                        for &other in inputs {
                            if (0..slot).all(|s| self.value(other, s) == self.value(input, s)) {
                                weight[self.value(other, slot)] += self.table[other][output];
                            }
                        }
                        let mut order: Vec<usize> = (0..self.values).collect();
                        order.sort_by(|a, b| weight[*b].total_cmp(&weight[*a]));
                        order[..threshold].contains(&self.value(input, slot))
                    })
                    .count();
                law[hit] += self.table[input][output] / inputs.len() as f64;
            }
        }
        law
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// The statement itself on random finite mechanisms: independent and distinct draws, sets
    /// that depend on earlier secrets, exact δ(ε) at several ε, every v₀.
    #[test]
    fn the_inequality_on_random_channels(
        secrets in 1_usize..=3, more in 1_usize..=3, outputs in 2_usize..=6,
        sharpness in 0.1..4.0_f64, threshold in 1_usize..=2, distinct: bool, seed: u64,
    ) {
        let draw = if distinct { Draw::Distinct } else { Draw::Independent };
        let values = secrets + more;
        let effective = draw.effective_candidates(values as u64, secrets as u64).unwrap();
        let threshold = threshold.min(effective as usize - 1);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let channel = Channel::random(secrets, values, outputs, sharpness, &mut random);
        let inputs = channel.inputs(draw);
        let law = channel.hits(&inputs, threshold);
        for epsilon in [0.0, 0.2, 0.7, 1.5, 3.0, 6.0] {
            let delta = Delta::new(channel.delta(epsilon, &inputs).min(1.0)).unwrap();
            let epsilon = Epsilon::new(epsilon).unwrap();
            for least in 1..=secrets {
                let truth: f64 = law[least..].iter().sum();
                let bound = hit_probability(
                    least as u64, secrets as u64, effective, threshold as u64, epsilon, delta,
                ).unwrap();
                prop_assert!(
                    truth <= bound.get().get() + 1e-12,
                    "v0={least}: {truth} > {} at {epsilon:?}, {delta:?}", bound.get().get()
                );
            }
        }
    }
}

/// Ten distinct secrets of 200 in one shared space, each through randomised response with
/// ε = 5; the "model" ranks candidates by how often they were named. 2000 runs, seed 5, α = 0.1:
/// the bound may exceed 5 in at most 10 % of them; 267 is five standard deviations above 200.
#[test]
fn shared_space_simulation() {
    let (n, m, truth) = (200_usize, 10, 5.0_f64);
    let keep = truth.exp() / (truth.exp() + n as f64 - 1.0);
    let audit = RankAudit {
        draw: Draw::Distinct,
        confidence: Confidence::new(0.9).unwrap(),
        ..audit(&[10, 20], 0.0)
    };
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut alarms = 0;
    let mut total = 0.0;
    for _ in 0..2_000 {
        let mut space: Vec<usize> = (0..n).collect();
        for i in 0..m {
            space.swap(i, random.random_range(i..n));
        }
        let secrets = &space[..m];
        let mut votes = vec![0_u64; n];
        for &secret in secrets {
            let named = if random.random::<f64>() < keep {
                secret
            } else {
                let other = random.random_range(0..n - 1);
                other + usize::from(other >= secret)
            };
            votes[named] += 1;
        }
        // Candidates without a vote tie at the end: max-rank n.
        let counts: Vec<RankCount> = secrets
            .iter()
            .map(|&s| RankCount {
                candidates: n as u64,
                nll: -(votes[s] as f64),
                below: votes.iter().filter(|&&v| v > votes[s]).count() as u64,
                ties: votes.iter().filter(|&&v| v == votes[s]).count() as u64 - 1,
                unresolved: 0,
            })
            .collect();
        let bound = epsilon(&audit, &counts);
        alarms += u32::from(bound > truth);
        total += bound;
    }
    assert!(alarms <= 267, "{alarms} of 2000");
    // Not vacuous: on average the bound finds more than a nat of the five.
    assert!(total / 2_000.0 > 1.0, "{}", total / 2_000.0);
}

/// Ranks beyond the candidates and sums beyond every count are refused, not wrapped; thresholds are checked where they
/// are given apart from the audit.
#[test]
fn impossible_ranks_and_thresholds_are_refused() {
    let audit = RankAudit {
        copies: 1,
        ..audit(&[1], 0.0)
    };
    let count = |below, ties, unresolved| RankCount {
        candidates: 100,
        nll: 1.0,
        below,
        ties,
        unresolved,
    };
    let far = count(u64::MAX, u64::MAX, u64::MAX);
    assert_eq!((far.rank_min(), far.rank_max()), (u64::MAX, u64::MAX));
    for bad in [far, count(100, 0, 0), count(50, 40, 10)] {
        assert!(audit.bound(&[count(0, 0, 0), bad]).is_err(), "{bad:?}");
        assert!(ExposureSummary::of(&[bad], Draw::Independent).is_err());
    }
    assert!(audit.bound(&[count(50, 40, 9)]).is_ok());
    let level = Epsilon::new(1.0).unwrap();
    for threshold in [0, 100] {
        assert!(audit.hits_beyond(level, threshold, (100, 5)).is_err());
    }
    let none = RankAudit {
        thresholds: Vec::new(),
        ..audit
    };
    assert!(none.provable(100, 5).is_err() && none.hits_beyond(level, 1, (100, 5)).is_err());
}
