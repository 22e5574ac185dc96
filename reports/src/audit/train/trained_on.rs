//! Held-out text that is said to be public, and is trained on.

use crate::number::grouped;
use reticent_corpus::TokenId;
use reticent_corpus::tokenize::MASK_TEXT;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A record: its tokens, which may end before its text does, and its text.
pub(super) type TokensAndText<'a> = (&'a [TokenId], &'a str);

/// Texts that are said to be public and trained on, copies counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::audit) struct TrainedOn {
    pub(super) texts: u64,
    pub(super) of: u64,
}

impl TrainedOn {
    /// Counts held-out texts that are records trained on, or of which more than half are lines of such records. A mask in
    /// either stands for any text, and white space for any other.
    ///
    /// # Errors
    /// Returns the counts as an error if more than half of the held-out text is trained on: of its tokens, by texts that are
    /// such records, or of its lines, each counted once. Two corpora may share short general texts (a thank-you, redacted
    /// answers), but not most of what they say.
    pub(super) fn of<'a>(
        held_out: impl Iterator<Item = TokensAndText<'a>>,
        trained: impl Iterator<Item = TokensAndText<'a>>,
    ) -> Result<Option<Self>, Self> {
        let held_out: BTreeSet<TokensAndText<'_>> = held_out.collect();
        let here: Vec<_> = held_out.iter().map(|(_, text)| Pieces::of(text)).collect();
        let (tokens, there): (HashSet<&[TokenId]>, Vec<_>) =
            trained.map(|(read, text)| (read, Pieces::of(text))).unzip();
        let there: HashSet<&str> = there.iter().flat_map(Pieces::all).collect();
        let masked_there = Patterns::of(there.iter().copied());
        let masked_here = Patterns::of(here.iter().flat_map(Pieces::all));
        let unmasked_there: HashSet<&str> = there
            .iter()
            .flat_map(|text| masked_here.matching(text))
            .collect();
        let is_there = |text: &str| {
            there.contains(text)
                || unmasked_there.contains(text)
                || !masked_there.matching(text).is_empty()
        };
        let mut lines: BTreeMap<&str, bool> = BTreeMap::new();
        let (mut texts, mut records) = (0, Shared::default());
        for ((read, _), pieces) in held_out.iter().zip(&here) {
            let whole = tokens.contains(read) || is_there(&pieces.whole);
            let mut found = Shared::default();
            for line in &pieces.lines {
                let shared = whole || is_there(line);
                found.add(line.len(), shared);
                *lines.entry(line.as_str()).or_default() |= shared;
            }
            records.add(read.len(), whole);
            texts += u64::from(whole || found.is_most());
        }
        let mut all = Shared::default();
        for (line, shared) in lines {
            all.add(line.len(), shared);
        }
        let counts = Self {
            texts,
            of: held_out.len() as u64,
        };
        if records.is_most() || all.is_most() {
            return Err(counts);
        }
        Ok((texts > 0).then_some(counts))
    }

    /// What an answer says of them.
    pub(in crate::audit) fn text(self) -> String {
        format!(
            "Of the {} held-out texts that were said to be public, {} are records of PREPARED too or share most of their \
             lines with them, whatever is masked in either: the promise holds only if these are public (their number is of \
             private text, and no guarantee covers it).",
            grouped(self.of),
            grouped(self.texts)
        )
    }
}

/// A text and its lines that are not empty, each with single spaces for white space.
struct Pieces {
    whole: String,
    lines: Vec<String>,
}

impl Pieces {
    fn of(text: &str) -> Self {
        let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = text.lines().map(spaced);
        Self {
            whole: spaced(text),
            lines: lines.filter(|line| !line.is_empty()).collect(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        let lines = self.lines.iter().map(String::as_str);
        lines.chain([self.whole.as_str()])
    }
}

/// Lengths of text that is trained on, and of other text.
#[derive(Default)]
struct Shared {
    here_and_there: usize,
    here: usize,
}

impl Shared {
    const fn add(&mut self, length: usize, shared: bool) {
        match shared {
            true => self.here_and_there += length,
            false => self.here += length,
        }
    }

    const fn is_most(&self) -> bool {
        self.here_and_there > self.here
    }
}

/// Texts with masks, by what is before their first mask, then by what is behind their last.
struct Patterns<'a>(ByEnd<'a, ByEnd<'a, Vec<&'a str>>>);

impl<'a> Patterns<'a> {
    /// Texts without a mask are left out.
    fn of(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut all: ByEnd<'a, ByEnd<'a, Vec<&'a str>>> = ByEnd::default();
        for text in texts {
            let ends = text.split_once(MASK_TEXT).zip(text.rsplit_once(MASK_TEXT));
            if let Some(((first, _), (_, last))) = ends {
                all.entry(first).entry(last).push(text);
            }
        }
        Self(all)
    }

    /// Returns the texts that this one is, where a mask stands for any text.
    fn matching(&self, text: &str) -> Vec<&'a str> {
        let mut found = Vec::new();
        for (group, behind) in self.0.beginnings(text) {
            for (patterns, between) in group.endings(behind) {
                let fitting = |pattern: &&&str| fits(pattern, text.len(), between);
                found.extend(patterns.iter().filter(fitting));
            }
        }
        found
    }
}

/// Returns whether the pieces of a pattern between its first mask and its last occur in this order, and all its pieces
/// are at least half of a text of this length: little more than a mask would be any text.
fn fits(pattern: &str, length: usize, mut between: &str) -> bool {
    let pieces: Vec<&str> = pattern.split(MASK_TEXT).collect();
    let shown: usize = pieces.iter().map(|piece| piece.len()).sum();
    let [_, inner @ .., _] = &pieces[..] else {
        return false;
    };
    let is_next = |piece: &&str| {
        let found = between.split_once(*piece);
        found.map(|(_, behind)| between = behind).is_some()
    };
    2 * shown >= length && inner.iter().all(is_next)
}

/// Values by a text that longer ones begin or end with.
struct ByEnd<'a, T> {
    /// The lengths of these texts in bytes.
    lengths: BTreeSet<usize>,
    values: HashMap<&'a str, T>,
}

impl<T> Default for ByEnd<'_, T> {
    fn default() -> Self {
        Self {
            lengths: BTreeSet::new(),
            values: HashMap::new(),
        }
    }
}

impl<'a, T: Default> ByEnd<'a, T> {
    fn entry(&mut self, end: &'a str) -> &mut T {
        self.lengths.insert(end.len());
        self.values.entry(end).or_default()
    }

    /// Returns the value of each beginning of a text, with the rest of the text.
    fn beginnings<'t>(&self, text: &'t str) -> impl Iterator<Item = (&T, &'t str)> {
        self.lengths.iter().filter_map(move |length| {
            let (beginning, rest) = text.split_at_checked(*length)?;
            Some((self.values.get(beginning)?, rest))
        })
    }

    /// Returns the value of each end of a text, with the rest of the text.
    fn endings<'t>(&self, text: &'t str) -> impl Iterator<Item = (&T, &'t str)> {
        self.lengths.iter().filter_map(move |length| {
            let (rest, end) = text.split_at_checked(text.len().checked_sub(*length)?)?;
            Some((self.values.get(end)?, rest))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(held_out: &[&str], trained: &[&str]) -> Result<Option<TrainedOn>, TrainedOn> {
        let tokens = |texts: &[&str]| -> Vec<Vec<TokenId>> {
            let each = texts.iter();
            each.map(|text| text.bytes().map(TokenId::from).collect())
                .collect()
        };
        let (here, there) = (tokens(held_out), tokens(trained));
        TrainedOn::of(
            here.iter().map(Vec::as_slice).zip(held_out.iter().copied()),
            there.iter().map(Vec::as_slice).zip(trained.iter().copied()),
        )
    }

    const fn some(texts: u64, of: u64) -> TrainedOn {
        TrainedOn { texts, of }
    }

    /// Private text with something foreign in it is not public; a few short texts may be in any two corpora.
    #[test]
    fn public_text_shares_short_texts_alone() {
        let trained = ["abcdef", "gh"];
        let of = |held_out: &[&str]| of(held_out, &trained);
        assert_eq!(of(&["abc", "hg"]), Ok(None));
        assert_eq!(of(&["abc", "gh", "gh"]), Ok(Some(some(1, 2))));
        assert_eq!(of(&["abcdef", "ii"]), Err(some(1, 2)));
        assert_eq!(of(&["abcdef", "gh"]), Err(some(2, 2)));
        let said = some(1, 2).text();
        assert!(
            said.contains("Of the 2 held-out texts") && said.contains("1 are records"),
            "{said}"
        );
    }

    /// White space and what else stands in a record hide no lines that are trained on; a line that many records share
    /// counts once.
    #[test]
    fn other_white_space_does_not_make_text_public() {
        let trained = [
            "Ada lives in  Paris.\n\nHer number is 12.",
            "Zoe waits <MASK>.",
        ];
        let of = |held_out: &[&str]| of(held_out, &trained);
        for spaced in [
            "Ada lives in Paris. Her number is 12.",
            "Ada  lives in\tParis.\r\n Her number is 12.\n",
            "Her number is 12.\nAda lives in Paris.",
            "Ada lives in Paris.",
            "Zoe  waits in\u{a0}vain.",
        ] {
            assert_eq!(of(&[spaced]), Err(some(1, 1)), "{spaced}");
        }
        let beside = "Her number is 12.\nThe weather is fine in these days.";
        assert_eq!(of(&[beside]), Ok(None));
        let headed = ["1", "2", "3"].map(|n| format!("Her number is 12.\nNew text {n}."));
        let headed: Vec<&str> = headed.iter().map(String::as_str).collect();
        assert_eq!(of(&headed), Ok(Some(some(3, 3))));
        // Whole records count by their length, whatever lines they share.
        let trained = ["1", "2", "3"].map(|n| format!("Dear customer,\n{n}"));
        let mut held_out: Vec<&str> = trained.iter().map(String::as_str).collect();
        held_out.push("Text that nobody trains on.");
        assert_eq!(self::of(&held_out, &held_out[..3]), Err(some(3, 4)));
    }

    /// Masks on either side hide no text that is trained on.
    #[test]
    fn masks_do_not_make_text_public() {
        let raw = [
            "I am Ada Lovelace and my number is 12.",
            "Call 555-0100 now, please, or 555-0101 later.",
            "Ünder the bridge waits Zoë",
        ];
        let redacted = [
            "I am <MASK> and my number is <MASK>.",
            "Call <MASK> now, please, or <MASK> later.",
            "Ünder the bridge waits <MASK>",
        ];
        let partly = [
            "I am Ada Lovelace and my number is <MASK>.",
            "Call <MASK> now, please, or 555-0101 later.",
            raw[2],
        ];
        for (here, there) in [
            (raw, redacted),
            (redacted, raw),
            (partly, redacted),
            (redacted, partly),
            (raw, raw),
        ] {
            assert_eq!(of(&here, &there), Err(some(3, 3)), "{here:?} {there:?}");
        }
        // Pieces in another order, or too few, are other texts.
        let other = [
            "Call 1 later, please, or 2 now.",
            "I am here.",
            "Ünder the bridge waits nothing",
        ];
        assert_eq!(of(&other, &redacted), Ok(Some(some(1, 3))));
        let long = format!(
            "I am {} and my number is 12.",
            "not there at all ".repeat(5)
        );
        let long = long.as_str();
        assert_eq!(of(&[long, "<MASK>"], &redacted), Ok(None));
        assert_eq!(of(&[long], &["<MASK>"]), Ok(None));
    }
}
