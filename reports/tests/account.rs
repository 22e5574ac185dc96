//! The contract of the `account` command, from outside.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::{flat, stderr};
use std::process::{Command, Output, Stdio};

fn account(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_account"))
        .args(arguments)
        // There is no key: prepared folders are read without.
        .env(
            "RETICENT_OWNER_KEY",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/no-owner.key"),
        )
        .output()
        .unwrap()
}

fn line(arguments: &str) -> Output {
    account(&arguments.split_whitespace().collect::<Vec<_>>())
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_first_line_of_the_readme_answers() {
    let output = line("--sigma 1.1 --gamma 0.1");
    assert_eq!(code(&output), 0);
    assert!(output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("Defaults: sampler poisson, sample rate 0.01, steps 1000, delta 1e-6"),
        "{text}"
    );
    assert!(text.lines().all(|l| l == l.trim_end()), "{text}");
}

/// What a pipeline collects says what the exit code says: it was "pass" of a passed limit, and "fail" of a plan that promises
/// nothing and had no limit.
#[test]
fn every_format_says_how_a_limit_ended() {
    let plain = "--sigma 1.1 --delta 1e-5 --steps 100";
    let page = "--recipe dpsgd --sigma 1.1 --steps 100";
    let nothing = "--recipe sgd";
    for (command, exit, outcome) in [
        (format!("{plain} --max-epsilon 0.01"), 1, "fail"),
        (format!("{plain} --max-epsilon 9"), 0, "pass"),
        (plain.to_owned(), 0, "pass"),
        (format!("{page} --max-epsilon 0.01"), 1, "fail"),
        (format!("{page} --max-epsilon 90"), 0, "pass"),
        (nothing.to_owned(), 0, "open"),
        (format!("{nothing} --max-epsilon 1"), 1, "fail"),
        // Such a δ keeps no record from being published: an ε of 0 passed.
        ("--sigma 1.1 --delta 1".to_owned(), 0, "open"),
        (
            "--sigma 1.1 --delta 1 --max-epsilon 1".to_owned(),
            1,
            "fail",
        ),
        (
            "--sigma 1.1 --delta 0.9 --max-epsilon 1".to_owned(),
            1,
            "fail",
        ),
        // It was judged against one record, below one over which it is.
        (
            "--sigma 1 --dataset-size 1 --batch-size 1 --steps 1 --delta 0.9 --max-epsilon 5"
                .to_owned(),
            1,
            "fail",
        ),
        // Of how many records is not known.
        (
            "--sigma 1.1 --delta 0.4 --max-epsilon 1".to_owned(),
            2,
            "open",
        ),
        (
            "--sigma 1.1 --delta 0.0002 --max-epsilon 9".to_owned(),
            2,
            "open",
        ),
        (
            "--sigma 1.1 --delta 0.0001 --max-epsilon 9".to_owned(),
            0,
            "pass",
        ),
        (
            "--sigma 1.1 --delta 0.0002 --max-epsilon 0.01".to_owned(),
            1,
            "fail",
        ),
        (
            format!("{plain} --dataset-size 100000 --max-epsilon 9"),
            1,
            "fail",
        ),
        (
            format!("{plain} --dataset-size 99999 --max-epsilon 9"),
            0,
            "pass",
        ),
    ] {
        let document = line(&format!("{command} --format json"));
        assert_eq!(code(&document), exit, "{command}");
        let document = json(&document);
        assert_eq!(document["outcome"], outcome, "{command}");
        let limit = &document["inputs"]["max_epsilon"];
        assert_eq!(
            limit.is_null(),
            !command.contains("--max-epsilon"),
            "{command}"
        );
        let sarif = json(&line(&format!("{command} --format sarif")));
        let result = &sarif["runs"][0]["results"][0];
        assert_eq!(result["kind"], outcome, "{command}");
        let level = if exit == 1 { "error" } else { "none" };
        assert_eq!(result["level"], level, "{command}");
        let said = result["message"]["text"].as_str().unwrap();
        assert!(said.contains("Defaults: "), "{said}");
        let card = line(&format!("{command} --format model-card"));
        let card = String::from_utf8(card.stdout).unwrap();
        let above = format!("contradicted_or_above_limit: {}", exit == 1);
        assert!(
            card.contains(&above) && card.contains("Defaults: "),
            "{card}"
        );
        let text = String::from_utf8(line(&command).stdout).unwrap();
        assert_eq!(text.contains("limit "), !limit.is_null(), "{text}");
    }
}

#[test]
fn json_is_one_document_with_both_certified_ends() {
    let output = line(
        "--sigma 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5 --tolerance 1e-9 --format json",
    );
    assert_eq!(code(&output), 0);
    let document = json(&output);
    assert_eq!(document["schema"], 1);
    assert_eq!(document["type"], "guarantees");
    assert_eq!(
        document["inputs"]["assumed"],
        serde_json::json!(["sampler", "neighbours", "unit", "prior"])
    );
    let first = &document["guarantees"][0];
    assert_eq!(
        (first["notion"].as_str(), first["method"].as_str()),
        (Some("dp"), Some("pld"))
    );
    let end = |row: &serde_json::Value, name: &str| row[name].as_f64().unwrap();
    // 45-digit arithmetic: 5.1925834458831 (remove); the shared vector for add.
    let remove = &first["by_direction"]["remove"];
    assert!(
        end(remove, "lower") <= 5.192_583_445_883_1 && 5.192_583_445_883_1 <= end(remove, "upper")
    );
    assert!(end(remove, "upper") - end(remove, "lower") < 5.2e-9);
    let add = &first["by_direction"]["add"];
    assert!((end(add, "upper") - 4.806_500_065_67).abs() < 1e-8);
    assert_eq!(first["epsilon"], *remove);
}

#[test]
fn replace_neighbours_cost_what_they_cost() {
    let output = line(
        "--sigma 1.1 --sample-rate 0.01 --steps 10000 --delta 1e-5 --neighbours replace --format json",
    );
    let upper = json(&output)["guarantees"][0]["epsilon"]["upper"]
        .as_f64()
        .unwrap();
    assert!((upper - 9.42230).abs() < 1e-5, "{upper}");
}

#[test]
fn a_limit_ends_with_one() {
    assert_eq!(code(&line("--sigma 1.1 --delta 1e-5 --max-epsilon 1.6")), 0);
    let over = line("--sigma 1.1 --delta 1e-5 --max-epsilon 1.5");
    assert_eq!(code(&over), 1);
    assert!(
        String::from_utf8(over.stdout)
            .unwrap()
            .contains("limit 1.5")
    );
}

#[test]
fn bad_input_is_two_with_argument_value_and_range() {
    for (arguments, said) in [
        (
            "--sigma 0",
            "--sigma: noise multiplier must lie in (0, inf), got 0",
        ),
        (
            "--sigma -1",
            "--sigma: noise multiplier must lie in (0, inf), got -1",
        ),
        (
            "--sigma NaN",
            "--sigma: noise multiplier must lie in (0, inf), got NaN",
        ),
        ("--sigma much", "--sigma: must be a number, got \"much\""),
        (
            "--sigma 1 --gamma 1.5",
            "--gamma: miss rate must lie in [0, 1], got 1.5",
        ),
        (
            "--sigma 1 --gamma -0.1",
            "--gamma: miss rate must lie in [0, 1], got -0.1",
        ),
        (
            "--sigma 1 --sample-rate 0 --epochs 1",
            "--sample-rate: must lie in (0, 1], got 0: at a rate of 0 there are no epochs",
        ),
        (
            "--sigma 1 --sample-rate 2",
            "--sample-rate: sampling rate must lie in [0, 1], got 2",
        ),
        (
            "--sigma 1 --steps -1",
            "--steps: must be a whole number in [0, 9007199254740992], got \"-1\"",
        ),
        (
            "--sigma 1 --epochs 0",
            "--epochs: must be a number in (0, inf), got \"0\"",
        ),
        (
            "--sigma 1 --delta 2",
            "--delta: delta must lie in [0, 1], got 2",
        ),
        (
            "--sigma 1 --group 0",
            "--group: must be a whole number in [1, 10000], got \"0\"",
        ),
        (
            "--sigma 1 --prior 1.5",
            "--prior: probability must lie in [0, 1], got 1.5",
        ),
        (
            "--sigma 1 --tolerance 0",
            "--tolerance: tolerance must lie in [1e-12, 0.5], got 0",
        ),
        (
            "--sigma 1 --labelled 0 --missed 0",
            "--labelled: must be a positive whole number, got \"0\"",
        ),
        (
            "--sigma 1 --labelled 5 --missed 6",
            "--missed: must lie in [0, labelled 5], got 6",
        ),
        (
            "--sigma 1 --labelled 5 --missed 1 --confidence 1",
            "--confidence: confidence must lie in (0, 1), got 1",
        ),
        (
            "--sigma 1 --labelled 100 --missed 3 --confidence 0.01",
            "--confidence: confidence of a miss rate from a sample must lie in [0.75, 1), got 0.01",
        ),
        (
            "--sigma 1 --gamma 0.1 --conservative-miss 2",
            "--conservative-miss: miss rate must lie in [0, 1], got 2",
        ),
        (
            "--sigma 1 --gamma 0.1 --joint-miss 0.2",
            "--joint-miss: must lie in [0, 0.1]",
        ),
        (
            "--sigma 1 --joint-miss 0.2",
            "--joint-miss: needs --gamma, a miss rate",
        ),
        (
            "--sigma 1 --batch-size 20 --dataset-size 10",
            "--batch-size: must lie in [1, 10] (the records that noise covers), got 20",
        ),
        (
            "--sigma 1 --max-epsilon -1",
            "--max-epsilon: epsilon must lie in [0, inf], got -1",
        ),
        (
            "--sigma 1 --plot no/such/folder/x.svg",
            "--plot: cannot write no/such/folder/x.svg",
        ),
        (
            "calibrate --epsilon 0 --delta 0",
            "--epsilon: target delta at epsilon 0 must lie in (0, 1], got 0",
        ),
        (
            "calibrate --prior 0.5 --posterior 0.1",
            "--posterior: posterior must lie in (prior, 1], got 0.1",
        ),
    ] {
        let output = line(arguments);
        assert_eq!(code(&output), 2, "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
        assert!(
            stderr(&output).starts_with(&format!("error: {said}")),
            "{arguments}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn usage_errors_name_the_arguments() {
    for (arguments, said) in [
        ("", "--sigma"),
        ("--gamma 0.1", "--sigma"),
        (
            "--sigma 1 --gamma 0.1 --labelled 200 --missed 20",
            "--labelled",
        ),
        ("--sigma 1 --labelled 200", "--missed"),
        ("--sigma 1 --missed 20", "--labelled"),
        ("--sigma 1 --confidence 0.9", "--labelled"),
        ("--sigma 1 --batch-size 10", "--dataset-size"),
        (
            "--sigma 1 --sample-rate 0.1 --batch-size 10 --dataset-size 100",
            "--sample-rate",
        ),
        ("--sigma 1 --steps 10 --epochs 2", "--epochs"),
        ("--sigma 1 --neighbours both", "--neighbours"),
        ("--sigma 1 --format xml", "--format"),
        ("calibrate", "--epsilon"),
        ("calibrate --prior 0.1", "--posterior"),
        (
            "calibrate --epsilon 1 --posterior 0.5 --prior 0.1",
            "--posterior",
        ),
        ("--sigma 1 calibrate --epsilon 1", "calibrate"),
    ] {
        let output = line(arguments);
        assert_eq!(code(&output), 2, "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
        assert!(
            stderr(&output).contains(said),
            "{arguments}: {}",
            stderr(&output)
        );
    }
}

/// Help that nobody can read is not a success.
#[test]
#[cfg(target_os = "linux")]
fn help_that_cannot_be_written_is_an_error() {
    for arguments in [&["--help"][..], &["--version"], &["plan", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = Command::new(env!("CARGO_BIN_EXE_account"))
            .args(arguments)
            .stdout(full.unwrap())
            .output()
            .unwrap();
        assert_eq!(code(&output), 2, "{arguments:?}");
        let said = stderr(&output);
        assert!(said.starts_with("error: No space left"), "{said}");
    }
}

/// The figure is the answer of a curve; its page began with a table of 33 rows.
#[test]
fn a_curve_begins_with_its_figure() {
    let output = account(&[
        "curve", "--sigma", "1.1", "--points", "5", "--format", "html",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let html = String::from_utf8(output.stdout).unwrap();
    assert!(html.find("<svg").unwrap() < html.find("<table").unwrap());
}

#[test]
fn a_plot_is_whole_and_only_its_owner_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("curve.svg");
    let output = account(&[
        "--sigma",
        "1.1",
        "--gamma",
        "0.1",
        "--plot",
        place.to_str().unwrap(),
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        std::fs::read_to_string(&place)
            .unwrap()
            .trim_end()
            .ends_with("</svg>")
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            place.metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[test]
fn calibration_keeps_its_promise() {
    let found = json(&line(
        "calibrate --epsilon 2 --delta 1e-5 --sample-rate 0.1 --steps 100 --format json",
    ));
    assert_eq!(found["type"], "calibration");
    let sigma = found["sigma"].as_f64().unwrap().to_string();
    let plan = format!(
        "--sigma {sigma} --sample-rate 0.1 --steps 100 --delta 1e-5 --max-epsilon 2.0000001"
    );
    assert_eq!(code(&line(&plan)), 0);
    // Hush!: 100 examples, prior 1e-10, posterior 2e-4; the divergence alone costs 35 times the noise.
    let hush = json(&line(
        "calibrate --prior 1e-10 --posterior 2e-4 --group 100 --batch-size 20480 --dataset-size 17000000 \
         --steps 2000 --format json",
    ));
    assert!((hush["sigma"].as_f64().unwrap() - 2.068_432).abs() < 1e-5);
    assert!((hush["kl_fano_sigma"].as_f64().unwrap() - 73.295_697).abs() < 2e-4);
    // A posterior of 1, and any of what is never guessed, costs no noise by whatever bound.
    for promise in ["--prior 0.5 --posterior 1", "--prior 0 --posterior 0.4"] {
        let found = json(&line(&format!(
            "calibrate {promise} --sample-rate 0.5 --steps 10 --format json"
        )));
        assert!(found["sigma"].as_f64().unwrap() > 0.0, "{found}");
        assert!(found.get("kl_fano").is_none(), "{found}");
    }
}

#[test]
fn help_and_completions_are_data() {
    for arguments in [
        "--help",
        "calibrate --help",
        "--version",
        "completions bash",
        "man calibrate",
    ] {
        let output = line(arguments);
        assert_eq!(code(&output), 0, "{arguments}");
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{arguments}"
        );
    }
    // Other programs have these names, too.
    let version = String::from_utf8(line("--version").stdout).unwrap();
    assert!(version.ends_with(" (Reticent)\n"), "{version}");
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_account"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
}

/// A plan, labels and a prepared corpus in a folder of their own.
fn planned() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "training.toml",
        "schema = 1\nrecipe = \"crt\"\nunit = \"turn\"\n[data]\nprivate = 60000\n[training]\nsigma = 1.1\n\
         batch_size = 256\nepochs = 5\n[secrets]\nlabels = \"labels.jsonl\"\neverything_private = true\n",
    );
    let labels: String = (0..200)
        .map(|i| {
            format!(
                "{{\"kind\":\"phone\",\"missed\":{},\"missed_by_conservative\":false}}\n",
                i < 20
            )
        })
        .collect();
    write("labels.jsonl", &labels);
    #[cfg(feature = "findings")]
    {
        use reticent_corpus::prepare::{KindFacts, PrepareOptions, prepare};
        let documents = reticent_corpus::simulate::simulate(5, 0).unwrap();
        let mut made = prepare(&documents, &PrepareOptions::default()).unwrap();
        let facts = &mut made.facts;
        facts.mask_only += 20000 - facts.private;
        (facts.units, facts.private) = (20000, 20000);
        let counts = KindFacts {
            distinct: 100,
            occurrences: 100,
            masked: 90,
            missed: 10,
            ..KindFacts::default()
        };
        facts.secrets.all = counts;
        facts.secrets.by_kind = [("phone".to_owned(), counts)].into();
        facts.secrets.most_records = 3;
        made.write(&folder.path().join("prepared"), false, None)
            .unwrap();
    }
    #[cfg(not(feature = "findings"))]
    write(
        "prepared/prepared.json",
        r#"{"schema":1,"type":"preparation",
            "options":{"deduplicate":true,"duplicates":{"type":"exact"},"conservative":null},
            "facts":{"unit":"turn","vocabulary":"bytes","units":20000,"public":0,"private":20000,
              "stages":[{"stage":"deduplicate","all_copies":1}],
              "secrets":{"source":"gold","all":{"distinct":100,"masked":90,"missed":10,"public":0},
                "by_kind":{"phone":{"distinct":100,"masked":90,"missed":10,"public":0}},"most_records":3}},
            "stability":{"all_copies":1}}"#,
    );
    folder
}

#[test]
fn a_plan_file_becomes_a_page_in_three_formats() {
    let folder = planned();
    let file = folder.path().join("training.toml");
    let file = file.to_str().unwrap();
    let output = account(&["plan", file]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("Epsilon is at most") && text.contains("not covered"),
        "{text}"
    );
    let output = account(&["plan", file, "--format", "json"]);
    let document = json(&output);
    assert_eq!(document["type"], "plan");
    let headline = document["headline"].as_f64().unwrap();
    assert!(headline > 0.0);
    let output = account(&["plan", file, "--format", "html"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.matches("<svg").count() == 2);
    // A limit below and above.
    let limit = |epsilon: f64| {
        code(&account(&[
            "plan",
            file,
            "--max-epsilon",
            &epsilon.to_string(),
        ]))
    };
    assert_eq!((limit(headline * 0.99), limit(headline * 1.01)), (1, 0));
    let output = account(&["plan", "nowhere.toml"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("nowhere.toml"));
}

#[test]
fn a_prepared_corpus_becomes_a_page_too() {
    let folder = planned();
    let corpus = folder.path().join("prepared");
    let corpus = corpus.to_str().unwrap();
    let base = [
        "--prepared",
        corpus,
        "--recipe",
        "crt",
        "--sigma",
        "1.1",
        "--batch-size",
        "256",
        "--epochs",
        "5",
    ];
    let with = |more: &[&str]| account(&[&base, more].concat());
    let output = with(&["--format", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    assert_eq!(document["inputs"]["records"], 3);
    assert_eq!(document["inputs"]["steps"], 5 * 79);
    for (more, said) in [
        (vec!["--group", "2"], "--group: must lie in [3, 10000]"),
        (vec!["--unit", "document"], "unit"),
        (vec!["--neighbours", "replace"], "--neighbours"),
    ] {
        let output = with(&more);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    // Without a corpus nobody says what the policies miss.
    let output = line("--sigma 1 --recipe crt");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("Nothing is promised"), "{page}");
    assert_eq!(code(&line("--sigma 1 --format html")), 0);
}

/// Rates that were measured on turns say nothing of documents, wherever the unit of the question comes from: only a
/// prepared corpus was compared.
#[test]
fn labels_of_another_unit_are_refused() {
    let folder = planned();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let label =
        r#"{"kind":"phone","missed":false,"measured_for":{"policy":"general","unit":"turn"}}"#;
    std::fs::write(at("labels.jsonl"), format!("{label}\n").repeat(200)).unwrap();
    let plan = std::fs::read_to_string(at("training.toml")).unwrap();
    let of_documents = plan.replace("\"turn\"", "\"document\"");
    std::fs::write(at("documents.toml"), of_documents).unwrap();
    let mechanism = r#"{"unit":"document","mechanism":{"type":"gaussian","noise_multiplier":5}}"#;
    std::fs::write(at("documents.json"), mechanism).unwrap();
    let (labels, file) = (at("labels.jsonl"), at("documents.json"));
    let run = ["--sigma", "1.1", "--sample-rate", "0.01", "--steps", "50"];
    let labelled = |words: &[&str]| account(&[words, &["--labels", labels.as_str()]].concat());
    let refused = [
        labelled(&[run.as_slice(), &["--unit", "document"]].concat()),
        labelled(&[run.as_slice(), &["--unit", "document", "--recipe", "dpsgd"]].concat()),
        labelled(&["--mechanism", &file]),
        labelled(&["compose", &file]),
    ];
    for output in &refused {
        assert_eq!(code(output), 2, "{}", stderr(output));
        let why =
            "--labels: the labels were measured for the unit turn, and one record is a document";
        assert!(stderr(output).contains(why), "{}", stderr(output));
    }
    let output = account(&["plan", &at("documents.toml")]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("secrets.labels: the labels were measured for the unit turn"),
        "{}",
        stderr(&output)
    );
    // Their own unit, and theirs where none is named.
    let premise = "Premise: the corpus is prepared with the policy that the labels were measured for, general. \
                One record is a turn, as the labels say.";
    for more in [
        &["--unit", "turn"][..],
        &[],
        &["--recipe", "dpsgd"],
        &["--recipe", "dpsgd", "--unit", "turn"],
    ] {
        let words = [run.as_slice(), more].concat();
        let output = labelled(&[&words[..], &["-v"]].concat());
        assert_eq!(code(&output), 0, "{more:?}: {}", stderr(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let text = flat(&text);
        assert!(text.contains(premise), "{more:?}: {text}");
        let inputs = &json(&labelled(&[&words[..], &["--format", "json"]].concat()))["inputs"];
        assert_eq!(inputs["unit"], "turn", "{more:?}");
        let assumed = inputs["assumed"].as_array().unwrap();
        assert!(!assumed.iter().any(|name| name == "unit"), "{inputs}");
    }
    assert_eq!(code(&account(&["plan", &at("training.toml")])), 0);
    // The type of a composed policy, "any", read as any policy.
    let digest = r#"any","digest":"hmac:4a1c2b3d4e5f6071829304a5b6c7d8e9"#;
    let composed = label.replace("general", digest);
    std::fs::write(at("labels.jsonl"), format!("{composed}\n").repeat(200)).unwrap();
    let text = labelled(&[run.as_slice(), &["-v"]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    let text = flat(&text);
    let named = r#"measured for, one of type "any" with digest hmac:4a1c2b3d4e5f6071829…"#;
    assert!(text.contains(named), "{text}");
}

#[test]
fn labels_measure_both_rates() {
    let folder = planned();
    let labels = folder.path().join("labels.jsonl");
    let labels = labels.to_str().unwrap();
    let output = account(&[
        "--sigma", "1.1", "--steps", "50", "--labels", labels, "--format", "json",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let inputs = &json(&output)["inputs"];
    assert_eq!(
        (
            inputs["labelled"].as_u64(),
            inputs["missed_by_both"].as_u64()
        ),
        (Some(200), Some(0))
    );
    // Each at 97.5 %, so that both hold at 95 %. What both miss is trained on with noise, but for crt.
    assert!((inputs["gamma"].as_f64().unwrap() - 0.150_213).abs() < 1e-5);
    assert_eq!(inputs["joint_miss"].as_f64(), Some(0.0));
    let crt = [
        "--recipe", "crt", "--sigma", "1.1", "--steps", "50", "--labels", labels,
    ];
    let output = account(&[crt.as_slice(), &["--format", "json"]].concat());
    let joint_miss = json(&output)["inputs"]["joint_miss"].as_f64().unwrap();
    assert!((joint_miss - 0.018_275).abs() < 1e-5);
    let output = account(&[crt.as_slice(), &["--delta", "8e-5", "-v"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("37446") && text.contains("20 of 200"),
        "{text}"
    );
    // They are of one place of each secret.
    let text = flat(&text);
    assert!(
        text.contains("Each secret was labelled in one place"),
        "{text}"
    );
    for (group, ends) in [("1", 0), ("20", 2)] {
        let output = account(&[
            "--sigma", "1.1", "--steps", "50", "--labels", labels, "--group", group,
        ]);
        assert_eq!(code(&output), ends, "{}", stderr(&output));
        let said = "--group: must be 1 with --labels";
        assert_eq!(stderr(&output).contains(said), ends == 2);
    }
    // A second place of one of them is none of the others.
    let line = |i| {
        format!(
            "{{\"kind\":\"phone\",\"missed\":{},\"secret\":\"{i}\"}}\n",
            i < 20
        )
    };
    let twice: String = std::iter::once(0).chain(0..200).map(line).collect();
    let other = folder.path().join("twice.jsonl");
    std::fs::write(&other, twice).unwrap();
    let other = other.to_str().unwrap();
    let output = account(&[
        "--sigma", "1.1", "--steps", "50", "--labels", other, "--group", "20",
    ]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("--group: must be 1 with --labels"));
    for more in [
        ["--gamma", "0.1"],
        ["--joint-miss", "0.1"],
        ["--conservative-miss", "0.1"],
    ] {
        let output = account(&[&["--sigma", "1", "--labels", labels], more.as_slice()].concat());
        assert_eq!(code(&output), 2, "{more:?}");
        assert!(stderr(&output).contains(more[0]), "{}", stderr(&output));
    }
}
