//! Batches for transformers: the rows of an example lie together, in time order.

use super::packed::factors;
use crate::dropout::{DropoutSite, RecordMasks};
use crate::error::{Error, Result};
use rayon::prelude::*;
use reticent_corpus::TokenId;

/// No token to predict here.
pub(crate) const NOTHING: TokenId = TokenId::MAX;

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

/// A fixed shape: so many examples of so many rows each, unused rows at the end of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) examples: usize,
    pub(crate) steps: usize,
}

/// Token sequences as rows; on a grid with unused rows, which predict nothing.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// One span per example.
    pub(crate) spans: Vec<Span>,
    /// Input token of each row.
    pub(crate) inputs: Vec<TokenId>,
    /// Row of the position table, or the position itself, of each row.
    pub(crate) positions: Vec<u32>,
    /// Token to predict of each row, or [`NOTHING`].
    pub(crate) targets: Vec<TokenId>,
    /// The fixed shape, where the device wants one.
    pub(crate) grid: Option<Grid>,
    /// The dropout masks of each example, where values are dropped.
    pub(crate) masks: Option<Vec<RecordMasks>>,
}

impl Rows {
    /// Rows that predict each next token.
    ///
    /// # Errors
    /// [`Error::TooShort`], [`Error::UnknownToken`], [`Error::TooLong`].
    pub(crate) fn predicting(
        sequences: &[impl AsRef<[TokenId]>],
        (vocabulary, context): (usize, usize),
        grid: Option<Grid>,
    ) -> Result<Self> {
        let mut rows = Self::empty(grid);
        for (index, s) in sequences.iter().enumerate() {
            let s = s.as_ref();
            check(s, index, 2, vocabulary, context)?;
            rows.push(&s[..s.len() - 1], &s[1..]);
        }
        Ok(rows.filled())
    }

    /// Rows that read whole sequences and predict nothing.
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
            check(s, index, 1, vocabulary, context)?;
            rows.push(s, &[]);
        }
        Ok(rows.filled())
    }

    /// One row per state, each an example of its own at its own position.
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
        }
    }

    fn push(&mut self, inputs: &[TokenId], targets: &[TokenId]) {
        let start = self.inputs.len();
        let length = inputs.len();
        self.spans.push(Span { start, length });
        self.inputs.extend_from_slice(inputs);
        self.targets.extend_from_slice(targets);
        self.pad(start + length);
        if let Some(grid) = self.grid {
            self.pad(start + grid.steps);
        }
        self.positions.extend(0..(self.inputs.len() - start) as u32);
    }

    fn pad(&mut self, rows: usize) {
        self.inputs.resize(rows, 0);
        self.targets.resize(rows, NOTHING);
    }

    fn filled(mut self) -> Self {
        if let Some(grid) = self.grid {
            let rows = grid.examples * grid.steps;
            let have = self.inputs.len();
            self.pad(rows);
            self.positions
                .extend((have..rows).map(|row| (row % grid.steps) as u32));
        }
        self
    }

    /// Number of rows, unused ones included.
    pub(crate) fn len(&self) -> usize {
        self.inputs.len()
    }

    /// What the values of a place are multiplied by, N × width, 1 in unused rows; nothing where
    /// none is dropped.
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

    /// Number of rows that predict a token.
    pub(crate) fn predictions(&self) -> usize {
        self.targets.iter().filter(|t| **t != NOTHING).count()
    }

    /// One value per row from one per example; unused rows get `rest`.
    pub(crate) fn spread(&self, values: &[f32], rest: f32) -> Vec<f32> {
        let mut out = vec![rest; self.len()];
        for (span, value) in self.spans.iter().zip(values) {
            out[span.range()].fill(*value);
        }
        out
    }
}

fn check(s: &[TokenId], index: usize, least: usize, vocabulary: usize, most: usize) -> Result<()> {
    if s.len() < least {
        return Err(Error::TooShort {
            index,
            length: s.len(),
            least,
        });
    }
    if s.len() > most {
        return Err(Error::TooLong {
            index,
            length: s.len(),
            most,
        });
    }
    known(s, vocabulary)
}

/// Checks tokens against the vocabulary.
pub(crate) fn known(tokens: &[TokenId], vocabulary: usize) -> Result<()> {
    match tokens.iter().find(|t| **t as usize >= vocabulary) {
        Some(&token) => Err(Error::UnknownToken {
            token,
            size: vocabulary,
        }),
        None => Ok(()),
    }
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
        assert_eq!(padded.inputs, [1, 2, 0, 4, 0, 0, 0, 0, 0]);
        assert_eq!(padded.targets[..3], [2, 3, NOTHING]);
        assert_eq!(padded.positions, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(padded.predictions(), packed.predictions());
        assert_eq!(padded.spans[1].range(), 3..4);
        assert!(Rows::reading(&[&[]], (9, 8), None).is_err());
        assert!(Rows::reading(&[&[9]], (9, 8), None).is_err());
        assert!(Rows::predicting(&[a], (9, 2), None).is_err());
    }
}
