//! The guarantees of a plan as a page.

use super::run::{Guarantees, Limit, WhatIf, promised};
use crate::account::mechanism::words::{line, noisy_steps};
use crate::account::plan::{Question, Run};
use crate::account::plan_page::{about_the_labels, about_the_sample, labels_for};
use crate::account::tables::{tables, tightest};
use crate::account::words::{
    LINES_WITH_PREMISES, PREMISES, REMARKS, about_delta, about_outside_text, assumed, compared,
    notes, promises_nothing, says, wide,
};
use crate::contract::{Envelope, Inputs, Table, dash, in_words};
use crate::number::{nearest, plural, rounded, rounded_up, shortest};
use crate::page::{Page, Section};
use crate::plan::sampler::words;
use crate::plan::{UNIT, granted_by, granted_line};
use reticent_accounting::pld::losses;
use reticent_accounting::statistics::labels_needed;
use reticent_accounting::training::NoisySteps;
use reticent_accounting::{
    Bounds, Convention, Epsilon, Error, GroupSize, Guarantee, Mechanism, Neighbours, PrivacyLoss,
    Query, Sampling,
};
use std::fmt::Write;

/// Returns the page of a plan's guarantees.
#[must_use]
pub fn guarantees(
    question: &Question,
    document: &Envelope<Guarantees>,
    limit: Option<&Limit>,
) -> Page {
    let body = &document.body;
    let title = format!(
        "{}, {}",
        what_runs(&question.run, &question.plan.mechanism),
        what_is_asked(question)
    );
    let mut said = says(question, &body.guarantees);
    if question.epsilon.is_none() && matches!(question.run, Run::Plan { .. }) {
        said.push_str(&noise_found(&document.inputs).unwrap_or_default());
    }
    // If δ at an ε was asked for, there is no promise to judge.
    let nothing = promises_nothing(&document.inputs).filter(|_| question.epsilon.is_none());
    if let Some(why) = &nothing {
        said = format!("{why} {said}");
    }
    let mut page = Page::new(title, said);
    for table in tables(&tightest(&body.guarantees), false) {
        page = page.brief(Section::table("", table));
    }
    for table in tables(&body.guarantees, true) {
        page = page.section(Section::table("Every accountant", table));
    }
    let granted = match question.run.of_manifest() {
        Some(plan) => granted_line(plan),
        None => granted_by(question.run.narrower()),
    };
    // An answer with a finite ε at δ = 0 needs no other δ.
    let needed = question.plan.delta.get() > 0.0 || promised(body).is_infinite();
    let delta = about_delta(&document.inputs).filter(|_| needed && nothing.is_none());
    let (bound, sample) = sample_note(question).unzip();
    let measured = usize::from(bound.is_some());
    let mut premises: Vec<String> = granted.into_iter().chain(bound).collect();
    let labelled = question
        .redacted
        .as_ref()
        .and_then(|found| found.labels.as_ref());
    // No prepared corpus is behind this page.
    premises.extend(about_the_labels(labelled, false));
    premises.extend(
        labelled
            .iter()
            .flat_map(|found| about_the_sample(&found.sample)),
    );
    premises.extend(question.redacted.as_ref().and_then(|redacted| {
        let rates = &redacted.both_labelled()?.rates;
        labels_for(question.plan.delta, &redacted.redaction, rates)
    }));
    premises.extend(question.caveats.iter().cloned());
    premises.extend(about_outside_text(
        question.run.base(),
        question.inputs.holds("held_out_public"),
    ));
    let mut alarms: Vec<String> = sample.into_iter().collect();
    alarms.extend(no_posterior(question));
    alarms.extend(no_redacted_secret(question, &body.guarantees));
    alarms.extend(about_the_run(question));
    alarms.extend(wide(&body.guarantees, question.plan.tolerance));
    alarms.extend(body.what_if.iter().filter_map(failed));
    if premises.len() > measured {
        page = page.lines(LINES_WITH_PREMISES);
    }
    page = page
        .decides(Section::notes(PREMISES, premises))
        .answer(Section::notes(REMARKS, alarms))
        .decides(Section::text("", assumed(&document.inputs)));
    if let Some(secrets) = &body.secrets {
        page = page
            .answer(Section::table("Of each secret", secrets.table()))
            .answer(Section::text("", secrets.sentences()).called("of each secret"));
    }
    page = page
        .section(
            Section::table("With another assumption", what_if(&body.what_if)).caption(format!(
                "ε upper: {}, unless the neighbouring relation is what changes.",
                compared(question.plan.neighbours)
            )),
        )
        .section(Section::notes(
            "What the numbers mean and do not cover",
            notes(&body.guarantees),
        ));
    page = page.answer_first(Section::text("", delta));
    if let Some(limit) = limit {
        page = page.answer_first(limit.section());
    }
    // If δ at an ε was asked for, there is no ε to judge by.
    if question.epsilon.is_none() {
        page = page.mood(Limit::mood(limit, promised(body), &document.inputs));
    }
    page
}

/// Returns how the batches are accounted for, if they are not drawn by Poisson subsampling.
pub(in crate::account) fn about_the_batches(noisy: &NoisySteps) -> Option<String> {
    let sampling = *noisy.sampling;
    (sampling != Sampling::Poisson).then(|| {
        let said = words(sampling, *noisy.sampling_rate, UNIT);
        format!("{}: {}.", said.batches, said.status)
    })
}

/// Returns how the batches are accounted for and what is not counted.
fn about_the_run(question: &Question) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(question.run.noisy().and_then(about_the_batches));
    if question.run.counts_no_secrets() && question.plan.group == GroupSize::ONE {
        notes.push(format!(
            "How many {units} hold one secret, and which of them a policy missed, is counted in private text and is not in any manifest: each row is about one {unit} (ask with --group, or account --prepared).",
            units = plural(question.plan.unit.as_str()),
            unit = question.plan.unit
        ));
    }
    notes
}

/// Returns the first line: what runs.
pub(in crate::account) fn what_runs(run: &Run, mechanism: &Mechanism) -> String {
    match run {
        Run::Plan { .. } => match run.noisy() {
            Some(noisy) => format!("DP-SGD on every record: {}", noisy_steps(noisy)),
            None => line(mechanism),
        },
        Run::Files { names, .. } => format!("{}: {}", names.join(", "), line(mechanism)),
    }
}

/// Returns the ε for which the noise was found, if it was.
pub(in crate::account) fn noise_found(inputs: &Inputs) -> Option<String> {
    let kept = shortest(inputs.number("epsilon")?);
    Some(format!(
        " This sigma keeps epsilon at most {kept} when one record is replaced."
    ))
}

/// Returns what is asked about the run.
pub(in crate::account) fn what_is_asked(question: &Question) -> String {
    match question.epsilon {
        Some(epsilon) => format!("epsilon {}", shortest(epsilon.get())),
        None => format!("delta {}", shortest(question.plan.delta.get())),
    }
}

/// Returns why a row of the table below has no result.
fn failed(row: &WhatIf) -> Option<String> {
    let why = row.failed.as_ref()?;
    let (changed, to) = (name(row), in_words(&row.to));
    Some(format!(
        "With {changed} {to} nothing could be computed: {why}."
    ))
}

/// Returns the name of the input that a row changes.
fn name(row: &WhatIf) -> String {
    row.changed.replace('_', " ").replace("sample", "sampling")
}

fn what_if(rows: &[WhatIf]) -> Table {
    let upper = |bounds: &Bounds<Epsilon>| rounded(bounds.upper, 4);
    let redacted = rows.iter().any(|row| row.bayesian.is_some());
    Table::of(rows)
        .left("changed", name)
        .right("to", |row| in_words(&row.to))
        .right("ε upper", |row| upper(&row.epsilon))
        .only_if(redacted, |table| {
            table.right(
                format!(
                    "for planning: redacted secret, {}",
                    compared(Neighbours::Replace)
                ),
                |row| row.bayesian.as_ref().map_or_else(dash, upper),
            )
        })
        .into()
}

/// Returns why a requested probability of guessing a secret can't be given.
fn no_posterior(question: &Question) -> Option<String> {
    let plan = &question.plan;
    plan.prior?;
    match PrivacyLoss::of_guesses(&plan.mechanism, plan.group) {
        Err(error @ Error::Unsupported { .. }) => {
            Some(format!("No chance of guessing a secret is given: {error}."))
        }
        _ => None,
    }
}

/// Returns why a requested row of a redacted secret can't be given.
fn no_redacted_secret(question: &Question, rows: &[Guarantee]) -> Option<String> {
    let plan = &question.plan;
    plan.redaction?;
    let given = |row: &Guarantee| row.gamma.is_some() && row.convention == Convention::Definition;
    if rows.iter().any(given) {
        return None;
    }
    let error = losses(&plan.mechanism, Query::replace(plan.group)).err()?;
    Some(format!("No row of a redacted secret is given: {error}."))
}

/// Returns what a sample shows of the miss rate, and what that supposes and more labels would improve.
fn sample_note(question: &Question) -> Option<(String, String)> {
    let (sample, redaction, confidence) = (
        question.redacted.as_ref()?.sample?,
        question.plan.redaction?,
        question.plan.confidence?,
    );
    let gamma = redaction.miss();
    let bound = format!(
        "{} of {} labelled secrets were missed: with confidence {} the miss rate is at most {}, not {}.",
        sample.missed,
        sample.labelled,
        shortest(confidence.get()),
        rounded_up(gamma.get(), 3),
        nearest(sample.missed as f64 / sample.labelled as f64, 3),
    );
    let mut note =
        "The miss rate holds for a simple random sample drawn before the policy was tuned on it."
            .to_owned();
    if sample.missed == 0
        && let Ok(half) = reticent_accounting::MissRate::new(0.5 * gamma.get())
        && let Some(more) = labels_needed(half, confidence)
    {
        let _ = write!(
            note,
            " Half of that would take {more} labels without a miss."
        );
    }
    Some((bound, note))
}
