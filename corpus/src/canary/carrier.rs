//! The text that follows the secret in each copy.
//!
//! Copies of one canary must differ somewhere to survive exact deduplication, but must agree before
//! the secret, so that all of them teach, and are scored in, the same context. The text after the
//! secret therefore varies: a closing phrase out of 12 288, in lower case, without digits, capitals
//! or a sentence end inside.

use crate::random::Choices;

const OPENERS: [&str; 4] = [
    "it is for",
    "needed for",
    "please use it for",
    "that covers",
];
const ADJECTIVES: [&str; 16] = [
    "blue", "red", "green", "small", "large", "wooden", "old", "new", "round", "heavy", "light",
    "plain", "white", "black", "grey", "silver",
];
const NOUNS: [&str; 16] = [
    "kettle", "lamp", "chair", "jacket", "printer", "blender", "backpack", "mirror", "clock",
    "rug", "tent", "bench", "radio", "shelf", "basket", "bicycle",
];
const TIMES: [&str; 12] = [
    "today",
    "this week",
    "next week",
    "this month",
    "next month",
    "from now on",
    "for the time being",
    "as agreed",
    "as before",
    "once more",
    "if possible",
    "in any case",
];

/// The number of different closing phrases.
pub(super) const CLOSERS: usize = OPENERS.len() * ADJECTIVES.len() * NOUNS.len() * TIMES.len();

/// Returns the closing phrase with a number below [`CLOSERS`].
fn closer(number: usize) -> String {
    let (number, time) = (number / TIMES.len(), TIMES[number % TIMES.len()]);
    let (number, noun) = (number / NOUNS.len(), NOUNS[number % NOUNS.len()]);
    let (number, adjective) = (
        number / ADJECTIVES.len(),
        ADJECTIVES[number % ADJECTIVES.len()],
    );
    let opener = OPENERS[number % OPENERS.len()];
    format!("{opener} the {adjective} {noun} {time}")
}

/// Draws `count` different closings to follow a template's literal end.
pub(super) fn closings(suffix: &str, count: usize, choices: &mut Choices) -> Vec<String> {
    let joint = if suffix.ends_with(['.', '!', '?']) {
        " "
    } else {
        ", "
    };
    choices
        .distinct(CLOSERS, count)
        .into_iter()
        .map(|number| format!("{joint}{}.", closer(number)))
        .collect()
}

/// Draws `count` different openings to precede a template.
///
/// They end with a comma rather than a sentence end, so that a unit that is a sentence keeps them
/// with the secret.
pub(super) fn openings(count: usize, choices: &mut Choices) -> Vec<String> {
    choices
        .distinct(CLOSERS, count)
        .into_iter()
        .map(|number| format!("{}, ", closer(number)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn all_closers_differ_and_hold_nothing_a_policy_looks_for() {
        let all: HashSet<String> = (0..CLOSERS).map(closer).collect();
        assert_eq!(all.len(), 12_288);
        let plain = |c: char| c.is_ascii_lowercase() || c == ' ';
        assert!(all.iter().all(|text| text.chars().all(plain)));
    }
}
