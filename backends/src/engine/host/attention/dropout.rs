//! Dropout of attention probabilities: the record's mask of a head is drawn in the forward and again in the backward
//! pass.

use super::{Attention, Block};
use crate::engine::packed::factors;
use crate::engine::rows::Rows;
use crate::trainer::dropout::DropoutSite;

/// What the probabilities of one head of an example are multiplied by, row after row.
pub(crate) struct Dropped {
    factors: Vec<f32>,
    /// The number of keys of every row, if rows see later keys; otherwise each row reaches as far as its own position.
    keys: Option<usize>,
}

impl Dropped {
    /// Returns the factors of a head, or `None` if nothing is dropped.
    pub(crate) fn of(
        rows: &Rows,
        example: usize,
        attention: &Attention,
        head: usize,
    ) -> Option<Self> {
        let (length, layer) = (rows.spans[example].length, attention.layer);
        let masks = &rows.masks.as_ref()?[example];
        let place = DropoutSite::Attention { layer, head };
        if attention.causal {
            let factors = factors(masks, place, length * (length + 1) / 2)?;
            let keys = None;
            return Some(Self { factors, keys });
        }
        let drawn = factors(masks, place, length * length)?;
        let mut factors = vec![1.0; length * length];
        for n in 0..length {
            let (row, column) = drawn[n * n..(n + 1) * (n + 1)].split_at(n + 1);
            factors[n * length..][..=n].copy_from_slice(row);
            for (earlier, factor) in column.iter().enumerate() {
                factors[earlier * length + n] = *factor;
            }
        }
        let keys = Some(length);
        Some(Self { factors, keys })
    }

    /// Returns the factors of a row, for keys from 0.
    pub(crate) fn row(&self, row: usize) -> &[f32] {
        match self.keys {
            Some(keys) => &self.factors[row * keys..][..keys],
            None => &self.factors[row * (row + 1) / 2..][..=row],
        }
    }

    /// Multiplies the probabilities of a block, or their gradients; what no row sees stays.
    pub(super) fn multiply(&self, values: &mut [f32], block: &Block) {
        let lines = values.chunks_exact_mut(block.keys.len());
        for (line, row) in lines.zip(block.rows.clone()) {
            let factors = &self.row(row)[block.keys.start..];
            line.iter_mut().zip(factors).for_each(|(x, f)| *x *= f);
        }
    }
}
