//! Masked tokens: which tokens of a record an encoder has to predict, and what it reads in their places.
//!
//! The draws depend on the run's key, the step and the record, and on nothing else, like those of dropout: a record's
//! loss remains a function of that record alone, it is the same on neighbouring training sets, and a resumed run
//! repeats it.

use crate::error::{Error, Result};
use crate::privacy::keystream::{KeyStream, WORDS};
use crate::privacy::random::{RunKey, keyed_digest};
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::Serialize;

/// The share of tokens to predict (Devlin et al. 2019).
const CHOSEN: f64 = 0.15;
/// Of the tokens to predict, the share that is masked, and the share that is masked or replaced by another token.
const MASKED: f64 = 0.8;
const REPLACED: f64 = 0.9;

/// How tokens are masked in training an encoder: each of a record's tokens is chosen with probability 0.15 on its own; a
/// chosen one is read as the mask with probability 0.8, as a token drawn uniformly from the vocabulary with 0.1, and as
/// it is with 0.1. The loss of a record is the sum of −ln p(token) over the chosen ones, in nats.
///
/// Source: Devlin et al. 2019, §3.1, and `DataCollatorForLanguageModeling` of transformers.
///
/// ```
/// use reticent_backends::trainer::Masking;
/// let masking = Masking::new(50, 4, vec![0, 1])?;
/// assert_eq!(masking.mask(), 4);
/// assert!(Masking::new(50, 50, vec![]).is_err()); // no such token
/// # Ok::<(), reticent_backends::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Masking {
    vocabulary: u32,
    mask: TokenId,
    spared: Vec<TokenId>,
}

impl Masking {
    /// Masking in a vocabulary of `vocabulary` tokens: with this mask token, of all tokens except the spared ones (the
    /// ends of texts, and the mask itself).
    ///
    /// # Errors
    /// Returns [`Error::UnknownToken`] for a mask outside the vocabulary.
    pub fn new(vocabulary: usize, mask: TokenId, spared: Vec<TokenId>) -> Result<Self> {
        let size = vocabulary;
        let vocabulary = u32::try_from(vocabulary).unwrap_or(u32::MAX);
        if mask >= vocabulary {
            return Err(Error::UnknownToken { token: mask, size });
        }
        Ok(Self {
            vocabulary,
            mask,
            spared,
        })
    }

    /// Returns the token that is read in place of a masked one.
    #[must_use]
    pub const fn mask(&self) -> TokenId {
        self.mask
    }

    /// Returns whether this token is never to be predicted, because it is not text.
    #[must_use]
    pub fn spares(&self, token: TokenId) -> bool {
        self.spared.contains(&token)
    }
}

/// The masks of the tokens of one step.
#[derive(Clone)]
pub struct TokenMasks {
    key: [u8; 32],
    masking: Masking,
}

impl std::fmt::Debug for TokenMasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenMasks({:?})", self.masking)
    }
}

/// A record as an encoder reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MaskedRecord {
    pub(crate) inputs: Vec<TokenId>,
    /// The token to predict at each place, if there is one.
    pub(crate) targets: Vec<Option<TokenId>>,
}

impl TokenMasks {
    /// Returns the masks of one step of a run.
    #[must_use]
    pub fn new(key: &RunKey, step: u64, masking: &Masking) -> Self {
        Self {
            key: keyed_digest(key.bytes(), format!("masked tokens/{step}").as_bytes()),
            masking: masking.clone(),
        }
    }

    /// Returns the masks of held-out text: they belong to no step and are the same after every epoch.
    pub(crate) fn held_out(masking: &Masking) -> Self {
        Self {
            key: keyed_digest(&[0; 32], b"masked tokens of held-out text"),
            masking: masking.clone(),
        }
    }

    /// Masks a record, or a window of it, in one of its augmentations. The draws at a place depend on no other place of
    /// the window; the windows of a record share their draws.
    pub(crate) fn of(&self, record: u32, augmentation: u32, tokens: &[TokenId]) -> MaskedRecord {
        let number = [record.to_le_bytes(), augmentation.to_le_bytes()].concat();
        let mut stream = KeyStream::new(keyed_digest(&self.key, &number), 0);
        let (mut words, mut at) = ([0; WORDS], WORDS);
        let mut draw = || {
            if at == WORDS {
                stream.fill(&mut words);
                at = 0;
            }
            at += 1;
            words[at - 1]
        };
        let below = |word: u32, share: f64| f64::from(word) < share * 2f64.powi(32);
        let mut inputs = tokens.to_vec();
        let mut targets = vec![None; tokens.len()];
        for (input, target) in inputs.iter_mut().zip(&mut targets) {
            // the same number of draws at every place, whatever the token
            let [chosen, how, which] = [draw(), draw(), draw()];
            if self.masking.spared.contains(input) || !below(chosen, CHOSEN) {
                continue;
            }
            *target = Some(*input);
            if below(how, MASKED) {
                *input = self.masking.mask;
            } else if below(how, REPLACED) {
                *input = ((u64::from(which) * u64::from(self.masking.vocabulary)) >> 32) as u32;
            }
        }
        MaskedRecord { inputs, targets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(seed: u64, step: u64) -> TokenMasks {
        let masking = Masking::new(1000, 4, vec![0, 1, 4]).unwrap();
        TokenMasks::new(&RunKey::from_seed(seed), step, &masking)
    }

    /// Seed 3, 20 000 tokens: each share within 5 standard deviations (false alarm below 1e-5).
    #[test]
    fn tokens_are_chosen_and_replaced_at_the_stated_rates() {
        let tokens: Vec<u32> = (0..20_000).map(|i| 10 + i % 900).collect();
        let MaskedRecord { inputs, targets } = masks(3, 0).of(7, 0, &tokens);
        let mut counts = [0.0f64; 3];
        for ((input, target), token) in inputs.iter().zip(&targets).zip(&tokens) {
            match target {
                None => assert_eq!(input, token),
                Some(target) => {
                    assert_eq!(target, token);
                    counts[if *input == 4 {
                        0
                    } else {
                        1 + usize::from(input == token)
                    }] += 1.0;
                }
            }
        }
        let chosen: f64 = counts.iter().sum();
        let within = |count: f64, of: f64, share: f64| {
            (count - of * share).abs() < 5.0 * (of * share * (1.0 - share)).sqrt()
        };
        assert!(within(chosen, 20_000.0, 0.15), "{chosen}");
        for (count, share) in counts.into_iter().zip([0.8, 0.1, 0.1]) {
            assert!(within(count, chosen, share), "{counts:?}");
        }
    }

    #[test]
    fn draws_repeat_with_step_and_record_and_with_nothing_else() {
        let tokens: Vec<u32> = (10..200).collect();
        let one = masks(1, 5).of(3, 0, &tokens);
        assert_eq!(masks(1, 5).of(3, 0, &tokens), one);
        for other in [
            masks(2, 5).of(3, 0, &tokens),
            masks(1, 6).of(3, 0, &tokens),
            masks(1, 5).of(4, 0, &tokens),
            masks(1, 5).of(3, 1, &tokens),
        ] {
            assert_ne!(other.targets, one.targets);
        }
        // a token changes the draws at no other place
        let mut changed = tokens.clone();
        changed[50] = 0;
        let other = masks(1, 5).of(3, 0, &changed);
        assert_eq!(other.inputs[51..], one.inputs[51..]);
        assert_eq!(other.targets[50], None, "spared");
        assert_eq!(
            masks(1, 5).of(3, 0, &tokens[..60]).targets,
            one.targets[..60]
        );
    }
}
