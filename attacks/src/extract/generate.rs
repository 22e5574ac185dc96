//! Greedy and sampled decoding over cached states.

use crate::error::{Error, Result, going_on};
use crate::search::Meter;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_backends::PrefixScorer;
use reticent_corpus::TokenId;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Returns `length` tokens after each prompt, choosing the most probable one at every step; of equally probable
/// tokens the one with the smaller number, as `score` names its first choice.
///
/// # Errors
/// Returns an error if a prompt is empty, if the model has no vocabulary, if it returns a value that is not a
/// log-probability or another number of states or values than requested, if it gives no token a probability, or if the
/// engine fails. The states are released in every case.
pub fn generate_greedily<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    prompts: &[Vec<TokenId>],
    length: usize,
) -> Result<Vec<Vec<TokenId>>> {
    let mut meter = Meter::new(scorer);
    let grown = grow(&mut meter, prompts, length, &mut |row| {
        Ok(first_choice(row))
    });
    meter.release_all();
    grown
}

/// The number of texts that are drawn at once.
const DRAWN_AT_ONCE: usize = 32;
/// The number of draws per requested text after which no further texts are drawn.
const DRAWS: usize = 16;

/// A text drawn from a model.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledText {
    /// The text's tokens.
    pub tokens: Vec<TokenId>,
    /// ln P(the model draws the text after the prompt), nats.
    pub ln_probability: f64,
}

/// Returns distinct continuations of a prompt by `length` tokens, drawn from the model's own distribution (temperature
/// 1, no truncation). Stops when `count` of them pass `accept`, or with fewer after 16 times as many draws, rounded up
/// to a multiple of 32.
///
/// The same model, prompt and seed give the same texts.
///
/// # Errors
/// As for [`generate_greedily`], or [`Error::Interrupted`] if `progress` stops the run.
pub fn sample_continuations<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    prompt: &[TokenId],
    length: usize,
    count: usize,
    seed: u64,
    accept: &mut dyn FnMut(&[TokenId]) -> bool,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<SampledText>> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut seen = HashSet::new();
    let mut out: Vec<SampledText> = Vec::with_capacity(count);
    let mut drawn = 0;
    while out.len() < count && drawn < count.saturating_mul(DRAWS) {
        going_on(progress(out.len()))?;
        let prompts = vec![prompt.to_vec(); DRAWN_AT_ONCE];
        let mut logs = Vec::with_capacity(DRAWN_AT_ONCE * length);
        let mut meter = Meter::new(scorer);
        let texts = grow(&mut meter, &prompts, length, &mut |row| {
            let token = draw(row, rng.random())?;
            logs.push(row[token as usize]);
            Ok(token)
        });
        meter.release_all();
        drawn += DRAWN_AT_ONCE;
        for (number, tokens) in texts?.into_iter().enumerate() {
            if out.len() < count && !seen.contains(&tokens) && accept(&tokens) {
                // The choices for one position are adjacent, text by text.
                let ln_probability = logs.iter().skip(number).step_by(DRAWN_AT_ONCE).sum();
                seen.insert(tokens.clone());
                out.push(SampledText {
                    tokens,
                    ln_probability,
                });
            }
        }
    }
    Ok(out)
}

/// Returns the token at which the cumulative probability passes this share of the total.
fn draw(row: &[f64], share: f64) -> Result<TokenId> {
    let whole: f64 = row.iter().map(|value| value.exp()).sum();
    let mut left = share * whole;
    let mut last = None;
    for (token, value) in row.iter().enumerate() {
        let mass = value.exp();
        if mass > 0.0 {
            last = Some(token as TokenId);
            left -= mass;
            if left < 0.0 {
                break;
            }
        }
    }
    last.ok_or(Error::BadScore {
        value: f64::NEG_INFINITY,
        token: 0,
    })
}

fn grow<S: PrefixScorer + ?Sized>(
    meter: &mut Meter<'_, S>,
    prompts: &[Vec<TokenId>],
    length: usize,
    choose: &mut dyn FnMut(&[f64]) -> Result<TokenId>,
) -> Result<Vec<Vec<TokenId>>> {
    let mut states = meter.start(prompts)?;
    let mut texts = vec![Vec::with_capacity(length); states.len()];
    for place in 0..length {
        let rows = meter.distributions(&states)?;
        let mut steps = Vec::with_capacity(states.len());
        for ((row, state), text) in rows.iter().zip(states.iter()).zip(&mut texts) {
            let token = choose(row)?;
            text.push(token);
            steps.push((*state, token));
        }
        if place + 1 < length {
            let next = meter.extend(&steps)?;
            meter.let_go(&states);
            states = next;
        }
    }
    Ok(texts)
}

fn first_choice(row: &[f64]) -> TokenId {
    let mut best = (f64::NEG_INFINITY, 0);
    for (token, &value) in row.iter().enumerate() {
        if value > best.0 {
            best = (value, token as TokenId);
        }
    }
    best.1
}
