//! `audit devices`: lists the devices of this machine that can run models.

use crate::contract::{Envelope, Exit, Inputs, Table, dash};
use crate::number::count_of;
use crate::page::{Output, Page, Section};
use anyhow::Result;
use reticent_backends::engine::{DeviceKind, Devices, devices};

const fn words(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Processor => "processor",
        DeviceKind::Discrete => "card",
        DeviceKind::Integrated => "integrated",
        DeviceKind::Virtual => "virtual card",
        DeviceKind::Software => "driver in software",
        DeviceKind::Other => "not said",
    }
}

fn page(all: &Devices) -> Page {
    let covered = all.found.iter().filter(|found| found.covered).count();
    let said = format!(
        "{} can run models in this build.",
        count_of(covered as u64, "device")
    );
    let table = Table::of(&all.found)
        .left("--device", |found| found.device.to_string())
        .left("name", |found| &found.name)
        .left("kind", |found| words(found.kind))
        .left("driver", |found| found.driver.clone().unwrap_or_else(dash))
        .left("this build", |found| {
            if found.covered { "runs it" } else { "does not" }
        });
    let missing = all.missing.iter();
    let notes = missing.map(|m| format!("{}: {}.", m.kind, m.because));
    Page::new("Devices", said)
        .answer(Section::table("", table))
        .answer(Section::notes("None of these", notes))
}

pub(in crate::audit) fn run(output: Output) -> Result<Exit> {
    let all = devices();
    let document = Envelope::new("devices", Inputs::new(), &all);
    output.answer(&document, &page(&all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::fits;
    use reticent_backends::Device;
    use reticent_backends::engine::{FoundDevice, MissingDevice};

    #[test]
    fn a_device_is_shown_with_all_that_is_known_of_it() {
        let found = |device, name: &str, kind, driver: Option<&str>, covered| FoundDevice {
            device,
            name: name.into(),
            kind,
            driver: driver.map(str::to_owned),
            covered,
        };
        let body = Devices {
            found: vec![
                found(Device::Cpu, "A", DeviceKind::Processor, None, true),
                found(Device::Cuda(1), "B", DeviceKind::Discrete, None, false),
                found(
                    Device::Wgpu(0),
                    "C",
                    DeviceKind::Software,
                    Some("vulkan, 1"),
                    true,
                ),
            ],
            missing: vec![MissingDevice {
                kind: "metal",
                because: "none".into(),
            }],
        };
        let text = Envelope::new("devices", Inputs::new(), &body)
            .to_text()
            .unwrap();
        fits("devices", &text);
        assert!(text.contains("\"software\"") && text.contains("\"wgpu:0\""));
        let page = page(&body).to_markdown();
        for words in [
            "2 devices can run",
            "cuda:1",
            "does not",
            "vulkan, 1",
            "metal: none.",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }

    #[test]
    fn this_machine_has_a_processor() {
        let text = page(&devices()).to_markdown();
        assert!(text.contains("cpu"), "{text}");
    }
}
