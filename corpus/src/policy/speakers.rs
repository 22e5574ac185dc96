//! Corrections of a tagger's false names: speaker marks, question words, and other words that are not names.

use std::borrow::Cow;

/// Words that name a speaker before a colon. A name that is also such a word would be left as it is.
const ROLES: &str = "\
    user system agent customer assistant bot action human operator speaker client caller support tool";
/// The same for abbreviations, in capitals alone: `Cus` and `Ai` may be names.
const ABBREVIATIONS: &str = "USR SYS AGT CUS CST AST AI ACT HUM OP CSR";
/// The longest speaker mark, in bytes.
const LONGEST_MARK: usize = 32;
/// Marks between documents that tokenizers read, which end a line as a line break does.
const DOCUMENT_MARKS: [&str; 9] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|begin_of_text|>",
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "[CLS]",
    "[SEP]",
];
/// Question words that are also names.
const MODALS: [&str; 3] = ["May", "Will", "Can"];
const PRONOUNS: [&str; 9] = ["I", "we", "you", "he", "she", "they", "it", "the", "this"];

/// Replaces document marks by line breaks, and speaker marks at the beginning of lines by blanks: `USR:Hello`,
/// `ACT:System Action: search`. Places stay the same.
pub(super) fn without_speakers(text: &str) -> Cow<'_, str> {
    let mut out = without_document_marks(text);
    let mut start = 0;
    while start < out.len() {
        let end = out[start..]
            .find('\n')
            .map_or(out.len(), |at| start + at + 1);
        let mut at = start;
        while let Some(colon) = out[at..end].find(':') {
            let mark = &out[at..at + colon];
            let mut words = mark.split_whitespace().peekable();
            if mark.len() > LONGEST_MARK || words.peek().is_none() || !words.all(is_speaker) {
                break;
            }
            out.to_mut()
                .replace_range(at..=at + colon, &" ".repeat(colon + 1));
            at += colon + 1;
        }
        start = end;
    }
    out
}

fn without_document_marks(text: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    for (at, _) in text.match_indices(['<', '[']) {
        let begins = |mark: &&&str| text[at..].starts_with(**mark);
        if let Some(mark) = DOCUMENT_MARKS.iter().find(begins) {
            let blanks = " ".repeat(mark.len() - 1);
            out.to_mut()
                .replace_range(at..at + mark.len(), &format!("\n{blanks}"));
        }
    }
    out
}

/// Returns whether a word is a single capital letter or one of [`ROLES`] or [`ABBREVIATIONS`]. Other words in capitals may be
/// names: `IAN:`.
fn is_speaker(word: &str) -> bool {
    let letter = word.len() == 1 && word.chars().all(|c| c.is_ascii_uppercase());
    let role = || ROLES.split(' ').any(|role| word.eq_ignore_ascii_case(role));
    letter || role() || ABBREVIATIONS.split(' ').any(|short| word == short)
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
        let two = "Bye.<|endoftext|>SYS:Hi </s> Agent: Ok";
        let blank = "Bye.\n                Hi \n           Ok";
        assert_eq!(without_speakers(two), blank);
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
            for text in [
                "ACT:May I have your name? USR: Will you call?",
                "<|endoftext|>SYS:Hi, how can I help you?",
                "<|endoftext|>USR:I bought the wrong size.<|endoftext|>Agent: Hi",
                "SYS: Bye.</s>USR:Hi, there.",
            ] {
                assert_eq!(masked(text), text);
            }
            // Behind a mark too, other words before a colon may be names.
            for (text, left) in [
                ("IAN: hello", "<MASK>: hello"),
                ("Cus: hello", "<MASK>: hello"),
                ("<|endoftext|>Chloe: hello", "<|endoftext|><MASK>: hello"),
                (
                    "Thanks, Chloe.<|endoftext|>SYS:Hi Albert Sanders",
                    "Thanks, <MASK>.<|endoftext|>SYS:Hi <MASK>",
                ),
            ] {
                assert_eq!(masked(text), left);
            }
        }
    }
}
