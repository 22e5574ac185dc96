//! Held-out text during a run: its loss after each epoch of the last phase, and when to stop.

use crate::error::{Error, Result};
use crate::trainer::Trainer;
use reticent_corpus::TokenId;

/// Sequences scored at once.
const AT_ONCE: usize = 32;

/// The losses so far. When to stop follows from them alone, so that a resumed run stops where
/// an uninterrupted one does.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Watch {
    pub(super) losses: Vec<f64>,
}

impl Watch {
    /// Scores the held-out text; whether to stop after so many epochs without gain.
    pub(super) fn after_epoch(
        &mut self,
        trainer: &mut dyn Trainer,
        held_out: &[Vec<TokenId>],
        patience: Option<u64>,
    ) -> Result<bool> {
        let loss = mean_loss(trainer, held_out)?;
        if !loss.is_finite() {
            return Err(Error::Unsuitable(
                "the loss of the held-out text is no finite number; lower the learning rates"
                    .into(),
            ));
        }
        self.losses.push(loss);
        Ok(patience.is_some_and(|patience| self.should_stop(patience)))
    }

    /// Whether the last `patience` epochs were all no better than the best before them.
    fn should_stop(&self, patience: u64) -> bool {
        let mut best = (0, f64::INFINITY);
        for (epoch, loss) in self.losses.iter().enumerate() {
            if *loss < best.1 {
                best = (epoch, *loss);
            }
        }
        (self.losses.len() - 1 - best.0) as u64 >= patience
    }

    pub(super) fn note(&self) -> Result<String> {
        serde_json::to_string(&self.losses).map_err(|e| Error::Engine(e.to_string()))
    }

    /// What [`Self::note`] wrote.
    pub(super) fn read(note: &str) -> Result<Self> {
        let losses = serde_json::from_str(note)
            .map_err(|e| Error::Engine(format!("held-out losses of a snapshot: {e}")))?;
        Ok(Self { losses })
    }
}

/// Mean negative log-likelihood per predicted token, nats.
fn mean_loss(trainer: &mut dyn Trainer, texts: &[Vec<TokenId>]) -> Result<f64> {
    let (mut total, mut tokens) = (0.0, 0usize);
    for part in texts.chunks(AT_ONCE) {
        for score in trainer.score(part)?.iter().flatten() {
            total -= score.log_probability;
            tokens += 1;
        }
    }
    if tokens == 0 {
        return Err(Error::Unsuitable(
            "the held-out text has no token to predict".into(),
        ));
    }
    Ok(total / tokens as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stops_after_as_many_epochs_without_gain_as_it_has_patience_for() {
        let stops = |losses: &[f64], patience| {
            let watch = Watch {
                losses: losses.to_vec(),
            };
            assert_eq!(Watch::read(&watch.note().unwrap()).unwrap(), watch);
            watch.should_stop(patience)
        };
        assert!(!stops(&[3.0], 1) && !stops(&[3.0, 2.0], 1));
        assert!(stops(&[3.0, 3.0], 1) && stops(&[3.0, 2.0, 2.5], 1));
        assert!(!stops(&[3.0, 2.0, 2.5], 2) && stops(&[3.0, 2.0, 2.5, 2.1], 2));
        assert!(!stops(&[3.0, 2.0, 2.5, 1.9], 2));
        assert!(Watch::read("[1.0").is_err());
    }
}
