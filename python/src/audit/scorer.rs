//! A Python callable as a scorer, whose answers are not trusted.

use pyo3::prelude::*;
use reticent_backends::{AGREEMENT, Error, PrefixScorer, Result, Scorer, StateId, TokenScore};
use reticent_corpus::TokenId;
use reticent_reports::audit::answers::{NextSample, next_log_probabilities};
use std::collections::HashMap;

/// A scorer `callable(prefixes, wanted)`: for each prefix (a list of token ids) it returns the
/// natural log-probabilities of each wanted token to come next.
pub(super) struct CallableScorer {
    pub(super) callable: Py<PyAny>,
    pub(super) vocabulary: usize,
    pub(super) batch: usize,
    states: HashMap<u64, Vec<TokenId>>,
    next: u64,
    sample: NextSample,
    /// The exception that Python raised, which is raised again when the audit ends.
    pub(super) raised: Option<PyErr>,
}

impl CallableScorer {
    pub(super) fn new(
        callable: Py<PyAny>,
        vocabulary: usize,
        batch: usize,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            callable,
            vocabulary,
            batch,
            states: HashMap::new(),
            next: 0,
            sample: NextSample::new()?,
            raised: None,
        })
    }

    /// Asks some questions again, drawn at random.
    ///
    /// # Errors
    /// Returns an error if an answer differs from the first: the measurement is then not of one model.
    pub(super) fn check_steady(&mut self) -> anyhow::Result<()> {
        let Self {
            callable,
            vocabulary,
            sample,
            raised,
            ..
        } = self;
        sample.check(
            "scorer: answers the same question in two ways:",
            |prefixes, wanted| ask((callable, *vocabulary), prefixes, wanted, raised),
        )
    }

    fn known(&self, tokens: &[TokenId]) -> Result<()> {
        let size = self.vocabulary;
        match tokens.iter().find(|t| **t as usize >= size) {
            Some(&token) => Err(Error::UnknownToken { token, size }),
            None => Ok(()),
        }
    }

    fn keep(&mut self, prefix: Vec<TokenId>) -> StateId {
        self.next += 1;
        self.states.insert(self.next, prefix);
        StateId(self.next)
    }
}

/// Returns the checked answer of the callable with its vocabulary; an exception that it raised is put into `raised`.
fn ask(
    (callable, vocabulary): (&Py<PyAny>, usize),
    prefixes: &[Vec<TokenId>],
    wanted: &[TokenId],
    raised: &mut Option<PyErr>,
) -> Result<Vec<Vec<f64>>> {
    let answer = Python::attach(|py| -> PyResult<Vec<Vec<f64>>> {
        py.check_signals()?;
        let answer = callable
            .bind(py)
            .call1((prefixes.to_vec(), wanted.to_vec()))?;
        // Arrays and tensors can be converted to lists.
        match answer.getattr("tolist") {
            Ok(lists) => lists.call0()?.extract(),
            Err(_) => answer.extract(),
        }
    });
    match answer {
        Ok(rows) => next_log_probabilities(rows, prefixes.len(), wanted, vocabulary)
            .map_err(|why| Error::Outside(format!("scorer: {why}"))),
        Err(error) => {
            let words = format!("the scorer raised {error}");
            *raised = Some(error);
            Err(Error::Outside(words))
        }
    }
}

impl Scorer for CallableScorer {
    fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    fn score(&mut self, _sequences: &[Vec<TokenId>]) -> Result<Vec<Vec<TokenScore>>> {
        Err(Error::Outside(
            "a scorer from Python answers for next tokens only".to_owned(),
        ))
    }

    fn batch_rounding(&self) -> f64 {
        AGREEMENT
    }
}

impl PrefixScorer for CallableScorer {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> Result<Vec<StateId>> {
        for prefix in prefixes {
            self.known(prefix)?;
        }
        Ok(prefixes.iter().map(|p| self.keep(p.clone())).collect())
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        let mut grown = Vec::with_capacity(steps.len());
        for &(state, token) in steps {
            self.known(&[token])?;
            let prefix = self.states.get(&state.0);
            let prefix = prefix.ok_or(Error::UnknownState(state.0))?;
            grown.push([prefix.as_slice(), &[token]].concat());
        }
        Ok(grown.into_iter().map(|p| self.keep(p)).collect())
    }

    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        self.known(wanted)?;
        let prefixes = states
            .iter()
            .map(|state| {
                let prefix = self.states.get(&state.0);
                prefix.cloned().ok_or(Error::UnknownState(state.0))
            })
            .collect::<Result<Vec<_>>>()?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::with_capacity(states.len() * wanted.len());
        for some in prefixes.chunks(self.batch) {
            let rows = ask(
                (&self.callable, self.vocabulary),
                some,
                wanted,
                &mut self.raised,
            )?;
            self.sample.note(some, wanted, &rows);
            found.extend(rows.into_iter().flatten());
        }
        Ok(found)
    }

    fn release(&mut self, states: &[StateId]) {
        for state in states {
            self.states.remove(&state.0);
        }
    }
}
