//! Runs every recipe and every kind of model through the command, as a user does.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_proofs_tests::commands::{account, audit, ok, refused, said};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Creates small corpora: one as it is, with every marked secret known, and one redacted.
fn corpora() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    ok(
        at,
        "simulate customers --dialogues 12 --seed 1 --out data.jsonl",
    );
    let raw = "prepare data.jsonl --policy gold --no-redaction --no-deduplication";
    ok(at, &format!("{raw} --out raw/"));
    ok(at, &format!("{raw} --miss-rate 0.5 --out missed/"));
    ok(
        at,
        "prepare data.jsonl --policy gold --max-tokens 64 --out redacted/",
    );
    home
}

fn json(at: &Path, line: &str) -> Value {
    serde_json::from_str(&ok(at, &format!("{line} --format json"))).unwrap()
}

fn manifest(at: &Path, folder: &str) -> Value {
    let path = at.join(folder).join("manifest.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn present_or_absent(document: &Value) -> f64 {
    let rows = document["guarantees"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["neighbours"] == "add-remove")
        .unwrap();
    row["epsilon"]["upper"].as_f64().unwrap()
}

fn epsilon(document: &Value) -> f64 {
    let upper = &document["guarantees"][0]["epsilon"]["upper"];
    upper.as_f64().unwrap_or(f64::INFINITY)
}

#[test]
fn learning_rates_fall_and_held_out_text_may_end_training() {
    let home = corpora();
    let at = home.path();
    let line = "train redacted/ --recipe crt --sigma 1 --epochs 3 --sample-rate 0.1";
    ok(
        at,
        "simulate customers --dialogues 12 --seed 2 --out other.jsonl",
    );
    ok(
        at,
        "prepare other.jsonl --policy gold --max-tokens 64 --out other/",
    );
    let course = "--decay cosine --warmup 2 --held-out other --held-out-is public --patience 1";
    let public = said(at, &format!("{line} {course} --out public -v"));
    assert!(
        public.contains("Private steps: 30.") && public.contains("no guarantee covers it"),
        "{public}"
    );
    assert!(!public.contains("Nothing is promised"), "{public}");
    // Dialogues share turns such as a thank-you; how many is said.
    assert!(
        public.contains("held-out texts that were said to be public,"),
        "{public}"
    );
    // What the rows about redacted secrets rest on stands with them, in the words of `account`.
    let condition =
        "redacted secret: it holds where no record with the secret is on the public side";
    assert!(public.contains(condition), "{public}");
    // No promise covers decisions made from private text; figures that only show it are reported as uncovered.
    let decided = said(
        at,
        &format!("{line} --held-out redacted --patience 1 --out decided"),
    );
    assert!(
        decided.contains("Nothing is promised for") && decided.contains("not public"),
        "{decided}"
    );
    let shown = said(at, &format!("{line} --held-out redacted --out shown"));
    assert!(!shown.contains("romises nothing"), "{shown}");
    // The private text itself is not public, nor is a copy of it, whatever stands beside it.
    ok(
        at,
        "prepare data.jsonl --policy gold --max-tokens 64 --out again/",
    );
    let mut beside = std::fs::read_to_string(at.join("data.jsonl")).unwrap();
    beside.push_str("{\"id\":\"foreign\",\"text\":\"USR: The weather is fine.\"}\n");
    std::fs::write(at.join("beside.jsonl"), beside).unwrap();
    ok(
        at,
        "prepare beside.jsonl --policy gold --max-tokens 64 --out beside/",
    );
    for folder in ["redacted", "again", "beside"] {
        for how in ["--patience 1", "--decay plateau"] {
            refused(
                at,
                &format!("{line} --held-out {folder} --held-out-is public {how} --out x"),
                &["--held-out-is", "must be private", "PREPARED"],
            );
        }
    }
    // Nor is it if it is cut into other units, of which no two are the same.
    ok(
        at,
        "prepare data.jsonl --policy gold --unit document --out documents/",
    );
    refused(
        at,
        &format!("{line} --held-out documents --held-out-is public --patience 1 --out x"),
        &["--held-out", "document", "turn"],
    );
    refused(at, &format!("{line} --patience 2 --out x"), &["--held-out"]);
    refused(
        at,
        &line.replace("--sample-rate 0.1", "--sample-rate 1e-9 --out x"),
        &["--sample-rate", "[1/", "got 0.000000001"],
    );
    refused(
        at,
        &format!("{line} --decay sideways --out x"),
        &["--decay", "cosine"],
    );
}

/// An epoch's checkpoint promises what had run by then, which is less than for the last one; the log says the same.
#[test]
fn checkpoints_of_epochs_promise_what_had_run_by_then() {
    let home = corpora();
    let at = home.path();
    let line = "train redacted/ --recipe dpsgd --sigma 1 --epochs 4 --sample-rate 0.25";
    ok(at, &format!("{line} --keep-every 2 --out kept"));
    assert!(!at.join("kept-epoch-1").exists() && !at.join("kept-epoch-4").exists());
    let [half, whole] = ["kept-epoch-2", "kept"].map(|folder| {
        let steps = manifest(at, folder)["phases"][0]["steps"].as_u64().unwrap();
        let said = account(
            at,
            &format!(
                "compose {folder}/manifest.json --neighbours add-remove --delta 1e-5 --format json"
            ),
        );
        (
            steps,
            present_or_absent(&serde_json::from_str(&said).unwrap()),
        )
    });
    assert_eq!((half.0, whole.0), (8, 16));
    let planned = |steps| {
        let line = format!("--sigma 1 --sample-rate 0.25 --steps {steps} --delta 1e-5");
        let neighbours = "--neighbours add-remove --format json";
        present_or_absent(
            &serde_json::from_str(&account(at, &format!("{line} {neighbours}"))).unwrap(),
        )
    };
    for ((steps, found), name) in [(half, "half"), (whole, "whole")] {
        assert!(
            (found - planned(steps)).abs() < 1e-3 * found,
            "{name}: {found}"
        );
    }
    // The log has every step and every epoch, with what its weights promise.
    let log = std::fs::read_to_string(at.join("kept.owner/training.jsonl")).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let steps: Vec<&Value> = lines.iter().filter(|l| l["ended"].is_null()).collect();
    assert_eq!(steps.len(), 16);
    assert!(
        steps
            .iter()
            .all(|l| l["examples"].is_u64() && l["clipped"].is_u64())
    );
    let ends: Vec<f64> = lines
        .iter()
        .filter(|l| l["ended"].is_u64())
        .map(|l| l["promises"][0]["epsilon"].as_f64().unwrap())
        .collect();
    assert_eq!(ends.len(), 4);
    assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
    refused(
        at,
        &format!("{line} --keep-every 2 --out kept-again").replace("kept-again", "kept"),
        &["--out", "kept"],
    );
    // The epochs of a first run are in the way of a second run.
    std::fs::rename(at.join("kept"), at.join("elsewhere")).unwrap();
    refused(
        at,
        &format!("{line} --keep-every 2 --out kept"),
        &["--keep-every", "kept-epoch-2"],
    );
    // So are later epochs alone.
    std::fs::rename(at.join("kept-epoch-2"), at.join("kept-epoch-6")).unwrap();
    refused(
        at,
        &format!("{line} --keep-every 2 --out kept"),
        &["--keep-every", "kept-epoch-6"],
    );
}

/// A corpus whose policy catches half of the canaries is trained on and audited over its epochs.
#[test]
fn canaries_that_are_caught_are_trained_and_audited_as_the_others() {
    let home = corpora();
    let at = home.path();
    let canaries = "--canaries 4x10 --canary-recall 0.5";
    let shape = ["--canary-format", "PIN: {digits:3}"];
    let line = format!("prepare data.jsonl --policy gold {canaries} --out half");
    let mut command = audit(at);
    command.args(line.split_whitespace()).args(shape);
    assert!(command.status().unwrap().success());
    ok(
        at,
        "train half --recipe sgd --epochs 6 --keep-every 3 --out model",
    );
    let exposure = "exposure --model model --canaries 4x10 --earlier model-epoch-3";
    let found = json(at, exposure);
    let earlier = found["earlier"].as_array().unwrap();
    assert_eq!(
        (earlier.len(), &earlier[0]["model"]),
        (1, &Value::from("model-epoch-3"))
    );
    assert!(earlier[0].get("note").is_none(), "{}", earlier[0]);
    refused(
        at,
        "prepare data.jsonl --canaries 4x10 --canary-recall 0.5 --no-redaction --out x",
        &["--canary-recall", "--no-redaction"],
    );
}

/// The settings in the papers, from the plan files that ship.
#[test]
fn the_plans_of_the_papers_run() {
    let home = corpora();
    let at = home.path();
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plans");
    let mut run = 0;
    for entry in std::fs::read_dir(plans).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        // Rates of the paper's batches in a corpus of a few hundred records, and fewer epochs.
        let corpus = match name.as_str() {
            "crt-lstm-sdp" | "jft-gpt2" | "jft-light-noise" => "raw/",
            _ => "redacted/",
        };
        let small = text
            .replace("prepared/", corpus)
            .replace("epochs = 100", "epochs = 2")
            .replace("epochs = 50", "epochs = 2")
            .replace("batch_size = 1024", "batch_size = 16")
            .replace("batch_size = 256", "batch_size = 16")
            .replace("keep_every = 10", "keep_every = 1");
        std::fs::write(at.join("plan.toml"), &small).unwrap();
        match name.as_str() {
            // Its weights come from `account protect`; the tests of secrets run it.
            "hush-protect" => {
                refused(at, "train --plan plan.toml --out x", &["weights.json"]);
                continue;
            }
            _ if text.contains("layers") => {
                // The paper's size would compute for an hour, so use a small one.
                let tiny = small
                    .replace("layers = 6", "layers = 1")
                    .replace("layers = 12", "layers = 1")
                    .replace("width = 768", "width = 24")
                    .replace("epochs = 10", "epochs = 2");
                std::fs::write(at.join("plan.toml"), tiny).unwrap();
            }
            _ => {}
        }
        let said = said(at, &format!("train --plan plan.toml --out {name}"));
        assert!(said.contains(&format!("{name}: trained by")), "{said}");
        run += 1;
    }
    assert_eq!(run, 7);
    let spec = &manifest(at, "crt-lstm-sgd")["phases"][0];
    assert_eq!(spec["optimizer"]["type"], "sgd");
    assert_eq!(spec["optimizer"]["learning_rate"], 20.0);
    assert!(at.join("crt-lstm-crt-epoch-1").is_dir());
    // A flag must not repeat what a plan file sets, but may set what the file leaves open.
    let plan = "schema = 1\nrecipe = \"sgd\"\n[data]\nprepared = \"redacted/\"\n[optimizer]\nlearning_rate = 0.1\n";
    std::fs::write(at.join("plan.toml"), plan).unwrap();
    refused(
        at,
        "train --plan plan.toml --learning-rate 0.2 --out y",
        &["--learning-rate", "optimizer.learning_rate"],
    );
    let line = "train --plan plan.toml --initial-seed 3 --average 0.9 --epochs 1 --out y";
    refused(at, line, &["--epochs", "--plan"]);
    ok(at, &line.replace("--epochs 1 ", ""));
    assert_eq!(manifest(at, "y")["initial"]["seed"], 3);
    std::fs::write(at.join("plan.toml"), plan.replace("0.1", "-1")).unwrap();
    refused(
        at,
        "train --plan plan.toml --out z",
        &["optimizer.learning_rate", "(0, inf)", "-1"],
    );
}

/// Batches are drawn as they were accounted: truncated, or balls in bins.
#[test]
fn batches_are_drawn_by_the_sampler_that_was_accounted() {
    let home = corpora();
    let at = home.path();
    let line = "train redacted/ --recipe dpsgd --sigma 1 --epochs 2";
    ok(
        at,
        &format!("{line} --batch-size 8 --sampler truncated-poisson --max-batch 4 --out cut"),
    );
    ok(
        at,
        &format!("{line} --epoch-steps 6 --sampler balls-in-bins --out bins"),
    );
    for (folder, sampling) in [("cut", "truncated-poisson"), ("bins", "balls-in-bins")] {
        let phase = &manifest(at, folder)["phases"][0];
        assert!(phase["sampling"].to_string().contains(sampling), "{phase}");
        let log =
            std::fs::read_to_string(at.join(format!("{folder}.owner/training.jsonl"))).unwrap();
        let lines: Vec<Value> = log
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let sizes: Vec<u64> = lines
            .iter()
            .filter_map(|l| l["examples"].as_u64())
            .collect();
        match folder {
            "cut" => assert!(
                sizes.iter().all(|size| *size <= 4) && sizes.contains(&4),
                "{sizes:?}"
            ),
            // Each record once an epoch: both epochs have the same number.
            _ => {
                assert_eq!(sizes.len(), 12);
                let sums: Vec<u64> = sizes.chunks(6).map(|epoch| epoch.iter().sum()).collect();
                assert_eq!(sums[0], sums[1], "{sizes:?}");
            }
        }
    }
    refused(
        at,
        &format!("{line} --epoch-steps 6 --sampler shuffled --out x"),
        &["--sampler", "poisson", "balls-in-bins"],
    );
}

#[test]
fn dropout_is_said_kept_and_taken_up_again() {
    let home = corpora();
    let at = home.path();
    let line = "train redacted/ --recipe crt --sigma 1 --epochs 1 --sample-rate 0.1";
    let first = ok(at, &format!("{line} --dropout 0.2 --out first -v"));
    assert!(first.contains("asked for by --dropout: 0.20"), "{first}");
    let rates = &manifest(at, "first")["dropout"];
    let of = |place: &str| rates[place].as_f64().unwrap();
    assert!((of("hidden") - 0.2).abs() < 1e-12 && of("attention").abs() < 1e-12);
    let again = json(at, &format!("{line} --model ./first --out again"));
    assert_eq!(again["dropout"]["asked_by"], "the model's folder");
    assert_eq!(&manifest(at, "again")["dropout"], rates);
    let without = json(
        at,
        &format!("{line} --model ./first --dropout 0 --out without"),
    );
    assert!(without.get("dropout").is_none() && manifest(at, "without").get("dropout").is_none());
}

#[test]
fn just_fine_tune_twice_promises_what_its_first_phase_leaves() {
    let home = corpora();
    let at = home.path();
    let line = "--recipe jft --sigma 1 --epochs 1 --sample-rate 0.1";
    let direct = json(at, &format!("train raw/ {line} --out direct"));
    assert_eq!(direct["guarantees"][0]["notion"], "selective-dp");
    assert!(epsilon(&direct) < 10.0);
    let sides = |m: &Value| -> Vec<String> {
        let phases = m["phases"].as_array().unwrap().iter();
        phases
            .map(|p| p["side"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(sides(&manifest(at, "direct")), ["redacted", "private"]);
    // What a detector misses goes to the first phase, without noise.
    let leaky = said(at, &format!("train missed/ {line} --out leaky"));
    assert!(
        leaky.contains("Nothing is promised for")
            && leaky.contains(
                ", because the first phase trains without noise, and a content that the detector \
                 misses stays in the redacted text."
            ),
        "{leaky}"
    );
    let light = "--first-phase light-noise --first-sigma 0.8 --token-miss 0.01,0.1";
    let light = json(at, &format!("train missed/ {line} {light} --out light"));
    assert!(epsilon(&light).is_finite() && epsilon(&light) > epsilon(&direct));
    assert_eq!(light["estimates"].as_array().unwrap().len(), 2);
    let texts = std::fs::read_to_string(at.join("raw/train.jsonl")).unwrap();
    let ids = texts.lines().take(3).map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["id"].as_str().unwrap().to_owned()
    });
    let ids: Vec<String> = ids.collect();
    std::fs::write(at.join("ids.txt"), ids.join("\n\n")).unwrap();
    let screened = "--first-phase screened --screened ids.txt --assume screening";
    let screened = json(at, &format!("train raw/ {line} {screened} --out screened"));
    assert!((epsilon(&screened) - epsilon(&direct)).abs() < 1e-9);
    let unsaid = "--first-phase screened --screened ids.txt";
    let unsaid = said(at, &format!("train raw/ {line} {unsaid} --out unsaid"));
    assert!(unsaid.contains("depends on secrets"), "{unsaid}");
    refused(
        at,
        &format!("train redacted/ {line} --out x"),
        &["--recipe", "--no-redaction"],
    );
    refused(
        at,
        &format!("train missed/ {line} --assume caught --out x"),
        &["--assume", "marked"],
    );
    refused(
        at,
        &format!("train raw/ {line} --first-sigma 1 --out x"),
        &["--first-sigma"],
    );
}

#[test]
fn selective_training_needs_a_recurrent_model_and_a_policy_that_catches() {
    let home = corpora();
    let at = home.path();
    let line = "--recipe sdp --sigma 2 --state-sigma 5 --epochs 1 --sample-rate 0.1";
    let caught = json(at, &format!("train raw/ {line} --out caught"));
    assert!(epsilon(&caught).is_finite());
    assert_eq!(caught["guarantees"][0]["notion"], "selective-dp");
    assert_eq!(manifest(at, "caught")["phases"][0]["side"], "selective");
    assert!(epsilon(&json(at, &format!("train missed/ {line} --out missed-sdp"))).is_infinite());
    refused(
        at,
        &format!("train raw/ {line} --model gpt2 --out x"),
        &["--model", "lstm"],
    );
    refused(
        at,
        "train raw/ --recipe sdp --sigma 1 --out x",
        &["--state-sigma"],
    );
}

#[test]
fn secret_protection_trains_at_the_rates_that_were_planned() {
    let home = corpora();
    let at = home.path();
    let mut pairs = String::from("example,secret\n");
    for (i, line) in std::fs::read_to_string(at.join("redacted/train.jsonl"))
        .unwrap()
        .lines()
        .enumerate()
    {
        let record: Value = serde_json::from_str(line).unwrap();
        if i % 7 == 0 {
            writeln!(pairs, "{},secret-{}", record["id"].as_str().unwrap(), i % 3).unwrap();
        }
    }
    std::fs::write(at.join("pairs.csv"), pairs).unwrap();
    let records = manifest_size(at);
    let batch = (0.1 * records as f64).round();
    let plan = format!(
        "protect --incidence pairs.csv --prior 1e-6 --posterior 1e-2 --dataset-size {records} \
         --batch-size {batch} --steps 10 --c 3 --weights weights.json"
    );
    account(at, &plan);
    let line = "train redacted/ --recipe protect";
    let files = "--weights weights.json --incidence pairs.csv";
    let trained = json(at, &format!("{line} {files} --out protected"));
    assert!(epsilon(&trained).is_finite());
    assert_eq!(trained["guarantees"][0]["unit"], "secret");
    let phase = &manifest(at, "protected")["phases"][0];
    assert_eq!(phase["side"], "weighted");
    // Finding A9: batch, steps and noise are the certified ones.
    let planned: Value =
        serde_json::from_slice(&std::fs::read(at.join("weights.json")).unwrap()).unwrap();
    for (key, as_key) in [
        ("batch_size", "expected_batch"),
        ("steps", "steps"),
        ("noise_multiplier", "noise_multiplier"),
    ] {
        assert_eq!(planned[key].as_f64(), phase[as_key].as_f64(), "{key}");
    }
    let records = planned["records"].as_array().unwrap();
    let rates = records.iter().map(|record| record[2].as_f64().unwrap());
    let largest = rates.fold(0.0, f64::max);
    let dominating = phase["secret_rates"][0].as_f64().unwrap();
    // rounded down to 2^-64 by the sampler
    assert!(
        (dominating - largest).abs() < 1e-12,
        "{dominating} {largest}"
    );
    let small = "--model gpt2 --layers 1 --width 8 --heads 2 --context 8";
    let windows = said(at, &format!("{line} {files} {small} --out windows"));
    assert!(
        windows.contains("trained on in windows, clipped as one record"),
        "{windows}"
    );
    refused(
        at,
        &format!("{line} --incidence pairs.csv --out x"),
        &["--weights"],
    );
    for (flag, said) in [
        ("--batch-size 7", "--batch-size: applies only to"),
        (
            "--steps 7",
            "--steps: for the recipe protect, it is given by --weights",
        ),
        (
            "--epochs 7",
            "--epochs: for the recipe protect, it is given by --weights",
        ),
        ("--sigma 0.01", "must be 0 or at least that of --weights"),
    ] {
        refused(at, &format!("{line} {files} {flag} --out x"), &[said]);
    }
    // Item 5 of issue 16: weights without noise train, and promise nothing.
    let noiseless = json(at, &format!("{line} {files} --sigma 0 --out noiseless"));
    assert_eq!(noiseless["guarantees"][0]["epsilon"]["upper"], "inf");
    assert_eq!(noiseless["secrets"]["kept"], 0);
    let manifest = manifest(at, "noiseless");
    assert_eq!(manifest["phases"][0]["noise_multiplier"], 0.0);
    assert_eq!(manifest["plan"]["noiseless"], true);
    refused(
        at,
        "train redacted/ --recipe crt --sigma 0 --out x",
        &["(0, inf), got 0"],
    );
}

fn manifest_size(at: &Path) -> usize {
    let records = std::fs::read_to_string(at.join("redacted/records.jsonl")).unwrap();
    records.lines().count()
}

#[test]
fn a_transformer_trains_and_its_promise_continues() {
    let home = corpora();
    let at = home.path();
    let fresh = "--model gpt2 --layers 1 --width 16 --heads 2 --context 64";
    let line = "train redacted/ --recipe dpsgd --sigma 1 --epochs 1 --sample-rate 0.1 \
                --private-optimizer adamw --clipping per-layer --private-learning-rate 1e-3";
    let first = json(at, &format!("{line} {fresh} --out first"));
    let config: Value =
        serde_json::from_str(&std::fs::read_to_string(at.join("first/config.json")).unwrap())
            .unwrap();
    assert_eq!(config["model_type"], "gpt2");
    let second = json(at, &format!("{line} --model first/ --out second"));
    assert_eq!(second["mechanism"]["type"], "sequence");
    assert_eq!(manifest(at, "second")["initial"]["from"], "continued");
    assert!(epsilon(&second) > 1.2 * epsilon(&first));
    // A run of sgd on public text is a base like that of others, and the answer says that it has a manifest.
    ok(
        at,
        &format!("train redacted/ --recipe sgd --epochs 1 {fresh} --out open"),
    );
    let on = said(
        at,
        &format!("{line} --model open/ --declared-public --out on"),
    );
    assert!(
        on.contains("declared public by the user although it has a manifest"),
        "{on}"
    );
    let initial = &manifest(at, "on")["initial"];
    assert_eq!(initial["from"], "pretrained");
    assert_eq!(initial["has_manifest"], true);
    let again = json(
        at,
        &format!("{line} --model open/ --declared-public --out again"),
    );
    assert!((epsilon(&again) - epsilon(&first)).abs() < 1e-9);
    // What a manifest protects, or continues from, can't be declared public.
    ok(
        at,
        "train redacted/ --recipe sgd --epochs 1 --model open/ --out further",
    );
    for (model, why) in [
        ("second/", "the recipe dpsgd protects"),
        ("further/", "continues from another one"),
    ] {
        refused(
            at,
            &format!("{line} --model {model} --declared-public --out x"),
            &["--declared-public", model, why],
        );
    }
    // Without its manifest the same folder promises nothing, and its weights say that a recipe protected their text.
    std::fs::remove_file(at.join("first/manifest.json")).unwrap();
    for flag in ["", " --declared-public"] {
        refused(
            at,
            &format!("{line} --model first/{flag} --out third"),
            &["first/", "manifest.json", "--declared-public", "dpsgd"],
        );
    }
    // Those of a run of sgd may be declared public.
    std::fs::remove_file(at.join("open/manifest.json")).unwrap();
    refused(
        at,
        &format!("{line} --model open/ --out third"),
        &["--model", "open/", "manifest.json", "--declared-public"],
    );
    let third = json(
        at,
        &format!("{line} --model open/ --declared-public --out third"),
    );
    let initial = &manifest(at, "third")["initial"];
    assert_eq!(initial["from"], "pretrained");
    assert_eq!(initial["declared_public"], true);
    assert_eq!(initial["manifest_missing"], true);
    assert!((epsilon(&third) - epsilon(&first)).abs() < 1e-9);
    assert!(
        ok(at, "perplexity --model third --data data.jsonl --unit turn").contains("Perplexity")
    );
    refused(
        at,
        &format!("{line} --model gpt2 --heads 3 --out x"),
        &["--width", "--heads"],
    );
    let windows = said(
        at,
        &format!("{line} --model gpt2 --context 8 --out windows"),
    );
    assert!(
        windows.contains(
            "longer than the model's context (no guarantee covers this count): trained on in windows, clipped as one record"
        ),
        "{windows}"
    );
    refused(
        at,
        &format!("{line} --model nowhere --out x"),
        &["--model", "nowhere"],
    );
    ok(
        at,
        "prepare data.jsonl --policy customers --tokenizer bytes --max-tokens 64 --out bytes/",
    );
    let other = line.replace("redacted/", "bytes/");
    refused(
        at,
        &format!("{other} --model third/ --out x"),
        &["--model", "tokenizer"],
    );
}
