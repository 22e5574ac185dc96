//! Detectors, dictionaries, composition, JFT's levels.

mod compose;
mod detectors;
mod levels;
mod tagger;

use reticent_corpus::policy::{Policy, Span, View, resolved};

fn spans(policy: &dyn Policy, text: &str) -> Vec<Span> {
    resolved(policy, &View { text, secrets: &[] })
}

/// Kind and text of what a policy finds.
fn found(policy: &dyn Policy, text: &str) -> Vec<(String, String)> {
    spans(policy, text)
        .into_iter()
        .map(|s| (s.kind.to_string(), text[s.start..s.end].to_owned()))
        .collect()
}
