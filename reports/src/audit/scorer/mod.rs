//! `--scorer command:…`: a model of any kind, in any language, behind processes that answer questions about
//! log-probabilities.
//!
//! The answers are not trusted: the number, counts and ranges of every answer are checked, and the first wrong answer
//! ends the command. Some questions, drawn at random, are asked again at the end of an audit, as they were and in other
//! forms, and must have the same answers. Several processes share the questions; if one ends, the others take over its questions.

mod again;
mod pool;
mod process;
mod protocol;
mod serve;
mod worker;

pub(crate) use serve::serve;

use crate::contract::Interrupt;
use again::AnswerSample;
use anyhow::Result;
use pool::Pool;
use protocol::Hello;
use reticent_backends::{AGREEMENT, Error, PrefixScorer, Scorer, StateId, TokenScore};
use reticent_corpus::TokenId;
use std::collections::HashMap;
use std::time::Duration;

/// The most tokens that are tried one by one if `next` is not supported.
const TRIED: usize = 4096;

type BackendResult<T> = reticent_backends::Result<T>;

/// A model behind one or more processes.
pub(crate) struct CommandScorer {
    pool: Pool,
    sample: AnswerSample,
    states: HashMap<u64, Vec<TokenId>>,
    next_state: u64,
}

impl CommandScorer {
    /// Starts the commands and reads their first lines.
    ///
    /// # Errors
    /// Returns an error if a command can't be started, ends, doesn't answer in time, or speaks another protocol, or if
    /// several commands are not the same model.
    pub(crate) fn start(lines: &[String], limit: Duration, interrupt: &Interrupt) -> Result<Self> {
        Ok(Self {
            pool: Pool::start(lines, limit, interrupt)?,
            sample: AnswerSample::new()?,
            states: HashMap::new(),
            next_state: 0,
        })
    }

    /// Asks some questions again, drawn at random, as they were and in other forms.
    ///
    /// # Errors
    /// Returns an error if an answer differs from the first: the measurement is then not of one model that predicts the
    /// next token.
    pub(crate) fn check_steady(&mut self) -> Result<()> {
        self.sample.check(&mut self.pool)
    }

    /// Returns what the scorer supports.
    pub(crate) const fn hello(&self) -> &Hello {
        self.pool.hello()
    }

    fn known(&self, tokens: &[TokenId]) -> BackendResult<()> {
        let size = self.hello().vocabulary;
        match tokens.iter().find(|t| **t as usize >= size) {
            Some(&token) => Err(Error::UnknownToken { token, size }),
            None => Ok(()),
        }
    }

    /// Checks that the model can score these sequences.
    fn fit(&self, sequences: &[Vec<TokenId>]) -> BackendResult<()> {
        for (index, sequence) in sequences.iter().enumerate() {
            if sequence.is_empty() {
                return Err(Error::TooShort {
                    index,
                    length: 0,
                    least: 1,
                });
            }
            self.known(sequence)?;
            self.short_enough(index, sequence.len())?;
        }
        Ok(())
    }

    fn short_enough(&self, index: usize, length: usize) -> BackendResult<()> {
        match self.hello().context {
            Some(most) if length > most => Err(Error::TooLong {
                index,
                length,
                most,
            }),
            _ => Ok(()),
        }
    }

    /// Returns ln p of the wanted tokens after each prefix, row by row.
    fn next(&mut self, prefixes: &[Vec<TokenId>], wanted: &[TokenId]) -> BackendResult<Vec<f64>> {
        if self.hello().next {
            let rows = self.pool.next(prefixes, wanted)?;
            self.sample.next(prefixes, wanted, &rows);
            return Ok(rows.into_iter().flatten().collect());
        }
        if wanted.len() > TRIED {
            return Err(Error::Outside(format!(
                "the scorer `{}` does not answer `next`, and trying {} tokens one by one behind every prefix takes too long",
                self.pool.first_line(),
                wanted.len()
            )));
        }
        let tried: Vec<Vec<TokenId>> = prefixes
            .iter()
            .flat_map(|p| wanted.iter().map(move |t| [p.as_slice(), &[*t]].concat()))
            .collect();
        let rows = self.score(&tried)?;
        let last = rows.iter().filter_map(|row| row.last());
        Ok(last.map(|s| s.log_probability).collect())
    }

    fn prefix(&self, state: StateId) -> BackendResult<&Vec<TokenId>> {
        self.states
            .get(&state.0)
            .ok_or(Error::UnknownState(state.0))
    }

    fn keep(&mut self, prefix: Vec<TokenId>) -> StateId {
        self.next_state += 1;
        self.states.insert(self.next_state, prefix);
        StateId(self.next_state)
    }
}

impl Scorer for CommandScorer {
    fn vocabulary_size(&self) -> usize {
        self.hello().vocabulary
    }

    fn score(&mut self, sequences: &[Vec<TokenId>]) -> BackendResult<Vec<Vec<TokenScore>>> {
        self.fit(sequences)?;
        let rows = self.pool.score(sequences)?;
        self.sample.scored(sequences, &rows);
        Ok(rows)
    }

    fn batch_rounding(&self) -> f64 {
        AGREEMENT
    }
}

impl PrefixScorer for CommandScorer {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> BackendResult<Vec<StateId>> {
        self.fit(prefixes)?;
        Ok(prefixes.iter().map(|p| self.keep(p.clone())).collect())
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> BackendResult<Vec<StateId>> {
        let mut grown = Vec::with_capacity(steps.len());
        for (index, &(state, token)) in steps.iter().enumerate() {
            self.known(&[token])?;
            let prefix = [self.prefix(state)?.as_slice(), &[token]].concat();
            self.short_enough(index, prefix.len())?;
            grown.push(prefix);
        }
        Ok(grown.into_iter().map(|p| self.keep(p)).collect())
    }

    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> BackendResult<Vec<f64>> {
        self.known(wanted)?;
        let prefixes = states
            .iter()
            .map(|&state| self.prefix(state).cloned())
            .collect::<BackendResult<Vec<_>>>()?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.next(&prefixes, wanted)
    }

    fn release(&mut self, states: &[StateId]) {
        for state in states {
            self.states.remove(&state.0);
        }
    }
}
