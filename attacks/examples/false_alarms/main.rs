//! How often audits by e-values reject an ε that holds: `cargo run --release -p reticent-attacks
//! --example false_alarms [RUNS [NAME]]` prints a table, 20 000 runs a row unless said, or its rows of that name.
//!
//! Every mechanism below keeps exactly the (ε, δ) of its row, and the auditor bets as boldly as the
//! release allows. An alarm: ε itself is rejected, without which no bound exceeds it.
#![expect(clippy::print_stdout, reason = "a report for people and scripts")]
#![expect(clippy::unwrap_used, reason = "helpers that tests share")]

mod simulated;

use simulated::{KINDS, LEVELS, rate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 20_000,
    };
    let name = std::env::args().nth(2).unwrap_or_default();
    let levels: Vec<String> = LEVELS.iter().map(|level| format!("ε = {level}")).collect();
    println!("| audit | δ | α | {} |", levels.join(" | "));
    println!("|---|---|---|{}", "---|".repeat(LEVELS.len()));
    for kind in KINDS.into_iter().filter(|kind| kind.name.contains(&name)) {
        let rates = LEVELS.map(|epsilon| format!("{:.4}", rate(kind, epsilon, runs, 1)));
        println!(
            "| {} | {} | {} | {} |",
            kind.name,
            kind.delta,
            kind.alpha,
            rates.join(" | ")
        );
    }
    Ok(())
}
