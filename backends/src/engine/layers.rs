//! The operations that a device must implement for the layers of transformers.
//!
//! There are two implementations: [`Portable`] in tensor operations of any backend, on grids of fixed shape (CUDA,
//! wgpu), and [`super::processor::Processor`] on plain slices without padding.

use super::host::attention::Attention;
use super::host::vector::Normal;
use super::portable_layers as portable;
use super::rows::{Rows, Span};
use crate::model::Activation;
use crate::privacy::random::MeanNoise;
use crate::scorer::TokenScore;
use crate::trainer::optimizer::AdamRule;
use crate::trainer::{Parameter, Precision};
use burn::tensor::backend::Backend;
use burn::tensor::{IndexingUpdateOp, Int, Tensor};
use reticent_corpus::TokenId;
use std::sync::LazyLock;

/// A matrix on the backend B.
pub(crate) type Matrix<B> = Tensor<B, 2>;

/// A backend that computes in f32.
pub(crate) trait Floats: Backend<FloatElem = f32> {
    /// Returns the kind of device, as [`crate::trainer::Trainer::device_kind`] names it.
    fn kind() -> &'static str;
    /// Most rows of a pass on a grid; a smaller limit makes tests take several passes.
    const GRID_ROWS: usize = if cfg!(test) { 256 } else { 2048 };
    /// Most values of dL/dlogits at a time; 2^26 are 256 MiB.
    const LOGITS: usize = 1 << 26;
    /// Rows whose logits are held at a time.
    const HEAD_ROWS: usize = 512;

    /// a b in f32, never in a shorter format, because norms and clipped sums are computed by it.
    fn product<const D: usize>(a: Tensor<Self, D>, b: Tensor<Self, D>) -> Tensor<Self, D> {
        a.matmul(b)
    }
    /// a b with a bias, 1 × p, added to each row.
    fn product_plus(a: Matrix<Self>, b: Matrix<Self>, bias: Matrix<Self>) -> Matrix<Self> {
        Self::product(a, b) + bias
    }
    /// The nonlinearity of a feed-forward part.
    fn activate(z: Matrix<Self>, shape: Nonlinearity) -> Matrix<Self> {
        portable::activate(z, shape)
    }
    /// dL/dz of [`Self::activate`].
    fn activate_back(d_out: Matrix<Self>, z: Matrix<Self>, shape: Nonlinearity) -> Matrix<Self> {
        portable::activate_back(d_out, z, shape)
    }
    /// (sum + N(0, std²)) / divisor, value by value, with the bits of the host's noise.
    fn noised(sums: Vec<Matrix<Self>>, noise: &MeanNoise<'_>) -> Vec<Matrix<Self>> {
        noised_on_host(sums, noise)
    }
    /// -ln p of each row's target and dL/dlogits of their sum, N × 1 and N × V; rows without a target give zeros.
    /// With a cap c the logits are c tanh(x / c), and the gradient is by x.
    fn cross_entropy(
        logits: Matrix<Self>,
        targets: &[TokenId],
        cap: Option<f32>,
    ) -> (Matrix<Self>, Matrix<Self>) {
        super::portable::cross_entropy(logits, targets, cap)
    }
    /// Statistics of each row's distribution and of its target.
    fn scores(logits: Matrix<Self>, targets: &[TokenId]) -> Vec<TokenScore> {
        super::host::layers::scores(&super::portable::host(logits), targets)
    }
    /// log p of these tokens, row by row.
    fn log_probabilities(logits: Matrix<Self>, wanted: &[TokenId]) -> Vec<f64> {
        let columns = logits.dims()[1];
        super::host::layers::log_probabilities(&super::portable::host(logits), columns, wanted)
    }
    /// The largest magnitude of each tensor; not finite if one of its values is not.
    fn largest(tensors: &[Matrix<Self>]) -> Vec<f32> {
        super::portable::largest(tensors)
    }
    /// Weights and both moments after a step of Adam with a gradient, rounded as by the host's optimiser.
    fn adam(weights_moments_gradient: [Matrix<Self>; 4], rule: &AdamRule) -> [Matrix<Self>; 3] {
        super::portable::adam(weights_moments_gradient, rule)
    }
}

/// As [`Floats::noised`], drawn on the host.
pub(crate) fn noised_on_host<B: Floats>(
    sums: Vec<Matrix<B>>,
    noise: &MeanNoise<'_>,
) -> Vec<Matrix<B>> {
    let one = |(tensor, sum): (usize, Matrix<B>)| {
        let (shape, device) = (sum.dims(), sum.device());
        let mut values = super::portable::host(sum);
        noise.add_to(tensor, &mut values);
        super::transfers::upload(values, shape, &device)
    };
    sums.into_iter().enumerate().map(one).collect()
}

impl Floats for burn_flex::Flex {
    fn kind() -> &'static str {
        static KIND: LazyLock<String> =
            LazyLock::new(|| format!("cpu, {}", pulp::Arch::new().dispatch(Instructions)));
        &KIND
    }
}

/// The name of the vector instructions that kernels compute with, and round with.
struct Instructions;

impl pulp::WithSimd for Instructions {
    type Output = &'static str;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> &'static str {
        let name = std::any::type_name::<S>();
        name.rsplit("::").next().unwrap_or(name)
    }
}

/// Gain and bias of a norm, each 1 × d, with its kind.
#[derive(Debug, Clone)]
pub(crate) struct NormWeights<B: Backend> {
    pub(crate) gain: Matrix<B>,
    pub(crate) bias: Option<Matrix<B>>,
    pub(crate) normal: Normal,
}

/// Normalised rows times gain plus bias, the rows before that, each row's 1/σ (N × 1).
#[derive(Debug, Clone)]
pub(crate) struct Normalised<B: Backend> {
    pub(crate) y: Matrix<B>,
    pub(crate) unit: Matrix<B>,
    pub(crate) scale: Matrix<B>,
}

/// What attention keeps: its output, and the logarithms of the softmax's normalisers if the device uses them.
#[derive(Debug, Clone)]
pub(crate) struct Attended<B: Backend> {
    pub(crate) out: Matrix<B>,
    pub(crate) normalisers: Option<Matrix<B>>,
}

/// The nonlinearity of a feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Nonlinearity {
    pub(crate) kind: Activation,
    pub(crate) gated: bool,
    /// Columns of the output.
    pub(crate) width: usize,
}

/// The indices of the head's parameters: its matrix and its bias.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadAt {
    pub(crate) weight: usize,
    pub(crate) bias: Option<usize>,
}

/// The last matrix, V × d if it is the embedding, d × V otherwise; and its bias, 1 × V.
#[derive(Debug, Clone)]
pub(crate) struct HeadWeights<B: Backend> {
    pub(crate) matrix: Matrix<B>,
    pub(crate) bias: Option<Matrix<B>>,
    pub(crate) tied: bool,
    pub(crate) cap: Option<f32>,
}

/// The negative log-likelihood of each row, on the host or on the device; a private step does not read it.
#[derive(Debug, Clone)]
pub(crate) enum Losses<B: Backend> {
    Host(Vec<f64>),
    /// N × 1.
    Device(Matrix<B>),
}

impl<B: Backend> Losses<B> {
    /// Returns their sum, in f64.
    pub(crate) fn total(self) -> f64 {
        self.by_row().iter().sum()
    }
    pub(crate) fn by_row(self) -> Vec<f64> {
        match self {
            Self::Host(rows) => rows,
            Self::Device(rows) => super::portable::losses(rows),
        }
    }
}

/// The loss of the head and its gradients.
pub(crate) struct HeadRun<B: Backend> {
    /// Negative log-likelihood of each row (nats), 0 if the row predicts nothing.
    pub(crate) nll: Losses<B>,
    /// dL/dhidden.
    pub(crate) d_hidden: Matrix<B>,
    /// dL/dlogits, N × V, if kept.
    pub(crate) delta: Option<Matrix<B>>,
}

/// A linear layer's input and the gradient of its output.
pub(crate) struct LinearTap<B: Backend> {
    pub(crate) weight: usize,
    pub(crate) bias: Option<usize>,
    pub(crate) input: Matrix<B>,
    pub(crate) gradient: Matrix<B>,
}

/// A norm's normalised rows and the gradient of its output.
pub(crate) struct NormTap<B: Backend> {
    pub(crate) gain: usize,
    pub(crate) bias: Option<usize>,
    /// How many heads of a row share the gain; its gradient is a sum over heads and rows.
    pub(crate) heads: usize,
    pub(crate) unit: Matrix<B>,
    pub(crate) gradient: Matrix<B>,
}

/// The gradient of the embedded sum of tokens, positions and token types.
pub(crate) struct EmbeddingTap<B: Backend> {
    pub(crate) token: usize,
    pub(crate) position: Option<usize>,
    /// Rows of the position table before the row of position 0.
    pub(crate) offset: u32,
    /// The table of token types, of which training only reads the first row.
    pub(crate) types: Option<usize>,
    /// The factor of embedded tokens.
    pub(crate) scale: f32,
    pub(crate) gradient: Matrix<B>,
}

/// The head's input and dL/dlogits.
pub(crate) struct HeadTap<B: Backend> {
    pub(crate) weight: usize,
    pub(crate) bias: Option<usize>,
    pub(crate) tied: bool,
    pub(crate) hidden: Matrix<B>,
    /// The rows of each example that are here, if rows without predictions were left out.
    pub(crate) spans: Option<Vec<Span>>,
    /// Absent if the head's sum was computed immediately.
    pub(crate) delta: Option<Matrix<B>>,
}

/// The taps of embeddings and head.
pub(crate) struct Ends<B: Backend> {
    pub(crate) embedding: EmbeddingTap<B>,
    pub(crate) head: HeadTap<B>,
}

/// The results of one forward and one backward pass: one tap for every trained parameter, two for a tied head.
pub(crate) struct Tape<B: Backend> {
    pub(crate) linears: Vec<LinearTap<B>>,
    pub(crate) norms: Vec<NormTap<B>>,
    /// Absent if an adapter is trained.
    pub(crate) ends: Option<Ends<B>>,
}

/// How the gradient of the head's own parameters is handled.
pub(crate) enum HeadGradient<'a, B: Backend> {
    /// It is computed later from dL/dlogits, which are kept.
    Kept,
    /// The share of all rows, times a factor, is added to a sum: block by block, or from the kept blocks together.
    Added(&'a mut Sums<B>, HeadAt, f32),
    /// It is not needed.
    Frozen,
}

impl<B: Backend> EmbeddingTap<B> {
    /// Returns the row of the position table for each position.
    pub(crate) fn position_rows(&self, rows: &Rows) -> Vec<u32> {
        rows.positions.iter().map(|p| p + self.offset).collect()
    }
}

impl<B: Backend> Tape<B> {
    /// Returns the device of the tape; `None` for an empty tape.
    pub(crate) fn device(&self) -> Option<B::Device> {
        let ends = self.ends.as_ref().map(|ends| &ends.head.hidden);
        let any = ends.or(self.linears.first().map(|tap| &tap.input));
        any.map(Tensor::device)
    }
    /// Returns the parameters that a tap covers, in ascending order, each once.
    pub(crate) fn covered(&self) -> Vec<usize> {
        let linears = self.linears.iter().flat_map(|l| [Some(l.weight), l.bias]);
        let norms = self.norms.iter().flat_map(|n| [Some(n.gain), n.bias]);
        let ends = self.ends.iter().flat_map(|Ends { embedding, head }| {
            let matrix = (!head.tied).then_some(head.weight);
            let EmbeddingTap {
                token,
                position,
                types,
                ..
            } = *embedding;
            [Some(token), position, types, matrix, head.bias]
        });
        let mut all: Vec<usize> = linears.chain(norms).chain(ends).flatten().collect();
        all.sort_unstable();
        all
    }
}

/// Squared norms to clip by of each parameter's gradient, example by example, and the gradients computed along the way.
pub(crate) struct Norms<B: Backend> {
    /// `squared[parameter][example]`.
    pub(crate) squared: Vec<Vec<f64>>,
    /// Gradients of weights that need no second product, by tap (the head last) and example.
    pub(crate) kept: Vec<Vec<Option<Vec<f32>>>>,
    /// The same on a device, by tap: examples × rows × columns for all examples of a grid.
    pub(crate) on_device: Vec<Option<Tensor<B, 3>>>,
}

impl<B: Backend> Norms<B> {
    pub(crate) fn new(parameters: usize, taps: usize, examples: usize) -> Self {
        Self {
            squared: vec![vec![0.0; examples]; parameters],
            kept: (0..taps)
                .map(|_| (0..examples).map(|_| None).collect())
                .collect(),
            on_device: Vec::new(),
        }
    }
    /// Squared norm of each example's whole gradient.
    #[cfg(test)]
    pub(crate) fn flat(&self) -> Vec<f64> {
        let examples = self.squared.first().map_or(0, Vec::len);
        (0..examples)
            .map(|i| self.squared.iter().map(|p| p[i]).sum())
            .collect()
    }
}

/// The factors of each example's gradient, parameter by parameter.
#[derive(Debug, Clone)]
pub(crate) struct Factors {
    /// The factors by group and example.
    pub(crate) by_group: Vec<Vec<f32>>,
    /// The group of each parameter.
    pub(crate) group_of: Vec<usize>,
}

impl Factors {
    /// Clipping factors by group.
    pub(crate) fn clipped(factors: &crate::privacy::clip::Factors, group_of: &[usize]) -> Self {
        Self {
            by_group: (0..factors.groups()).map(|g| factors.group(g)).collect(),
            group_of: group_of.to_vec(),
        }
    }
    /// The same factor for all.
    pub(crate) fn constant(value: f32, examples: usize, parameters: usize) -> Self {
        Self {
            by_group: vec![vec![value; examples]],
            group_of: vec![0; parameters],
        }
    }
    pub(crate) fn of(&self, parameter: usize) -> &[f32] {
        &self.by_group[self.group_of[parameter]]
    }
}

/// Sums of gradients, on the host or on the device.
pub(crate) enum Sums<B: Backend> {
    /// In host memory.
    Host(Vec<Vec<f32>>),
    /// On the device, vectors as one row.
    Device(Vec<Matrix<B>>),
}

impl<B: Floats> Sums<B> {
    /// Returns the values in host memory.
    pub(crate) fn into_host(self) -> Vec<Vec<f32>> {
        match self {
            Self::Host(sums) => sums,
            Self::Device(sums) => sums.into_iter().map(super::portable::host).collect(),
        }
    }
    /// Moves the sums to the host, where they stay.
    pub(crate) fn bring_to_host(&mut self) -> &mut [Vec<f32>] {
        let sums = std::mem::replace(self, Self::Host(Vec::new()));
        *self = Self::Host(sums.into_host());
        match self {
            Self::Host(sums) => sums,
            Self::Device(_) => unreachable!("just brought to the host"),
        }
    }
    pub(crate) fn all_host_mut(&mut self) -> &mut [Vec<f32>] {
        match self {
            Self::Host(sums) => sums,
            Self::Device(_) => unreachable!("the processor sums in host memory"),
        }
    }
    pub(crate) fn host_mut(&mut self, parameter: usize) -> &mut [f32] {
        match self {
            Self::Host(sums) => &mut sums[parameter],
            Self::Device(_) => unreachable!("the processor sums in host memory"),
        }
    }
    /// Adds rows of a gradient to the rows of a table given by `index` on the device and by `here` on the host.
    pub(crate) fn add_rows(
        &mut self,
        parameter: usize,
        index: Tensor<B, 1, Int>,
        here: &[u32],
        lines: Matrix<B>,
    ) {
        match self {
            Self::Device(sums) => {
                let old = sums[parameter].clone();
                sums[parameter] = old.select_assign(0, index, lines, IndexingUpdateOp::Add);
            }
            Self::Host(sums) => {
                let width = lines.dims()[1];
                for (line, i) in super::portable::host(lines).chunks_exact(width).zip(here) {
                    let into = &mut sums[parameter][*i as usize * width..];
                    into.iter_mut().zip(line).for_each(|(s, x)| *s += x);
                }
            }
        }
    }
    pub(crate) fn add(&mut self, parameter: usize, sum: Matrix<B>) {
        match self {
            Self::Device(sums) => {
                let old = sums[parameter].clone();
                sums[parameter] = old.add(sum);
            }
            Self::Host(sums) => {
                let sum = super::portable::host(sum);
                sums[parameter]
                    .iter_mut()
                    .zip(sum)
                    .for_each(|(s, x)| *s += x);
            }
        }
    }
}

/// The operations that a device must implement for transformers; bodies default to the portable ones.
///
/// `precision` is that of the products of a training pass. Scores are always computed in single precision, and so are
/// norms and sums.
pub(crate) trait Layers<B: Floats>: Send + 'static {
    /// Whether rows are arranged on a grid of fixed shape.
    const GRID: bool = true;

    /// Whether training passes can run in this precision.
    fn computes_in(precision: Precision, device: &B::Device) -> bool {
        super::portable::computes_in::<B>(precision, device)
    }
    /// Returns sums of zeros.
    fn zeros(parameters: &[Parameter], device: &B::Device) -> Sums<B> {
        portable::zeros(parameters, device)
    }
    /// Rows of the token table times a scale, plus rows of the position table.
    fn embed(
        tables: (&Matrix<B>, Option<&Matrix<B>>),
        scale: f32,
        offset: u32,
        rows: &Rows,
    ) -> Matrix<B> {
        portable::embed(tables, scale, offset, rows)
    }
    /// x w + b, where b is 1 × p.
    fn linear(
        x: &Matrix<B>,
        w: &Matrix<B>,
        b: Option<&Matrix<B>>,
        precision: Precision,
    ) -> Matrix<B> {
        portable::linear(x, w, b, precision)
    }
    /// dL/dx = dL/dy wᵀ.
    fn linear_back(dy: &Matrix<B>, w: &Matrix<B>, precision: Precision) -> Matrix<B> {
        portable::linear_back(dy, w, precision)
    }
    /// Logits of rows: h w, or h wᵀ if tied, plus the bias, capped.
    fn logits(hidden: &Matrix<B>, head: &HeadWeights<B>) -> Matrix<B> {
        portable::logits(hidden, head, Precision::Single)
    }
    /// Normalises rows.
    fn normalise(x: &Matrix<B>, weights: &NormWeights<B>) -> Normalised<B> {
        portable::normalise(x, weights)
    }
    /// dL/dx of [`Self::normalise`].
    fn normalise_back(dy: &Matrix<B>, kept: &Normalised<B>, weights: &NormWeights<B>) -> Matrix<B> {
        portable::normalise_back(dy, kept, weights)
    }
    /// Attention over queries, keys and values side by side.
    fn attend(
        joined: &Matrix<B>,
        rows: &Rows,
        attention: &Attention,
        precision: Precision,
    ) -> Attended<B> {
        portable::attend(joined, rows, attention, precision)
    }
    /// dL/d(joined) of [`Self::attend`].
    fn attend_back(
        d_out: &Matrix<B>,
        joined: &Matrix<B>,
        kept: &Attended<B>,
        rows: &Rows,
        attention: &Attention,
        precision: Precision,
    ) -> Matrix<B> {
        portable::attend_back(d_out, joined, kept, rows, attention, precision)
    }
    /// The nonlinearity of a feed-forward part.
    fn activate(z: &Matrix<B>, nonlinearity: Nonlinearity) -> Matrix<B> {
        B::activate(z.clone(), nonlinearity)
    }
    /// dL/dz of [`Self::activate`].
    fn activate_back(d_out: &Matrix<B>, z: &Matrix<B>, nonlinearity: Nonlinearity) -> Matrix<B> {
        B::activate_back(d_out.clone(), z.clone(), nonlinearity)
    }
    /// Loss and gradients of the head, block by block, for rows with these targets.
    fn head(
        hidden: &Matrix<B>,
        head: &HeadWeights<B>,
        targets: &[TokenId],
        precision: Precision,
        own: HeadGradient<'_, B>,
    ) -> HeadRun<B> {
        portable::head(hidden, head, targets, precision, own)
    }
    /// Squared gradient norms by parameter and example.
    fn norms(tape: &Tape<B>, rows: &Rows, parameters: usize) -> Norms<B> {
        portable::norms(tape, rows, parameters)
    }
    /// sums += Σ_i factor_i · gradient_i.
    fn add_sums(
        tape: Tape<B>,
        norms: Norms<B>,
        factors: &Factors,
        rows: &Rows,
        sums: &mut Sums<B>,
    ) {
        portable::add_sums(tape, norms.on_device, factors, rows, sums);
    }
}

/// All kernels in tensor operations.
pub(crate) struct Portable;
impl<B: Floats> Layers<B> for Portable {}

#[cfg(test)]
mod tests {
    use super::Floats;

    #[test]
    fn a_processor_is_named_with_its_instructions() {
        let own = format!("{:?}", pulp::Arch::new());
        let kind = <burn_flex::Flex as Floats>::kind();
        let named = kind.strip_prefix("cpu, ").unwrap();
        assert!(!named.is_empty() && own.starts_with(named), "{kind}, {own}");
    }
}
