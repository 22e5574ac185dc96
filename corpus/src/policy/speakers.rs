//! Corrections of a tagger's false names: speaker marks, question words, and other words that are not names.

use std::borrow::Cow;

/// Words that name a speaker before a colon.
const ROLES: &str = "\
    user system agent customer assistant bot action human operator speaker client caller support tool";
/// The longest speaker mark, in bytes.
const LONGEST_MARK: usize = 32;
/// Question words that are also names.
const MODALS: [&str; 3] = ["May", "Will", "Can"];
const PRONOUNS: [&str; 9] = ["I", "we", "you", "he", "she", "they", "it", "the", "this"];

/// Replaces speaker marks at the beginning of lines by blanks: `USR:Hello`, `ACT:System Action: search`.
pub(super) fn without_speakers(text: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let mut at = start;
        while let Some(colon) = line[at - start..].find(':') {
            let mark = &text[at..at + colon];
            let mut words = mark.split_whitespace().peekable();
            if mark.len() > LONGEST_MARK || words.peek().is_none() || !words.all(is_speaker) {
                break;
            }
            out.to_mut()
                .replace_range(at..=at + colon, &" ".repeat(colon + 1));
            at += colon + 1;
        }
        start += line.len();
    }
    out
}

/// Returns whether a word has at most three letters, all capitals, or is one of [`ROLES`]. Longer words in capitals may
/// be names.
fn is_speaker(word: &str) -> bool {
    let shouted = word.len() <= 3 && word.chars().all(|c| c.is_ascii_uppercase());
    shouted || ROLES.split(' ').any(|role| word.eq_ignore_ascii_case(role))
}

/// Returns whether a word begins a question: `May I have your name?`
pub(super) fn is_question(text: &str, start: usize, end: usize) -> bool {
    let next = text[end..].split_whitespace().next().unwrap_or_default();
    let next = next.trim_end_matches(|c: char| !c.is_alphanumeric());
    MODALS.contains(&&text[start..end]) && PRONOUNS.contains(&next)
}

/// Greetings, and names of identifiers and of Greek letters: they resemble names only because of their capitals.
const NO_NAMES: &str = "\
    Hallo|Hola|Ciao|Danke|Gracias|Merci|Bonjour|Salut|Guten Tag|Guten Morgen|Buenos dias|Buenos días|SSN|IBAN|\
    BIC|PIN|CVV|CVC|ID|IDs|DNI|NIE|NIF|VAT|ZIP|URL|PDF|FAQ|OTP|SMS|DOB|EIN|ITIN|Beta|Gamma|Delta|Epsilon|Zeta|\
    Theta|Iota|Kappa|Lambda|Omicron|Rho|Sigma|Tau|Upsilon|Phi|Chi|Psi|Omega|Alpha";

/// Returns whether a supposed whole name is not a name.
pub(super) fn is_no_name(name: &str) -> bool {
    NO_NAMES.split('|').any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Names, PolicyChoice};

    #[test]
    fn speakers_and_questions_are_no_names() {
        let marked = "ACT:System Action: search\nUSR:Hi\nAda: hello";
        let blank = "                   search\n    Hi\nAda: hello";
        assert_eq!(without_speakers(marked), blank);
        assert!(matches!(without_speakers("plain: text"), Cow::Borrowed(_)));
        assert!(is_question("May I ask", 0, 3) && !is_question("May Brown", 0, 3));
        for policy in [
            PolicyChoice::General,
            PolicyChoice::Names {
                least: Names::LEAST,
            },
        ] {
            let policy = policy.build().unwrap();
            let masked = |text| crate::redaction::redacted_text(policy.as_ref(), text);
            assert_eq!(
                masked("USR:Hi. My name is Chloe Zhang."),
                "USR:Hi. My name is <MASK>."
            );
            let text = "ACT:May I have your name? USR: Will you call?";
            assert_eq!(masked(text), text);
        }
    }
}
