//! Creates non-members that differ from members only in their secrets.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::collections::{BTreeMap, BTreeSet};

/// The number of draws for a secret before giving up, because it has hardly any other content.
const TRIES: usize = 100;

/// A piece of a secret to be redrawn: words by their positions, digits one by one, the rest unchanged.
enum Piece<'a> {
    Word(usize, &'a str),
    Digits(&'a str),
    Other(&'a str),
}

/// Splits a secret into words (numbered from 0), runs of digits, and the text between them.
fn pieces(secret: &str) -> Vec<Piece<'_>> {
    let kind = |c: char| (c.is_ascii_digit(), c.is_alphabetic());
    let mut out = Vec::new();
    let (mut rest, mut words) = (secret, 0);
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| kind(c) != kind(first)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        out.push(match kind(first) {
            (true, _) => Piece::Digits(piece),
            (_, true) => {
                words += 1;
                Piece::Word(words - 1, piece)
            }
            _ => Piece::Other(piece),
        });
        rest = after;
    }
    out
}

/// Returns each text with its secrets replaced by other contents of the same form. Digits are drawn uniformly (a
/// nonzero first digit stays nonzero), words from those at the same position in the other secrets, and letters if there
/// is no other word. No drawn content equals one of the given secrets. Source of the experiment: Zhao et al. 2022
/// (CRT), appendix A.5, sequences with secrets of the training data against random ones of the same format.
///
/// `texts` holds each text with the secrets it contains; all occurrences of a secret change in the same way. A text
/// that contains no secret, or whose secret has no other content, gives `None`.
///
/// ```
/// let texts = [
///     ("I live at 12 Oak Street.".to_owned(), vec!["12 Oak Street".to_owned()]),
///     ("Send it to 90 Elm Road!".to_owned(), vec!["90 Elm Road".to_owned()]),
/// ];
/// let drawn = reticent_attacks::membership::lookalikes(&texts, 3);
/// let first = drawn[0].as_ref().unwrap();
/// assert!(first.starts_with("I live at ") && first.ends_with('.') && *first != texts[0].0);
/// assert!(["Oak Street", "Oak Road", "Elm Street", "Elm Road"].iter().any(|words| first.contains(words)));
/// ```
#[must_use]
pub fn lookalikes(texts: &[(String, Vec<String>)], seed: u64) -> Vec<Option<String>> {
    let known: BTreeSet<&str> = texts
        .iter()
        .flat_map(|(_, secrets)| secrets.iter().map(String::as_str))
        .collect();
    // Words are kept as often as they occur in secrets, so that common words are equally common in the draws.
    let mut words: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for secret in &known {
        for piece in pieces(secret) {
            if let Piece::Word(place, word) = piece {
                words.entry(place).or_default().push(word);
            }
        }
    }
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let mut fresh: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for secret in known.iter().copied() {
        let mut drawn = (0..TRIES).map(|_| draw(secret, &words, &mut random));
        let other = drawn.find(|other| !known.contains(other.as_str()));
        fresh.insert(secret, other);
    }
    texts
        .iter()
        .map(|(text, secrets)| {
            // Longest first, so that a secret inside another one is not replaced within it.
            let mut inside: Vec<&str> = secrets.iter().map(String::as_str).collect();
            inside.retain(|secret| !secret.is_empty() && text.contains(secret));
            inside.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
            inside.dedup();
            let others: Option<Vec<(&str, &str)>> = inside
                .iter()
                .map(|secret| Some((*secret, fresh.get(secret)?.as_deref()?)))
                .collect();
            let others = others.filter(|others| !others.is_empty())?;
            Some(replaced(text, &others))
        })
        .collect()
}

/// Replaces every occurrence from left to right, without rescanning the replacements.
fn replaced(text: &str, others: &[(&str, &str)]) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        match others.iter().find(|(secret, _)| rest.starts_with(secret)) {
            Some((secret, other)) => {
                out.push_str(other);
                rest = &rest[secret.len()..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

fn draw(secret: &str, words: &BTreeMap<usize, Vec<&str>>, random: &mut ChaCha20Rng) -> String {
    let mut out = String::new();
    for piece in pieces(secret) {
        match piece {
            Piece::Other(text) => out.push_str(text),
            Piece::Digits(digits) => {
                for (place, digit) in digits.chars().enumerate() {
                    let least = u8::from(place == 0 && digit != '0');
                    out.push(char::from(b'0' + random.random_range(least..10)));
                }
            }
            Piece::Word(place, word) => match words.get(&place) {
                Some(all) if all.iter().any(|other| *other != word) => {
                    out.push_str(all[random.random_range(0..all.len())])
                }
                _ => out.extend(word.chars().map(|c| letter(c, random))),
            },
        }
    }
    out
}

/// Draws a letter of the same case; other characters than ASCII letters are returned unchanged.
fn letter(c: char, random: &mut ChaCha20Rng) -> char {
    let first = match c {
        'a'..='z' => b'a',
        'A'..='Z' => b'A',
        _ => return c,
    };
    char::from(first + random.random_range(0..26))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, secrets: &[&str]) -> (String, Vec<String>) {
        let secrets = secrets.iter().map(ToString::to_string).collect();
        (text.to_owned(), secrets)
    }

    /// Seed 5, 300 texts: form and context stay, no secret of the training data is drawn, and the draws repeat.
    #[test]
    fn the_form_stays_and_no_known_secret_is_drawn() {
        let texts: Vec<_> = (0..300)
            .map(|i| {
                let secret = format!("REF-{:04}-{}", i * 29 % 9000 + 1000, ["ab", "Cd"][i % 2]);
                text(&format!("Booked as {secret}, yes {secret}."), &[&secret])
            })
            .collect();
        let known: BTreeSet<&String> = texts.iter().flat_map(|(_, secrets)| secrets).collect();
        let drawn = lookalikes(&texts, 5);
        assert_eq!(drawn, lookalikes(&texts, 5));
        for ((before, _), after) in texts.iter().zip(&drawn) {
            let after = after.as_ref().unwrap();
            let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
            let place = before.find(':').unwrap_or(0);
            assert_eq!(before.len(), after.len(), "{place}");
            let secret = after["Booked as ".len()..]
                .split(',')
                .next()
                .unwrap()
                .to_owned();
            assert!(!known.contains(&secret), "{secret}");
            assert_eq!(*after, format!("Booked as {secret}, yes {secret}."));
            let digits: String = secret.chars().map(shape).collect();
            assert!(
                digits.ends_with("-0000-ab") || digits.ends_with("-0000-Cd"),
                "{digits}"
            );
        }
    }

    #[test]
    fn texts_without_another_content_are_left_out() {
        let drawn = lookalikes(
            &[
                text("nothing here", &[]),
                text("not inside", &["7341"]),
                text("only signs: --", &["--"]),
                text("ten digits hold one: 0 1 2 3 4 5 6 7 8 9", &[]),
                text("a 12 and a 1234, 12.", &["12", "1234"]),
            ],
            1,
        );
        assert!(drawn[..4].iter().all(Option::is_none), "{drawn:?}");
        let last = drawn[4].as_ref().unwrap();
        let numbers: Vec<&str> = last.split(|c: char| !c.is_ascii_digit()).collect();
        let numbers: Vec<&&str> = numbers.iter().filter(|n| !n.is_empty()).collect();
        assert!(numbers[1].len() == 4 && numbers[0] == numbers[2], "{last}");
        assert!(*numbers[0] != "12" && *numbers[1] != "1234", "{last}");
    }
}
