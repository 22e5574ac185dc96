//! The kernels in tensor operations of any backend, also used to check the processor's own kernels.

use super::bound::{FLOOR, Measured, rounding, rounding_of_rows};
use super::host::contraction::{InputWeight, LstmRows, lstm_norms};
use super::kernels::{GROUP, GROUPS, Recurrence, Taps, Weights};
use super::layers::{Floats, Sums};
use super::packed::{NO_LOSS, Packed};
use crate::privacy::clip::Factors;
use crate::trainer::Precision;
use crate::trainer::optimizer::{AdamRule, BETA1, BETA2};
use burn::tensor::activation::{log_softmax, sigmoid};
use burn::tensor::backend::Backend;
use burn::tensor::{DType, FloatDType, IndexingUpdateOp, Int, Tensor};
use reticent_corpus::TokenId;
use std::cell::OnceCell;

pub(super) use super::transfers::{host, indices, upload};

/// Longest row that a device may sum by itself; longer ones are summed in pieces, which the host adds in f64.
pub(super) const DEVICE_SUM: usize = 1024;

pub(super) fn lookup<B: Backend>(table: Tensor<B, 2>, index: &[u32]) -> Tensor<B, 2> {
    let device = table.device();
    table.select(0, indices(index, &device))
}

/// Returns whether a device supports this precision.
pub(super) fn computes_in<B: Backend>(precision: Precision, device: &B::Device) -> bool {
    precision == Precision::Single || B::supports_dtype(device, DType::BF16)
}

/// a b as training passes compute it; norms and sums have their own products, in f32.
pub(super) fn product<B: Floats, const D: usize>(
    a: Tensor<B, D>,
    b: Tensor<B, D>,
    precision: Precision,
) -> Tensor<B, D> {
    match precision {
        Precision::Single => B::product(a, b),
        Precision::Bf16 => {
            let half = |x: Tensor<B, D>| x.cast(FloatDType::BF16);
            half(a).matmul(half(b)).cast(FloatDType::F32)
        }
    }
}

/// a b with a bias, 1 × p, added to each row.
pub(super) fn product_plus<B: Floats>(
    a: Tensor<B, 2>,
    b: Tensor<B, 2>,
    bias: Tensor<B, 2>,
    precision: Precision,
) -> Tensor<B, 2> {
    match precision {
        Precision::Single => B::product_plus(a, b, bias),
        Precision::Bf16 => product(a, b, precision) + bias,
    }
}

pub(super) fn linear<B: Floats>(
    x: Tensor<B, 2>,
    w: Tensor<B, 2>,
    b: Tensor<B, 1>,
    precision: Precision,
) -> Tensor<B, 2> {
    product_plus(x, w, b.unsqueeze(), precision)
}

pub(super) fn linear_backward<B: Floats>(
    dy: Tensor<B, 2>,
    w: Tensor<B, 2>,
    precision: Precision,
) -> Tensor<B, 2> {
    product(dy, w.transpose(), precision)
}

fn columns<B: Backend>(x: &Tensor<B, 2>, from: usize, width: usize) -> Tensor<B, 2> {
    x.clone().narrow(1, from, width)
}

fn activate<B: Backend>(z: Tensor<B, 2>) -> Tensor<B, 2> {
    let width = z.dims()[1] / 4;
    let first = sigmoid(columns(&z, 0, 2 * width));
    let candidate = columns(&z, 2 * width, width).tanh();
    let output = sigmoid(columns(&z, 3 * width, width));
    Tensor::cat(vec![first, candidate, output], 1)
}

fn advance<B: Backend>(
    gates: &Tensor<B, 2>,
    old: Option<Tensor<B, 2>>,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let width = gates.dims()[1] / 4;
    let gate = |k: usize| columns(gates, k * width, width);
    let mut cell = gate(0) * gate(2);
    if let Some(old) = old {
        cell = cell + gate(1) * old;
    }
    let hidden = gate(3) * cell.clone().tanh();
    (hidden, cell)
}

pub(super) fn cell<B: Floats>(
    z: Tensor<B, 2>,
    recurrent: Tensor<B, 2>,
    hidden: Tensor<B, 2>,
    cell: Tensor<B, 2>,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    advance(&activate(z + B::product(hidden, recurrent)), Some(cell))
}

pub(super) fn recurrence<B: Floats>(
    z: Tensor<B, 2>,
    recurrent: Tensor<B, 2>,
    packed: &Packed,
    precision: Precision,
) -> Recurrence<B> {
    let (mut gates, mut cells, mut hiddens) = (Vec::new(), Vec::new(), Vec::new());
    for group in &packed.groups {
        let mut row = group.first_row;
        let mut previous: Option<(Tensor<B, 2>, Tensor<B, 2>)> = None;
        for &n in &group.active {
            let mut here = z.clone().narrow(0, row, n);
            let old = previous.map(|(h, c)| (h.narrow(0, 0, n), c.narrow(0, 0, n)));
            if let Some((h, _)) = &old {
                here = here + product(h.clone(), recurrent.clone(), precision);
            }
            let here = activate(here);
            let (h, c) = advance(&here, old.map(|(_, c)| c));
            gates.push(here);
            cells.push(c.clone());
            hiddens.push(h.clone());
            previous = Some((h, c));
            row += n;
        }
    }
    Recurrence {
        gates: Tensor::cat(gates, 0),
        cell: Tensor::cat(cells, 0),
        hidden: Tensor::cat(hiddens, 0),
    }
}

/// Appends zero rows, so that states of examples that ended earlier stay aligned.
fn grow<B: Backend>(x: Tensor<B, 2>, rows: usize) -> Tensor<B, 2> {
    let [have, width] = x.dims();
    if have == rows {
        return x;
    }
    let device = x.device();
    Tensor::cat(vec![x, Tensor::zeros([rows - have, width], &device)], 0)
}

pub(super) fn recurrence_backward<B: Floats>(
    run: Recurrence<B>,
    d_hidden: Tensor<B, 2>,
    recurrent: Tensor<B, 2>,
    packed: &Packed,
    precision: Precision,
) -> Tensor<B, 2> {
    let width = run.cell.dims()[1];
    let back = recurrent.transpose();
    let mut parts = Vec::new();
    for group in &packed.groups {
        let mut steps = Vec::new();
        let mut next: Option<(Tensor<B, 2>, Tensor<B, 2>)> = None; // (dL/dz, dL/dc) of the step after
        let mut row = group.first_row + group.rows();
        for (t, &n) in group.active.iter().enumerate().rev() {
            row -= n;
            let gates = run.gates.clone().narrow(0, row, n);
            let gate = |k: usize| columns(&gates, k * width, width);
            let squashed = run.cell.clone().narrow(0, row, n).tanh();
            let mut d_h = d_hidden.clone().narrow(0, row, n);
            let carried = next.take().map(|(d_z, d_c)| {
                d_h = d_h.clone() + grow(product(d_z, back.clone(), precision), n);
                grow(d_c, n)
            });
            let d_o = d_h.clone() * squashed.clone() * gate(3) * (-gate(3) + 1.0);
            let mut d = d_h * gate(3) * (-squashed.powi_scalar(2) + 1.0);
            if let Some(carried) = carried {
                d = d + carried;
            }
            let d_i = d.clone() * gate(2) * gate(0) * (-gate(0) + 1.0);
            let d_g = d.clone() * gate(0) * (-gate(2).powi_scalar(2) + 1.0);
            let d_f = if t == 0 {
                d.zeros_like()
            } else {
                let before = run.cell.clone().narrow(0, row - group.active[t - 1], n);
                d.clone() * before * gate(1) * (-gate(1) + 1.0)
            };
            let d_z = Tensor::cat(vec![d_i, d_f, d_g, d_o], 1);
            steps.push(d_z.clone());
            next = Some((d_z, d * gate(1)));
        }
        parts.extend(steps.into_iter().rev());
    }
    Tensor::cat(parts, 0)
}

/// c tanh(x / c).
pub(super) fn capped<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    cap: Option<f32>,
) -> Tensor<B, D> {
    match cap {
        Some(c) => (x / c).tanh() * c,
        None => x,
    }
}

/// [`Floats::cross_entropy`].
pub(super) fn cross_entropy<B: Backend>(
    logits: Tensor<B, 2>,
    targets: &[TokenId],
    cap: Option<f32>,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let device = logits.device();
    let rows = logits.dims()[0];
    let logits = capped(logits, cap);
    let log_p = log_softmax(logits.clone(), 1);
    // a row without loss looks up an arbitrary token, and is then multiplied by zero
    let known: Vec<TokenId> = targets
        .iter()
        .map(|t| if *t == NO_LOSS { 0 } else { *t })
        .collect();
    let counts = targets.iter().map(|t| f32::from(u8::from(*t != NO_LOSS)));
    let counts: Tensor<B, 2> = upload(counts.collect(), [rows, 1], &device);
    let index = indices::<B>(&known, &device).reshape([rows, 1]);
    let nll = -log_p.clone().gather(1, index.clone()) * counts.clone();
    let delta = log_p.exp() * counts.clone();
    let delta = delta.scatter(1, index, -counts, IndexingUpdateOp::Add);
    let delta = match cap {
        Some(c) => delta * (-(logits / c).powi_scalar(2) + 1.0),
        None => delta,
    };
    (nll, delta)
}

/// [`Floats::largest`].
pub(super) fn largest<B: Backend>(tensors: &[Tensor<B, 2>]) -> Vec<f32> {
    // a value that is not finite times zero is NaN, and so is a sum with it
    let each = tensors
        .iter()
        .map(|x| x.clone().abs().max() + (x.clone() * 0.0).sum());
    let each: Vec<Tensor<B, 1>> = each.collect();
    if each.is_empty() {
        return Vec::new();
    }
    host(Tensor::cat(each, 0))
}

/// [`Floats::adam`].
pub(super) fn adam<B: Backend>(
    [w, m, v, g]: [Tensor<B, 2>; 4],
    rule: &AdamRule,
) -> [Tensor<B, 2>; 3] {
    let (b1, b2) = (BETA1 as f32, BETA2 as f32);
    let m = m * b1 + g.clone() * (1.0 - b1);
    let v = v * b2 + g.clone() * (1.0 - b2) * g;
    let w = w * rule.keep - m.clone() * rule.rate / (v.clone().sqrt() + rule.epsilon);
    [w, m, v]
}

/// The sum of a matrix's rows, in blocks: a device uses one thread for each column of each block.
pub(super) fn sum_rows<B: Backend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
    let [rows, columns] = x.dims();
    let block = 1 << rows.max(1).trailing_zeros().div_ceil(2);
    if block == 1 {
        return x.sum_dim(0);
    }
    let blocks = x.reshape([rows / block, block, columns]).sum_dim(1);
    blocks.reshape([rows / block, columns]).sum_dim(0)
}

/// Returns each row's value on the host.
pub(super) fn losses<B: Backend>(nll: Tensor<B, 2>) -> Vec<f64> {
    host(nll).into_iter().map(f64::from).collect()
}

/// Rows of each example, padded with a zero row, as examples × longest × width.
fn padded<B: Backend>(x: Tensor<B, 2>, index: &Tensor<B, 1, Int>, examples: usize) -> Tensor<B, 3> {
    let [rows, width] = x.dims();
    let longest = index.dims()[0] / examples;
    grow(x, rows + 1)
        .select(0, index.clone())
        .reshape([examples, longest, width])
}

/// x xᵀ of each example.
pub(super) fn gram<B: Floats>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    B::product(x.clone(), x.swap_dims(1, 2))
}

/// ρ of a product's values, in whatever order a device sums them.
pub(super) fn rounding_of_products(width: usize) -> f64 {
    rounding(width + 8)
}

/// What partial sums of an example are part of, see [`Measured`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Term {
    /// ‖G‖².
    Squared,
    /// This times the sum is a part of D.
    Doubt(f64),
    /// The sum is S: `slack` times it is a part of R, `second` times its square one of D.
    Spread { slack: f64, second: f64 },
    /// The sum is Q = Σ_v (Σ_{t: x_t = v} ‖g_t‖)²: `doubt` times it is a part of D, `slack` times its root one of R.
    Table { doubt: f64, slack: f64 },
}

/// Partial sums of parameters, or of groups: examples × pieces.
pub(super) type Terms<B> = Vec<(usize, Term, Tensor<B, 2>)>;

/// Adds partial sums in f64, with one transfer for all; returns what was measured by parameter and example.
pub(super) fn measured<B: Backend>(
    terms: Terms<B>,
    examples: usize,
    parameters: usize,
) -> Vec<Vec<Measured>> {
    let widths = terms.iter().map(|(p, term, x)| (*p, *term, x.dims()[1]));
    let widths: Vec<(usize, Term, usize)> = widths.collect();
    let total: usize = widths.iter().map(|(.., width)| width).sum();
    let values = host(Tensor::cat(terms.into_iter().map(|(.., x)| x).collect(), 1));
    let mut out = vec![vec![Measured::default(); examples]; parameters];
    for (example, line) in values.chunks_exact(total).take(examples).enumerate() {
        let mut at = 0;
        for &(parameter, term, width) in &widths {
            let sum: f64 = line[at..at + width].iter().map(|x| f64::from(*x)).sum();
            let into = &mut out[parameter][example];
            match term {
                Term::Squared => into.squared += sum,
                Term::Doubt(factor) => into.doubt += factor * sum,
                Term::Spread { slack, second } => {
                    into.slack += slack * sum;
                    into.doubt += second * sum * sum;
                }
                Term::Table { doubt, slack } => {
                    into.doubt += doubt * sum;
                    into.slack += slack * sum.sqrt();
                }
            }
            at += width;
        }
    }
    out
}

/// ‖x_t‖ of each row, and a little more: examples × steps × 1.
pub(super) fn row_lengths<B: Backend>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    x.powi_scalar(2).sum_dim(2).sqrt() + FLOOR
}

/// The same from the diagonals of x xᵀ.
pub(super) fn lengths_of_gram<B: Backend>(gram: Tensor<B, 3>) -> Tensor<B, 3> {
    let [_, steps, _] = gram.dims();
    let diagonal = Tensor::<B, 2>::eye(steps, &gram.device()).unsqueeze::<3>();
    (gram * diagonal).sum_dim(2).sqrt() + FLOOR
}

/// |x| times the lengths of both rows: its sum tells D.
pub(super) fn lengthened<B: Backend>(x: Tensor<B, 3>, lengths: [Tensor<B, 3>; 2]) -> Tensor<B, 2> {
    let [of_rows, of_columns] = lengths;
    pieces(x.abs() * of_rows * of_columns.swap_dims(1, 2))
}

/// Sums of lengths.
pub(super) fn total<B: Backend>(lengths: Tensor<B, 3>) -> Tensor<B, 2> {
    pieces(lengths.swap_dims(1, 2))
}

/// ‖aᵀg‖² from a aᵀ and g gᵀ, whose values have these ρ; returns the lengths of g's rows.
pub(super) fn gram_terms<B: Floats>(
    parameter: usize,
    [a, g]: [Tensor<B, 3>; 2],
    [of_a, of_g]: [f64; 2],
    out: &mut Terms<B>,
) -> Tensor<B, 3> {
    let steps = a.dims()[1];
    let lengths = [lengths_of_gram(a.clone()), lengths_of_gram(g.clone())];
    let [long_a, long_g] = lengths.clone();
    let twice = |x: &Tensor<B, 3>| [x.clone(), x.clone()];
    let spread = Term::Spread {
        slack: rounding_of_rows(steps),
        second: of_a * of_g,
    };
    sum_terms(parameter, a.clone() * g.clone(), out);
    out.extend([
        (parameter, Term::Doubt(of_a), lengthened(g, twice(&long_a))),
        (parameter, Term::Doubt(of_g), lengthened(a, twice(&long_g))),
        (parameter, spread, total(long_a * long_g.clone())),
    ]);
    long_g
}

/// A part of ‖G‖² that is the sum of x, which a device rounds.
pub(super) fn sum_terms<B: Backend>(parameter: usize, x: Tensor<B, 3>, out: &mut Terms<B>) {
    let rounded = Term::Doubt(rounding_of_products(DEVICE_SUM));
    out.push((parameter, rounded, pieces(x.clone().abs())));
    out.push((parameter, Term::Squared, pieces(x)));
}

/// Partial sums, examples × pieces, each of at most [`DEVICE_SUM`] terms: the host adds them in f64.
pub(super) fn pieces<B: Backend>(x: Tensor<B, 3>) -> Tensor<B, 2> {
    let [examples, lines, width] = x.dims();
    if width > DEVICE_SUM {
        let whole = width / DEVICE_SUM * DEVICE_SUM;
        let first = x.clone().narrow(2, 0, whole);
        let first = pieces(first.reshape([examples, lines * whole / DEVICE_SUM, DEVICE_SUM]));
        if whole == width {
            return first;
        }
        return Tensor::cat(vec![first, pieces(x.narrow(2, whole, width - whole))], 1);
    }
    x.sum_dim(2).reshape([examples, lines])
}

fn previous_hidden<B: Backend>(hidden: Tensor<B, 2>, packed: &Packed) -> Tensor<B, 2> {
    let rows = packed.rows();
    let index = packed.kept.once("previous", 0, || {
        indices::<B>(&previous_rows(packed), &hidden.device())
    });
    grow(hidden, rows + 1).select(0, index)
}

/// The index of the preceding row of each row, or one beyond all rows.
fn previous_rows(packed: &Packed) -> Vec<u32> {
    let rows = packed.rows();
    let mut index = vec![rows as u32; rows];
    for group in &packed.groups {
        for lane in 0..group.examples.len() {
            let own: Vec<usize> = group.rows_of(lane).collect();
            own.windows(2)
                .for_each(|pair| index[pair[1]] = pair[0] as u32);
        }
    }
    index
}

/// The input token of each row, on the device.
fn inputs<B: Backend>(packed: &Packed, device: &B::Device) -> Tensor<B, 1, Int> {
    packed
        .kept
        .once("inputs", 0, || indices::<B>(&packed.inputs, device))
}

/// Embedded tokens as the layer read them, and dL/d(embedding) row by row from dL/dz.
fn embedded<B: Floats>(
    taps: &Taps<B>,
    d_gates: Tensor<B, 2>,
    weights: &Weights<B>,
    packed: &Packed,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    // in f32 whatever the precision of the passes: the norm and the sum must contract the same values
    let d = linear_backward(d_gates, weights.input.clone(), Precision::Single);
    match &taps.embedded {
        Some(dropped) => (dropped.values.clone(), d * dropped.factors.clone()),
        None => {
            let table = weights.embedding.clone();
            let index = inputs::<B>(packed, &table.device());
            (table.select(0, index), d)
        }
    }
}

pub(super) fn squared_norms<B: Floats>(
    taps: &Taps<B>,
    weights: &Weights<B>,
    packed: &Packed,
) -> Vec<f64> {
    let device = taps.hidden.device();
    let examples = packed.slots;
    let longest = packed
        .groups
        .iter()
        .map(|g| g.active.len())
        .max()
        .unwrap_or(0);
    let mut rows = vec![packed.rows() as u32; examples * longest];
    let mut tokens = vec![-1.0f32; examples * longest];
    for group in &packed.groups {
        for (lane, &example) in group.examples.iter().enumerate() {
            for (t, row) in group.rows_of(lane).enumerate() {
                rows[example * longest + t] = row as u32;
                tokens[example * longest + t] = packed.inputs[row] as f32;
            }
        }
    }
    let index = indices::<B>(&rows, &device);
    let pad = |x: Tensor<B, 2>| padded(x, &index, examples);
    let (embedded, d_embedded) = embedded(taps, taps.d_gates.clone(), weights, packed);
    let before = previous_hidden(taps.hidden.clone(), packed);
    let ([e, gates], [h, vocabulary]) = (weights.input.dims(), weights.head.dims());
    let mut terms = Terms::new();
    let inputs = gram(pad(embedded.clone())) + gram(pad(before.clone())) + 1.0;
    let roundings = [e + h, gates].map(rounding_of_products);
    let d_gates = gram(pad(taps.d_gates.clone()));
    let lengths = gram_terms(1, [inputs, d_gates], roundings, &mut terms);
    let head = gram(pad(taps.read().clone())) + 1.0;
    let roundings = [h, vocabulary].map(rounding_of_products);
    let d_logits = gram(pad(taps.d_logits.clone()));
    gram_terms(2, [head, d_logits], roundings, &mut terms);
    let tokens: Tensor<B, 3> = upload(tokens, [examples, longest, 1], &device);
    let same = tokens
        .clone()
        .repeat_dim(2, longest)
        .equal(tokens.swap_dims(1, 2).repeat_dim(1, longest))
        .float();
    let d_embedded = gram(pad(d_embedded));
    let of_rows = lengths_of_gram(d_embedded.clone());
    let table = Term::Table {
        doubt: rounding_of_products(e),
        slack: 0.0,
    };
    terms.push((
        0,
        table,
        lengthened(same.clone(), [of_rows.clone(), of_rows]),
    ));
    sum_terms(0, same * d_embedded, &mut terms);
    // as on the host: the rows are products with the input weight, and dropped
    let weight = weights.input.clone().powi_scalar(2).sum().sqrt();
    let weight = match &taps.embedded {
        Some(dropped) => weight * dropped.factors.clone().max(),
        None => weight,
    };
    let spread = Term::Spread {
        slack: 2.0 * rounding_of_rows(longest + gates),
        second: 0.0,
    };
    let longer = total(lengths) * weight.reshape([1, 1]);
    terms.push((0, spread, longer));
    let found = measured(terms, packed.examples, GROUPS);
    // Downloaded and measured once, where a record needs it.
    let values = OnceCell::new();
    let input = OnceCell::new();
    let mut norms = Vec::with_capacity(packed.examples * GROUPS);
    for example in 0..packed.examples {
        let own: [Measured; GROUPS] = std::array::from_fn(|group| found[group][example]);
        if !own.iter().any(Measured::doubtful) {
            norms.extend(own.map(|m| m.bound()));
            continue;
        }
        let own = rows[example * longest..][..longest].iter();
        let own: Vec<u32> = own
            .filter(|r| (**r as usize) < packed.rows())
            .copied()
            .collect();
        let index = indices::<B>(&own, &device);
        let here = |x: &Tensor<B, 2>| host(x.clone().select(0, index.clone()));
        let tokens: Vec<TokenId> = own.iter().map(|r| packed.inputs[*r as usize]).collect();
        let factors = taps.embedded.as_ref().map(|x| here(&x.factors));
        let here_again = LstmRows {
            tokens: &tokens,
            x: &here(&embedded),
            factors: factors.as_deref(),
            before: &here(&before),
            read: &here(taps.read()),
            d_gates: &here(&taps.d_gates),
            d_logits: &here(&taps.d_logits),
        };
        let input = input
            .get_or_init(|| InputWeight::new(values.get_or_init(|| host(weights.input.clone()))));
        norms.extend(lstm_norms(&here_again, input, (e, h, vocabulary)));
    }
    norms
}

pub(super) fn add_weighted_sums<B: Floats>(
    taps: Taps<B>,
    weights: &Weights<B>,
    factors: &Factors,
    packed: &Packed,
    sums: &mut Sums<B>,
) {
    let device = taps.hidden.device();
    let factor = |group: usize| -> Tensor<B, 2> {
        let rows = packed.example.iter();
        // an unused example of a grid adds nothing
        let own = |e: u32| match (e as usize) < packed.examples {
            true => factors.of(e as usize, group),
            false => 0.0,
        };
        let per_row: Vec<f32> = rows.map(|e| own(*e)).collect();
        upload(per_row, [packed.rows(), 1], &device)
    };
    let by_group: Vec<Tensor<B, 2>> = (0..GROUPS).map(factor).collect();
    let scaled = taps.d_gates.clone() * by_group[GROUP[0]].clone();
    let (embedded, d_embedded) = embedded(&taps, scaled, weights, packed);
    let read = taps.read().clone();
    let d_gates = taps.d_gates * by_group[GROUP[1]].clone();
    let d_logits = taps.d_logits * by_group[GROUP[4]].clone();
    sums.add_rows(0, inputs::<B>(packed, &device), &packed.inputs, d_embedded);
    let previous = previous_hidden(taps.hidden, packed);
    sums.add(1, B::product(embedded.transpose(), d_gates.clone()));
    sums.add(2, B::product(previous.transpose(), d_gates.clone()));
    sums.add(3, sum_rows(d_gates));
    sums.add(4, B::product(read.transpose(), d_logits.clone()));
    sums.add(5, sum_rows(d_logits));
}
