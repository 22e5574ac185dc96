//! The simulator: deterministic, large enough, every secret marked.

use regex::Regex;
use reticent_corpus::Document;
use reticent_corpus::simulate::simulate;
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, HashMap};

#[test]
fn ten_thousand_dialogues_hold_over_a_million_words() {
    let documents = simulate(10_000, 0).unwrap();
    let words = |d: &Document| d.text.split_whitespace().count();
    let total: usize = documents.iter().map(words).sum();
    assert!(total > 1_000_000, "{total}");
    assert!(documents.iter().all(|d| words(d) >= 90));
    assert!(documents.iter().all(|d| d.validate().is_ok()));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_a_shorter_run_is_a_beginning() {
    let long = simulate(30, 7).unwrap();
    assert_eq!(long, simulate(30, 7).unwrap());
    assert_eq!(long[..10], simulate(10, 7).unwrap());
    assert_ne!(long[..10], simulate(10, 8).unwrap());
}

/// A changed template or stream changes every figure measured on simulated text: the digest
/// is that of this version, and a new one belongs in the changelog.
#[test]
fn the_text_of_seed_0_is_that_of_this_version() {
    let mut hash = Sha1::new();
    for document in simulate(100, 0).unwrap() {
        hash.update(serde_json::to_string(&document).unwrap());
    }
    let digest: [u8; 20] = hash.finalize().into();
    let digest: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(digest, "e62b4ef94a30566d73391d44f63801c5efb71902");
}

#[test]
fn every_secret_is_marked_and_looks_like_its_kind() {
    let shapes: BTreeMap<&str, Regex> = [
        ("name", r"^[A-Z][a-z]+( [A-Z]\.)? [A-Z][a-z]+(-[A-Z][a-z]+)?$"),
        ("address", r"^(\d+ [A-Z][a-z]+ [A-Z][a-z]+(, (Apt|Unit) \d+)?|PO Box \d+), [A-Z][a-z]+, [A-Z]{2} \d{5}$"),
        ("phone", r"^(\(\d{3}\) \d{3}-\d{4}|\d{3}([-.])\d{3}[-.]\d{4}|\d{10})$"),
        ("order", r"^\d{3}-\d{5}-\d{4}$"),
        ("tracking", r"^[A-Z][A-Z0-9]{9}$"),
    ]
    .into_iter()
    .map(|(kind, shape)| (kind, Regex::new(shape).unwrap()))
    .collect();
    let digits = Regex::new(r"\d").unwrap();
    let mut seen: HashMap<String, u32> = HashMap::new();
    for document in simulate(500, 3).unwrap() {
        let mut rest = document.text.clone();
        for secret in document.secrets.iter().rev() {
            let text = document.secret_text(secret);
            assert!(
                shapes[secret.kind.as_str()].is_match(text),
                "{} {text}",
                secret.kind
            );
            *seen.entry(secret.kind.clone()).or_default() += 1;
            rest.replace_range(secret.start..secret.end, "");
        }
        // Nothing with a digit in it is left unmarked.
        assert!(!digits.is_match(&rest), "{rest}");
        for line in document.text.lines() {
            assert!(
                line.starts_with("SYS: ") || line.starts_with("USR: "),
                "{line}"
            );
        }
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.values().all(|&count| count > 100), "{seen:?}");
}

/// As in the papers' data (85 199 turns, 29 815 of them distinct): most turns carry no
/// secret, and those repeat.
#[test]
fn most_turns_carry_no_secret_and_those_repeat() {
    let documents = simulate(2000, 1).unwrap();
    let (mut turns, mut with_secret) = (0u32, 0u32);
    let mut plain: HashMap<String, u32> = HashMap::new();
    for document in &documents {
        let mut start = 0;
        for line in document.text.lines() {
            let end = start + line.len();
            turns += 1;
            if document
                .secrets
                .iter()
                .any(|s| start <= s.start && s.start < end)
            {
                with_secret += 1;
            } else {
                *plain.entry(line.to_owned()).or_default() += 1;
            }
            start = end + 1;
        }
    }
    let share = f64::from(with_secret) / f64::from(turns);
    assert!((0.15..0.5).contains(&share), "{share}");
    // stock phrases repeat, stories hardly do: both kinds of plain text are there
    let plain_turns: u32 = plain.values().sum();
    let repeated: u32 = plain.values().filter(|n| **n > 1).sum();
    assert!(f64::from(repeated) > 0.5 * f64::from(plain_turns));
    assert!(
        (2000..plain_turns as usize / 2).contains(&plain.len()),
        "{} distinct turns without a secret among {plain_turns}",
        plain.len()
    );
}

#[test]
fn the_number_of_dialogues_has_a_range() {
    for wrong in [0, 10_000_001] {
        let text = simulate(wrong, 0).unwrap_err().to_string();
        assert_eq!(
            text,
            format!("the number of dialogues must be from 1 to 10000000, got {wrong}")
        );
    }
}
