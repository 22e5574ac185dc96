//! The arrangement of the examples' rows in a part of a batch.

use super::Example;
use std::ops::Range;

/// The places of the rows of a part of a batch: all ordinary rows, then all sensitive ones.
pub(super) struct Places {
    /// The first row of each segment, by example.
    pub(super) segments: Vec<Vec<usize>>,
    /// The range of sensitive rows of each example.
    pub(super) sensitive: Vec<Range<usize>>,
    pub(super) ordinary: usize,
    pub(super) rows: usize,
}

impl Places {
    pub(super) fn of(examples: &[Example<'_>]) -> Self {
        let count = |sensitive: bool| -> usize {
            let all = examples.iter().flat_map(|(_, segments)| *segments);
            all.filter(|s| s.sensitive == sensitive)
                .map(|s| s.rows.len())
                .sum()
        };
        let ordinary = count(false);
        let mut places = Self {
            segments: Vec::with_capacity(examples.len()),
            sensitive: Vec::with_capacity(examples.len()),
            ordinary,
            rows: ordinary + count(true),
        };
        let (mut at, mut at_sensitive) = (0, ordinary);
        for (_, segments) in examples {
            let begins = at_sensitive;
            let own = segments.iter().map(|segment| {
                let next = if segment.sensitive {
                    &mut at_sensitive
                } else {
                    &mut at
                };
                let first = *next;
                *next += segment.rows.len();
                first
            });
            places.segments.push(own.collect());
            places.sensitive.push(begins..at_sensitive);
        }
        places
    }

    /// Gathers rows of `width` values from each example's time order into the order of the part.
    pub(super) fn gathered<T: Copy + Default>(
        &self,
        examples: &[Example<'_>],
        width: usize,
        in_time: &[&[T]],
    ) -> Vec<T> {
        let mut out = vec![T::default(); self.rows * width];
        for ((&(_, segments), places), values) in examples.iter().zip(&self.segments).zip(in_time) {
            for (segment, first) in segments.iter().zip(places) {
                let own = &values[segment.rows.start * width..segment.rows.end * width];
                out[first * width..][..own.len()].copy_from_slice(own);
            }
        }
        out
    }
}
