//! Workers as threads of one process: for tests of the data-parallel path.

use super::{Collective, gone, sum_pairs};
use crate::error::Result;
use std::sync::{Arc, Barrier, Mutex};

/// Several workers as threads of one process: for tests of the data-parallel path.
pub struct Threads {
    rank: usize,
    shared: Arc<Shared>,
}

struct Shared {
    slots: Vec<Mutex<Vec<f32>>>,
    words: Vec<Mutex<Vec<u8>>>,
    barrier: Barrier,
}

impl Threads {
    /// Returns one collective per worker.
    #[must_use]
    pub fn of(world: usize) -> Vec<Self> {
        let shared = Arc::new(Shared {
            slots: (0..world).map(|_| Mutex::default()).collect(),
            words: (0..world).map(|_| Mutex::default()).collect(),
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
        *self.shared.slots[self.rank].lock().map_err(|_| gone(0))? = values.to_vec();
        Ok(())
    }
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
            let others = self.shared.slots[1..].iter().map(|slot| {
                let part = slot.lock().map_err(|_| gone(0))?;
                Ok(part.clone())
            });
            let mut others: Vec<Vec<f32>> = others.collect::<Result<_>>()?;
            sum_pairs(values, &mut others);
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
            values.copy_from_slice(&self.shared.slots[0].lock().map_err(|_| gone(0))?);
        }
        self.shared.barrier.wait();
        Ok(())
    }
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        *self.shared.words[self.rank].lock().map_err(|_| gone(0))? = mine.to_vec();
        self.shared.barrier.wait();
        let words = self.shared.words.iter();
        let all = words.map(|slot| Ok(slot.lock().map_err(|_| gone(0))?.clone()));
        let all = all.collect();
        self.shared.barrier.wait();
        all
    }
}
