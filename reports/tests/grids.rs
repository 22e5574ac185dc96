//! Grids from outside: cells, what they share, what fails, and how a grid goes on.
#![cfg(feature = "audit")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::check;
use crate::common::audit::{self, ended, json, ok, refused};
use crate::common::flat;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

const GRID: &str = r#"
schema = 1
seeds = 2
miss_rates = [0, 0.5]
canary_recalls = "as-policy"
sigmas = [2]
data = { dialogues = 8 }
prepare = { policy = "customers", canaries = "4x2", held_out = 0.3 }
train = { steps = 3 }
attacks = { membership = {} }

[[arms]]
recipe = "sgd"

[[arms]]
recipe = "dpsgd"
"#;

/// When each finished stage was written.
fn written(folder: &Path) -> BTreeMap<String, SystemTime> {
    let mut all = BTreeMap::new();
    for entry in folder.join("runs/stages").read_dir().into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".json") && !name.starts_with('.') {
            all.insert(name, entry.metadata().unwrap().modified().unwrap());
        }
    }
    all
}

#[test]
fn a_grid_is_resumed_after_a_kill_and_repeats_nothing() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    std::fs::write(here.join("grid.toml"), GRID).unwrap();
    let mut child = audit::command(here)
        .args(["grid", "grid.toml", "--out", "runs", "--jobs", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while written(here).len() < 4 && since.elapsed() < Duration::from_secs(300) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = written(here);
    assert!(before.len() >= 4);

    let report = json(here, "grid grid.toml --out runs --jobs 2");
    assert_eq!(report["finished"], 8);
    assert_eq!(report["failed"], 0);
    // One corpus, four preparations, eight runs with three attacks each.
    assert_eq!(report["stages"], 1 + 4 + 8 * 4);
    let earlier = report["stages_before"].as_u64().unwrap() as usize;
    assert!(
        (before.len()..before.len() + 3).contains(&earlier),
        "{earlier}"
    );
    let after = written(here);
    assert!(before.iter().all(|(name, time)| after[name] == *time));

    let again = json(here, "grid grid.toml --out runs");
    assert_eq!(again["stages_before"], again["stages"]);
    assert_eq!(again["rows"], report["rows"]);
    assert_eq!(written(here), after);

    // A model that is not what was written is trained and attacked again.
    let name = after.keys().find(|name| name.starts_with("training-"));
    let model = name.unwrap().trim_end_matches(".json");
    let weights = here
        .join("runs/stages")
        .join(model)
        .join("model.safetensors");
    std::fs::write(&weights, "junk").unwrap();
    let mended = json(here, "grid grid.toml --out runs --jobs 2");
    assert_eq!(mended["stages_before"], 1 + 4 + 7 * 4);
    assert_ne!(std::fs::read(&weights).unwrap(), b"junk");

    let text = serde_json::to_string(&report).unwrap();
    check::fits("grid", &text);
    for entry in here.join("runs/cells").read_dir().unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        check::fits("grid-cell", &text);
    }
    let figure = json(
        here,
        "figure runs/cells/{line}-{x}-{}.json --y exposure --x-label gamma",
    );
    let lines = figure["lines"].as_array().unwrap();
    let of = |at: usize| (lines[at]["line"].as_str().unwrap(), &lines[at]["points"]);
    assert_eq!((of(0).0, of(1).0), ("dpsgd", "sgd"));
    assert_eq!(of(1).1[0]["values"].as_array().unwrap().len(), 2);
    let rows = ok(here, "grid grid.toml --out runs --format csv");
    assert_eq!(rows.lines().count(), 9);
    // Texts and models are the owner's.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = here.join("runs").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}

#[test]
fn a_cell_that_fails_is_a_row_with_its_reason() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    let one = GRID
        .replace("seeds = 2", "seeds = 1")
        .replace("[0, 0.5]", "[0.5]")
        .replace("canaries =", "conservative = [\"digits\"], canaries =");
    // That the text is redacted is known once it is prepared.
    let failing = format!(
        "{one}\n[[arms]]\nrecipe = \"crt\"\n\n[[arms]]\nname = \"broken\"\nrecipe = \"sdp\"\n"
    );
    std::fs::write(here.join("grid.toml"), failing).unwrap();
    let (code, report, said) = ended(here, "grid grid.toml --out runs --memory 4 --format json");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("1 of 4 cells failed"), "{said}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (&report["finished"], &report["failed"]),
        (&3.into(), &1.into())
    );
    let row = &report["rows"][3];
    let why = row["failed"].as_str().unwrap();
    assert!(
        why.starts_with("training: ") && why.contains("--no-redaction"),
        "{why}"
    );
    assert!(row["perplexity"].is_null());
    assert!(row["outcome"].is_null());
    let cell_of = |row: &Value| -> Value {
        let cell = here.join(format!("runs/cells/{}.json", row["cell"].as_str().unwrap()));
        serde_json::from_str(&std::fs::read_to_string(cell).unwrap()).unwrap()
    };
    assert_eq!(cell_of(row)["failed"], why);
    // The promise of a cell is the one that its training opens with: of crt with missed secrets it is none.
    assert_eq!(report["rows"][2]["promise"], "inf");
    for row in &report["rows"].as_array().unwrap()[..3] {
        let training = &cell_of(row)["training"];
        assert_eq!(row["promise"], training["headline"]);
        let opens = training["says"].as_str().unwrap();
        let nothing = training["headline"] == "inf";
        assert_eq!(nothing, opens.starts_with("Nothing is promised"), "{opens}");
    }
    // A number that was changed by hand is measured again.
    let perplexity = report["rows"][0]["perplexity"].to_string();
    let mut edited = 0;
    for name in written(here).keys() {
        let path = here.join("runs/stages").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        if name.starts_with("perplexity-") && text.contains(&perplexity) {
            std::fs::write(path, text.replace(&perplexity, "1.25")).unwrap();
            edited += 1;
        }
    }
    assert_eq!(edited, 1);
    let (_, again, _) = ended(here, "grid grid.toml --out runs --format json");
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(
        again["rows"][0]["perplexity"],
        report["rows"][0]["perplexity"]
    );
    let (_, text, _) = ended(here, "grid grid.toml --out runs");
    assert!(text.contains("3 cells finished, 1 failed"), "{text}");
    assert!(text.contains("--no-redaction"), "{text}");
    // A limit that is passed decides the exit code, whatever became of other cells.
    let limited = std::fs::read_to_string(here.join("grid.toml")).unwrap();
    let limited = limited.replace("membership = {}", "exposure = { max_exposure = 0.0 }");
    std::fs::write(here.join("grid.toml"), limited).unwrap();
    let (code, report, said) = ended(here, "grid grid.toml --out runs --format json");
    assert_eq!(code, 1, "{said}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (&report["failed"], &report["outcome"]),
        (&1.into(), &"fail".into())
    );
}

#[test]
fn a_cell_that_passes_a_limit_is_said_and_ends_with_one() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    let limited = GRID
        .replace("seeds = 2", "seeds = 1")
        .replace("[0, 0.5]", "[0]")
        .replace("membership = {}", "exposure = { max-exposure = 0 }");
    std::fs::write(here.join("grid.toml"), limited).unwrap();
    let (code, text, said) = ended(here, "grid grid.toml --out runs");
    assert_eq!(code, 1, "{said}");
    assert!(
        text.contains("A promise is contradicted, or a limit exceeded, in 2 cells."),
        "{text}"
    );
    assert!(text.contains("outcome") && text.contains("fail"), "{text}");
    // No cell has coins.
    assert!(!text.contains("ε ≥"), "{text}");
    let text = flat(&text);
    let alone = "among n cells, a false alarm is up to n times as likely.";
    assert!(text.contains(alone), "{text}");
}

#[test]
fn what_cannot_run_is_reported_before_anything_does() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    for (text, line, says) in [
        (
            GRID.to_owned(),
            "grid none.toml --out runs",
            "FILE: cannot read none.toml",
        ),
        (
            GRID.replace("steps = 3", "steps = 0"),
            "grid grid.toml --out runs",
            "the arm sgd: train: --steps",
        ),
        (
            GRID.replace("steps = 3", "steps = 3, sigma = 1.1"),
            "grid grid.toml --out runs",
            "the arm sgd: train: --sigma: the recipe sgd adds no noise",
        ),
        (
            GRID.replace("held_out = 0.3", "held_out = 0"),
            "grid grid.toml --out runs",
            "prepare.held_out: must be above 0",
        ),
        (
            GRID.to_owned(),
            "grid grid.toml --out runs --jobs 0",
            "--jobs",
        ),
        (
            GRID.to_owned(),
            "grid grid.toml --out runs --memory 0",
            "--memory",
        ),
        (GRID.to_owned(), "grid grid.toml --out grid.toml", "--out"),
    ] {
        std::fs::write(here.join("grid.toml"), text).unwrap();
        let said = refused(here, line);
        assert!(said.contains(says), "{line}: {said}");
    }
    assert!(written(here).is_empty());
}
