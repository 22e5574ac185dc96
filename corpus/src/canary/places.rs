//! Where canaries may be inserted.

use crate::document::Document;
use crate::error::Result;
use std::collections::HashMap;

/// The beginning of an inserted line in a corpus of dialogues.
const USER: &str = "USR: ";

/// Returns the speaker mark: that of a user in a corpus of dialogues, else empty.
fn speaker(speaking: usize, documents: usize) -> &'static str {
    if speaking * 2 > documents { USER } else { "" }
}

/// Returns whether a document contains a user's line.
pub(crate) fn speaks(document: &Document) -> bool {
    document.text.lines().any(|line| line.starts_with(USER))
}

/// The places in a corpus where lines may be inserted: before each line of each document or after
/// its last line, but not inside a marked span ([`gaps`]).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ground {
    documents: usize,
    speaking: usize,
    gaps: u64,
}

impl Ground {
    /// Adds the next document: whether it [`speaks`], and its number of [`gaps`].
    pub(crate) fn enter(&mut self, speaks: bool, gaps: u64) {
        self.documents += 1;
        self.speaking += usize::from(speaks);
        self.gaps += gaps;
    }

    pub(super) const fn total(&self) -> u64 {
        self.gaps
    }

    /// Returns the speaker mark.
    pub(super) fn speaker(&self) -> &'static str {
        speaker(self.speaking, self.documents)
    }
}

/// Returns the document of each of some gaps, and its index among the document's gaps. `counts` is the number of gaps of
/// each document, in order.
pub(super) fn places(
    gaps: impl Iterator<Item = u64>,
    counts: impl Iterator<Item = Result<u64>>,
) -> Result<HashMap<u64, (usize, usize)>> {
    let mut gaps: Vec<u64> = gaps.collect();
    gaps.sort_unstable();
    let (mut gaps, mut before) = (gaps.into_iter().peekable(), 0);
    let mut out = HashMap::new();
    for (document, count) in counts.enumerate() {
        let end = before + count?;
        while let Some(gap) = gaps.next_if(|gap| *gap < end) {
            out.insert(gap, (document, (gap - before) as usize));
        }
        before = end;
    }
    Ok(out)
}
