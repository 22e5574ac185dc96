//! What e-values gain over the rank test: `cargo run --release -p reticent-attacks --example
//! evalue_gains [REPETITIONS]` prints the table of BENCHMARKS.md.
//!
//! Scores of N candidates are standard normal, the secret's is shifted by μ; the model's NLL is −2
//! times the score whatever μ is, so that no row is calibrated by construction. The rank test
//! has the best of its thresholds, chosen in hindsight at no cost; the e-values are what the audit
//! reports. The last table holds what `audit design` predicts against audits whose every candidate is scored, where the model's NLL is
//! −μ times the score.
#![expect(clippy::print_stdout, reason = "a report for people and scripts")]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reticent_accounting::{Confidence, Delta, Neighbours, UnitName};
use reticent_attacks::evalue::{
    Beliefs, EValueAudit, PlannedAudit, Pool, ScoreLaw, coin_beliefs, coin_bound,
};
use reticent_attacks::exposure::{EpsilonMethod, RankAudit};
use reticent_attacks::search::RankCount;
use reticent_attacks::{AuditTerms, Draw, OneRunCounts};
use reticent_corpus::Unit;

/// μ, N, m.
const ROWS: [(f64, u64, u64); 9] = [
    (1.0, 100, 10),
    (1.0, 100, 100),
    (2.0, 100, 100),
    (2.0, 1_000, 100),
    (3.0, 1_000, 100),
    (2.0, 1_000, 10),
    (3.0, 1_000, 10),
    (3.0, 10_000, 10),
    (4.0, 10_000, 10),
];

const DELTA: f64 = 1e-6;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repetitions: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 20,
    };
    println!("| μ | N | m | rank test, best t in hindsight | e-values | larger in |");
    println!("|---|---|---|---|---|---|");
    for (mu, candidates, canaries) in ROWS {
        let (mut ranks, mut evalues, mut larger) = (0.0, 0.0, 0);
        for seed in 0..repetitions {
            let (rank, evalue) = once(mu, candidates, canaries, seed)?;
            ranks += rank / repetitions as f64;
            evalues += evalue / repetitions as f64;
            larger += u64::from(evalue > rank);
        }
        println!(
            "| {mu} | {candidates} | {canaries} | {ranks:.2} | {evalues:.2} | {larger} of {repetitions} |"
        );
    }
    println!();
    println!(
        "| μ | m | one-run, best number of guesses in hindsight | e-values | share | e-values, beliefs known beforehand | share |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (mu, canaries) in [(1.0, 1_000), (2.0, 1_000), (1.0, 4_000), (2.0, 4_000)] {
        let mut means = [0.0; 3];
        for seed in 0..repetitions {
            for (mean, found) in means.iter_mut().zip(coins(mu, canaries, seed)?) {
                *mean += found / repetitions as f64;
            }
        }
        let [guesses, evalues, known] = means;
        println!(
            "| {mu} | {canaries} | {guesses:.2} | {evalues:.2} | {:.0} % | {known:.2} | {:.0} % |",
            100.0 * evalues / guesses,
            100.0 * known / guesses
        );
    }
    println!();
    println!("| μ | N | m | counts | predicted | realised | standard deviation | difference |");
    println!("|---|---|---|---|---|---|---|---|");
    for (mu, candidates, canaries) in ROWS {
        let audit = planned(candidates, canaries)?;
        let predicted = *audit
            .predict(&ScoreLaw::gaussian(mu)?, repetitions)?
            .mean
            .get();
        let bounds: Vec<f64> = (0..repetitions)
            .map(|seed| realised(&audit, mu, 1000 + seed))
            .collect::<Result<_, _>>()?;
        let mean = bounds.iter().sum::<f64>() / repetitions as f64;
        let squares: f64 = bounds.iter().map(|bound| (bound - mean).powi(2)).sum();
        println!(
            "| {mu} | {candidates} | {canaries} | {} | {:.2} | {mean:.2} | {:.2} | {:+.2} |",
            match audit.decides() {
                EpsilonMethod::EValue => "e-values",
                _ => "ranks",
            },
            predicted.get(),
            (squares / (repetitions as f64 - 1.0)).sqrt(),
            predicted.get() - mean
        );
    }
    Ok(())
}

/// The audit that `audit design` plans: the pool and the test of the verdict, the bound at 95 %.
fn planned(candidates: u64, canaries: u64) -> Result<PlannedAudit, Box<dyn std::error::Error>> {
    let strict = RankAudit {
        thresholds: RankAudit::planned_thresholds(candidates, 1),
        confidence: Confidence::new(0.9995)?,
        delta: Delta::new(DELTA)?,
        draw: Draw::Independent,
        unit: Unit::Turn,
        copies: 1,
    };
    Ok(PlannedAudit::new(strict, candidates, canaries)?.at(Confidence::new(0.95)?))
}

/// The bound of a simulated audit of whoever knows μ, every candidate scored.
fn realised(audit: &PlannedAudit, mu: f64, seed: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let (candidates, canaries) = audit.of();
    let tempers = &audit.by_evalue.tempers;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut counts, mut guesses) = (Vec::new(), Vec::new());
    for _ in 0..canaries {
        let mut nlls: Vec<f64> = (0..candidates).map(|_| -mu * normal(&mut random)).collect();
        nlls[0] -= mu * mu;
        counts.push(RankCount {
            candidates,
            nll: nlls[0],
            below: nlls[1..].iter().filter(|nll| **nll < nlls[0]).count() as u64,
            ties: 0,
            unresolved: 0,
        });
        let each = tempers.iter().map(|temper| {
            let belief = temper.beliefs(&nlls)?;
            Beliefs::full(&belief, audit.by_evalue.pool)?.guess(belief[0])
        });
        guesses.push(each.collect::<reticent_attacks::Result<Vec<_>>>()?);
    }
    Ok(audit.bound(&counts, &guesses)?.lower.get().get())
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Both bounds of one simulated audit.
fn once(
    mu: f64,
    candidates: u64,
    canaries: u64,
    seed: u64,
) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let rank = RankAudit {
        thresholds: vec![1],
        confidence: Confidence::new(0.95)?,
        delta: Delta::new(DELTA)?,
        draw: Draw::Independent,
        unit: Unit::Turn,
        copies: 1,
    };
    let audit = EValueAudit::beside(&rank, candidates, canaries);
    let mut counts = Vec::new();
    let mut guesses = Vec::new();
    for _ in 0..canaries {
        let mut nlls: Vec<f64> = (0..candidates)
            .map(|_| -2.0 * normal(&mut random))
            .collect();
        nlls[0] -= 2.0 * mu;
        let below = nlls[1..].iter().filter(|nll| **nll < nlls[0]).count() as u64;
        counts.push(RankCount {
            candidates,
            nll: nlls[0],
            below,
            ties: 0,
            unresolved: 0,
        });
        let each = audit.tempers.iter().map(|temper| {
            let belief = temper.beliefs(&nlls)?;
            Beliefs::full(&belief, audit.pool)?.guess(belief[0])
        });
        guesses.push(each.collect::<reticent_attacks::Result<Vec<_>>>()?);
    }
    let mut best = 0.0_f64;
    for threshold in [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500] {
        if threshold < candidates / 2 {
            let one = RankAudit {
                thresholds: vec![threshold],
                ..rank.clone()
            };
            best = best.max(one.bound(&counts)?.lower.get().get());
        }
    }
    Ok((best, audit.bound(&guesses)?.lower.get().get()))
}

/// Bounds of one simulated in/out audit: by counts of guesses, by e-values, and by e-values of whoever
/// knows μ.
fn coins(mu: f64, canaries: u64, seed: u64) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let terms = AuditTerms {
        confidence: Confidence::new(0.95)?,
        delta: Delta::new(DELTA)?,
        neighbours: Neighbours::AddRemove,
        unit: UnitName::new("turn")?,
        copies: 1,
    };
    let coins: Vec<bool> = (0..canaries).map(|_| random.random()).collect();
    let scores: Vec<f64> = coins
        .iter()
        .map(|coin| normal(&mut random) + mu * f64::from(u8::from(*coin)))
        .collect();
    let mut order: Vec<usize> = (0..coins.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let mut best = 0.0_f64;
    for each in (5..coins.len() / 2).step_by(coins.len() / 200) {
        let low = order[..each].iter().filter(|i| !coins[**i]).count();
        let high = order[order.len() - each..]
            .iter()
            .filter(|i| coins[**i])
            .count();
        let counts = OneRunCounts::new(canaries, 2 * each as u64, (low + high) as u64)?;
        best = best.max(counts.bound(&terms)?.lower.get().get());
    }
    let found = coin_bound(&coin_beliefs(&scores, &coins)?, &terms)?;
    let known = scores.iter().zip(&coins).map(|(score, coin)| {
        let inside = 1.0 / (1.0 + (mu * (0.5 * mu - score)).exp());
        let guess = if *coin { inside } else { 1.0 - inside };
        Ok(vec![
            Beliefs::full(&[1.0 - inside, inside], Pool::NONE)?.guess(guess)?,
        ])
    });
    let known = known.collect::<reticent_attacks::Result<Vec<_>>>()?;
    let known = coin_bound(&known, &terms)?;
    Ok([best, found.lower.get().get(), known.lower.get().get()])
}
