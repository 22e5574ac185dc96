//! The `audit` command.

use reticent_reports::audit::args::{Audit, GREETING};
use reticent_reports::contract::{Interrupt, main as run};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Other people's classifiers and templates run in another process of this program. If it can't be started, loading
    // one reports the error.
    #[cfg(feature = "onnx")]
    if matches!(reticent_corpus::isolate(), Ok(true)) {
        return ExitCode::SUCCESS;
    }
    reticent_reports::audit::grid::end_with_parent();
    run(GREETING, |audit: Audit| {
        reticent_reports::audit::run(&audit, &Interrupt::listen()?)
    })
}
