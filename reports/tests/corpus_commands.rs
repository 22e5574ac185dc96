//! `audit neighbours`, `audit redact` and `audit incidence`, as a user runs them.
#![cfg(feature = "findings")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::audit::{ok, refused};
use crate::common::{account, audit, checked, flat, stderr};
use crate::tiny;
use serde_json::Value;
use std::path::Path;

/// What a command says as JSON, after its schema.
fn json(home: &Path, line: &str) -> Value {
    checked(audit::json(home, line))
}

fn simulated() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let line = "simulate customers --dialogues 30 --seed 5 --out data.jsonl";
    let said = json(home.path(), line);
    assert_eq!(said["dialogues"], 30);
    home
}

/// The neighbours of every secret find what the preparation itself counts; a sample says what
/// it can of the others; secrets are shown when they are asked for.
#[test]
fn neighbours_agree_with_the_preparation() {
    let home = simulated();
    let at = home.path();
    let how = "data.jsonl --policy customers --miss-rate 0.25 --seed 3 --held-out 0";
    let prepared = json(at, &format!("prepare {how} --out p"));
    let secrets = &prepared["facts"]["secrets"];
    let said = refused(at, "policy p --policy customers");
    assert!(said.contains("name its train.jsonl"), "{said}");
    let all = json(at, &format!("neighbours {how} --all"));
    assert_eq!(all["type"], "neighbours");
    assert_eq!(all["examined"], all["distinct"]);
    assert_eq!(all["missed"], secrets["all"]["missed"]);
    assert_eq!(all["most_records"], secrets["most_records"]);
    assert!(all["missed"].as_u64().unwrap() > 0);
    assert!(all.get("missed_share").is_none());
    for (kind, counts) in secrets["by_kind"].as_object().unwrap() {
        assert_eq!(all["by_kind"][kind]["missed"], counts["missed"], "{kind}");
    }
    let listed = all["missed_secrets"].as_array().unwrap();
    assert_eq!(listed.len() as u64, all["missed"].as_u64().unwrap());
    assert!(listed.iter().all(|one| one.get("secret").is_none()));

    let sample = json(at, &format!("neighbours {how} --sample 20 --show-secrets"));
    assert_eq!(sample["examined"], 20);
    let missed = sample["missed"].as_f64().unwrap();
    assert!(sample["missed_share"]["upper"].as_f64().unwrap() > missed / 20.0);
    let known = std::fs::read_to_string(at.join("data.jsonl")).unwrap();
    for one in sample["missed_secrets"].as_array().unwrap() {
        assert!(known.contains(one["secret"].as_str().unwrap()));
    }
    let text = ok(at, "neighbours data.jsonl --policy gold --all");
    assert!(text.contains("missed: 0; after 0 of them"), "{text}");
}

/// Without marks: what a list names, or what the policy finds.
#[test]
fn neighbours_of_a_plain_corpus_take_a_list_or_what_the_policy_finds() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let text = "Mail ada@example.org or call Zork.\nZork again.\n\nNobody here.\n";
    std::fs::write(at.join("notes.txt"), text).unwrap();
    std::fs::write(at.join("names.txt"), "Zork\n\nZork\nYmir\n").unwrap();
    let how = "notes.txt --policy detectors --held-out 0 --all";
    let found = json(at, &format!("neighbours {how}"));
    assert_eq!(
        (&found["distinct"], &found["missed"]),
        (&1.into(), &0.into())
    );
    // What a policy finds says nothing of what it overlooks.
    let both = "Mail ada@example.org and bob@example.org.\n";
    std::fs::write(at.join("both.txt"), both).unwrap();
    let sample = "neighbours both.txt --policy detectors --held-out 0 --sample 1";
    let found = json(at, sample);
    assert_eq!(
        (&found["distinct"], &found["examined"]),
        (&2.into(), &1.into())
    );
    assert!(found.get("missed_share").is_none());
    let text = ok(at, sample);
    let text = flat(&text);
    assert!(
        text.contains("that the policy finds missed")
            && text.contains("a simple random sample of 1"),
        "{text}"
    );
    assert_eq!(found["marked"], "found by the policy");
    // Nothing is left for a seed to draw.
    for (line, unused) in [
        (format!("neighbours {how} --seed 7"), true),
        (format!("neighbours {how} --miss-rate 0.5 --seed 7"), false),
        (format!("{sample} --seed 7"), false),
        (format!("neighbours {how}"), false),
    ] {
        let said = stderr(&audit::run(at, &line));
        assert_eq!(
            said.contains("--seed: has no effect"),
            unused,
            "{line}: {said}"
        );
    }
    let listed = json(at, &format!("neighbours {how} --list names.txt"));
    assert_eq!(
        (&listed["distinct"], &listed["missed"]),
        (&1.into(), &1.into())
    );
    assert_eq!(listed["most_records"], 2);
    // Ymir stands nowhere.
    assert_eq!(
        (&listed["marked"], &listed["not_found"]),
        (&"listed".into(), &1.into())
    );
    assert!(found.get("not_found").is_none());
    std::fs::write(at.join("plain.txt"), "Nobody here.\n").unwrap();
    for (more, problem) in [
        ("", "no secret is marked in it"),
        (" --list names.txt", "no secret of --list is in it"),
    ] {
        let said = refused(
            at,
            &format!("neighbours plain.txt --policy detectors{more}"),
        );
        assert!(said.contains(problem), "{said}");
    }
}

/// A shell's `<data >>data` and `<data 1<>data`: what is written there would be read, or replace what is not read yet.
#[test]
#[cfg(unix)]
fn stdin_is_not_redacted_into_its_own_file() {
    use std::fs::File;
    use std::process::{Command, Stdio};
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data.jsonl");
    let line = "{\"id\":\"a\",\"text\":\"Mail ada@example.org\"}\n";
    std::fs::write(&data, line).unwrap();
    let mut options = File::options();
    for out in [
        options.append(true).open(&data),
        File::options().write(true).open(&data),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_audit"))
            .args(["redact", "-", "--out", "-"])
            .stdin(File::open(&data).unwrap())
            .stdout(out.unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("it is one of the files that are read"),
            "{said}"
        );
        assert_eq!(std::fs::read_to_string(&data).unwrap(), line);
    }
}

#[test]
fn a_folder_is_redacted_as_one_stream() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::create_dir(at.join("in")).unwrap();
    std::fs::write(
        at.join("in/a.txt"),
        "Mail ada@example.org\nHello.\n\nHello.\n",
    )
    .unwrap();
    std::fs::write(
        at.join("in/b.jsonl"),
        "{\"id\":\"b\",\"text\":\"Hello.\\nBye.\"}\n",
    )
    .unwrap();
    let said = json(at, "redact in --out clean.jsonl --threads 2");
    assert_eq!(
        (&said["units"], &said["duplicates"]),
        (&5.into(), &2.into())
    );
    assert_eq!(said["spans"]["email"], 1);
    let lines = std::fs::read_to_string(at.join("clean.jsonl")).unwrap();
    assert_eq!(
        lines,
        "{\"id\":\"a.txt/block-1#0\",\"text\":\"Mail <MASK>\"}\n{\"id\":\"a.txt/block-1#1\",\"text\":\"Hello.\"}\n{\"id\":\"b#1\",\"text\":\"Bye.\"}\n"
    );
    // A bad file is named, and left out where that is asked for.
    std::fs::write(at.join("in/bad.txt"), b"ok\n\n\xff").unwrap();
    let error = refused(at, "redact in --out other.jsonl");
    assert!(error.contains("bad.txt, line 3: invalid UTF-8"), "{error}");
    for name in ["x.csv", "x.parquet", "x.txt", "x.jsonl.gz"] {
        let error = refused(at, &format!("redact in --out {name}"));
        assert!(
            error.contains("--out: ") && error.contains("name it FILE.jsonl"),
            "{error}"
        );
        assert!(!at.join(name).exists());
    }
    let said = json(at, "redact in --out other.jsonl --skip-unreadable");
    assert_eq!(said["skipped"].as_array().unwrap().len(), 1);
    assert_eq!(said["units"], 6);
    let error = refused(at, "prepare in --out p");
    assert!(error.contains("bad.txt, line 3: invalid UTF-8"), "{error}");
    ok(at, "prepare in --out p --skip-unreadable --held-out 0");
    // What a cut file lost is no part of its last cell.
    std::fs::write(at.join("cut.csv"), "id,text\na,\"hello\nb,more\n").unwrap();
    let error = refused(at, "redact cut.csv --out cut.jsonl");
    assert!(
        error.contains("the file ends inside of a quoted field") && !at.join("cut.jsonl").exists(),
        "{error}"
    );
    std::fs::write(
        at.join("whole.csv"),
        "id,text\na,\"he \"\"llo\"\nb,5\" wide\n",
    )
    .unwrap();
    assert_eq!(json(at, "redact whole.csv --out whole.jsonl")["units"], 2);
    // Nothing that is read is written over, whatever it is called.
    std::fs::write(at.join("pii.toml"), "type = \"detectors\"\n").unwrap();
    let before = std::fs::read(at.join("pii.toml")).unwrap();
    let error = refused(
        at,
        "redact whole.csv --policy pii.toml --out pii.toml --force",
    );
    assert!(
        error.contains("--out: the file is that of --policy"),
        "{error}"
    );
    assert_eq!(std::fs::read(at.join("pii.toml")).unwrap(), before);
    let error = refused(at, "prepare in/a.txt --out q --longest 10");
    assert!(error.contains("longer than 10 bytes"), "{error}");
}

/// Every report names the policy that ran by one digest: it changes with a word of a dictionary
/// and shows none of them.
#[test]
fn reports_name_the_policy_that_ran() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::write(at.join("notes.txt"), "Zork met ada@example.org\n").unwrap();
    let digests = |word: &str| {
        let policy = format!(
            "type = \"any\"\n[[of]]\ntype = \"detectors\"\n[[of]]\ntype = \"dictionary\"\nkind = \"name\"\nwords = [\"{word}\"]\n"
        );
        std::fs::write(at.join("pii.toml"), policy).unwrap();
        let how = "notes.txt --policy pii.toml";
        let said = [
            json(at, &format!("redact {how} --out {word}.jsonl")),
            json(at, &format!("prepare {how} --held-out 0 --out {word}")),
            json(at, &format!("policy {how}")),
            json(at, &format!("neighbours {how}")),
            json(at, &format!("incidence {how} --out {word}.csv")),
        ];
        assert_eq!(said[0]["inputs"]["policy"], "pii.toml");
        let inputs = said[0]["inputs"].to_string();
        assert!(!inputs.contains(word), "{inputs}");
        assert!(
            said.iter()
                .all(|one| one["inputs"]["policy_sha256"].is_null())
        );
        said.map(|one| one["inputs"]["policy_hmac"].as_str().unwrap().to_owned())
    };
    let (one, other) = (digests("Zork"), digests("Ymir"));
    assert!(
        one.iter()
            .all(|digest| *digest == one[0] && digest.len() == 64)
    );
    assert_ne!(one[0], other[0]);
    std::fs::write(at.join("list.txt"), "Zork\n").unwrap();
    let listed = json(at, "incidence notes.txt --list list.txt --out l.csv");
    assert_eq!(listed["inputs"]["list_hmac"].as_str().unwrap().len(), 64);
    assert!(listed["inputs"]["list_sha256"].is_null());
}

/// The same folder with any number of threads; one that is being prepared already is left alone.
#[test]
fn a_preparation_takes_any_number_of_threads() {
    let home = simulated();
    let at = home.path();
    let read = |folder: &str| std::fs::read(at.join(folder).join("records.jsonl")).unwrap();
    for threads in [1, 2, 7] {
        let how = "data.jsonl --policy customers --miss-rate 0.2 --canaries 2x3 --seed 0";
        let said = json(
            at,
            &format!("prepare {how} --threads {threads} --out p{threads}"),
        );
        assert_eq!(said["inputs"]["threads"], threads);
        assert_eq!(read(&format!("p{threads}")), read("p1"));
    }
    let error = refused(at, "prepare data.jsonl --threads 0 --out q");
    let range = "--threads: must be a whole number in [1, 1024], got \"0\"";
    assert!(error.contains(range), "{error}");
}

/// The same pairs in every format, as `account protect` reads them.
#[test]
fn incidences_are_what_protect_reads() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    ok(
        at,
        "simulate customers --dialogues 4 --seed 5 --out data.jsonl",
    );
    let mut answers = Vec::new();
    let endings: &[&str] = if cfg!(feature = "parquet") {
        &["csv", "jsonl", "parquet"]
    } else {
        &["csv", "jsonl"]
    };
    for ending in endings {
        let said = json(
            at,
            &format!("incidence data.jsonl --policy customers --out pairs.{ending}"),
        );
        assert_eq!(said["type"], "incidence");
        assert!(said["distinct"].as_u64().unwrap() > 5);
        let plan = "--prior 1e-6 --posterior 1e-2 --batch-size 16 --steps 5 --tolerance 0.01";
        let line = format!("protect --incidence pairs.{ending} {plan}");
        let mut answer = account::json(at, &line);
        answer["inputs"]["incidence"] = Value::Null;
        answers.push(answer);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
}

/// A token classifier of the user's own, as both policies, by two thresholds.
#[cfg(feature = "onnx")]
#[test]
fn a_classifier_of_the_users_own_is_a_policy() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::create_dir(at.join("ner")).unwrap();
    let model = tiny::classifier(&tiny::table());
    std::fs::write(at.join("ner/model.onnx"), model).unwrap();
    std::fs::write(at.join("ner/config.json"), tiny::config(&tiny::LABELS)).unwrap();
    std::fs::write(at.join("ner/tokenizer.json"), tiny::tokenizer()).unwrap();
    let text = "Ada King met Bob in Paris .\nRose met .\nin London .\nmet .\n";
    std::fs::write(at.join("notes.txt"), text).unwrap();
    let said = json(at, "redact notes.txt --policy onnx:ner --out clean.jsonl");
    assert_eq!(said["spans"], serde_json::json!({"loc": 2, "person": 2}));
    let lines = std::fs::read_to_string(at.join("clean.jsonl")).unwrap();
    let texts: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].to_string())
        .collect();
    assert_eq!(
        texts,
        [
            "\"<MASK> met <MASK> in <MASK> .\"",
            "\"Rose met .\"",
            "\"in <MASK> .\"",
            "\"met .\""
        ]
    );
    let both = "notes.txt --policy onnx:ner --conservative onnx:ner@0.1,policy";
    let measured = json(at, &format!("policy {both}"));
    assert_eq!(
        (&measured["redacted"], &measured["flagged"]),
        (&2.into(), &3.into())
    );
    let prepared = json(at, &format!("prepare {both} --held-out 0 --out p"));
    assert_eq!(prepared["facts"]["private"], 3);
    let manifest = std::fs::read_to_string(at.join("p/prepared.json")).unwrap();
    assert!(manifest.contains("sha256"), "{manifest}");
    for (policy, problem) in [
        (
            "onnx:ner@2",
            "the threshold must be 0 or from 0.02 to 1, got 2",
        ),
        (
            "onnx:ner@0.005",
            "the threshold must be 0 or from 0.02 to 1, got 0.005",
        ),
        ("onnx:", "must be onnx:FOLDER[@THRESHOLD]"),
        ("onnx:nowhere", "nowhere/model.onnx: cannot read"),
    ] {
        let error = refused(at, &format!("policy notes.txt --policy {policy}"));
        assert!(error.contains(problem), "{error}");
    }
    std::fs::write(at.join("ner/model.onnx"), b"nothing").unwrap();
    let error = refused(at, "policy notes.txt --policy onnx:ner");
    assert!(error.contains("ner/model.onnx: no ONNX model"), "{error}");
}

/// C11: models that ask for gigabytes, for minutes, or make a library panic end in one error, by the limits of the
/// process that they run in.
#[cfg(all(feature = "onnx", target_os = "linux"))]
#[test]
fn hostile_classifiers_end_in_one_error() {
    use tiny::{Message, floats, integers, model, node, value};
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::create_dir(at.join("ner")).unwrap();
    std::fs::write(at.join("notes.txt"), "Ada met Bob\n").unwrap();
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(at.join("ner").join(name), bytes).unwrap();
    let graph = |nodes: &[Message], tensors: &[Message]| {
        model(
            nodes,
            tensors,
            &[value("input_ids", 7, 2)],
            &[value("logits", 1, 3)],
        )
    };
    let words = floats("words", &[16, 5], &tiny::table().concat());
    let said = |model: &[u8], tokenizer: &[u8]| {
        write("model.onnx", model);
        write("config.json", &tiny::config(&tiny::LABELS));
        write("tokenizer.json", tokenizer);
        let began = std::time::Instant::now();
        let error = refused(at, "policy notes.txt --policy onnx:ner");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(began.elapsed().as_secs() < 60, "{error}");
        error
    };
    // Four gigabytes of ones.
    let large = graph(
        &[
            node("Gather", &["words", "input_ids"], "rows"),
            node("Expand", &["one", "shape"], "large"),
            node("ReduceSum", &["large"], "sum"),
            node("Add", &["rows", "sum"], "logits"),
        ],
        &[
            words.clone(),
            floats("one", &[1], &[1.0]),
            integers("shape", &[2], &[1 << 15, 1 << 15]),
        ],
    );
    assert!(large.len() < 1000, "{}", large.len());
    let error = said(&large, &tiny::tokenizer());
    assert!(
        error.contains("ner/model.onnx: needs more than the 768 MiB of memory"),
        "{error}"
    );
    // Minutes of products.
    let mut nodes = vec![
        node("Gather", &["words", "input_ids"], "rows"),
        node("Expand", &["one", "shape"], "m0"),
    ];
    for n in 0..400 {
        nodes.push(node(
            "MatMul",
            &[&format!("m{n}"), &format!("m{n}")],
            &format!("m{}", n + 1),
        ));
    }
    nodes.push(node("ReduceSum", &["m400"], "sum"));
    nodes.push(node("Add", &["rows", "sum"], "logits"));
    let slow = graph(
        &nodes,
        &[
            words,
            floats("one", &[1], &[1e-4]),
            integers("shape", &[2], &[2048, 2048]),
        ],
    );
    let error = said(&slow, &tiny::tokenizer());
    assert!(
        error.contains("takes longer than the 10 s") || error.contains("processor time"),
        "{error}"
    );
    // A table of characters that is empty, which the library looks into.
    let mut panics: Value = serde_json::from_slice(&tiny::tokenizer()).unwrap();
    panics["normalizer"] =
        serde_json::json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="});
    for (tokenizer, problem) in [
        ("{}".to_owned(), "ner/tokenizer.json: "),
        (
            panics.to_string(),
            "ner/tokenizer.json: it contradicts itself",
        ),
    ] {
        let error = said(&tiny::classifier(&tiny::table()), tokenizer.as_bytes());
        assert!(error.contains(problem), "{error}");
    }
    // The worker of nobody ends.
    let output = audit::fed(at, "classifier-worker", "abc");
    assert!(output.status.success() && output.stdout.is_empty());
}

/// A chat template is a program of whoever made the model.
#[test]
fn a_chat_template_runs_within_limits() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let chat = "{\"messages\": [{\"role\": \"user\", \"content\": \"hunter2\"}], \"tools\": [{\"name\": \"f\", \"args\": {}}]}\n";
    std::fs::write(at.join("chats.jsonl"), chat).unwrap();
    let template = |text: &str| std::fs::write(at.join("chat.jinja"), text).unwrap();
    let line = "prepare chats.jsonl --unit document --chat-template chat.jinja --out prepared";
    for (text, word) in [
        (
            "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x.replace('a', n.x) %}{% endfor %}",
            "needs more than the 768 MiB of memory",
        ),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "instructions",
        ),
        (
            "{% for m in messages %}{{ m.content + 1 }}{% endfor %}",
            "fails in line 1",
        ),
    ] {
        template(text);
        let error = refused(at, line);
        assert!(
            error.contains(word) && !error.contains("hunter2"),
            "{error}"
        );
        assert!(!at.join("prepared").exists());
    }
    template("{% for m in messages %}{{ m.content }}{% endfor %} {{ tools | tojson }}");
    ok(at, line);
    let records = std::fs::read_to_string(at.join("prepared/records.jsonl")).unwrap();
    assert_eq!(records.lines().count(), 1);
    // The worker of nobody ends.
    let output = audit::fed(at, "template-worker", "abc");
    assert!(output.status.success() && output.stdout.is_empty());
}

/// Secrets of held-out documents were said to be spelled otherwise.
#[test]
fn listed_secrets_of_held_out_documents_are_said_to_be_held_out() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let lines = |line: fn(u32) -> String| (0..20).map(line).collect::<String>();
    let data = lines(|i| format!("{{\"text\":\"note {i} of code q{i}z\"}}\n"));
    std::fs::write(at.join("data.jsonl"), data).unwrap();
    let list = lines(|i| format!("q{i}z\n")) + "elsewhere\n";
    std::fs::write(at.join("list.txt"), list).unwrap();
    ok(
        at,
        "prepare data.jsonl --unit document --policy nothing --no-redaction --held-out 0.2 --seed 0 --out prepared",
    );
    let line = "incidence prepared --list list.txt --out pairs.csv --force";
    let said = json(at, line);
    assert_eq!(
        (&said["not_found"], &said["only_held_out"]),
        (&5.into(), &4.into())
    );
    let text = ok(at, line);
    let text = flat(&text);
    let why = "5 of --list occur in no document that is read as they are spelled there, not even inside a longer word, \
               4 of them in held-out text alone; no promise covers them.";
    assert!(text.contains(why), "{text}");
}

#[test]
fn incidences_come_from_lists_fields_and_words_too() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let notes = "{\"id\":\"a\",\"text\":\"the cat and +1, the dog\",\"author\":\"Ada\"}\n{\"id\":\"b\",\"text\":\"the cat\",\"author\":[\"Bob\",\"Ada\"]}\n{\"id\":\"c\",\"text\":\"a bird\"}\n";
    std::fs::write(at.join("notes.jsonl"), notes).unwrap();
    std::fs::write(at.join("list.txt"), "cat\n+1\n").unwrap();
    let pairs = |how: &str| {
        ok(
            at,
            &format!("incidence notes.jsonl --unit document {how} --out pairs.csv --force"),
        );
        std::fs::read_to_string(at.join("pairs.csv")).unwrap()
    };
    assert_eq!(
        pairs("--field author --show-secrets"),
        "example,secret\na,Ada\nb,Ada\nb,Bob\nc,\n"
    );
    // One author in three spellings, as account protect counts them: the first is written.
    let csv = "id,text,author\na,x,Ada \nb,x,ada\nc,x,Ada\n";
    std::fs::write(at.join("authors.csv"), csv).unwrap();
    let authors = [("a", "Ada "), ("b", "ada"), ("c", "Ada")]
        .map(|(id, who)| format!("{{\"id\":\"{id}\",\"text\":\"x\",\"author\":\"{who}\"}}\n"));
    std::fs::write(at.join("authors.jsonl"), authors.concat()).unwrap();
    for ending in ["csv", "jsonl"] {
        let line = format!(
            "incidence authors.{ending} --unit document --field author --show-secrets --out w.csv --force"
        );
        let said = json(at, &line);
        assert_eq!(
            (&said["distinct"], &said["most_records"]),
            (&1.into(), &3.into())
        );
        let written = std::fs::read_to_string(at.join("w.csv")).unwrap();
        assert_eq!(written, "example,secret\na,Ada \nb,Ada \nc,Ada \n");
    }
    // What a policy finds, too; one record with two spellings is one record.
    let mail = [
        "to Ada@x.org or ada@x.org now",
        "to ADA@x.org now",
        "call 415-555-0123 now",
        "call (415) 555-0123 please",
    ];
    std::fs::write(at.join("mail.txt"), mail.join("\n\n")).unwrap();
    let line = "incidence mail.txt --unit document --policy detectors --out m.csv";
    let said = json(at, line);
    let counts = ["distinct", "pairs", "most_records"].map(|count| said[count].as_u64().unwrap());
    assert_eq!(counts, [2, 4, 2]);
    let said = ok(at, &format!("{line} --force"));
    let said = flat(&said);
    assert!(said.contains("are one secret"), "{said}");
    assert_eq!(
        pairs("--list list.txt"),
        "example,secret\na,secret-2\na,secret-1\nb,secret-1\nc,\n"
    );
    assert_eq!(
        pairs("--list list.txt --show-secrets"),
        "example,secret\na,+1\na,cat\nb,cat\nc,\n"
    );
    // Inside longer words and numbers too, which is said; nothing that was counted is "in no record".
    std::fs::write(at.join("parts.txt"), "王小明\nbirds\ncat\n41111111\n").unwrap();
    let parts = "{\"id\":\"a\",\"text\":\"您好，我叫王小明，账号1。\"}\n{\"id\":\"b\",\"text\":\"concatenated\"}\n{\"id\":\"c\",\"text\":\"4111 1111\"}\n";
    std::fs::write(at.join("parts.jsonl"), parts).unwrap();
    let line = "incidence parts.jsonl --unit document --list parts.txt --out parts.csv --force";
    let said = json(at, line);
    assert_eq!(
        (
            &said["pairs"],
            &said["records_with_inside"],
            &said["not_found"]
        ),
        (&3.into(), &1.into(), &1.into())
    );
    let said = ok(at, line);
    assert!(
        said.contains("in 1 document, one stands only inside"),
        "{said}"
    );
    std::fs::write(at.join("parts.txt"), "王小明\n").unwrap();
    assert!(!ok(at, line).contains("in no record"));
    // The three most frequent: cat and the in two, then 1 by the alphabet.
    assert_eq!(
        pairs("--words 2-3 --show-secrets"),
        "example,secret\na,1\na,the\nb,the\nc,\n"
    );
    let said = refused(at, "incidence notes.jsonl --words 3-2 --out x.csv");
    assert!(
        said.contains("--words") && said.contains("two ranks"),
        "{said}"
    );
    let said = refused(at, "incidence notes.jsonl --out x.csv");
    assert!(said.contains("--policy"), "{said}");
    let said = refused(at, "incidence - --policy detectors --out x.csv");
    assert!(said.contains("stdin (-), a pipe or a device"), "{said}");
    #[cfg(unix)]
    for how in ["--policy detectors", "--words 1-2"] {
        let said = refused(at, &format!("incidence /dev/null {how} --out x.csv"));
        assert!(said.contains("can be read only once"), "{said}");
    }
    // Nothing that was read is no answer.
    std::fs::write(at.join("blank.txt"), "\n\n").unwrap();
    let said = refused(at, "incidence blank.txt --list list.txt --out x.csv");
    assert!(said.contains("empty corpus"), "{said}");
    assert!(!at.join("x.csv").exists());
    let said = refused(at, "incidence notes.jsonl --field author --out x.txt");
    assert!(
        said.contains("must end in .csv, .jsonl or .parquet"),
        "{said}"
    );
}

/// No command takes the mask of a prepared line for a secret, a word or literal text.
#[test]
fn masks_of_a_prepared_corpus_are_no_text() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let data = "{\"id\":\"a\",\"text\":\"call 415-555-0123 of zork\"}\n";
    std::fs::write(at.join("data.jsonl"), data).unwrap();
    let how = "--policy detectors --unit document --held-out 0 --tokenizer bytes";
    ok(at, &format!("prepare data.jsonl {how} --out p"));
    let rules = r#"[{"kind":"word","pattern":"MASK|zork"}]"#;
    std::fs::write(at.join("word.json"), rules).unwrap();
    std::fs::write(at.join("list.txt"), "MASK\nzork\n").unwrap();
    for how in ["--policy word.json", "--list list.txt", "--words 1-9"] {
        let line = format!("incidence p {how} --show-secrets --out x.csv --force");
        ok(at, &line);
        let pairs = std::fs::read_to_string(at.join("x.csv")).unwrap();
        assert!(
            pairs.contains(",zork") && !pairs.to_lowercase().contains("mask"),
            "{how}: {pairs}"
        );
    }
    let line = "policy p/train.jsonl --unit document --policy word.json";
    assert_eq!(json(at, line)["found"]["word"]["spans"], 1);
    let line = "redact p/train.jsonl --unit document --policy nothing --out again.jsonl";
    ok(at, line);
    let again = std::fs::read_to_string(at.join("again.jsonl")).unwrap();
    assert!(again.contains("call <MASK> of zork"), "{again}");
}

/// Nothing that is read, and nothing that is there, is written over unasked.
#[test]
fn an_incidence_takes_a_free_name() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let data = "{\"id\":\"a\",\"text\":\"the cat\"}\n";
    std::fs::write(at.join("data.jsonl"), data).unwrap();
    std::fs::write(at.join("list.csv"), "cat\n").unwrap();
    std::fs::write(at.join("old.csv"), "old").unwrap();
    std::fs::hard_link(at.join("data.jsonl"), at.join("same.jsonl")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("old.csv", at.join("link.csv")).unwrap();
    let line = |out: &str| format!("incidence data.jsonl --list list.csv --out {out}");
    for (out, words) in [
        ("data.jsonl", "the file is that of DATA, which is read"),
        ("same.jsonl", "it is one of the files that are read"),
        ("list.csv", "the file is that of --list, which is read"),
    ] {
        let said = refused(at, &line(&format!("{out} --force")));
        assert!(said.contains("--out: ") && said.contains(words), "{said}");
    }
    #[cfg(unix)]
    {
        let said = refused(at, &line("link.csv --force"));
        assert!(said.contains("it is a link"), "{said}");
    }
    let said = refused(at, &line("old.csv"));
    assert!(said.contains("--force to replace it"), "{said}");
    let text = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    assert_eq!((&*text("data.jsonl"), &*text("old.csv")), (data, "old"));
    assert_eq!(text("list.csv"), "cat\n");
    ok(at, &line("old.csv --force"));
    assert_eq!(text("old.csv"), "example,secret\na#0,secret-1\n");
    // A vocabulary is as careful.
    let line = "tokenizer data.jsonl --size 300 --declared-public --out data.jsonl --force";
    let said = refused(at, line);
    assert!(
        said.contains("the file is that of DATA, which is read"),
        "{said}"
    );
    assert_eq!(text("data.jsonl"), data);
}

/// What `--max-tokens` cuts is said, and nothing where nothing is cut.
#[test]
fn a_preparation_says_how_much_it_cuts() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let long = "the cat sat on the mat ".repeat(9);
    std::fs::write(at.join("data.txt"), format!("a\n\nb\n\n{long}\n")).unwrap();
    let said = |most: u64| {
        let how = "--policy nothing --unit document --held-out 0";
        ok(
            at,
            &format!("prepare data.txt {how} --max-tokens {most} --out p{most}"),
        )
    };
    let cut = said(50);
    let words = "1 of 3 documents is longer than 50 tokens and is cut";
    assert!(cut.contains(words), "{cut}");
    assert!(!said(5000).contains("tokens and"));
}

/// A record that was not examined is masked whole, except where nothing is masked.
#[test]
fn a_preparation_says_what_becomes_of_records_that_were_not_examined() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    std::fs::write(at.join("data.txt"), "slow ada\n\nhere eve\n").unwrap();
    // As if the policy ran out of time.
    let rules = r#"[{"kind":"not-examined","pattern":"^slow.*$"}]"#;
    std::fs::write(at.join("slow.json"), rules).unwrap();
    for (out, more, words) in [
        ("p", "", "1 record was masked whole, since"),
        (
            "raw",
            "--no-redaction",
            "1 record was taken for secret as a whole, since",
        ),
    ] {
        let how = "--policy slow.json --unit turn --held-out 0";
        let said = ok(at, &format!("prepare data.txt {how} {more} --out {out}"));
        let flat = flat(&said);
        assert!(flat.contains(words), "{said}");
    }
}

/// What a policy misses in text that stays as it is is counted by occurrences, the secrets by their contents.
#[test]
fn a_preparation_without_redaction_counts_occurrences() {
    let home = simulated();
    let at = home.path();
    let line = "prepare data.jsonl --policy gold --no-redaction --no-deduplication --seed 1";
    let said = ok(at, &format!("{line} --miss-rate 0.5 --out missed"));
    let facts = json(at, &format!("{line} --miss-rate 0.5 --out again"));
    let occurrences = facts["facts"]["uncaught"].as_u64().unwrap();
    let secrets = facts["facts"]["secrets"]["all"]["distinct"].clone();
    let words = format!(
        "none (--no-redaction); {occurrences} occurrences of {secrets} marked secrets are not found in full"
    );
    assert!(flat(&said).contains(&words), "{said}");
    // Planted canaries are among the occurrences, and not among the secrets.
    let said = ok(at, &format!("{line} --canaries 2x3 --out planted"));
    let words =
        format!("6 occurrences of {secrets} marked secrets and of planted canaries are not found");
    assert!(flat(&said).contains(&words), "{said}");
    let train = "train missed --recipe jft --sigma 1 --epochs 1 --sample-rate 0.1 --out c";
    let error = refused(at, &format!("{train} --assume caught"));
    assert!(
        error.contains(&format!("{occurrences} occurrences of marked secrets")),
        "{error}"
    );
}

/// Without marks, redaction and --conservative: neither traces after masking nor an empty column is spoken of.
#[test]
fn unmarked_text_that_is_not_redacted_is_described_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let text: String = (0..5)
        .map(|i| format!("{{\"id\": \"d{i}\", \"text\": \"note {i}: ask ada@example.org\"}}\n"))
        .collect();
    std::fs::write(at.join("notes.jsonl"), text).unwrap();
    let line = "prepare notes.jsonl --policy detectors --no-redaction --held-out 0 --out plain";
    let said = ok(at, line);
    let said = flat(&said);
    for part in [
        "redaction: none (--no-redaction); 1 distinct secret found; what the policy does not find",
        "(of which 0 are only <MASK>); without --conservative (such as digits,capitals,names) every record is private",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let said = ok(at, "prepare notes.jsonl --policy nothing --out bare");
    assert!(
        said.contains("no secret found") && !said.contains("none of them"),
        "{said}"
    );
    let said = ok(at, "policy notes.jsonl --policy detectors");
    assert!(
        said.contains("records") && !said.contains("precision"),
        "{said}"
    );
}

/// Every recipe's document, with what only some of them have: estimates, dropout, held-out text.
#[test]
fn what_training_says_fits_its_schema() {
    let home = simulated();
    let home = home.path();
    json(
        home,
        "prepare data.jsonl --policy gold --max-tokens 48 --out p",
    );
    json(
        home,
        "prepare data.jsonl --policy gold --no-redaction --max-tokens 48 --out raw",
    );
    let train = |line: &str| {
        json(
            home,
            &format!("train {line} --epochs 1 --out c{}", line.len()),
        )
    };
    let sgd = train("p --recipe sgd --dropout 0.1 --held-out p");
    assert!(sgd["dropout"].is_object() && sgd["held_out_perplexity"].is_array());
    assert_eq!(sgd["mechanism"]["type"], "non-private");
    let assumed = |said: &Value| said["inputs"]["assumed"].clone();
    assert_eq!(
        assumed(&sgd),
        serde_json::json!(["delta", "ordinary_batch_size", "learning_rate"])
    );
    // In text the answer and its caveats come first.
    let said = ok(
        home,
        "train p --recipe crt --sigma 1 --epochs 1 --out brief",
    );
    assert!(said.lines().count() <= 22, "{said}");
    assert!(
        said.starts_with("brief: trained by crt, delta 1e-6\n"),
        "{said}"
    );
    for left in ["Private steps", "Defaults: "] {
        assert!(!said.contains(left), "{said}");
    }
    assert!(said.contains("about this run; "), "{said}");
    let dpsgd = train("p --recipe dpsgd --epsilon 3 --delta 1e-5 --private-optimizer adam");
    let left = serde_json::json!(["sampler", "sample_rate", "clip", "private_learning_rate"]);
    assert_eq!(assumed(&dpsgd), left);
    train("raw --recipe sdp --sigma 2 --state-sigma 5");
    let light = "--first-phase light-noise --first-sigma 0.8 --token-miss 0.01,0.1";
    let jft = train(&format!("raw --recipe jft --sigma 1 {light}"));
    let left = assumed(&jft);
    let left = left.as_array().unwrap();
    assert!(jft["inputs"].get("batch_size").is_none() && left.contains(&"delta".into()));
    assert_eq!(jft["estimates"].as_array().unwrap().len(), 2);
}

/// All records of a user are one unit, from the text to the guarantee of the run; who asks for it says whose a record is.
#[test]
fn a_user_is_the_unit_from_the_text_to_the_guarantee() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let mut lines = String::new();
    for number in 0..90 {
        let user = number % 30;
        let line = serde_json::json!({
            "id": number, "who": format!("u{user}"), "text": format!("Note {number} of user {user}: call 415-555-01{user:02}."),
        });
        lines += &format!("{line}\n");
    }
    std::fs::write(at.join("data.jsonl"), lines).unwrap();
    let how = "data.jsonl --policy detectors --held-out 0.2 --unit user --user-field who";
    let prepared = json(at, &format!("prepare {how} --out p"));
    let facts = &prepared["facts"];
    assert_eq!(facts["unit"], "user");
    let counts =
        ["documents", "held_out_documents", "units"].map(|key| facts[key].as_u64().unwrap());
    assert_eq!(counts, [24, 6, 24]);
    // Three records of a user hold its number: one unit does.
    assert_eq!(facts["secrets"]["all"]["distinct"], 24);
    assert_eq!(facts["secrets"]["all"]["occurrences"], 72);
    let train = "train p --recipe dpsgd --sigma 1 --delta 1e-5 --epochs 1 --out c";
    let run = json(at, train);
    assert!(run.to_string().contains("user"), "{run}");
    let manifest = std::fs::read_to_string(at.join("c/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["unit"], "user");
    // Without one of the users others would be held out.
    let chosen = "the choice of records: ";
    assert!(manifest["not_covered"].to_string().contains(chosen));
    for (share, draws) in [("0.2", true), ("0", false)] {
        let how = how.replace("0.2", share);
        let page = ok(at, &format!("prepare {how} --out draws-{share} -v"));
        assert_eq!(page.contains(chosen), draws, "{page}");
    }
    let neighbours = json(at, &format!("neighbours {how} --all"));
    assert_eq!(
        (
            neighbours["missed"].as_u64(),
            neighbours["distinct"].as_u64()
        ),
        (Some(0), Some(24))
    );

    let said = refused(at, "prepare data.jsonl --unit user --out q");
    assert!(
        said.contains("--unit user") && said.contains("--user-field"),
        "{said}"
    );
    let said = refused(at, "prepare data.jsonl --user-field who --out q");
    assert!(
        said.contains("--user-field") && said.contains("turn"),
        "{said}"
    );
    let said = refused(
        at,
        "prepare data.jsonl --unit user --user-field nobody --out q",
    );
    assert!(
        said.contains("`nobody`") && said.contains("line 1"),
        "{said}"
    );
    let said = refused(at, "redact data.jsonl --unit user --out q.jsonl");
    assert!(
        said.contains("turn, sentence, dialogue, document"),
        "{said}"
    );
}
