//! Neighbours of a text: the same but for its digits.

use crate::error::{Error, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeSet;

/// Up to `count` texts that differ from this one in their digits only, all distinct, uniform
/// without repetition among all of that shape; every one of them where there are no more.
///
/// For a secret made of uniform digits the text and its neighbours are exchangeable unless the
/// model has seen it: the rank of its score is an exact p-value, and no second model proposes
/// the neighbours.
///
/// ```
/// let near = reticent_attacks::digit_mutations("My ID is 341752.", 25, 0)?;
/// assert_eq!(near.len(), 25);
/// assert!(near.iter().all(|text| text.starts_with("My ID is ") && text.len() == 16));
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// A text without a digit.
pub fn digit_mutations(text: &str, count: usize, seed: u64) -> Result<Vec<String>> {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    if digits == 0 {
        return Err(Error::out_of_range(
            "digits of the text",
            "[1, inf)",
            digits,
        ));
    }
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
