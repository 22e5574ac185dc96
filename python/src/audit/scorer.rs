//! A Python callable as a scorer, whose answers are not trusted.

use pyo3::prelude::*;
use reticent_backends::{AGREEMENT, Error, PrefixScorer, Result, Scorer, StateId, TokenScore};
use reticent_corpus::TokenId;
use std::collections::HashMap;

/// Log-softmaxes in single precision may round to slightly above zero.
const ROUNDING: f64 = 1e-4;

/// A scorer `callable(prefixes, wanted)`: for each prefix (a list of token ids) it returns the
/// natural log-probabilities of each wanted token to come next.
pub(super) struct CallableScorer {
    pub(super) callable: Py<PyAny>,
    pub(super) vocabulary: usize,
    pub(super) batch: usize,
    states: HashMap<u64, Vec<TokenId>>,
    next: u64,
    /// The exception that Python raised, which is raised again when the audit ends.
    pub(super) raised: Option<PyErr>,
}

impl CallableScorer {
    pub(super) fn new(callable: Py<PyAny>, vocabulary: usize, batch: usize) -> Self {
        Self {
            callable,
            vocabulary,
            batch,
            states: HashMap::new(),
            next: 0,
            raised: None,
        }
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

    fn ask(&mut self, prefixes: &[Vec<TokenId>], wanted: &[TokenId]) -> Result<Vec<f64>> {
        let answer = Python::attach(|py| -> PyResult<Vec<Vec<f64>>> {
            py.check_signals()?;
            let answer = self
                .callable
                .bind(py)
                .call1((prefixes.to_vec(), wanted.to_vec()))?;
            // Arrays and tensors can be converted to lists.
            match answer.getattr("tolist") {
                Ok(lists) => lists.call0()?.extract(),
                Err(_) => answer.extract(),
            }
        });
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => {
                let words = format!("the scorer raised {error}");
                self.raised = Some(error);
                return Err(Error::Outside(words));
            }
        };
        check(&rows, prefixes.len(), wanted.len()).map_err(Error::Outside)?;
        Ok(rows.into_iter().flatten().map(|ln| ln.min(0.0)).collect())
    }
}

fn check(rows: &[Vec<f64>], prefixes: usize, wanted: usize) -> std::result::Result<(), String> {
    if rows.len() != prefixes {
        let got = rows.len();
        return Err(format!(
            "scorer: answered with {got} rows for {prefixes} prefixes"
        ));
    }
    for (row, values) in rows.iter().enumerate() {
        if values.len() != wanted {
            let got = values.len();
            return Err(format!(
                "scorer: answered with {got} numbers in row {row}, {wanted} tokens were wanted"
            ));
        }
        if let Some(wrong) = values.iter().find(|v| v.is_nan() || **v > ROUNDING) {
            return Err(format!(
                "scorer: answered {wrong} in row {row}; a log-probability must lie in [-inf, 0]"
            ));
        }
        let total: f64 = values.iter().map(|v| v.exp()).sum();
        if total > 1.0 + 1e-3 {
            return Err(format!(
                "scorer: the probabilities of row {row} sum to {total}; they must be normalised over the whole vocabulary"
            ));
        }
    }
    Ok(())
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
            found.extend(self.ask(some, wanted)?);
        }
        Ok(found)
    }

    fn release(&mut self, states: &[StateId]) {
        for state in states {
            self.states.remove(&state.0);
        }
    }
}
