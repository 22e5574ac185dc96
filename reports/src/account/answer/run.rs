//! Computes the guarantees of a plan as the document that is printed or written.

use crate::account::plan::Question;
use crate::account::secrets::{SecretPosteriors, by_secret};
use crate::account::tables::tightest;
use crate::account::words::{
    assumed_prior, may_promise_nothing, neighbours, promise, promises_nothing,
};
use crate::contract::{Envelope, Exit, Inputs, not_known, open_limit};
use crate::number::{rounded_up, shortest};
use crate::page::{Mood, Section};
use anyhow::Result;
use reticent_accounting::pld::{Engine, losses};
use reticent_accounting::training::{self, CompletedRun, Recipe, Subject};
use reticent_accounting::{
    Bounds, Convention, Delta, Epsilon, Error, GroupSize, Guarantee, Mechanism, Method, Neighbours,
    Notion, Plan, Query, SamplingRate, Steps, Tolerance, UnitName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of a `guarantees` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guarantees {
    /// Every guarantee of the plan.
    pub guarantees: Vec<Guarantee>,
    /// What runs: with it this document can be composed with others. Absent in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<Mechanism>,
    /// The recipe, where it promises less than differential privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<Recipe>,
    /// Whether the records of the run have classes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub labelled: bool,
    /// The model of others that the run began from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<training::Base>,
    /// From the manifest of a run of `protect`: what it certifies for each secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<SecretPosteriors>,
    /// The first ones with an assumption changed; empty when nothing was assumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<WhatIf>,
}

/// The plan with one thing changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// Which input.
    pub changed: String,
    /// Its value here.
    pub to: Value,
    /// ε of differential privacy at the plan's δ (of the group, if there is one).
    pub epsilon: Bounds<Epsilon>,
    /// ε against an adversary without prior knowledge of the secret, by the notion's own definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bayesian: Option<Bounds<Epsilon>>,
    /// Why neither end could be computed, if that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A limit that the user set, compared with the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The largest ε that is allowed.
    pub allowed: Epsilon,
    /// The promised ε; infinite if it has no upper end.
    pub promised: f64,
    /// Whether the promise exceeds the limit, or is none because of its δ.
    pub passed: bool,
    /// Whether it is none.
    nothing: bool,
    /// Why it may be none, if that is not known.
    open: Option<String>,
    to: Option<String>,
    others: Vec<(String, f64)>,
}

/// What a limit is held against.
pub(in crate::account) struct Judged {
    /// The largest ε that is promised; infinite if it has no upper end.
    pub(in crate::account) largest: f64,
    /// To whom, if that is not whom the answer begins with.
    pub(in crate::account) to: Option<String>,
    /// What is not judged although its ε is larger, with that.
    pub(in crate::account) others: Vec<(String, f64)>,
}

impl Limit {
    /// Compares a limit with what is promised at the δ among the inputs.
    pub(in crate::account) fn of(allowed: Epsilon, judged: Judged, inputs: &Inputs) -> Self {
        let nothing = promises_nothing(inputs).is_some();
        let passed = nothing || judged.largest > allowed.get();
        Self {
            allowed,
            promised: judged.largest,
            passed,
            nothing,
            open: may_promise_nothing(inputs).filter(|_| !passed),
            to: judged.to,
            others: judged.others,
        }
    }

    /// Returns the outcome as a section.
    pub(in crate::account) fn section(&self) -> Section {
        let side = match self.passed {
            _ if self.nothing => "no promise, because of its delta",
            _ if self.open.is_some() => "not known to be a promise, because of its delta",
            true => "above it",
            false => "within it",
        };
        let (allowed, promised) = (shortest(self.allowed.get()), rounded_up(self.promised, 6));
        let to = self.to.as_ref().map(|to| format!(" ({to})"));
        let to = to.unwrap_or_default();
        let first = format!("limit {allowed}: promised epsilon {promised}{to} is {side}");
        let others = self.others.iter().enumerate();
        let others = others.map(|(place, (what, epsilon))| {
            let begin = if place == 0 { "not judged: " } else { "" };
            format!("{begin}{what}: {}", rounded_up(*epsilon, 4))
        });
        let parts: Vec<String> = std::iter::once(first).chain(others).collect();
        Section::text("", [parts.join("; ")])
    }

    /// Returns the ending of a command whose answer is compared with the limit.
    ///
    /// # Errors
    /// Returns an error if the limit is left open.
    pub(in crate::account) fn exit(limit: Option<&Self>) -> Result<Exit> {
        let Some(limit) = limit else {
            return Ok(Exit::Finished);
        };
        let allowed = shortest(limit.allowed.get());
        let why = limit.open.as_ref();
        open_limit(
            Exit::of(limit.passed),
            why.map(|why| not_known("--max-epsilon", "epsilon", &allowed, why)),
        )
    }

    /// Returns the mood of a promise; without a finite promise nothing can be concluded.
    pub(in crate::account) fn mood(limit: Option<&Self>, promised: f64, inputs: &Inputs) -> Mood {
        let passed = limit.is_some_and(|limit| limit.passed);
        let open = limit.is_some_and(|limit| limit.open.is_some());
        let otherwise = match promised.is_finite() && promises_nothing(inputs).is_none() && !open {
            true => Mood::Plain,
            false => Mood::Open,
        };
        Mood::of(Exit::of(passed), otherwise)
    }
}

/// Computes every guarantee, and what each becomes under another assumption.
///
/// # Errors
/// Returns an error if the plan can't be accounted.
pub fn answer(question: &Question) -> Result<Envelope<Guarantees>> {
    document(question, what_if)
}

/// Like [`answer`], for a page in brief, which says that there are other assumptions but leaves out their numbers: they
/// take as long to compute as the answer.
///
/// # Errors
/// Returns an error as [`answer`] does.
pub fn in_brief(question: &Question) -> Result<Envelope<Guarantees>> {
    document(question, |question| {
        let covered = |plan: &Plan| {
            let single = Query::single(plan.neighbours);
            !matches!(
                losses(&plan.mechanism, single),
                Err(Error::Unsupported { .. })
            )
        };
        let rows = (changes(question)?.into_iter())
            .filter(|(_, _, plan)| covered(plan))
            .filter_map(|(name, to, _)| row(name, to, Ok((Bounds::UNKNOWN, None))));
        Ok(rows.collect())
    })
}

/// Returns every guarantee, without what each becomes under another assumption.
///
/// # Errors
/// Returns an error as [`answer`] does.
pub(in crate::account) fn rows(question: &Question) -> Result<Vec<Guarantee>> {
    of_the_run(question, of_the_mechanism(question)?)
}

fn document(
    question: &Question,
    what_if: impl FnOnce(&Question) -> Result<Vec<WhatIf>>,
) -> Result<Envelope<Guarantees>> {
    let guarantees = rows(question)?;
    let inputs = match assumed_prior(question, &guarantees) {
        Some(prior) => question.inputs.clone().assumed("prior", prior)?,
        None => question.inputs.clone(),
    };
    let secrets = match question.run.of_manifest() {
        Some(plan) => SecretPosteriors::of(plan, &question.plan.mechanism)?,
        None => None,
    };
    let body = Guarantees {
        guarantees,
        mechanism: Some(question.plan.mechanism.clone()),
        recipe: question.run.narrower(),
        labelled: question.run.is_labelled(),
        base: question.run.base(),
        secrets,
        // What would change ε says little about δ.
        // And nothing of secrets that may be on a public side.
        what_if: if question.epsilon.is_none() && question.run.narrower() != Some(Recipe::Crt) {
            what_if(question)?
        } else {
            Vec::new()
        },
    };
    Ok(Envelope::new("guarantees", inputs, body))
}

/// Returns what the mechanism promises. A run that promises less than differential privacy promises something about
/// contents: the rows about an exchanged content come first, and those that papers compute for a record's presence
/// follow.
fn of_the_mechanism(question: &Question) -> Result<Vec<Guarantee>> {
    let of = |plan: &Plan| {
        question.run.blamed(match question.epsilon {
            Some(epsilon) => plan.guarantees_at(epsilon),
            None => plan.guarantees(),
        })
    };
    let replaced = |group| {
        of(&Plan {
            neighbours: Neighbours::Replace,
            group,
            redaction: None,
            prior: None,
            ..question.plan.clone()
        })
    };
    let Some((completed, _)) = question.run.of_files() else {
        let mut rows = by_secret(question, of(&question.plan)?)?;
        // What `--epsilon` chose the noise for.
        let chosen = question.inputs.number("epsilon").is_some() && question.epsilon.is_none();
        if chosen && question.plan.neighbours != Neighbours::Replace {
            rows.extend(replaced(GroupSize::ONE)?);
        }
        return Ok(rows);
    };
    let mut rows = Vec::new();
    let redacts = matches!(
        completed.narrower(),
        Some(Recipe::Crt | Recipe::Sdp | Recipe::Jft)
    );
    if redacts && question.plan.neighbours != Neighbours::Replace {
        rows = replaced(question.plan.group)?;
    }
    rows.extend(by_secret(question, of(&question.plan)?)?);
    // No posterior is bounded for a secret that may have been trained on without noise.
    rows.retain(|row| row.notion != Notion::SecretProtection || !completed.exposes_secrets());
    rows.into_iter()
        .map(|row| in_its_notion(row, completed))
        .collect()
}

/// Returns the row which says that nothing is promised to some secret.
fn exposed(question: &Question, completed: &CompletedRun) -> Result<Guarantee> {
    let group = question.plan.group;
    let row = Guarantee {
        engine: Some(Engine::Closed),
        same_class: completed.within_a_class(),
        group: (group > GroupSize::ONE).then_some(group),
        about: Some(Subject::Secret),
        ..Guarantee::new(
            completed.notion(group),
            Neighbours::Replace,
            question.plan.unit.clone(),
            Method::ClosedForm,
        )
    };
    Ok(match question.epsilon {
        None => Guarantee {
            epsilon: Some(Bounds::at_most(Epsilon::new(f64::INFINITY)?)),
            delta: Some(question.plan.delta),
            ..row
        },
        Some(_) => Guarantee {
            delta: Some(Delta::new(1.0)?),
            delta_bounds: Some(Bounds::at_most(Delta::new(1.0)?)),
            ..row
        },
    })
}

/// Prepends the rows that `audit train` printed for the run, if a single manifest describes it: those about one record,
/// and those about the records of a secret if their number was given; a count of private text is not published. Asking
/// about a group, or about δ at an ε, is a separate question. If nothing is promised to a secret, nothing is promised
/// to several secrets, at any ε, or by any run that follows.
fn of_the_run(question: &Question, others: Vec<Guarantee>) -> Result<Vec<Guarantee>> {
    let Some((completed, plan)) = question.run.of_files() else {
        return Ok(others);
    };
    let whole = plan.filter(|plan| {
        question.plan.group == GroupSize::ONE
            && question.epsilon.is_none()
            && plan.mechanism() == question.plan.mechanism
    });
    let Some(plan) = whole else {
        let mut rows = others;
        if completed.exposes_secrets() {
            rows.insert(0, exposed(question, completed)?);
        }
        return Ok(rows);
    };
    let mut plan = plan.clone();
    plan.delta.value = question.plan.delta;
    let mut rows = plan.guarantees(question.plan.tolerance)?;
    // That nothing is promised comes first; where it is defined for both neighbours, those that are asked about.
    rows.sort_by_key(|row| {
        let in_question = row.notion == Notion::Dp
            && row.convention == Convention::Definition
            && row.neighbours == question.plan.neighbours;
        (!protects_nothing(row), !in_question)
    });
    let terms = |row: &Guarantee| (terms(row), row.unit.clone());
    let known: Vec<_> = rows.iter().map(terms).collect();
    rows.extend(
        others
            .into_iter()
            .filter(|row| !known.contains(&terms(row))),
    );
    Ok(rows)
}

/// Returns what a row is about, and how it was obtained. One for a redaction that is asked about is not the run's own.
fn terms(row: &Guarantee) -> impl PartialEq + use<> {
    let redaction = (row.gamma, row.missed_by_both);
    let said = (row.notion, row.neighbours, row.convention, row.group);
    (said, row.method, redaction)
}

/// Converts a row about records to the notion of the recipe that released the mechanism.
fn in_its_notion(row: Guarantee, completed: &CompletedRun) -> Result<Guarantee> {
    let Some(narrower) = completed.narrower() else {
        return Ok(row);
    };
    // In the mechanism of protect, all copies of a secret are one entry.
    let unit = match narrower {
        Recipe::Protect => UnitName::new("secret")?,
        _ => row.unit.clone(),
    };
    let row = Guarantee {
        same_class: completed.within_a_class(),
        ..row
    };
    if !matches!(row.notion, Notion::Dp | Notion::GroupDp) {
        return Ok(Guarantee { unit, ..row });
    }
    let convention = match row.neighbours {
        Neighbours::AddRemove => Convention::Paper,
        Neighbours::ZeroOut | Neighbours::Replace => row.convention,
    };
    Ok(Guarantee {
        notion: completed.notion(row.group.unwrap_or(GroupSize::ONE)),
        unit,
        convention,
        ..row
    })
}

/// Returns the row that is compared with a limit: the first by the loss law if one is known, and about the group if
/// there is one. For a run whose recipe promises something to secrets, it is the row about the records of a secret; a
/// row that promises nothing to a secret takes precedence.
#[must_use]
pub fn headline(guarantees: &[Guarantee]) -> Option<&Guarantee> {
    if let Some(row) = guarantees.iter().find(|row| protects_nothing(row)) {
        return Some(row);
    }
    // For a group, the tighter of two methods comes first; if no law is known, there are only rows by Rényi
    // divergences.
    let methods = [&[Method::Pld, Method::GroupLemma][..], &[Method::Rdp]];
    methods.into_iter().find_map(|methods| {
        let by = |row: &&Guarantee| {
            methods.contains(&row.method) && row.notion != Notion::BayesianConfidentiality
        };
        let groups = |row: &&Guarantee| match row.about {
            None => row.group.is_some(),
            Some(Subject::Secret) => row.notion != Notion::GroupDp,
            Some(Subject::Record | Subject::Canary) => false,
        };
        // Rows that papers compute for other neighbours come after those by definition.
        let first = |fits: &dyn Fn(&&Guarantee) -> bool| {
            let defined = |row: &&Guarantee| row.convention == Convention::Definition && fits(row);
            guarantees
                .iter()
                .find(defined)
                .or_else(|| guarantees.iter().find(fits))
        };
        first(&|row| by(row) && groups(row)).or_else(|| first(&by))
    })
}

/// Returns whether a row says that nothing is promised to a secret.
fn protects_nothing(row: &Guarantee) -> bool {
    let epsilon = row.epsilon.and_then(|bounds| bounds.high());
    let delta = row.delta_bounds.and_then(|bounds| bounds.high());
    let nothing = epsilon.is_some_and(f64::is_infinite) || delta.is_some_and(|end| end >= 1.0);
    row.about == Some(Subject::Secret) && row.notion != Notion::GroupDp && nothing
}

/// Certifies ε at the limit by δ, if the limit lies between both ends of the row that it is compared with. Otherwise
/// the noise that a calibration found could be refused because ε is certified less tightly than δ.
///
/// # Errors
/// Returns an error if the plan can't be accounted.
pub fn held_to(
    question: &Question,
    mut document: Envelope<Guarantees>,
    limit: Option<Epsilon>,
) -> Result<Envelope<Guarantees>> {
    let rows = &mut document.body.guarantees;
    let (Some(limit), Some(row)) = (limit, headline(rows).cloned()) else {
        return Ok(document);
    };
    let between = |bounds: Bounds<Epsilon>| {
        bounds.lower.is_none_or(|end| *end.get() <= limit)
            && bounds.upper.is_some_and(|end| *end.get() > limit)
    };
    let by_delta = matches!(row.method, Method::Pld | Method::GroupLemma);
    if !by_delta || !row.epsilon.is_some_and(between) {
        return Ok(document);
    }
    // A manifest's row about a secret has the notion of a redacted one, whose δ is a share of its own.
    let same = |other: &Guarantee| terms(other) == terms(&row);
    let there = question.plan.guarantees_at(limit)?.into_iter().find(same);
    let held = there.is_some_and(|there| there.delta.is_some() && there.delta <= row.delta);
    if let Some(first) = rows.iter_mut().find(|other| held && **other == row) {
        *first = row.certified_at(limit);
    }
    Ok(document)
}

/// Compares the answer with the limit, if one was set.
#[must_use]
pub fn limit(document: &Envelope<Guarantees>, allowed: Option<Epsilon>) -> Option<Limit> {
    let allowed = allowed?;
    let largest = promised(&document.body);
    let rows = tightest(&document.body.guarantees);
    let judged = headline(&document.body.guarantees).map(said);
    let others = rows.iter().filter_map(|row| {
        let (what, epsilon) = (said(row), row.epsilon?.high().unwrap_or(f64::INFINITY));
        let other = is_promise(row) && judged.as_ref() != Some(&what);
        (other && epsilon > largest).then_some((what, epsilon))
    });
    let judged = Judged {
        largest,
        to: None,
        others: others.collect(),
    };
    Some(Limit::of(allowed, judged, &document.inputs))
}

/// Returns whether a row promises something to somebody: rows as in the papers and those for planning don't.
pub(in crate::account) fn is_promise(row: &Guarantee) -> bool {
    row.convention == Convention::Definition && row.notion != Notion::BayesianConfidentiality
}

/// Returns the upper end of a row's ε; infinite if it has none.
pub(in crate::account) fn upper(row: &Guarantee) -> f64 {
    let upper = row.epsilon.and_then(|bounds| bounds.high());
    upper.unwrap_or(f64::INFINITY)
}

/// Returns a row in words, for a line that names it.
pub(in crate::account) fn said(row: &Guarantee) -> String {
    let of = match row.about {
        Some(Subject::Canary) => "planted canaries, ",
        _ => "",
    };
    format!("{of}{}, {}", promise(row), neighbours(row))
}

/// Returns the upper end of the ε that is promised first; infinite if there is none.
pub(in crate::account) fn promised(body: &Guarantees) -> f64 {
    headline(&body.guarantees).map_or(f64::INFINITY, upper)
}

/// Returns the results with each assumed quantity changed in turn and the others kept.
fn what_if(question: &Question) -> Result<Vec<WhatIf>> {
    let rows = changes(question)?
        .into_iter()
        .filter_map(|(name, to, plan)| {
            let found = plan.epsilon().and_then(|epsilon| {
                let bayesian = match plan.bayesian_epsilon() {
                    Err(Error::Unsupported { .. }) => None,
                    found => found?,
                };
                Ok((epsilon, bayesian))
            });
            row(name, to, found)
        });
    Ok(rows.collect())
}

/// Returns the plans with one assumption changed, each with the name and the new value of the assumption.
fn changes(question: &Question) -> Result<Vec<(&'static str, Value, Plan)>> {
    let mut plans: Vec<(&'static str, Value, Plan)> = Vec::new();
    // These numbers are printed to four digits.
    let rough = Plan {
        tolerance: Tolerance::new(1e-4)?,
        ..question.plan.clone()
    };
    if let Some(noisy) = question.run.noisy() {
        let mut change = |name: &'static str, to: Value, mechanism| {
            let plan = Plan {
                mechanism,
                ..rough.clone()
            };
            plans.push((name, to, plan));
        };
        if question.inputs.is_assumed("sample_rate") {
            for factor in [0.1, 0.5, 2.0] {
                let rate = SamplingRate::new(round(noisy.sampling_rate.get() * factor)).ok();
                let changed = rate.and_then(|rate| question.run.at_rate(rate));
                if let Some(changed) = changed {
                    let rate = changed.sampling_rate.get();
                    change("sample_rate", rate.into(), changed.mechanism());
                }
            }
        }
        if question.inputs.is_assumed("steps") {
            for factor in [0.5, 2.0, 10.0] {
                let steps = Steps::new((noisy.steps.get() as f64 * factor) as u64);
                let changed = noisy.with_steps(steps).mechanism();
                change("steps", steps.get().into(), changed);
            }
        }
    }
    if question.inputs.is_assumed("delta") {
        for factor in [10.0, 0.1] {
            let delta = Delta::new(round(question.plan.delta.get() * factor).min(1.0))?;
            let plan = Plan {
                delta,
                ..rough.clone()
            };
            plans.push(("delta", delta.get().into(), plan));
        }
    }
    let neighbours = Neighbours::Replace;
    if question.inputs.is_assumed("neighbours") && question.plan.neighbours != neighbours {
        let to = neighbours.to_string().into();
        let plan = Plan {
            neighbours,
            ..rough
        };
        plans.push(("neighbours", to, plan));
    }
    Ok(plans)
}

/// Rounds to six significant digits, so that a changed value prints as such.
fn round(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Returns the result with one value changed; `None` if the changed plan is not covered. This doesn't affect the answer
/// to the question itself.
fn row(
    name: &str,
    to: Value,
    found: reticent_accounting::Result<(Bounds<Epsilon>, Option<Bounds<Epsilon>>)>,
) -> Option<WhatIf> {
    let (epsilon, bayesian, failed) = match found {
        Ok((epsilon, bayesian)) => (epsilon, bayesian, None),
        Err(Error::Unsupported { .. }) => return None,
        Err(error) => (Bounds::UNKNOWN, None, Some(error.to_string())),
    };
    Some(WhatIf {
        changed: name.to_owned(),
        to,
        epsilon,
        bayesian,
        failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that failed for another reason than that it is not covered was dropped without a word.
    #[test]
    fn only_what_is_not_covered_is_left_out() {
        let bounds = Bounds::at_most(Epsilon::new(2.0).unwrap());
        let kept = row("steps", 7.into(), Ok((bounds, None))).unwrap();
        assert_eq!((kept.epsilon, kept.failed), (bounds, None));
        let unsupported = Error::Unsupported {
            what: "groups".into(),
            why: "of shuffled batches".into(),
        };
        assert_eq!(row("steps", 7.into(), Err(unsupported)), None);
        let trouble = Error::NotCertified {
            what: "the grid",
            why: "no grid could be laid".into(),
        };
        let said = trouble.to_string();
        let kept = row("steps", 7.into(), Err(trouble)).unwrap();
        assert_eq!((kept.epsilon, kept.failed), (Bounds::UNKNOWN, Some(said)));
    }
}
