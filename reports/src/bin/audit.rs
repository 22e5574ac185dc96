//! The `audit` command.

use reticent_reports::audit::args::{Audit, GREETING};
use reticent_reports::contract::{Interrupt, main as run};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(GREETING, |audit: Audit| {
        reticent_reports::audit::run(&audit, &Interrupt::listen()?)
    })
}
