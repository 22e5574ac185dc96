//! How often it is said on the disk how far work is.

use crate::error::Result;
use std::time::{Duration, Instant};

/// A checkpoint comes after so many times as long as the last one took: they cost a fiftieth at
/// most.
const RARE: u32 = 50;

/// When the next checkpoint is due.
#[derive(Debug)]
pub(crate) struct Pace {
    pause: Duration,
    /// The last one, and how long it took.
    since: Instant,
    cost: Duration,
}

impl Pace {
    /// So long a pause at least; none: after every batch.
    pub(crate) fn new(pause: Duration) -> Self {
        Self {
            pause,
            since: Instant::now(),
            cost: Duration::ZERO,
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.pause.is_zero() || self.since.elapsed() >= self.pause.max(RARE * self.cost)
    }

    /// Makes one, and takes its time.
    pub(crate) fn keep(&mut self, checkpoint: impl FnOnce() -> Result<()>) -> Result<()> {
        let began = Instant::now();
        checkpoint()?;
        self.since = Instant::now();
        self.cost = self.since - began;
        Ok(())
    }
}
