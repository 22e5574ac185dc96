//! Exact ranks of secrets among all candidates, without scoring all candidates.
//!
//! The score of a candidate is the summed negative log-likelihood (NLL, nats) of the secret span
//! given its context: −Σ ln p(token | preceding tokens). The sum never decreases as a prefix grows,
//! so no candidate below a prefix that already costs more than the canary can outrank the canary.
//! The search expands a prefix only while its sum is at most the canary's (plus the tie tolerance);
//! everything below a pruned prefix is counted, not scored. The result equals that of full
//! enumeration, which [`flat_ranks`] implements as a test oracle.
//!
//! Canaries that share a context share one tree; trees of different contexts share batches.

mod flat;
mod frontier;
mod listed;
mod meter;
mod plan;
mod tree;

pub(crate) use flat::score_secrets;
pub use flat::{FlatSample, flat_ranks, sample_flat};
pub(crate) use meter::Meter;
pub use plan::{plan_search, plan_targets};
pub use tree::CandidateTree;
pub(crate) use tree::Edge;

use crate::error::{Error, Result, given, ranged, suited};
use crate::evalue::{BeliefTracker, CanaryGuesses, EValueAudit};
use frontier::Frontier;
use reticent_backends::{PrefixScorer, Scorer};
use reticent_corpus::TokenId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::time::Instant;

/// A secret to be ranked, and the tokens before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The tokens before the secret, beginning-of-text included; at least one.
    pub context: Vec<TokenId>,
    /// The secret's own tokens; one of the candidates.
    pub secret: Vec<TokenId>,
}

/// The options of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchOptions {
    /// The number of states that the engine extends at once.
    pub batch: usize,
    /// Candidates whose NLL differs from the canary's by at most this count as ties, nats. Zero
    /// for an engine whose f64 sums are exact; otherwise that of [`tie_tolerance`].
    pub tie_tolerance: f64,
    /// The largest number of positions to score; `None` searches to the end. The canaries' own
    /// paths are always scored, so that there is a result.
    pub budget: Option<u64>,
}

/// Returns the difference up to which the NLLs of a secret of so many tokens and of another candidate count as equal, in
/// nats.
///
/// A canary and its candidates are scored in different batches: what batches alone can make of equal scores is no rank.
#[must_use]
pub fn tie_tolerance<S: Scorer + ?Sized>(scorer: &S, tokens: usize) -> f64 {
    /// Above the rounding of f32 products summed over a secret, far below any leak.
    const SUMS: f64 = 1e-5;
    SUMS.max(scorer.batch_rounding() * tokens as f64)
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            batch: 256,
            tie_tolerance: 0.0,
            budget: None,
        }
    }
}

impl SearchOptions {
    pub(crate) fn check(&self) -> Result<()> {
        ranged("batch", "[1, inf)", self.batch, self.batch > 0)?;
        check_tie_tolerance(self.tie_tolerance)?;
        ranged("budget", "[1, inf) positions", 0, self.budget != Some(0))
    }
}

/// The progress of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Positions scored so far.
    pub positions: u64,
    /// Share of the candidates that are scored or ruled out, over all contexts, in [0, 1].
    pub resolved: f64,
    /// The number of states that the engine currently holds.
    pub states: usize,
}

/// The position of one canary among all candidates of its context.
///
/// `below + ties + unresolved + 1 ≤ candidates`; the rest costs more than the canary. Tests and
/// summaries refuse other counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankCount {
    /// N, the number of candidates, the canary included.
    pub candidates: u64,
    /// The canary's NLL in nats, +∞ when the model rules it out.
    pub nll: f64,
    /// Candidates with a smaller NLL.
    pub below: u64,
    /// Other candidates within the tie tolerance.
    pub ties: u64,
    /// Candidates that the budget left open; each may rank anywhere.
    pub unresolved: u64,
}

impl RankCount {
    /// Returns a count with these ranks, for summaries and tests, which read nothing but ranks.
    #[must_use]
    pub const fn of_ranks(candidates: u64, min: u64, max: u64) -> Self {
        Self {
            candidates,
            nll: 0.0,
            below: min.saturating_sub(1),
            ties: max.saturating_sub(min),
            unresolved: 0,
        }
    }
    /// Returns the best rank the canary can have: a lower bound on its rank.
    #[must_use]
    pub const fn rank_min(&self) -> u64 {
        self.below.saturating_add(1)
    }
    /// Returns the worst rank the canary can have: an upper bound on its rank.
    #[must_use]
    pub const fn rank_max(&self) -> u64 {
        self.below
            .saturating_add(1)
            .saturating_add(self.ties)
            .saturating_add(self.unresolved)
    }
    /// Returns the mean of the best and worst rank over the ties; `None` if the budget ran out.
    #[must_use]
    pub fn rank_mid(&self) -> Option<f64> {
        self.is_exact()
            .then_some(1.0 + self.below as f64 + 0.5 * self.ties as f64)
    }
    /// Returns whether every candidate was resolved.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.unresolved == 0
    }

    /// Checks that the ranks are among the candidates.
    pub(crate) fn check(&self) -> Result<()> {
        ranged(
            "largest rank of a canary",
            "[1, number of candidates]",
            format_args!("{} of {}", self.rank_max(), self.candidates),
            self.rank_max() <= self.candidates,
        )
    }
}

/// What a search cost, beside what flat scoring of every candidate would cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Positions the model computed: context tokens and extended states.
    pub positions_scored: u64,
    /// Positions that scoring every candidate of every context would need, with each context
    /// computed only once: candidates × secret tokens + context tokens.
    pub positions_flat: u64,
    /// Wall-clock seconds of the search.
    pub seconds: f64,
}

/// The outcome of a search: one count per target, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// One count per target.
    pub counts: Vec<RankCount>,
    /// The cost of the search.
    pub work: Work,
}

/// Ranks every target among all candidates by pruned search, with the same result as
/// [`flat_ranks`].
///
/// The search goes depth first over batches, most probable prefixes first. The engine therefore
/// holds at most about `batch × secret length` states at a time, whatever the number of candidates.
/// Contexts take turns, so that they share a budget fairly. Candidates that the budget leaves open
/// are counted in [`RankCount::unresolved`], never guessed.
///
/// `progress` is called after every batch and may stop the search.
///
/// ```
/// # use reticent_backends::{PrefixScorer, Result, Scorer, StateId, TokenScore};
/// # /// Gives token 7 nine tenths, and every other digit a ninetieth.
/// # struct LovesSeven;
/// # fn log_p(token: u32) -> f64 { if token == 7 { 0.9_f64.ln() } else { (0.1_f64 / 9.0).ln() } }
/// # impl Scorer for LovesSeven {
/// #     fn vocabulary_size(&self) -> usize { 10 }
/// #     fn score(&mut self, sequences: &[Vec<u32>]) -> Result<Vec<Vec<TokenScore>>> {
/// #         let score = |token: &u32| TokenScore {
/// #             log_probability: log_p(*token), mean: -0.5, variance: 1.4, top_token: 7,
/// #             top_log_probability: log_p(7),
/// #         };
/// #         Ok(sequences.iter().map(|s| s.iter().skip(1).map(score).collect()).collect())
/// #     }
/// # }
/// # impl PrefixScorer for LovesSeven {
/// #     fn start(&mut self, prefixes: &[Vec<u32>]) -> Result<Vec<StateId>> {
/// #         Ok(vec![StateId(0); prefixes.len()])
/// #     }
/// #     fn extend(&mut self, steps: &[(StateId, u32)]) -> Result<Vec<StateId>> {
/// #         Ok(vec![StateId(0); steps.len()])
/// #     }
/// #     fn next_log_probabilities(&mut self, states: &[StateId], wanted: &[u32]) -> Result<Vec<f64>> {
/// #         Ok(states.iter().flat_map(|_| wanted.iter().map(|t| log_p(*t))).collect())
/// #     }
/// #     fn release(&mut self, _: &[StateId]) {}
/// # }
/// use reticent_attacks::search::{CandidateTree, SearchOptions, Target, search_ranks};
/// use std::ops::ControlFlow;
/// let digit: Vec<Vec<u32>> = (0..10).map(|token| vec![token]).collect();
/// let tree = CandidateTree::new(&vec![digit; 6])?;
/// let target = Target { context: vec![0], secret: vec![7, 7, 7, 4, 7, 7] };
/// let mut model = LovesSeven; // gives the digit 7 nine tenths
/// let found = search_ranks(&mut model, &tree, &[target], &SearchOptions::default(), &mut |_| {
///     ControlFlow::Continue(())
/// })?;
/// // One candidate is better, the 54 with a single other digit cost the same.
/// assert!((2..=55).contains(&found.counts[0].rank_max()));
/// assert!(found.work.positions_scored < 200 && found.work.positions_flat > 6_000_000);
/// # Ok::<(), reticent_attacks::Error>(())
/// ```
///
/// # Errors
/// Returns an error if there is no target, if a target is not a candidate, if a context is empty, if
/// an option is out of range, if the engine fails or returns NaN or a log-probability above 1e-4
/// (what is above 0 up to there is rounding, and counts as 0), or [`Error::Interrupted`] if
/// `progress` stops the search.
pub fn search_ranks<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    tree: &CandidateTree,
    targets: &[Target],
    options: &SearchOptions,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Ranking> {
    Ok(search(scorer, tree, targets, options, None, progress)?.0)
}

/// Ranks every target as `search_ranks` does, and also returns what the model believes of each
/// canary, for an audit by e-values. The beliefs come from the probabilities that the search
/// evaluates anyway, without further scoring.
///
/// # Errors
/// As for [`search_ranks`]; also if the audit is for another number of candidates, or for more than
/// four beliefs.
pub fn search_beliefs<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    tree: &CandidateTree,
    targets: &[Target],
    options: &SearchOptions,
    audit: &EValueAudit,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(Ranking, Vec<CanaryGuesses>)> {
    let tracker = BeliefTracker::new(audit, tree.candidates(), options.tie_tolerance)?;
    search(scorer, tree, targets, options, Some(&tracker), progress)
}

fn search<S: PrefixScorer + ?Sized>(
    scorer: &mut S,
    tree: &CandidateTree,
    targets: &[Target],
    options: &SearchOptions,
    tracker: Option<&BeliefTracker>,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(Ranking, Vec<CanaryGuesses>)> {
    options.check()?;
    check_targets(tree, targets)?;
    let begun = Instant::now();
    let mut meter = Meter::new(scorer);
    let found = Frontier::new(&mut meter, tree, targets, options, tracker)
        .and_then(|frontier| frontier.run(&mut meter, progress));
    // The engine gets all its states back, also after an error.
    meter.release_all();
    let (counts, guesses) = found?;
    let ranking = Ranking {
        counts,
        work: Work {
            positions_scored: meter.positions(),
            positions_flat: flat_positions(tree, targets),
            seconds: begun.elapsed().as_secs_f64(),
        },
    };
    Ok((ranking, guesses))
}

pub(crate) fn check_tie_tolerance(nats: f64) -> Result<()> {
    let inside = nats >= 0.0 && nats.is_finite();
    ranged("tie tolerance", "[0, inf) nats", nats, inside)
}

pub(crate) fn check_targets(tree: &CandidateTree, targets: &[Target]) -> Result<()> {
    given(!targets.is_empty(), "no canary was given")?;
    for (index, target) in targets.iter().enumerate() {
        ranged(
            "context length",
            "[1, inf) tokens",
            target.context.len(),
            !target.context.is_empty(),
        )?;
        if !tree.contains(&target.secret) {
            return Err(Error::NotACandidate {
                index,
                candidates: tree.candidates(),
            });
        }
    }
    Ok(())
}

/// Groups targets by context, in order of first appearance.
pub(crate) fn by_context(targets: &[Target]) -> Vec<(&[TokenId], Vec<usize>)> {
    let mut groups: Vec<(&[TokenId], Vec<usize>)> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for (index, target) in targets.iter().enumerate() {
        let slot = *seen.entry(&target.context).or_insert_with(|| {
            groups.push((&target.context, Vec::new()));
            groups.len() - 1
        });
        groups[slot].1.push(index);
    }
    groups
}

fn flat_positions(tree: &CandidateTree, targets: &[Target]) -> u64 {
    by_context(targets).iter().fold(0_u64, |sum, (context, _)| {
        sum.saturating_add(tree.tokens())
            .saturating_add(context.len() as u64)
    })
}

/// Returns a model's log-probability as a cost in nats, or an error if it is not a log-probability.
pub(crate) fn cost(log_probability: f64, token: TokenId) -> Result<f64> {
    // A log-softmax in f32 may round to slightly above zero; a cost below zero would break pruning.
    const ROUNDING: f64 = 1e-4;
    if log_probability <= ROUNDING {
        Ok((-log_probability).max(0.0))
    } else {
        Err(Error::BadScore {
            value: log_probability,
            token,
        })
    }
}

/// Returns a model's log-probabilities of all tokens, with a value that rounding lifts above 0 as 0.
///
/// # Errors
/// Returns an error if a value is not a log-probability, or if no token has a probability above 0.
pub(crate) fn distribution(row: &[f64]) -> Result<Vec<f64>> {
    let each = row.iter().zip(0..);
    let row = each
        .map(|(value, token)| Ok(-cost(*value, token)?))
        .collect::<Result<Vec<f64>>>()?;
    suited(
        "next token of the model",
        "one of at least one token with a probability above 0",
        format_args!("none of {}", row.len()),
        row.iter().any(|value| *value != f64::NEG_INFINITY),
    )?;
    Ok(row)
}
