//! The difference between two preparations: the primitive that defines caught, missed and k.

use super::preparer::Prepared;
use crate::document::{Document, Masked};
use crate::record::{Record, Side};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How two preparations differ, point by point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourDiff {
    /// k: points whose tokens or side differ. A point that is only `<MASK>` equals another. `audit neighbours` adds points
    /// that the policy could not examine.
    pub records: u64,
    /// How many of them changed side.
    pub sides: u64,
    /// Whether every point is on the same side in both.
    pub same_split: bool,
    /// Whether |D_pri| and |D_pub| agree.
    pub same_counts: bool,
    /// Whether both have the same number of points, so that comparing by number means
    /// something; if not, `records` is the larger number.
    pub aligned: bool,
}

impl NeighbourDiff {
    /// Returns whether nothing differs, which means that the change to the input is caught.
    #[must_use]
    pub fn identical(&self) -> bool {
        self.aligned && self.records == 0
    }
}

/// Compares two preparations (math: k is the number of records that differ).
///
/// The two sets of points are aligned by number, since masking a secret moves no unit.
#[must_use]
pub fn neighbour_diff(one: &Prepared, other: &Prepared) -> NeighbourDiff {
    let (left, right) = (&one.training, &other.training);
    let same_counts =
        left.private_size() == right.private_size() && left.public_size() == right.public_size();
    let total = |p: &Prepared| p.training.records.len() as u64 + p.training.mask_only;
    if total(one) != total(other) {
        return NeighbourDiff {
            records: total(one).max(total(other)),
            sides: 0,
            same_split: false,
            same_counts,
            aligned: false,
        };
    }
    let (mut records, mut sides) = (0, 0);
    let mut a = one.points.iter().zip(&left.records).peekable();
    let mut b = other.points.iter().zip(&right.records).peekable();
    // A point without a record is only <MASK>, and private.
    let side = |r: Option<&Record>| r.map_or(Side::Private, |r| r.side);
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some((x, _)), Some((y, _))) => **x.min(y),
            (Some((x, _)), None) => **x,
            (None, Some((y, _))) => **y,
            (None, None) => break,
        };
        let x = a.next_if(|(p, _)| **p == next).map(|(_, r)| r);
        let y = b.next_if(|(p, _)| **p == next).map(|(_, r)| r);
        records += u64::from(x != y);
        sides += u64::from(side(x) != side(y));
    }
    NeighbourDiff {
        records,
        sides,
        same_split: sides == 0,
        same_counts,
        aligned: true,
    }
}

/// Returns the neighbouring corpus in which every marked secret with the text `secret` is masked.
#[must_use]
pub fn mask_secret(documents: &[Document], secret: &str) -> Vec<Document> {
    documents
        .iter()
        .map(|document| {
            let mut out = document.clone();
            let hits = document
                .secrets
                .iter()
                .filter(|s| document.secret_text(s) == secret)
                .map(|s| Masked {
                    start: s.start,
                    end: s.end,
                });
            for hit in hits {
                // Merge the hit with the masks that it overlaps.
                let (overlapping, rest): (Vec<Masked>, Vec<Masked>) = out
                    .masked
                    .iter()
                    .partition(|m| m.start < hit.end && hit.start < m.end);
                let joined = overlapping.iter().fold(hit, |all, m| Masked {
                    start: all.start.min(m.start),
                    end: all.end.max(m.end),
                });
                out.masked = rest;
                out.masked.push(joined);
                out.masked.sort_by_key(|m| m.start);
            }
            out
        })
        .collect()
}
