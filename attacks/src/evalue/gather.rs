//! Beliefs from an exact search: those it observed on the way, and bounds on the rest.
//!
//! At every node of the candidate tree the model's probabilities of the next tokens are tempered
//! and normalized over the tokens with which candidates continue, each weighted by the number of
//! candidates behind it. A candidate's belief is therefore a product along its own path, and a
//! prefix that was never expanded has a known sum, whatever is below it. This needs no second pass
//! and no guess about the rest. Which prefixes were expanded depends on the secrets. The beliefs do
//! not, and their unknown parts are bounded on the safe side.

use super::belief::{Beliefs, Block, Place, Pool, Temper};
use super::{CanaryGuesses, EValueAudit};
use crate::error::{Result, ranged, suited};
use crate::search::Edge;
use std::collections::HashMap;
use std::sync::Arc;

/// The largest number of beliefs that are averaged over.
pub(crate) const MOST: usize = 4;

/// ln of a prefix's beliefs.
pub(crate) type LnBeliefs = [f64; MOST];

/// The number of bins of ln b per nat. Counts and sums within a bin are exact, so binning costs
/// next to nothing.
const BINS: f64 = 1024.0;

/// Derives beliefs from the model's probabilities.
#[derive(Debug, Clone)]
pub(crate) struct BeliefTracker {
    tempers: Vec<Temper>,
    pool: Pool,
    candidates: f64,
    /// ln of the tempered belief, before the uniform share is mixed in, from which on a candidate keeps
    /// its own belief; a bin begins there.
    anchors: LnBeliefs,
    /// The possible error of an NLL, in nats.
    tolerance: f64,
}

impl BeliefTracker {
    /// # Errors
    /// Returns an error if the audit is for another number of candidates, or has no beliefs or more
    /// than [`MOST`].
    pub(crate) fn new(audit: &EValueAudit, candidates: u64, tolerance: f64) -> Result<Self> {
        suited(
            "number of candidates of the audit",
            "that of the search",
            format_args!("{} against {candidates}", audit.candidates),
            candidates == audit.candidates,
        )?;
        let beliefs = audit.tempers.len();
        let range = "[1, 4] for a search";
        ranged(
            "number of beliefs",
            range,
            beliefs,
            (1..=MOST).contains(&beliefs),
        )?;
        let n = candidates as f64;
        let mut anchors = [0.0; MOST];
        for (anchor, temper) in anchors.iter_mut().zip(&audit.tempers) {
            let raw = (audit.pool.threshold(n) - temper.uniform / n) / (1.0 - temper.uniform);
            *anchor = if raw > 0.0 {
                raw.ln()
            } else {
                f64::NEG_INFINITY
            };
        }
        Ok(Self {
            tempers: audit.tempers.clone(),
            pool: audit.pool,
            candidates: n,
            anchors,
            tolerance,
        })
    }

    /// Returns ln of the beliefs in each edge of a node, all candidates of the edge together;
    /// `costs` are −ln p of the edges' tokens.
    pub(crate) fn step(&self, before: &LnBeliefs, edges: &[Edge], costs: &[f64]) -> Vec<LnBeliefs> {
        let mut after = vec![*before; edges.len()];
        let mut weights = vec![0.0; edges.len()];
        for (k, temper) in self.tempers.iter().enumerate() {
            let sharpness = 1.0 / temper.temperature;
            for ((weight, edge), cost) in weights.iter_mut().zip(edges).zip(costs) {
                let number = ((edge.ends + edge.below) as f64).ln();
                *weight = number - (cost + number) * sharpness;
            }
            let top = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if !top.is_finite() {
                // The model rules all of them out, so it doesn't distinguish them.
                for (weight, edge) in weights.iter_mut().zip(edges) {
                    *weight = ((edge.ends + edge.below) as f64).ln();
                }
            }
            let top = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let all = top + weights.iter().map(|w| (w - top).exp()).sum::<f64>().ln();
            for (after, weight) in after.iter_mut().zip(&weights) {
                after[k] += (weight - all).min(0.0);
            }
        }
        after
    }

    /// Returns the bin of a belief; candidates in bins from 0 on keep their own belief.
    fn bin(&self, k: usize, ln: f64) -> i32 {
        let anchor = self.anchors[k];
        let anchor = if anchor.is_finite() { anchor } else { 0.0 };
        ((ln - anchor) * BINS).floor() as i32
    }

    fn place(&self, k: usize, bin: i32) -> Place {
        if bin >= 0 || !self.anchors[k].is_finite() {
            Place::Head
        } else {
            Place::Pooled
        }
    }

    /// Returns the lower and upper end of a bin, widened by rounding.
    fn ends(&self, k: usize, bin: i32) -> (f64, f64) {
        let anchor = self.anchors[k];
        let anchor = if anchor.is_finite() { anchor } else { 0.0 };
        let at = |bin: f64| (anchor + bin / BINS).exp();
        let bin = f64::from(bin);
        (at(bin) * (1.0 - 1e-12), at(bin + 1.0) * (1.0 + 1e-12))
    }
}

/// Candidates by bin: their number and the sum of their beliefs.
type Bins<K> = HashMap<K, (f64, f64)>;

/// What a search has learned about the candidates of one context.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    known: Vec<Bins<i32>>,
    /// Prefixes that were not expanded, by the number of candidates below and the bin of their sum.
    hidden: Vec<Bins<(u64, i32)>>,
}

impl Gathered {
    pub(crate) fn new(tracker: &BeliefTracker) -> Self {
        Self {
            known: vec![HashMap::new(); tracker.tempers.len()],
            hidden: vec![HashMap::new(); tracker.tempers.len()],
        }
    }

    /// Records the candidates that end with this edge, and returns the belief in each.
    pub(crate) fn ended(
        &mut self,
        tracker: &BeliefTracker,
        edge: &Edge,
        at: &LnBeliefs,
    ) -> LnBeliefs {
        let number = ((edge.ends + edge.below) as f64).ln();
        let each = at.map(|ln| ln - number);
        for (k, bins) in self.known.iter_mut().enumerate() {
            let entry = bins.entry(tracker.bin(k, each[k])).or_default();
            entry.0 += edge.ends as f64;
            entry.1 += edge.ends as f64 * each[k].exp();
        }
        each
    }

    /// Returns the total belief in the candidates that continue after this edge.
    pub(crate) fn going_on(edge: &Edge, at: &LnBeliefs) -> LnBeliefs {
        if edge.ends == 0 {
            return *at;
        }
        let share = (edge.below as f64 / (edge.ends + edge.below) as f64).ln();
        at.map(|ln| ln + share)
    }

    /// Records candidates that are not examined one by one.
    pub(crate) fn hidden(&mut self, tracker: &BeliefTracker, leaves: u64, at: &LnBeliefs) {
        for (k, bins) in self.hidden.iter_mut().enumerate() {
            let entry = bins.entry((leaves, tracker.bin(k, at[k]))).or_default();
            entry.0 += 1.0;
            entry.1 += at[k].exp();
        }
    }

    /// Returns the beliefs, one per temper.
    pub(crate) fn beliefs(self, tracker: &BeliefTracker) -> Vec<Arc<Beliefs>> {
        let n = tracker.candidates;
        let both = self.known.into_iter().zip(self.hidden).enumerate();
        both.map(|(k, (known, hidden))| {
            let uniform = tracker.tempers[k].uniform;
            let mix = |belief: f64, count: f64| (1.0 - uniform) * belief + uniform * count / n;
            let known = known.into_iter().map(|(bin, (count, total))| {
                let (low, high) = tracker.ends(k, bin);
                Block {
                    count,
                    total: mix(total, count),
                    low: mix(low, 1.0),
                    high: mix(high, 1.0),
                    place: tracker.place(k, bin),
                }
            });
            let hidden = hidden
                .into_iter()
                .map(|((leaves, bin), (prefixes, total))| {
                    let (_, high) = tracker.ends(k, bin);
                    let count = prefixes * leaves as f64;
                    Block {
                        count,
                        total: mix(total, count),
                        low: mix(0.0, 1.0),
                        high: mix(high, 1.0),
                        place: match tracker.place(k, bin) {
                            Place::Head if tracker.anchors[k].is_finite() => Place::Open,
                            place => place,
                        },
                    }
                });
            let mut blocks: Vec<Block> = known.chain(hidden).collect();
            // Sort, so that sums round the same way whatever the order of the map.
            blocks.sort_by(|a, b| {
                (a.low, a.high, a.count)
                    .partial_cmp(&(b.low, b.high, b.count))
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
            Arc::new(Beliefs::of_blocks(blocks, n, tracker.pool))
        })
        .collect()
    }

    /// Returns the guesses of a canary whose own candidate has these beliefs.
    pub(crate) fn guesses(
        tracker: &BeliefTracker,
        beliefs: &[Arc<Beliefs>],
        own: &LnBeliefs,
    ) -> CanaryGuesses {
        let each = beliefs.iter().zip(&tracker.tempers).enumerate();
        each.map(|(k, (beliefs, temper))| {
            let head = tracker.place(k, tracker.bin(k, own[k])) == Place::Head;
            let raw = (own[k] - tracker.tolerance / temper.temperature).exp();
            let mixed = (1.0 - temper.uniform) * raw + temper.uniform / tracker.candidates;
            beliefs.guess_at(mixed * (1.0 - 1e-12), head)
        })
        .collect()
    }
}
