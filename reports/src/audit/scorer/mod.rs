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

use crate::audit::answers::Prefixes;
use crate::contract::Interrupt;
use again::AnswerSample;
use anyhow::Result;
use pool::Pool;
use protocol::Hello;
use reticent_backends::{AGREEMENT, Error, PrefixScorer, Scorer, StateId, TokenScore};
use reticent_corpus::TokenId;
use std::time::Duration;

/// The most tokens that are tried one by one if `next` is not supported.
const TRIED: usize = 4096;

type BackendResult<T> = reticent_backends::Result<T>;

/// Tokens on which a result rests, and what was measured of them.
pub(crate) struct Known {
    pub(crate) text: Vec<TokenId>,
    /// The number of tokens before them; at least one.
    pub(crate) before: usize,
    /// The mean of their ln p.
    pub(crate) mean: f64,
}

/// A model behind one or more processes.
pub(crate) struct CommandScorer {
    pool: Pool,
    interrupt: Interrupt,
    sample: AnswerSample,
    states: Prefixes,
}

impl CommandScorer {
    /// Starts the commands and reads their first lines.
    ///
    /// # Errors
    /// Returns an error if a command can't be started, ends, doesn't answer in time, or speaks another protocol, or if
    /// several commands are not the same model.
    pub(crate) fn start(lines: &[String], limit: Duration, interrupt: &Interrupt) -> Result<Self> {
        let pool = Pool::start(lines, limit, interrupt)?;
        let states = Prefixes::new(pool.hello().vocabulary, pool.hello().context);
        Ok(Self {
            pool,
            interrupt: interrupt.clone(),
            sample: AnswerSample::new()?,
            states,
        })
    }

    /// Has these tokens scored again by [`Self::check_steady`].
    pub(crate) fn repeat(&mut self, known: Vec<Known>) {
        self.sample.known = known;
    }

    /// Asks every process some questions again, drawn at random, as they were and in other forms.
    ///
    /// # Errors
    /// Returns an error if an answer differs from the first: the measurement is then not of one model that predicts the
    /// next token. Also on an interruption.
    pub(crate) fn check_steady(&mut self) -> Result<()> {
        let sample = &self.sample;
        let checked = self.pool.each(&|pool| sample.check(pool));
        self.interrupt.unless_raised(checked)
    }

    /// Returns what the scorer supports.
    pub(crate) const fn hello(&self) -> &Hello {
        self.pool.hello()
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
}

impl Scorer for CommandScorer {
    fn vocabulary_size(&self) -> usize {
        self.hello().vocabulary
    }

    fn score(&mut self, sequences: &[Vec<TokenId>]) -> BackendResult<Vec<Vec<TokenScore>>> {
        self.states.fit(sequences)?;
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
        self.states.start(prefixes.to_vec())
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> BackendResult<Vec<StateId>> {
        self.states.extend(steps)
    }

    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> BackendResult<Vec<f64>> {
        let prefixes = self.states.prefixes(states, wanted)?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.next(&prefixes, wanted)
    }

    fn release(&mut self, states: &[StateId]) {
        self.states.release(states);
    }
}
