//! CUDA devices: probed before the tensor library touches them, since it panics without a driver.

use super::kernels::Kernels;
use super::layers::Portable;
use super::lstm::Lstm;
use super::transformer::Transformer;
use crate::error::{Error, Result};
use crate::model::{LstmConfig, TransformerConfig};
use crate::trainer::Trainer;
use burn_cuda::{Cuda, CudaDevice};

/// Relative error of norms on CUDA: f32 products may run in TF32 (10-bit mantissa).
const CUDA_MARGIN: f64 = 2e-3;

impl Kernels for Cuda {}

/// Whether the driver library can be loaded, and how many devices it sees.
#[expect(
    unsafe_code,
    reason = "calls two functions of the CUDA driver with their documented signatures"
)]
fn devices() -> std::result::Result<usize, String> {
    let names = ["libcuda.so.1", "libcuda.so", "nvcuda.dll"];
    // SAFETY: loading the system's driver library runs its initialisers, as every CUDA program does.
    let library = names
        .iter()
        .find_map(|name| unsafe { libloading::Library::new(name).ok() });
    let library =
        library.ok_or_else(|| "no NVIDIA driver found (libcuda could not be loaded)".to_owned())?;
    // SAFETY: cuInit(unsigned) and cuDeviceGetCount(int*) return a CUresult (0 is success).
    unsafe {
        let init: libloading::Symbol<'_, unsafe extern "C" fn(u32) -> i32> =
            library.get(b"cuInit\0").map_err(|e| e.to_string())?;
        let count: libloading::Symbol<'_, unsafe extern "C" fn(*mut i32) -> i32> = library
            .get(b"cuDeviceGetCount\0")
            .map_err(|e| e.to_string())?;
        let status = init(0);
        if status != 0 {
            return Err(format!(
                "the NVIDIA driver refused to start (CUresult {status})"
            ));
        }
        let mut found = 0;
        let status = count(&mut found);
        if status != 0 {
            return Err(format!(
                "the NVIDIA driver could not count its devices (CUresult {status})"
            ));
        }
        Ok(usize::try_from(found).unwrap_or(0))
    }
}

/// The device of this number, if the driver sees it.
fn device(number: usize) -> Result<CudaDevice> {
    let missing = |why: String| Error::Device {
        device: format!("cuda:{number}"),
        why,
    };
    let found = devices().map_err(missing)?;
    if number >= found {
        return Err(missing(format!(
            "the driver sees {found} device(s), numbered from 0"
        )));
    }
    Ok(CudaDevice::new(number))
}

pub(super) fn lstm(
    config: LstmConfig,
    weights: Vec<Vec<f32>>,
    number: usize,
) -> Result<Box<dyn Trainer>> {
    let device = device(number)?;
    Ok(Box::new(Lstm::<Cuda>::new(
        config,
        weights,
        device,
        CUDA_MARGIN,
    )?))
}

pub(super) fn transformer(
    config: TransformerConfig,
    weights: Vec<Vec<f32>>,
    number: usize,
) -> Result<Box<dyn Trainer>> {
    let device = device(number)?;
    Ok(Box::new(Transformer::<Cuda, Portable>::new(
        config,
        weights,
        device,
        CUDA_MARGIN,
    )?))
}
