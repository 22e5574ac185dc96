//! Checks that regular expressions cannot express: checksums, ranges, context.

use super::engine::Candidate;
use crate::policy::folded::in_word;
use crate::policy::speakers::is_question;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Returns the digits of a text as numbers.
pub(super) fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

/// Returns whether Luhn's sum (ISO/IEC 7812-1) is a multiple of ten.
pub(super) fn luhn(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, &d)| match (i % 2, d * 2) {
            (0, _) => d,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// A payment card: 12 to 19 digits with Luhn's sum, not all equal.
pub(super) fn card(mut c: Candidate<'_>) -> Option<Candidate<'_>> {
    let digits = digits(c.found());
    let alike = digits.windows(2).all(|w| w[0] == w[1]);
    if !(12..=19).contains(&digits.len()) || alike || !luhn(&digits) {
        return None;
    }
    // One number in ten has a valid sum by chance. If only the sum indicates a card, a context word (`card`, `pay`) is
    // needed as well. Numbers of 16 or more digits may be cards of other issuers.
    let begin = digits.iter().take(4).fold(0, |n, d| n * 10 + d);
    if !issued(digits.len(), begin) {
        c.score = if digits.len() < 16 { 0.4 } else { 0.6 };
    }
    no_timestamp(c)
}

/// Returns whether one of the networks issues numbers of this length that begin with these four digits (ISO/IEC 7812
/// issuer identification numbers, as the networks publish them).
fn issued(length: usize, begin: u32) -> bool {
    let (one, two, three) = (begin / 1000, begin / 100, begin / 10);
    match length {
        // Only Maestro has numbers of 12 digits; Visa had some of 13.
        12 => maestro(two),
        13 => maestro(two) || one == 4,
        14 => maestro(two) || diners(two, three),
        // American Express; older ones of JCB; air travel (UATP).
        15 => {
            maestro(two)
                || diners(two, three)
                || matches!(two, 34 | 37)
                || matches!(begin, 1800 | 2131)
                || one == 1
        }
        // Visa, Mastercard, Discover, JCB, UnionPay, RuPay, Mir, Elo and others.
        _ => matches!(one, 2..=6),
    }
}

fn maestro(two: u32) -> bool {
    two == 50 || (56..=69).contains(&two)
}

fn diners(two: u32, three: u32) -> bool {
    matches!(two, 36 | 38 | 39) || matches!(three, 300..=305 | 309)
}

/// The lengths of IBANs by country (ISO 13616 registry).
const IBAN_LENGTHS: &str = "\
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 \
    FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 \
    LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 \
    SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20";

/// An IBAN: the number of letters and digits for its country, with a valid ISO 7064 checksum mod 97.
pub(super) fn iban(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let country = c.found().get(..2)?.to_ascii_uppercase();
    let mut known = IBAN_LENGTHS.split(' ');
    let length = known.find_map(|known| known.strip_prefix(country.as_str()))?;
    let length: usize = length.parse().ok()?;
    // Words may follow; the IBAN consists of the first `length` letters and digits.
    let mut text = String::with_capacity(length);
    let mut end = c.start;
    for (at, ch) in c.text[c.start..].char_indices() {
        if ch.is_ascii_alphanumeric() {
            text.push(ch.to_ascii_uppercase());
            end = c.start + at + 1;
            if text.len() == length {
                break;
            }
        } else if ch != ' ' && ch != '-' {
            break;
        }
    }
    let c = Candidate { end, ..c };
    (text.len() == length && mod_97(&text) && !continues(c)).then_some(c)
}

/// Returns whether a letter or digit follows directly. One of a script without spaces begins another word.
fn continues(c: Candidate<'_>) -> bool {
    c.after().is_some_and(|c| c.is_ascii_alphanumeric())
}

fn mod_97(iban: &str) -> bool {
    let value = |c: char| c.to_digit(36).unwrap_or(0);
    let sum = iban[4..]
        .chars()
        .chain(iban[..4].chars())
        .fold(0u32, |sum, c| {
            let v = value(c);
            let shift = if v > 9 { 100 } else { 10 };
            (sum * shift + v) % 97
        });
    sum == 1
}

/// A social security number that may have been issued: area 001 to 899 except 666, group and serial not zero. Area 900
/// to 999 is a taxpayer number.
pub(super) fn ssn(mut c: Candidate<'_>) -> Option<Candidate<'_>> {
    let d = digits(c.found());
    let [a, b, e, g, h, rest @ ..] = d.as_slice() else {
        return None;
    };
    let area = a * 100 + b * 10 + e;
    let serial = rest.iter().fold(0, |n, d| n * 10 + d);
    if rest.len() != 4 || area == 0 || area == 666 || g * 10 + h == 0 || serial == 0 {
        return None;
    }
    if area >= 900 {
        c.score = c.score.min(0.6);
    }
    Some(c)
}

/// An IPv4 address that is not part of a longer dotted number.
pub(super) fn ipv4(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let after = c.text[c.end..]
        .strip_prefix('.')
        .and_then(|t| t.chars().next());
    let longer = after.is_some_and(|c| c.is_ascii_digit()) || c.before() == Some('.');
    (!longer && c.found().parse::<Ipv4Addr>().is_ok()).then_some(c)
}

/// An IPv6 address that contains a digit and is not adjacent to other letters (`std::vec` contains none).
pub(super) fn ipv6(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let joined = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == ':');
    if joined(c.before()) || joined(c.after()) {
        return None;
    }
    let digit = c.found().bytes().any(|b| b.is_ascii_digit());
    (digit && c.found().parse::<Ipv6Addr>().is_ok()).then_some(c)
}

/// Returns whether digits alone were found, directly behind or before the point of a decimal number. Before the point, those
/// with a checksum are none, and neither is a number with zeros alone behind it, as tables write whole numbers, or in `1.2.pdf`.
pub(super) fn in_decimal(c: Candidate<'_>, has_checksum: bool) -> bool {
    let bytes = c.text.as_bytes();
    let behind = matches!(bytes[..c.start], [.., before, b'.'] if before.is_ascii_digit());
    let before = || {
        let fraction = bytes[c.end..].strip_prefix(b".").unwrap_or_default();
        let end = fraction.iter().position(|byte| !byte.is_ascii_digit());
        let (digits, rest) = fraction.split_at(end.unwrap_or(fraction.len()));
        let goes_on = matches!(rest, [b'.', next, ..] if next.is_ascii_alphanumeric());
        !has_checksum && !goes_on && digits.iter().any(|byte| *byte != b'0')
    };
    (behind || before()) && c.found().bytes().all(|byte| byte.is_ascii_digit())
}

/// `past` and `following` say when only behind `the`, which is part of it.
pub(super) fn past_and_following(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let word = c.found().split(' ').next()?;
    let is = |other: &&str| word.eq_ignore_ascii_case(other);
    match ["past", "following"].iter().any(is) {
        true => c.with_before(4, |before| before.eq_ignore_ascii_case(b"the ")),
        false => Some(c),
    }
}

/// Lowers the score of digits that may be a time since 1970 in milliseconds or microseconds.
pub(super) fn no_timestamp(mut c: Candidate<'_>) -> Option<Candidate<'_>> {
    if let (13 | 16, [b'1', b'4'..=b'9', ..]) = (c.found().len(), c.found().as_bytes()) {
        c.score = 0.4;
    }
    Some(c)
}

/// Extends the match by the part before the `@`, in any script, which the pattern omits.
pub(super) fn email(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let inside = |c: char| in_word(c) || "._%+-'".contains(c);
    let local = c.text[..c.start]
        .char_indices()
        .rev()
        .take(64)
        .take_while(|&(_, ch)| inside(ch))
        .last()?;
    let lead = &c.text[local.0..c.start];
    let start = c.start - lead.trim_start_matches(['.', '\'', '-']).len();
    let end = c.end + domain(&c.text[c.end..])?;
    (start < c.start).then_some(Candidate { start, end, ..c })
}

/// Returns the number of bytes of the host name at the beginning of a text, up to the last label that consists only of
/// letters. In a name with letters outside ASCII, ideographs belong to the name only if it begins with one, because no
/// space separates it from the sentence.
fn domain(text: &str) -> Option<usize> {
    const MOST_LABELS: usize = 9;
    let wide = |c: char| c >= '\u{2e80}';
    let begins_wide = text.starts_with(wide);
    let inside = |c: &char| in_word(*c) && (begins_wide || !wide(*c)) || *c == '-';
    let mut end = None;
    let mut at = 0;
    for label in 0..MOST_LABELS {
        let rest = &text[at..];
        let of = |inside: &dyn Fn(&char) -> bool| -> (usize, usize) {
            let chars = rest.chars().take(64).take_while(inside);
            chars.fold((0, 0), |(n, bytes), c| (n + 1, bytes + c.len_utf8()))
        };
        let (count, bytes) = of(&inside);
        let (letters, bytes_of_letters) = match rest.starts_with("xn--") {
            true => (count, bytes),
            false => of(&|c| *c != '-' && !c.is_numeric() && inside(c)),
        };
        let goes_on = rest[bytes_of_letters..].starts_with(|c| c != '-' && inside(&c));
        if label > 0 && (2..=24).contains(&letters) && !goes_on {
            end = Some(at + bytes_of_letters);
        }
        at += bytes;
        if !(1..=63).contains(&count) || !text[at..].starts_with('.') {
            break;
        }
        at += 1;
    }
    end
}

/// Extends a mail address in a URL by the parts that `%20` or `+` separates from it.
pub(super) fn whole_email(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    const LONGEST: usize = 64;
    let mut start = range.start;
    while range.start - start < LONGEST {
        let before = &text[..start];
        let Some(joint) = before
            .ends_with('+')
            .then_some(1)
            .or_else(|| percent(before))
        else {
            break;
        };
        let before = &before[..start - joint];
        let local = before.trim_end_matches(|c| in_word(c) || "._-'".contains(c));
        // The letter of `\n` is not part of the address.
        let letter = before[local.len()..].chars().next();
        let letter = letter.filter(|_| local.ends_with('\\'));
        start = local.len() + letter.map_or(0, char::len_utf8);
    }
    Some(start..range.end)
}

/// Returns the number of bytes of `%` and two hexadecimal digits at the end of a text.
fn percent(text: &str) -> Option<usize> {
    let [.., b'%', one, two] = text.as_bytes() else {
        return None;
    };
    (one.is_ascii_hexdigit() && two.is_ascii_hexdigit()).then_some(3)
}

/// Extends a URL to include its scheme, which precedes the pattern's match.
pub(super) fn url(c: Candidate<'_>) -> Option<Candidate<'_>> {
    const LONGEST: usize = 16;
    let inside = |b: &u8| b.is_ascii_alphanumeric() || b"+.-".contains(b);
    let before = c.text.as_bytes()[..c.start].iter().rev();
    let length = before.take(LONGEST).take_while(|b| inside(b)).count();
    let scheme = &c.text[c.start - length..c.start];
    let scheme = scheme.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    let start = c.start - scheme.len();
    (scheme.len() >= 2).then_some(Candidate { start, ..c })
}

/// Extends a URL to the next white space, without the punctuation that ends the sentence.
pub(super) fn whole_url(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let rest = &text[range.start..];
    let stops = |(at, ch): (usize, char)| {
        let escape = ch == '\\' && !rest[at + 1..].starts_with(['/', 'u']);
        (escape || ch.is_whitespace() || "<>\"\u{fffc}".contains(ch)).then_some(at)
    };
    let length = rest.char_indices().find_map(stops).unwrap_or(rest.len());
    let body = rest[..length].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'']);
    Some(range.start..range.end.max(range.start + body.len()))
}

/// Seven to fifteen digits (E.164's maximum).
pub(super) fn phone(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let count = digits(c.found()).len();
    ((7..=15).contains(&count) && !dotted_further(c)).then_some(c)
}

/// A phone number in groups without other indications: in a list of numbers, a context word is needed.
pub(super) fn grouped_phone(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let digit_beside = |mut beside: std::str::Chars<'_>, back: bool| {
        let mut next = || match back {
            true => beside.next_back(),
            false => beside.next(),
        };
        next() == Some(' ') && next().is_some_and(|c| c.is_ascii_digit())
    };
    let listed = digit_beside(c.text[..c.start].chars(), true)
        || digit_beside(c.text[c.end..].chars(), false);
    let mut c = phone(c)?;
    if listed {
        c.score = 0.4;
    }
    Some(c)
}

fn dotted_further(c: Candidate<'_>) -> bool {
    let joins = |c: char| ".-/".contains(c);
    let mut after = c.text[c.end..].chars();
    let mut before = c.text[..c.start].chars().rev();
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    (after.next().is_some_and(joins) && digit(after.next()))
        || (before.next().is_some_and(joins) && digit(before.next()))
}

/// Rejects `May` at the beginning of a question: `May I have your name?`
pub(super) fn no_question(c: Candidate<'_>) -> Option<Candidate<'_>> {
    (!is_question(c.text, c.start, c.end)).then_some(c)
}

/// A day, month and year in some order, each within its range.
pub(super) fn numeric_date(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let parts: Vec<u32> = c
        .found()
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|p| p.parse().ok())
        .collect();
    let [one, two, three] = parts[..] else {
        return None;
    };
    let day_and_month = |a: u32, b: u32| {
        (1..=31).contains(&a) && (1..=12).contains(&b)
            || (1..=31).contains(&b) && (1..=12).contains(&a)
    };
    let year_first = one > 31 && day_and_month(two, three);
    (!dotted_further(c) && (year_first || day_and_month(one, two))).then_some(c)
}

/// Requires both letters and digits.
pub(super) fn mixed(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let has = |f: fn(&u8) -> bool| c.found().bytes().any(|b| f(&b));
    (has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)).then_some(c)
}

/// What follows a word such as `order number`: the last piece, with at least two digits in it.
pub(super) fn named_reference(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let at = c
        .found()
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || "-_/".contains(c)))?;
    let start = c.start + at + 1;
    let c = Candidate { start, ..c };
    (c.found().bytes().filter(u8::is_ascii_digit).count() >= 2).then_some(c)
}

/// UPS: 1Z and sixteen letters and digits, the last a check digit (letters count A = 2 … mod 10).
pub(super) fn ups(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let body = c.found().get(2..17)?;
    let sum: u32 = body
        .bytes()
        .enumerate()
        .map(|(i, b)| {
            let value = match b {
                b'0'..=b'9' => u32::from(b - b'0'),
                _ => (u32::from(b.to_ascii_uppercase()) - 63) % 10,
            };
            value * (1 + (i as u32 % 2))
        })
        .sum();
    let check = (10 - sum % 10) % 10;
    (c.found().chars().last()?.to_digit(10)? == check).then_some(c)
}

/// A postal item of the Universal Postal Union (S10): two letters, eight digits, check digit.
pub(super) fn postal_item(c: Candidate<'_>) -> Option<Candidate<'_>> {
    let d = digits(c.found());
    let sum: u32 = d
        .iter()
        .zip([8, 6, 4, 2, 3, 5, 9, 7])
        .map(|(d, w)| d * w)
        .sum();
    let check = match 11 - sum % 11 {
        10 => 0,
        11 => 5,
        check => check,
    };
    (d.get(8) == Some(&check)).then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Candidate<'_> {
        Candidate {
            text,
            start: 0,
            end: text.len(),
            score: 1.0,
        }
    }

    /// Published test numbers: of card networks, and examples of the IBAN registry.
    #[test]
    fn checksums_pass_the_published_examples_and_no_single_changed_digit() {
        type Case = (fn(Candidate<'_>) -> Option<Candidate<'_>>, &'static str);
        let cases: [Case; 10] = [
            (card, "4111111111111111"),
            (card, "378282246310005"),
            (card, "6011 1111 1111 1117"),
            (card, "30569309025904"),
            (card, "4222222222222"),
            (iban, "GB82 WEST 1234 5698 7654 32"),
            (iban, "DE89370400440532013000"),
            (iban, "NO9386011117947"),
            (ups, "1Z5R89390357567127"),
            (postal_item, "RR473124829GB"),
        ];
        for (check, good) in cases {
            assert!(check(of(good)).is_some(), "{good}");
            for (at, c) in good.char_indices().skip(2) {
                let Some(digit) = c.to_digit(10) else {
                    continue;
                };
                let mut bad = good.to_owned();
                bad.replace_range(at..=at, &((digit + 1) % 10).to_string());
                assert!(check(of(&bad)).is_none(), "{bad}");
            }
        }
    }

    /// Luhn's sum alone makes no card of a number whose length no network has for its beginning:
    /// telephone numbers with a country's digits before them have it one time in ten.
    #[test]
    fn a_length_that_no_network_issues_lowers_the_score() {
        for (number, sure) in [
            ("4111111111111111", true),
            ("378282246310005", true),
            ("30569309025904", true),
            ("4222222222222", true),
            ("6759649826438453", true),
            ("501800000009", true),
            ("447700900007", false),
            ("331234567898", false),
            ("41111111111114", false),
            ("9111111111111110", false),
        ] {
            let digits = digits(number);
            assert!(luhn(&digits), "{number}");
            let score = card(of(number)).unwrap().score;
            assert_eq!(score > 0.6, sure, "{number}: {score}");
            assert_eq!(score < 0.5, digits.len() < 16 && !sure, "{number}");
        }
    }

    #[test]
    fn an_iban_ends_where_its_country_says() {
        let found = iban(of("GB82 WEST 1234 5698 7654 32 and more")).unwrap();
        assert_eq!(found.found(), "GB82 WEST 1234 5698 7654 32");
        assert!(iban(of("GB82WEST123456987654321")).is_none());
    }
}
