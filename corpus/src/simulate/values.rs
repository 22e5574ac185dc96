//! The secrets of one dialogue.

use super::people::{ENDINGS, FAMILY, GIVEN, STATES, STREETS, TOWNS, WAYS};
use crate::random::Choices;

fn digits(choices: &mut Choices, count: usize) -> String {
    (0..count)
        .map(|_| char::from(b'0' + choices.below(10) as u8))
        .collect()
}

/// Draws a given name and a family name, sometimes with an initial or a second family name.
pub(super) fn name(choices: &mut Choices) -> String {
    let given = choices.pick(&GIVEN);
    let family = choices.pick(&FAMILY);
    match choices.below(10) {
        0 => {
            let initial = char::from(b'A' + choices.below(26) as u8);
            format!("{given} {initial}. {family}")
        }
        1 => format!("{given} {family}-{}", choices.pick(&FAMILY)),
        _ => format!("{given} {family}"),
    }
}

/// Draws an address: house or box, town, state, code.
pub(super) fn address(choices: &mut Choices) -> String {
    let town = format!("{}{}", choices.pick(&TOWNS), choices.pick(&ENDINGS));
    let state = choices.pick(&STATES);
    let code = digits(choices, 5);
    if choices.chance(1, 12) {
        let number = 10 + choices.below(9990);
        return format!("PO Box {number}, {town}, {state} {code}");
    }
    let number = 1 + choices.below(9999);
    let street = format!("{} {}", choices.pick(&STREETS), choices.pick(&WAYS));
    let flat = match choices.below(4) {
        0 => format!(", Apt {}", 1 + choices.below(99)),
        1 => format!(", Unit {}", 1 + choices.below(40)),
        _ => String::new(),
    };
    format!("{number} {street}{flat}, {town}, {state} {code}")
}

/// Draws ten digits, in one of four notations.
pub(super) fn phone(choices: &mut Choices) -> String {
    let (a, b, c) = (digits(choices, 3), digits(choices, 3), digits(choices, 4));
    match choices.below(4) {
        0 => format!("({a}) {b}-{c}"),
        1 => format!("{a}-{b}-{c}"),
        2 => format!("{a}.{b}.{c}"),
        _ => format!("{a}{b}{c}"),
    }
}

/// Draws 3, 5 and 4 digits.
pub(super) fn order(choices: &mut Choices) -> String {
    let (a, b, c) = (digits(choices, 3), digits(choices, 5), digits(choices, 4));
    format!("{a}-{b}-{c}")
}

/// Draws ten capitals and digits, at least one of them a capital.
pub(super) fn tracking(choices: &mut Choices) -> String {
    let first = char::from(b'A' + choices.below(26) as u8);
    let rest = (0..9).map(|_| match choices.below(36) {
        n @ 0..10 => char::from(b'0' + n as u8),
        n => char::from(b'A' + (n - 10) as u8),
    });
    std::iter::once(first).chain(rest).collect()
}
