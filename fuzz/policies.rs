//! Mutations of policy files, in JSON and TOML: a policy that finds spans, or an error that says
//! what is wrong, never a panic.
//!
//! ```console
//! $ cargo run --package reticent-corpus --example fuzz_policies -- 1000000 [SEED] [fuzz/corpus]
//! ```
//! Deterministic for a seed. What is asserted beside "no panic": errors say something; of a policy
//! that builds, spans lie in the text at its characters' boundaries, with scores from 0 to 1; as
//! JSON it reads back as itself, with the same digest; loosened it builds too; and no input takes
//! longer than twenty seconds, on a busy machine too. Policies are small programs: run this under a limit of memory
//! (`ulimit -v`).
#![expect(clippy::print_stderr, reason = "findings are no data")]

#[path = "campaign.rs"]
mod campaign;
#[path = "mutation.rs"]
#[expect(dead_code, reason = "not every program mutates in place")]
mod mutation;

use campaign::{Campaign, Target, none_found};
use mutation::mutated;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reticent_corpus::policy::{PatternRule, PolicyChoice, View, resolved};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const TEXT: &str = "caf\u{e9} Ada King (ada@example.org, +1 415 555 0132) paid $12.50 on 3 May 2021 \
    with 4111 1111 1111 1111; \u{1f980} key sk_live_4eC39HqLyjWDarjtT1zdp7dc, DE89370400440532013000.\n\u{fffc} aaaaaaaaaaaaaaaa";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    Json,
    Toml,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let campaign = Campaign::of_command()?;
    let mut findings = 0;
    for (number, name, format, seeds, words) in [
        (0, "policy-json", Format::Json, JSON, JSON_WORDS),
        (1, "policy-toml", Format::Toml, TOML, TOML_WORDS),
    ] {
        let target = Target {
            name,
            seeds: seeds.iter().map(|s| s.as_bytes().to_vec()).collect(),
            share: 50,
            patience: Duration::from_secs(20),
            sorts: 60,
        };
        findings += campaign.run(
            number,
            target,
            |seeds, random| {
                // Mutants of a file are refused, mostly: these are policies with strange parts.
                if format == Format::Json && random.random_bool(0.5) {
                    composed(random, 0).to_string().into_bytes()
                } else {
                    mutated(seeds, words, random)
                }
            },
            |bytes, _| vec![bytes.to_vec()],
            |files| judge(format, &files[0]),
        )?;
    }
    none_found(findings)
}

/// A policy of random parts, few of them of the wrong type.
fn composed(random: &mut ChaCha8Rng, depth: u32) -> Value {
    let number = |random: &mut ChaCha8Rng| NUMBERS[random.random_range(0..NUMBERS.len())];
    let policies = |random: &mut ChaCha8Rng| -> Vec<Value> {
        let count = random.random_range(0..4);
        (0..count).map(|_| composed(random, depth + 1)).collect()
    };
    match random.random_range(if depth > 3 { 4 } else { 0 }..10u8) {
        0 => json!({"type": "any", "of": policies(random)}),
        1 => json!({"type": "all", "of": policies(random)}),
        2 => {
            json!({"type": "at-least", "count": random.random_range(0..4), "of": policies(random)})
        }
        3 => {
            json!({"type": "threshold", "least": number(random), "of": composed(random, depth + 1)})
        }
        4 => json!({"type": "gold"}),
        5 => json!({"type": "names", "least": number(random)}),
        6 => json!({"type": "detectors", "kinds": ["email", "card"], "least": number(random)}),
        7 => {
            let words: Vec<String> = (0..random.random_range(0..4))
                .map(|_| piece(random))
                .collect();
            json!({"type": "dictionary", "kind": piece(random), "words": words,
                "case_sensitive": random.random_bool(0.5), "whole_words": random.random_bool(0.5)})
        }
        _ => {
            let rule = |random: &mut ChaCha8Rng| json!({"kind": "x", "pattern": piece(random)});
            let rules: Vec<Value> = (0..random.random_range(0..3))
                .map(|_| rule(random))
                .collect();
            json!({"type": "patterns", "rules": rules})
        }
    }
}

/// A regular expression or a word, perhaps.
fn piece(random: &mut ChaCha8Rng) -> String {
    (0..random.random_range(0..7))
        .map(|_| PIECES[random.random_range(0..PIECES.len())])
        .collect()
}

/// A policy file as the command reads it.
fn read(format: Format, bytes: &[u8]) -> Result<PolicyChoice, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    if format == Format::Toml {
        return toml::from_str(text).map_err(|error| error.to_string());
    }
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let rules =
        serde_json::from_str::<Vec<PatternRule>>(text).map_err(|error| error.to_string())?;
    Ok(PolicyChoice::Patterns { rules })
}

/// The sort of outcome, or what is wrong with it.
fn judge(format: Format, bytes: &[u8]) -> Result<String, String> {
    let choice = match read(format, bytes) {
        Ok(choice) => choice,
        Err(error) => return refusal(&error),
    };
    let policy = match choice.build() {
        Ok(policy) => policy,
        Err(error) => return refusal(&error.to_string()),
    };
    let json = serde_json::to_vec(&choice).map_err(|error| error.to_string())?;
    let again: PolicyChoice = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    if again != choice || again.sha256() != choice.sha256() {
        return Err("it does not read back as itself".to_owned());
    }
    choice
        .loosened()
        .build()
        .map_err(|error| format!("loosened: {error}"))?;
    let secrets = [(6..14, "name")];
    let view = View {
        text: TEXT,
        secrets: &secrets,
    };
    let mut spans = Vec::new();
    policy.find(&view, &mut spans);
    for span in &spans {
        let fits = span.start <= span.end && TEXT.get(span.start..span.end).is_some();
        if !fits || !(0.0..=1.0).contains(&span.score) {
            return Err(format!("{span:?}"));
        }
    }
    let kinds: BTreeSet<String> = resolved(policy.as_ref(), &view)
        .iter()
        .map(|span| span.source.to_string())
        .collect();
    Ok(format!("D{} {kinds:?}", spans.len().min(12))
        .chars()
        .take(100)
        .collect())
}

fn refusal(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("an error without a word".to_owned());
    }
    // TOML's errors show the text first.
    let last = text.trim().lines().next_back().unwrap_or("");
    let quoted = last.split(['"', '`']).next().unwrap_or("");
    let sort: String = quoted
        .chars()
        .filter(|c| c.is_ascii_alphabetic() || *c == ' ')
        .take(60)
        .collect();
    Ok(format!("E{sort}"))
}

const NUMBERS: &[f64] = &[0.0, -0.0, 0.1, 0.5, 1.0, 1.5, -1.0, 1e-300, 1e300];

const PIECES: &[&str] = &[
    "a",
    "A",
    "\\w",
    "\\d{2,4}",
    ".",
    "[^a]",
    "[a-z&&[^c]]",
    "(",
    ")",
    "(?:",
    "(?P<secret>",
    "(?i)",
    "(?s)",
    "(?x)",
    "(?-u)",
    "|",
    "*",
    "+",
    "?",
    "*?",
    "{0}",
    "{3,}",
    "{900}",
    "^",
    "$",
    "\\b",
    "\\B",
    "\\pL",
    "\\xff",
    "é",
    "🦀",
    " ",
    "\u{fffc}",
    "\n",
    "Ada",
    "King",
    "@",
    "4111",
    "\u{0}",
    "\\",
    "]",
    "[",
];

const JSON: &[&str] = &[
    r#"{"type":"nothing"}"#,
    r#"{"type":"gold"}"#,
    r#"{"type":"customers"}"#,
    r#"{"type":"patterns","rules":[{"kind":"id","pattern":"(?i)key (?P<secret>\\w+)"}]}"#,
    r#"[{"kind":"id","pattern":"\\b\\d{3,}\\b"},{"kind":"a","pattern":"a+"}]"#,
    r#"{"type":"detectors","kinds":["email","card","phone"],"countries":["us"],"least":0.25}"#,
    r#"{"type":"dictionary","kind":"name","words":["Ada","King (","é"],"case_sensitive":true,"whole_words":false}"#,
    r#"{"type":"level","level":"high-entity","least":0.5}"#,
    r#"{"type":"names","least":0.1}"#,
    r#"{"type":"onnx","folder":"no such folder","least":0.1}"#,
    r#"{"type":"at-least","count":2,"of":[{"type":"names"},{"type":"gold"},{"type":"dictionary","kind":"n","words":["Ada"]}]}"#,
    r#"{"type":"any","of":[{"type":"all","of":[{"type":"gold"},{"type":"names"}]},{"type":"threshold","least":0.75,"of":{"type":"detectors"}}]}"#,
];

const TOML: &[&str] = &[
    "type = \"nothing\"\n",
    "type = \"patterns\"\n[[rules]]\nkind = \"id\"\npattern = '(?i)key (?P<secret>\\w+)'\n",
    "type = \"detectors\"\nkinds = [\"email\", \"iban\"]\ncountries = []\nleast = 0.5\n",
    "type = \"dictionary\"\nkind = \"name\"\nwords = [\"Ada\", \"King\"]\n",
    "type = \"level\"\nlevel = \"low-contextual\"\n",
    "type = \"threshold\"\nleast = 0.9\n[of]\ntype = \"names\"\nleast = 0.1\n",
    "type = \"at-least\"\ncount = 2\n[[of]]\ntype = \"names\"\n[[of]]\ntype = \"gold\"\n[[of]]\ntype = \"customers\"\n",
];

const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\\\",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "1e999",
    "1e-999",
    "18446744073709551616",
    "0.1",
    "\"type\":",
    "\"of\":",
    "\"least\":",
    "\"count\":",
    "\"kind\":",
    "\"kinds\":",
    "\"words\":",
    "\"rules\":",
    "\"pattern\":",
    "\"any\"",
    "\"all\"",
    "\"gold\"",
    "{\"type\":\"any\",\"of\":[",
    "]}",
    "\"\"",
    "\" \"",
    "(?P<secret>)",
    "(?P<secret>a)?",
    "a{900}",
    "(",
    ")",
    "+",
    "*",
    "?",
    "|",
    "^",
    "$",
    "\\\\b",
    "\\\\pL",
    "(?-u)",
    "[^a]",
    "é",
    "🦀",
    "\u{feff}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

const TOML_WORDS: &[&str] = &[
    "=",
    "\n",
    "[of]\n",
    "[[of]]\n",
    "[[rules]]\n",
    "[of.of]\n",
    "\"",
    "'",
    "'''",
    "\"\"\"",
    "\\",
    "#",
    ",",
    "[",
    "]",
    "{",
    "}",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-0.0",
    "18446744073709551616",
    "0x7f",
    "1979-05-27",
    "true",
    "type = ",
    "least = ",
    "count = ",
    "kind = ",
    "words = ",
    "rules = ",
    "pattern = ",
    "\"any\"",
    "\"all\"",
    "\"gold\"",
    "\"names\"",
    "\"detectors\"",
    "\"threshold\"",
    "(?P<secret>)",
    "a{900}",
    "(",
    ")",
    "+",
    "*",
    "?",
    "|",
    "é",
    "🦀",
    "\u{feff}",
    "\r\n",
    "\0",
];
