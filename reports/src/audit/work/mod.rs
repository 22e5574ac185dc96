//! The commands' work: each reads its arguments, calls the crates in order, and prints one report.

#[cfg(feature = "audit")]
mod attack;
#[cfg(feature = "audit")]
mod convert;
#[cfg(feature = "audit")]
mod demo;
#[cfg(feature = "audit")]
mod exposure;
mod incidence;
#[cfg(feature = "audit")]
mod material;
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
mod redact;
#[cfg(feature = "audit")]
mod train;

use super::cli::{Audit, Command};
use super::{epsilon, membership, simulate};
use crate::contract::{Exit, Interrupt};
use anyhow::Result;

/// Runs a parsed command.
///
/// # Errors
/// Whatever keeps the command from finishing.
pub fn run(audit: &Audit, interrupt: &Interrupt) -> Result<Exit> {
    let format = audit.format;
    match &audit.command {
        Command::Simulate(simulation) => {
            simulate::run(&simulation.what, format, interrupt)?;
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
        Command::Membership(asked) => membership::run(asked, format, interrupt),
        Command::Epsilon(asked) => epsilon::run(asked, format),
        Command::Prepare(asked) => prepare::run(asked, format, interrupt),
        Command::Neighbours(asked) => neighbours::run(asked, format, interrupt),
        Command::Redact(asked) => redact::run(asked, format, interrupt),
        Command::Incidence(asked) => incidence::run(asked, format, interrupt),
        #[cfg(feature = "audit")]
        Command::Demo(asked) => demo::run(asked, format, interrupt),
        #[cfg(feature = "audit")]
        Command::Train(asked) => train::run(asked, format, interrupt),
        #[cfg(feature = "audit")]
        Command::Perplexity(asked) => perplexity::run(asked, format, interrupt),
        #[cfg(feature = "audit")]
        Command::Convert(asked) => convert::run(asked, format),
        #[cfg(feature = "audit")]
        Command::Exposure(asked) => exposure::run(asked, format, interrupt),
        #[cfg(not(feature = "audit"))]
        Command::Demo(_)
        | Command::Train(_)
        | Command::Perplexity(_)
        | Command::Convert(_)
        | Command::Exposure(_) => {
            anyhow::bail!("this build has no engine; build with the default features")
        }
    }
}
