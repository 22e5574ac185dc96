//! Parsers of argument values that return our own types and error messages.

use reticent_accounting::{Epsilon, Steps, number};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Parses a quantity of the accounting crate: `value_parser = quantity::<NoiseMultiplier>`.
///
/// ```
/// use reticent_accounting::NoiseMultiplier;
/// use reticent_reports::contract::quantity;
/// assert!(quantity::<NoiseMultiplier>("1.1").is_ok());
/// assert_eq!(
///     quantity::<NoiseMultiplier>("0").unwrap_err(),
///     "noise multiplier must lie in (0, inf), got 0",
/// );
/// ```
///
/// # Errors
/// Returns an error if the text is not a number or the type refuses it.
pub fn quantity<T: TryFrom<f64, Error: std::fmt::Display>>(text: &str) -> Result<T, String> {
    T::try_from(number(text)?).map_err(|error| error.to_string())
}

/// Parses an epsilon above which the exit code is 1. It must be finite: an infinite epsilon does not
/// exceed an infinite limit.
///
/// # Errors
/// Returns an error for any other text.
pub fn limit(text: &str) -> Result<Epsilon, String> {
    finite(quantity(text)?)
}

/// Checks a parsed limit as [`limit`] does.
///
/// # Errors
/// Returns an error if the limit is infinite.
pub(crate) fn finite(limit: Epsilon) -> Result<Epsilon, String> {
    match limit.get().is_finite() {
        true => Ok(limit),
        false => Err("a limit must be finite, got inf".to_owned()),
    }
}

/// Parses a whole number of at least 1.
///
/// # Errors
/// Returns an error for any other text.
pub fn positive(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(value) if value > 0 => Ok(value),
        _ => Err(format!("must be a positive whole number, got {text:?}")),
    }
}

/// Parses a whole number in a range: `value_parser = whole_within::<u64>(1..=1024)`.
///
/// ```
/// use reticent_reports::contract::whole_within;
/// let threads = whole_within::<u64>(1..=1024);
/// assert_eq!(threads("8"), Ok(8));
/// assert_eq!(threads("0").unwrap_err(), "must be a whole number in [1, 1024], got \"0\"");
/// ```
pub fn whole_within<T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let value = text.parse::<T>().ok();
        let value = value.filter(|value| range.contains(value));
        let (least, most) = (range.start(), range.end());
        value.ok_or_else(|| format!("must be a whole number in [{least}, {most}], got {text:?}"))
    }
}

/// Parses a number of steps: a whole number from 1 to 2^53, in digits or as `1e6`.
///
/// # Errors
/// Returns an error for any other text.
pub fn step_count(text: &str) -> Result<u64, String> {
    steps_from(text, 1)
}

/// Parses a number of steps that may be 0.
///
/// # Errors
/// Returns an error for any other text.
pub fn steps_if_any(text: &str) -> Result<u64, String> {
    steps_from(text, 0)
}

fn steps_from(text: &str, least: u64) -> Result<u64, String> {
    let digits = text.parse::<u64>().ok();
    // A power of ten that is a whole number of this size is exact.
    let power = || Steps::of_number(number(text).ok()?).map(Steps::get);
    let most = Steps::MOST.get();
    let whole = digits.or_else(power);
    whole
        .filter(|steps| (least..=most).contains(steps))
        .ok_or_else(|| format!("must be a whole number in [{least}, {most}], got {text:?}"))
}

/// Parses a finite number above zero.
///
/// # Errors
/// Returns an error for any other text.
pub fn positive_number(text: &str) -> Result<f64, String> {
    number_within(text, "a number in (0, inf)", |value| {
        value > 0.0 && value.is_finite()
    })
}

/// Parses a number for which `fits` holds; `what` describes the condition.
///
/// # Errors
/// Returns an error for any other text.
pub fn number_within(text: &str, what: &str, fits: impl Fn(f64) -> bool) -> Result<f64, String> {
    let refused = || format!("must be {what}, got {text:?}");
    let text = text.trim();
    if text.parse::<f64>().is_err() {
        return Err(refused());
    }
    number(text).and_then(|value| fits(value).then_some(value).ok_or_else(refused))
}

/// Checks the largest exposure that is allowed, in bits. No finite number of candidates in double precision has more than
/// 1074.
///
/// # Errors
/// Says the range for any other number.
pub fn exposure_limit(bits: f64) -> Result<f64, String> {
    match (0.0..=1074.0).contains(&bits) {
        true => Ok(bits),
        false => Err(format!("must be {EXPOSURE_LIMIT}, got {bits}")),
    }
}

/// The numbers that [`exposure_limit`] takes.
pub(crate) const EXPOSURE_LIMIT: &str = "a number of bits in [0, 1074]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_words_are_refused_with_the_range() {
        assert_eq!(positive("3"), Ok(3));
        for bad in ["0", "-1", "1.5", "", "ten"] {
            assert!(positive(bad).unwrap_err().contains("positive whole number"));
        }
        for bad in ["0", "-1", "inf", "NaN", "ten"] {
            assert!(positive_number(bad).unwrap_err().contains("(0, inf)"));
        }
        assert!(limit("0").is_ok() && limit("-1").is_err());
        assert_eq!(limit("inf").unwrap_err(), "a limit must be finite, got inf");
    }

    /// A rate just above one would be read as one.
    #[test]
    fn decimals_that_no_double_stands_for_are_refused() {
        use reticent_accounting::{Probability, SamplingRate};
        let why = quantity::<SamplingRate>("1.0000000000000001").unwrap_err();
        assert!(
            why.ends_with("got 1.0000000000000001, which would be read as 1"),
            "{why}"
        );
        assert!(quantity::<Probability>("0.50000000000000000000000000001").is_err());
        assert!(positive_number("1e-400").unwrap_err().contains("too small"));
        assert!(quantity::<SamplingRate>("0.10000000000000001").is_ok());
    }

    #[test]
    fn steps_are_refused_with_the_most_there_may_be() {
        assert_eq!(steps_if_any("0"), Ok(0));
        assert_eq!(step_count("1000"), Ok(1000));
        assert_eq!(step_count("1e6"), Ok(1_000_000));
        assert_eq!(step_count("9007199254740992"), Ok(1 << 53));
        for bad in [
            "0",
            "-1",
            "1.5",
            "1e-3",
            "",
            "10^20",
            "1e20",
            "inf",
            "NaN",
            "9007199254740990.5",
            "1.0000000000000000001e3",
            "9007199254740993",
            "100000000000000000000",
        ] {
            let why = step_count(bad).unwrap_err();
            assert!(
                why.contains("[1, 9007199254740992]") && why.contains(bad),
                "{why}"
            );
        }
    }
}
