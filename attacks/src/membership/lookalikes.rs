//! Creates non-members that differ from members only in their secrets.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::collections::{BTreeMap, BTreeSet};

/// The number of draws for a secret before giving up, because it has hardly any other content.
const TRIES: usize = 100;

/// A piece of a secret, as it is redrawn.
enum Piece<'a> {
    /// A word with its position among the words: drawn from those at the same position.
    Word(usize, &'a str),
    /// Digits, or digits and letters in turn: drawn one by one.
    Code(&'a str),
    /// What is between them, which stays.
    Other(&'a str),
}

fn pieces(secret: &str) -> Vec<Piece<'_>> {
    let drawn = |c: char| c.is_ascii_digit() || c.is_alphabetic();
    let mut out = Vec::new();
    let (mut rest, mut words) = (secret, 0);
    while let Some(first) = rest.chars().next() {
        let end = rest
            .find(|c| drawn(c) != drawn(first))
            .unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        let digit = first.is_ascii_digit();
        let other = |c: char| c.is_ascii_digit() != digit;
        let (head, tail) = piece.split_at(piece.find(other).unwrap_or(piece.len()));
        if !drawn(first) {
            out.push(Piece::Other(piece));
        } else if tail.chars().all(other) {
            // Letters before or behind digits are a word, as in `anna99` and `21st`.
            for part in [head, tail].into_iter().filter(|part| !part.is_empty()) {
                if part.starts_with(|c: char| c.is_ascii_digit()) {
                    out.push(Piece::Code(part));
                } else {
                    out.push(Piece::Word(words, part));
                    words += 1;
                }
            }
        } else {
            out.push(Piece::Code(piece));
        }
        rest = after;
    }
    out
}

/// Returns the form of a secret: `a` for each word (for each letter of one beside digits), `0` for each code, and what
/// is between them.
fn form(secret: &str) -> String {
    let pieces = pieces(secret);
    let code = |place: usize| matches!(pieces.get(place), Some(Piece::Code(_)));
    let signs = pieces.iter().enumerate().map(|(place, piece)| match piece {
        Piece::Word(_, word) if code(place + 1) || code(place.wrapping_sub(1)) => {
            "a".repeat(word.chars().count())
        }
        Piece::Word(..) => "a".to_owned(),
        Piece::Code(_) => "0".to_owned(),
        Piece::Other(text) => (*text).to_owned(),
    });
    signs.collect()
}

/// Returns each text with its secrets replaced by other contents of the same kind and form. Words are drawn from those at
/// the same position in secrets of the same kind and form, and so are letters before or behind digits, from those of the
/// same length. Digits are drawn uniformly (whether the first is zero stays), and so are letters between digits. No drawn
/// content equals one of the given secrets or another drawn one. Source of the experiment: Zhao et al. 2022 (CRT),
/// appendix A.5, sequences with secrets of the training data against random ones of the same format.
///
/// A model that saw neither side cannot tell names, addresses and random numbers from theirs; it can where digits mean
/// something (a date may get a month 48). What the texts alone tell ([`blind_baseline`](super::blind_baseline)) shows it.
///
/// `texts` holds each text with the secrets it contains, each with its kind; all occurrences of a secret change in the
/// same way. A text that contains no secret, or a secret without other content, gives `None`: one that has no digit, and
/// no other combination of the words of its kind and form. A single word has none, since all others are secrets.
///
/// ```
/// let text = |text: &str, kind: &str, secret: &str| {
///     (text.to_owned(), vec![(kind.to_owned(), secret.to_owned())])
/// };
/// let texts = [
///     text("I live at 12 Oak Street.", "address", "12 Oak Street"),
///     text("Send it to 90 Elm Road!", "address", "90 Elm Road"),
///     text("Parcel 7 Fast Post is late.", "parcel", "7 Fast Post"),
/// ];
/// let drawn = reticent_attacks::membership::lookalikes(&texts, 3);
/// let first = drawn[0].as_ref().unwrap();
/// assert!(first.starts_with("I live at ") && first.ends_with('.') && *first != texts[0].0);
/// assert!(["Oak Street", "Oak Road", "Elm Street", "Elm Road"].iter().any(|words| first.contains(words)));
/// ```
#[must_use]
pub fn lookalikes(texts: &[(String, Vec<(String, String)>)], seed: u64) -> Vec<Option<String>> {
    let marked = texts.iter().flat_map(|(_, secrets)| secrets);
    let known: BTreeMap<&str, &str> = marked
        .map(|(kind, secret)| (secret.as_str(), kind.as_str()))
        .collect();
    // Words are kept as often as they occur in secrets, so that common words are equally common in the draws.
    let mut words: BTreeMap<(&str, String), Vec<Vec<&str>>> = BTreeMap::new();
    for (secret, kind) in &known {
        let own = words.entry((*kind, form(secret))).or_default();
        for piece in pieces(secret) {
            if let Piece::Word(place, word) = piece {
                own.resize_with(own.len().max(place + 1), Vec::new);
                own[place].push(word);
            }
        }
    }
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let mut fresh: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (secret, kind) in &known {
        let words = &words[&(*kind, form(secret))];
        let mut drawn = (0..TRIES).map(|_| draw(secret, words, &mut random));
        // Two secrets with the same other content would count as independent evidence.
        let new =
            |other: &String| !known.contains_key(other.as_str()) && taken.insert(other.clone());
        let other = drawn.find(new);
        fresh.insert(secret, other);
    }
    texts
        .iter()
        .map(|(text, secrets)| {
            // Longest first, so that a secret inside another one is not replaced within it.
            let mut inside: Vec<&str> = secrets.iter().map(|(_, secret)| secret.as_str()).collect();
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

/// Draws a content for a secret, from the words of its kind and form at each position.
fn draw(secret: &str, words: &[Vec<&str>], random: &mut ChaCha20Rng) -> String {
    let mut out = String::new();
    for piece in pieces(secret) {
        match piece {
            Piece::Other(text) => out.push_str(text),
            Piece::Word(place, _) => {
                let all = &words[place];
                out.push_str(all[random.random_range(0..all.len())]);
            }
            Piece::Code(code) => {
                let signs = code.chars().enumerate();
                out.extend(signs.map(|(place, c)| sign(c, place == 0, random)));
            }
        }
    }
    out
}

/// Draws a digit for a digit and a letter of the same case for a letter; a first digit stays zero or not zero. Other
/// characters than those of ASCII are returned unchanged.
fn sign(c: char, first: bool, random: &mut ChaCha20Rng) -> char {
    let (least, count): (u8, u8) = match c {
        '0' if first => return c,
        '1'..='9' if first => (b'1', 9),
        '0'..='9' => (b'0', 10),
        'a'..='z' => (b'a', 26),
        'A'..='Z' => (b'A', 26),
        _ => return c,
    };
    char::from(least + random.random_range(0..count))
}

#[cfg(test)]
mod tests {
    use super::super::area::mid_rank;
    use super::*;
    use reticent_corpus::simulate::simulate;
    use std::collections::HashMap;

    fn text(text: &str, secrets: &[&str]) -> (String, Vec<(String, String)>) {
        let secrets = secrets.iter().map(|s| ("kind".to_owned(), s.to_string()));
        (text.to_owned(), secrets.collect())
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
        let known: BTreeSet<&String> = texts.iter().map(|(_, secrets)| &secrets[0].1).collect();
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

    /// Letters beside digits had become random ones, which any model tells from a name or an ordinal.
    #[test]
    fn letters_beside_digits_are_words() {
        let secrets = [
            "anna99@mail.com",
            "otto7@mail.com",
            "21st Street",
            "43rd Avenue",
        ];
        let drawn = lookalikes(&secrets.map(|secret| text(secret, &[secret])), 2);
        let mails = ["annamailcom", "ottomailcom"];
        let streets = ["stStreet", "stAvenue", "rdStreet", "rdAvenue"];
        let known = [&mails[..], &mails, &streets, &streets];
        for (other, known) in drawn.iter().zip(known) {
            let letters = other.as_ref().unwrap().chars();
            let letters: String = letters.filter(|c| c.is_alphabetic()).collect();
            assert!(known.contains(&letters.as_str()), "{drawn:?}");
        }
    }

    /// Of 90 numbers, 60 are secrets: at most 30 have another content of their own. Single words have none.
    #[test]
    fn other_contents_are_as_many_as_their_secrets() {
        let numbers: Vec<String> = (10..70).map(|number| number.to_string()).collect();
        let mut texts: Vec<_> = numbers.iter().map(|n| text(n, &[n.as_str()])).collect();
        texts.extend(["Rome", "Oslo"].map(|town| text(town, &[town])));
        let drawn = lookalikes(&texts, 4);
        assert!(drawn[60..].iter().all(Option::is_none), "{drawn:?}");
        let others: Vec<&String> = drawn.iter().flatten().collect();
        let distinct: BTreeSet<&&String> = others.iter().collect();
        assert!(
            distinct.len() == others.len() && others.len() > 15,
            "{others:?}"
        );
    }

    /// The natural logarithm of a text's probability by triples of characters, a character on average.
    fn likelihood(counts: &HashMap<[char; 3], f64>, text: &str) -> f64 {
        let all = triples(text);
        let each = all.iter().map(|[a, b, c]| {
            let both = counts.get(&[*a, *b, '\0']).unwrap_or(&0.0);
            ((counts.get(&[*a, *b, *c]).unwrap_or(&0.0) + 0.1) / (both + 10.0)).ln()
        });
        each.sum::<f64>() / all.len() as f64
    }

    fn triples(text: &str) -> Vec<[char; 3]> {
        let signs: Vec<char> = format!("\u{1}\u{1}{text}\u{1}").chars().collect();
        signs.windows(3).map(|w| [w[0], w[1], w[2]]).collect()
    }

    /// Seeds 7, 8 and 3: secrets of 260 dialogues and their lookalikes, ranked by what 1000 other dialogues say of secrets
    /// of their kind, which know neither. A correct area leaves four standard errors with a probability of 6e-5 a
    /// kind. A name had become `QK Smith`, a tracking number had got words and another length, and a
    /// first zero had become rare.
    #[test]
    fn a_model_that_saw_neither_cannot_tell_lookalikes() {
        let marked = |dialogues: usize, seed: u64| -> BTreeMap<String, BTreeSet<String>> {
            let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for document in simulate(dialogues, seed).unwrap() {
                for secret in &document.secrets {
                    let content = document.secret_text(secret).to_owned();
                    out.entry(secret.kind.clone()).or_default().insert(content);
                }
            }
            out
        };
        let known = marked(1000, 8);
        let own = marked(260, 7);
        let texts: Vec<_> = own
            .iter()
            .flat_map(|(kind, secrets)| secrets.iter().map(move |s| (kind, s)))
            .map(|(kind, s)| (s.clone(), vec![(kind.clone(), s.clone())]))
            .collect();
        let drawn = lookalikes(&texts, 3);
        for (kind, secrets) in &own {
            let mut counts: HashMap<[char; 3], f64> = HashMap::new();
            for [a, b, c] in known[kind].iter().flat_map(|secret| triples(secret)) {
                *counts.entry([a, b, c]).or_default() += 1.0;
                *counts.entry([a, b, '\0']).or_default() += 1.0;
            }
            let pairs = texts
                .iter()
                .zip(&drawn)
                .filter(|((_, s), _)| s[0].0 == *kind);
            let pairs: Vec<[f64; 2]> = pairs
                .filter_map(|((text, _), other)| {
                    let other = other.as_ref()?;
                    let length = |text: &str| text.chars().filter(char::is_ascii_digit).count();
                    assert_eq!(length(text), length(other), "{text} {other}");
                    Some([likelihood(&counts, text), likelihood(&counts, other)])
                })
                .collect();
            let n = pairs.len() as f64;
            assert!(5.0 * n >= 4.0 * secrets.len() as f64, "{kind}: {n}");
            let mut others: Vec<f64> = pairs.iter().map(|[_, other]| *other).collect();
            others.sort_by(f64::total_cmp);
            let wins = pairs.iter().map(|[own, _]| mid_rank(&others, *own));
            let area = wins.sum::<f64>() / (n * n);
            let error = ((2.0 * n + 1.0) / (12.0 * n * n)).sqrt();
            assert!((area - 0.5).abs() <= 4.0 * error, "{kind}: {area}, {error}");
        }
    }
}
