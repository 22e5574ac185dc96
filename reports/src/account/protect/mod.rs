//! `account protect`: what noise, and which examples, keep the promises about a set of secrets?
//!
//! [`args`] parses, [`read`] streams the files, [`input`] combines them, [`run`] computes the [`document`],
//! [`page`] and [`figure`] show it, [`output`] writes posteriors, and [`weights`] writes what a trainer needs.

pub(crate) mod args;
pub(crate) mod document;
pub(crate) mod figure;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod page;
pub(crate) mod read;
pub(crate) mod run;
pub(crate) mod weights;

#[cfg(test)]
mod tests;

use crate::contract::{Exit, write_file};
use crate::page::Output;
use anyhow::{Context, Result};
use args::Protect;

/// Runs the command.
///
/// # Errors
/// Returns an error on bad input, if weights can't be certified, if no noise keeps a promise, or if a file
/// can't be written.
pub(crate) fn run(wish: &Protect, output: Output) -> Result<Exit> {
    let places = output::Places::open(wish)?;
    let input = input::Input::gather(wish)?;
    let found = run::protect(wish, &input)?;
    places.write(wish, &input, &found)?;
    if let Some(place) = &wish.plot {
        let drawing = figure::noise_against_kept(&found.document.body)?.to_svg()?;
        write_file(place, drawing.as_bytes()).context("--plot")?;
    }
    output.answer_with_rows(&found.document, &page::page(&found.document), || {
        page::csv(&found.document.body)
    })
}
