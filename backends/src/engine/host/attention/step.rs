//! Attention of one row at a time, over stored keys and values.

use super::*;

wide! {
    /// Computes one row's attention over keys (rotated) and values in parts, oldest first, the row's own last.
    pub(crate) fn step(
        joined: &[f32],
        position: usize,
        parts: &[(&[f32], &[f32])],
        attention: &Attention,
    ) -> Vec<f32> {
        let (width, side) = (attention.width, attention.groups * attention.width);
        let first = attention.first_seen(position);
        let mut out = vec![0.0; attention.heads * width];
        let mut scores = Vec::with_capacity(position + 1);
        for (head, out) in out.chunks_exact_mut(width).enumerate() {
            let mut query = joined[head * width..(head + 1) * width].to_vec();
            attention.turn(&mut query, position, 1.0);
            let column = head / attention.each() * width;
            let keys = parts.iter().flat_map(|(k, _)| k.chunks_exact(side));
            scores.clear();
            scores.extend(
                keys.skip(first)
                    .map(|k| dot(&query, &k[column..column + width])),
            );
            capped(&mut scores, attention.scale, attention.cap);
            let most = largest(&scores);
            let total = exponentials(&mut scores, most);
            let values = parts.iter().flat_map(|(_, v)| v.chunks_exact(side));
            for (value, p) in values.skip(first).zip(&scores) {
                let value = &value[column..column + width];
                out.iter_mut()
                    .zip(value)
                    .for_each(|(o, v)| *o += p / total * v);
            }
        }
        out
    }
}
