//! The README's walkthrough for a model that others trained: a GPT-2 folder without a manifest, whose training text
//! repeats some of its lines, and a model whose context is shorter than the usual prompts and suffixes.
#![allow(clippy::unwrap_used, reason = "a failing test should panic")]

use reticent_proofs_tests::commands::{ok, refused, said};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Returns line `number` of ten made-up words, 59 characters long.
fn line(number: u64) -> String {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state >> 33) as u8 % 26)
    };
    let words: Vec<String> = (0..10)
        .map(|_| (0..5).map(|_| letter()).collect())
        .collect();
    words.join(" ")
}

fn write(at: &Path, name: &str, texts: impl Iterator<Item = String>) {
    let lines = texts
        .enumerate()
        .map(|(n, text)| format!("{{\"id\":\"{n}\",\"text\":\"{text}\"}}\n"));
    fs::write(at.join(name), lines.collect::<String>()).unwrap();
}

fn json(at: &Path, line: &str) -> Value {
    serde_json::from_str(&ok(at, &format!("{line} --format json"))).unwrap()
}

/// Returns the number of copies of a line: six lines occur twenty times in the text, six five times, the others once.
const fn copies(number: u64) -> usize {
    match number {
        0..6 => 20,
        6..12 => 5,
        _ => 1,
    }
}

#[test]
fn a_model_from_elsewhere_shows_what_its_text_repeats() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    write(
        at,
        "train.jsonl",
        (0..60).flat_map(|n| std::iter::repeat_n(line(n), copies(n))),
    );
    write(at, "held-out.jsonl", (1000..1060).map(line));
    ok(
        at,
        "prepare train.jsonl --policy nothing --no-deduplication --unit document --held-out 0 --out data",
    );
    // 24 passes through the text: enough for lines that occur five times in it, but not for those that occur once.
    for (out, epochs, context) in [("base", 1, 64), ("model", 24, 64), ("short", 1, 12)] {
        ok(
            at,
            &format!(
                "train data --recipe sgd --model gpt2 --layers 2 --width 64 --heads 4 --context {context} \
                 --epochs {epochs} --ordinary-batch-size 8 --learning-rate 0.001 --seed 1 --out {out}"
            ),
        );
        fs::remove_file(at.join(out).join("manifest.json")).unwrap();
    }

    let sides = "--members train.jsonl --non-members held-out.jsonl --reference base";
    let found = json(at, &format!("membership --model model {sides}"));
    let repeats = &found["repeats"]["members"];
    assert_eq!(
        (&repeats["records"], &repeats["texts"]),
        (&198.into(), &60.into())
    );
    let strata = found["copies"].as_array().unwrap();
    let members: Vec<&Value> = strata.iter().map(|s| &s["members"]).collect();
    assert_eq!(
        members,
        [48, 6, 6],
        "once, two to nine times, ten to 99 times"
    );
    assert!(found["area"]["lower"].as_f64().unwrap() > 0.5);
    assert_eq!(
        found["blind"]["shifted"], false,
        "repeated lines are no other kind of text"
    );

    let extracted = json(
        at,
        "extract --model model --data train.jsonl --baseline base",
    );
    assert_eq!(
        (&extracted["suffix"], &extracted["context"]),
        (&32.into(), &64.into())
    );
    let by_copies = |document: &Value| -> Vec<u64> {
        let longest = document["prompts"].as_array().unwrap().last().unwrap();
        assert_eq!(longest["prompt"], 25);
        let strata = longest["strata"].as_array().unwrap();
        let rates = strata.iter().map(|s| &s["beyond_baseline"]);
        rates.map(|rate| rate["hits"].as_u64().unwrap()).collect()
    };
    let hits = by_copies(&extracted);
    assert!(
        hits[0] <= 4 && hits[1] >= 4 && hits[2] == 6,
        "of 48, 6 and 6: {hits:?}"
    );
    let page = said(
        at,
        "extract --model model --data train.jsonl --baseline base",
    );
    assert!(page.contains("the model reads 64 tokens at once"), "{page}");

    let report = json(
        at,
        &format!("report --model model {sides} --training train.jsonl --html page.html"),
    );
    assert_eq!(by_copies(&report["extraction"]), hits);
    assert_eq!(
        report["membership"]["area"]["estimate"],
        found["area"]["estimate"]
    );
    let page = fs::read_to_string(at.join("page.html")).unwrap();
    assert!(page.contains("number of copies, in numbers"));

    // A context too short for any usual passage is not an error, but an explicit request beyond it is.
    let short = json(
        at,
        "report --model short --members train.jsonl --non-members held-out.jsonl",
    );
    let extraction = &short["extraction"];
    assert_eq!(
        (&extraction["suffix"], &extraction["context"]),
        (&6.into(), &12.into())
    );
    assert_eq!(extraction["prompts"][0]["prompt"], 5);
    for (options, words) in [
        ("--prompt 40", "--prompt: 40 tokens with a suffix of 32"),
        ("--suffix 63", "--suffix: 63 tokens"),
    ] {
        let line = format!("extract --model model --data train.jsonl {options}");
        refused(at, &line, &[words]);
    }
}
