//! Several workers, one noise: sums travel to rank 0, updates travel back.

#[cfg(feature = "tcp")]
mod tcp;
mod threads;

#[cfg(feature = "tcp")]
pub use tcp::{Tcp, TcpOptions};
pub use threads::Threads;

use crate::error::{Error, Result};

/// What data-parallel training needs of its workers. All of them call the same methods in the same order.
pub trait Collective: Send {
    /// This worker's number, from 0.
    fn rank(&self) -> usize;
    /// Number of workers.
    fn world(&self) -> usize;
    /// On rank 0, `values` becomes the sum over all workers, by pairs of neighbouring ranks: (0 + 1) + (2 + 3).
    ///
    /// # Errors
    /// A worker that is gone.
    fn sum_to_zero(&mut self, values: &mut [f32]) -> Result<()>;
    /// On every worker, `values` becomes rank 0's.
    ///
    /// # Errors
    /// A worker that is gone.
    fn broadcast(&mut self, values: &mut [f32]) -> Result<()>;
    /// A few bytes of every worker, in the order of ranks, on every worker.
    ///
    /// # Errors
    /// A worker that is gone.
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
}

/// One worker.
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

/// Adds neighbours, then the sums of neighbours: where every worker adds up its own part in this way, the result has
/// the same bits for any number of workers that is a power of two.
fn sum_of_pairs(mut parts: Vec<Vec<f32>>) -> Vec<f32> {
    while parts.len() > 1 {
        let mut sums = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(mut left) = rest.next() {
            if let Some(right) = rest.next() {
                add(&mut left, &right);
            }
            sums.push(left);
        }
        parts = sums;
    }
    parts.pop().unwrap_or_default()
}

/// left += right.
pub(crate) fn add(left: &mut [f32], right: &[f32]) {
    left.iter_mut().zip(right).for_each(|(l, r)| *l += r);
}

fn gone(rank: usize) -> Error {
    Error::Worker(format!(
        "worker {rank} is gone; all workers, started again, go on from the last snapshot"
    ))
}
