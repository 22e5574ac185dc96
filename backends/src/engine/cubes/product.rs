//! Products in f32 by fused multiply-adds of single threads. The tensor library's own run in TF32 on CUDA, whose
//! mantissa has ten bits: where contributions of a record cancel, a norm made of such products may be far below the
//! length of the share.
//!
//! A group of threads makes a square of the product, each thread a square of that; both inputs come through shared
//! memory in slices of [`DEPTH`]. Every value is the same chain of sums whatever the size of the squares and whatever
//! else is in the batch.

use super::{Cubes, UNITS, bare, floats, room};
use burn::tensor::{DType, Tensor};
use burn_cubecl::CubeRuntime;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Terms of a sum that lie in shared memory at once.
const DEPTH: usize = 16;
/// Sides of a group's square: larger ones are computed faster, smaller ones keep more multiprocessors busy.
const SIDES: [usize; 2] = [64, 128];
/// Relative time of a square of each side; estimated from its reads and sums.
const COSTS: [usize; 2] = [4, 9];
/// Groups at work at once, about the multiprocessors of a card.
const GROUPS: usize = 132;

type Four = Vector<f32, Const<4>>;

/// a b, batch by batch, of at most four dimensions; CUDA's kernels can read four values at once.
pub(in crate::engine) fn product<B: Cubes, const D: usize>(
    a: Tensor<B, D>,
    b: Tensor<B, D>,
    can_read_fours: bool,
) -> Tensor<B, D> {
    floats(multiplied(bare(a), bare(b), can_read_fours))
}

/// How an input lies: its terms one after another or its lines, and whether four of those can be read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Layout {
    along: bool,
    in_fours: bool,
}

/// Strides of an input in a batch of batches: lines are rows of the first and columns of the second, and terms are what
/// the sums go over.
struct Input<R: CubeRuntime> {
    values: CubeTensor<R>,
    outer: usize,
    inner: usize,
    line: usize,
    term: usize,
}

impl<R: CubeRuntime> Input<R> {
    /// As it lies, where lines or terms lie without gaps.
    fn new(values: CubeTensor<R>, terms_are_rows: bool) -> Self {
        let strides: Vec<usize> = values.meta.strides().iter().copied().collect();
        let from_last = |n: usize| strides.len().checked_sub(n).map_or(0, |at| strides[at]);
        let [column, row, inner, outer] = [1, 2, 3, 4].map(from_last);
        if row != 1 && column != 1 {
            return Self::new(into_contiguous(values), terms_are_rows);
        }
        let (line, term) = match terms_are_rows {
            true => (column, row),
            false => (row, column),
        };
        Self {
            values,
            outer,
            inner,
            line,
            term,
        }
    }

    fn layout(&self, can_read_fours: bool) -> Layout {
        let along = self.term == 1;
        let across = if along { self.line } else { self.term };
        let start = self.values.handle.offset_start.unwrap_or(0);
        let steps = [self.outer, self.inner, across];
        Layout {
            along,
            in_fours: can_read_fours
                && start.is_multiple_of(16)
                && steps.iter().all(|step| step.is_multiple_of(4)),
        }
    }
}

fn multiplied<R: CubeRuntime>(
    a: CubeTensor<R>,
    b: CubeTensor<R>,
    can_read_fours: bool,
) -> CubeTensor<R> {
    let mut shape: Vec<usize> = a.meta.shape().iter().copied().collect();
    let of_b: Vec<usize> = b.meta.shape().iter().copied().collect();
    let dimensions = shape.len();
    let [rows, inner] = [shape[dimensions - 2], shape[dimensions - 1]];
    let columns = of_b[dimensions - 1];
    let batch_of = |shape: &[usize]| shape[..dimensions - 2].to_vec();
    assert!(
        dimensions <= 4
            && a.dtype == DType::F32
            && b.dtype == DType::F32
            && of_b[dimensions - 2] == inner
            && batch_of(&shape) == batch_of(&of_b),
        "products of {shape:?} and {of_b:?}"
    );
    let batches: usize = shape[..dimensions - 2].iter().product();
    let second = if dimensions > 2 {
        shape[dimensions - 3]
    } else {
        1
    };
    shape[dimensions - 1] = columns;
    let out = room(&a, &shape, a.dtype);
    // places are numbers of 32 bits
    let values = [rows * inner, inner * columns, rows * columns].map(|each| each * batches);
    assert!(
        values.iter().all(|each| u32::try_from(*each).is_ok()),
        "a matrix of {values:?} values"
    );
    let squares = |side: usize| rows.div_ceil(side) * columns.div_ceil(side) * batches;
    let cost = |i: usize| squares(SIDES[i]).div_ceil(GROUPS) * COSTS[i];
    let side = SIDES[usize::from(cost(1) <= cost(0))];
    let groups = squares(side);
    if groups == 0 {
        return out;
    }
    let (a, b) = (Input::new(a, false), Input::new(b, true));
    let (a_layout, b_layout) = (a.layout(can_read_fours), b.layout(can_read_fours));
    let client = out.client.clone();
    let n = |x: usize| x as u32;
    // SAFETY: rows, columns and terms are compared with the matrices' own before a place is made of them.
    #[expect(unsafe_code, reason = "launches a kernel that checks its own indices")]
    unsafe {
        multiply::launch_unchecked::<R>(
            &client,
            CubeCount::Static(n(groups), 1, 1),
            CubeDim::new_1d(UNITS),
            a.values.into_array_arg(),
            b.values.into_array_arg(),
            out.clone().into_array_arg(),
            n(rows),
            n(columns),
            n(inner),
            n(second),
            n(a.outer),
            n(a.inner),
            n(a.line),
            n(a.term),
            n(b.outer),
            n(b.inner),
            n(b.line),
            n(b.term),
            side,
            a_layout,
            b_layout,
        );
    }
    out
}

#[cube(launch_unchecked)]
fn multiply(
    a: &Array<f32>,
    b: &Array<f32>,
    out: &mut Array<f32>,
    rows: u32,
    columns: u32,
    inner: u32,
    second: u32,
    a_outer: u32,
    a_inner: u32,
    a_line: u32,
    a_term: u32,
    b_outer: u32,
    b_inner: u32,
    b_line: u32,
    b_term: u32,
    #[comptime] side: usize,
    #[comptime] a_layout: Layout,
    #[comptime] b_layout: Layout,
) {
    let rows = rows as usize;
    let columns = columns as usize;
    let inner = inner as usize;
    let (fours, wide, blocks) = comptime!((side / 64, side / 4 + 2, side * DEPTH / 16));

    let down = rows.div_ceil(side);
    let square = CUBE_POS % (down * columns.div_ceil(side));
    let batch = CUBE_POS / (down * columns.div_ceil(side));
    let row = (square % down) * side;
    let column = (square / down) * side;
    let (outer, within) = (batch / second as usize, batch % second as usize);
    let a_start = outer * a_outer as usize + within * a_inner as usize;
    let b_start = outer * b_outer as usize + within * b_inner as usize;
    let (a_line, a_term) = (a_line as usize, a_term as usize);
    let (b_line, b_term) = (b_line as usize, b_term as usize);

    let mut a_slice = SharedMemory::<Four>::new(comptime!(DEPTH * wide));
    let mut b_slice = SharedMemory::<Four>::new(comptime!(DEPTH * wide));
    let mut next = Array::<Four>::new(4usize);
    let mut sums = Array::<Four>::new(comptime!(4 * fours * fours));
    #[unroll]
    for i in 0..comptime!(4 * fours * fours) {
        sums[i] = Four::new(0.0f32);
    }
    let unit = UNIT_POS as usize;
    let (line, last) = (unit / 16, unit % 16);
    // the first threads carry blocks of one input, the next of the other
    let (carries_a, carries_b) = (unit < blocks, unit >= blocks && unit < 2 * blocks);
    let carried = unit % blocks;

    if carries_a {
        read(
            a, &mut next, carried, a_start, row, rows, 0usize, inner, a_line, a_term, side,
            a_layout,
        );
    }
    if carries_b {
        read(
            b, &mut next, carried, b_start, column, columns, 0usize, inner, b_line, b_term, side,
            b_layout,
        );
    }
    for from in range_stepped(0usize, inner, comptime!(DEPTH)) {
        sync_cube();
        if carries_a {
            write(&mut a_slice, &next, carried, side, a_layout);
        }
        if carries_b {
            write(&mut b_slice, &next, carried, side, b_layout);
        }
        sync_cube();
        let after = from + DEPTH;
        if after < inner {
            if carries_a {
                read(
                    a, &mut next, carried, a_start, row, rows, after, inner, a_line, a_term, side,
                    a_layout,
                );
            }
            if carries_b {
                read(
                    b, &mut next, carried, b_start, column, columns, after, inner, b_line, b_term,
                    side, b_layout,
                );
            }
        }
        #[unroll]
        for term in 0..DEPTH {
            let mut own = Array::<Four>::new(fours);
            let mut other = Array::<Four>::new(fours);
            #[unroll]
            for part in 0..fours {
                own[part] = a_slice[term * wide + part * 16 + line];
                other[part] = b_slice[term * wide + part * 16 + last];
            }
            #[unroll]
            for part in 0..fours {
                let x = own[part];
                #[unroll]
                for i in 0..4usize {
                    #[unroll]
                    for across in 0..fours {
                        let at = comptime!((part * 4 + i) * fours + across);
                        sums[at] = fma(Four::new(x[i]), other[across], sums[at]);
                    }
                }
            }
        }
    }
    let start = batch * rows * columns;
    #[unroll]
    for part in 0..fours {
        #[unroll]
        for i in 0..4usize {
            let r = row + part * 64 + line * 4 + i;
            if r < rows {
                #[unroll]
                for across in 0..fours {
                    let four = sums[comptime!((part * 4 + i) * fours + across)];
                    #[unroll]
                    for j in 0..4usize {
                        let c = column + across * 64 + last * 4 + j;
                        if c < columns {
                            out[start + r * columns + c] = four[j];
                        }
                    }
                }
            }
        }
    }
}

/// A block of four lines and four terms, by term: neighbours read along what lies without gaps.
#[cube]
fn read(
    x: &Array<f32>,
    into: &mut Array<Four>,
    block: usize,
    start: usize,
    line: usize,
    lines: usize,
    term: usize,
    terms: usize,
    by_line: usize,
    by_term: usize,
    #[comptime] side: usize,
    #[comptime] layout: Layout,
) {
    let (own_line, own_term) = place(block, side, layout);
    let line = line + own_line * 4;
    let term = term + own_term * 4;
    // asked once more inside, where nothing is compiled for devices that can't
    if comptime!(layout.in_fours) && line + 4 <= lines && term + 4 <= terms {
        if comptime!(layout.in_fours) {
            let all = x
                .to_slice()
                .into_vectorized()
                .with_vector_size::<Const<4>>();
            if comptime!(layout.along) {
                let r0 = all[(start + line * by_line + term) / 4];
                let r1 = all[(start + (line + 1) * by_line + term) / 4];
                let r2 = all[(start + (line + 2) * by_line + term) / 4];
                let r3 = all[(start + (line + 3) * by_line + term) / 4];
                #[unroll]
                for j in 0..4usize {
                    let mut four = Four::new(0.0f32);
                    four[0] = r0[j];
                    four[1] = r1[j];
                    four[2] = r2[j];
                    four[3] = r3[j];
                    into[j] = four;
                }
            } else {
                #[unroll]
                for j in 0..4usize {
                    into[j] = all[(start + line + (term + j) * by_term) / 4];
                }
            }
        }
    } else {
        #[unroll]
        for j in 0..4usize {
            let mut four = Four::new(0.0f32);
            if term + j < terms {
                #[unroll]
                for i in 0..4usize {
                    if line + i < lines {
                        four[i] = x[start + (line + i) * by_line + (term + j) * by_term];
                    }
                }
            }
            into[j] = four;
        }
    }
}

/// Terms of a slice lie by their place in their four, so that neighbours write to different banks.
#[cube]
fn write(
    slice: &mut SharedMemory<Four>,
    from: &Array<Four>,
    block: usize,
    #[comptime] side: usize,
    #[comptime] layout: Layout,
) {
    let (own_line, own_term) = place(block, side, layout);
    #[unroll]
    for j in 0..4usize {
        slice[(j * comptime!(DEPTH / 4) + own_term) * comptime!(side / 4 + 2) + own_line] = from[j];
    }
}

/// Which four lines and which four terms of a slice a block is.
#[cube]
fn place(block: usize, #[comptime] side: usize, #[comptime] layout: Layout) -> (usize, usize) {
    if comptime!(layout.along) {
        (block / comptime!(DEPTH / 4), block % comptime!(DEPTH / 4))
    } else {
        (block % comptime!(side / 4), block / comptime!(side / 4))
    }
}
