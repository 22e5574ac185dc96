//! Recognises the kind of a document: a mechanism, an event, or one of our documents that contain
//! either.
//!
//! The content around a mechanism is read only if the kind of the document is known: `{"count": 237,
//! "mechanism": …}` may mean 237 steps to its author, and ignoring such a key would make epsilon too
//! small.

use crate::mechanism::json::{kind, lenient, parse, refused, typed};
use crate::mechanism::{Mechanism, event};
use crate::quantity::error::{Error, Result};
use crate::quantity::neighbours::Neighbours;
use crate::quantity::{Delta, GroupSize, UnitName};
use crate::training::inputs::{Inputs, present};
use crate::training::{
    Base, CompletedRun, PUBLISHED_VOCABULARY, Recipe, Run, SEEDED, TrainingPlan,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::fmt::Display;

/// The type of a checkpoint's manifest.
const MANIFEST: &str = "checkpoint";

/// The types of our other documents that contain a mechanism.
const AROUND: [&str; 4] = ["guarantees", "curve", "explanation", "training"];

/// The key of the mechanism in these documents.
const INNER: &str = "mechanism";

/// The key of the plan that ran, in a manifest.
const PLAN: &str = "plan";

/// Keys that say how often something ran. A document says this inside its mechanism, and in its inputs.
const REPETITIONS: [&str; 6] = ["count", "times", "repeat", "runs", "steps", "epochs"];

/// What ran according to a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What ran. It isn't private if the document says that nothing is promised (a fixed seed, a
    /// vocabulary built from private text).
    pub mechanism: Mechanism,
    /// What one record is, if the document says so; an assumed unit isn't adopted.
    pub unit: Option<UnitName>,
    /// In a manifest, the recipe that trained the checkpoint.
    pub recipe: Option<Recipe>,
    /// In a manifest, the plan that ran.
    pub plan: Option<TrainingPlan>,
    /// In a manifest, how the run met the canaries that its preparation planted, if it planted any.
    pub canaries: Option<Planted>,
    /// The most records that differ if one planted canary does, in the run and in those that it goes on from, as far as the
    /// document says.
    pub canary_records: u64,
    /// Whether more may differ: the document doesn't say in how many records of an earlier run a canary was.
    pub canary_records_unknown: bool,
    /// Whether its records have classes.
    pub labelled: bool,
    /// The model of others that the run began from, if the document names one.
    pub base: Option<Base>,
    /// The δ of its promises, if the document has one.
    pub delta: Option<Delta>,
    /// The number of records, if the document has it.
    pub records: Option<u64>,
    /// Whether its promise rests on held-out text that was declared public.
    pub held_out_public: bool,
    /// Whether it says that files it was made from were not authenticated by their owners' keys.
    pub not_authenticated: bool,
    is_manifest: bool,
}

/// How a run met its planted canaries, according to its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Planted {
    /// How many they are.
    pub canaries: u64,
    /// The most records that differ if one of them does.
    pub records: u64,
    /// Copies on the public side, which is trained on without noise.
    pub on_public_side: u64,
}

impl Document {
    /// Creates a document of which only the mechanism is known.
    const fn of(mechanism: Mechanism) -> Self {
        Self {
            mechanism,
            unit: None,
            recipe: None,
            plan: None,
            canaries: None,
            canary_records: 0,
            canary_records_unknown: false,
            labelled: false,
            base: None,
            delta: None,
            records: None,
            held_out_public: false,
            not_authenticated: false,
            is_manifest: false,
        }
    }

    /// Returns the δ at which to ask where none is given: that of the document, otherwise the default for its records.
    #[must_use]
    pub fn delta_or_default(&self) -> Delta {
        let default = || TrainingPlan::default_delta(self.records);
        self.delta.unwrap_or_else(default)
    }

    /// Whether it is the manifest of a checkpoint.
    #[must_use]
    pub const fn is_manifest(&self) -> bool {
        self.is_manifest
    }

    /// Returns the run that the document is about, as a completed run.
    #[must_use]
    pub fn completed(self) -> CompletedRun {
        // A manifest without canaries is of a run that met none.
        let canary_records = self
            .is_manifest
            .then(|| self.canaries.map_or(0, |canaries| canaries.records));
        let run = match self.plan {
            Some(plan) => plan.completed(self.mechanism, canary_records),
            None => CompletedRun {
                recipe: self.recipe,
                canary_records: canary_records.filter(|_| !self.canary_records_unknown),
                labelled: self.labelled,
                held_out_public: self.held_out_public,
                ..CompletedRun::of(self.mechanism)
            },
        };
        CompletedRun {
            base: self.base,
            ..run
        }
    }
}

/// Reads what ran from the text of a document. An event that is only a promise (ε, δ) is read as one for
/// `neighbours`, which its own description leaves to the accountant.
///
/// ```
/// use reticent_accounting::{Mechanism, Neighbours, training};
/// let text = r#"{"type": "gaussian", "noise_multiplier": 2}"#;
/// let read = training::read(text, Neighbours::AddRemove)?;
/// assert!(matches!(read.mechanism, Mechanism::Gaussian { .. }));
/// let refused = training::read(&text.replace("2", "-2"), Neighbours::AddRemove).unwrap_err();
/// assert_eq!(refused.to_string(), "noise_multiplier: noise multiplier must lie in (0, inf), got -2");
/// # Ok::<(), reticent_accounting::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::Document`] if the text isn't JSON, is too large, repeats a key, or describes no
/// mechanism.
pub fn read(text: &str, neighbours: Neighbours) -> Result<Document> {
    let document = parse(text)?;
    if event::is_event(&document) {
        let mechanism = event::read(&document, neighbours)?;
        return Ok(Document::of(mechanism));
    }
    let Value::Object(members) = &document else {
        let got = match &document {
            Value::Array(_) => "another list",
            other => kind(other),
        };
        let why =
            format!("must be an object (or an event as a list: module, class, fields), got {got}");
        return Err(refused("", &why));
    };
    match (members.get("type"), members.get(INNER)) {
        (Some(Value::String(name)), inner) if name == MANIFEST || AROUND.contains(&&**name) => {
            let inner = inner.ok_or_else(|| refused("", &format!("missing field `{INNER}`")))?;
            around(&document, members, inner, neighbours)
        }
        (Some(_), None) if members.contains_key("schema") => Err(refused(
            "type",
            &format!(
                "a document of this type holds no mechanism; {MANIFEST}, {} do",
                AROUND.join(", ")
            ),
        )),
        (Some(_), _) => Ok(Document::of(own(&document).map_err(also_documents)?)),
        (None, Some(inner)) => {
            let known = [
                "schema",
                "unit",
                "recipe",
                "labelled",
                "base",
                "held_out_public",
                "dataset_size",
                "not_authenticated",
                "delta",
                "canary_records",
                "canary_records_unknown",
                INNER,
            ];
            if let Some(odd) = members.keys().find(|key| !known.contains(&key.as_str())) {
                let why = format!("unknown key; allowed are {}", known.join(", "));
                return Err(refused(odd, &why));
            }
            let bare: Bare = lenient(&document, "", &[])?;
            Ok(Document {
                delta: bare.delta,
                canary_records: bare.canary_records.unwrap_or(0),
                canary_records_unknown: bare.canary_records_unknown == Some(true),
                ..around(&document, members, inner, neighbours)?
            })
        }
        (None, None) => Err(refused(
            "",
            "neither a mechanism (key \"type\"), nor an event (\"class_name\"), nor a document with one \
             (\"mechanism\")",
        )),
    }
}

/// Reads a mechanism in our own JSON.
fn own(value: &Value) -> Result<Mechanism> {
    let mechanism: Mechanism = typed(value, "", &["each", "inner", "parts"])?;
    mechanism.validate()?;
    Ok(mechanism)
}

/// The members of a document that stand beside its mechanism.
#[derive(Deserialize)]
struct Around {
    #[serde(default, deserialize_with = "present")]
    schema: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    unit: Option<UnitName>,
    #[serde(default, deserialize_with = "present")]
    seeded: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    vocabulary: Option<Vocabulary>,
    #[serde(default, deserialize_with = "present")]
    recipe: Option<Recipe>,
    #[serde(default, deserialize_with = "present")]
    labelled: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    base: Option<Base>,
    #[serde(default, deserialize_with = "present")]
    held_out_public: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    dataset_size: Option<u64>,
    /// Of a curve.
    #[serde(default, deserialize_with = "present")]
    group: Option<GroupSize>,
    #[serde(default)]
    not_authenticated: Vec<String>,
}

impl Around {
    /// Checks that the inputs state nothing else than the members beside them.
    fn agrees_with(&self, inputs: &Inputs) -> Result<()> {
        differs("unit", self.unit.as_ref(), inputs.unit.as_ref())?;
        let group = |size: Option<GroupSize>| size.map(GroupSize::get);
        differs("group", group(self.group), group(inputs.group))?;
        differs("dataset_size", self.dataset_size, inputs.dataset_size)?;
        differs("recipe", self.recipe, inputs.recipe)
    }
}

/// Refuses a member that the inputs state otherwise.
fn differs<T: PartialEq + Display>(key: &str, own: Option<T>, stated: Option<T>) -> Result<()> {
    match (own, stated) {
        (Some(own), Some(stated)) if own != stated => {
            let why = format!("must be {stated}, as inputs.{key} says, got {own}");
            Err(refused(key, &why))
        }
        _ => Ok(()),
    }
}

/// Further members of a document without a type.
#[derive(Deserialize)]
struct Bare {
    #[serde(default, deserialize_with = "present")]
    delta: Option<Delta>,
    #[serde(default, deserialize_with = "present")]
    canary_records: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    canary_records_unknown: Option<bool>,
}

/// Further members of a manifest.
#[derive(Deserialize)]
struct Manifest {
    #[serde(rename = "seeded")]
    _seeded: bool,
    #[serde(rename = "vocabulary")]
    _vocabulary: Vocabulary,
    #[serde(default, deserialize_with = "present")]
    neighbours: Option<Neighbours>,
    #[serde(default, deserialize_with = "present")]
    canaries: Option<Planted>,
    #[serde(default, deserialize_with = "present")]
    initial: Option<Began>,
}

/// Where a manifest says that the starting weights came from.
#[derive(Deserialize)]
struct Began {
    from: String,
    #[serde(default)]
    declared_public: bool,
    #[serde(default)]
    has_manifest: bool,
    #[serde(default)]
    manifest_missing: bool,
}

impl Began {
    fn base(&self) -> Option<Base> {
        match (self.declared_public, self.has_manifest) {
            _ if self.from != "pretrained" => None,
            (true, _) if self.manifest_missing => Some(Base::DeclaredPublicUnknownRun),
            (true, true) => Some(Base::DeclaredPublicRun),
            (true, false) => Some(Base::DeclaredPublic),
            (false, _) => Some(Base::Unstated),
        }
    }
}

/// The origin of a model's vocabulary.
#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Vocabulary {
    Bytes,
    Characters,
    Pretrained,
    DeclaredPublic,
    Leaks,
}

/// Reads one of our documents that contain a mechanism.
fn around(
    document: &Value,
    members: &Map<String, Value>,
    inner: &Value,
    neighbours: Neighbours,
) -> Result<Document> {
    let own_words: Around = lenient(document, "", &[])?;
    if let Some(other) = own_words.schema.filter(|schema| *schema != 1) {
        return Err(refused("schema", &format!("must be 1, got {other}")));
    }
    // The steps of an explanation are a list of what it explains.
    let repeats =
        |(key, value): &(&String, &Value)| REPETITIONS.contains(&key.as_str()) && !value.is_array();
    if let Some((odd, _)) = members.iter().find(repeats) {
        let why = "unknown key; how often something ran is part of \"mechanism\"";
        return Err(refused(odd, why));
    }
    let is_manifest = members.get("type") == Some(&MANIFEST.into());
    let stated = match is_manifest {
        true => Some(manifest(document, members)?),
        false => None,
    };
    let canaries = stated.as_ref().and_then(|stated| stated.canaries);
    let began = stated.and_then(|stated| stated.initial);
    let inputs: Inputs = match members.get("inputs") {
        Some(inputs) => lenient(inputs, "inputs", &[])?,
        None => Inputs::default(),
    };
    if own_words.dataset_size == Some(0) {
        return Err(refused("dataset_size", "must lie in [1, inf), got 0"));
    }
    inputs.check_records()?;
    own_words.agrees_with(&inputs)?;
    let known_records = inputs.records();
    let known_copies = inputs.canary_records.unwrap_or(0);
    let unknown_copies = inputs.canary_records_unknown();
    if let Some(axis) = inputs.over.as_ref().filter(|axis| *axis != "gamma") {
        let why = format!("a curve over {axis} holds another mechanism at each of its points");
        return Err(refused(INNER, &why));
    }
    let mechanism = if event::is_event(inner) {
        event::read(inner, neighbours)
    } else {
        own(inner)
    };
    let mut mechanism = mechanism.map_err(|error| error.within(INNER))?;
    inputs.describe(&mechanism)?;
    let seeded = own_words.seeded == Some(true) || inputs.seeded == Some(true);
    let leaks = own_words.vocabulary == Some(Vocabulary::Leaks);
    let plan: Option<TrainingPlan> = match members.get(PLAN) {
        Some(plan) => Some(typed(plan, PLAN, &[])?),
        None => None,
    };
    if let Some(plan) = &plan {
        let planned = plan.mechanism();
        planned.validate().map_err(|error| error.within(PLAN))?;
        if !planned.is_same_run(&mechanism) {
            return Err(refused(INNER, "is not what the plan beside it releases"));
        }
        if let Some(odd) = own_words.unit.as_ref().filter(|unit| **unit != *plan.unit) {
            let why = format!("must be {}, the unit of the plan, got {odd}", *plan.unit);
            return Err(refused("unit", &why));
        }
        if let Run::Protect { weighted } = &plan.run
            && !weighted.dominates_its_secrets()
        {
            let place = "plan.run.weighted.secrets";
            return Err(refused(place, "are not those that secret_rates dominates"));
        }
        mechanism = planned;
    }
    // If the document states more that leaves no promise than its mechanism does, nothing is promised.
    for (stated, why) in [(seeded, SEEDED), (leaks, PUBLISHED_VOCABULARY)] {
        if stated && !mechanism.is_open_since(&|own| own == why) {
            mechanism = mechanism.unprotected(why);
        }
    }
    let unit = match &plan {
        Some(plan) => Some(plan.unit.value.clone()),
        None => {
            let assumed = inputs.assumed.iter().any(|name| name == "unit");
            own_words.unit.or(inputs.unit.filter(|_| !assumed))
        }
    };
    let base = began
        .and_then(|began| began.base())
        .or(plan.as_ref().and_then(TrainingPlan::base))
        .or(own_words.base);
    let earlier = plan
        .as_ref()
        .map_or(Some(0), TrainingPlan::earlier_canary_records)
        .filter(|_| base != Some(Base::DeclaredPublicUnknownRun));
    let recipe = plan
        .as_ref()
        .and_then(|plan| plan.run.recipe())
        .or(own_words.recipe)
        .or(inputs.recipe);
    // A plan of sgd releases such a mechanism itself.
    if recipe == Some(Recipe::Sgd) && plan.is_none() && !mechanism.is_open_since(&|_| true) {
        let why = "must be non-private beside the recipe sgd, which trains without noise";
        return Err(refused(INNER, why));
    }
    if recipe.is_none() && narrower_alone(members) {
        let why =
            "is missing: none of the guarantees beside it is differential privacy of the unit";
        return Err(refused("recipe", why));
    }
    Ok(Document {
        mechanism,
        unit,
        recipe,
        canaries,
        canary_records: canaries
            .map_or(0, |canaries| canaries.records)
            .max(earlier.unwrap_or(0))
            .max(known_copies),
        canary_records_unknown: earlier.is_none() || unknown_copies,
        labelled: own_words.labelled == Some(true),
        base,
        delta: plan.as_ref().map(|plan| *plan.delta).or(inputs.delta),
        records: plan
            .as_ref()
            .and_then(TrainingPlan::records)
            .or(own_words.dataset_size)
            .or(known_records),
        held_out_public: own_words.held_out_public == Some(true)
            || inputs.held_out_public == Some(true)
            || plan.as_ref().is_some_and(TrainingPlan::held_out_public),
        plan,
        not_authenticated: !own_words.not_authenticated.is_empty()
            || !inputs.not_authenticated.is_empty(),
        is_manifest,
    })
}

/// Returns whether a document lists guarantees, but none of differential privacy for its own unit. Its
/// mechanism alone would be read as such a promise.
fn narrower_alone(members: &Map<String, Value>) -> bool {
    let Some(Value::Array(rows)) = members.get("guarantees") else {
        return false;
    };
    let unit = members.get("inputs").map(|inputs| &inputs["unit"]);
    let whole = |row: &Value| {
        matches!(row["notion"].as_str(), Some("dp" | "group-dp"))
            && unit.is_none_or(|unit| unit.is_null() || row["unit"] == *unit)
    };
    !rows.is_empty() && !rows.iter().any(whole)
}

/// Checks that a manifest states for what it promises nothing; other keys may be added to it. Returns what else is read of
/// it.
fn manifest(document: &Value, members: &Map<String, Value>) -> Result<Manifest> {
    if !members.contains_key(PLAN) {
        return Err(refused(PLAN, "is missing"));
    }
    let manifest: Manifest = lenient(document, "", &[])?;
    // Noise is relative to the change under one of these relations; a replacement may change twice as
    // much.
    if manifest.neighbours == Some(Neighbours::Replace) {
        let why = "must be add-remove or zero-out, for which the noise is given, got replace";
        return Err(refused("neighbours", why));
    }
    Ok(manifest)
}

/// An unknown type may have been meant as the type of a document.
fn also_documents(error: Error) -> Error {
    match error {
        Error::Document { place, why } if place == "type" => {
            let documents = AROUND.join(", ");
            Error::Document {
                place,
                why: format!("{why}; documents around a mechanism are {MANIFEST}, {documents}"),
            }
        }
        other => other,
    }
}
