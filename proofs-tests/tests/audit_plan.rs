//! Checks that what `account` promises before a run, what `audit train` prints of it, and what is read back from
//! its manifest are the same guarantees for each recipe; also tests the commands of the findings behind this.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_proofs_tests::commands::{account, account_output, ok, refused, said};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Creates small corpora: one with every marked secret known and unchanged, one redacted and sorted into two sides.
fn corpora() -> tempfile::TempDir {
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
        "prepare data.jsonl --policy gold --miss-rate 0.2 --conservative digits,capitals,policy \
         --canaries 2x20 --seed 0 --out sorted/",
    );
    home
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn upper(row: &Value) -> f64 {
    row["epsilon"]["upper"].as_f64().unwrap_or(f64::INFINITY)
}

/// Returns the row about a record, a secret or a canary, for the definition's neighbours.
fn about<'a>(document: &'a Value, whom: &str) -> &'a Value {
    let rows = document["guarantees"].as_array().unwrap();
    let found = rows.iter().find(|row| {
        row["about"] == whom && row["neighbours"] == "replace" && row["convention"] == "definition"
    });
    found.unwrap_or_else(|| panic!("{whom}: {rows:?}"))
}

/// A secret in some of the records of a corpus, and weights that are certified for them.
fn protected(at: &Path) -> &'static str {
    let mut pairs = String::from("example,secret\n");
    let records = std::fs::read_to_string(at.join("raw/train.jsonl")).unwrap();
    for (i, line) in records.lines().enumerate() {
        let id = document(line)["id"].as_str().unwrap().to_owned();
        let secret = match i % 9 {
            0 => format!("secret-{}", i % 2),
            _ => String::new(),
        };
        writeln!(pairs, "{id},{secret}").unwrap();
    }
    std::fs::write(at.join("pairs.csv"), pairs).unwrap();
    let batch = records.lines().count() / 10;
    account(
        at,
        &format!(
            "protect --incidence pairs.csv --prior 1e-6 --posterior 1e-2 --batch-size {batch} --steps 5 \
             --tolerance 0.01 --weights weights.json"
        ),
    );
    "--weights weights.json --incidence pairs.csv"
}

#[test]
fn what_is_promised_before_is_what_is_printed_and_read_back_after() {
    let home = corpora();
    let at = home.path();
    let rates = protected(at);
    let cases = [
        ("sgd", "sorted", "--recipe sgd --epochs 1".to_owned()),
        (
            "dpsgd",
            "sorted",
            "--recipe dpsgd --sigma 1.2 --sample-rate 0.1 --steps 7".into(),
        ),
        (
            "crt",
            "sorted",
            "--recipe crt --epsilon 8 --delta 1e-4 --batch-size 12 --epochs 1".into(),
        ),
        (
            "sdp",
            "raw",
            "--recipe sdp --sigma 2 --state-sigma 5 --epochs 2 --sample-rate 0.05 --delta 1e-5"
                .into(),
        ),
        (
            "jft",
            "raw",
            "--recipe jft --sigma 1 --sample-rate 0.1 --epochs 1 --first-phase light-noise \
             --first-sigma 0.8 --token-miss 0.01,0.1"
                .into(),
        ),
        ("protect", "raw", format!("--recipe protect {rates}")),
    ];
    for (recipe, corpus, flags) in cases {
        let before = account(at, &format!("--prepared {corpus} {flags} --format json"));
        let before = document(&before);
        let after = ok(
            at,
            &format!("train {corpus} {flags} --out {recipe} --format json"),
        );
        let after = document(&after);
        assert_eq!(before["guarantees"], after["guarantees"], "{recipe}");
        assert!(after["guarantees"].as_array().unwrap().len() >= 2);
        // The manifest, read back as another program would.
        let replaced = about(&after, "record");
        let delta = &replaced["delta"];
        let composed = account(
            at,
            &format!(
                "compose {recipe}/manifest.json --neighbours replace --delta {delta} --format json"
            ),
        );
        let composed = document(&composed);
        let record = about(&composed, "record");
        for key in ["epsilon", "notion", "unit"] {
            let (read, said) = (&record[key], &replaced[key]);
            assert_eq!(read, said, "{recipe}: {key}");
        }
        assert_eq!(composed["mechanism"], after["mechanism"], "{recipe}");
        // And by both neighbours; counts of private text are not published.
        let whole = format!("compose {recipe}/manifest.json --format json");
        let whole = document(&account(at, &whole));
        let said = after["guarantees"].as_array().unwrap().iter();
        let said: Vec<_> = said.filter(|row| row["about"] == "record").collect();
        let read = whole["guarantees"].as_array().unwrap().iter();
        let read = read.filter(|row| row["about"] == "record");
        assert_eq!(read.collect::<Vec<_>>(), said, "{recipe}");
        // A question about several records does not hide secrets for which nothing is promised.
        let open = |document: &Value| {
            let rows = document["guarantees"].as_array().unwrap().iter();
            let nothing =
                |row: &&Value| row["about"] == "secret" && row["epsilon"]["upper"] == "inf";
            rows.filter(nothing).count()
        };
        // Rates for single records do not apply to several.
        if recipe != "protect" {
            let two = format!("compose {recipe}/manifest.json --group 2 --format json");
            let two = document(&account(at, &two));
            assert_eq!(open(&two), open(&whole), "{recipe}");
        }
        assert!(recipe != "crt" || open(&whole) == 1, "{whole}");
        // The same plan from a file, for both commands.
        if recipe == "dpsgd" {
            let file = "schema = 1\nrecipe = \"dpsgd\"\n[data]\nprepared = \"sorted\"\n[training]\n\
                        sigma = 1.2\nsample_rate = 0.1\nsteps = 7\n";
            std::fs::write(at.join("training.toml"), file).unwrap();
            let page = document(&account(at, "plan training.toml --format json"));
            assert_eq!(page["guarantees"], after["guarantees"]);
            let run = ok(at, "train --plan training.toml --out of-file --format json");
            assert_eq!(document(&run)["guarantees"], after["guarantees"]);
        }
    }
}

/// Findings A8, A9 and A10: the run keeps what `account protect` certified. Each secret has its own rates: one secret
/// in many records and many secrets in few do not add up to one that is in all.
#[test]
fn a_certificate_reaches_the_manifest_and_unknown_names_are_refused() {
    let home = corpora();
    let at = home.path();
    // The names that train knows, however the prepared corpus is named.
    ok(
        at,
        "incidence raw/train.jsonl --policy customers --out found.csv",
    );
    let found = std::fs::read_to_string(at.join("found.csv")).unwrap();
    ok(
        at,
        "incidence raw/ --policy customers --unit turn --out again.csv",
    );
    assert_eq!(
        found,
        std::fs::read_to_string(at.join("again.csv")).unwrap()
    );
    let ids: Vec<&str> = found
        .lines()
        .skip(1)
        .map(|l| l.split(',').next().unwrap())
        .collect();
    assert!(
        ids.iter()
            .all(|id| id.starts_with("unit-") && !id.contains('#')),
        "{ids:?}"
    );
    // A secret in many records of low weight, since each holds another secret with a stricter promise, and one in a
    // single record of high weight: neither's rates are above the other's.
    let mut names: Vec<&str> = ids.clone();
    names.dedup();
    let mut pairs = String::from("example,secret\n");
    // One of them is in no record: held out, for example.
    let mut promises = String::from(
        "id,prior,posterior\noften,1e-10,1e-3\nonce-12,1e-10,1e-3\nabsent,1e-10,1e-3\n",
    );
    for (i, id) in names.iter().enumerate() {
        match i {
            0..12 => {
                writeln!(pairs, "{id},often\n{id},strict-{i}").unwrap();
                writeln!(promises, "strict-{i},1e-10,1e-4").unwrap();
            }
            12 => writeln!(pairs, "{id},once-12").unwrap(),
            _ => writeln!(pairs, "{id},").unwrap(),
        }
    }
    std::fs::write(at.join("pairs.csv"), &pairs).unwrap();
    std::fs::write(at.join("promises.csv"), &promises).unwrap();
    account(
        at,
        "protect --incidence pairs.csv --secrets promises.csv --batch-size 4 --steps 40 --c 66 \
         --tolerance 1e-3 --weights weights.json",
    );
    let files = "--weights weights.json --incidence pairs.csv";
    let trained = ok(
        at,
        &format!("train raw --recipe protect {files} --out kept --format json"),
    );
    let trained = document(&trained);
    assert_eq!(
        (&trained["secrets"]["secrets"], &trained["secrets"]["kept"]),
        (&15.into(), &15.into())
    );
    let composed = document(&account(
        at,
        "compose kept/manifest.json --prior 1e-10 --format json",
    ));
    assert_eq!(composed["secrets"], trained["secrets"]);
    let guessed = composed["guarantees"].as_array().unwrap();
    let guessed = guessed
        .iter()
        .find(|row| row["notion"] == "secret-protection")
        .unwrap();
    let posterior = guessed["posterior"]["upper"].as_f64().unwrap();
    assert!(posterior <= 1e-3, "{posterior}");
    // The posterior of the secret with the largest one. Rates that dominate all secrets at once promise 5.5e-3, but
    // belong to no secret.
    let classes = trained["secrets"]["classes"].as_array().unwrap().iter();
    let largest = classes
        .map(|row| row[4].as_f64().unwrap())
        .fold(0.0, f64::max);
    assert!(
        (posterior / largest - 1.0).abs() < 1e-6,
        "{posterior} {largest}"
    );
    let weights = document(&std::fs::read_to_string(at.join("weights.json")).unwrap());
    assert!(weights["certified"]["own"].as_array().unwrap().len() >= 2);
    let train = |files: &str| format!("train raw --recipe protect {files} --out lost");
    for (name, text, said) in [
        // Finding A10: ids that belong to no record, all or one of them.
        (
            "units.csv",
            pairs.replace(",often", "#0,often"),
            "is no record of the prepared corpus",
        ),
        (
            "one.csv",
            format!("{pairs}unit-99999,often\n"),
            "is no record of the prepared corpus",
        ),
        // A secret that was certified in a record but is in none, and one that was not certified.
        (
            "fewer.csv",
            pairs.replace("once-12", "often"),
            "certified for another run",
        ),
        (
            "more.csv",
            format!("{pairs}{},new\n", names[0]),
            "has no promise in",
        ),
        // In more records than were certified.
        (
            "oftener.csv",
            names
                .iter()
                .fold(pairs.clone(), |text, id| text + id + ",once-12\n"),
            "certified for another run",
        ),
    ] {
        std::fs::write(at.join(name), text).unwrap();
        refused(
            at,
            &train(&format!("--weights weights.json --incidence {name}")),
            &[said],
        );
    }
    // A promise that was edited after it was certified.
    let edited = std::fs::read_to_string(at.join("weights.json")).unwrap();
    let edited = edited.replacen(
        "[\"strict-0\",1e-10,0.0001,",
        "[\"strict-0\",1e-10,0.00001,",
        1,
    );
    std::fs::write(at.join("edited.json"), edited).unwrap();
    refused(
        at,
        &train("--weights edited.json --incidence pairs.csv"),
        &["its promise is not the one that was certified"],
    );
    refused(
        at,
        "incidence raw --policy gold --out none.csv",
        &["--policy", "keeps no marks"],
    );
    assert!(!at.join("none.csv").exists());
}

/// An incidence and weights apply to the records that they were made for. The same records in another order,
/// where secrets are elsewhere, and records whose text was edited are refused, by train and by account.
#[test]
fn weights_of_one_corpus_are_not_taken_for_another() {
    let home = corpora();
    let at = home.path();
    let files = protected(at);
    ok(
        at,
        &format!("train raw --recipe protect {files} --out kept"),
    );
    let data = std::fs::read_to_string(at.join("data.jsonl")).unwrap();
    let mut lines: Vec<&str> = data.lines().collect();
    lines.reverse();
    std::fs::write(at.join("reversed.jsonl"), lines.join("\n") + "\n").unwrap();
    ok(
        at,
        "prepare reversed.jsonl --policy gold --no-redaction --no-deduplication --out reversed/",
    );
    let ids = |folder: &str| std::fs::read_to_string(at.join(folder).join("train.jsonl")).unwrap();
    let unknown = ["is no record of the prepared corpus"];
    refused(
        at,
        &format!("train reversed --recipe protect {files} --out other"),
        &unknown,
    );
    let output = account_output(at, &format!("--prepared reversed --recipe protect {files}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains(unknown[0]),
        "{error}"
    );
    // The text of a record without its tokens.
    let edited = ids("raw").replacen("\"text\":\"", "\"text\":\"7", 1);
    std::fs::write(at.join("raw/train.jsonl"), edited).unwrap();
    refused(
        at,
        &format!("train raw --recipe protect {files} --out edited"),
        &["edited after it was prepared"],
    );
    let output = account_output(at, &format!("--prepared raw --recipe protect {files}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("edited after it was prepared"),
        "{error}"
    );
}

/// Finding A1, A2 and A3: selective DP-SGD counts passes and states in full, and the records of a
/// secret. σ = 2 twice and σ = 5 on states, replace: 8.8529 where all states are four a record.
#[test]
fn selective_training_is_never_amplified() {
    let home = corpora();
    let at = home.path();
    let file = "schema = 1\nrecipe = \"sdp\"\nunit = \"turn\"\ndelta = 1e-5\n[training]\nsigma = 2\n\
                sample_rate = 0.05\nepochs = 2\n";
    let secrets = "[secrets]\nrecords = 1\n";
    std::fs::write(at.join("bare.toml"), format!("{file}{secrets}")).unwrap();
    let output = account_output(at, "plan bare.toml");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("training.state_sigma"), "{error}");
    let whole = format!("{file}state_sigma = 5\nstates = 4\nassume = [\"caught\"]\n{secrets}");
    std::fs::write(at.join("whole.toml"), whole).unwrap();
    let page = document(&account(at, "plan whole.toml --format json"));
    let epsilon = upper(about(&page, "secret"));
    assert!((epsilon - 8.852_88).abs() < 1e-4, "{epsilon}");
    // More records of one secret cost more, and those of the corpus are counted.
    let flags = "--recipe sdp --sigma 2 --state-sigma 5 --epochs 2 --sample-rate 0.05 --delta 1e-5";
    let page = document(&account(
        at,
        &format!("--prepared raw {flags} --format json"),
    ));
    let secret = about(&page, "secret");
    assert!(secret["group"].as_u64().unwrap() >= 2, "{secret}");
    assert!(upper(secret).is_finite() && upper(secret) > upper(about(&page, "record")));
    let more = account(
        at,
        &format!("--prepared raw {flags} --group 20 --format json"),
    );
    assert!(upper(about(&document(&more), "secret")) > 2.0 * upper(secret));
}

/// Finding A4: flags and file are one plan.
#[test]
fn flags_and_file_say_the_same() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let flags = "--sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 20 --gamma 0.1";
    let plain = document(&account(at, &format!("{flags} --delta 1e-5 --format json")));
    assert_eq!(plain["inputs"]["steps"], 4700);
    let file = |recipe: &str| {
        let text = format!(
            "schema = 1\nrecipe = \"{recipe}\"\ndelta = 1e-5\n[data]\nprivate = 60000\n[training]\n\
             sigma = 1.1\nbatch_size = 256\nepochs = 20\n[secrets]\ngamma = 0.1\n"
        );
        std::fs::write(at.join("training.toml"), text).unwrap();
        document(&account(at, "plan training.toml --format json"))
    };
    for recipe in ["dpsgd", "crt"] {
        let of_file = file(recipe);
        let of_flags = account(
            at,
            &format!("--recipe {recipe} {flags} --delta 1e-5 --format json"),
        );
        let of_flags = document(&of_flags);
        for key in ["guarantees", "promises", "headline"] {
            assert_eq!(of_file[key], of_flags[key], "{recipe} {key}");
        }
        assert_eq!(of_file["inputs"]["steps"], 4700);
        // Every record under noise: nothing is missed by both. A public side: all that is missed.
        let joint = of_file["inputs"]["joint_miss"].as_f64().unwrap();
        assert_eq!(joint > 0.0, recipe == "crt", "{joint}");
    }
    assert!(account(at, flags).contains("DP-SGD on every record"));
}

/// Finding A5: canaries are bounded by their copies, and never above their candidates.
#[test]
fn canaries_are_bounded_by_their_copies_and_candidates() {
    let home = corpora();
    let at = home.path();
    let line = "--prepared sorted --recipe dpsgd --sigma 0.6 --sample-rate 0.2 --epochs 4";
    let page = document(&account(at, &format!("{line} --format json")));
    let canary = about(&page, "canary");
    assert_eq!(canary["group"], 20);
    let ceilings = page["ceilings"].as_array().unwrap();
    let best = ceilings
        .iter()
        .find(|row| row["quantity"] == "best-exposure")
        .unwrap();
    assert_eq!(best["records"], 20);
    let bits = best["at_most"].as_f64().unwrap();
    assert!((bits - 1e6_f64.log2()).abs() < 1e-9, "{bits}");
}

/// Where text was masked before, deduplication lets one record of the input change two of the training set. A canary's
/// promise is for as many of them before training, after it and in the manifest, which audits and later runs read.
#[test]
fn a_canary_has_as_many_records_wherever_it_is_read() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let mut text = String::new();
    for i in 0..20 {
        let masked = "\"masked\":[{\"start\":0,\"end\":3}]";
        writeln!(
            text,
            "{{\"id\":\"d{i}\",\"text\":\"Ada sent letter {i}\",{masked}}}"
        )
        .unwrap();
    }
    std::fs::write(at.join("masked.jsonl"), text).unwrap();
    let prepare = "prepare masked.jsonl --unit document --policy nothing --held-out 0";
    ok(at, &format!("{prepare} --canaries 3x4 --seed 1 --out p"));
    let line = "p --recipe dpsgd --sigma 2 --sample-rate 0.5 --epochs 1 --format json";
    let before = document(&account(at, &format!("--prepared {line}")));
    let group = &about(&before, "canary")["group"];
    let records = group.as_u64().unwrap();
    assert!(records >= 4 && records.is_multiple_of(2), "{records}");
    let after = document(&ok(at, &format!("train {line} --out m")));
    assert_eq!(&about(&after, "canary")["group"], group);
    let manifest = std::fs::read_to_string(at.join("m/manifest.json")).unwrap();
    assert_eq!(&document(&manifest)["canaries"]["records"], group);
}

/// A run of crt without a private record is as long as its steps say, and no private training is offered for nothing.
#[test]
fn crt_without_a_private_record_is_as_long_as_it_says() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let mut text = String::new();
    for word in ["red", "green", "blue", "white", "black"] {
        writeln!(text, "{{\"id\":\"{word}\",\"text\":\"the {word} parcel\"}}").unwrap();
    }
    std::fs::write(at.join("plain.jsonl"), text).unwrap();
    let prepare = "prepare plain.jsonl --unit document --policy nothing --conservative digits";
    ok(at, &format!("{prepare} --held-out 0 --out p"));
    let plan = |more: &str| {
        let line = format!("--prepared p --recipe crt --sigma 1 {more} --format json");
        document(&account(at, &line))
    };
    let assumed = plan("");
    assert_eq!(assumed["inputs"]["private_records"], 0);
    assert_eq!(assumed["inputs"]["epochs"], 8);
    let names = assumed["inputs"]["assumed"].as_array().unwrap();
    assert!(names.contains(&"epochs".into()), "{names:?}");
    let given = plan("--sample-rate 0.1 --steps 25");
    assert_eq!(given["inputs"]["steps"], 25);
    assert!(given["inputs"].get("epochs").is_none());
    for document in [&assumed, &given] {
        let says = document["says"].as_str().unwrap();
        assert!(!says.contains("every record as private"), "{says}");
    }
    refused(
        at,
        "train p --recipe crt --sigma 1 --steps 2 --epochs 2 --out m",
        &["--steps", "--epochs"],
    );
    let line = "train p --recipe crt --sigma 1 --sample-rate 0.1 --steps 15 --out m";
    ok(at, line);
    let manifest = std::fs::read_to_string(at.join("m/manifest.json")).unwrap();
    assert_eq!(document(&manifest)["plan"]["run"]["epochs"], 2);
}

/// The matches of a policy do not say how many records hold a secret.
#[test]
fn records_of_a_secret_are_counted_or_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let text = "{\"id\":\"a\",\"text\":\"USR: my number is 555-0100\\nSYS: 555-0100, thanks\"}\n\
                {\"id\":\"b\",\"text\":\"USR: call 555-0100\\nSYS: I shall\"}\n";
    std::fs::write(at.join("data.jsonl"), text).unwrap();
    ok(at, "prepare data.jsonl --policy detectors --out p");
    let line = "--prepared p --recipe crt --sigma 2 --sample-rate 0.5 --steps 4";
    let page = account(at, &format!("{line} -v"));
    assert!(
        page.contains("is not known") && page.contains("--group"),
        "{page}"
    );
    let json = document(&account(at, &format!("{line} --format json")));
    let rows = json["guarantees"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["about"] != "secret"), "{rows:?}");
    let grouped = document(&account(at, &format!("{line} --group 3 --format json")));
    assert_eq!(about(&grouped, "secret")["group"], 3);
}

/// Findings A7 and A16: a seeded run promises nothing anywhere; a run says what it promises for the records of a secret
/// and for the copies of a canary.
#[test]
fn a_seeded_run_promises_nothing() {
    let home = corpora();
    let at = home.path();
    let line = "sorted --recipe crt --sigma 2 --sample-rate 0.1 --steps 4";
    let fair = said(at, &format!("train {line} --out fair"));
    for about in ["Epsilon is at most", "a planted", "marked secret"] {
        assert!(fair.contains(about), "{fair}");
    }
    let seeded = said(at, &format!("train {line} --seed 7 --out seeded"));
    assert!(
        !seeded.contains("at most") && seeded.contains("because a fixed seed"),
        "{seeded}"
    );
    let json = ok(
        at,
        &format!("train {line} --seed 7 --out seeded2 --format json"),
    );
    let json = document(&json);
    let rows = json["guarantees"].as_array().unwrap();
    assert!(rows.iter().all(|row| upper(row).is_infinite()), "{rows:?}");
    let before = account(at, &format!("--prepared {line} --seed 7 --format json"));
    assert_eq!(document(&before)["guarantees"], json["guarantees"]);
    let composed = account(at, "compose seeded/manifest.json --format json");
    assert!(upper(&document(&composed)["guarantees"][0]).is_infinite());
    let audited = document(&ok(at, "exposure --model seeded --format json"));
    assert!(audited.get("verdict").is_none() && audited.get("ceiling").is_none());
    let why = audited["no_verdict"].as_str().unwrap();
    assert!(why.contains("a fixed seed"), "{why}");
}

/// Finding A19: a plan that can't be accounted for is not trained.
#[test]
fn a_plan_is_accounted_for_before_the_first_step() {
    let home = corpora();
    let at = home.path();
    // Almost no noise is accounted for, and promises almost nothing.
    let line = "train raw --recipe dpsgd --sigma 1e-9 --epochs 1 --out tiny --format json";
    let tiny = document(&ok(at, line));
    let bound = upper(&tiny["guarantees"][0]);
    assert!(bound > 1e15 && bound.is_finite(), "{bound}");
    refused(
        at,
        "train raw --recipe dpsgd --sigma 1 --sampler shuffled --out s",
        &["--sampler", "poisson"],
    );
    assert!(!at.join("s").exists() && !at.join("s.state").exists());
}

/// Finding A14, for `account`: a manifest is compared with its plan and with the owner's key.
#[test]
fn a_manifest_is_compared_and_authenticated_by_account_too() {
    let home = corpora();
    let at = home.path();
    ok(
        at,
        "train raw --recipe dpsgd --sigma 2 --sample-rate 0.1 --steps 3 --out m",
    );
    let said = account(at, "compose m/manifest.json");
    assert!(!said.contains("not authenticated"), "{said}");
    let path = at.join("m/manifest.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    let edited = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        std::fs::write(&path, whole.replace(from, to)).unwrap();
        let output = account_output(at, "compose m/manifest.json");
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    // Edited everywhere at once: only the owner's key detects it.
    let (code, error) = edited("2.0", "50.0");
    assert_eq!(code, Some(2));
    assert!(error.contains("owner authenticated"), "{error}");
    std::fs::remove_dir_all(at.join("m.owner")).unwrap();
    std::fs::write(&path, &whole).unwrap();
    let said = account(at, "compose m/manifest.json");
    assert!(said.contains("not authenticated"), "{said}");
    // Edited in one place: the plan detects it.
    let mut manifest = document(&whole);
    manifest["mechanism"]["each"]["noise_multiplier"] = 50.0.into();
    std::fs::write(&path, manifest.to_string()).unwrap();
    let output = account_output(at, "compose m/manifest.json");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && error.contains("plan"),
        "{error}"
    );
    // Finding A15, for `account`: without it the weights promise nothing.
    std::fs::remove_file(&path).unwrap();
    let next = "--recipe dpsgd --sigma 2 --steps 5 --sample-rate 0.1 --model m";
    let output = account_output(at, next);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && error.contains("--declared-public"),
        "{error}"
    );
    // The weights themselves say that a recipe protected their text.
    let output = account_output(at, &format!("{next} --declared-public"));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2)
            && error.contains("--declared-public: ")
            && error.contains("dpsgd"),
        "{error}"
    );
}

/// A name that is both a fresh model's and a folder's means neither, for the plan as for the trainer.
#[test]
fn a_folder_with_the_name_of_a_fresh_model_is_not_guessed() {
    let home = corpora();
    let at = home.path();
    std::fs::create_dir(at.join("gpt2")).unwrap();
    let size = "[optimizer]\nlayers = 1\nwidth = 8\nheads = 1\n";
    let plan = |model: &str, size: &str| {
        let text = format!(
            "schema = 1\nrecipe = \"dpsgd\"\n[data]\nprepared = \"raw/\"\n[training]\nsigma = 2.0\nsample_rate = 0.1\nepochs = 1\nmodel = \"{model}\"\n{size}"
        );
        std::fs::write(at.join("plan.toml"), text).unwrap();
    };
    plan("gpt2", size);
    let words = ["training.model", "./gpt2"];
    refused(at, "train --plan plan.toml --out x", &words);
    let flags = "--prepared raw --recipe dpsgd --sigma 2 --sample-rate 0.1 --epochs 1 --model gpt2";
    for line in ["plan plan.toml", flags] {
        let output = account_output(at, line);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {error}");
        assert!(
            error.contains("model") && error.contains("./gpt2"),
            "{line}: {error}"
        );
    }
    // The folder, which holds no model.
    plan("./gpt2", "");
    refused(
        at,
        "train --plan plan.toml --out x",
        &["--model", "gpt2", "no model"],
    );
    // The fresh one, as the plan has it.
    std::fs::remove_dir(at.join("gpt2")).unwrap();
    plan("gpt2", size);
    account(at, "plan plan.toml");
    ok(at, "train --plan plan.toml --out x");
}
