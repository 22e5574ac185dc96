//! The text that a model was trained on, as `--training` names it.

use super::args::Audited;
use super::coins::Inclusion;
use super::loaded_model::LoadedModel;
use super::owner_key::load_texts;
use super::records::cut;
use anyhow::{Result, ensure};
use reticent_backends::checkpoint::{Authentication, Initial, Owner};
use reticent_corpus::canary::CanaryPlan;
use reticent_corpus::prepare::Prepared;
use reticent_corpus::read::read_documents;
use reticent_corpus::{Document, Unit};
use std::path::Path;

/// What was trained on, as --training names it.
pub(in crate::audit) struct TrainingText<'a> {
    pub(in crate::audit) path: &'a Path,
    /// Where it is a prepared folder.
    prepared: Option<Prepared>,
    /// How often each canary occurs in it.
    pub(in crate::audit) found: Vec<u64>,
    /// The same of the tokens that are trained on: a record may have been cut behind `--max-tokens`.
    pub(in crate::audit) learned: Vec<u64>,
    /// The same of what the preparation held out.
    pub(in crate::audit) held_out: Vec<u64>,
}

impl<'a> TrainingText<'a> {
    /// Reads it and counts the canaries of a plan, which `flag` named.
    ///
    /// # Errors
    /// What can't be read; a folder whose records are others than those of the plan.
    pub(in crate::audit) fn read(path: &'a Path, plan: &CanaryPlan, flag: &str) -> Result<Self> {
        let count = |texts: &[String]| plan.occurrences(texts.iter().map(String::as_str));
        if !path.is_dir() {
            let documents = read_documents(path)?;
            documents.iter().try_for_each(Document::unmasked)?;
            let texts = documents.iter().map(|d| d.text.as_str());
            let found = plan.occurrences(texts);
            return Ok(Self {
                path,
                prepared: None,
                learned: found.clone(),
                found,
                held_out: count(&[]),
            });
        }
        let prepared = load_texts(path)?;
        let unit = prepared.training.unit;
        ensure!(
            unit == plan.unit,
            "one record is a {unit} in {} and a {} in {flag}; plant and prepare with one --unit",
            path.display(),
            plan.unit
        );
        let found = count(&prepared.texts);
        let learned = count(&learned(&prepared));
        Ok(Self {
            path,
            found,
            learned,
            held_out: count(&prepared.held_out_texts),
            prepared: Some(prepared),
        })
    }

    /// What it shows of the model's training: whether the model is known to have been trained on it.
    ///
    /// # Errors
    /// A checkpoint whose owner's key says that it was trained on other records, and on nothing before them.
    pub(in crate::audit) fn included(
        &self,
        of: &Audited,
        model: &LoadedModel,
    ) -> Result<Inclusion> {
        let folder = of.adapter.as_ref().or(of.model.as_ref());
        let (Some(prepared), Some(folder), Some(manifest)) =
            (&self.prepared, folder, &model.manifest)
        else {
            return Ok(Inclusion::GivenText);
        };
        let Ok(owner) = Owner::open(folder) else {
            return Ok(Inclusion::GivenText);
        };
        let kept = owner.kept_records(prepared)?;
        // What a run continues from, or an adapter stands on, may have met any canary.
        let continued = matches!(manifest.initial, Initial::Continued { .. });
        let alone = !continued && of.adapter.is_none();
        ensure!(
            kept != Some(false) || continued,
            "{} was trained on other records than those of {}: its owner's key says so",
            model.name,
            self.path.display()
        );
        let authentic = model.authentication == Authentication::Authenticated;
        Ok(match kept == Some(true) && authentic && alone {
            true => Inclusion::TrainedRecords,
            false => Inclusion::GivenText,
        })
    }
}

/// Returns the records of a text, or of the folder that was prepared from it, in which copies are counted.
///
/// # Errors
/// What can't be read; a folder whose records are of another unit.
pub(in crate::audit) fn training_records(path: &Path, unit: Unit) -> Result<Vec<String>> {
    if !path.join("prepared.json").is_file() {
        return Ok(cut(path, unit, false)?.texts);
    }
    let prepared = load_texts(path)?;
    let own = prepared.training.unit;
    ensure!(
        own == unit,
        "one record is a {own} in {}, and copies are counted of {unit}s; name the text that it was prepared from",
        path.display()
    );
    Ok(learned(&prepared))
}

/// The texts of the records as far as their tokens go: one that may have been cut behind `--max-tokens` is read back
/// from them.
fn learned(prepared: &Prepared) -> Vec<String> {
    let Some(most) = prepared.options.max_tokens else {
        return prepared.texts.clone();
    };
    let records = prepared.texts.iter().zip(&prepared.training.records);
    let each = records.map(|(text, record)| match record.tokens.len() < most {
        true => text.clone(),
        false => prepared.tokenizer.decode(&record.tokens),
    });
    each.collect()
}
