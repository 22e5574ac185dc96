//! Numbers, rows and calibrations.

use super::{fine, folder, json};
use crate::common::{account, flat};

#[test]
fn delta_and_epsilon_are_two_sides_of_one_answer() {
    let folder = folder();
    let at = folder.path();
    let epsilon = json(at, "--sigma 1.1 --delta 1e-6")["guarantees"][0]["epsilon"]["upper"]
        .as_f64()
        .unwrap();
    let row = json(at, &format!("--sigma 1.1 --at-epsilon {epsilon}"))["guarantees"][0].clone();
    let (low, high) = (
        row["delta_bounds"]["lower"].as_f64().unwrap(),
        row["delta_bounds"]["upper"].as_f64().unwrap(),
    );
    assert!(low <= high && high <= 1e-6 && low > 0.99e-6, "{row}");
    assert_eq!(row["delta"], row["delta_bounds"]["upper"]);
    assert!(fine(at, "--sigma 1.1 --at-epsilon 2").contains("δ upper"));
}

#[test]
fn rows_for_spreadsheets() {
    let folder = folder();
    let at = folder.path();
    for (line, header) in [
        ("--sigma 1.1 --gamma 0.1 --prior 1e-6", "notion,neighbours,"),
        ("compose steps.json --unit a", "notion,neighbours,"),
        (
            "curve --sigma 1.1 --points 3",
            "curve,argument,at,quantity,lower,upper",
        ),
        (
            "calibrate --epsilon 2 --tolerance 0.1",
            "solved,answer,fails,",
        ),
    ] {
        let text = fine(at, &format!("{line} --format csv"));
        let mut lines = text.lines();
        let first = lines.next().unwrap();
        assert!(first.starts_with(header), "{line}: {first}");
        let columns = first.split(',').count();
        assert!(lines.all(|row| row.split(',').count() == columns), "{text}");
    }
}

#[test]
fn points_over_a_parameter_are_the_answers_of_each_run() {
    let folder = folder();
    let at = folder.path();
    for (curve, run) in [
        (
            "--over sigma --steps 500 --at 0.7,2",
            "--steps 500 --sigma X",
        ),
        (
            "--over sample-rate --sigma 1.1 --epochs 2 --at 0.003,0.2",
            "--sigma 1.1 --epochs 2 --sample-rate X",
        ),
        (
            "--over steps --sigma 1.1 --neighbours replace --at 3,700",
            "--sigma 1.1 --neighbours replace --steps X",
        ),
        (
            "--over gamma --sigma 1.1 --at 0.001,0.2",
            "--sigma 1.1 --gamma X",
        ),
        (
            "--over gamma --mechanism plain.json --delta 1e-7 --at 0.3",
            "--mechanism plain.json --delta 1e-7 --gamma X",
        ),
    ] {
        let document = json(at, &format!("curve {curve}"));
        for point in document["points"].as_array().unwrap() {
            let answer = json(
                at,
                &run.replace('X', &point["at"].as_f64().unwrap().to_string()),
            );
            let row = answer["guarantees"]
                .as_array()
                .unwrap()
                .iter()
                .find(|row| !curve.contains("gamma") || row["notion"] == "bayesian-confidentiality")
                .unwrap();
            assert_eq!(point["value"], row["epsilon"], "{curve}: {run}");
        }
    }
}

#[test]
fn calibrations_are_kept_and_tight() {
    let folder = folder();
    let at = folder.path();
    // The most steps: one more breaks the limit.
    let steps = json(at, "calibrate --solve steps --epsilon 2 --sigma 1.1");
    let found = steps["answer"].as_f64().unwrap();
    assert_eq!(steps["fails"].as_f64().unwrap() as u64, found as u64 + 1);
    for (steps, code) in [(found, 0), (found + 1.0, 1)] {
        let line = format!("--sigma 1.1 --steps {steps} --max-epsilon 2");
        assert_eq!(account::run(at, &line).status.code(), Some(code), "{line}");
    }
    let rate = json(
        at,
        "calibrate --solve rate --epsilon 2 --sigma 1.1 --steps 1000",
    );
    assert!(rate["answer"].as_f64().unwrap() < rate["fails"].as_f64().unwrap());
    assert!(rate["inputs"].get("sample_rate").is_none());
    // Groups whose law is not known are shown by the lemma that answered.
    let group = json(
        at,
        "calibrate --solve group --epsilon 3 --delta 1e-6 --sampler without-replacement --sigma 2 \
         --sample-rate 0.01 --steps 100 --neighbours replace",
    );
    assert_eq!(group["answer"].as_f64(), Some(2.0));
    let files = json(
        at,
        "calibrate --solve steps --epsilon 3 --mechanism plain.json",
    );
    assert_eq!(files["inputs"]["files"][0], "plain.json");
    assert!(files.get("sigma").is_none());
    let exposure = json(
        at,
        "calibrate --max-exposure 10 --chance 0.01 --group 5 --steps 500",
    );
    assert!(exposure["promise"]["value"]["upper"].as_f64().unwrap() <= 0.01);
}

#[test]
fn a_tolerance_out_of_reach_is_said_so_and_the_upper_end_holds() {
    let folder = folder();
    std::fs::write(
        folder.path().join("bins.json"),
        r#"{"type":"repeat","times":200,"each":{"type":"subsampled-gaussian","noise_multiplier":1,"sampling_rate":0.01,"sampling":"balls-in-bins"}}"#,
    )
    .unwrap();
    let text = fine(
        folder.path(),
        "account compose bins.json --delta 1e-6 --tolerance 1e-12 -v"
            .trim_start_matches("account "),
    );
    let flat = flat(&text);
    assert!(
        flat.contains("was asked for and could not be certified"),
        "{text}"
    );
    let text = fine(
        folder.path(),
        "compose bins.json --delta 1e-6 --tolerance 0.05",
    );
    assert!(!text.contains("was asked for"), "{text}");
}
