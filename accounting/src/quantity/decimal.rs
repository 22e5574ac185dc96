//! Decimal numbers as written, together with the double that represents them.

/// More than the number of significant digits of any double.
const ALL_DIGITS: usize = 770;
/// The number of significant digits that distinguishes every double from its neighbours.
const DIGITS: usize = 17;

/// Reads a number and refuses a decimal that its nearest double doesn't represent.
///
/// A rate of 1.0000000000000001 would be read as 1, 2.0000000000000001 steps as 2, and 1e-400 as 0, so a number outside
/// a range would pass as one inside it. A decimal of more than 17 significant digits is also refused if no double has
/// these digits.
///
/// A decimal of up to 17 digits stands for the nearest double; for 0.3 that is a double 1.1e-17 below it. Promises
/// refer to that double, which differs by at most 1.2e-16 relatively (here 3.7e-17), in either direction. The double
/// isn't rounded to the safe side: documents contain the shortest decimal of a double and must be read back as the same
/// double, and a σ or a rate that is safe for an upper end isn't safe for the lower end next to it.
///
/// ```
/// use reticent_accounting::number;
/// assert_eq!(number("0.1"), Ok(0.1));
/// assert_eq!(
///     number("1.0000000000000001").unwrap_err(),
///     "must have no more digits than a double keeps, got 1.0000000000000001, which would be read as 1",
/// );
/// ```
///
/// # Errors
/// Returns an error with the value if `text` isn't a number or would be read as a different one.
pub fn number(text: &str) -> Result<f64, String> {
    let value: f64 = (text.parse()).map_err(|_| format!("must be a number, got {text:?}"))?;
    if value == 0.0 && significant(text).is_some() {
        return Err(format!(
            "{text} is too small for a number: must be 0 or at least 5e-324"
        ));
    }
    if stands_for(value, text) {
        return Ok(value);
    }
    Err(format!(
        "must have no more digits than a double keeps, got {text}, which would be read as {}",
        shown(value)
    ))
}

/// Formats a number for people: with a power of ten where it would otherwise have long rows of zeros.
pub(crate) fn shown(value: f64) -> String {
    let size = value.abs();
    if size >= 1e16 && size.is_finite() || size > 0.0 && size < 1e-5 {
        format!("{value:e}")
    } else {
        format!("{value}")
    }
}

/// Rewrites a reader's message about a number where a count is expected so that it names the count's range; `None` for
/// other messages.
///
/// ```
/// use reticent_accounting::whole_number;
/// assert_eq!(
///     whole_number("invalid type: floating point `1.5`, expected u32").unwrap(),
///     "must be a whole number in [0, 4294967295], got 1.5",
/// );
/// assert_eq!(
///     whole_number("invalid type: string \"x\", expected u8").unwrap(),
///     "must be a whole number in [0, 255], got a text",
/// );
/// assert_eq!(whole_number("missing field `each`"), None);
/// ```
#[must_use]
pub fn whole_number(message: &str) -> Option<String> {
    let message = message.strip_prefix("invalid ")?;
    let number = [
        "type: floating point `",
        "type: integer `",
        "value: integer `",
    ];
    let (value, rest) = if let Some(rest) = message.strip_prefix("type: string ") {
        // The content of a string may be confidential, so it isn't repeated.
        ("a text", rest.rsplit_once(", expected ")?.1)
    } else {
        let rest = number.iter().find_map(|kind| message.strip_prefix(kind))?;
        let (value, rest) = rest.split_once('`')?;
        // For integers that need more than 64 bits, the message also states the width.
        (value, rest.split_once(", expected ")?.1)
    };
    let kind = rest.split([' ', ',']).next()?.trim();
    let most = match kind {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "u64" | "usize" => u64::MAX,
        _ => return None,
    };
    // Readers write out every digit of 1e300.
    let value = value.parse().map_or_else(|_| value.to_owned(), shown);
    Some(format!(
        "must be a whole number in [0, {most}], got {value}"
    ))
}

/// Returns whether `value` equals the decimal that it was read from, as far as `number` requires.
fn stands_for(value: f64, text: &str) -> bool {
    let Some((digits, exponent)) = significant(text).filter(|_| value.is_finite()) else {
        return true;
    };
    // A whole number is accepted even if it is rounded: it is still read as a whole number.
    if usize::try_from(exponent).is_ok_and(|before| digits.len() <= before) {
        return true;
    }
    if value.fract() != 0.0 && digits.len() <= DIGITS {
        return true;
    }
    significant(&format!("{value:.ALL_DIGITS$e}")) == Some((digits, exponent))
}

/// Returns the digits of a decimal from the first to the last nonzero one, and the power of ten of a decimal point in
/// front of them; `None` for zero and for text that isn't a decimal.
fn significant(text: &str) -> Option<(String, i64)> {
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let before = before.trim_start_matches(['+', '-']);
    let digits = format!("{before}{after}");
    let first = digits.find(|c: char| c != '0')?;
    // With a power too large for an integer, the value is zero or infinity.
    let power: i64 = power.parse().unwrap_or(0);
    let exponent = (before.len() as i64 - first as i64).saturating_add(power);
    Some((digits[first..].trim_end_matches('0').to_owned(), exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A σ of 1e308 was written with 308 zeros.
    #[test]
    fn numbers_are_shown_by_their_powers_of_ten() {
        for (value, text) in [
            (1e308, "1e308"),
            (-1e16, "-1e16"),
            (20_000.0, "20000"),
            (0.1, "0.1"),
            (0.0, "0"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(shown(value), text);
        }
    }

    #[test]
    fn a_decimal_is_read_as_what_it_says_or_refused() {
        for (text, value) in [
            ("0.1", 0.1),
            // As C, R and older Pythons print a double.
            ("0.10000000000000001", 0.1),
            (
                "0.1000000000000000055511151231257827021181583404541015625",
                0.1,
            ),
            ("1.0", 1.0),
            ("1.000000000000000000000000", 1.0),
            ("2500e-3", 2.5),
            ("1e6", 1e6),
            ("0.3e1", 3.0),
            ("9007199254740991", 9_007_199_254_740_991.0),
            ("2251799813685248.5", 2_251_799_813_685_248.5),
            ("12345678901234567890", 12_345_678_901_234_567_000.0),
            ("-0.5", -0.5),
            ("0", 0.0),
            ("0e-400", 0.0),
            ("5e-324", 5e-324),
            ("inf", f64::INFINITY),
        ] {
            assert_eq!(number(text), Ok(value), "{text}");
        }
        for (text, read) in [
            ("1.0000000000000001", "1"),
            ("0.99999999999999999", "1"),
            ("9007199254740990.5", "9007199254740990"),
            ("0.50000000000000000000000000001", "0.5"),
            ("-1.00000000000000001e0", "-1"),
            ("3.00000000000000000001", "3"),
            ("0.33333333333333333333", "0.3333333333333333"),
        ] {
            let said = format!("got {text}, which would be read as {read}");
            assert!(number(text).unwrap_err().ends_with(&said), "{text}");
        }
        for text in ["1e-400", "0.3E-330", "2e-324", "-1e-999999999999999999999"] {
            assert!(number(text).unwrap_err().contains("too small"), "{text}");
        }
        for text in ["", "ten", "1,5", "0x10"] {
            assert!(
                number(text)
                    .unwrap_err()
                    .starts_with("must be a number, got")
            );
        }
    }
}
