//! What the model knows of single words besides its chains: the lists that contain them, and their clusters by usage.

use super::chain::Rows;
use super::features::text_hash;

/// What is known of one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) lists: u8,
    pub(super) clusters: [u8; 2],
}

/// The lexicon: ascending hashes and the value of each.
#[derive(Debug, Clone, Default)]
pub(super) struct Lexicon {
    pub(super) list_hashes: Vec<u32>,
    pub(super) lists: Vec<u8>,
    pub(super) cluster_hashes: Vec<u32>,
    pub(super) clusters: Vec<[u8; 2]>,
    list_rows: Rows,
    cluster_rows: Rows,
}

pub(super) fn hash(word: &str) -> u32 {
    let hash = text_hash(word.bytes()).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (hash >> 32) as u32
}

impl Lexicon {
    pub(super) fn new(
        list_hashes: Vec<u32>,
        lists: Vec<u8>,
        cluster_hashes: Vec<u32>,
        clusters: Vec<[u8; 2]>,
    ) -> Self {
        let rows = |hashes: &[u32]| {
            (0u32..)
                .zip(hashes)
                .map(|(row, hash)| (*hash, row))
                .collect()
        };
        Self {
            list_rows: rows(&list_hashes),
            cluster_rows: rows(&cluster_hashes),
            list_hashes,
            lists,
            cluster_hashes,
            clusters,
        }
    }

    /// Returns what is known of a word; `lower` is the word in lower case.
    pub(super) fn known(&self, word: &str, lower: &str) -> Known {
        let row = |rows: &Rows, word: &str| rows.get(&hash(word)).map(|row| *row as usize);
        let lists = row(&self.list_rows, lower).and_then(|row| self.lists.get(row));
        let clusters = row(&self.cluster_rows, word).and_then(|row| self.clusters.get(row));
        Known {
            lists: lists.copied().unwrap_or_default(),
            clusters: clusters.copied().unwrap_or_default(),
        }
    }
}
