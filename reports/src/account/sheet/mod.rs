//! One page that a privacy officer can sign: what is promised to whom, in which notion and unit,
//! against which adversary, under which assumptions, what is not covered, and which single
//! change would tighten it most.

pub mod ceilings;
pub mod figure;
pub mod file;
mod html;
pub mod prepared;
pub mod promises;
pub mod subject;
mod text;
pub mod tighten;
mod words;

#[cfg(test)]
mod tests;

use super::cli::{Format, PlanArgs};
use crate::contract::{Envelope, Exit, print};
use anyhow::{Context, Result, bail};
use ceilings::Bounded;
use figure::Amplified;
use file::TrainingFile;
use promises::Promised;
use reticent_accounting::confidentiality::MeasuredRates;
use reticent_accounting::{Epsilon, Upper};
use serde::{Deserialize, Serialize};
use std::path::Path;
use subject::Subject;
use tighten::Tightened;

pub use html::html;
pub use text::text;
pub use words::labels_for;

/// The page as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// ε of the first promise: what a limit is held against.
    pub headline: Upper<Epsilon>,
    /// Every promise, the headline first.
    pub promises: Vec<Promised>,
    /// What they say about attacks.
    pub ceilings: Vec<Bounded>,
    /// The miss rates behind them, when measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<MeasuredRates>,
    /// How many labels the wish would need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels_wanted: Option<String>,
    /// Single changes, the most effective first.
    pub tighten: Vec<Tightened>,
    /// Under what it holds.
    pub assumptions: Vec<String>,
    /// What it does not cover.
    pub not_covered: Vec<String>,
    /// ε' against ε for several miss rates.
    pub amplification: Vec<Amplified>,
}

/// Computes the page.
///
/// # Errors
/// A plan that can't be accounted.
pub fn sheet(subject: &Subject) -> Result<Envelope<Sheet>> {
    let measured = subject
        .rates
        .as_ref()
        .and_then(|rates| rates.measured.as_ref());
    let body = Sheet {
        headline: tighten::headline(subject)?,
        promises: promises::promises(subject)?,
        ceilings: ceilings::ceilings(subject)?,
        rates: measured.map(|(_, found)| found.clone()),
        labels_wanted: measured.and_then(|(_, found)| words::labels_for(subject.delta, found)),
        tighten: tighten::tightened(subject)?,
        assumptions: words::assumptions(subject),
        not_covered: words::not_covered(subject),
        amplification: figure::curves(subject)?,
    };
    Ok(Envelope::new("plan", subject.inputs.clone(), body))
}

/// The subject of a `training.toml`, with the corpus it names.
///
/// # Errors
/// A file or folder that can't be read or contradicts itself.
pub fn of_file(path: &Path) -> Result<Subject> {
    let file = TrainingFile::read(path)?;
    let subject = || {
        let folder = file.data.prepared.as_deref();
        let found = folder.map(prepared::read).transpose();
        Subject::new(&file, found.context("data.prepared")?.as_ref())
    };
    subject().with_context(|| path.display().to_string())
}

/// The subject of a prepared corpus and the arguments beside it.
///
/// # Errors
/// A folder that can't be read, or arguments that contradict it.
pub fn of_prepared(folder: &Path, arguments: &PlanArgs) -> Result<Subject> {
    let found = prepared::read(folder).context("--prepared")?;
    let file = TrainingFile::of_arguments(folder, arguments);
    Subject::new(&file, Some(&found)).map_err(|error| flags(&error))
}

/// Keys of the file as the flags they came from.
fn flags(error: &anyhow::Error) -> anyhow::Error {
    let said = format!("{error:#}");
    let key = said.split(':').next().unwrap_or_default();
    let Some((_, name)) = key.split_once('.') else {
        return anyhow::anyhow!("{said}");
    };
    let flag = match name {
        "records" => "group".to_owned(),
        other => other.replace('_', "-"),
    };
    anyhow::anyhow!("--{flag}{}", &said[key.len()..])
}

/// Writes the page to stdout and holds the headline against a limit.
///
/// # Errors
/// A plan that can't be accounted, a format that it has not.
pub fn show(subject: &Subject, limit: Option<Epsilon>, format: Format) -> Result<Exit> {
    let document = sheet(subject)?;
    print(&match format {
        Format::Json => document.to_text()?,
        Format::Text => text(subject, &document),
        Format::Html => html(subject, &document)?,
        Format::Csv => bail!("--format: a page is text, json or html, got csv"),
    })?;
    let passed = limit.is_some_and(|limit| *document.body.headline.get() > limit);
    Ok(if passed {
        Exit::Exceeded
    } else {
        Exit::Finished
    })
}
