//! The pruned search itself: the open prefixes, processed batch by batch, and the counts of all
//! other candidates.

use super::meter::Meter;
use super::tree::{CandidateTree, Edge};
use super::{Progress, RankCount, SearchOptions, Target, by_context, cost};
use crate::error::{Error, Result, going_on};
use crate::evalue::{BeliefTracker, CanaryGuesses, Gathered, LnBeliefs, MOST_BELIEFS};
use reticent_backends::{PrefixScorer, StateId};
use reticent_corpus::TokenId;
use std::ops::ControlFlow;

/// A prefix that may still have candidates that rank at or above a canary.
struct Open {
    node: u32,
    /// NLL of the prefix.
    nll: f64,
    /// The number of candidates strictly below it.
    leaves: u64,
    /// The state before its last token, and that token; `None` for the context itself.
    from: (StateId, Option<TokenId>),
    /// The number of secret tokens in it.
    depth: usize,
    /// The canaries whose secrets begin with it and are longer.
    owners: Vec<usize>,
    /// ln of the total belief in its candidates.
    beliefs: LnBeliefs,
}

/// All canaries of one context.
struct Group {
    members: Vec<usize>,
    /// Prefixes with an NLL above this can be pruned for every member.
    limit: f64,
    open: Vec<Open>,
    /// Candidates scored or ruled out.
    resolved: u64,
    /// What the search has observed of the beliefs.
    gathered: Option<Gathered>,
}

/// A canary's own score and the counts of candidates relative to it.
struct Tally {
    nll: f64,
    below: u64,
    ties: u64,
    tolerance: f64,
    /// ln of the beliefs in the secret.
    beliefs: LnBeliefs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Below,
    Tie,
    Above,
}

impl Tally {
    fn class(&self, nll: f64) -> Class {
        if nll < self.nll - self.tolerance {
            Class::Below
        } else if nll <= self.nll + self.tolerance {
            Class::Tie
        } else {
            Class::Above
        }
    }
    fn count(&mut self, nll: f64, candidates: u64) {
        match self.class(nll) {
            Class::Below => self.below += candidates,
            Class::Tie => self.ties += candidates,
            Class::Above => {}
        }
    }
    /// Removes the canary itself from the counts of candidates.
    fn forget_own(&mut self, nll: f64) {
        match self.class(nll) {
            Class::Below => self.below -= 1,
            Class::Tie => self.ties -= 1,
            Class::Above => {}
        }
    }
}

pub(crate) struct Frontier<'a> {
    tree: &'a CandidateTree,
    targets: &'a [Target],
    options: &'a SearchOptions,
    groups: Vec<Group>,
    tallies: Vec<Tally>,
    tracker: Option<&'a BeliefTracker>,
}

impl<'a> Frontier<'a> {
    /// Scores the canaries' own paths and opens one root per context.
    pub(crate) fn new<S: PrefixScorer + ?Sized>(
        meter: &mut Meter<'_, S>,
        tree: &'a CandidateTree,
        targets: &'a [Target],
        options: &'a SearchOptions,
        tracker: Option<&'a BeliefTracker>,
    ) -> Result<Self> {
        let mut groups = Vec::new();
        let mut roots = vec![None; targets.len()];
        for chunk in by_context(targets).chunks(options.batch) {
            let contexts: Vec<_> = chunk.iter().map(|(context, _)| context.to_vec()).collect();
            let states = meter.start(&contexts)?;
            for ((_, members), state) in chunk.iter().zip(states) {
                for &member in members {
                    roots[member] = Some(state);
                }
                groups.push(Group {
                    members: members.clone(),
                    limit: f64::NEG_INFINITY,
                    open: vec![Open {
                        node: CandidateTree::ROOT,
                        nll: 0.0,
                        leaves: tree.candidates(),
                        from: (state, None),
                        depth: 0,
                        owners: members.clone(),
                        beliefs: [0.0; MOST_BELIEFS],
                    }],
                    resolved: 0,
                    gathered: tracker.map(Gathered::new),
                });
            }
        }
        let roots: Vec<StateId> = roots.into_iter().flatten().collect();
        let mut tallies = Vec::with_capacity(targets.len());
        for (chunk, roots) in targets
            .chunks(options.batch)
            .zip(roots.chunks(options.batch))
        {
            for nll in own_costs(meter, chunk, roots)? {
                tallies.push(Tally {
                    nll,
                    below: 0,
                    ties: 0,
                    tolerance: options.tie_tolerance,
                    beliefs: [f64::NEG_INFINITY; MOST_BELIEFS],
                });
            }
        }
        for group in &mut groups {
            let members = group.members.iter();
            let highest = members
                .map(|&m| tallies[m].nll)
                .fold(f64::NEG_INFINITY, f64::max);
            group.limit = highest + options.tie_tolerance;
        }
        Ok(Self {
            tree,
            targets,
            options,
            groups,
            tallies,
            tracker,
        })
    }

    /// Searches until nothing is open or the budget is spent. Returns the ranks, and the guesses if
    /// beliefs are tracked.
    pub(crate) fn run<S: PrefixScorer + ?Sized>(
        mut self,
        meter: &mut Meter<'_, S>,
        progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<(Vec<RankCount>, Vec<CanaryGuesses>)> {
        loop {
            let left = self.options.budget.unwrap_or(u64::MAX);
            let left = left.saturating_sub(meter.positions());
            let batch = self.take(
                usize::try_from(left).map_or(self.options.batch, |n| n.min(self.options.batch)),
            );
            if batch.is_empty() {
                break;
            }
            self.expand(meter, batch)?;
            let report = self.progress(meter.positions(), meter.states());
            going_on(progress(&report))?;
        }
        let counts = self.close()?;
        Ok((counts, self.guesses()))
    }

    /// Returns the model's beliefs in each canary; empty if beliefs are not tracked.
    fn guesses(self) -> Vec<CanaryGuesses> {
        let Some(tracker) = self.tracker else {
            return Vec::new();
        };
        let mut guesses = vec![Vec::new(); self.targets.len()];
        for group in self.groups {
            let Some(mut gathered) = group.gathered else {
                continue;
            };
            for open in &group.open {
                gathered.hidden(tracker, open.leaves, &open.beliefs);
            }
            let beliefs = gathered.beliefs(tracker);
            for member in group.members {
                let own = &self.tallies[member].beliefs;
                guesses[member] = Gathered::guesses(tracker, &beliefs, own);
            }
        }
        guesses
    }

    /// Takes up to `most` open prefixes. The contexts take turns, each giving its cheapest prefix
    /// first.
    fn take(&mut self, most: usize) -> Vec<(usize, Open)> {
        let mut batch = Vec::new();
        let mut found = true;
        while found {
            found = false;
            for (number, group) in self.groups.iter_mut().enumerate() {
                if batch.len() == most {
                    return batch;
                }
                if let Some(open) = group.open.pop() {
                    batch.push((number, open));
                    found = true;
                }
            }
        }
        batch
    }

    /// Scores the next token after every prefix of the batch.
    fn expand<S: PrefixScorer + ?Sized>(
        &mut self,
        meter: &mut Meter<'_, S>,
        batch: Vec<(usize, Open)>,
    ) -> Result<()> {
        let states = states_of(meter, &batch)?;
        let mut wanted: Vec<TokenId> = Vec::new();
        let mut nodes: Vec<u32> = batch.iter().map(|(_, open)| open.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            wanted.extend(self.tree.edges(node).iter().map(|edge| edge.token));
        }
        wanted.sort_unstable();
        wanted.dedup();
        let rows = meter.rows(&states, &wanted)?;
        let mut costs = Vec::new();
        let mut fresh: Vec<Vec<Open>> = self.groups.iter().map(|_| Vec::new()).collect();
        for (row, ((number, open), &state)) in batch.into_iter().zip(&states).enumerate() {
            let row = &rows[row * wanted.len()..][..wanted.len()];
            let before = fresh[number].len();
            let edges = self.tree.edges(open.node);
            costs.clear();
            for edge in edges {
                let column = wanted.partition_point(|&token| token < edge.token);
                costs.push(cost(row[column], edge.token)?);
            }
            let steps = self
                .tracker
                .map(|tracker| tracker.step(&open.beliefs, edges, &costs));
            for (at, (edge, step_cost)) in edges.iter().zip(&costs).enumerate() {
                let nll = open.nll + step_cost;
                let mut owners = self.owners_after(&open, edge.token);
                self.count_finished(number, open.depth + 1, edge, nll, &owners);
                let child = self.stays_open(number, edge, nll);
                let beliefs = steps.as_ref().map_or(open.beliefs, |steps| {
                    self.believe(
                        number,
                        open.depth + 1,
                        edge,
                        &steps[at],
                        (owners.as_slice(), child),
                    )
                });
                if let Some(child) = child {
                    owners.retain(|&o| self.targets[o].secret.len() > open.depth + 1);
                    fresh[number].push(Open {
                        node: child,
                        nll,
                        leaves: edge.below,
                        from: (state, Some(edge.token)),
                        depth: open.depth + 1,
                        owners,
                        beliefs,
                    });
                }
            }
            meter.hold(state, (fresh[number].len() - before) as u32);
        }
        meter.let_go(&states);
        for (group, mut fresh) in self.groups.iter_mut().zip(fresh) {
            fresh.sort_by(|a, b| b.nll.total_cmp(&a.nll));
            group.open.append(&mut fresh);
        }
        Ok(())
    }

    fn owners_after(&self, open: &Open, token: TokenId) -> Vec<usize> {
        let owners = open.owners.iter().copied();
        owners
            .filter(|&o| self.targets[o].secret.get(open.depth) == Some(&token))
            .collect()
    }

    /// Counts all candidates of this edge that need no further scoring.
    fn count_finished(
        &mut self,
        number: usize,
        depth: usize,
        edge: &Edge,
        nll: f64,
        owners: &[usize],
    ) {
        let group = &mut self.groups[number];
        // All continuations of a token that the model rules out are ruled out as well.
        let ruled_out = nll.is_infinite();
        let scored = edge.ends + if ruled_out { edge.below } else { 0 };
        if scored > 0 {
            for &member in &group.members {
                self.tallies[member].count(nll, scored);
            }
            for &owner in owners {
                if ruled_out || self.targets[owner].secret.len() == depth {
                    self.tallies[owner].forget_own(nll);
                }
            }
        }
        group.resolved += edge.ends;
        if ruled_out || nll > group.limit {
            group.resolved += edge.below;
        }
    }

    /// Records the beliefs in the candidates of an edge, and returns the belief in those that are
    /// longer.
    fn believe(
        &mut self,
        number: usize,
        depth: usize,
        edge: &Edge,
        at: &LnBeliefs,
        (owners, child): (&[usize], Option<u32>),
    ) -> LnBeliefs {
        let further = Gathered::going_on(edge, at);
        let group = &mut self.groups[number];
        if let (Some(tracker), Some(gathered)) = (self.tracker, &mut group.gathered) {
            if edge.ends > 0 {
                let each = gathered.ended(tracker, edge, at);
                for &owner in owners {
                    if self.targets[owner].secret.len() == depth {
                        self.tallies[owner].beliefs = each;
                    }
                }
            }
            if edge.below > 0 && child.is_none() {
                gathered.hidden(tracker, edge.below, &further);
            }
        }
        further
    }

    fn stays_open(&self, number: usize, edge: &Edge, nll: f64) -> Option<u32> {
        edge.child
            .filter(|_| nll <= self.groups[number].limit && nll.is_finite())
    }

    fn progress(&self, positions: u64, states: usize) -> Progress {
        let resolved: f64 = self.groups.iter().map(|g| g.resolved as f64).sum();
        Progress {
            positions,
            resolved: resolved / (self.tree.candidates() as f64 * self.groups.len() as f64),
            states,
        }
    }

    /// Checks that the counts add up: scored + ruled out + open = all.
    fn close(&self) -> Result<Vec<RankCount>> {
        let candidates = self.tree.candidates();
        let mut unresolved = vec![0_u64; self.targets.len()];
        for group in &self.groups {
            let open: u64 = group.open.iter().map(|open| open.leaves).sum();
            if group.resolved + open != candidates {
                return Err(Error::LostCandidates {
                    counted: group.resolved + open,
                    candidates,
                });
            }
            for open in &group.open {
                for &member in &group.members {
                    if self.tallies[member].class(open.nll) != Class::Above {
                        let own = u64::from(open.owners.contains(&member));
                        unresolved[member] += open.leaves - own;
                    }
                }
            }
        }
        let counts = self.tallies.iter().zip(unresolved);
        Ok(counts
            .map(|(tally, unresolved)| RankCount {
                candidates,
                nll: tally.nll,
                below: tally.below,
                ties: tally.ties,
                unresolved,
            })
            .collect())
    }
}

/// Returns the states of the prefixes themselves; each parent loses one user.
fn states_of<S: PrefixScorer + ?Sized>(
    meter: &mut Meter<'_, S>,
    batch: &[(usize, Open)],
) -> Result<Vec<StateId>> {
    let steps: Vec<(StateId, TokenId)> = batch
        .iter()
        .filter_map(|(_, open)| open.from.1.map(|token| (open.from.0, token)))
        .collect();
    let mut extended = meter.extend(&steps)?.into_iter();
    let parents: Vec<StateId> = steps.iter().map(|step| step.0).collect();
    meter.let_go(&parents);
    let states = batch.iter().map(|(_, open)| match open.from {
        (state, None) => Some(state),
        (_, Some(_)) => extended.next(),
    });
    Ok(states.flatten().collect())
}

/// Returns the NLL of each target's own secret, starting from the state of its context.
fn own_costs<S: PrefixScorer + ?Sized>(
    meter: &mut Meter<'_, S>,
    targets: &[Target],
    roots: &[StateId],
) -> Result<Vec<f64>> {
    let mut sums = vec![0.0_f64; targets.len()];
    let mut states = roots.to_vec();
    for &root in roots {
        meter.hold(root, 1);
    }
    let longest = targets.iter().map(|t| t.secret.len()).max().unwrap_or(0);
    for depth in 0..longest {
        let walking: Vec<usize> = (0..targets.len())
            .filter(|&i| targets[i].secret.len() > depth && sums[i].is_finite())
            .collect();
        if walking.is_empty() {
            break;
        }
        let here: Vec<StateId> = walking.iter().map(|&i| states[i]).collect();
        let mut wanted: Vec<TokenId> = walking.iter().map(|&i| targets[i].secret[depth]).collect();
        let tokens = wanted.clone();
        wanted.sort_unstable();
        wanted.dedup();
        let rows = meter.rows(&here, &wanted)?;
        let mut steps = Vec::new();
        let mut going = Vec::new();
        for (row, (&i, &token)) in walking.iter().zip(&tokens).enumerate() {
            let column = wanted.partition_point(|&t| t < token);
            sums[i] += cost(rows[row * wanted.len() + column], token)?;
            if targets[i].secret.len() > depth + 1 {
                steps.push((states[i], token));
                going.push(i);
            }
        }
        let next = meter.extend(&steps)?;
        for (&i, state) in going.iter().zip(next) {
            meter.let_go(&[states[i]]);
            states[i] = state;
        }
    }
    meter.let_go(&states);
    Ok(sums)
}
