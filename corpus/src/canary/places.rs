//! Where canaries may be inserted.

use crate::document::Document;

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
#[derive(Debug, Default)]
pub(crate) struct Ground {
    documents: usize,
    speaking: usize,
    /// The cumulative number of gaps up to and including each document.
    sums: Vec<u64>,
}

impl Ground {
    /// Adds the next document: whether it [`speaks`], and its number of [`gaps`].
    pub(crate) fn enter(&mut self, speaks: bool, gaps: u64) {
        self.documents += 1;
        self.speaking += usize::from(speaks);
        self.sums.push(self.total() + gaps);
    }

    pub(super) fn total(&self) -> u64 {
        self.sums.last().copied().unwrap_or(0)
    }

    /// Returns the speaker mark.
    pub(super) fn speaker(&self) -> &'static str {
        speaker(self.speaking, self.documents)
    }

    /// Returns the document of a gap, and its index among the document's gaps.
    pub(super) fn at(&self, number: u64) -> (usize, usize) {
        let document = self.sums.partition_point(|&sum| sum <= number);
        let before = if document == 0 {
            0
        } else {
            self.sums[document - 1]
        };
        (document, (number - before) as usize)
    }
}
