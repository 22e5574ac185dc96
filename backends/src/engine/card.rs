//! Models on devices other than the processor, in the same way for all backends of the tensor library.

use super::kernels::Kernels;
use super::layers::Portable;
use super::lstm::Lstm;
use super::transformer::Transformer;
use crate::error::Result;
use crate::model::Model;
use crate::trainer::Trainer;

/// A kind of device: how a device is found.
pub(super) trait Card: Kernels {
    /// Returns the device with this number. It is queried before the tensor library touches it, because the library
    /// panics if the device does not exist.
    fn find(number: usize) -> Result<Self::Device>;
}

/// The kind of device that this build's tests run on.
#[cfg(all(test, feature = "cuda"))]
pub(super) type Tested = burn_cuda::Cuda;
#[cfg(all(test, feature = "wgpu", not(feature = "cuda")))]
pub(super) type Tested = burn_wgpu::Wgpu;

/// Opens a model with these weights on the device with this number.
pub(super) fn open<B: Card>(
    model: &Model,
    weights: Vec<Vec<f32>>,
    number: usize,
) -> Result<Box<dyn Trainer>> {
    let device = B::find(number)?;
    Ok(match model.clone() {
        Model::Lstm(config) => Box::new(Lstm::<B>::new(config, weights, device)?),
        Model::Transformer(config) => {
            Box::new(Transformer::<B, Portable>::new(*config, weights, device)?)
        }
    })
}

/// Returns the error for a device that can't be used, with the reason.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
pub(super) fn missing(device: crate::device::Device, why: String) -> crate::error::Error {
    crate::error::Error::Device {
        device: device.to_string(),
        why,
    }
}

/// Returns the reason why no device has this number.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
pub(super) fn beyond(found: usize) -> String {
    match found {
        1 => "there is one such device, number 0".into(),
        _ => format!(
            "there are {found} such devices, numbered 0 to {}",
            found - 1
        ),
    }
}
