//! Arguments of `audit membership`.

use crate::audit::args::preparing::unit;
use crate::audit::args::{Audited, Source, TextField};
use crate::contract::{is_prepared, number_within, positive, positive_number, quantity};
use clap::{ArgGroup, Args, ValueEnum};
use reticent_accounting::Confidence;
use reticent_attacks::membership::Attack;
use reticent_corpus::Unit;
use std::path::PathBuf;

/// Arguments of `audit membership`.
#[derive(Debug, Clone, PartialEq, Default, Args)]
#[command(
    group = ArgGroup::new("source").required(true).args(["scores", "members"]),
    group = ArgGroup::new("others").args(["non_members", "lookalikes"]),
    after_help = "\
Examples:
  audit membership --model ckpt --members train-sample.jsonl --non-members held-out.jsonl --reference base
  audit membership --model ckpt --members in.jsonl --non-members out.jsonl --protocol crt --html page.html
  audit membership --model ckpt --members data.jsonl --lookalikes --protocol crt
  audit membership --model ckpt --members in.jsonl --non-members out.jsonl --scores-out scores.csv
  audit membership --scores scores.csv
  audit membership --members in.csv --non-members out.csv --lower-is-member --plot roc.svg"
)]
pub struct MembershipArgs {
    /// CSV of scores with the columns id, member (0 or 1), score, and optionally group, text and class, that of a
    /// classifier's record.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["others", "audited", "adapter", "tokenizer", "shadows"])]
    pub scores: Option<PathBuf>,
    /// Members: with --model their texts, JSON Lines or plain text, or a prepared folder, whose training records are read
    /// as they were trained on; without it their scores, a CSV with the columns id, score, and optionally group, text and
    /// class.
    #[arg(long, value_name = "FILE|DIR", requires = "others")]
    pub members: Option<PathBuf>,
    /// Non-members, likewise, of a prepared folder its held-out records: of the same kind and time as the members, but
    /// never trained on.
    #[arg(long, value_name = "FILE|DIR", requires = "members")]
    pub non_members: Option<PathBuf>,
    /// Lower scores indicate membership: losses, perplexities.
    #[arg(long, conflicts_with_all = ["audited", "adapter", "tokenizer", "shadows"])]
    pub lower_is_member: bool,
    /// False-positive rates at which to report true positives; 0.01,0.001 if absent.
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = rate, allow_negative_numbers = true)]
    pub fpr: Vec<f64>,
    /// Threshold for the accuracy, fixed before the scores were seen; without it, one half of the records chooses it
    /// for the other.
    #[arg(long, value_name = "SCORE", value_parser = score, allow_negative_numbers = true,
          conflicts_with_all = ["audited", "adapter", "tokenizer", "shadows"])]
    pub threshold: Option<f64>,
    /// Confidence level of each interval; 0.95 if absent.
    #[arg(long, value_name = "LEVEL", value_parser = quantity::<Confidence>, allow_negative_numbers = true)]
    pub confidence: Option<Confidence>,
    /// Seed of halves, pairs and bootstrap samples.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Also plot the ROC curve with its band, on logarithmic axes, as SVG.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Exit with 1 if the AUC is certainly above this.
    #[arg(long, value_name = "AUC", value_parser = area, allow_negative_numbers = true)]
    pub max_auc: Option<f64>,
    /// Attacks on a model.
    #[command(flatten)]
    pub on: OnModel,
}

impl MembershipArgs {
    /// Returns whether a text is a folder that `audit prepare` made.
    pub(in crate::audit) fn is_of_folder(&self) -> bool {
        let texts = [&self.members, &self.non_members, &self.on.training];
        texts.into_iter().flatten().any(|text| is_prepared(text))
    }
}

/// What `audit membership` runs on a model.
#[derive(Debug, Clone, PartialEq, Default, Args)]
#[command(
    next_help_heading = "Attacks on a model",
    group = ArgGroup::new("audited").args(["model", "scorer"])
)]
pub struct OnModel {
    /// The model that may have seen the members.
    #[command(flatten)]
    pub of: Audited,
    /// Model with the same tokenizer that saw neither, such as the base before fine-tuning; for the attacks
    /// reference, ez and wbc. A folder, or command:LINE.
    #[arg(long, value_name = "DIR", requires = "audited")]
    pub reference: Option<Source>,
    /// Instead of --non-members: members are the records of --members with a marked secret, and non-members the same
    /// records with other content of its kind and form in its place, drawn by --seed. `secrets` in JSON Lines mark them:
    /// in the input of `audit prepare`, with nothing held out.
    #[arg(long, requires_all = ["audited", "members"])]
    pub lookalikes: bool,
    /// Attacks to run, the deciding one first: loss, reference, zlib, min-k, min-k++, ez, wbc, lower-case (twice the
    /// time), neighbourhood (26 times; see --neighbours), or all. Without it, those that take one pass of each model;
    /// reference decides, else loss.
    #[arg(long = "attack", value_name = "NAMES", value_delimiter = ',', value_parser = attack, requires = "audited")]
    pub attacks: Vec<AttackArg>,
    /// Source of neighbours for the neighbourhood attack: digits (if absent) draws other digits, reference replaces
    /// one token by one that --reference expects, 25 times each; a file has lines of {"text", "neighbours"}, one for
    /// each record's text. Giving it runs the attack.
    #[arg(long, value_name = "digits|reference|FILE", requires = "audited")]
    pub neighbours: Option<NeighbourTexts>,
    /// Complete training text, to count the members' copies in: the text, or the folder that `audit prepare` made from
    /// it; --members itself if absent.
    #[arg(long, value_name = "FILE|DIR", requires = "audited")]
    pub training: Option<PathBuf>,
    /// The key of the text.
    #[command(flatten)]
    pub text: TextField,
    /// What one record is; if absent, the model's own unit, or document if it has none.
    #[arg(long, value_parser = unit, requires = "audited")]
    pub unit: Option<Unit>,
    /// Records that are not independent evidence; document if absent. Of copies of one text, only one is judged in
    /// any case.
    #[arg(long, value_enum, requires = "audited")]
    pub group_by: Option<GroupBy>,
    /// Also attack groups of this many records at once.
    #[arg(long, value_name = "RECORDS", value_parser = positive, requires = "audited", conflicts_with = "protocol")]
    pub group_size: Option<u64>,
    /// Protocol of a paper: crt draws 1000 members and 1000 non-members, and attacks groups of 20.
    #[arg(long, value_enum, requires = "audited")]
    pub protocol: Option<Protocol>,
    /// Also run LiRA and RMIA with this many shadow models, an even number: each trains on half of the records, from
    /// the reference if there is one, with the recipe and settings in the model's manifest. Each costs a training
    /// run.
    #[arg(long, value_name = "MODELS", value_parser = even, requires = "model")]
    pub shadows: Option<u64>,
    /// Passes of a shadow model over its records; if absent, as many as the model had, or 4 if unknown.
    #[arg(long, value_name = "E", value_parser = positive, requires = "shadows")]
    pub shadow_epochs: Option<u64>,
    /// Learning rate of shadow models; if absent, the model's own, or 0.004 (Adam) if unknown.
    #[arg(long, value_name = "RATE", value_parser = positive_number, requires = "shadows", allow_negative_numbers = true)]
    pub shadow_rate: Option<f64>,
    /// Also write the scores of each record, one column per attack: a CSV for --scores, in which `score` is that of
    /// the deciding attack. It names records by their positions in their files.
    #[arg(long, value_name = "FILE", requires = "audited")]
    pub scores_out: Option<PathBuf>,
    /// Replace the --scores-out file if it exists.
    #[arg(long, requires = "scores_out")]
    pub force: bool,
    /// Score the text without the end-of-text token after each record, for models that never saw one.
    #[arg(long, requires = "audited")]
    pub without_end: bool,
    /// Show the texts on the page instead of dots.
    #[arg(long, requires = "audited")]
    pub show_secrets: bool,
}

/// A name in `--attack`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AttackArg {
    /// Every attack that the evidence allows.
    All,
    /// A single attack.
    One(Attack),
}

/// The source of neighbouring texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeighbourTexts {
    /// The record with other digits.
    Digits,
    /// The record with one token replaced by the reference model.
    Reference,
    /// The lines of a file.
    File(PathBuf),
}

impl std::fmt::Display for NeighbourTexts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Digits => f.write_str("digits"),
            Self::Reference => f.write_str("reference"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl std::str::FromStr for NeighbourTexts {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "digits" => Self::Digits,
            "reference" => Self::Reference,
            path => Self::File(path.into()),
        })
    }
}

/// Which records count as one piece of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum GroupBy {
    /// Records cut from one document.
    #[default]
    Document,
    /// Those, and records that share a marked secret.
    Secret,
    /// Every record by itself, except copies of one text.
    Nothing,
}

/// A published protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Zhao et al. 2022: 1000 + 1000 records, 1000 groups of 20 per side, sums of perplexities.
    Crt,
}

fn even(text: &str) -> Result<u64, String> {
    match text.trim().parse::<u64>() {
        Ok(n) if n >= 2 && n.is_multiple_of(2) && n <= 1000 => Ok(n),
        _ => Err(format!(
            "must be an even number of models in [2, 1000], got {text:?}"
        )),
    }
}

fn attack(text: &str) -> Result<AttackArg, String> {
    if text == "all" {
        return Ok(AttackArg::All);
    }
    Attack::named(text).map(AttackArg::One).ok_or_else(|| {
        let names: Vec<&str> = Attack::ALL.iter().map(|a| a.name).collect();
        format!("must be one of all, {}, got {text:?}", names.join(", "))
    })
}

pub(in crate::audit) fn area(text: &str) -> Result<f64, String> {
    number_within(text, "an area in [0.5, 1]", |value| {
        (0.5..=1.0).contains(&value)
    })
}

fn rate(text: &str) -> Result<f64, String> {
    number_within(text, "a rate in [1e-15, 1)", |value| {
        (1e-15..1.0).contains(&value)
    })
}

fn score(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if !value.is_nan() => Ok(value),
        _ => Err(format!("must be a number, got {text:?}")),
    }
}
