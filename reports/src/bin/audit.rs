//! The `audit` command.

use reticent_reports::audit;
use reticent_reports::audit::args::{Audit, GREETING};
use reticent_reports::contract::{Interrupt, main as main_of};
use std::process::ExitCode;

fn main() -> ExitCode {
    if audit::begin() {
        return ExitCode::SUCCESS;
    }
    main_of(GREETING, |arguments: Audit| {
        audit::run(&arguments, &Interrupt::listen()?)
    })
}
