//! Audits by e-values: the theorem on random and on worst channels, false alarms, tight cases.
#![expect(
    clippy::needless_range_loop,
    reason = "indices of matrices, as in the statements"
)]

use crate::models::Toy;
use crate::search::{digits, quiet};
use good_lp::{Expression, Solution, SolverModel, constraint, default_solver, variable, variables};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Confidence, Delta, Epsilon, Neighbours, UnitName};
use reticent_attacks::evalue::{
    Beliefs, CanaryGuesses, CoinCounts, EValueAudit, EValueProcess, Guess, Pool, ScoreLaw,
    SequentialTest, Temper, coin_beliefs, coin_bound, coin_power, coin_provable, coin_provable_of,
};
use reticent_attacks::exposure::{EpsilonMethod, RankAudit};
use reticent_attacks::search::{SearchOptions, Target, search_beliefs, search_ranks};
use reticent_attacks::{AuditTerms, Draw, OneRunCounts};
use std::sync::Arc;

fn rank_audit(delta: f64) -> RankAudit {
    crate::rank_audit::audit(&[1, 10, 100], delta)
}

fn audit(candidates: u64, canaries: u64, delta: f64) -> EValueAudit {
    EValueAudit::beside(&rank_audit(delta), candidates, canaries)
}

fn level(epsilon: f64) -> Epsilon {
    Epsilon::new(epsilon).unwrap()
}

/// A belief of random shape: nearly flat, or all on a few.
fn random_belief(n: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
    let sharpness = 8.0 * random.random::<f64>();
    let raw: Vec<f64> = (0..n)
        .map(|_| match random.random_range(0..8) {
            0 => 0.0,
            _ => (sharpness * random.random::<f64>()).exp(),
        })
        .collect();
    let sum: f64 = raw.iter().sum();
    if sum > 0.0 {
        raw.into_iter().map(|w| w / sum).collect()
    } else {
        vec![1.0 / n as f64; n]
    }
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// The theorem: for every belief and every posterior with p(x) ≤ e^ε p(y), E[b/r] ≤ 1. The
    /// worst posterior is tried too (e^ε on all above the floor's upper end): it attains 1 to the
    /// rounding of the floor, 1e-8.
    #[test]
    fn the_theorem_on_posteriors(n in 2_usize..9, epsilon in 0.0..6.0_f64, seed: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let belief = random_belief(n, &mut random);
        let beliefs = Beliefs::full(&belief, Pool::NONE).unwrap();
        let e: Vec<f64> = belief.iter().map(|b| beliefs.guess(*b).unwrap().ln_evalue(epsilon).exp()).collect();
        let mean = |weights: &[f64]| {
            let sum: f64 = weights.iter().sum();
            weights.iter().zip(&e).map(|(w, e)| w * e).sum::<f64>() / sum
        };
        for _ in 0..20 {
            let posterior: Vec<f64> = (0..n)
                .map(|_| (epsilon * random.random::<f64>()).exp())
                .collect();
            prop_assert!(mean(&posterior) <= 1.0 + 1e-12);
        }
        // Every extreme point: e^ε on a set, 1 elsewhere.
        let worst = (0..1_usize << n).map(|set| {
            let posterior: Vec<f64> = (0..n)
                .map(|x| if set >> x & 1 == 1 { epsilon.exp() } else { 1.0 })
                .collect();
            mean(&posterior)
        }).fold(0.0, f64::max);
        prop_assert!(worst <= 1.0 + 1e-12, "{worst}");
        prop_assert!(worst >= 1.0 - 1e-8, "not tight: {worst}");
    }

    /// Several secrets through one random channel, all of them together: the auditor's beliefs
    /// are anything that depends on output and revealed secrets. E[E_m(ε)] ≤ 1 at every ε that
    /// the channel keeps, and P(some E_t ≥ 1/α) ≤ α.
    #[test]
    fn the_product_on_random_channels(
        values in 2_usize..5, outputs in 2_usize..5, sharpness in 0.1..3.0_f64, seed: u64,
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // P(output | s1, s2).
        let table: Vec<Vec<f64>> = (0..values * values).map(|_| {
            let row: Vec<f64> = (0..outputs).map(|_| (sharpness * random.random::<f64>()).exp()).collect();
            let sum: f64 = row.iter().sum();
            row.into_iter().map(|p| p / sum).collect()
        }).collect();
        let mut truth = 0.0_f64;
        for a in 0..table.len() {
            for b in 0..table.len() {
                if a / values == b / values || a % values == b % values {
                    for o in 0..outputs {
                        truth = truth.max((table[a][o] / table[b][o]).ln());
                    }
                }
            }
        }
        // The best posterior sharpened, or anything: both are legitimate.
        let honest = random.random::<bool>();
        let mut mean = 0.0;
        let mut alarm = 0.0;
        let alpha = 0.2;
        for o in 0..outputs {
            let weight = |first: usize| (0..values).map(|s| table[first * values + s][o]).sum::<f64>();
            let raw: Vec<f64> = (0..values).map(|s| weight(s).powi(3)).collect();
            let sum: f64 = raw.iter().sum();
            let posterior: Vec<f64> = raw.into_iter().map(|w| w / sum).collect();
            let first = if honest { posterior } else { random_belief(values, &mut random) };
            let beliefs = Beliefs::full(&first, Pool::NONE).unwrap();
            for s1 in 0..values {
                let second = random_belief(values, &mut random);
                let later = Beliefs::full(&second, Pool::NONE).unwrap();
                for s2 in 0..values {
                    let mut process = EValueProcess::pure(alpha, 1).unwrap();
                    process.reveal(vec![beliefs.guess(first[s1]).unwrap()]).unwrap();
                    process.reveal(vec![later.guess(second[s2]).unwrap()]).unwrap();
                    let p = table[s1 * values + s2][o] / (values * values) as f64;
                    let e: f64 = [beliefs.guess(first[s1]).unwrap(), later.guess(second[s2]).unwrap()]
                        .iter().map(|g| g.ln_evalue(truth)).sum();
                    mean += p * e.exp();
                    if process.bound().unwrap().get().get() > truth {
                        alarm += p;
                    }
                }
            }
        }
        prop_assert!(mean <= 1.0 + 1e-9, "{mean}");
        prop_assert!(alarm <= alpha, "{alarm}");
    }

    /// Whatever a search did not look at, its e-values are at most those of the full belief, and
    /// where it looked at all they are equal within a bin's effect (1e-3 nats).
    #[test]
    fn a_search_stays_below_the_full_belief(seed: u64, pooled: bool, budget in prop_oneof![Just(None), (5_u64..300).prop_map(Some)]) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let model = RandomModel { seed, sharpness: 4.0 * random.random::<f64>() };
        let tree = digits(3);
        let targets: Vec<Target> = (0..3).map(|_| Target {
            context: vec![10],
            secret: (0..3).map(|_| random.random_range(0..10)).collect(),
        }).collect();
        let audit = audit(1_000, 3, if pooled { 1e-7 } else { 0.0 });
        let options = SearchOptions { budget, batch: 7, ..SearchOptions::default() };
        let mut toy = Toy::new(model.clone());
        let (ranking, guesses) =
            search_beliefs(&mut toy, &tree, &targets, &options, &audit, &mut quiet()).unwrap();
        let mut plain = Toy::new(model.clone());
        let ranks = search_ranks(&mut plain, &tree, &targets, &options, &mut quiet()).unwrap();
        prop_assert_eq!(&ranking.counts, &ranks.counts);
        prop_assert_eq!(ranking.work.positions_scored, ranks.work.positions_scored);
        for (k, temper) in audit.tempers.iter().enumerate() {
            let full: Vec<f64> = (0..1_000)
                .map(|i| model.tempered(&tree.candidate(i), temper))
                .collect();
            let beliefs = Beliefs::full(&full, audit.pool).unwrap();
            for (target, guesses) in targets.iter().zip(&guesses) {
                let own = model.tempered(&target.secret, temper);
                for epsilon in [0.0, 0.3, 1.0, 2.5, 5.0] {
                    let wanted = beliefs.guess(own).unwrap().ln_evalue(epsilon);
                    let got = guesses[k].ln_evalue(epsilon);
                    prop_assert!(got <= wanted + 1e-8, "{got} above {wanted}");
                }
            }
        }
    }
}

/// A model whose next-token law is a hash of what stands before.
#[derive(Debug, Clone)]
struct RandomModel {
    seed: u64,
    sharpness: f64,
}

impl RandomModel {
    fn row(&self, state: &[u32]) -> Vec<f64> {
        let mixed = state.iter().fold(self.seed, |hash, token| {
            (hash ^ u64::from(*token))
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(23)
        });
        let mut random = ChaCha8Rng::seed_from_u64(mixed);
        let raw: Vec<f64> = (0..11)
            .map(|_| self.sharpness * random.random::<f64>())
            .collect();
        let sum: f64 = raw.iter().map(|w| w.exp()).sum();
        raw.into_iter().map(|w| w - sum.ln()).collect()
    }

    /// Straight from the definition: tempered at every node over ten digits, mixed at the end.
    fn tempered(&self, secret: &[u32], temper: &Temper) -> f64 {
        let mut belief = 1.0;
        let mut state = vec![10];
        for token in secret {
            let row: Vec<f64> = self.row(&state)[..10]
                .iter()
                .map(|ln| (ln / temper.temperature()).exp())
                .collect();
            belief *= row[*token as usize] / row.iter().sum::<f64>();
            state.push(*token);
        }
        (1.0 - temper.uniform()) * belief + temper.uniform() / 1_000.0
    }
}

impl crate::models::Model for RandomModel {
    type State = Vec<u32>;
    fn vocabulary(&self) -> usize {
        11
    }
    fn blank(&self) -> Vec<u32> {
        Vec::new()
    }
    fn step(&self, state: &Vec<u32>, token: u32) -> Vec<u32> {
        let mut next = state.clone();
        next.push(token);
        next
    }
    fn log_probabilities(&mut self, state: &Vec<u32>) -> Vec<f64> {
        self.row(state)
    }
}

/// The most that any (ε, δ) channel makes of Σ weights · P(o | x) / N: a linear programme over all
/// channels on `n` inputs and one output per belief.
fn worst_channel(n: usize, gains: &[Vec<f64>], epsilon: f64, delta: f64) -> f64 {
    let outputs = gains.len();
    let mut space = variables!();
    let p: Vec<Vec<_>> = (0..n)
        .map(|_| {
            (0..outputs)
                .map(|_| space.add(variable().min(0.0)))
                .collect()
        })
        .collect();
    let mut rules = Vec::new();
    for x in 0..n {
        rules.push(constraint!(p[x].iter().sum::<Expression>() == 1.0));
        for y in (0..n).filter(|y| *y != x) {
            let mut all = Expression::from(0.0);
            for o in 0..outputs {
                let excess = space.add(variable().min(0.0));
                rules.push(constraint!(excess >= p[x][o] - epsilon.exp() * p[y][o]));
                all += excess;
            }
            rules.push(constraint!(all <= delta));
        }
    }
    let mut gain = Expression::from(0.0);
    for x in 0..n {
        for o in 0..outputs {
            gain += gains[o][x] / n as f64 * p[x][o];
        }
    }
    let mut model = space.maximise(gain.clone()).using(default_solver);
    for rule in rules {
        model = model.with(rule);
    }
    model.solve().unwrap().eval(gain)
}

fn capped(beliefs: &Arc<Beliefs>, belief: f64, epsilon: f64, cap: f64) -> f64 {
    beliefs
        .guess(belief)
        .unwrap()
        .ln_evalue(epsilon)
        .min(cap.ln())
        .exp()
}

/// Over all (ε, δ) channels, N ≤ 6, up to three outputs with a random belief each, pooled below
/// 1.5/N: E[min(e, F)] ≤ 1 + δ (F − 1)(N − 1)/ℓ. 60 programmes, seed 11; 1e-7 for the simplex.
#[test]
fn no_channel_gains_more_than_the_slack() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut closest = 0.0_f64;
    for _ in 0..60 {
        let n = random.random_range(2..=6);
        let epsilon = 2.0 * random.random::<f64>();
        let delta = 10_f64.powf(-4.0 * random.random::<f64>());
        let cap = 1.0 + 5.0 * random.random::<f64>();
        let pool = Pool::below(1.5).unwrap();
        let outputs = random.random_range(1..=3);
        let gains: Vec<Vec<f64>> = (0..outputs)
            .map(|_| {
                let belief = random_belief(n, &mut random);
                let beliefs = Beliefs::full(&belief, pool).unwrap();
                belief
                    .iter()
                    .map(|b| capped(&beliefs, *b, epsilon, cap))
                    .collect()
            })
            .collect();
        let slack = delta * (cap - 1.0) * (n - 1) as f64 / pool.least_size(n as u64) as f64;
        let worst = worst_channel(n, &gains, epsilon, delta);
        assert!(worst <= 1.0 + slack + 1e-7, "{worst} above 1 + {slack}");
        closest = closest.max((worst - 1.0) / slack);
    }
    // Not vacuous.
    assert!(closest > 0.2, "{closest}");
}

/// A head chosen by the auditor has to be raised to the tail's value: N = 5, ε = 1, δ = 1e-3, head
/// {big, 0}, tail of three, an output for each choice of the two so that every pair of inputs
/// spends its δ. Unraised, at big = 1/2, F − 1 = 1/e and δ (F − 1)(N − 1) = .00147 is gained where
/// a third of it, .00049, was paid for. Raised, what is paid for is nearly all gained: at least half.
#[test]
fn the_head_is_raised_to_the_tail() {
    let (n, epsilon, delta) = (5, 1.0_f64, 1e-3);
    for big in [0.3, 0.5, 0.7, 0.9] {
        let (beliefs, head, other) = Beliefs::pooled(&[big, 0.0], 3).unwrap();
        assert!((head[0] + head[1] + 3.0 * other - 1.0).abs() < 1e-12);
        let gain = |belief: f64| beliefs.guess(belief).unwrap().ln_evalue(epsilon).exp();
        let [first, second, third] = [head[0], head[1], other].map(gain);
        let mut gains = vec![vec![1.0; n]];
        for i in 0..n {
            for j in (0..n).filter(|j| *j != i) {
                let mut row = vec![third; n];
                (row[i], row[j]) = (first, second);
                gains.push(row);
            }
        }
        let worst = worst_channel(n, &gains, epsilon, delta);
        let slack = delta * (first.max(1.0) - 1.0) * (n - 1) as f64 / 3.0;
        assert!(
            worst <= 1.0 + slack + 1e-7,
            "{big}: {worst} above 1 + {slack}"
        );
        assert!(
            worst - 1.0 >= 0.5 * slack - 1e-7,
            "{big}: {worst} far below 1 + {slack}"
        );
    }
}

/// Two secrets of three values, three outputs, all (ε, δ) channels on the nine inputs:
/// P(E_1 or E_2 ≥ 1/α′) ≤ α′ + 2 δ (F − 1)(N − 1)/ℓ. 12 programmes, seed 12.
#[test]
fn the_product_over_all_channels() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let n = 3;
    for _ in 0..12 {
        let epsilon = random.random::<f64>();
        let delta = 0.02 * random.random::<f64>();
        let alpha = 0.5;
        let cap = 3.0;
        // alarm[o][input]
        let alarms: Vec<Vec<f64>> = (0..3)
            .map(|_| {
                let first = random_belief(n, &mut random);
                let one = Beliefs::full(&first, Pool::NONE).unwrap();
                let later: Vec<Vec<f64>> = (0..n).map(|_| random_belief(n, &mut random)).collect();
                let mut row = Vec::new();
                for s1 in 0..n {
                    let two = Beliefs::full(&later[s1], Pool::NONE).unwrap();
                    for s2 in 0..n {
                        let e1 = capped(&one, first[s1], epsilon, cap);
                        let e2 = e1 * capped(&two, later[s1][s2], epsilon, cap);
                        row.push(f64::from(u8::from(e1.max(e2) >= 1.0 / alpha)));
                    }
                }
                row
            })
            .collect();
        let mut space = variables!();
        let p: Vec<Vec<_>> = (0..n * n)
            .map(|_| (0..3).map(|_| space.add(variable().min(0.0))).collect())
            .collect();
        let mut rules = Vec::new();
        for a in 0..n * n {
            rules.push(constraint!(p[a].iter().sum::<Expression>() == 1.0));
            for b in 0..n * n {
                if a == b || (a / n != b / n && a % n != b % n) {
                    continue;
                }
                let mut all = Expression::from(0.0);
                for (left, right) in p[a].iter().zip(&p[b]) {
                    let excess = space.add(variable().min(0.0));
                    rules.push(constraint!(excess >= *left - epsilon.exp() * *right));
                    all += excess;
                }
                rules.push(constraint!(all <= delta));
            }
        }
        let mut gain = Expression::from(0.0);
        for (o, row) in alarms.iter().enumerate() {
            for (input, alarm) in row.iter().enumerate() {
                gain += *alarm / (n * n) as f64 * p[input][o];
            }
        }
        let mut model = space.maximise(gain.clone()).using(default_solver);
        for rule in rules {
            model = model.with(rule);
        }
        let worst = model.solve().unwrap().eval(gain);
        let slack = 2.0 * delta * (cap - 1.0) * 2.0;
        assert!(worst <= alpha + slack + 1e-7, "{worst}");
    }
}

/// One bet of the adaptive auditor: N = 2 with odds 20/19.
fn small_bet() -> (Arc<Beliefs>, [f64; 2]) {
    let belief = [20.0 / 39.0, 19.0 / 39.0];
    (Beliefs::full(&belief, Pool::NONE).unwrap(), belief)
}

/// The point mass among `candidates`.
fn large_bet(candidates: usize) -> Arc<Beliefs> {
    let mut belief = vec![0.0; candidates];
    belief[0] = 1.0;
    Beliefs::full(&belief, Pool::NONE).unwrap()
}

/// Bets that only ε = 0 can lose come first; once E(0) is ruined, one bet reaches 1/α at
/// ε = ln(20/19) and above. The largest rejected level lies above 0, the first level that is
/// not rejected is 0.
#[test]
fn the_bound_is_the_first_level_not_rejected() {
    let (small, belief) = small_bet();
    let mut process = EValueProcess::pure(0.05, 1).unwrap();
    for _ in 0..150 {
        process
            .reveal(vec![small.guess(belief[1]).unwrap()])
            .unwrap();
    }
    process
        .reveal(vec![large_bet(22).guess(1.0).unwrap()])
        .unwrap();
    let odds = (20.0_f64 / 19.0).ln();
    // E(0) = (38/39)^150 · 22 = .45, E(ln 20/19) = 1 + 21 · 19/20 = 20.95.
    assert!(!process.rejects(level(0.0)));
    assert!((process.ln_evalue(level(odds)) - 20.95_f64.ln()).abs() < 1e-6);
    assert!(process.rejects(level(odds)));
    assert!(process.bound().unwrap().get().get() <= 0.0);
}

/// The auditor who switches levels against a mechanism without any leak: small bets until E(0)
/// reaches 20 or falls below .02, then the point mass. 20 000 runs, seed 3, α = .05. Read as the
/// largest rejected level the bound is positive in more than .08 of them (.094 expected: here
/// (1 − .02)/(20 − .02) + .951/21); read as the first crossing, in at most .05 + 4 standard
/// deviations (.0062).
#[test]
fn switching_levels_raises_no_false_alarms() {
    let (small, belief) = small_bet();
    let at_zero = belief.map(|b| small.guess(b).unwrap().ln_evalue(0.0));
    let odds = (20.0_f64 / 19.0).ln();
    // Small bets are worth nothing from ln 20/19 on.
    assert!(
        belief
            .iter()
            .all(|b| small.guess(*b).unwrap().ln_evalue(odds + 1e-9).abs() < 1e-8)
    );
    let large = large_bet(21);
    let won = [0.0, odds - 1e-6].map(|epsilon| large.guess(1.0).unwrap().ln_evalue(epsilon));
    let wanted = 20_f64.ln();
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let runs = 20_000;
    let (mut largest, mut first) = (0, 0);
    for _ in 0..runs {
        let (mut ln_e, mut highest) = (0.0_f64, 0.0_f64);
        while ln_e < wanted && ln_e > 0.02_f64.ln() {
            let mut bits: u64 = random.random();
            for _ in 0..64 {
                ln_e += at_zero[(bits & 1) as usize];
                bits >>= 1;
                highest = highest.max(ln_e);
                if ln_e >= wanted || ln_e <= 0.02_f64.ln() {
                    break;
                }
            }
        }
        let right = random.random_range(0..21) == 0;
        if right {
            highest = highest.max(ln_e + won[0]);
        }
        let zero_rejected = highest >= wanted;
        first += u32::from(zero_rejected);
        largest += u32::from(zero_rejected || (right && won[1] >= wanted - 1e-5));
    }
    assert!(f64::from(largest) > 0.08 * f64::from(runs), "{largest}");
    assert!(
        f64::from(first) < (0.05 + 0.0062) * f64::from(runs),
        "{first}"
    );
}

/// Guesses of a list audit: NLLs of N candidates, the true one first.
fn listed(nlls: &[f64], audit: &EValueAudit) -> CanaryGuesses {
    audit
        .tempers
        .iter()
        .map(|temper| {
            let belief = temper.beliefs(nlls).unwrap();
            Beliefs::full(&belief, audit.pool)
                .unwrap()
                .guess(belief[0])
                .unwrap()
        })
        .collect()
}

/// Randomised response at exactly ε: the auditor sees a named candidate and believes it too
/// little or too much, the bolder after a loss. 20 000 runs a row, seed 21, m = 5, N = 20, α = .1:
/// ε itself is rejected, without which no bound exceeds it, in at most α + 4 standard deviations
/// (.0085) of them.
#[test]
fn false_alarms_of_randomised_response() {
    let (n, m, alpha, runs) = (20_usize, 5, 0.1, 20_000);
    for epsilon in [0.0_f64, 0.5, 1.0, 2.0, 4.0, 6.0] {
        let mut random = ChaCha8Rng::seed_from_u64(21);
        let keep = epsilon.exp() / (epsilon.exp() + n as f64 - 1.0);
        // Beliefs that differ from run to run but not with the secrets.
        let strengths = [0.75, 1.0, 2.0].map(|power: f64| {
            let weight = (power * epsilon + 0.3).exp();
            let mut belief = vec![1.0 / (weight + n as f64 - 1.0); n];
            belief[0] *= weight;
            let beliefs = Beliefs::full(&belief, Pool::NONE).unwrap();
            let [right, wrong] = [belief[0], belief[1]].map(|b| beliefs.guess(b).unwrap());
            [right, wrong].map(|guess| guess.ln_evalue(epsilon))
        });
        let mut alarms = 0;
        for _ in 0..runs {
            let (mut ln_e, mut highest) = (0.0_f64, 0.0_f64);
            // The auditor turns bolder after a loss: beliefs may depend on what was revealed.
            let mut strength = 1;
            for _ in 0..m {
                let right = random.random::<f64>() < keep;
                ln_e += strengths[strength][usize::from(!right)];
                strength = if right { 0 } else { 2 };
                highest = highest.max(ln_e);
            }
            alarms += u32::from(highest >= -f64::ln(alpha));
        }
        let rate = f64::from(alarms) / f64::from(runs);
        assert!(rate <= alpha + 0.0085, "{rate} at {epsilon}");
    }
}

/// Dependent canaries: one release tells the sum of all secrets mod N through randomised response,
/// so that given the others each secret has exactly an ε channel, and given the release alone none.
/// The auditor bets on the last secret only, after the others were revealed. 20 000 runs, seed 22,
/// N = 8, m = 3, α = .05: the bound exceeds ε in at most .05 + 4 standard deviations (.0062). One
/// bet that is believed at exactly its chance never reaches 1/α above the truth.
#[test]
fn false_alarms_of_dependent_canaries() {
    let (n, alpha, runs) = (8_usize, 0.05, 20_000);
    let mut random = ChaCha8Rng::seed_from_u64(22);
    for epsilon in [0.0_f64, 1.0, 3.0, 6.0] {
        let keep = epsilon.exp() / (epsilon.exp() + n as f64 - 1.0);
        // As certain as can be: the boldest bet.
        let mut belief = vec![0.0; n];
        belief[0] = 1.0;
        let bold = Beliefs::full(&belief, Pool::NONE).unwrap();
        let flat = Beliefs::full(&vec![1.0 / n as f64; n], Pool::NONE).unwrap();
        let mut alarms = 0;
        for _ in 0..runs {
            let secrets: Vec<usize> = (0..3).map(|_| random.random_range(0..n)).collect();
            let sum: usize = secrets.iter().sum::<usize>() % n;
            let released = if random.random::<f64>() < keep {
                sum
            } else {
                (sum + random.random_range(1..n)) % n
            };
            let named = (released + 2 * n - secrets[0] - secrets[1]) % n;
            let mut process = EValueProcess::pure(alpha, 1).unwrap();
            for _ in 0..2 {
                process
                    .reveal(vec![flat.guess(1.0 / n as f64).unwrap()])
                    .unwrap();
            }
            let weight = if named == secrets[2] { 1.0 } else { 0.0 };
            process.reveal(vec![bold.guess(weight).unwrap()]).unwrap();
            alarms += u32::from(process.bound().unwrap().get().get() > epsilon);
        }
        let rate = f64::from(alarms) / f64::from(runs);
        assert!(rate <= alpha + 0.0062, "{rate} at {epsilon}");
    }
}

/// Gaussian scores that leak nothing, the whole audit with its tempers, δ = 0 and δ > 0: a positive
/// bound in at most α of 2 000 runs, seed 23, α = .05, N = 50, m = 10 (4 standard deviations: .0195).
#[test]
fn false_alarms_of_the_usual_audit() {
    for delta in [0.0, 1e-5] {
        let audit = audit(50, 10, delta);
        let mut random = ChaCha8Rng::seed_from_u64(23);
        let mut alarms = 0;
        for _ in 0..2_000 {
            let canaries: Vec<CanaryGuesses> = (0..10)
                .map(|_| {
                    let nlls: Vec<f64> = (0..50).map(|_| 2.0 * normal(&mut random)).collect();
                    listed(&nlls, &audit)
                })
                .collect();
            let bound = audit.bound(&canaries).unwrap();
            alarms += u32::from(bound.lower.get().get() > 0.0);
        }
        assert!(alarms <= 139, "{alarms} of 2000 at {delta}");
    }
}

/// Where the secret is revealed outright the bound is all that the plan can prove, to its resolution.
#[test]
fn provable_is_attained_by_certainty() {
    for (n, m, delta) in [
        (100_u64, 10_u64, 0.0),
        (100, 10, 1e-6),
        (1_000, 3, 0.0),
        (50, 40, 1e-7),
    ] {
        let audit = audit(n, m, delta);
        let mut nlls = vec![1e6; n as usize];
        nlls[0] = 0.0;
        let canaries = vec![listed(&nlls, &audit); m as usize];
        let bound = audit.bound(&canaries).unwrap().lower.get().get();
        let most = audit.provable().unwrap().get().get();
        assert!(bound <= most, "{bound} {most}");
        assert!(bound >= most - 2e-3 * (1.0 + most), "{bound} {most}");
        // No belief whatever proves more than ln((N − 1)/(α^{−1/m} − 1)).
        let alpha = 0.05_f64;
        let ceiling = ((n - 1) as f64 / (alpha.powf(-1.0 / m as f64) - 1.0)).ln();
        assert!(most <= ceiling + 1e-9, "{most} {ceiling}");
    }
    // Without enough room under the cap nothing can be proved.
    let hopeless = audit(100, 3, 1e-2);
    assert!(hopeless.provable().unwrap().get().get() <= 0.0);
}

/// No scores and coins prove more than `coin_provable`. Curves keep 0.001 from certainty, so nothing is proved beyond ln 999
/// = 6.907, and that they may be trusted is learned coin by coin. Golden: the three ceilings, by a port to Python; coins
/// that are known for certain would have 4.972, 5.809 and 8.113.
#[test]
fn coins_prove_no_more_than_their_curves_allow() {
    let terms = |confidence: f64, delta: f64| AuditTerms {
        confidence: Confidence::new(confidence).unwrap(),
        delta: Delta::new(delta).unwrap(),
        neighbours: Neighbours::AddRemove,
        unit: UnitName::new("turn").unwrap(),
        copies: 1,
    };
    let most = |coins, terms: &AuditTerms| coin_provable(coins, terms).unwrap().get().get();
    for (coins, confidence, golden) in [
        (1_000, 0.999, 4.7259),
        (1_000, 0.95, 5.3581),
        (10_000, 0.95, 6.6331),
    ] {
        let found = most(coins, &terms(confidence, 0.0));
        assert!((found - golden).abs() < 1e-3, "{coins}: {found}");
    }
    // Every score tells its coin; half of the canaries are further out.
    for coins in [40, 400] {
        let inside: Vec<bool> = (0..coins).map(|i| i % 2 == 0).collect();
        for (far, delta) in [(1.0, 0.0), (50.0, 0.0), (f64::INFINITY, 0.0), (50.0, 1e-6)] {
            let terms = terms(0.95, delta);
            let scores: Vec<f64> = (0..coins)
                .map(|i| {
                    let size = if i % 4 < 2 { far } else { 1.0 };
                    if i % 2 == 0 { size } else { -size }
                })
                .collect();
            let found = coin_bound(&coin_beliefs(&scores, &inside).unwrap(), &terms);
            let found = found.unwrap().lower.get().get();
            let most = most(coins, &terms);
            assert!(found <= most && found > 0.3 * most, "{found} of {most}");
        }
    }
}

/// Coins of canaries that training never met tell nothing, and hide among those left out. Where all but one of 500 are
/// absent, nothing can be proved; where none is, as much as by all coins.
#[test]
fn absent_canaries_prove_nothing() {
    let terms = AuditTerms {
        confidence: Confidence::new(0.999).unwrap(),
        delta: Delta::new(0.0).unwrap(),
        neighbours: Neighbours::Replace,
        unit: UnitName::new("document").unwrap(),
        copies: 1,
    };
    let most = |met, absent, out| {
        let coins = CoinCounts { met, absent, out };
        coin_provable_of(coins, &terms).unwrap().get().get()
    };
    let all = coin_provable(1_000, &terms).unwrap().get().get();
    assert!((most(500, 0, 500) - all).abs() < 1e-12);
    assert!(most(1, 499, 500) <= 0.0);
    let some = most(400, 100, 500);
    assert!(most(250, 250, 500) < some && some < all, "{some} of {all}");
    let none = CoinCounts {
        met: 0,
        absent: 0,
        out: 0,
    };
    assert!(coin_provable_of(none, &terms).is_err());
}

/// Each can only help: more certainty, a smaller δ, independent draws, fewer beliefs.
#[test]
fn order() {
    let canaries = |audit: &EValueAudit, truth: f64| -> Vec<CanaryGuesses> {
        let mut nlls = vec![5.0; 200];
        nlls[0] = truth;
        vec![listed(&nlls, audit); 20]
    };
    let bound = |audit: &EValueAudit, truth: f64| {
        audit
            .bound(&canaries(audit, truth))
            .unwrap()
            .lower
            .get()
            .get()
    };
    let pure = audit(200, 20, 0.0);
    assert!(bound(&pure, 0.0) > bound(&pure, 2.0) && bound(&pure, 2.0) > 0.0);
    assert!(bound(&audit(200, 20, 1e-6), 1.0) <= bound(&pure, 1.0));
    assert!(bound(&audit(200, 20, 1e-3), 1.0) < bound(&audit(200, 20, 1e-6), 1.0));
    let distinct = EValueAudit {
        draw: Draw::Distinct,
        ..pure.clone()
    };
    assert!(bound(&distinct, 1.0) < bound(&pure, 1.0));
    // A secret that the model rules out takes nearly everything.
    assert!(bound(&pure, 30.0) <= 0.0);
}

#[test]
fn what_is_refused() {
    let said = |audit: EValueAudit| audit.test().unwrap_err().to_string();
    assert!(
        said(EValueAudit {
            tempers: Vec::new(),
            ..audit(10, 2, 0.0)
        })
        .contains("no belief")
    );
    assert_eq!(
        said(EValueAudit {
            copies: 0,
            ..audit(10, 2, 0.0)
        }),
        "copies must lie in [1, inf), got 0"
    );
    assert!(said(audit(1, 2, 0.0)).contains("candidates"));
    assert!(Beliefs::full(&[0.5, 0.6], Pool::NONE).is_err());
    assert!(Beliefs::full(&[1.5, -0.5], Pool::NONE).is_err());
    assert!(Beliefs::full(&[f64::NAN, 1.0], Pool::NONE).is_err());
    assert!(Beliefs::pooled(&[0.5], 0).is_err());
    assert!(Pool::below(1.0).is_err());
    assert!(Temper::new(0.0, 0.1).is_err() && Temper::new(1.0, 1.0).is_err());
    let with_delta = audit(10, 2, 1e-6);
    let mut process = EValueProcess::new(&with_delta).unwrap();
    let flat = Beliefs::full(&[0.1; 10], Pool::NONE).unwrap();
    let guesses: Vec<Guess> = with_delta
        .tempers
        .iter()
        .map(|_| flat.guess(0.1).unwrap())
        .collect();
    assert!(process.reveal(guesses[1..].to_vec()).is_err());
    process.reveal(guesses.clone()).unwrap();
    process.reveal(guesses.clone()).unwrap();
    // The slack of a third was not set aside. At δ = 0 it costs nothing.
    assert!(
        process
            .reveal(guesses.clone())
            .unwrap_err()
            .to_string()
            .contains("slack")
    );
    let mut pure = EValueProcess::new(&audit(10, 2, 0.0)).unwrap();
    for _ in 0..3 {
        pure.reveal(guesses.clone()).unwrap();
    }
    assert!(audit(10, 2, 0.0).bound(&vec![guesses; 3]).is_err());
}

/// What no belief, no coin and no plan can be proves nothing: it is refused where it would enter a test.
#[test]
fn what_proves_too_much_is_refused() {
    for (temperature, uniform) in [
        (0.0, 0.1),
        (f64::NAN, 0.1),
        (-1.0, 0.1),
        (1.0, 1.5),
        (1.0, -3.0),
        (1.0, f64::NAN),
    ] {
        assert!(Temper::new(temperature, uniform).is_err());
    }
    assert!(
        EValueAudit::usual_tempers()[0]
            .beliefs(&[1.0, f64::NAN])
            .is_err()
    );
    // A weight that no candidate of the belief has, and a belief about one candidate.
    let even = Beliefs::full(&[0.25; 4], Pool::NONE).unwrap();
    for weight in [0.9, 0.25 + 1e-6, 0.0, -1.0, f64::NAN] {
        let error = even.guess(weight).unwrap_err().to_string();
        assert!(error.contains("weight of a guess"), "{error}");
    }
    let pool = Pool::below(2.0).unwrap();
    let pooled = Beliefs::full(&[0.4, 0.2, 0.2, 0.2], pool).unwrap();
    assert!(pooled.guess(0.2).is_ok() && pooled.guess(0.4).is_ok() && pooled.guess(0.6).is_err());
    assert!(Beliefs::full(&[1.0], Pool::NONE).is_err());
    let (of_head, head, other) = Beliefs::pooled(&[0.5, 0.1], 3).unwrap();
    assert!(
        [head[0], head[1], other]
            .iter()
            .all(|weight| of_head.guess(*weight).is_ok())
    );
    // No coin, no belief about one, and a belief about more than two candidates.
    for delta in [0.0, 1e-6] {
        let terms = AuditTerms {
            confidence: Confidence::new(0.95).unwrap(),
            delta: Delta::new(delta).unwrap(),
            neighbours: Neighbours::AddRemove,
            unit: UnitName::new("turn").unwrap(),
            copies: 1,
        };
        assert!(coin_bound(&[vec![]], &terms).is_err() && coin_bound(&[], &terms).is_err());
        assert!(EValueProcess::of_coins(10, &terms, 0).is_err());
        assert!(EValueProcess::of_coins(0, &terms, 1).is_err());
        assert!(coin_provable(0, &terms).is_err());
        let shifted = ScoreLaw::gaussian(1.0).unwrap();
        let coins = CoinCounts {
            met: 5,
            absent: 0,
            out: 5,
        };
        assert!(coin_power(&shifted, coins, &terms, level(1.0), 0).is_err());
        let wide = vec![vec![large_bet(1_000).guess(1.0).unwrap()]; 20];
        let error = coin_bound(&wide, &terms).unwrap_err().to_string();
        assert!(error.contains("candidates of a belief"), "{error}");
    }
}

/// A process is bound to the plan of its audit: the number of canaries, of candidates, and the pool that δ > 0 was paid
/// for by. Distinct secrets are limited as well: of more of them fewer draws are distinct.
#[test]
fn a_process_keeps_to_its_plan() {
    let few = audit(50, 5, 1e-6);
    let mut nlls = vec![9.0; 50];
    nlls[0] = 0.0;
    let mut process = EValueProcess::new(&few).unwrap();
    for _ in 0..5 {
        process.reveal(listed(&nlls, &few)).unwrap();
    }
    assert!(process.reveal(listed(&nlls, &few)).is_err());
    assert!(few.found(&process).is_ok());
    for other in [audit(50, 500, 1e-6), audit(50, 5, 0.0), audit(60, 5, 1e-6)] {
        assert!(other.found(&process).is_err());
    }
    let spread: Vec<f64> = (0..50).map(|i| f64::from(i) / 10.0).collect();
    let unpooled = EValueAudit {
        pool: Pool::NONE,
        ..few.clone()
    };
    let mut process = EValueProcess::new(&few).unwrap();
    let error = process.reveal(listed(&spread, &unpooled)).unwrap_err();
    assert!(error.to_string().contains("slack"), "{error}");
    assert!(process.reveal(listed(&nlls[..49], &few)).is_err());
    let distinct = EValueAudit {
        draw: Draw::Distinct,
        ..audit(50, 2, 0.0)
    };
    let mut process = EValueProcess::new(&distinct).unwrap();
    let mut test = SequentialTest::new(&distinct, level(1.0)).unwrap();
    for third in [false, false, true] {
        let guesses = listed(&nlls, &distinct);
        assert_eq!(process.reveal(guesses.clone()).is_err(), third);
        assert_eq!(test.reveal(guesses).is_err(), third);
    }
}

/// α′ and the price of F, ℓ and m never add up to more than α, and distinct draws pay for
/// collisions: P(all distinct) of 40 among 1000 is .457.
#[test]
fn the_slack_is_paid() {
    for (n, m) in [(2_u64, 1_000_u64), (50, 3), (1_000, 100), (1_000_000, 10)] {
        for delta in [1e-9, 1e-6, 1e-4] {
            let test = audit(n, m, delta).test().unwrap();
            let (n, m) = (n as f64, m as f64);
            let cap = test.cap.unwrap();
            let slack = m * delta * (cap - 1.0) * (n - 1.0) / test.pooled as f64;
            assert!(slack > 0.0 && test.working_alpha + slack <= 0.05 * (1.0 + 1e-9));
            // At least a tenth of the candidates is pooled, one of two coins.
            assert!(test.pooled as f64 >= (n / 11.0 - 1.0).max(1.0));
        }
    }
    let distinct = EValueAudit {
        draw: Draw::Distinct,
        ..audit(1_000, 40, 0.0)
    };
    let uncollided: f64 = (0..40).map(|i| 1.0 - f64::from(i) / 1_000.0).product();
    let working = distinct.test().unwrap().working_alpha;
    assert!((working - 0.05 * uncollided).abs() < 1e-12, "{working}");
    // ℓ counts those that can't have a belief of 2/N: the head of no belief is larger.
    let mut belief = vec![0.0; 10];
    belief[..5].fill(0.2);
    let pool = Pool::below(2.0).unwrap();
    assert_eq!(pool.least_size(10), 5);
    let beliefs = Beliefs::full(&belief, pool).unwrap();
    assert!(beliefs.guess(0.0).unwrap().ln_evalue(0.0) < -20.0);
}

/// Which test decides does not look at scores.
#[test]
fn the_plan_decides_which_test_counts() {
    let decides = |n, m, delta| audit(n, m, delta).decides(&rank_audit(delta)).unwrap();
    assert_eq!(decides(1_000_000, 50, 1e-6), EpsilonMethod::EValue);
    assert_eq!(decides(1_000_000, 100, 0.0), EpsilonMethod::EValue);
    assert_eq!(decides(1_000_000, 3, 0.0), EpsilonMethod::RankAudit);
    assert_eq!(decides(1_000_000, 10, 1e-6), EpsilonMethod::RankAudit);
}

/// Coins of one run, scores N(0, 1) and N(μ, 1), m = 2 000: at least four fifths of what the best number of
/// guesses proves, chosen in hindsight; and without a leak a false alarm in at most .05 of 400 runs
/// (37 is four standard deviations above). Seed 31.
#[test]
fn coins_of_one_run() {
    let mut random = ChaCha8Rng::seed_from_u64(31);
    let terms = |delta: f64| AuditTerms {
        confidence: Confidence::new(0.95).unwrap(),
        delta: Delta::new(delta).unwrap(),
        neighbours: Neighbours::AddRemove,
        unit: UnitName::new("turn").unwrap(),
        copies: 1,
    };
    let mut drawn = |m: usize, mu: f64| -> (Vec<f64>, Vec<bool>) {
        let coins: Vec<bool> = (0..m).map(|_| random.random()).collect();
        let scores = coins
            .iter()
            .map(|c| normal(&mut random) + mu * f64::from(u8::from(*c)))
            .collect();
        (scores, coins)
    };
    for mu in [1.0, 2.0] {
        let (scores, coins) = drawn(2_000, mu);
        let terms = terms(1e-6);
        let found = coin_bound(&coin_beliefs(&scores, &coins).unwrap(), &terms).unwrap();
        assert_eq!(found.method, EpsilonMethod::EValue);
        let mut order: Vec<usize> = (0..2_000).collect();
        order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
        let best = (50..1_000)
            .step_by(50)
            .map(|each| {
                let low = order[..each].iter().filter(|i| !coins[**i]).count();
                let high = order[2_000 - each..].iter().filter(|i| coins[**i]).count();
                let counts = OneRunCounts::new(2_000, 2 * each as u64, (low + high) as u64);
                counts.unwrap().bound(&terms).unwrap().lower.get().get()
            })
            .fold(0.0, f64::max);
        let ratio = found.lower.get().get() / best;
        assert!(
            ratio > 0.8,
            "{ratio}: {} of {best}",
            found.lower.get().get()
        );
    }
    let mut alarms = 0;
    for _ in 0..400 {
        let (scores, coins) = drawn(200, 0.0);
        let found = coin_bound(&coin_beliefs(&scores, &coins).unwrap(), &terms(0.0)).unwrap();
        alarms += u32::from(found.lower.get().get() > 0.0);
    }
    assert!(alarms <= 37, "{alarms}");
    assert!(coin_beliefs(&[1.0], &[]).is_err() && coin_beliefs(&[], &[]).is_err());
    assert!(coin_beliefs(&[f64::NAN, 1.0], &[true, false]).is_err());
}

/// No coin takes part in the belief about itself: of a coin that is revealed after the same others, the
/// e-values of "in" and "out" at ε = 0 are 2 p and 2 (1 − p) of one p. The first p is one half by
/// symmetry of the curves; coins that follow their scores make later ones bolder.
#[test]
fn the_first_coin_is_a_fair_one() {
    let scores: Vec<f64> = (0..60).map(f64::from).collect();
    let mut random = ChaCha8Rng::seed_from_u64(41);
    for follow in [true, false] {
        let mut coins: Vec<bool> = scores
            .iter()
            .map(|score| {
                if follow {
                    *score > 29.0
                } else {
                    random.random()
                }
            })
            .collect();
        // The score furthest from the median is revealed last.
        let mut last = |inside: bool| {
            coins[59] = inside;
            let guesses = coin_beliefs(&scores, &coins).unwrap();
            let e = |place: usize| guesses[place][0].ln_evalue(0.0).exp();
            (e(0), e(59))
        };
        let ((first, inside), (_, outside)) = (last(true), last(false));
        assert!((inside + outside - 2.0).abs() < 1e-6, "{inside} {outside}");
        assert!((first - 1.0).abs() < 1e-6, "{first}");
        assert_eq!(inside > 1.8, follow, "{inside}");
    }
}
