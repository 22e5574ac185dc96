//! The `audit` command.

use reticent_reports::audit::args::{Audit, GREETING};
use reticent_reports::contract::{Interrupt, main as run};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Classifiers and templates of others run in this program, started again; where it cannot be, loading one says so.
    #[cfg(feature = "onnx")]
    if matches!(reticent_corpus::isolate(), Ok(true)) {
        return ExitCode::SUCCESS;
    }
    reticent_reports::audit::grid::end_with_parent();
    run(GREETING, |audit: Audit| {
        reticent_reports::audit::run(&audit, &Interrupt::listen()?)
    })
}
