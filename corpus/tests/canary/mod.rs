//! Canary plans: templates, specifications, draws, places, carriers, the candidate space.

mod format;
mod plan;
mod space;
mod template;

use reticent_corpus::Unit;
use reticent_corpus::canary::{CanaryOptions, CanaryPlan, CanaryTemplate};
use reticent_corpus::simulate::simulate;

fn template(text: &str) -> CanaryTemplate {
    text.parse().unwrap()
}

fn options(spec: &str, text: &str) -> CanaryOptions {
    CanaryOptions {
        template: template(text).into(),
        ..CanaryOptions::new(spec.parse().unwrap())
    }
}

fn plan(spec: &str) -> CanaryPlan {
    let documents = simulate(50, 0).unwrap();
    CanaryPlan::new(
        &CanaryOptions::new(spec.parse().unwrap()),
        Unit::Turn,
        &documents,
    )
    .unwrap()
}
