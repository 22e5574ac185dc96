//! `audit policy` and `audit screen` from outside, and what `account --labels` makes of it.
#![cfg(feature = "findings")]
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use crate::common::audit::fed as audit;
use crate::common::{account, checked, flat, stderr};
use serde_json::{Value, json};
use std::process::Output;

fn json_of(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    checked(serde_json::from_slice(&output.stdout).unwrap())
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    stderr(output)
}

/// Drawn, labelled in a text editor, measured, and read by `account`: each with the same counts.
#[test]
fn a_sheet_goes_round_by_file_and_its_labels_are_read_by_account() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text: String = (0..60)
        .map(|i| {
            format!(
                "{}\n",
                json!({"id": format!("d{i}"), "text": format!("order {i:04} for Ada")})
            )
        })
        .collect();
    std::fs::write(here.join("data.jsonl"), text).unwrap();
    std::fs::write(
        here.join("policy.json"),
        r#"[{"kind":"order","pattern":"[0-9]*[1-9]"}]"#,
    )
    .unwrap();
    let screen = "screen data.jsonl --unit document --policy policy.json --conservative digits --format json";
    let low = refused(&audit(here, &format!("{screen} --confidence 0.7"), ""));
    assert!(
        low.contains("--confidence") && low.contains("[0.75, 1)"),
        "{low}"
    );
    let drawn = json_of(&audit(here, &format!("{screen} --sample 40 --seed 3"), ""));
    assert_eq!(
        (&drawn["type"], &drawn["open"]),
        (&json!("screening-open"), &json!(40))
    );
    let early = refused(&audit(here, &format!("{screen} --labels labels.jsonl"), ""));
    assert!(
        early.contains("40 of 40 records") && early.contains("the sheet is kept: --label"),
        "{early}"
    );
    assert!(!here.join("labels.jsonl").exists());
    // Every number is a secret; the policy leaves the noughts at the end of some.
    let sheet = std::fs::read_to_string(here.join("screening.jsonl")).unwrap();
    let mut missed = 0;
    let mut labelled = String::new();
    for (number, line) in sheet.lines().enumerate() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if number > 0 {
            missed += u64::from(line["text"].as_str().unwrap()[6..10].ends_with('0'));
            line["secrets"] = json!([{"start": 6, "end": 10, "kind": "order"}]);
        }
        labelled.push_str(&format!("{line}\n"));
    }
    assert!(missed > 0);
    std::fs::write(here.join("screening.jsonl"), &labelled).unwrap();
    let measured = json_of(&audit(here, &format!("{screen} --labels labels.jsonl"), ""));
    assert_eq!(
        (
            &measured["sample"],
            &measured["with_secrets"],
            &measured["missed"]
        ),
        (&json!(40), &json!(40), &json!(missed))
    );
    assert_eq!(measured["kinds"]["order"]["missed_by_both"], 0);
    let plan = "--sigma 1 --sample-rate 0.01 --steps 100 --labels labels.jsonl";
    let brief = account::run(here, plan).stdout;
    let brief = String::from_utf8(brief).unwrap();
    assert!(brief.contains("ε upper"), "{brief}");
    // What the labels show, and what was assumed, are not cut.
    for said in ["labelled secrets were missed", "Defaults: "] {
        assert!(brief.contains(said), "{said}\n{brief}");
    }
    let sheet = plan.replace("labels.jsonl", "screening.jsonl");
    let sheet = refused(&account::run(here, &sheet));
    assert!(sheet.contains("a screening sheet, not labels"), "{sheet}");
    let full = format!("{plan} -v");
    let page = account::run(here, &full).stdout;
    let page = String::from_utf8(page).unwrap();
    let page = flat(&page);
    assert!(page.contains("was drawn with a given seed, 3"), "{page}");
    assert!(
        page.contains("Their file has no code under the owner's key"),
        "{page}"
    );
    let plan = format!("{plan} --format json");
    let account = json_of(&account::run(here, &plan));
    assert!(
        account
            .to_string()
            .contains(&measured["rates"]["gamma"].to_string())
    );
    // A record that is taken out, or a policy that is changed after the labels, is seen.
    let shorter: String = labelled
        .lines()
        .take(40)
        .map(|l| format!("{l}\n"))
        .collect();
    std::fs::write(here.join("screening.jsonl"), shorter).unwrap();
    assert!(refused(&audit(here, screen, "")).contains("gaps"));
    std::fs::write(here.join("screening.jsonl"), &labelled).unwrap();
    std::fs::write(
        here.join("policy.json"),
        r#"[{"kind":"order","pattern":"[0-9]+"}]"#,
    )
    .unwrap();
    assert!(refused(&audit(here, screen, "")).contains("another policy"));
}

/// The terminal's answers are kept one by one, so that a second call goes on.
#[test]
fn labelling_in_the_terminal_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(
        here.join("data.txt"),
        "Ada was here\n\nnobody was there\n\nand Ada again\n",
    )
    .unwrap();
    let line =
        "screen data.txt --policy names --sample 3 --seed 0 --label --labels l.jsonl --format json";
    let first = json_of(&audit(here, line, "none\n"));
    assert_eq!(first["open"], 2);
    assert!(!here.join("l.jsonl").exists());
    let done = json_of(&audit(
        here,
        &line.replace(" --sample 3", ""),
        "none\nname: was\n\n",
    ));
    assert_eq!(
        (&done["type"], &done["sample"]),
        (&json!("screening"), &json!(3))
    );
    assert!(here.join("l.jsonl").exists());
}

/// A sample without a secret has no label: a file without one was advised for `account --labels`, which refuses it.
#[test]
fn a_sample_without_a_secret_makes_no_labels() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("data.txt"), "nobody\n\nnothing\n").unwrap();
    let line = "screen data.txt --policy names --sample 2 --seed 0 --label --labels l.jsonl";
    let said = refused(&audit(here, line, "none\nnone\n"));
    assert!(said.contains("--labels: no record of the sample"), "{said}");
    assert!(!here.join("l.jsonl").exists());
    // What was answered is kept, and the rest of the answer is there without the file.
    let line = "screen data.txt --policy names --format json";
    assert_eq!(json_of(&audit(here, line, ""))["with_secrets"], json!(0));
}

#[test]
fn screened_records_for_jft_are_all_that_were_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    json_of(&audit(
        here,
        "simulate customers --dialogues 20 --seed 1 --out data.jsonl --format json",
        "",
    ));
    // Every dialogue has a secret: whichever are drawn, the policy misses some.
    let screen = "screen data.jsonl --unit dialogue --jft --marked --format json";
    let line = &format!("{screen} --policy nothing --screened ids.txt");
    let problem = refused(&audit(here, line, ""));
    assert!(
        problem.contains("--mended") && problem.contains("with the same number"),
        "{problem}"
    );
    let done = json_of(&audit(here, &format!("{line} --mended mended.json"), ""));
    assert_eq!(
        done["missing_rate"]["samples"].as_array().unwrap().len(),
        10
    );
    let ids = std::fs::read_to_string(here.join("ids.txt")).unwrap();
    assert_eq!(ids.lines().count(), 10);
    // The mended policy misses nothing of this sample: another one is drawn, with no seed that draws this one again.
    let again = &format!("{screen} --policy mended.json --sheet second.jsonl");
    let said = refused(&audit(here, &format!("{again} --seed 0"), ""));
    assert!(
        said.contains("--seed") && said.contains("omit --seed"),
        "{said}"
    );
    assert!(!here.join("second.jsonl").exists());
    let seed = |measured: &Value| measured["inputs"]["seed"].as_u64().unwrap();
    let second = json_of(&audit(here, again, ""));
    assert_eq!(second["inputs"]["seed_origin"], "system");
    assert_ne!(seed(&second), seed(&done));
    assert_eq!(seed(&json_of(&audit(here, again, ""))), seed(&second));
    let policy = json_of(&audit(
        here,
        "policy data.jsonl --policy customers --format json",
        "",
    ));
    assert_eq!(policy["marked"]["phone"]["gamma"], 0.0);
}

/// The input, files that are there and what links lead to stay as they are; the sheet is the one file that is
/// written again.
#[test]
fn a_screening_writes_over_nothing_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let data = format!(
        "{}\n",
        json!({"id": "a", "text": "see found-1", "secrets": [{"start": 4, "end": 11, "kind": "code"}]})
    );
    std::fs::write(here.join("data.jsonl"), &data).unwrap();
    let rules = "[{\"kind\":\"code\",\"pattern\":\"found-[0-9]+\"}]";
    std::fs::write(here.join("rules.json"), rules).unwrap();
    std::fs::write(here.join("old"), "old").unwrap();
    let line = "screen data.jsonl --policy rules.json --sample 1 --marked";
    for flag in ["--labels", "--screened", "--mended"] {
        for (out, words) in [
            ("old", "--force to replace it"),
            ("data.jsonl --force", "one of the files that are read"),
            ("rules.json --force", "one of the files that are read"),
            ("screening.jsonl --force", "the file of another option"),
        ] {
            let said = refused(&audit(here, &format!("{line} {flag} {out}"), ""));
            assert!(said.contains(flag) && said.contains(words), "{said}");
        }
    }
    let said = refused(&audit(here, &format!("{line} --labels l --mended l"), ""));
    assert!(
        said.contains("--mended: l is the file of another"),
        "{said}"
    );
    assert!(!here.join("screening.jsonl").exists() && !here.join("l").exists());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("old", here.join("link")).unwrap();
        let said = refused(&audit(here, &format!("{line} --labels link --force"), ""));
        assert!(said.contains("it is a link"), "{said}");
        // A sheet that is asked for by a link is not written through it.
        json_of(&audit(
            here,
            &format!("{line} --sheet real --format json").replace(" --marked", ""),
            "",
        ));
        let drawn = std::fs::read(here.join("real")).unwrap();
        std::os::unix::fs::symlink("real", here.join("sheet")).unwrap();
        let said = refused(&audit(here, &format!("{line} --sheet sheet"), ""));
        assert!(
            said.contains("--sheet") && said.contains("it is a link"),
            "{said}"
        );
        assert_eq!(std::fs::read(here.join("real")).unwrap(), drawn);
    }
    let text = |name: &str| std::fs::read_to_string(here.join(name)).unwrap();
    assert_eq!((text("data.jsonl"), &*text("old")), (data, "old"));
    assert_eq!(text("rules.json"), rules);
    let done = format!("{line} --screened old --force --format json");
    json_of(&audit(here, &done, ""));
    assert_eq!(text("old"), "a:0\n");
}

/// Exact duplicates are left out as preparation leaves them out, and a secret counts once however many records it stands
/// in: ten of these eleven are missed.
#[test]
fn a_secret_of_many_records_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let line = |id: String, text: &str, start: usize| {
        let secrets = json!([{"start": start, "end": text.len(), "kind": "code"}]);
        format!("{}\n", json!({"id": id, "text": text, "secrets": secrets}))
    };
    let mut data = String::new();
    for i in 0..30 {
        data += &line(format!("same{i}"), "call me on 995-992-2045", 11);
        let other = format!("call {i} me on 995-992-2045");
        data += &line(format!("other{i}"), &other, other.len() - 12);
    }
    for i in 0..10 {
        data += &line(format!("missed{i}"), &format!("see hidden-{i:03}"), 4);
    }
    std::fs::write(here.join("data.jsonl"), data).unwrap();
    std::fs::write(
        here.join("rules.json"),
        r#"[{"kind":"code","pattern":"995-992-2045"}]"#,
    )
    .unwrap();
    let line = "screen data.jsonl --unit document --policy rules.json --sample 41 --marked --labels l --format json";
    let said = json_of(&audit(here, line, ""));
    assert_eq!(
        (&said["inputs"]["records"], &said["inputs"]["duplicates"]),
        (&json!(41), &json!(29))
    );
    assert_eq!(
        (&said["with_secrets"], &said["missed"]),
        (&json!(41), &json!(10))
    );
    assert_eq!(
        (&said["bringing"], &said["bringing_missed"]),
        (&json!(11), &json!(10))
    );
    let labels = std::fs::read_to_string(here.join("l")).unwrap();
    assert_eq!(labels.lines().count(), 11);
    assert!(!labels.contains("995") && !labels.contains("hidden"));
}

/// A secret that is covered is missed where its absence shows; both commands count it alike and say why.
#[test]
fn policy_and_screen_use_the_same_words() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    let record = |i: u32| {
        let text =
            format!("Please send the invoice to user{i}@example.com. The card ends with 45820{i}.");
        let secrets = json!([{"start": 27, "end": 46, "kind": "email"}]);
        format!(
            "{}\n",
            json!({"id": i.to_string(), "text": text, "secrets": secrets})
        )
    };
    std::fs::write(
        here.join("d.jsonl"),
        (600..610).map(record).collect::<String>(),
    )
    .unwrap();
    let policy = "policy d.jsonl --unit document --policy general";
    let screen = "screen d.jsonl --unit document --policy general --marked --sample 10";
    let one = &json_of(&audit(here, &format!("{policy} --format json"), ""))["marked"]["email"];
    let other = &json_of(&audit(here, &format!("{screen} --format json"), ""))["kinds"]["email"];
    assert_eq!((&one["covered"], &one["caught"]), (&json!(10), &json!(0)));
    for name in ["secrets", "covered", "recall", "caught", "nothing_left"] {
        assert_eq!(one[name], other[name], "{name}");
    }
    for line in [policy, screen] {
        let output = audit(here, &format!("{line} -v"), "");
        let said = String::from_utf8(output.stdout).unwrap();
        let said = flat(&said);
        for word in [
            "covered",
            "recall",
            "nothing left",
            "A covered secret still counts as missed",
        ] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}

/// The rates of one policy say nothing of a corpus that another one prepared.
#[test]
fn labels_fit_the_policy_that_they_were_measured_for() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    let record = |i: u32| {
        let secret = r#""secrets":[{"start":5,"end":13,"kind":"phone"}]"#;
        format!("{{\"id\":\"{i}\",\"text\":\"call 555-{i:04}\",{secret}}}\n")
    };
    std::fs::write(
        here.join("data.jsonl"),
        (0..60).map(record).collect::<String>(),
    )
    .unwrap();
    let words = r#"{"type":"dictionary","kind":"phone","words":["555-0001"]}"#;
    std::fs::write(here.join("words.json"), words).unwrap();
    let how = "data.jsonl --unit document";
    let label = |policy: &str| {
        let line = format!(
            "screen {how} --policy {policy} --sample 40 --marked --sheet {policy}.s --labels {policy}.l --format json"
        );
        json_of(&audit(here, &line, ""));
        std::fs::read_to_string(here.join(format!("{policy}.l"))).unwrap()
    };
    let labels = label("general");
    let said: Value = serde_json::from_str(labels.lines().next().unwrap()).unwrap();
    let measured = &said["measured_for"];
    assert_eq!(
        (&measured["policy"], &measured["unit"]),
        (&json!("general"), &json!("document"))
    );
    assert!(measured["digest"].as_str().unwrap().starts_with("sha256:"));
    assert!(label("words.json").contains("\"digest\":\"hmac:"));
    for (folder, policy) in [
        ("nothing", "nothing"),
        ("good", "general"),
        ("words", "words.json"),
    ] {
        let line = format!(
            "prepare {how} --policy {policy} --tokenizer characters --out {folder} --format json"
        );
        let output = audit(here, &line, "");
        assert_eq!(output.status.code(), Some(0));
    }
    let account = |folder: &str, labels: &str| {
        let line = format!(
            "--prepared {folder} --recipe dpsgd --sigma 1.5 --sample-rate 0.1 --steps 20 --labels {labels}"
        );
        account::run(here, &line)
    };
    let why = refused(&account("nothing", "general.l"));
    assert!(
        why.contains("--labels: the labels were measured for the policy general (sha256:")
            && why.contains("the corpus was prepared with nothing (sha256:"),
        "{why}"
    );
    assert!(refused(&account("words", "general.l")).contains("dictionary (hmac:"));
    // The marks that nothing was done about forbid other rates than those counted; the policy fits.
    for (folder, labels) in [("good", "general.l"), ("words", "words.json.l")] {
        let output = account(folder, labels);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("measured for the policy"), "{said}");
    }
    let unsaid: String = labels
        .lines()
        .map(|line| {
            let mut label: Value = serde_json::from_str(line).unwrap();
            label.as_object_mut().unwrap().remove("measured_for");
            format!("{label}\n")
        })
        .collect();
    std::fs::write(here.join("unsaid.l"), &unsaid).unwrap();
    let plan = "--sigma 1 --sample-rate 0.01 --steps 100 --labels";
    let said = |labels: &str| {
        let output = account::run(here, &format!("{plan} {labels} -v"));
        let text = String::from_utf8(output.stdout).unwrap();
        flat(&text)
    };
    let note = "The labels do not say which policy they were measured for";
    assert!(said("unsaid.l").contains(note) && !said("general.l").contains(note));
    std::fs::write(here.join("twice.l"), labels.repeat(2)).unwrap();
    let line = format!("{plan} twice.l --group 2");
    let output = account::run(here, &line);
    assert!(refused(&output).contains("two labels of one secret in one place"));
    // No corpus is there to be compared: that it was prepared with their policy is assumed.
    let assumed = "Premise: the corpus is prepared with the policy that the labels were measured for, general.";
    assert!(said("general.l").contains(assumed) && !said("unsaid.l").contains(assumed));
    std::fs::write(here.join("both.l"), format!("{labels}{unsaid}")).unwrap();
    let output = account::run(here, &format!("{plan} both.l"));
    assert!(refused(&output).contains("labels with different measured_for"));
    // The records of a prepared corpus are what they were prepared as: labels of its turns are none of documents.
    let turns = "prepare data.jsonl --unit turn --policy general --tokenizer characters --no-redaction --out turns";
    assert_eq!(audit(here, turns, "").status.code(), Some(0));
    // A part of a record shows less than the record.
    let parts = audit(
        here,
        "screen turns/train.jsonl --policy general --sheet turns.s",
        "",
    );
    let why = refused(&parts);
    assert!(
        why.contains("--unit: must be document with DATA in a prepared folder"),
        "{why}"
    );
    assert!(!here.join("turns.s").exists());
    let screen =
        "screen turns/train.jsonl --unit document --policy general --sheet turns.s --format json";
    json_of(&audit(here, &format!("{screen} --sample 40"), ""));
    let sheet = std::fs::read_to_string(here.join("turns.s")).unwrap();
    let labelled = sheet.lines().enumerate().map(|(number, line)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if number > 0 {
            line["secrets"] = json!([{"start": 5, "end": 13, "kind": "phone"}]);
        }
        format!("{line}\n")
    });
    std::fs::write(here.join("turns.s"), labelled.collect::<String>()).unwrap();
    json_of(&audit(here, &format!("{screen} --labels turns.l"), ""));
    let labels = std::fs::read_to_string(here.join("turns.l")).unwrap();
    let label: Value = serde_json::from_str(labels.lines().next().unwrap()).unwrap();
    assert_eq!(label["measured_for"]["unit"], "turn");
    let why = refused(&account("good", "turns.l"));
    let words = "measured for the unit turn, the corpus was prepared with document";
    assert!(why.contains(words), "{why}");
}

/// A corpus without marks says nothing of what is missed: no sheet, no labels.
#[test]
fn marks_are_taken_only_from_marked_data() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("data.txt"), "Ada was here\n\nnobody was there\n").unwrap();
    let line = "screen data.txt --policy names --sample 2 --marked --labels l.jsonl";
    let said = refused(&audit(here, line, ""));
    assert!(
        said.contains("--marked: no secret is marked in DATA") && said.contains("prepared from"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(here).unwrap().count(), 1);
}

/// What an error advises is an option of the command.
#[test]
fn the_text_of_a_policy_or_a_screening_may_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("own.csv"), "body,x\nAda was here,1\n").unwrap();
    std::fs::write(here.join("own.jsonl"), "{\"body\":\"Ada was here\"}\n").unwrap();
    for command in ["policy", "screen"] {
        for data in ["own.csv", "own.jsonl"] {
            let line = format!("{command} {data} --policy names");
            let said = refused(&audit(here, &line, ""));
            assert!(said.contains("--text-field names"), "{said}");
            for field in ["--text-field", "--text-column"] {
                let sheet = match command {
                    "screen" => format!("--sample 1 --sheet {data}{field}"),
                    _ => String::new(),
                };
                let line = format!("{line} {field} body --format json {sheet}");
                json_of(&audit(here, line.trim(), ""));
            }
        }
    }
}

/// Of a folder, which file and line holds what must not be there.
#[test]
fn masked_spans_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let masked = json!({"id": "ada", "text": "a zork", "masked": [{"start": 2, "end": 6}]});
    std::fs::write(
        here.join("d.jsonl"),
        format!("{{\"text\":\"x\"}}\n{masked}\n"),
    )
    .unwrap();
    for line in [
        "policy d.jsonl",
        "screen d.jsonl --sample 1",
        "tokenizer d.jsonl --declared-public --size 300 --out t.json",
        "incidence d.jsonl --policy detectors --show-secrets --out i.csv",
        "incidence d.jsonl --words 1-1 --out i.csv",
    ] {
        let said = refused(&audit(here, line, ""));
        assert!(
            said.contains("DATA: d.jsonl, line 2: spans masked beforehand")
                && !said.contains("zork"),
            "{said}"
        );
    }
}
