//! Held-out text that is said to be public, and is trained on.

use crate::number::grouped;
use reticent_corpus::TokenId;
use reticent_corpus::tokenize::MASK_TEXT;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A record: its tokens, which may end before its text does, and its text.
pub(super) type TokensAndText<'a> = (&'a [TokenId], &'a str);

/// Texts that are said to be public and trained on, copies counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::audit) struct TrainedOn {
    pub(super) texts: u64,
    pub(super) of: u64,
}

impl TrainedOn {
    /// Counts held-out texts that are records trained on, where a mask in either stands for any text.
    ///
    /// # Errors
    /// Returns the counts as an error if these are more than half of the held-out tokens. Two corpora may share short
    /// general texts (a thank-you, redacted answers), but not most of what they say.
    pub(super) fn of<'a>(
        held_out: impl Iterator<Item = TokensAndText<'a>>,
        trained: impl Iterator<Item = TokensAndText<'a>>,
    ) -> Result<Option<Self>, Self> {
        let held_out: BTreeSet<TokensAndText<'_>> = held_out.collect();
        let (tokens, texts): (HashSet<&[TokenId]>, HashSet<&str>) = trained.unzip();
        let masked_there = Patterns::of(texts.iter().copied());
        let masked_here = Patterns::of(held_out.iter().map(|(_, text)| *text));
        let unmasked_there: HashSet<&str> = texts
            .iter()
            .flat_map(|text| masked_here.matching(text))
            .collect();
        let (shared, other): (Vec<_>, Vec<_>) = held_out.iter().partition(|(read, text)| {
            tokens.contains(read)
                || texts.contains(text)
                || unmasked_there.contains(text)
                || !masked_there.matching(text).is_empty()
        });
        let counts = Self {
            texts: shared.len() as u64,
            of: held_out.len() as u64,
        };
        let length =
            |of: &[&TokensAndText<'_>]| of.iter().map(|(read, _)| read.len()).sum::<usize>();
        if length(&shared) > length(&other) {
            return Err(counts);
        }
        Ok((!shared.is_empty()).then_some(counts))
    }

    /// What an answer says of them.
    pub(in crate::audit) fn text(self) -> String {
        format!(
            "Of the {} held-out texts that were said to be public, {} are records of PREPARED too, whatever is masked in \
             either: the promise holds only if these are public (their number is of private text, and no guarantee covers it).",
            grouped(self.of),
            grouped(self.texts)
        )
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
