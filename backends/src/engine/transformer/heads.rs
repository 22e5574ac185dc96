//! Norms of queries and keys, per head or as a whole, before their positions are applied.

use super::Transformer;
use crate::engine::layers::{Floats, Layers, Matrix, NormTap, NormWeights, Normalised};
use crate::model::{HeadNormsAt, NormAt};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// The columns of queries and keys in queries, keys and values side by side, and how many of each are normalised
/// together.
#[derive(Debug, Clone, Copy)]
struct HeadColumns {
    queries: usize,
    keys: usize,
    heads: [usize; 2],
}

impl HeadColumns {
    /// Returns query heads and key heads, one per row.
    fn apart<B: Backend>(self, joined: &Matrix<B>) -> [Matrix<B>; 2] {
        let rows = joined.dims()[0];
        let [query, key] = self.heads;
        let places = [(0, self.queries, query), (self.queries, self.keys, key)];
        places.map(|(start, columns, head)| {
            let heads = joined.clone().narrow(1, start, columns);
            heads.reshape([rows * columns / head, head])
        })
    }

    /// Puts the heads back in their places, followed by the values.
    fn together<B: Backend>(self, heads: [Matrix<B>; 2], joined: &Matrix<B>) -> Matrix<B> {
        let rows = joined.dims()[0];
        let [queries, keys] = heads;
        let values = joined
            .clone()
            .narrow(1, self.queries + self.keys, self.keys);
        let queries = queries.reshape([rows, self.queries]);
        let keys = keys.reshape([rows, self.keys]);
        Tensor::cat(vec![queries, keys, values], 1)
    }
}

/// Normalised query heads and key heads, with the values that the backward pass needs.
pub(super) struct NormedHeads<B: Backend> {
    at: HeadNormsAt,
    columns: HeadColumns,
    weights: [NormWeights<B>; 2],
    runs: [Normalised<B>; 2],
}

impl<B: Floats> NormedHeads<B> {
    pub(super) fn of<K: Layers<B>>(
        model: &Transformer<B, K>,
        joined: &Matrix<B>,
        at: HeadNormsAt,
    ) -> (Matrix<B>, Self) {
        let columns = HeadColumns {
            queries: model.config.query_width(),
            keys: model.config.key_value_width(),
            heads: model.config.head_norm_widths().unwrap_or([1; 2]),
        };
        let weights =
            [at.query, at.key].map(|gain| model.norm_weights(NormAt { gain, bias: None }));
        let [queries, keys] = columns.apart(joined);
        let runs = [
            K::normalise(&queries, &weights[0]),
            K::normalise(&keys, &weights[1]),
        ];
        let heads = [runs[0].y.clone(), runs[1].y.clone()];
        let out = columns.together(heads, joined);
        let normed = Self {
            at,
            columns,
            weights,
            runs,
        };
        (out, normed)
    }

    /// Returns dL/d(joined) from the gradient of the result of [`Self::of`].
    pub(super) fn back<K: Layers<B>>(&self, d: &Matrix<B>) -> Matrix<B> {
        let [queries, keys] = self.columns.apart(d);
        let heads = [
            K::normalise_back(&queries, &self.runs[0], &self.weights[0]),
            K::normalise_back(&keys, &self.runs[1], &self.weights[1]),
        ];
        self.columns.together(heads, d)
    }

    /// Returns the unit heads side by side, for [`KeptHeads::taps`].
    pub(super) fn kept(&self) -> KeptHeads<B> {
        let HeadColumns {
            queries,
            keys,
            heads,
        } = self.columns;
        let wide = |run: &Normalised<B>, columns: usize| {
            let [lines, head] = run.unit.dims();
            let rows = lines * head / columns;
            run.unit.clone().reshape([rows, columns])
        };
        KeptHeads {
            at: self.at,
            units: [wide(&self.runs[0], queries), wide(&self.runs[1], keys)],
            heads,
        }
    }
}

/// The values that the taps of both gains need besides the gradient.
pub(super) struct KeptHeads<B: Backend> {
    at: HeadNormsAt,
    units: [Matrix<B>; 2],
    heads: [usize; 2],
}

impl<B: Backend> KeptHeads<B> {
    /// Returns the taps of both gains, from the gradient of queries, keys and values side by side.
    pub(super) fn taps(&self, gradient: &Matrix<B>) -> [NormTap<B>; 2] {
        let queries = self.units[0].dims()[1];
        let places = [(self.at.query, 0), (self.at.key, queries)];
        let tap = |which: usize| {
            let (gain, start) = places[which];
            let unit = &self.units[which];
            let columns = unit.dims()[1];
            NormTap {
                gain,
                bias: None,
                heads: columns / self.heads[which],
                unit: unit.clone(),
                gradient: gradient.clone().narrow(1, start, columns),
            }
        };
        [tap(0), tap(1)]
    }
}
