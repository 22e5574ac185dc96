//! Computes norms and clipped sums from the tape.

use super::*;
use crate::engine::bound::{Measured, rounding_of_rows};
use crate::engine::host::examples::{Lengths, Tied, exact_norm, table_norm};
use crate::engine::portable::{
    Term, Terms, gram, gram_terms, lengthened, measured, rounding_of_products, row_lengths,
    sum_rows, sum_terms, total,
};
use burn::tensor::IndexingUpdateOp;

/// Reshapes N × width to examples × steps × width.
fn steps<B: Floats>(x: &Matrix<B>, (examples, steps): (usize, usize)) -> Tensor<B, 3> {
    let width = x.dims()[1];
    x.clone().reshape([examples, steps, width])
}

/// The gradients of a weight, example by example, if they were computed.
type Own<B> = Option<Tensor<B, 3>>;

/// S of a sum of rows in f32 that is measured as it is added: both round.
fn computed(steps: usize) -> Term {
    Term::Spread {
        slack: 2.0 * rounding_of_rows(steps),
        second: 0.0,
    }
}

/// ‖Σ_t g_t‖², from the lengths of the rows.
fn bias_terms<B: Floats>(
    parameter: usize,
    g: Tensor<B, 3>,
    lengths: Tensor<B, 3>,
    out: &mut Terms<B>,
) {
    let steps = g.dims()[1];
    out.push((parameter, computed(steps), total(lengths)));
    out.push((
        parameter,
        Term::Squared,
        pieces(g.sum_dim(1).powi_scalar(2)),
    ));
}

fn linear_terms<B: Floats>(
    tap: &LinearTap<B>,
    shape: (usize, usize),
    out: &mut Terms<B>,
) -> Own<B> {
    let (a, g) = (steps(&tap.input, shape), steps(&tap.gradient, shape));
    let (own, lengths) = weight_terms(tap.weight, a, g.clone(), out);
    if let Some(bias) = tap.bias {
        bias_terms(bias, g, lengths, out);
    }
    own
}

/// Computes ‖aᵀg‖² of each example, and the lengths of g's rows. If the d p values of the gradient aᵀg are no more than
/// those of a and g, the gradient itself is computed, and the sum needs no second product. Otherwise Gram matrices are
/// used, which are smaller in that case, since T ≤ √(d p) / 2.
fn weight_terms<B: Floats>(
    parameter: usize,
    a: Tensor<B, 3>,
    g: Tensor<B, 3>,
    out: &mut Terms<B>,
) -> (Own<B>, Tensor<B, 3>) {
    let [_, t, d] = a.dims();
    let p = g.dims()[2];
    if d * p > t * (d + p) {
        let roundings = [d, p].map(rounding_of_products);
        let lengths = gram_terms(parameter, [gram(a), gram(g)], roundings, out);
        return (None, lengths);
    }
    let (own, lengths) = own_terms(parameter, a, g, out);
    out.push((parameter, Term::Squared, pieces(own.clone().powi_scalar(2))));
    (Some(own), lengths)
}

/// Computes aᵀg of each example, S, and the lengths of g's rows.
fn own_terms<B: Floats>(
    parameter: usize,
    a: Tensor<B, 3>,
    g: Tensor<B, 3>,
    out: &mut Terms<B>,
) -> (Tensor<B, 3>, Tensor<B, 3>) {
    let lengths = row_lengths(g.clone());
    let spread = total(row_lengths(a.clone()) * lengths.clone());
    out.push((parameter, computed(a.dims()[1]), spread));
    (B::product(a.swap_dims(1, 2), g), lengths)
}

/// Σ_i factor_i · gradient_i.
fn weighted<B: Floats>(factors: Tensor<B, 3>, own: Tensor<B, 3>) -> Matrix<B> {
    let [_, rows, columns] = own.dims();
    (own * factors).sum_dim(0).reshape([rows, columns])
}

fn norm_terms<B: Floats>(tap: &NormTap<B>, shape: (usize, usize), out: &mut Terms<B>) {
    let g = steps(&tap.gradient, shape);
    let product = g.clone() * steps(&tap.unit, shape);
    let [examples, steps, columns] = product.dims();
    // Heads that share a gain are rows of it.
    let by_head = product.reshape([examples, steps * tap.heads, columns / tap.heads]);
    bias_terms(tap.gain, by_head.clone(), row_lengths(by_head), out);
    if let Some(bias) = tap.bias {
        bias_terms(bias, g.clone(), row_lengths(g), out);
    }
}

/// Returns [x_s = x_t] for the rows of each example, by the tokens that they read.
fn same<B: Floats>(read: &[u32], shape: (usize, usize), device: &B::Device) -> Tensor<B, 3> {
    let (examples, steps) = shape;
    let tokens: Vec<f32> = read.iter().map(|t| *t as f32).collect();
    let tokens: Tensor<B, 3> = upload(tokens, [examples, steps, 1], device);
    let across = tokens.clone().swap_dims(1, 2).repeat_dim(1, steps);
    tokens.repeat_dim(2, steps).equal(across).float()
}

pub(in crate::engine) fn norms<B: Floats>(
    tape: &Tape<B>,
    rows: &Rows,
    parameters: usize,
) -> Norms<B> {
    let shape = grid(rows);
    let mut out = Terms::new();
    let linears = tape.linears.iter();
    let mut own: Vec<Own<B>> = linears
        .map(|tap| linear_terms(tap, shape, &mut out))
        .collect();
    for tap in &tape.norms {
        norm_terms(tap, shape, &mut out);
    }
    if let Some(ends) = &tape.ends {
        own.push(end_terms(ends, rows, shape, &mut out));
    }
    let examples = rows.spans.len();
    let mut norms = Norms::new(parameters, 0, examples);
    for (parameter, all) in measured(out, examples, parameters).into_iter().enumerate() {
        for (example, found) in all.into_iter().enumerate() {
            let found = match found.doubtful() {
                true => measured_again(tape, rows, parameter, example).unwrap_or(found),
                false => found,
            };
            norms.squared[parameter][example] = found.bound();
        }
    }
    norms.on_device = own;
    norms
}

/// Measures an example's gradient of a weight or a table on the host, with products in f64.
fn measured_again<B: Floats>(
    tape: &Tape<B>,
    rows: &Rows,
    parameter: usize,
    example: usize,
) -> Option<Measured> {
    let span = rows.spans[example];
    let own = |x: &Matrix<B>| host(x.clone().narrow(0, span.start, span.length));
    let weight = |a: &Matrix<B>, g: &Matrix<B>| {
        let shape = (span.length, a.dims()[1], g.dims()[1]);
        let (a, g) = (own(a), own(g));
        exact_norm(&a, &g, &Lengths::of(&a, &g, shape), shape)
    };
    let mut linears = tape.linears.iter();
    if let Some(tap) = linears.find(|tap| tap.weight == parameter) {
        return Some(weight(&tap.input, &tap.gradient));
    }
    let Ends { embedding, head } = tape.ends.as_ref()?;
    let d = embedding.gradient.dims()[1];
    let tokens = &rows.inputs[span.range()];
    let scale = f64::from(embedding.scale);
    if head.weight == parameter {
        let delta = head.delta.as_ref()?;
        if !head.tied {
            return Some(weight(&head.hidden, delta));
        }
        let v = delta.dims()[1];
        let (delta, hidden) = (own(delta), own(&head.hidden));
        let lengths = Lengths::of(&delta, &hidden, (span.length, v, d));
        let tied = Tied {
            delta: &delta,
            hidden: &hidden,
            lengths: &lengths,
            tokens,
            embedded: &own(&embedding.gradient),
            scale,
            sizes: (d, v),
        };
        return Some(tied.exact_norm());
    }
    let table = |places: &[u32]| table_norm(places, &own(&embedding.gradient), d);
    match parameter {
        _ if parameter == embedding.token => Some(table(tokens).scaled(scale)),
        _ if Some(parameter) == embedding.position => Some(table(&rows.positions[span.range()])),
        _ => None,
    }
}

/// ‖Σ_{t: x_t = v} g_t‖² summed over the rows v of a table.
fn table_terms<B: Floats>(
    parameter: usize,
    alike: Tensor<B, 3>,
    g: Tensor<B, 3>,
    out: &mut Terms<B>,
) {
    let [_, steps, width] = g.dims();
    let lengths = row_lengths(g.clone());
    let table = Term::Table {
        doubt: rounding_of_products(width),
        slack: rounding_of_rows(steps),
    };
    let spread = lengthened(alike.clone(), [lengths.clone(), lengths]);
    out.push((parameter, table, spread));
    sum_terms(parameter, alike * gram(g), out);
}

/// Computes the norms of embeddings and head, including the product of both gradients if they share a matrix.
fn end_terms<B: Floats>(
    Ends { embedding, head }: &Ends<B>,
    rows: &Rows,
    shape: (usize, usize),
    out: &mut Terms<B>,
) -> Own<B> {
    let token = embedding.token;
    let g = steps(&embedding.gradient, shape);
    let scaled = g.clone() * embedding.scale;
    let device = embedding.gradient.device();
    let alike = || same::<B>(&rows.inputs, shape, &device);
    if let Some(position) = embedding.position {
        match rows.share_positions() {
            false => out.push((position, Term::Squared, pieces(g.clone().powi_scalar(2)))),
            true => {
                let alike = same::<B>(&rows.positions, shape, &device);
                table_terms(position, alike, g.clone(), out);
            }
        }
    }
    if let Some(types) = embedding.types {
        bias_terms(types, g.clone(), row_lengths(g), out);
    }
    let delta = head.delta.as_ref();
    let delta = delta.expect("norms need the head's gradient");
    let (h, delta) = (steps(&head.hidden, shape), steps(delta, shape));
    if let Some(bias) = head.bias {
        bias_terms(bias, delta.clone(), row_lengths(delta.clone()), out);
    }
    if !head.tied {
        table_terms(token, alike(), scaled, out);
        return weight_terms(head.weight, h, delta, out).0;
    }
    let [_, t, d] = h.dims();
    let v = delta.dims()[2];
    if d * v > t * (d + v) {
        table_terms(token, alike(), scaled.clone(), out);
        cross_terms(token, [&h, &delta, &scaled], rows, shape, out);
        return weight_terms(token, delta, h, out).0;
    }
    // the whole gradient, of embedding and head
    let (own, _) = own_terms(token, delta, h, out);
    out.push((token, computed(t), total(row_lengths(scaled.clone()))));
    let examples = shape.0;
    let first = (0..examples).flat_map(|example| std::iter::repeat_n((example * v) as u32, t));
    let index: Vec<u32> = first
        .zip(&rows.inputs)
        .map(|(f, token)| f + token)
        .collect();
    let whole = own.clone().reshape([examples * v, d]).select_assign(
        0,
        indices::<B>(&index, &device),
        scaled.reshape([examples * t, d]),
        IndexingUpdateOp::Add,
    );
    let whole: Tensor<B, 3> = whole.reshape([examples, v, d]);
    out.push((token, Term::Squared, pieces(whole.powi_scalar(2))));
    Some(own)
}

/// 2 Σ_{t,s} δ[t, x_s] ⟨h_t, e_s⟩ of each example.
fn cross_terms<B: Floats>(
    token: usize,
    [hidden, delta, embedded]: [&Tensor<B, 3>; 3],
    rows: &Rows,
    (examples, steps): (usize, usize),
    out: &mut Terms<B>,
) {
    let device = hidden.device();
    let index = inputs::<B>(rows, &device)
        .reshape([examples, 1, steps])
        .repeat_dim(1, steps);
    let chosen = delta.clone().gather(2, index);
    let lengths = [hidden, embedded].map(|x| row_lengths(x.clone()));
    let doubt = Term::Doubt(2.0 * rounding_of_products(hidden.dims()[2]));
    out.push((token, doubt, lengthened(chosen.clone(), lengths)));
    let inner = B::product(hidden.clone(), embedded.clone().swap_dims(1, 2));
    sum_terms(token, chosen * inner * 2.0, out);
}

pub(in crate::engine) fn add_sums<B: Floats>(
    tape: Tape<B>,
    own: Vec<Own<B>>,
    factors: &Factors,
    rows: &Rows,
    sums: &mut Sums<B>,
) {
    let Some(device) = tape.device() else { return };
    let by_group: Vec<Matrix<B>> = factors
        .by_group
        .iter()
        .map(|f| upload(rows.spread(f, 0.0), [rows.len(), 1], &device))
        .collect();
    let factor = |parameter: usize| by_group[factors.group_of[parameter]].clone();
    // the rows of an example share one factor
    let (examples, length) = grid(rows);
    let of_examples = |parameter: usize| {
        let rows = factor(parameter).reshape([examples, length, 1]);
        rows.narrow(1, 0, 1)
    };
    let mut own = own.into_iter();
    for tap in tape.linears {
        if let Some(bias) = tap.bias {
            sums.add(bias, sum_rows(tap.gradient.clone() * factor(bias)));
        }
        let sum = match own.next().flatten() {
            Some(own) => weighted(of_examples(tap.weight), own),
            None => B::product(tap.input.transpose(), tap.gradient * factor(tap.weight)),
        };
        sums.add(tap.weight, sum);
    }
    for tap in tape.norms {
        if let Some(bias) = tap.bias {
            sums.add(bias, sum_rows(tap.gradient.clone() * factor(bias)));
        }
        let product = tap.unit * tap.gradient * factor(tap.gain);
        let [rows, columns] = product.dims();
        let by_head = product.reshape([rows * tap.heads, columns / tap.heads]);
        sums.add(tap.gain, sum_rows(by_head));
    }
    let Some(Ends { embedding, head }) = tape.ends else {
        return;
    };
    let at = embedding.position_rows(rows);
    let g = embedding.gradient;
    let tokens = g.clone() * factor(embedding.token) * embedding.scale;
    let index = inputs::<B>(rows, &device);
    sums.add_rows(embedding.token, index, &rows.inputs, tokens);
    if let Some(position) = embedding.position {
        let index = positions::<B>(rows, embedding.offset, &device);
        sums.add_rows(position, index, &at, g.clone() * factor(position));
    }
    if let Some(types) = embedding.types {
        let index = indices::<B>(&[0], &device);
        sums.add_rows(types, index, &[0], sum_rows(g * factor(types)));
    }
    if let Some(delta) = head.delta {
        if let Some(bias) = head.bias {
            sums.add(bias, sum_rows(delta.clone() * factor(bias)));
        }
        let sum = match own.next().flatten() {
            Some(own) => weighted(of_examples(head.weight), own),
            None => head_sum(head.hidden, delta * factor(head.weight), head.tied),
        };
        sums.add(head.weight, sum);
    }
}
