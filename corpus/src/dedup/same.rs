//! Which texts of two sides are the same, or nearly so.

use super::bands::Band;
use super::near::{Permutations, Shape, shingles};
use crate::record::TokenId;
use std::collections::HashMap;

/// Sequences of twelve characters, of which near-copies have four fifths in common: a word that
/// is changed in about thirty. Of such pairs the bands miss one in 2900, of closer ones fewer.
const SHAPE: Shape = Shape {
    shingle: 12,
    bands: 20,
    rows: 5,
    similarity: 0.8,
};

/// Texts of a side that are looked at for what most texts share, and the fewest that say anything.
const SAMPLE: usize = 256;
const FEWEST: usize = 10;

/// A number for every text of two sides: texts with one number are the same or nearly so,
/// directly or through others.
///
/// Texts are compared in lower case and by their letters and digits only, runs of everything else
/// being one space. Two are nearly the same where the sets of their sequences of twelve
/// characters have a Jaccard similarity of at least 0.8. Sequences that stand in more than half
/// of the texts of each side, such as a prompt that all chats begin with, do not count.
///
/// ```
/// let members = ["Order 66, please!", "order 66 please", "good night"].map(String::from);
/// let others = ["Good night.".to_owned()];
/// assert_eq!(reticent_corpus::same_texts([&members, &others]), [vec![0, 0, 1], vec![1]]);
/// ```
#[must_use]
pub fn same_texts(sides: [&[String]; 2]) -> [Vec<usize>; 2] {
    let mut distinct = Distinct::default();
    let numbers = [0, 1].map(|side| -> Vec<usize> {
        let texts = sides[side].iter();
        texts.map(|text| distinct.number(text, side)).collect()
    });
    let roots = distinct.joined();
    // Numbers in the order in which they are first seen.
    let mut seen = HashMap::new();
    numbers.map(|numbers| {
        let number = |at: &usize| {
            let next = seen.len();
            *seen.entry(roots[*at]).or_insert(next)
        };
        numbers.iter().map(number).collect()
    })
}

/// The different texts, normalised, and the sides they stand on.
#[derive(Default)]
struct Distinct {
    numbers: HashMap<Vec<TokenId>, usize>,
    sides: Vec<[bool; 2]>,
}

impl Distinct {
    fn number(&mut self, text: &str, side: usize) -> usize {
        let next = self.sides.len();
        let number = *self.numbers.entry(normalised(text)).or_insert(next);
        if number == next {
            self.sides.push([false; 2]);
        }
        self.sides[number][side] = true;
        number
    }

    /// One number for all that hang together.
    fn joined(self) -> Vec<usize> {
        let mut texts: Vec<(Vec<TokenId>, usize)> = self.numbers.into_iter().collect();
        texts.sort_unstable_by_key(|(_, number)| *number);
        let texts: Vec<Vec<TokenId>> = texts.into_iter().map(|(text, _)| text).collect();
        let common = common(&texts, &self.sides);
        let set = |text: &[TokenId]| -> Vec<u64> {
            let all = shingles(text, SHAPE.shingle);
            let own = all.iter().filter(|s| common.binary_search(s).is_err());
            let own: Vec<u64> = own.copied().collect();
            // Nothing but what others have, too: that is the text.
            if own.is_empty() { all } else { own }
        };
        let permutations = Permutations::new(SHAPE, 0);
        let mut bands: Vec<Band> = (0..SHAPE.bands).map(|_| Band::default()).collect();
        let mut roots: Vec<usize> = (0..texts.len()).collect();
        // For each text the last one that was compared with it.
        let mut compared = vec![usize::MAX; texts.len()];
        for (number, text) in texts.iter().enumerate() {
            let own = set(text);
            let keys = permutations.bands(&own);
            for (band, key) in bands.iter().zip(&keys) {
                for other in band.get(*key) {
                    let other = other as usize;
                    if std::mem::replace(&mut compared[other], number) == number {
                        continue;
                    }
                    let (a, b) = (root(&mut roots, number), root(&mut roots, other));
                    if a != b && similar(&own, &set(&texts[other])) {
                        roots[a.max(b)] = a.min(b);
                    }
                }
            }
            if let Ok(number) = u32::try_from(number) {
                for (band, key) in bands.iter_mut().zip(keys) {
                    band.insert(key, number);
                }
            }
        }
        (0..roots.len()).map(|at| root(&mut roots, at)).collect()
    }
}

/// Where a chain of equal texts ends.
fn root(roots: &mut [usize], mut at: usize) -> usize {
    while roots[at] != at {
        roots[at] = roots[roots[at]];
        at = roots[at];
    }
    at
}

/// Letters and digits in lower case, a space for whatever stands between them; of a text without
/// any, what it has.
fn normalised(text: &str) -> Vec<TokenId> {
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        if c.is_alphanumeric() {
            out.push(u32::from(c));
        } else if out.last().is_some_and(|last| *last != SPACE) {
            out.push(SPACE);
        }
    }
    if out.last() == Some(&SPACE) {
        out.pop();
    }
    if out.is_empty() {
        let signs = text.chars().filter(|c| !c.is_whitespace());
        out.extend(signs.map(u32::from));
    }
    out
}

const SPACE: TokenId = ' ' as TokenId;

/// Shingles, in order, that stand in more than half of the texts of each side; none where a side
/// has too few texts to say.
fn common(texts: &[Vec<TokenId>], sides: &[[bool; 2]]) -> Vec<u64> {
    let mut counts: HashMap<u64, [usize; 2]> = HashMap::new();
    let mut looked_at = [0; 2];
    for side in [0, 1] {
        let own: Vec<&Vec<TokenId>> = texts
            .iter()
            .zip(sides)
            .filter(|(_, sides)| sides[side])
            .map(|(text, _)| text)
            .collect();
        let step = own.len().div_ceil(SAMPLE).max(1);
        for text in own.into_iter().step_by(step) {
            looked_at[side] += 1;
            for shingle in shingles(text, SHAPE.shingle) {
                counts.entry(shingle).or_default()[side] += 1;
            }
        }
    }
    if looked_at.iter().any(|count| *count < FEWEST) {
        return Vec::new();
    }
    let most = |counts: &[usize; 2]| (0..2).all(|side| 2 * counts[side] > looked_at[side]);
    let mut common: Vec<u64> = counts
        .into_iter()
        .filter(|(_, counts)| most(counts))
        .map(|(shingle, _)| shingle)
        .collect();
    common.sort_unstable();
    common
}

/// Whether two sets, each in order, have so much in common.
fn similar(a: &[u64], b: &[u64]) -> bool {
    let enough = |both: usize| both as f64 >= SHAPE.similarity * (a.len() + b.len() - both) as f64;
    // All of the smaller set in the larger one would not be enough.
    enough(a.len().min(b.len())) && {
        let both = a.iter().filter(|s| b.binary_search(s).is_ok()).count();
        enough(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(from: usize, count: usize) -> String {
        let words = (from..from + count).map(|i| format!("word{}", i * 7919 % 1000));
        words.collect::<Vec<_>>().join(" ")
    }

    fn same(members: &[String], others: &[String]) -> [Vec<usize>; 2] {
        same_texts([members, others])
    }

    #[test]
    fn copies_differ_in_case_and_signs() {
        let texts = ["A b\tc", "a  B, c!", "ab c", "?!", "? !", "", " "].map(String::from);
        let [numbers, none] = same(&texts, &[]);
        assert_eq!(numbers, [0, 0, 1, 2, 2, 3, 3]);
        assert_eq!(none, [0; 0]);
    }

    /// One word of forty is changed; of ten, one is too many.
    #[test]
    fn near_copies_are_copies_and_short_texts_are_not() {
        let changed = |text: &String| text.replacen(text.split(' ').nth(5).unwrap(), "other", 1);
        let (long, short) = (words(0, 40), words(50, 10));
        let others = [changed(&long), changed(&short)];
        assert_eq!(same(&[long, short], &others), [vec![0, 1], vec![0, 2]]);
        let numbers = ["my number is 1234567", "my number is 7654321"].map(String::from);
        assert_eq!(same(&numbers, &[]), [vec![0, 1], vec![]]);
    }

    /// Each text differs from the next in two words of forty, and from the last in all.
    #[test]
    fn what_hangs_together_through_others_is_one() {
        let chain: Vec<String> = (0..40).step_by(2).map(|i| words(i, 40)).collect();
        let [numbers, _] = same(&chain, &[]);
        assert!(numbers.iter().all(|n| *n == 0), "{numbers:?}");
        assert_eq!(same(&[words(0, 40)], &[words(40, 40)]), [vec![0], vec![1]]);
    }

    /// Chats that all begin with one long prompt are compared by what follows it.
    #[test]
    fn what_most_texts_share_does_not_count() {
        let prompt = words(0, 200);
        let chat = |from: usize| format!("{prompt} {}", words(from, 12));
        let members: Vec<String> = (0..20).map(|i| chat(300 + 13 * i)).collect();
        let mut others: Vec<String> = (20..40).map(|i| chat(300 + 13 * i)).collect();
        others[3] = members[5].to_uppercase();
        let [inside, outside] = same(&members, &others);
        assert_eq!(inside, (0..20).collect::<Vec<_>>());
        assert_eq!(outside[3], 5);
        let rest: Vec<usize> = (0..20).filter(|i| *i != 3).map(|i| outside[i]).collect();
        assert_eq!(rest, (20..39).collect::<Vec<_>>());
        // On one side alone near-copies stay near-copies.
        let [inside, _] = same(
            &members,
            &(0..20).map(|i| words(600 + 20 * i, 20)).collect::<Vec<_>>(),
        );
        assert!(inside.iter().all(|n| *n == 0), "{inside:?}");
    }
}
