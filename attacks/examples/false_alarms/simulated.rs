//! Mechanisms that keep an (ε, δ) exactly, and auditors who bet against it.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Confidence, Delta, Epsilon, Neighbours, UnitName};
use reticent_attacks::evalue::{
    Beliefs, CanaryGuesses, EValueAudit, EValueProcess, SequentialTest, Temper, coin_beliefs,
};
use reticent_attacks::exposure::RankAudit;
use reticent_attacks::{AuditTerms, Draw};
use reticent_corpus::Unit;
use std::sync::Arc;

/// Levels of the rows.
pub(crate) const LEVELS: [f64; 7] = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0];

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kind {
    /// In words.
    pub(crate) name: &'static str,
    /// The rule.
    pub(crate) rule: Rule,
    /// With which probability a secret is revealed outright.
    pub(crate) delta: f64,
    /// The audit's failure probability.
    pub(crate) alpha: f64,
}

/// Mechanism and auditor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A subset of the candidates that holds the secret with odds e^ε too often, for each secret; the
    /// auditor believes in it, bolder after a loss.
    Subsets,
    /// One release tells the sum of all secrets; the auditor bets on each once the others are known.
    Sum,
    /// As subsets, up to 100 secrets, stopped once ε is rejected.
    Sequential,
    /// 200 coins, each revealed with odds e^ε and a random strength of the score.
    Coins,
}

const fn kind(name: &'static str, rule: Rule, delta: f64, alpha: f64) -> Kind {
    Kind {
        name,
        rule,
        delta,
        alpha,
    }
}

/// Rows of the table.
pub(crate) const KINDS: [Kind; 7] = [
    kind("12 secrets by subsets", Rule::Subsets, 0.0, 0.05),
    kind("12 secrets by subsets", Rule::Subsets, 1e-4, 0.05),
    kind("3 secrets by their sum", Rule::Sum, 0.0, 0.05),
    kind(
        "up to 100 secrets, stopped at 1/α",
        Rule::Sequential,
        0.0,
        0.05,
    ),
    kind(
        "up to 100 secrets, stopped at 1/α",
        Rule::Sequential,
        1e-5,
        0.05,
    ),
    kind("200 coins", Rule::Coins, 0.0, 0.05),
    kind("200 coins", Rule::Coins, 1e-5, 0.05),
];

/// The share of runs that reject ε, which holds.
pub(crate) fn rate(kind: Kind, epsilon: f64, runs: u32, seed: u64) -> f64 {
    rate_against(kind, epsilon, epsilon, runs, seed)
}

/// The share of runs of a mechanism of ε that reject `promised`.
pub(crate) fn rate_against(kind: Kind, epsilon: f64, promised: f64, runs: u32, seed: u64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let alarms: u32 = match kind.rule {
        Rule::Subsets => {
            let bets = Bets::new(kind, (epsilon, promised), 12);
            (0..runs).map(|_| bets.run(&mut random)).sum()
        }
        Rule::Sequential => {
            let bets = Bets::new(kind, (epsilon, promised), 100);
            (0..runs).map(|_| bets.run(&mut random)).sum()
        }
        Rule::Sum => (0..runs)
            .map(|_| sum(kind, (epsilon, promised), &mut random))
            .sum(),
        Rule::Coins => (0..runs)
            .map(|_| coins(kind, (epsilon, promised), &mut random))
            .sum(),
    };
    f64::from(alarms) / f64::from(runs)
}

fn level(epsilon: f64) -> Epsilon {
    Epsilon::new(epsilon).unwrap()
}

fn audit(kind: Kind, candidates: u64, canaries: u64) -> EValueAudit {
    let rank = RankAudit {
        thresholds: vec![1],
        confidence: Confidence::new(1.0 - kind.alpha).unwrap(),
        delta: Delta::new(kind.delta).unwrap(),
        draw: Draw::Independent,
        unit: Unit::Turn,
        copies: 1,
    };
    EValueAudit {
        // Two auditors whose gains are averaged.
        tempers: vec![
            Temper::new(1.0, 0.01).unwrap(),
            Temper::new(0.5, 0.01).unwrap(),
        ],
        ..EValueAudit::beside(&rank, candidates, canaries)
    }
}

/// N.
const CANDIDATES: usize = 20;

/// Sizes of the subsets.
const SIZES: [usize; 2] = [1, 4];

/// Guesses of the auditor for a secret in the subset and outside, by size and by mood.
struct Bets {
    audit: EValueAudit,
    epsilon: f64,
    promised: f64,
    /// [size][bold] → (in the subset, outside).
    guesses: [[(CanaryGuesses, CanaryGuesses); 2]; 2],
    /// Where the secret was revealed.
    certain: CanaryGuesses,
    delta: f64,
    canaries: u64,
}

impl Bets {
    fn new(kind: Kind, (epsilon, promised): (f64, f64), canaries: u64) -> Self {
        let audit = audit(kind, CANDIDATES as u64, canaries);
        let guesses = SIZES.map(|size| {
            [1.0, 1.5].map(|power: f64| {
                let believe = |temperature: f64| {
                    let weight = ((power * epsilon + 0.3) / temperature).exp();
                    let mut belief = vec![1.0; CANDIDATES];
                    belief[..size].fill(weight);
                    normalised(belief)
                };
                let beliefs: Vec<Vec<f64>> = audit
                    .tempers
                    .iter()
                    .map(|temper| believe(temper.temperature()))
                    .collect();
                (guess(&audit, &beliefs, 0), guess(&audit, &beliefs, size))
            })
        });
        let mut certain = vec![0.0; CANDIDATES];
        certain[0] = 1.0;
        let beliefs = vec![certain; audit.tempers.len()];
        Self {
            certain: guess(&audit, &beliefs, 0),
            audit,
            epsilon,
            promised,
            guesses,
            delta: kind.delta,
            canaries,
        }
    }

    fn run(&self, random: &mut ChaCha8Rng) -> u32 {
        let mut test = SequentialTest::new(&self.audit, level(self.promised)).unwrap();
        let mut bold = 0;
        for _ in 0..self.canaries {
            if random.random::<f64>() < self.delta {
                test.reveal(self.certain.clone()).unwrap();
                continue;
            }
            let size = random.random_range(0..2);
            let k = SIZES[size] as f64;
            let odds = k * self.epsilon.exp() / (CANDIDATES as f64 - k);
            let inside = random.random::<f64>() < odds / (1.0 + odds);
            let (right, wrong) = &self.guesses[size][bold];
            test.reveal(if inside { right } else { wrong }.clone())
                .unwrap();
            bold = usize::from(!inside);
            if test.rejected_after().is_some() {
                return 1;
            }
        }
        u32::from(test.rejected_after().is_some())
    }
}

fn normalised(belief: Vec<f64>) -> Vec<f64> {
    let sum: f64 = belief.iter().sum();
    belief.into_iter().map(|weight| weight / sum).collect()
}

/// One guess per temper, that the secret is the candidate `own`.
fn guess(audit: &EValueAudit, beliefs: &[Vec<f64>], own: usize) -> CanaryGuesses {
    let each = beliefs.iter().map(|belief| {
        let known: Arc<Beliefs> = Beliefs::full(belief, audit.pool).unwrap();
        known.guess(belief[own]).unwrap()
    });
    each.collect()
}

/// Three secrets of N values; their sum mod N through randomised response. N is such that a right guess with
/// certainty is worth just 1/α at the promise: the bet that errs as often as any may.
fn sum(kind: Kind, (epsilon, promised): (f64, f64), random: &mut ChaCha8Rng) -> u32 {
    let n = 3 + ((1.0 / kind.alpha - 1.0) * promised.exp()).ceil() as u64;
    let secrets: [u64; 3] = std::array::from_fn(|_| random.random_range(0..n));
    let sum = secrets.iter().sum::<u64>() % n;
    let keep = epsilon.exp() / (epsilon.exp() + n as f64 - 1.0);
    let released = if random.random::<f64>() < keep {
        sum
    } else {
        (sum + random.random_range(1..n)) % n
    };
    let named = (released + 2 * n - secrets[0] - secrets[1]) % n;
    let each = 1.0 / n as f64;
    let (flat, _, _) = Beliefs::pooled(&[each], n - 1).unwrap();
    let (bold, _, _) = Beliefs::pooled(&[1.0], n - 1).unwrap();
    let mut process = EValueProcess::pure(kind.alpha, 1).unwrap();
    for _ in 0..2 {
        process.reveal(vec![flat.guess(each).unwrap()]).unwrap();
    }
    let weight = f64::from(u8::from(named == secrets[2]));
    process.reveal(vec![bold.guess(weight).unwrap()]).unwrap();
    u32::from(process.rejects(level(promised)))
}

/// Coins revealed with odds e^ε, their scores of any strength.
fn coins(kind: Kind, (epsilon, promised): (f64, f64), random: &mut ChaCha8Rng) -> u32 {
    let terms = AuditTerms {
        confidence: Confidence::new(1.0 - kind.alpha).unwrap(),
        delta: Delta::new(kind.delta).unwrap(),
        neighbours: Neighbours::AddRemove,
        unit: UnitName::new("turn").unwrap(),
        copies: 1,
    };
    let keep = 1.0 / (1.0 + (-epsilon).exp());
    let coins: Vec<bool> = (0..200).map(|_| random.random()).collect();
    let scores: Vec<f64> = coins
        .iter()
        .map(|coin| {
            let sure = random.random::<f64>() < kind.delta;
            let right = sure || random.random::<f64>() < keep;
            let strength = if sure { 50.0 } else { random.random::<f64>() };
            if *coin == right { strength } else { -strength }
        })
        .collect();
    let mut process = EValueProcess::of_coins(200, &terms, 1).unwrap();
    for guesses in coin_beliefs(&scores, &coins).unwrap() {
        process.reveal(guesses).unwrap();
    }
    u32::from(process.rejects(level(promised)))
}
