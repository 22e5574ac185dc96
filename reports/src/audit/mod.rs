//! The `audit` command. Each subcommand has a folder: `args` parses, `run` does the work, and the other files are
//! the document and its page. The modules beside the folders are shared.

pub mod answers;
mod apart;
pub mod args;
pub mod classify;
pub mod coins;
pub mod convert;
pub mod demo;
pub mod design;
pub mod devices;
pub mod diff;
pub mod epsilon;
pub mod exposure;
pub mod extract;
pub mod figure;
pub mod grid;
pub mod incidence;
#[cfg(feature = "audit")]
mod loaded_model;
pub mod membership;
pub mod neighbours;
pub(crate) mod owner_key;
pub mod perplexity;
pub mod plant;
pub mod policy;
mod power;
pub mod prepare;
mod published;
mod reading;
#[cfg(feature = "audit")]
mod records;
pub mod redact;
pub mod report;
pub mod reproduce;
mod run;
#[cfg(feature = "audit")]
mod scorer;
pub mod screen;
pub mod serve;
pub mod simulate;
pub mod tokenizer;
pub mod train;
#[cfg(feature = "audit")]
mod training_text;
mod unknown;

pub use apart::Apart;
pub use owner_key::RecordsDigest;
pub(crate) use owner_key::measured_for;
pub use run::run;
pub use unknown::Characters;

use crate::number::grouped;
use crate::page::Output;
use reticent_accounting::{Bounds, Confidence, Epsilon, Probability};
use std::collections::BTreeMap;

/// Prepares this process for [`run`]; `main` must call it before anything else. Returns true in a process of this program
/// that has done its work, and must return from `main`.
#[must_use]
pub fn begin() -> bool {
    // Other people's classifiers and templates run in another process of this program. If it can't be started, loading
    // one reports the error.
    #[cfg(feature = "onnx")]
    if matches!(reticent_corpus::isolate(), Ok(true)) {
        return true;
    }
    grid::end_with_parent();
    false
}

/// The confidence of what is shown unless another is given, and the least with which a bound above 0 shows a leak.
const USUAL: f64 = 0.95;

/// Returns whether a bound of this confidence shows a leak where it is above 0: at a low confidence, models that never saw
/// the canaries often have one.
const fn can_show_leak(confidence: Confidence) -> bool {
    confidence.get() >= USUAL
}

/// Returns the confidence of what is shown: as given, or 0.95.
fn confidence(given: Option<Confidence>) -> anyhow::Result<Confidence> {
    Ok(given.map_or_else(|| Confidence::new(USUAL), Ok)?)
}

/// Returns the limit on ε that is judged. A project's limit is one on promises: where not even the largest bound that can be
/// proved exceeds it, it is left unused.
fn epsilon_limit(
    given: Option<Epsilon>,
    provable: Epsilon,
    output: &mut Output,
) -> Option<Epsilon> {
    given.filter(|limit| provable > *limit || !output.leaves("max_epsilon"))
}

/// Returns the ends of a probability; 0 and 1 where they are unknown.
fn ends(bounds: &Bounds<Probability>) -> (f64, f64) {
    (
        bounds.lower.map_or(0.0, |l| l.get().get()),
        bounds.upper.map_or(1.0, |u| u.get().get()),
    )
}

/// Formats an interval in percent with one decimal, the lower end rounded down and the upper end rounded up.
fn percents(bounds: &Bounds<Probability>) -> String {
    let (low, high) = ends(bounds);
    format!(
        "{:.1} to {:.1} %",
        (low * 1e3).floor() / 10.0,
        (high * 1e3).ceil() / 10.0
    )
}

/// Describes numbers of copies: 1, 2 to 9, 100 and more.
fn copies(from: u64, to: Option<u64>) -> String {
    match to {
        Some(to) if to == from => to.to_string(),
        Some(to) => format!("{from} to {to}"),
        None => format!("{from} and more"),
    }
}

/// Returns how many there are of each kind, in words.
fn by_kind(counts: &BTreeMap<String, u64>, none: &str) -> String {
    let each = counts.iter();
    let each = each.map(|(kind, count)| format!("{kind} {}", grouped(*count)));
    match counts.is_empty() {
        true => none.to_owned(),
        false => each.collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod schema;
