//! `account plan`: one page that a privacy officer can sign. It states what is promised to whom, in
//! which notion and unit, against which adversary, under which assumptions, what is not covered, and
//! which single change would tighten it most.

pub(crate) mod args;
pub(crate) mod ceilings;
pub(crate) mod figure;
mod page;
pub(crate) mod promises;
pub(crate) mod tighten;
mod words;

#[cfg(test)]
mod tests;

use crate::account::answer::Limit;
use crate::account::csv;
use crate::account::secrets::SecretPosteriors;
use crate::contract::{Envelope, Exit, Inputs};
use crate::page::Output;
use crate::plan::{PlanRequest, PreparedFacts, TrainingFile, build, inputs, redaction};
use anyhow::{Context, Result};
use ceilings::Bounded;
use figure::Amplified;
use promises::Promised;
use reticent_accounting::confidentiality::{CorpusFacts, Knowledge, MeasuredRates};
use reticent_accounting::redaction::Redaction;
use reticent_accounting::training::{LabelledRates, Run, TrainingPlan};
use reticent_accounting::{Epsilon, GroupSize, Guarantee, Tolerance, Upper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tighten::Tightened;

pub(crate) use page::page;
#[cfg(feature = "audit")]
pub(crate) use page::{guarantees, secrets_named, sigma_found};
pub(crate) use words::{about_the_labels, about_the_sample, labels_for};

/// The relative width of the numbers on the page: they are printed to five digits.
const TOLERANCE: f64 = 1e-6;

/// A plan with what its page needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedRun {
    /// The plan.
    pub(crate) plan: TrainingPlan,
    /// What it was built from.
    pub(crate) request: PlanRequest,
    /// The relative width of every number.
    pub(crate) tolerance: Tolerance,
    /// The given and the assumed inputs.
    pub(crate) inputs: Inputs,
    /// What its prepared corpus states, if it has one.
    pub(crate) corpus: Option<PreparedFacts>,
    /// What of the labels' policy could not be compared with the corpus'.
    pub(crate) not_compared: Option<String>,
}

impl PlannedRun {
    /// Returns γ and η, if they were given or measured.
    #[must_use]
    pub(crate) fn redaction(&self) -> Option<Redaction> {
        self.plan
            .secrets
            .redaction
            .as_ref()
            .map(|stated| stated.value)
    }

    /// Returns the labels from which they were measured.
    #[must_use]
    pub(crate) fn labels(&self) -> Option<&LabelledRates> {
        self.plan.secrets.labels.as_ref()
    }

    /// Returns the number of records of a secret in the question.
    #[must_use]
    pub(crate) fn records(&self) -> GroupSize {
        self.plan.group()
    }

    /// Returns the number of secrets that protect's incidence names and the number of those that are marked in the
    /// corpus, if they are. Names need not be texts, so which of the marked ones it names is not known.
    #[must_use]
    pub(crate) fn named_and_marked(&self) -> Option<(u64, u64)> {
        let Run::Protect { weighted } = &self.plan.run else {
            return None;
        };
        let named = weighted.secrets.as_ref()?.secrets();
        Some((named, self.counted()?.secrets()))
    }

    /// Returns what happened to the secrets, if they are marked in this corpus.
    #[must_use]
    pub(crate) fn counted(&self) -> Option<CorpusFacts> {
        let facts = self.plan.secrets.facts;
        facts.filter(|facts| facts.knowledge() == Knowledge::Counted)
    }
}

/// The page as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PlanPage {
    /// ε of the first promise.
    pub(crate) headline: Upper<Epsilon>,
    /// The largest ε that is promised to a record or a secret, which a limit is compared with. Absent in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) largest_epsilon: Option<Upper<Epsilon>>,
    /// What the plan guarantees: the rows that `audit train` writes of the same run.
    #[serde(default)]
    pub(crate) guarantees: Vec<Guarantee>,
    /// Every promise, the headline first.
    pub(crate) promises: Vec<Promised>,
    /// Of protect: the chance of guessing each secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secrets: Option<SecretPosteriors>,
    /// What they say about attacks.
    pub(crate) ceilings: Vec<Bounded>,
    /// The miss rates behind them, when measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rates: Option<MeasuredRates>,
    /// How many labels the requested δ would need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) labels_wanted: Option<String>,
    /// Single changes that lower the headline, the most effective first.
    pub(crate) tighten: Vec<Tightened>,
    /// Single changes that don't lower it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) no_help: Vec<String>,
    /// Under what it holds.
    pub(crate) assumptions: Vec<String>,
    /// What it does not cover.
    pub(crate) not_covered: Vec<String>,
    /// ε' against ε for several miss rates.
    pub(crate) amplification: Vec<Amplified>,
}

/// Computes the page.
///
/// # Errors
/// A plan that can't be accounted.
pub(crate) fn sheet(run: &PlannedRun) -> Result<Envelope<PlanPage>> {
    let rates = run.labels().map(|labels| labels.rates.clone());
    let guarantees = run.plan.guarantees(run.tolerance)?;
    let promises = promises::promises(run, &guarantees)?;
    let (ceilings, unknown) = ceilings::ceilings(run)?;
    let judged = promises::judged(run, &promises, &guarantees);
    let headline = promises::headline_of(&promises)?;
    let (tighten, no_help) = tighten::tightened(run, headline)?;
    let body = PlanPage {
        headline,
        largest_epsilon: Some(Upper::new(Epsilon::new(judged.largest)?)),
        promises,
        secrets: match run.plan.noiseless {
            true => None,
            false => SecretPosteriors::of(&run.plan, &run.plan.mechanism())?,
        },
        ceilings,
        labels_wanted: rates
            .as_ref()
            .zip(run.redaction())
            .and_then(|(found, used)| words::labels_for(*run.plan.delta, &used, found)),
        rates,
        tighten,
        no_help,
        assumptions: words::assumptions(run),
        not_covered: [words::not_covered(run), unknown].concat(),
        amplification: figure::curves(run)?,
        guarantees,
    };
    Ok(Envelope::new("plan", run.inputs.clone(), body))
}

/// Returns the plan of a `training.toml`, with the corpus that it names.
///
/// # Errors
/// Returns an error if a file or folder can't be read or contradicts itself.
pub(crate) fn of_file(path: &Path) -> Result<PlannedRun> {
    let request = TrainingFile::read(path)?.request();
    of_request(&request).with_context(|| path.display().to_string())
}

/// Returns the plan of a request, with the corpus that it names.
///
/// # Errors
/// Returns an error if a folder can't be read or values contradict each other.
pub(crate) fn of_request(request: &PlanRequest) -> Result<PlannedRun> {
    let corpus = request.prepared.as_deref().map(PreparedFacts::read);
    let corpus = corpus
        .transpose()
        .with_context(|| request.name("prepared"))?;
    let plan = build(request, corpus.as_ref())?;
    let redacted = redaction(request, plan.secrets.everything_private)?;
    let inputs = inputs(request, &plan, redacted.as_ref())?;
    let default = Tolerance::new(TOLERANCE)?;
    let labels = plan.secrets.labels.as_ref();
    let not_compared = corpus.as_ref().map(|corpus| corpus.not_compared(labels));
    Ok(PlannedRun {
        not_compared: not_compared.transpose()?.flatten(),
        plan,
        request: request.clone(),
        tolerance: request.tolerance.unwrap_or(default),
        inputs,
        corpus,
    })
}

/// Returns the first promise of a run in a sentence, with which the page of its plan begins.
///
/// # Errors
/// A plan that can't be accounted.
#[cfg(feature = "audit")]
pub(crate) fn first_promise(run: &PlannedRun, guarantees: &[Guarantee]) -> Result<String> {
    let first = promises::first(run, guarantees)?;
    Ok(page::promised(run, first.as_ref()))
}

/// Returns ε of the first promise, which every summary of a run gives; infinite if nothing is promised.
///
/// # Errors
/// A plan that can't be accounted.
#[cfg(feature = "audit")]
pub(crate) fn headline(run: &PlannedRun, guarantees: &[Guarantee]) -> Result<Upper<Epsilon>> {
    promises::headline_of(promises::first(run, guarantees)?.as_slice())
}

/// Writes the page to stdout and holds what is promised to a record or a secret against a limit.
///
/// # Errors
/// Returns an error if the plan can't be accounted or the page doesn't have the format.
pub(crate) fn show(run: &PlannedRun, limit: Option<Epsilon>, output: Output) -> Result<Exit> {
    let mut document = sheet(run)?;
    document.inputs = document.inputs.given("max_epsilon", limit)?;
    let body = &document.body;
    let promised = body.headline.get().get();
    let judged = || promises::judged(run, &body.promises, &body.guarantees);
    let limit = limit.map(|limit| Limit::of(limit, judged(), &document.inputs));
    let mood = Limit::mood(limit.as_ref(), promised, &document.inputs);
    let mut page = page(run, &document, output.draws())?.mood(mood);
    if let Some(limit) = &limit {
        page = page.answer_first(limit.section());
    }
    output.answer_with_rows(&document, &page, || {
        let body = &document.body;
        let secrets = body.secrets.iter().map(SecretPosteriors::rows);
        let secrets = secrets.collect::<Result<Vec<_>>>()?.concat();
        csv::guarantees(
            promises::in_order(run, &body.guarantees)
                .into_iter()
                .chain(&secrets),
        )
    })?;
    Limit::exit(limit.as_ref())
}
