//! The same run from every kind of file.

use super::{fine, folder, json, run, stderr};

#[test]
fn the_same_run_gives_the_same_number_however_it_is_described() {
    let folder = folder();
    let at = folder.path();
    let ends = |line: &str| json(at, line)["guarantees"][0]["epsilon"].clone();
    let plan = ends("--sigma 1.1");
    assert_eq!(plan, ends("compose steps.json"));
    assert_eq!(plan, ends("compose event.json"));
    assert_eq!(plan, ends("--mechanism steps.json"));
    let piped = run(
        at,
        "compose - --format json",
        &std::fs::read_to_string(at.join("event.json")).unwrap(),
    );
    let piped: serde_json::Value = serde_json::from_slice(&piped.stdout).unwrap();
    assert_eq!(plan, piped["guarantees"][0]["epsilon"]);
    assert_eq!(piped["inputs"]["files"][0], "stdin");
    // Two files are their sequence, and a document of ours is one of them.
    std::fs::write(
        at.join("document.json"),
        fine(at, "compose steps.json plain.json --format json"),
    )
    .unwrap();
    assert_eq!(
        ends("compose steps.json plain.json"),
        ends("compose document.json")
    );
}

#[test]
fn what_is_piped_in_is_drawn_too() {
    let folder = folder();
    let at = folder.path();
    let steps = std::fs::read_to_string(at.join("steps.json")).unwrap();
    for line in [
        "curve --what renyi --mechanism - --plot x.svg",
        "compose - --plot x.svg",
    ] {
        let output = run(at, line, &steps);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        assert!(
            std::fs::read_to_string(at.join("x.svg"))
                .unwrap()
                .contains("</svg>")
        );
        std::fs::remove_file(at.join("x.svg")).unwrap();
    }
}

#[test]
fn a_manifest_brings_its_unit_and_its_caveats() {
    let folder = folder();
    let plain = json(folder.path(), "compose manifest.json");
    assert_eq!(plain["inputs"]["unit"], "turn");
    assert!(
        !plain["inputs"]["assumed"]
            .as_array()
            .unwrap()
            .iter()
            .any(|name| name == "unit")
    );
    // Which no argument overrules: the same number promises more of a larger unit.
    let other = run(folder.path(), "compose manifest.json --unit line", "");
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("--unit: must be turn"));
    // Of a file without a unit it is assumed.
    let both = json(folder.path(), "compose manifest.json plain.json");
    let assumed = both["inputs"]["assumed"].as_array().unwrap();
    assert!(assumed.iter().any(|name| name == "unit") && both["inputs"]["unit"] == "turn");
    let seeded = json(folder.path(), "compose seeded.json");
    assert_eq!(seeded["guarantees"][0]["epsilon"]["upper"], "inf");
    let limit = run(folder.path(), "compose seeded.json --max-epsilon 100", "");
    assert_eq!(limit.status.code(), Some(1));
}

#[test]
fn events_and_mechanisms_are_translated() {
    let folder = folder();
    let at = folder.path();
    std::fs::write(
        at.join("out.json"),
        fine(at, "compose steps.json --export dp-event"),
    )
    .unwrap();
    let event: serde_json::Value =
        serde_json::from_str(&fine(at, "compose out.json --export dp-event")).unwrap();
    assert_eq!(event["class_name"], "SelfComposedDpEvent");
    assert_eq!(event["event"]["event"]["noise_multiplier"], 1.1);
    let back: serde_json::Value =
        serde_json::from_str(&fine(at, "compose out.json --export mechanism")).unwrap();
    let own: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(at.join("steps.json")).unwrap()).unwrap();
    assert_eq!(back, own);
    let from_flags: serde_json::Value =
        serde_json::from_str(&fine(at, "--sigma 1.1 --export mechanism")).unwrap();
    assert_eq!(from_flags, own);
}
