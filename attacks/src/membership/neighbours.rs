//! Neighbours of a text: texts with other digits, or with one token replaced by a proposal of another model.

use crate::error::{Error, Result, given, ranged};
use crate::search::Meter;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use reticent_backends::PrefixScorer;
use reticent_corpus::TokenId;
use std::collections::BTreeSet;

/// Returns up to `count` distinct texts that differ from this one in their digits only, drawn uniformly
/// without repetition from all texts of that shape; all of them if there are no more.
///
/// For a secret of uniform digits the text and its neighbours are exchangeable unless the model has seen the text. The
/// rank of its score is then an exact p-value, and no second model is needed to propose the neighbours.
///
/// ```
/// let near = reticent_attacks::membership::digit_mutations("My ID is 341752.", 25, 0)?;
/// assert_eq!(near.len(), 25);
/// assert!(near.iter().all(|text| text.starts_with("My ID is ") && text.len() == 16));
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the text has no digit.
pub fn digit_mutations(text: &str, count: usize, seed: u64) -> Result<Vec<String>> {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    ranged("digits of the text", "[1, inf)", digits, digits > 0)?;
    let own: String = text.chars().filter(char::is_ascii_digit).collect();
    let with = |new: &str| -> String {
        let mut new = new.chars();
        let swap = |c: char| {
            if c.is_ascii_digit() {
                new.next().unwrap_or(c)
            } else {
                c
            }
        };
        text.chars().map(swap).collect()
    };
    let others = 10_f64.powf(digits as f64) - 1.0;
    if (count as f64) >= others {
        let all = 0..10_u64.pow(digits as u32);
        let spelled = all.map(|n| format!("{n:0digits$}"));
        return Ok(spelled.filter(|n| *n != own).map(|n| with(&n)).collect());
    }
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut taken = BTreeSet::from([own]);
    let mut texts = Vec::with_capacity(count);
    while texts.len() < count {
        let new: String = (0..digits)
            .map(|_| char::from(b'0' + rng.random_range(0..10_u8)))
            .collect();
        if taken.insert(new.clone()) {
            texts.push(with(&new));
        }
    }
    Ok(texts)
}

/// Returns `count` copies of a record, each with one token replaced. The position is uniform among those after the
/// first token. The new token is drawn from a model's distribution there given the preceding tokens, excluding the old
/// token (Mattern et al. 2023, with a causal model in place of a masked one). Tokens equal to the record's first, which
/// marks where texts begin and end, are neither replaced nor inserted. Positions are among the first `context` tokens.
///
/// The model should not be the audited one, which proposes for memorised text almost nothing but the text itself.
///
/// # Errors
/// Returns an error if the record has no token to replace, if the model has no vocabulary, if it returns a value that
/// is not a log-probability or another number of states or values than requested, if it gives no token a probability,
/// or if the engine fails. States are released in every case.
pub fn replacements<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    record: &[TokenId],
    count: usize,
    context: Option<usize>,
    seed: u64,
) -> Result<Vec<Vec<TokenId>>> {
    let end = record.len().min(context.unwrap_or(usize::MAX));
    let places: Vec<usize> = (1..end).filter(|&i| record[i] != record[0]).collect();
    given(!places.is_empty(), "a record without a token to replace")?;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let chosen: Vec<usize> = (0..count)
        .map(|_| places[rng.random_range(0..places.len())])
        .collect();
    let distinct: BTreeSet<usize> = chosen.iter().copied().collect();
    let prefixes: Vec<Vec<TokenId>> = distinct.iter().map(|&at| record[..at].to_vec()).collect();
    let mut meter = Meter::new(scorer);
    let rows = meter
        .start(&prefixes)
        .and_then(|states| meter.distributions(&states));
    meter.release_all();
    let rows = rows?;
    let near = chosen.iter().map(|at| {
        let row = &rows[distinct.range(..at).count()];
        let new = drawn(row, [record[*at], record[0]], rng.random())?;
        let mut near = record.to_vec();
        near[*at] = new;
        Ok(near)
    });
    near.collect()
}

/// Returns the token at the quantile `u` of a row without two tokens; uniform over the others if none of them is
/// possible.
fn drawn(row: &[f64], without: [TokenId; 2], u: f64) -> Result<TokenId> {
    let others = || (0..row.len()).filter(|&i| !without.contains(&(i as TokenId)));
    let top = others().map(|i| row[i]).fold(f64::NEG_INFINITY, f64::max);
    let weight = |i: usize| match top {
        f64::NEG_INFINITY => 1.0,
        _ => (row[i] - top).exp(),
    };
    let mut left = u * others().map(weight).sum::<f64>();
    let mut last = None;
    for i in others().filter(|&i| weight(i) > 0.0) {
        last = Some(i as TokenId);
        left -= weight(i);
        if left < 0.0 {
            break;
        }
    }
    last.ok_or(Error::Empty("a vocabulary without another token"))
}
