//! The same run from every kind of file.

use super::{exported, fine, folder, json};
use crate::common::{account, flat, stderr};

#[test]
fn the_same_run_gives_the_same_number_however_it_is_described() {
    let folder = folder();
    let at = folder.path();
    let ends = |line: &str| json(at, line)["guarantees"][0]["epsilon"].clone();
    let plan = ends("--sigma 1.1");
    assert_eq!(plan, ends("compose steps.json"));
    assert_eq!(plan, ends("compose event.json"));
    assert_eq!(plan, ends("--mechanism steps.json"));
    let piped = account::fed(
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
        let output = account::fed(at, line, &steps);
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
    let other = account::run(folder.path(), "compose manifest.json --unit line");
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("--unit: must be turn"));
    // A file without a unit may be about a smaller one: it is asked for.
    let both = account::run(folder.path(), "compose manifest.json plain.json");
    assert_eq!(both.status.code(), Some(2));
    assert!(stderr(&both).contains("--unit: must be given"));
    let both = json(
        folder.path(),
        "compose manifest.json plain.json --unit turn",
    );
    assert_eq!(both["inputs"]["unit"], "turn");
    // An exported mechanism keeps its own.
    let exported = exported(folder.path(), "compose manifest.json --export mechanism");
    std::fs::write(folder.path().join("exported.json"), exported).unwrap();
    let exported = json(folder.path(), "compose exported.json");
    assert_eq!(exported["inputs"]["unit"], "turn");
    let epsilon = |document: &serde_json::Value| document["guarantees"][0]["epsilon"].clone();
    assert_eq!(epsilon(&exported), epsilon(&plain));
    let seeded = json(folder.path(), "compose seeded.json");
    assert_eq!(seeded["guarantees"][0]["epsilon"]["upper"], "inf");
    let limit = account::run(folder.path(), "compose seeded.json --max-epsilon 100");
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
    // What one record is stands beside it; an event has no place for it.
    for line in ["--sigma 1.1", "compose steps.json"] {
        let line = format!("{line} --unit turn --export");
        let of_turns: serde_json::Value =
            serde_json::from_str(&fine(at, &format!("{line} mechanism"))).unwrap();
        assert_eq!(
            of_turns,
            serde_json::json!({"unit": "turn", "canary_records_unknown": false, "mechanism": own})
        );
        let refused = account::run(at, &format!("{line} dp-event"));
        assert_eq!(refused.status.code(), Some(2));
        let why = "--unit: an event does not say what one record is, got turn";
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}

/// A run that promises less than differential privacy says so in a chain, of a group, and in what is written of it:
/// its contents are exchanged, and where a part has no noise its secrets are promised nothing.
#[test]
fn a_narrower_promise_stays_narrow() {
    let folder = folder();
    let at = folder.path();
    let sampled = r#"{"type":"repeat","times":100,"each":{"type":"subsampled-gaussian","noise_multiplier":1.1,
        "sampling_rate":0.05,"sampling":"poisson"}}"#;
    let rates = r#"{"type":"repeat","times":20,"each":{"type":"poisson-binomial-gaussian","noise_multiplier":3,
        "rates":[0.1,0.1,0.05]}}"#;
    for (recipe, mechanism) in [
        ("crt", sampled),
        ("sdp", sampled),
        ("jft", sampled),
        ("protect", rates),
    ] {
        let text =
            format!(r#"{{"schema":1,"unit":"turn","recipe":"{recipe}","mechanism":{mechanism}}}"#);
        std::fs::write(at.join(format!("{recipe}.json")), text).unwrap();
    }
    let passes = |line: &str| {
        let output = account::run(at, &format!("{line} --max-epsilon 50"));
        let code = output.status.code().unwrap();
        assert!(code < 2, "{line}: {}", stderr(&output));
        code == 0
    };
    // Nothing is promised to a secret that may be on the public side, whatever follows.
    for line in [
        "crt.json",
        "crt.json plain.json --unit turn",
        "crt.json crt.json",
        "crt.json --group 2",
    ] {
        assert!(!passes(&format!("compose {line}")), "{line}");
        let there = json(at, &format!("compose {line} --at-epsilon 5"));
        assert_eq!(there["guarantees"][0]["delta"], 1.0, "{line}");
    }
    std::fs::write(
        at.join("said.json"),
        fine(at, "compose crt.json --format json"),
    )
    .unwrap();
    for recipe in ["crt", "sdp", "jft", "protect"] {
        let mut without = json(at, &format!("compose {recipe}.json"));
        without.as_object_mut().unwrap().remove("recipe").unwrap();
        std::fs::write(at.join("without.json"), without.to_string()).unwrap();
        let output = account::run(at, "compose without.json");
        assert_eq!(output.status.code(), Some(2), "{recipe}");
        assert!(stderr(&output).contains("recipe: is missing"), "{recipe}");
    }
    std::fs::write(
        at.join("exported.json"),
        fine(at, "--mechanism crt.json --export mechanism"),
    )
    .unwrap();
    assert!(
        !passes("compose said.json") && !passes("compose exported.json plain.json --unit turn")
    );
    assert_eq!(
        json(at, "compose crt.json --prior 1e-6")["guarantees"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["posterior"].is_object())
            .count(),
        0
    );
    // Contents are compared, where nobody asks for presence, and first where somebody does.
    let upper = |line: &str| {
        let rows = json(at, line)["guarantees"].clone();
        let first = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["group"].is_u64() || !line.contains("--group"));
        let row = first.unwrap().clone();
        assert_eq!(row["neighbours"], "replace", "{line}");
        row["epsilon"]["upper"].as_f64().unwrap()
    };
    for files in [
        "sdp.json",
        "jft.json",
        "sdp.json sdp.json",
        "sdp.json plain.json --unit turn",
    ] {
        for group in ["", " --group 2"] {
            let one = upper(&format!("compose {files}{group}"));
            let contents = upper(&format!("compose {files}{group} --neighbours replace"));
            let presence = upper(&format!("compose {files}{group} --neighbours add-remove"));
            assert!(
                one.to_bits() == contents.to_bits() && presence.to_bits() == contents.to_bits(),
                "{files}{group}: {one} {contents} {presence}"
            );
        }
    }
    // Several secrets are not the records of one, as many as those are.
    let secrets = |count: u32| upper(&format!("compose protect.json --group {count}"));
    assert!(secrets(2) < secrets(3) && upper("compose protect.json") < secrets(2));
    for (line, why) in [
        (
            "compose sdp.json --gamma 0.1",
            "--gamma: applies only to runs of dpsgd and crt",
        ),
        (
            "compose jft.json --gamma 0.1",
            "--gamma: applies only to runs of dpsgd and crt",
        ),
        (
            "compose crt.json --gdp=1e-5",
            "--gdp: applies only to whole records",
        ),
        (
            "explain --mechanism protect.json",
            "--mechanism: protect makes promises for secrets, not for records",
        ),
        (
            "curve --mechanism protect.json",
            "--mechanism: protect makes promises for secrets, not for records",
        ),
        (
            "compose sdp.json --export dp-event",
            "--export dp-event: sdp promises less",
        ),
    ] {
        let output = account::run(at, line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
    }
}

/// What is promised within a class, and not of a base, is promised no more of runs together, nor of what is written of
/// them.
#[test]
fn classes_and_bases_are_kept_by_what_is_composed_and_exported() {
    let folder = folder();
    let at = folder.path();
    let given = |value: serde_json::Value| serde_json::json!({"value": value, "provenance": {"from": "given", "by": "test"}});
    let alike = serde_json::json!({
        "every_content_caught": true, "length_and_kind_hidden": true, "screening_ignores_secrets": true
    });
    let manifest = serde_json::json!({
        "schema": 1, "type": "checkpoint", "unit": "document", "vocabulary": "bytes", "seeded": false,
        "plan": {
            "run": {
                "recipe": "jft",
                "first": {"type": "ordinary", "epochs": given(1.into()), "screened": false, "alike": given(alike)},
                "second": {
                    "noise_multiplier": given(2.0.into()), "sampling": given("poisson".into()),
                    "sampling_rate": given(0.1.into()), "steps_per_epoch": 10, "steps": given(10.into())
                }
            },
            "unit": given("document".into()), "delta": given(1e-6.into()), "base": "unstated", "labelled": true,
            "unauthenticated_corpus": true
        },
        "mechanism": {"type": "repeat", "times": 10, "each": {
            "type": "subsampled-gaussian", "noise_multiplier": 2.0, "sampling_rate": 0.1, "sampling": "poisson"
        }}
    });
    std::fs::write(at.join("labelled.json"), manifest.to_string()).unwrap();
    let based = serde_json::json!({
        "unit": "document", "base": "unstated", "mechanism": {"type": "gaussian", "noise_multiplier": 5}
    });
    std::fs::write(at.join("based.json"), based.to_string()).unwrap();
    for (file, line) in [
        ("exported.json", "compose labelled.json --export mechanism"),
        (
            "both.json",
            "compose labelled.json exported.json --export mechanism",
        ),
        ("said.json", "compose labelled.json --format json"),
        (
            "explained.json",
            "explain --mechanism based.json --format json",
        ),
        ("curve.json", "curve --mechanism based.json --format json"),
        (
            "over.json",
            "curve --mechanism based.json --over gamma --points 2 --format json",
        ),
    ] {
        let text = match line.contains("--export") {
            true => exported(at, line),
            false => fine(at, line),
        };
        std::fs::write(at.join(file), text).unwrap();
    }
    for files in [
        "labelled.json",
        "labelled.json labelled.json",
        "exported.json",
        "both.json",
        "said.json",
        "labelled.json plain.json --unit document",
    ] {
        for question in [
            "",
            "--group 2",
            "--at-epsilon 1",
            "--neighbours add-remove",
            "--prior 1e-6",
        ] {
            let line = format!("compose {files} {question}");
            let found = json(at, line.trim());
            for row in found["guarantees"].as_array().unwrap() {
                assert_eq!(row["same_class"], true, "{line}: {row}");
            }
        }
        let page = fine(at, &format!("compose {files} -v"));
        let page = flat(&page);
        assert!(page.contains("between records of one class"), "{page}");
        assert!(page.contains("Not covered: the base model"), "{page}");
    }
    // What is explained and drawn is whole records, which a class is part of.
    for file in ["based.json", "explained.json", "curve.json", "over.json"] {
        for line in [
            format!("compose {file} -v"),
            format!("--mechanism {file} -v"),
        ] {
            let page = fine(at, &line);
            let page = flat(&page);
            assert!(
                page.contains("Not covered: the base model"),
                "{line}: {page}"
            );
        }
    }
}

/// A promise that rests on held-out text that was declared public says so, in every file that keeps it: a run that stopped by
/// private text promises nothing.
#[test]
fn held_out_text_that_was_declared_public_is_said() {
    const PLAN: &str = "--recipe dpsgd --unit turn --sigma 1.1 --sample-rate 0.01 --patience 3 --held-out-is public";
    let folder = folder();
    let at = folder.path();
    for (file, line) in [
        ("exported.json", format!("{PLAN} --export mechanism")),
        (
            "both.json",
            "compose exported.json plain.json --unit turn --export mechanism".to_owned(),
        ),
        ("said.json", "compose both.json --format json".to_owned()),
        (
            "curve.json",
            "curve --mechanism exported.json --at 1 --format json".to_owned(),
        ),
    ] {
        let text = match line.contains("--export") {
            true => exported(at, &line),
            false => fine(at, &line),
        };
        std::fs::write(at.join(file), text).unwrap();
    }
    for (line, said) in [
        (PLAN, true),
        ("--mechanism exported.json", true),
        ("compose said.json curve.json", true),
        ("explain --mechanism said.json", true),
        ("curve --mechanism both.json --at 1", true),
        ("compose plain.json", false),
    ] {
        let page = fine(at, &format!("{line} -v")).to_lowercase();
        let page = flat(&page);
        let words = "the held-out text by whose loss training stops";
        assert_eq!(page.contains(words), said, "{line}: {page}");
    }
}

/// "Present or absent" holds among runs with the same divisor, which every answer about it says; the content of a record
/// changes no number of records.
#[test]
fn the_number_of_records_counts_as_public() {
    let folder = folder();
    let at = folder.path();
    for (line, said) in [
        ("--sigma 1.1 -v", true),
        ("compose manifest.json -v", true),
        ("explain --sigma 1.1 -v", true),
        ("--recipe dpsgd --sigma 1.1 --sample-rate 0.01 -v", true),
        ("--sigma 1.1 --neighbours replace -v", false),
        ("explain --sigma 1.1 --neighbours replace -v", false),
    ] {
        let page = fine(at, line).to_lowercase();
        assert_eq!(
            page.contains("the number of records: "),
            said,
            "{line}: {page}"
        );
    }
}
