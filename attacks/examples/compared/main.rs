//! How often `audit diff` says "more" of the same canaries in two models, and how often it should: `cargo run
//! --release -p reticent-attacks --example compared [RUNS]` prints a table, 20 000 runs a row unless said (a
//! fiftieth of them for a thousand canaries).
//!
//! Rows: canaries, and copies. Columns: pairs of models. The level is .05, half of it for the paired e-value and
//! half for the new model against chance.
#![expect(clippy::print_stdout, reason = "a report for people and scripts")]
#![expect(clippy::unwrap_used, reason = "helpers that tests share")]

mod simulated;

use simulated::{CANARIES, DOSES, PAIRS, rates};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runs: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 20_000,
    };
    let names: Vec<&str> = PAIRS.iter().map(|pair| pair.name).collect();
    println!("| canaries | copies | {} |", names.join(" | "));
    println!("|---|---|{}", "---|".repeat(names.len()));
    for canaries in CANARIES {
        let runs = if canaries >= 1000 {
            runs.div_ceil(50)
        } else {
            runs
        };
        for copies in DOSES {
            let cells = PAIRS.map(|pair| rates(pair, canaries, copies, runs, 1).to_string());
            let copies: Vec<String> = copies.iter().map(u64::to_string).collect();
            println!(
                "| {canaries} | {} | {} |",
                copies.join(", "),
                cells.join(" | ")
            );
        }
    }
    Ok(())
}
