//! Products in f32. The tensor library's own run in TF32, whose mantissa has ten bits: where contributions of a
//! record cancel, a norm made of such products may be far below the length of the share.

use burn::tensor::{Shape, Tensor, TensorPrimitive};
use burn_cubecl::CubeRuntime;
use burn_cubecl::ops::numeric::empty_device_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cuda::Cuda;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::{Strategy, launch_ref};
use cubek::std::InputBinding;

/// a b, batch by batch.
pub(super) fn single<const D: usize>(a: Tensor<Cuda, D>, b: Tensor<Cuda, D>) -> Tensor<Cuda, D> {
    let bare = |x: Tensor<Cuda, D>| x.into_primitive().tensor();
    let out = by_units(bare(a), bare(b));
    Tensor::from_primitive(TensorPrimitive::Float(out))
}

/// By fused multiply-adds of single threads, without tensor cores.
fn by_units<R: CubeRuntime>(a: CubeTensor<R>, b: CubeTensor<R>) -> CubeTensor<R> {
    let (client, dtype) = (a.client.clone(), a.dtype);
    let mut shape: Vec<usize> = a.meta.shape().iter().copied().collect();
    let columns = b.meta.shape()[shape.len() - 1];
    let last = shape.len() - 1;
    shape[last] = columns;
    let out = empty_device_dtype(client.clone(), a.device.clone(), Shape::from(shape), dtype);
    let mut formats = MatmulElems::from_globals(&MatmulGlobalElems {
        lhs: dtype.into(),
        rhs: dtype.into(),
        out: dtype.into(),
    });
    let input = |x: CubeTensor<R>| InputBinding::new(x.binding(), dtype.into());
    launch_ref(
        &Strategy::SimpleUnit(Default::default()),
        &client,
        input(a),
        input(b),
        out.clone().binding(),
        &mut formats,
    )
    .expect("every device multiplies by its threads");
    out
}
