//! Turns one unit into a record, without looking at any other unit.

use crate::document::{joined, replaced, whole};
use crate::error::{Error, Result};
use crate::policy::{MASKED, Policy, Span, View, is_unexamined, resolved};
use crate::record::TokenId;
use crate::split::{MarkedSecret, UnitText};
use crate::tokenize::{Cut, MASK_TEXT, Places, Tokenizer, Unknown};
use sha1::{Digest, Sha1};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// A tokenised unit, some of whose tokens are masked.
#[derive(Debug, Clone)]
pub(crate) struct Work<'a> {
    tokenizer: &'a Tokenizer,
    /// Shared between different results made from the same unit.
    encoded: Arc<Cut>,
    /// Whether each token is masked; empty if none is.
    masked: Vec<bool>,
    masks: Masks<'a>,
}

/// The masked byte ranges of a unit's text: whole characters, in order and disjoint.
#[derive(Debug, Clone)]
struct Masks<'a> {
    unit: &'a UnitText<'a>,
    ranges: Vec<Range<usize>>,
    /// Where each of them begins in the view.
    in_view: Vec<usize>,
}

impl<'a> Work<'a> {
    /// Tokenises a unit and applies the masks that it came with.
    pub(crate) fn new(unit: &'a UnitText<'a>, tokenizer: &'a Tokenizer) -> Result<Self> {
        let encoded = plain(unit, tokenizer, tokenizer.cut(&unit.text)?)?;
        let mut work = Self {
            tokenizer,
            masked: Vec::new(),
            encoded: Arc::new(encoded),
            masks: Masks::none(unit),
        };
        work.mask(&unit.masked)?;
        Ok(work)
    }

    /// Masks spans of the text, widened to whole characters.
    pub(super) fn mask(&mut self, spans: &[Range<usize>]) -> Result<()> {
        if !self.masks.add(spans) {
            return Ok(());
        }
        if !self.tokenizer.is_per_character() {
            return self.cut(&[]).map(drop);
        }
        // What was masked before still is.
        self.masked.resize(self.encoded.tokens.len(), false);
        for range in &self.masks.ranges {
            let touched = self.encoded.places.touched(range);
            self.masked[touched].fill(true);
        }
        Ok(())
    }

    /// Tokenises the text again so that no token crosses an end of a masked range or of one of `spans`. Returns for each
    /// token whether it belongs to one of `spans`.
    ///
    /// The tokens outside of these ranges then depend on the text outside alone, and every masked range has the same
    /// token: neither the content nor the length of a secret affects the tokens around it.
    pub(super) fn cut_apart(&mut self, spans: &[Range<usize>]) -> Result<Vec<bool>> {
        match spans {
            // Masked ranges were cut apart when they were masked.
            [] => Ok(vec![false; self.encoded.tokens.len()]),
            spans if self.tokenizer.is_per_character() => Ok(self.touching(spans)),
            spans => self.cut(spans),
        }
    }

    /// Does so with a tokenizer whose tokens may be longer than a character, even if there are no spans.
    fn cut(&mut self, spans: &[Range<usize>]) -> Result<Vec<bool>> {
        let unit = self.masks.unit;
        let spans = &joined(spans.iter().map(|span| whole(&unit.text, span)).collect());
        let mut ends = vec![0, unit.text.len()];
        ends.extend(
            self.masks
                .ranges
                .iter()
                .chain(spans)
                .flat_map(|range| [range.start, range.end]),
        );
        ends.sort_unstable();
        ends.dedup();
        let (mut tokens, mut places) = (Vec::new(), Vec::new());
        let mut unknown = Unknown::default();
        let (mut masked, mut found) = (Vec::new(), Vec::new());
        for piece in ends.windows(2).map(|ends| ends[0]..ends[1]) {
            let (mask, span) = (around(&self.masks.ranges, &piece), around(spans, &piece));
            let before = tokens.len();
            if mask.is_none() {
                let cut = plain(
                    unit,
                    self.tokenizer,
                    self.tokenizer.cut(&unit.text[piece.clone()])?,
                )?;
                tokens.extend(cut.tokens);
                unknown.characters += cut.unknown.characters;
                let moved = cut.places.each().into_iter();
                places
                    .extend(moved.map(|place| piece.start + place.start..piece.start + place.end));
            }
            // A span without tokens of its own is one mask, as every other one is where spans are masked.
            let place = match (mask, span) {
                (Some(range), _) => (range.start == piece.start).then(|| range.clone()),
                (None, span) => span
                    .filter(|_| tokens.len() == before)
                    .map(|_| piece.clone()),
            };
            if let Some(place) = place {
                tokens.push(self.tokenizer.mask());
                places.push(place);
            }
            masked.resize(tokens.len(), mask.is_some());
            found.resize(tokens.len(), span.is_some());
        }
        self.encoded = Arc::new(Cut {
            tokens,
            places: Places::Each(places),
            unknown,
        });
        self.masked = masked;
        Ok(found)
    }

    /// Returns whether masking spans beforehand masks exactly the same bytes as `after`, which the policy made from
    /// this unit. If so, the tokens are equal too.
    pub(super) fn comes_to(
        &self,
        spans: &[Range<usize>],
        policy: Option<&dyn Policy>,
        after: &Self,
    ) -> bool {
        let mut neighbour = self.masks.clone();
        neighbour.add(spans);
        if let Some(policy) = policy {
            let found = neighbour.view(|view| resolved(policy, view));
            let found = found.iter().map(|found| neighbour.in_unit(found));
            let found: Vec<Range<usize>> = found.collect();
            neighbour.add(&found);
        }
        neighbour.ranges == after.masks.ranges
    }

    /// Masks ranges of the tokens that [`Work::tokens`] returns. The ranges must be in order and disjoint.
    pub(super) fn hide(&mut self, ranges: &[Range<usize>]) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let mut number = 0;
        let mut inside = false;
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut ranges = ranges.iter().peekable();
        for token in 0..self.encoded.tokens.len() {
            let masked = self.is_masked(token);
            // `Work::tokens` counts a run of masked tokens as one.
            number += usize::from(!(masked && inside));
            inside = masked;
            while ranges.next_if(|range| range.end < number).is_some() {}
            if ranges.peek().is_some_and(|range| range.start < number) {
                let place = self.encoded.places.of(token);
                // Adjacent tokens become one span.
                match spans.last_mut() {
                    Some(Range { end, .. }) if *end == place.start => *end = place.end,
                    _ => spans.push(place),
                }
            }
        }
        self.mask(&spans)
    }

    /// Returns the numbers of the tokens that overlap a span. A token without width counts if it lies inside the span.
    pub(super) fn touched(&self, span: &Range<usize>) -> Range<usize> {
        self.encoded.places.touched(span)
    }

    /// Returns the key that exact copies share: a SHA-1 over everything that a record is made of, so that dropping a
    /// copy leaves an identical record. This is the text, with a mark that no text holds for each span that was masked
    /// beforehand; the spans marked in it, and of which secrets they are parts; its class; and which part of it is
    /// learned. Tokens are not used, since texts with different secrets may have the same tokens, and texts that are masked
    /// have others.
    ///
    /// Masking a secret in all of its marks makes copies of copies alone, unless the input has masks already or an answer
    /// begins or ends inside the secret; no such secret counts as caught. The kinds of marks are therefore left out.
    pub(super) fn key(&self) -> [u8; 20] {
        unit_key(self.masks.unit)
    }

    /// Returns the content tokens; borrowed if none is masked.
    pub(super) fn content(&self, mask: TokenId) -> Cow<'_, [TokenId]> {
        if self.masked.contains(&true) {
            Cow::Owned(self.tokens(mask))
        } else {
            Cow::Borrowed(&self.encoded.tokens)
        }
    }

    /// Returns the content tokens, with each run of masked tokens as one `<MASK>`.
    pub(super) fn tokens(&self, mask: TokenId) -> Vec<TokenId> {
        self.tokens_before(self.encoded.tokens.len(), mask)
    }

    /// Does the same for the first `count` tokens.
    pub(super) fn tokens_before(&self, count: usize, mask: TokenId) -> Vec<TokenId> {
        /// The number of tokens that are copied at once if none of them is masked.
        const RUN: usize = 32;
        // Includes room for the beginning and the end of text.
        let mut out = Vec::with_capacity(count + 2);
        if self.masked.is_empty() {
            out.extend_from_slice(&self.encoded.tokens[..count]);
            return out;
        }
        let mut inside = false;
        let tokens = self.encoded.tokens[..count].chunks(RUN);
        for (tokens, masked) in tokens.zip(self.masked[..count].chunks(RUN)) {
            if !masked.iter().fold(false, |any, masked| any | masked) {
                out.extend_from_slice(tokens);
                inside = false;
                continue;
            }
            for (&token, &masked) in tokens.iter().zip(masked) {
                if !masked {
                    out.push(token);
                } else if !inside {
                    out.push(mask);
                }
                inside = masked;
            }
        }
        out
    }

    /// Returns whether a token is masked.
    pub(super) fn is_masked(&self, token: usize) -> bool {
        self.masked.get(token).is_some_and(|masked| *masked)
    }

    /// Returns whether any token of a span is masked.
    pub(super) fn hides(&self, span: &Range<usize>) -> bool {
        self.touched(span).any(|token| self.is_masked(token))
    }

    /// Returns whether a span is masked from end to end.
    pub(super) fn hides_all(&self, span: &Range<usize>) -> bool {
        self.masks.outside(span).is_empty()
    }

    /// Returns whether anything is masked.
    pub(super) fn any_mask(&self) -> bool {
        !self.masks.ranges.is_empty()
    }

    /// Returns the number of characters of the text that are not masked, and how many of them are outside the vocabulary.
    pub(super) fn characters(&self) -> [u64; 2] {
        let count = |text: &str| text.chars().count();
        let text = &self.masks.unit.text;
        let masked: usize = (self.masks.ranges.iter())
            .map(|range| count(&text[range.clone()]))
            .sum();
        let unknown = match self.tokenizer.is_per_character() {
            // These are not tokenised again where they are masked.
            true => {
                let unknown = self.encoded.unknown.tokens.iter();
                unknown.filter(|token| !self.is_masked(**token)).count() as u64
            }
            false => self.encoded.unknown.characters,
        };
        [(count(text) - masked) as u64, unknown]
    }

    /// Returns the text with `<MASK>` for each masked range.
    pub(crate) fn text(&self) -> Cow<'a, str> {
        self.masks.text(MASK_TEXT)
    }

    /// Calls `read` with the text that a policy may see: each masked range is one [`MASKED`].
    pub(super) fn view<T>(&self, read: impl FnOnce(&View<'_>) -> T) -> T {
        self.masks.view(read)
    }

    /// Maps spans of the view to the unit's text.
    pub(super) fn placed(&self, found: Vec<Span>) -> Vec<(Range<usize>, Arc<str>)> {
        let placed = |span: Span| (self.masks.in_unit(&span), span.kind);
        found.into_iter().map(placed).collect()
    }

    /// Returns which tokens the spans touch.
    pub(super) fn touching(&self, spans: &[Range<usize>]) -> Vec<bool> {
        let mut found = vec![false; self.encoded.tokens.len()];
        for span in spans {
            found[self.touched(span)].fill(true);
        }
        found
    }

    /// Returns the runs of content tokens that were found.
    pub(super) fn runs(&self, found: &[bool]) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut at = 0; // in the content tokens, where a run of masked ones is one
        for (i, here) in found.iter().enumerate() {
            if i > 0 && self.is_masked(i) && self.is_masked(i - 1) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if *here && last.end == at => last.end += 1,
                _ if *here => runs.push(at..at + 1),
                _ => {}
            }
            at += 1;
        }
        runs
    }

    /// Returns the runs of content tokens that carry no loss: those that no answer touches. A run of masked tokens
    /// counts as one token, and is learned if any of them is.
    pub(super) fn ignored(&self) -> Vec<Range<usize>> {
        let Some(answers) = &self.masks.unit.answers else {
            return Vec::new();
        };
        let learned = self.touching(answers);
        let mut runs: Vec<Range<usize>> = Vec::new();
        let (mut at, mut from) = (0, 0);
        while from < learned.len() {
            let alike = |i: &usize| self.is_masked(from) && self.is_masked(*i);
            let end = (from + 1..learned.len()).take_while(alike).count() + from + 1;
            if !learned[from..end].contains(&true) {
                match runs.last_mut() {
                    Some(last) if last.end == at => last.end += 1,
                    _ => runs.push(at..at + 1),
                }
            }
            (at, from) = (at + 1, end);
        }
        runs
    }

    /// Returns whether the end of text carries no loss.
    pub(super) const fn ignores_end(&self) -> bool {
        self.masks.unit.answers.is_some() && !self.masks.unit.end
    }

    /// Returns the number of marked secrets that were neither found completely nor masked.
    pub(super) fn uncaught(&self, found: &[bool]) -> u64 {
        let missed =
            |span: &Range<usize>| self.touched(span).any(|t| !found[t] && !self.is_masked(t));
        let secrets = self.masks.unit.secrets.iter();
        secrets.filter(|secret| missed(&secret.range)).count() as u64
    }

    /// Redacts the unit: masks every span that the policy finds. Returns the kinds of the spans.
    pub(crate) fn redact(&mut self, policy: &dyn Policy) -> Result<Vec<Arc<str>>> {
        let found = self.view(|view| resolved(policy, view));
        let (spans, kinds): (Vec<Range<usize>>, _) = self.placed(found).into_iter().unzip();
        self.mask(&spans)?;
        Ok(kinds)
    }
}

/// Returns the key of a unit, as [`Work::key`] describes it.
pub(super) fn unit_key(unit: &UnitText<'_>) -> [u8; 20] {
    Masks::of(unit).key(unit.answers.as_deref())
}

/// Returns the key of a unit as if all of it were learned.
pub(crate) fn text_key(unit: &UnitText<'_>) -> [u8; 20] {
    Masks::of(unit).key(None)
}

/// Returns the text of a unit as a policy sees it, with one [`MASKED`] for each range that was masked beforehand.
pub(crate) fn shown<'u>(unit: &'u UnitText<'u>) -> Cow<'u, str> {
    Masks::of(unit).shown()
}

/// Returns what the policy finds in a unit as it came, in its text. Where it finds more than a mask, that is all around it.
pub(crate) fn found(unit: &UnitText<'_>, policy: &dyn Policy) -> Vec<Span> {
    let masks = Masks::of(unit);
    masks.view(|view| {
        let spans = resolved(policy, view).into_iter();
        let parts = spans.flat_map(|span| {
            let range = masks.in_unit(&span);
            let parts = match is_unexamined(&span, view.text) {
                true => vec![range],
                false => masks.outside(&range),
            };
            parts.into_iter().map(move |part| Span {
                start: part.start,
                end: part.end,
                ..span.clone()
            })
        });
        parts.collect()
    })
}

/// Tokens of a unit's text, which must not spell the mask.
fn plain(unit: &UnitText<'_>, tokenizer: &Tokenizer, cut: Cut) -> Result<Cut> {
    if tokenizer.forges_a_mask(&cut.tokens) {
        return Err(Error::Tokenizer(format!(
            "unit {} of document number {} encodes to the mask; text must not",
            unit.index, unit.document
        )));
    }
    Ok(cut)
}

/// The range around a piece, of ranges that are in order and apart.
fn around<'r>(ranges: &'r [Range<usize>], piece: &Range<usize>) -> Option<&'r Range<usize>> {
    let first = ranges.partition_point(|range| range.end <= piece.start);
    ranges.get(first).filter(|range| range.start <= piece.start)
}

impl<'a> Masks<'a> {
    /// Returns the masks that a unit came with.
    fn of(unit: &'a UnitText<'a>) -> Self {
        let mut masks = Self::none(unit);
        masks.add(&unit.masked);
        masks
    }

    fn none(unit: &'a UnitText<'a>) -> Self {
        Self {
            unit,
            ranges: Vec::new(),
            in_view: Vec::new(),
        }
    }

    /// Returns the key of a unit as it came, as [`Work::key`] describes it. `answers`: what of it is learned, if not all is.
    fn key(&self, answers: Option<&[Range<usize>]>) -> [u8; 20] {
        // These bytes do not occur in text.
        const MARKED: u8 = 0xff;
        const CLASS: u8 = 0xfe;
        const READ: u8 = 0xfd;
        const PART: u8 = 0xfc;
        const MASK: u8 = 0xfb;
        let mut hash = Sha1::new();
        let (text, mut from) = (&*self.unit.text, 0);
        for mask in &self.unit.masked {
            hash.update(&text[from..mask.start]);
            hash.update([MASK]);
            from = mask.end;
        }
        hash.update(&text[from..]);
        let marked = self.marked();
        let marked: BTreeSet<_> = marked.map(|(r, s)| (r.start, r.end, s.cut)).collect();
        for (start, end, cut) in marked {
            hash.update([MARKED]);
            for number in [start, end] {
                hash.update((number as u64).to_le_bytes());
            }
            if let Some(part) = cut {
                hash.update([PART]);
                hash.update(part);
            }
        }
        if let Some(class) = self.unit.label {
            hash.update([CLASS]);
            hash.update(class.to_le_bytes());
        }
        if let Some(answers) = answers {
            hash.update([READ, u8::from(self.unit.end)]);
            for range in self.learned(answers) {
                hash.update((range.start as u64).to_le_bytes());
                hash.update((range.end as u64).to_le_bytes());
            }
        }
        hash.finalize().into()
    }

    /// Returns the ranges of the view that are learned. As in a record, a mask is learned if any part of it is.
    fn learned(&self, answers: &[Range<usize>]) -> Vec<Range<usize>> {
        let whole = |answer: &Range<usize>| {
            let inside = |at: usize| {
                let first = self.ranges.partition_point(|mask| mask.end <= at);
                self.ranges.get(first).filter(|mask| mask.start < at)
            };
            let start = inside(answer.start).map_or(answer.start, |mask| mask.start);
            let end = inside(answer.end).map_or(answer.end, |mask| mask.end);
            self.to_view(start)..self.to_view(end)
        };
        joined(answers.iter().map(whole).collect())
    }

    /// Adds spans, widened to whole characters. Merges ranges that touch, as runs of masked tokens are merged. Returns
    /// whether there are other ranges than before.
    fn add(&mut self, spans: &[Range<usize>]) -> bool {
        let spans = spans.iter().map(|span| whole(&self.unit.text, span));
        let mut ranges = self.ranges.clone();
        ranges.extend(spans.filter(|span| !span.is_empty()));
        if ranges.len() == self.ranges.len() {
            return false;
        }
        let ranges = joined(ranges);
        let changed = ranges != self.ranges;
        self.ranges = ranges;
        let (mut end, mut in_view) = (0, 0);
        let begins = self.ranges.iter().map(|range| {
            let begin = in_view + range.start - end;
            (end, in_view) = (range.end, begin + MASKED.len_utf8());
            begin
        });
        self.in_view.clear();
        self.in_view.extend(begins);
        changed
    }

    /// Returns the unit's text with something else in place of each masked range.
    fn text(&self, by: &str) -> Cow<'a, str> {
        match self.ranges.is_empty() {
            true => Cow::Borrowed(&self.unit.text),
            false => Cow::Owned(replaced(&self.unit.text, &self.ranges, by)),
        }
    }

    /// Calls `read` with the text that a policy may see: each masked range is one [`MASKED`].
    fn view<T>(&self, read: impl FnOnce(&View<'_>) -> T) -> T {
        let secrets: Vec<(Range<usize>, &str)> = self
            .marked()
            .map(|(part, secret)| (part, secret.kind))
            .collect();
        read(&View {
            text: &self.shown(),
            secrets: &secrets,
        })
    }

    /// Returns the text of the view.
    fn shown(&self) -> Cow<'a, str> {
        self.text(MASKED.encode_utf8(&mut [0; 4]))
    }

    /// Returns the parts of marked secrets that are not masked, in the view.
    fn marked(&self) -> impl Iterator<Item = (Range<usize>, &MarkedSecret<'_>)> {
        let parts = self.unit.secrets.iter().flat_map(|secret| {
            let parts = self.outside(&secret.range);
            parts.into_iter().map(move |part| (part, secret))
        });
        parts.map(|(part, secret)| {
            let part = self.to_view(part.start)..self.to_view(part.end);
            (part, secret)
        })
    }

    /// Returns the parts of a span that are not masked.
    fn outside(&self, span: &Range<usize>) -> Vec<Range<usize>> {
        let mut out = Vec::new();
        let mut from = span.start;
        let first = self.ranges.partition_point(|range| range.end <= from);
        for range in &self.ranges[first..] {
            if range.start >= span.end {
                break;
            }
            if from < range.start {
                out.push(from..range.start);
            }
            from = range.end;
        }
        if from < span.end {
            out.push(from..span.end);
        }
        out
    }

    /// Maps a position in the unit's text, outside all masks, to the view.
    fn to_view(&self, at: usize) -> usize {
        let before = self.ranges.partition_point(|range| range.end <= at);
        before.checked_sub(1).map_or(at, |last| {
            let behind = self.in_view[last] + MASKED.len_utf8();
            behind + at - self.ranges[last].end
        })
    }

    /// Maps a span of the view to the unit's text; a mask that it touches is included whole.
    fn in_unit(&self, span: &Span) -> Range<usize> {
        let place = |at: usize, is_end: bool| {
            let before = self.in_view.partition_point(|begin| *begin < at);
            let Some(last) = before.checked_sub(1) else {
                return at;
            };
            let (range, behind) = (&self.ranges[last], self.in_view[last] + MASKED.len_utf8());
            match at.checked_sub(behind) {
                Some(beyond) => range.end + beyond,
                None if is_end => range.end,
                None => range.start,
            }
        };
        place(span.start, false)..place(span.end, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::split::units;
    use crate::unit::Unit;
    use std::time::{Duration, Instant};

    /// In a time that does not grow with the square of their number.
    #[test]
    fn places_are_found_among_many_masks() {
        const COUNT: usize = 300_000;
        let document = Document::new("d", "ab ".repeat(COUNT));
        let unit = &units(&document, 0, Unit::Document).unwrap()[0];
        let mut masks = Masks::none(unit);
        let ranges: Vec<Range<usize>> = (0..COUNT).map(|at| 3 * at..3 * at + 1).collect();
        assert!(masks.add(&ranges));
        let began = Instant::now();
        for (at, mask) in ranges.iter().enumerate() {
            let (text, view) = (3 * at, 5 * at);
            let in_unit = |range| masks.in_unit(&Span::new(range, "k", "test", 1.0));
            assert_eq!(in_unit(view + 3..view + 4), text + 1..text + 2);
            assert_eq!(in_unit(view + 1..view + 2), *mask);
            assert_eq!(in_unit(view..view + 5), text..text + 3);
            let outside = masks.outside(&(text..text + 3));
            assert_eq!(outside.first(), Some(&(text + 1..text + 3)));
            assert_eq!(masks.to_view(text + 1), view + 3);
        }
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
