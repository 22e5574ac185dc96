//! Workers of a training run that communicate over MPI, as a [`Collective`].
//!
//! MPI neither encrypts nor authenticates: sums of clipped gradients before noise, and the run's key, are sent in
//! the clear. If a rank is lost, or panics, MPI ends all of them.

use anyhow::{Context, Result, ensure};
use mpi::environment::{Threading, Universe, initialize_with_threading};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};
use reticent_backends::{Collective, Error, accumulate};

/// The number of values in one message: MPI counts in 32 bits, and a rank holds one received message beside its
/// values.
const MESSAGE: usize = 1 << 22;

/// The exit code of a Rust program that panicked.
const PANICKED: u8 = 101;

/// MPI as started in this process; it is finalised when this value is dropped. A panic ends all ranks.
pub struct Started(Universe);

impl Drop for Started {
    fn drop(&mut self) {
        // To finalise is to wait for the others, which wait for this rank.
        if std::thread::panicking() && self.workers().world > 1 {
            self.abort(PANICKED);
        }
    }
}

impl Started {
    /// Starts MPI.
    ///
    /// # Errors
    /// Returns an error if MPI was started before, or if no second thread may call it.
    pub fn new() -> Result<Self> {
        let (universe, threads) =
            initialize_with_threading(Threading::Serialized).context("MPI was started before")?;
        ensure!(
            threads >= Threading::Serialized,
            "this MPI lets no thread but the first call it"
        );
        Ok(Self(universe))
    }

    /// Ends all ranks with this code.
    pub fn abort(&self, code: u8) -> ! {
        self.0.world().abort(code.into())
    }

    /// Returns the ranks of the world as workers.
    #[must_use]
    pub fn workers(&self) -> Mpi {
        let world = self.0.world();
        let number = |number: i32| usize::try_from(number).unwrap_or(0);
        Mpi {
            rank: number(world.rank()),
            world: number(world.size()),
        }
    }
}

/// A worker for each rank of the world.
#[derive(Debug, Clone, Copy)]
pub struct Mpi {
    rank: usize,
    world: usize,
}

/// Converts a rank to MPI's type; there are no more ranks than it can count.
fn counted(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl Collective for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    /// Sums neighbours first, then the sums of neighbours, which gives the same bits as any other transport.
    fn sum_to_zero(&mut self, values: &mut [f32]) -> Result<(), Error> {
        let world = SimpleCommunicator::world();
        let mut other = Vec::new();
        let mut step = 1;
        while step < self.world {
            if !self.rank.is_multiple_of(2 * step) {
                let to = world.process_at_rank(counted(self.rank - step));
                values.chunks(MESSAGE).for_each(|part| to.send(part));
                break;
            }
            if self.rank + step < self.world {
                let from = world.process_at_rank(counted(self.rank + step));
                for part in values.chunks_mut(MESSAGE) {
                    other.resize(part.len(), 0.0f32);
                    from.receive_into(&mut other[..]);
                    accumulate(part, &other);
                }
            }
            step *= 2;
        }
        Ok(())
    }

    fn broadcast(&mut self, values: &mut [f32]) -> Result<(), Error> {
        let world = SimpleCommunicator::world();
        let root = world.process_at_rank(0);
        for part in values.chunks_mut(MESSAGE) {
            root.broadcast_into(part);
        }
        Ok(())
    }

    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let world = SimpleCommunicator::world();
        let mut lengths = vec![0u64; self.world];
        world.all_gather_into(&(mine.len() as u64), &mut lengths[..]);
        // Padded to one length, so that no table of offsets is needed; the messages are short.
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let longest = usize::try_from(longest).unwrap_or(usize::MAX).max(1);
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let mut all = vec![0u8; longest * self.world];
        world.all_gather_into(&padded[..], &mut all[..]);
        let parts = all.chunks(longest).zip(lengths);
        Ok(parts
            .map(|(part, length)| part[..usize::try_from(length).unwrap_or(0)].to_vec())
            .collect())
    }
}
