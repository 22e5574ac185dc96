//! Several workers, one noise: sums travel to rank 0, updates travel back.

use crate::error::{Error, Result};
use std::sync::{Arc, Barrier, Mutex};

/// What data-parallel training needs of its workers.
pub trait Collective: Send {
    /// This worker's number, from 0.
    fn rank(&self) -> usize;
    /// Number of workers.
    fn world(&self) -> usize;
    /// On rank 0, `values` becomes the sum over all workers, in the order of their ranks.
    ///
    /// # Errors
    /// A worker that is gone.
    fn sum_to_zero(&mut self, values: &mut [f32]) -> Result<()>;
    /// On every worker, `values` becomes rank 0's.
    ///
    /// # Errors
    /// A worker that is gone.
    fn broadcast(&mut self, values: &mut [f32]) -> Result<()>;
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
}

/// Several workers as threads of one process: for tests of the data-parallel path.
pub struct Threads {
    rank: usize,
    shared: Arc<Shared>,
}

struct Shared {
    slots: Vec<Mutex<Vec<f32>>>,
    barrier: Barrier,
}

impl Threads {
    /// One collective per worker.
    #[must_use]
    pub fn of(world: usize) -> Vec<Self> {
        let shared = Arc::new(Shared {
            slots: (0..world).map(|_| Mutex::new(Vec::new())).collect(),
            barrier: Barrier::new(world),
        });
        (0..world)
            .map(|rank| Self {
                rank,
                shared: shared.clone(),
            })
            .collect()
    }
    fn put(&self, values: &[f32]) -> Result<()> {
        *self.shared.slots[self.rank].lock().map_err(|_| gone())? = values.to_vec();
        Ok(())
    }
}

fn gone() -> Error {
    Error::Engine("a worker of the collective is gone".into())
}

impl Collective for Threads {
    fn rank(&self) -> usize {
        self.rank
    }
    fn world(&self) -> usize {
        self.shared.slots.len()
    }
    fn sum_to_zero(&mut self, values: &mut [f32]) -> Result<()> {
        self.put(values)?;
        self.shared.barrier.wait();
        if self.rank == 0 {
            for slot in &self.shared.slots[1..] {
                let other = slot.lock().map_err(|_| gone())?;
                values.iter_mut().zip(&*other).for_each(|(v, o)| *v += o);
            }
        }
        self.shared.barrier.wait();
        Ok(())
    }
    fn broadcast(&mut self, values: &mut [f32]) -> Result<()> {
        if self.rank == 0 {
            self.put(values)?;
        }
        self.shared.barrier.wait();
        if self.rank != 0 {
            values.copy_from_slice(&self.shared.slots[0].lock().map_err(|_| gone())?);
        }
        self.shared.barrier.wait();
        Ok(())
    }
}
