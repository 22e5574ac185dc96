//! Transformer layers in tensor operations of any backend, on grids of examples × steps.
//!
//! Unused rows stand at the end of each example: nothing before them looks at them, and they
//! predict nothing, so the gradient of their every value is zero.

use super::host::attention::Attention;
use super::layers::{
    Attended, EmbeddingTap, Factors, Floats, HeadRun, HeadWeights, LinearTap, Matrix, Nonlinearity,
    NormTap, NormWeights, Normalised, Norms, Sums, Tape,
};
use super::portable::{DEVICE_SUM, host, indices};
use super::rows::{NOTHING, Rows};
use crate::model::Activation;
use crate::trainer::Parameter;
use burn::tensor::activation::{log_softmax, sigmoid, softmax};
use burn::tensor::{Bool, Tensor, TensorData};

/// Rows of logits at once.
const HEAD_ROWS: usize = 512;

pub(super) fn zeros<B: Floats>(parameters: &[Parameter], device: &B::Device) -> Sums<B> {
    let matrix = |p: &Parameter| match p.shape[..] {
        [rows, columns] => Tensor::zeros([rows, columns], device),
        _ => Tensor::zeros([1, p.len()], device),
    };
    Sums::Device(parameters.iter().map(matrix).collect())
}

pub(super) fn linear<B: Floats>(x: &Matrix<B>, w: &Matrix<B>, b: Option<&Matrix<B>>) -> Matrix<B> {
    let product = x.clone().matmul(w.clone());
    match b {
        Some(b) => product + b.clone(),
        None => product,
    }
}

pub(super) fn linear_back<B: Floats>(dy: &Matrix<B>, w: &Matrix<B>) -> Matrix<B> {
    dy.clone().matmul(w.clone().transpose())
}

fn capped<B: Floats, const D: usize>(x: Tensor<B, D>, cap: Option<f32>) -> Tensor<B, D> {
    match cap {
        Some(c) => (x / c).tanh() * c,
        None => x,
    }
}

pub(super) fn logits<B: Floats>(hidden: &Matrix<B>, head: &HeadWeights<B>) -> Matrix<B> {
    let w = head.matrix.clone();
    let w = if head.tied { w.transpose() } else { w };
    capped(hidden.clone().matmul(w), head.cap)
}

fn gain<B: Floats>(weights: &NormWeights<B>) -> Matrix<B> {
    if weights.normal.plus_one {
        weights.gain.clone() + 1.0
    } else {
        weights.gain.clone()
    }
}

pub(super) fn normalise<B: Floats>(x: &Matrix<B>, weights: &NormWeights<B>) -> Normalised<B> {
    let x = x.clone();
    let x = if weights.normal.centred {
        x.clone() - x.mean_dim(1)
    } else {
        x
    };
    let variance = x.clone().powi_scalar(2).mean_dim(1);
    let scale = (variance + weights.normal.epsilon).sqrt().recip();
    let unit = x * scale.clone();
    let y = unit.clone() * gain(weights);
    let y = match &weights.bias {
        Some(bias) => y + bias.clone(),
        None => y,
    };
    Normalised { y, unit, scale }
}

pub(super) fn normalise_back<B: Floats>(
    dy: &Matrix<B>,
    kept: &Normalised<B>,
    weights: &NormWeights<B>,
) -> Matrix<B> {
    let d = dy.clone() * gain(weights);
    let along = (d.clone() * kept.unit.clone()).mean_dim(1);
    let d = if weights.normal.centred {
        d.clone() - d.mean_dim(1)
    } else {
        d
    };
    (d - kept.unit.clone() * along) * kept.scale.clone()
}

/// Queries, keys and values as examples × heads × steps × width, and the mask of what is unseen.
struct Heads<B: Floats> {
    query: Tensor<B, 4>,
    key: Tensor<B, 4>,
    value: Tensor<B, 4>,
    unseen: Tensor<B, 4, Bool>,
    turns: Option<[Tensor<B, 4>; 2]>,
}

/// Examples and steps of a grid.
fn grid(rows: &Rows) -> (usize, usize) {
    let grid = rows.grid.expect("portable layers work on grids");
    (grid.examples, grid.steps)
}

/// A column range of N × columns as examples × heads × steps × width.
fn split<B: Floats>(
    joined: &Matrix<B>,
    (examples, steps): (usize, usize),
    from: usize,
    heads: usize,
    width: usize,
) -> Tensor<B, 4> {
    joined
        .clone()
        .narrow(1, from, heads * width)
        .reshape([examples, steps, heads, width])
        .swap_dims(1, 2)
}

/// The reverse of [`split`].
fn join<B: Floats>(x: Tensor<B, 4>) -> Matrix<B> {
    let [examples, heads, steps, width] = x.dims();
    x.swap_dims(1, 2).reshape([examples * steps, heads * width])
}

/// Each key-value head as often as query heads share it.
fn repeat<B: Floats>(x: Tensor<B, 4>, each: usize) -> Tensor<B, 4> {
    if each == 1 {
        return x;
    }
    let [examples, groups, steps, width] = x.dims();
    x.reshape([examples, groups, 1, steps, width])
        .repeat_dim(2, each)
        .reshape([examples, groups * each, steps, width])
}

/// The reverse of [`repeat`]: sums over the query heads that share one.
fn gather<B: Floats>(x: Tensor<B, 4>, each: usize) -> Tensor<B, 4> {
    if each == 1 {
        return x;
    }
    let [examples, heads, steps, width] = x.dims();
    x.reshape([examples, heads / each, each, steps, width])
        .sum_dim(2)
        .reshape([examples, heads / each, steps, width])
}

fn turn<B: Floats>(x: Tensor<B, 4>, turns: Option<&[Tensor<B, 4>; 2]>, sign: f32) -> Tensor<B, 4> {
    let Some([cosine, sine]) = turns else {
        return x;
    };
    let half = x.dims()[3] / 2;
    let (low, high) = (x.clone().narrow(3, 0, half), x.narrow(3, half, half));
    let sine = sine.clone() * sign;
    Tensor::cat(
        vec![
            low.clone() * cosine.clone() - high.clone() * sine.clone(),
            high * cosine.clone() + low * sine,
        ],
        3,
    )
}

fn heads<B: Floats>(joined: &Matrix<B>, rows: &Rows, attention: &Attention) -> Heads<B> {
    let device = joined.device();
    let shape = grid(rows);
    let (examples, steps) = shape;
    let (width, each) = (attention.width, attention.each());
    let turns = attention.turns.as_ref().map(|turns| {
        let half = width / 2;
        [0, 1].map(|part| {
            let values: Vec<f32> = turns[..steps * half].iter().map(|t| t[part]).collect();
            Tensor::from_data(TensorData::new(values, [1, 1, steps, half]), &device)
        })
    });
    let (queries, keys) = (attention.heads * width, attention.groups * width);
    let query = split(joined, shape, 0, attention.heads, width);
    let key = split(joined, shape, queries, attention.groups, width);
    let value = split(joined, shape, queries + keys, attention.groups, width);
    // causal masks are the same for all examples; otherwise unused rows must not be looked at
    let lines = if attention.causal { 1 } else { examples };
    let mut unseen = vec![false; lines * steps * steps];
    for (i, unseen) in unseen.chunks_exact_mut((steps * steps).max(1)).enumerate() {
        let length = rows.spans.get(i).map_or(1, |s| s.length);
        for (row, line) in unseen.chunks_exact_mut(steps).enumerate() {
            for (other, cell) in line.iter_mut().enumerate() {
                let later = attention.causal && other > row;
                let gone = attention.window.is_some_and(|w| row >= other + w);
                *cell = later || gone || (!attention.causal && other >= length);
            }
        }
    }
    let unseen = Tensor::from_data(TensorData::new(unseen, [lines, 1, steps, steps]), &device);
    Heads {
        query: turn(query, turns.as_ref(), 1.0),
        key: repeat(turn(key, turns.as_ref(), 1.0), each),
        value: repeat(value, each),
        unseen,
        turns,
    }
}

/// Capped scores and probabilities.
fn probabilities<B: Floats>(
    heads: &Heads<B>,
    attention: &Attention,
) -> (Tensor<B, 4>, Tensor<B, 4>) {
    let product = heads
        .query
        .clone()
        .matmul(heads.key.clone().swap_dims(2, 3));
    let scores = capped(product * attention.scale, attention.cap);
    let shown = scores.dims();
    let unseen = heads.unseen.clone().expand(shown);
    let p = softmax(scores.clone().mask_fill(unseen, -1e30), 3);
    (scores, p)
}

pub(super) fn attend<B: Floats>(
    joined: &Matrix<B>,
    rows: &Rows,
    attention: &Attention,
) -> Attended<B> {
    let heads = heads(joined, rows, attention);
    let (_, p) = probabilities(&heads, attention);
    Attended {
        out: join(p.matmul(heads.value)),
        normalisers: None,
    }
}

pub(super) fn attend_back<B: Floats>(
    d_out: &Matrix<B>,
    joined: &Matrix<B>,
    kept: &Attended<B>,
    rows: &Rows,
    attention: &Attention,
) -> Matrix<B> {
    let shape = grid(rows);
    let (width, each) = (attention.width, attention.each());
    let heads = heads(joined, rows, attention);
    let (scores, p) = probabilities(&heads, attention);
    let d = split(d_out, shape, 0, attention.heads, width);
    let out = split(&kept.out, shape, 0, attention.heads, width);
    let along = (d.clone() * out).sum_dim(3);
    let d_value = p.clone().swap_dims(2, 3).matmul(d.clone());
    let d_p = d.matmul(heads.value.swap_dims(2, 3));
    let mut d_score = p * (d_p - along) * attention.scale;
    if let Some(c) = attention.cap {
        d_score = d_score * (-(scores / c).powi_scalar(2) + 1.0);
    }
    let d_key = d_score.clone().swap_dims(2, 3).matmul(heads.query);
    let d_query = d_score.matmul(heads.key);
    let turns = heads.turns.as_ref();
    Tensor::cat(
        vec![
            join(turn(d_query, turns, -1.0)),
            join(turn(gather(d_key, each), turns, -1.0)),
            join(gather(d_value, each)),
        ],
        1,
    )
}

/// The activation of z and its derivative.
fn activation<B: Floats>(z: Matrix<B>, kind: Activation) -> (Matrix<B>, Matrix<B>) {
    match kind {
        Activation::GeluTanh => {
            let root = (2.0 / std::f32::consts::PI).sqrt();
            let inner = (z.clone() + z.clone().powi_scalar(3) * 0.044_715) * root;
            let t = inner.tanh();
            let slope = (z.clone().powi_scalar(2) * (3.0 * 0.044_715) + 1.0) * root;
            let half = (t.clone() + 1.0) * 0.5;
            let bend = z.clone() * (-t.powi_scalar(2) + 1.0) * slope * 0.5;
            (z * half.clone(), half + bend)
        }
        Activation::Gelu => {
            let cdf = ((z.clone() * std::f32::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
            let density = (z.clone().powi_scalar(2) * -0.5).exp() * 0.398_942_3;
            (z.clone() * cdf.clone(), cdf + z * density)
        }
        Activation::Silu => {
            let s = sigmoid(z.clone());
            let slope = s.clone() * (z.clone() * (-s.clone() + 1.0) + 1.0);
            (z * s, slope)
        }
        Activation::Relu => {
            let positive = z.clone().greater_elem(0.0).float();
            (z * positive.clone(), positive)
        }
    }
}

pub(super) fn activate<B: Floats>(z: &Matrix<B>, shape: Nonlinearity) -> Matrix<B> {
    if !shape.gated {
        return activation(z.clone(), shape.kind).0;
    }
    let gate = z.clone().narrow(1, 0, shape.width);
    let up = z.clone().narrow(1, shape.width, shape.width);
    activation(gate, shape.kind).0 * up
}

pub(super) fn activate_back<B: Floats>(
    d_out: &Matrix<B>,
    z: &Matrix<B>,
    shape: Nonlinearity,
) -> Matrix<B> {
    if !shape.gated {
        return d_out.clone() * activation(z.clone(), shape.kind).1;
    }
    let gate = z.clone().narrow(1, 0, shape.width);
    let up = z.clone().narrow(1, shape.width, shape.width);
    let (value, slope) = activation(gate, shape.kind);
    Tensor::cat(vec![d_out.clone() * up * slope, d_out.clone() * value], 1)
}

pub(super) fn head<B: Floats>(
    hidden: &Matrix<B>,
    head: &HeadWeights<B>,
    rows: &Rows,
    mut sum: Option<(&mut Sums<B>, usize, f32)>,
) -> HeadRun<B> {
    let (mut nll, mut d_hidden, mut deltas) = (Vec::new(), Vec::new(), Vec::new());
    for start in (0..rows.len()).step_by(HEAD_ROWS) {
        let count = (rows.len() - start).min(HEAD_ROWS);
        let h = hidden.clone().narrow(0, start, count);
        let (block_nll, delta) = cross_entropy(&h, head, &rows.targets[start..start + count]);
        let w = head.matrix.clone();
        let back = if head.tied { w } else { w.transpose() };
        d_hidden.push(delta.clone().matmul(back));
        nll.push(block_nll);
        match &mut sum {
            None => deltas.push(delta),
            Some((sums, parameter, factor)) => {
                sums.add(*parameter, head_sum(h, delta * *factor, head.tied));
            }
        }
    }
    let nll: Vec<f64> = host(Tensor::cat(nll, 0))
        .into_iter()
        .map(f64::from)
        .collect();
    HeadRun {
        nll,
        d_hidden: Tensor::cat(d_hidden, 0),
        delta: sum.is_none().then(|| Tensor::cat(deltas, 0)),
    }
}

fn head_sum<B: Floats>(hidden: Matrix<B>, delta: Matrix<B>, tied: bool) -> Matrix<B> {
    if tied {
        delta.transpose().matmul(hidden)
    } else {
        hidden.transpose().matmul(delta)
    }
}

/// Negative log-likelihood of each row (n × 1) and dL/dlogits.
fn cross_entropy<B: Floats>(
    hidden: &Matrix<B>,
    head: &HeadWeights<B>,
    targets: &[u32],
) -> (Matrix<B>, Matrix<B>) {
    let device = hidden.device();
    let logits = logits(hidden, head);
    let [count, vocabulary] = logits.dims();
    let counted: Vec<f32> = targets
        .iter()
        .map(|t| if *t == NOTHING { 0.0 } else { 1.0 })
        .collect();
    let known: Vec<u32> = targets
        .iter()
        .map(|t| if *t == NOTHING { 0 } else { *t })
        .collect();
    let counted: Matrix<B> = Tensor::from_data(TensorData::new(counted, [count, 1]), &device);
    let index = indices::<B>(&known, &device);
    let log_p = log_softmax(logits.clone(), 1);
    let nll = -log_p.clone().gather(1, index.clone().reshape([count, 1])) * counted.clone();
    let chosen = index.one_hot::<2>(vocabulary).float();
    let mut delta = (log_p.exp() - chosen) * counted;
    if let Some(c) = head.cap {
        delta = delta * (-(logits / c).powi_scalar(2) + 1.0);
    }
    (nll, delta)
}

/// N × width as examples × steps × width.
fn steps<B: Floats>(x: &Matrix<B>, (examples, steps): (usize, usize)) -> Tensor<B, 3> {
    let width = x.dims()[1];
    x.clone().reshape([examples, steps, width])
}

fn gram<B: Floats>(x: Tensor<B, 3>) -> Tensor<B, 3> {
    x.clone().matmul(x.swap_dims(1, 2))
}

/// Partial sums, examples × pieces, each of at most [`DEVICE_SUM`] terms: the host adds them in f64.
fn pieces<B: Floats>(x: Tensor<B, 3>) -> Matrix<B> {
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

/// Partial sums of norms, by parameter.
type Pieces<B> = Vec<(usize, Matrix<B>)>;

fn linear_pieces<B: Floats>(tap: &LinearTap<B>, shape: (usize, usize), out: &mut Pieces<B>) {
    let (a, g) = (steps(&tap.input, shape), steps(&tap.gradient, shape));
    let (t, d, p) = (shape.1, a.dims()[2], g.dims()[2]);
    out.push((tap.weight, weight_pieces(a, g.clone(), (t, d, p))));
    if let Some(bias) = tap.bias {
        out.push((bias, pieces(g.sum_dim(1).powi_scalar(2))));
    }
}

/// ‖aᵀg‖² of each example: Gram matrices if 2 T² ≤ d p, else the gradient itself.
fn weight_pieces<B: Floats>(
    a: Tensor<B, 3>,
    g: Tensor<B, 3>,
    (t, d, p): (usize, usize, usize),
) -> Matrix<B> {
    if 2 * t * t <= d * p {
        return pieces(gram(a) * gram(g));
    }
    let examples = a.dims()[0];
    let one = |i: usize| {
        let (a, g) = (a.clone().narrow(0, i, 1), g.clone().narrow(0, i, 1));
        pieces(a.swap_dims(1, 2).matmul(g).powi_scalar(2))
    };
    Tensor::cat((0..examples).map(one).collect(), 0)
}

fn norm_pieces<B: Floats>(tap: &NormTap<B>, shape: (usize, usize), out: &mut Pieces<B>) {
    let g = steps(&tap.gradient, shape);
    let product = g.clone() * steps(&tap.unit, shape);
    out.push((tap.gain, pieces(product.sum_dim(1).powi_scalar(2))));
    if let Some(bias) = tap.bias {
        out.push((bias, pieces(g.sum_dim(1).powi_scalar(2))));
    }
}

/// [x_s = x_t] for the rows of each example.
fn same<B: Floats>(rows: &Rows, shape: (usize, usize), device: &B::Device) -> Tensor<B, 3> {
    let (examples, steps) = shape;
    let tokens: Vec<f32> = rows.inputs.iter().map(|t| *t as f32).collect();
    let tokens: Tensor<B, 3> =
        Tensor::from_data(TensorData::new(tokens, [examples, steps, 1]), device);
    let across = tokens.clone().swap_dims(1, 2).repeat_dim(1, steps);
    tokens.repeat_dim(2, steps).equal(across).float()
}

pub(super) fn norms<B: Floats>(tape: &Tape<B>, rows: &Rows, parameters: usize) -> Norms {
    let shape = grid(rows);
    let device = tape.embedding.gradient.device();
    let mut out: Pieces<B> = Vec::new();
    for tap in &tape.linears {
        linear_pieces(tap, shape, &mut out);
    }
    for tap in &tape.norms {
        norm_pieces(tap, shape, &mut out);
    }
    let EmbeddingTap {
        token,
        position,
        scale,
        gradient,
    } = &tape.embedding;
    let g = steps(gradient, shape);
    let same = same::<B>(rows, shape, &device);
    out.push((*token, pieces(same * gram(g.clone()) * (scale * scale))));
    if let Some(position) = position {
        out.push((*position, pieces(g.clone().powi_scalar(2))));
    }
    let delta = tape
        .head
        .delta
        .as_ref()
        .expect("norms need the head's gradient");
    let (h, delta) = (steps(&tape.head.hidden, shape), steps(delta, shape));
    let sizes = (shape.1, h.dims()[2], delta.dims()[2]);
    if tape.head.tied {
        out.push((*token, cross_pieces(&h, &delta, g * *scale, rows, shape)));
    }
    out.push((tape.head.weight, weight_pieces(h, delta, sizes)));
    read(out, rows.spans.len(), parameters, tape.linears.len() + 1)
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
    let index = indices::<B>(&rows.inputs, &device)
        .reshape([examples, 1, steps])
        .repeat_dim(1, steps);
    let chosen = delta.clone().gather(2, index);
    let inner = hidden.clone().matmul(embedded.swap_dims(1, 2));
    pieces(chosen * inner * 2.0)
}

/// Adds the pieces of each parameter in f64, with one transfer for all.
fn read<B: Floats>(out: Pieces<B>, examples: usize, parameters: usize, taps: usize) -> Norms {
    let widths: Vec<(usize, usize)> = out.iter().map(|(p, x)| (*p, x.dims()[1])).collect();
    let total: usize = widths.iter().map(|(_, w)| w).sum();
    let values = host(Tensor::cat(out.into_iter().map(|(_, x)| x).collect(), 1));
    let mut norms = Norms::new(parameters, taps, examples);
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

pub(super) fn add_sums<B: Floats>(
    tape: Tape<B>,
    factors: &Factors,
    rows: &Rows,
    sums: &mut Sums<B>,
) {
    let device = tape.embedding.gradient.device();
    let by_group: Vec<Matrix<B>> = factors
        .by_group
        .iter()
        .map(|f| {
            let data = TensorData::new(rows.spread(f, 0.0), [rows.len(), 1]);
            Tensor::from_data(data, &device)
        })
        .collect();
    let factor = |parameter: usize| by_group[factors.group_of[parameter]].clone();
    for tap in tape.linears {
        if let Some(bias) = tap.bias {
            sums.add(bias, (tap.gradient.clone() * factor(bias)).sum_dim(0));
        }
        let g = tap.gradient * factor(tap.weight);
        sums.add(tap.weight, tap.input.transpose().matmul(g));
    }
    for tap in tape.norms {
        if let Some(bias) = tap.bias {
            sums.add(bias, (tap.gradient.clone() * factor(bias)).sum_dim(0));
        }
        sums.add(
            tap.gain,
            (tap.unit * tap.gradient * factor(tap.gain)).sum_dim(0),
        );
    }
    let embedding = tape.embedding;
    let g = embedding.gradient;
    let tokens = g.clone() * factor(embedding.token) * embedding.scale;
    scatter(sums, embedding.token, &rows.inputs, tokens);
    if let Some(position) = embedding.position {
        scatter(sums, position, &rows.positions, g * factor(position));
    }
    if let Some(delta) = tape.head.delta {
        let delta = delta * factor(tape.head.weight);
        sums.add(
            tape.head.weight,
            head_sum(tape.head.hidden, delta, tape.head.tied),
        );
    }
}

fn scatter<B: Floats>(sums: &mut Sums<B>, parameter: usize, index: &[u32], g: Matrix<B>) {
    let device = g.device();
    let index_on_device = indices(index, &device);
    let add = burn::tensor::IndexingUpdateOp::Add;
    match sums {
        Sums::Device(all) => {
            let old = all[parameter].clone();
            all[parameter] = old.select_assign(0, index_on_device, g, add);
        }
        Sums::Host(all) => {
            let width = g.dims()[1];
            for (line, i) in host(g).chunks_exact(width).zip(index) {
                let into = &mut all[parameter][*i as usize * width..];
                into.iter_mut().zip(line).for_each(|(s, x)| *s += x);
            }
        }
    }
}
