//! Matches many patterns in one pass.
//!
//! One automaton for all patterns is run from every place where one of them can begin. Three bytes and the one before
//! rule out most places, and the automaton usually dies within a few bytes. It reports which patterns match there; each
//! of those is then run from that place alone. No pattern hides another, whatever its check says of the candidate.
//!
//! Preparation processes a text again for each secret, with that secret masked. The automaton's results for the last
//! text are therefore kept, and reused for places from which it read nothing that has changed since. Checks always run
//! on the new text.

use super::{NUMERIC, checks};
use crate::error::{Error, Result};
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::meta::Regex;
use regex_automata::util::pool::Pool;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, Input, MatchKind, PatternID, PatternSet};
use std::ops::Range;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A candidate: bytes `start..end` of the text match the pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) score: f32,
}

impl<'a> Candidate<'a> {
    pub(super) fn found(&self) -> &'a str {
        &self.text[self.start..self.end]
    }
    pub(super) fn before(&self) -> Option<char> {
        self.text[..self.start].chars().next_back()
    }
    /// Returns the candidate with as many bytes before it, if they are what `is` says and begin a word.
    pub(super) fn with_before(self, count: usize, is: impl Fn(&[u8]) -> bool) -> Option<Self> {
        let start = self.start.checked_sub(count)?;
        let (before, bytes) = self.text.as_bytes()[..self.start].split_at(start);
        let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let whole = is(bytes) && !before.last().is_some_and(in_word);
        whole.then_some(Self { start, ..self })
    }
    pub(super) fn after(&self) -> Option<char> {
        self.text[self.end..].chars().next()
    }
}

/// A check that a regular expression cannot express: returns `None` to reject the candidate, else its span and score.
pub(super) type Check = fn(Candidate<'_>) -> Option<Candidate<'_>>;
/// The same for the text as it was written, where an escape for a character, such as `%20`, does not end a match.
pub(super) type Written = fn(&str, Range<usize>) -> Option<Range<usize>>;

/// A pattern with its settings. Patterns use ASCII classes only and have bounded length, so the cost is linear in the
/// length even for a hostile text; checks extend matches where necessary.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) kind: &'static str,
    /// The same, for spans to share.
    pub(super) shared_kind: Arc<str>,
    pub(super) pattern: String,
    /// Whether the pattern is case-sensitive.
    pub(super) cased: bool,
    /// The score without any context, from 0 to 1.
    pub(super) score: f32,
    /// Words that raise the score to `SURE` if one of them is within [`CONTEXT`] bytes before the match.
    pub(super) context: &'static [&'static str],
    pub(super) check: Check,
    /// Whether the check is that of a checksum, which other numbers pass only by chance.
    pub(super) summed: bool,
    written: Written,
}

/// How far before a candidate context words may lie, in bytes.
const CONTEXT: usize = 48;
/// The score with a context word.
const SURE: f32 = 0.9;
/// The highest score of a part of a decimal number without a context word.
const UNSURE: f32 = 0.4;

impl Rule {
    pub(super) fn new(kind: &'static str, score: f32, pattern: impl Into<String>) -> Self {
        Self {
            kind,
            shared_kind: kind.into(),
            pattern: pattern.into(),
            cased: true,
            score,
            context: &[],
            check: |c| Some(c),
            summed: false,
            written: |_, range| Some(range),
        }
    }
    pub(super) fn any_case(mut self) -> Self {
        self.cased = false;
        self
    }
    pub(super) fn checked(mut self, check: Check) -> Self {
        self.check = check;
        self
    }
    /// The same for a check whose main part is a checksum.
    pub(super) fn summed(mut self, check: Check) -> Self {
        self.summed = true;
        self.checked(check)
    }
    pub(super) fn written(mut self, written: Written) -> Self {
        self.written = written;
        self
    }
    pub(super) fn near(mut self, context: &'static [&'static str]) -> Self {
        self.context = context;
        self
    }

    /// Extends a match in the text as it was written.
    pub(super) fn whole(&self, text: &str, range: Range<usize>) -> Option<Range<usize>> {
        (self.written)(text, range)
    }

    fn flagged(&self) -> String {
        let flags = if self.cased { "" } else { "(?i)" };
        format!("{flags}(?:{})", self.pattern)
    }

    /// Checks a match, with its context.
    fn judge<'a>(&self, text: &'a str, start: usize, end: usize) -> Option<Candidate<'a>> {
        let mut found = (self.check)(Candidate {
            text,
            start,
            end,
            score: self.score,
        })?;
        let is_number = NUMERIC.contains(&self.kind);
        if found.score > UNSURE && !is_number && checks::in_decimal(found, self.summed) {
            found.score = UNSURE;
        }
        if found.score < SURE && self.in_context(text, found.start) {
            found.score = SURE;
        }
        Some(found)
    }

    fn in_context(&self, text: &str, start: usize) -> bool {
        if self.context.is_empty() {
            return false;
        }
        let from = text.ceil_char_boundary(start.saturating_sub(CONTEXT));
        let window = &text.as_bytes()[from..start];
        let mut in_word = false;
        (0..window.len()).any(|at| {
            // Words are ASCII in small letters. One begins here, and may continue (`order`, `orders`).
            let begins = !std::mem::replace(&mut in_word, window[at].is_ascii_alphabetic());
            begins
                && self.context.iter().any(|word| {
                    let here = window[at..].get(..word.len());
                    here.is_some_and(|here| here.eq_ignore_ascii_case(word.as_bytes()))
                })
        })
    }
}

/// Compiled rules.
#[derive(Debug, Clone)]
pub(super) struct Scanner {
    rules: Vec<Rule>,
    which: Arc<Which>,
    each: Vec<Regex>,
}

impl Scanner {
    pub(super) fn new(rules: Vec<Rule>) -> Result<Self> {
        let patterns: Vec<String> = rules.iter().map(Rule::flagged).collect();
        let compile = |pattern: &String| {
            Regex::builder()
                .syntax(ascii())
                .configure(Regex::config().nfa_size_limit(Some(64 << 20)))
                .build(pattern)
                .map_err(|error| refused(&patterns, &error))
        };
        // Compile each pattern separately first, so that an error names its pattern.
        let each = patterns.iter().map(compile).collect::<Result<_>>()?;
        Ok(Self {
            each,
            which: Arc::new(Which::new(&patterns)?),
            rules,
        })
    }

    /// Calls `found` with the rule of, and the place of, every candidate that passes its check.
    pub(super) fn scan<'a>(&self, text: &'a str, mut found: impl FnMut(&Rule, Candidate<'a>)) {
        // How far each rule has matched, so that matches inside its own matches are skipped.
        let mut done: Vec<usize> = Vec::new();
        self.which.each(text, |visit| {
            let number = usize::from(visit.pattern);
            if done.get(number).is_some_and(|done| visit.at < *done) {
                return;
            }
            let end = visit.end.or_else(|| {
                let here = Input::new(text).range(visit.at..).anchored(Anchored::Yes);
                let exact = self.each[number].search_half(&here);
                exact.map(|exact| exact.offset())
            });
            visit.end = end;
            let rule = &self.rules[number];
            if let Some(hit) = end.and_then(|end| rule.judge(text, visit.at, end)) {
                done.resize(self.rules.len(), 0);
                done[number] = hit.end;
                found(rule, hit);
            }
        });
    }

    /// Does the same for some of the rules, each by itself.
    pub(super) fn scan_with<'a>(
        &self,
        text: &'a str,
        wanted: impl Fn(&Rule) -> bool,
        mut found: impl FnMut(&Rule, Candidate<'a>),
    ) {
        let rules = self.rules.iter().zip(&self.each);
        for (rule, regex) in rules.filter(|(rule, _)| wanted(rule)) {
            let mut from = 0;
            while let Some(here) = regex.find(Input::new(text).range(from..)) {
                if crate::policy::is_spent() {
                    return;
                }
                // Matches begin with an ASCII character.
                from = here.start() + 1;
                if let Some(hit) = rule.judge(text, here.start(), here.end()) {
                    from = from.max(hit.end);
                    found(rule, hit);
                }
            }
        }
    }
}

fn ascii() -> syntax::Config {
    syntax::Config::new().unicode(false).utf8(true)
}

fn refused(patterns: &[String], error: &dyn std::fmt::Display) -> Error {
    Error::Pattern {
        rule: format!("{} patterns of detectors", patterns.len()),
        problem: error.to_string(),
    }
}

type NewWalk = Box<dyn Fn() -> Walk + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// The search state of one thread.
#[derive(Debug)]
struct Walk {
    cache: Cache,
    /// The patterns that match at the current place.
    matched: Vec<Visit>,
    last: Trace,
}

/// A pattern that matches at a place.
#[derive(Debug, Clone, Copy)]
struct Visit {
    at: usize,
    pattern: u16,
    /// The end of its match, once it is known: from the beginning if the pattern could match to one end only.
    end: Option<usize>,
}

/// The results for a text.
#[derive(Debug, Default)]
struct Trace {
    text: Vec<u8>,
    /// In order.
    visits: Vec<Visit>,
    /// The largest number of bytes read from any place; the end of the text counts as one.
    longest: usize,
}

/// Longer texts, and those with more matches, are not kept.
const LONGEST_TRACE: usize = 1 << 20;
const MOST_VISITS: usize = 1 << 18;

impl Trace {
    /// Returns the lengths of the common beginning and, of the rest, the common end of both texts; `None` if together
    /// they are less than half of the text.
    fn common(&self, text: &[u8]) -> Option<(usize, usize)> {
        let begin = common(&self.text, text);
        let rest = [&self.text[begin..], &text[begin..]];
        let runs = rest[0].rchunks_exact(RUN).zip(rest[1].rchunks_exact(RUN));
        let end = RUN * runs.take_while(|(one, other)| one == other).count();
        let [one, other] = rest.map(|rest| rest[..rest.len() - end].iter().rev());
        let ends = one.zip(other);
        let end = end + ends.take_while(|(one, other)| one == other).count();
        (2 * (begin + end) > text.len()).then_some((begin, end))
    }
}

/// The number of bytes that are compared at once.
const RUN: usize = 32;

/// Returns the length of the common beginning.
fn common(one: &[u8], other: &[u8]) -> usize {
    let runs = one.chunks_exact(RUN).zip(other.chunks_exact(RUN));
    let at = RUN * runs.take_while(|(one, other)| one == other).count();
    let rest = one[at..].iter().zip(&other[at..]);
    at + rest.take_while(|(one, other)| one == other).count()
}

/// Determines which of many patterns match at which place.
#[derive(Debug)]
struct Which {
    dfa: DFA,
    /// The search states, one for each thread.
    walks: Pool<Walk, NewWalk>,
    /// The fallback for a text on which the automaton gives up.
    otherwise: Regex,
    begins: Begins,
}

impl Which {
    fn new(patterns: &[String]) -> Result<Self> {
        let dfa = DFA::builder()
            .syntax(ascii())
            .thompson(regex_automata::nfa::thompson::Config::new().nfa_size_limit(Some(64 << 20)))
            .configure(
                DFA::config()
                    .match_kind(MatchKind::All)
                    .cache_capacity(16 << 20)
                    .skip_cache_capacity_check(true),
            )
            .build_many(patterns)
            .map_err(|error| refused(patterns, &error))?;
        let otherwise = Regex::builder()
            .syntax(ascii())
            .configure(
                Regex::config()
                    .match_kind(MatchKind::All)
                    .hybrid_cache_capacity(16 << 20)
                    .nfa_size_limit(Some(64 << 20)),
            )
            .build_many(patterns)
            .map_err(|error| refused(patterns, &error))?;
        let begins = Begins::of(&dfa);
        let walks: NewWalk = Box::new({
            let dfa = dfa.clone();
            move || Walk {
                cache: dfa.create_cache(),
                matched: Vec::new(),
                last: Trace::default(),
            }
        });
        Ok(Self {
            dfa,
            walks: Pool::new(walks),
            otherwise,
            begins,
        })
    }

    /// Calls `found` for every pattern that matches at a place, in order of the places, until the time for the text is
    /// up.
    fn each(&self, text: &str, mut found: impl FnMut(&mut Visit)) {
        let mut guard = self.walks.get();
        let Walk {
            cache,
            matched,
            last,
        } = &mut *guard;
        let bytes = text.as_bytes();
        let Some((begin, end)) = last.common(bytes) else {
            let mut trace = std::mem::take(last);
            trace.visits.clear();
            // A place that is ruled out by three bytes has read three bytes.
            trace.longest = 3;
            let whole = self.places(cache, matched, bytes, 0..bytes.len(), |visits, read| {
                trace.longest = trace.longest.max(read);
                for mut visit in visits {
                    found(&mut visit);
                    if trace.visits.len() < MOST_VISITS {
                        trace.visits.push(visit);
                    }
                }
            });
            trace.text.clear();
            let kept = bytes.len() <= LONGEST_TRACE && trace.visits.len() < MOST_VISITS;
            if whole && kept {
                trace.text.extend_from_slice(bytes);
            }
            *last = trace;
            return;
        };
        // From here on the automaton read something that has changed; from `behind`, not even the previous byte has
        // changed.
        let from = begin.saturating_sub(last.longest);
        let behind = bytes.len() - end + 1;
        let first = last.visits.partition_point(|visit| visit.at < from);
        last.visits[..first]
            .iter()
            .for_each(|visit| found(&mut visit.clone()));
        let whole = self.places(
            cache,
            matched,
            bytes,
            from..behind.min(bytes.len()),
            |visits, _| {
                visits.for_each(|mut visit| found(&mut visit));
            },
        );
        if !whole {
            return;
        }
        let moved = |at: usize| at + bytes.len() - last.text.len();
        let second = last
            .visits
            .partition_point(|visit| visit.at + bytes.len() < behind + last.text.len());
        for visit in &last.visits[second..] {
            found(&mut Visit {
                at: moved(visit.at),
                pattern: visit.pattern,
                end: visit.end.map(moved),
            });
        }
    }

    /// Calls `found` for each place that was read from, with the patterns that match there (possibly none) and the
    /// number of bytes read. Returns false if the time for the text is up.
    fn places(
        &self,
        cache: &mut Cache,
        matched: &mut Vec<Visit>,
        text: &[u8],
        places: Range<usize>,
        mut found: impl FnMut(&mut dyn Iterator<Item = Visit>, usize),
    ) -> bool {
        /// The number of places between two checks of the time, and that of places where something matches.
        const LOOK: usize = 1 << 10;
        const MATCHED: u32 = 1 << 3;
        let mut matches = 0;
        let mut before = places.start.checked_sub(1).map(|at| text[at]);
        for at in places {
            let may = self.begins.may(before, &text[at..]);
            before = Some(text[at]);
            if at % LOOK == LOOK - 1 && crate::policy::is_spent() {
                return false;
            }
            if !may {
                continue;
            }
            matched.clear();
            let read = match self.run(cache, text, at, matched) {
                Some(read) => {
                    matched.sort_unstable_by_key(|visit| visit.pattern);
                    read
                }
                None => {
                    let here = Input::new(text).range(at..).anchored(Anchored::Yes);
                    let mut set = PatternSet::new(self.dfa.pattern_len());
                    self.otherwise.which_overlapping_matches(&here, &mut set);
                    matched.clear();
                    matched.extend(set.iter().map(|pattern| Visit {
                        at,
                        pattern: number(pattern),
                        end: None,
                    }));
                    text.len() + 1 - at
                }
            };
            found(&mut matched.iter().copied(), read);
            if !matched.is_empty() {
                matches += 1;
                if matches % MATCHED == 0 && crate::policy::is_spent() {
                    return false;
                }
            }
        }
        true
    }

    /// Collects the patterns that match at a place, and returns the number of bytes read; `None` if the automaton gives
    /// up.
    #[inline]
    fn run(
        &self,
        cache: &mut Cache,
        text: &[u8],
        from: usize,
        matched: &mut Vec<Visit>,
    ) -> Option<usize> {
        let dfa = &self.dfa;
        let before = from.checked_sub(1).map(|at| text[at]);
        let mut state = dfa.start_state(cache, &begin(before)).ok()?;
        let enter = |cache: &Cache, state, end, matched: &mut Vec<Visit>| {
            for index in 0..dfa.match_len(cache, state) {
                let pattern = number(dfa.match_pattern(cache, state, index));
                match matched.iter_mut().find(|visit| visit.pattern == pattern) {
                    // The pattern by itself says which end it prefers.
                    Some(visit) => visit.end = None,
                    None => matched.push(Visit {
                        at: from,
                        pattern,
                        end: Some(end),
                    }),
                }
            }
        };
        for (read, byte) in text[from..].iter().enumerate() {
            state = dfa.next_state(cache, state, *byte).ok()?;
            if state.is_tagged() {
                if state.is_match() {
                    // The automaton says so one byte later.
                    enter(cache, state, from + read, matched);
                } else if state.is_dead() {
                    return Some(read + 1);
                } else if state.is_quit() {
                    return None;
                }
            }
        }
        state = dfa.next_eoi_state(cache, state).ok()?;
        if state.is_match() {
            enter(cache, state, text.len(), matched);
        }
        Some(text.len() - from + 1)
    }
}

fn number(pattern: PatternID) -> u16 {
    pattern.as_usize() as u16
}

fn begin(before: Option<u8>) -> start::Config {
    let config = start::Config::new().anchored(Anchored::Yes);
    config.look_behind(before)
}

/// Where matches can begin, according to the three bytes there and the one before.
#[derive(Debug)]
struct Begins {
    /// The index of the table for each previous byte, and last for the beginning of the text.
    tables: [u8; 257],
    /// For each pair of bytes, the place of its set among `thirds`.
    pairs: Vec<[[u8; 256]; 256]>,
    /// Sets of bytes behind a pair, one bit for each, on which the automaton does not die.
    thirds: Box<[[u64; 4]; 256]>,
}

/// The places of two sets in [`Begins::thirds`].
const NONE: u8 = 0;
const ALL: u8 = 1;

impl Begins {
    fn of(dfa: &DFA) -> Self {
        let mut cache = dfa.create_cache();
        let mut thirds = vec![[0; 4], [u64::MAX; 4]];
        let mut starts = Vec::new();
        let (mut tables, mut pairs) = ([0; 257], Vec::new());
        let before = (0..=u8::MAX).map(Some).chain([None]);
        for (table, before) in tables.iter_mut().zip(before) {
            // There are as many as classes of previous bytes that look-around distinguishes, which are six.
            let start = dfa.start_state(&mut cache, &begin(before)).ok();
            let known = starts.iter().position(|known| *known == start);
            *table = known.unwrap_or(starts.len()) as u8;
            if known.is_none() {
                starts.push(start);
                pairs.push(match start {
                    Some(start) => Self::pairs(dfa, &mut cache, start, &mut thirds),
                    None => [[ALL; 256]; 256],
                });
            }
        }
        if cache.clear_count() > 0 {
            // The states were others meanwhile.
            pairs.fill([[ALL; 256]; 256]);
        }
        let mut out = Self {
            tables,
            pairs,
            thirds: Box::new([[0; 4]; 256]),
        };
        out.thirds[..thirds.len()].copy_from_slice(&thirds);
        out
    }

    /// Returns the places of the sets of all pairs of bytes behind a state, and adds the sets.
    fn pairs(
        dfa: &DFA,
        cache: &mut Cache,
        start: LazyStateID,
        thirds: &mut Vec<[u64; 4]>,
    ) -> [[u8; 256]; 256] {
        let classes = dfa.byte_classes();
        // The first byte that the automaton does not tell from this one.
        let alike = |byte: u8| {
            let mut earlier = 0..byte;
            let same = earlier.find(|earlier| classes.get(*earlier) == classes.get(byte));
            same.map(usize::from)
        };
        let alike: Vec<Option<usize>> = (0..=u8::MAX).map(alike).collect();
        // The place of a set that says enough, or a state to look behind.
        let step = |cache: &mut Cache, state, byte| match dfa.next_state(cache, state, byte) {
            Ok(next) if next.is_dead() => Err(NONE),
            Ok(next) if !next.is_tagged() => Ok(next),
            // If in doubt, a match may begin.
            _ => Err(ALL),
        };
        let mut out = [[NONE; 256]; 256];
        for first in 0..=u8::MAX {
            let at = usize::from(first);
            if let Some(alike) = alike[at] {
                out[at] = out[alike];
                continue;
            }
            let state = match step(cache, start, first) {
                Ok(state) => state,
                Err(set) => {
                    out[at] = [set; 256];
                    continue;
                }
            };
            for second in 0..=u8::MAX {
                out[at][usize::from(second)] = match alike[usize::from(second)] {
                    Some(alike) => out[at][alike],
                    None => match step(cache, state, second) {
                        Err(set) => set,
                        Ok(state) => {
                            let mut set = [0; 4];
                            for third in 0..=u8::MAX {
                                let lives = step(cache, state, third) != Err(NONE);
                                set[usize::from(third >> 6)] |= u64::from(lives) << (third & 63);
                            }
                            let known = thirds.iter().position(|known| *known == set);
                            let place = known.unwrap_or(thirds.len());
                            if known.is_none() && place <= usize::from(u8::MAX) {
                                thirds.push(set);
                            }
                            u8::try_from(place).unwrap_or(ALL)
                        }
                    },
                };
            }
        }
        out
    }

    /// Returns whether a match may begin with `here`, which goes to the end of the text.
    #[inline]
    fn may(&self, before: Option<u8>, here: &[u8]) -> bool {
        // At the end, a match may end before its third byte.
        let [first, second, third, ..] = *here else {
            return true;
        };
        let table = self.tables[before.map_or(256, usize::from)];
        let set = self.pairs[usize::from(table)][usize::from(first)][usize::from(second)];
        let set = &self.thirds[usize::from(set)];
        set[usize::from(third >> 6)] >> (third & 63) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::detect::{grammar, rules};

    /// Words are found as where they are looked for one by one in small letters.
    #[test]
    fn a_word_of_the_context_begins_a_word() {
        let rules = rules::rules().into_iter();
        let countries = super::super::Country::ALL.into_iter();
        let all: Vec<Rule> = rules.chain(countries.flat_map(|c| c.rules())).collect();
        let words = all.iter().flat_map(|rule| rule.context);
        assert!(words.clone().count() > 50);
        for word in words {
            assert_eq!(*word, word.to_ascii_lowercase());
        }
        let by_one = |rule: &Rule, window: &str| {
            let window = window.to_ascii_lowercase();
            rule.context.iter().any(|word| {
                let mut places = window.match_indices(word);
                places.any(|(at, _)| !window[..at].ends_with(|c: char| c.is_ascii_alphabetic()))
            })
        };
        let pieces = [
            "Ord", "er ", "order", " CALL", "é", "tel", "x", " ", "zip", "s", "no", "#", ". ",
        ];
        let mut draw = crate::draws(5);
        let mut found = 0;
        for _ in 0..500 {
            let text: String = (0..6).map(|_| pieces[draw(pieces.len())]).collect();
            for rule in &all {
                let expected = by_one(rule, &text);
                assert_eq!(rule.in_context(&text, text.len()), expected, "{text:?}");
                found += u32::from(expected);
            }
        }
        assert!(found > 100, "{found}");
    }

    /// No place is ruled out where the automaton finds something, and most others are. An end that it knows
    /// is that of the pattern.
    #[test]
    fn nothing_begins_where_three_bytes_say_so() {
        let all = || rules::rules().into_iter().chain(grammar::rules()).collect();
        let [scanner, mut whole] = [Scanner::new(all()).unwrap(), Scanner::new(all()).unwrap()];
        let which = Arc::get_mut(&mut whole.which).unwrap();
        which.begins.pairs.fill([[ALL; 256]; 256]);
        let pieces = [
            "a@b.co",
            "May 5",
            "1",
            "12",
            "$5",
            "one",
            "two hundred",
            "the",
            "for",
            "\u{e9}",
            "\u{20ac}",
            "10 am",
            "x.org",
            "::1",
            " ",
            ".",
            "-",
            "\n",
            "AB1 2CD",
            "\u{fffc}",
            "no.",
            "#",
            "%",
        ];
        let mut draw = crate::draws(7);
        let (mut places, mut begins, mut found) = (0, 0, 0);
        let ends = std::cell::Cell::new(0);
        for _ in 0..3000 {
            let text: String = (0..=draw(9)).map(|_| pieces[draw(pieces.len())]).collect();
            let visits = |scanner: &Scanner| {
                let mut out = Vec::new();
                scanner.which.each(&text, |visit| {
                    out.push((visit.at, visit.pattern));
                    let Some(end) = visit.end else { return };
                    let here = Input::new(&text).range(visit.at..).anchored(Anchored::Yes);
                    let exact = scanner.each[usize::from(visit.pattern)].search_half(&here);
                    assert_eq!(exact.map(|exact| exact.offset()), Some(end), "{text:?}");
                    ends.set(ends.get() + 1);
                });
                out
            };
            let expected = visits(&whole);
            assert_eq!(visits(&scanner), expected, "{text:?}");
            let bytes = text.as_bytes();
            let before = |at: usize| at.checked_sub(1).map(|at| bytes[at]);
            let may = |at: &usize| scanner.which.begins.may(before(*at), &bytes[*at..]);
            places += bytes.len();
            begins += (0..bytes.len()).filter(may).count();
            found += expected.len();
        }
        assert!(
            found > 1000 && 2 * begins < places && ends.get() > found,
            "{found} {begins} {places} {}",
            ends.get()
        );
    }

    /// What is found in texts made of pieces, with one stretch after the other replaced, is what a scanner finds that
    /// has seen no other text.
    #[test]
    fn what_was_found_before_changes_nothing() {
        let all = || rules::rules().into_iter().chain(grammar::rules()).collect();
        let scanner = Scanner::new(all()).unwrap();
        let pieces = [
            "call 415-555-0123",
            "May",
            " 5",
            " 1998",
            "ada@x.org",
            "fe80::1",
            "é",
            " two ",
            "hundred",
            " days ago",
            "4111 1111 1111 1111",
            "order no. AB-1234",
            "$5",
            "http://x.org/a",
            "\u{fffc}",
            " ",
            ".",
            "-",
            "n 12:30 pm",
        ];
        let mut draw = crate::draws(3);
        let spans = |scanner: &Scanner, text: &str| {
            let mut out = Vec::new();
            scanner.scan(text, |rule, c| {
                out.push((rule.kind, c.start, c.end, c.score.to_bits()))
            });
            out
        };
        let mut taken_over = 0;
        for _ in 0..150 {
            let text: String = (0..25).map(|_| pieces[draw(pieces.len())]).collect();
            let places: Vec<usize> = text
                .char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .collect();
            spans(&scanner, &text);
            for _ in 0..6 {
                let [one, two] = [draw(places.len()), (draw(places.len()))];
                let mut other = text.clone();
                let two = if draw(2) == 0 {
                    two
                } else {
                    (one + draw(20)).min(places.len() - 1)
                };
                other.replace_range(
                    places[one.min(two)]..places[one.max(two)],
                    ["\u{fffc}", "", "7"][draw(3)],
                );
                taken_over += usize::from(
                    scanner
                        .which
                        .walks
                        .get()
                        .last
                        .common(other.as_bytes())
                        .is_some(),
                );
                let with = spans(&scanner, &other);
                scanner.which.walks.get().last = Trace::default();
                assert_eq!(with, spans(&scanner, &other), "{text:?} {other:?}");
                scanner.which.walks.get().last = Trace::default();
                spans(&scanner, &text);
            }
        }
        assert!(taken_over > 500, "{taken_over}");
    }
}
