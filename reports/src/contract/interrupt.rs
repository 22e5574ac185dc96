//! Ctrl-C: a flag that long work polls.

use super::{Exit, Interrupted, note};
use anyhow::{Context, Result};
use reticent_disk::drop_unfinished;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A safe point that takes longer to come is not waited for.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Whether Ctrl-C (or a termination signal) has come.
///
/// The first one asks: long work polls [`Interrupt::check`] at its safe points, and ends
/// with [`Interrupted`], so that temporary files are dropped. Where none comes within a second and a half, the
/// command ends there, as it would by a kill, but without its temporary files. A second one ends at once.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts listening; once in a process.
    ///
    /// # Errors
    /// When a handler is installed already, or the system refuses.
    pub fn listen() -> Result<Self> {
        let interrupt = Self::default();
        let flag = Arc::clone(&interrupt.0);
        ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::SeqCst) {
                std::process::exit(Exit::INTERRUPTED.into());
            }
            note("stopping at the next safe point (again to stop at once)");
            std::thread::spawn(|| {
                std::thread::sleep(PATIENCE);
                // What was finished stays; a kill at any point leaves no half file under a name of ours.
                drop_unfinished();
                note("interrupted before a safe point came; what was not saved is lost");
                std::process::exit(Exit::INTERRUPTED.into());
            });
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(interrupt)
    }
    /// Whether to stop.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
    /// Goes on, or breaks off: what the progress callbacks of the other crates answer.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.raised() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
    /// The flag itself, for work in crates that know nothing of commands.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
    /// Goes on, or ends with [`Interrupted`].
    ///
    /// # Errors
    /// After a signal.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.raised() {
            Err(Interrupted::default())
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_flag_stops_the_next_check() {
        let interrupt = Interrupt::default();
        assert!(interrupt.check().is_ok());
        interrupt.flag().store(true, Ordering::SeqCst);
        assert!(interrupt.clone().check().is_err());
    }
}
