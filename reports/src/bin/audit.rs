//! The `audit` command.

use anyhow::bail;
use reticent_reports::audit::cli::{Audit, Command};
use reticent_reports::audit::simulate;
use reticent_reports::contract::{Exit, Interrupt, main as run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(|audit: Audit| {
        let interrupt = Interrupt::listen()?;
        match &audit.command {
            Command::Simulate(simulation) => {
                simulate::run(&simulation.what, audit.format, &interrupt)?;
            }
            Command::Completions(completions) => completions.run()?,
            Command::Demo(_)
            | Command::Prepare(_)
            | Command::Train(_)
            | Command::Perplexity(_)
            | Command::Exposure(_) => bail!("this build has no engine for it yet"),
        }
        Ok(Exit::Finished)
    })
}
