//! The `account` command.

use reticent_reports::account::{
    args::{Account, GREETING},
    run,
};
use reticent_reports::contract::main as begin;
use std::process::ExitCode;

fn main() -> ExitCode {
    give_back_memory();
    begin(GREETING, |arguments: Account| run(&arguments))
}

/// Lets glibc return freed memory to the system.
///
/// After a large block was freed, glibc keeps blocks of that size for later: after grids of a million lines
/// this is a quarter of all memory. A threshold that we set turns this off.
fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a setting of the C library")]
    // SAFETY: mallopt takes any numbers, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10);
    }
}
