//! Names of devices.

use crate::error::{Error, Result};

/// The device that a model runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The processor, on all cores.
    #[default]
    Cpu,
    /// A CUDA device by number.
    Cuda(usize),
    /// A device of Vulkan, Metal or DirectX 12 by number.
    Wgpu(usize),
}

impl std::str::FromStr for Device {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::Device {
            device: text.to_owned(),
            why: "must be cpu, cuda:NUMBER or wgpu:NUMBER".into(),
        };
        let (kind, number) = match text.split_once(':') {
            Some((kind, number)) => (kind, number.parse().map_err(|_| unknown())?),
            None => (text, 0),
        };
        match kind {
            "cpu" if kind == text => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(number)),
            "wgpu" => Ok(Self::Wgpu(number)),
            _ => Err(unknown()),
        }
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Wgpu(number) => write!(f, "wgpu:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_read_as_they_are_written() {
        for device in [
            Device::Cpu,
            Device::Cuda(0),
            Device::Cuda(7),
            Device::Wgpu(3),
        ] {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("wgpu".parse::<Device>().unwrap(), Device::Wgpu(0));
        for bad in ["", "gpu", "cpu:0", "cuda:", "wgpu:-1", "wgpu:x", "metal:0"] {
            let error = bad.parse::<Device>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("device {bad}:")) && error.contains("wgpu:NUMBER"),
                "{error}"
            );
        }
    }
}
