//! A metered engine: counts positions, releases states and checks answers.

use super::distribution;
use crate::error::{Result, counted, ranged};
use reticent_backends::{PrefixScorer, StateId};
use reticent_corpus::TokenId;
use std::collections::HashMap;

/// A [`PrefixScorer`] that counts the users of each state and releases a state with its last user.
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

    /// Returns the states after these prefixes, with one user each.
    pub(crate) fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        let states = self.scorer.start(prefixes)?;
        self.positions += prefixes.iter().map(|p| p.len() as u64).sum::<u64>();
        self.admit(states, prefixes.len())
    }

    /// Returns states extended by one token, with one user each; the parents keep their users.
    pub(crate) fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let states = self.scorer.extend(steps)?;
        self.positions += steps.len() as u64;
        self.admit(states, steps.len())
    }

    /// Returns log p for every state × wanted token, row-major.
    pub(crate) fn rows(&mut self, states: &[StateId], wanted: &[TokenId]) -> Result<Vec<f64>> {
        let rows = self.scorer.next_log_probabilities(states, wanted)?;
        counted("log-probabilities", rows.len(), states.len() * wanted.len())?;
        Ok(rows)
    }

    /// Returns the distribution of the next token after each state, over the whole vocabulary.
    pub(crate) fn distributions(&mut self, states: &[StateId]) -> Result<Vec<Vec<f64>>> {
        let size = self.scorer.vocabulary_size();
        ranged(
            "vocabulary of the model",
            "[1, 2^32] tokens",
            size,
            size > 0,
        )?;
        let vocabulary: Vec<TokenId> = (0..size as TokenId).collect();
        let rows = self.rows(states, &vocabulary)?;
        rows.chunks(size).map(distribution).collect()
    }

    /// Adds users to a state.
    pub(crate) fn hold(&mut self, state: StateId, users: u32) {
        *self.users.entry(state).or_default() += users;
    }

    /// Removes one user from each state and releases the states that have none left.
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

    /// Releases every state.
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
        counted("states", states.len(), wanted)?;
        Ok(states)
    }
}
