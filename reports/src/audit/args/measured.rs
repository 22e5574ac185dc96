//! Arguments of `audit policy` and `audit screen`: the policy to measure and the corpus.

use crate::audit::args::preparing::{DEFAULT_UNIT, conservative, unit_of_document};
use crate::audit::args::{ConservativeSign, PolicyArg, Reading};
use crate::audit::reading::to_measure;
use crate::contract::is_prepared;
use anyhow::{Context, Result, ensure};
use clap::Args;
use reticent_corpus::policy::{ConservativeOptions, PolicyChoice};
use reticent_corpus::read::ReadOptions;
use reticent_corpus::{Document, Unit};
use std::path::PathBuf;

/// What is measured on what.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Measured {
    /// File or folder: JSON Lines, JSON dialogues, CSV, Parquet, plain text; .gz and .zst too.
    pub data: PathBuf,
    /// What one record is: turn, sentence, dialogue or document.
    #[arg(long, default_value = DEFAULT_UNIT, value_parser = unit_of_document)]
    pub unit: Unit,
    /// Redaction policy, as for `audit prepare`.
    #[arg(long, default_value = "general")]
    pub policy: PolicyArg,
    /// Signs by which the conservative policy flags a record, as for `audit prepare`; without it, the share that both
    /// policies miss is not reported.
    #[arg(long, value_delimiter = ',', value_name = "SIGNS")]
    pub conservative: Vec<ConservativeSign>,
    /// How the corpus is read.
    #[command(flatten)]
    pub reading: Reading,
}

impl Measured {
    /// Reads the corpus as policies see it: each mask of a prepared line is one character.
    ///
    /// # Errors
    /// Returns an error if files can't be read, spans were masked beforehand, or it is a prepared folder.
    pub fn documents(&self) -> Result<Vec<Document>> {
        ensure!(
            !is_prepared(&self.data),
            "DATA: a folder that `audit prepare` made; name its train.jsonl"
        );
        let options = ReadOptions {
            unmasked: true,
            ..self.reading.options(None)?
        };
        let documents = to_measure(&self.data, &options).context("DATA")?;
        Ok(documents.into_iter().map(Document::into_seen).collect())
    }

    /// Returns the policy as data.
    ///
    /// # Errors
    /// Returns an error if a file can't be read or is not a policy.
    pub fn choice(&self) -> Result<PolicyChoice> {
        self.policy.choice().context("--policy")
    }

    /// Returns the conservative policy as data.
    ///
    /// # Errors
    /// Returns an error if a token classifier can't be loaded.
    pub fn conservative(&self) -> Result<Option<ConservativeOptions>> {
        conservative(&self.conservative)
    }
}
