//! The pipeline: CRT's appendix A.6 detail by detail, and the facts that are recorded.

mod answers;
mod appendix;
mod counts;
mod preflight;
mod stability;

use reticent_corpus::policy::{ConservativeOptions, PatternRule, PolicyChoice, PolicyOptions};
use reticent_corpus::prepare::{PrepareOptions, Prepared};
use reticent_corpus::{Document, Side};

fn numbers() -> PolicyOptions {
    let rule = PatternRule {
        kind: "code".to_owned(),
        pattern: r"\b\d{3}\b".to_owned(),
    };
    PolicyOptions {
        policy: PolicyChoice::Patterns { rules: vec![rule] },
        ..PolicyOptions::default()
    }
}

/// The pattern policy on three digits, everything without a capital public.
fn options() -> PrepareOptions {
    let conservative = ConservativeOptions {
        digits: false,
        policy: false,
        ..ConservativeOptions::default()
    };
    PrepareOptions {
        policy: numbers(),
        conservative: Some(conservative),
        ..PrepareOptions::default()
    }
}

fn corpus(texts: &[&str]) -> Vec<Document> {
    texts
        .iter()
        .enumerate()
        .map(|(i, text)| Document::new(format!("d{i}"), *text))
        .collect()
}

/// Texts with their sides.
fn result(prepared: &Prepared) -> Vec<(&str, Side)> {
    prepared
        .texts
        .iter()
        .zip(&prepared.training.records)
        .map(|(text, record)| (text.as_str(), record.side))
        .collect()
}
