//! The classes of sequences: their number, their names, and a decoder's padding token.

use super::super::fields::Fields;
use super::write;
use crate::error::Result;
use crate::model::{Family, Head, TransformerConfig};
use serde_json::{Map, Value, json};

/// Reads the number of classes from `id2label` (else `num_labels`, else 2), and their names; no names if they are
/// `LABEL_0`, `LABEL_1`, ….
pub(super) fn read(f: &Fields) -> Result<(usize, Vec<String>)> {
    if let Some(kind) = f.text_if_there("problem_type")?
        && kind != "single_label_classification"
    {
        return Err(f.bad(format!(
            "problem_type `{kind}` is not covered; single_label_classification is"
        )));
    }
    let Some(labels) = f.object("id2label")? else {
        return Ok((f.size_if_there("num_labels")?.unwrap_or(2), Vec::new()));
    };
    let texts = labels.all_texts()?;
    let mut names: Vec<Option<String>> = vec![None; texts.len()];
    for (key, name) in texts {
        let at = key.parse::<usize>().ok();
        match at.and_then(|at| names.get_mut(at)) {
            Some(place) => *place = Some(name.to_owned()),
            None => return Err(f.bad("id2label must name each class from 0 on by its number")),
        }
    }
    let names: Option<Vec<String>> = names.into_iter().collect();
    let names =
        names.ok_or_else(|| f.bad("id2label must name each class from 0 on by its number"))?;
    let plain = names
        .iter()
        .enumerate()
        .all(|(i, name)| *name == numbered(i));
    Ok((names.len(), if plain { Vec::new() } else { names }))
}

/// Returns the default name of a class.
fn numbered(class: usize) -> String {
    format!("LABEL_{class}")
}

/// Writes `id2label` and `label2id` of a model with classes.
pub(super) fn put(c: &TransformerConfig, value: &mut Value) {
    let Head::Classes(classes) = c.head else {
        return;
    };
    let name = |i: usize| c.class_names.get(i).cloned().unwrap_or_else(|| numbered(i));
    let ids: Map<String, Value> = (0..classes)
        .map(|i| (i.to_string(), json!(name(i))))
        .collect();
    let labels: Map<String, Value> = (0..classes).map(|i| (name(i), json!(i))).collect();
    value["id2label"] = Value::Object(ids);
    value["label2id"] = Value::Object(labels);
    if c.causal() {
        value["pad_token_id"] = json!(c.padding);
    }
}

/// Returns a decoder with classes in place of its next-token head, if the file names that class.
pub(super) fn decoder(f: &Fields, base: TransformerConfig) -> Result<TransformerConfig> {
    let named = f.texts("architectures")?;
    if named.first().copied() != write::sequence_class(base.family).as_deref() || named.is_empty() {
        return Ok(base);
    }
    let (classes, class_names) = read(f)?;
    let padding = match f.named("pad_token_id") {
        true => f.size_if_there("pad_token_id")?,
        // transformers' default for an absent key
        false => match base.family {
            Family::Gemma | Family::Gemma2 | Family::Gemma3 => Some(0),
            Family::Opt | Family::Olmo2 => Some(1),
            Family::Phi3 => Some(32_000),
            Family::Smollm3 => Some(128_004),
            _ => None,
        },
    };
    let padding = padding
        .map(u32::try_from)
        .transpose()
        .map_err(|e| f.bad(format!("pad_token_id: {e}")))?;
    Ok(TransformerConfig {
        head: Head::Classes(classes),
        class_names,
        padding,
        ..base
    })
}
