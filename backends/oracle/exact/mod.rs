//! The exact engine: f64 throughout, handwritten gradients, one example at a time.
//!
//! It is deliberately slow and simple. The fast engines are compared with it, and it shares no code with them beyond
//! the architectures of [`crate::model::Model`]. It uses no tensor library.

mod activation;
mod arithmetic;
mod attention;
mod head;
mod lstm;
mod norm;
mod scoring;
#[cfg(test)]
mod tests;
mod transformer;

use crate::error::{Error, Result};
use crate::model::{Head, Lora, Model, groups};
use crate::privacy::clip::{Clip, SquaredNorms};
use crate::scorer::{Logits, States, check_sequence};
use crate::trainer::dropout::{DropoutSite, Masks, RecordMasks};
use crate::trainer::masking::TokenMasks;
use crate::trainer::optimizer::Update;
use crate::trainer::{
    Added, Example, Parameter, PrivateBatch, Privatized, PublicBatch, Trainer, check_shapes,
};
use arithmetic::{dot, log_softmax};
use reticent_corpus::TokenId;

/// Relative error of a clipped gradient's norm: the gradient's values are rounded to f32.
const MARGIN: f64 = 1e-6;

/// One sequence: its tokens and, for encoders, their types (all 0 if empty).
struct Sequence<'a> {
    tokens: &'a [TokenId],
    token_types: &'a [u32],
    /// The dropout masks of a training pass.
    masks: Option<&'a RecordMasks>,
}

/// Multiplies values or gradients by the mask of a place; values that stay are divided by one minus the rate.
fn drop_out(masks: Option<&RecordMasks>, place: DropoutSite, x: &mut [f64]) {
    if let Some(kept) = masks.and_then(|m| m.kept(place, x.len())) {
        for (x, stays) in x.iter_mut().zip(kept.stays) {
            *x = if stays {
                *x / (1.0 - kept.rate)
            } else {
                *x * 0.0
            };
        }
    }
}

/// A model as a function of its weights.
trait Network: Send {
    /// Adds an adapter to the model; its matrices follow the model's own weights.
    fn adapt(&mut self, adapter: Lora) -> Result<()>;
    /// Returns logits, row-major: one row per token, or one row of classes.
    fn logits(&self, weights: &[Vec<f64>], sequence: &Sequence<'_>) -> Vec<f64>;
    /// Returns dL/d(weights), where `slope` gives dL/d(logits) at the logits.
    fn gradient(
        &self,
        weights: &[Vec<f64>],
        sequence: &Sequence<'_>,
        slope: &dyn Fn(&[f64]) -> Vec<f64>,
    ) -> Vec<Vec<f64>>;
}

/// A model with its weights.
struct Exact {
    model: Model,
    network: Box<dyn Network>,
    parameters: Vec<Parameter>,
    groups: Vec<usize>,
    values: Vec<Vec<f32>>,
    adapter: Option<Lora>,
    /// The number of weights that stay as they are.
    frozen: usize,
    weights: Vec<Vec<f64>>,
    accumulator: Vec<Vec<f32>>,
    left_out: Option<TokenId>,
    masks: Option<Masks>,
    masked: Option<TokenMasks>,
    states: States<Vec<TokenId>>,
}

/// Returns the exact engine for any model. A model that does not predict next tokens has no scores.
///
/// ```
/// use reticent_backends::oracle::exact;
/// use reticent_backends::model::{Family, Model, TransformerConfig};
/// let model = Model::from(TransformerConfig::new(Family::Llama, 50, 8, 1, 2, 16));
/// let mut engine = exact(&model, model.starting_weights(0))?;
/// let score = engine.score(&[vec![3, 7, 7]])?[0][1]; // of the last token, after the first two
/// assert!(score.log_probability <= score.top_log_probability && score.mean < 0.0);
/// # Ok::<(), reticent_backends::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::Shape`] if the weights do not fit.
pub fn exact(model: &Model, weights: Vec<Vec<f32>>) -> Result<Box<dyn Trainer>> {
    Ok(Box::new(Exact::new(model, weights)?))
}

/// Returns the exact engine's logits of any model.
///
/// # Errors
/// Returns [`Error::Shape`] if the weights do not fit.
pub fn exact_logits(model: &Model, weights: Vec<Vec<f32>>) -> Result<Box<dyn Logits>> {
    Ok(Box::new(Exact::new(model, weights)?))
}

impl Exact {
    fn new(model: &Model, values: Vec<Vec<f32>>) -> Result<Self> {
        let model = model.clone().validated()?;
        let (parameters, groups) = (model.parameters(), model.groups());
        check_shapes(&parameters, &values)?;
        let network: Box<dyn Network> = match &model {
            Model::Lstm(config) => Box::new(config.clone()),
            Model::Transformer(config) => {
                Box::new(transformer::Transformer::new((**config).clone()))
            }
        };
        Ok(Self {
            network,
            adapter: None,
            frozen: 0,
            weights: widened(&values),
            accumulator: Vec::new(),
            left_out: None,
            masks: None,
            masked: None,
            states: States::default(),
            model,
            parameters,
            groups,
            values,
        })
    }

    fn zeros(&self) -> Vec<Vec<f32>> {
        self.parameters.iter().map(|p| vec![0.0; p.len()]).collect()
    }

    /// Checks one sequence of a call.
    fn check(&self, index: usize, tokens: &[TokenId], least: usize) -> Result<()> {
        let most = self.model.context().unwrap_or(usize::MAX);
        check_sequence(tokens, index, (least, most), self.model.vocabulary())
    }

    /// Returns log-probabilities over the vocabulary after each token.
    fn log_probabilities(&self, tokens: &[TokenId]) -> Vec<Vec<f64>> {
        let sequence = Sequence {
            tokens,
            token_types: &[],
            masks: None,
        };
        let logits = self.network.logits(&self.weights, &sequence);
        let rows = logits.chunks_exact(self.model.vocabulary());
        rows.map(log_softmax).collect()
    }

    /// Returns the gradient of the summed negative log-likelihood of one example, and that sum (nats).
    fn example(&self, example: &Example<'_>) -> (Vec<Vec<f64>>, f64) {
        let masks = self
            .masks
            .as_ref()
            .map(|m| m.of(example.record, example.augmentation));
        let (inputs, targets) = self.read(example);
        let nll = std::cell::Cell::new(0.0);
        let slope = |logits: &[f64]| {
            let mut d = Vec::with_capacity(logits.len());
            let rows = logits.chunks_exact(logits.len() / targets.len());
            for (row, target) in rows.zip(&targets) {
                let Some(target) = target.filter(|t| self.has_loss(*t)) else {
                    d.resize(d.len() + row.len(), 0.0);
                    continue;
                };
                let log_p = log_softmax(row);
                nll.set(nll.get() - log_p[target as usize]);
                let start = d.len();
                d.extend(log_p.iter().map(|l| l.exp()));
                d[start + target as usize] -= 1.0;
            }
            d
        };
        let sequence = Sequence {
            tokens: &inputs,
            token_types: &[],
            masks: masks.as_ref(),
        };
        let mut gradient = self.network.gradient(&self.weights, &sequence, &slope);
        gradient.drain(..self.frozen);
        (gradient, nll.get())
    }

    /// Returns the input tokens of an example and the targets: one per token, or a single one for a class.
    fn read(&self, example: &Example<'_>) -> (Vec<TokenId>, Vec<Option<u32>>) {
        let tokens = example.tokens;
        match (self.model.head(), &self.masked) {
            (Head::NextToken, _) => {
                let mut targets: Vec<Option<u32>> = tokens[1..].iter().map(|t| Some(*t)).collect();
                for unlearned in example.unlearned().filter(|at| *at > 0) {
                    targets[unlearned - 1] = None;
                }
                (tokens[..tokens.len() - 1].to_vec(), targets)
            }
            (Head::MaskedToken, Some(masked)) => {
                let read = masked.of(example.record, example.augmentation, tokens);
                (read.inputs, read.targets)
            }
            (Head::MaskedToken, None) => (tokens.to_vec(), vec![None; tokens.len()]),
            (Head::Classes(_), _) => (tokens.to_vec(), vec![example.label]),
        }
    }

    /// Returns the number of predictions over which a gradient is averaged.
    fn predictions(&self, example: &Example<'_>) -> usize {
        let (_, targets) = self.read(example);
        targets
            .iter()
            .flatten()
            .filter(|t| self.has_loss(**t))
            .count()
    }

    /// Returns whether a target carries loss: a token may be left out, a class may not.
    fn has_loss(&self, target: u32) -> bool {
        matches!(self.model.head(), Head::Classes(_)) || self.left_out != Some(target)
    }

    /// Checks the examples of a call.
    fn check_all(&self, examples: &[Example<'_>]) -> Result<()> {
        for (index, example) in examples.iter().enumerate() {
            let least = if self.model.head() == Head::NextToken {
                2
            } else {
                1
            };
            self.check(index, example.tokens, least)?;
            match self.model.head() {
                Head::Classes(classes) if example.label.is_none_or(|l| l as usize >= classes) => {
                    return Err(Error::Unsuitable(format!(
                        "a classifier trains on records with a class in [0, {classes})"
                    )));
                }
                Head::MaskedToken if self.masked.is_none() => {
                    return Err(Error::Unsuitable(
                        "an encoder needs masked tokens to train on".into(),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn squared_norms(&self, gradient: &[Vec<f64>]) -> Result<SquaredNorms> {
        let groups = self.groups.last().map_or(0, |last| last + 1);
        let mut norms = vec![0.0; groups];
        for (g, group) in gradient.iter().zip(&self.groups) {
            norms[*group] += dot(g, g);
        }
        SquaredNorms::new(groups, norms)
    }

    fn step(&mut self, update: &mut dyn Update, gradient: &[Vec<f32>]) -> Result<()> {
        check_shapes(&self.parameters, gradient)?;
        update.update(&mut self.values, gradient);
        self.reload();
        Ok(())
    }

    fn reload(&mut self) {
        self.weights.truncate(self.frozen);
        self.weights.extend(widened(&self.values));
        self.states.clear();
    }
}

fn widened(values: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let widen = |v: &Vec<f32>| v.iter().map(|x| f64::from(*x)).collect();
    values.iter().map(widen).collect()
}

impl Trainer for Exact {
    fn model(&self) -> Model {
        self.model.clone()
    }
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    fn weights(&self) -> &[Vec<f32>] {
        &self.values
    }
    fn set_weights(&mut self, weights: Vec<Vec<f32>>) -> Result<()> {
        check_shapes(&self.parameters, &weights)?;
        self.values = weights;
        self.reload();
        Ok(())
    }
    fn groups(&self) -> &[usize] {
        &self.groups
    }
    fn norm_margin(&self) -> f64 {
        MARGIN
    }
    fn device_kind(&self) -> &'static str {
        "cpu, in f64"
    }
    fn context(&self) -> Option<usize> {
        self.model.context()
    }

    fn public_gradient(&mut self, batch: &PublicBatch<'_>) -> Result<(Vec<Vec<f32>>, f64)> {
        self.check_all(&batch.0)?;
        let trained = self.weights[self.frozen..].iter();
        let mut sum: Vec<Vec<f64>> = trained.map(|w| vec![0.0; w.len()]).collect();
        let (mut nll, mut predicted) = (0.0, 0usize);
        for example in &batch.0 {
            let (gradient, own) = self.example(example);
            for (sum, g) in sum.iter_mut().zip(&gradient) {
                arithmetic::add(g, sum);
            }
            nll += own;
            predicted += self.predictions(example);
        }
        let count = predicted.max(1) as f64;
        let mean = |g: &Vec<f64>| g.iter().map(|g| (g / count) as f32).collect();
        Ok((sum.iter().map(mean).collect(), nll / count))
    }

    fn begin(&mut self) {
        self.accumulator = self.zeros();
    }

    fn add(&mut self, batch: &PrivateBatch<'_>, clip: &Clip) -> Result<Added> {
        self.check_all(&batch.0)?;
        let mut added = Added::default();
        for example in &batch.0 {
            let (gradient, _) = self.example(example);
            let norms = self.squared_norms(&gradient)?;
            added.examples += 1;
            if !norms.finite(0) {
                added.rejected += 1;
                continue;
            }
            let factors = clip.factors(&norms);
            added.clipped += factors.clipped();
            for ((sum, g), group) in self.accumulator.iter_mut().zip(&gradient).zip(&self.groups) {
                let factor = f64::from(factors.of(0, *group));
                for (sum, g) in sum.iter_mut().zip(g) {
                    *sum += (factor * g) as f32;
                }
            }
        }
        Ok(added)
    }

    fn leave_out(&mut self, target: Option<TokenId>) -> Result<()> {
        self.left_out = target;
        Ok(())
    }

    fn drop_out(&mut self, masks: Option<Masks>) -> Result<()> {
        self.masks = masks;
        Ok(())
    }

    fn mask_tokens(&mut self, masked: Option<TokenMasks>) -> Result<()> {
        self.masked = masked;
        Ok(())
    }

    fn adapt(&mut self, adapter: Lora, weights: Vec<Vec<f32>>) -> Result<()> {
        let parameters = adapter.parameters();
        check_shapes(&parameters, &weights)?;
        self.network.adapt(adapter.clone())?;
        self.frozen = self.weights.len();
        self.groups = groups(&parameters);
        self.parameters = parameters;
        self.values = weights;
        self.adapter = Some(adapter);
        self.reload();
        Ok(())
    }
    fn adapter(&self) -> Option<&Lora> {
        self.adapter.as_ref()
    }

    fn accumulator(&mut self) -> &mut [Vec<f32>] {
        &mut self.accumulator
    }
    fn apply(&mut self, gradient: Privatized, update: &mut dyn Update) -> Result<()> {
        self.step(update, &gradient.into_host()?)
    }
    fn apply_public(&mut self, gradient: Vec<Vec<f32>>, update: &mut dyn Update) -> Result<()> {
        self.step(update, &gradient)
    }
}
