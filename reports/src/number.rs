//! Numbers formatted for people: few digits, never rounded to the flattering side.

use crate::contract::dash;
use reticent_accounting::{Lower, Upper};

/// Formats a number with `digits` significant digits, rounded to nearest. For measured values and
/// estimates.
///
/// ```
/// use reticent_reports::number::nearest;
/// assert_eq!(nearest(19.931_568, 4), "19.93");
/// assert_eq!(nearest(1e-5, 2), "1.0e-5");
/// assert_eq!(nearest(f64::INFINITY, 3), "∞");
/// ```
#[must_use]
pub fn nearest(value: f64, digits: usize) -> String {
    print(value, digits, |_| false)
}

/// Formats an upper bound with `digits` significant digits; the printed number is at least `value`.
///
/// ```
/// use reticent_reports::number::rounded_up;
/// assert_eq!(rounded_up(1.234_01, 4), "1.235");
/// assert_eq!(rounded_up(0.999_99, 3), "1.00");
/// ```
#[must_use]
pub fn rounded_up(value: f64, digits: usize) -> String {
    print(value, digits, |printed| printed < value)
}

/// Formats bits of exposure as an upper bound: `bits` rounded up, or log2 of the number of candidates
/// where rounding would exceed it.
///
/// ```
/// use reticent_reports::number::exposure_at_most;
/// assert_eq!(exposure_at_most(14.501, 3, Some(1e6)), "14.6");
/// assert_eq!(exposure_at_most(1e6f64.log2(), 3, Some(1e6)), "log2(1000000)");
/// ```
#[must_use]
pub fn exposure_at_most(bits: f64, digits: usize, candidates: Option<f64>) -> String {
    let printed = rounded_up(bits, digits);
    match candidates {
        Some(candidates) if parse(&printed) > candidates.log2() => {
            format!("log2({})", shortest(candidates))
        }
        _ => printed,
    }
}

/// Formats a lower bound with `digits` significant digits; the printed number is at most `value`.
///
/// ```
/// use reticent_reports::number::rounded_down;
/// assert_eq!(rounded_down(14.867_9, 4), "14.86");
/// ```
#[must_use]
pub fn rounded_down(value: f64, digits: usize) -> String {
    print(value, digits, |printed| printed > value)
}

/// A number whose type says on which side of it the truth lies.
pub trait Bound {
    /// Formats the bound on its side, with so many significant digits.
    fn to_side(self, digits: usize) -> String;
}
impl<T: Into<f64>> Bound for Upper<T> {
    fn to_side(self, digits: usize) -> String {
        rounded_up(self.into_inner().into(), digits)
    }
}
impl<T: Into<f64>> Bound for Lower<T> {
    fn to_side(self, digits: usize) -> String {
        rounded_down(self.into_inner().into(), digits)
    }
}
impl<B: Bound> Bound for Option<B> {
    fn to_side(self, digits: usize) -> String {
        self.map_or_else(dash, |end| end.to_side(digits))
    }
}
/// Formats a bound with `digits` significant digits, rounded to its side, which its type names; a dash where it is
/// unknown.
///
/// ```
/// use reticent_accounting::{Lower, Upper};
/// use reticent_reports::number::rounded;
/// assert_eq!(rounded(Upper::new(1.234_01), 4), "1.235");
/// assert_eq!(rounded(Some(Lower::new(1.234_99)), 4), "1.234");
/// ```
#[must_use]
pub fn rounded(of: impl Bound, digits: usize) -> String {
    of.to_side(digits)
}

/// Formats a number as the user wrote it: the shortest text that parses to the same number. For inputs.
///
/// ```
/// use reticent_reports::number::shortest;
/// assert_eq!((shortest(1e-5), shortest(1.0), shortest(0.1)), ("1e-5".into(), "1".into(), "0.1".into()));
/// ```
#[must_use]
pub fn shortest(value: f64) -> String {
    let text = format!("{value:?}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text.replace("inf", "∞"),
    }
}

/// Formats a number that describes a run: as the user wrote it, but with at most eight significant
/// digits.
///
/// ```
/// use reticent_reports::number::described;
/// assert_eq!((described(1.1), described(256.0 / 60_000.0)), ("1.1".into(), "0.0042666667".into()));
/// ```
#[must_use]
pub fn described(value: f64) -> String {
    let rounded = parse(&format!("{value:.7e}"));
    shortest(if value.is_finite() { rounded } else { value })
}

/// Formats a count with its noun: `1 record`, `2 000 records`.
///
/// ```
/// use reticent_reports::number::count_of;
/// assert_eq!((count_of(1, "record"), count_of(2, "record")), ("1 record".into(), "2 records".into()));
/// ```
#[must_use]
pub fn count_of(count: u64, what: &str) -> String {
    let all = grouped(count);
    match what.strip_suffix('y') {
        _ if count == 1 => format!("{all} {what}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{all} {stem}ies"),
        None if what.ends_with("ss") => format!("{all} {what}es"),
        _ => format!("{all} {what}s"),
    }
}

/// Names of units whose plural ends in s.
const REGULAR: [&str; 25] = [
    "answer",
    "author",
    "chat",
    "client",
    "comment",
    "conversation",
    "customer",
    "dialogue",
    "document",
    "email",
    "example",
    "letter",
    "line",
    "message",
    "note",
    "page",
    "paragraph",
    "passage",
    "patient",
    "record",
    "review",
    "secret",
    "sentence",
    "turn",
    "user",
];

/// Returns the plural of a unit's name: `customer turns`. Names may be of any language, so that of an unknown word is
/// left as it is: `records of unit données`.
///
/// ```
/// use reticent_reports::number::plural;
/// assert_eq!(plural("customer turn"), "customer turns");
/// assert_eq!(plural("données"), "records of unit données");
/// ```
#[must_use]
pub fn plural(unit: &str) -> String {
    let last = unit.rsplit([' ', '-', '_']).next();
    match last.is_some_and(|word| REGULAR.contains(&word)) {
        true => format!("{unit}s"),
        false => format!("records of unit {unit}"),
    }
}

/// Returns so many records of a unit: `one turn`, `3 turns`.
///
/// ```
/// use reticent_reports::number::so_many;
/// assert_eq!(so_many(1, "données"), "one données");
/// assert_eq!(so_many(3, "données"), "3 records of unit données");
/// ```
#[must_use]
pub fn so_many(records: u32, unit: &str) -> String {
    match records {
        1 => format!("one {unit}"),
        many => format!("{many} {}", plural(unit)),
    }
}

/// Returns a text with its first letter capitalised.
///
/// ```
/// assert_eq!(reticent_reports::number::capital("epsilon"), "Epsilon");
/// ```
#[must_use]
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Formats a whole number with thin spaces between groups of three digits: `1 000 000`.
///
/// ```
/// assert_eq!(reticent_reports::number::grouped(1_000_000), "1\u{202f}000\u{202f}000");
/// ```
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Prints to nearest; while `wrong_side` holds for the printed number, moves it by one unit in the last
/// place.
fn print(value: f64, digits: usize, wrong_side: impl Fn(f64) -> bool) -> String {
    if value.is_nan() {
        return "not a number".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let digits = digits.max(1);
    let mut scientific = format!("{value:.*e}", digits - 1);
    // One unit in the last place always suffices, as printing rounded to nearest.
    if wrong_side(parse(&scientific)) {
        let (mantissa, exponent) = split(&scientific);
        let nearest = parse(&scientific);
        // Below a power of ten, the last place is that of the smaller decade.
        let below = parse(mantissa).abs() <= 1.0 && value.abs() < nearest.abs();
        let exponent = exponent - i32::from(below);
        let unit = 10f64.powi(exponent - i32::try_from(digits).unwrap_or(i32::MAX) + 1);
        let toward = if value > nearest { unit } else { -unit };
        scientific = format!("{:.*e}", digits - 1, nearest + toward);
    }
    let (mantissa, exponent) = split(&scientific);
    let places = i32::try_from(digits).unwrap_or(i32::MAX) - 1 - exponent;
    if parse(&scientific).classify() == std::num::FpCategory::Zero {
        return "0".to_owned();
    }
    match exponent {
        -3..=5 => format!(
            "{:.*}",
            usize::try_from(places).unwrap_or(0),
            parse(&scientific)
        ),
        _ => format!("{mantissa}e{exponent}"),
    }
}

fn parse(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

fn split(scientific: &str) -> (&str, i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (mantissa, exponent.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_in_the_middle_scientific_at_the_ends() {
        assert_eq!(nearest(0.0, 3), "0");
        assert_eq!(nearest(0.001_234, 3), "0.00123");
        assert_eq!(nearest(0.000_123_4, 3), "1.23e-4");
        assert_eq!(nearest(123_456.0, 3), "123456".replace("456", "000"));
        assert_eq!(nearest(1.5e7, 2), "1.5e7");
        assert_eq!(rounded_up(-2.5, 1), "-2");
    }

    #[test]
    fn an_exact_number_is_not_moved() {
        assert_eq!(rounded_up(1.25, 3), "1.25");
        assert_eq!(rounded_down(1.25, 3), "1.25");
    }

    #[test]
    fn below_a_power_of_ten_no_digit_is_lost() {
        assert_eq!(rounded_down(0.999_999_999, 6), "0.999999");
        assert_eq!(rounded_up(-99.999, 3), "-99.9");
        assert_eq!(rounded_down(9.99e-10, 1), "9e-10");
    }

    proptest! {
        #[test]
        fn a_bound_stays_on_its_side(value in -1e12f64..1e12, scale in -12i32..3, digits in 1usize..8) {
            let value = value * 10f64.powi(scale);
            let up = parse(&rounded_up(value, digits));
            let down = parse(&rounded_down(value, digits));
            prop_assert!(down <= value && value <= up, "{down} {value} {up}");
            // and it is tight: at most one unit in the last place away on either side
            let unit = 10f64.powi(value.abs().log10().floor() as i32 + 2 - digits as i32);
            prop_assert!(up - down <= unit * 1.000_001 + f64::MIN_POSITIVE, "{down} {value} {up}");
        }
    }
}
