//! Finds texts of two sides that are the same or nearly the same.

use super::bands::Band;
use super::mix;
use super::near::{Permutations, Shape, shingles};
use crate::record::TokenId;
use std::collections::HashMap;

/// Sequences of twelve characters, of which near copies share four fifths: about one word in thirty changed. The bands
/// miss one in 2800 of such pairs, and fewer of closer ones.
const SHAPE: Shape = Shape {
    shingle: 12,
    bands: 20,
    rows: 5,
    similarity: 0.8,
};

/// The lengths, in characters, of texts that are also the same if they differ in one letter. For longer texts, the
/// sequences tolerate one letter; for shorter texts, one letter is a large part.
const SHORT: std::ops::Range<usize> = 24..128;

/// The number of short texts with one character omitted that are held in memory together.
const HELD: usize = 1 << 22;

/// The number of texts per side that are sampled for what most texts share, and the smallest number that allows a
/// conclusion.
const SAMPLE: usize = 256;
const FEWEST: usize = 10;

/// Returns a number for every text of two sides. Texts with the same number are the same or nearly the same, directly
/// or through others.
///
/// Texts are compared in lower case and only by their letters and digits; runs of anything else count as one space. Two
/// texts are nearly the same if the sets of their sequences of twelve characters have a Jaccard similarity of at least
/// 0.8. Two texts of 24 to 127 characters are also nearly the same if changing, inserting or omitting one letter turns
/// one into the other; digits must agree in this case. Sequences that occur in more than half of the texts of each
/// side, such as a prompt at the beginning of all chats, are not counted.
///
/// ```
/// let members = ["Order 66, please!", "order 66 please", "good night"].map(String::from);
/// let others = ["Good night.".to_owned()];
/// assert_eq!(reticent_corpus::dedup::same_texts([&members, &others]), [vec![0, 0, 1], vec![1]]);
/// ```
#[must_use]
pub fn same_texts(sides: [&[String]; 2]) -> [Vec<usize>; 2] {
    let mut distinct = Distinct::default();
    let numbers = [0, 1].map(|side| -> Vec<usize> {
        let texts = sides[side].iter();
        texts.map(|text| distinct.number(text, side)).collect()
    });
    let roots = distinct.joined();
    // Numbers are assigned in the order of first occurrence.
    let mut seen = HashMap::new();
    numbers.map(|numbers| {
        let number = |at: &usize| {
            let next = seen.len();
            *seen.entry(roots[*at]).or_insert(next)
        };
        numbers.iter().map(number).collect()
    })
}

/// The distinct texts, normalised, and the sides on which they occur.
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

    /// Returns the same number for all texts that are connected.
    fn joined(self) -> Vec<usize> {
        let mut texts: Vec<(Vec<TokenId>, usize)> = self.numbers.into_iter().collect();
        texts.sort_unstable_by_key(|(_, number)| *number);
        let texts: Vec<Vec<TokenId>> = texts.into_iter().map(|(text, _)| text).collect();
        let common = common(&texts, &self.sides);
        let set = |text: &[TokenId]| -> Vec<u64> {
            let all = shingles(text, SHAPE.shingle);
            let own = all.iter().filter(|s| common.binary_search(s).is_err());
            let own: Vec<u64> = own.copied().collect();
            // The text consists only of what others contain, too; use all of it.
            if own.is_empty() { all } else { own }
        };
        let permutations = Permutations::new(SHAPE, 0);
        let mut bands: Vec<Band> = (0..SHAPE.bands).map(|_| Band::default()).collect();
        let mut roots: Vec<usize> = (0..texts.len()).collect();
        // For each text, the last one that was compared with it.
        let mut compared = vec![usize::MAX; texts.len()];
        for (number, text) in texts.iter().enumerate() {
            let own = set(text);
            let keys = permutations.bands(&own);
            for (band, key) in bands.iter().zip(&keys) {
                for other in band.get(*key, 0) {
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
        join_by_a_letter(&texts, &mut roots, HELD);
        (0..roots.len()).map(|at| root(&mut roots, at)).collect()
    }
}

/// Joins short texts that differ in one character, which is not a digit in either.
///
/// Two such texts are equal once that character is omitted from both, or from one of them. Texts are therefore sorted
/// by what remains without a character, `held` of them at a time.
fn join_by_a_letter(texts: &[Vec<TokenId>], roots: &mut [usize], held: usize) {
    /// In place of a character's position: nothing is omitted.
    const WHOLE: usize = usize::MAX;
    let short = || {
        let texts = texts.iter().enumerate();
        texts.filter(|(_, text)| SHORT.contains(&text.len()))
    };
    let all: usize = short().map(|(_, text)| 1 + text.len()).sum();
    let parts = all.div_ceil(held).max(1) as u64;
    for part in 0..parts {
        let mut remain: Vec<(u64, usize, usize)> = Vec::new();
        for (number, text) in short() {
            let each = remainders(text).filter(|(hash, _)| hash % parts == part);
            remain.extend(each.map(|(hash, out)| (hash, out.unwrap_or(WHOLE), number)));
        }
        remain.sort_unstable();
        for alike in remain.chunk_by(|a, b| a.0 == b.0) {
            let whole = alike.last().filter(|(_, out, _)| *out == WHOLE);
            for pair in alike.windows(2) {
                let [(_, out, number), (_, beside, next)] = *pair else {
                    continue;
                };
                let mut join = |other: usize, left_out: usize| {
                    if without(&texts[number], out).eq(without(&texts[other], left_out)) {
                        let (a, b) = (root(roots, number), root(roots, other));
                        roots[a.max(b)] = a.min(b);
                    }
                };
                if out == beside {
                    join(next, beside);
                }
                if let Some((_, _, whole)) = whole {
                    join(*whole, WHOLE);
                }
            }
        }
    }
}

/// Returns a text without one character.
fn without(text: &[TokenId], out: usize) -> impl Iterator<Item = &TokenId> {
    let kept = text.iter().enumerate().filter(move |(at, _)| *at != out);
    kept.map(|(_, character)| character)
}

/// Returns the hash of a text, and of the text without each character that is not a digit, with the position of that
/// character.
fn remainders(text: &[TokenId]) -> impl Iterator<Item = (u64, Option<usize>)> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let next = |hash: u64, character: TokenId| {
        hash.wrapping_mul(FACTOR)
            .wrapping_add(u64::from(character) + 1)
    };
    // The hash of what precedes each position, and FACTOR to the power of the number of characters after it.
    let mut before = vec![0_u64];
    let mut powers = vec![1_u64; text.len() + 1];
    for (at, character) in text.iter().enumerate() {
        before.push(next(before[at], *character));
        powers[text.len() - at - 1] = powers[text.len() - at].wrapping_mul(FACTOR);
    }
    let whole = before[text.len()];
    let is_digit = |c: TokenId| char::from_u32(c).is_some_and(char::is_numeric);
    let places = (0..text.len()).filter(move |at| !is_digit(text[*at]));
    let each = places.map(move |at| {
        let behind = whole.wrapping_sub(before[at + 1].wrapping_mul(powers[at + 1]));
        let hash = before[at].wrapping_mul(powers[at + 1]).wrapping_add(behind);
        (mix(hash), Some(at))
    });
    // Mixed, so that remainders of the hashes depend on all of their bits.
    std::iter::once((mix(whole), None)).chain(each)
}

/// Returns the end of a chain of equal texts.
fn root(roots: &mut [usize], mut at: usize) -> usize {
    while roots[at] != at {
        roots[at] = roots[roots[at]];
        at = roots[at];
    }
    at
}

/// Returns the letters and digits in lower case, with one space for whatever is between them. A text with neither is
/// kept without its white space.
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

/// Returns the shingles, in order, that occur in more than half of the texts of each side; none if a side has too few
/// texts.
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

/// Returns whether two sets, each in order, are similar enough.
fn similar(a: &[u64], b: &[u64]) -> bool {
    let enough = |both: usize| both as f64 >= SHAPE.similarity * (a.len() + b.len() - both) as f64;
    // Skips the count if even the whole smaller set in the larger one would not be enough.
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

    /// A letter that is changed, inserted or left out; a digit, another letter or a text too short for it is more.
    #[test]
    fn short_texts_may_differ_in_a_letter() {
        let text = "please send order 4711 to Brown today";
        let near = [
            "please send order 4711 to Crown today",
            "please sends order 4711 to Brown today!",
            "please send order 4711 toBrown today",
        ];
        let far = [
            "please send order 4712 to Brown today",
            "please send order 471 to Brown today",
            "please send order 4711 to Green today",
            "please send order x711 to Brown today",
        ];
        for other in near {
            assert_eq!(
                same(&[text.into()], &[other.into()]),
                [vec![0], vec![0]],
                "{other}"
            );
        }
        for other in far {
            assert_eq!(
                same(&[text.into()], &[other.into()]),
                [vec![0], vec![1]],
                "{other}"
            );
        }
        assert_eq!(
            same(&["my name is Anna".into()], &["my name is Anne".into()]),
            [vec![0], vec![1]]
        );
    }

    /// However few remainders are held at once, what is joined is what comparing all pairs joins.
    #[test]
    fn parts_join_what_all_pairs_join() {
        let mut texts: Vec<Vec<TokenId>> = Vec::new();
        for i in 0..60_usize {
            let mut text = normalised(&words(i / 6 * 40, 6));
            match i % 6 {
                0 => {}
                1 => text[i % 20] = u32::from('q'),
                2 => text.insert(i % 30, u32::from('q')),
                3 => drop(text.remove(i % 30)),
                4 => text[7..9].fill(u32::from('q')),
                _ => text.push(u32::from('7')),
            }
            texts.push(text);
        }
        let is_digit = |c: &TokenId| char::from_u32(*c).unwrap().is_numeric();
        let one_letter = |a: &[TokenId], b: &[TokenId]| {
            let (a, b) = if a.len() < b.len() { (b, a) } else { (a, b) };
            let mut places = (0..a.len()).filter(|at| !is_digit(&a[*at]));
            places.any(|at| match a.len() - b.len() {
                0 => !is_digit(&b[at]) && without(a, at).eq(without(b, at)),
                1 => without(a, at).eq(b),
                _ => false,
            })
        };
        let mut wanted: Vec<usize> = (0..texts.len()).collect();
        for a in 0..texts.len() {
            for b in 0..a {
                if texts[a] == texts[b] || one_letter(&texts[a], &texts[b]) {
                    let (a, b) = (root(&mut wanted, a), root(&mut wanted, b));
                    wanted[a.max(b)] = a.min(b);
                }
            }
        }
        let wanted: Vec<usize> = (0..texts.len()).map(|at| root(&mut wanted, at)).collect();
        assert!(
            wanted
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len()
                < 40
        );
        for held in [1_000_000, 500, 50] {
            let mut roots: Vec<usize> = (0..texts.len()).collect();
            join_by_a_letter(&texts, &mut roots, held);
            let found: Vec<usize> = (0..texts.len()).map(|at| root(&mut roots, at)).collect();
            assert_eq!(found, wanted, "{held}");
        }
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
