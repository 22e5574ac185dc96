//! Finds street addresses by their forms: a number and a street word, a unit, a European street with its number, a
//! place with its code. Forms that only resemble an address need a context word nearby. The following lines of an
//! address are included.

use super::folded::Composed;
use super::{Policy, Span, View, is_spent};
use crate::error::{Error, Result};
use aho_corasick::AhoCorasick;
use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};
use std::borrow::Cow;
use std::sync::Arc;

/// Finds street addresses of any country whose forms match.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    /// Forms that are sufficient on their own.
    plain: Vec<Form>,
    /// Forms that need a word of [`CONTEXT`] before them.
    near: Vec<Form>,
    context: Regex,
    /// A bare number after `zip`, `building` and the like.
    number: Form,
    number_context: Regex,
    /// Matches a continuation of an address at its end.
    further: Regex,
    /// Continuations that must be followed by the end of a line, of the text or of a sentence.
    last: [Regex; 2],
    kind: Arc<str>,
    source: Arc<str>,
}

/// A form, and where it can begin. It is searched for only there, which is faster than searching everywhere.
#[derive(Debug, Clone)]
struct Form {
    regex: Regex,
    begins: Begins,
}

/// Where a form can begin. This may include more places than there are, but never fewer.
#[derive(Debug, Clone)]
enum Begins {
    /// At a number.
    Number,
    /// At one of up to this many words, or at a number, before a space and a number.
    BeforeNumber(usize),
    /// At a word with one of these endings, or at a number, before a space and a number.
    EndBeforeNumber(Vec<&'static str>),
    /// At one of these words, or at a number before it. If the flag is set, a number must follow the word.
    Word(AhoCorasick, bool),
}

/// The furthest that a number can lie before an address, in bytes.
const NUMBER_REACH: usize = 60;
/// The furthest that words can lie before a number, in bytes.
const WORDS_REACH: usize = 512;

fn compile(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| Error::Pattern {
        rule: "a pattern of addresses".to_owned(),
        problem: crate::error::pattern_problem(&error.to_string()),
    })
}

/// Builds a matcher for the words of a list, optionally ignoring ASCII case.
fn words(list: &[&str], any_case: bool) -> Result<AhoCorasick> {
    let built = AhoCorasick::builder()
        .ascii_case_insensitive(any_case)
        .build(list);
    built.map_err(|error| Error::Pattern {
        rule: "the words of addresses".to_owned(),
        problem: error.to_string(),
    })
}

/// Returns where the numbers of a text begin, except those directly after letters.
fn numbers(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        let starts = if byte.is_ascii() {
            byte.is_ascii_digit()
        } else {
            text.is_char_boundary(at) && text[at..].starts_with(char::is_numeric)
        };
        let before = at.checked_sub(1).map(|before| bytes[before]);
        if starts && !before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            out.push(at);
        }
    }
    out
}

impl Form {
    fn new(pattern: &str, begins: Begins) -> Result<Self> {
        let regex = compile(pattern)?;
        Ok(Self { regex, begins })
    }

    /// Passes the form's matches to `each`, from left to right without overlap, as a search over the whole text would
    /// find them.
    fn find(&self, text: &str, numbers: &[usize], mut each: impl FnMut(usize, usize)) {
        let mut end = 0;
        for start in self.begins.places(text, numbers).iter().copied() {
            if start < end || is_spent() {
                continue;
            }
            let input = Input::new(text).range(start..).anchored(Anchored::Yes);
            if let Some(found) = self.regex.find(input) {
                each(start, found.end());
                end = found.end();
            }
        }
    }
}

impl Begins {
    /// Returns the places in order.
    fn places<'n>(&self, text: &str, numbers: &'n [usize]) -> Cow<'n, [usize]> {
        let mut out = Vec::new();
        let near = |at: usize, out: &mut Vec<usize>| {
            let before = numbers.partition_point(|n| *n < at);
            let close = numbers[..before].iter().rev();
            out.extend(close.take_while(|n| **n + NUMBER_REACH >= at));
        };
        match self {
            Self::Number => return Cow::Borrowed(numbers),
            Self::BeforeNumber(most) => {
                for number in numbers {
                    words_before(text, *number, *most, &mut out);
                }
            }
            Self::EndBeforeNumber(ends) => {
                for number in numbers {
                    let Some(front) = text[..*number].strip_suffix(' ') else {
                        continue;
                    };
                    let front = front.strip_suffix('.').unwrap_or(front);
                    if ends.iter().any(|end| front.ends_with(end)) {
                        let from = out.len();
                        words_before(text, *number, 1, &mut out);
                        let first = out[from..].iter().copied().min().unwrap_or(*number);
                        near(first, &mut out);
                    }
                }
            }
            Self::Word(words, number) => {
                for found in words.find_overlapping_iter(text) {
                    let behind = &text.as_bytes()[found.end()..];
                    let behind = &behind[..behind.len().min(5)];
                    let digit = |byte: &u8| byte.is_ascii_digit() || !byte.is_ascii();
                    if !number || behind.iter().any(digit) {
                        out.push(found.start());
                        near(found.start(), &mut out);
                    }
                }
            }
        }
        out.sort_unstable();
        out.dedup();
        Cow::Owned(out)
    }
}

/// Appends where the words before a space and a number begin: at most `most` words, separated by single spaces.
fn words_before(text: &str, number: usize, most: usize, out: &mut Vec<usize>) {
    let Some(front) = text[..number].strip_suffix(' ') else {
        return;
    };
    let mut spaces = 0;
    let mut last = None;
    let mut enter = |word: Option<(usize, char)>| {
        let begins = word.filter(|(place, c)| begins_word(text, *place, *c));
        out.extend(begins.map(|(place, _)| place));
    };
    for (at, c) in front.char_indices().rev() {
        if c == ' ' {
            spaces += 1;
        }
        let ends = spaces >= most || at + WORDS_REACH < number;
        let of_name =
            c.is_alphabetic() || !c.is_ascii() || matches!(c, '.' | '\'' | '-' | ' ' | ',');
        if ends || !of_name {
            break;
        }
        enter(last.replace((at, c)));
    }
    enter(last);
}

/// Returns whether a word may begin with the letter at this place; other than ASCII is left to the pattern.
fn begins_word(text: &str, at: usize, c: char) -> bool {
    let before = text[..at].chars().next_back();
    let letter = c.is_alphabetic() || c == '-' || !c.is_ascii();
    letter && !before.is_some_and(|b| b.is_ascii_alphanumeric() && c.is_ascii_alphabetic())
}

/// A capitalised word, and one of at least three letters.
const WORD: &str = r"\p{Lu}[\p{L}\p{M}.'’-]*";
const LONG_WORD: &str = r"\p{Lu}[\p{L}\p{M}'’-]{2,}";
const NUMBER: &str = r"\d{1,6}(?:[A-Za-z]|[/-]\d{1,4}[A-Za-z]?)?";
const SMALL: &str = "de|la|del|von|van|of|the|el|al";
/// Words that end an English street name.
const STREETS: &str = "Street|Str|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Square|Sq|Place|Pl|\
    Terrace|Way|Highway|Hwy|Parkway|Pkwy|Circle|Cir|Alley|Plaza|Trail|Crescent|Close|Row|Walk|Crossing|Heights|Grove|\
    Garden|Park|Hill|Mews|Quay|Wharf|Esplanade|Turnpike|Loop|Path|Pass|Point|Ridge|Run|Station|Bypass|Causeway|\
    Common|Cove|Creek|Estate|Expressway|Extension|Fall|Field|Flat|Ford|Forest|Forge|Fork|Fort|Freeway|Gateway|Glen|\
    Green|Harbor|Haven|Hollow|Inlet|Island|Isle|Junction|Key|Knoll|Lake|Land|Light|Lock|Lodge|Mall|Manor|Meadow|Mill|\
    Mission|Motorway|Mount|Mountain|Neck|Orchard|Oval|Overpass|Pike|Pine|Plain|Port|Prairie|Radial|Ramp|Ranch|Rapid|\
    Rest|River|Shoal|Shore|Skyway|Spring|Spur|Stravenue|Stream|Summit|Throughway|Trace|Track|Trafficway|Tunnel|\
    Underpass|Union|Valley|Via|Viaduct|View|Village|Ville|Vista|Well|Burg|Bluff|Bend|Bottom|Branch|Bridge|Brook|Camp|\
    Canyon|Cape|Center|Cliff|Club|Corner|Course|Curve|Dale|Dam|Divide|Passage";
const UNIT: &str = r"(?:(?i-u:apt|apartment|suite|ste|unit|flat|room|floor|building|bldg|box|p\.?o\.? ?box|postbox|psc)\.?,? ?#?\d{1,6}[A-Za-z]?)";
/// The same words as literals.
const UNITS: &str = "\
    apt|apartment|suite|ste|unit|flat|room|floor|building|bldg|box|pobox|po box|po.box|po. box|p.obox|p.o box|\
    p.o.box|p.o. box|postbox|psc|p o box";
/// Words that begin a street name in other languages, and endings of such names.
const FIRST: &str = "Rue|Avenue|Av|Ave|Via|Viale|Piazza|Corso|Calle|Rua|Avenida|Plaza|Boulevard|Place|Chemin|Allée|Route|\
    Quai|Impasse|Ulica|ul|Travessa|Largo|Paseo|Carrer|Rúa";
const LAST: &str = "straße|strasse|str|gasse|weg|platz|allee|damm|ring|ufer|gade|vej|vænget|gata|gatan|vägen|veien|vegen|\
    torget|katu|tie|kuja|polku|straat|laan|gracht|plein|dijk|utca|körút|vollen|ulice|ulica";
/// Words that indicate that an address may follow.
const CONTEXT: &str = r"(?i)\b(?:address|lives?|living|lived|located|location|ship|deliver|delivery|send|moved|street|home|house|office|corner|zip|postal|post|visit|resides?|residence|stay|at)\b";
const NUMBER_CONTEXT: &str = r"(?i)\b(?:address|zip|postal|postcode|building|house number)\b";
/// How far before a candidate the context words may lie, in bytes.
const REACH: usize = 40;
/// The index of the plain pattern that needs no number.
const NAMED: usize = 3;
/// The maximum number of lines and parts that follow an address.
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
        let begins = [
            Begins::Number,
            Begins::Word(words(&UNITS.split('|').collect::<Vec<_>>(), true)?, true),
            Begins::EndBeforeNumber(LAST.split('|').collect()),
            Begins::Word(words(&FIRST.split('|').collect::<Vec<_>>(), false)?, false),
            Begins::Word(words(&["APO", "FPO", "DPO"], false)?, false),
            Begins::BeforeNumber(6),
        ];
        let begins_near = [
            Begins::Word(words(&["corner of"], false)?, false),
            Begins::Number,
            Begins::Number,
            Begins::BeforeNumber(3),
        ];
        let all = |patterns: &[String], begins: Vec<Begins>| -> Result<Vec<Form>> {
            patterns
                .iter()
                .zip(begins)
                .map(|(p, b)| Form::new(p, b))
                .collect()
        };
        Ok(Self {
            plain: all(&plain, begins.into())?,
            near: all(&near, begins_near.into())?,
            context: compile(CONTEXT)?,
            number: Form::new(r"\b\d{3,6}\b", Begins::Number)?,
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

    /// Returns the end of an address, including the parts that follow it.
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
        let from = text.ceil_char_boundary(start.saturating_sub(REACH));
        context.is_match(&text[from..start])
    }
}

impl Policy for Addresses {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        for composed in Composed::readings(view.text) {
            self.find_in(&composed, spans);
        }
    }
}

impl Addresses {
    fn find_in(&self, composed: &Composed<'_>, spans: &mut Vec<Span>) {
        let text = composed.text();
        let mut push = |start: usize, end: usize| {
            let found = text[start..self.extended(text, end)].trim_end();
            let place = composed.place(start..start + found.len());
            spans.push(Span::new(
                place,
                self.kind.clone(),
                self.source.clone(),
                1.0,
            ));
        };
        // Streets whose names begin with the street word may have no number; every other address contains a digit.
        let digit = text.bytes().any(|byte| byte.is_ascii_digit());
        let some = if digit {
            &self.plain[..]
        } else {
            std::slice::from_ref(&self.plain[NAMED])
        };
        let numbers = numbers(text);
        for form in some {
            form.find(text, &numbers, &mut push);
        }
        if !digit && !text.contains("corner of") {
            return;
        }
        let near = self.near.iter().map(|form| (form, &self.context));
        for (form, context) in near.chain([(&self.number, &self.number_context)]) {
            form.find(text, &numbers, |start, end| {
                if Self::is_near(text, start, context) {
                    push(start, end);
                }
            });
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
            (
                "She lives at 31 Rue Cre\u{301}mieux now",
                "31 Rue Cre\u{301}mieux",
            ),
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
            "at 42 \u{1b}[1mMain Street\u{1b}[0m, Springfield.",
            "at 42 Ma\0in Street, Springfield.",
            "a\0t\0 \x004\x002\0 \0M\0a\0i\0n\0 \0S\0t\0r\0e\0e\0t\0,\0 \0x",
        ] {
            let found = resolved(&addresses, &View { text, secrets: &[] });
            let (start, end) = (text.find('4').unwrap(), text.rfind('t').unwrap());
            let whole = |span: &Span| span.start <= start && span.end > end;
            assert!(found.iter().any(whole), "{text:?}: {found:?}");
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
