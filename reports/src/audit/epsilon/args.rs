//! Arguments of `audit epsilon`.

use crate::audit::args::preparing::named;
use crate::contract::{limit, positive, quantity};
use crate::plan::args::unit;
use clap::{ArgGroup, Args};
use reticent_accounting::{Confidence, Delta, Epsilon, Neighbours, UnitName};
use reticent_attacks::{OneRunCounts, RateCounts};
use std::path::PathBuf;

/// Arguments of `audit epsilon`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    group = ArgGroup::new("what").required(true).args(["counts", "rates"]),
    after_help = "\
Examples:
  audit epsilon --counts 1000,100,95 --delta 1e-5
  audit epsilon --rates 480,500,12,500 --delta 1e-5 --confidence 0.99"
)]
pub struct EpsilonArgs {
    /// Counts from one run: canaries, each included with probability one half, guesses, correct guesses.
    #[arg(long, value_name = "M,R,V", value_parser = counts)]
    pub counts: Option<OneRunCounts>,
    /// Counts from independent runs: true positives, runs with the record, false positives, runs without.
    #[arg(long, value_name = "TP,N_IN,FP,N_OUT", value_parser = rates)]
    pub rates: Option<RateCounts>,
    /// δ of the bound on ε; 1e-6 if absent. 0 bounds the pure ε, which is compared with no ε(δ).
    #[arg(long, value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Confidence level of each bound; 0.95 if absent.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// What was randomised: add-remove (a canary in or out; the default), zero-out, or replace.
    #[arg(long, value_parser = neighbours)]
    pub neighbours: Option<Neighbours>,
    /// What one record is; "record" if absent.
    #[arg(long, value_name = "NAME", value_parser = unit)]
    pub unit: Option<UnitName>,
    /// Records included or left out together; 1 if absent.
    #[arg(long, value_name = "R", value_parser = positive)]
    pub copies: Option<u64>,
    /// Exit with 1 if the bound that assumes no family of mechanisms exceeds this.
    #[arg(long, value_name = "EPSILON", value_parser = limit, allow_negative_numbers = true)]
    pub max_epsilon: Option<Epsilon>,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

fn whole_numbers<const N: usize>(text: &str, shape: &str) -> Result<[u64; N], String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let wrong = || format!("must be {N} whole numbers {shape}, got {text:?}");
    let parts: [&str; N] = parts.try_into().map_err(|_| wrong())?;
    let mut numbers = [0; N];
    for (number, part) in numbers.iter_mut().zip(parts) {
        *number = part.parse().map_err(|_| wrong())?;
    }
    Ok(numbers)
}

fn counts(text: &str) -> Result<OneRunCounts, String> {
    let [m, r, v] = whole_numbers(text, "m,r,v with v <= r <= m")?;
    OneRunCounts::new(m, r, v).map_err(|e| e.to_string())
}

fn rates(text: &str) -> Result<RateCounts, String> {
    let [tp, n_in, fp, n_out] = whole_numbers(text, "tp,n_in,fp,n_out")?;
    RateCounts::new(tp, n_in, fp, n_out).map_err(|e| e.to_string())
}

fn neighbours(text: &str) -> Result<Neighbours, String> {
    named(text, "add-remove, zero-out, replace")
}
