//! Who is given the records of a pass.

use super::resume::DoneNow;
use super::run::Put;
use super::source::Phase;
use crate::error::Result;

/// Who is given the records of a pass.
pub(super) trait Sink<O> {
    /// The next record.
    fn put(&mut self, put: Put, form: O) -> Result<()>;

    /// Whether the pass goes on.
    fn go_on(&self, passage: Phase) -> bool;

    /// Between two batches: how far the pass is, and whether it ends here, unfinished.
    fn between(&mut self, done: &DoneNow<'_>, last: bool) -> Result<()>;
}

/// A sink that wants everything.
pub(super) struct All<P>(pub(super) P);

impl<O, P: FnMut(Put, O) -> Result<()>> Sink<O> for All<P> {
    fn put(&mut self, put: Put, form: O) -> Result<()> {
        self.0(put, form)
    }

    fn go_on(&self, _: Phase) -> bool {
        true
    }

    fn between(&mut self, _: &DoneNow<'_>, _: bool) -> Result<()> {
        Ok(())
    }
}
