//! Converts a canary plan into the inputs of the search and the audit.

use crate::draw::Draw;
use crate::error::{Error, Result, suited};
use crate::exposure::RankAudit;
use crate::search::listed::listed_targets;
use crate::search::{CandidateTree, Target};
use reticent_accounting::{Confidence, Delta};
use reticent_corpus::canary::{CanaryPlan, CandidateSpace};
use reticent_corpus::tokenize::Tokenizer;
use std::collections::BTreeMap;

impl Draw {
    /// Returns how the secrets of this plan were drawn.
    #[must_use]
    pub const fn of_plan(plan: &CanaryPlan) -> Self {
        if plan.distinct {
            Self::Distinct
        } else {
            Self::Independent
        }
    }
}

/// Returns the tree of a plan's candidates and one target per canary, in the plan's order.
///
/// # Errors
/// Returns an error if the space is not the plan's, or if [`CandidateTree::new`] refuses it.
pub fn plan_targets(
    plan: &CanaryPlan,
    space: &CandidateSpace,
) -> Result<(CandidateTree, Vec<Target>)> {
    let tree = CandidateTree::new(&space.positions)?;
    suited(
        "number of candidates of the space",
        "that of the canary plan",
        format_args!("{} against {}", tree.candidates(), plan.candidates),
        u128::from(tree.candidates()) == plan.candidates,
    )?;
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

/// Returns the tree and the targets of a plan for any tokenizer.
///
/// If the tokenizer respects positions, the tree is built position by position (any number of
/// candidates up to 2^63). Otherwise the canonical tokens of every candidate are listed one by one
/// (byte-pair encodings that merge digits; up to 4 million candidates). Canaries may have different
/// contexts, but the candidates' tokens must be the same after each of them.
///
/// # Errors
/// As for [`CandidateSpace::new`] and [`plan_targets`]. A list fails if there are too many
/// candidates, if tokens reach across the end of a secret, or if two candidates have the same
/// tokens. Also returns an error if candidates have other tokens after one context than after
/// another.
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
    /// Returns the audit of a plan, with thresholds that follow from the plan
    /// ([`Self::planned_thresholds`], for the largest number of canaries that share a context, [`Self::within`] the
    /// plan's candidates).
    ///
    /// `copies` is the largest number of training records that contain one canary's secret: the
    /// plan's copies, unless several of them ended up in one record or deduplication removed some.
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
        .within(candidates, plan.canaries.len() as u64)
    }
}

/// Returns the largest number of canaries with one context.
fn sharing_a_context(plan: &CanaryPlan) -> u64 {
    let sharing = by_context(plan).into_values().map(|members| members.len());
    sharing.max().unwrap_or(0) as u64
}

/// Returns the indices of the canaries of each context.
fn by_context(plan: &CanaryPlan) -> BTreeMap<&str, Vec<usize>> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, canary) in plan.canaries.iter().enumerate() {
        members.entry(&canary.context).or_default().push(number);
    }
    members
}
