//! Loss on the assistant's messages only, through the command.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use reticent_proofs_tests::commands::{ok, refused, said};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const PREPARE: &str = "prepare chats.jsonl --unit document --policy detectors --no-redaction --no-deduplication --seed 1 \
                       --chat-template chat.jinja";
const TINY: &str = "--model gpt2 --layers 1 --width 16 --heads 2 --context 48 --epochs 10 --seed 1 --optimizer adam --learning-rate 1e-2";

/// Creates chats with unpredictable questions and predictable answers: `chats.jsonl` and the template.
fn corpus() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let mut chats = String::new();
    for number in 0..60u64 {
        let question = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let user = format!(r#"{{"role":"user","content":"{question:016x}"}}"#);
        let answer = r#"{"role":"assistant","content":"yes"}"#;
        writeln!(chats, r#"{{"messages":[{user},{answer}]}}"#).unwrap();
    }
    std::fs::write(home.path().join("chats.jsonl"), chats).unwrap();
    let template = "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}\n\
                    {% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}";
    std::fs::write(home.path().join("chat.jinja"), template).unwrap();
    home
}

fn json(at: &Path, line: &str) -> Value {
    serde_json::from_str(&ok(at, &format!("{line} --format json"))).unwrap()
}

#[test]
fn answers_alone_are_learned_and_everything_says_so() {
    let home = corpus();
    let at = home.path();
    let page = said(at, &format!("{PREPARE} --loss-on assistant --out answers/"));
    assert!(page.contains("with loss, those of the assistant"), "{page}");
    ok(at, &format!("{PREPARE} --out whole/"));
    // Four tokens per answer (`yes` and its end), in 54 chats.
    let facts: Value =
        serde_json::from_str(&std::fs::read_to_string(at.join("answers/prepared.json")).unwrap())
            .unwrap();
    assert_eq!(facts["facts"]["loss_tokens"], 4 * 54);
    assert_eq!(facts["options"]["loss_on"], "assistant");
    let perplexity = |folder: &str, recipe: &str| {
        let line = format!("train {folder}/ --recipe {recipe} {TINY} --held-out {folder}");
        let trained = json(at, &format!("{line} --out {folder}-{}", &recipe[..3]));
        let each = trained["held_out_perplexity"].as_array().unwrap();
        (each[9].as_f64().unwrap(), trained)
    };
    let (answers, trained) = perplexity("answers", "sgd");
    let (whole, plain) = perplexity("whole", "sgd");
    // A question costs 4 bits a digit; an answer nothing.
    assert!(answers < 1.5 && whole > 4.0, "{answers} and {whole}");
    assert_eq!(trained["loss_on"], "assistant");
    assert!(plain.get("loss_on").is_none());
    let manifest = std::fs::read_to_string(at.join("answers-sgd/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["loss_on"], "assistant");
    // The loss does not change the guarantees.
    let private =
        "--sigma 1 --sample-rate 0.1 --private-optimizer adam --private-learning-rate 1e-2";
    for recipe in ["dpsgd", "crt", "jft"] {
        let first = if recipe == "jft" {
            "--first-epochs 1"
        } else {
            ""
        };
        let line = |folder: &str| {
            let tiny = TINY.replace("--optimizer adam --learning-rate 1e-2", "");
            format!(
                "train {folder}/ --recipe {recipe} {tiny} {private} {first} --out {folder}-{recipe}"
            )
        };
        let (answers, whole) = (json(at, &line("answers")), json(at, &line("whole")));
        assert_eq!(answers["guarantees"], whole["guarantees"], "{recipe}");
    }
    let page = said(
        at,
        "train answers/ --recipe dpsgd --sigma 1 --sample-rate 0.1 --epochs 1 --model whole-sgd/ --lora-rank 2 --out adapter",
    );
    assert!(
        page.contains("Loss is on the assistant's messages alone"),
        "{page}"
    );
    // Which ends a text has is said beside the base's tokenizer alone.
    ok(at, &format!("{PREPARE} --tokenizer bytes --out bytes/"));
    refused(
        at,
        "train bytes/ --recipe dpsgd --sigma 1 --sample-rate 0.1 --epochs 1 --model adapter/ --out again",
        &["has another tokenizer", "whole-sgd/tokenizer.json"],
    );
    // An audit scores whole texts, and says so.
    let found = json(
        at,
        "perplexity --model answers-sgd --data whole/train.jsonl",
    );
    let scored = found["inputs"]["scored"].as_str().unwrap();
    assert!(
        scored.contains("every token") && scored.contains("assistant"),
        "{scored}"
    );
    let found = json(at, "perplexity --model whole-sgd --data whole/train.jsonl");
    assert!(found["inputs"].get("scored").is_none());
}

#[test]
fn what_learns_no_answers_is_refused() {
    let home = corpus();
    let at = home.path();
    ok(at, &format!("{PREPARE} --loss-on assistant --out answers/"));
    ok(at, &format!("{PREPARE} --out whole/"));
    let train = |more: &str| format!("train answers/ --epochs 1 --seed 1 {more} --out x");
    refused(
        at,
        &train("--recipe sgd --model bert"),
        &["--model", "bert", "--loss-on"],
    );
    refused(
        at,
        &train("--recipe sdp --sigma 1 --state-sigma 1 --batch-size 8"),
        &["--recipe", "sdp", "--loss-on"],
    );
    refused(
        at,
        &train("--recipe sgd --held-out whole/"),
        &["--held-out", "another --loss-on"],
    );
    refused(
        at,
        &train("--recipe sgd --model nowhere/ --lora-rank 2 --lora-alpha 2e6"),
        &["--lora-alpha", "(0, 1e6], got 2000000"],
    );
    let with = |more: &str| format!("{PREPARE} {more} --out y");
    refused(
        at,
        &with("--loss-on user"),
        &["--loss-on", "must be one of assistant"],
    );
    refused(
        at,
        &with("--loss-on assistant").replace("--unit document", "--unit turn"),
        &["--loss-on", "the unit must be document"],
    );
    refused(
        at,
        &with("--loss-on assistant").replace("--chat-template chat.jinja", ""),
        &["--chat-template"],
    );
    // A template that renders an answer differently once another follows.
    std::fs::write(
        at.join("chat.jinja"),
        "{% for m in messages %}{{ m.role }}: {% if loop.last %}(last) {% endif %}{{ m.content }}\n{% endfor %}",
    )
    .unwrap();
    refused(
        at,
        &with("--loss-on assistant"),
        &["DATA", "line 1", "no {% generation %} block"],
    );
    std::fs::write(at.join("chats.jsonl"), "{\"text\":\"hi\"}\n").unwrap();
    refused(
        at,
        &with("--loss-on assistant"),
        &["DATA", "line 1", "no messages"],
    );
}
