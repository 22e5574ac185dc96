//! The processor's kernels for the LSTM, all on plain slices of flex tensors.

use super::host::contraction::{
    InputWeight, LstmRows, add_row_sum, add_rows, add_weight_sum, by_row, gather, lstm_norms,
    scale_rows, scatter_add,
};
use super::host::{layers, recurrence};
use super::kernels::{Dropped, GROUPS, Kernels, Recurrence, Taps, Weights};
use super::layers::{Losses, Sums};
use super::packed::{Group, Packed};
use crate::privacy::clip::Factors;
use crate::trainer::{Parameter, Precision};
use burn::tensor::{Tensor, TensorData, TensorPrimitive};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;
use reticent_corpus::TokenId;

type Matrix = Tensor<Flex, 2>;

/// The values of a tensor, borrowed if they are contiguous.
pub(crate) struct Values(FlexTensor);

impl Values {
    pub(crate) fn of<const D: usize>(x: &Tensor<Flex, D>) -> Self {
        Self(x.clone().into_primitive().tensor().to_contiguous())
    }
    pub(crate) fn slice(&self) -> &[f32] {
        self.0.as_slice::<f32>().expect("contiguous f32")
    }
}

fn owned(x: Matrix) -> Vec<f32> {
    x.into_data().into_vec().expect("f32 tensor")
}

fn matrix(values: Vec<f32>, columns: usize) -> Matrix {
    let rows = values.len() / columns;
    let data = TensorData::new(values, [rows, columns]);
    Tensor::from_primitive(TensorPrimitive::Float(FlexTensor::from_data(data)))
}

impl Kernels for Flex {
    const GRID: bool = false;

    fn lookup(table: Matrix, index: &[u32]) -> Matrix {
        let width = table.dims()[1];
        matrix(
            layers::lookup(Values::of(&table).slice(), index, width),
            width,
        )
    }

    // own kernels on plain slices of f32
    fn computes_in(precision: Precision, _: &burn_flex::FlexDevice) -> bool {
        precision == Precision::Single
    }

    fn affine(x: Matrix, w: Matrix, b: Tensor<Self, 1>, _: Precision) -> Matrix {
        let [d, p] = w.dims();
        matrix(
            layers::linear(
                Values::of(&x).slice(),
                Values::of(&w).slice(),
                Values::of(&b).slice(),
                d,
            ),
            p,
        )
    }

    fn affine_backward(dy: Matrix, w: Matrix, _: Precision) -> Matrix {
        let [d, p] = w.dims();
        matrix(
            layers::linear_backward(Values::of(&dy).slice(), Values::of(&w).slice(), d, p),
            d,
        )
    }

    fn recurrence(z: Matrix, recurrent: Matrix, packed: &Packed, _: Precision) -> Recurrence<Self> {
        let width = recurrent.dims()[0];
        let run = recurrence::forward(owned(z), Values::of(&recurrent).slice(), width, packed);
        Recurrence {
            gates: matrix(run.gates, 4 * width),
            cell: matrix(run.cell, width),
            hidden: matrix(run.hidden, width),
        }
    }

    fn recurrence_backward(
        run: Recurrence<Self>,
        d_hidden: Matrix,
        recurrent: Matrix,
        packed: &Packed,
        _: Precision,
    ) -> Matrix {
        let width = recurrent.dims()[0];
        let run = recurrence::Forward {
            gates: owned(run.gates),
            cell: owned(run.cell),
            hidden: Vec::new(), // not needed backwards
        };
        let d_gates = recurrence::backward(
            &run,
            owned(d_hidden),
            Values::of(&recurrent).slice(),
            width,
            packed,
        );
        matrix(d_gates, 4 * width)
    }

    fn cross_entropy(logits: Matrix, targets: &[TokenId]) -> (Losses<Self>, Matrix) {
        let vocabulary = logits.dims()[1];
        let mut values = owned(logits);
        let nll = layers::cross_entropy(&mut values, targets, vocabulary);
        (Losses::Host(nll), matrix(values, vocabulary))
    }

    fn squared_norms(taps: &Taps<Self>, weights: &Weights<Self>, packed: &Packed) -> Vec<f64> {
        let work = NormWork::new(taps, weights);
        let input = InputWeight::new(work.input.slice());
        let per_group: Vec<Vec<(usize, [f64; GROUPS])>> = packed
            .groups
            .par_iter()
            .map(|group| work.group(group, packed, &input))
            .collect();
        let mut norms = vec![0.0; packed.examples * GROUPS];
        for (example, own) in per_group.into_iter().flatten() {
            norms[example * GROUPS..(example + 1) * GROUPS].copy_from_slice(&own);
        }
        norms
    }

    fn add_weighted_sums(
        taps: Taps<Self>,
        weights: &Weights<Self>,
        factors: &Factors,
        packed: &Packed,
        sums: &mut Sums<Self>,
    ) {
        let [width, vocabulary] = weights.head.dims();
        let rows = packed.rows();
        let (hidden, read) = (Values::of(&taps.hidden), Values::of(taps.read()));
        let (mut d_gates, d_logits) = (owned(taps.d_gates), Values::of(&taps.d_logits));
        let own = by_row(&factors.group(2), packed);
        let [embedding, input, recurrent, bias, head, head_bias] = sums.all_host_mut() else {
            unreachable!("an LSTM has six parameters")
        };
        let shape = (rows, width, vocabulary);
        add_weight_sum(read.slice(), Some(&own), d_logits.slice(), head, shape);
        add_rows(None, d_logits.slice(), Some(&own), head_bias);
        match &taps.embedded {
            None => add_input_sums(&mut d_gates, weights, factors, packed, (embedding, input)),
            Some(x) => {
                let sums = (embedding, input);
                add_dropped_input_sums(&mut d_gates, x, weights, factors, packed, sums);
            }
        }
        let previous = previous_hidden(hidden.slice(), packed, width);
        add_weight_sum(
            &previous,
            None,
            &d_gates,
            recurrent,
            (rows, width, 4 * width),
        );
        add_row_sum(&d_gates, bias);
    }

    fn zeros(parameters: &[Parameter], _: &burn_flex::FlexDevice) -> Sums<Self> {
        Sums::Host(parameters.iter().map(|p| vec![0.0; p.len()]).collect())
    }

    fn cell(z: Matrix, recurrent: Matrix, hidden: Matrix, cell: Matrix) -> (Matrix, Matrix) {
        let [width, gates] = recurrent.dims();
        let (recurrent, hidden, cell) = (
            Values::of(&recurrent),
            Values::of(&hidden),
            Values::of(&cell),
        );
        let mut z = owned(z);
        let mut new_hidden = vec![0.0; hidden.slice().len()];
        let mut new_cell = vec![0.0; cell.slice().len()];
        const BLOCK: usize = 128;
        z.par_chunks_mut(BLOCK * gates)
            .zip(hidden.slice().par_chunks(BLOCK * width))
            .zip(cell.slice().par_chunks(BLOCK * width))
            .zip(new_hidden.par_chunks_mut(BLOCK * width))
            .zip(new_cell.par_chunks_mut(BLOCK * width))
            .for_each(|((((z, h), c), new_h), new_c)| {
                recurrence::advance(z, recurrent.slice(), (h, c), (new_h, new_c), width);
            });
        (matrix(new_hidden, width), matrix(new_cell, width))
    }
}

/// Adds the sums of embedding and input weight from dL/dz, which is left scaled for the recurrent layer. Rows with the
/// same input token share it: their gradients are summed first, then multiplied once.
fn add_input_sums(
    d_gates: &mut [f32],
    weights: &Weights<Flex>,
    factors: &Factors,
    packed: &Packed,
    (embedding, input): (&mut Vec<f32>, &mut Vec<f32>),
) {
    let [embed, gates] = weights.input.dims();
    let (distinct, index) = packed.distinct_inputs();
    let by_token = |d_gates: &[f32]| {
        let mut sums = vec![0.0; distinct.len() * gates];
        scatter_add(d_gates, &index, &mut sums, gates);
        sums
    };
    // if the embedding has its own factors, its rows are scaled and summed separately
    let apart = (!factors.alike(0, 1)).then(|| {
        let mut scaled = d_gates.to_vec();
        scale_rows(&mut scaled, &factors.group(0), packed, gates);
        by_token(&scaled)
    });
    scale_rows(d_gates, &factors.group(1), packed, gates);
    let by_token = by_token(d_gates);
    let table = layers::lookup(Values::of(&weights.embedding).slice(), &distinct, embed);
    let shape = (distinct.len(), embed, gates);
    add_weight_sum(&table, None, &by_token, input, shape);
    let by_token = apart.unwrap_or(by_token);
    let weight = Values::of(&weights.input);
    let d_table = layers::linear_backward(&by_token, weight.slice(), embed, gates);
    scatter_add(&d_table, &distinct, embedding, embed);
}

/// Like `add_input_sums` after dropout, where every row has its own input.
fn add_dropped_input_sums(
    d_gates: &mut [f32],
    dropped: &Dropped<Flex>,
    weights: &Weights<Flex>,
    factors: &Factors,
    packed: &Packed,
    (embedding, input): (&mut Vec<f32>, &mut Vec<f32>),
) {
    let [embed, gates] = weights.input.dims();
    let (x, mask) = (Values::of(&dropped.values), Values::of(&dropped.factors));
    let weight = Values::of(&weights.input);
    let mut d_x = layers::linear_backward(d_gates, weight.slice(), embed, gates);
    d_x.iter_mut().zip(mask.slice()).for_each(|(d, f)| *d *= f);
    scale_rows(&mut d_x, &factors.group(0), packed, embed);
    scatter_add(&d_x, &packed.inputs, embedding, embed);
    scale_rows(d_gates, &factors.group(1), packed, gates);
    let shape = (packed.rows(), embed, gates);
    add_weight_sum(x.slice(), None, d_gates, input, shape);
}

/// Returns the hidden state before each row; zero at the start of an example.
fn previous_hidden(hidden: &[f32], packed: &Packed, width: usize) -> Vec<f32> {
    let mut out = vec![0.0; packed.rows() * width];
    for group in &packed.groups {
        let (mut before, mut row) = (group.first_row, group.first_row);
        for (t, &n) in group.active.iter().enumerate() {
            if t > 0 {
                out[row * width..(row + n) * width]
                    .copy_from_slice(&hidden[before * width..(before + n) * width]);
                before = row;
            }
            row += n;
        }
    }
    out
}

/// Borrowed inputs of the norm computation.
struct NormWork {
    hidden: Values,
    read: Values,
    d_gates: Values,
    d_logits: Values,
    embedding: Values,
    dropped: Option<[Values; 2]>,
    input: Values,
    sizes: (usize, usize, usize),
}

impl NormWork {
    fn new(taps: &Taps<Flex>, weights: &Weights<Flex>) -> Self {
        let dropped = taps.embedded.as_ref();
        let [width, vocabulary] = weights.head.dims();
        Self {
            hidden: Values::of(&taps.hidden),
            read: Values::of(taps.read()),
            d_gates: Values::of(&taps.d_gates),
            d_logits: Values::of(&taps.d_logits),
            embedding: Values::of(&weights.embedding),
            dropped: dropped.map(|x| [&x.values, &x.factors].map(Values::of)),
            input: Values::of(&weights.input),
            sizes: (weights.input.dims()[0], width, vocabulary),
        }
    }

    fn group(
        &self,
        group: &Group,
        packed: &Packed,
        input: &InputWeight<'_>,
    ) -> Vec<(usize, [f64; GROUPS])> {
        group
            .examples
            .iter()
            .enumerate()
            .map(|(lane, &example)| {
                let rows: Vec<usize> = group.rows_of(lane).collect();
                (example, self.example(&rows, packed, input))
            })
            .collect()
    }

    fn example(&self, rows: &[usize], packed: &Packed, input: &InputWeight<'_>) -> [f64; GROUPS] {
        let (e, h, vocabulary) = self.sizes;
        let tokens: Vec<TokenId> = rows.iter().map(|r| packed.inputs[*r]).collect();
        let places = || tokens.iter().map(|t| *t as usize).collect::<Vec<_>>();
        let (x, factors) = match &self.dropped {
            None => (gather(self.embedding.slice(), &places(), e), None),
            Some([x, factors]) => (
                gather(x.slice(), rows, e),
                Some(gather(factors.slice(), rows, e)),
            ),
        };
        let mut before = vec![0.0; h];
        before.extend(gather(self.hidden.slice(), &rows[..rows.len() - 1], h));
        let own = LstmRows {
            tokens: &tokens,
            x: &x,
            factors: factors.as_deref(),
            before: &before,
            read: &gather(self.read.slice(), rows, h),
            d_gates: &gather(self.d_gates.slice(), rows, 4 * h),
            d_logits: &gather(self.d_logits.slice(), rows, vocabulary),
        };
        lstm_norms(&own, input, self.sizes)
    }
}
