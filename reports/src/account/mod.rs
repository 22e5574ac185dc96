//! The `account` command: what does a training plan promise, before anyone trains?
//!
//! [`cli`] parses without side effects, [`mechanism`] reads what runs from files, [`plan`] turns
//! arguments into a plan and says what it assumed, [`answer`], [`calibration`], [`curve`] and
//! [`explain`] compute, [`text`] and [`figure`] show.

pub mod answer;
pub mod calibration;
pub mod cli;
mod csv;
pub mod curve;
pub mod explain;
pub mod figure;
pub mod mechanism;
pub mod plan;
pub mod protect;
pub mod secrets;
pub mod sheet;
pub mod text;
pub(crate) mod words;

#[cfg(test)]
mod tests;

use crate::contract::{Exit, print, write_file};
use crate::page::{Output, View};
use anyhow::{Context, Result, bail};
use cli::{Account, Command, OutcomeArgs, PlanArgs, QuestionArgs};
use secrets::SecretPosteriors;

/// Runs the command.
///
/// # Errors
/// Bad input, a plan that can't be accounted, an unwritable file.
pub fn run(arguments: &Account) -> Result<Exit> {
    let output = Output::new(arguments.format, View::of_terminal(arguments.verbose));
    match &arguments.command {
        Some(Command::Plan(wish)) => {
            let plan = sheet::of_file(&wish.file)?;
            return sheet::show(&plan, wish.max_epsilon, output);
        }
        Some(Command::Curve(wish)) => {
            let document = curve::curve(wish)?;
            if let Some(place) = &wish.plot {
                let drawing = curve::drawing(wish, &document)?.to_svg()?;
                write_file(place, drawing.as_bytes()).context("--plot")?;
            }
            output.answer_with_rows(
                || Ok(document.to_text()?),
                || Ok(curve::page(&document)),
                || curve::csv(&document.body),
            )?;
        }
        Some(Command::Compose(wish)) => {
            let neighbours = plan::neighbours(wish.question.neighbours);
            let source = plan::Source::of_files(&wish.files, neighbours)?;
            if let Some(export) = wish.outcome.export {
                no_delta(&wish.question)?;
                print(&mechanism::export(&source.mechanism, export, neighbours)?)?;
                return Ok(Exit::Finished);
            }
            return guarantees(
                &plan::Asked::about(source, &wish.question)?,
                &wish.outcome,
                output,
            );
        }
        Some(Command::Explain(wish)) => {
            let neighbours =
                plan::neighbours_of(wish.question.neighbours, wish.run.schedule.sampler);
            let source = plan::Source::of_run(&wish.run, neighbours)?;
            let asked = plan::Asked::about(source, &wish.question)?;
            let document = explain::explain(&asked)?;
            output.in_full().answer(
                || Ok(document.to_text()?),
                || Ok(explain::page(&asked, &document)),
            )?;
        }
        Some(Command::Calibrate(wish)) => {
            let document = calibration::calibrate(wish)?;
            output.answer_with_rows(
                || Ok(document.to_text()?),
                || Ok(text::calibration(&document)),
                || csv::calibration(&document.body),
            )?;
        }
        Some(Command::Protect(wish)) => return protect::run(wish, output),
        Some(Command::Completions(completions)) => completions.run::<cli::Account>()?,
        Some(Command::Man(page)) => page.run::<cli::Account>()?,
        None => {
            let plan = &arguments.plan;
            if let Some(export) = plan.outcome.export {
                return exported(plan, export);
            }
            if plan.is_page() {
                let described = sheet::of_request(&plan.request())?;
                return sheet::show(&described, plan.outcome.max_epsilon, output);
            }
            return guarantees(&plan::Asked::new(plan)?, &plan.outcome, output);
        }
    }
    Ok(Exit::Finished)
}

/// What runs, for other programs.
fn exported(plan: &PlanArgs, export: mechanism::Export) -> Result<Exit> {
    if plan.epsilon.is_none() {
        no_delta(&plan.question)?;
    }
    let neighbours = plan::neighbours_of(plan.question.neighbours, plan.run.schedule.sampler);
    let mechanism = match plan.is_page() {
        true => sheet::of_request(&plan.request())?.plan.mechanism(),
        false => plan::Source::of_plan(plan, neighbours)?.mechanism,
    };
    print(&mechanism::export(&mechanism, export, neighbours)?)?;
    Ok(Exit::Finished)
}

/// δ belongs to the noise that is found for an ε; what runs has none.
fn no_delta(question: &QuestionArgs) -> Result<()> {
    match question.delta {
        Some(delta) => bail!("--delta: belongs to --export only with --epsilon, got {delta}"),
        None => Ok(()),
    }
}

fn guarantees(asked: &plan::Asked, outcome: &OutcomeArgs, output: Output) -> Result<Exit> {
    let document = answer::answer(asked)?;
    if let Some(place) = &outcome.plot {
        let drawing = figure::privacy_curve(&asked.plan)?.to_svg()?;
        write_file(place, drawing.as_bytes()).context("--plot")?;
    }
    let limit = answer::limit(&document.body, outcome.max_epsilon);
    output.answer_with_rows(
        || Ok(document.to_text()?),
        || Ok(text::guarantees(asked, &document, limit.as_ref())),
        || {
            let body = &document.body;
            let secrets = body.secrets.iter().map(SecretPosteriors::rows);
            let secrets = secrets.collect::<Result<Vec<_>>>()?;
            csv::guarantees(&[body.guarantees.clone(), secrets.concat()].concat())
        },
    )?;
    Ok(match limit {
        Some(limit) if limit.passed => Exit::Exceeded,
        _ => Exit::Finished,
    })
}
