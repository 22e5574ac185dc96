//! The `account` command: what does a training plan promise, before anyone trains?
//!
//! [`cli`] parses without side effects, [`plan`] turns arguments into a plan and says what it
//! assumed, [`answer`] and [`calibration`] compute, [`text`] and [`figure`] show.

pub mod answer;
pub mod calibration;
pub mod cli;
pub mod figure;
pub mod plan;
pub mod text;
mod words;

#[cfg(test)]
mod tests;

use crate::contract::{Exit, Format, print, write_file};
use anyhow::{Context, Result};
use cli::{Account, Command};

/// Runs the command.
///
/// # Errors
/// Bad input, a plan that can't be accounted, an unwritable file.
pub fn run(arguments: &Account) -> Result<Exit> {
    match &arguments.command {
        Some(Command::Calibrate(wish)) => {
            let document = calibration::calibrate(wish)?;
            let shown = match arguments.format {
                Format::Json => document.to_text()?,
                Format::Text => text::calibration(&document),
            };
            print(&shown)?;
            Ok(Exit::Finished)
        }
        Some(Command::Completions(completions)) => {
            completions.run()?;
            Ok(Exit::Finished)
        }
        None => guarantees(arguments),
    }
}

fn guarantees(arguments: &Account) -> Result<Exit> {
    let asked = plan::Asked::new(&arguments.plan)?;
    let document = answer::answer(&asked)?;
    if let Some(place) = &arguments.plan.plot {
        let drawing = figure::privacy_curve(&asked.plan)?.to_svg()?;
        write_file(place, drawing.as_bytes()).context("--plot")?;
    }
    let limit = answer::limit(&document.body, arguments.plan.max_epsilon);
    let shown = match arguments.format {
        Format::Json => document.to_text()?,
        Format::Text => text::guarantees(&asked, &document, limit.as_ref()),
    };
    print(&shown)?;
    Ok(match limit {
        Some(limit) if limit.passed => Exit::Exceeded,
        _ => Exit::Finished,
    })
}
