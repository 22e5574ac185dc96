//! A Python callable as a scorer, whose answers are not trusted.

use pyo3::prelude::*;
use reticent_backends::{AGREEMENT, Error, PrefixScorer, Result, Scorer, StateId, TokenScore};
use reticent_corpus::TokenId;
use reticent_reports::audit::answers::{NextSample, Prefixes, next_log_probabilities};

/// A scorer `callable(prefixes, wanted)`: for each prefix (a list of token ids) it returns the
/// natural log-probabilities of each wanted token to come next.
pub(super) struct CallableScorer {
    callable: Py<PyAny>,
    batch: usize,
    states: Prefixes,
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
            batch,
            states: Prefixes::new(vocabulary, None),
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
            states,
            sample,
            raised,
            ..
        } = self;
        sample.check(
            "scorer: answers the same question in two ways:",
            |prefixes, wanted| ask((callable, states.vocabulary()), prefixes, wanted, raised),
        )
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
        self.states.vocabulary()
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
        self.states.start(prefixes.to_vec())
    }

    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> Result<Vec<StateId>> {
        self.states.extend(steps)
    }

    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> Result<Vec<f64>> {
        let prefixes = self.states.prefixes(states, wanted)?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::with_capacity(states.len() * wanted.len());
        for some in prefixes.chunks(self.batch) {
            let rows = ask(
                (&self.callable, self.states.vocabulary()),
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
        self.states.release(states);
    }
}
