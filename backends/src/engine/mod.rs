//! The burn engine: our own layers as differentiable operations, book-keeping contractions, scoring.

#[cfg(feature = "cuda")]
mod cuda;
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
mod transformer;

use crate::error::{Error, Result};
use crate::model::{Head, LstmConfig, Model, TransformerConfig};
use crate::scorer::Logits;
use crate::trainer::Trainer;

/// Relative error of norms on the processor: f32 products, f64 sums; measured below 1e-6 in tests.
const PROCESSOR_MARGIN: f64 = 1e-5;

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The processor, all cores.
    Cpu,
    /// A CUDA device by number.
    Cuda(usize),
}

impl std::str::FromStr for Device {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::Device {
            device: text.to_owned(),
            why: "must be `cpu` or `cuda:<number>`".into(),
        };
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|n| n.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(unknown),
        }
    }
}

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
        Device::Cuda(number) => on_cuda(config, weights, number),
    }
}

/// Any model that predicts the next token, with these weights, on a device.
///
/// # Errors
/// [`Error::Device`] where the device is not there or this build does not cover it;
/// [`Error::Shape`] where the weights do not fit; [`Error::Unsuitable`] for an encoder.
pub fn open(model: &Model, weights: Vec<Vec<f32>>, device: Device) -> Result<Box<dyn Trainer>> {
    match model {
        Model::Lstm(config) => lstm(config, weights, device),
        Model::Transformer(config) => transformer(config, weights, device),
    }
}

/// A decoder with these weights on a device.
///
/// # Errors
/// As [`open`].
pub fn transformer(
    config: &TransformerConfig,
    weights: Vec<Vec<f32>>,
    device: Device,
) -> Result<Box<dyn Trainer>> {
    let config = config.clone().validated()?;
    if config.head != Head::NextToken {
        return Err(Error::Unsuitable(format!(
            "{:?} with the head {:?} predicts no next token; only its logits can be had",
            config.family, config.head
        )));
    }
    match device {
        Device::Cpu => Ok(Box::new(on_processor(config, weights)?)),
        Device::Cuda(number) => transformer_on_cuda(config, weights, number),
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

#[cfg(feature = "cuda")]
fn transformer_on_cuda(
    config: TransformerConfig,
    weights: Vec<Vec<f32>>,
    number: usize,
) -> Result<Box<dyn Trainer>> {
    cuda::transformer(config, weights, number)
}

#[cfg(not(feature = "cuda"))]
fn transformer_on_cuda(
    _: TransformerConfig,
    _: Vec<Vec<f32>>,
    number: usize,
) -> Result<Box<dyn Trainer>> {
    Err(no_cuda(number))
}

#[cfg(not(feature = "cuda"))]
fn no_cuda(number: usize) -> Error {
    Error::Device {
        device: format!("cuda:{number}"),
        why: "this build has no CUDA engine; build with `--features cuda`".into(),
    }
}

#[cfg(feature = "cuda")]
fn on_cuda(config: LstmConfig, weights: Vec<Vec<f32>>, number: usize) -> Result<Box<dyn Trainer>> {
    cuda::lstm(config, weights, number)
}

#[cfg(not(feature = "cuda"))]
fn on_cuda(_: LstmConfig, _: Vec<Vec<f32>>, number: usize) -> Result<Box<dyn Trainer>> {
    Err(no_cuda(number))
}
