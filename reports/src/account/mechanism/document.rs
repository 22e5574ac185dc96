//! What kind of document it is: a mechanism, an event, or one of our documents around either.
//!
//! A document is read around its mechanism only where its kind is known: `{"count": 237,
//! "mechanism": …}` may mean 237 steps to whoever wrote it, and a key passed over would
//! make its epsilon too small.

use super::json::{Node, Refused, kind};
use super::{event, own};
use reticent_accounting::{Mechanism, Neighbours, UnitName};
use serde_json::Value;

type Result<T> = std::result::Result<T, Refused>;

/// Where one of our documents keeps what ran.
const INNER: &str = "mechanism";

/// Our documents around a mechanism, by type, but for the manifest.
const OURS: [&str; 4] = ["guarantees", "curve", "explanation", "training"];

/// The type of a checkpoint's manifest, and the keys it has.
const MANIFEST: &str = "checkpoint";
pub(super) const MANIFEST_KEYS: [&str; 18] = [
    "schema",
    "type",
    "recipe",
    "unit",
    "vocabulary",
    "stages",
    "initial",
    "neighbours",
    "phases",
    "mechanism",
    "estimates",
    "seeded",
    "dropout",
    "course",
    "weights",
    "digests",
    "canaries",
    "not_covered",
];

/// Where the vocabulary of a manifest may come from.
pub(super) const VOCABULARIES: [&str; 5] = [
    "bytes",
    "characters",
    "pretrained",
    "declared-public",
    "leaks",
];

/// A mechanism from a document, with the unit if the document has one.
pub(super) fn read(
    document: &Value,
    neighbours: Neighbours,
) -> Result<(Mechanism, Option<UnitName>)> {
    if event::is_event(document) {
        let found = event::mechanism(&event::named(document), String::new(), neighbours)?;
        return Ok((found, None));
    }
    if !document.is_object() {
        let why = format!(
            "must be an object (or an event as a list), got {}",
            kind(document)
        );
        return Err(Refused {
            place: String::new(),
            why,
        });
    }
    let node = Node::new(document, String::new())?;
    match (node.get("type"), node.get(INNER)) {
        (Some(Value::String(told)), _) if own::KINDS.contains(&told.as_str()) => {
            Ok((own::mechanism(document, String::new())?, None))
        }
        (Some(Value::String(told)), Some(inner)) => around(&node, told, inner, neighbours),
        (Some(_), _) => Ok((own::mechanism(document, String::new())?, None)),
        (None, Some(inner)) => {
            node.only(&["schema", "unit", INNER])?;
            first_schema(&node)?;
            Ok((inside(inner, neighbours)?, unit(&node)?))
        }
        (None, None) => Err(node.refuse(
            "neither a mechanism (key \"type\"), nor an event (\"class_name\"), nor a document with one \
             (\"mechanism\")",
        )),
    }
}

/// One of our documents around what ran.
fn around(
    node: &Node<'_>,
    told: &str,
    inner: &Value,
    neighbours: Neighbours,
) -> Result<(Mechanism, Option<UnitName>)> {
    if told != MANIFEST && !OURS.contains(&told) {
        let why = format!(
            "must be that of a mechanism ({}) or of a document around one ({MANIFEST}, {}), got {told:?}",
            own::KINDS.join(", "),
            OURS.join(", ")
        );
        return Err(node.refuse_key("type", why));
    }
    first_schema(node)?;
    let mut parts = vec![inside(inner, neighbours)?];
    if told == MANIFEST {
        node.only(&MANIFEST_KEYS)?;
        for key in ["seeded", "vocabulary"] {
            node.value(key)?;
        }
    }
    parts.extend(caveats(node)?);
    let whole = match parts.len() {
        1 => parts.remove(0),
        _ => Mechanism::Sequence { parts },
    };
    Ok((whole, unit(node)?))
}

fn inside(inner: &Value, neighbours: Neighbours) -> Result<Mechanism> {
    if event::is_event(inner) {
        event::mechanism(&event::named(inner), INNER.to_owned(), neighbours)
    } else {
        own::mechanism(inner, INNER.to_owned())
    }
}

/// What a run says beside its mechanism that leaves nothing of the promise.
fn caveats(node: &Node<'_>) -> Result<Vec<Mechanism>> {
    let mut parts = Vec::new();
    let mut open = |why: &str| parts.push(Mechanism::NonPrivate { why: why.into() });
    // A document about a run says it among its inputs, or of itself.
    let told = node.get("inputs").and_then(|inputs| inputs.get("seeded"));
    for (place, value) in [("seeded", node.get("seeded")), ("inputs.seeded", told)] {
        match value {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => open("a fixed seed drew batches and noise"),
            Some(other) => {
                let why = format!("must be true or false, got {}", kind(other));
                return Err(node.refuse_key(place, why));
            }
        }
    }
    if node.get("vocabulary").is_some() {
        let told = node.text("vocabulary")?;
        if !VOCABULARIES.contains(&told) {
            let why = format!("must be {}, got {told:?}", VOCABULARIES.join(", "));
            return Err(node.refuse_key("vocabulary", why));
        }
        if told == "leaks" {
            open("the vocabulary was built from private text");
        }
    }
    // Noise is told in units of what one of these changes; a replacement may change twice that.
    if node.get("neighbours").is_some() && node.get("type") == Some(&MANIFEST.into()) {
        let told = node.text("neighbours")?;
        if !["add-remove", "zero-out"].contains(&told) {
            let why = format!(
                "must be add-remove or zero-out, for which the noise is told, got {told:?}"
            );
            return Err(node.refuse_key("neighbours", why));
        }
    }
    Ok(parts)
}

/// A schema that is told must be the one we know.
fn first_schema(node: &Node<'_>) -> Result<()> {
    match node.get("schema") {
        None => Ok(()),
        Some(_) => node.whole("schema", 1, 1).map(|_| ()),
    }
}

/// `unit` of a manifest, or of the inputs of our own documents.
fn unit(document: &Node<'_>) -> Result<Option<UnitName>> {
    let (value, place) = match (
        document.get("unit"),
        document.get("inputs").and_then(|i| i.get("unit")),
    ) {
        (Some(value), _) => (value, "unit"),
        (None, Some(value)) => (value, "inputs.unit"),
        (None, None) => return Ok(None),
    };
    let refuse = |why: String| Refused {
        place: place.to_owned(),
        why,
    };
    let label = value
        .as_str()
        .ok_or_else(|| refuse(format!("must be a text, got {}", kind(value))))?;
    UnitName::new(label)
        .map(Some)
        .map_err(|why| refuse(why.to_string()))
}
