//! Data-parallel training with one source of noise: sums travel to rank 0, updates travel back.

#[cfg(feature = "tcp")]
mod tcp;
mod threads;

#[cfg(feature = "tcp")]
pub use tcp::{Tcp, TcpOptions};
pub use threads::Threads;

use crate::error::{Error, Result};
use rayon::prelude::*;

/// Values of a parallel part of a sum.
const BLOCK: usize = 1 << 14;

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

/// Adds neighbouring parts, then neighbouring sums, into the first. If every worker sums its own part in this way, the
/// result is bit-identical for any number of workers that is a power of two.
fn sum_pairs(first: &mut [f32], others: &mut [Vec<f32>]) {
    let others = others.iter_mut().map(Vec::as_mut_slice);
    let mut parts: Vec<&mut [f32]> = std::iter::once(first).chain(others).collect();
    let mut step = 1;
    while step < parts.len() {
        for pair in parts.chunks_mut(2 * step) {
            if let Some(([left, ..], [right, ..])) = pair.split_at_mut_checked(step) {
                accumulate(left, right);
            }
        }
        step *= 2;
    }
}

/// Adds the part of another worker to sums: sums += part.
pub fn accumulate(sums: &mut [f32], part: &[f32]) {
    let pairs = sums.par_chunks_mut(BLOCK).zip(part.par_chunks(BLOCK));
    pairs.for_each(|(sums, part)| {
        for (sum, value) in sums.iter_mut().zip(part) {
            *sum += value;
        }
    });
}

fn gone(rank: usize) -> Error {
    Error::Worker(format!(
        "worker {rank} is gone, and if it was refused something its own message says why; all workers, started again, go on from the last snapshot, or begin again if there is none"
    ))
}
