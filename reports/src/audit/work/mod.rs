//! The commands' work: each reads its arguments, calls the crates in order, and prints one report.

#[cfg(feature = "audit")]
mod attack;
#[cfg(feature = "audit")]
mod convert;
#[cfg(feature = "audit")]
mod demo;
#[cfg(feature = "audit")]
mod exposure;
#[cfg(feature = "audit")]
mod extract;
mod incidence;
#[cfg(feature = "audit")]
mod loaded_model;
#[cfg(feature = "audit")]
mod material;
#[cfg(feature = "audit")]
mod membership;
#[cfg(feature = "audit")]
mod model;
mod neighbours;
#[cfg(feature = "audit")]
mod options;
#[cfg(feature = "audit")]
mod perplexity;
mod prepare;
#[cfg(feature = "audit")]
mod promise;
mod reading;
#[cfg(feature = "audit")]
mod records;
mod redact;
#[cfg(feature = "audit")]
mod report;
mod secrets;
#[cfg(feature = "audit")]
mod shadow;
#[cfg(feature = "audit")]
mod train;

use super::cli::{Audit, Command};
use super::{diff, epsilon, figure, membership as scores, policy, screen, simulate};
use crate::contract::{Exit, Interrupt};
use crate::page::{Output, View};
use anyhow::Result;

/// What a build without the feature `audit` says to commands that need a model.
const NO_ENGINE: &str = "this build has no engine; build with the default features";

/// Runs a parsed command.
///
/// # Errors
/// Whatever keeps the command from finishing.
pub fn run(audit: &Audit, interrupt: &Interrupt) -> Result<Exit> {
    let output = Output::new(audit.format, View::of_terminal(audit.verbose));
    match &audit.command {
        Command::Simulate(simulation) => {
            simulate::run(&simulation.what, output, interrupt)?;
            Ok(Exit::Finished)
        }
        Command::Completions(completions) => {
            completions.run::<Audit>()?;
            Ok(Exit::Finished)
        }
        Command::Man(page) => {
            page.run::<Audit>()?;
            Ok(Exit::Finished)
        }
        #[cfg(feature = "audit")]
        Command::Membership(asked) if asked.on.of.source().is_ok() => {
            membership::run(asked, output, interrupt)
        }
        Command::Membership(asked) => {
            // Without an engine.
            anyhow::ensure!(asked.on.of.source().is_err(), NO_ENGINE);
            scores::run(asked, output, interrupt)
        }
        Command::Epsilon(asked) => epsilon::run(asked, output),
        Command::Diff(asked) => diff::run(asked, output),
        Command::Figure(asked) => figure::run(asked, output),
        Command::Policy(asked) => policy::run(asked, output, interrupt),
        Command::Screen(asked) => screen::run(asked, output, interrupt),
        Command::Prepare(asked) => prepare::run(asked, output, interrupt),
        Command::Neighbours(asked) => neighbours::run(asked, output, interrupt),
        Command::Redact(asked) => redact::run(asked, output, interrupt),
        Command::Incidence(asked) => incidence::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Demo(asked) => demo::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Train(asked) => train::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Perplexity(asked) => perplexity::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Convert(asked) => convert::run(asked, output),
        #[cfg(feature = "audit")]
        Command::Exposure(asked) => exposure::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Extract(asked) => extract::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Serve(asked) => loaded_model::answer(asked, interrupt),
        #[cfg(feature = "audit")]
        Command::Report(asked) => report::run(asked, output, interrupt),
        #[cfg(not(feature = "audit"))]
        Command::Demo(_)
        | Command::Train(_)
        | Command::Perplexity(_)
        | Command::Convert(_)
        | Command::Extract(_)
        | Command::Report(_)
        | Command::Serve(_)
        | Command::Exposure(_) => {
            anyhow::bail!(NO_ENGINE)
        }
    }
}
