//! The labels of a token classifier, and the interpretation of a row of logits.

use crate::policy::EntityKind;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest number of labels.
const MOST: usize = 4096;

/// The kind of what a model returned no valid numbers for, too.
pub(super) use crate::policy::NOT_CLASSIFIED;

/// The meaning of a model's labels.
#[derive(Debug)]
pub(super) struct Labels {
    /// All labels; `None` is plain text.
    labels: Vec<Option<Label>>,
    pub(super) kinds: Vec<Arc<str>>,
}

#[derive(Debug, Clone, Copy)]
struct Label {
    kind: usize,
    begins: bool,
    ends: bool,
}

/// The classification of a piece or a word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Said {
    /// The probability of being part of an entity.
    pub(super) score: f32,
    /// The most likely kind; `None` if the logits are not numbers.
    pub(super) kind: Option<usize>,
    /// Whether it is more likely the first of its entity than a later one.
    pub(super) begins: bool,
    /// Whether it is more likely the last.
    pub(super) ends: bool,
}

#[derive(Deserialize)]
struct Config {
    id2label: BTreeMap<String, String>,
}

impl Labels {
    pub(super) fn from_config(config: &[u8]) -> Result<Self, String> {
        let config: Config = serde_json::from_slice(config).map_err(|e| e.to_string())?;
        let count = config.id2label.len();
        if !(2..=MOST).contains(&count) {
            return Err(format!(
                "id2label must name from 2 to {MOST} labels, got {count}"
            ));
        }
        let mut out = Self {
            labels: Vec::with_capacity(count),
            kinds: Vec::new(),
        };
        for id in 0..count {
            let name = config.id2label.get(&id.to_string()).ok_or_else(|| {
                format!(
                    "id2label must name every id from 0 to {}, {id} is missing",
                    count - 1
                )
            })?;
            let label = out.label(name)?;
            out.labels.push(label);
        }
        if out.labels.iter().all(Option::is_some) {
            return Err("id2label must have a label O, that of plain text".to_owned());
        }
        if out.kinds.is_empty() {
            return Err("id2label must have a label beside O".to_owned());
        }
        Ok(out)
    }

    fn label(&mut self, name: &str) -> Result<Option<Label>, String> {
        if name == "O" {
            return Ok(None);
        }
        let (prefix, rest) = match name.split_once(['-', '_']) {
            Some((p, rest)) if matches!(p, "B" | "I" | "E" | "S" | "L" | "U" | "M") => (p, rest),
            _ => ("", name),
        };
        if rest.is_empty() {
            return Err(format!("id2label: {name:?} names no kind"));
        }
        let kind = kind(rest);
        let at = self.kinds.iter().position(|k| **k == *kind);
        let kind = at.unwrap_or_else(|| {
            self.kinds.push(kind.into());
            self.kinds.len() - 1
        });
        Ok(Some(Label {
            kind,
            begins: matches!(prefix, "B" | "S" | "U"),
            ends: matches!(prefix, "E" | "S" | "L" | "U"),
        }))
    }

    pub(super) fn count(&self) -> usize {
        self.labels.len()
    }

    /// Interprets one row of logits: softmax, then sums over labels.
    pub(super) fn said(&self, row: &[f32]) -> Said {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if row.iter().any(|logit| logit.is_nan()) || !most.is_finite() {
            return Said {
                score: 1.0,
                kind: None,
                begins: true,
                ends: true,
            };
        }
        let weights = row.iter().map(|logit| f64::from(logit - most).exp());
        let weights: Vec<f64> = weights.collect();
        let total: f64 = weights.iter().sum();
        let mut kinds = vec![0.0; self.kinds.len()];
        for (label, weight) in self.labels.iter().zip(&weights) {
            if let Some(label) = label {
                kinds[label.kind] += weight;
            }
        }
        let kind =
            (0..kinds.len()).fold(0, |best, k| if kinds[k] > kinds[best] { k } else { best });
        let likelier = |holds: &dyn Fn(&Label) -> bool| {
            let of = self.labels.iter().zip(&weights);
            let of = of.filter_map(|(label, weight)| Some((label.as_ref()?, weight)));
            let signed = of.filter(|(label, _)| label.kind == kind);
            signed
                .map(|(label, w)| if holds(label) { *w } else { -w })
                .sum::<f64>()
                > 0.0
        };
        Said {
            score: (kinds.iter().sum::<f64>() / total) as f32,
            kind: Some(kind),
            begins: likelier(&|label| label.begins),
            ends: likelier(&|label| label.ends),
        }
    }
}

impl Said {
    /// Combines two pieces of one word. The score and the kind are those of the piece with the
    /// higher score; the first piece says whether the word begins an entity, the last whether it
    /// ends one.
    pub(super) fn joined(self, later: Self) -> Self {
        let surer = if later.score > self.score {
            later
        } else {
            self
        };
        Self {
            score: surer.score,
            kind: surer.kind,
            begins: self.begins,
            ends: later.ends,
        }
    }
}

/// Returns the kind of a label: the name of one of the eighteen kinds of entities if it is one.
fn kind(label: &str) -> String {
    let plain = label.to_lowercase().replace(['_', ' '], "-");
    match plain.as_str() {
        "per" => EntityKind::Person.name().to_owned(),
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &[&str]) -> Result<Labels, String> {
        let map: BTreeMap<String, &str> = (0..)
            .map(|i: u32| i.to_string())
            .zip(names.iter().copied())
            .collect();
        Labels::from_config(serde_json::json!({"id2label": map}).to_string().as_bytes())
    }

    #[test]
    fn scores_are_one_minus_plain_text_and_kinds_are_sums() {
        let labels = labels(&["O", "B-PER", "I-PER", "B-ORG"]).unwrap();
        assert_eq!(labels.kinds, ["person".into(), "org".into()]);
        // Probabilities 1/8, 3/8, 1/8, 3/8: a person, though B-ORG is as likely as B-PER.
        let said = labels.said(&[1f32.ln(), 3f32.ln(), 1f32.ln(), 3f32.ln()]);
        assert!((said.score - 0.875).abs() < 1e-6);
        assert_eq!((said.kind, said.begins, said.ends), (Some(0), true, false));
        // Far apart: no overflow, and small probabilities keep their digits.
        let said = labels.said(&[0.0, -20.0, -1e4, -1e4]);
        assert!((f64::from(said.score) / (-20f64).exp() - 1.0).abs() < 1e-6);
        let sure = labels.said(&[0.0, f32::NAN, 0.0, 0.0]);
        assert_eq!((sure.score, sure.kind), (1.0, None));
        assert_eq!(labels.said(&[f32::INFINITY, 0.0, 0.0, 0.0]).kind, None);
        assert_eq!(labels.said(&[f32::NEG_INFINITY; 4]).kind, None);
    }

    #[test]
    fn labels_have_their_prefixes_or_none() {
        let of = labels(&["E-LOC", "O", "S-LOC", "M-LOC", "PHONE_NUM", "B-PHONE_NUM"]).unwrap();
        assert_eq!(of.kinds, ["loc".into(), "phone-num".into()]);
        let flags = |at: usize| of.labels[at].map(|l| (l.kind, l.begins, l.ends));
        assert_eq!(flags(0), Some((0, false, true)));
        assert_eq!(flags(1), None);
        assert_eq!(flags(2), Some((0, true, true)));
        assert_eq!(flags(3), Some((0, false, false)));
        assert_eq!(flags(4), Some((1, false, false)));
        assert_eq!(flags(5), Some((1, true, false)));
        for (names, problem) in [
            (&["O"][..], "from 2 to 4096 labels, got 1"),
            (&["LABEL_0", "LABEL_1"], "a label O"),
            (&["O", "B-"], "\"B-\" names no kind"),
            (&["O", "O"], "a label beside O"),
        ] {
            let error = labels(names).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        let gap = Labels::from_config(br#"{"id2label":{"0":"O","2":"B-PER"}}"#).unwrap_err();
        assert_eq!(gap, "id2label must name every id from 0 to 1, 1 is missing");
    }
}
