//! Policies composed of other policies.

use super::{Policy, Span, View, found, is_unexamined};
use crate::error::{Result, range, within};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Finds what at least `count` of several policies find secret, byte by byte: 1 means any of them,
/// their number means all of them. A record that one of them could not examine is found whole.
#[derive(Debug, Clone)]
pub struct AtLeast {
    policies: Vec<Arc<dyn Policy>>,
    count: usize,
}

impl AtLeast {
    /// Composes policies.
    ///
    /// # Errors
    /// Returns an error if the count is below 1 or above the number of policies.
    pub fn new(policies: Vec<Arc<dyn Policy>>, count: usize) -> Result<Self> {
        if !(1..=policies.len()).contains(&count) {
            return Err(range(
                "how many policies must agree",
                count,
                format!("from 1 to {}, the number of policies", policies.len()),
            ));
        }
        Ok(Self { policies, count })
    }
}

impl Policy for AtLeast {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        if self.count == 1 {
            let each = self.policies.iter();
            spans.extend(each.flat_map(|policy| found(policy.as_ref(), view)));
            return;
        }
        let each: Vec<Vec<Span>> = self
            .policies
            .iter()
            .map(|policy| found(policy.as_ref(), view))
            .collect();
        // Whether a policy examines a record depends on the run, so such a record is found whole, as by that policy alone.
        let mut all = each.iter().flatten();
        match all.find(|span| is_unexamined(span, view.text)) {
            Some(whole) => spans.push(whole.clone()),
            None => spans.extend(agreed(&each, self.count)),
        }
    }
}

/// Returns the stretches that enough policies cover, cut at the ends of all their spans.
fn agreed(each: &[Vec<Span>], count: usize) -> Vec<Span> {
    let cuts: BTreeSet<usize> = each
        .iter()
        .flatten()
        .flat_map(|s| [s.start, s.end])
        .collect();
    let cuts: Vec<usize> = cuts.into_iter().collect();
    let mut out: Vec<Span> = Vec::new();
    for pair in cuts.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        // For each policy, the span over this stretch with the highest score.
        let mut votes: Vec<&Span> = each
            .iter()
            .filter_map(|found| {
                found
                    .iter()
                    .filter(|s| s.start <= start && end <= s.end)
                    .max_by(|a, b| a.score.total_cmp(&b.score))
            })
            .collect();
        if votes.len() < count {
            continue;
        }
        votes.sort_by(|a, b| b.score.total_cmp(&a.score));
        // The highest score that at least `count` of them reach.
        let score = votes[count - 1].score;
        match out.last_mut() {
            Some(last) if last.end == start => {
                last.end = end;
                last.score = last.score.max(score);
            }
            _ => {
                let sources: BTreeSet<&str> = votes.iter().map(|s| &*s.source).collect();
                let sources: Vec<&str> = sources.into_iter().collect();
                let kind = votes[0].kind.clone();
                out.push(Span::new(start..end, kind, sources.join("+"), score));
            }
        }
    }
    out
}

/// The spans of a policy whose score reaches a threshold. Two thresholds over one policy give π and
/// the conservative π_c (Zhao et al. 2022, appendix A.4).
#[derive(Debug, Clone)]
pub struct Threshold {
    policy: Arc<dyn Policy>,
    least: f32,
}

impl Threshold {
    /// Keeps spans with a score of at least `least`.
    ///
    /// # Errors
    /// Returns an error if the threshold is outside [0, 1].
    pub fn new(policy: Arc<dyn Policy>, least: f32) -> Result<Self> {
        let least = within("the threshold", least, 0.0..=1.0)?;
        Ok(Self { policy, least })
    }
}

impl Policy for Threshold {
    fn find(&self, view: &View<'_>, spans: &mut Vec<Span>) {
        let found = found(self.policy.as_ref(), view).into_iter();
        // A NaN score counts as sure: better to mask than to miss.
        spans.extend(found.filter(|s| s.score >= self.least || s.score.is_nan()));
    }
}
