//! How often checkpoints are written.

use crate::error::Result;
use std::time::{Duration, Instant};

/// A checkpoint is due after this many times the duration of the last one, so checkpoints take at
/// most a fiftieth of the time.
const RARE: u32 = 50;

/// Tracks when the next checkpoint is due.
#[derive(Debug)]
pub(crate) struct Pace {
    pause: Duration,
    /// When the last checkpoint ended.
    since: Instant,
    cost: Duration,
}

impl Pace {
    /// `pause` is the least time between checkpoints; zero means after every batch.
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

    /// Writes a checkpoint and measures how long it takes.
    pub(crate) fn keep(&mut self, checkpoint: impl FnOnce() -> Result<()>) -> Result<()> {
        let began = Instant::now();
        checkpoint()?;
        self.since = Instant::now();
        self.cost = self.since - began;
        Ok(())
    }
}
