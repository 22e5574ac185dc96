//! Ctrl-C handling: a flag that long work polls.

use super::{Exit, Interrupted, note};
use anyhow::{Context, Result};
use reticent_disk::drop_unfinished;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long to wait for a safe point.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A flag that is set by Ctrl-C or a termination signal.
///
/// The first signal is a request: long work polls [`Interrupt::check`] at its safe points and ends with
/// [`Interrupted`], so that temporary files are dropped. If no safe point comes within a second and a half,
/// the command exits as if killed, but without its temporary files. With a second signal it does so at once.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts listening; may be called once in a process.
    ///
    /// # Errors
    /// Returns an error if a handler is installed already or the system refuses.
    pub fn listen() -> Result<Self> {
        let interrupt = Self::default();
        let flag = Arc::clone(&interrupt.0);
        ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::SeqCst) {
                end();
            }
            note("stopping at the next safe point (again to stop at once)");
            std::thread::spawn(|| {
                std::thread::sleep(PATIENCE);
                note("interrupted before a safe point came; what was not saved is lost; a command with checkpoints resumes from its last one");
                end();
            });
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(interrupt)
    }
    /// Returns whether to stop.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
    /// Returns `Break` after a signal, as the progress callbacks of the other crates expect.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.raised() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
    /// Returns the flag itself, for work in crates that don't know about commands.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
    /// Returns what work gave that the flag can stop: after a signal, not its own error about that.
    ///
    /// # Errors
    /// Returns [`Interrupted`] after a signal, and otherwise the error of the work.
    pub fn unless_raised<T, E: Into<anyhow::Error>>(&self, done: Result<T, E>) -> Result<T> {
        self.check()?;
        done.map_err(Into::into)
    }
    /// Returns [`Interrupted`] after a signal.
    ///
    /// # Errors
    /// Returns an error after a signal.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.raised() {
            Err(Interrupted::default())
        } else {
            Ok(())
        }
    }
}

/// Ends the process without its temporary files and locks. Finished files stay; a kill at any point leaves no incomplete file
/// under its final name. Nothing may follow the removal of locks.
fn end() -> ! {
    drop_unfinished();
    std::process::exit(Exit::INTERRUPTED.into());
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
