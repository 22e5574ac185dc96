//! Greedy decoding over cached states.

use crate::error::{Error, Result};
use reticent_backends::{PrefixScorer, StateId};
use reticent_corpus::TokenId;

/// The `length` most probable next tokens behind each prompt, one after the other; of equal
/// tokens the one with the smaller number, as `score` names its first choice.
///
/// # Errors
/// An empty prompt, a model that answers with NaN or another number of values than asked, a
/// failing engine. The states are released either way.
pub fn generate_greedily<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    prompts: &[Vec<TokenId>],
    length: usize,
) -> Result<Vec<Vec<TokenId>>> {
    let mut states = scorer.start(prompts)?;
    let grown = grow(scorer, &mut states, length);
    scorer.release(&states);
    grown
}

fn grow<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    states: &mut Vec<StateId>,
    length: usize,
) -> Result<Vec<Vec<TokenId>>> {
    let vocabulary: Vec<TokenId> = (0..scorer.vocabulary_size() as TokenId).collect();
    let mut texts = vec![Vec::with_capacity(length); states.len()];
    for place in 0..length {
        let rows = scorer.next_log_probabilities(states, &vocabulary)?;
        if rows.len() != states.len() * vocabulary.len() {
            return Err(Error::WrongCount {
                what: "log-probabilities",
                got: rows.len(),
                wanted: states.len() * vocabulary.len(),
            });
        }
        let mut steps = Vec::with_capacity(states.len());
        for ((row, state), text) in rows
            .chunks(vocabulary.len())
            .zip(states.iter())
            .zip(&mut texts)
        {
            let token = first_choice(row)?;
            text.push(token);
            steps.push((*state, token));
        }
        if place + 1 < length {
            let next = scorer.extend(&steps)?;
            scorer.release(states);
            *states = next;
        }
    }
    Ok(texts)
}

fn first_choice(row: &[f64]) -> Result<TokenId> {
    let mut best = (f64::NEG_INFINITY, 0);
    for (token, &value) in row.iter().enumerate() {
        if value.is_nan() {
            return Err(Error::BadScore {
                value,
                token: token as TokenId,
            });
        }
        if value > best.0 {
            best = (value, token as TokenId);
        }
    }
    Ok(best.1)
}
