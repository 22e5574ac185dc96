//! Workers as threads of one process: for tests of the data-parallel path.

use super::{Collective, gone, sum_pairs};
use crate::error::Result;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Several workers as threads of one process: for tests of the data-parallel path. Where one is dropped, by a panic for
/// instance, the others end with an error.
pub struct Threads {
    rank: usize,
    shared: Arc<Shared>,
}

struct Shared {
    slots: Vec<Mutex<Vec<f32>>>,
    words: Vec<Mutex<Vec<u8>>>,
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

/// Who waits for the others.
#[derive(Default)]
struct Meeting {
    arrived: usize,
    /// The number of meetings that are over.
    round: u64,
    gone: Option<usize>,
}

impl Shared {
    /// Waits until all workers are here.
    fn meet(&self) -> Result<()> {
        let mut meeting = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        let round = meeting.round;
        meeting.arrived += 1;
        if meeting.arrived == self.slots.len() {
            meeting.arrived = 0;
            meeting.round += 1;
            self.changed.notify_all();
            return Ok(());
        }
        let waits = |meeting: &mut Meeting| meeting.round == round && meeting.gone.is_none();
        let meeting = self.changed.wait_while(meeting, waits);
        let meeting = meeting.unwrap_or_else(PoisonError::into_inner);
        // A worker that is gone after the meeting was there.
        match meeting.gone.filter(|_| meeting.round == round) {
            Some(rank) => Err(gone(rank)),
            None => Ok(()),
        }
    }
}

impl Threads {
    /// Returns one collective per worker.
    #[must_use]
    pub fn of(world: usize) -> Vec<Self> {
        let shared = Arc::new(Shared {
            slots: (0..world).map(|_| Mutex::default()).collect(),
            words: (0..world).map(|_| Mutex::default()).collect(),
            meeting: Mutex::default(),
            changed: Condvar::new(),
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

impl Drop for Threads {
    fn drop(&mut self) {
        let meeting = self.shared.meeting.lock();
        let mut meeting = meeting.unwrap_or_else(PoisonError::into_inner);
        // The first one: others end because of it.
        meeting.gone.get_or_insert(self.rank);
        drop(meeting);
        self.shared.changed.notify_all();
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
        self.shared.meet()?;
        if self.rank == 0 {
            let others = self.shared.slots[1..].iter().map(|slot| {
                let part = slot.lock().map_err(|_| gone(0))?;
                Ok(part.clone())
            });
            let mut others: Vec<Vec<f32>> = others.collect::<Result<_>>()?;
            sum_pairs(values, &mut others);
        }
        self.shared.meet()?;
        Ok(())
    }
    fn broadcast(&mut self, values: &mut [f32]) -> Result<()> {
        if self.rank == 0 {
            self.put(values)?;
        }
        self.shared.meet()?;
        if self.rank != 0 {
            values.copy_from_slice(&self.shared.slots[0].lock().map_err(|_| gone(0))?);
        }
        self.shared.meet()?;
        Ok(())
    }
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        *self.shared.words[self.rank].lock().map_err(|_| gone(0))? = mine.to_vec();
        self.shared.meet()?;
        let words = self.shared.words.iter();
        let all = words.map(|slot| Ok(slot.lock().map_err(|_| gone(0))?.clone()));
        let all = all.collect();
        self.shared.meet()?;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that panicked kept the others waiting for ever.
    #[test]
    fn workers_end_when_one_is_gone() {
        for lost in 0..3 {
            let workers = Threads::of(3).into_iter().map(|mut worker| {
                std::thread::spawn(move || {
                    let mut values = [1.0, 2.0];
                    worker.sum_to_zero(&mut values)?;
                    if worker.rank == lost {
                        return Ok(());
                    }
                    worker.broadcast(&mut values)
                })
            });
            let workers: Vec<_> = workers.collect();
            for (rank, worker) in workers.into_iter().enumerate() {
                let said = worker.join().unwrap().map_err(|error| error.to_string());
                let wrong = said
                    .err()
                    .map(|said| said.starts_with(&format!("worker {lost} ")));
                assert_eq!(wrong, (rank != lost).then_some(true));
            }
        }
    }
}
