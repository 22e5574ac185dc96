//! CUDA devices. They are probed before the tensor library touches them, because it panics without a driver.

use crate::device::Device;
use crate::engine::card::{Card, beyond, missing};
use crate::engine::cubes::{self, Cubes};
use crate::engine::device::{DeviceKind, FoundDevice, Probed, nvidia_names};
use crate::engine::kernels::Kernels;
use crate::engine::layers::{Floats, Matrix, Nonlinearity};
use crate::error::Result;
use crate::privacy::random::MeanNoise;
use crate::scorer::TokenScore;
use crate::trainer::optimizer::AdamRule;
use burn::tensor::Tensor;
use burn_cuda::{Cuda, CudaDevice};
use cubecl::cuda::CudaRuntime;
use reticent_corpus::TokenId;

mod adam;
mod noise;

#[cfg(test)]
pub(in crate::engine) use noise::draws_as_the_host;

impl Cubes for Cuda {
    type Own = CudaRuntime;
}

impl Floats for Cuda {
    const GRID_ROWS: usize = if cfg!(test) { 256 } else { 8192 };
    const LOGITS: usize = 1 << 28;
    const HEAD_ROWS: usize = Self::GRID_ROWS;

    fn kind() -> &'static str {
        "cuda"
    }

    fn product<const D: usize>(a: Tensor<Self, D>, b: Tensor<Self, D>) -> Tensor<Self, D> {
        cubes::product(a, b, None, true)
    }
    fn product_plus(a: Matrix<Self>, b: Matrix<Self>, bias: Matrix<Self>) -> Matrix<Self> {
        cubes::product(a, b, Some(bias), true)
    }
    fn noised(sums: Vec<Matrix<Self>>, noise: &MeanNoise<'_>) -> Vec<Matrix<Self>> {
        noise::noised(sums, noise)
    }
    fn cross_entropy(
        logits: Matrix<Self>,
        targets: &[TokenId],
        cap: Option<f32>,
    ) -> (Matrix<Self>, Matrix<Self>) {
        cubes::cross_entropy(logits, targets, cap)
    }
    fn scores(logits: Matrix<Self>, targets: &[TokenId]) -> Vec<TokenScore> {
        cubes::scores(logits, targets)
    }
    fn log_probabilities(logits: Matrix<Self>, wanted: &[TokenId]) -> Vec<f64> {
        cubes::log_probabilities(logits, wanted)
    }
    fn largest(tensors: &[Matrix<Self>]) -> Vec<f32> {
        cubes::largest(tensors)
    }
    fn activate(z: Matrix<Self>, shape: Nonlinearity) -> Matrix<Self> {
        cubes::activate(z, shape)
    }
    fn activate_back(d_out: Matrix<Self>, z: Matrix<Self>, shape: Nonlinearity) -> Matrix<Self> {
        cubes::activate_back(d_out, z, shape)
    }
    fn adam(weights_moments_gradient: [Matrix<Self>; 4], rule: &AdamRule) -> [Matrix<Self>; 3] {
        adam::step(weights_moments_gradient, rule)
    }
}

impl Kernels for Cuda {}

impl Card for Cuda {
    fn find(number: usize) -> Result<CudaDevice> {
        let refused = |why: String| missing(Device::Cuda(number), why);
        let (found, _) = driver().map_err(refused)?;
        if number >= found {
            return Err(refused(beyond(found)));
        }
        Ok(CudaDevice::new(number))
    }
}

/// Returns the devices that the driver reports.
pub(in crate::engine) fn probe() -> Probed {
    let (count, version) = driver()?;
    let names = nvidia_names();
    let found = (0..count).map(|number| FoundDevice {
        device: Device::Cuda(number),
        name: names
            .get(number)
            .filter(|_| names.len() == count)
            .map_or_else(|| "CUDA device".into(), String::clone),
        kind: DeviceKind::Discrete,
        driver: Some(format!("CUDA {}.{}", version / 1000, version % 1000 / 10)),
        covered: true,
    });
    Ok(found.collect())
}

/// Returns the number of devices that the driver reports, at least one, and the version of CUDA that it supports.
#[expect(
    unsafe_code,
    reason = "calls three functions of the CUDA driver with their documented signatures"
)]
fn driver() -> std::result::Result<(usize, i32), String> {
    type Ask = unsafe extern "C" fn(*mut i32) -> i32;
    let names = ["libcuda.so.1", "libcuda.so", "nvcuda.dll"];
    // SAFETY: loading the system's driver library runs its initialisers, as every CUDA program does.
    let library = names
        .iter()
        .find_map(|name| unsafe { libloading::Library::new(name).ok() });
    let library =
        library.ok_or_else(|| "no NVIDIA driver found (libcuda could not be loaded)".to_owned())?;
    // SAFETY: cuInit(unsigned), cuDeviceGetCount(int*) and cuDriverGetVersion(int*) return a
    // CUresult (0 is success).
    unsafe {
        let init: libloading::Symbol<'_, unsafe extern "C" fn(u32) -> i32> =
            library.get(b"cuInit\0").map_err(|e| e.to_string())?;
        let count: libloading::Symbol<'_, Ask> = library
            .get(b"cuDeviceGetCount\0")
            .map_err(|e| e.to_string())?;
        let version: libloading::Symbol<'_, Ask> = library
            .get(b"cuDriverGetVersion\0")
            .map_err(|e| e.to_string())?;
        let status = init(0);
        if status != 0 {
            return Err(format!(
                "the NVIDIA driver refused to start (CUresult {status})"
            ));
        }
        let (mut found, mut speaks) = (0, 0);
        let status = count(&mut found);
        if status != 0 {
            return Err(format!(
                "the NVIDIA driver could not count its devices (CUresult {status})"
            ));
        }
        if version(&mut speaks) != 0 {
            speaks = 0;
        }
        match usize::try_from(found) {
            Ok(found) if found > 0 => Ok((found, speaks)),
            _ => Err("the NVIDIA driver sees no device".into()),
        }
    }
}
