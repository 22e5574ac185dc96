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
mod words;

#[cfg(test)]
mod tests;

use crate::contract::{Exit, print, write_file};
use crate::page::View;
use anyhow::{Context, Result, bail};
use cli::{Account, Command, Format, OutcomeArgs, PlanArgs, QuestionArgs};
use secrets::SecretPosteriors;

/// Runs the command.
///
/// # Errors
/// Bad input, a plan that can't be accounted, an unwritable file.
pub fn run(arguments: &Account) -> Result<Exit> {
    let format = arguments.format;
    let view = View::of_terminal(arguments.verbose);
    let page = match &arguments.command {
        Some(command) => matches!(command, Command::Plan(_)),
        None => arguments.plan.is_page(),
    };
    if format == Format::Html && !page {
        bail!("--format: html is for account plan, --prepared and --recipe");
    }
    match &arguments.command {
        Some(Command::Plan(wish)) => {
            let plan = sheet::of_file(&wish.file)?;
            return sheet::show(&plan, wish.max_epsilon, format, view);
        }
        Some(Command::Curve(wish)) => {
            let document = curve::curve(wish)?;
            if let Some(place) = &wish.plot {
                let drawing = curve::drawing(wish, &document)?.to_svg()?;
                write_file(place, drawing.as_bytes()).context("--plot")?;
            }
            print(&match format {
                Format::Json => document.to_text()?,
                Format::Text | Format::Html => curve::page(&document).to_text(view),
                Format::Csv => curve::csv(&document.body)?,
            })?;
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
                format,
                view,
            );
        }
        Some(Command::Explain(wish)) => {
            let neighbours =
                plan::neighbours_of(wish.question.neighbours, wish.run.schedule.sampler);
            let source = plan::Source::of_run(&wish.run, neighbours)?;
            let asked = plan::Asked::about(source, &wish.question)?;
            let document = explain::explain(&asked)?;
            print(&match format {
                Format::Json => document.to_text()?,
                Format::Text | Format::Html => explain::page(&asked, &document).to_text(View {
                    verbose: true,
                    ..view
                }),
                Format::Csv => bail!("--format: an explanation is text or json, got csv"),
            })?;
        }
        Some(Command::Calibrate(wish)) => {
            let document = calibration::calibrate(wish)?;
            print(&match format {
                Format::Json => document.to_text()?,
                Format::Text | Format::Html => text::calibration(&document).to_text(view),
                Format::Csv => csv::calibration(&document.body)?,
            })?;
        }
        Some(Command::Protect(wish)) => return protect::run(wish, format, view),
        Some(Command::Completions(completions)) => completions.run::<cli::Account>()?,
        Some(Command::Man(page)) => page.run::<cli::Account>()?,
        None => {
            let plan = &arguments.plan;
            if let Some(export) = plan.outcome.export {
                return exported(plan, export);
            }
            if plan.is_page() {
                let described = sheet::of_request(&plan.request())?;
                return sheet::show(&described, plan.outcome.max_epsilon, format, view);
            }
            return guarantees(&plan::Asked::new(plan)?, &plan.outcome, format, view);
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

fn guarantees(
    asked: &plan::Asked,
    outcome: &OutcomeArgs,
    format: Format,
    view: View,
) -> Result<Exit> {
    let document = answer::answer(asked)?;
    if let Some(place) = &outcome.plot {
        let drawing = figure::privacy_curve(&asked.plan)?.to_svg()?;
        write_file(place, drawing.as_bytes()).context("--plot")?;
    }
    let limit = answer::limit(&document.body, outcome.max_epsilon);
    print(&match format {
        Format::Json => document.to_text()?,
        Format::Text | Format::Html => {
            text::guarantees(asked, &document, limit.as_ref()).to_text(view)
        }
        Format::Csv => {
            let body = &document.body;
            let secrets = body.secrets.iter().map(SecretPosteriors::rows);
            let secrets = secrets.collect::<Result<Vec<_>>>()?;
            csv::guarantees(&[body.guarantees.clone(), secrets.concat()].concat())?
        }
    })?;
    Ok(match limit {
        Some(limit) if limit.passed => Exit::Exceeded,
        _ => Exit::Finished,
    })
}
