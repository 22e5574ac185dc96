//! Arguments of `audit reproduce`.

use crate::audit::args::ModelArg;
use crate::audit::grid::args::Running;
use clap::{Args, ValueEnum};
use reticent_backends::Device;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;

/// What is reproduced.
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

/// How large it is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// For two cores, in minutes.
    #[default]
    Small,
    /// Ten thousand dialogues and fifty epochs, for one GPU: with --device cuda:0, and never run here.
    Paper,
}

/// Where text comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Text {
    /// Made up.
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
Each claim of a paper stands beside what was measured here, and is judged by a rule that is fixed in the program \
before a run: reproduced, not reproduced, or not testable (with the reason). DIR has report.json and report.html then, and the grid under \
them; the same command goes on where it was stopped. A model that learned nothing, or an attack that finds nothing \
in ordinary training, reproduces no silence.

Examples:
  audit reproduce crt --out crt/
  audit reproduce crt --only fig3,fig6 --out crt/
  audit reproduce jft --data data/ --out jft/")]
pub struct Reproduce {
    /// The paper.
    #[arg(value_enum, value_name = "PAPER")]
    pub paper: Paper,
    /// Tables, figures, sections or single claims of it; all if absent.
    #[arg(long, value_name = "ITEMS", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The text: simulated, or a folder with the papers' data sets, in which crt and ours look for customersim/train.jsonl.gz
    /// and test.jsonl.gz, jft for abcd/valid.txt.gz and test.txt.gz, and for wikitext-2-raw/valid.txt.gz to count masks in,
    /// hush for arxiv/abstracts.jsonl.gz.
    #[arg(long, value_name = "DIR", default_value_t)]
    pub data: Text,
    /// How large it is.
    #[arg(long, value_enum, default_value_t)]
    pub scale: Scale,
    /// What is trained, as for `audit train`: lstm, gpt2, or a folder such as a pretrained GPT-2 [default: lstm].
    #[arg(long, value_name = "MODEL")]
    pub model: Option<ModelArg>,
    /// Where models are trained and attacked: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is there.
    #[arg(long, default_value_t)]
    pub device: Device,
    /// How it is run.
    #[command(flatten)]
    pub running: Running,
}
