//! Street addresses by their forms: a number and a street word, a unit, a European street with its number, a place
//! with its code; what looks like one only beside a word that says so. The lines below belong to it.

use super::{Policy, Span, View, is_spent};
use crate::error::{Error, Result};
use regex::Regex;
use std::sync::Arc;

/// Street addresses, whatever the country as far as their forms go.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    /// Say what they are by themselves.
    plain: Vec<Regex>,
    /// Need a word of [`CONTEXT`] before them.
    near: Vec<Regex>,
    context: Regex,
    /// A bare number behind `zip`, `building` and the like.
    number: Regex,
    number_context: Regex,
    /// What goes on with an address, from its end.
    further: Regex,
    /// The same, if a line, the text or a sentence ends there.
    last: [Regex; 2],
    kind: Arc<str>,
    source: Arc<str>,
}

/// A capitalised word, and one of at least three letters.
const WORD: &str = r"\p{Lu}[\p{L}\p{M}.'’-]*";
const LONG_WORD: &str = r"\p{Lu}[\p{L}\p{M}'’-]{2,}";
const NUMBER: &str = r"\d{1,6}(?:[A-Za-z]|[/-]\d{1,4}[A-Za-z]?)?";
const SMALL: &str = "de|la|del|von|van|of|the|el|al";
/// Words that end the name of a street, in English.
const STREETS: &str = "Street|Str|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Square|Sq|Place|Pl|\
    Terrace|Way|Highway|Hwy|Parkway|Pkwy|Circle|Cir|Alley|Plaza|Trail|Crescent|Close|Row|Walk|Crossing|Heights|Grove|\
    Garden|Park|Hill|Mews|Quay|Wharf|Esplanade|Turnpike|Loop|Path|Pass|Point|Ridge|Run|Station|Bypass|Causeway|\
    Common|Cove|Creek|Estate|Expressway|Extension|Fall|Field|Flat|Ford|Forest|Forge|Fork|Fort|Freeway|Gateway|Glen|\
    Green|Harbor|Haven|Hollow|Inlet|Island|Isle|Junction|Key|Knoll|Lake|Land|Light|Lock|Lodge|Mall|Manor|Meadow|Mill|\
    Mission|Motorway|Mount|Mountain|Neck|Orchard|Oval|Overpass|Pike|Pine|Plain|Port|Prairie|Radial|Ramp|Ranch|Rapid|\
    Rest|River|Shoal|Shore|Skyway|Spring|Spur|Stravenue|Stream|Summit|Throughway|Trace|Track|Trafficway|Tunnel|\
    Underpass|Union|Valley|Via|Viaduct|View|Village|Ville|Vista|Well|Burg|Bluff|Bend|Bottom|Branch|Bridge|Brook|Camp|\
    Canyon|Cape|Center|Cliff|Club|Corner|Course|Curve|Dale|Dam|Divide|Passage";
const UNIT: &str = r"(?:(?i:apt|apartment|suite|ste|unit|flat|room|floor|building|bldg|box|p\.?o\.? ?box|postbox|psc)\.?,? ?#?\d{1,6}[A-Za-z]?)";
/// Words that begin the name of a street elsewhere, and endings that are one.
const FIRST: &str = "Rue|Avenue|Av|Ave|Via|Viale|Piazza|Corso|Calle|Rua|Avenida|Plaza|Boulevard|Place|Chemin|Allée|Route|\
    Quai|Impasse|Ulica|ul|Travessa|Largo|Paseo|Carrer|Rúa";
const LAST: &str = "stra(?:ß|ss)e|str|gasse|weg|platz|allee|damm|ring|ufer|gade|vej|vænget|gata|gatan|vägen|veien|vegen|\
    torget|katu|tie|kuja|polku|straat|laan|gracht|plein|dijk|utca|körút|vollen|ulice|ulica";
/// Words before what may be an address.
const CONTEXT: &str = r"(?i)\b(?:address|lives?|living|lived|located|location|ship|deliver|delivery|send|moved|street|home|house|office|corner|zip|postal|post|visit|resides?|residence|stay|at)\b";
const NUMBER_CONTEXT: &str = r"(?i)\b(?:address|zip|postal|postcode|building|house number)\b";
/// How far before a candidate these reach, in bytes.
const REACH: usize = 40;
/// Which of the plain patterns needs no number.
const NAMED: usize = 3;
/// Lines and parts that follow an address, at most.
const PARTS: usize = 6;

impl Addresses {
    pub(crate) fn new() -> Result<Self> {
        let plain = [
            format!(
                r"\b{NUMBER},? (?:(?:{WORD}|\d{{1,4}}(?:st|nd|rd|th)?|{SMALL}),? ){{0,5}}(?:{STREETS})s?\b\.?(?: (?:{STREETS})s?\b\.?)?"
            ),
            format!(r"(?:\b\d{{1,6}} )?\b{UNIT}\b"),
            format!(r"(?:\b{NUMBER} )?\b[\p{{L}}-]*\p{{L}}(?:{LAST})\.? {NUMBER}\b"),
            format!(
                r"(?:\b{NUMBER},? )?\b(?:{FIRST})\.? (?:(?:{WORD}|de|la|do|da|dos|du|des|del|di|et|al|el|le|l'\p{{L}}+),? ?){{1,5}}\b(?: ?\d{{1,5}}\b)?"
            ),
            r"\b(?:APO|FPO|DPO) A[AEP] \d{5}\b".to_owned(),
            format!(r"\b{WORD}(?: {WORD}){{0,3}},? [A-Z]{{2}}\.? \d{{5}}(?:-\d{{4}})?\b"),
        ];
        let near = [
            format!(
                r"corner of [^\n.?!]{{5,70}}? and (?:{WORD}|[\p{{L}}.]+)(?: {WORD}){{0,3}}(?: \d+)?"
            ),
            r"\b\d{2,6} \p{L}{3,} \d{1,4}\b".to_owned(),
            format!(r"\b{NUMBER},? {LONG_WORD}(?: (?:{WORD}|\d{{1,5}}|u\.|de|la|el|al)){{0,4}}"),
            format!(r"\b{LONG_WORD}(?: {WORD}){{0,2}} {NUMBER}\b"),
        ];
        let compile = |pattern: &str| {
            Regex::new(pattern).map_err(|error| Error::Pattern {
                rule: "a pattern of addresses".to_owned(),
                problem: crate::error::pattern_problem(&error.to_string()),
            })
        };
        let all = |patterns: &[String]| patterns.iter().map(|p| compile(p)).collect::<Result<_>>();
        Ok(Self {
            plain: all(&plain)?,
            near: all(&near)?,
            context: compile(CONTEXT)?,
            number: compile(r"\b\d{3,6}\b")?,
            number_context: compile(NUMBER_CONTEXT)?,
            further: compile(&format!(
                r"^(?:,? ?\s*{UNIT}\b|(?:,? (?:{WORD}|de|la|al|el)){{1,5}},? \d{{4,6}}\b)"
            ))?,
            last: [
                compile(&format!(r"^, {WORD}(?: (?:{WORD}|de|la|el|al)){{0,3}}"))?,
                compile(&format!(
                    r"^\s*\n\s*,? ?(?:(?:{WORD}|\d{{2,6}}|\([^)\n]{{1,20}}\)|de|la|el|al),? ?){{1,6}}"
                ))?,
            ],
            kind: "address".into(),
            source: "addresses".into(),
        })
    }

    /// The end of an address with the parts that follow it.
    fn extended(&self, text: &str, mut end: usize) -> usize {
        for _ in 0..PARTS {
            let rest = &text[end..];
            let ends = |at: usize| {
                let next = rest[at..].chars().next();
                next.is_none_or(|c| matches!(c, '\n' | '.' | ','))
            };
            let further = self.further.find(rest).map(|found| found.end());
            let mut last = self.last.iter().filter_map(|r| Some(r.find(rest)?.end()));
            let Some(more) = further.or_else(|| last.find(|at| ends(*at))) else {
                break;
            };
            end += more;
        }
        end
    }

    fn is_near(text: &str, start: usize, context: &Regex) -> bool {
        let mut from = start.saturating_sub(REACH);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        context.is_match(&text[from..start])
    }
}

impl Policy for Addresses {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        let text = view.text;
        let mut push = |start: usize, end: usize| {
            spans.push(Span {
                start,
                end: self.extended(text, end),
                kind: self.kind.clone(),
                source: self.source.clone(),
                score: 1.0,
            });
        };
        // Streets whose names begin with what they are may have no number; nothing else is an address without a digit.
        let digit = text.bytes().any(|byte| byte.is_ascii_digit());
        let some = if digit {
            &self.plain[..]
        } else {
            std::slice::from_ref(&self.plain[NAMED])
        };
        for regex in some {
            for found in regex.find_iter(text).take_while(|_| !is_spent()) {
                push(found.start(), found.end());
            }
        }
        if !digit && !text.contains("corner of") {
            return;
        }
        let near = self.near.iter().map(|regex| (regex, &self.context));
        for (regex, context) in near.chain([(&self.number, &self.number_context)]) {
            for found in regex.find_iter(text).take_while(|_| !is_spent()) {
                if Self::is_near(text, found.start(), context) {
                    push(found.start(), found.end());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::resolved;

    #[test]
    fn addresses_are_found_whole_and_plain_text_is_left() {
        let addresses = Addresses::new().unwrap();
        for (text, expected) in [
            (
                "Ship it to 65775 Craig Union North Zachary, WI 42884.",
                "65775 Craig Union North Zachary, WI 42884",
            ),
            (
                "I live at 14 Crown Street, London",
                "14 Crown Street, London",
            ),
            ("Send it to Marktstraße 9 please", "Marktstraße 9"),
            ("Her office is Suite 501 there", "Suite 501"),
            (
                "The address is 1987 Diakou Street\n Suite 680\n Kissousa\n Cyprus 36903",
                "1987 Diakou Street\n Suite 680\n Kissousa\n Cyprus 36903",
            ),
            (
                "12 rue, he lives 31 Rue Al Imam Al Bakri",
                "31 Rue Al Imam Al Bakri",
            ),
            ("my zip is 62314", "62314"),
        ] {
            let found = resolved(&addresses, &View { text, secrets: &[] });
            let found: Vec<&str> = found.iter().map(|s| &text[s.start..s.end]).collect();
            assert_eq!(found, [expected], "{text}");
        }
        for text in [
            "May I have your full name?",
            "Chapter 12 begins in 1971, and 32 I'd say.",
            "It took 90 days and 400 pages; Apollo 11 flew.",
        ] {
            let found = resolved(&addresses, &View { text, secrets: &[] });
            assert_eq!(found, [], "{text}");
        }
    }
}
