//! The JSON envelope: `{"schema":1,"type":…,"says":…,"inputs":{…,"assumed":[…]},…}`.

use super::inputs::OtherInputs;
use super::spelled::{Spelled, in_words, to_json};
use crate::defaults::Configured;
use crate::page::Mood;
use reticent_accounting::training::Stated;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Display;
use std::path::Path;

/// The version of every JSON document we write. Within a version, keys are only ever added.
pub const SCHEMA: u32 = 1;

/// A JSON document: schema number, type, headline, inputs, then the fields of the body.
///
/// ```
/// use reticent_reports::contract::{Envelope, Inputs};
/// #[derive(serde::Serialize)]
/// struct Body { epsilon: f64 }
/// let inputs = Inputs::new().given("sigma", 1.1)?.assumed("steps", 1000)?;
/// let text = Envelope::new("guarantees", inputs, Body { epsilon: f64::INFINITY }).to_text()?;
/// let json: serde_json::Value = serde_json::from_str(&text)?;
/// assert_eq!(json["schema"], 1);
/// assert_eq!(json["inputs"]["assumed"][0], "steps");
/// assert_eq!(json["epsilon"], "inf");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope<B> {
    /// The schema number.
    pub schema: u32,
    /// What the document is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The headline that every format starts with.
    #[serde(default)]
    pub says: String,
    /// Outcome of an audit or a promise: `fail` if the exit code is 1, `review` for a leak that no promise and no
    /// limit covers, `open` if nothing can be concluded or is promised, else `pass`. SARIF uses the same term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Mood>,
    /// What was asked, and what was assumed.
    pub inputs: Inputs,
    /// The result.
    #[serde(flatten)]
    pub body: B,
}

impl<B: Serialize> Envelope<B> {
    /// Wraps a body in an envelope.
    pub fn new(kind: impl Into<String>, inputs: Inputs, body: B) -> Self {
        Self {
            schema: SCHEMA,
            kind: kind.into(),
            says: String::new(),
            outcome: None,
            inputs,
            body,
        }
    }

    /// Returns this envelope with a headline and the mood of the outcome.
    #[must_use]
    pub fn saying(&self, headline: &str, outcome: Option<Mood>) -> Envelope<&B> {
        Envelope {
            schema: self.schema,
            kind: self.kind.clone(),
            says: headline.to_owned(),
            outcome,
            inputs: self.inputs.clone(),
            body: &self.body,
        }
    }

    /// Returns the document as indented text, with infinity spelled `"inf"`.
    ///
    /// # Errors
    /// Returns an error if a number is NaN or JSON can't represent a type.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let mut out = Vec::new();
        let mut json = serde_json::Serializer::pretty(&mut out);
        self.serialize(Spelled(&mut json))?;
        out.push(b'\n');
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}

/// The inputs of a command in the order they were recorded, and which of them were assumed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inputs {
    values: Vec<(String, Value)>,
    assumed: Vec<String>,
    configured: Configured,
}

impl Inputs {
    /// Creates an empty list of inputs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Records a value that the user gave.
    ///
    /// # Errors
    /// Returns an error if JSON can't represent the value.
    pub fn given(mut self, name: &str, value: impl Serialize) -> serde_json::Result<Self> {
        match to_json(&value)? {
            // Inputs that were not given are absent, as in all documents.
            Value::Null => {}
            value => self.values.push((name.to_owned(), value)),
        }
        Ok(self)
    }
    /// Records a value that the user gave, if any, as it is shown.
    ///
    /// # Errors
    /// Never returns an error; the type matches the other methods.
    pub fn given_shown(self, name: &str, value: Option<&impl Display>) -> serde_json::Result<Self> {
        self.given(name, value.map(|value| value.to_string()))
    }
    /// Records a file or folder that the user gave, if any.
    ///
    /// # Errors
    /// Never returns an error; the type matches the other methods.
    pub fn given_path(self, name: &str, path: Option<&Path>) -> serde_json::Result<Self> {
        self.given(name, path.map(|p| p.display().to_string()))
    }
    /// Records a value that the tool assumed because the user gave none.
    ///
    /// # Errors
    /// Returns an error if JSON can't represent the value.
    pub fn assumed(self, name: &str, value: impl Serialize) -> serde_json::Result<Self> {
        let mut inputs = self.given(name, value)?;
        inputs.assumed.push(name.to_owned());
        Ok(inputs)
    }
    /// Records a value that was given, or the assumed one.
    ///
    /// # Errors
    /// Returns an error if JSON can't represent the value.
    pub fn or_assumed<T: Serialize>(
        self,
        name: &str,
        given: Option<T>,
        default: T,
    ) -> serde_json::Result<Self> {
        match given {
            Some(value) => self.given(name, value),
            None => self.assumed(name, default),
        }
    }
    /// Records a value of a plan, which knows whether it was given.
    ///
    /// # Errors
    /// Returns an error if JSON can't represent the value.
    pub fn stated<T: Serialize>(self, name: &str, value: &Stated<T>) -> serde_json::Result<Self> {
        match value.is_assumed() {
            true => self.assumed(name, &value.value),
            false => self.given(name, &value.value),
        }
    }
    /// Adds the values that were taken from a project's defaults.
    #[must_use]
    pub fn configured(mut self, configured: &Configured) -> Self {
        self.configured = configured.clone();
        self
    }
    /// Removes an input.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.values.retain(|(known, _)| known != name);
        self.assumed.retain(|known| known != name);
        self
    }
    /// Whether this input was assumed.
    #[must_use]
    pub fn is_assumed(&self, name: &str) -> bool {
        self.assumed.iter().any(|assumed| assumed == name)
    }
    /// Returns what was given or assumed under a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }
    /// Returns the number that was given or assumed under a name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }
    /// Whether the input under a name is true.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }
    /// Returns the files that were not authenticated, or what is to be said of each.
    #[must_use]
    pub fn not_authenticated(&self) -> Vec<String> {
        let noted = self.get("not_authenticated").and_then(Value::as_array);
        let noted = noted.into_iter().flatten().filter_map(Value::as_str);
        noted.map(str::to_owned).collect()
    }
    /// Iterates over all inputs by name, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }
    /// Returns the line that lists the defaults that were taken, if there are any: `Defaults: sample rate 0.01, steps 1000`.
    #[must_use]
    pub fn assumed_line(&self) -> Option<String> {
        self.line("Defaults", |name, _| self.is_assumed(name))
    }
    /// Returns the line that lists all other inputs, so that an answer names the run that it is about: `Inputs: sigma 1.1,
    /// steps 1000`. Flags that are not set are left out, and so are files without authentication, which have notes.
    #[must_use]
    pub fn given_line(&self) -> Option<String> {
        self.line("Inputs", |name, value| {
            !self.is_assumed(name) && name != "not_authenticated" && *value != Value::Bool(false)
        })
    }
    fn line(&self, title: &str, keeps: impl Fn(&str, &Value) -> bool) -> Option<String> {
        let said: Vec<String> = self
            .iter()
            .filter(|(name, value)| keeps(name, value))
            .map(|(name, value)| format!("{} {}", name.replace('_', " "), in_words(value)))
            .collect();
        (!said.is_empty()).then(|| format!("{title}: {}", said.join(", ")))
    }
}

impl JsonSchema for Inputs {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Inputs".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = OtherInputs::json_schema(generator);
        schema.insert("required".to_owned(), serde_json::json!(["assumed"]));
        schema
    }
}

impl Serialize for Inputs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.values.len() + 1))?;
        for (name, value) in &self.values {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("assumed", &self.assumed)?;
        if !self.configured.is_empty() {
            map.serialize_entry("configured", &self.configured)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut map = serde_json::Map::<String, Value>::deserialize(deserializer)?;
        let assumed = match map.shift_remove("assumed") {
            Some(list) => serde_json::from_value(list).map_err(serde::de::Error::custom)?,
            None => Vec::new(),
        };
        let configured = match map.shift_remove("configured") {
            Some(taken) => serde_json::from_value(taken).map_err(serde::de::Error::custom)?,
            None => Configured::default(),
        };
        Ok(Self {
            values: map.into_iter().collect(),
            assumed,
            configured,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Body {
        steps: u64,
    }

    #[test]
    fn the_keys_stand_in_the_order_of_the_contract() {
        let inputs = Inputs::new().given("sigma", 2.0).unwrap();
        let text = Envelope::new("x", inputs, Body { steps: 3 })
            .to_text()
            .unwrap();
        let compact: String = text.split_whitespace().collect();
        assert_eq!(
            compact,
            r#"{"schema":1,"type":"x","says":"","inputs":{"sigma":2.0,"assumed":[]},"steps":3}"#
        );
    }

    #[test]
    fn what_was_not_given_is_absent() {
        let inputs = Inputs::new().given("file", None::<String>).unwrap();
        assert_eq!(inputs, Inputs::new());
    }

    #[test]
    fn every_input_is_in_one_of_two_lines() {
        let inputs = Inputs::new()
            .given("batch_size", 256)
            .and_then(|i| i.given("sweep", false))
            .and_then(|i| i.given("not_authenticated", ["manifest.json"]))
            .and_then(|i| i.given("discard_others", true))
            .and_then(|i| i.or_assumed("sigma", Some(1.1), 2.0))
            .and_then(|i| i.or_assumed("steps", None, 1000))
            .unwrap();
        assert_eq!(
            inputs.given_line().as_deref(),
            Some("Inputs: batch size 256, discard others true, sigma 1.1")
        );
        assert_eq!(
            inputs.assumed_line().as_deref(),
            Some("Defaults: steps 1000")
        );
        assert_eq!(Inputs::new().given_line(), None);
    }

    #[test]
    fn a_document_reads_back_as_it_was_written() {
        let inputs = Inputs::new()
            .or_assumed("delta", None, 1e-5)
            .and_then(|i| i.or_assumed("steps", Some(10), 1000))
            .unwrap();
        let document = Envelope::new("x", inputs, Body { steps: 3 });
        let back: Envelope<Body> = serde_json::from_str(&document.to_text().unwrap()).unwrap();
        assert_eq!(back, document);
        assert_eq!(
            back.inputs.assumed_line().as_deref(),
            Some("Defaults: delta 1e-5")
        );
    }
}
