//! Our layers as differentiable operations: identity tap, linear, recurrence, cross-entropy.
//!
//! Weights are untracked, so a backward pass computes no weight gradient; the taps keep the dL/dz that the contractions
//! need. There is one forward and one backward pass.

use super::kernels::{Kernels, Recurrence};
use super::layers::{Floats, Losses};
use super::packed::Packed;
use crate::trainer::Precision;
use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::tensor::{Tensor, TensorPrimitive};
use reticent_corpus::TokenId;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

/// A differentiable tensor over the backend B.
pub(crate) type Tracked<B> = Tensor<Autodiff<B>, 2>;

fn wrap<B: Floats>(x: burn::tensor::ops::FloatTensor<B>) -> Tensor<B, 2> {
    Tensor::from_primitive(TensorPrimitive::Float(x))
}

fn bare<B: Floats>(x: Tensor<B, 2>) -> burn::tensor::ops::FloatTensor<B> {
    x.into_primitive().tensor()
}

/// A one-element leaf whose gradient a [`tap`] will fill.
pub(crate) fn leaf<B: Floats>(device: &B::Device) -> Tracked<B> {
    Tensor::zeros([1, 1], device).require_grad()
}

#[derive(Debug)]
struct Tap<B>(PhantomData<B>);

impl<B: Floats> Backward<B, 2> for Tap<B> {
    type State = ();
    fn backward(self, ops: Ops<(), 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [z, leaf] = ops.parents;
        let gradient = grads.consume::<B>(&ops.node);
        if let Some(node) = leaf {
            grads.register::<B>(node.id, gradient.clone());
        }
        if let Some(node) = z {
            grads.register::<B>(node.id, gradient);
        }
    }
}

/// Identity on `z`; after the backward pass the gradient of `leaf` is dL/dz.
pub(crate) fn tap<B: Floats>(z: Tracked<B>, leaf: Tracked<B>) -> Tracked<B> {
    let (z, leaf) = (z.into_primitive().tensor(), leaf.into_primitive().tensor());
    let nodes = [z.node.clone(), leaf.node.clone()];
    let out = match Tap(PhantomData::<B>)
        .prepare::<NoCheckpointing>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prepared) => prepared.finish((), z.primitive),
        OpsKind::UnTracked(prepared) => prepared.finish(z.primitive),
    };
    Tensor::from_primitive(TensorPrimitive::Float(out))
}

/// Maps dL/d(output) to dL/d(input) of one operation; used once.
type Back<B> = Box<dyn FnOnce(Tensor<B, 2>) -> Tensor<B, 2> + Send>;

#[derive(Clone)]
struct Applied<B: Floats>(Arc<Mutex<Option<Back<B>>>>);

impl<B: Floats> std::fmt::Debug for Applied<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Applied")
    }
}

#[derive(Debug)]
struct Apply<B>(PhantomData<B>);

impl<B: Floats> Backward<B, 1> for Apply<B> {
    type State = Applied<B>;
    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = wrap::<B>(grads.consume::<B>(&ops.node));
        let [x] = ops.parents;
        let back = ops.state.0.lock().expect("no thread panicked").take();
        if let Some(node) = x {
            let back = back.expect("one backward pass per forward pass");
            grads.register::<B>(node.id, bare(back(gradient)));
        }
    }
}

/// An operation with known output and a given backward function, which owns the untracked weights.
pub(crate) fn apply<B: Floats>(
    x: Tracked<B>,
    out: Tensor<B, 2>,
    back: impl FnOnce(Tensor<B, 2>) -> Tensor<B, 2> + Send + 'static,
) -> Tracked<B> {
    let x = x.into_primitive().tensor();
    let state = Applied::<B>(Arc::new(Mutex::new(Some(Box::new(back)))));
    let out = match Apply(PhantomData::<B>)
        .prepare::<NoCheckpointing>([x.node])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prepared) => prepared.finish(state, bare(out)),
        OpsKind::UnTracked(prepared) => prepared.finish(bare(out)),
    };
    Tensor::from_primitive(TensorPrimitive::Float(out))
}

#[derive(Debug)]
struct Linear<B>(PhantomData<B>);

impl<B: Kernels> Backward<B, 1> for Linear<B> {
    type State = (Tensor<B, 2>, Precision);
    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = wrap::<B>(grads.consume::<B>(&ops.node));
        let [x] = ops.parents;
        if let Some(node) = x {
            let (w, precision) = ops.state;
            let d_x = B::affine_backward(gradient, w, precision);
            grads.register::<B>(node.id, bare(d_x));
        }
    }
}

/// x w + b with the weights untracked.
pub(crate) fn linear<B: Kernels>(
    x: Tracked<B>,
    w: Tensor<B, 2>,
    b: Tensor<B, 1>,
    precision: Precision,
) -> Tracked<B> {
    let x = x.into_primitive().tensor();
    let out = bare(B::affine(wrap(x.primitive), w.clone(), b, precision));
    let out = match Linear(PhantomData::<B>)
        .prepare::<NoCheckpointing>([x.node])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prepared) => prepared.finish((w, precision), out),
        OpsKind::UnTracked(prepared) => prepared.finish(out),
    };
    Tensor::from_primitive(TensorPrimitive::Float(out))
}

#[derive(Debug, Clone)]
struct RecurrenceState<B: Kernels> {
    run: Recurrence<B>,
    recurrent: Tensor<B, 2>,
    packed: Arc<Packed>,
    precision: Precision,
}

#[derive(Debug)]
struct Recur<B>(PhantomData<B>);

impl<B: Kernels> Backward<B, 1> for Recur<B> {
    type State = RecurrenceState<B>;
    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = wrap::<B>(grads.consume::<B>(&ops.node));
        let RecurrenceState {
            run,
            recurrent,
            packed,
            precision,
        } = ops.state;
        let [z] = ops.parents;
        if let Some(node) = z {
            let d_z = B::recurrence_backward(run, gradient, recurrent, &packed, precision);
            grads.register::<B>(node.id, bare(d_z));
        }
    }
}

/// The LSTM recurrence with the recurrent weight untracked; returns the hidden states.
pub(crate) fn recurrence<B: Kernels>(
    z: Tracked<B>,
    recurrent: Tensor<B, 2>,
    packed: &Arc<Packed>,
    precision: Precision,
) -> Tracked<B> {
    let z = z.into_primitive().tensor();
    let run = B::recurrence(wrap(z.primitive), recurrent.clone(), packed, precision);
    let hidden = bare(run.hidden.clone());
    let state = RecurrenceState {
        run,
        recurrent,
        packed: packed.clone(),
        precision,
    };
    let out = match Recur(PhantomData::<B>)
        .prepare::<NoCheckpointing>([z.node])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prepared) => prepared.finish(state, hidden),
        OpsKind::UnTracked(prepared) => prepared.finish(hidden),
    };
    Tensor::from_primitive(TensorPrimitive::Float(out))
}

#[derive(Debug)]
struct CrossEntropy<B>(PhantomData<B>);

impl<B: Kernels> Backward<B, 1> for CrossEntropy<B> {
    type State = Tensor<B, 2>;
    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        // the loss is the root: its own gradient is one
        let _ = grads.consume::<B>(&ops.node);
        let [logits] = ops.parents;
        if let Some(node) = logits {
            grads.register::<B>(node.id, bare(ops.state));
        }
    }
}

/// Σ negative log-likelihood as a 1 × 1 root of the graph, and the value of each row (nats).
pub(crate) fn cross_entropy<B: Kernels>(
    logits: Tracked<B>,
    targets: &[TokenId],
) -> (Tracked<B>, Losses<B>) {
    let logits = logits.into_primitive().tensor();
    let (nll, d_logits) = Kernels::cross_entropy(wrap::<B>(logits.primitive), targets);
    // a root needs a value, though it is never read
    let out = bare(Tensor::<B, 2>::zeros([1, 1], &d_logits.device()));
    let out = match CrossEntropy(PhantomData::<B>)
        .prepare::<NoCheckpointing>([logits.node])
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prepared) => prepared.finish(d_logits, out),
        OpsKind::UnTracked(prepared) => prepared.finish(out),
    };
    (Tensor::from_primitive(TensorPrimitive::Float(out)), nll)
}
