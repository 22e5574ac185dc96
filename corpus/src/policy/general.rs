//! The default policy for ordinary text: identifiers, names, street addresses, and dates with high confidence.

use super::addresses::Addresses;
use super::detect::{DetectorOptions, Detectors, IDENTIFYING};
use super::{Names, Policy, Span, View};
use crate::error::Result;
use crate::tagger::TaggerModel;

/// The least score of a date; dates that could be ordinary words or numbers score lower.
const SURE_DATE: f32 = 0.9;
/// The least score of a word to count as part of a name.
const LIKELY_NAME: f32 = 0.5;

/// Finds identifiers, dates with confidence 0.9 or more, names according to the included tagger, and street addresses.
#[derive(Debug)]
pub(crate) struct General {
    detectors: Detectors,
    dates: Detectors,
    addresses: Addresses,
    names: Names,
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
            names: Names::of(TaggerModel::shipped()?, LIKELY_NAME, "general")?,
        })
    }
}

impl Policy for General {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        self.detectors.find(view, spans);
        self.dates.find(view, spans);
        self.addresses.find(view, spans);
        self.names.find(view, spans);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::resolved;

    #[test]
    fn ordinary_text_needs_no_option() {
        let general = General::new().unwrap();
        let masked = |text: &str| crate::redaction::redacted_text(&general, text);
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
}
