//! The burn engine: our own layers as differentiable operations, book-keeping contractions, scoring.

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

pub use device::{DeviceKind, Devices, FoundDevice, devices};
pub use transfers::{Transfers, transfers};

/// Relative error of norms on the processor: f32 products, f64 sums; measured below 1e-6 in tests.
const PROCESSOR_MARGIN: f64 = 1e-5;

/// An LSTM with these weights on a device.
///
/// # Errors
/// [`Error::Device`] where the device is not there or this build does not cover it;
/// [`Error::Shape`] where the weights do not fit.
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
            PROCESSOR_MARGIN,
        )?)),
        _ => elsewhere(&config.into(), weights, device),
    }
}

/// Any model with these weights, on a device. What predicts no next token ([`Model::predicts_next_token`]) is trained and
/// told classes by, and has no scores.
///
/// # Errors
/// [`Error::Device`] where the device is not there or this build does not cover it;
/// [`Error::Shape`] where the weights do not fit.
pub fn open(model: &Model, weights: Vec<Vec<f32>>, device: Device) -> Result<Box<dyn Trainer>> {
    match model {
        Model::Lstm(config) => lstm(config, weights, device),
        Model::Transformer(config) => transformer(config, weights, device),
    }
}

/// A transformer with these weights on a device.
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

/// The logits of any transformer on the processor, encoders too.
///
/// # Errors
/// [`Error::Shape`] where the weights do not fit.
pub fn transformer_logits(
    config: &TransformerConfig,
    weights: Vec<Vec<f32>>,
) -> Result<Box<dyn Logits>> {
    let config = config.clone().validated()?;
    Ok(Box::new(on_processor(config, weights)?))
}

type OnProcessor = transformer::Transformer<burn_flex::Flex, processor::Processor>;

fn on_processor(config: TransformerConfig, weights: Vec<Vec<f32>>) -> Result<OnProcessor> {
    transformer::Transformer::new(config, weights, Default::default(), PROCESSOR_MARGIN)
}

/// On a device beside the processor, where this build covers it.
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
