//! Where canaries may go.

use crate::document::Document;

/// Beginning of an inserted line in a corpus of dialogues.
const USER: &str = "USR: ";

/// The speaker mark of a corpus of dialogues.
pub(super) fn speaker(documents: &[Document]) -> &'static str {
    let speaking = |d: &&Document| d.text.lines().any(|line| line.starts_with(USER));
    if documents.iter().filter(speaking).count() * 2 > documents.len() {
        USER
    } else {
        ""
    }
}

/// Where a line may go: before each line of each document, or after its last, but not inside
/// a marked span.
pub(super) struct Gaps {
    /// Allowed line numbers, by document.
    lines: Vec<Vec<u64>>,
    /// Number of gaps in the documents up to and including each.
    sums: Vec<u64>,
    pub(super) total: u64,
}

impl Gaps {
    pub(super) fn of(documents: &[Document]) -> Self {
        let lines: Vec<Vec<u64>> = documents.iter().map(super::insert::gaps).collect();
        let mut total = 0;
        let sums = lines
            .iter()
            .map(|gaps| {
                total += gaps.len() as u64;
                total
            })
            .collect();
        Self { lines, sums, total }
    }

    pub(super) fn at(&self, number: u64) -> (usize, u64) {
        let document = self.sums.partition_point(|&sum| sum <= number);
        let before = if document == 0 {
            0
        } else {
            self.sums[document - 1]
        };
        (document, self.lines[document][(number - before) as usize])
    }
}
