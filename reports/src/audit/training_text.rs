//! The text that a model was trained on, as `--training` names it.

use super::args::{Audited, GroupBy, TextField};
use super::coins::Inclusion;
use super::loaded_model::LoadedModel;
use super::owner_key::load_texts;
use super::reading::documents;
use super::records::{Part, PreparedRecords, Reader, cut, learned};
use crate::contract::is_prepared;
use anyhow::{Context, Result, ensure};
use reticent_backends::checkpoint::{Authentication, Initial, Owner};
use reticent_corpus::Unit;
use reticent_corpus::canary::CanaryPlan;
use reticent_corpus::policy::goes_on;
use reticent_corpus::prepare::{Copies, Prepared, Stability, StageStability};
use reticent_corpus::read::ReadOptions;
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
    pub(in crate::audit) fn read(
        path: &'a Path,
        text: &TextField,
        plan: &CanaryPlan,
        flag: &str,
    ) -> Result<Self> {
        let count = |texts: &[String]| plan.occurrences(texts.iter().map(String::as_str));
        if !path.is_dir() {
            let found = count(&unmasked(path, text)?);
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
        let learned = count(&learned(&prepared)?);
        Ok(Self {
            path,
            found,
            learned,
            held_out: count(&prepared.held_out_texts),
            prepared: Some(prepared),
        })
    }
}

/// Returns what a training text shows of the model's training; whether the owner's key says that its records were trained on,
/// if not alone; and how many training records differ if one record of the input did: by the stages of a prepared folder
/// that is known to be the training set, otherwise by those of the folder and
/// of the checkpoint's manifest, of which the larger number counts.
///
/// # Errors
/// A checkpoint whose owner's key says that it was trained on other records, and on nothing before them.
pub(in crate::audit) fn evidence(
    text: Option<&TrainingText<'_>>,
    of: &Audited,
    model: &LoadedModel,
    copies: Copies,
) -> Result<(Inclusion, bool, Stability)> {
    let prepared = text.and_then(|text| text.prepared.as_ref());
    let (inclusion, met) = match (text, prepared) {
        (None, _) => (Inclusion::NotChecked, false),
        (Some(_), None) => (Inclusion::GivenText, false),
        (Some(text), Some(prepared)) => {
            included(prepared, text.path, of, model).context("--training")?
        }
    };
    // A manifest counts as if its input had masked spans, which it doesn't tell.
    let known = inclusion == Inclusion::TrainedRecords && prepared.is_some_and(|p| p.authenticated);
    let manifest = model.manifest.as_ref().filter(|_| !known);
    let folder = prepared.map(|prepared| &prepared.facts.stages);
    let each = folder
        .into_iter()
        .chain(manifest.map(|manifest| &manifest.stages));
    let most = each
        .map(|stages| StageStability::product(stages, copies))
        .max();
    Ok((inclusion, met, most.unwrap_or(Stability::Bounded(1))))
}

/// Returns the texts of a file or folder, in which nothing may be masked beforehand.
fn unmasked(path: &Path, text: &TextField) -> Result<Vec<String>> {
    let options = ReadOptions {
        unmasked: true,
        ..text.options()
    };
    let documents = documents(path, &options)?.into_iter();
    Ok(documents.map(|document| document.text).collect())
}

/// Whether the model is known to have been trained on these records and on nothing before them, and whether it is known to
/// have been trained on them at all.
fn included(
    prepared: &Prepared,
    path: &Path,
    of: &Audited,
    model: &LoadedModel,
) -> Result<(Inclusion, bool)> {
    let folder = of.adapter.as_ref().or(of.model.as_ref());
    let (Some(folder), Some(manifest)) = (folder, &model.manifest) else {
        return Ok((Inclusion::GivenText, false));
    };
    let Ok(owner) = Owner::open(folder) else {
        return Ok((Inclusion::GivenText, false));
    };
    let kept = owner.kept_records(prepared)?;
    // What a run continues from, or an adapter stands on, may have met any canary.
    let continued = matches!(manifest.initial, Initial::Continued { .. });
    let alone = !continued && of.adapter.is_none();
    ensure!(
        kept != Some(false) || continued,
        "{} was trained on other records than those of {}: its owner's key says so",
        model.name,
        path.display()
    );
    let authentic = model.authentication == Authentication::Authenticated;
    let met = kept == Some(true) && authentic;
    let inclusion = match met && alone {
        true => Inclusion::TrainedRecords,
        false => Inclusion::GivenText,
    };
    Ok((inclusion, met))
}

/// Returns what is known of the training on a text or a prepared folder, and which of the wanted texts occur in a record of
/// it that is trained on.
///
/// # Errors
/// What can't be read; a checkpoint whose owner's key says that it was trained on other records, and on nothing before them.
pub(in crate::audit) fn occurring(
    path: &Path,
    text: &TextField,
    wanted: &[&str],
    of: &Audited,
    model: &LoadedModel,
) -> Result<(Inclusion, Vec<bool>)> {
    let (inclusion, records) = if path.is_dir() {
        let prepared = load_texts(path)?;
        let (inclusion, _) = included(&prepared, path, of, model)?;
        (inclusion, learned(&prepared)?)
    } else {
        (Inclusion::GivenText, unmasked(path, text)?)
    };
    let found = wanted
        .iter()
        .map(|text| records.iter().any(|record| occurs(text, record)));
    Ok((inclusion, found.collect()))
}

/// What joins parts of numbers, names and addresses: 12.5, 12-34, O'Neil.
const JOINS: [char; 12] = ['.', ',', ':', '-', '‐', '–', '/', '_', '\'', '’', '@', '+'];

/// Returns whether a record contains a text that does not go on there within a word or number, or behind a sign that joins
/// two.
fn occurs(wanted: &str, record: &str) -> bool {
    let mut places = record.match_indices(wanted);
    places.any(|(at, _)| {
        let after = &record[at + wanted.len()..];
        let joined = after.strip_prefix(JOINS);
        !goes_on(wanted, after) && !joined.is_some_and(|joined| goes_on(wanted, joined))
    })
}

/// Returns the records of a text, or of the folder that was prepared from it, in which copies are counted.
///
/// # Errors
/// What can't be read; a folder whose records are of another unit.
pub(in crate::audit) fn training_records(
    path: &Path,
    unit: Unit,
    reader: &Reader<'_>,
) -> Result<Vec<String>> {
    // The tokens are those of no model here.
    if is_prepared(path) {
        return Ok(PreparedRecords::read(path, Part::Training, unit, None)?.texts);
    }
    Ok(cut(path, Part::Training, unit, GroupBy::Nothing, reader)?.texts)
}

#[cfg(test)]
mod tests {
    use super::occurs;

    /// A shorter secret is not one that goes on.
    #[test]
    fn a_text_occurs_where_it_ends() {
        for (record, found) in [
            ("My ID is: 12", true),
            ("So: My ID is: 12, and yours?", true),
            ("My ID is: 123", false),
            ("My ID is: 123. My ID is: 12.", true),
            ("My ID is: 12é", false),
            ("My ID is: 12.5", false),
            ("My ID is: 12-34", false),
            ("My ID is: 12@x.org", false),
            ("My ID is: 12-", true),
            ("{\"My ID is: 12\": \"a\"}", true),
            ("My ID is: 12年", true),
            ("My ID is 12", false),
            ("", false),
        ] {
            assert_eq!(occurs("My ID is: 12", record), found, "{record}");
        }
        assert!(occurs("Er heißt 王", "Er heißt 王小明"));
        for (record, found) in [
            ("I am José.", true),
            ("I am Joséphine", false),
            ("I am José-Luis", false),
            ("I am José\u{301}", false),
        ] {
            assert_eq!(occurs("I am José", record), found, "{record}");
        }
    }
}
