//! Counts how often a passage occurs in the training text.

use reticent_corpus::TokenId;
use std::collections::HashMap;

/// The least number of copies in each stratum.
const FIRST: [u64; 5] = [0, 1, 2, 10, 100];

/// Groups items by their number of copies in the training text (0, 1, 2 to 9, 10 to 99, 100 and more). Returns the
/// least and the largest number of copies of each stratum with its indices in `copies`; empty strata are omitted.
pub(crate) fn strata_of(copies: &[u64]) -> Vec<(u64, Option<u64>, Vec<usize>)> {
    let mut found = Vec::new();
    for (place, &from) in FIRST.iter().enumerate() {
        let to = FIRST.get(place + 1).map(|next| next - 1);
        let inside = |i: &usize| copies[*i] >= from && to.is_none_or(|to| copies[*i] <= to);
        let places: Vec<usize> = (0..copies.len()).filter(inside).collect();
        if !places.is_empty() {
            found.push((from, to, places));
        }
    }
    found
}

/// Returns how often each needle occurs in the records, including overlaps.
///
/// Makes one pass per length of needle, with a rolling hash whose hits are compared token by token.
///
/// ```
/// let records = [vec![1, 2, 1, 2, 1], vec![9, 1, 2]];
/// let counts = reticent_attacks::extract::count_copies(&records, &[vec![1, 2], vec![2, 1, 2], vec![3]]);
/// assert_eq!(counts, [3, 1, 0]);
/// ```
#[must_use]
pub fn count_copies(records: &[Vec<TokenId>], needles: &[Vec<TokenId>]) -> Vec<u64> {
    let mut counts = vec![0; needles.len()];
    let mut by_length: HashMap<usize, HashMap<u64, Vec<usize>>> = HashMap::new();
    for (index, needle) in needles.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
        let same = by_length.entry(needle.len()).or_default();
        same.entry(hash(needle)).or_default().push(index);
    }
    for (length, wanted) in &by_length {
        let power = (0..*length).fold(1_u64, |p, _| p.wrapping_mul(BASE));
        for record in records {
            let mut rolling = 0_u64;
            for (end, &token) in record.iter().enumerate() {
                rolling = push(rolling, token);
                if end >= *length {
                    rolling = rolling.wrapping_sub(power.wrapping_mul(value(record[end - length])));
                }
                let Some(start) = (end + 1).checked_sub(*length) else {
                    continue;
                };
                for &index in wanted.get(&rolling).into_iter().flatten() {
                    if needles[index] == record[start..=end] {
                        counts[index] += 1;
                    }
                }
            }
        }
    }
    counts
}

/// An odd number without structure; hash collisions are compared token by token.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

fn value(token: TokenId) -> u64 {
    u64::from(token) + 1
}

fn push(rolling: u64, token: TokenId) -> u64 {
    rolling.wrapping_mul(BASE).wrapping_add(value(token))
}

fn hash(tokens: &[TokenId]) -> u64 {
    tokens.iter().fold(0, |h, t| push(h, *t))
}
