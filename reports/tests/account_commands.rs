//! `account curve`, `compose`, `explain` and `calibrate --solve`, from outside.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(folder: &Path, line: &str, stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_account"))
        .args(line.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read may be gone already.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a line that must end well and gives what it prints.
fn fine(folder: &Path, line: &str) -> String {
    let output = run(folder, line, "");
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    assert!(output.stderr.is_empty(), "{line}: {}", stderr(&output));
    stdout(&output)
}

fn json(folder: &Path, line: &str) -> serde_json::Value {
    serde_json::from_str(&fine(folder, &format!("{line} --format json"))).unwrap()
}

/// A folder with mechanisms in every form.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("plain.json", r#"{"type":"gaussian","noise_multiplier":5}"#),
        (
            "steps.json",
            r#"{"type":"repeat","times":1000,"each":{"type":"subsampled-gaussian","noise_multiplier":1.1,
                "sampling_rate":0.01,"sampling":"poisson"}}"#,
        ),
        (
            "event.json",
            r#"["dp_accounting.dp_event","SelfComposedDpEvent",["dp_accounting.dp_event","PoissonSampledDpEvent",0.01,
                ["dp_accounting.dp_event","GaussianDpEvent",1.1]],1000]"#,
        ),
        (
            "manifest.json",
            r#"{"schema":1,"type":"checkpoint","unit":"turn","seeded":false,
                "mechanism":{"type":"gaussian","noise_multiplier":5}}"#,
        ),
        (
            "seeded.json",
            r#"{"schema":1,"type":"checkpoint","unit":"turn","seeded":true,
                "mechanism":{"type":"gaussian","noise_multiplier":5}}"#,
        ),
        (
            "dialogues.json",
            r#"{"unit":"dialogue","mechanism":{"type":"gaussian","noise_multiplier":5}}"#,
        ),
        (
            "broken.json",
            r#"{"type":"repeat","times":3,"each":{"type":"gaussian","noise_multiplier":-1}}"#,
        ),
        (
            "twice.json",
            r#"{"type":"gaussian","noise_multiplier":5,"noise_multiplier":50}"#,
        ),
        ("nan.json", r#"{"type":"gaussian","noise_multiplier":NaN}"#),
        (
            "zcdp.json",
            r#"{"class_name":"ZCDpEvent","rho":0.1,"xi":0}"#,
        ),
        (
            "fixed.json",
            r#"{"type":"subsampled-gaussian","noise_multiplier":1,"sampling_rate":0.1,"sampling":"with-replacement"}"#,
        ),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    std::fs::write(folder.path().join("bytes.json"), b"{\"type\":\"\xff\"}").unwrap();
    folder
}

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
    assert_eq!(
        json(folder.path(), "compose manifest.json --unit line")["inputs"]["unit"],
        "line"
    );
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

#[test]
fn delta_and_epsilon_are_two_sides_of_one_answer() {
    let folder = folder();
    let at = folder.path();
    let epsilon = json(at, "--sigma 1.1 --delta 1e-6")["guarantees"][0]["epsilon"]["upper"]
        .as_f64()
        .unwrap();
    let row = json(at, &format!("--sigma 1.1 --epsilon {epsilon}"))["guarantees"][0].clone();
    let (low, high) = (
        row["delta_bounds"]["lower"].as_f64().unwrap(),
        row["delta_bounds"]["upper"].as_f64().unwrap(),
    );
    assert!(low <= high && high <= 1e-6 && low > 0.99e-6, "{row}");
    assert_eq!(row["delta"], row["delta_bounds"]["upper"]);
    assert!(fine(at, "--sigma 1.1 --epsilon 2").contains("delta <="));
}

#[test]
fn rows_for_spreadsheets() {
    let folder = folder();
    let at = folder.path();
    for (line, header) in [
        ("--sigma 1.1 --gamma 0.1 --prior 1e-6", "notion,neighbours,"),
        ("compose steps.json --unit a,b", "notion,neighbours,"),
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
        // Quoted commas are one cell.
        assert!(
            lines.all(|row| row.replace("\"a,b\"", "ab").split(',').count() == columns),
            "{text}"
        );
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
        assert_eq!(run(at, &line, "").status.code(), Some(code), "{line}");
    }
    let rate = json(
        at,
        "calibrate --solve rate --epsilon 2 --sigma 1.1 --steps 1000",
    );
    assert!(rate["answer"].as_f64().unwrap() < rate["fails"].as_f64().unwrap());
    assert!(rate["inputs"].get("sample_rate").is_none());
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
fn bad_input_is_two_with_argument_value_and_range() {
    let folder = folder();
    let at = folder.path();
    for (line, said) in [
        (
            "curve --sigma 1.1 --at -1",
            "--at: must be a number in [0, inf], got \"-1\"",
        ),
        (
            "curve --sigma 1.1 --at 1,NaN",
            "--at: must be a number in [0, inf], got \"NaN\"",
        ),
        (
            "curve --sigma 1.1 --what trade-off --at 2",
            "--at: probability must lie in [0, 1], got 2",
        ),
        (
            "curve --sigma 1.1 --what renyi --at 1",
            "--at: order must lie in (1, inf), got 1",
        ),
        (
            "curve --sigma 1.1 --points 1",
            "--points: must be a whole number in [2, 1000], got \"1\"",
        ),
        (
            "curve --sigma 1.1 --group 0",
            "--group: must be a whole number in [1, 10000], got \"0\"",
        ),
        (
            "curve --sigma 1.1 --tolerance 2",
            "--tolerance: tolerance must lie in [1e-12, 0.5], got 2",
        ),
        (
            "curve --sigma 1.1 --what blow-up --neighbours replace",
            "--neighbours: the blow-up is of zero-out, got replace",
        ),
        (
            "curve --sigma 1.1 --plot no/such/x.svg",
            "--plot: cannot write no/such/x.svg",
        ),
        ("compose none.json", "cannot read none.json: No such file"),
        ("compose .", "cannot read .: "),
        (
            "compose bytes.json",
            "cannot read bytes.json: must be UTF-8, byte 9 is not",
        ),
        (
            "compose broken.json",
            "broken.json: each.noise_multiplier: noise multiplier must lie in (0, inf), got -1",
        ),
        (
            "compose twice.json",
            "twice.json: key \"noise_multiplier\" appears twice",
        ),
        ("compose nan.json", "nan.json: not JSON: "),
        (
            "compose zcdp.json",
            "zcdp.json: ZCDpEvent has no counterpart here",
        ),
        ("compose - -", "FILE: stdin (-) can be read only once"),
        (
            "compose manifest.json dialogues.json",
            "FILE: one record is a turn in manifest.json and a dialogue in dialogues.json",
        ),
        (
            "compose plain.json --epsilon -1",
            "--epsilon: epsilon must lie in [0, inf], got -1",
        ),
        (
            "compose fixed.json --export dp-event",
            "--export dp-event: batches of fixed size",
        ),
        (
            "--mechanism broken.json",
            "--mechanism: broken.json: each.noise_multiplier: ",
        ),
        (
            "explain --sigma 1.1 --format csv",
            "--format: an explanation is text or json, got csv",
        ),
        (
            "calibrate --max-exposure 0 --chance 0.1",
            "--max-exposure: must be a number of bits in (0, 1074], got \"0\"",
        ),
        (
            "calibrate --max-exposure 5 --chance 2",
            "--chance: probability must lie in [0, 1], got 2",
        ),
        (
            "calibrate --tpr 2 --fpr 0.1",
            "--tpr: probability must lie in [0, 1], got 2",
        ),
        (
            "calibrate --tpr 0.1 --fpr -1",
            "--fpr: probability must lie in [0, 1], got -1",
        ),
        (
            "calibrate --epsilon 2 --sigma 1",
            "--sigma: leaves nothing to find with --solve sigma",
        ),
        (
            "calibrate --epsilon 2 --solve rate",
            "--sigma: is needed with --solve rate",
        ),
        (
            "calibrate --epsilon 2 --solve rate --sigma 1 --sample-rate 0.1",
            "--sample-rate: leaves nothing to find",
        ),
        (
            "calibrate --epsilon 2 --solve steps --sigma 1 --steps 5",
            "--steps: leaves nothing to find",
        ),
        (
            "calibrate --epsilon 2 --solve group --sigma 1 --group 5",
            "--group: leaves nothing to find",
        ),
        (
            "calibrate --epsilon 2 --solve rate --mechanism plain.json",
            "--mechanism: leaves nothing to find",
        ),
    ] {
        let output = run(at, line, "");
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        assert!(
            stderr(&output).starts_with(&format!("error: {said}")),
            "{line}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn usage_errors_name_the_arguments() {
    let folder = folder();
    for (line, said) in [
        ("curve", "--sigma"),
        ("curve --sigma 1 --mechanism plain.json", "--mechanism"),
        ("curve --mechanism plain.json --steps 5", "--mechanism"),
        ("curve --sigma 1 --what rainbow", "--what"),
        ("curve --sigma 1 --at 1 --points 5", "--points"),
        ("compose", "FILE"),
        ("compose plain.json --delta 1e-5 --epsilon 1", "--epsilon"),
        ("compose plain.json --export yaml", "--export"),
        (
            "compose plain.json --export mechanism --delta 0.1",
            "--export",
        ),
        (
            "compose plain.json --export mechanism --gamma 0.1",
            "--export",
        ),
        (
            "compose plain.json --epsilon 1 --max-epsilon 2",
            "--max-epsilon",
        ),
        ("explain", "--sigma"),
        ("explain --sigma 1 --epsilon 1 --delta 0.1", "--epsilon"),
        ("calibrate --tpr 0.1", "--fpr"),
        ("calibrate --max-exposure 5", "--chance"),
        ("calibrate --tpr 0.1 --fpr 0.01 --epsilon 1", "--epsilon"),
        ("calibrate --tpr 0.1 --fpr 0.01 --gamma 0.1", "--gamma"),
        (
            "calibrate --max-exposure 5 --chance 0.1 --neighbours replace",
            "--neighbours",
        ),
        ("calibrate --epsilon 1 --solve everything", "--solve"),
    ] {
        let output = run(folder.path(), line, "");
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        assert!(
            stderr(&output).contains(said),
            "{line}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn help_shows_examples_that_run() {
    let folder = folder();
    let at = folder.path();
    for (from, to) in [
        ("plain.json", "mechanism.json"),
        ("plain.json", "first.json"),
        ("steps.json", "second.json"),
    ] {
        std::fs::copy(at.join(from), at.join(to)).unwrap();
    }
    std::fs::create_dir(at.join("ckpt")).unwrap();
    std::fs::copy(at.join("manifest.json"), at.join("ckpt/manifest.json")).unwrap();
    let mut seen = 0;
    for command in ["", "curve", "compose", "explain", "calibrate"] {
        let help = fine(at, &format!("{command} --help"));
        for example in help
            .lines()
            .filter_map(|line| line.strip_prefix("  account "))
        {
            // A plan and a prepared corpus are tried where they are tested.
            if example.starts_with("plan ") || example.contains("prepared/") {
                continue;
            }
            fine(at, example);
            seen += 1;
        }
    }
    assert!(seen >= 13, "{seen} examples");
    let script = fine(at, "completions bash");
    assert!(
        ["curve", "compose", "explain", "--max-exposure", "--export"]
            .iter()
            .all(|word| script.contains(word))
    );
}

#[test]
fn a_tolerance_out_of_reach_is_said_so_and_the_upper_end_holds() {
    let folder = folder();
    std::fs::write(
        folder.path().join("laplace.json"),
        r#"{"type":"repeat","times":1000,"each":{"type":"subsampled-laplace","scale":1,"sampling_rate":0.01,"sampling":"poisson"}}"#,
    )
    .unwrap();
    let text = fine(
        folder.path(),
        "account compose laplace.json --delta 1e-6 --tolerance 1e-12"
            .trim_start_matches("account "),
    );
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("was asked for and could not be certified"),
        "{text}"
    );
    let text = fine(
        folder.path(),
        "compose laplace.json --delta 1e-6 --tolerance 1e-5",
    );
    assert!(!text.contains("was asked for"), "{text}");
}
