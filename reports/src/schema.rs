//! The documents against their published schemas, in both directions: every document is valid,
//! and every key it has is described.

use serde_json::Value;
use std::path::Path;

fn load(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../schemas")
        .join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The part of JSON Schema that our schemas use.
struct Checker {
    /// The file that `#/…` refers to.
    file: String,
    problems: Vec<String>,
}

impl Checker {
    fn check(&mut self, schema: &Value, value: &Value, at: &str) {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            self.follow(target, value, at);
        }
        for part in list(schema, "allOf") {
            self.check(part, value, at);
        }
        if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
            let fitting = choices.iter().filter(|c| self.fits(c, value)).count();
            self.demand(fitting == 1, at, "fits none or several of oneOf");
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            let fits = choices.iter().any(|c| self.fits(c, value));
            self.demand(fits, at, "fits none of anyOf");
        }
        if let Some(constant) = schema.get("const") {
            self.demand(value == constant, at, "is not the constant");
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
            self.demand(allowed.contains(value), at, "is not in the list");
        }
        if let Some(kind) = schema.get("type").and_then(Value::as_str) {
            self.demand(is(value, kind), at, kind);
        }
        if let (Some(least), Some(number)) = (bound(schema, "minimum"), value.as_f64()) {
            self.demand(number >= least, at, "is below the minimum");
        }
        if let (Some(most), Some(number)) = (bound(schema, "maximum"), value.as_f64()) {
            self.demand(number <= most, at, "is above the maximum");
        }
        for key in list(schema, "required") {
            let present = key.as_str().is_some_and(|k| value.get(k).is_some());
            self.demand(present, at, &format!("lacks {key}"));
        }
        if let (Some(items), Some(array)) = (schema.get("items"), value.as_array()) {
            for (index, item) in array.iter().enumerate() {
                self.check(items, item, &format!("{at}[{index}]"));
            }
        }
        self.members(schema, value, at);
    }
    fn members(&mut self, schema: &Value, value: &Value, at: &str) {
        let Some(members) = value.as_object() else {
            return;
        };
        for (key, member) in members {
            let place = format!("{at}.{key}");
            if let Some(described) = schema.get("properties").and_then(|p| p.get(key)) {
                self.check(described, member, &place);
            } else if let Some(rest) = schema.get("additionalProperties") {
                self.demand(rest != &Value::Bool(false), &place, "is not allowed");
                self.check(rest, member, &place);
            }
        }
    }
    fn follow(&mut self, target: &str, value: &Value, at: &str) {
        let (file, pointer) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() {
            self.file.clone()
        } else {
            file.to_owned()
        };
        let document = load(&file);
        let schema = document.pointer(pointer).unwrap_or(&Value::Null);
        self.demand(
            !schema.is_null(),
            at,
            &format!("refers to nothing: {target}"),
        );
        let before = std::mem::replace(&mut self.file, file);
        self.check(schema, value, at);
        self.file = before;
    }
    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let mut trial = Self {
            file: self.file.clone(),
            problems: Vec::new(),
        };
        trial.check(schema, value, "");
        trial.problems.is_empty()
    }
    fn demand(&mut self, holds: bool, at: &str, what: &str) {
        if !holds {
            self.problems.push(format!("{at}: {what}"));
        }
    }
}

fn list<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}
fn bound(schema: &Value, key: &str) -> Option<f64> {
    schema.get(key).and_then(Value::as_f64)
}
fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        _ => false,
    }
}

/// Every key of a document that no `properties` of the schema names, wherever it stands.
fn undescribed(schemas: &[Value], document: &Value, at: &str, found: &mut Vec<String>) {
    match document {
        Value::Array(items) => items
            .iter()
            .for_each(|item| undescribed(schemas, item, at, found)),
        Value::Object(members) => {
            for (key, member) in members {
                let place = format!("{at}.{key}");
                if !schemas.iter().any(|s| names(s, key)) && !free(at) {
                    found.push(place.clone());
                }
                undescribed(schemas, member, &place, found);
            }
        }
        _ => {}
    }
}
fn names(schema: &Value, key: &str) -> bool {
    match schema {
        Value::Object(members) => {
            members
                .get("properties")
                .is_some_and(|p| p.get(key).is_some())
                || members.values().any(|m| names(m, key))
        }
        Value::Array(items) => items.iter().any(|i| names(i, key)),
        _ => false,
    }
}
/// The other files that a schema refers to.
fn referred(schema: &Value) -> Vec<Value> {
    match schema {
        Value::Object(members) => {
            let file = members.get("$ref").and_then(Value::as_str);
            let file = file.and_then(|target| target.split('#').next());
            let here = file.filter(|file| !file.is_empty()).map(load);
            here.into_iter()
                .chain(members.values().flat_map(referred))
                .collect()
        }
        Value::Array(items) => items.iter().flat_map(referred).collect(),
        _ => Vec::new(),
    }
}
/// Places whose keys are data, or described elsewhere.
fn free(at: &str) -> bool {
    let data = [
        ".by_kind",
        ".by_records",
        ".secrets",
        ".spans",
        ".kinds",
        ".found",
        ".marked",
    ];
    let elsewhere = [".mechanism", ".inputs.options"];
    data.iter().any(|end| at.ends_with(end)) || elsewhere.iter().any(|part| at.contains(part))
}

/// What is wrong with a document: what its schema refuses, and keys that no schema describes.
pub(crate) fn problems(schema: &str, text: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(text).unwrap();
    let mut checker = Checker {
        file: schema.to_owned(),
        problems: Vec::new(),
    };
    checker.check(&load(schema), &document, "");
    let all = [
        load("envelope.schema.json"),
        load("exposure.schema.json"),
        load("guarantees.schema.json"),
        load(schema),
    ];
    let others = all.iter().flat_map(referred).collect::<Vec<_>>();
    let all = [&all[..], &others].concat();
    undescribed(&all, &document, "", &mut checker.problems);
    checker.problems.sort();
    checker.problems.dedup();
    checker.problems
}
