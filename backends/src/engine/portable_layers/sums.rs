//! Computes norms and clipped sums from the tape.

use super::*;
use crate::engine::portable::sum_rows;

/// Reshapes N × width to examples × steps × width.
fn steps<B: Floats>(x: &Matrix<B>, (examples, steps): (usize, usize)) -> Tensor<B, 3> {
    let width = x.dims()[1];
    x.clone().reshape([examples, steps, width])
}

fn gram<B: Floats>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    B::product(x.clone(), x.swap_dims(1, 2))
}

/// Partial sums of norms, by parameter.
type Pieces<B> = Vec<(usize, Matrix<B>)>;

/// The gradients of a weight, example by example, if they were computed.
type Own<B> = Option<Tensor<B, 3>>;

fn linear_pieces<B: Floats>(
    tap: &LinearTap<B>,
    shape: (usize, usize),
    out: &mut Pieces<B>,
) -> Own<B> {
    let (a, g) = (steps(&tap.input, shape), steps(&tap.gradient, shape));
    if let Some(bias) = tap.bias {
        out.push((bias, pieces(g.clone().sum_dim(1).powi_scalar(2))));
    }
    let (squares, own) = weight_pieces(a, g);
    out.push((tap.weight, squares));
    own
}

/// Computes ‖aᵀg‖² of each example. If the d p values of the gradient aᵀg are no more than those of a and g, the
/// gradient itself is computed, and the sum needs no second product. Otherwise Gram matrices are used, which are
/// smaller in that case, since T ≤ √(d p) / 2.
fn weight_pieces<B: Floats>(a: Tensor<B, 3>, g: Tensor<B, 3>) -> (Matrix<B>, Own<B>) {
    let [_, t, d] = a.dims();
    let p = g.dims()[2];
    if d * p > t * (d + p) {
        return (pieces(gram(a) * gram(g)), None);
    }
    let own = B::product(a.swap_dims(1, 2), g);
    (pieces(own.clone().powi_scalar(2)), Some(own))
}

/// Σ_i factor_i · gradient_i.
fn weighted<B: Floats>(factors: Tensor<B, 3>, own: Tensor<B, 3>) -> Matrix<B> {
    let [_, rows, columns] = own.dims();
    (own * factors).sum_dim(0).reshape([rows, columns])
}

fn norm_pieces<B: Floats>(tap: &NormTap<B>, shape: (usize, usize), out: &mut Pieces<B>) {
    let g = steps(&tap.gradient, shape);
    let product = g.clone() * steps(&tap.unit, shape);
    let [examples, steps, columns] = product.dims();
    // Heads that share a gain are rows of it.
    let by_head = product.reshape([examples, steps * tap.heads, columns / tap.heads]);
    out.push((tap.gain, pieces(by_head.sum_dim(1).powi_scalar(2))));
    if let Some(bias) = tap.bias {
        out.push((bias, pieces(g.sum_dim(1).powi_scalar(2))));
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
    let mut out: Pieces<B> = Vec::new();
    let linears = tape.linears.iter();
    let mut own: Vec<Own<B>> = linears
        .map(|tap| linear_pieces(tap, shape, &mut out))
        .collect();
    for tap in &tape.norms {
        norm_pieces(tap, shape, &mut out);
    }
    if let Some(ends) = &tape.ends {
        own.push(end_pieces(ends, rows, shape, &mut out));
    }
    Norms {
        on_device: own,
        ..read(out, rows.spans.len(), parameters)
    }
}

/// Computes the norms of embeddings and head, including the product of both gradients if they share a matrix.
fn end_pieces<B: Floats>(
    Ends { embedding, head }: &Ends<B>,
    rows: &Rows,
    shape: (usize, usize),
    out: &mut Pieces<B>,
) -> Own<B> {
    let (token, scale) = (embedding.token, embedding.scale);
    let g = steps(&embedding.gradient, shape);
    let device = embedding.gradient.device();
    let alike = same::<B>(&rows.inputs, shape, &device);
    out.push((token, pieces(alike * gram(g.clone()) * (scale * scale))));
    if let Some(position) = embedding.position {
        out.push((
            position,
            match rows.share_positions() {
                false => pieces(g.clone().powi_scalar(2)),
                true => pieces(same::<B>(&rows.positions, shape, &device) * gram(g.clone())),
            },
        ));
    }
    if let Some(types) = embedding.types {
        out.push((types, pieces(g.clone().sum_dim(1).powi_scalar(2))));
    }
    let delta = head.delta.as_ref();
    let delta = delta.expect("norms need the head's gradient");
    let (h, delta) = (steps(&head.hidden, shape), steps(delta, shape));
    if let Some(bias) = head.bias {
        out.push((bias, pieces(delta.clone().sum_dim(1).powi_scalar(2))));
    }
    if head.tied {
        out.push((token, cross_pieces(&h, &delta, g * scale, rows, shape)));
    }
    let (squares, own) = match head.tied {
        true => weight_pieces(delta, h),
        false => weight_pieces(h, delta),
    };
    out.push((head.weight, squares));
    own
}

/// 2 Σ_{t,s} δ[t, x_s] ⟨h_t, e_s⟩ of each example.
fn cross_pieces<B: Floats>(
    hidden: &Tensor<B, 3>,
    delta: &Tensor<B, 3>,
    embedded: Tensor<B, 3>,
    rows: &Rows,
    (examples, steps): (usize, usize),
) -> Matrix<B> {
    let device = hidden.device();
    let index = inputs::<B>(rows, &device)
        .reshape([examples, 1, steps])
        .repeat_dim(1, steps);
    let chosen = delta.clone().gather(2, index);
    let inner = B::product(hidden.clone(), embedded.swap_dims(1, 2));
    pieces(chosen * inner * 2.0)
}

/// Adds the pieces of each parameter in f64, with one transfer for all.
fn read<B: Floats>(out: Pieces<B>, examples: usize, parameters: usize) -> Norms<B> {
    let widths: Vec<(usize, usize)> = out.iter().map(|(p, x)| (*p, x.dims()[1])).collect();
    let total: usize = widths.iter().map(|(_, w)| w).sum();
    let values = host(Tensor::cat(out.into_iter().map(|(_, x)| x).collect(), 1));
    let mut norms = Norms::new(parameters, 0, examples);
    for (example, line) in values.chunks_exact(total).take(examples).enumerate() {
        let mut at = 0;
        for &(parameter, width) in &widths {
            let sum: f64 = line[at..at + width].iter().map(|x| f64::from(*x)).sum();
            norms.squared[parameter][example] += sum;
            at += width;
        }
    }
    norms.settle();
    norms
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
