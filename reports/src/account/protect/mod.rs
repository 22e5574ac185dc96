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

use crate::contract::{Exit, write_file};
use crate::page::Output;
use anyhow::{Context, Result};
use cli::Protect;

/// Runs the command.
///
/// # Errors
/// Bad input, weights that cannot be certified, a promise no noise keeps, an unwritable file.
pub fn run(wish: &Protect, output: Output) -> Result<Exit> {
    let places = output::Places::open(wish)?;
    let input = input::Input::gather(wish)?;
    let found = work::protect(wish, &input)?;
    places.write(wish, &input, &found)?;
    if let Some(place) = &wish.plot {
        let drawing = figure::noise_against_kept(&found.document.body)?.to_svg()?;
        write_file(place, drawing.as_bytes()).context("--plot")?;
    }
    output.answer_with_rows(
        || Ok(found.document.to_text()?),
        || Ok(show::page(&found.document)),
        || show::csv(&found.document.body),
    )?;
    Ok(Exit::Finished)
}
