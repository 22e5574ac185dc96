//! Matrix products at the full speed of the machine's vector units, whose bits do not depend on how the work is split.
//!
//! Every value of a product is one chain of fused multiply-adds over blocks of [`DEPTH`] terms, added block after
//! block, whatever the surrounding shape and the division of the work. So a row gets the same bits alone and in any
//! batch. Both factors are packed into panels that one pass of the kernel reads in order; a panel of b stays in the
//! first-level cache while all rows of a task are multiplied with it.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use std::cell::RefCell;

/// Terms per block of a sum, such that a panel of b fills half of a first-level cache.
const DEPTH: usize = 256;
/// Rows of a tile.
const ROWS: usize = 6;
/// Vectors across a tile: six times two sums, two values of b and one of a take 15 of 16 registers.
const VECTORS: usize = 2;
/// Widest tile of any machine.
const WIDEST: usize = 32;
/// Most rows of a task, such that their packed block stays in the second-level cache.
const TASK_ROWS: usize = 1020;
/// Tasks per thread, so that a slow core does not hold up the others.
const TASKS_PER_THREAD: usize = 4;
/// Fewest multiplications that are worth a task of their own.
const LEAST_WORK: usize = 1 << 19;

/// A matrix within a slice: element (i, j) at `i * row + j * column`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    data: &'a [f32],
    row: usize,
    column: usize,
}

impl<'a> View<'a> {
    /// Row-major with rows `stride` values apart.
    pub(crate) fn new(data: &'a [f32], stride: usize) -> Self {
        Self {
            data,
            row: stride,
            column: 1,
        }
    }
    /// Exchanges rows and columns.
    pub(crate) fn transposed(self) -> Self {
        Self {
            data: self.data,
            row: self.column,
            column: self.row,
        }
    }
    /// Returns the part that begins at row i, column j.
    pub(crate) fn from(self, i: usize, j: usize) -> Self {
        let start = i * self.row + j * self.column;
        Self {
            data: self.data.get(start..).unwrap_or_default(),
            ..self
        }
    }
}

/// How the old values of the result are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// They are replaced.
    Set,
    /// The product is added to them.
    Add,
}

thread_local! {
    /// Packed factors of this thread's current task.
    static PACKED: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// c (= or +=) a b, in parallel; `shape` is (m, k, n), c is row-major and dense.
pub(crate) fn product(a: View<'_>, b: View<'_>, c: &mut [f32], shape: Shape, store: Store) {
    weighted_product(a, None, b, c, shape, store);
}

/// (m, k, n): a is m × k, b is k × n.
pub(crate) type Shape = (usize, usize, usize);

/// c (= or +=) a diag(w) b: `weights`, if any, has k values. In parallel.
pub(crate) fn weighted_product(
    a: View<'_>,
    weights: Option<&[f32]>,
    b: View<'_>,
    c: &mut [f32],
    (m, k, n): Shape,
    store: Store,
) {
    let (row_blocks, column_blocks) = grid((m, k, n), rayon::current_num_threads());
    let rows = m.div_ceil(row_blocks).next_multiple_of(ROWS).max(1);
    let columns = n.div_ceil(column_blocks).next_multiple_of(WIDEST).max(1);
    let mut tasks = Vec::with_capacity(row_blocks * column_blocks);
    for (i, block) in c[..m * n].chunks_mut((rows * n).max(1)).enumerate() {
        let mut lists: Vec<Vec<&mut [f32]>> = (0..n.div_ceil(columns))
            .map(|_| Vec::with_capacity(rows))
            .collect();
        for line in block.chunks_exact_mut(n) {
            for (list, part) in lists.iter_mut().zip(line.chunks_mut(columns)) {
                list.push(part);
            }
        }
        tasks.extend(lists.into_iter().enumerate().map(|(j, list)| (i, j, list)));
    }
    let run = |(i, j, mut list): (usize, usize, Vec<&mut [f32]>)| {
        let (a, b) = (a.from(i * rows, 0), b.from(0, j * columns));
        here(
            Task {
                a,
                weights,
                b,
                depth: k,
                store,
                last: None,
            },
            &mut list,
        );
    };
    if tasks.len() > 1 {
        tasks.into_par_iter().for_each(run);
    } else {
        tasks.into_iter().for_each(run);
    }
}

/// Returns the number of blocks of rows and of columns: enough for all threads, and split along the dimension where
/// packing the other factor again costs less.
fn grid((m, k, n): Shape, threads: usize) -> (usize, usize) {
    let wanted = (m * k * n / LEAST_WORK).clamp(1, threads * TASKS_PER_THREAD);
    let (mut rows, mut columns) = (m.div_ceil(TASK_ROWS).max(1), 1);
    while rows * columns < wanted {
        let rows_split = m / rows >= 4 * ROWS;
        let columns_split = n / columns >= 2 * WIDEST;
        match (rows_split, columns_split) {
            (true, false) => rows *= 2,
            (false, true) => columns *= 2,
            (true, true) if n * rows < m * columns => rows *= 2,
            (true, true) => columns *= 2,
            (false, false) => break,
        }
    }
    (rows, columns)
}

/// c (= or +=) a b on this thread, with c given by its rows. With `last`, only tiles are computed that reach a column
/// up to `last` + row; the others keep their old values (causal scores, triangles).
pub(crate) fn product_here(
    a: View<'_>,
    b: View<'_>,
    c: &mut [&mut [f32]],
    depth: usize,
    store: Store,
    last: Option<usize>,
) {
    here(
        Task {
            a,
            weights: None,
            b,
            depth,
            store,
            last,
        },
        c,
    );
}

/// Like `product_here`, with a dense result of `columns` columns.
pub(crate) fn dense_here(
    a: View<'_>,
    b: View<'_>,
    c: &mut [f32],
    (m, k, n): Shape,
    store: Store,
    last: Option<usize>,
) {
    let mut rows: Vec<&mut [f32]> = c[..m * n].chunks_exact_mut(n.max(1)).collect();
    product_here(a, b, &mut rows, k, store, last);
}

/// One thread's share of a product.
#[derive(Clone, Copy)]
struct Task<'a> {
    a: View<'a>,
    weights: Option<&'a [f32]>,
    b: View<'a>,
    depth: usize,
    store: Store,
    last: Option<usize>,
}

fn here(task: Task<'_>, c: &mut [&mut [f32]]) {
    if c.is_empty() || c[0].is_empty() {
        return;
    }
    if task.depth == 0 {
        if task.store == Store::Set {
            c.iter_mut().for_each(|row| row.fill(0.0));
        }
        return;
    }
    PACKED.with_borrow_mut(|(a, b)| {
        let most = task.depth.min(DEPTH);
        a.resize(a.len().max(c.len().next_multiple_of(ROWS) * most), 0.0);
        b.resize(b.len().max(WIDEST * most + 16), 0.0);
        pulp::Arch::new().dispatch(Blocks {
            task,
            packed_a: a,
            packed_b: b,
            c,
        });
    });
}

struct Blocks<'a, 'b, 'c> {
    task: Task<'a>,
    packed_a: &'b mut [f32],
    packed_b: &'b mut [f32],
    c: &'b mut [&'c mut [f32]],
}

impl WithSimd for Blocks<'_, '_, '_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            task,
            packed_a,
            packed_b,
            c,
        } = self;
        let width = VECTORS * S::F32_LANES;
        let columns = c[0].len();
        // whole cache lines: a vector that straddles two of them costs two loads
        let aligned = packed_b.as_ptr().align_offset(64).min(16);
        let packed_b = &mut packed_b[aligned..];
        let mut done = 0;
        while done < task.depth {
            let depth = (task.depth - done).min(DEPTH);
            let set = task.store == Store::Set && done == 0;
            pack(task.a.from(0, done), c.len(), depth, packed_a);
            let weights = task.weights.map(|w| &w[done..done + depth]);
            for left in (0..columns).step_by(width) {
                let have = (columns - left).min(width);
                let panel = &mut packed_b[..depth * width];
                pack_panel(
                    task.b.from(done, left).transposed(),
                    have,
                    depth,
                    width,
                    panel,
                );
                if let Some(weights) = weights {
                    for (line, w) in panel.chunks_exact_mut(width).zip(weights) {
                        line.iter_mut().for_each(|x| *x *= w);
                    }
                }
                let (panel, _) = S::as_simd_f32s(panel);
                for (i, rows) in c.chunks_mut(ROWS).enumerate() {
                    if task
                        .last
                        .is_some_and(|last| left > last + i * ROWS + ROWS - 1)
                    {
                        continue;
                    }
                    let a = &packed_a[i * ROWS * depth..(i + 1) * ROWS * depth];
                    let sums = tile(simd, a, panel);
                    put(simd, &sums, rows, left, have, set);
                }
            }
            done += depth;
        }
    }
}

/// Six rows of a times two vectors of columns of b: the innermost loop of everything.
#[inline(always)]
fn tile<S: Simd>(simd: S, a: &[f32], b: &[S::f32s]) -> [[S::f32s; VECTORS]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    for (a, b) in a.chunks_exact(ROWS).zip(b.chunks_exact(VECTORS)) {
        for i in 0..ROWS {
            let x = simd.splat_f32s(a[i]);
            for j in 0..VECTORS {
                sums[i][j] = simd.mul_add_f32s(x, b[j], sums[i][j]);
            }
        }
    }
    sums
}

/// Stores a tile into the columns from `left` on; the last tile of a row may be narrower.
#[inline(always)]
fn put<S: Simd>(
    simd: S,
    sums: &[[S::f32s; VECTORS]; ROWS],
    rows: &mut [&mut [f32]],
    left: usize,
    have: usize,
    set: bool,
) {
    let width = VECTORS * S::F32_LANES;
    for (row, sums) in rows.iter_mut().zip(sums) {
        if have == width {
            let (out, _) = S::as_mut_simd_f32s(&mut row[left..left + width]);
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = if set { *sum } else { simd.add_f32s(*out, *sum) };
            }
        } else {
            let mut line = [0.0f32; WIDEST];
            let (out, _) = S::as_mut_simd_f32s(&mut line[..width]);
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
            for (out, sum) in row[left..left + have].iter_mut().zip(&line) {
                *out = if set { *sum } else { *out + *sum };
            }
        }
    }
}

/// Packs all panels of a block of a: six rows side by side, term after term.
#[inline(always)]
fn pack(a: View<'_>, rows: usize, depth: usize, out: &mut [f32]) {
    let panels = rows.div_ceil(ROWS);
    if a.row == 1 {
        // the rows of a term are adjacent: read each line once, whatever the panels
        for k in 0..depth {
            let line = &a.data[k * a.column..][..rows];
            let whole = line.chunks_exact(ROWS);
            let rest = whole.remainder();
            for (p, six) in whole.enumerate() {
                out[(p * depth + k) * ROWS..][..ROWS].copy_from_slice(six);
            }
            if !rest.is_empty() {
                let last = &mut out[((panels - 1) * depth + k) * ROWS..][..ROWS];
                last.fill(0.0);
                last[..rest.len()].copy_from_slice(rest);
            }
        }
        return;
    }
    for p in 0..panels {
        let have = (rows - p * ROWS).min(ROWS);
        let panel = &mut out[p * ROWS * depth..(p + 1) * ROWS * depth];
        pack_panel(a.from(p * ROWS, 0), have, depth, ROWS, panel);
    }
}

/// Packs one panel: `have` rows of the view, `width` side by side, missing rows filled with zeros.
#[inline(always)]
fn pack_panel(view: View<'_>, have: usize, depth: usize, width: usize, out: &mut [f32]) {
    if have < width {
        out.fill(0.0);
    }
    if view.row == 1 {
        for (k, line) in out.chunks_exact_mut(width).enumerate() {
            line[..have].copy_from_slice(&view.data[k * view.column..][..have]);
        }
    } else if view.column == 1 {
        for s in 0..have {
            let line = &view.data[s * view.row..][..depth];
            for (out, x) in out[s..].iter_mut().step_by(width).zip(line) {
                *out = *x;
            }
        }
    } else {
        for s in 0..have {
            for k in 0..depth {
                out[k * width + s] = view.data[s * view.row + k * view.column];
            }
        }
    }
}

#[cfg(test)]
mod tests;
