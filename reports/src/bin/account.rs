//! The `account` command.

use reticent_reports::account::{cli::Account, run};
use reticent_reports::contract::main as begin;
use std::process::ExitCode;

fn main() -> ExitCode {
    begin(|arguments: Account| run(&arguments))
}
