//! Rules for identifiers that are the same in all countries.

use super::engine::{Candidate, Rule};
use super::{checks, passwords};

const PHONE_WORDS: &[&str] = &[
    "phone",
    "tel",
    "call",
    "mobile",
    "cell",
    "fax",
    "number is",
    "reach",
    "contact",
    "text me",
    "sms",
    "whatsapp",
    "hotline",
    "dial",
];
const CARD_WORDS: &[&str] = &[
    "card",
    "visa",
    "mastercard",
    "amex",
    "credit",
    "debit",
    "pay",
];
const REFERENCE_WORDS: &[&str] = &[
    "order",
    "track",
    "reference",
    "ref",
    "invoice",
    "booking",
    "confirmation",
    "case",
    "ticket",
    "account",
    "customer",
    "parcel",
    "shipment",
    "package",
    "membership",
    "policy",
    "id",
];

/// Words that a reference number follows directly.
const NAMED: &str = r"\b(?:order|tracking|reference|ref|invoice|booking|confirmation|case|ticket|account|customer|membership|member|policy|serial|transaction|shipment|parcel|licen[cs]e|passport|user|my)(?: (?:no|nr|number|num|id|code|is))?[.:]?(?: (?:is|was))?:? ?#?[A-Za-z0-9][A-Za-z0-9/_-]{3,30}\b";

pub(super) fn rules() -> Vec<Rule> {
    let mut out = vec![
        Rule::new("email", 1.0, "@")
            .checked(checks::email)
            .written(checks::whole_email),
        Rule::new("url", 0.9, "://[!-~]")
            .checked(checks::url)
            .written(checks::whole_url),
        Rule::new("url", 0.9, r"\bwww\.[!-~]")
            .any_case()
            .written(checks::whole_url),
        Rule::new("ip", 0.95, r"\b(?:\d{1,3}\.){3}\d{1,3}\b").checked(checks::ipv4),
        Rule::new("ip", 0.9, r"(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?")
            .checked(checks::ipv6),
        Rule::new("mac", 0.95, r"\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}\b|\b[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}\b"),
        Rule::new("iban", 1.0, r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{2,4}){2,8}")
            .any_case()
            .summed(checks::iban),
        Rule::new(
            "card",
            0.95,
            r"\b\d{4}(?:[ .-]\d{4}){2,3}(?:[ .-]\d{1,3})?\b|\b3[0-9]\d{2}[ .-]\d{6}[ .-]\d{4,5}\b|\b\d{12,19}\b",
        )
        .near(CARD_WORDS)
        .summed(checks::card),
    ];
    out.extend(phones());
    out.extend(references());
    out.extend(keys());
    out
}

fn phones() -> Vec<Rule> {
    // Includes an extension, if there is one.
    let end = r"(?: ?(?:x|ext\.?) ?\d{1,6}\b|\b)";
    vec![
        Rule::new(
            "phone",
            0.9,
            format!(r"(?:\+|\b00)\d{{1,3}}[ .()/-]{{0,2}}\d{{1,5}}(?:[ .()/-]{{0,2}}\d{{1,5}}){{1,5}}{end}"),
        )
        .checked(checks::phone),
        Rule::new(
            "phone",
            0.85,
            format!(r"\(\d{{2,5}}\) ?\d{{2,8}}(?:[ .-]?\d{{2,5}}){{0,3}}{end}"),
        )
        .checked(checks::phone),
        Rule::new(
            "phone",
            0.85,
            format!(r"\b(?:1[ .-])?\d{{3}}[ .-]\d{{3}}[ .-]\d{{4}}{end}"),
        )
        .checked(checks::phone),
        // A national number with its leading zero.
        Rule::new("phone", 0.7, format!(r"\b0\d{{1,4}}[ /.-]\d{{2,8}}(?:[ /.-]\d{{2,5}}){{0,3}}{end}"))
            .near(PHONE_WORDS)
            .checked(checks::phone),
        Rule::new("phone", 0.5, r"\b\d{2,5}(?:[ .-]\d{2,5}){2,4}\b")
            .near(PHONE_WORDS)
            .checked(checks::grouped_phone),
        // Two groups, or none: only with a context word.
        Rule::new("phone", 0.4, r"\b\d{2,5}[ .-]\d{4,8}\b")
            .near(PHONE_WORDS)
            .checked(checks::phone),
        // Not those that begin with 1: seconds since 1970 do, and no North American number.
        Rule::new("phone", 0.5, r"\b[02-9]\d{9}\b").near(PHONE_WORDS),
        Rule::new("phone", 0.2, r"\b\d{7,12}\b").near(PHONE_WORDS),
    ]
}

fn references() -> Vec<Rule> {
    vec![
        Rule::new("reference", 0.95, r"\b1Z[0-9A-Z]{16}\b").summed(checks::ups),
        Rule::new("reference", 0.95, r"\b[A-Z]{2}\d{9}[A-Z]{2}\b").summed(checks::postal_item),
        Rule::new("reference", 0.85, NAMED)
            .any_case()
            .checked(checks::named_reference),
        Rule::new("reference", 0.8, r"\b\d{3}-\d{5,7}-\d{4,7}\b"),
        Rule::new("reference", 0.8, r"#[A-Z0-9][A-Z0-9-]{3,30}\b")
            .checked(|c| c.found().bytes().any(|b| b.is_ascii_digit()).then_some(c)),
        Rule::new("reference", 0.6, r"\b[A-Z0-9]{6,24}\b")
            .near(REFERENCE_WORDS)
            .checked(checks::mixed),
        Rule::new(
            "reference",
            0.6,
            r"\b[A-Z0-9]{2,10}(?:-[A-Z0-9]{2,10}){1,5}\b",
        )
        .near(REFERENCE_WORDS)
        .checked(checks::mixed),
        Rule::new("reference", 0.6, r"\b\d{11,24}\b")
            .near(REFERENCE_WORDS)
            .checked(checks::no_timestamp),
        Rule::new("reference", 0.3, r"\b\d{5,10}\b").near(REFERENCE_WORDS),
    ]
}

/// A key of forty base-64 characters that is named as such: it has no prefix, and may contain no digit.
const SECRET_KEY: &str =
    r#"secret[_ -]?(?:access[_ -]?)?key["']?(?: is)?[ :=]{0,3}["']?[A-Za-z0-9/+]{40}"#;

/// Finds keys by their issuers' prefixes; keys without a prefix are found by their entropy.
fn keys() -> Vec<Rule> {
    let patterns = [
        r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[0-9A-Z]{16}\b",
        r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b",
        r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b",
        r"\bglpat-[A-Za-z0-9_-]{20}",
        r"\bAIza[0-9A-Za-z_-]{35}",
        r"\bxox[abeoprs]-[0-9A-Za-z-]{10}",
        r"\b[rsp]k_(?:live|test)_[0-9A-Za-z]{10}",
        r"\bsk-(?:[a-z]{2,8}-)?[A-Za-z0-9_-]{20}",
        r"\bSG\.[A-Za-z0-9_-]{16,24}\.[A-Za-z0-9_-]{16}",
        r"\b(?:npm|pypi|hf|dop_v1|shpat)[_-][A-Za-z0-9_-]{16}",
    ];
    patterns
        .into_iter()
        .map(|pattern| Rule::new("api-key", 0.95, pattern).checked(token_end))
        .chain([
            Rule::new("api-key", 0.95, r"\beyJ[A-Za-z0-9_-]{10}").checked(web_token),
            Rule::new("api-key", 0.95, SECRET_KEY)
                .any_case()
                .checked(secret_key),
            Rule::new(
                "api-key",
                1.0,
                r"-----BEGIN (?:[A-Z0-9]{2,9} ){0,3}PRIVATE KEY-----",
            )
            .checked(pem),
        ])
        .chain(passwords::rules())
        .collect()
}

/// Extends a key to the end of its token, however long.
fn token_end(c: Candidate<'_>) -> Option<Candidate<'_>> {
    Some(longer(c, b"_-"))
}

/// Removes the words before the key.
fn secret_key(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let start = c.end - 40;
    Some(longer(Candidate { start, ..c }, b"/+="))
}

/// Extends a private key to its end, or as far as its lines continue.
fn pem(c: Candidate<'_>) -> Option<Candidate<'_>> {
    /// The longest key, in bytes.
    const LONGEST: usize = 16 << 10;
    let is_inside = |b: &u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'\n' | b'\r' | b' ' | b'\\')
    };
    let behind = &c.text.as_bytes()[c.end..];
    let inside = behind
        .iter()
        .take(LONGEST)
        .take_while(|b| is_inside(b))
        .count();
    let end = c.end + inside;
    let closing = c.text[end..].strip_prefix("-----END ").and_then(|rest| {
        let name = rest
            .bytes()
            .take_while(|b| b.is_ascii_uppercase() || *b == b' ')
            .count();
        rest[name..]
            .starts_with("-----")
            .then_some("-----END ".len() + name + "-----".len())
    });
    Some(Candidate {
        end: end + closing.unwrap_or(0),
        ..c
    })
}

/// A JSON web token, signed or encrypted: at least three parts separated by dots. What could begin one inside another token
/// is looked at with that one, so that the work stays linear.
fn web_token(c: Candidate<'_>) -> Option<Candidate<'_>> {
    const MARKS: &[u8] = b"_-.";
    let inside = |b: &u8| b.is_ascii_alphanumeric() || MARKS.contains(b);
    let bytes = c.text.as_bytes();
    let begins = |at: usize| {
        let apart = |at: usize| !(bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_');
        let long = || {
            bytes[at + 3..]
                .iter()
                .take(10)
                .all(|b| inside(b) && *b != b'.')
        };
        bytes[at..].starts_with(b"eyJ") && at.checked_sub(1).is_none_or(apart) && long()
    };
    let mut before = (0..c.start).rev().take_while(|at| inside(&bytes[*at]));
    if before.any(begins) {
        return None;
    }
    let c = longer(c, MARKS);
    let end = c.start + c.found().trim_end_matches('.').len();
    let c = Candidate { end, ..c };
    (c.found().matches('.').count() >= 2).then_some(c)
}

/// Extends the candidate by the letters, digits and given marks that follow.
fn longer<'a>(c: Candidate<'a>, marks: &[u8]) -> Candidate<'a> {
    let more = c.text[c.end..]
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || marks.contains(b))
        .count();
    Candidate {
        end: c.end + more,
        ..c
    }
}
