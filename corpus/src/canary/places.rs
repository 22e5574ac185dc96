//! Where canaries may go.

use crate::document::Document;

/// Beginning of an inserted line in a corpus of dialogues.
const USER: &str = "USR: ";

/// The speaker mark of a corpus of dialogues.
fn speaker(speaking: usize, documents: usize) -> &'static str {
    if speaking * 2 > documents { USER } else { "" }
}

/// Whether a document has a line of a user's.
pub(crate) fn speaks(document: &Document) -> bool {
    document.text.lines().any(|line| line.starts_with(USER))
}

/// Where lines may go in a corpus: before each line of each document, or after its last, but
/// not inside a marked span ([`gaps`]).
#[derive(Debug, Default)]
pub(crate) struct Ground {
    documents: usize,
    speaking: usize,
    /// Number of gaps in the documents up to and including each.
    sums: Vec<u64>,
}

impl Ground {
    /// The next document: whether it [`speaks`], and its number of [`gaps`].
    pub(crate) fn enter(&mut self, speaks: bool, gaps: u64) {
        self.documents += 1;
        self.speaking += usize::from(speaks);
        self.sums.push(self.total() + gaps);
    }

    pub(super) fn total(&self) -> u64 {
        self.sums.last().copied().unwrap_or(0)
    }

    /// The speaker mark.
    pub(super) fn speaker(&self) -> &'static str {
        speaker(self.speaking, self.documents)
    }

    /// The document of a gap, and which of the document's gaps it is.
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
