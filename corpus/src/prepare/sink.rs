//! Receives the records of a pass.

use super::resume::DoneNow;
use super::run::Put;
use super::source::Phase;
use crate::error::Result;

/// The receiver of the records of a pass.
pub(super) trait Sink<O> {
    /// Receives the next record.
    fn put(&mut self, put: Put, form: O) -> Result<()>;

    /// Returns whether the pass should continue.
    fn go_on(&self, _phase: Phase) -> bool {
        true
    }

    /// Called between two batches with the progress of the pass; `last` is true if the pass ends
    /// here, unfinished.
    fn between(&mut self, _done: &DoneNow<'_>, _last: bool) -> Result<()> {
        Ok(())
    }
}

/// A sink that accepts every record and never stops the pass.
pub(super) struct All<P>(pub(super) P);

impl<O, P: FnMut(Put, O) -> Result<()>> Sink<O> for All<P> {
    fn put(&mut self, put: Put, form: O) -> Result<()> {
        self.0(put, form)
    }
}
