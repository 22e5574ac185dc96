//! Dropout: which values of a training pass are set to zero.
//!
//! A mask depends on the run's key, the step, the record and the place in the model, and on nothing else: not on the
//! other records of the batch, their number or order, the microbatch, or the worker. So an example's clipped gradient
//! remains a function of that example alone, a record has the same mask on neighbouring training sets, and a resumed
//! run repeats its masks.

use crate::error::{Result, below_one};
use crate::model::Model;
use crate::privacy::keystream::{KeyStream, WORDS};
use crate::privacy::random::{RunKey, keyed_digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shares of values that are set to zero in training, by place. The values that stay are
/// divided by one minus the rate, so that nothing changes on average. Scoring drops nothing.
///
/// ```
/// use reticent_backends::trainer::Dropout;
/// assert_eq!(Dropout::all(0.1)?.hidden, 0.1);
/// assert!(Dropout::default().is_none() && Dropout::all(1.0).is_err());
/// # Ok::<(), reticent_backends::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dropout {
    /// Of embedded tokens (GPT-2: with their positions).
    pub embedding: f64,
    /// Of the probabilities of attention.
    pub attention: f64,
    /// Of what a block adds to the residual stream; of what an LSTM's head reads.
    pub hidden: f64,
}

impl Dropout {
    /// Nothing is dropped.
    pub const NONE: Self = Self {
        embedding: 0.0,
        attention: 0.0,
        hidden: 0.0,
    };

    /// Sets the same rate at all places.
    ///
    /// # Errors
    /// Returns [`crate::Error::OutOfRange`] for a rate outside [0, 1).
    pub fn all(rate: f64) -> Result<Self> {
        Self {
            embedding: rate,
            attention: rate,
            hidden: rate,
        }
        .validated()
    }

    /// Checks the rates.
    ///
    /// # Errors
    /// Returns [`crate::Error::OutOfRange`] for a rate outside [0, 1).
    pub fn validated(self) -> Result<Self> {
        for (what, value) in [
            ("dropout of the embedding", self.embedding),
            ("dropout of attention", self.attention),
            ("dropout of hidden values", self.hidden),
        ] {
            below_one(what, value)?;
        }
        Ok(self)
    }

    /// Returns the rates at the places that a model has: an LSTM has no attention.
    #[must_use]
    pub const fn of(self, model: &Model) -> Self {
        match model {
            Model::Lstm(_) => Self {
                attention: 0.0,
                ..self
            },
            Model::Transformer(_) => self,
        }
    }

    /// Returns whether nothing is dropped.
    #[must_use]
    pub fn is_none(&self) -> bool {
        [self.embedding, self.attention, self.hidden]
            .iter()
            .all(|rate| *rate <= 0.0)
    }
}

/// A place in a model where values are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "cpu"),
    expect(dead_code, reason = "engines have the places")
)]
pub(crate) enum DropoutSite {
    /// Embedded tokens. `segment` is the number of the segment in a selective step, so that the length of a sensitive
    /// segment changes no mask after it; 0 elsewhere.
    Embedding { segment: usize },
    /// The output of a block; attention and feed-forward parts alternate.
    Block { number: usize },
    /// The input of an LSTM's head, by segment.
    Output { segment: usize },
    /// The probabilities of an attention head. For n = 0, 1, …: those of row n for keys 0 to n, then, if rows see
    /// later keys, those of rows 0 to n − 1 for key n. So the mask of a row and a key depends on no length.
    Attention { layer: usize, head: usize },
}

impl DropoutSite {
    const fn stream(self) -> u64 {
        let (kind, major, minor) = match self {
            Self::Embedding { segment } => (0, segment, 0),
            Self::Block { number } => (1, number, 0),
            Self::Output { segment } => (2, segment, 0),
            Self::Attention { layer, head } => (3, layer, head),
        };
        (kind << 62) + ((major as u64) << 31) + minor as u64
    }

    const fn rate(self, rates: &Dropout) -> f64 {
        match self {
            Self::Embedding { .. } => rates.embedding,
            Self::Block { .. } | Self::Output { .. } => rates.hidden,
            Self::Attention { .. } => rates.attention,
        }
    }
}

/// The masks of one step.
#[derive(Clone)]
pub struct Masks {
    key: [u8; 32],
    rates: Dropout,
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masks({:?})", self.rates)
    }
}

impl Masks {
    /// The masks of a step of a run; nothing where nothing is dropped.
    #[must_use]
    pub fn new(key: &RunKey, step: u64, rates: Dropout) -> Option<Self> {
        let purpose = format!("dropout/{step}");
        (!rates.is_none()).then(|| Self {
            key: keyed_digest(key.bytes(), purpose.as_bytes()),
            rates,
        })
    }

    /// Those of one record in one of its augmentations, by their numbers.
    #[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines ask for it"))]
    pub(crate) fn of(&self, record: u32, augmentation: u32) -> RecordMasks {
        let mut number = record.to_le_bytes().to_vec();
        if augmentation > 0 {
            number.extend(augmentation.to_le_bytes());
        }
        RecordMasks {
            key: keyed_digest(&self.key, &number),
            rates: self.rates,
        }
    }
}

/// The masks of one record in one step.
#[derive(Clone)]
pub(crate) struct RecordMasks {
    key: [u8; 32],
    rates: Dropout,
}

impl std::fmt::Debug for RecordMasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordMasks({:?})", self.rates)
    }
}

/// Which values stay, and the rate at which the others were dropped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DropoutMask {
    pub(crate) stays: Vec<bool>,
    pub(crate) rate: f64,
}

#[cfg_attr(not(feature = "cpu"), expect(dead_code, reason = "engines ask for it"))]
impl RecordMasks {
    /// Returns which of `count` values at a place stay, or `None` where none is dropped. The first values do not depend
    /// on `count`.
    pub(crate) fn kept(&self, place: DropoutSite, count: usize) -> Option<DropoutMask> {
        let rate = place.rate(&self.rates);
        if rate <= 0.0 {
            return None;
        }
        // to the nearest 2^-32: no guarantee depends on dropout
        let threshold = (rate * 2f64.powi(32)).round() as u32;
        let mut stream = KeyStream::new(self.key, place.stream());
        let mut words = [0; WORDS];
        let mut stays = Vec::with_capacity(count.next_multiple_of(WORDS));
        while stays.len() < count {
            stream.fill(&mut words);
            stays.extend(words.iter().map(|word| *word >= threshold));
        }
        stays.truncate(count);
        Some(DropoutMask { stays, rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Family, LstmConfig, TransformerConfig};

    fn masks(seed: u64, step: u64, rate: f64) -> Masks {
        Masks::new(&RunKey::from_seed(seed), step, Dropout::all(rate).unwrap()).unwrap()
    }

    fn bits(masks: &Masks, record: u32, place: DropoutSite) -> Vec<bool> {
        masks.of(record, 0).kept(place, 4000).unwrap().stays
    }

    /// Seed 1, 4000 values: the share that goes is within 5 standard deviations (false alarm
    /// below 1e-6 a rate).
    #[test]
    fn the_share_that_goes_is_the_rate() {
        for rate in [0.01, 0.1, 0.5, 0.9] {
            let stays = bits(&masks(1, 0, rate), 3, DropoutSite::Block { number: 0 });
            let gone = stays.iter().filter(|s| !**s).count() as f64;
            let off = (gone - 4000.0 * rate).abs() / (4000.0 * rate * (1.0 - rate)).sqrt();
            assert!(off < 5.0, "{rate}: {gone}");
        }
    }

    /// Masks of different keys, steps, records and places agree in half of their values, within
    /// 6 standard deviations (seeds below, 66 pairs of 4000 values, false alarm below 1e-6).
    #[test]
    fn every_key_step_record_and_place_has_its_own_mask() {
        let embedding = DropoutSite::Embedding { segment: 0 };
        let of = |seed, step, record, place| bits(&masks(seed, step, 0.5), record, place);
        let all = [
            of(1, 0, 0, embedding),
            of(2, 0, 0, embedding),
            of(1, 1, 0, embedding),
            of(1, 0, 1, embedding),
            of(1, 1, 1, embedding),
            of(1, 0, 0, DropoutSite::Embedding { segment: 1 }),
            of(1, 0, 0, DropoutSite::Block { number: 0 }),
            of(1, 0, 0, DropoutSite::Block { number: 1 }),
            of(1, 0, 0, DropoutSite::Output { segment: 0 }),
            of(1, 0, 0, DropoutSite::Attention { layer: 0, head: 0 }),
            of(1, 0, 0, DropoutSite::Attention { layer: 0, head: 1 }),
            of(1, 0, 0, DropoutSite::Attention { layer: 1, head: 0 }),
        ];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate().take(i) {
                let same = a.iter().zip(b).filter(|(a, b)| a == b).count() as f64;
                assert!((same - 2000.0).abs() < 6.0 * 1000f64.sqrt(), "{i}, {j}");
            }
        }
    }

    #[test]
    fn a_mask_repeats_and_begins_alike_whatever_its_length() {
        let place = DropoutSite::Attention { layer: 2, head: 1 };
        let record = masks(7, 9, 0.3).of(4, 0);
        let long = record.kept(place, 1000).unwrap().stays;
        assert_eq!(
            masks(7, 9, 0.3).of(4, 0).kept(place, 1000).unwrap().stays,
            long
        );
        for count in [0, 1, WORDS, WORDS + 1] {
            assert_eq!(record.kept(place, count).unwrap().stays, long[..count]);
        }
    }

    #[test]
    fn an_lstm_has_no_attention_to_drop() {
        let rates = Dropout::all(0.5).unwrap();
        let elsewhere = Dropout {
            attention: 0.0,
            ..rates
        };
        assert_eq!(rates.of(&LstmConfig::paper(9).into()), elsewhere);
        let transformer = TransformerConfig::new(Family::Gpt2, 9, 8, 1, 2, 4);
        assert_eq!(rates.of(&transformer.into()), rates);
    }

    #[test]
    fn places_without_a_rate_have_no_mask() {
        let rates = Dropout {
            attention: 0.5,
            ..Dropout::NONE
        };
        let key = RunKey::from_seed(1);
        let record = Masks::new(&key, 0, rates).unwrap().of(0, 0);
        assert!(record.kept(DropoutSite::Block { number: 0 }, 9).is_none());
        assert!(
            record
                .kept(DropoutSite::Attention { layer: 0, head: 0 }, 9)
                .is_some()
        );
        assert!(Masks::new(&key, 0, Dropout::NONE).is_none());
        for bad in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            let error = Dropout::all(bad).unwrap_err().to_string();
            assert!(error.contains("[0, 1)"), "{error}");
        }
    }
}
