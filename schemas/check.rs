//! Documents against the published schemas, in both directions: every document is valid, and every
//! key it has is described. Tests of all crates include this file.
//!
//! It knows the words that our schemas use, and fails on any other. A validator from a registry would
//! change the features of libraries below it, and with them build every tensor library twice.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the published schemas are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas")
}

/// Asserts that a document fits the schema of this name.
#[track_caller]
pub(crate) fn fits(schema: &str, text: &str) {
    let problems = problems(&format!("{schema}.schema.json"), text);
    assert!(problems.is_empty(), "{schema}: {problems:#?} in {text}");
}

/// What is wrong with a document: what its schema refuses, and keys that the schema does not describe.
pub(crate) fn problems(schema: &str, text: &str) -> Vec<String> {
    let root = load(schema);
    let document: Value = serde_json::from_str(text).unwrap();
    let mut checker = Checker {
        root: &root,
        problems: Vec::new(),
    };
    checker.whole(&root, &document, "");
    checker.problems.sort();
    checker.problems.dedup();
    checker.problems
}

fn load(schema: &str) -> Value {
    let published = std::fs::read_to_string(folder().join(schema)).unwrap();
    serde_json::from_str(&published).unwrap()
}

struct Checker<'a> {
    root: &'a Value,
    problems: Vec<String>,
}

impl<'a> Checker<'a> {
    /// All that a schema says of a value, and that it names each of its keys.
    fn whole(&mut self, schema: &'a Value, value: &Value, at: &str) {
        let Some(described) = self.check(schema, value, at) else {
            return;
        };
        for key in value
            .as_object()
            .into_iter()
            .flat_map(|members| members.keys())
        {
            self.demand(
                described.contains(key),
                at,
                &format!("{key} is not described"),
            );
        }
    }

    /// All that a schema says of a value; the keys that it describes, unless it is about any object.
    fn check(&mut self, schema: &'a Value, value: &Value, at: &str) -> Option<BTreeSet<String>> {
        let Value::Object(words) = schema else {
            self.demand(schema != &Value::Bool(false), at, "is not allowed");
            return None;
        };
        let mut described: Option<BTreeSet<String>> = None;
        let mut add = |keys: Option<BTreeSet<String>>| {
            if let Some(keys) = keys {
                described.get_or_insert_default().extend(keys);
            }
        };
        for (word, rule) in words {
            let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            let size = value.as_array().map(Vec::len);
            let length = value.as_str().map(|text| text.chars().count());
            let least = rule.as_u64().unwrap_or(0) as usize;
            match word.as_str() {
                "$schema" | "$defs" | "title" | "description" | "default" => {}
                "$ref" => {
                    let (file, pointer) = rule.as_str().unwrap().split_once('#').unwrap();
                    if file.is_empty() {
                        add(self.check(self.root.pointer(pointer).unwrap(), value, at));
                    } else {
                        let root = load(file);
                        let mut there = Checker {
                            root: &root,
                            problems: Vec::new(),
                        };
                        add(there.check(root.pointer(pointer).unwrap(), value, at));
                        self.problems.extend(there.problems);
                    }
                }
                "type" => {
                    let kinds: Vec<&Value> =
                        rule.as_array().map_or(vec![rule], |l| l.iter().collect());
                    let fits = kinds.iter().any(|kind| is(value, kind.as_str().unwrap()));
                    self.demand(fits, at, &format!("{value} is no {rule}"));
                }
                "const" => self.demand(value == rule, at, &format!("{value} is not {rule}")),
                "enum" => {
                    let listed = rule.as_array().unwrap().contains(value);
                    self.demand(listed, at, &format!("{value} is not in {rule}"));
                }
                "minimum" if value.is_number() => {
                    self.demand(
                        number(value) >= number(rule),
                        at,
                        &format!("{value} < {rule}"),
                    );
                }
                "maximum" if value.is_number() => {
                    self.demand(
                        number(value) <= number(rule),
                        at,
                        &format!("{value} > {rule}"),
                    );
                }
                "exclusiveMinimum" if value.is_number() => {
                    self.demand(
                        number(value) > number(rule),
                        at,
                        &format!("{value} <= {rule}"),
                    );
                }
                "exclusiveMaximum" if value.is_number() => {
                    self.demand(
                        number(value) < number(rule),
                        at,
                        &format!("{value} >= {rule}"),
                    );
                }
                "minItems" => self.demand(size.is_none_or(|n| n >= least), at, "is too short"),
                "maxItems" => self.demand(size.is_none_or(|n| n <= least), at, "is too long"),
                "minLength" => self.demand(length.is_none_or(|n| n >= least), at, "is too short"),
                "maxLength" => self.demand(length.is_none_or(|n| n <= least), at, "is too long"),
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {}
                "allOf" => {
                    for schema in rule.as_array().unwrap() {
                        add(self.check(schema, value, at));
                    }
                }
                "anyOf" | "oneOf" => add(self.choose(rule, value, at, word == "oneOf")),
                "required" => {
                    for key in rule.as_array().unwrap() {
                        let present = value.get(key.as_str().unwrap()).is_some();
                        self.demand(present || !value.is_object(), at, &format!("lacks {key}"));
                    }
                }
                "items" => {
                    // Those behind the ones that are described one by one.
                    let first = words
                        .get("prefixItems")
                        .and_then(Value::as_array)
                        .map_or(0, Vec::len);
                    let items = value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .enumerate()
                        .skip(first);
                    for (index, item) in items {
                        self.whole(rule, item, &format!("{at}[{index}]"));
                    }
                }
                "prefixItems" => {
                    let items = value.as_array().into_iter().flatten();
                    for (index, (schema, item)) in
                        rule.as_array().unwrap().iter().zip(items).enumerate()
                    {
                        self.whole(schema, item, &format!("{at}[{index}]"));
                    }
                }
                "properties" => {
                    let known = rule.as_object().unwrap();
                    for (key, member) in value.as_object().into_iter().flatten() {
                        if let Some(schema) = known.get(key) {
                            self.whole(schema, member, &format!("{at}.{key}"));
                        }
                    }
                    add(Some(known.keys().cloned().collect()));
                }
                "patternProperties" => {
                    for (pattern, rule) in rule.as_object().unwrap() {
                        self.demand(pattern == COUNTS, at, "the checker knows no such pattern");
                        for (key, member) in value.as_object().into_iter().flatten() {
                            if counts(key) {
                                self.whole(rule, member, &format!("{at}.{key}"));
                                add(Some(BTreeSet::from([key.clone()])));
                            }
                        }
                    }
                }
                "additionalProperties" => {
                    let known = words.get("properties").and_then(Value::as_object);
                    for (key, member) in value.as_object().into_iter().flatten() {
                        let counted = words.contains_key("patternProperties") && counts(key);
                        if !counted && !known.is_some_and(|known| known.contains_key(key)) {
                            self.whole(rule, member, &format!("{at}.{key}"));
                            add(Some(BTreeSet::from([key.clone()])));
                        }
                    }
                }
                "unevaluatedProperties" => {
                    self.demand(rule == &Value::Bool(false), at, "cannot be checked")
                }
                other => self.demand(false, at, &format!("the checker does not know {other}")),
            }
        }
        described
    }

    /// One of several schemas, the only one that fits if it has to be.
    fn choose(
        &mut self,
        choices: &'a Value,
        value: &Value,
        at: &str,
        only: bool,
    ) -> Option<BTreeSet<String>> {
        let tried = choices.as_array().unwrap().iter().map(|choice| {
            let mut trial = Checker {
                root: self.root,
                problems: Vec::new(),
            };
            let described = trial.check(choice, value, at);
            (described, trial.problems)
        });
        let (fitting, others): (Vec<_>, Vec<_>) =
            tried.partition(|(_, problems)| problems.is_empty());
        let count = fitting.len();
        let nearest = others
            .into_iter()
            .map(|(_, problems)| problems)
            .min_by_key(Vec::len);
        if count == 0 {
            self.problems.extend(nearest.unwrap_or_default());
        }
        self.demand(
            count == 1 || (count > 1 && !only),
            at,
            "fits none or several of the choices",
        );
        let keys: Vec<BTreeSet<String>> =
            fitting.into_iter().filter_map(|(keys, _)| keys).collect();
        (!keys.is_empty()).then(|| keys.into_iter().flatten().collect())
    }

    fn demand(&mut self, holds: bool, at: &str, what: &str) {
        if !holds {
            self.problems.push(format!("{at}: {what}"));
        }
    }
}

/// The pattern of keys that are numbers, the only one in our schemas.
const COUNTS: &str = r"^\d+$";

fn counts(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit())
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        _ => false,
    }
}
