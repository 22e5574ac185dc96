//! Secrets of a `protect` run, from the certificate over the checkpoint to the attack on it and the
//! verdict; and a checkpoint whose noise was omitted, which promises nothing to anybody.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_proofs_tests::commands::{account, ok, refused};
use serde_json::Value;
use std::fmt::Write;

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Creates a corpus, and weights that certify eight secrets of one record each.
fn certified() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    ok(
        at,
        "simulate customers --dialogues 8 --seed 1 --out data.jsonl",
    );
    ok(
        at,
        "prepare data.jsonl --policy gold --no-redaction --no-deduplication --out raw/",
    );
    ok(
        at,
        "incidence raw/ --policy customers --unit turn --out found.csv",
    );
    let found = std::fs::read_to_string(at.join("found.csv")).unwrap();
    let mut names: Vec<&str> = found
        .lines()
        .skip(1)
        .map(|l| l.split(',').next().unwrap())
        .collect();
    names.dedup();
    let mut pairs = String::from("example,secret\n");
    let mut secrets = String::new();
    for (i, id) in names.iter().enumerate() {
        let secret = if i < 8 {
            format!("s{i}")
        } else {
            String::new()
        };
        writeln!(pairs, "{id},{secret}").unwrap();
    }
    for i in 0..8 {
        writeln!(
            secrets,
            r#"{{"id":"s{i}","context":"My ID is: ","secret":"10{i}2{i}7","shape":"{{digits:6}}"}}"#
        )
        .unwrap();
    }
    std::fs::write(at.join("pairs.csv"), pairs).unwrap();
    std::fs::write(at.join("secrets.jsonl"), secrets).unwrap();
    account(
        at,
        "protect --incidence pairs.csv --prior 1e-6 --posterior 1e-3 --batch-size 4 --steps 20 --c 20 \
         --tolerance 1e-3 --weights weights.json",
    );
    home
}

const FILES: &str = "--weights weights.json --incidence pairs.csv";
const EXTRACT: &str = "--secrets secrets.jsonl --weights weights.json --candidates 200";

/// Promises come from the file that the trainer used, candidates are drawn and counted, and every format
/// prints the verdict on the manifest's certificate.
#[test]
fn secrets_meet_the_certificate_of_their_checkpoint() {
    let home = certified();
    let at = home.path();
    ok(
        at,
        &format!("train raw --recipe protect {FILES} --out kept"),
    );
    let manifest = document(&std::fs::read_to_string(at.join("kept/manifest.json")).unwrap());
    let left_out =
        "the incidence: a secret that it does not name, or a record of one that it leaves out";
    let not_covered = manifest["not_covered"].as_array().unwrap();
    assert!(not_covered.contains(&left_out.into()), "{not_covered:?}");
    let line = format!("extract --model kept {EXTRACT}");
    let found = document(&ok(at, &format!("{line} --html page.html --format json")));
    assert_eq!(found["inputs"]["candidates"], 200, "{}", found["inputs"]);
    let secrets = &found["secrets"];
    assert_eq!(secrets["drawn"]["candidates"], 200);
    // With the model a rank names the secret.
    assert!(secrets["ranks"].is_null(), "{secrets}");
    let [bound] = secrets["by_promise"].as_array().unwrap().as_slice() else {
        panic!("{secrets}");
    };
    assert_eq!(
        (&bound["source"], &bound["secrets"]),
        (&"certified".into(), &8.into())
    );
    assert_eq!(bound["promised"][0][0], 1e-6);
    // One of 200 candidates: no promise about a guess of mass 1e-6 bounds this.
    assert_eq!(bound["prior"], 0.005);
    let posterior = bound["posterior"].as_f64().unwrap();
    assert!(posterior > 0.005 && posterior < 1.0, "{posterior}");
    let verdict = &bound["verdict"];
    assert_eq!(verdict["outcome"], "could-not-contradict");
    assert_eq!(verdict["at_most"].as_f64(), Some(posterior));
    assert_eq!(verdict["terms"]["notion"], "secret-protection");
    assert_eq!(secrets["inclusion"], "not-checked");
    assert!(secrets["included"].is_null(), "{secrets}");
    // The lists are drawn once, so the ranks are the same again.
    let text = ok(at, &format!("{line} -v"));
    let page = std::fs::read_to_string(at.join("page.html")).unwrap();
    for said in [&text, &page] {
        // Where lines break depends on the numbers.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("this audit could not have contradicted the promise"),
            "{said}"
        );
        assert!(
            said.contains("200 of each secret that has a shape"),
            "{said}"
        );
    }
    let shown = format!("{line} --show-ranks");
    let [once, again] = [(); 2].map(|()| document(&ok(at, &format!("{shown} --format json"))));
    assert_eq!(once["secrets"]["ranks"].as_array().unwrap().len(), 8);
    assert_eq!(again["secrets"]["ranks"], once["secrets"]["ranks"]);
    for (text, warned) in [(&ok(at, &format!("{shown} -v")), true), (&text, false)] {
        let words: Vec<&str> = text.split_whitespace().collect();
        let said = words.join(" ").contains("as private as the secrets");
        assert_eq!(said, warned, "{text}");
    }

    // What training met is looked up: in the corpus are other secrets, and in a text of four are two and a longer number.
    let mut text = String::new();
    for said in [
        "Hello. My ID is: 100207.",
        "My ID is: 101217",
        "My ID is: 1022270",
        "103237",
    ] {
        writeln!(text, "{{\"text\":\"{said}\"}}").unwrap();
    }
    std::fs::write(at.join("text.jsonl"), text).unwrap();
    for (training, inclusion, included, says) in [
        ("raw", "trained-records", 0, "Of these, 8 don't occur"),
        ("text.jsonl", "given-text", 2, "Of these, 6 don't occur"),
    ] {
        let found = document(&ok(
            at,
            &format!("{line} --training {training} --format json"),
        ));
        let secrets = &found["secrets"];
        assert_eq!(secrets["inclusion"], inclusion, "{secrets}");
        assert_eq!(secrets["included"], included, "{secrets}");
        // One run in 25 hits a secret by chance, which is for review.
        if secrets["hits"] == 0 {
            assert_eq!(found["outcome"], "open");
            let said = found["says"].as_str().unwrap();
            assert!(said.contains(says), "{said}");
        }
    }
    let secrets = std::fs::read_to_string(at.join("secrets.jsonl")).unwrap();
    for (text, says) in [
        (
            secrets.replace("\"s3\"", "\"s9\""),
            "is no secret of --weights",
        ),
        (
            secrets.replace("\"s3\"", "\"s2\""),
            "occurred before with another secret",
        ),
        (secrets.replace("digits:6", "digits:5"), "of its shape"),
        (
            secrets.replace("digits:6", "digit:6"),
            "shape of a secret must be",
        ),
        (
            secrets.replace(",\"shape\":\"{digits:6}\"", ""),
            "either candidates or a shape",
        ),
        (
            secrets.replace("\"shape\"", "\"prior\":0.5,\"posterior\":0.6,\"shape\""),
            "not those of --weights",
        ),
    ] {
        std::fs::write(at.join("other.jsonl"), text).unwrap();
        refused(
            at,
            "extract --model kept --secrets other.jsonl --weights weights.json",
            &["--secrets", says],
        );
    }
    // One secret behind another text is the same secret.
    let twice = secrets.lines().next().unwrap().replace("My ID is: ", "ID ");
    std::fs::write(at.join("twice.jsonl"), format!("{secrets}{twice}\n")).unwrap();
    let line = "extract --model kept --secrets twice.jsonl --weights weights.json --candidates 200";
    let found = document(&ok(at, &format!("{line} --format json")));
    assert_eq!(found["secrets"]["by_promise"][0]["secrets"], 9);

    // Another promise than the run made.
    let other = secrets.replace("\"shape\"", "\"prior\":1e-6,\"posterior\":1e-2,\"shape\"");
    std::fs::write(at.join("other.jsonl"), other).unwrap();
    refused(
        at,
        "extract --model kept --secrets other.jsonl",
        &["--secrets", "the run has 0 such secrets"],
    );
    refused(
        at,
        "extract --model kept --candidates 10 --data data.jsonl",
        &["--secrets"],
    );

    // Weights of another run.
    account(
        at,
        "protect --incidence pairs.csv --prior 1e-6 --posterior 1e-3 --batch-size 4 --steps 21 --c 10 \
         --tolerance 1e-3 --weights others.json",
    );
    refused(
        at,
        "extract --model kept --secrets secrets.jsonl --weights others.json",
        &["--weights", "another run"],
    );

    // The same certificate with another name in it: the run's owner keeps which bound belongs to which secret.
    let renamed = std::fs::read_to_string(at.join("weights.json")).unwrap();
    std::fs::write(at.join("renamed.json"), renamed.replace("\"s7\"", "\"s9\"")).unwrap();
    refused(
        at,
        "extract --model kept --secrets secrets.jsonl --weights renamed.json",
        &["--weights", "another run"],
    );

    // The weights without their noise promise nothing.
    ok(
        at,
        &format!("train raw --recipe protect {FILES} --sigma 0 --out bare"),
    );
    let found = document(&ok(
        at,
        &format!("extract --model bare {EXTRACT} --format json"),
    ));
    let bound = &found["secrets"]["by_promise"][0];
    assert_eq!(bound["source"], "nothing");
    assert!(bound.get("verdict").is_none());
    let why = bound["no_verdict"].as_str().unwrap();
    assert!(why.contains("no noise was added"), "{why}");

    // For a run of another recipe, no file of weights says what was promised.
    ok(at, "train raw --recipe sgd --epochs 1 --out other");
    let found = document(&ok(
        at,
        &format!("extract --model other {EXTRACT} --format json"),
    ));
    let bound = &found["secrets"]["by_promise"][0];
    assert_eq!(bound["source"], "nothing");
    assert!(bound.get("verdict").is_none());
    let why = bound["no_verdict"].as_str().unwrap();
    assert!(why.contains("--recipe protect"), "{why}");
}

/// The owner of a checkpoint of an epoch too keeps which bound belongs to which secret: each was held against the largest one.
#[test]
fn a_checkpoint_of_an_epoch_knows_its_secrets() {
    let home = certified();
    let at = home.path();
    account(
        at,
        "protect --incidence pairs.csv --prior 1e-6 --posterior 1e-3 --batch-size 16 --steps 20 --tolerance 1e-3 \
         --weights often.json",
    );
    let files = "--weights often.json --incidence pairs.csv";
    ok(
        at,
        &format!("train raw --recipe protect {files} --keep-every 1 --out kept"),
    );
    let weights = std::fs::read_to_string(at.join("often.json")).unwrap();
    std::fs::write(at.join("renamed.json"), weights.replace("\"s7\"", "\"s9\"")).unwrap();
    let line = "extract --model kept-epoch-1 --secrets secrets.jsonl --candidates 200 --weights";
    ok(at, &format!("{line} often.json"));
    refused(
        at,
        &format!("{line} renamed.json"),
        &["--weights", "another run"],
    );
}

/// How many secrets are named and how many are marked tells not which: the answers said "8 of the 24" of names that are no
/// secret of the corpus, nothing where as many are named, and nothing after training.
#[test]
fn secrets_that_are_named_are_not_taken_for_those_that_are_marked() {
    let home = certified();
    let at = home.path();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let marked = "24 are marked in the corpus (counts that no guarantee covers): which of the marked ones it names was not compared. A secret that it does not name is not covered.";
    let few = format!("The incidence names 8 secrets, and {marked}");
    let planned = account(at, &format!("--prepared raw --recipe protect {FILES}"));
    let trained = ok(
        at,
        &format!("train raw --recipe protect {FILES} --out kept -v"),
    );
    for text in [planned, trained] {
        let said = words(&text);
        assert!(said.contains(&few), "{said}");
    }
    let found = std::fs::read_to_string(at.join("pairs.csv")).unwrap();
    let rows = found.lines().skip(1).zip(0..);
    let own = rows.map(|(row, i)| format!("{},t{i}\n", row.split(',').next().unwrap()));
    let own: Vec<String> = own.collect();
    assert!(own.len() > 24, "{}", own.len());
    let pairs = format!("example,secret\n{}", own.concat());
    std::fs::write(at.join("many.csv"), pairs).unwrap();
    account(
        at,
        "protect --incidence many.csv --prior 1e-6 --posterior 1e-3 --batch-size 4 --steps 20 --tolerance 1e-3 \
         --weights many.json",
    );
    let line = "--prepared raw --recipe protect --weights many.json --incidence many.csv";
    let said = words(&account(at, line));
    let many = format!("The incidence names {} secrets, and {marked}", own.len());
    assert!(said.contains(&many), "{said}");
}

/// Three verdicts had 5e-4, 5e-4 and 1e-3: twice what a report may spend.
#[test]
fn verdicts_on_canaries_and_secrets_share_one_false_alarm_rate() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    ok(
        at,
        "simulate customers --dialogues 6 --seed 3 --out data.jsonl",
    );
    ok(
        at,
        "prepare data.jsonl --policy customers --unit turn --max-tokens 64 --canaries 3x2 --seed 0 --out prepared",
    );
    let model = "--model gpt2 --layers 1 --width 8 --heads 1";
    ok(
        at,
        &format!("train prepared {model} --recipe dpsgd --sigma 1 --epochs 1 --out ckpt"),
    );
    let line = r#"{"id":"a","context":"My ID is: ","secret":"127","shape":"{digits:3}","prior":0.01,"posterior":0.1}"#;
    std::fs::write(at.join("secrets.jsonl"), line).unwrap();
    let report = |line: &str| {
        let line = format!("report --model ckpt {line} --format json");
        document(&ok(at, &line))
    };
    let is = |rate: &Value, share: f64| {
        let rate = rate.as_f64().unwrap();
        assert!((rate - share).abs() < 1e-12, "{rate}");
    };
    is(
        &report("")["exposure"]["verdict"]["false_alarm"],
        1e-3 / 2.0,
    );
    let found = report("--secrets secrets.jsonl --candidates 200");
    is(&found["exposure"]["verdict"]["false_alarm"], 1e-3 / 3.0);
    let secrets = &found["extraction"]["secrets"]["by_promise"][0];
    is(&secrets["verdict"]["false_alarm"], 1e-3 / 3.0);
    assert_eq!(found["inputs"]["candidates"], 200);
}

/// The demo's planted bug: the report compares it with what its plan would promise, and the checkpoint
/// itself promises nothing, whoever reads it.
#[test]
fn a_checkpoint_without_its_noise_promises_nothing() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let line = "demo --dialogues 12 --canaries 3x4 --arms crt,crt-noiseless --out d --format json";
    let found = document(&ok(at, line));
    let (kept, bare) = (&found["arms"][0], &found["arms"][1]);
    let all_copies = |rows: &Value| rows[2]["epsilon"]["upper"].clone();
    assert_eq!(
        all_copies(&bare["claimed"]),
        all_copies(&kept["guarantees"])
    );
    assert!(all_copies(&bare["claimed"]).is_number());
    for row in bare["guarantees"].as_array().unwrap() {
        assert_eq!(row["epsilon"]["upper"], "inf", "{row}");
    }
    assert_eq!(bare["private_phase"]["noise_multiplier"], 0.0);
    assert_eq!(
        bare["private_phase"]["steps"],
        kept["private_phase"]["steps"]
    );
    let found = document(&ok(at, "exposure --model d/crt-noiseless --format json"));
    let why = found["no_verdict"].as_str().unwrap();
    assert!(why.contains("no noise was added"), "{why}");
    assert!(found.get("verdict").is_none() && found.get("ceiling").is_none());
}
