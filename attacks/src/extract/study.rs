//! Extraction rates by prompt length, by number of copies, and in comparison with a baseline.

use super::copies::strata_of;
use crate::error::{Result, counted};
use crate::membership::Rate;
use crate::statistics::sign_test;
use reticent_accounting::Confidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rates of one length of prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptRates {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Passages whose suffix comes out token by token.
    pub verbatim: Rate,
    /// Passages whose greedy continuation needs at most the stated share of its tokens changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub near: Option<Rate>,
    /// The same by number of copies in the training text, where that was counted.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub strata: Vec<Stratum>,
    /// The same beside a model that never saw the text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub contrast: Option<Contrast>,
}

/// Passages that stand equally often in the training text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stratum {
    /// At least so many copies.
    pub from: u64,
    /// At most so many; absent for the last stratum.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<u64>,
    /// The rate among them.
    pub rate: Rate,
    /// Those that the baseline does not give too; the rate itself without a baseline.
    pub beyond_baseline: Rate,
}

/// A model beside its baseline on the same passages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// The baseline's rate: what can be continued without having seen the text.
    pub baseline: Rate,
    /// Passages that the model gives and the baseline does not.
    pub only_model: Rate,
    /// Passages that the baseline gives and the model does not.
    pub only_baseline: Rate,
    /// P(so many or more of the discordant passages on the model's side) if both were alike:
    /// McNemar's test, exact and one-sided.
    pub p_value: f64,
}

/// Returns rates by number of copies (0, 1, 2 to 9, 10 to 99, 100 and more); empty strata are
/// omitted.
///
/// # Errors
/// Returns an error if the lists have different lengths.
pub fn strata(
    extracted: &[bool],
    baseline: Option<&[bool]>,
    copies: &[u64],
    confidence: Confidence,
) -> Result<Vec<Stratum>> {
    counted("numbers of copies", copies.len(), extracted.len())?;
    if let Some(baseline) = baseline {
        counted("baseline results", baseline.len(), extracted.len())?;
    }
    let mut found = Vec::new();
    for (from, to, members) in strata_of(copies) {
        let count = |holds: &dyn Fn(usize) -> bool| {
            let hits = members.iter().filter(|i| holds(**i)).count() as u64;
            Rate::of(hits, members.len() as u64, confidence)
        };
        found.push(Stratum {
            from,
            to,
            rate: count(&|i| extracted[i])?,
            beyond_baseline: count(&|i| extracted[i] && !baseline.is_some_and(|b| b[i]))?,
        });
    }
    Ok(found)
}

/// Compares a model with its baseline.
///
/// # Errors
/// Returns an error if there is no passage, or if the lists have different lengths.
pub fn contrast(model: &[bool], baseline: &[bool], confidence: Confidence) -> Result<Contrast> {
    counted("baseline results", baseline.len(), model.len())?;
    let trials = model.len() as u64;
    let count = |holds: fn(bool, bool) -> bool| {
        let pairs = model.iter().zip(baseline);
        pairs.filter(|(m, b)| holds(**m, **b)).count() as u64
    };
    let (ours, theirs) = (count(|m, b| m && !b), count(|m, b| b && !m));
    Ok(Contrast {
        baseline: Rate::of(count(|_, b| b), trials, confidence)?,
        only_model: Rate::of(ours, trials, confidence)?,
        only_baseline: Rate::of(theirs, trials, confidence)?,
        p_value: sign_test(ours, theirs),
    })
}
