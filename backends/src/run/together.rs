//! How several workers begin one run: with the same key, the same inputs and the same position.

use super::side::Workers;
use super::{Run, Watch};
use crate::checkpoint::description::{Description, names};
use crate::checkpoint::state::RunIdentity;
use crate::error::{Error, Result};
use crate::privacy::random::RunKey;
use crate::privacy::step::{LANES, added_by_all};
use crate::trainer::optimizer::Moments;
use crate::trainer::{Added, Trainer};
use serde::{Deserialize, Serialize};

/// The digest of the code of this crate and of what it is built with. Workers must have the same; a run is resumed by
/// other code of the same arithmetic too.
const CODE: &str = env!("RETICENT_CODE");

/// What a worker would train, and by which code.
#[derive(Serialize, Deserialize)]
struct Offer {
    /// Of whom it is: one that is sent back is none.
    rank: usize,
    code: String,
    run: Description,
}

impl Offer {
    /// Returns what is different about the offer of worker `rank`; empty if nothing is.
    fn other(&self, rank: usize, words: &[u8]) -> String {
        match serde_json::from_slice::<Self>(words) {
            Ok(theirs) if theirs.rank != rank => "rank".into(),
            Ok(theirs) => match names(&self.run.differences(&theirs.run)) {
                same if same.is_empty() && self.code != theirs.code => "code of the program".into(),
                differ => differ,
            },
            Err(_) => "version".into(),
        }
    }
}

/// The position from which rank 0 resumes.
#[derive(Serialize, Deserialize)]
struct Place {
    position: u64,
    held_out: String,
    /// Steps taken by each optimiser, and by the moving average.
    steps: Vec<u64>,
}

/// Checks that so many workers can share a run: 1, 2, 4 or 8, so that the weights have the same bits for any of them.
///
/// # Errors
/// [`Error::Worker`] for another number.
pub fn check_world(world: usize) -> Result<()> {
    if LANES.is_multiple_of(world) {
        return Ok(());
    }
    Err(Error::Worker(format!(
        "the number of workers must be 1, 2, 4 or 8, got {world}"
    )))
}

/// Returns the key of a run: the one in its state, or a new one.
pub(crate) fn own_key(kept: Option<&RunKey>, seed: Option<u64>) -> Result<RunKey> {
    match (kept, seed) {
        (Some(key), _) => Ok(key.clone()),
        (None, Some(seed)) => Ok(RunKey::from_seed(seed)),
        (None, None) => RunKey::from_system(),
    }
}

impl Workers {
    /// Returns whether this is rank 0, which keeps the state.
    pub(super) fn leads(&self) -> bool {
        self.collective.rank() == 0
    }

    /// Returns the run's key: rank 0's, for all workers.
    pub(super) fn key(&mut self, kept: Option<&RunKey>, seed: Option<u64>) -> Result<RunKey> {
        let own = own_key(kept, seed)?;
        if self.collective.world() == 1 {
            return Ok(own);
        }
        let mine: &[u8] = if self.leads() { own.bytes() } else { &[] };
        let first = self.collective.exchange(mine)?.into_iter().next();
        let bytes = first.and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| Error::Worker("worker 0 says no key".into()))?;
        Ok(RunKey::from_bytes(bytes))
    }

    /// Checks that all workers are present and have the same weights.
    pub(super) fn meet(&mut self, trainer: &dyn Trainer) -> Result<()> {
        added_by_all(Added::default(), trainer, self.collective.as_mut()).map(|_| ())
    }

    /// Checks that all workers would train the same, by descriptions under a key used only for this comparison.
    pub(super) fn agree(&mut self, identity: RunIdentity<'_>) -> Result<()> {
        if self.collective.world() == 1 {
            return Ok(());
        }
        let rank = self.collective.rank();
        let key = self.key(None, None)?;
        let mine = Offer {
            rank,
            code: CODE.into(),
            run: identity.description(&key)?,
        };
        let words = serde_json::to_vec(&mine).map_err(Error::engine)?;
        for (other, words) in self.collective.exchange(&words)?.iter().enumerate() {
            let differ = mine.other(other, words);
            if !differ.is_empty() {
                return Err(Error::Worker(format!(
                    "worker {other} would train something else than worker {rank} (other {differ})"
                )));
            }
        }
        Ok(())
    }
}

impl Run {
    /// Takes over the state that rank 0 restored.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        let collective = self.workers.collective.as_mut();
        if collective.world() == 1 {
            return Ok(());
        }
        let [public, private] = &mut self.optimizers;
        let mut kept: Vec<&mut dyn Moments> = vec![public, private];
        kept.extend(self.average.as_mut().map(|a| a as &mut dyn Moments));
        let mine = Place {
            position: self.position,
            held_out: self.watch.note()?,
            steps: kept.iter().map(|kept| kept.state().0).collect(),
        };
        let words = serde_json::to_vec(&mine).map_err(Error::engine)?;
        let first = collective.exchange(&words)?.into_iter().next();
        let place: Option<Place> = first.and_then(|words| serde_json::from_slice(&words).ok());
        let place = place.ok_or_else(|| Error::Worker("worker 0 says no place".into()))?;
        if place.position == 0 {
            return Ok(());
        }
        let mut weights = self.trainer.weights().to_vec();
        for tensor in &mut weights {
            collective.broadcast(tensor)?;
        }
        for (kept, steps) in kept.iter_mut().zip(&place.steps) {
            let (_, first, second) = kept.state();
            let (mut first, mut second) = (first.to_vec(), second.to_vec());
            for tensor in first.iter_mut().chain(&mut second) {
                collective.broadcast(tensor)?;
            }
            if collective.rank() > 0 {
                kept.restore(*steps, first, second)?;
            }
        }
        if collective.rank() > 0 {
            self.trainer.set_weights(weights)?;
            self.position = place.position;
            self.watch = Watch::read(&place.held_out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_other_code_are_distinguished() {
        let of = |rank: usize, code: &str, version: &str| {
            let run =
                serde_json::json!({"version": version, "options": {}, "data": {}, "planned": []});
            Offer {
                rank,
                code: code.into(),
                run: serde_json::from_value(run).unwrap(),
            }
        };
        let offer = |code, version| of(0, code, version);
        let mine = of(1, CODE, "1");
        let other = |theirs: &Offer| mine.other(0, &serde_json::to_vec(theirs).unwrap());
        assert_eq!(other(&offer(CODE, "1")), "");
        assert_eq!(other(&offer("another", "1")), "code of the program");
        assert!(other(&offer("another", "2")).starts_with("version"));
        assert_eq!(mine.other(0, b"{}"), "version");
        // Its own, sent back.
        assert_eq!(other(&mine), "rank");
        assert_eq!(CODE.len(), 64);
    }
}
