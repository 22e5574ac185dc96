//! Arguments of `audit policy` and `audit screen`.

use super::prepare::{conservative, unit};
use super::values::{ConservativeSign, PolicyArg};
use crate::contract::{positive, quantity};
use anyhow::{Context, Result};
use clap::Args;
use reticent_accounting::Confidence;
use reticent_corpus::{ConservativeOptions, PolicyChoice, Unit};
use std::path::PathBuf;

/// What is measured on what.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Measured {
    /// A corpus: JSON Lines {"id", "text"}, or plain text.
    pub data: PathBuf,
    /// What one record is: turn, sentence, dialogue or document.
    #[arg(long, default_value = "turn", value_parser = unit)]
    pub unit: Unit,
    /// The redaction policy, as for `audit prepare`.
    #[arg(long, default_value = "customers")]
    pub policy: PolicyArg,
    /// What makes the conservative policy flag a record, as for `audit prepare`; without it
    /// nothing is said about the share that both policies miss.
    #[arg(long, value_delimiter = ',', value_name = "SIGNS")]
    pub conservative: Vec<ConservativeSign>,
}

impl Measured {
    /// The policy as data.
    ///
    /// # Errors
    /// A file that cannot be read or is no policy.
    pub fn choice(&self) -> Result<PolicyChoice> {
        self.policy.choice().context("--policy")
    }

    /// The conservative policy as data.
    ///
    /// # Errors
    /// A token classifier that does not load.
    pub fn conservative(&self) -> Result<Option<ConservativeOptions>> {
        conservative(&self.conservative)
    }
}

/// Arguments of `audit policy`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "Example:
  audit policy data.jsonl --policy names --conservative digits,names")]
pub struct Policy {
    /// What is measured.
    #[command(flatten)]
    pub measured: Measured,
}

/// Arguments of `audit screen`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Examples:
  audit screen data.jsonl --policy names --sample 200 --label --labels labels.jsonl
  audit screen data.jsonl --policy names --sample 200 --sheet sheet.jsonl
  audit screen data.jsonl --policy names --sheet sheet.jsonl --labels labels.jsonl
  audit screen prepared/train.jsonl --unit document --policy high-entity --jft --screened ids.txt")]
pub struct Screen {
    /// What is measured.
    #[command(flatten)]
    pub measured: Measured,
    /// Records to draw at random when the sheet does not exist yet [default: 200].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "jft")]
    pub sample: Option<u64>,
    /// Draw ten samples of 0.01 % of the records each, as JFT does for its missing rate.
    #[arg(long)]
    pub jft: bool,
    /// Draws the sample.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Also ask about so many records in which the policy nearly found something. They can
    /// show misses; no rate counts them.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub near: Option<u64>,
    /// The sheet of the sample: drawn if it does not exist, measured once every record has its
    /// "secrets".
    #[arg(long, value_name = "FILE", default_value = "screening.jsonl")]
    pub sheet: PathBuf,
    /// Ask in the terminal about every record without labels; answers are kept one by one.
    #[arg(long)]
    pub label: bool,
    /// Take the secrets that are marked in DATA for the labels.
    #[arg(long, conflicts_with = "label")]
    pub marked: bool,
    /// Probability with which bounds hold [default: 0.95].
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// Write labels for `account --labels`.
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Write the ids of the random sample, for `audit train --recipe jft --screened`.
    #[arg(long, value_name = "FILE")]
    pub screened: Option<PathBuf>,
    /// Write a policy that also finds what was missed in the sample, as JSON for --policy.
    #[arg(long, value_name = "FILE.json")]
    pub mended: Option<PathBuf>,
}
