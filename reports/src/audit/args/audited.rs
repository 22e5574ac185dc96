//! The model that is attacked: a folder, or a command that answers for a model of any kind.

use super::values::TokenizerArg;
use crate::contract::{Inputs, positive};
use anyhow::{Result, bail};
use clap::Args;
use reticent_backends::Device;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The source of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A checkpoint folder, or a Hugging Face folder.
    Folder(PathBuf),
    /// Command lines to start, all of the same model.
    Command(Vec<String>),
}

impl FromStr for Source {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("command:").map(str::trim) {
            Some("") => Err(format!("must name a command, got {text:?}")),
            Some(line) => Ok(Self::Command(vec![line.to_owned()])),
            None if text.is_empty() => {
                Err("must be a folder or command:LINE, got nothing".to_owned())
            }
            None => Ok(Self::Folder(text.into())),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Command(lines) => {
                let shown: Vec<String> = lines.iter().map(|line| without_values(line)).collect();
                write!(f, "command:{}", shown.join(", command:"))
            }
        }
    }
}

/// The attacked model.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub struct Audited {
    /// Model: a checkpoint folder, a Hugging Face folder, or a folder with only a LoRA adapter, which names its base.
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// LoRA adapter on --model, from peft or `audit train`, merged into the weights; the merged model is attacked.
    #[arg(
        long,
        value_name = "DIR",
        requires = "model",
        conflicts_with = "scorer"
    )]
    pub adapter: Option<PathBuf>,
    /// Command that answers log-probability queries, one JSON line each, for a model of any kind, in any language,
    /// instead of a folder (protocol: schemas/scorer.md). If given several times, the commands share the work and
    /// must be the same model.
    #[arg(long, value_name = "command:LINE", value_parser = command, conflicts_with = "model", requires = "tokenizer")]
    pub scorer: Vec<String>,
    /// Tokenizer of the scorer: its tokenizer.json, characters, or bytes.
    #[arg(long, value_name = "FILE", requires = "scorer")]
    pub tokenizer: Option<TokenizerArg>,
    /// Maximum wait for one answer of a command; 600 if absent.
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub scorer_timeout: Option<u64>,
    /// Device: cpu, cuda:NUMBER or wgpu:NUMBER; `audit devices` lists what is available.
    #[arg(long, default_value_t)]
    pub device: Device,
}

impl Audited {
    /// Returns the folder or the command.
    ///
    /// # Errors
    /// Returns an error if neither was given.
    pub fn source(&self) -> Result<Source> {
        match &self.model {
            Some(folder) => Ok(Source::Folder(folder.clone())),
            None if self.scorer.is_empty() => {
                bail!("--model: give a folder, or --scorer a command")
            }
            None => Ok(Source::Command(self.scorer.clone())),
        }
    }

    /// Describes the model, including its adapter.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.source(), &self.adapter) {
            (Ok(source), Some(adapter)) => adapted(&source, adapter),
            (Ok(source), None) => source.to_string(),
            (Err(_), _) => String::new(),
        }
    }

    /// Records the model, and its adapter if there is one.
    ///
    /// # Errors
    /// Returns no error for these inputs, as [`Inputs::given`].
    pub fn given(&self, inputs: Inputs) -> serde_json::Result<Inputs> {
        let inputs = inputs
            .given("model", self.source().ok().map(|s| s.to_string()))?
            .given_path("adapter", self.adapter.as_deref())?;
        match self.learned() {
            // An audit asks for the likelihood of whole texts.
            Some(learned) => inputs.assumed(
                "scored",
                format!("every token, where training learned those of the {learned}"),
            ),
            None => Ok(inputs),
        }
    }

    /// Returns whose messages alone the model learned, according to the manifest beside its weights.
    fn learned(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Learned {
            loss_on: Option<String>,
        }
        let folder = self.adapter.as_ref().or(self.model.as_ref())?;
        let text = crate::contract::read_text(&folder.join("manifest.json")).ok()?;
        serde_json::from_str::<Learned>(&text).ok()?.loss_on
    }
}

/// Describes a model with its adapter.
pub(in crate::audit) fn adapted(model: impl std::fmt::Display, adapter: &Path) -> String {
    format!("{model} with the adapter {}", adapter.display())
}

/// Returns a command line as shown in reports, without assigned values, as in `TOKEN=…`, which may be private.
fn without_values(line: &str) -> String {
    let shown = line.split(' ').map(|word| match word.split_once('=') {
        Some((name, _)) => format!("{name}=…"),
        None => word.to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn command(text: &str) -> Result<String, String> {
    match text.parse::<Source>()? {
        Source::Command(mut lines) => lines.pop().ok_or_else(|| "must name a command".to_owned()),
        Source::Folder(_) => Err(format!(
            "must be command:LINE, such as \"command:python3 scorer.py\", got {text:?}"
        )),
    }
}
