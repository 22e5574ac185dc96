//! Devices of Vulkan, Metal and DirectX 12. They are chosen and opened here, because the tensor library panics if there
//! is none.

use super::card::{Card, beyond, missing};
use super::cubes::{self, Cubes};
use super::device::{DeviceKind, FoundDevice, Probed};
use super::kernels::Kernels;
use super::layers::{Floats, Matrix, Nonlinearity};
use crate::device::Device;
use crate::error::Result;
use crate::scorer::TokenScore;
use burn_wgpu::{RuntimeOptions, Wgpu, WgpuDevice, WgpuRuntime, WgpuSetup};
use reticent_corpus::TokenId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use wgpu::{Adapter, Backends, DeviceType, Features, Instance};

impl Cubes for Wgpu {
    type Own = WgpuRuntime;
}

impl Floats for Wgpu {
    fn kind() -> &'static str {
        "wgpu"
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
}

impl Kernels for Wgpu {}

impl Card for Wgpu {
    fn find(number: usize) -> Result<WgpuDevice> {
        // The library keeps one set of queues and memory pools per registered device.
        static OPENED: Mutex<Option<HashMap<usize, WgpuDevice>>> = Mutex::new(None);
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        if let Some(device) = opened.get(&number) {
            return Ok(device.clone());
        }
        let device = connect(number).map_err(|why| missing(Device::Wgpu(number), why))?;
        opened.insert(number, device.clone());
        Ok(device)
    }
}

fn connect(number: usize) -> std::result::Result<WgpuDevice, String> {
    let (instance, mut adapters) = adapters()?;
    if number >= adapters.len() {
        return Err(beyond(adapters.len()));
    }
    let adapter = adapters.swap_remove(number);
    let request = adapter.request_device(&wgpu::DeviceDescriptor {
        label: None,
        required_features: adapter.features()
            - Features::MAPPABLE_PRIMARY_BUFFERS
            - Features::all_experimental_mask(),
        required_limits: adapter.limits(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
        experimental_features: wgpu::ExperimentalFeatures::disabled(),
    });
    let (device, queue) = futures_lite::future::block_on(request)
        .map_err(|error| format!("the driver refused to open it: {error}"))?;
    let backend = adapter.get_info().backend;
    let setup = WgpuSetup {
        instance,
        adapter,
        device,
        queue,
        backend,
    };
    Ok(burn_wgpu::init_device(setup, RuntimeOptions::default()))
}

/// Returns the adapters that the drivers report, at least one, in the order of [`rank`].
fn adapters() -> std::result::Result<(Instance, Vec<Adapter>), String> {
    let backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
    let instance = Instance::new(wgpu::InstanceDescriptor {
        backends,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let mut found = futures_lite::future::block_on(instance.enumerate_adapters(backends));
    found.sort_by_key(|adapter| rank(adapter.get_info().device_type));
    if found.is_empty() {
        return Err("no driver for Vulkan, Metal or DirectX 12 shows a device".into());
    }
    Ok((instance, found))
}

/// Orders cards first and the processor last, keeping the driver's own order within a kind.
fn rank(kind: DeviceType) -> u8 {
    match kind {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

/// Returns the devices that the drivers report.
pub(super) fn probe() -> Probed {
    let (_, adapters) = adapters()?;
    let found = adapters.iter().enumerate().map(|(number, adapter)| {
        let info = adapter.get_info();
        let words = [info.backend.to_str(), &info.driver, &info.driver_info];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        FoundDevice {
            device: Device::Wgpu(number),
            name: info.name,
            kind: match info.device_type {
                DeviceType::DiscreteGpu => DeviceKind::Discrete,
                DeviceType::IntegratedGpu => DeviceKind::Integrated,
                DeviceType::VirtualGpu => DeviceKind::Virtual,
                DeviceType::Cpu => DeviceKind::Software,
                DeviceType::Other => DeviceKind::Other,
            },
            driver: Some(words.join(", ")),
            covered: true,
        }
    });
    Ok(found.collect())
}
