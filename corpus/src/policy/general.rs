//! The policy for ordinary text when nothing is said: identifiers, names, street addresses and sure dates.

use super::addresses::Addresses;
use super::detect::{DetectorOptions, Detectors, IDENTIFYING};
use super::levels::names;
use super::{Policy, Span, View};
use crate::error::Result;
use crate::tagger::TaggerModel;
use std::borrow::Cow;
use std::sync::Arc;

/// What a date needs to be masked: those that could be ordinary words or numbers have less.
const SURE_DATE: f32 = 0.9;
/// What a word needs to count as part of a name.
const LIKELY_NAME: f32 = 0.5;

/// Words in front of a colon that say whose turn it is.
const ROLES: [&str; 14] = [
    "user",
    "system",
    "agent",
    "customer",
    "assistant",
    "bot",
    "action",
    "human",
    "operator",
    "speaker",
    "client",
    "caller",
    "support",
    "tool",
];
/// What says who speaks is no longer, in bytes.
const LONGEST_MARK: usize = 32;
/// Words of a question that are names too.
const MODALS: [&str; 3] = ["May", "Will", "Can"];
const PRONOUNS: [&str; 9] = ["I", "we", "you", "he", "she", "they", "it", "the", "this"];

/// Detectors of identifiers, sure dates, names by the tagger that ships, and street addresses.
#[derive(Debug)]
pub(crate) struct General {
    detectors: Detectors,
    dates: Detectors,
    addresses: Addresses,
    tagger: Arc<TaggerModel>,
    source: Arc<str>,
}

impl General {
    pub(crate) fn new() -> Result<Self> {
        let kinds = |kinds: &[&str], least| DetectorOptions {
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            least,
            ..DetectorOptions::default()
        };
        Ok(Self {
            detectors: Detectors::new(&kinds(&IDENTIFYING, 0.5))?,
            dates: Detectors::new(&kinds(&["date"], SURE_DATE))?,
            addresses: Addresses::new()?,
            tagger: TaggerModel::shipped()?,
            source: "general".into(),
        })
    }
}

impl Policy for General {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        self.detectors.find(view, spans);
        self.dates.find(view, spans);
        self.addresses.find(view, spans);
        let text = view.text;
        for tag in names(self.tagger.as_ref(), &without_speakers(text), LIKELY_NAME) {
            let range = tag.range;
            if is_question(text, range.start, range.end) {
                continue;
            }
            spans.push(Span {
                start: range.start,
                end: range.end,
                kind: tag.role.name().into(),
                source: self.source.clone(),
                score: tag.score,
            });
        }
    }
}

/// The text with blanks in the place of who speaks, at the beginning of lines: `USR:Hello`, `ACT:System Action: search`.
fn without_speakers(text: &str) -> Cow<'_, str> {
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

/// Three capitals at most, or one of [`ROLES`]: longer words in capitals may be names.
fn is_speaker(word: &str) -> bool {
    let shouted = word.len() <= 3 && word.chars().all(|c| c.is_ascii_uppercase());
    shouted || ROLES.iter().any(|role| word.eq_ignore_ascii_case(role))
}

/// Whether a word asks: `May I have your name?`
fn is_question(text: &str, start: usize, end: usize) -> bool {
    let next = text[end..].split_whitespace().next().unwrap_or_default();
    let next = next.trim_end_matches(|c: char| !c.is_alphanumeric());
    MODALS.contains(&&text[start..end]) && PRONOUNS.contains(&next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::resolved;

    #[test]
    fn ordinary_text_needs_no_option() {
        let general = General::new().unwrap();
        let masked = |text: &str| crate::sweep::redacted_text(&general, text);
        assert_eq!(
            masked("SYS: May I have your full name?"),
            "SYS: May I have your full name?"
        );
        assert_eq!(masked("USR: Sure, Mary Watson."), "USR: Sure, <MASK>.");
        for secret in [
            "078-05-1120",
            "4111 1111 1111 1111",
            "DE89 3704 0044 0532 0130 00",
            "AKIAIOSFODNN7EXAMPLE",
            "ada@example.org",
            "415-555-0123",
            "14 Crown Street",
        ] {
            let text = format!("It is {secret} now");
            let view = View {
                text: &text,
                secrets: &[],
            };
            let spans = resolved(&general, &view);
            assert!(
                spans.iter().any(|s| text[s.start..s.end].contains(secret)),
                "{secret}: {spans:?}"
            );
        }
    }

    #[test]
    fn speakers_and_questions_are_no_names() {
        let marked = "ACT:System Action: search\nUSR:Hi\nAda: hello";
        let blank = "                   search\n    Hi\nAda: hello";
        assert_eq!(without_speakers(marked), blank);
        assert!(matches!(without_speakers("plain: text"), Cow::Borrowed(_)));
        assert!(is_question("May I ask", 0, 3) && !is_question("May Brown", 0, 3));
        let general = General::new().unwrap();
        let masked = crate::sweep::redacted_text(&general, "USR:Hi. My name is Chloe Zhang.");
        assert_eq!(masked, "USR:Hi. My name is <MASK>.");
    }
}
