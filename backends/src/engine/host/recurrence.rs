//! The LSTM recurrence over packed rows: gates in the order input, forget, candidate, output.

use super::activation::{sigmoid, tanh};
use super::product::{add_product_of_few_rows, transposed};
use super::split_rows;
use super::vector::wide;
use crate::engine::packed::{Group, Packed};
use rayon::prelude::*;

/// The values that the forward pass keeps for the backward pass, all row-major over the packed rows.
#[derive(Debug, Clone)]
pub(crate) struct Forward {
    /// Activated gates, N × 4H.
    pub(crate) gates: Vec<f32>,
    /// Cell states, N × H.
    pub(crate) cell: Vec<f32>,
    /// Hidden states, N × H.
    pub(crate) hidden: Vec<f32>,
}

wide! {
    /// One step of independent states: from rows of z (input part) and old (h, c) to new (h, c).
    pub(crate) fn advance(
        z: &mut [f32],
        recurrent: &[f32],
        old: (&[f32], &[f32]),
        new: (&mut [f32], &mut [f32]),
        width: usize,
    ) {
        let (h, c) = old;
        add_product_of_few_rows(h, recurrent, z, (h.len() / width, width, 4 * width));
        let rows = z.chunks_exact_mut(4 * width).zip(c.chunks_exact(width));
        let out = new
            .0
            .chunks_exact_mut(width)
            .zip(new.1.chunks_exact_mut(width));
        for ((z, old), (h, c)) in rows.zip(out) {
            cell(z, Some(old), c, h);
        }
    }
}

/// Runs the recurrence. `z` (N × 4H) holds the input's contribution with the bias; `recurrent` is H × 4H.
pub(crate) fn forward(z: Vec<f32>, recurrent: &[f32], width: usize, packed: &Packed) -> Forward {
    let rows = packed.rows();
    let mut run = Forward {
        gates: z,
        cell: vec![0.0; rows * width],
        hidden: vec![0.0; rows * width],
    };
    let gates = split_rows(&mut run.gates, packed, 4 * width);
    let cells = split_rows(&mut run.cell, packed, width);
    let hiddens = split_rows(&mut run.hidden, packed, width);
    packed
        .groups
        .par_iter()
        .zip(gates)
        .zip(cells)
        .zip(hiddens)
        .for_each(|(((group, z), c), h)| {
            forward_group(group, z, c, h, recurrent, width);
        });
    run
}

wide! {
    fn forward_group(
        group: &Group,
        z: &mut [f32],
        c: &mut [f32],
        h: &mut [f32],
        recurrent: &[f32],
        width: usize,
    ) {
        let mut row = 0;
        let mut previous_row = 0;
        for (t, &n) in group.active.iter().enumerate() {
            let (before, now) = h.split_at_mut(row * width);
            let (c_before, c_now) = c.split_at_mut(row * width);
            let z = &mut z[row * 4 * width..(row + n) * 4 * width];
            let previous = (t > 0).then(|| {
                let range = previous_row * width..(previous_row + n) * width;
                (&before[range.clone()], &c_before[range])
            });
            if let Some((h_previous, _)) = previous {
                add_product_of_few_rows(h_previous, recurrent, z, (n, width, 4 * width));
            }
            for lane in 0..n {
                let old = previous.map(|(_, c)| &c[lane * width..(lane + 1) * width]);
                let lanes = lane * width..(lane + 1) * width;
                cell(
                    &mut z[lane * 4 * width..(lane + 1) * 4 * width],
                    old,
                    &mut c_now[lanes.clone()],
                    &mut now[lanes],
                );
            }
            previous_row = row;
            row += n;
        }
    }
}

/// One LSTM cell: activates the gates in place and writes the new cell and hidden state.
#[inline(always)]
pub(crate) fn cell(z: &mut [f32], old: Option<&[f32]>, c: &mut [f32], h: &mut [f32]) {
    let width = c.len();
    let (i, rest) = z.split_at_mut(width);
    let (f, rest) = rest.split_at_mut(width);
    let (g, o) = rest.split_at_mut(width);
    for gate in [&mut *i, &mut *f, &mut *o] {
        for x in gate {
            *x = sigmoid(*x);
        }
    }
    for x in &mut *g {
        *x = tanh(*x);
    }
    for ((c, i), g) in c.iter_mut().zip(&*i).zip(&*g) {
        *c = i * g;
    }
    if let Some(old) = old {
        for ((c, f), old) in c.iter_mut().zip(&*f).zip(old) {
            *c += f * old;
        }
    }
    for ((h, o), c) in h.iter_mut().zip(&*o).zip(&*c) {
        *h = o * tanh(*c);
    }
}

/// dL/dz (N × 4H) from dL/dh (N × H); the gradient of the gates before activation.
pub(crate) fn backward(
    run: &Forward,
    d_hidden: Vec<f32>,
    recurrent: &[f32],
    width: usize,
    packed: &Packed,
) -> Vec<f32> {
    let back = transposed(recurrent, width, 4 * width);
    let mut d_hidden = d_hidden;
    let mut d_gates = vec![0.0; packed.rows() * 4 * width];
    let d_h = split_rows(&mut d_hidden, packed, width);
    let d_z = split_rows(&mut d_gates, packed, 4 * width);
    packed
        .groups
        .par_iter()
        .zip(d_h)
        .zip(d_z)
        .for_each(|((group, d_h), d_z)| {
            backward_group(group, run, d_h, d_z, &back, width);
        });
    d_gates
}

wide! {
    fn backward_group(
        group: &Group,
        run: &Forward,
        d_h: &mut [f32],
        d_z: &mut [f32],
        back: &[f32],
        width: usize,
    ) {
        let starts: Vec<usize> = group
            .active
            .iter()
            .scan(0, |row, n| {
                let start = *row;
                *row += n;
                Some(start)
            })
            .collect();
        let lanes = group.active.first().copied().unwrap_or(0);
        let mut d_cell = vec![0.0f32; lanes * width];
        for (t, &n) in group.active.iter().enumerate().rev() {
            let row = starts[t];
            if let Some(&next) = group.active.get(t + 1) {
                let from = &d_z[starts[t + 1] * 4 * width..(starts[t + 1] + next) * 4 * width];
                add_product_of_few_rows(
                    from,
                    back,
                    &mut d_h[row * width..(row + next) * width],
                    (next, 4 * width, width),
                );
            }
            for lane in 0..n {
                let here = group.first_row + row + lane;
                let before = (t > 0).then(|| group.first_row + starts[t - 1] + lane);
                cell_backward(
                    &run.gates[here * 4 * width..(here + 1) * 4 * width],
                    &run.cell[here * width..(here + 1) * width],
                    before.map(|b| &run.cell[b * width..(b + 1) * width]),
                    &d_h[(row + lane) * width..(row + lane + 1) * width],
                    &mut d_cell[lane * width..(lane + 1) * width],
                    &mut d_z[(row + lane) * 4 * width..(row + lane + 1) * 4 * width],
                );
            }
        }
    }
}

/// One cell backwards. `d_cell` enters as dL/dc from the next step and leaves as dL/dc for the previous one.
#[inline(always)]
pub(crate) fn cell_backward(
    gates: &[f32],
    cell: &[f32],
    before: Option<&[f32]>,
    d_h: &[f32],
    d_cell: &mut [f32],
    d_z: &mut [f32],
) {
    let width = cell.len();
    let (gi, rest) = gates.split_at(width);
    let (gf, rest) = rest.split_at(width);
    let (gg, go) = rest.split_at(width);
    let (di, rest) = d_z.split_at_mut(width);
    let (df, rest) = rest.split_at_mut(width);
    let (dg, d_o) = rest.split_at_mut(width);
    for k in 0..width {
        let squashed = tanh(cell[k]);
        d_o[k] = d_h[k] * squashed * go[k] * (1.0 - go[k]);
        let d = d_cell[k] + d_h[k] * go[k] * (1.0 - squashed * squashed);
        di[k] = d * gg[k] * gi[k] * (1.0 - gi[k]);
        dg[k] = d * gi[k] * (1.0 - gg[k] * gg[k]);
        df[k] = before.map_or(0.0, |c| d * c[k] * gf[k] * (1.0 - gf[k]));
        d_cell[k] = d * gf[k];
    }
}
