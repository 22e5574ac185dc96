//! Held-out text during a run: its loss after each epoch of the last phase, and the decision to stop early.

use crate::error::{Error, Result};
use crate::material::Corpus;
use crate::model::Head;
use crate::trainer::masking::{Masking, TokenMasks};
use crate::trainer::{Example, PublicBatch, Trainer, shorten};
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sequences scored in one call.
const AT_ONCE: usize = 32;

/// The losses so far. The decision to stop depends on them alone, so that a resumed run stops where an uninterrupted
/// one does.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Watch {
    pub(super) losses: Vec<f64>,
    /// For a classifier, one entry for each loss.
    pub(super) classified: Vec<Classified>,
}

impl Watch {
    /// Scores the held-out text, and returns whether to stop after `patience` epochs without improvement.
    pub(super) fn after_epoch(
        &mut self,
        trainer: &mut dyn Trainer,
        (held_out, masking): (&HeldOut, Option<&Masking>),
        patience: Option<u64>,
    ) -> Result<bool> {
        let (loss, classified) = held_out.measure(trainer, masking)?;
        if !loss.is_finite() {
            return Err(Error::Unsuitable(
                "the loss of the held-out text is no finite number; lower the learning rates"
                    .into(),
            ));
        }
        self.losses.push(loss);
        self.classified.extend(classified);
        Ok(patience.is_some_and(|patience| self.should_stop(patience)))
    }

    /// Returns whether none of the last `patience` epochs was better than the best before them.
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
        let noted = (&self.losses, &self.classified);
        serde_json::to_string(&noted).map_err(Error::engine)
    }

    /// Parses what [`Self::note`] wrote.
    pub(super) fn read(note: &str) -> Result<Self> {
        let (losses, classified) = serde_json::from_str(note)
            .map_err(|e| Error::Engine(format!("held-out losses of a snapshot: {e}")))?;
        Ok(Self { losses, classified })
    }
}

/// Held-out text, with the classes of a classifier's records and the places that carry no loss.
#[derive(Debug, Default)]
pub(crate) struct HeldOut {
    texts: Vec<Vec<TokenId>>,
    labels: Vec<u32>,
    /// The places in each text that carry no loss.
    unlearned: Vec<Vec<usize>>,
}

impl HeldOut {
    /// Splits the texts into the sequences that a model with this context reads; a labelled text that is longer is
    /// shortened.
    pub(super) fn of(corpus: &Corpus<'_>, head: Head, context: Option<usize>) -> Result<Self> {
        let texts = corpus.held_out.unwrap_or_default();
        let Head::Classes(classes) = head else {
            let given = corpus.held_out_ignored;
            if let Some(given) = given.filter(|given| given.len() != texts.len()) {
                return Err(Error::Unsuitable(format!(
                    "what carries no loss must be said of each of the {} held-out texts or of none, got {}",
                    texts.len(),
                    given.len()
                )));
            }
            let mut ignored = given.unwrap_or_default().iter();
            let mut out = Self::default();
            for tokens in texts {
                let record = Example {
                    ignored: ignored.next().map_or(&[], Vec::as_slice),
                    ..Example::whole(0, tokens)
                };
                for part in record.windows(context) {
                    out.texts.push(part.tokens.to_vec());
                    out.unlearned.push(part.unlearned().collect());
                }
            }
            let masking = corpus.masking.filter(|_| head == Head::MaskedToken);
            if let Some(masking) = masking.filter(|_| !out.is_empty())
                && !out.has_masked(masking)
            {
                return Err(Error::Unsuitable(
                    "none of the held-out text's tokens is chosen to be masked, so it has no loss; hold out more text"
                        .into(),
                ));
            }
            return Ok(out);
        };
        let labels = corpus.held_out_labels.unwrap_or_default();
        if labels.len() != texts.len() {
            return Err(Error::Unsuitable(format!(
                "each of the {} held-out texts of a classifier needs a class, got {}",
                texts.len(),
                labels.len()
            )));
        }
        if let Some(label) = labels.iter().find(|label| **label as usize >= classes) {
            return Err(Error::Unsuitable(format!(
                "a held-out text's class must lie in [0, {classes}), got {label}"
            )));
        }
        let mut texts = texts.to_vec();
        for tokens in &mut texts {
            shorten(tokens, context);
        }
        Ok(Self {
            texts,
            labels: labels.to_vec(),
            unlearned: Vec::new(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns whether a token is masked, and so predicted by an encoder.
    fn has_masked(&self, masking: &Masking) -> bool {
        let masked = TokenMasks::held_out(masking);
        self.batches().any(|batch| {
            batch.examples().any(|example| {
                let read = masked.of(example.record, example.augmentation, example.tokens);
                read.targets.iter().any(Option::is_some)
            })
        })
    }

    /// Returns the texts as they are scored at once.
    fn batches(&self) -> impl Iterator<Item = PublicBatch<'_>> {
        let parts = (0u32..).zip(self.texts.chunks(AT_ONCE));
        parts.map(|(number, part)| PublicBatch::held_out(number * AT_ONCE as u32, part))
    }

    /// Returns the mean negative log-likelihood (nats) per predicted token or per class, and how well classes were
    /// predicted.
    fn measure(
        &self,
        trainer: &mut dyn Trainer,
        masking: Option<&Masking>,
    ) -> Result<(f64, Option<Classified>)> {
        match (trainer.model().head(), masking) {
            (Head::Classes(classes), _) => self.classified(trainer, classes),
            (Head::MaskedToken, Some(masking)) => {
                let masked = TokenMasks::held_out(masking);
                let (mut total, mut tokens) = (0.0, 0);
                for batch in self.batches() {
                    let (nll, count) = trainer.masked_loss(&batch, &masked)?;
                    total += nll;
                    tokens += count;
                }
                mean(total, tokens).map(|loss| (loss, None))
            }
            _ => {
                let (mut total, mut tokens) = (0.0, 0usize);
                let mut unlearned = self.unlearned.iter();
                for part in self.texts.chunks(AT_ONCE) {
                    for (scores, unlearned) in trainer.score(part)?.iter().zip(&mut unlearned) {
                        // The first score belongs to the second token.
                        let learned = scores.iter().zip(1..);
                        for (score, _) in learned.filter(|(_, at)| !unlearned.contains(at)) {
                            total -= score.log_probability;
                            tokens += 1;
                        }
                    }
                }
                mean(total, tokens).map(|loss| (loss, None))
            }
        }
    }

    fn classified(
        &self,
        trainer: &mut dyn Trainer,
        classes: usize,
    ) -> Result<(f64, Option<Classified>)> {
        let (mut total, mut pairs) = (0.0, Vec::new());
        let mut labels = self.labels.iter();
        for part in self.texts.chunks(AT_ONCE) {
            let texts: Vec<&[TokenId]> = part.iter().map(Vec::as_slice).collect();
            for (log_p, label) in trainer.classify(&texts)?.iter().zip(&mut labels) {
                let label = *label as usize;
                total -= log_p[label];
                pairs.push((label, largest(log_p)));
            }
        }
        let loss = mean(total, pairs.len())?;
        Ok((loss, Some(Classified::of(&pairs, classes))))
    }
}

fn mean(total: f64, count: usize) -> Result<f64> {
    if count == 0 {
        return Err(Error::Unsuitable(
            "the held-out text has nothing to predict".into(),
        ));
    }
    Ok(total / count as f64)
}

/// Returns the index of the first of the largest values.
fn largest(values: &[f64]) -> usize {
    let better = |best: usize, i: usize| if values[i] > values[best] { i } else { best };
    (0..values.len()).fold(0, better)
}

/// How well the classes of held-out records were predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Classified {
    /// The share of records whose most probable class is theirs.
    pub accuracy: f64,
    /// The mean over classes of F1 = 2 tp / (2 tp + fp + fn), where tp counts records of the class that were predicted
    /// to be, fp records of others that were, and fn its own that were not. A class that neither has a record nor was
    /// predicted counts in no mean, as with scikit-learn's `f1_score(average="macro")`.
    pub macro_f1: f64,
}

impl Classified {
    /// Counts from pairs of a record's class and its predicted class.
    ///
    /// ```
    /// use reticent_backends::run::Classified;
    /// let found = Classified::of(&[(0, 0), (0, 0), (0, 1), (1, 1)], 3);
    /// assert_eq!(found.accuracy, 0.75);
    /// assert!((found.macro_f1 - (0.8 + 2.0 / 3.0) / 2.0).abs() < 1e-15);
    /// ```
    #[must_use]
    pub fn of(pairs: &[(usize, usize)], classes: usize) -> Self {
        let mut counts = vec![[0u64; 2]; classes]; // right, and records or answers besides
        for &(class, predicted) in pairs {
            if class == predicted {
                counts[class][0] += 1;
            } else {
                counts[class][1] += 1;
                counts[predicted][1] += 1;
            }
        }
        let right: u64 = counts.iter().map(|[right, _]| right).sum();
        let met = counts.iter().filter(|[right, wrong]| right + wrong > 0);
        let f1: Vec<f64> = met
            .map(|[right, wrong]| 2.0 * *right as f64 / (2 * right + wrong) as f64)
            .collect();
        Self {
            accuracy: right as f64 / pairs.len().max(1) as f64,
            macro_f1: f1.iter().sum::<f64>() / f1.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of texts are never masked; of a hundred tokens some are, with these draws.
    #[test]
    fn held_out_text_without_a_masked_token_is_known() {
        let masking = Masking::new(50, 4, vec![0, 1]).unwrap();
        let has = |texts: Vec<Vec<TokenId>>| {
            let held_out = HeldOut {
                texts,
                ..HeldOut::default()
            };
            held_out.has_masked(&masking)
        };
        assert!(!has(vec![vec![0, 1]; 40]));
        assert!(has(vec![vec![0, 1], vec![7; 100]]));
    }

    #[test]
    fn it_stops_after_as_many_epochs_without_gain_as_it_has_patience_for() {
        let stops = |losses: &[f64], patience| {
            let watch = Watch {
                losses: losses.to_vec(),
                classified: Vec::new(),
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
