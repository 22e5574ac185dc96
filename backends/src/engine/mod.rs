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
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::model::{LstmConfig, Model};
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
    /// The exact engine: f64 on one core, slow, for comparison.
    Exact,
}

impl std::str::FromStr for Device {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::Device {
            device: text.to_owned(),
            why: "must be `cpu`, `cuda:<number>` or `exact`".into(),
        };
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "exact" => Ok(Self::Exact),
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
        Device::Exact => crate::exact::exact(&config.into(), weights),
    }
}

/// Any model that predicts the next token, with these weights, on a device.
///
/// # Errors
/// [`Error::Device`] where the device is not there or this build does not cover it;
/// [`Error::Shape`] where the weights do not fit; [`Error::Unsuitable`] for an encoder.
pub fn open(model: &Model, weights: Vec<Vec<f32>>, device: Device) -> Result<Box<dyn Trainer>> {
    match (model, device) {
        (_, Device::Exact) => crate::exact::exact(model, weights),
        (Model::Lstm(config), _) => lstm(config, weights, device),
        (Model::Transformer(_), _) => Err(Error::Device {
            device: format!("{device:?}"),
            why: "transformers run on the device `exact` only so far".into(),
        }),
    }
}

#[cfg(feature = "cuda")]
fn on_cuda(config: LstmConfig, weights: Vec<Vec<f32>>, number: usize) -> Result<Box<dyn Trainer>> {
    cuda::lstm(config, weights, number)
}

#[cfg(not(feature = "cuda"))]
fn on_cuda(_: LstmConfig, _: Vec<Vec<f32>>, number: usize) -> Result<Box<dyn Trainer>> {
    Err(Error::Device {
        device: format!("cuda:{number}"),
        why: "this build has no CUDA engine; build with `--features cuda`".into(),
    })
}
