//! Batches for transformers: the rows of an example are adjacent, in time order.

use super::packed::{NO_LOSS, factors};
use super::transfers::Kept;
use crate::error::Result;
use crate::scorer::check_sequence;
use crate::trainer::dropout::{DropoutSite, RecordMasks};
use rayon::prelude::*;
use reticent_corpus::TokenId;
use std::collections::BTreeMap;

/// The rows of one example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// First row.
    pub(crate) start: usize,
    /// Number of rows.
    pub(crate) length: usize,
}

impl Span {
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start..self.start + self.length
    }
}

/// A fixed shape: a number of examples with the same number of rows each, unused rows at the end of each example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) examples: usize,
    pub(crate) steps: usize,
}

/// Examples that are processed together in one pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Microbatch<S> {
    /// Their indices in the batch.
    pub(crate) places: Vec<usize>,
    pub(crate) sequences: Vec<S>,
    /// The fixed shape, if the device needs one.
    pub(crate) grid: Option<Grid>,
}

impl<S: Copy> Microbatch<S> {
    fn of(all: &[S], places: Vec<usize>, grid: Option<Grid>) -> Self {
        Self {
            sequences: places.iter().map(|i| all[*i]).collect(),
            places,
            grid,
        }
    }
}

/// Returns microbatches of consecutive examples that have at most `most` tokens together, or of one example.
pub(crate) fn consecutive<S: Copy + AsRef<[TokenId]>>(
    all: &[S],
    most: usize,
) -> Vec<Microbatch<S>> {
    let mut parts = Vec::new();
    let (mut start, mut used) = (0, 0);
    let mut end_at = |range: std::ops::Range<usize>| {
        if !range.is_empty() {
            parts.push(Microbatch::of(all, range.collect(), None));
        }
    };
    for (i, sequence) in all.iter().enumerate() {
        let tokens = sequence.as_ref().len();
        if used + tokens > most {
            end_at(start..i);
            (start, used) = (i, 0);
        }
        used += tokens;
    }
    end_at(start..all.len());
    parts
}

/// Returns microbatches on grids of fixed shapes. The number of rows of an example depends only on its own length, so
/// that neither its shape nor the order of its sums depends on the other examples.
///
/// `unread` is the number of tokens of each example that no row reads, `most` the number of rows of a grid, `longest`
/// the model's context.
pub(crate) fn on_grids<S: Copy + AsRef<[TokenId]>>(
    all: &[S],
    unread: usize,
    most: usize,
    longest: usize,
) -> Vec<Microbatch<S>> {
    let mut by_steps: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, sequence) in all.iter().enumerate() {
        let length = sequence.as_ref().len().saturating_sub(unread);
        by_steps.entry(steps(length, longest)).or_default().push(i);
    }
    let one = |(steps, places): (usize, Vec<usize>)| {
        // a power of two as well, as batches often are: on a grid for 41 examples, 9 would be padding
        let examples = 1 << (most / steps).max(1).ilog2();
        let grid = Some(Grid { examples, steps });
        let parts = places.chunks(examples);
        let parts = parts.map(|part| Microbatch::of(all, part.to_vec(), grid));
        parts.collect::<Vec<_>>()
    };
    by_steps.into_iter().flat_map(one).collect()
}

/// Returns the rows per example: a power of two within the model's context, so that there are only few shapes.
pub(crate) fn steps(length: usize, longest: usize) -> usize {
    length
        .next_power_of_two()
        .max(16)
        .min(longest.max(length).max(1))
}

/// The rows of each example that predict something, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PredictingRows {
    /// The index of each among all rows.
    pub(crate) places: Vec<u32>,
    /// The token that each predicts.
    pub(crate) targets: Vec<TokenId>,
    /// One span of these rows per example; it may be empty.
    pub(crate) spans: Vec<Span>,
}

/// Token sequences as rows. On a grid there are also unused rows, which predict nothing.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// One span per example.
    pub(crate) spans: Vec<Span>,
    /// Input token of each row.
    pub(crate) inputs: Vec<TokenId>,
    /// For each row, the row of the position table, or the position itself.
    pub(crate) positions: Vec<u32>,
    /// Token to predict of each row, or [`NO_LOSS`].
    pub(crate) targets: Vec<TokenId>,
    /// The fixed shape, if the device needs one.
    pub(crate) grid: Option<Grid>,
    /// The dropout masks of each example, if values are dropped.
    pub(crate) masks: Option<Vec<RecordMasks>>,
    /// Values derived from the rows that a device keeps.
    pub(super) kept: Kept,
}

impl Rows {
    /// Creates rows that predict each next token.
    ///
    /// # Errors
    /// Returns an error as [`check_sequence`] does.
    pub(crate) fn predicting(
        sequences: &[impl AsRef<[TokenId]>],
        (vocabulary, context): (usize, usize),
        grid: Option<Grid>,
    ) -> Result<Self> {
        let mut rows = Self::empty(grid);
        for (index, s) in sequences.iter().enumerate() {
            let s = s.as_ref();
            check_sequence(s, index, (2, context), vocabulary)?;
            rows.push(&s[..s.len() - 1], &s[1..]);
        }
        Ok(rows.filled())
    }

    /// Creates rows that read whole sequences and predict nothing.
    ///
    /// # Errors
    /// As [`Self::predicting`].
    pub(crate) fn reading(
        sequences: &[impl AsRef<[TokenId]>],
        (vocabulary, context): (usize, usize),
        grid: Option<Grid>,
    ) -> Result<Self> {
        let mut rows = Self::empty(grid);
        for (index, s) in sequences.iter().enumerate() {
            let s = s.as_ref();
            check_sequence(s, index, (1, context), vocabulary)?;
            rows.push(s, &[]);
        }
        Ok(rows.filled())
    }

    /// Creates one row per state, each an example of its own at its own position.
    pub(crate) fn steps(
        steps: &[(crate::scorer::StateId, TokenId)],
        positions: impl Iterator<Item = usize>,
    ) -> Self {
        let mut rows = Self::empty(None);
        for (_, token) in steps {
            rows.push(&[*token], &[]);
        }
        rows.positions = positions.map(|p| p as u32).collect();
        rows
    }

    fn empty(grid: Option<Grid>) -> Self {
        Self {
            spans: Vec::new(),
            inputs: Vec::new(),
            positions: Vec::new(),
            targets: Vec::new(),
            grid,
            masks: None,
            kept: Kept::default(),
        }
    }

    fn push(&mut self, inputs: &[TokenId], targets: &[TokenId]) {
        let start = self.inputs.len();
        let length = inputs.len();
        self.spans.push(Span { start, length });
        self.inputs.extend_from_slice(inputs);
        self.targets.extend_from_slice(targets);
        self.targets.resize(start + length, NO_LOSS);
        self.positions.extend(0..length as u32);
        if let Some(grid) = self.grid {
            self.pad(start, start + grid.steps);
        }
    }

    /// Adds unused rows up to `rows`, which read the same token as the row `first`. They are finite if that row is, so
    /// that a weight that is not finite only affects examples that use it.
    fn pad(&mut self, first: usize, rows: usize) {
        let token = self.inputs.get(first).copied().unwrap_or(0);
        self.inputs.resize(rows, token);
        self.targets.resize(rows, NO_LOSS);
        self.positions.resize(rows, 0);
    }

    fn filled(mut self) -> Self {
        if let Some(grid) = self.grid {
            self.pad(0, grid.examples * grid.steps);
        }
        self
    }

    /// Returns the number of rows, unused ones included.
    pub(crate) fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the dropout factors of a place, N × width, 1 in unused rows; `None` if nothing is dropped there.
    pub(crate) fn factors(&self, place: DropoutSite, width: usize) -> Option<Vec<f32>> {
        let masks = self.masks.as_ref()?;
        let examples = self.spans.par_iter().zip(masks);
        let own: Option<Vec<Vec<f32>>> = examples
            .map(|(span, masks)| factors(masks, place, span.length * width))
            .collect();
        let mut out = vec![1.0; self.len() * width];
        for (span, own) in self.spans.iter().zip(own?) {
            out[span.start * width..][..own.len()].copy_from_slice(&own);
        }
        Some(out)
    }

    /// Whether two rows of an example read one row of the table of positions, as paddings do.
    pub(crate) fn share_positions(&self) -> bool {
        let rising = |span: &Span| self.positions[span.range()].is_sorted_by(|a, b| a < b);
        !self.spans.iter().all(rising)
    }

    /// The rows that predict something.
    pub(crate) fn predicting_rows(&self) -> PredictingRows {
        let mut rows = PredictingRows {
            places: Vec::new(),
            targets: Vec::new(),
            spans: Vec::with_capacity(self.spans.len()),
        };
        for span in &self.spans {
            let start = rows.places.len();
            for row in span.range().filter(|row| self.targets[*row] != NO_LOSS) {
                rows.places.push(row as u32);
                rows.targets.push(self.targets[row]);
            }
            let length = rows.places.len() - start;
            rows.spans.push(Span { start, length });
        }
        rows
    }

    /// Returns the number of rows that predict a token.
    pub(crate) fn predictions(&self) -> usize {
        self.targets.iter().filter(|t| **t != NO_LOSS).count()
    }

    /// Expands one value per example to one per row; unused rows get `rest`.
    pub(crate) fn spread(&self, values: &[f32], rest: f32) -> Vec<f32> {
        spread(&self.spans, self.len(), values, rest)
    }
}

/// Expands one value per span to one per row; rows outside all spans get `rest`.
pub(crate) fn spread(spans: &[Span], rows: usize, values: &[f32], rest: f32) -> Vec<f32> {
    let mut out = vec![rest; rows];
    for (span, value) in spans.iter().zip(values) {
        out[span.range()].fill(*value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_pads_with_rows_that_predict_nothing() {
        let (a, b): (&[u32], &[u32]) = (&[1, 2, 3], &[4, 5]);
        let packed = Rows::predicting(&[a, b], (9, 8), None).unwrap();
        assert_eq!(packed.inputs, [1, 2, 4]);
        assert_eq!(packed.targets, [2, 3, 5]);
        assert_eq!(packed.positions, [0, 1, 0]);
        let grid = Grid {
            examples: 3,
            steps: 3,
        };
        let padded = Rows::predicting(&[a, b], (9, 8), Some(grid)).unwrap();
        assert_eq!(padded.inputs, [1, 2, 1, 4, 4, 4, 1, 1, 1]);
        assert_eq!(padded.targets[..3], [2, 3, NO_LOSS]);
        assert_eq!(padded.positions, [0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(padded.predictions(), packed.predictions());
        assert_eq!(padded.spans[1].range(), 3..4);
        assert!(Rows::reading(&[&[]], (9, 8), None).is_err());
        assert!(Rows::reading(&[&[9]], (9, 8), None).is_err());
        assert!(Rows::predicting(&[a], (9, 2), None).is_err());
    }

    #[test]
    fn an_examples_grid_follows_its_own_length_alone() {
        let all: Vec<Vec<u32>> = [3, 40, 17, 16, 300, 1]
            .iter()
            .map(|n| vec![1; *n])
            .collect();
        let views: Vec<&[u32]> = all.iter().map(Vec::as_slice).collect();
        let together = on_grids(&views, 0, 128, 250);
        let shape = |examples, steps| Some(Grid { examples, steps });
        let found: Vec<_> = together
            .iter()
            .map(|m| (m.places.clone(), m.grid))
            .collect();
        let expected = vec![
            (vec![0, 3, 5], shape(8, 16)),
            (vec![2], shape(4, 32)),
            (vec![1], shape(2, 64)),
            (vec![4], shape(1, 300)),
        ];
        assert_eq!(found, expected);
        for (i, view) in views.iter().enumerate() {
            let alone = on_grids(&[*view], 0, 128, 250);
            let own = together.iter().find(|m| m.places.contains(&i)).unwrap();
            assert_eq!(alone[0].grid, own.grid, "{i}");
        }
        // the token that is predicted and not read takes no row
        assert_eq!(on_grids(&[views[2]], 1, 128, 250)[0].grid, shape(8, 16));
        let many = vec![views[0]; 19];
        let sizes: Vec<usize> = on_grids(&many, 0, 128, 250)
            .iter()
            .map(|m| m.sequences.len())
            .collect();
        assert_eq!(sizes, [8, 8, 3]);
        // 41 such examples would fit, and 32 fill their grid
        let batch = vec![1; 129];
        let batch = vec![batch.as_slice(); 33];
        let grids = on_grids(&batch, 1, 5341, 1024);
        assert_eq!(grids.len(), 2);
        assert!(grids.iter().all(|m| m.grid == shape(32, 128)));
        assert!(on_grids::<&[u32]>(&[], 0, 128, 250).is_empty());
    }
}
