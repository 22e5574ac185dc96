//! Dropout of attention probabilities: the record's mask of a head is drawn in the forward and again in the backward
//! pass.

use super::{Attention, Block};
use crate::engine::packed::factors;
use crate::engine::rows::Rows;
use crate::trainer::dropout::DropoutSite;

/// What the probabilities of one head of an example are multiplied by: row after row, each as
/// far as its own position. Only decoders are trained, so no row sees further.
pub(crate) struct Dropped(Vec<f32>);

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
        factors(masks, place, length * (length + 1) / 2).map(Self)
    }

    /// Returns the factors of a row, for keys from 0.
    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.0[row * (row + 1) / 2..][..=row]
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
