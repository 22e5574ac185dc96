//! What is written against the published schemas, in both directions: every document fits,
//! and every key it has is described.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; the lint exempts test functions only"
)]

use reticent_corpus::{
    CanaryOptions, ConservativeOptions, Deduplication, Masked, PatternRule, PolicyChoice,
    PolicyOptions, PrepareOptions, prepare, simulate,
};
use serde_json::Value;
use std::path::Path;

/// The part of JSON Schema that our schemas use. Stricter in one point: a key that no
/// `properties` describes is a problem.
fn problems(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut demand = |holds: bool, what: String| {
        if !holds {
            out.push(format!("{at}: {what}"));
        }
    };
    if let Some(target) = schema["$ref"].as_str() {
        let found = root.pointer(target.trim_start_matches('#'));
        demand(found.is_some(), format!("refers to nothing: {target}"));
        return found.map_or(out, |schema| problems(root, schema, value, at));
    }
    if let Some(kind) = schema["type"].as_str() {
        let fits = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            _ => kind == "number" && value.is_number(),
        };
        demand(fits, format!("is no {kind}"));
    }
    if let Some(constant) = schema.get("const") {
        demand(constant == value, format!("is not {constant}"));
    }
    if let Some(list) = schema["enum"].as_array() {
        demand(list.contains(value), format!("{value} is not in the list"));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = |choice: &&Value| problems(root, choice, value, at).is_empty();
        demand(
            choices.iter().filter(fits).count() == 1,
            "fits none or several".to_owned(),
        );
    }
    let number = value.as_f64();
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), number) {
        demand(number >= least, format!("is below {least}"));
    }
    if let (Some(most), Some(number)) = (schema["maximum"].as_f64(), number) {
        demand(number <= most, format!("is above {most}"));
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        demand(
            value.get(key.as_str().unwrap()).is_some(),
            format!("lacks {key}"),
        );
    }
    let described =
        schema.get("properties").is_some() || schema.get("additionalProperties").is_some();
    for (key, member) in value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|_| described)
    {
        let place = format!("{at}.{key}");
        match schema["properties"]
            .get(key)
            .or(schema.get("additionalProperties"))
        {
            Some(schema) => out.extend(problems(root, schema, member, &place)),
            None => out.push(format!("{place}: is not described")),
        }
    }
    if let Some(items) = schema.get("items") {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            out.extend(problems(root, items, item, &format!("{at}[{index}]")));
        }
    }
    out
}

fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../schemas")
        .join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn fits(root: &Value, part: &str, text: &str) {
    let value: Value = serde_json::from_str(text).unwrap();
    let found = problems(root, root.pointer(part).unwrap(), &value, "");
    assert_eq!(found, Vec::<String>::new());
}

fn variants() -> Vec<PrepareOptions> {
    let rules = vec![PatternRule {
        kind: "k".to_owned(),
        pattern: "x+".to_owned(),
    }];
    let everything = PrepareOptions {
        canaries: Some(CanaryOptions::new("2x3".parse().unwrap())),
        conservative: Some(ConservativeOptions {
            patterns: rules.clone(),
            ..ConservativeOptions::default()
        }),
        policy: PolicyOptions {
            policy: PolicyChoice::Patterns { rules },
            ..PolicyOptions::default()
        },
        max_tokens: Some(64),
        held_out: 0.5,
        ..PrepareOptions::default()
    };
    let composed = r#"{"type":"threshold","least":0.5,"of":{"type":"at-least","count":1,"of":[
        {"type":"detectors","kinds":["card"],"countries":["gb"],"least":0.5},
        {"type":"dictionary","kind":"k","words":["w"]},
        {"type":"any","of":[{"type":"level","level":"low-entity"}]}]}}"#;
    let composed = PrepareOptions {
        duplicates: Deduplication::Bloom { bits: 8 },
        policy: PolicyOptions {
            policy: serde_json::from_str(composed).unwrap(),
            ..PolicyOptions::default()
        },
        ..PrepareOptions::default()
    };
    let stretches = PrepareOptions {
        duplicates: Deduplication::Substring { length: 20 },
        ..PrepareOptions::default()
    };
    vec![PrepareOptions::default(), everything, composed, stretches]
}

#[test]
fn every_file_of_a_prepared_folder_fits_its_schema() {
    let place = tempfile::tempdir().unwrap();
    let prepared_schema = schema("prepared.schema.json");
    for (number, options) in variants().into_iter().enumerate() {
        let folder = place.path().join(number.to_string());
        let prepared = prepare(&simulate(6, 0).unwrap(), &options).unwrap();
        prepared.write(&folder, false).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        fits(&prepared_schema, "", &read("prepared.json"));
        for (name, part) in [
            ("records.jsonl", "/$defs/record"),
            ("held-out.jsonl", "/$defs/record"),
            ("train.jsonl", "/$defs/text"),
            ("test.jsonl", "/$defs/text"),
        ] {
            for line in read(name).lines() {
                fits(&prepared_schema, part, line);
            }
        }
        if options.canaries.is_some() {
            fits(&schema("canaries.schema.json"), "", &read("canaries.json"));
        }
    }
}

#[test]
fn documents_fit_their_schema() {
    let root = schema("corpus.schema.json");
    for mut document in simulate(5, 0).unwrap() {
        document.masked = vec![Masked { start: 0, end: 1 }];
        fits(&root, "", &serde_json::to_string(&document).unwrap());
    }
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let root = schema("corpus.schema.json");
    for wrong in [
        "[]",
        "{}",
        r#"{"text":1}"#,
        r#"{"text":"a","other":1}"#,
        r#"{"text":"a","id":null}"#,
        r#"{"text":"a","secrets":[{"start":-1,"end":1,"kind":"k"}]}"#,
        r#"{"text":"a","masked":[{"start":0}]}"#,
    ] {
        let value: Value = serde_json::from_str(wrong).unwrap();
        assert!(!problems(&root, &root, &value, "").is_empty(), "{wrong}");
    }
}
