//! The engine with a meter on it: positions counted, states returned, answers checked.

use crate::error::{Error, Result};
use reticent_backends::{PrefixScorer, StateId};
use reticent_corpus::TokenId;
use std::collections::HashMap;

/// A [`PrefixScorer`] whose states are counted by their users and released with the last one.
pub(crate) struct Meter<'s, S: ?Sized> {
    scorer: &'s mut S,
    positions: u64,
    users: HashMap<StateId, u32>,
}

impl<'s, S: PrefixScorer + ?Sized> Meter<'s, S> {
    pub(crate) fn new(scorer: &'s mut S) -> Self {
        Self {
            scorer,
            positions: 0,
            users: HashMap::new(),
        }
    }

    pub(crate) const fn positions(&self) -> u64 {
        self.positions
    }

    pub(crate) fn states(&self) -> usize {
        self.users.len()
    }

    /// States after these prefixes, with one user each.
    pub(crate) fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        let states = self.scorer.start(prefixes)?;
        self.positions += prefixes.iter().map(|p| p.len() as u64).sum::<u64>();
        self.admit(states, prefixes.len())
    }

    /// States one token further, with one user each; the parents keep theirs.
    pub(crate) fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let states = self.scorer.extend(steps)?;
        self.positions += steps.len() as u64;
        self.admit(states, steps.len())
    }

    /// log p for every state × wanted token, row-major.
    pub(crate) fn rows(&mut self, states: &[StateId], wanted: &[TokenId]) -> Result<Vec<f64>> {
        let rows = self.scorer.next_log_probabilities(states, wanted)?;
        same_count("log-probabilities", rows.len(), states.len() * wanted.len())?;
        Ok(rows)
    }

    /// Adds users to a state.
    pub(crate) fn hold(&mut self, state: StateId, users: u32) {
        *self.users.entry(state).or_default() += users;
    }

    /// Takes one user from each state; those without any are released.
    pub(crate) fn let_go(&mut self, states: &[StateId]) {
        let mut unused = Vec::new();
        for state in states {
            if let Some(users) = self.users.get_mut(state) {
                *users -= 1;
                if *users == 0 {
                    self.users.remove(state);
                    unused.push(*state);
                }
            }
        }
        if !unused.is_empty() {
            self.scorer.release(&unused);
        }
    }

    /// Gives every state back.
    pub(crate) fn release_all(&mut self) {
        let states: Vec<StateId> = self.users.drain().map(|(state, _)| state).collect();
        if !states.is_empty() {
            self.scorer.release(&states);
        }
    }

    fn admit(&mut self, states: Vec<StateId>, wanted: usize) -> Result<Vec<StateId>> {
        for state in &states {
            self.hold(*state, 1);
        }
        same_count("states", states.len(), wanted)?;
        Ok(states)
    }
}

fn same_count(what: &'static str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted {
        Ok(())
    } else {
        Err(Error::WrongCount { what, got, wanted })
    }
}
