//! Data-parallel training with one source of noise: sums travel to rank 0, updates travel back.

#[cfg(feature = "tcp")]
mod tcp;
mod threads;

#[cfg(feature = "tcp")]
pub use tcp::{Tcp, TcpOptions};
pub use threads::Threads;

use crate::error::{Error, Result};

/// The operations that data-parallel training needs from its workers. All workers call the same methods in the same
/// order.
pub trait Collective: Send {
    /// Returns this worker's number, from 0.
    fn rank(&self) -> usize;
    /// Returns the number of workers.
    fn world(&self) -> usize;
    /// On rank 0, replaces `values` by the sum over all workers, by pairs of neighbouring ranks: (0 + 1) + (2 + 3).
    ///
    /// # Errors
    /// Returns an error if a worker is gone.
    fn sum_to_zero(&mut self, values: &mut [f32]) -> Result<()>;
    /// On every worker, replaces `values` by rank 0's.
    ///
    /// # Errors
    /// Returns an error if a worker is gone.
    fn broadcast(&mut self, values: &mut [f32]) -> Result<()>;
    /// Returns a few bytes of every worker, in the order of ranks, on every worker.
    ///
    /// # Errors
    /// Returns an error if a worker is gone.
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
}

/// A single worker.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

impl Collective for Local {
    fn rank(&self) -> usize {
        0
    }
    fn world(&self) -> usize {
        1
    }
    fn sum_to_zero(&mut self, _: &mut [f32]) -> Result<()> {
        Ok(())
    }
    fn broadcast(&mut self, _: &mut [f32]) -> Result<()> {
        Ok(())
    }
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![mine.to_vec()])
    }
}

/// Adds neighbouring parts, then neighbouring sums. If every worker sums its own part in this way, the result is
/// bit-identical for any number of workers that is a power of two.
fn sum_of_pairs(mut parts: Vec<Vec<f32>>) -> Vec<f32> {
    while parts.len() > 1 {
        let mut sums = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(mut left) = rest.next() {
            if let Some(right) = rest.next() {
                accumulate(&mut left, &right);
            }
            sums.push(left);
        }
        parts = sums;
    }
    parts.pop().unwrap_or_default()
}

/// Adds the part of another worker to sums: sums += part.
pub fn accumulate(sums: &mut [f32], part: &[f32]) {
    sums.iter_mut()
        .zip(part)
        .for_each(|(sum, value)| *sum += value);
}

fn gone(rank: usize) -> Error {
    Error::Worker(format!(
        "worker {rank} is gone; all workers, started again, go on from the last snapshot"
    ))
}
