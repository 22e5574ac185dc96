//! Arguments of `audit reproduce`.

use crate::audit::args::ModelArg;
use crate::audit::grid::args::Running;
use clap::{Args, ValueEnum};
use reticent_backends::Device;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;

/// Paper to reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// Zhao, Li and Wang 2022: Provably Confidential Language Modelling.
    Crt,
    /// Shi et al. 2022: Just Fine-tune Twice.
    Jft,
    /// Ganesh et al. 2025: Hush!
    Hush,
    /// What is new here.
    Ours,
}

/// Scale of the reproduction.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// For two cores, in minutes.
    #[default]
    Small,
    /// Ten thousand dialogues and fifty epochs where a recipe takes epochs, for one GPU (--device cuda:0), and never run
    /// here. Batches, noise, steps of protect and its secrets stay those of small: these are not the papers' sizes.
    Paper,
}

/// The source of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Text {
    /// Synthetic text.
    #[default]
    Simulated,
    /// A folder with data sets under their names.
    Folder(PathBuf),
}

impl FromStr for Text {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "simulated" => Ok(Self::Simulated),
            "" => Err("must be simulated or a folder, got nothing".to_owned()),
            folder => Ok(Self::Folder(folder.into())),
        }
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Simulated => f.write_str("simulated"),
            Self::Folder(folder) => folder.display().fmt(f),
        }
    }
}

/// Arguments of `audit reproduce`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = "\
Compares each claim of a paper with what was measured here, judged by a rule that is fixed in the program before a \
run: reproduced, not reproduced, or not testable (with the reason). DIR then has report.json and report.html, and the \
grid behind them; the same command resumes where it stopped. A model that learned nothing, or an attack that finds \
nothing in ordinary training, cannot reproduce a claim that nothing leaks. The command exits with 1 if an attack of \
some cell contradicts a promise, else with 2 if a cell failed: of what one of its runs didn't measure, nothing is \
concluded.

Examples:
  audit reproduce crt --out crt/
  audit reproduce crt --only fig3,fig6 --out crt/
  audit reproduce jft --data data/ --out jft/")]
pub struct Reproduce {
    /// Paper to reproduce.
    #[arg(value_enum, value_name = "PAPER")]
    pub paper: Paper,
    /// Tables, figures, sections or single claims to reproduce; all if absent.
    #[arg(long, value_name = "ITEMS", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Text: simulated, or a folder with the papers' data sets, where crt and ours read customersim/train.jsonl.gz
    /// and test.jsonl.gz, jft reads abcd/valid.txt.gz and test.txt.gz, and wikitext-2-raw/valid.txt.gz to count masks
    /// in, hush reads arxiv/abstracts.jsonl.gz.
    #[arg(long, value_name = "DIR", default_value_t)]
    pub data: Text,
    /// Scale of the reproduction.
    #[arg(long, value_enum, default_value_t)]
    pub scale: Scale,
    /// Model to train, as for `audit train`: lstm, gpt2, or a folder such as a pretrained GPT-2 [default: lstm].
    #[arg(long, value_name = "MODEL")]
    pub model: Option<ModelArg>,
    /// Device to train and attack on: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is available.
    #[arg(long, default_value_t)]
    pub device: Device,
    /// How it is run.
    #[command(flatten)]
    pub running: Running,
}
