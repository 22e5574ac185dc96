//! The operations that a device must implement for the LSTM's layers.
//!
//! Every method has a portable body in tensor operations ([`super::portable`]), which CUDA and wgpu use; the processor
//! replaces all of them ([`super::flex`]).

use super::layers::{Floats, Losses, Sums};
use super::packed::Packed;
use super::portable;
use crate::privacy::clip::Factors;
use crate::trainer::{Parameter, Precision};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use reticent_corpus::TokenId;

/// The values that the recurrence keeps for its backward pass, rows packed.
#[derive(Debug, Clone)]
pub(crate) struct Recurrence<B: Backend> {
    /// Activated gates, N × 4H, in the order input, forget, candidate, output.
    pub(crate) gates: Tensor<B, 2>,
    /// Cell states, N × H.
    pub(crate) cell: Tensor<B, 2>,
    /// Hidden states, N × H.
    pub(crate) hidden: Tensor<B, 2>,
}

/// The results of one forward and one backward pass: layer inputs and tapped gradients.
pub(crate) struct Taps<B: Backend> {
    /// Hidden states, N × H.
    pub(crate) hidden: Tensor<B, 2>,
    /// The hidden states after dropout, as the head reads them, N × H; absent without dropout.
    pub(crate) read: Option<Tensor<B, 2>>,
    /// Embedded tokens after dropout; absent without dropout.
    pub(crate) embedded: Option<Dropped<B>>,
    /// dL/dz of the gates before activation, N × 4H.
    pub(crate) d_gates: Tensor<B, 2>,
    /// dL/dlogits, N × V.
    pub(crate) d_logits: Tensor<B, 2>,
}

/// Values after dropout, and their dropout factors.
#[derive(Debug, Clone)]
pub(crate) struct Dropped<B: Backend> {
    pub(crate) values: Tensor<B, 2>,
    pub(crate) factors: Tensor<B, 2>,
}

impl<B: Backend> Taps<B> {
    /// Returns the input of the head, N × H.
    pub(crate) fn read(&self) -> &Tensor<B, 2> {
        self.read.as_ref().unwrap_or(&self.hidden)
    }
}

/// The weights on the device.
#[derive(Debug, Clone)]
pub(crate) struct Weights<B: Backend> {
    /// V × E.
    pub(crate) embedding: Tensor<B, 2>,
    /// E × 4H.
    pub(crate) input: Tensor<B, 2>,
    /// H × 4H.
    pub(crate) recurrent: Tensor<B, 2>,
    /// 4H.
    pub(crate) bias: Tensor<B, 1>,
    /// H × V.
    pub(crate) head: Tensor<B, 2>,
    /// V.
    pub(crate) head_bias: Tensor<B, 1>,
}

/// The clipping group of each parameter, in the order of [`Weights`]: the embedding; the
/// recurrent layer, whose three parameters share dL/dz; the head.
pub(crate) const GROUP: [usize; 6] = [0, 1, 1, 1, 2, 2];
/// Clipping groups of an LSTM.
pub(crate) const GROUPS: usize = 3;

/// The operations that a device must implement; bodies default to the portable ones.
pub(crate) trait Kernels: Floats {
    /// Whether rows are arranged on a grid of fixed shape, so that the order of an example's sums does not depend on
    /// the other examples of the batch.
    const GRID: bool = true;

    /// Whether training passes can run in this precision.
    fn computes_in(precision: Precision, device: &Self::Device) -> bool {
        portable::computes_in::<Self>(precision, device)
    }
    /// Rows of a table by index.
    fn lookup(table: Tensor<Self, 2>, index: &[u32]) -> Tensor<Self, 2> {
        portable::lookup(table, index)
    }
    /// x w + b.
    fn affine(
        x: Tensor<Self, 2>,
        w: Tensor<Self, 2>,
        b: Tensor<Self, 1>,
        precision: Precision,
    ) -> Tensor<Self, 2> {
        portable::linear(x, w, b, precision)
    }
    /// dL/dx = dL/dy wᵀ.
    fn affine_backward(
        dy: Tensor<Self, 2>,
        w: Tensor<Self, 2>,
        precision: Precision,
    ) -> Tensor<Self, 2> {
        portable::linear_backward(dy, w, precision)
    }
    /// The LSTM recurrence; z holds the input's contribution with the bias.
    fn recurrence(
        z: Tensor<Self, 2>,
        recurrent: Tensor<Self, 2>,
        packed: &Packed,
        precision: Precision,
    ) -> Recurrence<Self> {
        portable::recurrence(z, recurrent, packed, precision)
    }
    /// dL/dz from dL/dh.
    fn recurrence_backward(
        run: Recurrence<Self>,
        d_hidden: Tensor<Self, 2>,
        recurrent: Tensor<Self, 2>,
        packed: &Packed,
        precision: Precision,
    ) -> Tensor<Self, 2> {
        portable::recurrence_backward(run, d_hidden, recurrent, packed, precision)
    }
    /// Negative log-likelihood per row (nats) and dL/dlogits of their sum.
    fn cross_entropy(
        logits: Tensor<Self, 2>,
        targets: &[TokenId],
    ) -> (Losses<Self>, Tensor<Self, 2>) {
        let (nll, delta) = <Self as Floats>::cross_entropy(logits, targets, None);
        (Losses::Device(nll), delta)
    }
    /// Squared gradient norms of each example, f64: [`GROUPS`] values each.
    fn squared_norms(taps: &Taps<Self>, weights: &Weights<Self>, packed: &Packed) -> Vec<f64> {
        portable::squared_norms(taps, weights, packed)
    }
    /// sums += Σ_i factor_i · gradient_i, group by group, parameter by parameter in the
    /// order of [`Weights`].
    fn add_weighted_sums(
        taps: Taps<Self>,
        weights: &Weights<Self>,
        factors: &Factors,
        packed: &Packed,
        sums: &mut Sums<Self>,
    ) {
        portable::add_weighted_sums(taps, weights, factors, packed, sums);
    }
    /// Returns sums of zeros.
    fn zeros(parameters: &[Parameter], device: &Self::Device) -> Sums<Self> {
        super::portable_layers::zeros(parameters, device)
    }
    /// One step of n independent states: gates from z (n × 4H, input part) and old (h, c), both n × H.
    fn cell(
        z: Tensor<Self, 2>,
        recurrent: Tensor<Self, 2>,
        hidden: Tensor<Self, 2>,
        cell: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 2>) {
        portable::cell(z, recurrent, hidden, cell)
    }
}
