//! The burn engine: our layers as differentiable operations, gradient norms and sums by book-keeping, scoring.

mod bound;
#[cfg_attr(
    not(any(feature = "cuda", feature = "wgpu")),
    expect(dead_code, reason = "builds with devices run it")
)]
mod card;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod cubes;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod flex;
mod host;
mod kernels;
mod layers;
mod lstm;
mod ops;
mod packed;
mod portable;
mod portable_layers;
mod processor;
mod rows;
mod selective;
#[cfg(test)]
mod tests;
mod transfers;
mod transformer;
#[cfg(feature = "wgpu")]
mod wgpu;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::model::{LstmConfig, Model, TransformerConfig};
use crate::scorer::Logits;
use crate::trainer::Trainer;

pub use device::{DeviceKind, Devices, FoundDevice, MissingDevice, devices};
pub use transfers::{Transfers, transfers};

/// Returns an LSTM with these weights on a device.
///
/// # Errors
/// Returns [`Error::Device`] if the device is not available or this build does not support it; [`Error::Shape`] if the
/// weights do not fit.
pub fn lstm(
    config: &LstmConfig,
    weights: Vec<Vec<f32>>,
    device: Device,
) -> Result<Box<dyn Trainer>> {
    let config = config.clone().validated()?;
    match device {
        Device::Cpu => Ok(Box::new(lstm::Lstm::<burn_flex::Flex>::new(
            config,
            weights,
            Default::default(),
        )?)),
        _ => elsewhere(&config.into(), weights, device),
    }
}

/// Returns any model with these weights on a device. A model that does not predict next tokens
/// ([`Model::predicts_next_token`]) can be trained and can classify, but has no scores.
///
/// # Errors
/// Returns [`Error::Device`] if the device is not available or this build does not support it; [`Error::Shape`] if the
/// weights do not fit.
pub fn open(model: &Model, weights: Vec<Vec<f32>>, device: Device) -> Result<Box<dyn Trainer>> {
    match model {
        Model::Lstm(config) => lstm(config, weights, device),
        Model::Transformer(config) => transformer(config, weights, device),
    }
}

/// Returns a transformer with these weights on a device.
///
/// # Errors
/// As [`open`].
pub fn transformer(
    config: &TransformerConfig,
    weights: Vec<Vec<f32>>,
    device: Device,
) -> Result<Box<dyn Trainer>> {
    let config = config.clone().validated()?;
    match device {
        Device::Cpu => Ok(Box::new(on_processor(config, weights)?)),
        _ => elsewhere(&config.into(), weights, device),
    }
}

/// Returns the logits of any transformer, encoders included, on the processor.
///
/// # Errors
/// Returns [`Error::Shape`] if the weights do not fit.
pub fn transformer_logits(
    config: &TransformerConfig,
    weights: Vec<Vec<f32>>,
) -> Result<Box<dyn Logits>> {
    let config = config.clone().validated()?;
    Ok(Box::new(on_processor(config, weights)?))
}

type OnProcessor = transformer::Transformer<burn_flex::Flex, processor::Processor>;

fn on_processor(config: TransformerConfig, weights: Vec<Vec<f32>>) -> Result<OnProcessor> {
    transformer::Transformer::new(config, weights, Default::default())
}

/// Opens the model on a device other than the processor, if this build supports it.
fn elsewhere(model: &Model, weights: Vec<Vec<f32>>, device: Device) -> Result<Box<dyn Trainer>> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(number) => card::open::<burn_cuda::Cuda>(model, weights, number),
        #[cfg(feature = "wgpu")]
        Device::Wgpu(number) => card::open::<burn_wgpu::Wgpu>(model, weights, number),
        _ => {
            let _ = (model, weights);
            let name = device.to_string();
            let kind = name.split(':').next().unwrap_or_default();
            Err(Error::Device {
                why: device::not_built(kind),
                device: name,
            })
        }
    }
}
