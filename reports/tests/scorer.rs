//! `--scorer command:…`: the same numbers through a process as from the folder, and one clear
//! error for whatever a process can do wrong.
#![cfg(feature = "audit")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::audit::{PATH as AUDIT, command};
use crate::common::{flat, stderr, stdout};
use clap::Parser;
use reticent_reports::audit::args::Audit;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Runs a line whose words are split at blanks; `{}` stands for the last argument.
fn audit(folder: &Path, line: &str, scorer: &str) -> Output {
    with(folder, line, &[scorer])
}

/// The same; `{}` stands for these words.
fn with(folder: &Path, line: &str, scorers: &[&str]) -> Output {
    let words = line.split_whitespace().flat_map(|word| match word {
        "{}" => scorers.to_vec(),
        word => vec![word],
    });
    command(folder).args(words).output().unwrap()
}

/// Runs a line that must end well, and returns what it prints.
fn ok(folder: &Path, line: &str, scorer: &str) -> String {
    let output = audit(folder, line, scorer);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    stdout(&output)
}

/// Runs a line that must be refused, or must end open, with these words.
fn refused(folder: &Path, line: &str, scorer: &str, words: &[&str]) {
    ends_with_2(&audit(folder, line, scorer), line, words);
}

fn ends_with_2(output: &Output, line: &str, words: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{line}: {said}");
    for words in words {
        assert!(said.contains(words), "{line}: no {words:?} in {said}");
    }
}

fn json(folder: &Path, line: &str, scorer: &str) -> Value {
    serde_json::from_str(&ok(folder, &format!("{line} --format json"), scorer)).unwrap()
}

/// A corpus, a preparation with canaries, a model that saw it and one that saw another.
fn trained() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let at = folder.path();
            for line in [
                "simulate customers --dialogues 14 --out in.jsonl",
                "simulate customers --dialogues 14 --seed 1 --out out.jsonl",
                "prepare in.jsonl --policy customers --canaries 3x4 --canary-format Code:{digits:4} --seed 0 --out planted",
                "prepare out.jsonl --policy customers --out other",
                "train planted --recipe sgd --epochs 2 --out ckpt",
                "train other --recipe sgd --epochs 1 --out base",
            ] {
                ok(at, line, "");
            }
            folder
        })
        .path()
}

fn serving(model: &str) -> String {
    format!("command:{AUDIT} serve --model {model}")
}

/// Equal but for rounding: a state that was computed in one go and one that grew token by token
/// differ in the last digits of single precision.
fn alike(one: &Value, other: &Value, place: &str) {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!(
                (a - b).abs() <= 1e-5 * a.abs().max(1.0),
                "{place}: {a} and {b}"
            );
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{place}");
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                alike(a, b, &format!("{place}[{i}]"));
            }
        }
        (Value::Object(a), Value::Object(b)) => {
            let keys = |map: &serde_json::Map<String, Value>| -> Vec<String> {
                map.keys().cloned().collect()
            };
            assert_eq!(keys(a), keys(b), "{place}");
            for (key, value) in a {
                alike(value, &b[key], &format!("{place}.{key}"));
            }
        }
        _ => assert_eq!(one, other, "{place}"),
    }
}

/// Ranks through a process enclose those of the folder: it may round by 0.01 nats per token, and what differs by less
/// is a tie.
fn alike_ranks(own: &Value, through: &Value) {
    let tolerance = |found: &Value| found["tie_tolerance"].as_f64().unwrap();
    assert!((tolerance(own) - 1e-5).abs() < 1e-12, "{own}");
    assert!(tolerance(through) >= 0.01, "{through}");
    let (own, through) = (&own["canaries"], &through["canaries"]);
    let (own, through) = (own.as_array().unwrap(), through.as_array().unwrap());
    assert_eq!(own.len(), through.len());
    for (own, through) in own.iter().zip(through) {
        alike(&own["nll"], &through["nll"], "nll");
        encloses(&through["rank"], &own["rank"]);
    }
}

fn encloses(wide: &Value, narrow: &Value) {
    let [wide, narrow] = [wide, narrow].map(|rank| {
        let end = |name: &str| rank[name].as_u64().unwrap();
        (end("min"), end("max"))
    });
    assert!(
        wide.0 <= narrow.0 && narrow.1 <= wide.1,
        "{wide:?} and {narrow:?}"
    );
}

const SCORER: &str = "--scorer {} --tokenizer ckpt/tokenizer.json";

#[test]
fn a_process_gives_the_numbers_of_the_folder() {
    let at = trained();
    let serving = serving("ckpt");
    let pairs = "--members in.jsonl --non-members out.jsonl --unit turn";
    for (command, more, keys) in [
        (
            "exposure",
            String::new(),
            ["candidates", "draw"].as_slice(),
        ),
        (
            "perplexity",
            "--data out.jsonl --unit turn".to_owned(),
            &["perplexity", "tokens", "records"],
        ),
        (
            "membership",
            format!("{pairs} --reference base"),
            &["members", "area", "at_fpr", "accuracy", "attacks", "groups"],
        ),
        (
            "extract",
            "--data in.jsonl --unit turn --baseline base --prompt 5,10 --suffix 6 --near 0.3 --top-k 20".to_owned(),
            &["passages", "prompts", "draws"],
        ),
    ] {
        let (ours, theirs) = match command {
            "exposure" => ("", "--canary-file planted/canaries.json"),
            _ => ("", ""),
        };
        let own = json(at, &format!("{command} --model ckpt {more} {ours}"), "");
        let line = format!("{command} {SCORER} {more} {theirs}");
        let through = json(at, &line, &serving);
        for key in keys {
            alike(&own[*key], &through[*key], &format!("{command}: {key}"));
        }
        if command == "exposure" {
            alike_ranks(&own, &through);
        }
        let model = through["inputs"]["model"].as_str().unwrap();
        assert!(model.starts_with("command:"), "{model}");
    }
    // How far the baseline is from the model, whatever draws from them.
    let apart = |drawn: &str| {
        let line = "extract --model ckpt --data in.jsonl --unit turn --baseline base --prompt 5 --suffix 6";
        json(at, &format!("{line} {drawn}"), "")["baseline_apart"].clone()
    };
    assert_eq!(apart("--top-k 1"), apart(""));
}

/// What a project's file says of other questions stops no audit, and a flag is refused as ever.
#[test]
fn audits_take_only_the_defaults_that_they_can_use() {
    let at = trained();
    let project = "neighbours = \"replace\"\nunit = \"turn\"\nmax_exposure = 10\n";
    std::fs::write(at.join("project.toml"), project).unwrap();
    std::fs::write(at.join("sentences.toml"), "unit = \"sentence\"\n").unwrap();
    for line in [
        "membership --model ckpt --members in.jsonl --non-members out.jsonl --config project.toml",
        "perplexity --model ckpt --data planted --config sentences.toml",
    ] {
        json(at, line, "");
    }
    let report = json(at, "report --model base --config project.toml", "");
    assert!(report["exposure"].is_null(), "{report}");
    assert!(report["inputs"]["max_exposure"].is_null(), "{report}");
    let refused = audit(at, "report --model base --max-exposure 10", "");
    let why = stderr(&refused);
    assert!(why.contains("no canaries are known"), "{why}");
    // The model is not what is wrong.
    let line = "perplexity --model ckpt --data in.jsonl --device cuda:99";
    let why = stderr(&audit(at, line, ""));
    assert!(why.contains("error: --device: device cuda:99"), "{why}");
}

#[test]
fn the_reference_may_be_a_process_too_and_a_report_takes_both() {
    let at = trained();
    let pairs = "--members in.jsonl --non-members out.jsonl";
    let own = json(
        at,
        &format!("report --model ckpt --reference base {pairs}"),
        "",
    );
    let line = "report --model ckpt --reference {}";
    let through = json(at, &format!("{line} {pairs}"), &serving("base"));
    for key in ["membership", "extraction"] {
        alike(&own[key], &through[key], key);
    }
    // A reference whose first answers are other ones than its last, and one of other tokens.
    let noisy = format!("{AUDIT} serve --model base | sed -u '2s/-\\([0-9]\\)/-9\\1/g'\n");
    std::fs::write(at.join("noisy.sh"), noisy).unwrap();
    let narrow = format!(
        "{AUDIT} serve --model base | sed -u '1s/\"vocabulary\":[0-9]*/\"vocabulary\":40/'\n"
    );
    std::fs::write(at.join("narrow.sh"), narrow).unwrap();
    for (script, why) in [
        ("noisy.sh", "answers the same question in two ways"),
        (
            "narrow.sh",
            "says vocabulary 40; it must be the audited model's",
        ),
    ] {
        for line in [
            format!("membership --model ckpt --reference {{}} {pairs} --attack reference"),
            "extract --model ckpt --data in.jsonl --unit turn --prompt 5 --suffix 6 --baseline {}"
                .to_owned(),
        ] {
            let flag = match line.contains("--baseline") {
                true => "--baseline: ",
                false => "--reference: ",
            };
            refused(at, &line, &format!("command:sh {script}"), &[why, flag]);
        }
    }
    let line = format!("membership --model ckpt --reference {{}} {pairs} --shadows 2");
    refused(at, &line, &serving("base"), &["folder, not a command"]);
}

/// `score` alone, no statistics: exact ranks one token at a time, and only the attacks that read
/// no more than ln p.
#[test]
fn a_scorer_that_only_scores_does_what_it_can() {
    let at = trained();
    let script = format!(
        "{AUDIT} serve --model ckpt | sed -u '1s/\"statistics\":true,\"next\":true/\"batch\":7/'\n"
    );
    // The batch stands once in the line of `audit serve`.
    let script = script.replace("1s/", "1s/\"batch\":256,//;1s/");
    std::fs::write(at.join("weak.sh"), script).unwrap();
    let weak = "command:sh weak.sh";
    let plan = "--canary-file planted/canaries.json";
    let own = json(at, "exposure --model ckpt", "");
    let through = json(at, &format!("exposure {SCORER} {plan}"), weak);
    alike_ranks(&own, &through);

    let pairs = "--members in.jsonl --non-members out.jsonl --unit turn --reference base";
    let through = json(at, &format!("membership {SCORER} {pairs}"), weak);
    let rows = through["attacks"]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|r| r["attack"].as_str().unwrap()).collect();
    assert_eq!(names, ["reference", "loss", "zlib", "min-k", "wbc"]);
    let left = through["attacks"]["left_out"].to_string();
    assert!(left.contains("min-k++") && left.contains("ez") && left.contains("statistics"));

    let line = format!("extract {SCORER} --data in.jsonl");
    refused(at, &line, weak, &["statistics"]);
    // What the model of others was trained with is not known.
    let line = format!("exposure {SCORER} {plan} --canaries 9x9");
    let why = "--canaries: the plan of --canary-file is 3x4, got 9x9";
    refused(at, &line, weak, &[why]);
    // A report leaves out the part that was not asked for by itself.
    let line = format!("report {SCORER} --members in.jsonl --non-members out.jsonl");
    let through = json(at, &line, weak);
    assert!(through["membership"].is_object() && through["extraction"].is_null());
    let why = through["no_extraction"].as_str().unwrap();
    assert!(why.contains("statistics"), "{why}");
    let says = through["says"].as_str().unwrap();
    assert!(says.contains("Extraction was not measured: "), "{says}");
    assert_ne!(through["outcome"], "pass", "{says}");
}

/// The commonest mistake in a scorer: canaries were asked behind another prefix, where no leak shows.
#[test]
fn next_must_be_asked_behind_the_whole_prefix() {
    let at = trained();
    // Drops the last token of each prefix.
    let script =
        format!(r#"sed -u '/"next"/s/,[0-9]*\]\([],]\)/]\1/g' | {AUDIT} serve --model ckpt"#);
    std::fs::write(at.join("behind.sh"), script + "\n").unwrap();
    let line = format!("exposure {SCORER} --canary-file planted/canaries.json");
    let words = [
        "--scorer: the scorer `sh behind.sh` contradicts itself: ln p of a token is",
        "by `score` behind the same prefix",
    ];
    refused(at, &line, "command:sh behind.sh", &words);
}

/// Each token costs the same everywhere: no rank, no score and no limit says anything.
#[test]
fn scores_that_tell_nothing_conclude_nothing() {
    let at = trained();
    let script = format!("{AUDIT} serve --model ckpt | sed -u '1!s/-[0-9][0-9.e+-]*/-5/g'\n");
    std::fs::write(at.join("flat.sh"), script).unwrap();
    let flat = "command:sh flat.sh";
    let exposure = format!("exposure {SCORER} --canary-file planted/canaries.json");
    assert_eq!(json(at, &exposure, flat)["inconclusive"], true);
    let membership =
        format!("membership {SCORER} --members in.jsonl --non-members out.jsonl --unit turn");
    for (line, why) in [
        (
            format!("{exposure} --max-exposure 1"),
            "as likely as the canary",
        ),
        (
            format!("{membership} --max-auc 0.6"),
            "all scores are equal",
        ),
    ] {
        refused(at, &line, flat, &[why]);
    }
}

/// A model that was trained on its canaries' lines in windows can't rank them: training says so, and the audit which
/// argument and what to do.
#[test]
fn canaries_longer_than_the_context_are_reported_before_and_refused_after() {
    let at = trained();
    let small = "--model gpt2 --layers 1 --width 8 --heads 2 --context 12";
    let line = format!("train planted --recipe sgd --epochs 1 {small} --out windowed");
    let output = audit(at, &line, "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let warned = stderr(&output);
    assert!(
        warned.contains("the model reads at most 12 at once: `audit exposure` can't rank"),
        "{warned}"
    );
    let scorer = "--scorer {} --tokenizer windowed/tokenizer.json";
    let plan = "--canary-file planted/canaries.json";
    for (line, flag) in [
        ("exposure --model windowed".to_owned(), "--model: "),
        (
            "exposure --model windowed --sample 10".to_owned(),
            "--model: ",
        ),
        (format!("exposure {scorer} {plan}"), "--scorer: "),
    ] {
        let flag = format!("error: {flag}");
        let words = [&flag, "reads at most 12 tokens at once", "--context"];
        refused(at, &line, &serving("windowed"), &words);
    }
}

/// The model is another one each time (its shuffles come from the system), so the level is the
/// false-alarm rate: all intervals of a run hold together but for one run in a million.
#[test]
fn a_sample_brackets_the_exact_rank() {
    const SAMPLED: &str = "exposure --model ckpt --sample 2000 --seed 5 --confidence 0.999999";
    let at = trained();
    let exact = json(at, "exposure --model ckpt", "");
    let found = json(at, SAMPLED, "");
    assert_eq!(found["type"], "sampled-exposure");
    for (exact, canary) in exact["canaries"]
        .as_array()
        .unwrap()
        .iter()
        .zip(found["canaries"].as_array().unwrap())
    {
        let rank = |key: &str| exact["rank"][key].as_u64().unwrap();
        let end = |key: &str| canary["rank"][key].as_u64().unwrap();
        assert!(
            end("lower") <= rank("max") && rank("min") <= end("upper"),
            "{canary} {exact}"
        );
        assert!(end("upper") - end("lower") < 1500, "{canary}");
        alike(&exact["nll"], &canary["nll"], "nll");
    }
    assert_eq!(json(at, SAMPLED, ""), found);
    assert_eq!(found["planting"], "planted");
    let foreign = SAMPLED.replace(
        "--model ckpt",
        "--scorer {} --tokenizer ckpt/tokenizer.json",
    );
    let foreign = json(
        at,
        &format!("{foreign} --canary-file planted/canaries.json"),
        &serving("ckpt"),
    );
    assert_eq!(foreign["planting"], "not-checked");
    // Nothing is promised of a run without noise; of one with noise a sample says nothing.
    let why = found["no_verdict"].as_str().unwrap();
    assert!(why.starts_with("nothing was promised: "), "{found}");
    assert_eq!(foreign["no_verdict"], "what ran is not known");
    let one = json(at, "exposure --model ckpt --sample 1", "");
    assert_eq!(one["outcome"], "open", "{one}");
    let why = "Nothing can be concluded: a sample of 1 shows no leak of 3 canaries, whatever their ranks: it takes one of 60 at least.";
    let headline = one["says"].as_str().unwrap();
    assert!(headline.starts_with(why), "{one}");
    let line = "train planted --recipe dpsgd --sigma 2 --sample-rate 0.1 --steps 2 --out guarded";
    ok(at, line, "");
    let promised = json(at, "exposure --model guarded --sample 200", "");
    assert_eq!(promised["outcome"], "open", "{promised}");
    let why = promised["no_verdict"].as_str().unwrap();
    let headline = promised["says"].as_str().unwrap();
    assert!(headline.ends_with(&format!(" No verdict on the promise: {why}.")));
    for line in [
        "exposure --model ckpt --sample 0",
        "exposure --model ckpt --sample 9 --budget 9",
        "exposure --model ckpt --sample 9 --mechanism m.json",
        "exposure --model ckpt --seed 9",
    ] {
        refused(at, line, "", &["--s"]);
    }
}

/// The promise of a mechanism, tested canary by canary through a scorer: the ranks enclose the exact ones,
/// however far it goes.
#[test]
fn a_promise_is_tested_canary_by_canary() {
    let at = trained();
    let exact = json(at, "exposure --model ckpt", "");
    let mechanism = r#"{"type":"subsampled-gaussian","noise_multiplier":50.0,"sampling_rate":0.01,"sampling":"poisson"}"#;
    std::fs::write(at.join("quiet.json"), mechanism).unwrap();
    let line = "exposure --scorer {} --tokenizer ckpt/tokenizer.json --canary-file planted/canaries.json \
                --mechanism quiet.json --stop-at 20 --format json";
    let output = audit(at, line, &serving("ckpt"));
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1)), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["type"], "sequential-exposure");
    assert_eq!(found["planting"], "not-checked");
    assert_eq!(found["contradicted"], code == Some(1));
    assert!((found["level"].as_f64().unwrap() - 0.05).abs() < 1e-12);
    let seen = found["canaries"].as_array().unwrap();
    assert!(!seen.is_empty());
    let needed = found["needed"].as_f64().unwrap();
    let last = seen.last().unwrap()["e_value"].as_f64().unwrap();
    assert_eq!(last >= needed, code == Some(1), "{found}");
    for (canary, exact) in seen.iter().zip(exact["canaries"].as_array().unwrap()) {
        encloses(&canary["rank"], &exact["rank"]);
    }
    for (line, why) in [
        (
            "exposure --model ckpt --stop-at 20",
            "there is no promise to test",
        ),
        ("exposure --model ckpt --stop-at 1", "[2, 1e12]"),
        (
            "exposure --model ckpt --stop-at 20 --sample 9",
            "cannot be used with",
        ),
    ] {
        refused(at, line, "", &[why]);
    }
}

/// Whose promise a verdict is about, and what was assumed of it, is said in every format: nothing said that a file states
/// it, nor that the file does not name its unit.
#[test]
fn a_promise_of_a_file_is_said_to_be_the_users() {
    let at = trained();
    let mechanism = r#"{"type":"subsampled-gaussian","noise_multiplier":50.0,"sampling_rate":0.01,"sampling":"poisson"}"#;
    std::fs::write(at.join("unitless.json"), mechanism).unwrap();
    let of_turns = format!(r#"{{"unit":"turn","mechanism":{mechanism}}}"#);
    std::fs::write(at.join("of-turns.json"), of_turns).unwrap();
    let serving = serving("base");
    let canaries = format!("{SCORER} --canary-file planted/canaries.json");
    let written = |line: &str| flat(&ok(at, line, &serving));
    let names = "as the user states";
    let open = "what one record is, which is assumed to be a turn";
    for command in ["exposure", "exposure --stop-at 20", "report"] {
        for (file, assumed) in [("unitless.json", true), ("of-turns.json", false)] {
            let line = format!("{command} {canaries} --mechanism {file}");
            let found = json(at, &line, &serving);
            let body = match command {
                "report" => &found["exposure"],
                _ => &found,
            };
            assert_eq!(body["promised_by"]["file"], file, "{found}");
            assert_eq!(body["promised_by"]["unit_assumed"], assumed, "{found}");
            let inputs = &found["inputs"];
            assert_eq!(inputs["mechanism"], file);
            assert_eq!(inputs["canary_file"], "planted/canaries.json");
            assert_eq!(inputs["unit"], "turn");
            assert_eq!(inputs["delta"], 1e-6);
            let named = inputs["assumed"].as_array().unwrap();
            let is_assumed = |name: &str| named.iter().any(|known| known == name);
            assert!(
                is_assumed("delta") && is_assumed("unit") == assumed,
                "{inputs}"
            );
            if !command.contains("stop-at") {
                assert_eq!(inputs["confidence"], 0.95);
                assert!(is_assumed("confidence"), "{inputs}");
            }
            for format in ["text", "html", "markdown", "sarif", "model-card"] {
                let text = written(&format!("{line} --format {format} -v"));
                let whose = format!("{file}, {names}");
                assert!(text.contains(&whose), "{line}, {format}: {text}");
                assert_eq!(text.contains(open), assumed, "{line}, {format}: {text}");
            }
        }
    }
    let given =
        format!("exposure {canaries} --mechanism unitless.json --delta 0.001 --confidence 0.9");
    let inputs = json(at, &given, &serving)["inputs"].clone();
    assert_eq!(
        (&inputs["delta"], &inputs["confidence"]),
        (&0.001.into(), &0.9.into())
    );
    assert_eq!(inputs["assumed"], serde_json::json!(["unit"]));
    // δ that the file gives is given.
    let with_delta = format!(r#"{{"unit":"turn","delta":1e-5,"mechanism":{mechanism}}}"#);
    std::fs::write(at.join("with-delta.json"), with_delta).unwrap();
    let line = format!("exposure {canaries} --mechanism with-delta.json --confidence 0.9");
    let inputs = json(at, &line, &serving)["inputs"].clone();
    assert_eq!(inputs["delta"], 1e-5);
    let assumed = inputs["assumed"].as_array();
    assert!(
        assumed.is_none_or(|names| !names.contains(&"delta".into())),
        "{inputs}"
    );
    // Of a run that goes on from one of which nobody knows how it met the canaries: it ended with an error.
    let going_on =
        format!(r#"{{"unit":"turn","canary_records_unknown":true,"mechanism":{mechanism}}}"#);
    std::fs::write(at.join("going-on.json"), going_on).unwrap();
    let line = format!("exposure {canaries} --mechanism going-on.json");
    let found = json(at, &line, &serving);
    let why = "in how many records of the earlier run a canary was is not known";
    assert_eq!(found["no_verdict"], why, "{found}");
    // A checkpoint of ours states its own promise.
    let own = json(at, "exposure --model ckpt", "");
    assert!(own["promised_by"].is_null() && own["inputs"]["unit"].is_null());
}

/// Whom an event's (ε, δ) compares is assumed, and said to be, where a measurement is held against it.
#[test]
fn neighbours_of_an_event_are_said_to_be_assumed() {
    let at = trained();
    let event = r#"{"class_name": "EpsilonDeltaDpEvent", "epsilon": 0.05, "delta": 1e-9}"#;
    std::fs::write(at.join("event.json"), event).unwrap();
    let own = r#"{"type":"approx-dp","epsilon":0.05,"delta":1e-9,"neighbours":"add-remove"}"#;
    std::fs::write(at.join("named.json"), own).unwrap();
    let serving = serving("base");
    for (file, assumed) in [("event.json", true), ("named.json", false)] {
        let line =
            format!("exposure {SCORER} --canary-file planted/canaries.json --mechanism {file}");
        let found = json(at, &line, &serving);
        let by = &found["promised_by"]["neighbours_assumed"];
        assert_eq!(*by == Value::Bool(true), assumed, "{found}");
        let inputs = &found["inputs"];
        assert_eq!(inputs["promise_neighbours"] == "add-remove", assumed);
        let named = inputs["assumed"].as_array().unwrap();
        let is_assumed = named.iter().any(|name| name == "promise_neighbours");
        assert_eq!(is_assumed, assumed, "{inputs}");
        let page = flat(&ok(at, &line, &serving));
        let words =
            "does not name the neighbours of its promise, which are assumed to be add-remove";
        assert_eq!(page.contains(words), assumed, "{page}");
    }
}

/// A canary on the public side of a run of crt has no promise, whether the checkpoint or its manifest alone says so: a
/// correct run was contradicted.
#[test]
fn a_manifest_says_how_its_run_met_the_canaries() {
    let at = trained();
    for line in [
        "prepare in.jsonl --policy customers --conservative digits,capitals,policy --canaries 3x4 --canary-format Code:{digits:4} --canary-sight missed-by-both --seed 0 --out seen",
        "train seen --recipe crt --sigma 2 --epochs 1 --out open",
    ] {
        ok(at, line, "");
    }
    let text = std::fs::read(at.join("open/manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(manifest["canaries"]["on_public_side"], 12);
    let own = json(at, "exposure --model open", "");
    let promised = |file: &str| {
        let line = format!(
            "exposure --scorer {{}} --tokenizer open/tokenizer.json --canary-file seen/canaries.json --training seen --mechanism {file}"
        );
        json(at, &line, &serving("open"))
    };
    let through = promised("open/manifest.json");
    for found in [&own, &through] {
        assert_eq!(
            found["no_verdict"], "nothing was promised: ε is infinite",
            "{found}"
        );
        assert!(found["verdict"].is_null() && found["ceiling"].is_null());
    }
    // Without a word of canaries, they may have been anywhere.
    manifest.as_object_mut().unwrap().remove("canaries");
    std::fs::write(at.join("unsealed.json"), manifest.to_string()).unwrap();
    let unsealed = promised("unsealed.json");
    let why = unsealed["no_verdict"].as_str().unwrap();
    assert!(why.contains("how the run treated the canaries"), "{why}");
}

/// What planting says of the reach of its canaries is what the audit can prove: the thresholds were those of canaries
/// that share no context.
#[test]
fn planting_says_what_the_audit_can_prove() {
    let at = trained();
    let format = "--unit turn --canary-format Code:{digits:3}";
    let mechanism = r#"{"type":"subsampled-gaussian","noise_multiplier":50.0,"sampling_rate":0.01,"sampling":"poisson"}"#;
    std::fs::write(at.join("reached.json"), mechanism).unwrap();
    let serving = serving("base");
    for (folder, more) in [("shared", ""), ("apart", " --own-carriers")] {
        let planted = json(
            at,
            &format!("plant in.jsonl --canaries 10x4 {format}{more} --seed 1 --out {folder}"),
            "",
        );
        let line = format!(
            "exposure {SCORER} --canary-file {folder}/canaries.json --mechanism reached.json"
        );
        let pure = json(at, &format!("{line} --delta 0"), &serving);
        let e_value = &pure["e_value"];
        let deciding = match e_value["decides"] == "e-value" {
            true => &e_value["provable"],
            false => &e_value["provable_by_ranks"],
        };
        alike(&planted["provable"], deciding, folder);
        let found = json(at, &line, &serving);
        alike(
            &planted["contradictable"],
            &found["verdict"]["provable"],
            folder,
        );
    }
    let line = format!("plant in.jsonl --canaries 10x4 {format} --out reach");
    let text = flat(&ok(at, &line, ""));
    assert!(
        text.contains(
            "at most (false-alarm rate 0.0005, δ 1e-6): a promise above it is out of reach"
        ),
        "{text}"
    );
    // The commands that it names next are whole.
    for command in text.split('`').filter(|part| part.starts_with("audit ")) {
        let words = command.replace("RECIPE", "sgd");
        let parsed = Audit::try_parse_from(words.split_whitespace());
        assert!(parsed.is_ok(), "{command}");
    }
    assert!(text.contains("`audit train "), "{text}");
}

/// Every command that reads records reads them under the key that is named, and refuses one where no text is read.
#[test]
fn records_are_read_under_the_key_that_is_named() {
    let at = trained();
    for name in ["in", "out"] {
        let text = std::fs::read_to_string(at.join(format!("{name}.jsonl"))).unwrap();
        let bodies = text.lines().map(|line| {
            let document: Value = serde_json::from_str(line).unwrap();
            let (id, body) = (&document["id"], &document["text"]);
            format!("{}\n", serde_json::json!({ "id": id, "body": body }))
        });
        let path = at.join(format!("{name}-bodies.jsonl"));
        std::fs::write(path, bodies.collect::<String>()).unwrap();
    }
    let passages = "--unit turn --prompt 5 --suffix 6";
    for (line, keys) in [
        (
            "perplexity --model ckpt --data out.jsonl --unit turn".to_owned(),
            ["perplexity", "records"],
        ),
        (
            "membership --model ckpt --members in.jsonl --non-members out.jsonl --training in.jsonl".to_owned(),
            ["area", "attacks"],
        ),
        (
            format!("extract --model ckpt --data in.jsonl {passages} --training in.jsonl"),
            ["passages", "prompts"],
        ),
        (
            "report --model ckpt --members in.jsonl --non-members out.jsonl --training in.jsonl".to_owned(),
            ["membership", "extraction"],
        ),
    ] {
        let own = json(at, &line, "");
        let renamed = line.replace(".jsonl", "-bodies.jsonl");
        refused(at, &renamed, "", &["--text-field names another key"]);
        let named = json(at, &format!("{renamed} --text-field body"), "");
        assert_eq!(named["inputs"]["text_field"], "body");
        for key in keys {
            alike(&own[key], &named[key], &format!("{line}: {key}"));
        }
    }
    for line in [
        "perplexity --model ckpt --data planted",
        "membership --model ckpt --members planted --non-members planted",
        "membership --scores scores.csv",
        "extract --model ckpt --data planted",
        "exposure --model ckpt",
        "report --model ckpt --members planted --non-members planted",
    ] {
        let line = format!("{line} --text-field body");
        refused(at, &line, "", &["--text-field: no text is read"]);
    }
}

/// A report looks copies of members up in the records of a prepared folder too, as it does canaries; it read the folder
/// as text.
#[test]
fn a_report_counts_copies_in_a_prepared_folder() {
    let at = trained();
    for line in [
        "plant in.jsonl --canaries 3x4 --unit document --canary-format Code:{digits:3} --out whole-text",
        "prepare whole-text/in.jsonl --unit document --policy nothing --no-redaction --held-out 0 --out whole-ready",
    ] {
        ok(at, line, "");
    }
    let serving = serving("ckpt");
    let line = format!(
        "report {SCORER} --members whole-text/in.jsonl --non-members out.jsonl --canary-file whole-text/canaries.json --training"
    );
    let [text, folder] = ["whole-text/in.jsonl", "whole-ready"]
        .map(|training| json(at, &format!("{line} {training}"), &serving));
    assert_eq!(folder["exposure"]["planting"], "given-text");
    for part in ["membership", "extraction"] {
        assert!(folder[part].is_object(), "{folder}");
        alike(&text[part], &folder[part], part);
    }
    refused(at, &format!("{line} planted"), &serving, &[]);
    let line = "membership --model ckpt --members in.jsonl --non-members out.jsonl --unit document --training planted";
    let why =
        "--training: one record is a turn in planted, and documents are measured; name the text";
    refused(at, line, "", &[why]);
}

/// Canaries that the run's plan did not include are looked up in the text that is said to be its own, or in the records
/// that its owner's key says are.
#[test]
fn a_training_text_shows_that_training_met_the_canaries() {
    let at = trained();
    for line in [
        "plant in.jsonl --canaries 3x4 --unit turn --out vouched",
        "prepare vouched/in.jsonl --policy nothing --no-redaction --held-out 0 --out met",
        "prepare vouched/in.jsonl --policy nothing --no-redaction --duplicates bloom:64 --held-out 0 --out sieved-turns",
        "train met --recipe sgd --epochs 1 --out meeting",
        "train met --recipe sgd --epochs 1 --model base --out last",
        "train other --recipe sgd --epochs 1 --model base --out further",
    ] {
        ok(at, line, "");
    }
    let plan = "--canary-file vouched/canaries.json --budget 2000";
    let text = "--training vouched/in.jsonl";
    for (model, training, planting) in [
        ("--model base".to_owned(), "", "not-told"),
        ("--model base".to_owned(), text, "untold-text"),
        ("--model meeting".to_owned(), text, "untold-text"),
        (
            "--model meeting".to_owned(),
            "--training met",
            "trained-records",
        ),
        (SCORER.to_owned(), "", "not-checked"),
        (SCORER.to_owned(), text, "given-text"),
    ] {
        let line = format!("exposure {model} {plan} {training}");
        let found = json(at, &line, &serving("base"));
        assert_eq!(found["planting"], planting, "{line}");
    }
    // A limit needs to know that this checkpoint met them: a text passed one whose owner's key says other records.
    for line in [
        format!("exposure --model base {plan} {text} --max-exposure 9.9"),
        format!("exposure --model further {plan} --training met --max-exposure 9.9"),
    ] {
        let open = audit(at, &line, "");
        // Of one model in twenty chance alone looks like a leak, which the budget rarely finds.
        let leaks = String::from_utf8_lossy(&open.stdout).contains("The model leaks");
        let why = "that this checkpoint was trained on it is not known";
        let is_open = open.status.code() == Some(2) && stderr(&open).contains(why);
        assert!(leaks || is_open, "{line}: {}", stderr(&open));
    }
    // What came before is no matter here: the last run met them.
    let line = format!("exposure --model last {plan} --training met");
    assert_eq!(json(at, &line, "")["planting"], "trained-records");
    // Text of two epochs holds twice the copies, and the bound is one for as many records.
    let text = std::fs::read_to_string(at.join("vouched/in.jsonl")).unwrap();
    let texts = text.lines().map(|line| {
        let document: Value = serde_json::from_str(line).unwrap();
        format!("{}\n", serde_json::json!({ "text": document["text"] }))
    });
    let twice = texts.collect::<String>().repeat(2);
    std::fs::write(at.join("twice.jsonl"), twice).unwrap();
    for (training, copies) in [("vouched/in.jsonl", 4), ("twice.jsonl", 8)] {
        let line = format!("exposure {SCORER} {plan} --training {training}");
        let found = json(at, &line, &serving("base"));
        assert_eq!(found["epsilon"]["copies"], copies, "{training}");
    }
    // What stages of a folder change is as unbounded for a model of others: a promise was held against its ranks.
    let loud = r#"{"type":"gaussian","noise_multiplier":0.5}"#;
    std::fs::write(at.join("loud.json"), loud).unwrap();
    for (training, unbounded) in [("met", false), ("sieved-turns", true)] {
        let line = format!("exposure {SCORER} {plan} --training {training} --mechanism loud.json");
        let found = json(at, &line, &serving("base"));
        let why = found["no_verdict"].as_str().unwrap_or_default();
        assert_eq!(why.contains("no bounded stability"), unbounded, "{found}");
    }
    // The commands that planting names read the key that was planted in.
    let bodies = text.lines().map(|line| {
        let document: Value = serde_json::from_str(line).unwrap();
        format!(
            "{}\n",
            serde_json::json!({ "body": document["text"], "text": "another" })
        )
    });
    std::fs::write(at.join("bodies.jsonl"), bodies.collect::<String>()).unwrap();
    let line = "plant bodies.jsonl --text-field body --canaries 3x4 --canary-format Key:{digits:4} --unit turn --out bodied";
    let planted = flat(&ok(at, line, ""));
    assert!(
        planted.contains("bodies.jsonl --text-field body --unit turn")
            && planted.contains("bodies.jsonl --text-field body)"),
        "{planted}"
    );
    let line = format!(
        "exposure {SCORER} --canary-file bodied/canaries.json --budget 2000 --training bodied/bodies.jsonl"
    );
    let named = format!("{line} --text-field body");
    assert_eq!(json(at, &named, &serving("base"))["planting"], "given-text");
    let other = stderr(&audit(at, &line, &serving("base")));
    assert!(
        other.contains("3 of 3 canaries lack a copy") && other.contains("under another key"),
        "{other}"
    );
    let line = format!("exposure --model meeting {plan} --training met");
    let proved = stdout(&audit(at, &line, "")).replace('\n', " ");
    assert!(!proved.contains("as you"), "{proved}");
    for (line, why) in [
        (
            format!("exposure --model base {plan} --training in.jsonl"),
            "3 of 3 canaries lack a copy in in.jsonl",
        ),
        (
            format!("exposure --model base {plan} --training other"),
            "3 of 3 canaries lack a copy in other",
        ),
        (
            "exposure --model ckpt --canary-file planted/canaries.json --training in.jsonl"
                .to_owned(),
            "ckpt says by itself which canaries it was trained on",
        ),
    ] {
        refused(at, &line, "", &[why]);
    }
}

/// Coins from planting to the bound: the training text is what they say, and another text is refused.
#[test]
fn coins_from_planting_to_the_bound() {
    let at = trained();
    for line in [
        "plant in.jsonl --canaries 40x1 --coins --unit turn --out tossed",
        "prepare tossed/in.jsonl --policy nothing --no-redaction --out ready",
        "prepare tossed/in.jsonl --policy nothing --no-redaction --held-out 0 --out another",
        "plant in.jsonl --canaries 40x1 --coins --unit turn --out thrown",
        "plant in.jsonl --canaries 40x1 --coins --unit document --out changing",
        "prepare changing/in.jsonl --policy nothing --no-redaction --unit document --held-out 0 --out once",
        "prepare changing/in.jsonl --policy nothing --no-redaction --unit document --duplicates bloom:64 --held-out 0 --out sieved",
        "train ready --recipe sgd --epochs 2 --out toss",
        "train ready --recipe dpsgd --sigma 2 --sample-rate 0.1 --steps 2 --out noisy",
        "prepare tossed/in.jsonl --policy nothing --no-redaction --unit document --out whole",
        "train whole --recipe sgd --epochs 1 --out long",
    ] {
        ok(at, line, "");
    }
    assert!(!at.join("tossed/canaries.json").exists());
    // A canary that is held out is one coin less.
    let line = "plant in.jsonl --canaries 4x1 --coins --unit turn --out few --format markdown";
    let planted = ok(at, line, "");
    assert!(planted.contains("--held-out 0 --out ready/"), "{planted}");
    let coins: Value =
        serde_json::from_slice(&std::fs::read(at.join("tossed/coins.json")).unwrap()).unwrap();
    let inside = coins["inside"].as_array().unwrap();
    let inside = inside
        .iter()
        .filter(|coin| **coin == Value::Bool(true))
        .count() as u64;
    let line = "coins --model toss --coins-file tossed/coins.json --training tossed/in.jsonl";
    let found = json(at, line, "");
    assert_eq!(found["canaries"], 40);
    assert_eq!(found["inside"], inside);
    assert_eq!(found["preflight"]["found"], inside);
    assert_eq!(found["preflight"]["lacking"], 0);
    assert_eq!(found["inclusion"], "given-text");
    let (lower, most) = (&found["epsilon"]["lower"], &found["provable"]);
    assert!(lower.as_f64().unwrap() <= most.as_f64().unwrap(), "{found}");
    // What ran is known from the checkpoint.
    let why = found["no_verdict"].as_str().unwrap();
    assert!(why.starts_with("nothing was promised"), "{why}");
    let noisy = json(at, &line.replace("toss --", "noisy --"), "");
    let why = noisy["no_verdict"].as_str().unwrap();
    assert!(why.contains("name its prepared folder"), "{noisy}");
    // Its owner's key knows the records, and without any text no promise is said to stand.
    let known = json(
        at,
        "coins --model noisy --coins-file tossed/coins.json --training ready",
        "",
    );
    assert_eq!(known["inclusion"], "trained-records");
    // So few coins can't exceed a project's limit on promises, which is then none on them.
    std::fs::write(at.join("limit.toml"), "max_epsilon = 50\n").unwrap();
    let line = "coins --model noisy --coins-file tossed/coins.json --training ready";
    json(at, &format!("{line} --config limit.toml"), "");
    let preflight = &known["preflight"];
    let [whole, lacking] = ["found", "lacking"].map(|key| preflight[key].as_u64().unwrap());
    assert_eq!(whole + lacking, inside);
    assert_eq!(preflight["held_out"], lacking, "{preflight}");
    assert!(known["verdict"]["at_most"].is_number(), "{known}");
    assert_eq!(known["verdict"]["terms"]["neighbours"], "add-remove");
    let blind = json(at, "coins --model noisy --coins-file tossed/coins.json", "");
    assert_eq!(blind["inclusion"], "not-checked");
    assert!(
        blind.get("verdict").is_none()
            && blind["no_verdict"].as_str().unwrap().contains("--training")
    );
    // A manifest that is given by itself is said to be vouched for by nobody.
    std::fs::copy(at.join("noisy/manifest.json"), at.join("copied.json")).unwrap();
    let line = "coins --model noisy --coins-file tossed/coins.json --mechanism copied.json";
    let copied = json(at, line, "");
    let caveat = copied["manifest"].as_str().unwrap();
    assert!(
        caveat.contains("copied.json: not authenticated: read away from its checkpoint"),
        "{copied}"
    );
    // Coins that change documents of a deduplicated text change two records for each copy.
    for (line, records) in [
        ("coins --model long --coins-file changing/coins.json", 2),
        ("coins --model toss --coins-file tossed/coins.json", 1),
    ] {
        assert_eq!(json(at, line, "")["epsilon"]["copies"], records, "{line}");
    }
    // So do those of a model of others that is said to be trained on a folder; its stages were ignored.
    for (training, records, unbounded) in [
        ("changing/in.jsonl", 1, false),
        ("once", 2, false),
        ("sieved", 1, true),
    ] {
        let line = format!(
            "coins --scorer {{}} --tokenizer long/tokenizer.json --coins-file changing/coins.json --training {training}"
        );
        let found = json(at, &line, &serving("long"));
        assert_eq!(found["epsilon"]["copies"], records, "{training}");
        assert_eq!(found["unbounded"] == true, unbounded, "{training}");
    }
    let mut flipped = coins.clone();
    for coin in flipped["inside"].as_array_mut().unwrap() {
        *coin = Value::Bool(*coin == Value::Bool(false));
    }
    std::fs::write(at.join("flipped.json"), flipped.to_string()).unwrap();
    let through = json(
        at,
        "coins --scorer {} --tokenizer toss/tokenizer.json --coins-file tossed/coins.json --reference base",
        &serving("toss"),
    );
    assert_eq!(through["canaries"], 40);
    assert_eq!(through["inclusion"], "not-checked");
    assert_eq!(through["reference"]["near_copy"], false);
    // The reference may be a process as well.
    let line = "coins --model toss --coins-file tossed/coins.json --reference";
    let [own, served] = [
        json(at, &format!("{line} base"), ""),
        json(at, &format!("{line} {{}}"), &serving("base")),
    ];
    for key in ["reference", "epsilon", "right"] {
        alike(&own[key], &served[key], key);
    }
    let given = served["inputs"]["reference"].as_str().unwrap();
    assert!(given.starts_with("command:"), "{given}");
    // Those that are in are ranked too. The run's plan did not include them: no promise is held against their ranks.
    let line = "exposure --model noisy --canary-file tossed/coins.json --budget 2000";
    let ranked = json(at, line, "");
    assert_eq!(ranked["canaries"].as_array().unwrap().len() as u64, inside);
    assert!(ranked["verdict"].is_null(), "{ranked}");
    assert_eq!(ranked["planting"], "not-told");
    let why = ranked["no_verdict"].as_str().unwrap();
    assert!(why.contains("plan did not include these canaries"), "{why}");
    let mut cut = coins.clone();
    cut["inside"].as_array_mut().unwrap().truncate(20);
    cut["plan"]["canaries"].as_array_mut().unwrap().truncate(20);
    std::fs::write(at.join("cut.json"), cut.to_string()).unwrap();
    let mut replaced = coins.clone();
    assert_eq!(replaced["added"], true);
    replaced["added"] = Value::Bool(false);
    std::fs::write(at.join("replaced.json"), replaced.to_string()).unwrap();
    let louder = r#"{"type":"gaussian","noise_multiplier":0.5}"#;
    std::fs::write(at.join("louder.json"), louder).unwrap();
    for (line, why) in [
        (
            "coins --model toss --coins-file flipped.json",
            "40 of 40 coins are not those that its plan draws",
        ),
        ("coins --model toss --coins-file cut.json", "cut or edited"),
        (
            "coins --model toss --coins-file replaced.json --training ready",
            "cut or edited",
        ),
        (
            "exposure --model toss --canary-file cut.json",
            "cut or edited",
        ),
        (
            "exposure --model toss --canary-file tossed",
            "--canary-file",
        ),
        (
            "coins --model noisy --coins-file tossed/coins.json --mechanism louder.json",
            "--mechanism: louder.json says another run than noisy/manifest.json",
        ),
        (
            "exposure --model noisy --canary-file tossed/coins.json --mechanism louder.json",
            "--mechanism: louder.json says another run than noisy/manifest.json",
        ),
        (
            "coins --model toss --coins-file tossed/coins.json --training another",
            "toss was trained on other records than those of another",
        ),
        (
            "coins --model toss --coins-file thrown/coins.json --training ready",
            "it is not the text that was planted",
        ),
        (
            "exposure --model long --canary-file tossed/coins.json",
            "one record is a turn in it and a document in the training of long",
        ),
        (
            "coins --model toss --coins-file tossed/coins.json --training out.jsonl",
            "not the text that was planted",
        ),
        (
            "coins --model toss --coins-file planted/canaries.json",
            "--coins-file",
        ),
        (
            "coins --model long --coins-file tossed/coins.json",
            "one record is a turn in it and a document in the training of long",
        ),
        (
            "coins --model toss --coins-file tossed/coins.json --reference toss",
            "toss has the weights of the audited model",
        ),
        (
            "plant tossed/in.jsonl --canaries 4x1 --coins --doses 1 --out again",
            "cannot be used with",
        ),
    ] {
        refused(at, line, "", &[why]);
    }
}

/// Runs a line with several scorers; `{}` stands for all of them.
fn pooled(folder: &Path, line: &str, scorers: &[&str]) -> Output {
    let flags: Vec<&str> = scorers.iter().flat_map(|s| ["--scorer", s]).collect();
    with(folder, line, &flags)
}

#[test]
fn several_scorers_give_the_same_ranks_and_a_dead_one_is_survived() {
    let at = trained();
    let serving = serving("ckpt");
    // Answers the comparison and two questions, and ends.
    let dies = format!(
        "{AUDIT} serve --model ckpt | {{ for i in 1 2 3 4; do read -r l; echo \"$l\"; done; kill $$; }}\n"
    );
    std::fs::write(at.join("dies.sh"), dies).unwrap();
    let dies = "command:sh dies.sh";
    let line = "exposure {} --tokenizer ckpt/tokenizer.json --canary-file planted/canaries.json --format json";
    let ranks = |scorers: &[&str]| -> (Value, String) {
        let output = pooled(at, line, scorers);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (found["canaries"].clone(), stderr(&output))
    };
    let (one, _) = ranks(&[&serving]);
    assert_eq!(ranks(&[&serving, &serving]).0, one);
    assert_eq!(ranks(&[&serving, &serving, &serving]).0, one);
    let (found, notes) = ranks(&[dies, &serving, dies]);
    assert_eq!(found, one);
    assert!(
        notes.contains("the scorer `sh dies.sh`") && notes.contains("of 3 continue"),
        "{notes}"
    );
    ends_with_2(
        &pooled(at, line, &[dies, dies]),
        line,
        &["the scorer `sh dies.sh`"],
    );
    // Ends within its answer to the second question, as a connection that breaks: this was taken for a wrong answer.
    let cut = format!(
        "{AUDIT} serve --model ckpt | {{ for i in 1 2 3; do read -r l; echo \"$l\"; done; read -r l; \
         printf %.20s \"$l\"; kill -9 $$; }}\n"
    );
    std::fs::write(at.join("cut.sh"), cut).unwrap();
    let cut = "command:sh cut.sh";
    let (found, notes) = ranks(&[cut, &serving]);
    assert_eq!(found, one);
    assert!(
        notes.contains("the scorer `sh cut.sh` ended early")
            && notes.contains("within a line; 1 of 2 continue"),
        "{notes}"
    );
    ends_with_2(&pooled(at, line, &[cut]), line, &["within a line"]);
}

#[test]
fn several_scorers_must_be_one_model() {
    let at = trained();
    let line = "exposure {} --tokenizer ckpt/tokenizer.json --canary-file planted/canaries.json";
    ends_with_2(
        &pooled(at, line, &[&serving("ckpt"), &serving("base")]),
        line,
        &["the same model"],
    );
    // Alike where the sequence begins, and apart later.
    let drifts = format!("{AUDIT} serve --model ckpt | sed -u '2s/,-/,-9/100'\n");
    std::fs::write(at.join("drifts.sh"), drifts).unwrap();
    ends_with_2(
        &pooled(at, line, &[&serving("ckpt"), "command:sh drifts.sh"]),
        line,
        &["the same model"],
    );
    // A wrong answer is not survived.
    let lies = format!("{AUDIT} serve --model ckpt | sed -u '1,2!s/\\[\\[-/[[/'\n");
    std::fs::write(at.join("lies.sh"), lies).unwrap();
    ends_with_2(
        &pooled(at, line, &["command:sh lies.sh", &serving("ckpt")]),
        line,
        &["must lie in"],
    );
}

/// A second process that lies was only compared with the first at the start; and an answer about a canary's own secret
/// was repeated only where it was drawn.
#[test]
fn what_one_of_several_scorers_says_is_compared_with_the_others() {
    let at = trained();
    let line = "exposure {} --tokenizer ckpt/tokenizer.json --canary-file planted/canaries.json";
    for (name, lie, second) in [
        ("later", "1,2!s/-[0-9]/-9&/g;1,2!s/-9-/-9/g", true),
        ("once", "3s/-[0-9]/-9&/g;3s/-9-/-9/g", false),
    ] {
        let script = format!("{AUDIT} serve --model ckpt | sed -u '{lie}'\n");
        std::fs::write(at.join(format!("{name}.sh")), script).unwrap();
        let (liar, honest) = (format!("command:sh {name}.sh"), serving("ckpt"));
        let scorers = match second {
            true => [honest.as_str(), &liar],
            false => [liar.as_str(), &honest],
        };
        let words = ["the same question in two ways"];
        ends_with_2(&pooled(at, line, &scorers), line, &words);
    }
}

const HELLO: &str = r#"echo '{"reticent_scorer":1,"vocabulary":128,"statistics":false}'"#;

#[test]
fn whatever_a_process_does_wrong_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("text.txt"), "hello\n").unwrap();
    // "hello" with both ends is 7 characters, 6 of them predicted.
    let good = "-1,-1,-1,-1,-1,-1";
    let answer = |row: &str| {
        format!("{HELLO}; read q; echo '{{\"id\":1,\"log_probabilities\":{row}}}'; cat >/dev/null")
    };
    let cases: Vec<(String, &[&str])> = vec![
        (
            "sleep 100".into(),
            &["did not answer within 1 s", "--scorer-timeout"],
        ),
        (
            "echo loading >&2; echo out of memory >&2; exit 3".into(),
            &["ended early", "3", "is not shown"],
        ),
        ("exec >&-; sleep 9".into(), &["closed its output"]),
        ("printf '\\377\\n'; sleep 9".into(), &["not UTF-8"]),
        (
            "printf '{\"reticent_\\303'; exit 3".into(),
            &["ended early", "3", "within a line"],
        ),
        (
            "echo hello; sleep 9".into(),
            &["5 bytes", "no line of the protocol", "line 1 column 1"],
        ),
        (
            "echo '{\"reticent_scorer\":2,\"vocabulary\":9}'; sleep 9".into(),
            &["speaks version 2", "speaks 1"],
        ),
        (
            "echo '{\"reticent_scorer\":1,\"vocabulary\":0}'; sleep 9".into(),
            &["vocabulary 0", "at least 2"],
        ),
        (
            "echo '{\"reticent_scorer\":1,\"vocabulary\":9}'; sleep 9".into(),
            &[
                "--tokenizer: it has",
                "says vocabulary 9, which must be from",
            ],
        ),
        (
            format!("{HELLO}; echo gone >&2"),
            &["ended early", "is not shown"],
        ),
        (
            format!("{HELLO}; read q; sleep 100"),
            &["did not answer within 1 s"],
        ),
        (answer("[]"), &["0 rows", "1 sequences"]),
        (
            answer("[[-1,-2]]"),
            &["2 log_probabilities in row 0", "6 were asked for"],
        ),
        (
            answer("[[-1,NaN,-1,-1,-1,-1]]"),
            &["NaN and Infinity are no JSON", "\"-inf\""],
        ),
        (
            answer("[[-1,0.5,-1,-1,-1,-1]]"),
            &["0.5 at log_probabilities[0][1]", "[-inf, 0]"],
        ),
        (
            answer("[[-1,\"none\",-1,-1,-1,-1]]"),
            &["a number or \"-inf\""],
        ),
        (
            answer("[[-1,\"078-05-1120\",-1,-1,-1,-1]]"),
            &["expected a number or \"-inf\" at line 1 column"],
        ),
        (
            format!(
                "{HELLO}; read q; echo '{{\"error\":\"078-05-1120 is no token\"}}'; cat >/dev/null"
            ),
            &["missing field `id`", "may quote text and is not shown"],
        ),
        (
            format!(
                "{HELLO}; read q; echo 'Traceback (most recent call last): 078-05-1120'; cat >/dev/null"
            ),
            &["46 bytes", "line 1 column", "not shown"],
        ),
        (
            answer(&format!("[[{good}]]")).replace("\"id\":1", "\"id\":4"),
            &["answered question 4, expected 1"],
        ),
        (
            format!(
                "{HELLO}; read q; echo '{{\"id\":1,\"error\":\"no such token\"}}'; cat >/dev/null"
            ),
            &["reports an error", "not shown", "tee FILE"],
        ),
    ];
    let line = "perplexity --scorer {} --tokenizer characters --data text.txt";
    for (script, says) in cases {
        std::fs::write(at.join("scorer.sh"), format!("{script}\n")).unwrap();
        // A busy machine may need seconds to start a process: only those that never answer are cut short.
        let patience = if script.ends_with("sleep 100") {
            1
        } else {
            300
        };
        let patient = format!("{line} --scorer-timeout {patience}");
        let output = audit(at, &patient, "command:sh scorer.sh");
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{script}: {message}");
        assert!(
            output.stdout.is_empty() && message.starts_with("error: "),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{script}: {message}");
        for private in ["no such token", "078-05-1120", "Traceback", "hello"] {
            assert!(!message.contains(private), "{message}");
        }
        assert!(message.contains("the scorer `sh scorer.sh`") || says[0].contains("--tokenizer: "));
        for words in says {
            assert!(
                message.contains(words),
                "{script}: no {words:?} in {message}"
            );
        }
    }
    let answers = |rows: &[&str]| {
        let said = (1..).zip(rows).map(|(id, row)| {
            format!("read q; echo '{{\"id\":{id},\"log_probabilities\":[[{row}]]}}'")
        });
        let said: Vec<String> = said.collect();
        format!("{HELLO}; {}; cat >/dev/null\n", said.join("; "))
    };
    // Questions are asked again at the end.
    let other = "-1,-1,-1,-1,-1.02,-1";
    std::fs::write(at.join("scorer.sh"), answers(&[good, other])).unwrap();
    let words = [
        "--scorer: the scorer `sh scorer.sh` answers the same question in two ways",
        "is -1 at first and -1.02 at the end",
    ];
    refused(at, line, "command:sh scorer.sh", &words);
    // Then the first half alone, of which the second says nothing.
    let cut = answers(&[good, good, "-1,-1,-1.02"]);
    std::fs::write(at.join("scorer.sh"), cut).unwrap();
    let words = [
        "--scorer: the scorer `sh scorer.sh` contradicts itself",
        "is -1 in a text and -1.02 in its first half",
    ];
    refused(at, line, "command:sh scorer.sh", &words);
    // And so are the statistics of the whole vocabulary.
    let answer = |id: u32, count: usize, variance: &str| {
        let row = |number: &str| vec![number; count].join(",");
        format!(
            "read q; echo '{{\"id\":{id},\"log_probabilities\":[[{}]],\"means\":[[{}]],\"variances\":[[{}]],\
             \"top_tokens\":[[{}]],\"top_log_probabilities\":[[{}]]}}'; ",
            row("-1"),
            row("-2"),
            row(variance),
            row("0"),
            row("-0.9")
        )
    };
    let hello = HELLO.replace("false", "true");
    for (again, code) in [("0.25", 0), ("0.36", 2)] {
        let script = format!(
            "{hello}; {}{}{}cat >/dev/null\n",
            answer(1, 6, "0.25"),
            answer(2, 6, again),
            answer(3, 3, "0.25")
        );
        std::fs::write(at.join("scorer.sh"), script).unwrap();
        let output = audit(at, line, "command:sh scorer.sh");
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{message}");
        let says = "the root of the variance of ln p is 0.5 at first and 0.6 at the end";
        assert_eq!(message.contains(says), code == 2, "{message}");
    }
    let steady = answers(&[good, good, "-1,-1,-1"]);
    std::fs::write(at.join("scorer.sh"), steady).unwrap();
    let fine = audit(at, line, "command:sh scorer.sh");
    assert!(stderr(&fine).is_empty(), "{}", stderr(&fine));
    assert!(
        String::from_utf8(fine.stdout)
            .unwrap()
            .contains("Perplexity 2.718")
    );
    for (scorer, says) in [
        ("command:", "must name a command"),
        ("python3 scorer.py", "must be command:LINE"),
        ("command:no-such-program-here", "not found"),
    ] {
        refused(at, line, scorer, &[says]);
    }
}

fn alive(pid: &str) -> bool {
    let sent = Command::new("kill")
        .args(["-0", pid])
        .stderr(Stdio::null())
        .status();
    sent.unwrap().success()
}

#[test]
fn the_process_ends_with_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("text.txt"), "hello\n").unwrap();
    let pid = || std::fs::read_to_string(at.join("pid")).unwrap_or_default();
    let script = |rest: &str| {
        let text = format!("echo $$ >pid.part; mv pid.part pid; {rest}\n");
        std::fs::write(at.join("scorer.sh"), text).unwrap();
    };
    let line = "perplexity --scorer {} --tokenizer characters --data text.txt";
    // after an error
    script("echo hello; exec sleep 600");
    let output = audit(at, line, "command:sh scorer.sh");
    assert_eq!(output.status.code(), Some(2));
    assert!(!alive(pid().trim()));
    std::fs::remove_file(at.join("pid")).unwrap();
    // after Ctrl-C
    script("exec sleep 600");
    let words = line.split_whitespace();
    let mut child = Command::new(AUDIT)
        .args(words.map(|w| if w == "{}" { "command:sh scorer.sh" } else { w }))
        .current_dir(at)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while pid().is_empty() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!alive(pid().trim()));
}
