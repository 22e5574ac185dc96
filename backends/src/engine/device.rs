//! The devices of this machine on which models can run.

use crate::device::Device;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Kind")]
pub enum DeviceKind {
    /// The processor.
    Processor,
    /// A discrete GPU, with its own memory.
    Discrete,
    /// An integrated GPU, which shares the processor's memory.
    Integrated,
    /// A virtual GPU.
    Virtual,
    /// A graphics driver that computes on the processor.
    Software,
    /// The driver does not say.
    Other,
}

/// A device that this machine has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Found")]
pub struct FoundDevice {
    /// Its name for `--device`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub device: Device,
    /// What its driver calls it.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// The driver and its version, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Whether this build can run models on it.
    pub covered: bool,
}

fn by_name<S: Serializer>(device: &Device, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(device)
}

/// A kind of devices of which none was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Missing")]
pub struct MissingDevice {
    /// The value of `--device`.
    pub kind: &'static str,
    /// The reason.
    pub because: String,
}

/// The devices found, and the reasons why none of some kind was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Devices {
    /// The processor first.
    #[serde(rename = "devices")]
    pub found: Vec<FoundDevice>,
    /// Kinds of devices of which none was found.
    pub missing: Vec<MissingDevice>,
}

/// Returns the devices of this machine on which models can run.
#[must_use]
pub fn devices() -> Devices {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut all = Devices {
        found: vec![FoundDevice {
            device: Device::Cpu,
            name: format!("{}, {cores} threads", processor_name()),
            kind: DeviceKind::Processor,
            driver: None,
            covered: true,
        }],
        missing: Vec::new(),
    };
    all.take("cuda", cuda());
    all.take("wgpu", wgpu());
    all
}

/// The devices of a kind, or the reason why there is none.
pub(super) type Probed = std::result::Result<Vec<FoundDevice>, String>;

impl Devices {
    fn take(&mut self, kind: &'static str, probed: Probed) {
        match probed {
            Ok(found) => self.found.extend(found),
            Err(because) => self.missing.push(MissingDevice { kind, because }),
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda() -> Probed {
    super::cuda::probe()
}

#[cfg(not(feature = "cuda"))]
fn cuda() -> Probed {
    let names = nvidia_names();
    if names.is_empty() {
        return Err(not_built("cuda"));
    }
    let found = names.into_iter().enumerate().map(|(i, name)| FoundDevice {
        device: Device::Cuda(i),
        name,
        kind: DeviceKind::Discrete,
        driver: None,
        covered: false,
    });
    Ok(found.collect())
}

#[cfg(feature = "wgpu")]
fn wgpu() -> Probed {
    super::wgpu::probe()
}

#[cfg(not(feature = "wgpu"))]
fn wgpu() -> Probed {
    Err(not_built("wgpu"))
}

/// Returns the reason why a build runs no models on devices of this kind.
pub(super) fn not_built(kind: &str) -> String {
    format!("this build has no {kind} engine; build with `--features {kind}`")
}

/// Returns the names that the NVIDIA driver for Linux reports for its cards, in the order of the bus.
pub(super) fn nvidia_names() -> Vec<String> {
    let folders = std::fs::read_dir("/proc/driver/nvidia/gpus");
    let mut folders: Vec<_> = folders.into_iter().flatten().flatten().collect();
    folders.sort_by_key(std::fs::DirEntry::file_name);
    let name = |folder: &std::fs::DirEntry| {
        let text = std::fs::read_to_string(folder.path().join("information")).ok()?;
        field(&text, "Model")
    };
    let names = folders.iter().map(name);
    names
        .map(|name| name.unwrap_or_else(|| "NVIDIA device".into()))
        .collect()
}

fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    field(&text, "model name").unwrap_or_else(|| std::env::consts::ARCH.into())
}

/// Returns the value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_always_there() {
        let all = devices();
        assert_eq!(all.found[0].device, Device::Cpu);
        assert!(all.found[0].covered);
        let kinds: Vec<&str> = all.missing.iter().map(|one| one.kind).collect();
        for found in &all.found {
            let text = found.device.to_string();
            assert!(!kinds.iter().any(|kind| text.starts_with(kind)), "{text}");
        }
    }

    #[test]
    fn a_field_is_the_first_of_its_name() {
        let text = "processor\t: 0\nmodel name\t: A B\nmodel name\t: C\nempty :\n";
        assert_eq!(field(text, "model name"), Some("A B".into()));
        assert_eq!(field(text, "empty"), None);
        assert_eq!(field(text, "model"), None);
    }
}
