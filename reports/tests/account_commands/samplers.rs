//! Samplers beyond Poisson, from files.

use super::{fine, folder, json};
use crate::common::{account, flat, stderr};

fn step(sampling: &str, rate: &str) -> String {
    format!(
        r#"{{"type":"repeat","times":200,"each":{{"type":"subsampled-gaussian","noise_multiplier":2,
            "sampling_rate":{rate},"sampling":{sampling}}}}}"#
    )
}

#[test]
fn each_sampler_is_bounded_as_far_as_it_is_known() {
    let folder = folder();
    let at = folder.path();
    let write = |name: &str, text: String| std::fs::write(at.join(name), text).unwrap();
    write("bins.json", step(r#""balls-in-bins""#, "0.01"));
    write("shuffled.json", step(r#""shuffled""#, "0.01"));
    write(
        "places.json",
        step(
            r#"{"random-allocation":{"selected":2,"steps":200}}"#,
            "0.01",
        ),
    );
    write(
        "cut.json",
        step(
            r#"{"truncated-poisson":{"max_batch":12,"records":1000}}"#,
            "0.01",
        ),
    );
    let ends = |name: &str, neighbours: &str| {
        let answer = json(at, &format!("compose {name} --neighbours {neighbours}"));
        let epsilon = &answer["guarantees"][0]["epsilon"];
        (
            epsilon["lower"].as_f64(),
            epsilon["upper"].as_f64().unwrap(),
        )
    };
    // Two epochs of one record in one of a hundred steps.
    let (low, high) = ends("bins.json", "add-remove");
    assert!(low.unwrap() <= high && high < 1.01 * low.unwrap() && high < 1.0);
    let (least, most) = ends("shuffled.json", "zero-out");
    assert!((least.unwrap() / low.unwrap() - 1.0).abs() < 1e-3 && most > 2.0 * high);
    // Two places among two hundred steps are no worse than one among each hundred.
    let (least, most) = ends("places.json", "add-remove");
    assert!(least.unwrap() < most && (most / high - 1.0).abs() < 1e-3);
    let (least, most) = ends("cut.json", "add-remove");
    assert!(least.unwrap() < most);
    let refused = account::run(at, "compose shuffled.json --neighbours add-remove");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("zero-out or replace"),
        "{}",
        stderr(&refused)
    );
    let text = fine(at, "explain --mechanism bins.json -v");
    let flat = flat(&text);
    assert!(flat.contains("likelihood ratios of an epoch"), "{text}");
}

#[test]
fn random_allocations_are_events_of_whole_epochs() {
    let folder = folder();
    let at = folder.path();
    let event = r#"["dp_accounting.dp_event","SelfComposedDpEvent",["dp_accounting.dp_event",
        "RandomAllocationDpEvent",["dp_accounting.dp_event","GaussianDpEvent",2.0],1,100],2]"#;
    std::fs::write(at.join("allocation.json"), event).unwrap();
    std::fs::write(at.join("bins.json"), step(r#""balls-in-bins""#, "0.01")).unwrap();
    let epsilon =
        |name: &str| json(at, &format!("compose {name}"))["guarantees"][0]["epsilon"].clone();
    assert_eq!(epsilon("allocation.json"), epsilon("bins.json"));
    let written = fine(at, "compose bins.json --export dp-event");
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["class_name"], "SelfComposedDpEvent");
    assert_eq!(
        (&written["count"], &written["event"]["num_steps"]),
        (&2.into(), &100.into())
    );
    let part = step(r#""balls-in-bins""#, "0.01").replace("200", "150");
    std::fs::write(at.join("part.json"), part).unwrap();
    let refused = account::run(at, "compose part.json --export dp-event");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("whole ones"),
        "{}",
        stderr(&refused)
    );
}

/// Between other neighbours the sensitivity would be a million and two, which is out of range: only the row beside says so.
#[test]
fn a_row_beside_that_is_not_covered_refuses_nothing() {
    let folder = folder();
    let changed = |sensitivity: u32| {
        let text =
            format!(r#"{{"type":"discrete-gaussian","sigma":9e3,"sensitivity":{sensitivity}}}"#);
        std::fs::write(folder.path().join("wide.json"), text).unwrap();
        let answer = json(folder.path(), "--mechanism wide.json");
        assert!(
            answer["guarantees"][0]["epsilon"]["upper"]
                .as_f64()
                .unwrap()
                > 0.0
        );
        let rows = answer["what_if"].as_array().cloned().unwrap_or_default();
        let row = rows.iter().find(|row| row["changed"] == "neighbours");
        row.unwrap()["failed"].as_str().map(str::to_owned)
    };
    assert_eq!(changed(500_000), None);
    assert!(changed(500_001).is_some());
}
