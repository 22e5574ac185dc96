//! `account protect`: what noise, and which examples, keep the promises about a set of secrets?
//!
//! [`cli`] parses, [`read`] streams the files, [`input`] makes sense of them, [`work`] computes
//! the [`document`], [`show`] and [`figure`] show it, [`output`] writes posteriors, [`weights`] what a trainer
//! needs.

pub mod cli;
pub mod document;
pub mod figure;
pub mod input;
pub mod output;
pub mod read;
pub mod show;
pub mod weights;
pub mod work;

#[cfg(test)]
mod tests;

use super::cli::Format;
use crate::contract::{Exit, print, write_file};
use crate::page::View;
use anyhow::{Context, Result, bail};
use cli::Protect;

/// Runs the command.
///
/// # Errors
/// Bad input, weights that cannot be certified, a promise no noise keeps, an unwritable file.
pub fn run(wish: &Protect, format: Format, view: View) -> Result<Exit> {
    if format == Format::Html {
        bail!("--format: a protection is text, json or csv, got html");
    }
    let places = output::Places::open(wish)?;
    let input = input::Input::gather(wish)?;
    let found = work::protect(wish, &input)?;
    places.write(wish, &input, &found)?;
    if let Some(place) = &wish.plot {
        let drawing = figure::noise_against_kept(&found.document.body)?.to_svg()?;
        write_file(place, drawing.as_bytes()).context("--plot")?;
    }
    print(&match format {
        Format::Json => found.document.to_text()?,
        Format::Csv => show::csv(&found.document.body)?,
        Format::Text | Format::Html => show::page(&found.document).to_text(view),
    })?;
    Ok(Exit::Finished)
}
