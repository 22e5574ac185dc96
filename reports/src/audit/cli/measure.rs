//! Arguments of `audit epsilon` and `audit membership`: statistics of an attack that was run
//! elsewhere.

use crate::contract::{positive, quantity};
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
    /// One run: canaries with a fair coin each, coins guessed, right guesses.
    #[arg(long, value_name = "M,R,V", value_parser = counts)]
    pub counts: Option<OneRunCounts>,
    /// Independent runs: true positives, runs with the record, false positives, runs without.
    #[arg(long, value_name = "TP,N_IN,FP,N_OUT", value_parser = rates)]
    pub rates: Option<RateCounts>,
    /// δ of the ε that is bounded; 1e-5 if absent. 0 bounds the pure ε, which meets no ε(δ).
    #[arg(long, value_parser = quantity::<Delta>, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Probability with which each bound holds; 0.95 if absent.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// What a coin decided: add-remove (a canary in or out; the default), zero-out, or replace.
    #[arg(long, value_parser = neighbours)]
    pub neighbours: Option<Neighbours>,
    /// What one record is; "record" if absent.
    #[arg(long, value_name = "NAME", value_parser = unit_name)]
    pub unit: Option<UnitName>,
    /// Records that one coin put in or out together; 1 if absent.
    #[arg(long, value_name = "R", value_parser = positive)]
    pub copies: Option<u64>,
    /// Exit with 1 when the bound that assumes no family of mechanisms is above this.
    #[arg(long, value_name = "EPSILON", value_parser = quantity::<Epsilon>, allow_negative_numbers = true)]
    pub max_epsilon: Option<Epsilon>,
}

/// Arguments of `audit membership`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(
    group = ArgGroup::new("source").required(true).args(["scores", "members"]),
    after_help = "\
Examples:
  audit membership --scores scores.csv
  audit membership --members in.csv --non-members out.csv --lower-is-member --plot roc.svg"
)]
pub struct MembershipArgs {
    /// Scores: a CSV with the columns id, member (0 or 1), score, and perhaps group and text.
    #[arg(long, value_name = "FILE", conflicts_with = "non_members")]
    pub scores: Option<PathBuf>,
    /// Scores of members: a CSV with the columns id, score, and perhaps group and text.
    #[arg(long, value_name = "FILE", requires = "non_members")]
    pub members: Option<PathBuf>,
    /// Scores of non-members, likewise.
    #[arg(long, value_name = "FILE", requires = "members")]
    pub non_members: Option<PathBuf>,
    /// Lower scores speak for membership: losses, perplexities.
    #[arg(long)]
    pub lower_is_member: bool,
    /// False-positive rates to report true positives at; 0.01,0.001 if absent.
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = rate, allow_negative_numbers = true)]
    pub fpr: Vec<f64>,
    /// A threshold named before the scores were seen, for the accuracy; without it one half of
    /// the records chooses it for the other.
    #[arg(long, value_name = "SCORE", value_parser = score, allow_negative_numbers = true)]
    pub threshold: Option<f64>,
    /// Probability with which each interval holds; 0.95 if absent.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// Draws halves, pairs and bootstrap samples.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Also draw the ROC curve with its band, on logarithmic axes, as SVG.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
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
    match text {
        "add-remove" => Ok(Neighbours::AddRemove),
        "zero-out" => Ok(Neighbours::ZeroOut),
        "replace" => Ok(Neighbours::Replace),
        _ => Err(format!(
            "must be one of add-remove, zero-out, replace, got {text:?}"
        )),
    }
}

fn unit_name(text: &str) -> Result<UnitName, String> {
    UnitName::new(text).map_err(|e| e.to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (1e-15..1.0).contains(&value) => Ok(value),
        _ => Err(format!("must be a rate in [1e-15, 1), got {text:?}")),
    }
}

fn score(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if !value.is_nan() => Ok(value),
        _ => Err(format!("must be a number, got {text:?}")),
    }
}
