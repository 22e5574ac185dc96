//! Dispatches a parsed command line to its command.

use super::args::{Audit, Command};
#[cfg(feature = "audit")]
use super::{
    classify, coins, convert, demo, devices, exposure, extract, loaded_model, perplexity, report,
    train,
};
use super::{
    design, diff, epsilon, figure, grid, incidence, membership, neighbours, plant, policy, prepare,
    redact, reproduce, screen, simulate, tokenizer,
};
use crate::contract::{Exit, Interrupt};
use crate::page::{Output, View};
use anyhow::Result;

/// The error of commands that need a model, in a build without the feature `audit`.
pub(super) const NO_ENGINE: &str = "this build has no engine; build with the default features";

/// Runs a parsed command.
///
/// # Errors
/// Returns an error if the command can't finish.
pub fn run(audit: &Audit, interrupt: &Interrupt) -> Result<Exit> {
    let output =
        Output::new(audit.format, View::of_terminal(audit.verbose)).configured(&audit.configured);
    match &audit.command {
        Command::Simulate(simulation) => simulate::run(&simulation.what, output, interrupt),
        Command::Tokenizer(args) => tokenizer::run(args, output, interrupt),
        Command::Completions(completions) => {
            completions.run::<Audit>()?;
            Ok(Exit::Finished)
        }
        Command::Man(page) => {
            page.run::<Audit>()?;
            Ok(Exit::Finished)
        }
        #[cfg(feature = "audit")]
        Command::Membership(args) if args.on.of.source().is_ok() => {
            membership::run::run(args, output, interrupt)
        }
        Command::Membership(args) => {
            // This branch has no engine.
            anyhow::ensure!(args.on.of.source().is_err(), NO_ENGINE);
            membership::run(args, output, interrupt)
        }
        Command::Epsilon(args) => epsilon::run(args, output),
        Command::Design(args) => design::run(args, output),
        Command::Diff(args) => diff::run(args, output),
        Command::Figure(args) => figure::run(args, output),
        Command::Grid(args) => grid::run(args, output, interrupt),
        Command::Reproduce(args) => reproduce::run(args, output, interrupt),
        Command::Policy(args) => policy::run(args, output, interrupt),
        Command::Screen(args) => screen::run(args, output, interrupt),
        Command::Plant(args) => plant::run(args, output, interrupt),
        Command::Prepare(args) => prepare::run::run(args, output, interrupt),
        Command::Neighbours(args) => neighbours::run::run(args, output, interrupt),
        Command::Redact(args) => redact::run::run(args, output, interrupt),
        Command::Incidence(args) => incidence::run::run(args, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Demo(args) => demo::run::run(args, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Train(args) => train::run::run(args, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Perplexity(args) => perplexity::run::run(args, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Classify(args) => classify::run::run(args, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Convert(args) => convert::run::run(args, output),
        #[cfg(feature = "audit")]
        Command::Devices(_) => devices::run::run(output),
        #[cfg(feature = "audit")]
        Command::Coins(args) => coins::run::run(args, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Exposure(args) => exposure::run::run(args, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Extract(args) => extract::run::run(args, output, interrupt),
        #[cfg(feature = "audit")]
        Command::Serve(args) => loaded_model::answer(args, interrupt),
        #[cfg(feature = "audit")]
        Command::Report(args) => report::run::run(args, output, interrupt),
        #[cfg(not(feature = "audit"))]
        _ => anyhow::bail!(NO_ENGINE),
    }
}
