//! Country-specific rules: personal numbers, post codes, bank routing.

use super::checks::{digits, ssn};
use super::engine::{Candidate, Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A social security number in its usual notation, which no other kind shares.
pub(super) const WRITTEN_SSN: &str = r"\b\d{3}-\d{2}-\d{4}\b";

/// A pack of rules for one country.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Country {
    /// Germany: tax identification numbers.
    De,
    /// Spain: DNI and NIE.
    Es,
    /// France: social security numbers (NIR).
    Fr,
    /// United Kingdom: National Insurance and NHS numbers, post codes.
    Gb,
    /// Italy: codice fiscale.
    It,
    /// Netherlands: BSN.
    Nl,
    /// United States: social security and taxpayer numbers, bank routing, states with ZIP codes.
    Us,
}

impl Country {
    /// All packs.
    pub const ALL: [Self; 7] = [
        Self::De,
        Self::Es,
        Self::Fr,
        Self::Gb,
        Self::It,
        Self::Nl,
        Self::Us,
    ];

    pub(super) fn rules(self) -> Vec<Rule> {
        match self {
            Self::De => vec![
                Rule::new(
                    "national-id",
                    0.7,
                    r"\b\d{11}\b|\b\d{2} \d{3} \d{3} \d{3}\b",
                )
                .near(&["steuer", "tax", "idnr"])
                .summed(german_tax),
            ],
            Self::Es => vec![
                Rule::new("national-id", 0.95, r"\b(?:\d{8}|[XYZ]-?\d{7})-?[A-Z]\b")
                    .any_case()
                    .summed(spanish),
            ],
            Self::Fr => vec![
                Rule::new(
                    "national-id",
                    0.95,
                    r"\b[12] ?\d{2} ?\d{2} ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}\b",
                )
                .summed(french),
            ],
            Self::Gb => vec![
                Rule::new(
                    "national-id",
                    0.9,
                    r"\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b",
                ),
                Rule::new("national-id", 0.6, r"\b\d{3}[ -]?\d{3}[ -]?\d{4}\b")
                    .near(&["nhs", "patient"])
                    .summed(nhs),
                Rule::new(
                    "postcode",
                    0.8,
                    r"\b[A-Z]{1,2}\d[A-Z\d]? ?\d[ABD-HJLNP-UW-Z]{2}\b",
                ),
            ],
            Self::It => vec![
                Rule::new(
                    "national-id",
                    0.95,
                    // Every long word could begin one, so that it is looked for behind its six letters.
                    r"\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]\b",
                )
                .any_case()
                .summed(italian),
            ],
            Self::Nl => vec![
                Rule::new("national-id", 0.4, r"\b\d{9}\b")
                    .near(&["bsn", "burgerservice", "sofi"])
                    .summed(dutch),
            ],
            Self::Us => vec![
                Rule::new("ssn", 0.95, WRITTEN_SSN).checked(ssn),
                Rule::new("ssn", 0.95, r"\b\d{3}[- .]\d{2}[- .]\d{4}\b").checked(ssn),
                Rule::new("ssn", 0.3, r"\b\d{9}\b")
                    .near(&["ssn", "social security", "social", "itin", "taxpayer"])
                    .checked(ssn),
                Rule::new("bank-routing", 0.3, r"\b\d{9}\b")
                    .near(&["routing", "aba", "bank", "rtn"])
                    .summed(aba),
                Rule::new("postcode", 0.8, r"\b[A-Z]{2} \d{5}(?:-\d{4})?\b"),
                Rule::new("postcode", 0.2, r"\b\d{5}(?:-\d{4})?\b").near(&["zip"]),
            ],
        }
    }
}

/// ISO 7064 mod 11, 10; the first digit is not zero.
fn german_tax(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let d = digits(c.found());
    let product = d.iter().take(10).fold(10, |p, d| {
        let sum = match (d + p) % 10 {
            0 => 10,
            sum => sum,
        };
        (2 * sum) % 11
    });
    let check = (11 - product) % 10;
    (d[0] != 0 && d.get(10) == Some(&check)).then_some(c)
}

fn spanish(c: Candidate<'_>) -> Option<Candidate<'_>> {
    const LETTERS: &[u8] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let text: String = c.found().chars().filter(|c| *c != '-').collect();
    let text = text.to_ascii_uppercase();
    let (body, letter) = text.split_at(text.len() - 1);
    let body = match body.chars().next()? {
        first @ ('X' | 'Y' | 'Z') => format!("{}{}", u32::from(first) - u32::from('X'), &body[1..]),
        _ => body.to_owned(),
    };
    let number: usize = body.parse().ok()?;
    (LETTERS[number % 23] == letter.as_bytes()[0]).then_some(c)
}

/// 97 minus the number mod 97; Corsica's 2A and 2B count as 19 and 18.
fn french(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let text: String = c.found().chars().filter(|c| *c != ' ').collect();
    let (body, key) = text.split_at(13);
    let body: u64 = body.replace("2A", "19").replace("2B", "18").parse().ok()?;
    let key: u64 = key.parse().ok()?;
    (97 - body % 97 == key).then_some(c)
}

/// Weights 10 to 2, check digit 11 minus the sum mod 11.
fn nhs(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let d = digits(c.found());
    let sum: u32 = d.iter().zip((2..=10).rev()).map(|(d, w)| d * w).sum();
    let check = (11 - sum % 11) % 11;
    (check < 10 && d.get(9) == Some(&check)).then_some(c)
}

/// Begins with the six letters before the candidate.
fn italian(c: Candidate<'_>) -> Option<Candidate<'_>> {
    const ODD: [u32; 26] = [
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24,
        23,
    ];
    let letters = |before: &[u8]| before.iter().all(u8::is_ascii_alphabetic);
    let c = c.with_before(6, letters)?;
    let text = c.found().to_ascii_uppercase();
    let value = |b: u8| {
        usize::from(if b.is_ascii_digit() {
            b - b'0'
        } else {
            b - b'A'
        })
    };
    let (body, check) = text.as_bytes().split_at(15);
    // Positions count from one, so the first is odd.
    let sum: u32 = body
        .iter()
        .enumerate()
        .map(|(i, &b)| {
            let v = value(b);
            if i % 2 == 0 { ODD[v] } else { v as u32 }
        })
        .sum();
    (b'A' + (sum % 26) as u8 == check[0]).then_some(c)
}

/// Weights 9 to 2 and −1, a multiple of 11.
fn dutch(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let d = digits(c.found());
    let sum: u32 = d.iter().zip((2..=9).rev()).map(|(d, w)| d * w).sum();
    (sum > 0 && sum % 11 == d[8]).then_some(c)
}

/// Weights 3, 7, 1, a multiple of 10.
fn aba(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let d = digits(c.found());
    let sum: u32 = d
        .iter()
        .zip([3, 7, 1].iter().cycle())
        .map(|(d, w)| d * w)
        .sum();
    (sum > 0 && sum.is_multiple_of(10)).then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::detect::engine::Scanner;
    use crate::policy::detect::grammar;

    /// Patterns that begin behind a common word find what they found with it, whatever stands around.
    #[test]
    fn what_a_pattern_leaves_to_its_check_is_found() {
        let it = Country::It.rules().remove(0);
        let whole_it = Rule::new(it.kind, it.score, format!(r"\b[A-Z]{{6}}{}", it.pattern));
        let whole_it = whole_it.any_case().checked(|c| {
            italian(Candidate {
                start: c.start + 6,
                ..c
            })
        });
        let mut rules = grammar::rules().into_iter();
        let date = rules.find(|rule| rule.pattern.contains("past|following"));
        let date = date.unwrap();
        let pattern = date
            .pattern
            .replace("past|following", "the past|the following");
        let whole_date = Rule::new(date.kind, date.score, pattern).any_case();
        let around = [
            " ", "_", "1", "x", ".", "\n", "\u{e9}", "\u{131}", "\u{17f}", "\u{200b}", "\u{661}",
        ];
        let italians = [
            "RSSMRA85T10A562S",
            "rssMra85t10a562s",
            "RSSMRA",
            "SSMRA",
            "85T10A562S",
        ];
        let dates = [
            "the ",
            "The ",
            "past",
            "FOLLOWING",
            " week",
            " Monday",
            "last",
            "each ",
        ];
        for (rule, whole, pieces) in [
            (it, whole_it, &italians[..]),
            (date, whole_date, &dates[..]),
        ] {
            let pieces: Vec<&str> = pieces
                .iter()
                .chain(pieces)
                .chain(&around)
                .copied()
                .collect();
            let scanners = [rule, whole].map(|rule| Scanner::new(vec![rule]).unwrap());
            let mut draw = crate::draws(17);
            let mut found = 0;
            for _ in 0..20_000 {
                let text: String = (0..=draw(6)).map(|_| pieces[draw(pieces.len())]).collect();
                let [[one, each], [other, _]] = scanners.each_ref().map(|scanner| {
                    let (mut at_once, mut by_itself) = (Vec::new(), Vec::new());
                    scanner.scan(&text, |_, c| at_once.push(c.start..c.end));
                    scanner.scan_with(&text, |_| true, |_, c| by_itself.push(c.start..c.end));
                    [at_once, by_itself]
                });
                assert_eq!(one, other, "{text:?}");
                assert_eq!(each, other, "{text:?}");
                found += other.len();
            }
            assert!(found > 100, "{found}");
        }
    }
}
