//! From a canary plan to what the search and the audit need.

use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::exposure::RankAudit;
use crate::search::listed::listed_targets;
use crate::search::{CandidateTree, Target};
use reticent_accounting::{Confidence, Delta};
use reticent_corpus::canary::{CanaryPlan, CandidateSpace};
use reticent_corpus::tokenize::Tokenizer;
use std::collections::BTreeMap;

impl Draw {
    /// How the secrets of this plan were drawn.
    #[must_use]
    pub const fn of_plan(plan: &CanaryPlan) -> Self {
        if plan.distinct {
            Self::Distinct
        } else {
            Self::Independent
        }
    }
}

/// The tree of a plan's candidates and one target per canary, in the plan's order.
///
/// # Errors
/// A space that is not the plan's, or one that [`CandidateTree::new`] refuses.
pub fn plan_targets(
    plan: &CanaryPlan,
    space: &CandidateSpace,
) -> Result<(CandidateTree, Vec<Target>)> {
    let tree = CandidateTree::new(&space.positions)?;
    if u128::from(tree.candidates()) != plan.candidates {
        return Err(Error::Unsuitable {
            what: "number of candidates of the space",
            needed: "that of the canary plan",
            got: format!("{} against {}", tree.candidates(), plan.candidates),
        });
    }
    let targets = plan
        .canaries
        .iter()
        .map(|canary| {
            Ok(Target {
                context: space.context.clone(),
                secret: space.tokens(&canary.secret)?,
            })
        })
        .collect::<Result<_>>()?;
    Ok((tree, targets))
}

/// The tree and the targets of a plan for any tokenizer: position by position where the tokenizer
/// keeps to positions (any number of candidates up to 2^63), else every candidate's canonical
/// tokens, listed one by one (byte-pair encodings that merge digits; up to 4 million candidates).
/// Canaries may have contexts of their own; the candidates' tokens must be the same behind all.
///
/// # Errors
/// As [`CandidateSpace::new`] and [`plan_targets`]; for a list: too many candidates, tokens that
/// reach across the end of a secret, two candidates with the same tokens. Candidates that have
/// other tokens behind one context than behind another.
pub fn plan_search(
    plan: &CanaryPlan,
    tokenizer: &Tokenizer,
) -> Result<(CandidateTree, Vec<Target>)> {
    let mut found: Option<CandidateTree> = None;
    let mut targets: BTreeMap<usize, Target> = BTreeMap::new();
    for members in by_context(plan).into_values() {
        let part = CanaryPlan {
            canaries: members.iter().map(|&i| plan.canaries[i].clone()).collect(),
            ..plan.clone()
        };
        let (tree, own) = search_in_one_context(&part, tokenizer)?;
        if found.get_or_insert_with(|| tree.clone()) != &tree {
            return Err(Error::Unsuitable {
                what: "tokenizer",
                needed: "one that cuts the candidates alike behind every context",
                got: part.canaries[0].id.clone(),
            });
        }
        targets.extend(members.into_iter().zip(own));
    }
    let tree = found.ok_or(Error::Empty("the plan has no canary"))?;
    Ok((tree, targets.into_values().collect()))
}

fn search_in_one_context(
    plan: &CanaryPlan,
    tokenizer: &Tokenizer,
) -> Result<(CandidateTree, Vec<Target>)> {
    match CandidateSpace::new(plan, tokenizer) {
        Ok(space) => plan_targets(plan, &space),
        Err(reticent_corpus::Error::NotCompositional(_)) => listed_targets(plan, tokenizer),
        Err(error) => Err(error.into()),
    }
}

impl RankAudit {
    /// The audit of a plan, with thresholds that follow from the plan
    /// ([`Self::planned_thresholds`]): from how many canaries share a context, at most.
    ///
    /// `copies` is the largest number of training records that hold one canary's secret: the
    /// plan's copies, unless several of them fell into one record or deduplication took some.
    #[must_use]
    pub fn of_plan(plan: &CanaryPlan, copies: u64, confidence: Confidence, delta: Delta) -> Self {
        let candidates = u64::try_from(plan.candidates).unwrap_or(u64::MAX);
        Self {
            thresholds: Self::planned_thresholds(candidates, sharing_a_context(plan)),
            confidence,
            delta,
            draw: Draw::of_plan(plan),
            unit: plan.unit,
            copies,
        }
    }
}

/// The largest number of canaries with one context.
fn sharing_a_context(plan: &CanaryPlan) -> u64 {
    let sharing = by_context(plan).into_values().map(|members| members.len());
    sharing.max().unwrap_or(0) as u64
}

/// Numbers of the canaries of each context.
fn by_context(plan: &CanaryPlan) -> BTreeMap<&str, Vec<usize>> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, canary) in plan.canaries.iter().enumerate() {
        members.entry(&canary.context).or_default().push(number);
    }
    members
}
