//! Models whose code has a bug: the step that calls them is the product's own.

use crate::Bug;
use reticent_backends::engine::open;
use reticent_backends::model::{LstmConfig, Model};
use reticent_backends::privacy::Clip;
use reticent_backends::trainer::{
    Added, Parameter, PrivateBatch, Privatized, PublicBatch, Trainer, Update,
};
use reticent_backends::{Device, PrefixScorer, Scorer, StateId, TokenScore};
use reticent_corpus::TokenId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A model whose code has the bug: the step that calls it is the product's own.
pub(crate) struct Buggy {
    inner: Box<dyn Trainer>,
    bug: Bug,
    /// Sums as they were before the noise, for the bug that moves by those.
    bare: Option<Vec<Vec<f32>>>,
    expected_batch: f64,
    /// Examples added to private batches.
    seen: Arc<AtomicUsize>,
}

pub(crate) type BackendResult<T> = reticent_backends::Result<T>;

impl Scorer for Buggy {
    fn vocabulary_size(&self) -> usize {
        self.inner.vocabulary_size()
    }
    fn score(&mut self, sequences: &[Vec<TokenId>]) -> BackendResult<Vec<Vec<TokenScore>>> {
        self.inner.score(sequences)
    }
}

impl PrefixScorer for Buggy {
    fn start(&mut self, prefixes: &[Vec<TokenId>]) -> BackendResult<Vec<StateId>> {
        self.inner.start(prefixes)
    }
    fn extend(&mut self, steps: &[(StateId, TokenId)]) -> BackendResult<Vec<StateId>> {
        self.inner.extend(steps)
    }
    fn next_log_probabilities(
        &mut self,
        states: &[StateId],
        wanted: &[TokenId],
    ) -> BackendResult<Vec<f64>> {
        self.inner.next_log_probabilities(states, wanted)
    }
    fn release(&mut self, states: &[StateId]) {
        self.inner.release(states);
    }
}

impl Trainer for Buggy {
    fn model(&self) -> Model {
        self.inner.model()
    }
    fn parameters(&self) -> &[Parameter] {
        self.inner.parameters()
    }
    fn weights(&self) -> &[Vec<f32>] {
        self.inner.weights()
    }
    fn set_weights(&mut self, weights: Vec<Vec<f32>>) -> BackendResult<()> {
        self.inner.set_weights(weights)
    }
    fn groups(&self) -> &[usize] {
        self.inner.groups()
    }
    fn norm_margin(&self) -> f64 {
        self.inner.norm_margin()
    }
    fn device_kind(&self) -> &'static str {
        self.inner.device_kind()
    }
    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> BackendResult<(Vec<Vec<f32>>, f64)> {
        self.inner.public_gradient(batch)
    }
    fn begin(&mut self) {
        self.inner.begin();
    }
    fn add(&mut self, batch: &PrivateBatch<'_>, clip: &Clip) -> BackendResult<Added> {
        let added = match self.bug {
            Bug::NoClipping => self.inner.add(batch, &Clip::new(1e9, 0.0)?)?,
            _ => self.inner.add(batch, clip)?,
        };
        self.seen.fetch_add(added.examples, Ordering::Relaxed);
        Ok(added)
    }
    fn accumulator(&mut self) -> &mut [Vec<f32>] {
        if self.bug == Bug::NoNoise {
            self.bare = Some(self.inner.accumulator().to_vec());
        }
        self.inner.accumulator()
    }
    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> BackendResult<()> {
        match self.bare.take() {
            Some(mut bare) => {
                let batch = self.expected_batch as f32;
                bare.iter_mut().flatten().for_each(|g| *g /= batch);
                self.inner.apply_public(bare, update)
            }
            None => self.inner.apply(gradient, update),
        }
    }
    fn apply_public(
        &mut self,
        gradient: Vec<Vec<f32>>,
        update: &mut dyn Update,
    ) -> BackendResult<()> {
        self.inner.apply_public(gradient, update)
    }
}

/// A fresh model with a bug, and the count of the examples it saw.
pub(crate) fn model(
    vocabulary: usize,
    bug: Bug,
    seed: u64,
    batch: f64,
) -> BackendResult<(Buggy, Arc<AtomicUsize>)> {
    let model: Model = LstmConfig {
        vocabulary,
        embedding: 32,
        hidden: 48,
    }
    .into();
    let weights = model.starting_weights(seed);
    let seen = Arc::new(AtomicUsize::new(0));
    let buggy = Buggy {
        inner: open(&model, weights, Device::Cpu)?,
        bug,
        bare: None,
        expected_batch: batch,
        seen: seen.clone(),
    };
    Ok((buggy, seen))
}
