//! Attacks on a model through the command: membership, extraction, a report of both, and two
//! reports side by side.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_proofs_tests::commands::{audit, binary, ok, refused, run};
use serde_json::Value;
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

const SIDES: &str = "--members in.jsonl --non-members out.jsonl";

fn json(home: &Path, line: &str) -> Value {
    serde_json::from_str(&ok(home, &format!("{line} --format json"))).unwrap()
}

/// Returns a copy of a folder that is prepared once, so that tests do not see each other's files.
/// The folder has 24 dialogues in the training text and as many outside, a model after a few
/// passes, and one that never saw the dialogues.
fn trained() -> TempDir {
    static HOME: OnceLock<TempDir> = OnceLock::new();
    let trained = HOME.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        train(home.path());
        home
    });
    let own = tempfile::tempdir().unwrap();
    copy(trained.path(), own.path());
    own
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn train(home: &Path) {
    ok(
        home,
        "simulate customers --dialogues 48 --seed 3 --out all.jsonl",
    );
    let all = std::fs::read_to_string(home.join("all.jsonl")).unwrap();
    let lines: Vec<&str> = all.lines().collect();
    std::fs::write(home.join("in.jsonl"), lines[..24].join("\n")).unwrap();
    std::fs::write(home.join("out.jsonl"), lines[24..].join("\n")).unwrap();
    for (data, out, epochs) in [("in", "ckpt", 3), ("out", "base", 1)] {
        ok(
            home,
            &format!(
                "prepare {data}.jsonl --policy nothing --canaries 3x4 --seed 0 --out {out}-data"
            ),
        );
        ok(
            home,
            &format!(
                "train {out}-data --recipe sgd --epochs {epochs} --ordinary-batch-size 16 --seed 1 --out {out}"
            ),
        );
    }
}

#[test]
fn membership_is_attacked_by_every_score() {
    let (own, sides) = (trained(), SIDES);
    let home = own.path();
    let found = json(
        home,
        &format!("membership --model ckpt {sides} --reference base --group-size 5 --html m.html"),
    );
    refused(
        home,
        &format!("membership --model ckpt {sides} --reference ckpt"),
        &["--reference", "ckpt has the weights of the audited model"],
    );
    // Behind a command, the same weights are recognised by their output.
    assert_eq!(found["attacks"]["reference"]["near_copy"], false);
    let served = audit(home)
        .args(format!("membership --model ckpt {sides} --format json").split_whitespace())
        .args([
            "--reference",
            &format!("command:{} serve --model ckpt", binary("audit").display()),
        ])
        .output()
        .unwrap();
    let served: Value = serde_json::from_slice(&served.stdout).unwrap();
    assert_eq!(served["attacks"]["reference"]["near_copy"], true);
    assert_eq!(served["records"], found["records"]);
    let attacks = found["attacks"]["rows"].as_array().unwrap();
    let names: Vec<&str> = attacks
        .iter()
        .map(|a| a["attack"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "reference",
            "loss",
            "zlib",
            "min-k",
            "min-k++",
            "ez",
            "wbc",
            "combined"
        ]
    );
    assert_eq!(found["attacks"]["decides"], "reference");
    assert_eq!(found["groups"], 48, "turns of a dialogue are one group");
    assert!(found["blind"].is_object(), "the texts alone stand beside");
    assert_eq!(
        attacks[1]["grouped"].as_array().unwrap().len(),
        2,
        "loss: sums of both kinds"
    );
    assert_eq!(attacks[0]["area"], found["area"]);
    let page = std::fs::read_to_string(home.join("m.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("For the model card"));
    assert!(
        !page.contains("<script") && page.contains('•'),
        "texts are dots"
    );

    refused(
        home,
        &format!("membership --model ckpt {sides} --protocol crt"),
        &["--members", "crt", "1\u{202f}000"],
    );
    refused(home, "membership --model ckpt", &["--members"]);
    refused(
        home,
        &format!("membership --model ckpt {sides} --attack reference"),
        &["--attack", "reference: it needs --reference"],
    );
    refused(
        home,
        &format!("membership --model ckpt {sides} --attack loss,min-q"),
        &["min-k++", "min-q"],
    );
}

#[test]
fn shadow_models_stand_beside_the_loss() {
    let (own, sides) = (trained(), SIDES);
    let home = own.path();
    let line =
        format!("membership --model ckpt {sides} --attack loss --shadows 2 --shadow-epochs 1");
    let found = json(home, &line);
    let names: Vec<&str> = found["attacks"]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["attack"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["loss", "lira", "rmia", "combined"]);
}

#[test]
fn passages_and_secrets_are_extracted() {
    let own = trained();
    let home = own.path();
    let found = json(
        home,
        "extract --model ckpt --data in.jsonl --baseline base --prompt 10,20 --suffix 8 --near 0.25",
    );
    assert_eq!(found["prompts"].as_array().unwrap().len(), 2);
    for row in found["prompts"].as_array().unwrap() {
        let hits = |key: &str| row[key]["hits"].as_u64().unwrap();
        assert!(hits("near") >= hits("verbatim"), "{row}");
        assert!(row["verbatim"]["trials"].as_u64() <= found["passages"].as_u64());
    }
    assert_eq!(found["draws"].as_array().unwrap().len(), 8);
    refused(
        home,
        "extract --model ckpt --data in.jsonl --suffix 100000",
        &["--suffix", "the longest has"],
    );
    refused(
        home,
        "extract --model ckpt --data in.jsonl --baseline ckpt",
        &["--baseline", "ckpt has the weights of the audited model"],
    );

    let secret = r#"{"id":"a","context":"My ID is: ","secret":"12","candidates":["12","13","20","45"],"prior":0.25,"posterior":0.5}"#;
    std::fs::write(home.join("secrets.jsonl"), secret).unwrap();
    let found = json(
        home,
        "extract --model ckpt --secrets secrets.jsonl --show-ranks",
    );
    assert_eq!(found["secrets"]["outcome"], "could-not-contradict");
    assert!((1..=4).contains(&found["secrets"]["ranks"][0][1].as_u64().unwrap()));
    std::fs::write(home.join("secrets.jsonl"), secret.replace("0.25", "1e-9")).unwrap();
    refused(
        home,
        "extract --model ckpt --secrets secrets.jsonl",
        &["--secrets: secrets.jsonl, line 1", "guessing among them"],
    );
}

/// Neighbours of a file and of the reference, and copies counted in the whole training text.
#[test]
fn neighbours_come_from_a_file_or_the_reference() {
    let (own, sides) = (trained(), SIDES);
    let home = own.path();
    // Every token of a text has a neighbour by the reference: texts are cut short.
    for name in ["in.jsonl", "out.jsonl"] {
        let all = std::fs::read_to_string(home.join(name)).unwrap();
        let short = all.lines().map(|line| {
            let document: Value = serde_json::from_str(line).unwrap();
            let text = document["text"].as_str().unwrap();
            let text: String = text.chars().skip(150).take(120).collect();
            format!(
                "{}\n",
                serde_json::json!({"id": document["id"], "text": text})
            )
        });
        std::fs::write(home.join(name), short.collect::<String>()).unwrap();
    }
    let mut lines = String::new();
    for name in ["in.jsonl", "out.jsonl"] {
        for line in std::fs::read_to_string(home.join(name)).unwrap().lines() {
            let document: Value = serde_json::from_str(line).unwrap();
            let text = document["text"].as_str().unwrap();
            let near = [format!("{text} x"), text.replace("the ", "a ") + "."];
            let line = serde_json::json!({"text": text, "neighbours": near});
            lines.push_str(&format!("{line}\n"));
        }
    }
    std::fs::write(home.join("near.jsonl"), &lines).unwrap();
    // Each member twice, as separate records.
    let twice = std::fs::read_to_string(home.join("in.jsonl")).unwrap();
    let texts = twice.lines().map(|line| {
        let document: Value = serde_json::from_str(line).unwrap();
        format!("{}\n", serde_json::json!({"text": document["text"]}))
    });
    let once: String = texts.collect();
    std::fs::write(home.join("whole.jsonl"), format!("{once}{once}")).unwrap();
    let line =
        format!("membership --model ckpt {sides} --unit document --attack loss,neighbourhood");
    let found = json(home, &format!("{line} --neighbours near.jsonl"));
    assert_eq!(found["attacks"]["rows"][1]["attack"], "neighbourhood");
    assert_eq!(
        found["attacks"]["left_out"].as_array().map_or(0, Vec::len),
        0
    );
    assert!(
        found["copies"].is_null(),
        "every document stands once: {}",
        found["copies"]
    );
    let found = json(
        home,
        &format!("{line} --neighbours reference --reference base --training whole.jsonl"),
    );
    assert_eq!(found["attacks"]["rows"][1]["attack"], "neighbourhood");
    let strata = found["copies"].as_array().unwrap();
    assert_eq!((strata.len(), &strata[0]["from"]), (1, &Value::from(2)));
    assert_eq!(strata[0]["area"], found["area"]);
    refused(
        home,
        &format!("{line} --neighbours reference"),
        &["--neighbours reference", "--reference"],
    );
    let but_one = lines.split_once('\n').unwrap().1;
    std::fs::write(home.join("near.jsonl"), but_one).unwrap();
    refused(
        home,
        &format!("{line} --neighbours near.jsonl"),
        &["--neighbours", "no line has the text of member 1"],
    );
    std::fs::write(home.join("near.jsonl"), "{\"text\":\"my secret\"}\n").unwrap();
    refused(
        home,
        &format!("{line} --neighbours near.jsonl"),
        &["--neighbours", "line 1"],
    );
}

#[test]
fn two_reports_are_compared() {
    let (own, sides) = (trained(), SIDES);
    let home = own.path();
    let old = json(home, &format!("report --model base {sides}"));
    let new = json(
        home,
        &format!("report --model ckpt {sides} --reference base --html r.html"),
    );
    for (name, document) in [("old.json", &old), ("new.json", &new)] {
        assert_eq!(
            document["exposure"]["canaries"].as_array().unwrap().len(),
            3
        );
        std::fs::write(home.join(name), document.to_string()).unwrap();
    }
    let page = std::fs::read_to_string(home.join("r.html")).unwrap();
    for part in [
        "Exposure: against chance",
        "Membership: ROC curve at low false-positive rates",
        "Bounds on ε",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let limited = run(home, "report --model ckpt --max-exposure 0 --format json");
    assert_eq!(
        limited.status.code(),
        Some(1),
        "a limit of no bits is passed"
    );
    let found = json(home, "diff new.json new.json");
    assert!(
        found["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|r| r["says"] == "unseen")
    );
    refused(home, "diff old.json in.jsonl", &["NEW"]);
    let code = run(home, "diff old.json new.json").status.code();
    assert!(code == Some(0) || code == Some(1), "{code:?}");
    let over = json(home, "exposure --model ckpt --earlier ckpt --html e.html");
    assert_eq!(over["earlier"][0]["summary"], over["summary"]);
    let page = std::fs::read_to_string(home.join("e.html")).unwrap();
    assert!(page.contains("Over training") && page.contains("For the model card"));
    assert!(over["earlier"][0].get("note").is_none());
    refused(
        home,
        "exposure --model ckpt --earlier base",
        &["--earlier", "base was trained with other canaries"],
    );
    // The same canaries in another training run, as its owner's folder shows.
    let train = "--ordinary-batch-size 16 --seed 2 --epochs 1";
    ok(
        home,
        &format!("train ckpt-data --recipe sgd {train} --out again"),
    );
    let over = json(home, "exposure --model ckpt --earlier again");
    assert_eq!(
        over["earlier"][0]["note"],
        "another training with these canaries"
    );
    let again = json(home, "exposure --model again");
    assert_eq!(again["canary_digest"], over["canary_digest"]);
    for (name, document) in [("one.json", &over), ("two.json", &again)] {
        std::fs::write(home.join(name), document.to_string()).unwrap();
    }
    let code = run(home, "diff one.json two.json").status.code();
    assert!(code == Some(0) || code == Some(1), "{code:?}");
    std::fs::remove_dir_all(home.join("again.owner")).unwrap();
    refused(
        home,
        "exposure --model ckpt --earlier again",
        &["--earlier", "its owner's folder is not beside it"],
    );
    ok(
        home,
        &format!(
            "train ckpt-data --recipe sgd {train} --model gpt2 --layers 1 --width 16 --heads 2 --context 64 --out gpt2"
        ),
    );
    refused(
        home,
        "exposure --model ckpt --earlier gpt2",
        &["--earlier", "gpt2 has another architecture"],
    );
}
