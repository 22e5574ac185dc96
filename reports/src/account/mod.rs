//! The `account` command: what does a training plan promise, before anyone trains?
//!
//! Each subcommand has a folder ([`answer`] is the command without a subcommand): `args` parses
//! without side effects, `run` computes the document, `page` presents it. The modules beside them are
//! shared: [`question`] defines what can be asked, [`mechanism`] reads what runs from files, and
//! [`plan`] turns arguments into a plan and records what it assumed.

pub mod answer;
pub mod args;
pub(crate) mod calibrate;
pub(crate) mod compose;
mod csv;
pub(crate) mod curve;
pub(crate) mod explain;
pub(crate) mod mechanism;
pub mod plan;
pub(crate) mod plan_page;
pub(crate) mod protect;
pub mod question;
pub mod secrets;
mod tables;
mod values;
pub(crate) mod words;

#[cfg(test)]
mod tests;

use crate::contract::{Exit, Inputs, print_json, write_file};
use crate::page::{Output, Section, View};
use anyhow::{Context, Result, bail};
use args::{Account, Command, OutcomeArgs, PlanArgs, QuestionArgs};
use reticent_accounting::training::CompletedRun;
use reticent_accounting::{Neighbours, UnitName};
use secrets::SecretPosteriors;

/// Runs the command.
///
/// # Errors
/// Returns an error on bad input, if a plan can't be accounted, or if a file can't be written.
pub fn run(arguments: &Account) -> Result<Exit> {
    let mut output = Output::new(arguments.format, View::of_terminal(arguments.verbose))
        .configured(&arguments.configured);
    match &arguments.command {
        Some(Command::Plan(wish)) => {
            let plan = plan_page::of_file(&wish.file)?;
            return plan_page::show(&plan, wish.max_epsilon, output);
        }
        Some(Command::Curve(wish)) => {
            let document = curve::curve(wish)?;
            let figure = curve::figure(&document);
            let drawn = wish.plot.as_ref().map(|place| (place, figure.to_svg()));
            if let Some((place, Ok(drawing))) = &drawn {
                write_file(place, drawing.as_bytes()).context("--plot")?;
            }
            let mut page = curve::page(&document);
            // Where no point can be drawn, as of infinite ends alone, the table still answers.
            if output.draws()
                && let Ok(drawing) = figure.to_inline_svg()
            {
                let drawing = Section::plot("The curve", drawing).caption(curve::BETWEEN);
                page = page.first(drawing);
            }
            output.answer_with_rows(&document, &page, || curve::csv(&document.body))?;
            if let Some((_, drawing)) = drawn {
                drawing.context("--plot")?;
            }
        }
        Some(Command::Compose(wish)) => {
            return compose::run::run(wish, output);
        }
        Some(Command::Explain(wish)) => {
            let neighbours =
                plan::neighbours_of(wish.question.neighbours, wish.run.schedule.sampler);
            let source = plan::Source::of_records(&wish.run, neighbours)?;
            let question = plan::Question::about(source, &wish.question)?;
            let document = explain::explain(&question)?;
            let page = explain::page(&question, &document);
            output.answer(&document, &page)?;
        }
        Some(Command::Calibrate(wish)) => {
            let document = calibrate::calibrate(wish)?;
            output.answer_with_rows(&document, &calibrate::page(&document), || {
                calibrate::csv(&document.body)
            })?;
        }
        Some(Command::Protect(wish)) => return protect::run(wish, output),
        Some(Command::Completions(completions)) => completions.run::<args::Account>()?,
        Some(Command::Man(page)) => page.run::<args::Account>()?,
        None => {
            let plan = &arguments.plan;
            if let Some(export) = plan.outcome.export {
                return exported(plan, export, &mut output);
            }
            if plan.is_page() {
                let described = plan_page::of_request(&plan.request())?;
                return plan_page::show(&described, plan.outcome.max_epsilon, output);
            }
            let done = guarantees(&plan::Question::new(plan)?, &plan.outcome, output);
            return done.map_err(|error| about_sigma(error, plan));
        }
    }
    Ok(Exit::Finished)
}

/// Adds to the error of a number that can't be certified the argument that is usually the cause.
fn about_sigma(error: anyhow::Error, plan: &PlanArgs) -> anyhow::Error {
    let uncertified = error.chain().any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(reticent_accounting::Error::NotCertified { .. })
        )
    });
    match plan.run.sigma.and_then(crate::plan::args::Sigma::noise) {
        Some(sigma) if uncertified => {
            error.context(format!("--sigma {}", crate::number::shortest(sigma.get())))
        }
        _ => error,
    }
}

/// Exports what runs for other programs.
fn exported(plan: &PlanArgs, export: mechanism::Export, output: &mut Output) -> Result<Exit> {
    output.exports()?;
    if plan.epsilon.is_none() {
        no_delta(&plan.question, output)?;
    }
    let neighbours = plan::neighbours_of(plan.question.neighbours, plan.run.schedule.sampler);
    let given = exported_unit(&plan.question, export, output)?;
    let (run, unit, records, (delta, canaries), inputs) = match plan.is_page() {
        true => {
            let request = plan.request();
            let planned = plan_page::of_request(&request)?;
            let plan = planned.plan;
            let run = plan.completed(plan.mechanism(), None);
            let canaries = crate::plan::canary_records(&plan);
            let unit = (!plan.unit.is_assumed()).then_some(plan.unit.value);
            // How many a corpus has is counted in private text.
            (run, unit, request.records, (None, canaries), planned.inputs)
        }
        false => {
            let source = plan::Source::of_plan(plan, neighbours)?;
            let (_, unit) = plan::unit(given, source.unit.as_ref(), source.unit_open)?;
            let known = (given.is_some() || source.unit.is_some()).then_some(unit);
            let (records, inputs) = (source.records, source.inputs.clone());
            let canaries = (source.canary_records, source.canary_records_unknown);
            let kept = (source.kept_delta(), canaries);
            (source.completed(), known, records, kept, inputs)
        }
    };
    let around = mechanism::Around {
        unit: unit.as_ref(),
        records,
        delta,
        canary_records: canaries.0,
        canary_records_unknown: canaries.1,
        not_authenticated: inputs.not_authenticated(),
    };
    print_export(&run, &around, &inputs, (export, neighbours), output)?;
    Ok(Exit::Finished)
}

/// Prints what runs for other programs, and on stderr what the format may have no place for.
fn print_export(
    run: &CompletedRun,
    around: &mechanism::Around<'_>,
    inputs: &Inputs,
    (format, neighbours): (mechanism::Export, Neighbours),
    output: &Output,
) -> Result<()> {
    print_json(&mechanism::export(run, around, format, neighbours)?)?;
    output.says_aside(inputs);
    Ok(())
}

/// Returns the unit for an export, which `--unit` states. An event has no place for it: a project's default is then left
/// unused.
///
/// # Errors
/// Returns an error if `--unit` is given for an event.
fn exported_unit<'a>(
    question: &'a QuestionArgs,
    export: mechanism::Export,
    output: &mut Output,
) -> Result<Option<&'a UnitName>> {
    match (export, &question.unit) {
        (mechanism::Export::DpEvent, Some(_)) if output.leaves("unit") => Ok(None),
        (mechanism::Export::DpEvent, Some(unit)) => bail!(
            "--unit: an event does not say what one record is, got {unit}; --export mechanism keeps it"
        ),
        (_, unit) => Ok(unit.as_ref()),
    }
}

/// Refuses --delta: δ belongs to the noise that is found for an ε, and what runs has none. A
/// project's default is left unused.
fn no_delta(question: &QuestionArgs, output: &mut Output) -> Result<()> {
    match question.delta {
        Some(delta) if !output.leaves("delta") => {
            bail!("--delta: applies to --export only with --epsilon, got {delta}")
        }
        _ => Ok(()),
    }
}

fn guarantees(question: &plan::Question, outcome: &OutcomeArgs, output: Output) -> Result<Exit> {
    let document = match output.in_full() {
        true => answer::answer(question)?,
        false => answer::in_brief(question)?,
    };
    let mut document = answer::held_to(question, document, outcome.max_epsilon)?;
    document.inputs = document.inputs.given("max_epsilon", outcome.max_epsilon)?;
    let narrower = question.run.narrower();
    if let Some(place) = &outcome.plot {
        if let Some(recipe) = narrower {
            bail!("--plot: plots the promise for whole records, and {recipe} promises less");
        }
        let drawing = answer::figure::privacy_curve(&question.plan)?.to_svg()?;
        write_file(place, drawing.as_bytes()).context("--plot")?;
    }
    let limit = answer::limit(&document, outcome.max_epsilon);
    let mut page = answer::guarantees(question, &document, limit.as_ref());
    if output.draws() && narrower.is_none() {
        // If the curve can't be certified, only the table is shown.
        if let Ok(drawing) = answer::figure::privacy_curve(&question.plan) {
            page = page.section(Section::plot("The curve", drawing.to_inline_svg()?));
        }
    }
    output.answer_with_rows(&document, &page, || {
        let body = &document.body;
        let secrets = body.secrets.iter().map(SecretPosteriors::rows);
        let secrets = secrets.collect::<Result<Vec<_>>>()?;
        csv::guarantees(&[body.guarantees.clone(), secrets.concat()].concat())
    })?;
    answer::Limit::exit(limit.as_ref())
}
