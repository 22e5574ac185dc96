//! From the command line to the command.

use super::args::{Audit, Command};
#[cfg(feature = "audit")]
use super::{convert, demo, exposure, extract, loaded_model, perplexity, report, train};
use super::{
    diff, epsilon, figure, incidence, membership, neighbours, policy, prepare, redact, screen,
    simulate,
};
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
            membership::run::run(asked, output, interrupt)
        }
        Command::Membership(asked) => {
            // Without an engine.
            anyhow::ensure!(asked.on.of.source().is_err(), NO_ENGINE);
            membership::run(asked, output, interrupt)
        }
        Command::Epsilon(asked) => epsilon::run(asked, output),
        Command::Diff(asked) => diff::run(asked, output),
        Command::Figure(asked) => figure::run(asked, output),
        Command::Policy(asked) => policy::run(asked, output, interrupt),
        Command::Screen(asked) => screen::run(asked, output, interrupt),
        Command::Prepare(asked) => prepare::run::run(asked, output, interrupt),
        Command::Neighbours(asked) => neighbours::run::run(asked, output, interrupt),
        Command::Redact(asked) => redact::run::run(asked, output, interrupt),
        Command::Incidence(asked) => incidence::run::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Demo(asked) => demo::run::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Train(asked) => train::run::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Perplexity(asked) => perplexity::run::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Convert(asked) => convert::run::run(asked, output),
        #[cfg(feature = "audit")]
        Command::Exposure(asked) => exposure::run::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Extract(asked) => extract::run::run(asked, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Serve(asked) => loaded_model::answer(asked, interrupt),
        #[cfg(feature = "audit")]
        Command::Report(asked) => report::run::run(asked, output, interrupt),
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
