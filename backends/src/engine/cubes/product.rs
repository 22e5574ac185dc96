//! Products in f32 by fused multiply-adds of single threads. The tensor library's own products run in TF32 on CUDA,
//! whose mantissa has ten bits: their rounding is 2^13 times that of f32, which bounds of norms assume
//! ([`crate::engine::bound`]).
//!
//! A group of threads computes a tile of the product, each thread four by four values or eight by eight. Slices of both
//! inputs pass through two alternating buffers of shared memory: while one slice is multiplied, the next is loaded from
//! memory into registers. Every value is the same chain of sums whatever the tile and whatever else is in the batch.
//!
//! The loop has no branches: ptxas moves values that a branch has read into other registers before the branch ends, and
//! so waits for them there. Lines beyond the matrix are read as its last line, and their results are not written; terms
//! beyond it count as zero.

use super::{Cubes, bare, floats, packed, room};
use burn::tensor::{DType, Tensor};
use burn_cubecl::CubeRuntime;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// The part of the product that a group of threads computes: rows by columns, whose sums come in slices of `depth`
/// terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    rows: usize,
    columns: usize,
    depth: usize,
    units: usize,
    /// Relative times of each of several tiles on a multiprocessor, and of a tile alone; measured on an H200.
    share: usize,
    alone: usize,
}

/// The larger tile is computed faster, the smaller one keeps more multiprocessors busy. Each thread loads one to four
/// groups of four values of each input's slice.
const TILES: [Tile; 2] = [
    Tile {
        rows: 128,
        columns: 64,
        depth: 16,
        units: 128,
        share: 10,
        alone: 19,
    },
    Tile {
        rows: 64,
        columns: 64,
        depth: 16,
        units: 256,
        share: 6,
        alone: 9,
    },
];

impl Tile {
    fn groups(&self, rows: usize, columns: usize, batches: usize) -> usize {
        rows.div_ceil(self.rows) * columns.div_ceil(self.columns) * batches
    }

    fn time(&self, groups: usize) -> usize {
        (groups.div_ceil(MULTIPROCESSORS) * self.share).max(self.alone)
    }
}

/// The approximate number of multiprocessors of a card.
const MULTIPROCESSORS: usize = 132;

type Four = Vector<f32, Const<4>>;

/// Computes a b, batch by batch, in at most four dimensions, with a bias added to each row. CUDA's kernels can read
/// four values at once.
pub(in crate::engine) fn product<B: Cubes, const D: usize>(
    a: Tensor<B, D>,
    b: Tensor<B, D>,
    bias: Option<Tensor<B, 2>>,
    can_read_fours: bool,
) -> Tensor<B, D> {
    floats(multiplied(
        bare(a),
        bare(b),
        bias.map(packed),
        can_read_fours,
    ))
}

/// The memory layout of an input: whether its terms or its lines are contiguous, and whether four adjacent values can
/// be read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Layout {
    along: bool,
    in_fours: bool,
}

/// An input with its strides in a batch of batches. Lines are rows of the first input and columns of the second; the
/// sums run over terms.
struct Input<R: CubeRuntime> {
    values: CubeTensor<R>,
    outer: usize,
    inner: usize,
    line: usize,
    term: usize,
}

impl<R: CubeRuntime> Input<R> {
    /// Takes the input in its present layout, which needs contiguous lines or terms.
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
            // an allocation contains a whole group of four wherever it contains the first value
            in_fours: can_read_fours
                && start.is_multiple_of(16)
                && steps.iter().all(|step| step.is_multiple_of(4)),
        }
    }
}

fn multiplied<R: CubeRuntime>(
    a: CubeTensor<R>,
    b: CubeTensor<R>,
    bias: Option<CubeTensor<R>>,
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
            && inner > 0
            && bias
                .iter()
                .all(|bias| bias.meta.shape().num_elements() == columns)
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
    // indices are 32-bit numbers
    let values = [rows * inner, inner * columns, rows * columns].map(|each| each * batches);
    assert!(
        values.iter().all(|each| u32::try_from(*each).is_ok()),
        "a matrix of {values:?} values"
    );
    let time = |tile: &Tile| tile.time(tile.groups(rows, columns, batches));
    let [large, small] = TILES;
    let tile = if time(&large) <= time(&small) {
        large
    } else {
        small
    };
    let groups = tile.groups(rows, columns, batches);
    if groups == 0 {
        return out;
    }
    let (a, b) = (Input::new(a, false), Input::new(b, true));
    let (a_layout, b_layout) = (a.layout(can_read_fours), b.layout(can_read_fours));
    let client = out.client.clone();
    let biased = bias.is_some();
    let in_its_place = a.values.clone();
    let n = |x: usize| x as u32;
    // SAFETY: no bias is read where there is none. What is read lies at lines and terms of the matrix or, in fours, in the gap behind its lines; rows and
    // columns are compared with the product's own before a place is made of them.
    #[expect(unsafe_code, reason = "launches a kernel that bounds its own indices")]
    unsafe {
        multiply::launch_unchecked::<R>(
            &client,
            CubeCount::Static(n(groups), 1, 1),
            CubeDim::new_1d(n(tile.units)),
            a.values.into_array_arg(),
            b.values.into_array_arg(),
            bias.unwrap_or(in_its_place).into_array_arg(),
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
            tile,
            a_layout,
            b_layout,
            biased,
        );
    }
    out
}

#[cube(launch_unchecked)]
fn multiply(
    a: &Array<f32>,
    b: &Array<f32>,
    bias: &Array<f32>,
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
    #[comptime] tile: Tile,
    #[comptime] a_layout: Layout,
    #[comptime] b_layout: Layout,
    #[comptime] biased: bool,
) {
    let rows = rows as usize;
    let columns = columns as usize;
    let inner = inner as usize;
    let depth = comptime!(tile.depth);
    let a_part = comptime!(Part::new(tile.rows, tile, a_layout));
    let b_part = comptime!(Part::new(tile.columns, tile, b_layout));
    // a thread's own groups of four rows and of four columns, and the distance between those of columns
    let (down_fours, across_fours) = comptime!((tile.rows / 64, tile.columns * 4 / tile.units));
    let step = comptime!(tile.units / 16);

    let down = rows.div_ceil(tile.rows);
    let place = CUBE_POS % (down * columns.div_ceil(tile.columns));
    let batch = CUBE_POS / (down * columns.div_ceil(tile.columns));
    let row = (place % down) * tile.rows;
    let column = (place / down) * tile.columns;
    let (outer, within) = (batch / second as usize, batch % second as usize);
    let a_start = outer * a_outer as usize + within * a_inner as usize;
    let b_start = outer * b_outer as usize + within * b_inner as usize;
    let (a_line, a_term) = (a_line as usize, a_term as usize);
    let (b_line, b_term) = (b_line as usize, b_term as usize);

    let mut a_slices = SharedMemory::<Four>::new(comptime!(2 * depth * a_part.wide()));
    let mut b_slices = SharedMemory::<Four>::new(comptime!(2 * depth * b_part.wide()));
    let mut a_next = Array::<Four>::new(comptime!(a_part.each));
    let mut b_next = Array::<Four>::new(comptime!(b_part.each));
    let mut sums = Array::<Four>::new(comptime!(4 * down_fours * across_fours));
    #[unroll]
    for i in 0..comptime!(4 * down_fours * across_fours) {
        sums[i] = Four::new(0.0f32);
    }
    // the threads of a warp cover four by eight of the tile's, so that neighbours share what they read
    let (lane, warp) = (UNIT_POS as usize % 32, UNIT_POS as usize / 32);
    let line = (warp % 4) * 4 + lane % 2 + (lane / 16) * 2;
    let last = (warp / 4) * 8 + (lane / 2) % 8;

    read(
        a,
        &mut a_next,
        a_start,
        row,
        rows,
        0usize,
        inner,
        a_line,
        a_term,
        a_part,
    );
    read(
        b,
        &mut b_next,
        b_start,
        column,
        columns,
        0usize,
        inner,
        b_line,
        b_term,
        b_part,
    );
    write(&mut a_slices, 0usize, &a_next, 0usize, inner, a_part);
    write(&mut b_slices, 0usize, &b_next, 0usize, inner, b_part);
    sync_cube();
    let mut turn = 0usize;
    for from in range_stepped(0usize, inner, depth) {
        // beyond the last slice zeros are loaded, and nothing reads them
        let after = from + depth;
        read(
            a,
            &mut a_next,
            a_start,
            row,
            rows,
            after,
            inner,
            a_line,
            a_term,
            a_part,
        );
        read(
            b,
            &mut b_next,
            b_start,
            column,
            columns,
            after,
            inner,
            b_line,
            b_term,
            b_part,
        );
        let a_from = turn * comptime!(depth * a_part.wide()) + line;
        let b_from = turn * comptime!(depth * b_part.wide()) + last;
        #[unroll]
        for term in 0..depth {
            let (a_at, b_at) = comptime!((a_part.row_of(term), b_part.row_of(term)));
            let mut own = Array::<Four>::new(down_fours);
            let mut other = Array::<Four>::new(across_fours);
            #[unroll]
            for part in 0..down_fours {
                own[part] = a_slices[a_from + comptime!(a_at * a_part.wide() + part * 16)];
            }
            #[unroll]
            for part in 0..across_fours {
                other[part] = b_slices[b_from + comptime!(b_at * b_part.wide() + part * step)];
            }
            #[unroll]
            for part in 0..down_fours {
                let x = own[part];
                #[unroll]
                for i in 0..4usize {
                    #[unroll]
                    for across in 0..across_fours {
                        let at = comptime!((part * 4 + i) * across_fours + across);
                        sums[at] = fma(Four::new(x[i]), other[across], sums[at]);
                    }
                }
            }
        }
        turn = 1 - turn;
        let a_into = turn * comptime!(depth * a_part.wide());
        let b_into = turn * comptime!(depth * b_part.wide());
        write(&mut a_slices, a_into, &a_next, after, inner, a_part);
        write(&mut b_slices, b_into, &b_next, after, inner, b_part);
        sync_cube();
    }
    let start = batch * rows * columns;
    #[unroll]
    for part in 0..down_fours {
        #[unroll]
        for i in 0..4usize {
            let r = row + part * 64 + line * 4 + i;
            if r < rows {
                #[unroll]
                for across in 0..across_fours {
                    let four = sums[comptime!((part * 4 + i) * across_fours + across)];
                    #[unroll]
                    for j in 0..4usize {
                        let c = column + (across * step + last) * 4 + j;
                        if c < columns {
                            out[start + r * columns + c] = if comptime!(biased) {
                                four[j] + bias[c]
                            } else {
                                four[j]
                            };
                        }
                    }
                }
            }
        }
    }
}

/// An input's part in a tile: which groups of four values of a slice a thread loads from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Part {
    /// Lines of the tile.
    side: usize,
    depth: usize,
    /// Adjacent terms that a thread loads, with a group of four lines for each.
    each: usize,
    layout: Layout,
}

impl Part {
    fn new(side: usize, tile: Tile, layout: Layout) -> Self {
        Self {
            side,
            depth: tile.depth,
            each: side * tile.depth / 4 / tile.units,
            layout,
        }
    }

    /// Returns the number of groups of four from a row of shared memory to the next. With the gap, threads of a warp
    /// write to different banks.
    fn wide(&self) -> usize {
        self.side / 4 + (8 / self.term_groups()).max(1)
    }

    /// Returns the number of groups of adjacent terms.
    fn term_groups(&self) -> usize {
        self.depth / self.each
    }

    /// Returns the row of shared memory that holds a term of the slice; the first terms of all groups come first.
    fn row_of(&self, term: usize) -> usize {
        term % self.each * self.term_groups() + term / self.each
    }
}

/// Reads four lines of a few terms. Lines and terms beyond the matrix are read as its last.
#[cube]
fn read(
    x: &Array<f32>,
    into: &mut Array<Four>,
    start: usize,
    line: usize,
    lines: usize,
    term: usize,
    terms: usize,
    by_line: usize,
    by_term: usize,
    #[comptime] part: Part,
) {
    let (own_line, own_term) = carried(part);
    let line = line + own_line * 4;
    let term = term + own_term * part.each;
    if comptime!(part.layout.in_fours && part.layout.along && part.each == 4) {
        read_along::<Const<4>>(x, into, start, line, lines, term, terms, by_line, part);
    } else if comptime!(part.layout.in_fours && part.layout.along && part.each == 2) {
        read_along::<Const<2>>(x, into, start, line, lines, term, terms, by_line, part);
    } else {
        #[unroll]
        for j in 0..comptime!(part.each) {
            let start = start + min(term + j, terms - 1) * by_term;
            let mut four = Four::new(0.0f32);
            if comptime!(part.layout.in_fours && !part.layout.along) {
                let all = x
                    .to_slice()
                    .into_vectorized()
                    .with_vector_size::<Const<4>>();
                four = all[start / 4 + min(line / 4, (lines - 1) / 4)];
            } else {
                #[unroll]
                for i in 0..4usize {
                    four[i] = x[start + min(line + i, lines - 1) * by_line];
                }
            }
            into[j] = four;
        }
    }
}

/// Like `read`, by vectors of the terms that a thread loads.
#[cube]
fn read_along<N: Size>(
    x: &Array<f32>,
    into: &mut Array<Four>,
    start: usize,
    line: usize,
    lines: usize,
    term: usize,
    terms: usize,
    by_line: usize,
    #[comptime] part: Part,
) {
    let each = comptime!(part.each);
    let all = x.to_slice().into_vectorized().with_vector_size::<N>();
    let term = min(term, terms - 1) / each;
    let mut own = Array::<Vector<f32, N>>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        own[i] = all[(start + min(line + i, lines - 1) * by_line) / each + term];
    }
    #[unroll]
    for j in 0..each {
        let mut four = Four::new(0.0f32);
        #[unroll]
        for i in 0..4usize {
            let terms = own[i];
            four[i] = terms[j];
        }
        into[j] = four;
    }
}

/// Writes the result of `read` into a slice, with zeros for terms beyond the matrix.
#[cube]
fn write(
    slices: &mut SharedMemory<Four>,
    start: usize,
    from: &Array<Four>,
    term: usize,
    terms: usize,
    #[comptime] part: Part,
) {
    let (own_line, own_term) = carried(part);
    #[unroll]
    for j in 0..comptime!(part.each) {
        let row = j * comptime!(part.term_groups()) + own_term;
        let there = term + own_term * part.each + j < terms;
        slices[start + row * comptime!(part.wide()) + own_line] =
            select(there, from[j], Four::new(0.0f32));
    }
}

/// Returns the group of four lines and the group of terms that a thread loads; neighbouring threads read adjacent
/// values.
#[cube]
fn carried(#[comptime] part: Part) -> (usize, usize) {
    let unit = UNIT_POS as usize;
    let (fours, groups) = comptime!((part.side / 4, part.term_groups()));
    if comptime!(part.layout.along) {
        (unit / groups, unit % groups)
    } else {
        (unit % fours, unit / fours)
    }
}
